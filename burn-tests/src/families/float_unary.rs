//! Elementwise float functions of one operand.

use crate::array::Array;
use crate::kind::Float;
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_float, floats, over_layouts, upload};
use burn_backend::Backend;
use burn_backend::tensor::FloatTensor;

/// A function, its definition in `f64`, the range to sample, and the error allowed in ULP of the result's
/// dtype.
struct Function<B: Backend> {
    method: &'static str,
    run: fn(FloatTensor<B>) -> FloatTensor<B>,
    want: fn(f64) -> f64,
    range: (f64, f64),
    ulps: f64,
}

/// Values of the special classes of every dtype.
const SPECIAL: [f64; 10] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e-40, -3e-41, 65504.0];

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! function {
        ($method:ident, $want:expr, $low:expr, $high:expr, $ulps:expr) => {
            Function {
                method: stringify!($method),
                run: B::$method,
                want: $want,
                range: ($low, $high),
                ulps: $ulps,
            }
        };
    }
    let functions: Vec<Function<B>> = vec![
        function!(float_exp, f64::exp, -20.0, 10.0, 4.0),
        function!(float_log, f64::ln, 1e-3, 1e4, 4.0),
        function!(float_log1p, f64::ln_1p, -0.99, 1e3, 4.0),
        function!(float_sqrt, f64::sqrt, 0.0, 1e4, 1.0),
        function!(float_abs, f64::abs, -10.0, 10.0, 0.0),
        function!(float_neg, |x| -x, -10.0, 10.0, 0.0),
        function!(float_recip, |x| 1.0 / x, -10.0, 10.0, 1.0),
        function!(float_sin, f64::sin, -20.0, 20.0, 4.0),
        function!(float_cos, f64::cos, -20.0, 20.0, 4.0),
        function!(float_tan, f64::tan, -1.5, 1.5, 4.0),
        function!(float_sinh, f64::sinh, -9.0, 9.0, 4.0),
        function!(float_cosh, f64::cosh, -9.0, 9.0, 4.0),
        function!(float_tanh, f64::tanh, -9.0, 9.0, 4.0),
        function!(float_asin, f64::asin, -1.0, 1.0, 4.0),
        function!(float_acos, f64::acos, -1.0, 1.0, 4.0),
        function!(float_atan, f64::atan, -50.0, 50.0, 4.0),
        function!(float_asinh, f64::asinh, -50.0, 50.0, 4.0),
        function!(float_erf, erf, -5.0, 5.0, 4.0),
        // Zero for NaN, as in PyTorch and in Burn's default.
        function!(float_sign, |x| (x > 0.0) as i8 as f64 - (x < 0.0) as i8 as f64, -10.0, 10.0, 0.0),
        function!(float_acosh, f64::acosh, 1.0, 50.0, 4.0),
        function!(float_atanh, atanh, -0.99, 0.99, 4.0),
        function!(float_floor, f64::floor, -10.0, 10.0, 0.0),
        function!(float_ceil, f64::ceil, -10.0, 10.0, 0.0),
        function!(float_trunc, f64::trunc, -10.0, 10.0, 0.0),
        function!(float_round, f64::round_ties_even, -10.0, 10.0, 0.0),
    ];
    functions.into_iter().map(|f| Row::new(&[f.method], move |context| check(context, &f))).collect()
}

/// An odd function. The formula of the standard library is not odd: it cancels near -1.
fn atanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * (2.0 * a / (1.0 - a)).ln_1p()).copysign(x)
}

/// The error function: near zero its power series, which is accurate to all digits, elsewhere one minus the
/// continued fraction of its complement (Abramowitz and Stegun 7.1.5 and 7.1.14).
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 1.0 {
        let (mut sum, mut power) = (0.0, x);
        for n in 0..40 {
            sum += power / (2 * n + 1) as f64;
            power *= -x * x / (n + 1) as f64;
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    // The difference from one is not representable, or `x` is infinite. NaN passes on to the continued
    // fraction.
    if a > 6.0 {
        return x.signum();
    }
    let fraction = (1..400).rev().fold(a, |below, k| a + k as f64 / 2.0 / below);
    let complement = (-a * a).exp() / fraction * std::f64::consts::FRAC_2_SQRT_PI / 2.0;
    x.signum() * (1.0 - complement)
}

fn check<B: Backend>(context: &Context<'_, B>, f: &Function<B>) {
    let tolerance = context.ulps(f.ulps);
    for dtype in context.floats(&[f.method]) {
        for shape in SHAPES {
            let array = floats(dtype, shape, f.range, 1);
            over_layouts::<B, Float>(context, dtype, &array, |tensor, content| {
                expect_float::<B>((f.run)(tensor), dtype, &content.map(f.want), tolerance, 0.0)
            });
        }
        let special = context.representable(dtype, &SPECIAL);
        let special = Array::new([special.len()], special);
        context.attempt(
            || format!("{dtype:?} special values"),
            || {
                let tensor = upload::<B, Float>(context, &special, dtype);
                expect_float::<B>((f.run)(tensor), dtype, &special.map(f.want), tolerance, 0.0)
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_has_the_values_of_the_tables() {
        for (x, want) in [
            (0.1, 0.1124629160182849),
            (0.5, 0.5204998778130465),
            (0.99, 0.838508069555369),
            (1.0, 0.8427007929497149),
            (2.0, 0.9953222650189527),
            (-3.0, -0.9999779095030014),
        ] {
            assert!((erf(x) - want).abs() <= 2e-15, "erf({x}) is {}, not {want}", erf(x));
        }
        assert_eq!((erf(0.0), erf(f64::INFINITY), erf(-7.0)), (0.0, 1.0, -1.0));
        assert!(erf(f64::NAN).is_nan());
    }
}
