"""Counts the words of a text."""

import collections
import sys


def words(lines):
    for line in lines:
        yield from (word.strip(".,;:!?").lower() for word in line.split())


if __name__ == "__main__":
    for word, count in collections.Counter(words(sys.stdin)).most_common(10):
        print(f"{count:6} {word}")
