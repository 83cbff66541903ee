//! Runs a kernel over the rows of a contiguous tensor, a cache-sized block of rows at a time.

use super::work::FloatElement;
use crate::error::Result;
use crate::parallel::{self, Work};
use crate::{Element, Tensor};
use alloc::vec;

/// Elements per block: 16 KiB of f32 stay in the first cache for all passes over them.
const BLOCK: usize = 4096;
/// What a softmax costs per element, in the operations that [`Work::Flops`] counts.
pub(super) const FLOPS_PER_ELEMENT: usize = 16;

/// Calls `f(source, rows)` for a few whole rows of `width` elements of a contiguous tensor at a time, in the type that they
/// are computed in. The result goes into `rows`, which are the source themselves where none is given.
pub(super) fn map_rows<T: FloatElement>(
    op: &'static str,
    tensor: Tensor,
    width: usize,
    f: impl Fn(Option<&[T::Work]>, &mut [T::Work]) + Sync,
) -> Result<Tensor> {
    let rows_per_block = (BLOCK / width.max(1)).max(1);
    let block = rows_per_block * width.max(1);
    // Some 64 Ki elements per task.
    let task = block * (16 * BLOCK / block).max(1);
    map_chunks::<T>(op, tensor, task, |from, to| {
        if let Some(to) = T::as_work_mut(to) {
            let mut from = from.and_then(T::as_work).map(|from| from.chunks(block));
            to.chunks_mut(block).for_each(|to| f(from.as_mut().and_then(Iterator::next), to));
            return;
        }
        let mut scratch = vec![T::Work::ZERO; block.min(to.len())];
        for (k, to) in to.chunks_mut(block).enumerate() {
            let scratch = &mut scratch[..to.len()];
            T::load(from.map_or(&*to, |from| &from[k * block..][..to.len()]), scratch);
            f(None, scratch);
            T::store(scratch, to);
        }
    })
}

/// Calls `f(source, chunk)` for every chunk of the output, in parallel. When the tensor's own buffer is the output,
/// the chunk holds the source and there is no other.
pub(super) fn map_chunks<T: FloatElement>(
    op: &'static str,
    mut tensor: Tensor,
    chunk: usize,
    f: impl Fn(Option<&[T]>, &mut [T]) + Sync,
) -> Result<Tensor> {
    let work = Work::Flops(FLOPS_PER_ELEMENT * tensor.num_elements());
    if let Some(data) = tensor.dense_mut::<T>() {
        parallel::for_each_chunk(data, chunk, work, |_, to| f(None, to));
        return Ok(tensor);
    }
    let from = tensor.as_slice::<T>().expect("made contiguous by the caller");
    Tensor::build::<T>(op, tensor.shape().clone(), tensor.dtype(), |out| {
        parallel::for_each_chunk(out, chunk, work, |k, to| f(Some(&from[k * chunk..][..to.len()]), to));
    })
}
