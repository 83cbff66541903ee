//! Runs kernels over the pieces and planes of a pooling, in the computing type.

use super::fold::FoldScratch;
use super::plan::{PoolPart, PoolPlan, TILE};
use crate::error::Result;
use crate::parallel;
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, DType, Tensor, storage};

/// Calls `f(part, out, at)` for each piece of the outputs `out`, the first of which is number `first`. `f`
/// writes all of the `out` that it gets, whose first element is number `at` of the outputs here.
pub(super) fn for_each_piece<A: Computing>(
    plan: &PoolPlan,
    x: Source<'_>,
    first: usize,
    mut out: Sink<'_>,
    f: &mut dyn FnMut(&PoolPart<'_, A>, &mut [A], usize),
) {
    let (mut wide, mut narrow) = (Scratch::default(), Scratch::default());
    let mut at = 0;
    for piece in plan.pieces(first..first + out.len()) {
        let rows = plan.rows.reach(piece.rows.clone());
        let start = piece.plane * plan.input_plane();
        let block = x.slice(start + rows.start * plan.cols.input..start + rows.end * plan.cols.input);
        let part = PoolPart { src: block.load(&mut wide), first_row: rows.start, piece };
        let end = at + part.piece.len();
        out.part(at..end).through(&mut narrow, |out| f(&part, out, at));
        at = end;
    }
}

/// `Ok` if there is memory for the buffers of tasks of `chunk` outputs: rows and phases, and where elements
/// are converted, the tasks' part of the input and of the output.
pub(super) fn check_memory<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    dtype: DType,
    chunk: usize,
) -> Result<()> {
    let converted = if dtype == A::DTYPE { 0 } else { plan.input_plane().saturating_add(chunk) };
    let elements = converted.saturating_add(plan.cols.input).saturating_add(8 * TILE);
    let tasks = plan.planes.saturating_mul(plan.output_plane()).div_ceil(chunk.max(1));
    storage::ensure_for_tasks(op, elements.saturating_mul(size_of::<A>()), tasks)
}

/// Pools the contiguous `x`. `f(part, scratch, out)` writes the outputs of a piece.
pub(super) fn map_pieces<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    f: impl Fn(&PoolPart<'_, A>, &mut FoldScratch<A>, &mut [A]) + Sync,
) -> Result<Tensor> {
    let (dtype, size, src) = (x.dtype(), x.dtype().size(), Source::of(x));
    let mut blank = Blank::new(op, plan.out_shape.clone(), dtype)?;
    let chunk = plan.chunk(size);
    check_memory::<A>(op, plan, dtype, chunk)?;
    parallel::for_each_chunk(blank.bytes(), chunk * size, plan.work(size), |k, out| {
        let mut scratch = FoldScratch::new();
        for_each_piece::<A>(plan, src, k * chunk, Sink::new(out, dtype), &mut |part, out, _| {
            f(part, &mut scratch, out);
        });
    });
    Ok(blank.finish())
}

/// A tensor like the contiguous `x`, with each plane computed by `f(plane, grads, scratch, out)` from the
/// plane of the contiguous `grad`. Besides, `f` reads `more` bytes per element of `grad`.
pub(super) fn map_planes<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    grad: &Tensor,
    more: usize,
    f: impl Fn(usize, &[A], &mut Scratch<A>, &mut [A]) + Sync,
) -> Result<Tensor> {
    let (dtype, size, src) = (x.dtype(), x.dtype().size(), Source::of(grad));
    let mut blank = Blank::new(op, x.shape().clone(), dtype)?;
    let (input_plane, output_plane) = (plan.input_plane(), plan.output_plane());
    let bytes = input_plane.saturating_add(output_plane).saturating_mul(size);
    let planes = parallel::rows_per_task(bytes.saturating_add(output_plane.saturating_mul(more)));
    // A row, its shares and phases, and where elements are converted, both planes.
    let converted = if dtype == A::DTYPE { 0 } else { input_plane.saturating_add(output_plane) };
    let rows = plan.cols.output.saturating_mul(6).saturating_add(plan.cols.input).saturating_add(TILE);
    let elements = converted.saturating_add(rows);
    storage::ensure_for_tasks(op, elements.saturating_mul(size_of::<A>()), plan.planes.div_ceil(planes))?;
    parallel::for_each_chunk(blank.bytes(), planes * input_plane * size, plan.work(size), |k, out| {
        let [mut wide, mut narrow, mut scratch] = [(); 3].map(|()| Scratch::default());
        for (plane, out) in out.chunks_exact_mut(input_plane * size).enumerate() {
            let plane = k * planes + plane;
            let grads = src.slice(plane * output_plane..(plane + 1) * output_plane);
            let grads = grads.load(&mut wide);
            Sink::new(out, dtype).through(&mut narrow, |out| f(plane, grads, &mut scratch, out));
        }
    });
    Ok(blank.finish())
}
