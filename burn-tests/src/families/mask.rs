//! Selection by masks, and the positions where a mask is true.

use crate::array::{Array, for_each_index};
use crate::compare::round_to;
use crate::kind::{Bool, Float, Int, Kind};
use crate::row::{Context, Row};
use crate::support::{SHAPES, bools, expect_int, over_layouts, over_layouts2, upload};
use burn_backend::tensor::BoolTensor;
use burn_backend::{Backend, DType, Scalar};
use futures_lite::future::block_on;

/// Tensor, mask and value of shapes that broadcast together.
const BROADCAST: [[&[usize]; 3]; 4] = [
    [&[3, 17], &[1, 17], &[3, 17]],
    [&[3, 17], &[3, 1], &[3, 1]],
    [&[3, 17], &[3, 17], &[1, 1]],
    [&[2, 1, 5], &[1, 3, 1], &[1, 3, 5]],
];

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut rows = Vec::new();
    macro_rules! kind {
        ($kind:ident, $mask_where:ident, $mask_fill:ident, $scalars:expr) => {
            rows.push(Row::new(&[stringify!($mask_where)], |context| {
                mask_where::<B, $kind>(context, stringify!($mask_where), B::$mask_where)
            }));
            rows.push(Row::new(&[stringify!($mask_fill)], |context| {
                mask_fill::<B, $kind>(context, stringify!($mask_fill), B::$mask_fill, $scalars)
            }));
        };
    }
    kind!(Float, float_mask_where, float_mask_fill, |dtype| {
        let values = [1.5, f64::NAN, f64::NEG_INFINITY, -0.0, 0.1];
        let floats = values.map(|x| (Scalar::Float(x), round_to(dtype, x)));
        floats.into_iter().chain([(Scalar::Int(-3), -3.0), (Scalar::UInt(7), 7.0)]).collect()
    });
    kind!(Int, int_mask_where, int_mask_fill, |dtype| {
        let (min, max) = crate::support::int_range(dtype);
        let limits = [
            (max <= i64::MAX as i128).then_some((Scalar::Int(min as i64), min)),
            Some((Scalar::UInt(max as u64), max)),
        ];
        [(Scalar::Int(3), 3)].into_iter().chain(limits.into_iter().flatten()).collect()
    });
    kind!(Bool, bool_mask_where, bool_mask_fill, |_| vec![
        (Scalar::Bool(true), true),
        (Scalar::Bool(false), false)
    ]);
    rows.push(Row::new(&["bool_argwhere"], argwhere));
    rows
}

fn mask_where<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, BoolTensor<B>, K::Tensor) -> K::Tensor,
) {
    for dtype in K::dtypes(context, &[method]) {
        for store in context.bools(&[method]) {
            for [shape, mask, value] in SHAPES.map(|shape| [shape; 3]).into_iter().chain(BROADCAST) {
                let (array, value) = (K::sample(dtype, shape, 1), K::sample(dtype, value, 2));
                let mask = bools(mask, 3);
                let want = |a: &Array<K::Value>, m: &Array<bool>, v: &Array<K::Value>| {
                    let chosen = m.zip(v, |m, v| m.then_some(v));
                    a.zip(&chosen, |a, chosen| chosen.unwrap_or(a))
                };
                over_layouts2::<B, K, Bool>(context, (dtype, &array), (store, &mask), |t, tm, a, m| {
                    let tv = upload::<B, K>(context, &value, dtype);
                    K::expect(run(t, tm, tv), dtype, &want(a, m, &value))
                });
                over_layouts2::<B, K, K>(context, (dtype, &array), (dtype, &value), |t, tv, a, v| {
                    let tm = upload::<B, Bool>(context, &mask, store);
                    K::expect(run(t, tm, tv), dtype, &want(a, &mask, v))
                });
            }
        }
    }
}

fn mask_fill<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(K::Tensor, BoolTensor<B>, Scalar) -> K::Tensor,
    scalars: fn(DType) -> Vec<(Scalar, K::Value)>,
) {
    for dtype in K::dtypes(context, &[method]) {
        for store in context.bools(&[method]) {
            for [shape, mask, _] in SHAPES.map(|shape| [shape; 3]).into_iter().chain(BROADCAST) {
                let (array, mask) = (K::sample(dtype, shape, 1), bools(mask, 3));
                for (scalar, value) in scalars(dtype) {
                    over_layouts2::<B, K, Bool>(context, (dtype, &array), (store, &mask), |t, tm, a, m| {
                        let want = a.zip(m, |a, m| if m { value } else { a });
                        K::expect(run(t, tm, scalar), dtype, &want)
                    });
                }
            }
        }
    }
}

fn argwhere<B: Backend>(context: &Context<'_, B>) {
    for store in context.bools(&["bool_argwhere"]) {
        for out in context.ints(&["bool_argwhere"]) {
            for shape in SHAPES {
                over_layouts::<B, Bool>(context, store, &bools(shape, 1), |t, a| {
                    let mut places = Vec::new();
                    for_each_index(a.shape(), |index| {
                        if a.at(index) {
                            places.extend(index.iter().map(|&i| i as i128));
                        }
                    });
                    let count = a.data().iter().filter(|&&b| b).count();
                    let want = Array::new([count, a.shape().len()], places);
                    expect_int::<B>(block_on(B::bool_argwhere(t, out.into())), out, &want)
                });
            }
        }
    }
}
