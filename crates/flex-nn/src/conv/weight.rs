//! Gradient of a convolution with respect to its weight.
//!
//! Each element is the dot product of a grid channel with a shifted image channel, summed over positions and
//! the batch: [`dots`] of rows of the grid with windows of the planes that the forward pass uses. To run over
//! several rows of the planes at once, the grid is laid out with the planes' pitch, with zeros in the gaps.
//! The image values at those zeros must not count, which only holds for finite values (`0 * inf` is NaN); an
//! image with infinities or NaN is multiplied row by row.

use super::plan::{Geometry, check_scratch};
use super::product::{DotOperands, dots, max_lanes};
use super::program::Program;
use super::run::{PLANES_BYTES, check_packing, pack_all, product_work};
use crate::error::Result;
use crate::parallel::thresholds::{CONV_WEIGHT_TASKS, TASK_FINITE_ELEMENTS};
use crate::parallel::{Work, for_each_chunk, map_blocks};
use crate::storage::{self, Scratch};
use crate::stored::{Computing, Source};
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// Positions that are summed in registers before the sum is added to the result: long enough to hide the cost
/// of the sum over lanes, short enough for the windows to stay in the cache and for rounding errors to stay
/// small.
const SEGMENT: usize = 2048;
/// The rows per task are a multiple of this, the number of rows that [`dots`] processes together.
const ROWS: usize = 4;

/// Cost of [`weight_gradient`], in multiply-adds of a vector.
///
/// # Errors
/// Fails if the planes are too large to address.
pub(super) fn cost(op: &'static str, g: &Geometry) -> Result<f64> {
    let planes = Program::gather(op, g, [false; 3])?.planes;
    let [_, pitch_h, pitch_w] = [0, 1, 2].map(|k| planes.axes[k].len);
    let [size_d, size_h, size_w] = g.grid;
    let positions = ((size_d - 1) * pitch_h + size_h - 1) * pitch_w + size_w;
    let vectors = g.batch as f64 * positions.div_ceil(max_lanes::<f32>()) as f64;
    let sums = (g.batch as f64 * positions as f64 / (2 * SEGMENT) as f64).max(1.0);
    let products = [g.groups, g.grid_channels, g.image_channels, g.taps()].map(|n| n as f64);
    Ok(products.iter().product::<f64>() * (vectors + SUM * sums))
}

/// Cost of the sum over the lanes of a vector, in multiply-adds of a vector.
const SUM: f64 = 12.0;

/// Adds the gradient to `out`, `[groups * grid_channels, image_channels, taps]`.
///
/// # Errors
/// Fails if the scratch memory is too large to address.
pub(super) fn weight_gradient<A: Computing>(
    op: &'static str,
    g: &Geometry,
    image: Source<'_>,
    grid: Source<'_>,
    out: &mut [A],
) -> Result<()> {
    let program = Program::gather(op, g, [false; 3])?;
    let [pass] = &program.passes[..] else { return Ok(()) };
    let (taps, channel) = (&pass.taps, program.planes.channel_len());
    let columns = program.planes.channels.saturating_mul(taps.len());
    let mut offsets = storage::try_list(op, columns)?;
    (0..program.planes.channels).for_each(|c| offsets.extend(taps.iter().map(|tap| c * channel + tap.p)));
    if out.is_empty() || g.batch == 0 {
        return Ok(());
    }
    let (planes, rows) = (&program.planes, g.grid_channels);
    let [_, pitch_h, pitch_w] = [0, 1, 2].map(|k| planes.axes[k].len);
    let [size_d, size_h, size_w] = g.grid;
    let lanes = max_lanes::<A>();
    // Positions from the first window to the last; `wide` rounds them up to whole vectors.
    let positions = ((size_d - 1) * pitch_h + size_h - 1) * pitch_w + size_w;
    let wide = check_scratch(op, &[positions.next_multiple_of(lanes), rows, g.groups])? / (rows * g.groups);
    check_scratch(op, &[planes.len(), g.groups])?;
    let source = planes.source_len() * g.groups;
    let grid_len = size_d * size_h * size_w;

    let direct_image = planes.is_source().then(|| image.values::<A>()).flatten();
    let direct_grid = (positions == grid_len).then(|| grid.values::<A>()).flatten();
    // The operands are read in place only if the positions fill whole vectors.
    let (direct_image, direct_grid) = match (direct_image, direct_grid) {
        (Some(image), Some(grid)) if positions == wide => (Some(image), Some(grid)),
        _ => (None, None),
    };
    let direct = direct_image.is_some();
    let by_rows = !direct && wide != grid_len && !all_finite::<A>(image);
    let count = if by_rows { size_d * size_h } else { wide.div_ceil(SEGMENT) };
    let mut segments: Vec<(usize, usize)> = storage::try_list(op, count)?;
    if by_rows {
        for d in 0..size_d {
            segments.extend((0..size_h).map(|h| ((d * pitch_h + h) * pitch_w, size_w)));
        }
    } else {
        segments.extend((0..wide).step_by(SEGMENT).map(|start| (start, SEGMENT.min(wide - start))));
    }

    let image_planes = planes.len() * g.groups;
    let image_wide = wide * rows * g.groups;
    let bytes = (image_planes + image_wide).saturating_mul(size_of::<A>());
    let at_once = if direct { g.batch } else { (PLANES_BYTES / bytes.max(1)).clamp(1, g.batch) };
    let mut p_scratch = Scratch::new(op, if direct { 0 } else { at_once * image_planes + wide - positions })?;
    let mut g_scratch = Scratch::new(op, if direct { 0 } else { at_once * image_wide })?;
    check_packing::<A>(op, &program.planes, image)?;
    let total = g.groups * rows;
    let per_task = total.div_ceil(CONV_WEIGHT_TASKS).next_multiple_of(ROWS);
    let work = product_work(g.flops(), rows);
    for first in (0..g.batch).step_by(at_once) {
        let count = at_once.min(g.batch - first);
        if !direct {
            p_scratch[count * image_planes..].fill(A::ZERO);
            let image = image.slice(first * source..(first + count) * source);
            pack_all(&program.planes, image, &mut p_scratch[..count * image_planes]);
            let grid = grid.slice(first * total * grid_len..(first + count) * total * grid_len);
            widen_grid(g, pitch_h * pitch_w, pitch_w, wide, grid, &mut g_scratch[..count * image_wide]);
        }
        let p = direct_image.unwrap_or(&p_scratch);
        let rows_of = direct_grid.unwrap_or(&g_scratch);
        for_each_chunk(out, per_task * columns, work, |task, out| {
            let mut row = task * per_task;
            let mut out = out;
            while !out.is_empty() {
                let group = row / rows;
                let here = ((group + 1) * rows - row).min(out.len() / columns);
                let (block, rest) = out.split_at_mut(here * columns);
                for &(start, len) in &segments {
                    let images = (2 * SEGMENT / len).max(1);
                    for i in (0..count).step_by(images) {
                        let operands = DotOperands {
                            g: &rows_of[(i * total + row) * wide + start..],
                            g_row: wide,
                            g_image: total * wide,
                            p: &p[i * image_planes + group * planes.len() + start..],
                            p_image: image_planes,
                            offsets: &offsets,
                            rows: here,
                            images: images.min(count - i),
                            len,
                        };
                        dots(operands, block);
                    }
                }
                row += here;
                out = rest;
            }
        });
    }
    Ok(())
}

/// Lays out the rows of the grid with the pitch of the planes, with zeros between and after them.
fn widen_grid<A: Computing>(
    g: &Geometry,
    plane: usize,
    pitch: usize,
    wide: usize,
    grid: Source<'_>,
    out: &mut [A],
) {
    let [size_d, size_h, size_w] = g.grid;
    let len = size_d * size_h * size_w;
    let per_task = crate::parallel::rows_per_task((len + wide) * size_of::<A>());
    let work = Work::Bytes(2 * size_of_val(out));
    for_each_chunk(out, per_task * wide, work, |task, out| {
        for (k, dst) in out.chunks_exact_mut(wide).enumerate() {
            let first = (task * per_task + k) * len;
            let mut end = 0;
            for row in 0..size_d * size_h {
                let start = row / size_h * plane + row % size_h * pitch;
                dst[end..start].fill(A::ZERO);
                end = start + size_w;
                let at = first + row * size_w;
                grid.slice(at..at + size_w).read(&mut dst[start..end]);
            }
            dst[end..].fill(A::ZERO);
        }
    });
}

/// Whether no value is infinite or NaN.
fn all_finite<A: Computing>(values: Source<'_>) -> bool {
    let work = Work::Bytes(values.bytes().len());
    let finite = map_blocks(values.len(), TASK_FINITE_ELEMENTS, work, |range| {
        let mut wide = Scratch::<A>::default();
        let values = values.slice(range).load::<A>(&mut wide);
        vectorize(
            #[inline(always)]
            || values.iter().fold(true, |all, v| all & v.is_finite()),
        )
    });
    finite.into_iter().all(|finite| finite)
}
