//! Scaled dot-product attention.

use crate::array::Array;
use crate::compare::{Tolerance, compare, is_close};
use crate::kind::{Bool, Float};
use crate::operands::{over_operands, take};
use crate::row::{Context, Row};
use crate::support::{bools, floats, over_layouts, read_float, upload};
use burn_backend::ops::AttentionModuleOptions;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["attention"], plain),
        Row::new(&["attention"], masked),
        Row::new(&["attention"], hidden),
        Row::new(&["attention"], not_a_number),
    ]
}

/// Batch, heads, queries, keys, depth, depth of values.
const SIZES: [[usize; 6]; 7] = [
    [1, 1, 1, 1, 1, 1],
    [2, 3, 5, 7, 8, 8],
    [1, 2, 17, 33, 16, 16],
    [1, 2, 33, 17, 17, 5],
    [2, 1, 1, 65, 9, 33],
    [1, 1, 66, 70, 4, 3],
    [0, 2, 3, 4, 5, 6],
];

/// A result, and its error bound in epsilons: the weighted mean of the values' magnitudes times the weights'
/// relative error.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: f64,
    scale: f64,
}

/// The definition: scores, soft cap, masks, bias, softmax, weighted mean. A query that sees no key gets
/// zeros.
fn attend(
    of: &[Array<f64>],
    mask: Option<&Array<bool>>,
    bias: Option<&Array<f64>>,
    options: AttentionModuleOptions,
) -> Array<Mean> {
    let [batch, heads, queries, depth] = of[0].shape().try_into().expect("four axes");
    let (keys, values) = (of[1].shape()[2], of[2].shape()[3]);
    let scale = options.scale.unwrap_or(1.0 / (depth as f64).sqrt());
    // Of each query: the weights of the keys and their sum, if it sees a key, and the error of the scores.
    let mut queries_seen: Vec<(Option<(Vec<f64>, f64)>, f64)> = Vec::new();
    for p in 0..batch * heads {
        for i in 0..queries {
            let mut slip = 0.0f64;
            let score = |j: usize| {
                let terms = (0..depth).map(|d| {
                    of[0].data()[(p * queries + i) * depth + d] * of[1].data()[(p * keys + j) * depth + d]
                });
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + f64::abs(x)));
                let mut score = sum * scale;
                slip = slip.max(size * scale.abs() * (2.0 + 0.5 * (depth as f64).sqrt()));
                if let Some(cap) = options.softcap {
                    score = cap * (score / cap).tanh();
                    slip += 4.0 * score.abs();
                }
                let future = options.is_causal && j + queries > i + keys;
                let at = [p / heads, p % heads, i, j];
                if future || mask.is_some_and(|mask| mask.at(&at)) {
                    score = f64::NEG_INFINITY;
                }
                let bias = bias.map_or(0.0, |bias| bias.at(&at));
                slip = slip.max(if bias.is_finite() { bias.abs() } else { 0.0 });
                score + bias
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            // NaN among the scores makes the weights and their sum NaN.
            let spoilt = scores.iter().any(|s| s.is_nan());
            let max = scores.iter().fold(f64::NEG_INFINITY, |m, &s| m.max(s));
            let seen = (spoilt || max > f64::NEG_INFINITY).then(|| {
                let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
                let total = weights.iter().sum();
                (weights, total)
            });
            queries_seen.push((seen, slip));
        }
    }
    Array::from_fn([batch, heads, queries, values], |index| {
        let p = index[0] * heads + index[1];
        let (seen, slip) = &queries_seen[p * queries + index[2]];
        let Some((weights, total)) = seen else { return Mean { value: 0.0, scale: 0.0 } };
        let value = |j: usize| of[2].data()[(p * keys + j) * values + index[3]];
        let mean = |f: fn(f64) -> f64| (0..keys).map(|j| weights[j] * f(value(j))).sum::<f64>() / total;
        // An error of `slip` epsilons in the scores changes the weights by the same relative amount; so do
        // the exponentials.
        Mean { value: mean(|v| v), scale: mean(f64::abs) * (4.0 + 2.0 * slip + 0.5 * (keys as f64).sqrt()) }
    })
}

fn expect<B: Backend>(
    context: &Context<'_, B>,
    got: FloatTensor<B>,
    dtype: DType,
    want: &Array<Mean>,
) -> Result<(), String> {
    let accuracy = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let tolerance = context.tolerance(Tolerance { absolute: accuracy, ..Tolerance::ulps(1.0) });
    compare(&read_float::<B>(got, dtype)?, want, |got, want: Mean| {
        is_close(dtype, got, want.value, tolerance, want.scale)
    })
}

/// Query, key and value.
fn inputs(
    dtype: DType,
    [batch, heads, queries, keys, depth, values]: [usize; 6],
    spread: f64,
) -> [Array<f64>; 3] {
    [
        floats(dtype, &[batch, heads, queries, depth], (-spread, spread), 1),
        floats(dtype, &[batch, heads, keys, depth], (-spread, spread), 2),
        floats(dtype, &[batch, heads, keys, values], (-2.0, 2.0), 3),
    ]
}

fn options() -> Vec<AttentionModuleOptions> {
    let none = AttentionModuleOptions::default();
    let all = AttentionModuleOptions { scale: Some(0.7), softcap: Some(3.0), is_causal: true };
    vec![
        none,
        AttentionModuleOptions { scale: Some(-0.3), ..none },
        AttentionModuleOptions { softcap: Some(0.5), ..none },
        AttentionModuleOptions { is_causal: true, ..none },
        all,
    ]
}

fn plain<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["attention"]) {
        for sizes in SIZES {
            // Small scores, and scores whose exponentials overflow half precision.
            for spread in [1.0, 6.0] {
                let [q, k, v] = inputs(dtype, sizes, spread);
                let [batch, heads, queries, keys, ..] = sizes;
                let bias = floats(dtype, &[batch, heads, queries, keys], (-3.0, 3.0), 4);
                for options in options().into_iter().step_by(if spread > 1.0 { 2 } else { 1 }) {
                    let case = format!("{sizes:?} {spread} {options:?}");
                    let want = |of: &[Array<f64>]| attend(of, None, None, options);
                    over_operands(context, dtype, &case, &[&q, &k, &v], want, |t, want| {
                        let [q, k, v] = take(t);
                        expect(context, B::attention(q, k, v, None, None, options), dtype, want)
                    });
                    let biased = |of: &[Array<f64>]| attend(of, None, Some(&of[3]), options);
                    over_operands(context, dtype, &case, &[&q, &k, &v, &bias], biased, |t, want| {
                        let [q, k, v, bias] = take(t);
                        let got = B::attention(q, k, v, None, Some(bias), options);
                        expect(context, got, dtype, want).map_err(|e| format!("biased: {e}"))
                    });
                }
            }
        }
    }
}

fn masked<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["attention"]) {
        for store in context.bools(&["attention"]) {
            for sizes in SIZES {
                let of = inputs(dtype, sizes, 1.0);
                let [batch, heads, queries, keys, ..] = sizes;
                let shape = [batch, heads, queries, keys];
                let bias = floats(dtype, &shape, (-3.0, 3.0), 4);
                // The first query sees no key.
                let random = bools(&shape, 5);
                let mask = Array::from_fn(shape, |index| index[2] == 0 || random.at(index));
                for options in options() {
                    for bias in [None, Some(&bias)] {
                        over_layouts::<B, Bool>(context, store, &mask, |t, mask| {
                            let up = |array| upload::<B, Float>(context, array, dtype);
                            let [q, k, v] = [0, 1, 2].map(|k| up(&of[k]));
                            let got = B::attention(q, k, v, Some(t), bias.map(up), options);
                            expect(context, got, dtype, &attend(&of, Some(mask), bias, options))
                                .map_err(|e| format!("{dtype:?} {options:?}: {e}"))
                        });
                    }
                }
            }
        }
    }
}

/// A bias of minus infinity hides a key like a mask does.
fn hidden<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["attention"]) {
        for sizes in SIZES {
            let [q, k, v] = inputs(dtype, sizes, 1.0);
            let [batch, heads, queries, keys, ..] = sizes;
            let random = bools(&[batch, heads, queries, keys], 5);
            let bias = Array::from_fn(random.shape(), |index| {
                if index[2] == 1 || random.at(index) { f64::NEG_INFINITY } else { 0.5 }
            });
            for options in options().into_iter().step_by(3) {
                let want = |of: &[Array<f64>]| attend(of, None, Some(&of[3]), options);
                let case = format!("{sizes:?} {options:?}");
                over_operands(context, dtype, &case, &[&q, &k, &v, &bias], want, |t, want| {
                    let [q, k, v, bias] = take(t);
                    expect(context, B::attention(q, k, v, None, Some(bias), options), dtype, want)
                });
            }
        }
    }
}

/// NaN in a query makes the result of this query NaN; NaN in a key makes the results of all queries NaN; NaN
/// in a bias makes the result of the bias's query NaN. No other result changes.
fn not_a_number<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["attention"]) {
        for sizes in [[1, 2, 5, 7, 8, 8], [1, 2, 33, 40, 5, 3]] {
            let plain = inputs(dtype, sizes, 1.0);
            let [batch, heads, queries, keys, ..] = sizes;
            let bias = floats(dtype, &[batch, heads, queries, keys], (-3.0, 3.0), 4);
            for spoilt in 0..4 {
                let mut of: Vec<Array<f64>> = plain.iter().chain([&bias]).cloned().collect();
                of[spoilt] = Array::from_fn(of[spoilt].shape(), |index| match index {
                    [0, 1, 2, 1] => f64::NAN,
                    _ => of[spoilt].at(index),
                });
                let want = |of: &[Array<f64>]| attend(of, None, Some(&of[3]), Default::default());
                let case = format!("{sizes:?} NaN in operand {spoilt}");
                let operands: Vec<&Array<f64>> = of.iter().collect();
                over_operands(context, dtype, &case, &operands, want, |t, want| {
                    let [q, k, v, bias] = take(t);
                    let got = B::attention(q, k, v, None, Some(bias), Default::default());
                    expect(context, got, dtype, want)
                });
            }
        }
    }
}
