//! Activation functions of neural networks, built on exp, log1p and the tail of the normal distribution.
//!
//! All of them keep their relative accuracy for tiny results, down to the smallest subnormal.

use crate::exp::{ExpNonPositive, Pow2, Scaled, exp_scaled_non_positive, exp_with};
use crate::float::*;
use crate::gauss::{Tail, gelu_missing};
use crate::log::ln_1p;
use crate::simd::*;
use crate::{BinaryFn, Float, UnaryFn};

/// `1 / (1 + exp(-x))`.
///
/// Error below 2.5 ULP for f32 and f64 over the whole range, subnormal results included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sigmoid;

impl<T: Float> UnaryFn<T> for Sigmoid {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let z = ExpNonPositive.eval(neg(abs(x)));
        let one = splat(1.0);
        x.lt(splat(0.0)).select(z, one) / (z + one)
    }
}

/// `ln(1 + exp(x))`.
///
/// Error below 3 ULP for f32 and f64 over the whole range, subnormal results included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Softplus;

impl<T: Float> UnaryFn<T> for Softplus {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let zero = splat(0.0);
        let tail = ln_1p(ExpNonPositive.eval(neg(abs(x))));
        // Not `max`, which may drop a NaN.
        x.lt(zero).select(zero, x) + tail
    }
}

/// `ln(sigmoid(x)) = -softplus(-x)`.
///
/// Error below 3 ULP for f32 and f64 over the whole range, subnormal results included.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSigmoid;

impl<T: Float> UnaryFn<T> for LogSigmoid {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        neg(Softplus.eval(neg(x)))
    }
}

/// `x * sigmoid(x)`.
///
/// Error below 3.2 ULP for f32 and f64 over the whole range, subnormal results included. The value at minus
/// infinity is the limit, -0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silu;

impl<T: Float> UnaryFn<T> for Silu {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        // Beyond twice the range of exp the result is -0.
        let x = at_least(x, T::EXP_MIN + T::EXP_MIN);
        let e = exp_scaled_non_positive(neg(abs(x)));
        scaled_sigmoid(x, e)
    }
}

/// `x * sigmoid(u)`, given `e = exp(-|u|)`; `u` must have the sign of `x`. `x` is multiplied in before the
/// last factor of the exponential, so that a subnormal result is rounded once.
#[inline(always)]
fn scaled_sigmoid<S: Simd, T: Float>(x: Vector<S, T>, e: Scaled<S, T>) -> Vector<S, T> {
    let one = splat(1.0);
    let head = e.power.first(e.p);
    let z = e.power.last(head);
    // Masks are not `Copy`; the compiler merges the two comparisons.
    let y = (x.lt(splat(0.0)).select(x * head, x)) / (z + one);
    x.lt(splat(0.0)).select(e.power.last(y), y)
}

/// `x * Phi(x) = x/2 * (1 + erf(x / sqrt 2))`, with the relative accuracy of erfc for negative `x`.
///
/// Error below 7 ULP for f32 and f64 over the whole range, subnormal results included. With a fused
/// multiply-add it was at most 5.5 ULP at every seventh f32. The value at minus infinity is the limit, -0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gelu;

impl<T: Float> UnaryFn<T> for Gelu {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        x.lt(splat(0.0)).select(splat(-0.0), x) - gelu_missing(x)
    }
}

/// The derivative of [`Gelu`] times the incoming gradient: `(x, grad) -> grad * (Phi(x) + x phi(x))`.
///
/// Error below 5 ULP, in units of the larger of `Phi(x)` and `|x| phi(x)`, times the gradient: the two terms
/// cancel near -0.75.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeluGrad;

impl<T: Float> BinaryFn<T> for GeluGrad {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>, grad: Vector<S, T>) -> Vector<S, T> {
        let Tail { a, e, r } = Tail::of(x);
        let slope = a * T::FRAC_1_SQRT_TAU.splat();
        // Phi(-a) - a phi(a) for negative x, and 1 minus that value for positive x.
        let below = e.power.last(e.power.first(e.p) * (r - slope));
        let d = x.lt(splat(0.0)).select(below, splat::<S, T>(1.0) - below);
        // Far below zero the derivative is 0 for every number; a NaN must stay NaN.
        x.eq(x).select(d, x) * grad
    }
}

/// The tanh approximation of gelu, `x/2 * (1 + tanh(u))` with `u = sqrt(2/pi) (x + 0.044715 x^3)`, computed
/// as `x * sigmoid(2 u)`.
///
/// Error below 4 ULP for f32 and f64 over the whole range, subnormal results included. The value at minus
/// infinity is the limit, -0.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeluTanh;

impl<T: Float> UnaryFn<T> for GeluTanh {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let x = at_least(x, -T::GELU_TANH_MAX);
        let a = at_most(abs(x), T::GELU_TANH_MAX);
        // 2 u = a (c1 + c3 a^2). Each step keeps its rounding error, because exp would magnify it.
        let (square, square_lo) = two_prod(a, a);
        let (cube, cube_lo) = two_prod(square, T::GELU_C3.0.splat());
        let cube_lo = cube_lo + madd(square_lo, T::GELU_C3.0.splat(), square * T::GELU_C3.1.splat());
        let (sum, sum_lo) = two_sum(T::GELU_C1.0.splat(), cube);
        let sum_lo = sum_lo + (cube_lo + T::GELU_C1.1.splat());
        let (u, u_lo) = two_prod(sum, a);
        let u_lo = madd(sum_lo, a, u_lo);
        let (p, t) = exp_with(neg(u), neg(u_lo));
        scaled_sigmoid(x, Scaled { p, power: Pow2::of_non_positive(t) })
    }
}
