//! Elementwise float functions of one operand.

use crate::array::Array;
use crate::compare::{Tolerance, compare_floats, round_to};
use crate::kind::{Float, Kind};
use crate::layout::{LAYOUTS, lay_out};
use crate::row::{Context, Row};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};

/// A function, its definition in `f64`, the range to sample, and the error allowed in ULP of the result's dtype.
struct Function<B: Backend> {
    method: &'static str,
    run: fn(FloatTensor<B>) -> FloatTensor<B>,
    want: fn(f64) -> f64,
    range: (f64, f64),
    ulps: f64,
}

/// The values of every dtype's special classes.
const SPECIAL: [f64; 10] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e-40, -3e-41, 65504.0];

/// Lengths around vector widths, and shapes for the layouts.
const SHAPES: [&[usize]; 8] = [&[], &[1], &[7], &[33], &[3, 5], &[2, 3, 17], &[2, 0, 3], &[2, 3, 2, 9]];

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
        function!(float_acosh, f64::acosh, 1.0, 50.0, 4.0),
        function!(float_atanh, f64::atanh, -0.99, 0.99, 4.0),
        function!(float_floor, f64::floor, -10.0, 10.0, 0.0),
        function!(float_ceil, f64::ceil, -10.0, 10.0, 0.0),
        function!(float_trunc, f64::trunc, -10.0, 10.0, 0.0),
        function!(float_round, f64::round_ties_even, -10.0, 10.0, 0.0),
    ];
    functions.into_iter().map(|f| Row::new(&[f.method], move |context| check(context, &f))).collect()
}

fn check<B: Backend>(context: &Context<'_, B>, f: &Function<B>) {
    for dtype in context.floats(&[f.method]) {
        let tolerance = Tolerance::ulps(f.ulps * context.capabilities.slack);
        for shape in SHAPES {
            let mut state = 1u64;
            let array = Array::from_fn(shape.to_vec(), |_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
                round_to(dtype, f.range.0 + unit * (f.range.1 - f.range.0))
            });
            for layout in LAYOUTS {
                let Some(laid) = lay_out::<B, Float>(&array, dtype, layout, &context.device) else {
                    continue;
                };
                let what = |mode| move || format!("{dtype:?} {shape:?} {layout:?} {mode}");
                let (tensor, content, witness) = laid.share();
                context.attempt(what("shared"), || {
                    let got = <Float as Kind<B>>::into_data((f.run)(tensor));
                    compare(dtype, &got, &content, f, tolerance)?;
                    witness.verify()
                });
                let laid = lay_out::<B, Float>(&array, dtype, layout, &context.device).expect("as above");
                let (tensor, content) = laid.unique();
                context.attempt(what("unique"), || {
                    compare(dtype, &<Float as Kind<B>>::into_data((f.run)(tensor)), &content, f, tolerance)
                });
            }
        }
        let special = Array::new([SPECIAL.len()], SPECIAL.map(|x| round_to(dtype, x)).to_vec());
        let data = <Float as Kind<B>>::encode(&special, dtype);
        context.attempt(
            || format!("{dtype:?} special values"),
            || {
                let got = <Float as Kind<B>>::into_data((f.run)(B::float_from_data(data, &context.device)));
                compare(dtype, &got, &special, f, tolerance)
            },
        );
    }
}

fn compare<B: Backend>(
    dtype: DType,
    got: &burn_backend::TensorData,
    content: &Array<f64>,
    f: &Function<B>,
    tolerance: Tolerance,
) -> Result<(), String> {
    if got.dtype != dtype {
        return Err(format!("the result has dtype {:?}", got.dtype));
    }
    compare_floats(dtype, &<Float as Kind<B>>::decode(got), &content.map(f.want), tolerance, 0.0)
}
