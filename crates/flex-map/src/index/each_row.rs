//! The loop over the rows of an output whose elements are fetched by index.

use crate::parallel::{self, Work};
use crate::walk::Walk;

/// The cost of an element that is fetched by index, in the unit of [`Work::Flops`]: some 1.5 ns.
const FLOPS: usize = 128;

/// Calls `f` with the positions and the elements of each row of a row-major output, which is the walk's first
/// operand. Long rows are split into several pieces, so that threads can share them.
pub(super) fn for_each_row<T: Send, const N: usize>(
    walk: &Walk<N>,
    out: &mut [T],
    bytes_per_element: usize,
    f: impl Fn([usize; N], &mut [T]) + Sync,
) {
    let inner = walk.inner();
    let task = parallel::rows_per_task(bytes_per_element);
    // Short rows stay whole.
    let task = if inner.size < task { task - task % inner.size } else { task };
    let work = Work::Flops(out.len().saturating_mul(FLOPS));
    parallel::for_each_chunk(out, task, work, |k, chunk| {
        let first = k * task;
        let rows = first / inner.size..(first + chunk.len()).div_ceil(inner.size);
        let mut skip = first % inner.size;
        let mut rest = chunk;
        walk.for_each_row(rows, |mut positions| {
            let len = rest.len().min(inner.size - skip);
            let (row, tail) = core::mem::take(&mut rest).split_at_mut(len);
            if skip != 0 {
                for (position, stride) in positions.iter_mut().zip(inner.strides) {
                    *position = position.wrapping_add_signed(skip as isize * stride);
                }
            }
            f(positions, row);
            (rest, skip) = (tail, 0);
        });
    });
}
