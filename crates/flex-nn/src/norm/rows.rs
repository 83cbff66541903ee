//! Runs a kernel over the rows of a contiguous tensor, one cache-sized block of rows at a time.

use crate::error::Result;
use crate::parallel::{self, Work};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor, storage};

/// Elements per block: 16 KiB of f32 stay in the first-level cache for all passes over them.
const BLOCK: usize = 4096;
/// Cost of a softmax per element, in the operations that [`Work::Flops`] counts.
pub(super) const FLOPS_PER_ELEMENT: usize = 16;

/// The computation on a block of whole rows: `rows(source, other, rows)`.
trait RowBlockKernel<A>: Sync {
    fn rows(&self, from: Option<&[A]>, other: &[A], to: &mut [A]);
}

impl<A, F: Fn(Option<&[A]>, &[A], &mut [A]) + Sync> RowBlockKernel<A> for F {
    fn rows(&self, from: Option<&[A]>, other: &[A], to: &mut [A]) {
        self(from, other, to)
    }
}

/// Calls `f(source, other, rows)` for one block of whole rows of `width` elements at a time, in the computing
/// type. `other` are the same positions of the tensor `other`, and empty without one. `f` writes its result
/// to `rows`; without a `source`, `rows` holds the source.
///
/// # Panics
/// Panics if `other` has another number of elements than the tensor.
pub(super) fn map_rows<A: Computing>(
    op: &'static str,
    tensor: Tensor,
    other: Option<Source<'_>>,
    width: usize,
    f: impl Fn(Option<&[A]>, &[A], &mut [A]) + Sync,
) -> Result<Tensor> {
    map_blocks(op, tensor, other, width, &f)
}

/// [`map_rows`], compiled once per computing type.
fn map_blocks<A: Computing>(
    op: &'static str,
    tensor: Tensor,
    other: Option<Source<'_>>,
    width: usize,
    f: &dyn RowBlockKernel<A>,
) -> Result<Tensor> {
    assert!(
        other.is_none_or(|other| other.len() == tensor.num_elements()),
        "{op}: operands of other lengths"
    );
    let rows_per_block = (BLOCK / width.max(1)).max(1);
    let block = rows_per_block * width.max(1);
    // About 64 Ki elements per task.
    let task = block * (16 * BLOCK / block).max(1);
    let buffers = 1 + other.is_some() as usize;
    if tensor.dtype() != A::DTYPE {
        let count = tensor.num_elements();
        let bytes = (buffers * size_of::<A>()).saturating_mul(block.min(count));
        storage::ensure_for_tasks(op, bytes, count.div_ceil(task))?;
    }
    map_chunks(op, tensor, task, |first, from, mut to| {
        let len = to.len();
        let other = other.map(|other| other.slice(first..first + len));
        if let Some(to) = to.values::<A>() {
            let from = from.and_then(Source::values::<A>);
            let other = other.and_then(Source::values::<A>);
            for (k, to) in to.chunks_mut(block).enumerate() {
                let rows = k * block..k * block + to.len();
                f.rows(from.map(|from| &from[rows.clone()]), other.map_or(&[], |other| &other[rows]), to);
            }
            return;
        }
        let mut scratch = Scratch::<A>::for_task(block.min(len) * buffers);
        for start in (0..len).step_by(block) {
            let rows = start..len.min(start + block);
            let mut to = to.part(rows.clone());
            let (scratch, room) = scratch.split_at_mut(block.min(len));
            let scratch = &mut scratch[..rows.len()];
            from.map_or(to.source(), |from| from.slice(rows.clone())).read(scratch);
            let room = match other {
                Some(other) => {
                    let room = &mut room[..rows.len()];
                    other.slice(rows).read(room);
                    &*room
                }
                None => &[],
            };
            f.rows(None, room, scratch);
            to.write(scratch);
        }
    })
}

/// The computation on a chunk: `chunk(first, source, chunk)`.
trait ChunkKernel: Sync {
    fn chunk(&self, first: usize, from: Option<Source<'_>>, to: Sink<'_>);
}

impl<F: Fn(usize, Option<Source<'_>>, Sink<'_>) + Sync> ChunkKernel for F {
    fn chunk(&self, first: usize, from: Option<Source<'_>>, to: Sink<'_>) {
        self(first, from, to)
    }
}

/// Calls `f(first, source, chunk)` for every chunk of the output, in parallel; `first` is the position of the
/// chunk's first element. If the output is the tensor's own buffer, `source` is `None` and the chunk holds
/// the source.
pub(super) fn map_chunks(
    op: &'static str,
    tensor: Tensor,
    chunk: usize,
    f: impl Fn(usize, Option<Source<'_>>, Sink<'_>) + Sync,
) -> Result<Tensor> {
    map_bytes(op, tensor, chunk, &f)
}

/// [`map_chunks`], compiled once.
fn map_bytes(op: &'static str, mut tensor: Tensor, chunk: usize, f: &dyn ChunkKernel) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let work = Work::Flops(FLOPS_PER_ELEMENT * tensor.num_elements());
    if let Some(data) = tensor.dense_bytes_mut() {
        parallel::for_each_chunk(data, chunk * dtype.size(), work, |k, to| {
            f.chunk(k * chunk, None, Sink::new(to, dtype));
        });
        return Ok(tensor);
    }
    let from = Source::of(&tensor);
    let mut blank = Blank::new(op, tensor.shape().clone(), dtype)?;
    parallel::for_each_chunk(blank.bytes(), chunk * dtype.size(), work, |k, to| {
        let to = Sink::new(to, dtype);
        let from = from.slice(k * chunk..k * chunk + to.len());
        f.chunk(k * chunk, Some(from), to);
    });
    Ok(blank.finish())
}
