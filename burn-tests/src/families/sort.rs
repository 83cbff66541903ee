//! Sorting and the largest elements: NaN above every number, equal elements in their original order.
//!
//! Burn specifies the order of equal elements only for `argtopk`. The suite asks for it in sorting too:
//! positions that differ between runs or thread counts are of no use.

use crate::array::{Array, for_each_index};
use crate::compare::{Tolerance, compare_exact};
use crate::kind::{Float, Int};
use crate::row::{Context, Row};
use crate::support::{expect_float, expect_int, floats, int_range, ints, over_layouts, read_int};
use burn_backend::tensor::IntTensor;
use burn_backend::{Backend, DType, IntDType, TensorMetadata};
use std::cmp::Ordering;

/// Short lines, and lines too long to be sorted in one block, along inner and outer axes.
const SHAPES: [&[usize]; 9] =
    [&[1], &[2], &[33], &[65], &[5, 3], &[3, 65], &[40, 2], &[2, 3, 17], &[2, 0, 3]];
const LONG: &[usize] = &[2, 1500];

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["float_sort", "float_sort_with_indices", "float_argsort"], float_sort),
        Row::new(&["int_sort", "int_sort_with_indices", "int_argsort"], int_sort),
        Row::new(&["float_topk", "float_argtopk"], float_topk),
        Row::new(&["int_topk", "int_argtopk"], int_topk),
    ]
}

/// PyTorch's order: NaN is greater than every number and equal to itself; zeros of both signs are equal.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The positions of a line's elements in sorted order; equal elements keep their order in both directions.
fn order<T: Copy>(line: &[T], compare: fn(T, T) -> Ordering, descending: bool) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..line.len()).collect();
    positions.sort_by(|&a, &b| {
        let order = compare(line[a], line[b]);
        if descending { order.reverse() } else { order }
    });
    positions
}

/// The first `k` elements in sorted order, with their positions.
fn sorted<T: Copy>(
    a: &Array<T>,
    axis: usize,
    k: usize,
    compare: fn(T, T) -> Ordering,
    descending: bool,
) -> (Array<T>, Array<i128>) {
    let positions = a.map_axis(axis, k, |line| order(line, compare, descending)[..k].to_vec());
    let values = a
        .map_axis(axis, k, |line| order(line, compare, descending)[..k].iter().map(|&at| line[at]).collect());
    (values, positions.map(|at| at as i128))
}

/// Values with some equal ones, NaN, infinities and zeros of both signs.
fn float_sample(dtype: DType, shape: &[usize]) -> Array<f64> {
    const SPECIAL: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
    let mut k = 0;
    floats(dtype, shape, (-8.0, 8.0), 1).map(|x| {
        k += 1;
        if k % 5 == 3 { SPECIAL[k / 5 % 5] } else { (x * 2.0).round() / 2.0 }
    })
}

/// A few distinct values and the extremes of the dtype, to test signs and equal elements.
fn int_sample(dtype: DType, shape: &[usize]) -> Array<i128> {
    let (min, max) = int_range(dtype);
    let mut k = 0;
    ints(dtype, shape, (-6, 7), 1).map(|x| {
        k += 1;
        [x, x, min, x, max, x, x][k % 7]
    })
}

fn float_sort<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_sort", "float_sort_with_indices", "float_argsort"]) {
        for (n, shape) in SHAPES.iter().chain([&LONG]).enumerate() {
            for out in index_dtypes(context, shape, n) {
                let index = IntDType::from(out);
                for (axis, descending) in directions(shape) {
                    let array = float_sample(dtype, shape);
                    over_layouts::<B, Float>(context, dtype, &array, |t, a| {
                        let (values, at) = sorted(a, axis, a.shape()[axis], compare, descending);
                        let (got, got_at) = B::float_sort_with_indices(t.clone(), axis, descending, index);
                        expect_float::<B>(got, dtype, &values, Tolerance::EXACT, 0.0)?;
                        same_order(&read_int::<B>(got_at, out)?, &at, a, axis, compare)?;
                        let got_at = B::float_argsort(t.clone(), axis, descending, index);
                        same_order(&read_int::<B>(got_at, out)?, &at, a, axis, compare)?;
                        expect_float::<B>(
                            B::float_sort(t, axis, descending),
                            dtype,
                            &values,
                            Tolerance::EXACT,
                            0.0,
                        )
                    });
                }
            }
        }
    }
}

/// Every axis, ascending and descending.
fn directions(shape: &[usize]) -> Vec<(usize, bool)> {
    (0..shape.len()).flat_map(|axis| [(axis, false), (axis, true)]).collect()
}

/// Dtypes for positions along the axes of a shape: all for the first shapes, later two each time.
fn index_dtypes<B: Backend>(context: &Context<'_, B>, shape: &[usize], n: usize) -> Vec<DType> {
    let all = context.ints(&["float_argsort"]);
    let wide: Vec<DType> =
        all.into_iter().filter(|&d| shape.iter().all(|&size| size as i128 - 1 <= int_range(d).1)).collect();
    let some = if n < 3 { wide.len() } else { 2 };
    wide.iter().cycle().skip(2 * n).take(some.min(wide.len())).copied().collect()
}

fn int_sort<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_sort", "int_sort_with_indices", "int_argsort"]) {
        for shape in SHAPES.iter().chain([&LONG]) {
            for (axis, descending) in directions(shape) {
                over_layouts::<B, Int>(context, dtype, &int_sample(dtype, shape), |t, a| {
                    let (values, at) = sorted(a, axis, a.shape()[axis], |x, y| x.cmp(&y), descending);
                    let (got, got_at) = B::int_sort_with_indices(t.clone(), axis, descending);
                    expect_int::<B>(got, dtype, &values)?;
                    expect_int_order::<B>(got_at, dtype, &at, a, axis)?;
                    let got_at = B::int_argsort(t.clone(), axis, descending);
                    expect_int_order::<B>(got_at, dtype, &at, a, axis)?;
                    expect_int::<B>(B::int_sort(t, axis, descending), dtype, &values)
                });
            }
        }
    }
}

/// Positions along an axis of integers have the dtype of the sorted tensor; if its range is too small, Burn
/// leaves the dtype open.
fn expect_int_order<B: Backend>(
    tensor: IntTensor<B>,
    dtype: DType,
    want: &Array<i128>,
    a: &Array<i128>,
    axis: usize,
) -> Result<(), String> {
    let fits = a.shape()[axis] as i128 - 1 <= int_range(dtype).1;
    let dtype = if fits { dtype } else { tensor.dtype() };
    same_order(&read_int::<B>(tensor, dtype)?, want, a, axis, |x, y| x.cmp(&y))
}

/// Compares positions along an axis. The report distinguishes equal elements out of order from elements at
/// wrong positions, since a backend may leave the order of equal elements open.
fn same_order<T: Copy>(
    got: &Array<i128>,
    want: &Array<i128>,
    a: &Array<T>,
    axis: usize,
    compare: fn(T, T) -> Ordering,
) -> Result<(), String> {
    compare_exact(got, want).map_err(|reason| {
        let mut ties = got.shape() == want.shape();
        for_each_index(want.shape(), |index| {
            ties = ties && {
                let (line, mut positions) = (a.line(axis, index), got.line(axis, index));
                let at = usize::try_from(got.at(index)).ok().and_then(|at| line.get(at));
                positions.sort_unstable();
                at.is_some_and(|&x| compare(x, line[want.at(index) as usize]).is_eq())
                    && positions.windows(2).all(|pair| pair[0] < pair[1])
            };
        });
        format!("{}: {reason}", if ties { "the order of equal elements" } else { "positions" })
    })
}

/// Values of `k` for a line of `n` elements: one, a few, all.
fn counts(n: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = [1, 2, 7, n].into_iter().filter(|&k| 0 < k && k <= n).collect();
    counts.dedup();
    counts
}

fn float_topk<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_topk", "float_argtopk"]) {
        for (n, shape) in SHAPES.iter().chain([&LONG]).enumerate() {
            for out in index_dtypes(context, shape, n) {
                for axis in 0..shape.len() {
                    for k in counts(shape[axis]) {
                        over_layouts::<B, Float>(context, dtype, &float_sample(dtype, shape), |t, a| {
                            let (values, at) = sorted(a, axis, k, compare, true);
                            expect_float::<B>(
                                B::float_topk(t.clone(), axis, k),
                                dtype,
                                &values,
                                Tolerance::EXACT,
                                0.0,
                            )?;
                            let got_at = read_int::<B>(B::float_argtopk(t, axis, k, out.into()), out)?;
                            same_order(&got_at, &at, a, axis, compare)
                        });
                    }
                }
            }
        }
    }
}

fn int_topk<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_topk", "int_argtopk"]) {
        for shape in SHAPES.iter().chain([&LONG]) {
            for axis in 0..shape.len() {
                for k in counts(shape[axis]) {
                    over_layouts::<B, Int>(context, dtype, &int_sample(dtype, shape), |t, a| {
                        let (values, at) = sorted(a, axis, k, |x, y| x.cmp(&y), true);
                        expect_int::<B>(B::int_topk(t.clone(), axis, k), dtype, &values)?;
                        expect_int_order::<B>(B::int_argtopk(t, axis, k), dtype, &at, a, axis)
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_last_and_equal_elements_keep_their_order() {
        let line = [f64::NAN, 1.0, -0.0, 0.0, f64::INFINITY, 1.0];
        assert_eq!(order(&line, compare, false), [2, 3, 1, 5, 4, 0]);
        assert_eq!(order(&line, compare, true), [0, 4, 1, 5, 2, 3]);
    }

    #[test]
    fn equal_elements_out_of_order_are_told_from_elements_out_of_place() {
        let a = Array::new([3], vec![2, 1, 2]);
        let positions = |at: [i128; 3]| Array::new([3], at.to_vec());
        let outcome = |got| same_order(&positions(got), &positions([1, 0, 2]), &a, 0, |x, y| x.cmp(&y));
        assert_eq!(outcome([1, 0, 2]), Ok(()));
        assert!(outcome([1, 2, 0]).unwrap_err().starts_with("the order of equal elements"));
        for wrong in [[0, 1, 2], [1, 0, 0], [1, 0, 3], [-1, 0, 2]] {
            assert!(outcome(wrong).unwrap_err().starts_with("positions"), "{wrong:?}");
        }
    }
}
