//! asin, acos, atan, atan2.
//!
//! `asin(x) = x + x^3 P(x^2)` up to 1/2, and `pi/2 - 2 asin(sqrt((1 - x) / 2))` above.
//! `atan(a / b) = t + t^3 Q(t^2) + k pi/4`, where `t` is the quotient rotated by `k pi/4` into
//! `[-tan(pi/8), tan(pi/8)]`. The minimax polynomials come from `tools/coefficients.py`.

use crate::float::*;
use crate::simd::*;
use crate::{BinaryFn, Float, UnaryFn};

/// Constants of the inverse trigonometric functions.
pub trait InverseConsts: Format {
    /// pi/2, pi/4 and pi in two parts.
    const FRAC_PI_2: (Self, Self);
    const FRAC_PI_4: (Self, Self);
    const PI: (Self, Self);
    const TAN_PI_8: Self;
    const TAN_3_PI_8: Self;
    /// Beyond this number, a sum of two numbers may overflow.
    const SUM_MAX: Self;
    const ASIN_POLY: &'static [Self];
    const ATAN_POLY: &'static [Self];
    const ZERO_BITS: Self::Int;
}

impl InverseConsts for f32 {
    const FRAC_PI_2: (f32, f32) = (core::f32::consts::FRAC_PI_2, -4.371_139e-8);
    const FRAC_PI_4: (f32, f32) = (core::f32::consts::FRAC_PI_4, -2.185_569_4e-8);
    const PI: (f32, f32) = (core::f32::consts::PI, -8.742_278e-8);
    const TAN_PI_8: f32 = 0.414_213_57;
    const TAN_3_PI_8: f32 = 2.414_213_7;
    const SUM_MAX: f32 = f32::MAX / 4.0;
    /// Degree 4, error of asin 2^-27.6.
    const ASIN_POLY: &'static [f32] =
        &[1.666675392e-1, 7.495241954e-2, 4.547708632e-2, 2.414764148e-2, 4.221850884e-2];
    /// Degree 4, error of atan 2^-30.5.
    const ATAN_POLY: &'static [f32] =
        &[-3.33333155e-1, 1.999848896e-1, -1.424383861e-1, 1.059592077e-1, -6.083236677e-2];
    const ZERO_BITS: i32 = 0;
}

impl InverseConsts for f64 {
    const FRAC_PI_2: (f64, f64) = (core::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17);
    const FRAC_PI_4: (f64, f64) = (core::f64::consts::FRAC_PI_4, 3.061_616_997_868_383e-17);
    const PI: (f64, f64) = (core::f64::consts::PI, 1.224_646_799_147_353_2e-16);
    const TAN_PI_8: f64 = 0.414_213_562_373_095_03;
    const TAN_3_PI_8: f64 = 2.414_213_562_373_095;
    const SUM_MAX: f64 = f64::MAX / 4.0;
    /// Degree 11, error of asin 2^-55.9.
    const ASIN_POLY: &'static [f64] = &[
        1.666666666666538272e-1,
        7.500000000343046167e-2,
        4.4642856823491073e-2,
        3.038195933065509557e-2,
        2.237175354111705219e-2,
        1.735977081024972887e-2,
        1.388460150054051358e-2,
        1.21732595848350184e-2,
        6.510935763601704776e-3,
        1.957369163938616625e-2,
        -1.629375667464433298e-2,
        3.195876250901195933e-2,
    ];
    /// Degree 10, error of atan 2^-59.5.
    const ATAN_POLY: &'static [f64] = &[
        -3.3333333333333199e-1,
        1.999999999995404344e-1,
        -1.428571428024422789e-1,
        1.11111107859090992e-1,
        -9.090897829534368515e-2,
        7.692061509127883606e-2,
        -6.663118880294145691e-2,
        5.847997662840713359e-2,
        -5.039793536155792727e-2,
        3.80769709083324068e-2,
        -1.792077087637266535e-2,
    ];
    const ZERO_BITS: i64 = 0;
}

/// `(s, p)` with `asin(s) = s + p`. `s` is `a` up to 1/2 and `sqrt((1 - a) / 2)` above; NaN for `a > 1`.
#[inline(always)]
fn asin_parts<S: Simd, T: Float>(a: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let half = splat(0.5);
    let z = a.le(half).select(a * a, (splat::<S, T>(1.0) - a) * half);
    let s = a.le(half).select(a, z.sqrt());
    (s, (s * z) * poly(z, T::ASIN_POLY))
}

/// The inverse sine.
///
/// Error below 3 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asin;

impl<T: Float> UnaryFn<T> for Asin {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = abs(x);
        let (s, p) = asin_parts(a);
        let (hi, lo) = T::FRAC_PI_2;
        let large = (hi.splat::<S>() - (s + s)) - ((p + p) - lo.splat());
        let y = a.le(splat(0.5)).select(s + p, large);
        with_sign(y, sign_of(x))
    }
}

/// The inverse cosine.
///
/// Error below 3 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acos;

impl<T: Float> UnaryFn<T> for Acos {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = abs(x);
        let (s, p) = asin_parts(a);
        let (hi, lo) = T::FRAC_PI_2;
        let sign = sign_of(x);
        // pi/2 - (x + p), where p has the sign of x.
        let small = hi.splat::<S>() - (x + (with_sign(p, sign) - lo.splat()));
        let double = (s + p) + (s + p);
        let (hi, lo) = T::PI;
        let left = hi.splat::<S>() - (double - lo.splat());
        let large = x.lt(splat(0.0)).select(left, double);
        a.le(splat(0.5)).select(small, large)
    }
}

/// `atan(t) + hi + lo` for `t` in `[-tan(pi/8), tan(pi/8)]`.
#[inline(always)]
fn atan_reduced<S: Simd, T: Float>(t: Vector<S, T>, hi: Vector<S, T>, lo: Vector<S, T>) -> Vector<S, T> {
    let z = t * t;
    let tail = madd(t * z, poly(z, T::ATAN_POLY), lo);
    let (sum, err) = fast_two_sum(hi, t);
    // Without an offset, `hi` is 0 and the sum is exact whichever operand is larger.
    sum + (err + tail)
}

/// The inverse tangent, relatively accurate near zero.
///
/// Error below 2 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atan;

impl<T: Float> UnaryFn<T> for Atan {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let y = atan_quotient(abs(x), splat(1.0));
        with_sign(y, sign_of(x))
    }
}

/// `atan(a / b)` for `a, b >= 0`. At least one of them must be positive and finite, and `a + b` must be
/// finite or one of them infinite.
#[inline(always)]
fn atan_quotient<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>) -> Vector<S, T> {
    let zero = splat::<S, T>(0.0);
    let low = || a.le(b * T::TAN_PI_8.splat());
    let middle = || a.le(b * T::TAN_3_PI_8.splat());
    let pick = |l: Vector<S, T>, m: Vector<S, T>, h: Vector<S, T>| low().select(l, middle().select(m, h));
    let t = pick(a, a - b, neg(b)) / pick(b, a + b, a);
    let hi = pick(zero, T::FRAC_PI_4.0.splat(), T::FRAC_PI_2.0.splat());
    let lo = pick(zero, T::FRAC_PI_4.1.splat(), T::FRAC_PI_2.1.splat());
    atan_reduced(t, hi, lo)
}

/// `atan2(y, x)`, the angle of the point `(x, y)`. The first operand is y. Special cases as in C.
///
/// Error below 2.5 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atan2;

impl<T: Float> BinaryFn<T> for Atan2 {
    #[inline(always)]
    fn eval<S: Simd>(self, y: Vector<S, T>, x: Vector<S, T>) -> Vector<S, T> {
        let one = splat::<S, T>(1.0);
        let (a, b) = (abs(y), abs(x));
        // Both infinite: the diagonal. Both zero: the positive x axis.
        let both_infinite = || a.eq(T::INF.splat()) & b.eq(T::INF.splat());
        let both_zero = a.eq(splat(0.0)) & b.eq(splat(0.0));
        let (a, b) = (both_infinite().select(one, a), both_infinite().select(one, b));
        let b = both_zero.select(one, b);
        let huge = a.gt(T::SUM_MAX.splat()) | b.gt(T::SUM_MAX.splat());
        let scale = huge.select(splat(0.25), one);
        let r = atan_quotient(a * scale, b * scale);
        let (hi, lo) = T::PI;
        let left = hi.splat::<S>() - (r - lo.splat());
        let x_negative = bits(x).lt(T::ZERO_BITS.splat());
        let r: Vector<S, T> = float(x_negative.select(bits(left), bits(r)));
        with_sign(r, sign_of(y))
    }
}
