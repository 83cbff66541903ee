//! The error function and its complement.
//!
//! Near zero, `erf(x) = x + x P(x^2)`. Further out, f32 uses `erf(x) = 1 - exp(p(x))`, where the polynomial p
//! approximates the logarithm of erfc: erfc is small there, so its relative error matters little. Everything
//! else rests on `erfc(x) = exp(-x^2) erfcx(x)` for `x >= 0`, with erfcx from the tail of the
//! [normal distribution](crate::gauss). The square `x^2` is kept with its rounding error, because exp would
//! magnify it. With AVX-512, erf uses [pieces](crate::pieces) for its whole range. The polynomials come from
//! `tools/coefficients.py`.

use crate::exp::{Scaled, exp_moderate, exp_scaled_near};
use crate::float::*;
use crate::gauss::tail_ratio;
use crate::pieces::*;
use crate::simd::*;
use crate::{Float, UnaryFn};

/// Constants of the error function.
pub trait ErfConsts: Scalar {
    /// erfc rounds to zero at this argument.
    const ERFC_MAX: Self;
    /// The tanh approximation of gelu rounds to zero at the negative of this argument.
    const GELU_TANH_MAX: Self;
    /// `2 sqrt(2/pi)` in two parts.
    const GELU_C1: (Self, Self);
    /// `2 sqrt(2/pi) * 0.044715` in two parts.
    const GELU_C3: (Self, Self);
    /// For `|x|` below this, `erf(x) = x + x P(x^2)`.
    const ERF_SMALL: Self;
    /// erf rounds to one at this argument.
    const ERF_MAX: Self;
    /// The pieces of erf, up to `ERF_MAX`.
    const ERF_PIECES: Pieces<Self>;
    /// P of `erf(x) = x + x P(x^2)`.
    const ERF_POLY: &'static [Self];
    /// erf for `x` from `ERF_SMALL` to `ERF_MAX`; NaN stays NaN.
    fn erf_large<S: Simd>(x: Vector<S, Self>) -> Vector<S, Self>;
}

impl ErfConsts for f32 {
    const ERFC_MAX: f32 = 10.25;
    const GELU_TANH_MAX: f32 = 11.0;
    const GELU_C1: (f32, f32) = (1.595_769_2, -4.534_068e-8);
    const GELU_C3: (f32, f32) = (0.071_354_814, 2.398_832_4e-9);
    const ERF_SMALL: f32 = 0.925;
    const ERF_MAX: f32 = 3.99;
    const ERF_PIECES: Pieces<f32> = ERF_F32;
    /// Degree 6, error of erf 2^-31.0.
    const ERF_POLY: &'static [f32] = &[
        1.283791666e-1,
        -3.76126337e-1,
        1.128369395e-1,
        -2.685927113e-2,
        5.200635197e-3,
        -8.137447706e-4,
        8.345266917e-5,
    ];

    #[inline(always)]
    fn erf_large<S: Simd>(x: Vector<S, Self>) -> Vector<S, Self> {
        /// ln erfc on [0.92, 4]. Degree 6, error of erf 2^-27.3.
        const LN_ERFC: &[f32] = &[
            -5.756134857e-4,
            -1.126021534,
            -6.401154589e-1,
            -1.012238372e-1,
            2.085658546e-2,
            -2.683280624e-3,
            1.576574048e-4,
        ];
        splat::<S, f32>(1.0) - exp_moderate(poly(x, LN_ERFC))
    }
}

impl ErfConsts for f64 {
    const ERFC_MAX: f64 = 27.5;
    const GELU_TANH_MAX: f64 = 22.5;
    const GELU_C1: (f64, f64) = (1.5957691216057308, -9.969_308_809_110_92e-17);
    const GELU_C3: (f64, f64) = (0.07135481627260025, -6.175_149_918_155_315e-19);
    const ERF_SMALL: f64 = 1.0;
    const ERF_MAX: f64 = 5.99;
    const ERF_PIECES: Pieces<f64> = ERF_F64;
    /// Degree 11, error of erf 2^-57.0.
    const ERF_POLY: &'static [f64] = &[
        1.283791670955125668e-1,
        -3.761263890318354659e-1,
        1.128379167094525242e-1,
        -2.686617064327613191e-2,
        5.223977607422962649e-3,
        -8.548325989679065845e-4,
        1.205529532010697362e-4,
        -1.492474465798824771e-5,
        1.644751763255461474e-6,
        -1.620917569510852177e-7,
        1.372297580486652169e-8,
        -7.801188777479894884e-10,
    ];

    #[inline(always)]
    fn erf_large<S: Simd>(x: Vector<S, Self>) -> Vector<S, Self> {
        // erfc is below 0.16 here, so an error of a few ULP is a fraction of an ULP of the result.
        splat::<S, f64>(1.0) - exp_moderate(neg(x * x)) * erfcx(x)
    }
}

/// `erf(x)` for `x` up to `ERF_SMALL`.
#[inline(always)]
pub(crate) fn erf_small<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    madd(x, poly(x * x, T::ERF_POLY), x)
}

/// `erfcx(x) = exp(x^2) erfc(x)` for `x` in `[0, ERFC_MAX]`.
#[inline(always)]
fn erfcx<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    tail_ratio(x * T::SQRT_2.splat()) * splat(2.0)
}

/// `exp(-a b)` as a [`Scaled`], without the rounding error of the product. `a b` must not be negative.
#[inline(always)]
pub(crate) fn exp_neg_prod<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>) -> Scaled<S, T> {
    let (hi, lo) = two_prod(neg(a), b);
    exp_scaled_near(hi, lo)
}

/// The error function, relatively accurate near zero.
///
/// Error below 2 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Erf;

impl<T: Float> UnaryFn<T> for Erf {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = at_most(abs(x), T::ERF_MAX);
        let y = if let Some(avx512) = Avx512::proof() {
            T::ERF_PIECES.at(avx512, a)
        } else {
            a.lt(T::ERF_SMALL.splat()).select(erf_small(a), T::erf_large(a))
        };
        with_sign(y, sign_of(x))
    }
}

/// `1 - erf(x)`, relatively accurate for large `x`, where the result is tiny.
///
/// Error below 6 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Erfc;

impl<T: Float> UnaryFn<T> for Erfc {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let a = at_most(abs(x), T::ERFC_MAX);
        let Scaled { p, power } = exp_neg_prod(a, a);
        let y = power.last(power.first(p) * erfcx(a));
        // Up to where erf is about 1/2, `1 - erf` loses fewer bits than erfcx.
        let y = a.lt(splat(0.46875)).select(splat::<S, T>(1.0) - erf_small(a), y);
        x.lt(splat(0.0)).select(splat::<S, T>(2.0) - y, y)
    }
}
