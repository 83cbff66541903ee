//! Integer arithmetic: exact, wrapping as two's complement.

use crate::kind::Int;
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_int, int_range, ints, over_layouts, over_layouts2, wrap};
use burn_backend::tensor::IntTensor;
use burn_backend::{Backend, DType, Scalar};

struct Function<B: Backend> {
    methods: [&'static str; 2],
    run: fn(IntTensor<B>, IntTensor<B>) -> IntTensor<B>,
    run_scalar: fn(IntTensor<B>, Scalar) -> IntTensor<B>,
    want: fn(i128, i128) -> i128,
    /// Range of the right operand; the left operand takes the whole range of the dtype.
    right: (i128, i128),
    /// Whether the right operand must not be zero.
    divides: bool,
}

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! function {
        ($method:ident, $scalar:ident, $want:expr, $right:expr) => {
            Function {
                methods: [stringify!($method), stringify!($scalar)],
                run: B::$method,
                run_scalar: B::$scalar,
                want: $want,
                right: $right,
                divides: $right == DIVISORS,
            }
        };
    }
    const DIVISORS: (i128, i128) = (-20, 20);
    const ANY: (i128, i128) = (i64::MIN as i128, u64::MAX as i128 + 1);
    let functions: Vec<Function<B>> = vec![
        function!(int_add, int_add_scalar, |a, b| a + b, ANY),
        function!(int_sub, int_sub_scalar, |a, b| a - b, ANY),
        // Products of 64-bit operands fit into i128, except those of two large `u64`, which wrap.
        function!(int_mul, int_mul_scalar, |a, b| a.wrapping_mul(b), ANY),
        // The remainder has the sign of the divisor, as in Python and PyTorch. Neither Burn nor PyTorch
        // defines the result of a division by zero.
        function!(int_div, int_div_scalar, |a, b| a / b, DIVISORS),
        function!(int_remainder, int_remainder_scalar, |a, b| (a % b + b) % b, DIVISORS),
        function!(bitwise_and, bitwise_and_scalar, |a, b| a & b, ANY),
        function!(bitwise_or, bitwise_or_scalar, |a, b| a | b, ANY),
        function!(bitwise_xor, bitwise_xor_scalar, |a, b| a ^ b, ANY),
        function!(bitwise_left_shift, bitwise_left_shift_scalar, |a, b| a << b, (0, 8)),
        function!(bitwise_right_shift, bitwise_right_shift_scalar, |a, b| a >> b, (0, 8)),
    ];
    let mut rows: Vec<Row<B>> = functions
        .into_iter()
        .map(|f| Row::new(&f.methods.clone(), move |context| binary(context, &f)))
        .collect();
    macro_rules! unary {
        ($method:ident, $want:expr) => {
            rows.push(Row::new(&[stringify!($method)], |context| {
                unary(context, stringify!($method), B::$method, $want)
            }))
        };
    }
    rows.push(Row::new(&["int_powi", "int_powi_scalar", "int_powi_scalar_impl"], powi));
    rows.push(Row::new(&["int_clamp", "int_clamp_min", "int_clamp_max"], clamp));
    unary!(int_neg, |a| -a);
    unary!(int_abs, |a| a.abs());
    unary!(int_sign, |a| a.signum());
    unary!(bitwise_not, |a| !a);
    rows
}

fn binary<B: Backend>(context: &Context<'_, B>, f: &Function<B>) {
    for dtype in context.ints(&f.methods) {
        let want = |a, b| wrap(dtype, (f.want)(a, b));
        let (min, max) = int_range(dtype);
        let right =
            |shape: &[usize]| ints(dtype, shape, f.right, 2).map(|b| if f.divides && b == 0 { 7 } else { b });
        for shape in SHAPES {
            let (a, b) = (ints(dtype, shape, (min, max + 1), 1), right(shape));
            over_layouts2::<B, Int, Int>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                expect_int::<B>((f.run)(ta, tb), dtype, &a.zip(b, want))
            });
            over_layouts::<B, Int>(context, dtype, &a, |t, a| {
                expect_int::<B>((f.run_scalar)(t, 3i64.into()), dtype, &a.map(|a| want(a, 3)))
            });
        }
        for (left, shape) in [([3, 17], [1, 17]), ([3, 17], [3, 1]), ([1, 17], [3, 1])] {
            let (a, b) = (ints(dtype, &left, (min, max + 1), 1), right(&shape));
            over_layouts2::<B, Int, Int>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                expect_int::<B>((f.run)(ta, tb), dtype, &a.zip(b, want))
            });
        }
    }
}

fn unary<B: Backend>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(IntTensor<B>) -> IntTensor<B>,
    want: fn(i128) -> i128,
) {
    for dtype in context.ints(&[method]) {
        let (min, max) = int_range(dtype);
        for shape in SHAPES {
            // The smallest value has to be present: its absolute value wraps.
            let mut first = true;
            let array = ints(dtype, shape, (min, max + 1), 1)
                .map(|x| if core::mem::take(&mut first) { min } else { x });
            over_layouts::<B, Int>(context, dtype, &array, |t, a| {
                expect_int::<B>(run(t), dtype, &a.map(|a| wrap(dtype, want(a))))
            });
        }
    }
}

/// Powers that fit into every dtype; with a negative exponent, the truncated reciprocal.
fn powi<B: Backend>(context: &Context<'_, B>) {
    let power = |a: i128, b: i128| match b {
        0.. => a.pow(b as u32),
        _ => 1 / a.pow(b.unsigned_abs() as u32),
    };
    for dtype in context.ints(&["int_powi", "int_powi_scalar", "int_powi_scalar_impl"]) {
        for shape in SHAPES {
            let a = ints(dtype, shape, (-4, 5), 1).map(|a| if a == 0 { 3 } else { a });
            let b = ints(dtype, shape, (-3, 4), 2);
            over_layouts2::<B, Int, Int>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                expect_int::<B>(B::int_powi(ta, tb), dtype, &a.zip(b, power))
            });
            for exponent in [0, 1, 2, 3, -1, -2] {
                over_layouts::<B, Int>(context, dtype, &a, |t, a| {
                    let (want, scalar) = (a.map(|a| power(a, exponent)), Scalar::Int(exponent as i64));
                    expect_int::<B>(B::int_powi_scalar(t.clone(), scalar), dtype, &want)?;
                    expect_int::<B>(B::int_powi_scalar_impl(t, scalar), dtype, &want)
                });
            }
        }
    }
}

/// A bound outside of the dtype's range clamps to the nearest end of the range.
fn clamp<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_clamp", "int_clamp_min", "int_clamp_max"]) {
        let (min, max) = int_range(dtype);
        for shape in SHAPES {
            let array = ints(dtype, shape, (min, max + 1), 1);
            for (low, high) in [(-20i64, 30i64), (3, 100), (-300, 40), (5, 100_000), (i64::MIN, i64::MAX)] {
                over_layouts::<B, Int>(context, dtype, &array, |t, a| {
                    let got = B::int_clamp_min(t.clone(), low.into());
                    expect_int::<B>(got, dtype, &a.map(|a| a.max(held(dtype, low))))?;
                    let got = B::int_clamp_max(t.clone(), high.into());
                    expect_int::<B>(got, dtype, &a.map(|a| a.min(held(dtype, high))))?;
                    let got = B::int_clamp(t, low.into(), high.into());
                    expect_int::<B>(got, dtype, &a.map(|a| a.max(held(dtype, low)).min(held(dtype, high))))
                });
            }
            // A bound outside of the range on the opposite side, which leaves a single value.
            for (bound, all) in [(i64::MAX, held(dtype, i64::MAX)), (i64::MIN, held(dtype, i64::MIN))] {
                over_layouts::<B, Int>(context, dtype, &array, |t, a| {
                    let got = if bound > 0 {
                        B::int_clamp_min(t, bound.into())
                    } else {
                        B::int_clamp_max(t, bound.into())
                    };
                    let want = a.map(|a| if bound > 0 { a.max(all) } else { a.min(all) });
                    expect_int::<B>(got, dtype, &want)
                });
            }
        }
    }
}

/// The value of the dtype that is nearest to a bound.
fn held(dtype: DType, bound: i64) -> i128 {
    let (min, max) = int_range(dtype);
    i128::from(bound).clamp(min, max)
}
