//! Drivers of reductions over all elements and along an axis. They cut the work into tasks of fixed size and
//! combine the tasks' results in a fixed order. Compiled once for all reductions.

use super::columns::{ReduceColumns, ReductionSizes, columns_when_computed, drive_columns};
use super::kernel::{ReduceKernel, RowStarts};
use super::scratch::with_scratch;
use super::sizes::{BATCH, LONG_ROW, TASK};
use super::traversal::{AccessPath, Traversal, unordered_elements};
use crate::error::Result;
use crate::layout::{Layout, checked_num_elements};
use crate::parallel::{self, Work};
use crate::storage::{Cut, PieceReduction, RowReducer, RowReduction};
use crate::walk::Walk;
use crate::{DType, Shape, Tensor};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Range;

/// Shortest inner rows that a full reduction of a tensor with gaps reads in place; a tensor of shorter rows
/// is copied first.
const MIN_ROW: usize = 64;

/// Reduces all elements to a tensor of shape `[1]`.
pub(super) fn reduce_all(mut tensor: Tensor, kernel: &dyn ReduceKernel, dtype: DType) -> Result<Tensor> {
    if tensor.is_deferred() {
        if tensor.waits()
            && let Some(result) = reduce_all_when_computed(&mut tensor, kernel, dtype)?
        {
            return Ok(result);
        }
        tensor.evaluate()?;
    }
    if tensor.is_contiguous() {
        let (start, n) = (tensor.layout().offset(), tensor.num_elements());
        if let Some(result) = kernel.reduce_short(tensor.storage_bytes(), start, n, dtype) {
            return Ok(result);
        }
    }
    let facts = kernel.facts();
    with_scratch(facts.accumulator, &mut |acc| {
        let (n, copies) = if tensor.is_contiguous() {
            let n = tensor.num_elements();
            fold_long(kernel, tensor.storage_bytes(), tensor.layout().offset(), n, acc);
            (n, 1)
        } else {
            let (layout, copies) = unordered_elements(tensor.layout())?;
            let n = layout.num_elements();
            match n {
                0 => kernel.clear(acc),
                _ => fold_tensor(tensor.clone().with_layout(layout), kernel, acc)?,
            }
            (n, copies)
        };
        Ok(result_of_all(kernel, acc, n, copies, dtype))
    })
}

/// [`reduce_all`] of a tensor that waits, by the tasks of [`fold_long`] while their elements are computed.
/// `None` if the tensor has to be computed first.
fn reduce_all_when_computed(
    tensor: &mut Tensor,
    kernel: &dyn ReduceKernel,
    dtype: DType,
) -> Result<Option<Tensor>> {
    let (n, facts) = (tensor.num_elements(), kernel.facts());
    if n < LONG_ROW {
        return Ok(None);
    }
    let (each, element) = (facts.accumulator, facts.element);
    with_scratch(n.div_ceil(TASK) * each, &mut |partials| {
        let fold = |piece: &[u8], acc: &mut [u8]| fold_run(kernel, piece, 0, piece.len() / element, acc);
        let cut = Cut::Even(TASK);
        let reduction = PieceReduction { cut, partials: &mut *partials, partial: each, fold: &fold };
        let folded = tensor.fold_when_computed(reduction)?;
        Ok(folded.then(|| {
            kernel.merge(partials);
            result_of_all(kernel, &partials[..each], n, 1, dtype)
        }))
    })
}

/// The result of all elements, whose accumulator is `acc`: `n` elements that count `copies` times.
fn result_of_all(kernel: &dyn ReduceKernel, acc: &[u8], n: usize, copies: usize, dtype: DType) -> Tensor {
    let mut result = [0u64];
    let result = &mut bytemuck::bytes_of_mut(&mut result)[..kernel.facts().result];
    kernel.finish(acc, n, copies, result);
    Tensor::single_of_bytes(result, dtype)
}

/// Reduces the elements of a non-empty tensor to one accumulator.
fn fold_tensor(tensor: Tensor, kernel: &dyn ReduceKernel, acc: &mut [u8]) -> Result<()> {
    let walk = Walk::new([tensor.layout()]);
    let (inner, rows) = (walk.inner(), walk.rows());
    let unit = inner.strides[0] == 1 || inner.size == 1;
    if !unit || (rows > 1 && inner.size < MIN_ROW) {
        return fold_tensor(tensor.into_contiguous()?, kernel, acc);
    }
    let src = tensor.storage_bytes();
    let facts = kernel.facts();
    let each = facts.accumulator;
    // Reduces the rows `range` to `acc`.
    let fold_range = |range: Range<usize>, acc: &mut [u8]| {
        with_scratch(range.len() * each, &mut |partials| {
            let mut next = partials.chunks_exact_mut(each);
            walk.for_each_row(range.clone(), |[start]| {
                let partial = next.next().expect("one accumulator per row");
                if inner.size >= LONG_ROW {
                    fold_long(kernel, src, start, inner.size, partial);
                } else {
                    fold_run(kernel, src, start, inner.size, partial);
                }
            });
            kernel.merge(partials);
            acc.copy_from_slice(&partials[..each]);
        });
    };
    if rows == 1 || inner.size >= LONG_ROW {
        fold_range(0..rows, acc);
        return Ok(());
    }
    let work = Work::Bytes(rows * inner.size * facts.element);
    fold_tasks(kernel, rows, (TASK / inner.size).max(1), work, &fold_range, acc);
    Ok(())
}

/// Folds each block of at most `block` indices of `0..n`, in parallel when `work` pays, and merges the
/// results in order.
fn fold_tasks(
    kernel: &dyn ReduceKernel,
    n: usize,
    block: usize,
    work: Work,
    fold: &(dyn Fn(Range<usize>, &mut [u8]) + Sync),
    acc: &mut [u8],
) {
    let each = acc.len();
    let tasks = n.div_ceil(block);
    if tasks == 1 {
        return fold(0..n, acc);
    }
    with_scratch(tasks * each, &mut |partials| {
        parallel::for_each_chunk(partials, each, work, |k, partial| {
            fold(k * block..((k + 1) * block).min(n), partial);
        });
        kernel.merge(partials);
        acc.copy_from_slice(&partials[..each]);
    });
}

/// Reduces `n` contiguous elements of `src` from position `start` on; splits them among tasks from
/// [`LONG_ROW`] on.
fn fold_long(kernel: &dyn ReduceKernel, src: &[u8], start: usize, n: usize, acc: &mut [u8]) {
    if n < LONG_ROW {
        return fold_run(kernel, src, start, n, acc);
    }
    let work = Work::Bytes(n * kernel.facts().element);
    let fold = |range: Range<usize>, acc: &mut [u8]| {
        fold_run(kernel, src, start + range.start, range.len(), acc);
    };
    fold_tasks(kernel, n, TASK, work, &fold, acc);
}

/// Reduces `n` contiguous elements of `src` from position `start` on, on the calling thread.
pub(super) fn fold_run(kernel: &dyn ReduceKernel, src: &[u8], start: usize, n: usize, acc: &mut [u8]) {
    let (longest, each) = (kernel.facts().longest, acc.len());
    let starts = RowStarts { first: start, stride: longest as isize };
    if n <= longest {
        return kernel.fold_rows(src, starts, n, acc);
    }
    let (whole, rest) = (n / longest, n % longest);
    let blocks = n.div_ceil(longest);
    with_scratch(blocks * each, &mut |partials| {
        let (head, tail) = partials.split_at_mut(whole * each);
        kernel.fold_rows(src, starts, longest, head);
        kernel.fold_rows(src, starts.skip(whole), rest, tail);
        kernel.merge(partials);
        acc.copy_from_slice(&partials[..each]);
    });
}

/// The shape of the reduction of a tensor along `axis`, which is kept with size 1.
pub(super) fn reduced(tensor: &Tensor, axis: usize) -> Shape {
    let mut shape = tensor.shape().clone();
    shape[axis] = 1;
    shape
}

/// Reduces along `axis`, which is kept with size 1.
pub(super) fn reduce_axis(
    op: &'static str,
    mut tensor: Tensor,
    axis: usize,
    kernel: &dyn ReduceKernel,
    dtype: DType,
) -> Result<Tensor> {
    if tensor.num_elements() == 0 {
        let shape = reduced(&tensor, axis);
        return build_bytes(op, shape, dtype, &mut |out| fill_with_nothing(kernel, out));
    }
    if tensor.waits() {
        if tensor.fills_buffer()
            && let Some(result) = reduce_waiting(op, &mut tensor, axis, kernel, dtype)?
        {
            return Ok(result);
        }
        tensor.evaluate()?;
    }
    reduce_computed(op, tensor, axis, kernel, dtype)
}

/// [`reduce_axis`] of a tensor that waits: a tensor that waits too, or the result of folding pieces while
/// they are computed. `None` if the tensor has to be computed first.
fn reduce_waiting(
    op: &'static str,
    tensor: &mut Tensor,
    axis: usize,
    kernel: &dyn ReduceKernel,
    dtype: DType,
) -> Result<Option<Tensor>> {
    if let Some(result) = reduce_when_computed(op, tensor, axis, kernel, dtype) {
        return Ok(Some(result));
    }
    if let Some(result) = rows_when_computed(op, tensor, axis, kernel, dtype)? {
        return Ok(Some(result));
    }
    let [before, after] = [&tensor.shape()[..axis], &tensor.shape()[axis + 1..]];
    let sizes = [tensor.shape()[axis], after.iter().product()];
    if before.iter().any(|&size| size != 1) {
        return Ok(None);
    }
    let Some(mut partials) = columns_when_computed(tensor, sizes, kernel)? else { return Ok(None) };
    let shape = reduced(tensor, axis);
    let columns = ReduceColumns::contiguous(kernel, &[], sizes);
    build_bytes(op, shape, dtype, &mut |out| partials.write(&columns, out)).map(Some)
}

/// [`reduce_axis`] of a tensor that has elements, and does not wait.
fn reduce_computed(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    kernel: &dyn ReduceKernel,
    dtype: DType,
) -> Result<Tensor> {
    let traversal = Traversal::unordered(tensor, axis)?;
    let output = build_bytes(op, traversal.output_shape(), dtype, &mut |out| match traversal.path {
        AccessPath::AlongRows => reduce_rows(&traversal, kernel, out),
        path => {
            let facts = kernel.facts();
            let columns = ReduceColumns {
                kernel,
                facts,
                src: traversal.tensor.storage_bytes(),
                stride: traversal.stride,
                narrow: path == AccessPath::DownNarrowColumns,
                n: traversal.n,
                copies: traversal.copies,
            };
            let sizes = ReductionSizes { n: traversal.n, element: facts.element, output: facts.result };
            drive_columns(&traversal.walk, sizes, out, &columns);
        }
    })?;
    traversal.restore(output)
}

/// The reduction of the rows of a tensor that waits for its reader, as a tensor that waits too. `None` if the
/// axis is not the last, if its rows would be split among tasks, or if the tensor has to be computed first.
fn reduce_when_computed(
    op: &'static str,
    tensor: &Tensor,
    axis: usize,
    kernel: &dyn ReduceKernel,
    dtype: DType,
) -> Option<Tensor> {
    let (n, longest) = (tensor.shape()[axis], kernel.facts().longest);
    if !is_last(tensor, axis) || n < 2 || n > longest || n >= LONG_ROW {
        return None;
    }
    let shape = reduced(tensor, axis);
    let reducer = Box::new(AlongRows { op, axis, n, kernel: kernel.shared(), dtype });
    tensor.reduce_when_computed(RowReduction { name: op, row: n, shape, dtype, reducer })
}

/// Whether no axis after this one has more than one element.
fn is_last(tensor: &Tensor, axis: usize) -> bool {
    tensor.shape()[axis + 1..].iter().all(|&size| size == 1)
}

/// Shortest rows that are reduced in pieces: the accumulators of all rows take a small part of the rows'
/// memory.
const LEAST_FOLDED: usize = 256;

/// Most elements of a piece that is reduced while it is computed, unless a block or a row that is not reduced
/// in blocks is longer: 64 KiB of f32.
const PIECE: usize = 16 * 1024;

/// The reduction of the rows of a tensor that waits, in pieces that are reduced while they are computed: some
/// rows, or blocks of a row that is reduced in blocks, in the order of [`fold_run`]. `None` if the axis is
/// not the last, if rows are short, or if the tensor has to be computed first.
fn rows_when_computed(
    op: &'static str,
    tensor: &mut Tensor,
    axis: usize,
    kernel: &dyn ReduceKernel,
    dtype: DType,
) -> Result<Option<Tensor>> {
    let (n, facts) = (tensor.shape()[axis], kernel.facts());
    if !is_last(tensor, axis) || n < LEAST_FOLDED {
        return Ok(None);
    }
    let (each, result, count) = (facts.accumulator, facts.result, tensor.num_elements());
    // Rows that are split among tasks have blocks, too.
    let block = if n >= LONG_ROW { facts.longest.min(TASK) } else { facts.longest };
    let has_blocks = n > block;
    // Elements of a piece. Blocks are merged pairwise. A piece is a power of two of blocks, or ends with the
    // row, so it is one operand of a merge.
    let mut len = if has_blocks { block } else { n * (PIECE / n).max(1) };
    let is_even = !has_blocks || n.is_multiple_of(len);
    while has_blocks && 2 * len <= PIECE && (!is_even || n.is_multiple_of(2 * len)) {
        len *= 2;
    }
    // Partial results of a row, and of a piece.
    let (of_row, of_piece) = if has_blocks { (n.div_ceil(len), 1) } else { (1, len / n) };
    let runs = |k: usize, run: &mut dyn FnMut(Range<usize>)| {
        let (row, first) = (k / of_row * n, k % of_row * len);
        run(row + first..row + (first + len).min(n));
    };
    let cut = if is_even { Cut::Even(len) } else { Cut::Runs { of: &runs, longest: len } };
    with_scratch((count / n * of_row).next_multiple_of(of_piece) * each, &mut |partials| {
        let fold = |piece: &[u8], acc: &mut [u8]| {
            let elements = piece.len() / facts.element;
            if has_blocks {
                return fold_run(kernel, piece, 0, elements, acc);
            }
            let starts = RowStarts { first: 0, stride: n as isize };
            kernel.fold_rows(piece, starts, n, &mut acc[..elements / n * each]);
        };
        let partial = of_piece * each;
        let reduction = PieceReduction { cut, partials: &mut *partials, partial, fold: &fold };
        if !tensor.fold_when_computed(reduction)? {
            return Ok(None);
        }
        let shape = reduced(tensor, axis);
        let write = &mut |out: &mut [u8]| {
            for (row, out) in partials.chunks_exact_mut(of_row * each).zip(out.chunks_exact_mut(result)) {
                kernel.merge(row);
                kernel.finish(&row[..each], n, 1, out);
            }
        };
        build_bytes(op, shape, dtype, write).map(Some)
    })
}

/// A reduction along the last axis that has more than one element, which waits for its reader.
struct AlongRows {
    op: &'static str,
    axis: usize,
    /// Elements of a row.
    n: usize,
    kernel: Arc<dyn ReduceKernel>,
    /// The dtype of the result.
    dtype: DType,
}

impl RowReducer for AlongRows {
    fn fold(&self, rows: &[u8], out: &mut [u8]) {
        let starts = RowStarts { first: 0, stride: self.n as isize };
        fold_batches(&*self.kernel, rows, starts, self.n, 1, out);
    }

    fn reduce(&self, tensor: Tensor) -> Result<Tensor> {
        reduce_computed(self.op, tensor, self.axis, &*self.kernel, self.dtype)
    }
}

/// Writes the results of reducing no elements.
fn fill_with_nothing(kernel: &dyn ReduceKernel, out: &mut [u8]) {
    let facts = kernel.facts();
    with_scratch(facts.accumulator, &mut |acc| {
        kernel.clear(acc);
        for out in out.chunks_exact_mut(facts.result) {
            kernel.finish(acc, 0, 1, out);
        }
    });
}

/// A contiguous tensor of `dtype` whose bytes are written by `fill`.
pub(super) fn build_bytes(
    op: &'static str,
    shape: Shape,
    dtype: DType,
    fill: &mut dyn FnMut(&mut [u8]),
) -> Result<Tensor> {
    let count = checked_num_elements(op, &shape)?;
    // Not by way of a `Blank`, whose moves cost 3 % of a running sum of 64 elements.
    Tensor::try_build_bytes(op, Layout::contiguous(shape), count, dtype, |out| {
        fill(out);
        Ok(())
    })
}

fn reduce_rows(traversal: &Traversal, kernel: &dyn ReduceKernel, out: &mut [u8]) {
    let src = traversal.tensor.storage_bytes();
    let (n, copies) = (traversal.n, traversal.copies);
    let facts = kernel.facts();
    let (each, result) = (facts.accumulator, facts.result);
    let sizes = ReductionSizes { n, element: facts.element, output: result };
    for_each_output(&traversal.walk, sizes, out, &|_, starts, out| {
        if n <= facts.longest && n < LONG_ROW {
            return fold_batches(kernel, src, starts, n, copies, out);
        }
        with_scratch(each, &mut |acc| {
            for (i, out) in out.chunks_exact_mut(result).enumerate() {
                fold_long(kernel, src, starts.at(i), n, acc);
                kernel.finish(acc, n, copies, out);
            }
        });
    });
}

/// Reduces rows of `n` elements that are not split, each to its own result in `out`.
fn fold_batches(
    kernel: &dyn ReduceKernel,
    src: &[u8],
    starts: RowStarts,
    n: usize,
    copies: usize,
    out: &mut [u8],
) {
    let (each, result) = (kernel.facts().accumulator, kernel.facts().result);
    with_scratch((out.len() / result).min(BATCH) * each, &mut |acc| {
        for (b, out) in out.chunks_mut(BATCH * result).enumerate() {
            let acc = &mut acc[..out.len() / result * each];
            kernel.fold_rows(src, starts.skip(b * BATCH), n, acc);
            kernel.finish(acc, n, copies, out);
        }
    });
}

/// Splits the outputs of a reduction along contiguous rows into runs whose rows start a constant stride
/// apart, and calls `f(index of the first output, starts, outputs)` for each run. Runs are processed in
/// parallel, except that rows from [`LONG_ROW`] on are left to `f` to split.
pub(super) fn for_each_output(
    walk: &Walk<1>,
    sizes: ReductionSizes,
    out: &mut [u8],
    f: &(dyn Fn(usize, RowStarts, &mut [u8]) + Sync),
) {
    let ReductionSizes { n, element, output } = sizes;
    let inner = walk.inner();
    let run = |first: usize, out: &mut [u8]| {
        let mut rest = out;
        let (mut index, mut skip) = (first, first % inner.size);
        let rows = (first + rest.len() / output).div_ceil(inner.size) - first / inner.size;
        walk.for_each_row(first / inner.size..first / inner.size + rows, |[position]| {
            let len = (inner.size - skip).min(rest.len() / output);
            let (run, tail) = core::mem::take(&mut rest).split_at_mut(len * output);
            f(index, RowStarts { first: position, stride: inner.strides[0] }.skip(skip), run);
            (rest, index, skip) = (tail, index + len, 0);
        });
    };
    if n >= LONG_ROW {
        run(0, out);
        return;
    }
    let work = Work::Bytes(out.len() / output * n * element);
    let chunk = parallel::rows_per_task(n * element);
    parallel::for_each_chunk(out, chunk.saturating_mul(output), work, |k, out| run(k * chunk, out));
}
