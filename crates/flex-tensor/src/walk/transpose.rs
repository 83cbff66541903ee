//! Copies any layout to row-major order. Transposes run in tiles, so that both sides stay in cache.

use super::{Walk, gather_row, starts};
use crate::layout::Layout;
use crate::parallel::{self, Work};
use flex_math::simd::{SQUARE, prefetch, transposed};

/// Side of a transpose tile. 16 elements of four bytes fill one cache line on both sides.
const TILE: usize = 16;

/// Fewest lines of the source, whose elements are neighbours in the output, for which a tiled transpose beats
/// gathering row by row. The planes of an image are three, the phases of a pixel shuffle two: with 8 here,
/// 2 and 3 lines take 4.5 and 3.2 ns per f32, and with 2 1.5 and 1.4 (one thread of Zen 3).
const MIN_LINES: usize = 2;

/// Shortest lines for which it does.
const MIN_TILED: usize = 8;

by_width! {
    /// Writes the elements that `layout` addresses in `src` to `out` in row-major order.
    ///
    /// # Panics
    /// When `out` has another length than the layout, or when the layout leaves `src`.
    pub fn copy_to_contiguous(src; layout: &Layout; out) = copy_elements
}

/// [`copy_to_contiguous`] for one width.
fn copy_elements<T: bytemuck::Pod + Send + Sync>(src: &[T], layout: &Layout, out: &mut [T]) {
    assert_eq!(out.len(), layout.num_elements(), "copy: output length");
    if out.is_empty() {
        return;
    }
    let walk = Walk::new([&Layout::contiguous(layout.shape().clone()), layout]);
    let inner = walk.inner();
    let work = Work::Bytes(2 * size_of_val(out));
    if inner.strides[1] != 1 && inner.size >= MIN_LINES && copy_transposed(src, &walk, out, work) {
        return;
    }
    if walk.rows() == 1 {
        // One long row: split it instead.
        let block = parallel::rows_per_task(2 * size_of::<T>());
        parallel::for_each_chunk(out, block, work, |k, out| {
            let start = walk.offsets()[1].wrapping_add_signed((k * block) as isize * inner.strides[1]);
            gather_row(src, start, inner.strides[1], out);
        });
        return;
    }
    let rows = parallel::rows_per_task(2 * inner.size * size_of::<T>());
    parallel::for_each_chunk(out, rows * inner.size, work, |k, out| {
        let first = k * rows;
        let mut chunks = out.chunks_exact_mut(inner.size);
        walk.for_each_row(first..first + chunks.len(), |[_, start]| {
            let row = chunks.next().expect("as many rows as chunks");
            gather_row(src, start, inner.strides[1], row);
        });
    });
}

/// Copies if some outer axis has unit stride in the source: that axis and the innermost axis are transposed
/// tile by tile. Returns false, without copying, if there is no such axis.
fn copy_transposed<T: bytemuck::Pod + Send + Sync>(
    src: &[T],
    walk: &Walk<2>,
    out: &mut [T],
    work: Work,
) -> bool {
    let axes = walk.axes();
    let last = axes.len() - 1;
    let Some(unit) = axes[..last].iter().rposition(|a| a.strides[1] == 1 && a.size >= MIN_TILED) else {
        return false;
    };
    let (before, between) = (&axes[..unit], &axes[unit + 1..last]);
    let (columns, row_stride) = (axes[last].size, axes[last].strides[1]);
    let unit_rows = axes[unit].size;
    // One step along the unit axis moves this far in the output.
    let unit_step = axes[unit].strides[0] as usize;
    let block = unit_rows * unit_step;

    // Transposes rows `first..first + n` of the unit axis for the outer position `start`.
    let run = |start: usize, first: usize, out: &mut [T]| {
        let n = out.len() / unit_step;
        for_each_index(between, &mut |[o, s]| {
            let source = start.wrapping_add_signed(s) + first;
            transpose_block(src, source, row_stride, &mut out[o as usize..], unit_step, n, columns);
        });
    };
    let outer: usize = before.iter().map(|a| a.size).product();
    if outer >= parallel::threads()
        && let Ok(mut positions) = crate::storage::try_list("contiguous", outer)
    {
        for_each_index(before, &mut |[_, s]| positions.push(walk.offsets()[1].wrapping_add_signed(s)));
        parallel::for_each_chunk(out, block, work, |k, out| run(positions[k], 0, out));
    } else {
        let rows = parallel::rows_per_task(2 * unit_step * size_of::<T>()).next_multiple_of(TILE);
        let mut chunks = out.chunks_exact_mut(block);
        for_each_index(before, &mut |[_, s]| {
            let start = walk.offsets()[1].wrapping_add_signed(s);
            let out = chunks.next().expect("one block per outer index");
            parallel::for_each_chunk(out, rows * unit_step, work, |k, out| run(start, k * rows, out));
        });
    }
    true
}

/// Calls `f` with each operand's displacement for every index of a few axes, in row-major order. Compiled
/// once: the recursion would be unrolled into every caller.
fn for_each_index(axes: &[super::Axis<2>], f: &mut dyn FnMut([isize; 2])) {
    fn recurse(axes: &[super::Axis<2>], at: [isize; 2], f: &mut dyn FnMut([isize; 2])) {
        match axes.split_first() {
            None => f(at),
            Some((axis, rest)) => {
                for i in 0..axis.size as isize {
                    recurse(rest, [at[0] + i * axis.strides[0], at[1] + i * axis.strides[1]], f);
                }
            }
        }
    }
    recurse(axes, [0, 0], f);
}

/// `out[r * out_stride + c] = src[start + r + c * src_stride]` for `r < rows`, `c < columns`. Not inlined
/// into each of its callers.
#[inline(never)]
fn transpose_block<T: bytemuck::Pod>(
    src: &[T],
    start: usize,
    src_stride: isize,
    out: &mut [T],
    out_stride: usize,
    rows: usize,
    columns: usize,
) {
    let mut tile = [[T::zeroed(); TILE]; TILE];
    // Unknown to the compiler, which would unroll both loops over a tile: a third of the function, and slower
    // for bytes (1,024 x 1,024 take 420 us in place of 990, one thread of Zen 3). Elements of four bytes take
    // 0.9 of the time unrolled.
    let side = if size_of::<T>() == 4 { TILE } else { core::hint::black_box(TILE).min(TILE) };
    let line = |r: usize, c: usize| start.wrapping_add_signed(c as isize * src_stride) + r;
    for r in starts(0..rows, TILE) {
        let height = TILE.min(rows - r);
        for c in starts(0..columns, TILE) {
            let width = TILE.min(columns - c);
            if height < TILE || width < TILE {
                for (j, to) in tile[..width].iter_mut().enumerate() {
                    let at = line(r, c + j);
                    to[..height].copy_from_slice(&src[at..at + height]);
                }
                for i in 0..height {
                    let at = (r + i) * out_stride + c;
                    for (j, o) in out[at..at + width].iter_mut().enumerate() {
                        *o = tile[j][i];
                    }
                }
                continue;
            }
            // Lines of the source often lie a multiple of 4 KiB apart, and would evict each other from the
            // first-level cache before all rows of the tile are written.
            for (j, to) in tile[..side].iter_mut().enumerate() {
                let from = &src[line(r, c + j)..];
                *to = *from.first_chunk().expect("a full tile");
                // The hardware's prefetchers do not see these distances.
                let next = from.as_ptr().wrapping_offset(TILE as isize * src_stride);
                prefetch(next.cast(), size_of_val(to));
            }
            for i in starts(0..side, SQUARE) {
                let rows = &mut out[(r + i) * out_stride + c..];
                for j in 0..TILE / SQUARE {
                    let part = |k: usize| *tile[j * SQUARE + k][i..].first_chunk().expect("in a tile");
                    for (k, row) in transposed([part(0), part(1), part(2), part(3)]).iter().enumerate() {
                        let to = rows[k * out_stride + j * SQUARE..].first_chunk_mut::<SQUARE>();
                        *to.expect("a row of the tile") = *row;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use alloc::vec;
    use alloc::vec::Vec;

    fn check(layout: &Layout, src: &[u32]) {
        let mut got = vec![u32::MAX; layout.num_elements()];
        copy_to_contiguous(src, layout, &mut got);
        let mut want = vec![];
        for flat in 0..layout.num_elements() {
            let mut rest = flat;
            let mut index = vec![0; layout.rank()];
            for k in (0..layout.rank()).rev() {
                index[k] = rest % layout.shape()[k];
                rest /= layout.shape()[k];
            }
            want.push(src[layout.position(&index)]);
        }
        assert_eq!(got, want, "{layout:?}");
    }

    #[test]
    fn transposes_of_every_extent_around_a_tile() {
        for rows in [1, 2, 7, 8, 15, 16, 17, 33] {
            for columns in [1, 2, 3, 5, 7, 8, 16, 31, 40] {
                let src: Vec<u32> = (0..rows as u32 * columns as u32 * 3).collect();
                let layout = Layout::contiguous(Shape::from(vec![3, rows, columns]));
                check(&layout.clone().swap_axes(1, 2).unwrap(), &src);
                check(&layout.clone().swap_axes(0, 2).unwrap(), &src);
                check(&layout.permute(&[2, 0, 1]).unwrap(), &src);
                check(&layout.permute(&[1, 2, 0]).unwrap(), &src);
                check(&layout.clone().swap_axes(0, 2).unwrap().flip(&[1]).unwrap(), &src);
                check(&layout.flip(&[0, 2]).unwrap(), &src);
            }
        }
    }

    #[test]
    fn large_copies_run_in_parallel_blocks() {
        let src: Vec<u32> = (0..600 * 500).collect();
        let layout = Layout::contiguous(Shape::from(vec![600, 500]));
        check(&layout.clone().swap_axes(0, 1).unwrap(), &src);
        check(&layout.clone().flip(&[0]).unwrap(), &src);
        check(&layout.clone().flip(&[0, 1]).unwrap(), &src);
        let four = Layout::contiguous(Shape::from(vec![20, 30, 25, 20]));
        check(&four.permute(&[3, 1, 2, 0]).unwrap(), &src);
        check(&four.permute(&[0, 3, 1, 2]).unwrap(), &src);
        check(&layout.narrow(1, 3, 77).unwrap().expand(&[3, 600, 77]).unwrap(), &src);
    }
}
