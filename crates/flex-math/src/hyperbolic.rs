//! Hyperbolic functions and their inverses, on top of exp, expm1 and log1p.

use crate::exp::{Scaled, exp_scaled, expm1_moderate};
use crate::float::*;
use crate::log::{ln_1p, ln_1p_with, ln_normal};
use crate::pieces::*;
use crate::simd::*;
use crate::{Float, UnaryFn};

/// Constants of the hyperbolic functions.
pub trait HyperbolicConsts: Scalar {
    /// tanh rounds to one at this argument.
    const TANH_MAX: Self;
    /// The pieces of tanh, up to `TANH_MAX`.
    const TANH_PIECES: Pieces<Self>;
    /// P of `tanh(x) = x + x^3 P(x^2)` on `[0, 0.625]`.
    const TANH_POLY: &'static [Self];
    /// P of `sinh(x) = x + x^3 P(x^2)` on `[0, 1]`.
    const SINH_POLY: &'static [Self];
    /// From here on `asinh(x)` and `acosh(x)` are `ln(2 x)`.
    const ASINH_LARGE: Self;
}

impl HyperbolicConsts for f32 {
    const TANH_MAX: f32 = 9.2;
    const TANH_PIECES: Pieces<f32> = TANH_F32;
    /// Degree 4, error of tanh 2^-27.9.
    const TANH_POLY: &'static [f32] =
        &[-3.333328389e-1, 1.333149011e-1, -5.374339154e-2, 2.065021846e-2, -5.716612306e-3];
    /// Degree 3, error of sinh 2^-34.0.
    const SINH_POLY: &'static [f32] = &[1.666666649e-1, 8.333350597e-3, 1.983606634e-4, 2.817439191e-6];
    const ASINH_LARGE: f32 = 1e6;
}

impl HyperbolicConsts for f64 {
    const TANH_MAX: f64 = 19.4;
    const TANH_PIECES: Pieces<f64> = TANH_F64;
    /// Degree 10, error of tanh 2^-56.5.
    const TANH_POLY: &'static [f64] = &[
        -3.333333333333287721e-1,
        1.333333333326480025e-1,
        -5.396825393242745782e-2,
        2.186948760069259765e-2,
        -8.86322130247466339e-3,
        3.591991434704209987e-3,
        -1.454969775841508422e-3,
        5.863501853887496743e-4,
        -2.286285813916611406e-4,
        7.72138646567888337e-5,
        -1.610493798569326608e-5,
    ];
    /// Degree 6, error of sinh 2^-63.2.
    const SINH_POLY: &'static [f64] = &[
        1.666666666666666743e-1,
        8.333333333333138829e-3,
        1.984126984143766905e-4,
        2.755731915534036669e-6,
        2.505212339805062328e-8,
        1.605724037726481169e-10,
        7.759311188202096242e-13,
    ];
    const ASINH_LARGE: f64 = 1e12;
}

/// The hyperbolic tangent, relatively accurate near zero.
///
/// Computed from [pieces](crate::pieces) with AVX-512. Elsewhere, a polynomial up to 5/8, then
/// `t / (t + 2)` with `t = exp(2 |x|) - 1`. Error below 1.6 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tanh;

impl<T: Float> UnaryFn<T> for Tanh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = at_most(abs(x), T::TANH_MAX);
        let y = if let Some(avx512) = Avx512::proof() {
            T::TANH_PIECES.at(avx512, a)
        } else {
            let z = a * a;
            let small = madd(a * z, poly(z, T::TANH_POLY), a);
            let t = expm1_moderate(a + a);
            a.lt(splat(0.625)).select(small, t / (t + splat(2.0)))
        };
        with_sign(y, sign_of(x))
    }
}

/// `exp(|x|) / 2` and `exp(-|x|) / 2`.
#[inline(always)]
fn half_exps<S: Simd, T: Float>(a: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let Scaled { p, power } = exp_scaled(a);
    // Halved before the scaling, which may overflow.
    let e = Scaled { p: p * splat(0.5), power }.value();
    (e, splat::<S, T>(0.25) / e)
}

/// The hyperbolic sine, relatively accurate near zero.
///
/// Error below 2 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sinh;

impl<T: Float> UnaryFn<T> for Sinh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = abs(x);
        let z = a * a;
        let small = madd(a * z, poly(z, T::SINH_POLY), a);
        let (up, down) = half_exps(a);
        let y = a.lt(splat(1.0)).select(small, up - down);
        with_sign(y, sign_of(x))
    }
}

/// The hyperbolic cosine.
///
/// Error below 2 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cosh;

impl<T: Float> UnaryFn<T> for Cosh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let (up, down) = half_exps(abs(x));
        up + down
    }
}

/// The inverse hyperbolic sine, relatively accurate near zero.
///
/// Error below 3 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asinh;

impl<T: Float> UnaryFn<T> for Asinh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = abs(x);
        let m = at_most(a, T::ASINH_LARGE);
        // a + sqrt(1 + a^2) - 1 = a + a^2 / (1 + sqrt(1 + a^2))
        let z = m * m;
        let tail = z / (splat::<S, T>(1.0) + (z + splat(1.0)).sqrt());
        let (hi, lo) = fast_two_sum(m, tail);
        let moderate = ln_1p_with(hi, lo);
        let y = a.le(T::ASINH_LARGE.splat()).select(moderate, large_ln(a));
        with_sign(y, sign_of(x))
    }
}

/// `ln(2 x)` for `x` so large that `x^2` may overflow. Infinity and NaN are returned unchanged.
#[inline(always)]
fn large_ln<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    let y = ln_normal(x) + T::LN_2.splat();
    x.lt(T::INF.splat()).select(y, x)
}

/// The inverse hyperbolic cosine.
///
/// Error below 3 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acosh;

impl<T: Float> UnaryFn<T> for Acosh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let large = x.gt(T::ASINH_LARGE.splat());
        // x + sqrt(x^2 - 1) - 1 = t + sqrt(t (t + 2)) with t = x - 1
        let t = at_most(x, T::ASINH_LARGE) - splat(1.0);
        let root = (t * (t + splat(2.0))).sqrt();
        let (hi, lo) = two_sum(root, t);
        let y = large.select(large_ln(x), ln_1p_with(hi, lo));
        x.ge(splat(1.0)).select(y, T::NAN.splat())
    }
}

/// The inverse hyperbolic tangent, relatively accurate near zero.
///
/// Error below 3 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atanh;

impl<T: Float> UnaryFn<T> for Atanh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = abs(x);
        // (1 + a) / (1 - a) = 1 + 2 a / (1 - a)
        let y = ln_1p((a + a) / (splat::<S, T>(1.0) - a)) * splat(0.5);
        let y = a.eq(splat(1.0)).select(T::INF.splat(), y);
        let y = a.le(splat(1.0)).select(y, T::NAN.splat());
        with_sign(y, sign_of(x))
    }
}
