//! Layer normalisation, and embeddings with their gradient.

use crate::array::Array;
use crate::compare::{Tolerance, compare, is_close};
use crate::kind::{Float, Int};
use crate::operands::{Sum, expect_sums, over_operands, sums, take};
use crate::row::{Context, Row};
use crate::support::{expect_float, floats, ints, over_layouts2, read_float, upload};
use burn_backend::{Backend, DType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["layer_norm"], layer_norm),
        Row::new(&["embedding"], embedding),
        Row::new(&["embedding_backward"], embedding_backward),
    ]
}

/// A normalised element before or after `gamma` and `beta`, and its rounding error bound in epsilons.
#[derive(Clone, Copy, Debug)]
struct Normalised {
    value: f64,
    scale: f64,
}

/// `(x - mean) / deviation` for each element of a line. The error bound is the error of the mean, in
/// deviations.
fn normalise(line: &[f64], epsilon: f64) -> Vec<Normalised> {
    let n = line.len() as f64;
    let mean = line.iter().copied().collect::<Sum>().value() / n;
    let variance = line.iter().map(|x| (x - mean) * (x - mean)).collect::<Sum>().value() / n;
    let deviation = (variance + epsilon).sqrt();
    let largest = line.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    line.iter().map(|x| Normalised { value: (x - mean) / deviation, scale: largest / deviation }).collect()
}

fn layer_norm<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["layer_norm"]) {
        let accuracy = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
        let tolerance = context.tolerance(Tolerance { absolute: 6.0 * accuracy, ..Tolerance::ulps(1.0) });
        let shapes: [&[usize]; 8] =
            [&[1], &[17], &[3, 65], &[33, 2], &[2, 3, 33], &[4, 1], &[2, 768], &[0, 5]];
        for shape in shapes {
            // Values around zero, values far from zero (where a variance from squares would cancel), and
            // equal values.
            for (range, epsilon) in [((-2.0, 2.0), 1e-5), ((100.0, 101.0), 1e-5), ((3.0, 3.0), 0.5)] {
                let features = *shape.last().expect("an axis");
                let mut x = floats(dtype, shape, range, 1);
                if shape[0] > 1 && range.0 < 0.0 {
                    // NaN affects only its own line.
                    x = Array::from_fn(shape, |index| match index.iter().sum::<usize>() {
                        0 => f64::NAN,
                        _ => x.at(index),
                    });
                }
                let (gamma, beta) =
                    (floats(dtype, &[features], (-1.5, 1.5), 2), floats(dtype, &[features], (-1.0, 1.0), 3));
                let want = |of: &[Array<f64>]| {
                    let lines = of[0].map_axis(shape.len() - 1, features, |line| normalise(line, epsilon));
                    lines.zip(&of[1], |y, gamma| Normalised {
                        value: y.value * gamma,
                        scale: y.scale * gamma.abs(),
                    })
                };
                let biased = |of: &[Array<f64>]| {
                    want(of).zip(&of[2], |y, beta| Normalised {
                        value: y.value + beta,
                        scale: y.scale + beta.abs(),
                    })
                };
                let check = |got, want: &Array<Normalised>| {
                    compare(&read_float::<B>(got, dtype)?, want, |got, want: Normalised| {
                        is_close(dtype, got, want.value, tolerance, want.scale)
                    })
                };
                let case = format!("{shape:?} {range:?} {epsilon}");
                over_operands(context, dtype, &case, &[&x, &gamma], want, |t, want| {
                    let [x, gamma] = take(t);
                    check(B::layer_norm(x, gamma, None, epsilon), want)
                });
                over_operands(context, dtype, &case, &[&x, &gamma, &beta], biased, |t, want| {
                    let [x, gamma, beta] = take(t);
                    check(B::layer_norm(x, gamma, Some(beta), epsilon), want)
                });
            }
        }
    }
}

/// Rows and width of the weights; batch and length of the indices.
const TABLES: [([usize; 2], [usize; 2]); 5] =
    [([1, 1], [1, 1]), ([7, 5], [2, 9]), ([33, 17], [3, 4]), ([100, 65], [2, 17]), ([9, 4], [0, 3])];

fn embedding<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["embedding"]) {
        for int in context.ints(&["embedding"]) {
            for (table, indices) in TABLES {
                let weights = floats(dtype, &table, (-2.0, 2.0), 1);
                let indices = ints(int, &indices, (0, table[0] as i128), 2);
                over_layouts2::<B, Float, Int>(
                    context,
                    (dtype, &weights),
                    (int, &indices),
                    |w, i, weights, at| {
                        let [batch, length] = at.shape().try_into().expect("two axes");
                        let want = Array::from_fn([batch, length, table[1]], |index| {
                            weights.at(&[at.at(&index[..2]) as usize, index[2]])
                        });
                        expect_float::<B>(B::embedding(w, i), dtype, &want, Tolerance::EXACT, 0.0)
                    },
                );
            }
        }
    }
}

fn embedding_backward<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["embedding_backward"]) {
        for int in context.ints(&["embedding_backward"]) {
            for (table, indices) in TABLES {
                let [batch, length] = indices;
                let weights = floats(dtype, &table, (-2.0, 2.0), 1);
                let grad = floats(dtype, &[batch, length, table[1]], (-2.0, 2.0), 3);
                // Few distinct rows, so that most of them are indexed several times.
                let indices = ints(int, &indices, (0, table[0].min(4) as i128), 2);
                let want = |grad: &Array<f64>, at: &Array<i128>| {
                    sums(table, |add| {
                        for (k, &g) in grad.data().iter().enumerate() {
                            add(at.data()[k / table[1]] as usize * table[1] + k % table[1], g);
                        }
                    })
                };
                let case = format!("{table:?} {batch}x{length} {int:?}");
                let plain = upload::<B, Int>(context, &indices, int);
                over_operands(
                    context,
                    dtype,
                    &case,
                    &[&weights, &grad],
                    |of| want(&of[1], &indices),
                    |t, want| {
                        let [weights, grad] = take(t);
                        let got = B::embedding_backward(weights, grad, plain.clone());
                        expect_sums(context, got, dtype, want)
                    },
                );
                over_layouts2::<B, Float, Int>(context, (dtype, &grad), (int, &indices), |g, i, grad, at| {
                    let weights = upload::<B, Float>(context, &weights, dtype);
                    let got = B::embedding_backward(weights, g, i);
                    expect_sums(context, got, dtype, &want(grad, at))
                });
            }
        }
    }
}
