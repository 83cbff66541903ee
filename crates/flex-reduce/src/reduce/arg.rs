//! Positions of the largest and smallest elements along an axis: the first of equals, and the first NaN when there is
//! one.

use super::indices::{check_index_dtype, into_index_dtype};
use super::kernel::{BLOCK, Rows, Starts, fold_rows, fold_run};
use super::lift::{Arith, Lift};
use super::plan::{Mode, Plan};
use super::reducer::Extreme;
use super::run::{BATCH, Columns, LONG_ROW, TASK, drive_columns, for_each_output};
use super::view::{self, FloatOrder, Ordinal, View, Want};
use crate::error::{Error, Result, check_axis};
use crate::parallel::{self, Work};
use crate::{DType, Element, Tensor, bf16, f16};
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::vectorize;

/// Elements that are compared at once to find where an extreme is.
const LANES: usize = 64;

/// Short rows that are searched at once, one per lane.
const SIDE_BY_SIDE: usize = 16;

/// Rows shorter than this are searched side by side.
const MIN_VECTOR_ROW: usize = 24;

/// Rows shorter than this are searched to the end: a mispredicted exit costs more.
const MIN_EARLY_EXIT: usize = 512;

/// Rows between two conversions of 32-bit row numbers to indices.
const MAX_ROWS: usize = 1 << 30;

/// Indices, and the elements there when `values` is set, of the extremes along `axis`.
pub(super) fn extreme(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    want: Want,
    index_dtype: DType,
    values: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    check_axis(op, axis, tensor.rank())?;
    check_index_dtype(op, index_dtype, tensor.shape()[axis])?;
    let dtype = tensor.dtype();
    let mut shape = tensor.shape().clone();
    shape[axis] = 1;
    if tensor.num_elements() == 0 {
        if shape.num_elements() != 0 {
            return Err(Error::shape(op, tensor.shape(), "at least one element along the reduced axis"));
        }
        let indices = Tensor::empty(shape.clone(), index_dtype)?;
        // The dtype still has to be one that can be compared.
        return dispatch_ring!(op, dtype, T => Ok((indices, Some(Tensor::build::<T>(op, shape, dtype, |_| ())?))));
    }
    let plan = Plan::ordered(tensor, axis)?;
    // Indices are not negative, so signed and unsigned dtypes hold the same bits. Those of 32 bits, the default, are written as such.
    let narrow = index_dtype.size() == 4 && !values;
    let indices = dispatch_view!(op, dtype, want, true, [Max, _ => Min], T, view => match narrow {
        true => search::<T, _, u32>(op, &plan, view, index_dtype),
        false => search::<T, _, i64>(op, &plan, view, DType::I64),
    })?;
    if narrow {
        return Ok((plan.restore(indices)?, None));
    }
    let values = match values {
        true => Some(plan.restore(pick(op, &plan, indices.storage::<i64>())?)?),
        false => None,
    };
    Ok((plan.restore(into_index_dtype(op, indices, index_dtype)?)?, values))
}

/// The elements at `indices`, which are in the order of the plan's output.
fn pick(op: &'static str, plan: &Plan, indices: &[i64]) -> Result<Tensor> {
    let dtype = plan.tensor.dtype();
    dispatch!(bits op, dtype, B => Tensor::build::<B>(op, plan.output_shape(), dtype, |out| {
        let src = plan.tensor.storage::<B>();
        for_each_output(&plan.walk, 1, 3 * size_of::<u64>(), out, |first, starts, out: &mut [B]| {
            for (k, (o, &i)) in out.iter_mut().zip(&indices[first..]).enumerate() {
                *o = src[starts.at(k).wrapping_add_signed(i as isize * plan.stride)];
            }
        });
    }))
}

/// The indices as a tensor of `dtype`, whose elements have the size of `I`.
fn search<T: Lift, V: View<T>, I: Element>(
    op: &'static str,
    plan: &Plan,
    view: V,
    dtype: DType,
) -> Result<Tensor> {
    Tensor::build::<I>(op, plan.output_shape(), dtype, |out| match plan.mode {
        Mode::Rows => arg_rows::<T, V, I>(plan, view, out),
        Mode::Columns | Mode::NarrowColumns => arg_columns::<T, V, I>(plan, view, out),
    })
}

fn store<I: Element>(indices: &[i64], out: &mut [I]) {
    for (o, &i) in out.iter_mut().zip(indices) {
        *o = I::from_i64(i);
    }
}

fn arg_rows<T: Lift, V: View<T>, I: Element>(plan: &Plan, view: V, out: &mut [I]) {
    let src = plan.tensor.storage::<T>();
    let n = plan.n;
    for_each_output(&plan.walk, n, size_of::<T>(), out, |_, starts, out: &mut [I]| {
        if n > BLOCK {
            for (i, o) in out.iter_mut().enumerate() {
                let at = starts.at(i);
                *o = I::from_i64(arg_long_row(view, &src[at..at + n]) as i64);
            }
            return;
        }
        for (b, out) in out.chunks_mut(BATCH).enumerate() {
            let starts = Starts { start: starts.at(b * BATCH), ..starts };
            let indices = &mut [0; BATCH][..out.len()];
            arg_batch(view, src, starts, n, indices);
            store(indices, out);
        }
    });
}

/// The indices of up to [`BATCH`] rows of at most [`BLOCK`] elements.
fn arg_batch<T: Lift, V: View<T>>(view: V, src: &[T], starts: Starts, n: usize, out: &mut [i64]) {
    if n < MIN_VECTOR_ROW {
        return arg_short_rows(view, src, starts, n, out);
    }
    let best = &mut [T::Wide::ZERO; BATCH][..out.len()];
    fold_rows(Extreme { view }, src, starts, n, best);
    locate_rows(view, src, starts, n, best, out);
}

/// Tracks the best value and its index along several rows at once, without branches: where an extreme lies is
/// unpredictable.
fn arg_short_rows<T: Lift, V: View<T>>(view: V, src: &[T], starts: Starts, n: usize, out: &mut [i64]) {
    vectorize(
        #[inline(always)]
        || {
            for (g, out) in out.chunks_mut(SIDE_BY_SIDE).enumerate() {
                let last = out.len() - 1;
                let rows: [&[T]; SIDE_BY_SIDE] = core::array::from_fn(|l| {
                    let at = starts.at(g * SIDE_BY_SIDE + l.min(last));
                    &src[at..at + n]
                });
                let mut best = rows.map(|row| view.look(row[0]));
                let mut index = [0u32; SIDE_BY_SIDE];
                for j in 1..n {
                    let x = rows.map(|row| row[j]);
                    for l in 0..SIDE_BY_SIDE {
                        let x = view.look(x[l]);
                        let replace = x.beats(best[l]);
                        best[l] = if replace { x } else { best[l] };
                        index[l] = if replace { j as u32 } else { index[l] };
                    }
                }
                for (o, i) in out.iter_mut().zip(index) {
                    *o = i as i64;
                }
            }
        },
    );
}

/// Finds the best block of a row, then the element in it.
fn arg_long_row<T: Lift, V: View<T>>(view: V, row: &[T]) -> usize {
    let r = Extreme { view };
    let work = Work::Bytes(size_of_val(row));
    let best_of = |range: Range<usize>| {
        let mut best = (T::Wide::LOWEST, range.start);
        for (b, block) in row[range.clone()].chunks(BLOCK).enumerate() {
            let value = fold_run(r, block);
            if b == 0 || value.beats(best.0) {
                best = (value, range.start + b * BLOCK);
            }
        }
        best
    };
    let task = if row.len() < LONG_ROW { row.len() } else { TASK };
    let tasks = parallel::map_blocks(row.len(), task, work, best_of);
    let best = tasks.into_iter().reduce(|best, later| if later.0.beats(best.0) { later } else { best });
    let (value, start) = best.unwrap_or((T::Wide::LOWEST, 0));
    let block = &row[start..(start + BLOCK).min(row.len())];
    let mut index = [0];
    locate_rows(view, block, Starts { start: 0, stride: 0 }, block.len(), &[value], &mut index);
    start + index[0] as usize
}

/// The index in each row of the first element that equals the row's best value, or of the first NaN when that is NaN.
fn locate_rows<T: Lift, V: View<T>>(
    view: V,
    src: &[T],
    starts: Starts,
    n: usize,
    best: &[T::Wide],
    out: &mut [i64],
) {
    vectorize(
        #[inline(always)]
        || {
            for (i, (o, &value)) in out.iter_mut().zip(best).enumerate() {
                let at = starts.at(i);
                *o = locate(view, &src[at..at + n], value) as i64;
            }
        },
    );
}

#[inline(always)]
fn locate<T: Lift, V: View<T>>(view: V, row: &[T], value: T::Wide) -> usize {
    if row.len() < MIN_EARLY_EXIT {
        let mut first = u32::MAX;
        for (i, &x) in row.iter().enumerate() {
            let here = if same(view, x, value) { i as u32 } else { u32::MAX };
            first = first.min(here);
        }
        return first as usize;
    }
    let (chunks, rest) = row.as_chunks::<LANES>();
    let (mut at, mut tail) = (0, rest);
    for chunk in chunks {
        let mut any = false;
        for &x in chunk {
            any |= same(view, x, value);
        }
        if any {
            tail = chunk;
            break;
        }
        at += LANES;
    }
    for &x in tail {
        if same(view, x, value) {
            break;
        }
        at += 1;
    }
    at
}

#[inline(always)]
fn same<T: Lift, V: View<T>>(view: V, x: T, value: T::Wide) -> bool {
    let x = view.look(x);
    (x == value) | (x.is_nan() & value.is_nan())
}

/// The best values of a tile of columns, their indices, and the row numbers while they are searched.
struct Part<W> {
    best: Vec<W>,
    index: Vec<i64>,
    row: Vec<u32>,
}

impl<W> Default for Part<W> {
    fn default() -> Self {
        Self { best: Vec::new(), index: Vec::new(), row: Vec::new() }
    }
}

fn arg_columns<T: Lift, V: View<T>, I: Element>(plan: &Plan, view: V, out: &mut [I]) {
    let src = plan.tensor.storage::<T>();
    let kernel = Columns {
        fold: |start: usize, rows: Range<usize>, width: usize, part: &mut Part<T::Wide>| {
            track_rows(view, Rows { src, start, stride: plan.stride }, rows, width, part);
        },
        merge: |part: &mut Part<T::Wide>, later: &Part<T::Wide>| {
            for (j, (best, &value)) in part.best.iter_mut().zip(&later.best).enumerate() {
                if value.beats(*best) {
                    (*best, part.index[j]) = (value, later.index[j]);
                }
            }
        },
        write: |part: &Part<T::Wide>, out: &mut [I]| store(&part.index, out),
    };
    drive_columns(&plan.walk, plan.n, size_of::<T>(), out, kernel);
}

/// The best values of columns over some rows, and their indices.
fn track_rows<T: Lift, V: View<T>>(
    view: V,
    matrix: Rows<'_, T>,
    rows: Range<usize>,
    width: usize,
    part: &mut Part<T::Wide>,
) {
    part.best.resize(width, T::Wide::ZERO);
    part.index.resize(width, 0);
    part.row.resize(width, 0);
    vectorize(
        #[inline(always)]
        || {
            for (b, &x) in part.best.iter_mut().zip(matrix.row(rows.start, width)) {
                *b = view.look(x);
            }
            part.index.fill(rows.start as i64);
            for first in rows.clone().step_by(MAX_ROWS) {
                part.row.fill(u32::MAX);
                for i in 0..(rows.end - first).min(MAX_ROWS) {
                    let row = matrix.row(first + i, width);
                    track(view, row, i as u32, &mut part.best, &mut part.row);
                }
                for (index, &row) in part.index.iter_mut().zip(&part.row) {
                    *index = if row == u32::MAX { *index } else { first as i64 + row as i64 };
                }
            }
        },
    );
}

/// Replaces the best values and their row numbers by those of row `i` where it beats them.
#[inline(always)]
fn track<T: Lift, V: View<T>>(view: V, row: &[T], i: u32, best: &mut [T::Wide], number: &mut [u32]) {
    let width = row.len();
    let (best, number) = (&mut best[..width], &mut number[..width]);
    for j in 0..width {
        let value = view.look(row[j]);
        let replace = value.beats(best[j]);
        best[j] = if replace { value } else { best[j] };
        number[j] = if replace { i } else { number[j] };
    }
}
