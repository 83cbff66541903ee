//! The power function.
//!
//! `x^y = exp(y ln x)`. The logarithm and the product carry about twice the precision of the element type,
//! since exp magnifies their relative error by up to the size of the exponent. With `x = 2^e m`, `f = m - 1`
//! and `s = f / (2 + f)`, `ln x = e ln 2 + 2 s + 2/3 s^3 + s^5 R(s^2)`. All terms except R are computed as
//! unevaluated sums of two numbers. R is a minimax polynomial from `tools/coefficients.py`.

use crate::exp::{Pow2, Scaled, exp_with};
use crate::float::*;
use crate::log::split_off_one;
use crate::simd::*;
use crate::{BinaryFn, Float};

/// Constants of the power function.
pub trait PowConsts: Format {
    /// 2/3 in two parts.
    const TWO_THIRDS: (Self, Self);
    const LN_POLY: &'static [Self];
}

impl PowConsts for f32 {
    const TWO_THIRDS: (f32, f32) = (0.666_666_7, -1.986_821_6e-8);
    /// Degree 2, error of ln 2^-36.8.
    const LN_POLY: &'static [f32] = &[4.000015221e-1, 2.854712968e-1, 2.341867489e-1];
}

impl PowConsts for f64 {
    const TWO_THIRDS: (f64, f64) = (0.6666666666666666, 3.700_743_415_417_188e-17);
    /// Degree 7, error of ln 2^-73.5.
    const LN_POLY: &'static [f64] = &[
        3.999999999999997749e-1,
        2.857142857144510952e-1,
        2.22222222175369327e-1,
        1.818181887026216716e-1,
        1.538455687425626865e-1,
        1.333631730505525496e-1,
        1.167482061315825472e-1,
        1.198899716024671913e-1,
    ];
}

/// `ln(x)` as an unevaluated sum of two numbers, for positive finite `x`.
#[inline(always)]
fn ln_two<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let (e, f) = split_off_one(x);
    // s = f / (2 + f)
    let two = splat::<S, T>(2.0);
    let (d, d_lo) = fast_two_sum(two, f);
    let inverse = splat::<S, T>(1.0) / d;
    let s = f * inverse;
    let (q, q_lo) = two_prod(s, d);
    let s_lo = (((f - q) - q_lo) - s * d_lo) * inverse;
    // z = s^2, c = 2/3 + z R(z)
    let (z, z_err) = two_prod(s, s);
    let z_lo = madd(s + s, s_lo, z_err);
    let (c, c_err) = fast_two_sum(T::TWO_THIRDS.0.splat(), z * poly(z, T::LN_POLY));
    let c_lo = c_err + T::TWO_THIRDS.1.splat();
    // w = s^3 c
    let (s3, s3_err) = two_prod(s, z);
    let s3_lo = madd(s, z_lo, madd(s_lo, z, s3_err));
    let (w, w_err) = two_prod(s3, c);
    let w_lo = madd(s3, c_lo, madd(s3_lo, c, w_err));
    // e ln 2 + 2 s + w
    let (h, h_lo) = fast_two_sum(e * T::LN2_HI.splat(), s + s);
    let (h, w_rest) = fast_two_sum(h, w);
    let low = madd(e, T::LN2_LO.splat(), (h_lo + w_rest) + (w_lo + (s_lo + s_lo)));
    fast_two_sum(h, low)
}

/// `a^b`, with all the special cases of C's `pow`.
///
/// Error below 1 ULP for f32 and f64 over the whole range, subnormal results included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pow;

impl<T: Float> BinaryFn<T> for Pow {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>, y: Vector<S, T>) -> Vector<S, T> {
        let zero = splat::<S, T>(0.0);
        let one = splat::<S, T>(1.0);
        let inf = T::INF.splat::<S>();
        let ax = abs(x);

        let (l, l_lo) = ln_two(ax);
        // The special values ln 0, ln inf and ln NaN.
        let l = ax.lt(inf).select(l, ax);
        let l = ax.eq(zero).select(neg(inf), l);
        let (p, p_err) = two_prod(y, l);
        let p_lo = madd(y, l_lo, p_err);
        // Where the product is out of range or infinite, its low part may be any number.
        let p_lo = abs(p).lt((-T::EXP_MIN).splat()).select(p_lo, zero);
        let p = at_least(at_most(p, T::EXP_MAX), T::EXP_MIN);
        let (p, t) = exp_with(p, p_lo);
        let magnitude = Scaled { p, power: Pow2::of(t) }.value();

        // A negative base: the result is negative for an odd exponent, and NaN for a fraction.
        let half = y * splat(0.5);
        let integral = || y.trunc().eq(y);
        let odd = integral() & half.trunc().ne(half);
        let sign = odd.select(float(sign_of(x)), zero);
        let r = with_sign(magnitude, bits(sign));
        let undefined = x.lt(zero) & ax.lt(inf) & !integral();
        let r = undefined.select(T::NAN.splat(), r);

        // The cases with the result 1, whatever the other operand is.
        let unit = y.eq(zero) | x.eq(one) | (ax.eq(one) & abs(y).eq(inf));
        unit.select(one, r)
    }
}
