#!/usr/bin/env python3
"""Writes the golden values of the f64 tests: tests/golden/NAME.bin, computed by mpmath.

    pip install mpmath
    python3 golden.py [NAME...]

A file is a list of segments, little endian:

    count: u32, seed: u32, and per operand lo: f64, hi: f64
    count times: the result rounded to f64, and what rounding dropped, in 1/200 ULP, as i8

The arguments are not stored: argument k of a segment is the float whose bits are
lo_bits + splitmix64(seed, k) % (hi_bits - lo_bits + 1), which spreads them evenly over the exponents between
two numbers of the same sign. tests/accuracy_f64.rs computes the same.
"""
import os
import struct
import sys
from mpmath import mp, mpf

mp.prec = 400
MASK = (1 << 64) - 1


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(b):
    return struct.unpack("<d", struct.pack("<Q", b))[0]


def splitmix64(seed, k):
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def argument(lo, hi, seed, k):
    lo, hi = bits(lo), bits(hi)
    assert lo <= hi, "a segment goes away from zero"
    return from_bits(lo + splitmix64(seed, k) % (hi - lo + 1))


def round_f64(v):
    """`v` as (f64, rest in ULP), rounding to nearest even, subnormals included."""
    if v == 0:
        return 0.0, mpf(0)
    a = abs(v)
    e = int(mp.floor(mp.log(a, 2)))
    if a < mpf(2) ** e:
        e -= 1
    if a >= mpf(2) ** (e + 1):
        e += 1
    ulp = mpf(2) ** (max(e, -1022) - 52)
    n = int(mp.nint(a / ulp))
    rest = a / ulp - n
    if n * ulp >= mpf(2) ** 1024:
        return float("inf") if v > 0 else float("-inf"), mpf(0)
    r = float(mpf(n) * ulp)  # exact
    return (r, rest) if v > 0 else (-r, -rest)


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return mp.log1p(mp.exp(x))


def gelu_tanh(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3))


def big(f, prec):
    """`f` with more bits, for functions that cancel."""

    def g(*x):
        with mp.workprec(prec):
            return f(*x)

    return g


MIN, MAX, TINY = 2.2250738585072014e-308, 1.7976931348623157e308, 5e-324


def both(lo, hi):
    return [(lo, hi), (-lo, -hi)]


# The exponents where the function does something, twice as dense; then the rest of the range.
FUNCTIONS = {
    "sqrt": (mp.sqrt, [(1e-3, 1e3), (TINY, MAX)]),
    "recip": (lambda x: 1 / x, both(1e-3, 1e3) + both(1e-308, 1e308)),
    "exp": (mp.exp, both(1e-2, 4.0) + both(1e-10, 745.5)),
    "exp2": (lambda x: mpf(2) ** x, both(1e-2, 4.0) + both(1e-10, 1075.5)),
    "expm1": (big(mp.expm1, 1600), both(1e-2, 4.0) + both(MIN, 709.7)),
    "ln": (mp.log, [(0.5, 2.0), (1e-3, 1e3), (TINY, MAX)]),
    "log1p": (big(mp.log1p, 1600), [(-1e-3, -0.7), (1e-3, 4.0), (MIN, MAX), (-MIN, -0.9999999)]),
    "log2": (lambda x: mp.log(x) / mp.log(2), [(0.5, 2.0), (1e-3, 1e3), (TINY, MAX)]),
    "log10": (lambda x: mp.log(x) / mp.log(10), [(0.5, 2.0), (1e-3, 1e3), (TINY, MAX)]),
    "sin": (big(mp.sin, 1600), both(0.1, 10.0) + both(10.0, 1e6) + [(MIN, MAX)]),
    "cos": (big(mp.cos, 1600), both(0.1, 10.0) + both(10.0, 1e6) + [(MIN, MAX)]),
    "tan": (big(mp.tan, 1600), both(0.1, 10.0) + both(10.0, 1e6) + [(MIN, MAX)]),
    "sinh": (big(mp.sinh, 1600), both(0.1, 4.0) + both(MIN, 710.4)),
    "cosh": (mp.cosh, both(0.1, 4.0) + both(1e-10, 710.4)),
    "tanh": (big(mp.tanh, 1600), both(0.1, 4.0) + both(MIN, 30.0)),
    "asin": (big(mp.asin, 1600), both(0.1, 1.0) + both(MIN, 1.0)),
    "acos": (mp.acos, both(0.1, 1.0) + both(1e-20, 1.0)),
    "atan": (big(mp.atan, 1600), both(0.1, 10.0) + both(MIN, MAX)),
    "asinh": (big(mp.asinh, 3000), both(0.1, 10.0) + both(MIN, MAX)),
    "acosh": (mp.acosh, [(1.0, 1.001), (1.0, 10.0), (1.0, MAX)]),
    "atanh": (big(mp.atanh, 1600), both(0.1, 1.0 - 2**-53) + both(MIN, 1.0 - 2**-53)),
    "erf": (mp.erf, both(0.1, 6.0) + both(MIN, 7.0)),
    "erfc": (big(mp.erfc, 3000), both(0.1, 6.0) + [(6.0, 27.3), (1e-20, 6.0)]),
    "sigmoid": (sigmoid, both(0.1, 20.0) + [(-1e-5, -745.5), (1e-5, 40.0)]),
    "softplus": (big(softplus, 1600), both(0.1, 20.0) + [(-1e-5, -745.5), (1e-5, 1e300)]),
    "logsigmoid": (big(lambda x: -softplus(-x), 1600), both(0.1, 20.0) + [(1e-5, 745.5), (-1e-5, -1e300)]),
    "silu": (big(lambda x: x * sigmoid(x), 1600), both(0.1, 20.0) + [(-1e-300, -752.0), (1e-300, 1e300)]),
    "gelu": (big(lambda x: x * phi(x), 3000), both(0.1, 6.0) + [(-6.0, -38.6), (1e-300, 1e300)]),
    "gelu_tanh": (big(gelu_tanh, 1600), both(0.1, 6.0) + [(-3.0, -21.6), (1e-300, 1e100)]),
    "pow": (
        lambda x, y: mp.exp(y * mp.log(x)),
        [((0.5, 2.0), (1.0, 1000.0)), ((0.5, 2.0), (-1.0, -1000.0)), ((1e-10, 1e10), (0.1, 30.0))]
        + [((1e-300, 1e300), (-1e-3, -1.03)), ((0.999, 1.001), (1e2, 7e5)), ((TINY, MAX), (1e-20, 1.0))],
    ),
    "atan2": (
        big(mp.atan2, 1600),
        [((0.1, 10.0), (0.1, 10.0)), ((-0.1, -10.0), (-0.1, -10.0)), ((1e-300, 1e300), (-1e-300, -1e300))]
        + [((1e-150, 1e150), (1e-150, 1e150)), ((-0.1, -1e5), (0.1, 1e5))],
    ),
}
PER_SEGMENT = 400


def main():
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")
    os.makedirs(out, exist_ok=True)
    for name in sys.argv[1:] or FUNCTIONS:
        f, segments = FUNCTIONS[name]
        data = b""
        for seed, segment in enumerate(segments):
            operands = segment if isinstance(segment[0], tuple) else (segment,)
            data += struct.pack("<II", PER_SEGMENT, 16 * seed)
            for lo, hi in operands:
                data += struct.pack("<dd", lo, hi)
            for k in range(PER_SEGMENT):
                x = [mpf(argument(lo, hi, 16 * seed + i, k)) for i, (lo, hi) in enumerate(operands)]
                r, rest = round_f64(f(*x))
                data += struct.pack("<db", r, int(mp.nint(rest * 200)))
        with open(os.path.join(out, name + ".bin"), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
