//! exp, exp2, expm1, and the steps of exp that other functions build on.
//!
//! `exp(x) = 2^n * exp(r)` with `n = round(x / ln 2)` and `r = x - n ln 2` in `[-ln2/2, ln2/2]`. ln 2 is
//! subtracted in two parts; the first has so few bits that its product with `n` is exact (Cody and Waite
//! 1980). `exp(r) = 1 + r + r^2 q(r)` with a minimax polynomial q from `tools/coefficients.py`. Scaling by
//! `2^n` takes two steps, or one instruction, so that results down to the smallest subnormal are rounded
//! once.

use crate::float::*;
use crate::simd::*;
use crate::{Float, UnaryFn};

/// Constants of the argument reduction and the polynomial of [`Exp`].
pub trait ExpConsts: Scalar {
    const LOG2_E: Self;
    const LN_2: Self;
    const NEG_LN2_HI: Self;
    const NEG_LN2_LO: Self;
    /// `exp(x)` and `exp(x) / 2` overflow at this argument.
    const EXP_MAX: Self;
    /// expm1 overflows at this argument, and `2^(n - 1)` is still in range.
    const EXPM1_MAX: Self;
    /// `exp(x)` and `x exp(x)` round to zero at this argument.
    const EXP_MIN: Self;
    /// exp2 overflows at this argument.
    const EXP2_MAX: Self;
    /// exp2 rounds to zero at this argument.
    const EXP2_MIN: Self;
    /// expm1 rounds to -1 at this argument.
    const EXPM1_MIN: Self;
    /// `2^64` or `2^512`, by which [`Pow2::of_non_positive`] keeps powers of two normal, and its inverse.
    const RAISE: (Self, Self);
    /// q of `exp(r) = 1 + r + r^2 q(r)`.
    const EXP_POLY: &'static [Self];
}

impl ExpConsts for f32 {
    const LOG2_E: f32 = core::f32::consts::LOG2_E;
    const LN_2: f32 = core::f32::consts::LN_2;
    const NEG_LN2_HI: f32 = -0.693359375;
    const NEG_LN2_LO: f32 = 2.121_944_4e-4;
    const EXP_MAX: f32 = 90.0;
    const EXPM1_MAX: f32 = 89.0;
    const EXP_MIN: f32 = -125.0;
    const EXP2_MAX: f32 = 128.5;
    const EXP2_MIN: f32 = -150.5;
    const EXPM1_MIN: f32 = -18.0;
    const RAISE: (f32, f32) = (f32::from_bits((127 + 64) << 23), f32::from_bits((127 - 64) << 23));
    /// Degree 4, error of exp 2^-28.3.
    const EXP_POLY: &'static [f32] =
        &[4.999999343e-1, 1.666652041e-1, 4.166839089e-2, 8.368744121e-3, 1.381453025e-3];
}

impl ExpConsts for f64 {
    const LOG2_E: f64 = core::f64::consts::LOG2_E;
    const LN_2: f64 = core::f64::consts::LN_2;
    const NEG_LN2_HI: f64 = -6.931_471_803_691_238e-1;
    const NEG_LN2_LO: f64 = -1.908_214_929_270_587_7e-10;
    const EXP_MAX: f64 = 711.0;
    const EXPM1_MAX: f64 = 710.0;
    const EXP_MIN: f64 = -760.0;
    const EXP2_MAX: f64 = 1024.5;
    const EXP2_MIN: f64 = -1075.5;
    const EXPM1_MIN: f64 = -38.0;
    const RAISE: (f64, f64) = (f64::from_bits((1023 + 512) << 52), f64::from_bits((1023 - 512) << 52));
    /// Degree 9, error of exp 2^-57.9.
    const EXP_POLY: &'static [f64] = &[
        5.000000000000010668e-1,
        1.666666666666641148e-1,
        4.166666666652973714e-2,
        8.333333333494993449e-3,
        1.388888894375769371e-3,
        1.984126950574534672e-4,
        2.480149295195866698e-5,
        2.755758682484209686e-6,
        2.763030541213794825e-7,
        2.500001310888911195e-8,
    ];
}

/// `exp(x)` in two factors: `p` in `[0.7, 1.5]` and a power of two. A caller can multiply `p` by something
/// large before the result becomes subnormal.
pub(crate) struct Scaled<S: Simd, T: Float> {
    pub p: Vector<S, T>,
    pub power: Pow2<S, T>,
}

impl<S: Simd, T: Float> Scaled<S, T> {
    #[inline(always)]
    pub fn value(self) -> Vector<S, T> {
        self.power.last(self.power.first(self.p))
    }
}

/// `2^n` for `n` up to twice the exponent range, in two factors. A number of ordinary size is still normal
/// after the first factor, so that only the product with the last factor is rounded.
pub(crate) struct Pow2<S: Simd, T: Float> {
    /// Two normal powers of two. Where one instruction [scales](Avx512::scale), `n` twice.
    factors: [Vector<S, T>; 2],
}

impl<S: Simd, T: Float> Pow2<S, T> {
    /// `2^n` for the `n` in the low bits of `t = MAGIC + n`.
    #[inline(always)]
    pub fn of(t: Vector<S, T>) -> Self {
        let n = t - T::MAGIC.splat();
        if Avx512::<S>::proof().is_some() {
            return Self { factors: [n; 2] };
        }
        let t1 = madd(n, splat(0.5), T::MAGIC.splat());
        let t2 = t - (t1 - T::MAGIC.splat());
        Self { factors: [pow2(t1), pow2(t2)] }
    }

    /// [`of`](Self::of) for `n` from -190 (f32) or -1534 (f64) to 0, with six instructions fewer. The first
    /// factor is [raised](ExpConsts::RAISE), so what it is multiplied with has to stay below `2^63` or
    /// `2^511`.
    #[inline(always)]
    pub fn of_non_positive(t: Vector<S, T>) -> Self {
        if Avx512::<S>::proof().is_some() {
            return Self::of(t);
        }
        Self { factors: [scaled_pow2(T::RAISE.0, t), T::RAISE.1.splat()] }
    }

    #[inline(always)]
    pub fn first(&self, x: Vector<S, T>) -> Vector<S, T> {
        if Avx512::<S>::proof().is_some() { x } else { x * self.factors[0] }
    }

    #[inline(always)]
    pub fn last(&self, x: Vector<S, T>) -> Vector<S, T> {
        let factor = self.factors[1];
        match Avx512::proof() {
            Some(avx512) => avx512.scale(x, factor),
            None => x * factor,
        }
    }
}

/// `(t, r)` with `x = n ln 2 + r` and `t = MAGIC + n`, so that the low bits of `t` hold `n`.
#[inline(always)]
fn reduce<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let t = madd(x, T::LOG2_E.splat(), T::MAGIC.splat());
    let n = t - T::MAGIC.splat();
    let r = madd(n, T::NEG_LN2_HI.splat(), x);
    (t, madd(n, T::NEG_LN2_LO.splat(), r))
}

/// `2^n` for the `n` in the low bits of `t = MAGIC + n`; it must be normal.
#[inline(always)]
pub(crate) fn pow2<S: Simd, T: Float>(t: Vector<S, T>) -> Vector<S, T> {
    scaled_pow2(num(1.0), t)
}

/// `x * 2^n` for the `n` in the low bits of `t = MAGIC + n` and a power of two `x`; the product must be
/// normal.
#[inline(always)]
fn scaled_pow2<S: Simd, T: Float>(x: T, t: Vector<S, T>) -> Vector<S, T> {
    // The shift drops the bits of MAGIC itself.
    float((bits(t) << T::MANTISSA) + bits(x.splat::<S>()))
}

/// `x * 2^n` for the `n` in the low bits of `t = MAGIC + n`; `2^n` must be normal.
#[inline(always)]
pub(crate) fn times_pow2<S: Simd, T: Float>(x: Vector<S, T>, t: Vector<S, T>) -> Vector<S, T> {
    match Avx512::proof() {
        Some(avx512) => avx512.scale(x, t - T::MAGIC.splat()),
        None => x * pow2(t),
    }
}

/// `exp(r) - 1` for a reduced argument.
#[inline(always)]
fn expm1_reduced<S: Simd, T: Float>(r: Vector<S, T>) -> Vector<S, T> {
    madd(r * r, poly(r, T::EXP_POLY), r)
}

/// `exp(x + low)` in two factors `p` and `2^n`, without the rounding errors of its last steps, for `x` that
/// [`Pow2`] allows and `low` far below `x`. Returns `p` and `MAGIC + n`, for [`Pow2::of`], or
/// [`Pow2::of_non_positive`] if `x` is not positive.
#[inline(always)]
pub(crate) fn exp_with<S: Simd, T: Float>(
    x: Vector<S, T>,
    low: Vector<S, T>,
) -> (Vector<S, T>, Vector<S, T>) {
    let (t, r) = reduce(x);
    // `1 + r` is rounded; its rounding error is added to the small terms.
    let one = splat::<S, T>(1.0);
    let (sum, err) = fast_two_sum(one, r);
    let tail = madd(r * r, poly(r, T::EXP_POLY), err);
    (sum + madd(sum + tail, low, tail), t)
}

/// `exp(x)` for an `x` that is not positive, as a [`Scaled`].
#[inline(always)]
pub(crate) fn exp_scaled_non_positive<S: Simd, T: Float>(x: Vector<S, T>) -> Scaled<S, T> {
    let (t, r) = reduce(at_least(x, T::EXP_MIN));
    Scaled { p: expm1_reduced(r) + splat(1.0), power: Pow2::of_non_positive(t) }
}

/// `exp(x + low)` as a [`Scaled`], with the accuracy of [`exp`], with four instructions fewer than
/// [`exp_with`]. `x` must not be positive, and `low` must be far below `x`.
#[inline(always)]
pub(crate) fn exp_scaled_near<S: Simd, T: Float>(x: Vector<S, T>, low: Vector<S, T>) -> Scaled<S, T> {
    let (t, r) = reduce(x);
    Scaled { p: expm1_reduced(r + low) + splat(1.0), power: Pow2::of_non_positive(t) }
}

/// `exp(x)` for any `x`, as a [`Scaled`].
#[inline(always)]
pub(crate) fn exp_scaled<S: Simd, T: Float>(x: Vector<S, T>) -> Scaled<S, T> {
    let x = at_least(at_most(x, T::EXP_MAX), T::EXP_MIN);
    let (t, r) = reduce(x);
    let p = expm1_reduced(r) + splat(1.0);
    Scaled { p, power: Pow2::of(t) }
}

/// `exp(x)` for any `x`.
#[inline(always)]
pub(crate) fn exp<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    exp_scaled(x).value()
}

/// `exp(x)` for arguments and results in the middle of the exponent range.
#[inline(always)]
pub(crate) fn exp_moderate<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    let (t, r) = reduce(x);
    times_pow2(expm1_reduced(r) + splat(1.0), t)
}

/// `exp(x) - 1` for arguments and results in the middle of the exponent range. Loses the sign of zero.
#[inline(always)]
pub(crate) fn expm1_moderate<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    let (t, r) = reduce(x);
    let s = pow2(t);
    madd(expm1_reduced(r), s, s - splat(1.0))
}

/// `e^x`.
///
/// Error below 1.1 ULP for f32 and f64 over the whole range, subnormal results included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exp;

impl<T: Float> UnaryFn<T> for Exp {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        exp(x)
    }
}

/// [`Exp`] of numbers that are not positive, as softmax needs it, with seven instructions fewer. NaN stays
/// NaN. The result for a positive number is unspecified.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpNonPositive;

impl<T: Float> UnaryFn<T> for ExpNonPositive {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        exp_scaled_non_positive(x).value()
    }
}

/// `2^x`.
///
/// Error below 1.5 ULP for f32 and f64 over the whole range, and exact for integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exp2;

impl<T: Float> UnaryFn<T> for Exp2 {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let x = at_least(at_most(x, T::EXP2_MAX), T::EXP2_MIN);
        let t = x + T::MAGIC.splat();
        let r = (x - (t - T::MAGIC.splat())) * T::LN_2.splat();
        Scaled { p: expm1_reduced(r) + splat(1.0), power: Pow2::of(t) }.value()
    }
}

/// `e^x - 1`, accurate near zero.
///
/// Error below 1.5 ULP for f32 and 2 ULP for f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expm1;

impl<T: Float> UnaryFn<T> for Expm1 {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let y = at_least(at_most(x, T::EXPM1_MAX), T::EXPM1_MIN);
        let (t, r) = reduce(y);
        // Half of the result, since `2^n` may overflow where `2^n (1 + p) - 1` does not.
        let half_s = pow2(t - splat(1.0));
        // `exp(r) - 1` with its rounding error, which would count twice where the result is smaller than r.
        let (p, p_lo) = fast_two_sum(r, (r * r) * poly(r, T::EXP_POLY));
        let (sum, sum_lo) = fast_two_sum(half_s - splat(0.5), p * half_s);
        let half = sum + madd(p_lo, half_s, sum_lo);
        // Returns tiny `x`: halving would drop the last bit of a subnormal, the sum the sign of zero.
        let tiny = abs(x).lt((T::MIN_NORMAL + T::MIN_NORMAL).splat());
        tiny.select(x, half + half)
    }
}
