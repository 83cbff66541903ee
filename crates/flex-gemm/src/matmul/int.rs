//! Matrix products of integers: exact modulo 2^bits, [blocked](super::blocked) and vectorised.
//!
//! The left operand is packed into strips of [`MR`] rows, the right operand into panels of [`PANEL_BYTES`],
//! and the kernel keeps the sums of `MR` rows in registers. One core of Zen 5 does 300 (i8, i16), 180 (i32)
//! and 90 (i64) billion operations per second at 256^3.

use super::blocked::{Lines, Packed, Packing, Strips, Tile, TileKernel, TileRows, TileSizes, multiply};
use super::gemm::{MatLayout, MatRef, Threads, sizes};
use super::lane::Lane;
use crate::dtype::Element;
use crate::parallel::Work;
use crate::parallel::thresholds::TASK_INTEGER_ROWS;
use crate::walk::gather_row;
use core::marker::PhantomData;
use flex_math::simd::{Scalar, Simd, VMulAdd, Vector, WithSimd, dispatch, vectorize_lean};

/// Number of rows of the kernel.
const MR: usize = 4;
/// Width of a panel in bytes: two AVX-512 registers.
const PANEL_BYTES: usize = 128;
/// Number of terms per block: a block of a panel, 64 KiB, stays in the second-level cache.
const K_BLOCK: usize = 512;
/// Number of terms of a line that are packed at a time: their packed form, 8 KiB of a panel, stays in the
/// first-level cache while the other lines are packed.
const PACK_BLOCK: usize = 64;
/// Up to this many multiplications, packing costs more than it saves.
const MIN_PACKED: usize = 16 * 16 * 16;

/// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn gemm<T: Lane>(
    dst: &mut [T],
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    accumulate: bool,
    threads: Threads,
) {
    let (m, n, k) = sizes(dst, a, b);
    let multiplications = m.saturating_mul(n).saturating_mul(k);
    if multiplications <= MIN_PACKED {
        return small(dst, a, b, accumulate);
    }
    let flops = if threads == Threads::Pool { multiplications.saturating_mul(2) } else { 0 };
    let left = Packed::new(&WidenedLines { lines: a, width: MR, group: TASK_INTEGER_ROWS / MR }, threads);
    let width = PANEL_BYTES / size_of::<T::Acc>();
    let right = Packed::new(&WidenedLines { lines: b.transposed(), width, group: 1 }, threads);
    let kernel = IntProduct::<T> { accumulate, element: PhantomData };
    multiply(&kernel, &left, &right, bytemuck::cast_slice_mut(dst), Work::Flops(flops));
}

/// [`gemm`] without packing.
fn small<T: Lane>(dst: &mut [T], a: MatRef<'_, T>, b: MatRef<'_, T>, accumulate: bool) {
    if !accumulate {
        dst.fill(T::ZERO);
    }
    let (n, k) = (b.layout().cols, a.layout().cols);
    for (i, row) in dst.chunks_exact_mut(n.max(1)).enumerate() {
        for p in 0..k {
            let x = a.at(i, p).widen();
            for (j, y) in row.iter_mut().enumerate() {
                *y = T::narrow(T::mul_add(x, b.at(p, j).widen(), y.widen()));
            }
        }
    }
}

/// The rows of a matrix, packed as accumulators.
struct WidenedLines<'a, T> {
    lines: MatRef<'a, T>,
    width: usize,
    group: usize,
}

impl<T: Lane> Lines for WidenedLines<'_, T> {
    fn packing(&self) -> Packing {
        Packing {
            lines: self.lines.layout().rows,
            terms: self.lines.layout().cols,
            width: self.width,
            pad: true,
            term: size_of::<T::Acc>(),
            source: size_of::<T>(),
            notes: 0,
            group: self.group,
        }
    }

    fn pack(&self, strips: Strips<'_>) {
        let MatLayout { cols: terms, offset, row_stride, col_stride, .. } = self.lines.layout();
        let across = self.lines.transposed();
        let mut block = [T::ZERO; PACK_BLOCK];
        for strip in strips.each() {
            let (first, width) = (strip.first, strip.width);
            let to: &mut [T::Acc] = bytemuck::cast_slice_mut(strip.terms);
            if strip.lines < width {
                to.fill(T::Acc::ZERO);
            }
            if row_stride == 1 {
                for (p, to) in to.chunks_exact_mut(width).enumerate() {
                    let run = across.row_run(p, first, strip.lines).unwrap_or_default();
                    T::widen_all(run, &mut to[..strip.lines]);
                }
                continue;
            }
            for (part, to) in to.chunks_mut(PACK_BLOCK * width).enumerate() {
                let start = offset.wrapping_add_signed((part * PACK_BLOCK) as isize * col_stride);
                let block = &mut block[..PACK_BLOCK.min(terms - part * PACK_BLOCK)];
                for i in 0..strip.lines {
                    let start = start.wrapping_add_signed((first + i) as isize * row_stride);
                    gather_row(self.lines.data(), start, col_stride, block);
                    to[i..].iter_mut().step_by(width).zip(&*block).for_each(|(to, from)| *to = from.widen());
                }
            }
        }
    }
}

/// Products of `T`. The sums are of the type of its accumulators.
struct IntProduct<T> {
    accumulate: bool,
    element: PhantomData<T>,
}

impl<T: Lane> TileKernel for IntProduct<T> {
    fn sizes(&self) -> TileSizes {
        TileSizes { block: K_BLOCK, sum: size_of::<T::Acc>(), strips: TASK_INTEGER_ROWS / MR }
    }

    fn multiply(&self, left: &[u8], right: &[u8], sums: &mut [u8], add: bool) {
        multiply_tile::<T::Acc>(left, right, sums, add);
    }

    fn finish(&self, tile: Tile<'_>, out: TileRows<'_>) {
        let (rows, n, columns) = out.parts::<T>();
        let sums: &[T::Acc] = bytemuck::cast_slice(tile.sums);
        vectorize_lean(
            #[inline(always)]
            || {
                for (row, sums) in rows.chunks_exact_mut(n).zip(sums.chunks_exact(tile.right.width)) {
                    for (y, sum) in row[columns.clone()].iter_mut().zip(sums) {
                        let old = if self.accumulate { y.widen() } else { T::Acc::ZERO };
                        *y = T::narrow(T::plus(old, *sum));
                    }
                }
            },
        );
    }
}

/// [`TileKernel::multiply`]. Elements with the same accumulators share it.
fn multiply_tile<A: VMulAdd + bytemuck::Pod>(left: &[u8], right: &[u8], sums: &mut [u8], add: bool) {
    let strip = bytemuck::cast_slice::<u8, A>(left).as_chunks().0;
    let (panel, sums) = (right.as_chunks().0, sums.as_chunks_mut().0);
    dispatch(TileLoop { strip, panel, sums: sums.first_chunk_mut().expect("a tile of MR rows"), add });
}

/// `sums = strip^T @ panel`, two vectors of columns at a time: eight accumulators in registers.
struct TileLoop<'a, A> {
    strip: &'a [[A; MR]],
    panel: &'a [[u8; PANEL_BYTES]],
    sums: &'a mut [[u8; PANEL_BYTES]; MR],
    add: bool,
}

impl<A: VMulAdd + bytemuck::Pod> WithSimd for TileLoop<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let bytes = size_of::<Vector<S, A>>();
        // A panel is as wide as two of the widest vectors.
        for first in (0..PANEL_BYTES).step_by(2 * bytes) {
            let mut sums: [[Vector<S, A>; 2]; MR] = [[A::default().splat(); 2]; MR];
            if self.add {
                for (sums, old) in sums.iter_mut().zip(&*self.sums) {
                    *sums = [load(&old[first..]), load(&old[first + bytes..])];
                }
            }
            for (left, right) in self.strip.iter().zip(self.panel) {
                let right: [Vector<S, A>; 2] = [load(&right[first..]), load(&right[first + bytes..])];
                for (left, sums) in left.iter().zip(&mut sums) {
                    let left: Vector<S, A> = left.splat();
                    *sums = [left.mul_add(right[0], sums[0]), left.mul_add(right[1], sums[1])];
                }
            }
            for (sums, out) in sums.into_iter().zip(&mut *self.sums) {
                out[first..first + 2 * bytes].copy_from_slice(bytemuck::bytes_of(&sums));
            }
        }
    }
}

/// The vector of the first bytes of `from`.
#[inline(always)]
fn load<S: Simd, T: Scalar>(from: &[u8]) -> Vector<S, T> {
    bytemuck::pod_read_unaligned(&from[..size_of::<Vector<S, T>>()])
}
