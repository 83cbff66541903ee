//! Runs a kernel over the rows of a contiguous tensor, one cache-sized block of rows at a time.

use crate::error::Result;
use crate::float::FloatElement;
use crate::parallel::{self, Work};
use crate::{Element, Tensor};
use alloc::vec;

/// Elements per block: 16 KiB of f32 stay in the first-level cache for all passes over them.
const BLOCK: usize = 4096;
/// Cost of a softmax per element, in the operations that [`Work::Flops`] counts.
pub(super) const FLOPS_PER_ELEMENT: usize = 16;

/// Calls `f(source, others, rows)` for one block of whole rows of `width` elements at a time, in the computed
/// type. `others` are the same positions of the `others` tensors. `f` writes its result to `rows`; without a
/// `source`, `rows` holds the source.
///
/// # Panics
/// Panics if one of the `others` has another number of elements than the tensor.
pub(super) fn map_rows<T: FloatElement, const N: usize>(
    op: &'static str,
    tensor: Tensor,
    others: [&[T]; N],
    width: usize,
    f: impl Fn(Option<&[T::Compute]>, [&[T::Compute]; N], &mut [T::Compute]) + Sync,
) -> Result<Tensor> {
    assert!(
        others.iter().all(|other| other.len() == tensor.num_elements()),
        "{op}: operands of other lengths"
    );
    let rows_per_block = (BLOCK / width.max(1)).max(1);
    let block = rows_per_block * width.max(1);
    // About 64 Ki elements per task.
    let task = block * (16 * BLOCK / block).max(1);
    map_chunks::<T>(op, tensor, task, |first, from, to| {
        let others = others.map(|other| &other[first..][..to.len()]);
        if let Some(to) = T::as_compute_mut(to) {
            let from = from.and_then(T::as_compute);
            let others = others.map(|other| T::as_compute(other).expect("as the output"));
            for (k, to) in to.chunks_mut(block).enumerate() {
                let rows = k * block..k * block + to.len();
                f(from.map(|from| &from[rows.clone()]), others.map(|other| &other[rows.clone()]), to);
            }
            return;
        }
        let block = block.min(to.len());
        let mut scratch = vec![T::Compute::ZERO; (1 + N) * block];
        let (scratch, room) = scratch.split_at_mut(block);
        for (k, to) in to.chunks_mut(block).enumerate() {
            let rows = k * block..k * block + to.len();
            let scratch = &mut scratch[..to.len()];
            T::widen_slice(from.map_or(&*to, |from| &from[rows.clone()]), scratch);
            for (other, room) in others.iter().zip(room.chunks_mut(block)) {
                T::widen_slice(&other[rows.clone()], &mut room[..to.len()]);
            }
            f(None, core::array::from_fn(|n| &room[n * block..][..to.len()]), scratch);
            T::narrow_slice(scratch, to);
        }
    })
}

/// Calls `f(first, source, chunk)` for every chunk of the output, in parallel; `first` is the position of the
/// chunk's first element. If the output is the tensor's own buffer, `source` is `None` and the chunk holds
/// the source.
pub(super) fn map_chunks<T: FloatElement>(
    op: &'static str,
    mut tensor: Tensor,
    chunk: usize,
    f: impl Fn(usize, Option<&[T]>, &mut [T]) + Sync,
) -> Result<Tensor> {
    let work = Work::Flops(FLOPS_PER_ELEMENT * tensor.num_elements());
    if let Some(data) = tensor.dense_mut::<T>() {
        parallel::for_each_chunk(data, chunk, work, |k, to| f(k * chunk, None, to));
        return Ok(tensor);
    }
    let from = tensor.as_slice::<T>().expect("made contiguous by the caller");
    Tensor::build::<T>(op, tensor.shape().clone(), tensor.dtype(), |out| {
        parallel::for_each_chunk(out, chunk, work, |k, to| {
            f(k * chunk, Some(&from[k * chunk..][..to.len()]), to);
        });
    })
}
