//! Positions of the largest and smallest elements along an axis: of equal elements the first, and the first
//! NaN if there is one.

use super::arg_kernel::{ArgKernel, ByOrder};
use super::columns::{ColumnKernel, ReductionSizes, drive_columns};
use super::drivers::{build_bytes, for_each_output, reduced};
use super::indices::into_index_dtype;
use super::kernel::RowStarts;
use super::order::{self, FloatOrder, HalfOrder, IntOrder, Want};
use super::scratch::{ValueBytes, Word, whole_words, words};
use super::sizes::{BATCH, BLOCK, LONG_ROW, TASK};
use super::traversal::{AccessPath, Traversal};
use crate::error::{Error, Result, check_axis, check_index_dtype};
use crate::parallel::{self, Work};
use crate::storage::Scratch;
use crate::{DType, Tensor, bf16, f16};
use core::ops::Range;

/// The indices of the extremes along `axis`; with `values`, also the elements there.
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
    let shape = reduced(&tensor, axis);
    if tensor.num_elements() == 0 {
        if shape.num_elements() != 0 {
            return Err(Error::shape(op, tensor.shape(), "at least one element along the reduced axis"));
        }
        let indices = Tensor::empty(shape.clone(), index_dtype)?;
        // An error all the same for a dtype that cannot be compared.
        return dispatch_ring!(op, dtype, T => Ok((indices, Some(Tensor::build::<T>(op, shape, dtype, |_| ())?))));
    }
    let traversal = Traversal::ordered(tensor, axis)?;
    // Indices are not negative, so signed and unsigned dtypes hold the same bits. Indices of 32 bits, the
    // default, are written without a detour over I64.
    let narrow = index_dtype.size() == 4 && !values;
    let written = if narrow { index_dtype } else { DType::I64 };
    let indices = dispatch_order!(op, dtype, want, true, T, order => {
        search(op, &traversal, &ByOrder::<T, _>::new(order), written)
    })?;
    if narrow {
        return Ok((traversal.restore(indices)?, None));
    }
    let values = match values {
        true => Some(traversal.restore(pick(op, &traversal, indices.storage::<i64>())?)?),
        false => None,
    };
    Ok((traversal.restore(into_index_dtype(op, indices, index_dtype)?)?, values))
}

/// The elements at `indices`, which have the order of the traversal's output.
fn pick(op: &'static str, traversal: &Traversal, indices: &[i64]) -> Result<Tensor> {
    let dtype = traversal.tensor.dtype();
    let size = dtype.size();
    build_bytes(op, traversal.output_shape(), dtype, &mut |out| {
        let src = traversal.tensor.storage_bytes();
        let sizes = ReductionSizes { n: 1, element: 3 * size_of::<u64>(), output: size };
        for_each_output(&traversal.walk, sizes, out, &|first, starts, out| {
            // With a size known to the compiler, a copy is one load and one store.
            match size {
                1 => pick_elements::<1>(src, starts, traversal.stride, &indices[first..], out),
                2 => pick_elements::<2>(src, starts, traversal.stride, &indices[first..], out),
                4 => pick_elements::<4>(src, starts, traversal.stride, &indices[first..], out),
                _ => pick_elements::<8>(src, starts, traversal.stride, &indices[first..], out),
            }
        });
    })
}

/// For each row of `src`, writes the element of `SIZE` bytes at the row's index in `indices` to `out`.
fn pick_elements<const SIZE: usize>(
    src: &[u8],
    starts: RowStarts,
    stride: isize,
    indices: &[i64],
    out: &mut [u8],
) {
    let (src, out) = (src.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    for (k, (o, &i)) in out.iter_mut().zip(indices).enumerate() {
        *o = src[starts.at(k).wrapping_add_signed(i as isize * stride)];
    }
}

/// The indices of the extremes, as a tensor of `dtype`, whose elements have 4 or 8 bytes.
fn search(op: &'static str, traversal: &Traversal, kernel: &dyn ArgKernel, dtype: DType) -> Result<Tensor> {
    build_bytes(op, traversal.output_shape(), dtype, &mut |out| {
        let sizes = ReductionSizes { n: traversal.n, element: kernel.element_size(), output: dtype.size() };
        match traversal.path {
            AccessPath::AlongRows => arg_rows(traversal, kernel, sizes, out),
            _ => {
                let src = traversal.tensor.storage_bytes();
                let columns = ArgColumns { kernel, src, stride: traversal.stride };
                drive_columns(&traversal.walk, sizes, out, &columns);
            }
        }
    })
}

/// Writes indices as integers of 8 bytes if they fill `out`, otherwise of 4.
fn store(indices: &[i64], out: &mut [u8]) {
    if out.len() == size_of_val(indices) {
        out.copy_from_slice(bytemuck::cast_slice(indices));
        return;
    }
    for (o, &i) in bytemuck::cast_slice_mut::<_, u32>(out).iter_mut().zip(indices) {
        *o = i as u32;
    }
}

fn arg_rows(traversal: &Traversal, kernel: &dyn ArgKernel, sizes: ReductionSizes, out: &mut [u8]) {
    let src = traversal.tensor.storage_bytes();
    let n = sizes.n;
    for_each_output(&traversal.walk, sizes, out, &|_, starts, out| {
        if n > BLOCK {
            for (i, out) in out.chunks_exact_mut(sizes.output).enumerate() {
                store(&[arg_long_row(kernel, src, starts.at(i), n) as i64], out);
            }
            return;
        }
        // For a single row, clearing a whole batch would cost more than the rest of this function.
        let (mut one, mut many);
        let room: &mut [i64] = if out.len() == sizes.output {
            one = [0; 1];
            &mut one
        } else {
            many = [0; BATCH];
            &mut many
        };
        for (b, out) in out.chunks_mut(BATCH * sizes.output).enumerate() {
            let indices = &mut room[..out.len() / sizes.output];
            kernel.find_rows(src, starts.skip(b * BATCH), n, indices);
            store(indices, out);
        }
    });
}

/// The index of the extreme of `n` elements from position `start` on: finds the best block, then the element
/// in that block.
fn arg_long_row(kernel: &dyn ArgKernel, src: &[u8], start: usize, n: usize) -> usize {
    let work = Work::Bytes(n * kernel.element_size());
    // The best key of the blocks in `range`, and the first element of the block that has it.
    let best_of = |range: Range<usize>| -> (ValueBytes, usize) {
        let mut best: Option<(ValueBytes, usize)> = None;
        for first in range.clone().step_by(BLOCK) {
            let key = kernel.best_key(src, start + first, BLOCK.min(range.end - first));
            if best.is_none_or(|best| kernel.beats(key, best.0)) {
                best = Some((key, first));
            }
        }
        best.expect("a range has elements")
    };
    let task = if n < LONG_ROW { n } else { TASK };
    let tasks = parallel::map_blocks(n, task, work, best_of);
    let best =
        tasks.into_iter().reduce(|best, later| if kernel.beats(later.0, best.0) { later } else { best });
    let (key, first) = best.expect("a row has elements");
    first + kernel.locate(src, start + first, BLOCK.min(n - first), key)
}

/// Extremes down columns. The partial result of a tile is an index per column, followed by a key per column.
struct ArgColumns<'a> {
    kernel: &'a dyn ArgKernel,
    src: &'a [u8],
    stride: isize,
}

impl ColumnKernel for ArgColumns<'_> {
    fn partial_size(&self, width: usize) -> usize {
        whole_words(width * size_of::<i64>()) + width * self.kernel.key_size()
    }

    fn fold(
        &self,
        start: usize,
        rows: Range<usize>,
        width: usize,
        partial: &mut [u8],
        scratch: &mut Scratch<Word>,
    ) {
        let size = width * size_of::<u32>();
        if size_of_val(&**scratch) < size {
            *scratch = words(size);
        }
        let numbers = &mut bytemuck::cast_slice_mut(scratch)[..width];
        let (indices, keys) = partial.split_at_mut(whole_words(width * size_of::<i64>()));
        let indices = &mut bytemuck::cast_slice_mut(indices)[..width];
        let starts = RowStarts { first: start, stride: self.stride };
        self.kernel.track_rows(self.src, starts, rows, keys, indices, numbers);
    }

    fn absorb(&self, width: usize, earlier: &[u8], partial: &mut [u8]) {
        let (earlier, earlier_keys) = earlier.split_at(whole_words(width * size_of::<i64>()));
        let (indices, keys) = partial.split_at_mut(whole_words(width * size_of::<i64>()));
        let (earlier, indices) = (bytemuck::cast_slice(earlier), bytemuck::cast_slice_mut(indices));
        self.kernel.absorb(earlier_keys, &earlier[..width], keys, &mut indices[..width]);
    }

    fn write(&self, width: usize, partial: &[u8], out: &mut [u8]) {
        store(bytemuck::cast_slice(&partial[..width * size_of::<i64>()]), out);
    }
}
