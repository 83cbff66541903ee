//! Elementwise float functions of two operands, tensors or scalars.

use crate::array::Array;
use crate::compare::round_to;
use crate::kind::{Float, Int, Kind};
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_float, floats, ints, over_layouts, over_layouts2, upload};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar};

/// Pairs of different shapes that broadcast.
const BROADCAST: [(&[usize], &[usize]); 6] = [
    (&[3, 17], &[1, 17]),
    (&[3, 17], &[3, 1]),
    (&[1, 17], &[3, 1]),
    (&[2, 3, 5], &[1, 3, 1]),
    (&[1, 1], &[4, 33]),
    (&[0, 3], &[1, 3]),
];

/// Special values, all pairs of which are tested.
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

/// Remainder with the sign of the divisor, like Python's `%` and as Burn documents `remainder`.
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
    rows.push(Row::new(&["float_powf_scalar_impl"], |context| {
        scalars(context, "float_powf_scalar_impl", B::float_powf_scalar_impl, &[1.75, -0.5, 3.0], f64::powf)
    }));
    rows.push(Row::new(&["float_powi_scalar", "float_powi_scalar_impl"], |context| {
        let exponents = [0.0, 1.0, 2.0, 3.0, 7.0, -1.0, -2.0];
        scalars(context, "float_powi_scalar", B::float_powi_scalar, &exponents, f64::powf);
        scalars(context, "float_powi_scalar_impl", B::float_powi_scalar_impl, &exponents, f64::powf)
    }));
    rows.push(Row::new(&["float_powi"], powi));
    rows.push(Row::new(&["float_clamp", "float_clamp_min", "float_clamp_max"], clamp));
    rows
}

/// Powers with a scalar exponent; bases of both signs if the exponent is an integer.
fn scalars<B: Backend>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(FloatTensor<B>, Scalar) -> FloatTensor<B>,
    scalars: &[f64],
    want: fn(f64, f64) -> f64,
) {
    for dtype in context.floats(&[method]) {
        for shape in SHAPES {
            for &value in scalars {
                let whole = value.fract() == 0.0;
                let array = floats(dtype, shape, (if whole { -3.0 } else { 0.1 }, 4.0), 1);
                let scalar = if whole { Scalar::Int(value as i64) } else { Scalar::Float(value) };
                over_layouts::<B, Float>(context, dtype, &array, |t, a| {
                    let want = a.map(|a| want(a, value));
                    expect_float::<B>(run(t, scalar), dtype, &want, context.ulps(4.0), 0.0)
                });
            }
        }
    }
}

/// Integer exponents in a tensor of their own dtype.
fn powi<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_powi"]) {
        for exponents in context.ints(&["float_powi"]) {
            for shape in SHAPES {
                let (a, b) = (floats(dtype, shape, (-3.0, 4.0), 1), ints(exponents, shape, (-3, 6), 2));
                over_layouts2::<B, Float, Int>(context, (dtype, &a), (exponents, &b), |ta, tb, a, b| {
                    let want = a.zip(b, |a, b| a.powi(b as i32));
                    expect_float::<B>(B::float_powi(ta, tb), dtype, &want, context.ulps(4.0), 0.0)
                });
            }
        }
    }
}

/// NaN stays NaN.
fn clamp<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_clamp", "float_clamp_min", "float_clamp_max"]) {
        for shape in SHAPES {
            for (low, high) in [(-2.0, 3.0), (0.5, 0.5), (f64::NEG_INFINITY, 1.0), (-1.0, f64::INFINITY)] {
                let above = |a: f64| if a < low { low } else { a };
                let below = |a: f64| if a > high { high } else { a };
                let array = <Float as Kind<B>>::sample(dtype, shape, 1).map(|x| round_to(dtype, x / 20.0));
                over_layouts::<B, Float>(context, dtype, &array, |t, a| {
                    <Float as Kind<B>>::expect(
                        B::float_clamp_min(t.clone(), low.into()),
                        dtype,
                        &a.map(above),
                    )?;
                    <Float as Kind<B>>::expect(
                        B::float_clamp_max(t.clone(), high.into()),
                        dtype,
                        &a.map(below),
                    )?;
                    let want = a.map(|a| above(below(a)));
                    <Float as Kind<B>>::expect(B::float_clamp(t, low.into(), high.into()), dtype, &want)
                });
            }
        }
    }
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

/// A quotient near an integer may round either way, so operands are multiples of a quarter, which divide
/// exactly.
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
