//! Integer arithmetic: exact, wrapping as two's complement.

use crate::kind::Int;
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_int, int_range, ints, over_layouts, over_layouts2, wrap};
use burn_backend::tensor::IntTensor;
use burn_backend::{Backend, Scalar};

struct Function<B: Backend> {
    methods: [&'static str; 2],
    run: fn(IntTensor<B>, IntTensor<B>) -> IntTensor<B>,
    run_scalar: fn(IntTensor<B>, Scalar) -> IntTensor<B>,
    want: fn(i128, i128) -> i128,
    /// Smallest and largest right operand; the left one takes the whole range of the dtype.
    right: (i128, i128),
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
            }
        };
    }
    const ANY: (i128, i128) = (i64::MIN as i128, u64::MAX as i128 + 1);
    let functions: Vec<Function<B>> = vec![
        function!(int_add, int_add_scalar, |a, b| a + b, ANY),
        function!(int_sub, int_sub_scalar, |a, b| a - b, ANY),
        // Products of 64-bit operands fit i128.
        function!(int_mul, int_mul_scalar, |a, b| a.wrapping_mul(b), ANY),
        function!(int_div, int_div_scalar, |a, b| a / b, (1, 20)),
        function!(int_remainder, int_remainder_scalar, |a, b| a.rem_euclid(b), (1, 20)),
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
        for shape in SHAPES {
            let (a, b) = (ints(dtype, shape, (min, max + 1), 1), ints(dtype, shape, f.right, 2));
            over_layouts2::<B, Int, Int>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                expect_int::<B>((f.run)(ta, tb), dtype, &a.zip(b, want))
            });
            over_layouts::<B, Int>(context, dtype, &a, |t, a| {
                expect_int::<B>((f.run_scalar)(t, 3i64.into()), dtype, &a.map(|a| want(a, 3)))
            });
        }
        for (left, right) in [([3, 17], [1, 17]), ([3, 17], [3, 1]), ([1, 17], [3, 1])] {
            let (a, b) = (ints(dtype, &left, (min, max + 1), 1), ints(dtype, &right, f.right, 2));
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
            // The extremes have to be there: the absolute value of the smallest wraps.
            let mut first = true;
            let array = ints(dtype, shape, (min, max + 1), 1)
                .map(|x| if core::mem::take(&mut first) { min } else { x });
            over_layouts::<B, Int>(context, dtype, &array, |t, a| {
                expect_int::<B>(run(t), dtype, &a.map(|a| wrap(dtype, want(a))))
            });
        }
    }
}
