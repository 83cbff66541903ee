//! Error measures, references and backends shared by the tests.
#![allow(dead_code)] // Each test binary uses its part.

use flex_math::simd::{Simd, Vector, WithSimd, for_each_isa};
use flex_math::*;

/// The distance of `got` from `want` in units in the last place of f32, as a real number.
///
/// NaN has distance 0 from NaN and infinite distance from everything else. A zero of the wrong sign has
/// infinite distance. Infinity counts as 2^128, where rounding to nearest overflows.
pub fn ulp_error_f32(got: f32, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    let limit = 2f64.powi(128);
    let (got, want) = ((got as f64).clamp(-limit, limit), want.clamp(-limit, limit));
    let exponent = ((want.abs().to_bits() >> 52) as i32 - 1023).clamp(-126, 127);
    (got - want).abs() / 2f64.powi(exponent - 23)
}

/// The distance of `got` from `want + rest` in units in the last place of f64; `rest` is given in that unit.
///
/// NaN, infinity and zero as in [`ulp_error_f32`].
pub fn ulp_error_f64(got: f64, want: f64, rest: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    if got.is_infinite() || want.is_infinite() {
        // Of two neighbouring numbers, one may have overflowed.
        let steps = got.abs().to_bits().abs_diff(want.abs().to_bits());
        return if steps < 8 { steps as f64 } else { f64::INFINITY };
    }
    let exponent = ((want.abs().to_bits() >> 52) as i32).max(1);
    // Both numbers differ by few units, so this subtraction is exact. Scaling by 2^(1075 - exponent) takes
    // two steps.
    let scale = (1075 - exponent) / 2;
    let units = (got - want) * 2f64.powi(scale) * 2f64.powi(1075 - exponent - scale);
    (units - rest).abs()
}

/// Whether two floats are the same number. NaN equals NaN, and the two zeros differ.
pub fn same<T: Float>(a: T, b: T) -> bool {
    (a.is_nan() && b.is_nan()) || (a == b && a.is_sign_negative() == b.is_sign_negative())
}

#[derive(Clone)]
struct Eval<'a, T, F> {
    f: F,
    x: &'a [T],
}

impl<T: Float, F: UnaryFn<T>> WithSimd for Eval<'_, T, F> {
    type Output = Vec<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> Vec<T> {
        let mut out = Vec::with_capacity(self.x.len());
        for chunk in self.x.chunks(T::lanes::<S>()) {
            let mut v: Vector<S, T> = T::one().splat();
            bytemuck::cast_slice_mut(std::slice::from_mut(&mut v))[..chunk.len()].copy_from_slice(chunk);
            let y = self.f.eval(v);
            out.extend_from_slice(&bytemuck::cast_slice(std::slice::from_ref(&y))[..chunk.len()]);
        }
        out
    }
}

#[derive(Clone)]
struct Eval2<'a, T, F> {
    f: F,
    a: &'a [T],
    b: &'a [T],
}

impl<T: Float, F: BinaryFn<T>> WithSimd for Eval2<'_, T, F> {
    type Output = Vec<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> Vec<T> {
        let mut out = Vec::with_capacity(self.a.len());
        let lanes = T::lanes::<S>();
        for (ca, cb) in self.a.chunks(lanes).zip(self.b.chunks(lanes)) {
            let mut a: Vector<S, T> = T::one().splat();
            let mut b = a;
            bytemuck::cast_slice_mut(std::slice::from_mut(&mut a))[..ca.len()].copy_from_slice(ca);
            bytemuck::cast_slice_mut(std::slice::from_mut(&mut b))[..cb.len()].copy_from_slice(cb);
            let y = self.f.eval(a, b);
            out.extend_from_slice(&bytemuck::cast_slice(std::slice::from_ref(&y))[..ca.len()]);
        }
        out
    }
}

/// Reports `f` of `x` for every instruction set of this machine.
pub fn on_each_isa<T: Float, F: UnaryFn<T>>(f: F, x: &[T], report: impl FnMut(&'static str, Vec<T>)) {
    for_each_isa(Eval { f, x }, report);
}

/// Reports `f` of `a` and `b` for every instruction set of this machine.
pub fn on_each_isa2<T: Float, F: BinaryFn<T>>(
    f: F,
    a: &[T],
    b: &[T],
    report: impl FnMut(&'static str, Vec<T>),
) {
    for_each_isa(Eval2 { f, a, b }, report);
}

/// Calls `$visit!(name, Function, reference, bound_f32, bound_f64)` for every unary function, with the bounds
/// that the functions document.
#[macro_export]
macro_rules! for_each_unary {
    ($visit:ident) => {
        $visit!("sqrt", Sqrt, libm::sqrt, 0.5, 0.5);
        $visit!("recip", Recip, |x: f64| 1.0 / x, 0.5, 0.5);
        $visit!("exp", Exp, libm::exp, 1.1, 1.1);
        $visit!("exp2", Exp2, libm::exp2, 1.5, 1.5);
        $visit!("expm1", Expm1, libm::expm1, 1.5, 2.0);
        $visit!("ln", Ln, libm::log, 1.0, 1.0);
        $visit!("log1p", Log1p, libm::log1p, 1.5, 1.5);
        $visit!("log2", Log2, libm::log2, 2.0, 2.0);
        $visit!("log10", Log10, libm::log10, 2.0, 2.0);
        $visit!("sin", Sin, libm::sin, 1.6, 1.6);
        $visit!("cos", Cos, libm::cos, 1.6, 1.6);
        $visit!("tan", Tan, libm::tan, 3.0, 3.0);
        $visit!("sinh", Sinh, libm::sinh, 2.0, 2.0);
        $visit!("cosh", Cosh, libm::cosh, 2.0, 2.0);
        $visit!("tanh", Tanh, libm::tanh, 1.6, 1.6);
        $visit!("asin", Asin, libm::asin, 3.0, 3.0);
        $visit!("acos", Acos, libm::acos, 3.0, 3.0);
        $visit!("atan", Atan, libm::atan, 2.0, 2.0);
        $visit!("asinh", Asinh, libm::asinh, 3.0, 3.0);
        $visit!("acosh", Acosh, |x: f64| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 3.0, 3.0);
        $visit!("atanh", Atanh, libm::atanh, 3.0, 3.0);
        $visit!("erf", Erf, libm::erf, 2.0, 2.0);
        $visit!("erfc", Erfc, libm::erfc, 6.0, 6.0);
        $visit!("sigmoid", Sigmoid, $crate::common::sigmoid, 2.5, 2.5);
        $visit!("softplus", Softplus, $crate::common::softplus, 3.0, 3.0);
        $visit!("logsigmoid", LogSigmoid, |x: f64| -$crate::common::softplus(-x), 3.0, 3.0);
        $visit!("silu", Silu, |x: f64| x.max(-1e300) * $crate::common::sigmoid(x), 3.2, 3.2);
        $visit!("gelu", Gelu, $crate::common::gelu, 7.0, 7.0);
        $visit!("gelu_tanh", GeluTanh, $crate::common::gelu_tanh, 4.0, 4.0);
    };
}

pub fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) }
}

pub fn softplus(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.0) + libm::log1p(libm::exp(-x.abs())) }
}

pub fn gelu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return -0.0;
    }
    0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

pub fn gelu_tanh(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let x = x.max(-1e100);
    x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
}
