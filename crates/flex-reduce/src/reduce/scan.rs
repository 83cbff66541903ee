//! Scans along an axis: decides which rows or columns are scanned together, and by which task. Rows beyond
//! [`BLOCK`] elements are scanned as blocks, in parallel, the way [`scan_kernel`](super::scan_kernel) scans
//! strips. Compiled once for all scans.

use super::drivers::build_bytes;
use super::scan_kernel::ScanKernel;
use super::scratch::{ValueBytes, with_scratch};
use super::traversal::inverse;
use crate::Tensor;
use crate::error::{Result, check_axis};
use crate::parallel::thresholds::SCAN_MATRICES;
use crate::parallel::{self, Work};
use alloc::vec::Vec;

/// Elements of a row that one task scans. Their sums are added to the sums of the blocks before them, so the
/// order of sums follows from this number.
const BLOCK: usize = 64 * 1024;

/// Fewest columns that are scanned together when a matrix is split by columns.
const TILE: usize = 256;

/// Most such columns: their running values fit into the first-level cache.
const WIDEST_TILE: usize = 8 * TILE;

/// The number of columns that are scanned together in a matrix of `width` columns: so many that every thread
/// has as many tiles as the others, and tiles are as wide as possible, since each row of a tile lies in
/// another page. On one thread of Zen 4, running sums down 1,024 columns of 1,024 f32 take 316 us in tiles of
/// 256, 276 of 512 and 257 of 1,024. Columns do not depend on each other, so results do not depend on the
/// tiles.
fn tile_width(width: usize, threads: usize) -> usize {
    let tiles = threads * width.div_ceil(threads.saturating_mul(WIDEST_TILE));
    width.div_ceil(tiles).next_multiple_of(TILE / 4).max(TILE)
}

/// Scans along `axis`. The result has the memory order of the tensor, and reuses its buffer if no other
/// tensor shares it.
pub(super) fn scan(op: &'static str, tensor: Tensor, axis: usize, kernel: &dyn ScanKernel) -> Result<Tensor> {
    check_axis(op, axis, tensor.rank())?;
    if tensor.num_elements() == 0 {
        return tensor.into_contiguous();
    }
    if tensor.is_contiguous() {
        return scan_contiguous(op, tensor, axis, kernel);
    }
    let order = tensor.layout().axes_by_stride();
    let in_order = tensor.clone().permute(&order)?;
    if !in_order.is_contiguous() {
        drop(in_order);
        return scan_contiguous(op, tensor.into_contiguous()?, axis, kernel);
    }
    drop(tensor);
    let back = inverse(&order);
    scan_contiguous(op, in_order, back[axis], kernel)?.permute(&back)
}

fn scan_contiguous(
    op: &'static str,
    mut tensor: Tensor,
    axis: usize,
    kernel: &dyn ScanKernel,
) -> Result<Tensor> {
    let shape = tensor.shape().clone();
    let (n, width) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let size = kernel.element_size();
    let run = |src: Option<&[u8]>, out: &mut [u8]| match width {
        1 => scan_rows(kernel, src, out, n),
        _ => scan_columns(kernel, src, out, n, width),
    };
    if let Some(data) = tensor.dense_bytes_mut() {
        run(None, data);
        return Ok(tensor);
    }
    let span = tensor.layout().span();
    let src = &tensor.storage_bytes()[span.start * size..span.end * size];
    build_bytes(op, shape, tensor.dtype(), &mut |out| run(Some(src), out))
}

/// The cost of a scan's step in [`Work::Flops`]: 0.25 to 0.4 ns, since it waits for the step before.
const FLOPS: usize = 32;

/// The work of scanning elements of `bytes` bytes in total.
fn work_of(kernel: &dyn ScanKernel, bytes: usize) -> Work {
    Work::Flops(FLOPS * (bytes / kernel.element_size()))
}

/// Scans rows of `n` elements of `src` to `out`, or of `out` in place.
fn scan_rows(kernel: &dyn ScanKernel, src: Option<&[u8]>, out: &mut [u8], n: usize) {
    let row = n * kernel.element_size();
    if n <= BLOCK {
        let work = work_of(kernel, out.len());
        let chunk = row * parallel::rows_per_task(2 * row);
        parallel::for_each_chunk(out, chunk, work, |k, out| {
            if let Some(src) = src {
                out.copy_from_slice(&src[k * chunk..k * chunk + out.len()]);
            }
            kernel.scan_rows(out, n, kernel.identity());
        });
        return;
    }
    for (k, out) in out.chunks_exact_mut(row).enumerate() {
        scan_long_row(kernel, src.map(|src| &src[k * row..(k + 1) * row]), out);
    }
}

/// Scans a row in blocks: in parallel, after a first pass over the blocks' totals, or one block after the
/// other.
fn scan_long_row(kernel: &dyn ScanKernel, src: Option<&[u8]>, row: &mut [u8]) {
    let size = kernel.element_size();
    let block = BLOCK * size;
    let scan = |b: usize, base: ValueBytes, out: &mut [u8]| {
        if let Some(src) = src {
            out.copy_from_slice(&src[b * block..b * block + out.len()]);
        }
        let len = out.len() / size;
        kernel.scan_rows(out, len, base)
    };
    let work = work_of(kernel, row.len());
    let strips = kernel.has_strips();
    if strips && work.is_parallel() {
        let from: &[u8] = src.unwrap_or(row);
        let totals = parallel::map_blocks(from.len(), block, work, |range| kernel.total(&from[range]));
        let mut bases = Vec::with_capacity(totals.len());
        let mut base = kernel.identity();
        for total in totals {
            bases.push(base);
            base = kernel.combine(base, total);
        }
        parallel::for_each_chunk(row, block, work, |b, out| {
            scan(b, bases[b], out);
        });
        return;
    }
    let mut base = kernel.identity();
    for (b, out) in row.chunks_mut(block).enumerate() {
        let total = scan(b, base, out);
        base = if strips { kernel.combine(base, total) } else { total };
    }
}

/// Scans down the columns of matrices of `n` rows of `width` elements, all columns of a tile at once.
fn scan_columns(kernel: &dyn ScanKernel, src: Option<&[u8]>, out: &mut [u8], n: usize, width: usize) {
    let size = kernel.element_size();
    let work = work_of(kernel, out.len());
    let (row, matrix) = (width * size, n * width * size);
    if out.len() / matrix >= SCAN_MATRICES || width < 2 * TILE {
        parallel::for_each_chunk(out, matrix, work, |k, out| {
            if let Some(src) = src {
                out.copy_from_slice(&src[k * matrix..(k + 1) * matrix]);
            }
            with_scratch(width * kernel.running_size(), &mut |carry| {
                kernel.clear(carry);
                kernel.advance(carry, out);
            });
        });
        return;
    }
    let columns = tile_width(width, parallel::threads());
    for (k, out) in out.chunks_exact_mut(matrix).enumerate() {
        let src = src.map(|src| &src[k * matrix..(k + 1) * matrix]);
        let mut tiles: Vec<Vec<&mut [u8]>> = Vec::new();
        tiles.resize_with(width.div_ceil(columns), || Vec::with_capacity(n));
        for row in out.chunks_exact_mut(row) {
            for (tile, piece) in tiles.iter_mut().zip(row.chunks_mut(columns * size)) {
                tile.push(piece);
            }
        }
        parallel::for_each_chunk(&mut tiles, 1, work, |t, tile| {
            with_scratch(columns * kernel.running_size(), &mut |carry| {
                kernel.clear(carry);
                for (i, piece) in tile[0].iter_mut().enumerate() {
                    if let Some(src) = src {
                        let at = i * row + t * columns * size;
                        piece.copy_from_slice(&src[at..at + piece.len()]);
                    }
                    kernel.advance(&mut carry[..piece.len() / size * kernel.running_size()], piece);
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_equal_tiles() {
        for width in [2 * TILE, 513, 600, 1024, 1025, 6144, 10_240, 100_000] {
            for threads in [1, 2, 3, 4, 16, 64, usize::MAX] {
                let tile = tile_width(width, threads);
                assert!((TILE..=WIDEST_TILE).contains(&tile), "{width}, {threads}: {tile}");
                // The columns of the thread that has most, beside an equal share.
                let most = width.div_ceil(tile).div_ceil(threads) * tile;
                let fair = width.div_ceil(threads).max(TILE);
                assert!(most < fair + fair / 2, "{width}, {threads}: {most} columns of {fair}");
            }
        }
    }
}
