#!/usr/bin/env python3
"""Fits the polynomials of flex-math and prints them as Rust arrays.

    pip install mpmath
    python3 coefficients.py [NAME...]

Each entry of FITS names a smooth function g, an interval, a degree and a weight. The weight w turns the
error of the polynomial into the relative error of the final result, which is what the Remez exchange
below levels: it finds the polynomial p that minimises max |w(x) * (p(x) - g(x))|. The printed error is
that maximum in bits, before the coefficients are rounded to the element type.

LN_TABLE_F32 and LN_TABLE_F64 are the factors of the logarithm and minus their logarithms.

An entry of RATIOS names a function that is fitted as a quotient of two polynomials, its end, and the polynomials'
degrees. The denominator's first coefficient is 1. For f32 one or two coefficients at a time are then moved to neighbouring
numbers as long as that makes the largest error smaller, since rounding them to the nearest would more than double it.

An entry of PIECES names a function that is fitted in sixteen pieces: its end, how many of the four bits that choose the
piece of x come from the significand of 1 + scale x, the others being the lowest of the exponent, the degree, and a weight.
With four bits the pieces are equally long; with fewer, they get longer as x grows. The polynomial of a piece is one of the
distance from a point in its middle, chosen such that the function is nearly a number of the element type there (Gal's
accurate tables), since that value is the first coefficient and its rounding would add to the error. The first piece of a
function that vanishes at zero is around zero, and where the function is about the identity there, it tells the difference.
The printed table holds those points and then each coefficient of all pieces. What PIECES as a NAME prints, all of them,
is src/pieces/tables.rs.
"""
import sys
from mpmath import mp, mpf, matrix, lu_solve, chebyt

mp.dps = 60


def remez(g, lo, hi, degree, weight):
    """Minimax polynomial of `g` over [lo, hi], lowest power first, and its weighted error."""
    lo, hi = mpf(lo), mpf(hi)
    n = degree + 2
    mid, half = (lo + hi) / 2, (hi - lo) / 2
    points = [mid - half * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    grid_size = 40 * n
    grid = [mid - half * mp.cos(mp.pi * (i + mpf(1) / 2) / grid_size) for i in range(grid_size)]
    g_grid = [g(x) for x in grid]
    w_grid = [weight(x) for x in grid]
    # A weight that vanishes inside the interval makes the system singular: keep a floor under it.
    floor = max(w_grid) / 10**4
    w_grid = [max(w, floor) for w in w_grid]
    points[0], points[-1] = grid[0], grid[-1]
    for _ in range(30):
        a, b = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(points):
            t = (x - mid) / half
            p = mpf(1)
            for j in range(degree + 1):
                a[i, j] = p
                p *= t
            a[i, degree + 1] = (-1) ** i / max(weight(x), floor)
            b[i] = g(x)
        sol = lu_solve(a, b)
        coef = [sol[j] for j in range(degree + 1)]

        err = [w * (horner(coef, (x - mid) / half) - y) for x, y, w in zip(grid, g_grid, w_grid)]
        extrema = alternating(err, n)
        if len(extrema) < n:
            break
        top = max(abs(err[k]) for k in extrema)
        low = min(abs(err[k]) for k in extrema)
        points = [grid[k] for k in extrema]
        if top < low * mpf("1.001"):
            break
    # Expand from t = (x - mid) / half to powers of x.
    out = [mpf(0)] * (degree + 1)
    power = [mpf(1)]
    for j, c in enumerate(coef):
        for k, v in enumerate(power):
            out[k] += c * v
        nxt = [mpf(0)] * (len(power) + 1)
        for k, v in enumerate(power):
            nxt[k] -= v * mid / half
            nxt[k + 1] += v / half
        power = nxt
    return out, max(abs(e) for e in err)


def alternating(err, count):
    """Positions of the extrema of errors on a grid, one for each run of the same sign: `count` of them, or fewer if there
    are fewer runs."""
    extrema, run = [], [0]
    for i in range(1, len(err)):
        if (err[i] > 0) == (err[run[-1]] > 0):
            run.append(i)
        else:
            extrema.append(max(run, key=lambda k: abs(err[k])))
            run = [i]
    extrema.append(max(run, key=lambda k: abs(err[k])))
    while len(extrema) > count:
        extrema.pop(0 if abs(err[extrema[0]]) < abs(err[extrema[-1]]) else -1)
    return extrema


def taylor_safe(exact, series, limit):
    """`exact` away from zero and `series` near it, where `exact` would cancel."""
    return lambda x: series(x) if abs(x) < limit else exact(x)


def sqrt_arg(f):
    return lambda z: f(mp.sqrt(z))


one = lambda x: mpf(1)
TINY = mpf(10) ** -12

exp_q = taylor_safe(lambda r: (mp.expm1(r) - r) / r**2, lambda r: mpf(1) / 2 + r / 6, TINY)
ln_q = taylor_safe(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: mpf(1) / 3 - f / 4, TINY)
ln_g = taylor_safe(lambda g: (mp.log1p(g) - g) / g**2, lambda g: -mpf(1) / 2 + g / 3, TINY)
# ln((1 + s) / (1 - s)) = 2 s + s * R(s^2)
ln_s = taylor_safe(
    sqrt_arg(lambda s: (2 * mp.atanh(s) / s - 2) / s**2), lambda z: mpf(2) / 3 + 2 * z / 5, TINY
)
# ln((1 + s) / (1 - s)) = 2 s + 2/3 s^3 + s^5 R(s^2)
ln_s5 = taylor_safe(
    sqrt_arg(lambda s: (2 * mp.atanh(s) / s - 2 - 2 * s**2 / 3) / s**4), lambda z: mpf(2) / 5 + 2 * z / 7, TINY
)
sin_q = taylor_safe(sqrt_arg(lambda r: (mp.sin(r) / r - 1) / r**2), lambda z: -mpf(1) / 6 + z / 120, TINY)
cos_q = taylor_safe(
    sqrt_arg(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4), lambda z: mpf(1) / 24 - z / 720, TINY
)
tan_q = taylor_safe(sqrt_arg(lambda r: (mp.tan(r) / r - 1) / r**2), lambda z: mpf(1) / 3 + 2 * z / 15, TINY)
sinh_q = taylor_safe(sqrt_arg(lambda r: (mp.sinh(r) / r - 1) / r**2), lambda z: mpf(1) / 6 + z / 120, TINY)
tanh_q = taylor_safe(
    sqrt_arg(lambda r: (mp.tanh(r) / r - 1) / r**2), lambda z: -mpf(1) / 3 + 2 * z / 15, TINY
)
asin_q = taylor_safe(
    sqrt_arg(lambda r: (mp.asin(r) / r - 1) / r**2), lambda z: mpf(1) / 6 + 3 * z / 40, TINY
)
atan_q = taylor_safe(
    sqrt_arg(lambda r: (mp.atan(r) / r - 1) / r**2), lambda z: -mpf(1) / 3 + z / 5, TINY
)
erf_q = taylor_safe(
    sqrt_arg(lambda a: mp.erf(a) / a - 1), lambda z: 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1, TINY
)


def erfcx(a):
    """exp(a^2) erfc(a), also where both factors leave the range of floats."""
    return mp.exp(a * a) * mp.erfc(a)


def ln_erfc(a):
    return mp.log(mp.erfc(a))


LN2_HALF = mp.log(2) / 2 * mpf("1.0005")
PIO4 = (mp.pi / 4) * mpf("1.0001")
SQ = mp.sqrt(mpf(1) / 2)
S_MAX = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.0001")
TAN8 = (mp.sqrt(2) - 1) ** 2 * mpf("1.0001")

FITS = {
    "EXP_F32": (exp_q, -LN2_HALF, LN2_HALF, 4, lambda r: r * r / mp.exp(r)),
    "EXP_F64": (exp_q, -LN2_HALF, LN2_HALF, 9, lambda r: r * r / mp.exp(r)),
    "LN_F32": (ln_q, SQ - 1, mp.sqrt(2) - 1, 8, lambda f: f**3 / mp.log1p(f)),
    "LN_F64": (ln_s, 0, S_MAX, 6, lambda z: z / 2),
    # With a table; g is 0 at 1, where its own rounding error is the result's.
    "LN_NEAR_F32": (ln_g, -mpf(1) / 32, mpf(1) / 16, 3, lambda g: g * g / abs(mp.log1p(g)) if g else 0),
    "LN_NEAR_F64": (ln_g, -mpf(1) / 32, mpf(1) / 16, 8, lambda g: g * g / abs(mp.log1p(g)) if g else 0),
    "LN_POW_F32": (ln_s5, 0, S_MAX, 2, lambda z: z * z / 2),
    "LN_POW_F64": (ln_s5, 0, S_MAX, 7, lambda z: z * z / 2),
    "SIN_F32": (sin_q, 0, PIO4**2, 2, lambda z: z),
    "SIN_F64": (sin_q, 0, PIO4**2, 5, lambda z: z),
    "COS_F32": (cos_q, 0, PIO4**2, 2, lambda z: z * z),
    "COS_F64": (cos_q, 0, PIO4**2, 5, lambda z: z * z),
    "TAN_F32": (tan_q, 0, PIO4**2, 6, lambda z: z),
    "TAN_F64": (tan_q, 0, PIO4**2, 13, lambda z: z),
    "SINH_F32": (sinh_q, 0, 1, 3, lambda z: z),
    "SINH_F64": (sinh_q, 0, 1, 6, lambda z: z),
    "TANH_F32": (tanh_q, 0, mpf("0.3907"), 4, lambda z: z),
    "TANH_F64": (tanh_q, 0, mpf("0.3907"), 10, lambda z: z),
    "ASIN_F32": (asin_q, 0, mpf(1) / 4, 4, lambda z: z),
    "ASIN_F64": (asin_q, 0, mpf(1) / 4, 11, lambda z: z),
    "ATAN_F32": (atan_q, 0, TAN8, 4, lambda z: z),
    "ATAN_F64": (atan_q, 0, TAN8, 10, lambda z: z),
    "ERF_F32": (erf_q, 0, mpf("0.8649"), 6, one),
    "ERF_F64": (erf_q, 0, 1, 11, one),
    # 1 - exp(p(a)) for a in [0.92, 4]: an error d of p moves erf by erfc(a) d.
    "LN_ERFC_F32": (ln_erfc, mpf("0.92"), 4, 6, lambda a: mp.erfc(a)),
}


def gauss_tail(a):
    """Phi(-a) exp(a^2 / 2)."""
    return erfcx(a / mp.sqrt(2)) / 2


def gelu_missing(a):
    """What is missing from gelu(a) to a: a Phi(-a)."""
    return a * mp.ncdf(-a)


RATIOS = {
    "TAIL_F32": (gauss_tail, mpf("14.5"), 4, 5),
    "TAIL_F64": (gauss_tail, mpf(39), 11, 12),
}

PIECES = {
    "ERF_F32": (mp.erf, mpf(4), 3, 6, lambda a: 1 / mp.erf(a)),
    "ERF_F64": (mp.erf, mpf(6), 3, 12, lambda a: 1 / mp.erf(a)),
    "GAUSS_TAIL_F32": (gauss_tail, mpf(15), 2, 6, lambda a: 1 / gauss_tail(a)),
    "GAUSS_TAIL_F64": (gauss_tail, mpf("39.5"), 2, 14, lambda a: 1 / gauss_tail(a)),
    "GELU_MISSING_F32": (gelu_missing, mpf("5.625"), 4, 8, lambda a: 1 / gelu_missing(a)),
    "GELU_MISSING_F64": (gelu_missing, mpf("5.5"), 4, 13, lambda a: 1 / gelu_missing(a)),
    "TANH_F32": (mp.tanh, mpf("9.25"), 2, 6, lambda a: 1 / mp.tanh(a)),
    "TANH_F64": (mp.tanh, mpf("19.5"), 2, 14, lambda a: 1 / mp.tanh(a)),
}


def ratio(g, end, over, under):
    """Minimax quotient of polynomials of degrees `over` and `under` for `g` over [0, end], lowest power first,
    and its relative error. A Remez exchange whose equations are made linear around the last error."""
    n = over + under + 2

    def point(k, count):
        # Chebyshev points of 1 / (1 + x/2), which are denser near zero.
        least = 2 / (1 + end / 2) - 1
        s = (least + 1) / 2 + (1 - least) / 2 * mp.cos(mp.pi * k / count)
        return 2 * (2 / (s + 1) - 1)

    points = [point(k, n - 1) for k in range(n)]
    grid = [point(k + mpf(1) / 2, 60 * n) for k in range(60 * n)]
    g_grid = [g(x) for x in grid]
    level, bottom = mpf(0), [mpf(1)]
    for _ in range(30):
        for _ in range(15):
            a, b = matrix(n, n), matrix(n, 1)
            for i, x in enumerate(points):
                y, sign = g(x), (-1) ** i
                slope = y * sign * horner(bottom, x)
                for j in range(over + 1):
                    a[i, j] = x**j
                for j in range(1, under + 1):
                    a[i, over + j] = -y * (1 + sign * level) * x**j
                a[i, n - 1] = -slope
                b[i] = y * (1 + sign * level) - slope * level
            solution = lu_solve(a, b)
            top = [solution[j] for j in range(over + 1)]
            bottom = [mpf(1)] + [solution[over + j] for j in range(1, under + 1)]
            moved, level = abs(solution[n - 1] - level), solution[n - 1]
            if moved < abs(level) * mpf(10) ** -12:
                break
        err = [horner(top, x) / horner(bottom, x) / y - 1 for x, y in zip(grid, g_grid)]
        extrema = alternating(err, n)
        if len(extrema) < n:
            break
        sizes = [abs(err[k]) for k in extrema]
        points = [grid[k] for k in extrema]
        if max(sizes) < min(sizes) * mpf("1.001"):
            break
    return top, bottom, max(abs(e) for e in err)


def horner(coefficients, x):
    r = 0 * x
    for c in reversed(coefficients):
        r = r * x + c
    return r


def settled(g, end, top, bottom):
    """The coefficients as numbers of f32, and the largest relative error of the quotient."""
    numbers = [float(round_to(c, 24)[0]) for c in top + bottom]
    xs = [float(end) * k / 600 for k in range(601)]
    ys = [float(g(mpf(x))) for x in xs]

    def worst(c):
        return max(abs(horner(c[: len(top)], x) / horner(c[len(top) :], x) / y - 1) for x, y in zip(xs, ys))

    def steps():
        free = [i for i in range(len(numbers)) if i not in (0, len(top))]
        single = [[(i, k)] for i in free for k in (-1, 1)]
        return single + [a + b for a in single for b in single if a[0][0] < b[0][0]]

    best, improved = worst(numbers), True
    while improved:
        improved = False
        for step in steps():
            moved = list(numbers)
            for i, k in step:
                moved[i] += k * float(round_to(mpf(moved[i]), 24)[1])
            if worst(moved) < best:
                best, numbers, improved = worst(moved), moved, True
    return numbers[: len(top)], numbers[len(top) :], mpf(best)


def round_to(x, significand):
    """The nearest number of that many bits."""
    unit = mpf(2) ** (mp.floor(mp.log(abs(x), 2)) - significand + 1) if x else mpf(1)
    return mp.nint(x / unit) * unit, unit


def centre(g, lo, hi, significand):
    """A point near the middle at which `g` is nearly a number of that many bits."""
    middle, unit = round_to((lo + hi) / 2, significand)
    best, best_distance = middle, mpf(1)
    for k in range(2000):
        x = middle + (-1) ** k * ((k + 1) // 2) * unit
        rounded, unit_of_g = round_to(g(x), significand)
        distance = abs(g(x) - rounded) / unit_of_g
        if distance < best_distance:
            best, best_distance = x, distance
        if best_distance < mpf("0.004"):
            break
    return best


def is_about_identity(g):
    return g(0) == 0 and abs(mp.diff(g, 0) - 1) < mpf("0.2")


def pieces(name):
    """The scale and the rows of a table in pieces, and the largest weighted error."""
    g, end, bits, degree, weight = PIECES[name]
    significand = 24 if name.endswith("F32") else 53
    octaves, steps = 2 ** (4 - bits), 2**bits
    scale = (2**octaves - 1) / end
    columns, worst = [], 0
    for octave in range(octaves):
        for step in range(steps):
            lo, hi = ((mpf(steps + step + k) / steps * 2**octave - 1) / scale for k in (0, 1))
            if lo == 0 and g(lo) == 0:
                at = value = mpf(0)
                known = 1 if is_about_identity(g) else 0
                slope = taylor_safe(lambda a: g(a) / a - known, lambda a: mp.diff(g, 0) - known, TINY)
                coef, err = remez(slope, lo, hi, degree - 1, lambda a: a * weight(a) if a else 0)
            else:
                at = centre(g, lo, hi, significand)
                coef, err = remez(lambda t: g(at + t), lo - at, hi - at, degree, lambda t: weight(at + t))
                value, fitted = g(at), coef.pop(0)
                err += abs(value - fitted) * weight(at)
            columns.append([at, value] + coef)
            worst = max(worst, err)
    # 1 is 2^0, whose biased exponent ends in ones: the first octave has the last indices.
    columns = columns[steps:] + columns[:steps]
    return scale, list(zip(*columns)), worst


def print_rows(rows, ty, indent):
    per_line = 8 if ty == "f32" else 4
    for row in rows:
        print(f"{indent}[")
        for k in range(0, 16, per_line):
            print(f"{indent}    {', '.join(number(x, ty) for x in row[k:k + per_line])},")
        print(f"{indent}],")


def number(x, ty):
    return mp.nstr(x, 10 if ty == "f32" else 19, min_fixed=0, max_fixed=0)


def print_ln_table(name):
    significand, ty = (24, "f32") if name.endswith("F32") else (53, "f64")
    factors = []
    for i in range(16):
        # The significand of m is in [1 + i/16, 1 + (i + 1)/16), and m is in [3/4, 3/2).
        lo, hi = ((1 + mpf(i + k) / 16) / (2 if i >= 8 else 1) for k in (0, 1))
        factors.append(mpf(1) if i in (0, 15) else centre(mp.log, 1 / hi, 1 / lo, significand))
    print(f"const LN_TABLE: &[[{ty}; 16]; 2] = &[")
    print_rows([factors, [-mp.log(r) for r in factors]], ty, "    ")
    print("];", flush=True)


def print_pieces(name):
    scale, rows, err = pieces(name)
    ty = "f32" if name.endswith("F32") else "f64"
    print(f"/// Degree {len(rows) - 2}, relative error 2^{float(mp.log(err, 2)):.1f}.")
    print(f"pub(crate) const {name}: Pieces<{ty}> = Pieces {{")
    print(f"    scale: {number(scale, ty)},")
    print(f"    significand_bits: {PIECES[name][2]},")
    print(f"    from_identity: {str(is_about_identity(PIECES[name][0])).lower()},")
    print("    rows: &[")
    print_rows(rows, ty, "        ")
    print("    ],")
    print("};\n", flush=True)


def print_fit(name):
    g, lo, hi, degree, weight = FITS[name]
    coef, err = remez(g, lo, hi, degree, weight)
    ty = "f32" if name.endswith("F32") else "f64"
    print(f"/// Degree {degree}, error 2^{float(mp.log(err, 2)):.1f}.")
    print(f"const {name}: &[{ty}] = &[")
    for c in coef:
        print(f"    {number(c, ty)},")
    print("];", flush=True)


def print_ratio(name):
    g, end, over, under = RATIOS[name]
    top, bottom, err = ratio(g, end, over, under)
    ty = "f32" if name.endswith("F32") else "f64"
    if ty == "f32":
        top, bottom, err = settled(g, end, top, bottom)
    print(f"/// Degrees {over} and {under}, relative error 2^{float(mp.log(err, 2)):.1f}.")
    for part, coef in (("OVER", top), ("UNDER", bottom)):
        print(f"const {name.replace('_', f'_{part}_')}: &[{ty}] = &[")
        for c in coef:
            print(f"    {number(mpf(c), ty)},")
        print("];", flush=True)


def main():
    tables = ["LN_TABLE_F32", "LN_TABLE_F64"]
    names = [*PIECES] if sys.argv[1:] == ["PIECES"] else sys.argv[1:] or [*FITS, *RATIOS, *PIECES, *tables]
    printers = [(FITS, print_fit), (RATIOS, print_ratio), (PIECES, print_pieces), (tables, print_ln_table)]
    for name in names:
        next(printer for table, printer in printers if name in table)(name)


if __name__ == "__main__":
    main()
