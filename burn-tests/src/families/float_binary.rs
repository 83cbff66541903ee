//! Elementwise float functions of two operands, tensors or scalars.

use crate::array::Array;
use crate::compare::round_to;
use crate::kind::Float;
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_float, floats, over_layouts, over_layouts2, upload};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar};

/// Pairs of shapes that broadcast, beyond those that are equal.
const BROADCAST: [(&[usize], &[usize]); 6] = [
    (&[3, 17], &[1, 17]),
    (&[3, 17], &[3, 1]),
    (&[1, 17], &[3, 1]),
    (&[2, 3, 5], &[1, 3, 1]),
    (&[1, 1], &[4, 33]),
    (&[0, 3], &[1, 3]),
];

/// Every pair of these meets in the special-value test.
const SPECIAL: [f64; 9] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.5, -3.0];

struct Function<B: Backend> {
    method: &'static str,
    run: fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
    scalar_method: Option<&'static str>,
    run_scalar: fn(FloatTensor<B>, Scalar) -> FloatTensor<B>,
    want: fn(f64, f64) -> f64,
    range: (f64, f64),
    ulps: f64,
}

/// Remainder with the sign of the divisor, as Python's `%` and Burn's documentation of `remainder` have it.
fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! function {
        ($method:ident, $scalar:ident, $want:expr, $range:expr, $ulps:expr) => {
            Function {
                method: stringify!($method),
                run: B::$method,
                scalar_method: Some(stringify!($scalar)),
                run_scalar: B::$scalar,
                want: $want,
                range: $range,
                ulps: $ulps,
            }
        };
    }
    let functions: Vec<Function<B>> = vec![
        function!(float_add, float_add_scalar, |a, b| a + b, (-10.0, 10.0), 0.5),
        function!(float_sub, float_sub_scalar, |a, b| a - b, (-10.0, 10.0), 0.5),
        function!(float_mul, float_mul_scalar, |a, b| a * b, (-10.0, 10.0), 0.5),
        function!(float_div, float_div_scalar, |a, b| a / b, (0.5, 10.0), 1.0),
        function!(float_powf, float_powf_scalar, f64::powf, (0.1, 4.0), 4.0),
        Function {
            method: "float_atan2",
            run: B::float_atan2,
            scalar_method: None,
            run_scalar: |_, _| unreachable!("atan2 has no scalar form"),
            want: f64::atan2,
            range: (-10.0, 10.0),
            ulps: 4.0,
        },
    ];
    let mut rows: Vec<Row<B>> = functions
        .into_iter()
        .map(|f| {
            let methods: Vec<&'static str> =
                [Some(f.method), f.scalar_method].into_iter().flatten().collect();
            Row::new(&methods, move |context| check(context, &f))
        })
        .collect();
    rows.push(Row::new(&["float_remainder", "float_remainder_scalar"], check_remainder));
    rows
}

fn check<B: Backend>(context: &Context<'_, B>, f: &Function<B>) {
    let tolerance = context.ulps(f.ulps);
    for dtype in context.floats(&[f.method]) {
        let pairs = SHAPES.iter().map(|&s| (s, s)).chain(BROADCAST);
        for (left, right) in pairs {
            let (a, b) = (floats(dtype, left, f.range, 1), floats(dtype, right, f.range, 2));
            over_layouts2::<B, Float, Float>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                expect_float::<B>((f.run)(ta, tb), dtype, &a.zip(b, f.want), tolerance, 0.0)
            });
        }
        special(context, dtype, f);
    }
    let Some(scalar_method) = f.scalar_method else { return };
    for dtype in context.floats(&[scalar_method]) {
        let scalar = round_to(dtype, 1.75);
        for shape in SHAPES {
            over_layouts::<B, Float>(context, dtype, &floats(dtype, shape, f.range, 1), |tensor, a| {
                let want = a.map(|a| (f.want)(a, scalar));
                expect_float::<B>((f.run_scalar)(tensor, scalar.into()), dtype, &want, tolerance, 0.0)
            });
        }
    }
}

/// Every pair of special values.
fn special<B: Backend>(context: &Context<'_, B>, dtype: burn_backend::DType, f: &Function<B>) {
    let n = SPECIAL.len();
    let a = Array::from_fn([n, n], |i| SPECIAL[i[0]]);
    let b = Array::from_fn([n, n], |i| SPECIAL[i[1]]);
    context.attempt(
        || format!("{dtype:?} special values"),
        || {
            let (ta, tb) = (upload::<B, Float>(context, &a, dtype), upload::<B, Float>(context, &b, dtype));
            expect_float::<B>((f.run)(ta, tb), dtype, &a.zip(&b, f.want), context.ulps(f.ulps), 0.0)
        },
    );
}

/// A quotient near an integer may round either way, so operands are multiples of a quarter, which divide exactly.
fn check_remainder<B: Backend>(context: &Context<'_, B>) {
    let quarters = |array: Array<f64>| array.map(|x| (4.0 * x).round() / 4.0);
    for dtype in context.floats(&["float_remainder", "float_remainder_scalar"]) {
        for shape in SHAPES {
            let a = quarters(floats(dtype, shape, (-10.0, 10.0), 1));
            let b = quarters(floats(dtype, shape, (0.5, 4.0), 2)).map(|x| if x == 1.5 { -1.5 } else { x });
            over_layouts2::<B, Float, Float>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                let got = B::float_remainder(ta, tb);
                expect_float::<B>(got, dtype, &a.zip(b, remainder), context.ulps(1.0), 0.0)
            });
            for divisor in [0.75, -0.75] {
                over_layouts::<B, Float>(context, dtype, &a, |tensor, a| {
                    let got = B::float_remainder_scalar(tensor, divisor.into());
                    expect_float::<B>(got, dtype, &a.map(|a| remainder(a, divisor)), context.ulps(1.0), 0.0)
                });
            }
        }
    }
}
