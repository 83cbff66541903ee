//! Matrix times vector: `y = W x` for a matrix of any size, at the speed at which memory delivers `W`.
//!
//! The loop depends on the layout of `W`. Where a row of `W` is contiguous, an element of `y` is a dot
//! product, computed with many partial sums. Where a column is contiguous, `y` is a sum of scaled columns,
//! computed for several columns at a time. Long sums are cut into blocks whose results are added at the end.
//! The blocks keep the rounding error down and give threads work when `y` is short.
//!
//! A 4096 x 4096 matrix of f32 takes some 1.6 ms in either orientation on two cores that stream 40 GB/s.

use super::lane::Lane;
use super::vectors::load;
use crate::dtype::Element;
use crate::parallel::{self, Work};
use crate::storage;
use crate::walk::gather_row;
use alloc::vec;
use alloc::vec::Vec;
use flex_math::simd::{Scalar, Simd, Vector, WithSimd, dispatch, vectorize};

/// Bytes of `W` per task: enough to pay for handing a task over, few enough to balance the load.
const TASK_BYTES: usize = 256 * 1024;
/// Number of vectors of partial sums of a dot product; with [`DOT_ROWS`] rows they keep both multiply-add
/// units busy.
const DOT_VECTORS: usize = 2;
/// Number of elements of a row that are converted at a time, where they have to be converted.
const DOT_BLOCK: usize = 256;
/// Number of rows whose dot products are computed in one pass over `x`.
const DOT_ROWS: usize = 4;
/// Number of scaled columns that are added in one pass over `y`.
const AXPY_COLUMNS: usize = 8;
/// Number of elements of `y` that stay in the first-level cache while columns are added to them.
const AXPY_TILE: usize = 4096;

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
    fn run(&self, i: usize, p: usize, len: usize) -> &'a [T] {
        let start = self.offset.wrapping_add_signed(i as isize * self.row + p as isize * self.col);
        &self.data[start..start + len]
    }
}

/// `y = W x`, or `y += W x` if `accumulate`; `W` has `y.len()` rows and `x.len()` columns. In parallel unless
/// `serial`.
///
/// # Panics
/// When `W` leaves its slice or has no unit stride.
pub(crate) fn gemv<T: Lane>(y: &mut [T], w: Matrix<'_, T>, x: &[T::Acc], accumulate: bool, serial: bool) {
    let (n, k) = (y.len(), x.len());
    let bytes = n * k * size_of::<T>();
    let work = work(if serial { 0 } else { bytes });
    if w.col == 1 || k == 1 {
        let w = Matrix { col: 1, ..w };
        // Long sums with short outputs are cut along the sum, into lengths that depend on the shape alone.
        let block = k_block(k, TASK_BYTES / size_of::<T>() / n.clamp(1, DOT_ROWS));
        if n <= DOT_ROWS && block < k {
            let parts = parallel::map_blocks(k, block, work, |range| {
                let mut part = [T::Acc::ZERO; DOT_ROWS];
                dots(&mut part[..n], w, 0, range.start, &x[range]);
                part
            });
            let mut sums = vec![T::Acc::ZERO; n];
            for part in parts {
                for (sum, value) in sums.iter_mut().zip(part) {
                    *sum = T::add(*sum, value);
                }
            }
            return finish::<T>(y, &sums, accumulate);
        }
        let rows = (TASK_BYTES / (k * size_of::<T>()).max(1)).max(1).next_multiple_of(DOT_ROWS);
        parallel::for_each_chunk(y, rows, work, |task, y| {
            let mut sums = [T::Acc::ZERO; 64];
            for (part, y) in y.chunks_mut(64).enumerate() {
                let first = task * rows + part * 64;
                dots(&mut sums[..y.len()], w, first, 0, x);
                finish::<T>(y, &sums[..y.len()], accumulate);
            }
        });
        return;
    }
    assert!(w.row == 1 || n == 1, "gemv: no unit stride");
    let w = Matrix { row: 1, ..w };
    let block = k_block(k, TASK_BYTES / size_of::<T>() / n);
    if n >= 4 * AXPY_TILE || block >= k {
        let tile = if n >= 4 * AXPY_TILE { AXPY_TILE } else { n };
        parallel::for_each_chunk(y, tile, work, |task, y| {
            let mut sums = vec![T::Acc::ZERO; y.len()];
            axpys::<T>(&mut sums, w, task * tile, 0, x);
            finish::<T>(y, &sums, accumulate);
        });
        return;
    }
    // A task sums a block of columns into a row of `partial`; the rows are added up afterwards.
    let blocks = k.div_ceil(block);
    let mut partial = storage::alloc(blocks * n * size_of::<T::Acc>());
    let partial: &mut [T::Acc] = bytemuck::cast_slice_mut(&mut partial);
    parallel::for_each_chunk(partial, n, work, |task, sums| {
        sums.fill(T::Acc::ZERO);
        let range = task * block..((task + 1) * block).min(k);
        axpys::<T>(sums, w, 0, range.start, &x[range]);
    });
    let (sums, rest) = partial.split_at_mut(n);
    vectorize(
        #[inline(always)]
        || {
            for row in rest.chunks_exact(n) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum = T::add(*sum, *value);
                }
            }
        },
    );
    finish::<T>(y, sums, accumulate);
}

/// The work of reading a matrix of `bytes` bytes.
pub(crate) fn work(bytes: usize) -> Work {
    Work::Bytes(bytes)
}

/// The vector operand as a contiguous run of accumulator values.
pub(crate) fn gather<T: Lane>(data: &[T], offset: usize, stride: isize, len: usize) -> Vec<T::Acc> {
    let mut run = vec![T::ZERO; len];
    gather_row(data, offset, stride, &mut run);
    run.into_iter().map(T::widen).collect()
}

/// Length of the blocks of a sum of `k` terms: about `target`, and at least 256, so that adding up the blocks
/// costs almost nothing in comparison.
fn k_block(k: usize, target: usize) -> usize {
    let target = target.max(256);
    if k < 2 * target { k.max(1) } else { target.next_multiple_of(AXPY_COLUMNS) }
}

/// Rounds the sums to `y`, or adds them to `y` if `accumulate`.
fn finish<T: Lane>(y: &mut [T], sums: &[T::Acc], accumulate: bool) {
    vectorize(
        #[inline(always)]
        || {
            if accumulate {
                for (y, sum) in y.iter_mut().zip(sums) {
                    *y = T::narrow(T::add(y.widen(), *sum));
                }
            } else {
                for (y, sum) in y.iter_mut().zip(sums) {
                    *y = T::narrow(*sum);
                }
            }
        },
    );
}

/// `sums[i] = W[first + i, p..] . x`, for contiguous rows.
fn dots<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, p: usize, x: &[T::Acc]) {
    dispatch(Dots { sums, w, first, p, x });
}

struct Dots<'a, T: Lane> {
    sums: &'a mut [T::Acc],
    w: Matrix<'a, T>,
    first: usize,
    p: usize,
    x: &'a [T::Acc],
}

impl<T: Lane> WithSimd for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { sums, w, first, p, x } = self;
        for (group, sums) in sums.chunks_mut(DOT_ROWS).enumerate() {
            let i = first + group * DOT_ROWS;
            if let [a, b, c, d] = sums {
                let row = |r| w.run(i + r, p, x.len());
                [*a, *b, *c, *d] = dot::<S, T, DOT_ROWS>([row(0), row(1), row(2), row(3)], x);
            } else {
                for (r, sum) in sums.iter_mut().enumerate() {
                    [*sum] = dot::<S, T, 1>([w.run(i + r, p, x.len())], x);
                }
            }
        }
    }
}

/// Dot products of `R` rows with `x`.
#[inline(always)]
fn dot<S: Simd, T: Lane, const R: usize>(rows: [&[T]; R], x: &[T::Acc]) -> [T::Acc; R] {
    let mut sums: [[Vector<S, T::Acc>; DOT_VECTORS]; R] = [[T::Acc::ZERO.splat(); DOT_VECTORS]; R];
    let mut tails = [T::Acc::ZERO; R];
    if let Some(rows) = T::as_terms(rows[0]).map(
        #[inline(always)]
        |_| {
            rows.map(
                #[inline(always)]
                |row| T::as_terms(row).unwrap_or_default(),
            )
        },
    ) {
        dot_terms::<S, T, R>(rows, x, &mut sums, &mut tails);
    } else {
        // Converts a block of each row at a time.
        let mut terms = [[T::Acc::ZERO; DOT_BLOCK]; R];
        for (block, x) in x.chunks(DOT_BLOCK).enumerate() {
            for (terms, row) in terms.iter_mut().zip(rows) {
                let row = &row[block * DOT_BLOCK..][..x.len()];
                terms.iter_mut().zip(row).for_each(
                    #[inline(always)]
                    |(to, from)| *to = from.widen(),
                );
            }
            dot_terms::<S, T, R>(terms.each_ref().map(|terms| &terms[..x.len()]), x, &mut sums, &mut tails);
        }
    }
    let mut out = tails;
    for r in 0..R {
        let mut total = sums[r][0];
        for sum in &sums[r][1..] {
            total += *sum;
        }
        for lane in bytemuck::cast_slice::<_, T::Acc>(core::slice::from_ref(&total)) {
            out[r] = T::add(out[r], *lane);
        }
    }
    out
}

/// Adds products to `sums`; products past the last whole group of vectors are added to `tails`.
#[inline(always)]
fn dot_terms<S: Simd, T: Lane, const R: usize>(
    rows: [&[T::Acc]; R],
    x: &[T::Acc],
    sums: &mut [[Vector<S, T::Acc>; DOT_VECTORS]; R],
    tails: &mut [T::Acc; R],
) {
    let lanes = <T::Acc as Scalar>::lanes::<S>();
    let whole = x.len() / (lanes * DOT_VECTORS) * (lanes * DOT_VECTORS);
    let rows = rows.map(
        #[inline(always)]
        |row| &row[..x.len()],
    );
    let mut p = 0;
    while p < whole {
        let group: [Vector<S, T::Acc>; DOT_VECTORS] = core::array::from_fn(
            #[inline(always)]
            |v| load(&x[p + v * lanes..]),
        );
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = T::mul_add_lanes(load(&row[p + v * lanes..]), group[v], *sum);
            }
        }
        p += lanes * DOT_VECTORS;
    }
    for r in 0..R {
        for (w, x) in rows[r][whole..].iter().zip(&x[whole..]) {
            tails[r] = T::mul_add(*w, *x, tails[r]);
        }
    }
}

/// `sums[i] += sum over p of W[first + i, start + p] * x[p]`, for contiguous columns.
fn axpys<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, start: usize, x: &[T::Acc]) {
    vectorize(
        #[inline(always)]
        || {
            for (tile, sums) in sums.chunks_mut(AXPY_TILE).enumerate() {
                let (i, n) = (first + tile * AXPY_TILE, sums.len());
                let (groups, rest) = x.as_chunks::<AXPY_COLUMNS>();
                for (g, x) in groups.iter().enumerate() {
                    let p = start + g * AXPY_COLUMNS;
                    let columns = core::array::from_fn(
                        #[inline(always)]
                        |c| w.run(i, p + c, n),
                    );
                    axpy::<T, AXPY_COLUMNS>(sums, columns, x);
                }
                for (c, x) in rest.iter().enumerate() {
                    let column = w.run(i, start + groups.len() * AXPY_COLUMNS + c, n);
                    axpy::<T, 1>(sums, [column], &[*x]);
                }
            }
        },
    );
}

/// `sums += columns x`.
#[inline(always)]
fn axpy<T: Lane, const C: usize>(sums: &mut [T::Acc], columns: [&[T]; C], x: &[T::Acc; C]) {
    let n = sums.len();
    let columns = columns.map(|column| &column[..n]);
    for j in 0..n {
        // The terms are added up separately first, so that the long sum is rounded less often.
        let mut term = T::mul_add(columns[0][j].widen(), x[0], T::Acc::ZERO);
        for c in 1..C {
            term = T::mul_add(columns[c][j].widen(), x[c], term);
        }
        sums[j] = T::add(sums[j], term);
    }
}
