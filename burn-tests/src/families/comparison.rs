//! Comparisons of floats and integers, with tensors and with scalars, into every boolean store.

use crate::array::Array;
use crate::kind::{Float, Int};
use crate::row::{Context, Row};
use crate::support::{SHAPES, expect_bool, floats, ints, over_layouts, over_layouts2, upload};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, BoolDType, DType, Scalar};

type Compare<T, B> = fn(T, T, BoolDType) -> BoolTensor<B>;
type CompareElem<T, B> = fn(T, Scalar, BoolDType) -> BoolTensor<B>;

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    macro_rules! pair {
        ($float:ident, $float_elem:ident, $int:ident, $int_elem:ident, $op:tt) => {
            [
                Row::new(&[stringify!($float), stringify!($float_elem)], |context| {
                    float(context, stringify!($float), B::$float, B::$float_elem, |a, b| a $op b)
                }),
                Row::new(&[stringify!($int), stringify!($int_elem)], |context| {
                    int(context, stringify!($int), B::$int, B::$int_elem, |a, b| a $op b)
                }),
            ]
        };
    }
    [
        pair!(float_equal, float_equal_elem, int_equal, int_equal_elem, ==),
        pair!(float_not_equal, float_not_equal_elem, int_not_equal, int_not_equal_elem, !=),
        pair!(float_greater, float_greater_elem, int_greater, int_greater_elem, >),
        pair!(float_greater_equal, float_greater_equal_elem, int_greater_equal, int_greater_equal_elem, >=),
        pair!(float_lower, float_lower_elem, int_lower, int_lower_elem, <),
        pair!(float_lower_equal, float_lower_equal_elem, int_lower_equal, int_lower_equal_elem, <=),
    ]
    .into_iter()
    .flatten()
    .chain([Row::new(&["float_is_nan", "float_is_inf"], classify)])
    .collect()
}

fn stores<B: Backend>(context: &Context<'_, B>) -> Vec<BoolDType> {
    context.capabilities.bools.clone()
}

fn float<B: Backend>(
    context: &Context<'_, B>,
    method: &str,
    tensors: Compare<FloatTensor<B>, B>,
    scalar: CompareElem<FloatTensor<B>, B>,
    want: fn(f64, f64) -> bool,
) {
    for dtype in context.floats(&[method]) {
        // A few distinct values, so that equality occurs.
        let few = |a: Array<f64>| a.map(|x| x.round());
        for store in stores(context) {
            for shape in SHAPES {
                let a = few(floats(dtype, shape, (-3.0, 3.0), 1));
                let b = few(floats(dtype, shape, (-3.0, 3.0), 2));
                over_layouts2::<B, Float, Float>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                    expect_bool::<B>(tensors(ta, tb, store), store.into(), &a.zip(b, want))
                });
                for value in [1.0, 0.5, f64::NAN] {
                    over_layouts::<B, Float>(context, dtype, &a, |t, a| {
                        expect_bool::<B>(
                            scalar(t, value.into(), store),
                            store.into(),
                            &a.map(|a| want(a, value)),
                        )
                    });
                }
            }
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0];
            let a = Array::from_fn([6, 6], |i| special[i[0]]);
            let b = Array::from_fn([6, 6], |i| special[i[1]]);
            context.attempt(
                || format!("{dtype:?} special values"),
                || {
                    let (ta, tb) =
                        (upload::<B, Float>(context, &a, dtype), upload::<B, Float>(context, &b, dtype));
                    expect_bool::<B>(tensors(ta, tb, store), store.into(), &a.zip(&b, want))
                },
            );
        }
    }
}

fn int<B: Backend>(
    context: &Context<'_, B>,
    method: &str,
    tensors: Compare<IntTensor<B>, B>,
    scalar: CompareElem<IntTensor<B>, B>,
    want: fn(i128, i128) -> bool,
) {
    for dtype in context.ints(&[method]) {
        for store in stores(context) {
            for shape in SHAPES {
                let a = ints(dtype, shape, (-3, 4), 1);
                let b = ints(dtype, shape, (-3, 4), 2);
                over_layouts2::<B, Int, Int>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                    expect_bool::<B>(tensors(ta, tb, store), store.into(), &a.zip(b, want))
                });
                // Scalars within the dtype, below it and above it: an 8-bit tensor is less than 300
                // everywhere.
                for value in [1i64, -1, 300, -300] {
                    over_layouts::<B, Int>(context, dtype, &a, |t, a| {
                        let want = a.map(|a| want(a, value.into()));
                        expect_bool::<B>(scalar(t, value.into(), store), store.into(), &want)
                    });
                }
            }
            if dtype == DType::U64 {
                let large = Array::new([3], vec![u64::MAX as i128, i64::MAX as i128 + 1, 5]);
                context.attempt(
                    || "values and scalars above i64::MAX".into(),
                    || {
                        let tensor = upload::<B, Int>(context, &large, dtype);
                        let want = large.map(|a| want(a, u64::MAX.into()));
                        expect_bool::<B>(scalar(tensor, u64::MAX.into(), store), store.into(), &want)
                    },
                );
            }
        }
    }
}

fn classify<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_is_nan", "float_is_inf"]) {
        for store in stores(context) {
            for shape in SHAPES {
                let mut k = 0;
                let array = floats(dtype, shape, (-3.0, 3.0), 1).map(|x| {
                    k += 1;
                    [x, f64::NAN, f64::INFINITY, x, f64::NEG_INFINITY][k % 5]
                });
                over_layouts::<B, Float>(context, dtype, &array, |t, a| {
                    expect_bool::<B>(B::float_is_nan(t.clone(), store), store.into(), &a.map(f64::is_nan))?;
                    expect_bool::<B>(B::float_is_inf(t, store), store.into(), &a.map(f64::is_infinite))
                });
            }
        }
    }
}
