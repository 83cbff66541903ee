//! Matrix times vector: `y = W x` for a matrix of any size, at the speed at which memory delivers `W`.
//!
//! The loop depends on the layout of `W`. Where a row of `W` is contiguous, an element of `y` is a dot
//! product, computed with many partial sums. Where a column is contiguous, `y` is a sum of scaled columns,
//! computed for several columns at a time. Long sums are cut into blocks whose results are added at the end.
//! The blocks keep the rounding error down and give threads work when `y` is short.
//!
//! The driver, [`gemv`], knows bytes and no element types; it is compiled once. The loops are in
//! [`loops`](super::loops), behind [`VectorKernel`].
//!
//! A 4096 x 4096 matrix of f32 takes some 1.6 ms in either orientation on two cores that stream 40 GB/s.

use super::gemm::Threads;
use crate::parallel::thresholds::{TASK_COLUMN_ELEMENTS, VECTOR_PRODUCT_TASKS};
use crate::parallel::{self, Work};
use crate::storage::{self, Scratch};
use bytemuck::Pod;

/// Bytes of `W` per task and per block of a long sum: enough to pay for handing a task over, few enough to
/// balance the load. The order of sums follows from this number.
const TASK_BYTES: usize = 256 * 1024;
/// The number of elements of a column that a task adds up is a multiple of this: a cache line of f32.
const COLUMNS_UNIT: usize = 16;
/// Least number of terms of a block of a long sum.
pub(crate) const MIN_BLOCK: usize = 128;
/// Number of rows whose dot products are computed in one pass over `x`.
pub(crate) const DOT_ROWS: usize = 4;
/// Number of dot products that a kernel is asked for at a time.
const DOT_SUMS: usize = 64;
/// Number of scaled columns that are added in one pass over `y`.
pub(crate) const AXPY_COLUMNS: usize = 8;
/// Number of elements of `y` that stay in the first-level cache while columns are added to them.
pub(crate) const AXPY_TILE: usize = 4096;

/// `W` of the product: element `(i, p)` is at `offset + i*row + p*col`. One of the strides must be 1.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub data: &'a [T],
    pub offset: usize,
    pub row: isize,
    pub col: isize,
}

impl<'a, T> Matrix<'a, T> {
    /// `len` consecutive elements from `(i, p)` on.
    #[inline(always)]
    pub fn run(&self, i: usize, p: usize, len: usize) -> &'a [T] {
        let start = self.offset.wrapping_add_signed(i as isize * self.row + p as isize * self.col);
        &self.data[start..start + len]
    }
}

impl<'a> Matrix<'a, u8> {
    /// The matrix of these bytes' elements.
    pub fn of<T: Pod>(self) -> Matrix<'a, T> {
        Matrix { data: bytemuck::cast_slice(self.data), offset: self.offset, row: self.row, col: self.col }
    }
}

/// The loops of products with a vector for one element type. Elements and accumulators are passed as bytes.
/// The bytes of an accumulator zero are zeros.
pub(crate) trait VectorKernel: Sync {
    /// Bytes of an element.
    fn element(&self) -> usize;
    /// Bytes of an accumulator.
    fn accumulator(&self) -> usize;
    /// Whether elements are accumulators already.
    fn is_wide(&self) -> bool;
    /// An element one: the first bytes of the array.
    fn one(&self) -> [u64; 1];
    /// The elements at `offset + i*stride` of `data`, as accumulators.
    fn gather(&self, data: &[u8], offset: usize, stride: isize, to: &mut [u8]);
    /// `sums[i] = W[first + i, p..] . x`, for contiguous rows.
    fn dots(&self, sums: &mut [u8], w: Matrix<'_, u8>, first: usize, p: usize, x: &[u8]);
    /// `sums[i] += sum over p of W[first + i, start + p] * x[p]`, for contiguous columns.
    fn axpys(&self, sums: &mut [u8], w: Matrix<'_, u8>, first: usize, start: usize, x: &[u8]);
    /// `sums += more`.
    fn add(&self, sums: &mut [u8], more: &[u8]);
    /// Elements as accumulators.
    fn widen(&self, from: &[u8], to: &mut [u8]);
    /// Accumulators as elements, rounded or wrapped.
    fn narrow(&self, from: &[u8], to: &mut [u8]);
}

/// The vector operand of a product: `len` elements at `offset + i*stride`.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a> {
    pub data: &'a [u8],
    pub offset: usize,
    pub stride: isize,
    pub len: usize,
}

/// `y = W x`, or `y += W x` if `accumulate`; `W` has as many rows as `y` has elements, and as many columns as
/// `x`.
///
/// # Panics
/// When `W` leaves its slice or has no unit stride.
pub(crate) fn gemv(
    kernel: &dyn VectorKernel,
    y: &mut [u8],
    w: Matrix<'_, u8>,
    x: Elements<'_>,
    accumulate: bool,
    threads: Threads,
) {
    let (size, wide) = (kernel.element(), kernel.accumulator());
    let (n, k) = (y.len() / size, x.len);
    let mut gathered = Scratch::default();
    let x = if kernel.is_wide() && x.stride == 1 {
        &x.data[x.offset * size..][..k * size]
    } else {
        let to = zeros(&mut gathered, k * wide);
        kernel.gather(x.data, x.offset, x.stride, to);
        &*to
    };
    let bytes = n.saturating_mul(k).saturating_mul(size);
    let work = Work::Bytes(if threads == Threads::One { 0 } else { bytes });
    if w.col == 1 || k == 1 {
        let w = Matrix { col: 1, ..w };
        // Long sums with short outputs are cut along the sum, into lengths that depend on the shape alone.
        let block = k_block(k, TASK_BYTES / size / n.clamp(1, DOT_ROWS));
        if n <= DOT_ROWS && block < k {
            let parts = parallel::map_blocks(k, block, work, |range| {
                let mut part = [0u64; DOT_ROWS];
                let sums = &mut bytemuck::bytes_of_mut(&mut part)[..n * wide];
                kernel.dots(sums, w, 0, range.start, &x[range.start * wide..range.end * wide]);
                part
            });
            let mut sums = [0u64; DOT_ROWS];
            let sums = &mut bytemuck::bytes_of_mut(&mut sums)[..n * wide];
            for part in &parts {
                kernel.add(sums, &bytemuck::bytes_of(part)[..n * wide]);
            }
            return finish(kernel, y, sums, accumulate);
        }
        let rows = (TASK_BYTES / (k * size).max(1)).max(1).next_multiple_of(DOT_ROWS);
        parallel::for_each_chunk(y, rows * size, work, |task, y| {
            let mut sums = [0u64; DOT_SUMS];
            let sums: &mut [u8] = bytemuck::cast_slice_mut(&mut sums);
            for (part, y) in y.chunks_mut(DOT_SUMS * size).enumerate() {
                let sums = &mut sums[..y.len() / size * wide];
                kernel.dots(sums, w, task * rows + part * DOT_SUMS, 0, x);
                finish(kernel, y, sums, accumulate);
            }
        });
        return;
    }
    assert!(w.row == 1 || n == 1, "gemv: no unit stride");
    let w = Matrix { row: 1, ..w };
    let block = if n >= 4 * AXPY_TILE { k } else { k_block(k, TASK_BYTES / size / n) };
    let tasks = if work.is_parallel() { VECTOR_PRODUCT_TASKS * parallel::threads() } else { 1 };
    let tasks = tasks.min(bytes / TASK_BYTES).min(n / TASK_COLUMN_ELEMENTS).max(1);
    // Many blocks are tasks enough, and read whole columns.
    let few_blocks = k.div_ceil(block) < tasks;
    if block >= k || (tasks > 1 && few_blocks) {
        // A task sums all columns into a part of `y`, block after block.
        let tile = n.div_ceil(tasks).next_multiple_of(COLUMNS_UNIT).min(AXPY_TILE);
        parallel::for_each_chunk(y, tile * size, work, |task, y| {
            let len = y.len() / size * wide;
            let mut both = Scratch::default();
            let (sums, more) = zeros(&mut both, if block < k { 2 * len } else { len }).split_at_mut(len);
            for start in (0..k).step_by(block) {
                let x = &x[start * wide..(start + block).min(k) * wide];
                if start == 0 {
                    kernel.axpys(sums, w, task * tile, 0, x);
                } else {
                    more.fill(0);
                    kernel.axpys(more, w, task * tile, start, x);
                    kernel.add(sums, more);
                }
            }
            finish(kernel, y, sums, accumulate);
        });
        return;
    }
    // A task sums a block of columns into a row of `partial`; the rows are added up afterwards.
    let mut partial = storage::alloc(k.div_ceil(block).saturating_mul(n * wide));
    parallel::for_each_chunk(&mut partial, n * wide, work, |task, sums| {
        sums.fill(0);
        let range = task * block..((task + 1) * block).min(k);
        kernel.axpys(sums, w, 0, range.start, &x[range.start * wide..range.end * wide]);
    });
    let (sums, rest) = partial.split_at_mut(n * wide);
    for row in rest.chunks_exact(n * wide) {
        kernel.add(sums, row);
    }
    finish(kernel, y, sums, accumulate);
}

/// Rounds the sums to `y`, or adds them to `y` if `accumulate`.
fn finish(kernel: &dyn VectorKernel, y: &mut [u8], sums: &[u8], accumulate: bool) {
    if !accumulate {
        return kernel.narrow(sums, y);
    }
    const BLOCK: usize = 256;
    let (size, wide) = (kernel.element(), kernel.accumulator());
    let mut old = [0u64; BLOCK];
    let old: &mut [u8] = bytemuck::cast_slice_mut(&mut old);
    for (y, sums) in y.chunks_mut(BLOCK * size).zip(sums.chunks(BLOCK * wide)) {
        let old = &mut old[..sums.len()];
        kernel.widen(y, old);
        kernel.add(old, sums);
        kernel.narrow(old, y);
    }
}

/// Makes `buffer` hold `len` bytes of zeros, aligned for any accumulator.
///
/// # Panics
/// When the system does not have that much memory.
fn zeros(buffer: &mut Scratch<u64>, len: usize) -> &mut [u8] {
    *buffer = Scratch::for_task(len.div_ceil(size_of::<u64>())).zeroed();
    &mut bytemuck::cast_slice_mut(buffer)[..len]
}

/// Length of the blocks of a sum of `k` terms: about `target`, and at least [`MIN_BLOCK`], so that adding up
/// the blocks costs almost nothing in comparison.
fn k_block(k: usize, target: usize) -> usize {
    let target = target.max(MIN_BLOCK);
    if k < 2 * target { k.max(1) } else { target.next_multiple_of(AXPY_COLUMNS) }
}
