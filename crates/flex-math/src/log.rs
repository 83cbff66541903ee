//! ln, log1p, log2, log10.
//!
//! `x = 2^e m` with `m` in `[sqrt(1/2), sqrt(2))`, `f = m - 1`, and `ln x = e ln 2 + ln(1 + f)`. For f32,
//! `ln(1 + f) = f - f^2/2 + f^3 P(f)`. For f64, as in fdlibm, `s = f / (2 + f)` and
//! `ln(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2))`.
//!
//! With a [table](Avx512::lookup) in registers, ln and log1p use `m` in `[3/4, 3/2)`. The table has a number
//! `r` near `1 / m` for each of sixteen parts of that interval. Then `ln m = -ln r + ln(1 + g)` with
//! `g = m r - 1`, which is at most 1/16, so a shorter polynomial suffices, and no division:
//! `ln(1 + g) = g + g^2 Q(g)`. Near 1, `r` is 1, so that nothing cancels. Elsewhere `r` is chosen such that
//! `ln r` is nearly a number of the element type, so that the rounding of `ln r` adds nothing (Gal's accurate
//! tables).
//!
//! The minimax polynomials and the tables come from `tools/coefficients.py`.

use crate::exp::times_pow2;
use crate::float::*;
use crate::simd::*;
use crate::{Float, UnaryFn};

/// Constants of the logarithms.
pub trait LnConsts: Format {
    /// ln(2) in two parts, the first with so few bits that its product with an exponent is exact.
    const LN2_HI: Self;
    const LN2_LO: Self;
    /// log2(e) in two parts.
    const LOG2E_HI: Self;
    const LOG2E_LO: Self;
    /// log10(e) in two parts.
    const LOG10E_HI: Self;
    const LOG10E_LO: Self;
    /// log10(2) in two parts, the first with so few bits that its product with an exponent is exact.
    const LOG10_2_HI: Self;
    const LOG10_2_LO: Self;
    const SQRT_2: Self;
    /// `MAGIC` plus the exponent bias.
    const MAGIC_BIAS: Self;
    /// The `responses` of [`Avx512::respond`] for the arguments whose logarithm is not finite.
    const ENDS: Self::Int;
    /// Added to the bits of `x = 2^e m`, turns the exponent field into the biased `e`.
    const SHIFT_TO_M: Self::Int;
    /// From this number on, the 1 of log1p no longer matters.
    const LOG1P_LARGE: Self;

    /// `r` and `-ln r`, indexed by the four highest bits of the significand of `m`.
    const LN_TABLE: &'static [[Self; 16]; 2];
    /// Q of `ln(1 + g) = g + g^2 Q(g)`.
    const LN_NEAR: &'static [Self];

    /// `ln(1 + f) - f` for `f` in `[sqrt(1/2) - 1, sqrt(2) - 1]`, in two parts: `-f^2/2` and the rest.
    fn ln_tail<S: Simd>(f: Vector<S, Self>) -> (Vector<S, Self>, Vector<S, Self>);
}

impl LnConsts for f32 {
    const LN2_HI: f32 = 0.693_145_75;
    const LN2_LO: f32 = 1.428_606_8e-6;
    const LOG2E_HI: f32 = core::f32::consts::LOG2_E;
    const LOG2E_LO: f32 = 1.925_963e-8;
    const LOG10E_HI: f32 = core::f32::consts::LOG10_E;
    const LOG10E_LO: f32 = -1.010_305_1e-8;
    const LOG10_2_HI: f32 = 0.301025390625;
    const LOG10_2_LO: f32 = 4.605_038_8e-6;
    const SQRT_2: f32 = core::f32::consts::SQRT_2;
    const MAGIC_BIAS: f32 = 12582912.0 + 127.0;
    const ENDS: i32 = 0x0353_0422;
    const SHIFT_TO_M: i32 = Self::ONE_BITS - Self::SQRT_HALF_BITS;
    const LOG1P_LARGE: f32 = 1e16;
    #[rustfmt::skip]
    const LN_TABLE: &'static [[f32; 16]; 2] = &[
        [
            1.0, 9.150233269e-1, 8.654962182e-1, 8.210700154e-1, 7.809658051e-1, 7.445911765e-1, 7.114645243e-1, 6.811798811e-1,
            1.306680679, 1.25540185, 1.207972527, 1.164005399, 1.123165965, 1.085060716, 1.049461603, 1.0,
        ],
        [
            0.0, 8.880572018e-2, 1.444522739e-1, 1.971468925e-1, 2.472239136e-1, 2.949199676e-1, 3.404297232e-1, 3.839288651e-1,
            -2.67490089e-1, -2.274557203e-1, -1.889433563e-1, -1.518669874e-1, -1.161514521e-1, -8.163594457e-2, -4.827727377e-2, 0.0,
        ],
    ];
    /// Degree 3, error of ln 2^-28.4.
    const LN_NEAR: &'static [f32] = &[-5.00000014e-1, 3.333445276e-1, -2.500609884e-1, 1.88459917e-1];

    #[inline(always)]
    fn ln_tail<S: Simd>(f: Vector<S, Self>) -> (Vector<S, Self>, Vector<S, Self>) {
        /// Degree 8, error of ln 2^-30.3.
        const P: &[f32] = &[
            3.333331261e-1,
            -2.500000962e-1,
            2.00021185e-1,
            -1.666799503e-1,
            1.421955452e-1,
            -1.240560076e-1,
            1.188815744e-1,
            -1.167559194e-1,
            6.746587802e-2,
        ];
        let z = f * f;
        (z * splat(-0.5), (f * z) * poly(f, P))
    }
}

impl LnConsts for f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const LOG2E_HI: f64 = core::f64::consts::LOG2_E;
    const LOG2E_LO: f64 = 2.035_527_374_093_103_3e-17;
    const LOG10E_HI: f64 = core::f64::consts::LOG10_E;
    const LOG10E_LO: f64 = 1.098_319_650_216_765_1e-17;
    const LOG10_2_HI: f64 = 0.3010299956640665;
    const LOG10_2_LO: f64 = -8.532_344_317_057_107e-14;
    const SQRT_2: f64 = core::f64::consts::SQRT_2;
    const MAGIC_BIAS: f64 = 6755399441055744.0 + 1023.0;
    const ENDS: i64 = 0x0353_0422;
    const SHIFT_TO_M: i64 = Self::ONE_BITS - Self::SQRT_HALF_BITS;
    const LOG1P_LARGE: f64 = 1e32;
    #[rustfmt::skip]
    const LN_TABLE: &'static [[f64; 16]; 2] = &[
        [
            1.0, 9.150326797385629485e-1, 8.654970760233898774e-1, 8.210526315790581675e-1,
            7.809523809523819526e-1, 7.445887445887416911e-1, 7.114624505928831555e-1, 6.811594202898548778e-1,
            1.306666666666670196, 1.255384615384616653, 1.207977207977428469, 1.164021164021168619,
            1.123152709359609869, 1.085057471264366358, 1.049462365591399493, 1.0,
        ],
        [
            0.0, 8.879549878313022795e-2, 1.444512827385470158e-1, 1.971680649108141501e-1,
            2.47241102893268977e-1, 2.949232337083443898e-1, 3.40432637837312979e-1, 3.839589028872010812e-1,
            -2.674793651342641798e-1, -2.274419920744252253e-1, -1.889472317662744817e-1, -1.518805312927231086e-1,
            -1.161396499126569614e-1, -8.163295449686994166e-2, -4.827800026579243122e-2, 0.0,
        ],
    ];
    /// Degree 8, error of ln 2^-56.6.
    const LN_NEAR: &'static [f64] = &[
        -5.000000000000002783e-1,
        3.333333333334759115e-1,
        -2.499999999983810903e-1,
        1.999999992740698641e-1,
        -1.666666620015890162e-1,
        1.428582078137559626e-1,
        -1.250185337034926128e-1,
        1.107082255135636379e-1,
        -8.740658752691957966e-2,
    ];

    #[inline(always)]
    fn ln_tail<S: Simd>(f: Vector<S, Self>) -> (Vector<S, Self>, Vector<S, Self>) {
        /// Degree 6, error of ln 2^-59.5.
        const P: &[f64] = &[
            6.666666666666734456e-1,
            3.999999999941435191e-1,
            2.857142874246726204e-1,
            2.222219856432506034e-1,
            1.818356482038324178e-1,
            1.531403708380821606e-1,
            1.479609233343209541e-1,
        ];
        let s = f / (f + splat(2.0));
        let z = s * s;
        let half_square = f * f * splat(0.5);
        (neg(half_square), s * madd(z, poly(z, P), half_square))
    }
}

/// `(e, m)` with `x = 2^e m` for positive normal `x`.
#[inline(always)]
fn split_normal<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let j = bits(x) + T::SHIFT_TO_M.splat();
    let m = float((j & T::MANTISSA_MASK.splat()) + T::SQRT_HALF_BITS.splat());
    let biased = j.reinterpret::<T::Uint>() >> T::MANTISSA;
    (float(biased.reinterpret::<T::Int>() + T::MAGIC_BITS.splat()) - T::MAGIC_BIAS.splat(), m)
}

/// `(e, m)` with `x = 2^e m` for any positive finite `x`, subnormal or not.
#[inline(always)]
fn split<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    if let Some(avx512) = Avx512::proof() {
        let (e, m) = (avx512.exponent(x), avx512.significand(x));
        let large = || m.gt(T::SQRT_2.splat());
        return (large().select(e + splat(1.0), e), large().select(m * splat(0.5), m));
    }
    let subnormal = || x.lt(T::MIN_NORMAL.splat());
    let (e, m) = split_normal(subnormal().select(x * T::NORMALISE.splat(), x));
    (e - subnormal().select(T::NORMALISE_EXPONENT.splat(), splat(0.0)), m)
}

/// `(e, m - 1)` with `x = 2^e m` for any positive finite `x`, subnormal or not.
#[inline(always)]
pub(crate) fn split_off_one<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let (e, m) = split(x);
    (e, m - splat(1.0))
}

/// `(e, m)` for [`ln_from`] with `x = 2^e m`, for any positive finite `x` if `subnormal`, else for normal
/// `x`.
#[inline(always)]
fn split_for_ln<S: Simd, T: Float>(x: Vector<S, T>, subnormal: bool) -> (Vector<S, T>, Vector<S, T>) {
    if let Some(avx512) = Avx512::proof() {
        let m = avx512.near_one(x);
        (avx512.exponent(x) - avx512.exponent(m), m)
    } else if subnormal {
        split(x)
    } else {
        split_normal(x)
    }
}

/// `e ln 2 + ln(m + low)`, where `low` is far below `m`.
#[inline(always)]
fn ln_from<S: Simd, T: Float>(e: Vector<S, T>, m: Vector<S, T>, low: Option<Vector<S, T>>) -> Vector<S, T> {
    let one = splat::<S, T>(1.0);
    let (base, rest) = if let Some(avx512) = Avx512::proof() {
        let index = bits(m) >> (T::MANTISSA - 4);
        let r = avx512.lookup(&T::LN_TABLE[0], index);
        let g = m.fma(r, neg(one));
        let g = low.map_or(g, |low| low.fma(r, g));
        (avx512.lookup(&T::LN_TABLE[1], index), madd(g * g, poly(g, T::LN_NEAR), g))
    } else {
        let f = m - one;
        let f = low.map_or(f, |low| f + low);
        let (square, rest) = T::ln_tail(f);
        (f, square + rest)
    };
    madd(e, T::LN2_HI.splat(), base + madd(e, T::LN2_LO.splat(), rest))
}

/// `y`, but the logarithm's special value in lanes where `x` is 0, infinite, negative or NaN.
#[inline(always)]
fn special<S: Simd, T: Float>(x: Vector<S, T>, y: Vector<S, T>) -> Vector<S, T> {
    if let Some(avx512) = Avx512::proof() {
        return avx512.respond(y, x, T::ENDS.splat());
    }
    let y = x.eq(T::INF.splat()).select(x, y);
    let y = x.eq(splat(0.0)).select(neg(T::INF.splat()), y);
    x.ge(splat(0.0)).select(y, T::NAN.splat())
}

/// `ln(x)` for positive finite normal `x`.
#[inline(always)]
pub(crate) fn ln_normal<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    let (e, m) = split_for_ln(x, false);
    ln_from(e, m, None)
}

/// `ln(1 + x)` for `x` in `(-1, MAX]`. Loses the sign of zero.
#[inline(always)]
pub(crate) fn ln_1p<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    ln_1p_with(x, splat(0.0))
}

/// `ln(1 + x + low)` for `x` in `(-1, MAX]` and `low` far below `x`.
#[inline(always)]
pub(crate) fn ln_1p_with<S: Simd, T: Float>(x: Vector<S, T>, low: Vector<S, T>) -> Vector<S, T> {
    let (u, err) = two_sum(splat::<S, T>(1.0), x);
    let (e, m) = split_for_ln(u, false);
    let low = times_pow2(err + low, T::MAGIC.splat::<S>() - e);
    // For large `u`, `low` does not matter, and 2^-e leaves the range.
    let low = u.lt(T::LOG1P_LARGE.splat()).select(low, splat(0.0));
    ln_from(e, m, Some(low))
}

/// `ln(x)`.
///
/// Error below 1 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ln;

impl<T: Float> UnaryFn<T> for Ln {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let (e, m) = split_for_ln(x, true);
        special(x, ln_from(e, m, None))
    }
}

/// `ln(1 + x)`, accurate near zero.
///
/// Error below 1.5 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log1p;

impl<T: Float> UnaryFn<T> for Log1p {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let y = special(x + splat(1.0), ln_1p(x));
        // The result has the sign of the argument, for zeros too.
        float(bits(y) | sign_of(x))
    }
}

/// A logarithm to another base: `ln(1 + f) * c + e * base_exponent` with `c = 1 / ln(base)` and
/// `base_exponent = log_base(2)`, each in two parts.
#[inline(always)]
fn log_base<S: Simd, T: Float>(x: Vector<S, T>, c: (T, T), base_exponent: (T, T)) -> Vector<S, T> {
    let (e, f) = split_off_one(x);
    let (square, rest) = T::ln_tail(f);
    // `f * c.0` without error, then all small terms, then the large terms.
    let (hi, lo) = two_prod(f, c.0.splat());
    let tail = square + rest;
    let low = madd(f, c.1.splat(), madd(e, base_exponent.1.splat(), lo));
    let low = madd(tail, c.0.splat(), low);
    let (sum, err) = two_sum(e * base_exponent.0.splat(), hi);
    special(x, sum + (err + low))
}

/// `log2(x)`.
///
/// Error below 2 ULP for f32 and f64 over the whole range, and exact for powers of two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log2;

impl<T: Float> UnaryFn<T> for Log2 {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        log_base(x, (T::LOG2E_HI, T::LOG2E_LO), (T::one(), T::zero()))
    }
}

/// `log10(x)`.
///
/// Error below 2 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log10;

impl<T: Float> UnaryFn<T> for Log10 {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        log_base(x, (T::LOG10E_HI, T::LOG10E_LO), (T::LOG10_2_HI, T::LOG10_2_LO))
    }
}
