//! Products: matrices of floats and of integers, linear layers and their gradients, cross products.

use crate::array::Array;
use crate::compare::compare_exact;
use crate::kind::Int;
use crate::operands::{Sum, expect_sums, over_operands, take};
use crate::row::{Context, Row};
use crate::support::{expect_int, floats, int_range, ints, over_layouts2, read_int, upload, wrap};
use burn_backend::{Backend, DType};

/// Pairs of shapes: vectors, sizes around tiles, batches that broadcast on either side, sums of no terms,
/// empty results.
const SHAPES: [(&[usize], &[usize]); 20] = [
    (&[1, 1], &[1, 1]),
    (&[2, 3], &[3, 4]),
    (&[16, 17], &[17, 15]),
    (&[33, 8], &[8, 65]),
    (&[7, 130], &[130, 5]),
    (&[1, 65], &[65, 33]),
    (&[33, 65], &[65, 1]),
    (&[1, 130], &[130, 1]),
    (&[17, 1], &[1, 19]),
    (&[3, 5, 7], &[3, 7, 6]),
    (&[3, 5, 7], &[1, 7, 6]),
    (&[1, 5, 7], &[3, 7, 6]),
    (&[2, 1, 4, 9], &[1, 3, 9, 5]),
    (&[2, 3, 1, 17], &[2, 3, 17, 8]),
    (&[2, 3, 9, 17], &[1, 1, 17, 1]),
    (&[0, 3], &[3, 4]),
    (&[2, 0], &[0, 4]),
    (&[2, 3], &[3, 0]),
    (&[0, 2, 3], &[0, 3, 4]),
    (&[2, 2, 0], &[1, 0, 3]),
];

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["float_matmul"], float),
        Row::new(&["float_matmul"], long),
        Row::new(&["float_matmul"], not_finite),
        Row::new(&["int_matmul"], int),
        Row::new(&["int_matmul"], int_extremes),
        Row::new(&["linear"], linear),
        Row::new(&["linear_x_backward", "linear_weight_backward", "linear_bias_backward"], linear_backward),
        Row::new(&["float_cross"], cross),
    ]
}

/// A matrix product with batches that broadcast; `dot` gets the row and the column.
pub(crate) fn product<T: Copy, U>(a: &Array<T>, b: &Array<T>, dot: impl Fn(&[T], &[T]) -> U) -> Array<U>
where
    U: Copy,
{
    let rank = a.shape().len();
    let mut shape: Vec<usize> = (0..rank)
        .map(|k| match (a.shape()[k], b.shape()[k]) {
            (1, size) => size,
            (size, _) => size,
        })
        .collect();
    shape[rank - 2] = a.shape()[rank - 2];
    shape[rank - 1] = b.shape()[rank - 1];
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 2, rank - 1);
    let columns = b.permute(&axes);
    Array::from_fn(shape, |index| dot(row(a, index, index[rank - 2]), row(&columns, index, index[rank - 1])))
}

/// A row of a matrix, of the batch that broadcasts to `index`.
fn row<'a, T: Copy>(of: &'a Array<T>, index: &[usize], number: usize) -> &'a [T] {
    let (batch, matrix) = of.shape().split_at(of.shape().len() - 2);
    let mut place = 0;
    for (&size, &i) in batch.iter().zip(index) {
        place = place * size + if size == 1 { 0 } else { i };
    }
    let first = (place * matrix[0] + number) * matrix[1];
    &of.data()[first..first + matrix[1]]
}

fn dot(row: &[f64], column: &[f64]) -> Sum {
    row.iter().zip(column).map(|(x, y)| x * y).collect()
}

fn float<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_matmul"]) {
        for (left, right) in SHAPES {
            let (a, b) = (floats(dtype, left, (-1.0, 1.0), 1), floats(dtype, right, (-1.0, 1.0), 2));
            let want = |of: &[Array<f64>]| product(&of[0], &of[1], dot);
            over_operands(context, dtype, &format!("{left:?} by {right:?}"), &[&a, &b], want, |t, want| {
                let [a, b] = take(t);
                expect_sums(context, B::float_matmul(a, b), dtype, want)
            });
        }
    }
}

/// Sums of thousands of terms, as in the layers of language models: half precision has to accumulate in f32.
fn long<B: Backend>(context: &Context<'_, B>) {
    const K: usize = 11008;
    for dtype in context.floats(&["float_matmul"]) {
        for (rows, columns) in [(1, 1), (1, 17), (17, 1), (5, 9)] {
            // Positive terms, so that a sum in half precision would stop growing.
            let (a, b) =
                (floats(dtype, &[rows, K], (0.0, 0.2), 1), floats(dtype, &[K, columns], (0.0, 0.2), 2));
            let want = |of: &[Array<f64>]| product(&of[0], &of[1], dot);
            over_operands(context, dtype, &format!("{rows}x{K}x{columns}"), &[&a, &b], want, |t, want| {
                let [a, b] = take(t);
                expect_sums(context, B::float_matmul(a, b), dtype, want)
            });
        }
    }
}

/// NaN and infinities reach all results of their rows and columns; a product with zero is not skipped.
fn not_finite<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_matmul"]) {
        for (rows, k, columns) in [(1, 9, 1), (1, 33, 17), (17, 33, 1), (5, 3, 4), (18, 40, 33)] {
            for value in [f64::NAN, f64::INFINITY] {
                let mut a = floats(dtype, &[rows, k], (0.5, 1.0), 1);
                let mut b = floats(dtype, &[k, columns], (0.5, 1.0), 2);
                let put = |array: &Array<f64>, at: usize, value: f64| {
                    let mut i = 0;
                    array.map(|x| {
                        i += 1;
                        if i - 1 == at { value } else { x }
                    })
                };
                // The value is in the last row and the first term, where the first column of `b` has a zero.
                a = put(&a, (rows - 1) * k, value);
                b = put(&b, 0, 0.0);
                let want = |of: &[Array<f64>]| product(&of[0], &of[1], dot);
                let case = format!("{rows}x{k}x{columns} with {value}");
                over_operands(context, dtype, &case, &[&a, &b], want, |t, want| {
                    let [a, b] = take(t);
                    expect_sums(context, B::float_matmul(a, b), dtype, want)
                });
            }
        }
    }
}

fn int_dot(dtype: DType, row: &[i128], column: &[i128]) -> i128 {
    row.iter().zip(column).fold(0, |sum, (x, y)| wrap(dtype, sum + wrap(dtype, x.wrapping_mul(*y))))
}

fn int<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_matmul"]) {
        let (min, max) = int_range(dtype);
        for (left, right) in SHAPES {
            let (a, b) = (ints(dtype, left, (min, max + 1), 1), ints(dtype, right, (min, max + 1), 2));
            over_layouts2::<B, Int, Int>(context, (dtype, &a), (dtype, &b), |ta, tb, a, b| {
                let want = product(a, b, |row, column| int_dot(dtype, row, column));
                expect_int::<B>(B::int_matmul(ta, tb), dtype, &want)
            });
        }
    }
}

/// The extreme values of the dtype, in sums long enough to wrap the low half of a wider accumulator many
/// times.
fn int_extremes<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_matmul"]) {
        let (min, max) = int_range(dtype);
        for (x, y) in [(min, min), (max, max), (min, max)] {
            let (a, b) = (Array::new([3, 1000], vec![x; 3000]), Array::new([1000, 5], vec![y; 5000]));
            context.attempt(
                || format!("{dtype:?} {x} times {y}"),
                || {
                    let up = |array| upload::<B, Int>(context, array, dtype);
                    let got = read_int::<B>(B::int_matmul(up(&a), up(&b)), dtype)?;
                    compare_exact(&got, &product(&a, &b, |row, column| int_dot(dtype, row, column)))
                },
            );
        }
    }
}

/// Shapes of inputs and outputs of linear layers, without the features.
const LEADING: [&[usize]; 5] = [&[1], &[17], &[2, 9], &[2, 3, 4], &[0]];
/// Numbers of input and output features.
const FEATURES: [(usize, usize); 4] = [(3, 5), (17, 16), (33, 1), (1, 65)];

/// The matrix `[product of leading sizes, features]` of a tensor.
fn flat(array: &Array<f64>) -> Array<f64> {
    let features = *array.shape().last().expect("at least one axis");
    array.reshape([array.len() / features, features])
}

fn with_features(leading: &[usize], features: usize) -> Vec<usize> {
    [leading, &[features]].concat()
}

fn linear<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["linear"]) {
        for leading in LEADING {
            for (ins, outs) in FEATURES {
                let x = floats(dtype, &with_features(leading, ins), (-1.0, 1.0), 1);
                let weight = floats(dtype, &[ins, outs], (-1.0, 1.0), 2);
                let bias = floats(dtype, &[outs], (-1.0, 1.0), 3);
                let shape = with_features(leading, outs);
                let want = |of: &[Array<f64>]| product(&flat(&of[0]), &of[1], dot).reshape(shape.clone());
                let case = format!("{leading:?} {ins} to {outs}");
                over_operands(context, dtype, &case, &[&x, &weight], want, |t, want| {
                    let [x, w] = take(t);
                    expect_sums(context, B::linear(x, w, None), dtype, want)
                });
                let biased = |of: &[Array<f64>]| {
                    want(of).zip(&of[2], |mut sum, b| {
                        sum.add(b);
                        sum
                    })
                };
                over_operands(context, dtype, &case, &[&x, &weight, &bias], biased, |t, want| {
                    let [x, w, b] = take(t);
                    expect_sums(context, B::linear(x, w, Some(b)), dtype, want)
                });
            }
        }
    }
}

fn linear_backward<B: Backend>(context: &Context<'_, B>) {
    let methods = ["linear_x_backward", "linear_weight_backward", "linear_bias_backward"];
    for dtype in context.floats(&methods) {
        for leading in LEADING {
            for (ins, outs) in FEATURES {
                let x = floats(dtype, &with_features(leading, ins), (-1.0, 1.0), 1);
                let weight = floats(dtype, &[ins, outs], (-1.0, 1.0), 2);
                let grad = floats(dtype, &with_features(leading, outs), (-1.0, 1.0), 3);
                let x_shape = with_features(leading, ins);
                let want = |of: &[Array<f64>]| {
                    let (x, grad) = (flat(&of[0]), flat(&of[2]));
                    let x_grad = product(&grad, &of[1].permute(&[1, 0]), dot).reshape(x_shape.clone());
                    let weight_grad = product(&x.permute(&[1, 0]), &grad, dot);
                    let bias_grad = grad.fold_axis(0, |g| g.iter().copied().collect::<Sum>());
                    (x_grad, weight_grad, bias_grad.reshape([outs]))
                };
                let case = format!("{leading:?} {ins} to {outs}");
                over_operands(context, dtype, &case, &[&x, &weight, &grad], want, |t, want| {
                    let [x, weight, grad] = take(t);
                    let got = B::linear_x_backward(weight, grad.clone());
                    expect_sums(context, got, dtype, &want.0).map_err(|e| format!("x: {e}"))?;
                    let got = B::linear_weight_backward(x, grad.clone());
                    expect_sums(context, got, dtype, &want.1).map_err(|e| format!("weight: {e}"))?;
                    let got = B::linear_bias_backward(grad);
                    expect_sums(context, got, dtype, &want.2).map_err(|e| format!("bias: {e}"))
                });
            }
        }
    }
}

fn cross<B: Backend>(context: &Context<'_, B>) {
    let cases: [(&[usize], &[usize], usize); 7] = [
        (&[3], &[3], 0),
        (&[5, 3], &[5, 3], 1),
        (&[3, 17], &[3, 17], 0),
        (&[2, 3, 9], &[2, 3, 9], 1),
        (&[4, 3], &[1, 3], 1),
        (&[1, 33, 3], &[2, 33, 3], 2),
        (&[0, 3], &[0, 3], 1),
    ];
    for dtype in context.floats(&["float_cross"]) {
        for (left, right, axis) in cases {
            let (a, b) = (floats(dtype, left, (-1.0, 1.0), 1), floats(dtype, right, (-1.0, 1.0), 2));
            let want = |of: &[Array<f64>]| {
                let shape = of[0].zip(&of[1], |_, _| ()).shape().to_vec();
                Array::from_fn(shape, |index| {
                    let line = |array: &Array<f64>| {
                        let sizes = array.shape().iter();
                        let at: Vec<usize> =
                            index.iter().zip(sizes).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
                        array.line(axis, &at)
                    };
                    let (a, b, k) = (line(&of[0]), line(&of[1]), index[axis]);
                    let (next, last) = ((k + 1) % 3, (k + 2) % 3);
                    [a[next] * b[last], -a[last] * b[next]].into_iter().collect::<Sum>()
                })
            };
            let case = format!("{left:?} cross {right:?} along {axis}");
            over_operands(context, dtype, &case, &[&a, &b], want, |t, want| {
                let [a, b] = take(t);
                expect_sums(context, B::float_cross(a, b, axis), dtype, want)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_broadcast_batches() {
        let a = Array::new([2, 1, 2], vec![1.0, 2.0, 3.0, 4.0]);
        let b = Array::new([1, 2, 1], vec![10.0, 100.0]);
        let got = product(&a, &b, dot);
        assert_eq!(got.shape(), [2, 1, 1]);
        assert_eq!([got.data()[0].value(), got.data()[1].value()], [210.0, 430.0]);
        let empty = product(&Array::new([2, 0], vec![]), &Array::new([0, 3], vec![]), dot);
        assert_eq!((empty.shape(), empty.at(&[1, 2]).value()), (&[2, 3][..], 0.0));
    }
}
