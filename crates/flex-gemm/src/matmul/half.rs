//! Matrix products of f16, and of bf16 where no [instruction](super::bf16) multiplies bf16: blocks are
//! converted to f32, multiplied and summed in f32, and rounded once.
//!
//! Converting a block of the operands costs a few bytes of traffic per element, and each element is used `m`
//! or `n` times, so f32 products set the speed. The block sizes bound the f32 copies, not the operands.

use super::gemm::{MatLayout, MatMut, MatRef, Threads, gemm_into, sizes};
use crate::parallel::{self, Work};
use crate::storage;
use flex_math::Half;
use flex_math::half::{from_f32, to_f32};

/// Number of terms of the sums per block.
const K_BLOCK: usize = 512;
/// Number of rows of the output per block.
const M_BLOCK: usize = 1024;

/// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn gemm<H: Half>(
    dst: &mut [H],
    a: MatRef<'_, H>,
    b: MatRef<'_, H>,
    accumulate: bool,
    threads: Threads,
) {
    let (m, n, k) = sizes(dst, a, b);
    if k == 0 {
        if !accumulate {
            dst.fill(H::from_pattern(0));
        }
        return;
    }
    let (mb, kb) = (m.min(M_BLOCK), k.min(K_BLOCK));
    let mut buffers = [mb * n, mb * kb, kb * n].map(|len| storage::alloc(len * size_of::<f32>()));
    let [sums, left, right] = buffers.each_mut().map(|bytes| bytemuck::cast_slice_mut::<u8, f32>(bytes));
    for (block, dst) in dst.chunks_mut(M_BLOCK * n.max(1)).enumerate() {
        let rows = dst.len() / n;
        let sums = &mut sums[..rows * n];
        if accumulate {
            in_chunks(sums, dst, threads, to_f32);
        }
        for start in (0..k).step_by(K_BLOCK) {
            let terms = (k - start).min(K_BLOCK);
            let a = widen(left, a, [block * M_BLOCK, start], [rows, terms], threads);
            let b = widen(right, b, [start, 0], [terms, n], threads);
            let beta = if accumulate || start > 0 { 1.0 } else { 0.0 };
            gemm_into(MatMut::new(sums, MatLayout::row_major(rows, n)), a, b, 1.0, beta, threads);
        }
        in_chunks(dst, sums, threads, from_f32);
    }
}

/// Converts the block of `source` from element `at` on, of size `size`, to the front of `buffer`. The axis
/// that is contiguous in the source stays contiguous.
fn widen<'a, H: Half>(
    buffer: &'a mut [f32],
    source: MatRef<'_, H>,
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
    let buffer = &mut buffer[..outer * inner];
    let bytes = if threads == Threads::Pool { buffer.len() * 6 } else { 0 };
    let rows = parallel::rows_per_task(inner * 6);
    parallel::for_each_chunk(buffer, rows * inner.max(1), Work::Bytes(bytes), |task, chunk| {
        for (i, row) in chunk.chunks_mut(inner.max(1)).enumerate() {
            let start = first.wrapping_add_signed((task * rows + i) as isize * stride);
            if step == 1 {
                to_f32(&data[start..start + row.len()], row);
            } else {
                for (p, to) in row.iter_mut().enumerate() {
                    *to = H::widen(data[start.wrapping_add_signed(p as isize * step)].bits());
                }
            }
        }
    });
    let layout =
        if by_columns { MatLayout::col_major(size[0], size[1]) } else { MatLayout::row_major(outer, inner) };
    MatRef::new(&*buffer, layout)
}

/// Calls `f` for chunks of `to` and the same elements of `from`, on the pool if there are many elements.
fn in_chunks<A: Sync, B: Send>(
    to: &mut [B],
    from: &[A],
    threads: Threads,
    f: impl Fn(&[A], &mut [B]) + Sync,
) {
    const CHUNK: usize = 32 * 1024;
    let bytes = if threads == Threads::Pool { to.len() * 6 } else { 0 };
    parallel::for_each_chunk(to, CHUNK, Work::Bytes(bytes), |k, to| f(&from[k * CHUNK..][..to.len()], to));
}
