//! The typed loops of products with a vector, compiled for each instruction set.
//!
//! Elements are converted to accumulators in registers, when they are loaded. On one thread of Zen 4,
//! 768 x 3,072 bf16 in memory take 190 us row-major and 240 transposed (f32: 360 and 440), where blocks that
//! were converted in memory first took 650 and 1,150.

use super::gemv::{AXPY_COLUMNS, AXPY_TILE, DOT_ROWS, Matrix, VectorKernel};
use super::lane::{Lane, Wide};
use crate::dtype::Element;
use crate::walk::gather_row;
use bytemuck::{cast_slice, cast_slice_mut};
use core::marker::PhantomData;
use flex_math::simd::{
    Gains, Levels, Scalar, Simd, Vector, WithSimd, dispatch_for, has_vectors, load, prefetch_far, store,
};

/// Number of vectors of partial sums of a dot product; with [`DOT_ROWS`] rows they keep both multiply-add
/// units busy.
const DOT_VECTORS: usize = 2;
/// Elements of two of the widest vectors, of 16 bits each: a row has fewer after its whole groups of vectors.
const REST: usize = 64;
/// Number of elements that are converted at a time, where they have to be converted.
const BLOCK: usize = 256;

/// The loops for elements of type `T`.
pub(crate) struct Loops<T>(pub PhantomData<T>);

impl<T: Lane> VectorKernel for Loops<T> {
    fn element(&self) -> usize {
        size_of::<T>()
    }

    fn accumulator(&self) -> usize {
        size_of::<T::Acc>()
    }

    fn is_wide(&self) -> bool {
        T::IS_WIDE
    }

    fn one(&self) -> [u64; 1] {
        let mut one = [0];
        bytemuck::bytes_of_mut(&mut one)[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&T::ONE));
        one
    }

    fn gather(&self, data: &[u8], offset: usize, stride: isize, to: &mut [u8]) {
        let (data, to) = (cast_slice::<u8, T>(data), cast_slice_mut::<u8, T::Acc>(to));
        let mut block = [T::ZERO; BLOCK];
        for (i, to) in to.chunks_mut(BLOCK).enumerate() {
            let from = &mut block[..to.len()];
            gather_row(data, offset.wrapping_add_signed((i * BLOCK) as isize * stride), stride, from);
            T::widen_all(from, to);
        }
    }

    fn dots(&self, sums: &mut [u8], w: Matrix<'_, u8>, first: usize, p: usize, x: &[u8]) {
        dots::<T>(cast_slice_mut(sums), w.of(), first, p, cast_slice(x));
    }

    fn axpys(&self, sums: &mut [u8], w: Matrix<'_, u8>, first: usize, start: usize, x: &[u8]) {
        axpys::<T>(cast_slice_mut(sums), w.of(), first, start, cast_slice(x));
    }

    fn add(&self, sums: &mut [u8], more: &[u8]) {
        add::<T::Acc>(cast_slice_mut(sums), cast_slice(more));
    }

    fn widen(&self, from: &[u8], to: &mut [u8]) {
        T::widen_all(cast_slice(from), cast_slice_mut(to));
    }

    fn narrow(&self, from: &[u8], to: &mut [u8]) {
        T::narrow_all(cast_slice(from), cast_slice_mut(to));
    }
}

/// `sums += more`. Compiled once: beside the products there are few of these additions.
#[inline(never)]
fn add<A: Wide>(sums: &mut [A], more: &[A]) {
    sums.iter_mut().zip(more).for_each(|(sum, value)| *sum = A::plus(*sum, *value));
}

/// See [`VectorKernel::dots`].
#[inline(never)]
fn dots<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, p: usize, x: &[T::Acc]) {
    dispatch_for::<LoopLevels<T>, _>(GemvDots { sums, w, first, p, x });
}

/// The instruction sets of the loops, which wait for memory: AVX-512 for f32 and f64 alone. For halves it
/// gains nothing: a vector by a square of 1,024 takes 52 us, and 49 to 60 at AVX2 (Zen 4). Integers are too
/// rare.
struct LoopLevels<T>(PhantomData<T>);

impl<T: Lane> Gains for LoopLevels<T> {
    const LEVELS: Levels = if T::IS_FLOAT && T::IS_WIDE { Levels::All } else { Levels::Lean };
}

/// Dot products: see [`VectorKernel::dots`].
struct GemvDots<'a, T: Lane> {
    sums: &'a mut [T::Acc],
    w: Matrix<'a, T>,
    first: usize,
    p: usize,
    x: &'a [T::Acc],
}

impl<T: Lane> WithSimd for GemvDots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { sums, w, first, p, x } = self;
        let ahead = DOT_ROWS as isize * w.row;
        for (group, sums) in sums.chunks_mut(DOT_ROWS).enumerate() {
            let i = first + group * DOT_ROWS;
            let several = sums.len() == DOT_ROWS || !T::IS_FLOAT;
            // At the baseline halves are converted one by one, and that is what takes the time.
            if const { has_vectors::<S>() || T::IS_WIDE || !T::IS_FLOAT } && several {
                // Where there are fewer rows, of integers, the last one stands in for the others.
                let mut rows: [&[T]; DOT_ROWS] = [&[]; DOT_ROWS];
                for (r, row) in rows.iter_mut().enumerate() {
                    *row = w.run(i + r.min(sums.len() - 1), p, x.len());
                }
                let dots = dot::<S, T, DOT_ROWS>(rows, x, ahead);
                sums.copy_from_slice(&dots[..sums.len()]);
            } else if const { T::IS_FLOAT } {
                for (r, sum) in sums.iter_mut().enumerate() {
                    [*sum] = dot::<S, T, 1>([w.run(i + r, p, x.len())], x, ahead);
                }
            }
        }
    }
}

/// Dot products of `R` rows with `x`. The rows that are `ahead` elements away are prefetched.
#[inline(always)]
fn dot<S: Simd, T: Lane, const R: usize>(mut rows: [&[T]; R], x: &[T::Acc], ahead: isize) -> [T::Acc; R] {
    let lanes = T::Acc::lanes::<S>();
    let whole = x.len() - x.len() % (lanes * DOT_VECTORS);
    for row in &mut rows {
        *row = &row[..x.len()];
    }
    let mut sums: [[Vector<S, T::Acc>; DOT_VECTORS]; R] = [[T::Acc::ZERO.splat(); DOT_VECTORS]; R];
    let mut p = 0;
    while p < whole {
        let group: [Vector<S, T::Acc>; DOT_VECTORS] = [load(&x[p..]), load(&x[p + lanes..])];
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            let next = row.as_ptr().wrapping_add(p).wrapping_offset(ahead);
            prefetch_far(next.cast(), lanes * DOT_VECTORS * size_of::<T>());
            let row = &row[p..p + lanes * DOT_VECTORS];
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = T::mul_add_lanes(T::load_lanes::<S>(&row[v * lanes..]), group[v], *sum);
            }
        }
        p += lanes * DOT_VECTORS;
    }
    let mut out = [T::Acc::ZERO; R];
    if const { !T::IS_WIDE } {
        let mut totals = [[T::Acc::ZERO; REST / DOT_VECTORS]; R];
        for (total, sums) in totals.iter_mut().zip(sums) {
            store(sums[0] + sums[1], total);
        }
        add_up(&mut out, &rows, &x[whole..], &totals, lanes);
        return out;
    }
    for (out, row) in out.iter_mut().zip(rows) {
        let row = T::as_terms(&row[whole..]).unwrap_or(&[]);
        for (row, x) in row.iter().zip(&x[whole..]) {
            *out = T::mul_add(*row, *x, *out);
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        let total = sums[0] + sums[1];
        for lane in cast_slice::<_, T::Acc>(core::slice::from_ref(&total)) {
            *out = T::plus(*out, *lane);
        }
    }
    out
}

/// Writes to `out`, for each row, the sum of the products of its end with `x`, and of the first `lanes` of
/// its `totals`. Converts the ends. Not inlined: it would be half of the loops' machine code.
#[inline(never)]
fn add_up<T: Lane>(
    out: &mut [T::Acc],
    rows: &[&[T]],
    x: &[T::Acc],
    totals: &[[T::Acc; REST / DOT_VECTORS]],
    lanes: usize,
) {
    let len = x.len();
    if len > 0 {
        // All ends are converted together: a call takes longer than the conversion.
        let (mut ends, mut wide) = ([T::ZERO; DOT_ROWS * REST], [T::Acc::ZERO; DOT_ROWS * REST]);
        for (end, row) in ends.chunks_mut(len).zip(rows) {
            end.copy_from_slice(&row[row.len() - len..]);
        }
        T::widen_all(&ends[..out.len() * len], &mut wide[..out.len() * len]);
        for (out, end) in out.iter_mut().zip(wide.chunks(len)) {
            *out = dot_of(end, x);
        }
    }
    add_lanes(out, totals, lanes);
}

/// The sum of the products of the elements, in order.
#[inline(never)]
fn dot_of<A: Wide>(row: &[A], x: &[A]) -> A {
    row.iter().zip(x).fold(A::ZERO, |sum, (row, x)| A::mul_add(*row, *x, sum))
}

/// Adds the first `lanes` totals of each row to `out`: lane by lane, so that rows do not wait for each other.
#[inline(never)]
fn add_lanes<A: Wide>(out: &mut [A], totals: &[[A; REST / DOT_VECTORS]], lanes: usize) {
    for lane in 0..lanes.min(REST / DOT_VECTORS) {
        for (out, totals) in out.iter_mut().zip(totals) {
            *out = A::plus(*out, totals[lane]);
        }
    }
}

/// See [`VectorKernel::axpys`].
#[inline(never)]
fn axpys<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, start: usize, x: &[T::Acc]) {
    dispatch_for::<LoopLevels<T>, _>(Axpys { sums, w, first, start, x });
}

/// Sums of scaled columns: see [`VectorKernel::axpys`].
struct Axpys<'a, T: Lane> {
    sums: &'a mut [T::Acc],
    w: Matrix<'a, T>,
    first: usize,
    start: usize,
    x: &'a [T::Acc],
}

impl<T: Lane> WithSimd for Axpys<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { sums, w, first, start, x } = self;
        let is_short =
            w.col.unsigned_abs().saturating_mul(size_of::<T>()) <= const { short_column::<S, T>() };
        let fetches = is_short && w.data.len() >= LARGE;
        let ahead = if fetches { AXPY_COLUMNS as isize * w.col } else { 0 };
        for (tile, sums) in sums.chunks_mut(AXPY_TILE).enumerate() {
            let i = first + tile * AXPY_TILE;
            for (group, x) in x.chunks(AXPY_COLUMNS).enumerate() {
                let mut columns: [&[T]; AXPY_COLUMNS] = [&[]; AXPY_COLUMNS];
                for (c, column) in columns[..x.len()].iter_mut().enumerate() {
                    *column = w.run(i, start + group * AXPY_COLUMNS + c, sums.len());
                }
                // With AVX2 a cache line of each column at a time: on one thread of Zen 3, 3,072 x 768 f32 in
                // memory take 0.87 of the time with four vectors, squares of 256 to 768 in the cache 1.02 to
                // 1.05.
                let done = if const { !has_vectors::<S>() } {
                    false
                } else if const { T::IS_FLOAT && T::IS_WIDE && size_of::<S::Register>() != 32 } {
                    add_vectors::<S, T, 4>(sums, columns, x, ahead)
                } else {
                    add_vectors::<S, T, 2>(sums, columns, x, ahead)
                };
                if !done {
                    add_few(sums, &columns[..x.len()], x);
                }
            }
        }
    }
}

/// Adds scaled columns to the sums where there are fewer columns or sums than [`add_vectors`] adds, or no
/// vectors. Converts a block of each column at a time, if it has to.
#[inline(never)]
fn add_few<T: Lane>(sums: &mut [T::Acc], columns: &[&[T]], x: &[T::Acc]) {
    let mut terms: [&[T::Acc]; AXPY_COLUMNS] = [&[]; AXPY_COLUMNS];
    if const { T::IS_WIDE } {
        for (terms, column) in terms.iter_mut().zip(columns) {
            *terms = T::as_terms(column).unwrap_or(&[]);
        }
        return add_columns(sums, &terms[..x.len()], x);
    }
    let mut block = [[T::Acc::ZERO; BLOCK]; AXPY_COLUMNS];
    for (number, sums) in sums.chunks_mut(BLOCK).enumerate() {
        for (block, column) in block.iter_mut().zip(columns) {
            T::widen_all(&column[number * BLOCK..][..sums.len()], &mut block[..sums.len()]);
        }
        let mut terms: [&[T::Acc]; AXPY_COLUMNS] = [&[]; AXPY_COLUMNS];
        for (terms, block) in terms.iter_mut().zip(&block) {
            *terms = block;
        }
        add_columns(sums, &terms[..x.len()], x);
    }
}

/// Bytes between neighbouring columns up to which the next columns are prefetched.
///
/// The hardware follows eight long columns by itself, and few instructions for each vector keep many loads on
/// their way. On Zen 5, 768 x 50,257 from memory take 4.3 ms on one thread and 3.1 on two; with prefetches
/// 4.9 and 3.8. But the hardware starts anew with every column. On one thread of Zen 4, matrices in memory,
/// in us, without and with prefetches: 768 x 3,072 366 and 257, 3,072 x 768 492 and 247, 1,024 x 1,024 277
/// and 170.
///
/// Processors with AVX2 alone are told apart by the level. There the hardware follows columns that are longer
/// than a page. On one thread of Zen 3, in GB/s, without and with prefetches: 768 x 3,072 13.4 and 10.8,
/// 384 x 1,536 12.5 and 10.0, 768 x 768 9.2 and 10.1, 3,072 x 768 9.9 and 11.9. Halves are computed with AVX2
/// on all processors.
const fn short_column<S: Simd, T: Lane>() -> usize {
    if size_of::<S::Register>() == 64 || !T::IS_WIDE { 16 * 1024 } else { 4 * 1024 }
}

/// Elements of a buffer from which on they are prefetched: 512 KiB of f32, half of a second-level cache. In
/// that cache, products take up to 1.3 times as long with prefetches; in the third-level cache 1,024 x 1,024
/// take 78 us in place of 68. But a model's matrices come from memory: there, 384 x 384 f32 take 75 us
/// without prefetches and 36 with them, and bf16 47 and 18.
const LARGE: usize = 1 << 17;

/// Adds scaled columns to the sums, `V` vectors of sums at a time, if there are as many columns as are added
/// at a time and sums for `V` vectors at least; returns whether. The columns that are `ahead` elements away
/// are prefetched, unless that is zero.
#[inline(always)]
fn add_vectors<S: Simd, T: Lane, const V: usize>(
    sums: &mut [T::Acc],
    columns: [&[T]; AXPY_COLUMNS],
    x: &[T::Acc],
    ahead: isize,
) -> bool {
    let lanes = T::Acc::lanes::<S>();
    let (len, width) = (sums.len(), V * lanes);
    if len < width || x.len() != AXPY_COLUMNS {
        return false;
    }
    // Not by `map`, which the compiler would make a separate function.
    let mut factors: [Vector<S, T::Acc>; AXPY_COLUMNS] = [T::Acc::ZERO.splat(); AXPY_COLUMNS];
    for (factor, x) in factors.iter_mut().zip(x) {
        *factor = x.splat();
    }
    let mut at = 0;
    while at < len {
        // The last vectors may begin before sums that are done, to which they add nothing.
        let first = at.min(len - width);
        // The terms are added up separately first, so that the long sum is rounded less often.
        let mut terms: [Vector<S, T::Acc>; V] = [T::Acc::ZERO.splat(); V];
        if const { T::IS_FLOAT } && ahead != 0 {
            for column in columns {
                let next = column.as_ptr().wrapping_add(first).wrapping_offset(ahead);
                prefetch_far(next.cast(), width * size_of::<T>());
            }
        }
        for c in 0..AXPY_COLUMNS {
            // One check of the bounds for all vectors.
            let column = &columns[c][first..first + width];
            for v in 0..V {
                let column = T::load_lanes::<S>(&column[v * lanes..]);
                terms[v] = T::mul_then_add_lanes::<S>(column, factors[c], terms[v]);
            }
        }
        if first == at {
            let sums = &mut sums[at..at + width];
            for v in 0..V {
                let sums = &mut sums[v * lanes..];
                store(load::<S, T::Acc>(sums) + terms[v], sums);
            }
        } else {
            let mut rest = [T::Acc::ZERO; REST];
            for v in 0..V {
                store(terms[v], &mut rest[v * lanes..]);
            }
            add(&mut sums[at..], &rest[at - first..]);
        }
        at += width;
    }
    true
}

/// Numbers of sums that are computed together without vectors. Integers are too rare for a long loop.
const MANY_SUMS: usize = 16;
const FEW_SUMS: usize = 8;

/// [`add_few`] for accumulators.
#[inline(never)]
fn add_columns<A: Wide>(sums: &mut [A], columns: &[&[A]], x: &[A]) {
    let done = if A::IS_FLOAT { add_runs::<A, MANY_SUMS>(sums, columns, x, 0) } else { 0 };
    let done = add_runs::<A, FEW_SUMS>(sums, columns, x, done);
    add_runs::<A, 1>(sums, columns, x, core::hint::black_box(done));
}

/// Adds scaled columns to the sums from `done` on, `N` sums at a time. Returns how many sums are done then.
#[inline(always)]
fn add_runs<A: Wide, const N: usize>(sums: &mut [A], columns: &[&[A]], x: &[A], done: usize) -> usize {
    let mut at = done;
    while at + N <= sums.len() {
        // As in `add_vectors`.
        let mut terms = [A::ZERO; N];
        for (column, x) in columns.iter().zip(x) {
            let column: &[A; N] = column[at..].first_chunk().expect("a column is as long as the sums");
            for l in 0..N {
                terms[l] = A::mul_add(column[l], *x, terms[l]);
            }
        }
        for (sum, term) in sums[at..at + N].iter_mut().zip(terms) {
            *sum = A::plus(*sum, term);
        }
        at += N;
    }
    at
}
