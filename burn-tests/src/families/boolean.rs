//! Logic, and conversions from booleans.

use crate::compare::Tolerance;
use crate::kind::Bool;
use crate::row::{Context, Row};
use crate::support::{SHAPES, bools, expect_bool, expect_float, expect_int, over_layouts, over_layouts2};
use burn_backend::tensor::BoolTensor;
use burn_backend::{Backend, FloatDType, IntDType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! binary {
        ($method:ident, $want:expr) => {
            Row::new(&[stringify!($method)], |context| {
                binary(context, stringify!($method), B::$method, $want)
            })
        };
    }
    vec![
        binary!(bool_and, |a, b| a & b),
        binary!(bool_or, |a, b| a | b),
        binary!(bool_xor, |a, b| a ^ b),
        binary!(bool_equal, |a, b| a == b),
        binary!(bool_not_equal, |a, b| a != b),
        Row::new(&["bool_not", "bool_equal_elem", "bool_not_equal_elem"], unary),
        Row::new(&["bool_into_int", "bool_into_float"], convert),
        Row::new(&["bool_any", "bool_all", "bool_any_dim", "bool_all_dim"], reduce),
    ]
}

fn binary<B: Backend>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(BoolTensor<B>, BoolTensor<B>) -> BoolTensor<B>,
    want: fn(bool, bool) -> bool,
) {
    for dtype in context.bools(&[method]) {
        let pairs = SHAPES.iter().map(|&s| (s, s)).chain([(&[3, 17][..], &[1, 17][..]), (&[3, 1], &[3, 17])]);
        for (left, right) in pairs {
            let (a, b) = (bools(left, 1), bools(right, 2));
            over_layouts2::<B, Bool, Bool>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                expect_bool::<B>(run(ta, tb), dtype, &a.zip(b, want))
            });
        }
    }
}

fn unary<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.bools(&["bool_not", "bool_equal_elem", "bool_not_equal_elem"]) {
        for shape in SHAPES {
            over_layouts::<B, Bool>(context, dtype, &bools(shape, 1), |t, a| {
                expect_bool::<B>(B::bool_equal_elem(t.clone(), true.into()), dtype, a)?;
                expect_bool::<B>(B::bool_not_equal_elem(t.clone(), true.into()), dtype, &a.map(|a| !a))?;
                expect_bool::<B>(B::bool_not(t), dtype, &a.map(|a| !a))
            });
        }
    }
}

fn convert<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.bools(&["bool_into_int", "bool_into_float"]) {
        for shape in SHAPES {
            over_layouts::<B, Bool>(context, dtype, &bools(shape, 1), |t, a| {
                for out in context.ints(&["bool_into_int"]) {
                    let got = B::bool_into_int(t.clone(), IntDType::from(out));
                    expect_int::<B>(got, out, &a.map(i128::from))?;
                }
                for out in context.floats(&["bool_into_float"]) {
                    let got = B::bool_into_float(t.clone(), FloatDType::from(out));
                    expect_float::<B>(got, out, &a.map(|a| a as u8 as f64), Tolerance::EXACT, 0.0)?;
                }
                Ok(())
            });
        }
    }
}

fn reduce<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.bools(&["bool_any", "bool_all", "bool_any_dim", "bool_all_dim"]) {
        for shape in SHAPES {
            // Mostly false and mostly true, so that both outcomes occur.
            for rare in [true, false] {
                let (x, y, z) = (bools(shape, 1), bools(shape, 2), bools(shape, 3));
                let array = x.zip(&y, |a, b| a & b).zip(&z, |a, b| (a & b) == rare);
                over_layouts::<B, Bool>(context, dtype, &array, |t, a| {
                    let all = |v: &[bool]| v.iter().all(|&b| b);
                    let any = |v: &[bool]| v.iter().any(|&b| b);
                    let whole = |value| crate::array::Array::new([1], vec![value]);
                    expect_bool::<B>(B::bool_any(t.clone()), dtype, &whole(any(a.data())))?;
                    expect_bool::<B>(B::bool_all(t.clone()), dtype, &whole(all(a.data())))?;
                    for axis in 0..a.shape().len() {
                        expect_bool::<B>(B::bool_any_dim(t.clone(), axis), dtype, &a.fold_axis(axis, any))?;
                        expect_bool::<B>(B::bool_all_dim(t.clone(), axis), dtype, &a.fold_axis(axis, all))?;
                    }
                    Ok(())
                });
            }
        }
    }
}
