//! Matrix products of f16, and of bf16 where no [instruction](super::bf16) multiplies bf16: blocks are
//! converted to f32, multiplied and summed in f32, and rounded once.
//!
//! Converting a block of the operands costs a few bytes of traffic per element, and each element is used `m`
//! or `n` times, so f32 products set the speed. The block sizes bound the f32 copies, not the operands. Few
//! rows are products with vectors.

use super::gemm::{MatLayout, MatMut, MatRef, Threads, gemm_into, sizes};
use super::gemv::{Elements, Matrix, VectorKernel, gemv};
use super::lane::Lane;
use super::loops::Loops;
use crate::parallel::thresholds::TASK_HALF_ELEMENTS;
use crate::parallel::{self, Work};
use crate::storage;
use crate::walk::gather_row;
use bytemuck::Pod;
use core::marker::PhantomData;
use flex_math::Half;

/// Number of terms of the sums per block.
const K_BLOCK: usize = 512;
/// Number of rows of the output per block.
const M_BLOCK: usize = 1024;
/// Most rows that are multiplied one by one, by the loops of products with a vector, which convert in
/// registers: two, and more by a right operand of [`LARGE`] elements, whose blocks in f32 leave the
/// second-level cache. On one thread of Zen 4, 2 rows by 768 x 3,072 bf16 in memory take 330 us in place of
/// 610, transposed 370 in place of 1,200; 4 rows 590 and 670, transposed 620 and 1,160.
const FEW_ROWS: usize = 2;
pub(super) const SEVERAL_ROWS: usize = 4;
const LARGE: usize = 1 << 20;

/// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn gemm<H: Half + Lane>(
    dst: &mut [H],
    a: MatRef<'_, H>,
    b: MatRef<'_, H>,
    accumulate: bool,
    threads: Threads,
) {
    let kernel = &Loops::<H>(PhantomData);
    multiply(kernel, bytemuck::cast_slice_mut(dst), a.cast(), b.cast(), accumulate, threads);
}

/// The product of each row of `a` with `b`, which has a unit stride.
fn by_rows(
    kernel: &dyn VectorKernel,
    dst: &mut [u16],
    a: MatRef<'_, u16>,
    b: MatRef<'_, u16>,
    accumulate: bool,
    threads: Threads,
) {
    let (a_data, b_data) = (bytemuck::cast_slice(a.data()), bytemuck::cast_slice(b.data()));
    let MatLayout { cols: n, offset, row_stride: col, col_stride: row, .. } = b.layout();
    let w = Matrix { data: b_data, offset, row, col };
    let MatLayout { cols: len, col_stride: stride, .. } = a.layout();
    for (i, y) in dst.chunks_mut(n).enumerate() {
        let x = Elements { data: a_data, offset: a.layout().position(i, 0), stride, len };
        gemv(kernel, bytemuck::cast_slice_mut(y), w, x, accumulate, threads);
    }
}

/// [`gemm`], compiled once for both types. The kernel converts.
fn multiply(
    kernel: &dyn VectorKernel,
    dst: &mut [u16],
    a: MatRef<'_, u16>,
    b: MatRef<'_, u16>,
    accumulate: bool,
    threads: Threads,
) {
    let (m, n, k) = sizes(dst, a, b);
    if dst.is_empty() || k == 0 {
        if !accumulate {
            dst.fill(0);
        }
        return;
    }
    let few = if k.saturating_mul(n) >= LARGE { SEVERAL_ROWS } else { FEW_ROWS };
    let MatLayout { row_stride, col_stride, .. } = b.layout();
    if m <= few && (row_stride == 1 || col_stride == 1) {
        return by_rows(kernel, dst, a, b, accumulate, threads);
    }
    let (mb, kb) = (m.min(M_BLOCK), k.min(K_BLOCK));
    let buffer = |rows: usize, cols: usize| storage::alloc(rows.saturating_mul(cols).saturating_mul(4));
    let mut buffers = [buffer(mb, n), buffer(mb, kb), buffer(kb, n)];
    let [sums, left, right] = buffers.each_mut().map(|bytes| bytemuck::cast_slice_mut::<u8, f32>(bytes));
    for (block, dst) in dst.chunks_mut(M_BLOCK.saturating_mul(n)).enumerate() {
        let rows = dst.len() / n;
        let sums = &mut sums[..rows * n];
        if accumulate {
            in_chunks(sums, dst, threads, |from, to| kernel.widen(from, to));
        }
        for start in (0..k).step_by(K_BLOCK) {
            let terms = (k - start).min(K_BLOCK);
            let a = widen(kernel, left, a, [block * M_BLOCK, start], [rows, terms], threads);
            let b = widen(kernel, right, b, [start, 0], [terms, n], threads);
            let beta = if accumulate || start > 0 { 1.0 } else { 0.0 };
            gemm_into(MatMut::new(sums, MatLayout::row_major(rows, n)), a, b, 1.0, beta, threads);
        }
        in_chunks(dst, sums, threads, |from, to| kernel.narrow(from, to));
    }
}

/// Converts the block of `source` from element `at` on, of size `size`, to the front of `buffer`. The axis
/// that is contiguous in the source stays contiguous.
fn widen<'a>(
    kernel: &dyn VectorKernel,
    buffer: &'a mut [f32],
    source: MatRef<'_, u16>,
    at: [usize; 2],
    size: [usize; 2],
    threads: Threads,
) -> MatRef<'a, f32> {
    let layout = source.layout();
    let by_columns = layout.row_stride == 1 && layout.col_stride != 1;
    let (outer, inner, stride, step) = if by_columns {
        (size[1], size[0], layout.col_stride, layout.row_stride)
    } else {
        (size[0], size[1], layout.row_stride, layout.col_stride)
    };
    let first = layout
        .offset
        .wrapping_add_signed(at[0] as isize * layout.row_stride + at[1] as isize * layout.col_stride);
    let data = source.data();
    let widen = |from: &[u16], to: &mut [f32]| {
        kernel.widen(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
    };
    let buffer = &mut buffer[..outer * inner];
    let bytes = if threads == Threads::Pool { buffer.len().saturating_mul(6) } else { 0 };
    let rows = parallel::rows_per_task(inner.saturating_mul(6));
    parallel::for_each_chunk(buffer, rows * inner, Work::Bytes(bytes), |task, chunk| {
        for (i, row) in chunk.chunks_mut(inner).enumerate() {
            let start = first.wrapping_add_signed((task * rows + i) as isize * stride);
            if step == 1 {
                widen(&data[start..start + row.len()], row);
            } else {
                let mut run = [0; 64];
                for (p, to) in row.chunks_mut(run.len()).enumerate() {
                    let from = &mut run[..to.len()];
                    gather_row(data, start.wrapping_add_signed((p * 64) as isize * step), step, from);
                    widen(from, to);
                }
            }
        }
    });
    let layout =
        if by_columns { MatLayout::col_major(size[0], size[1]) } else { MatLayout::row_major(outer, inner) };
    MatRef::new(&*buffer, layout)
}

/// Calls `f` for the bytes of chunks of `from` and `to`, of as many elements, on the pool if there are many.
fn in_chunks<A: Pod + Sync, B: Pod + Send>(
    to: &mut [B],
    from: &[A],
    threads: Threads,
    f: impl Fn(&[u8], &mut [u8]) + Sync,
) {
    let bytes = if threads == Threads::Pool { to.len().saturating_mul(6) } else { 0 };
    let task = TASK_HALF_ELEMENTS;
    parallel::for_each_chunk(to, task, Work::Bytes(bytes), |k, to| {
        f(bytemuck::cast_slice(&from[k * task..][..to.len()]), bytemuck::cast_slice_mut(to));
    });
}
