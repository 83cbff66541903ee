//! Matrix products of f16, and of bf16 where no [instruction](super::bf16) multiplies bf16: blocks are
//! converted to f32, multiplied and summed in f32, and rounded once.
//!
//! A block of the right operand in f32 stays in the cache until it is multiplied, so only halves come from
//! memory. Each of its elements is used by all rows, so f32 products set the speed. Few rows are products
//! with vectors.

use super::gemm::{MatLayout, MatMut, MatRef, Threads, gemm_into, sizes};
use super::gemv::{Elements, Matrix, VectorKernel, gemv};
use super::lane::Lane;
use super::loops::Loops;
use crate::parallel::thresholds::TASK_HALF_ROWS;
use crate::parallel::{self, Work};
use crate::storage::{self, Scratch};
use core::marker::PhantomData;
use flex_math::Half;
use flex_math::simd::prefetch_far;

/// Number of rows and of terms of the left operand that are converted at a time.
const ROWS: usize = 256;
const TERMS: usize = 2048;
/// Elements of a block of the right operand: 128 KiB of f32, which stay in the second-level cache. Four times
/// as many for [`MANY_ROWS`] and more, since each block adds its sums to the output.
///
/// A block is long along the axis whose elements are neighbours. On one thread of Zen 4, in us, 8 rows by
/// 768 x 3,072 f16 in memory take 670 in blocks of 512 columns and 64 terms, 740 in blocks of 384 columns,
/// and 920 of 192; transposed 710 in blocks of 64 columns and 512 terms, 1,200 in blocks of 192 columns, and
/// 1,670 of 384. Blocks of all columns and 512 terms, which leave the cache, take 830 and 1,810.
const BLOCK: usize = 32 * 1024;
const MANY_ROWS: usize = 64;
/// The least and the most columns of a block, and its most terms.
const LEAST_COLS: usize = 64;
const MOST_COLS: usize = 512;
const MOST_TERMS: usize = 512;
/// Multiplications that take as long as converting an element.
const CONVERSION: usize = 8;
/// Number of parts that the columns are cut into for threads, if there are columns enough; otherwise the rows
/// are cut too, into parts of [`TASK_HALF_ROWS`] and more.
const PARTS: usize = 8;
/// How far ahead an operand is prefetched, in elements. Its lines lie in pages of their own, and the hardware
/// prefetches within a page. Without prefetches, 8 rows by 768 x 3,072 take more than twice as long.
const AHEAD: usize = 8 * 1024;
/// Most rows that are multiplied one by one, by the loops of products with a vector, which convert in
/// registers: two, and more by a right operand of [`LARGE`] elements. On one thread of Zen 4, 2 and 4 rows by
/// 768 x 3,072 bf16 in memory take 340 and 607 us; 5 rows, in blocks, take 640.
const FEW_ROWS: usize = 2;
pub(super) const SEVERAL_ROWS: usize = 4;
const LARGE: usize = 1 << 20;

/// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major. Each operand has an axis whose
/// elements are neighbours.
///
/// # Panics
/// When the shapes do not fit together, or an operand has no such axis.
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

/// Bytes of the sums of `m` rows and `n` columns, and of the left operand, that [`multiply`] works with.
fn buffer_bytes(m: usize, n: usize, k: usize) -> [usize; 2] {
    // Parts of the rows are equally high, so the last one may not be filled.
    let rows = m.min(ROWS) + PARTS;
    [n, k.min(TERMS)].map(|cols| rows.saturating_mul(cols).saturating_mul(size_of::<f32>()))
}

/// An upper bound of the bytes that a product of halves works with, apart from 512 KiB for each thread.
pub(super) fn working_memory(m: usize, n: usize, k: usize) -> usize {
    let [sums, left] = buffer_bytes(m, n.saturating_add(MOST_COLS), k);
    sums.saturating_add(left)
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
    if m <= few {
        return by_rows(kernel, dst, a, b, accumulate, threads);
    }
    // From shapes and strides alone, since the blocks of terms set the order of the sums.
    let wide = if b.layout().col_stride != 1 { LEAST_COLS } else { (n / PARTS).clamp(LEAST_COLS, MOST_COLS) };
    let most_cols = wide.next_multiple_of(LEAST_COLS);
    let block = if m < MANY_ROWS { BLOCK } else { 4 * BLOCK };
    let most_terms = (block / most_cols).min(MOST_TERMS);
    let parts = n.div_ceil(most_cols);
    let mut buffers = buffer_bytes(m, parts.saturating_mul(most_cols), k).map(storage::alloc);
    let [sums, left] = buffers.each_mut().map(|bytes| bytemuck::cast_slice_mut::<u8, f32>(bytes));
    let pool = threads == Threads::Pool;
    // Each task has the sums of some columns and of some rows, which lie one after the other.
    for (number, dst) in dst.chunks_mut(ROWS.saturating_mul(n)).enumerate() {
        let rows = dst.len() / n;
        let down = PARTS.div_ceil(parts).min(rows / TASK_HALF_ROWS).max(1);
        let height = rows.div_ceil(down);
        let pitch = height * most_cols;
        for start in (0..k).step_by(TERMS) {
            let terms = (k - start).min(TERMS);
            let lhs = widen(kernel, left, a, [number * ROWS, start], [rows, terms], threads);
            let multiplications = (rows + CONVERSION).saturating_mul(terms).saturating_mul(n);
            let work = Work::Multiplications(if pool { multiplications } else { 0 });
            parallel::for_each_chunk(&mut sums[..parts * down * pitch], pitch, work, |task, sums| {
                let (col, row) = (task / down * most_cols, task % down * height);
                let (cols, rows) = (most_cols.min(n - col), height.min(rows - row));
                let sums = &mut sums[..rows * cols];
                if accumulate && start == 0 {
                    for (sums, dst) in sums.chunks_exact_mut(cols).zip(dst[row * n..].chunks_exact(n)) {
                        let old = bytemuck::cast_slice(&dst[col..col + cols]);
                        kernel.widen(old, bytemuck::cast_slice_mut(sums));
                    }
                }
                let mut right = Scratch::<f32>::for_task(most_terms.min(terms) * cols);
                for first in (0..terms).step_by(most_terms) {
                    let count = most_terms.min(terms - first);
                    let b = widen(kernel, &mut right, b, [start + first, col], [count, cols], Threads::One);
                    let lhs = lhs.part(row..row + rows, first..first + count);
                    let beta = if accumulate || start + first > 0 { 1.0 } else { 0.0 };
                    let sums = MatMut::new(sums, MatLayout::row_major(rows, cols));
                    gemm_into(sums, lhs, b, 1.0, beta, Threads::One);
                }
            });
        }
        for_each_line(dst, n, threads, |at, row| {
            for (part, to) in row.chunks_mut(most_cols).enumerate() {
                let first = (part * down + at / height) * pitch + at % height * to.len();
                let from = &sums[first..first + to.len()];
                kernel.narrow(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
            }
        });
    }
}

/// Converts the block of `source` from element `at` on, of size `size`, to the front of `buffer`. The axis
/// whose elements are neighbours is the same in both.
#[inline(never)]
fn widen<'a>(
    kernel: &dyn VectorKernel,
    buffer: &'a mut [f32],
    source: MatRef<'_, u16>,
    at: [usize; 2],
    size: [usize; 2],
    threads: Threads,
) -> MatRef<'a, f32> {
    let MatLayout { row_stride, col_stride, .. } = source.layout();
    let by_columns = col_stride != 1;
    assert!(row_stride == 1 || !by_columns, "gemm: halves without neighbours");
    let (lines, len, stride) =
        if by_columns { (size[1], size[0], col_stride) } else { (size[0], size[1], row_stride) };
    let (data, first) = (source.data(), source.layout().position(at[0], at[1]));
    let buffer = &mut buffer[..lines * len];
    let ahead = stride.wrapping_mul((AHEAD / len) as isize);
    for_each_line(buffer, len, threads, |i, line| {
        let start = first.wrapping_add_signed(i as isize * stride);
        let from = &data[start..start + len];
        prefetch_far(from.as_ptr().wrapping_offset(ahead).cast(), size_of_val(from));
        kernel.widen(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(line));
    });
    let [rows, cols] = size;
    MatRef::new(
        &*buffer,
        if by_columns { MatLayout::col_major(rows, cols) } else { MatLayout::row_major(rows, cols) },
    )
}

/// Calls `f` with the number and the elements of each line of `len` elements, which it converts from or to
/// halves; on the pool if there are many.
fn for_each_line<T: Send>(lines: &mut [T], len: usize, threads: Threads, f: impl Fn(usize, &mut [T]) + Sync) {
    let bytes = size_of::<f32>() + size_of::<u16>();
    let work = if threads == Threads::Pool { bytes.saturating_mul(lines.len()) } else { 0 };
    let each = parallel::rows_per_task(bytes.saturating_mul(len));
    parallel::for_each_chunk(lines, each * len, Work::Bytes(work), |task, lines| {
        for (i, line) in lines.chunks_exact_mut(len).enumerate() {
            f(task * each + i, line);
        }
    });
}
