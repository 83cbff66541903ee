//! Activation functions and their gradients.

use crate::array::Array;
use crate::compare::Tolerance;
use crate::kind::Float;
use crate::operands::{over_operands, take};
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_float, floats, over_layouts};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};

type T<B> = FloatTensor<B>;

/// Values at which functions bend, overflow, or lose their relative accuracy.
const SPECIAL: [f64; 16] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-6,
    -1e-6,
    12.0,
    -12.0,
    60.0,
    -60.0,
    300.0,
    -300.0,
    65504.0,
];

/// A function of one tensor.
struct Unary<B: Backend> {
    method: &'static str,
    run: fn(T<B>) -> T<B>,
    want: fn(f64) -> f64,
    ulps: f64,
}

/// A gradient as a function of two tensors: the input or output of the forward function (as the method takes
/// it) and the incoming gradient.
struct Gradient<B: Backend> {
    method: &'static str,
    run: fn(T<B>, T<B>) -> T<B>,
    want: fn(f64, f64) -> f64,
    range: (f64, f64),
    ulps: f64,
    /// Error relative to the incoming gradient, for methods that compute a difference of numbers near one.
    absolute: fn(DType) -> f64,
}

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let unary: [Unary<B>; 10] = [
        Unary { method: "relu", run: B::relu, want: relu, ulps: 0.0 },
        Unary { method: "gelu", run: B::gelu, want: |x| x * normal_cdf(x), ulps: 8.0 },
        Unary { method: "sigmoid", run: B::sigmoid, want: sigmoid, ulps: 4.0 },
        Unary { method: "log_sigmoid", run: B::log_sigmoid, want: log_sigmoid, ulps: 4.0 },
        Unary {
            method: "leaky_relu",
            run: |x| B::leaky_relu(x, 0.01.into()),
            want: |x| if x < 0.0 { 0.01 * x } else { x },
            ulps: 1.0,
        },
        Unary {
            method: "leaky_relu",
            run: |x| B::leaky_relu(x, (-0.5).into()),
            want: |x| if x < 0.0 { -0.5 * x } else { x },
            ulps: 1.0,
        },
        // A slope above one, for which the maximum of x and its multiple would be wrong.
        Unary {
            method: "leaky_relu",
            run: |x| B::leaky_relu(x, 2.0.into()),
            want: |x| if x < 0.0 { 2.0 * x } else { x },
            ulps: 1.0,
        },
        Unary {
            method: "hard_sigmoid",
            run: |x| B::hard_sigmoid(x, 0.25.into(), 0.5.into()),
            want: |x| clamp_unit(0.25 * x + 0.5),
            ulps: 2.0,
        },
        Unary {
            method: "hard_sigmoid",
            run: |x| B::hard_sigmoid(x, (-2.0).into(), 0.25.into()),
            want: |x| clamp_unit(-2.0 * x + 0.25),
            ulps: 2.0,
        },
        Unary {
            method: "hard_sigmoid",
            run: |x| B::hard_sigmoid(x, 0.0.into(), 3.0.into()),
            want: |x| if (0.0 * x).is_nan() { f64::NAN } else { 1.0 },
            ulps: 0.0,
        },
    ];
    let exact: fn(DType) -> f64 = |_| 0.0;
    let gradients: [Gradient<B>; 4] = [
        Gradient {
            method: "relu_backward",
            run: B::relu_backward,
            want: |y, g| if y <= 0.0 { 0.0 } else { g },
            range: (-1.0, 1.0),
            ulps: 0.0,
            absolute: exact,
        },
        Gradient {
            method: "sigmoid_backward",
            run: B::sigmoid_backward,
            want: |y, g| g * y * (1.0 - y),
            range: (0.0, 1.0),
            ulps: 3.0,
            absolute: exact,
        },
        Gradient {
            method: "log_sigmoid_backward",
            run: B::log_sigmoid_backward,
            want: |x, g| g * sigmoid(-x),
            range: (-20.0, 20.0),
            ulps: 6.0,
            absolute: exact,
        },
        // The exact derivative of x Phi(x); Burn's own default is the derivative of the tanh approximation.
        Gradient {
            method: "gelu_backward",
            run: B::gelu_backward,
            want: |x, g| g * (normal_cdf(x) + x * normal_density(x)),
            range: (-6.0, 6.0),
            ulps: 8.0,
            absolute: |dtype| 4.0 * epsilon(dtype),
        },
    ];
    let mut rows: Vec<Row<B>> = Vec::new();
    rows.extend(unary.into_iter().map(|f| Row::new(&[f.method], move |context| check(context, &f))));
    rows.extend(gradients.into_iter().map(|f| Row::new(&[f.method], move |c| gradient(c, &f))));
    rows.push(Row::new(&["prelu"], prelu));
    rows.push(Row::new(&["softmax", "log_softmax", "softmin"], softmax));
    rows
}

fn relu(x: f64) -> f64 {
    if x <= 0.0 { 0.0 } else { x }
}

fn clamp_unit(x: f64) -> f64 {
    if x.is_nan() { x } else { x.clamp(0.0, 1.0) }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 }
}

fn normal_density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The standard normal distribution function `Phi(x)`: a series around zero and a continued fraction in the
/// tails, so that the small values on the left are accurate too (Abramowitz and Stegun, 26.2.11 and 26.2.14).
pub(crate) fn normal_cdf(x: f64) -> f64 {
    if x.is_nan() || x > 40.0 {
        return if x.is_nan() { x } else { 1.0 };
    }
    if x.abs() < 1.0 {
        let (mut term, mut sum, mut n) = (x, x, 1.0);
        while term.abs() > 1e-18 * sum.abs() && term != 0.0 {
            n += 2.0;
            term *= x * x / n;
            sum += term;
        }
        return 0.5 + normal_density(x) * sum;
    }
    let a = x.abs();
    let fraction = (1..400).rev().fold(a, |rest, n| a + n as f64 / rest);
    let tail = if a.is_infinite() { 0.0 } else { normal_density(a) / fraction };
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Epsilon of the arithmetic that computes a dtype: f32 for the half types.
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 }
}

fn check<B: Backend>(context: &Context<'_, B>, f: &Unary<B>) {
    let tolerance = context.ulps(f.ulps);
    // In double precision the oracle's own error counts.
    let of = |dtype| match dtype {
        DType::F64 if f.method == "gelu" => Tolerance { relative: 4e-14, ..tolerance },
        _ => tolerance,
    };
    for dtype in context.floats(&[f.method]) {
        // `x Phi(x)` at minus infinity is either its limit or a product that is NaN.
        let special = SPECIAL.iter().filter(|&&x| f.method != "gelu" || x != f64::NEG_INFINITY);
        let special = context.representable(dtype, &special.copied().collect::<Vec<_>>());
        let special = Array::new([special.len()], special);
        let arrays = SHAPES.iter().map(|shape| floats(dtype, shape, (-12.0, 12.0), 1)).chain([special]);
        for array in arrays {
            over_layouts::<B, Float>(context, dtype, &array, |tensor, content| {
                expect_float::<B>((f.run)(tensor), dtype, &content.map(f.want), of(dtype), 0.0)
            });
        }
    }
}

fn gradient<B: Backend>(context: &Context<'_, B>, f: &Gradient<B>) {
    for dtype in context.floats(&[f.method]) {
        let absolute = (f.absolute)(dtype) * context.capabilities.slack;
        let relative = if dtype == DType::F64 { 4e-14 } else { 0.0 };
        let tolerance = Tolerance { absolute, relative, ..context.ulps(f.ulps) };
        for shape in SHAPES {
            let (x, grad) = (floats(dtype, shape, f.range, 1), floats(dtype, shape, (-2.0, 2.0), 2));
            let want = |of: &[Array<f64>]| of[0].zip(&of[1], f.want);
            over_operands(context, dtype, &format!("{shape:?}"), &[&x, &grad], want, |t, want| {
                let [x, grad] = take(t);
                expect_float::<B>((f.run)(x, grad), dtype, want, tolerance, 2.0)
            });
        }
        // NaN as the input, NaN and zero as the incoming gradient.
        let x = Array::new([4], vec![f64::NAN, 0.5, 0.5, 0.0]);
        let grad = Array::new([4], vec![1.0, f64::NAN, 0.0, -1.5]);
        let want = |of: &[Array<f64>]| of[0].zip(&of[1], f.want);
        over_operands(context, dtype, "special values", &[&x, &grad], want, |t, want| {
            let [x, grad] = take(t);
            expect_float::<B>((f.run)(x, grad), dtype, want, tolerance, 2.0)
        });
    }
}

/// The slope of negative values is a tensor that broadcasts.
fn prelu<B: Backend>(context: &Context<'_, B>) {
    let cases: [(&[usize], &[usize]); 6] = [
        (&[7], &[7]),
        (&[65], &[1]),
        (&[3, 17], &[1, 1]),
        (&[3, 17], &[1, 17]),
        (&[2, 3, 2, 9], &[1, 3, 1, 1]),
        (&[2, 0, 3], &[1, 1, 3]),
    ];
    for dtype in context.floats(&["prelu"]) {
        for (shape, slopes) in cases {
            let (x, alpha) = (floats(dtype, shape, (-3.0, 3.0), 1), floats(dtype, slopes, (-1.0, 2.0), 2));
            let want = |of: &[Array<f64>]| of[0].zip(&of[1], |x, a| if x < 0.0 { a * x } else { x });
            let case = format!("{shape:?} slopes {slopes:?}");
            over_operands(context, dtype, &case, &[&x, &alpha], want, |t, want| {
                let [x, alpha] = take(t);
                expect_float::<B>(B::prelu(x, alpha), dtype, want, context.ulps(1.0), 0.0)
            });
        }
    }
}

/// Logarithms of the softmax of a line: `x - max - ln(sum(exp(x - max)))`.
fn log_softmax_line(line: &[f64]) -> Vec<f64> {
    if line.iter().any(|x| x.is_nan()) {
        return vec![f64::NAN; line.len()];
    }
    let max = line.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
    let sum: f64 = line.iter().map(|x| (x - max).exp()).sum();
    line.iter().map(|x| x - max - sum.ln()).collect()
}

fn softmax<B: Backend>(context: &Context<'_, B>) {
    const SHAPES: [&[usize]; 8] =
        [&[1], &[17], &[1000], &[5, 3], &[3, 65], &[130, 2], &[2, 3, 17], &[2, 3, 2, 5]];
    for dtype in context.floats(&["softmax", "log_softmax", "softmin"]) {
        for shape in SHAPES {
            // Values so far apart that unshifted exponentials would overflow in half precision.
            for range in [(-4.0, 4.0), (-40.0, 40.0), (900.0, 1000.0)] {
                over_layouts::<B, Float>(context, dtype, &floats(dtype, shape, range, 1), |t, a| {
                    softmax_of(context, dtype, t, a)
                });
            }
        }
        // Masked elements have weight zero. NaN makes its own line NaN and no other; a line without any
        // weight is NaN.
        let nan = f64::NAN;
        let out = f64::NEG_INFINITY;
        let lines = vec![out, 1.0, 2.0, out, 0.5, nan, 1.0, 2.0, out, out, out, out];
        over_layouts::<B, Float>(context, dtype, &Array::new([3, 4], lines), |t, a| {
            softmax_of(context, dtype, t, a)
        });
    }
}

fn softmax_of<B: Backend>(
    context: &Context<'_, B>,
    dtype: DType,
    t: T<B>,
    a: &Array<f64>,
) -> Result<(), String> {
    for axis in 0..a.shape().len() {
        let n = a.shape()[axis];
        let lines = |f: &dyn Fn(&[f64]) -> Vec<f64>| a.map_axis(axis, n, f);
        let logs = lines(&log_softmax_line);
        let finite = || a.data().iter().filter(|x| x.is_finite());
        let [max, min] =
            [finite().fold(f64::MIN, |m, x| m.max(*x)), finite().fold(f64::MAX, |m, x| m.min(*x))];
        let spread = (max - min).abs().max(1.0);
        // Exponentials in the arithmetic's precision, and a sum of n of them. The arguments of `exp` are
        // differences of numbers that the dtype holds, which f32 and f64 round: that error grows with the
        // spread.
        let relative = epsilon(dtype) * (4.0 + 0.5 * (n as f64).sqrt() + 2.0 * spread);
        let tolerance = Tolerance { relative, ..context.ulps(2.0) };
        let got = B::softmax(t.clone(), axis);
        expect_float::<B>(got, dtype, &logs.map(f64::exp), tolerance, 0.0)
            .map_err(|e| format!("softmax of axis {axis}: {e}"))?;
        let negative = lines(&|line| log_softmax_line(&line.iter().map(|x| -x).collect::<Vec<_>>()));
        let got = B::softmin(t.clone(), axis);
        expect_float::<B>(got, dtype, &negative.map(f64::exp), tolerance, 0.0)
            .map_err(|e| format!("softmin of axis {axis}: {e}"))?;
        // A difference, whose error is relative to the shifted element, not to the result.
        let tolerance = Tolerance { absolute: epsilon(dtype) * 4.0, ..context.ulps(2.0) };
        expect_float::<B>(B::log_softmax(t.clone(), axis), dtype, &logs, tolerance, spread)
            .map_err(|e| format!("log_softmax of axis {axis}: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_accurate_in_both_tails() {
        // Tabulated values, to 16 digits.
        let known = [
            (-10.0, 7.619853024160526e-24),
            (-5.0, 2.866515718791939e-7),
            (-1.0, 0.15865525393145705),
            (0.5, 0.6914624612740131),
            (1.96, 0.9750021048517795),
        ];
        for (x, want) in known {
            assert!((normal_cdf(x) / want - 1.0).abs() < 1e-14, "{x}: {}", normal_cdf(x));
        }
        assert_eq!((normal_cdf(f64::INFINITY), normal_cdf(f64::NEG_INFINITY)), (1.0, 0.0));
        assert!(normal_cdf(f64::NAN).is_nan());
    }
}
