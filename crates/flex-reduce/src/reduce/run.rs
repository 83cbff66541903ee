//! The drivers: they cut a planned reduction into tasks of fixed size, run the kernels in them, and combine partial
//! results in a fixed order.

use super::kernel::{Rows, Starts, fold_columns, fold_narrow, fold_partials, fold_rows, fold_run};
use super::plan::{Mode, Plan, unordered_elements};
use super::reducer::Reducer;
use crate::error::Result;
use crate::parallel::{self, Work};
use crate::walk::Walk;
use crate::{DType, Element, Tensor};
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

/// Elements of a contiguous run that one task reduces.
pub(super) const TASK: usize = 64 * 1024;

/// Rows from this length on are split over tasks; shorter ones are what tasks are made of.
pub(super) const LONG_ROW: usize = 2 * TASK;

/// Shortest inner rows that a full reduction of a tensor with gaps reads in place; shorter ones are gathered first.
const MIN_ROW: usize = 64;

/// Rows whose results are finished together.
pub(super) const BATCH: usize = 64;

/// Columns that a task reduces together: a partial row of f32 and its sources stay in the first-level cache.
pub(super) const TILE: usize = 1024;

/// Number of tasks that is enough to split by outer index, or by tile, rather than along the reduced axis.
const ENOUGH_TASKS: usize = 8;

/// Rows that a task takes at least, when the reduced axis is split; and at most, unless they are short. A task leaves a partial
/// row, which is written, and read to be merged by one thread: with 64 of 1024 rows of f32 instead of 32, their sum takes 50 us
/// instead of 60 on two threads of a Xeon (Emerald Rapids).
const BLOCK_ROWS: RangeInclusive<usize> = 32..=256;

/// The number of rows of `bytes` that a task takes, when `n` of them are split.
fn block_rows(n: usize, bytes: usize) -> usize {
    let few = (n / (2 * ENOUGH_TASKS)).clamp(*BLOCK_ROWS.start(), *BLOCK_ROWS.end());
    parallel::rows_per_task(bytes).max(few)
}

/// Reduces all elements to a tensor of shape `[1]`.
pub(super) fn reduce_all<T: Element, R: Reducer<T>>(tensor: Tensor, r: R, dtype: DType) -> Result<Tensor> {
    if let Some(run) = tensor.as_slice::<T>() {
        return Ok(Tensor::single(r.finish(fold_long(r, run), run.len(), 1), dtype));
    }
    let (layout, copies) = unordered_elements(tensor.layout())?;
    let n = layout.num_elements();
    let acc = if n == 0 { r.identity() } else { fold_tensor(tensor.with_layout(layout), r)? };
    Ok(Tensor::single(r.finish(acc, n, copies), dtype))
}

fn fold_tensor<T: Element, R: Reducer<T>>(tensor: Tensor, r: R) -> Result<R::Acc> {
    let walk = Walk::new([tensor.layout()]);
    let (inner, rows) = (walk.inner(), walk.rows());
    let unit = inner.strides[0] == 1 || inner.size == 1;
    if !unit || (rows > 1 && inner.size < MIN_ROW) {
        return fold_tensor(tensor.into_contiguous()?, r);
    }
    let src = tensor.storage::<T>();
    if rows == 1 || inner.size >= LONG_ROW {
        let mut partials = Vec::with_capacity(rows);
        walk.for_each_row(0..rows, |[start]| partials.push(fold_long(r, &src[start..start + inner.size])));
        return Ok(fold_partials(r, partials));
    }
    let work = Work::Bytes(rows * inner.size * size_of::<T>());
    let partials = parallel::map_blocks(rows, (TASK / inner.size).max(1), work, |range| {
        let mut partials = Vec::with_capacity(range.len());
        walk.for_each_row(range, |[start]| partials.push(fold_run(r, &src[start..start + inner.size])));
        fold_partials(r, partials)
    });
    Ok(fold_partials(r, partials))
}

/// Reduces a contiguous run of any length, split over tasks when it is long.
fn fold_long<T: Element, R: Reducer<T>>(r: R, run: &[T]) -> R::Acc {
    if run.len() < LONG_ROW {
        return fold_run(r, run);
    }
    let work = Work::Bytes(size_of_val(run));
    fold_partials(r, parallel::map_blocks(run.len(), TASK, work, |range| fold_run(r, &run[range])))
}

/// Reduces along `axis`, which stays with size one.
pub(super) fn reduce_axis<T: Element, R: Reducer<T>>(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    r: R,
    dtype: DType,
) -> Result<Tensor> {
    if tensor.num_elements() == 0 {
        let mut shape = tensor.shape().clone();
        shape[axis] = 1;
        return Tensor::build::<R::Out>(op, shape, dtype, |out| out.fill(r.finish(r.identity(), 0, 1)));
    }
    let plan = Plan::unordered(tensor, axis)?;
    let output = Tensor::build::<R::Out>(op, plan.output_shape(), dtype, |out| match plan.mode {
        Mode::Rows => reduce_rows(&plan, r, out),
        Mode::Columns | Mode::NarrowColumns => reduce_columns(&plan, r, out),
    })?;
    plan.restore(output)
}

fn reduce_rows<T: Element, R: Reducer<T>>(plan: &Plan, r: R, out: &mut [R::Out]) {
    let src = plan.tensor.storage::<T>();
    let (n, copies) = (plan.n, plan.copies);
    for_each_output(&plan.walk, n, size_of::<T>(), out, |_, starts, out: &mut [R::Out]| {
        if n > R::LONGEST || n >= LONG_ROW {
            for (i, o) in out.iter_mut().enumerate() {
                let at = starts.at(i);
                *o = r.finish(fold_long(r, &src[at..at + n]), n, copies);
            }
            return;
        }
        let mut batch = [r.identity(); BATCH];
        for (b, out) in out.chunks_mut(BATCH).enumerate() {
            let acc = &mut batch[..out.len()];
            fold_rows(r, src, Starts { start: starts.at(b * BATCH), ..starts }, n, acc);
            for (o, &a) in out.iter_mut().zip(&*acc) {
                *o = r.finish(a, n, copies);
            }
        }
    });
}

/// Hands out the outputs of a reduction along contiguous rows of `n` elements, as runs whose rows start a constant
/// stride apart: `f(index of the first output, starts, outputs)`. Runs are processed in parallel, except that long
/// rows are left to `f` to split.
pub(super) fn for_each_output<O: Send>(
    walk: &Walk<1>,
    n: usize,
    element_size: usize,
    out: &mut [O],
    f: impl Fn(usize, Starts, &mut [O]) + Sync,
) {
    let inner = walk.inner();
    let run = |first: usize, out: &mut [O]| {
        let mut rest = out;
        let (mut index, mut skip) = (first, first % inner.size);
        let rows = (first + rest.len()).div_ceil(inner.size) - first / inner.size;
        walk.for_each_row(first / inner.size..first / inner.size + rows, |[position]| {
            let len = (inner.size - skip).min(rest.len());
            let (run, tail) = core::mem::take(&mut rest).split_at_mut(len);
            let start = position.wrapping_add_signed(skip as isize * inner.strides[0]);
            f(index, Starts { start, stride: inner.strides[0] }, run);
            (rest, index, skip) = (tail, index + len, 0);
        });
    };
    if n >= LONG_ROW {
        run(0, out);
        return;
    }
    let work = Work::Bytes(out.len() * n * element_size);
    let chunk = parallel::rows_per_task(n * element_size);
    parallel::for_each_chunk(out, chunk, work, |k, out| run(k * chunk, out));
}

fn reduce_columns<T: Element, R: Reducer<T>>(plan: &Plan, r: R, out: &mut [R::Out]) {
    let src = plan.tensor.storage::<T>();
    let (n, copies) = (plan.n, plan.copies);
    let narrow = plan.mode == Mode::NarrowColumns;
    let kernel = Columns {
        fold: |start: usize, rows: Range<usize>, width: usize, part: &mut Part<R::Acc>| {
            part.acc.resize(width, r.identity());
            if narrow {
                let run = &src[start + rows.start * width..start + rows.end * width];
                fold_narrow(r, run, &mut part.acc, &mut part.scratch);
            } else {
                let matrix = Rows { src, start, stride: plan.stride };
                fold_columns(r, matrix, rows.start, rows.end, &mut part.acc, &mut part.scratch);
            }
        },
        merge: |part: &mut Part<R::Acc>, later: &Part<R::Acc>| {
            for (a, &l) in part.acc.iter_mut().zip(&later.acc) {
                *a = r.combine(*a, l);
            }
        },
        write: |part: &Part<R::Acc>, out: &mut [R::Out]| {
            for (o, &a) in out.iter_mut().zip(&part.acc) {
                *o = r.finish(a, n, copies);
            }
        },
    };
    drive_columns(&plan.walk, n, size_of::<T>(), out, kernel);
}

/// The partial results of a tile of columns, and working memory.
struct Part<A> {
    acc: Vec<A>,
    scratch: Vec<A>,
}

impl<A> Default for Part<A> {
    fn default() -> Self {
        Self { acc: Vec::new(), scratch: Vec::new() }
    }
}

/// What to do down the columns of a matrix. `P` is the partial result of some rows, over a tile of columns.
pub(super) struct Columns<Fold, Merge, Write> {
    /// `fold(start, rows, width, part)`: reduces rows `rows` of the tile of `width` columns whose row 0 starts at
    /// `start`. `part` holds what the previous call left.
    pub fold: Fold,
    /// `merge(part, later)`: combines with the partial result of rows that come later.
    pub merge: Merge,
    /// Writes the outputs of a tile.
    pub write: Write,
}

/// Reduces the columns of the matrices of `n` rows whose columns are the walk's inner axis.
///
/// Many matrices are split among tasks whole, wide ones by tiles of columns, and long ones by blocks of rows whose
/// partial results are merged pairwise. What is done depends on the sizes alone.
pub(super) fn drive_columns<P, O, Fold, Merge, Write>(
    walk: &Walk<1>,
    n: usize,
    element_size: usize,
    out: &mut [O],
    kernel: Columns<Fold, Merge, Write>,
) where
    P: Default + Send,
    O: Send,
    Fold: Fn(usize, Range<usize>, usize, &mut P) + Sync,
    Merge: Fn(&mut P, &P),
    Write: Fn(&P, &mut [O]) + Sync,
{
    let Columns { fold, merge, write } = kernel;
    let width = walk.inner().size;
    let work = Work::Bytes(out.len() * n * element_size);
    let whole = |start: usize, row: &mut [O], part: &mut P| {
        for (t, tile) in row.chunks_mut(TILE).enumerate() {
            fold(start + t * TILE, 0..n, tile.len(), part);
            write(part, tile);
        }
    };
    if walk.rows() >= ENOUGH_TASKS {
        let rows = parallel::rows_per_task(n * width * element_size);
        parallel::for_each_chunk(out, rows * width, work, |k, out| {
            let mut part = P::default();
            let mut chunks = out.chunks_exact_mut(width);
            walk.for_each_row(k * rows..k * rows + chunks.len(), |[start]| {
                whole(start, chunks.next().expect("one row per output row"), &mut part);
            });
        });
        return;
    }
    let block = block_rows(n, width * element_size);
    let blocks = n.div_ceil(block);
    let mut chunks = out.chunks_exact_mut(width);
    walk.for_each_row(0..walk.rows(), |[start]| {
        let row = chunks.next().expect("one row per output row");
        if width.div_ceil(TILE) >= ENOUGH_TASKS {
            parallel::for_each_chunk(row, TILE, work, |t, tile| {
                whole(start + t * TILE, tile, &mut P::default())
            });
            return;
        }
        if blocks == 1 {
            whole(start, row, &mut P::default());
            return;
        }
        let tiles = width.div_ceil(TILE);
        let mut parts = parallel::map_blocks(tiles * blocks, 1, work, |task| {
            let (t, b) = (task.start / blocks, task.start % blocks);
            let mut part = P::default();
            let columns = TILE.min(width - t * TILE);
            fold(start + t * TILE, b * block..((b + 1) * block).min(n), columns, &mut part);
            part
        });
        for (tile, parts) in row.chunks_mut(TILE).zip(parts.chunks_exact_mut(blocks)) {
            let mut step = 1;
            while step < blocks {
                for i in (0..blocks - step).step_by(2 * step) {
                    let (earlier, later) = parts.split_at_mut(i + step);
                    merge(&mut earlier[i], &later[0]);
                }
                step *= 2;
            }
            write(&parts[0], tile);
        }
    });
}
