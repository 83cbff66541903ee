//! ln, log1p, log2, log10.
//!
//! `x = 2^e m` with `m` in `[sqrt(1/2), sqrt(2))`, `f = m - 1`, and `ln x = e ln 2 + ln(1 + f)`. For f32, `ln(1 + f) = f - f^2/2 +
//! f^3 P(f)`; for f64, as in fdlibm, `s = f / (2 + f)` and `ln(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2))`. The
//! minimax polynomials come from `tools/coefficients.py`.

use crate::float::*;
use crate::simd::*;
use crate::{Float, UnaryFn};

/// Constants of the logarithms.
pub trait LnConsts: Format {
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
    /// MAGIC + the exponent bias.
    const MAGIC_BIAS: Self;
    /// The offset that makes the exponent of a number that of its `m`.
    const SHIFT_TO_M: Self::Int;
    /// Twice the exponent bias, in place.
    const TWICE_BIAS: Self::Int;
    /// From here on, the 1 of log1p no longer matters.
    const LOG1P_LARGE: Self;

    /// `ln(1 + f) - f` for `f` in `[sqrt(1/2) - 1, sqrt(2) - 1]`, in two parts: `-f^2/2` and the rest.
    fn ln_tail<S: Simd>(f: Vector<S, Self>) -> (Vector<S, Self>, Vector<S, Self>);
}

impl LnConsts for f32 {
    const LN2_HI: f32 = 0.693359375;
    const LN2_LO: f32 = -2.121_944_4e-4;
    const LOG2E_HI: f32 = core::f32::consts::LOG2_E;
    const LOG2E_LO: f32 = 1.925_963e-8;
    const LOG10E_HI: f32 = core::f32::consts::LOG10_E;
    const LOG10E_LO: f32 = -1.010_305_1e-8;
    const LOG10_2_HI: f32 = 0.301025390625;
    const LOG10_2_LO: f32 = 4.605_038_8e-6;
    const MAGIC_BIAS: f32 = 12582912.0 + 127.0;
    const SHIFT_TO_M: i32 = Self::ONE_BITS - Self::SQRT_HALF_BITS;
    const TWICE_BIAS: i32 = 254 << 23;
    const LOG1P_LARGE: f32 = 1e16;

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
    const MAGIC_BIAS: f64 = 6755399441055744.0 + 1023.0;
    const SHIFT_TO_M: i64 = Self::ONE_BITS - Self::SQRT_HALF_BITS;
    const TWICE_BIAS: i64 = 2046 << 52;
    const LOG1P_LARGE: f64 = 1e32;

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

/// `x = 2^e m`: the biased exponent `e + bias` in the bits of an integer, and `m - 1`, for positive normal `x`.
#[inline(always)]
fn decompose<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T::Int>, Vector<S, T>) {
    let j = bits(x) + T::SHIFT_TO_M.splat();
    let m: Vector<S, T> = float((j & T::MANTISSA_MASK.splat()) + T::SQRT_HALF_BITS.splat());
    (j, m - splat(1.0))
}

/// The exponent `e` in the bits that [`decompose`] returned.
#[inline(always)]
fn exponent<S: Simd, T: Float>(j: Vector<S, T::Int>) -> Vector<S, T> {
    let k = j.reinterpret::<T::Uint>() >> T::MANTISSA;
    float(k.reinterpret::<T::Int>() + T::MAGIC_BITS.splat()) - T::MAGIC_BIAS.splat()
}

/// `(e, m - 1)` for any positive finite `x`, subnormal or not.
#[inline(always)]
pub(crate) fn split<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let subnormal = x.lt(T::MIN_NORMAL.splat());
    let normal = subnormal.select(x * T::NORMALISE.splat(), x);
    let zero = splat::<S, T>(0.0);
    let lift = x.lt(T::MIN_NORMAL.splat()).select(T::NORMALISE_EXPONENT.splat(), zero);
    let (j, f) = decompose(normal);
    (exponent(j) - lift, f)
}

/// `e ln 2 + ln(1 + f)`.
#[inline(always)]
fn ln_from<S: Simd, T: Float>(e: Vector<S, T>, f: Vector<S, T>) -> Vector<S, T> {
    let (square, rest) = T::ln_tail(f);
    let low = madd(e, T::LN2_LO.splat(), rest);
    madd(e, T::LN2_HI.splat(), f + (low + square))
}

/// Puts the values of a logarithm at 0, at infinity, at negative numbers and at NaN.
#[inline(always)]
fn special<S: Simd, T: Float>(x: Vector<S, T>, y: Vector<S, T>) -> Vector<S, T> {
    let y = x.eq(T::INF.splat()).select(x, y);
    let y = x.eq(splat(0.0)).select(neg(T::INF.splat()), y);
    x.ge(splat(0.0)).select(y, T::NAN.splat())
}

/// `ln(x)` for positive finite normal `x`.
#[inline(always)]
pub(crate) fn ln_normal<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    let (j, f) = decompose(x);
    ln_from(exponent(j), f)
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
    let (j, f) = decompose(u);
    // 2^-e, from the biased exponent 2 bias - (e + bias).
    let exponent_bits = j & T::EXPONENT_MASK.splat();
    let scale = float(T::TWICE_BIAS.splat() - exponent_bits);
    // For large numbers the error does not matter, and the scale leaves the range.
    let f = u.lt(T::LOG1P_LARGE.splat()).select(madd(err + low, scale, f), f);
    ln_from(exponent(j), f)
}

/// `ln(x)`.
///
/// Error below 1 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ln;

impl<T: Float> UnaryFn<T> for Ln {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let (e, f) = split(x);
        special(x, ln_from(e, f))
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
        // The value has the sign of its argument, zero included.
        float(bits(y) | sign_of(x))
    }
}

/// A logarithm to another base: `f * c` with `c = ln(base)^-1` in two parts, plus `e * log_base(2)`.
#[inline(always)]
fn log_base<S: Simd, T: Float>(x: Vector<S, T>, c: (T, T), base_exponent: (T, T)) -> Vector<S, T> {
    let (e, f) = split(x);
    let (square, rest) = T::ln_tail(f);
    // f c_hi without error, then everything small, then the large terms.
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
