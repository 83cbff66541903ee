#!/bin/sh
# Copies a folder into a dated archive, and keeps the last seven.
set -eu
folder="$1"
target="$2"
mkdir -p "$target"
tar -czf "$target/$(date +%Y-%m-%d).tar.gz" -C "$folder" .
ls -1 "$target"/*.tar.gz | sort | head -n -7 | while read -r old; do
    rm -- "$old"
done
