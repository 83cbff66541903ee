//! The typed loops of products with a vector, compiled for each instruction set.

use super::gemv::{AXPY_COLUMNS, AXPY_TILE, DOT_ROWS, Matrix, VectorKernel};
use super::lane::{Lane, Wide};
use crate::dtype::Element;
use crate::walk::gather_row;
use bytemuck::{cast_slice, cast_slice_mut};
use core::marker::PhantomData;
use flex_math::simd::{
    Gains, Levels, Simd, Vector, WithSimd, dispatch_for, has_vectors, load, prefetch_far, store,
    vectorize_lean,
};

/// Number of vectors of partial sums of a dot product; with [`DOT_ROWS`] rows they keep both multiply-add
/// units busy.
const DOT_VECTORS: usize = 2;
/// Bytes of the widest vector.
const VECTOR: usize = 64;
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
        T::as_terms(&[]).is_some()
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

/// `sums += more`.
#[inline(never)]
fn add<A: Wide>(sums: &mut [A], more: &[A]) {
    vectorize_lean(
        #[inline(always)]
        || sums.iter_mut().zip(more).for_each(|(sum, value)| *sum = A::plus(*sum, *value)),
    );
}

/// See [`VectorKernel::dots`].
fn dots<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, p: usize, x: &[T::Acc]) {
    if let Some(data) = T::as_terms(w.data) {
        let w = Matrix { data, offset: w.offset, row: w.row, col: w.col };
        return wide_dots(GemvDots { sums, w, first, p, x, carried: None });
    }
    // Converts a block of each row at a time.
    let mut terms = [[T::Acc::ZERO; BLOCK]; DOT_ROWS];
    let mut vectors = [[[0; VECTOR]; DOT_VECTORS]; DOT_ROWS];
    let blocks = x.len().div_ceil(BLOCK);
    for (group, sums) in sums.chunks_mut(DOT_ROWS).enumerate() {
        for (block, x) in x.chunks(BLOCK).enumerate() {
            for (r, terms) in terms[..sums.len()].iter_mut().enumerate() {
                let row = w.run(first + group * DOT_ROWS + r, p + block * BLOCK, x.len());
                T::widen_all(row, &mut terms[..x.len()]);
            }
            let w = Matrix { data: terms.as_flattened(), offset: 0, row: BLOCK as isize, col: 1 };
            let carried = Carried { vectors: &mut vectors, first: block == 0, last: block + 1 == blocks };
            wide_dots(GemvDots { sums, w, first: 0, p: 0, x, carried: Some(carried) });
        }
    }
}

/// One instance for all element types with the same accumulators.
#[inline(never)]
fn wide_dots<A: Wide>(dots: GemvDots<'_, A>) {
    dispatch_for::<LoopLevels<A>, _>(dots);
}

/// The instruction sets of loops over accumulators `A`. AVX2 multiplies integers of up to 32 bits as AVX-512
/// does, and the loops wait for memory.
struct LoopLevels<A>(PhantomData<A>);

impl<A: Wide> Gains for LoopLevels<A> {
    const LEVELS: Levels = if A::IS_FLOAT || size_of::<A>() == 8 { Levels::All } else { Levels::Lean };
}

/// Dot products of accumulators: see [`VectorKernel::dots`].
struct GemvDots<'a, A> {
    sums: &'a mut [A],
    w: Matrix<'a, A>,
    first: usize,
    p: usize,
    x: &'a [A],
    /// For sums over several blocks of up to [`DOT_ROWS`] rows.
    carried: Option<Carried<'a>>,
}

/// Partial sums that are carried from a block to the next. All blocks but the last hold whole groups of
/// vectors.
struct Carried<'a> {
    /// The vectors of each row; of each array, the bytes of a vector are used.
    vectors: &'a mut [[[u8; VECTOR]; DOT_VECTORS]; DOT_ROWS],
    /// Whether there are no partial sums yet.
    first: bool,
    /// Whether this is the last block, after which the vectors are added up.
    last: bool,
}

impl<A: Wide> WithSimd for GemvDots<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { sums, w, first, p, x, mut carried } = self;
        let ahead = DOT_ROWS as isize * w.row;
        for (group, sums) in sums.chunks_mut(DOT_ROWS).enumerate() {
            let i = first + group * DOT_ROWS;
            if let [a, b, c, d] = sums {
                let rows = [
                    w.run(i, p, x.len()),
                    w.run(i + 1, p, x.len()),
                    w.run(i + 2, p, x.len()),
                    w.run(i + 3, p, x.len()),
                ];
                [*a, *b, *c, *d] = dot::<S, A, DOT_ROWS>(rows, x, ahead, 0, &mut carried);
            } else {
                for (r, sum) in sums.iter_mut().enumerate() {
                    [*sum] = dot::<S, A, 1>([w.run(i + r, p, x.len())], x, ahead, r, &mut carried);
                }
            }
        }
    }
}

/// Dot products of `R` rows with `x`. The rows that are `ahead` elements away are prefetched. The carried
/// vectors of the first row have number `first`.
#[inline(always)]
fn dot<S: Simd, A: Wide, const R: usize>(
    mut rows: [&[A]; R],
    x: &[A],
    ahead: isize,
    first: usize,
    carried: &mut Option<Carried<'_>>,
) -> [A; R] {
    let (lanes, size) = (A::lanes::<S>(), size_of::<Vector<S, A>>());
    let whole = x.len() - x.len() % (lanes * DOT_VECTORS);
    for row in &mut rows {
        *row = &row[..x.len()];
    }
    let mut sums: [[Vector<S, A>; DOT_VECTORS]; R] = [[A::ZERO.splat(); DOT_VECTORS]; R];
    if let Some(carried) = carried
        && !carried.first
    {
        for (sums, vectors) in sums.iter_mut().zip(&carried.vectors[first..]) {
            for (sum, vector) in sums.iter_mut().zip(vectors) {
                *sum = bytemuck::pod_read_unaligned(&vector[..size]);
            }
        }
    }
    let mut p = 0;
    while p < whole {
        let group: [Vector<S, A>; DOT_VECTORS] = [load(&x[p..]), load(&x[p + lanes..])];
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            let next = row.as_ptr().wrapping_add(p).wrapping_offset(ahead);
            prefetch_far(next.cast(), lanes * DOT_VECTORS * size_of::<A>());
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = A::mul_add_lanes(load(&row[p + v * lanes..]), group[v], *sum);
            }
        }
        p += lanes * DOT_VECTORS;
    }
    let mut out = [A::ZERO; R];
    if let Some(carried) = carried
        && !carried.last
    {
        for (sums, vectors) in sums.iter().zip(&mut carried.vectors[first..]) {
            for (sum, vector) in sums.iter().zip(vectors) {
                vector[..size].copy_from_slice(bytemuck::bytes_of(sum));
            }
        }
        return out;
    }
    for p in whole..x.len() {
        for (out, row) in out.iter_mut().zip(&rows) {
            *out = A::mul_add(row[p], x[p], *out);
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        let total = sums[0] + sums[1];
        for lane in cast_slice::<_, A>(core::slice::from_ref(&total)) {
            *out = A::plus(*out, *lane);
        }
    }
    out
}

/// See [`VectorKernel::axpys`].
fn axpys<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, start: usize, x: &[T::Acc]) {
    if let Some(data) = T::as_terms(w.data) {
        let w = Matrix { data, offset: w.offset, row: w.row, col: w.col };
        return wide_axpys(sums, w, first, start, x);
    }
    // Converts a block of some columns at a time.
    let mut terms = [[T::Acc::ZERO; BLOCK]; AXPY_COLUMNS];
    for (tile, sums) in sums.chunks_mut(AXPY_TILE).enumerate() {
        for (group, x) in x.chunks(AXPY_COLUMNS).enumerate() {
            for (block, sums) in sums.chunks_mut(BLOCK).enumerate() {
                let i = first + tile * AXPY_TILE + block * BLOCK;
                for (c, terms) in terms[..x.len()].iter_mut().enumerate() {
                    let column = w.run(i, start + group * AXPY_COLUMNS + c, sums.len());
                    T::widen_all(column, &mut terms[..sums.len()]);
                }
                let w = Matrix { data: terms.as_flattened(), offset: 0, row: 1, col: BLOCK as isize };
                wide_axpys(sums, w, 0, 0, x);
            }
        }
    }
}

/// Columns of accumulators. One instance for all element types with the same accumulators.
#[inline(never)]
fn wide_axpys<A: Wide>(sums: &mut [A], w: Matrix<'_, A>, first: usize, start: usize, x: &[A]) {
    dispatch_for::<LoopLevels<A>, _>(Axpys { sums, w, first, start, x });
}

/// Sums of scaled columns: see [`VectorKernel::axpys`].
struct Axpys<'a, A> {
    sums: &'a mut [A],
    w: Matrix<'a, A>,
    first: usize,
    start: usize,
    x: &'a [A],
}

impl<A: Wide> WithSimd for Axpys<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { sums, w, first, start, x } = self;
        let is_short = w.col.unsigned_abs().saturating_mul(size_of::<A>()) <= SHORT_COLUMN;
        let fetches = is_short && size_of_val(w.data) >= LARGE;
        let ahead = if fetches { AXPY_COLUMNS as isize * w.col } else { 0 };
        for (tile, sums) in sums.chunks_mut(AXPY_TILE).enumerate() {
            let i = first + tile * AXPY_TILE;
            for (group, x) in x.chunks(AXPY_COLUMNS).enumerate() {
                let mut columns: [&[A]; AXPY_COLUMNS] = [&[]; AXPY_COLUMNS];
                for (c, column) in columns[..x.len()].iter_mut().enumerate() {
                    *column = w.run(i, start + group * AXPY_COLUMNS + c, sums.len());
                }
                let done = match x.first_chunk() {
                    Some(x) if const { has_vectors::<S>() } => add_vectors::<S, A>(sums, columns, x, ahead),
                    _ => 0,
                };
                let columns = &columns[..x.len()];
                // Fewer columns, or no vectors. Integers are too rare for a long loop of their own.
                let done = match done {
                    0 if A::IS_FLOAT => add_columns::<A, 64>(sums, columns, x, 0),
                    done => done,
                };
                let done = add_columns::<A, FEW_SUMS>(sums, columns, x, done);
                add_columns::<A, 1>(sums, columns, x, core::hint::black_box(done));
            }
        }
    }
}

/// Vectors of sums that are computed together.
const AXPY_VECTORS: usize = 4;

/// Bytes between neighbouring columns up to which the next columns are prefetched.
///
/// The hardware follows eight long columns by itself, and few instructions for each vector keep many loads on
/// their way. On Zen 5, 768 x 50,257 from memory take 4.3 ms on one thread and 3.1 on two; with prefetches
/// 4.9 and 3.8. But the hardware starts anew with every column. On one thread of Zen 4, matrices in memory,
/// in us, without and with prefetches: 768 x 3,072 366 and 257, 3,072 x 768 492 and 247, 1,024 x 1,024 277
/// and 170.
const SHORT_COLUMN: usize = 16 * 1024;

/// Bytes of a buffer from which on they are prefetched: it leaves the second-level cache. In that cache,
/// products take up to 1.3 times as long with prefetches; in the third-level cache 1,024 x 1,024 take 78 us
/// in place of 68. But a model's matrices come from memory.
const LARGE: usize = 1 << 20;

/// Adds as many scaled columns as are added at a time to the sums, as far as there are whole groups of
/// vectors. Returns how many sums are done then. The columns that are `ahead` elements away are prefetched,
/// unless that is zero.
#[inline(always)]
fn add_vectors<S: Simd, A: Wide>(
    sums: &mut [A],
    columns: [&[A]; AXPY_COLUMNS],
    x: &[A; AXPY_COLUMNS],
    ahead: isize,
) -> usize {
    let lanes = A::lanes::<S>();
    let width = AXPY_VECTORS * lanes;
    let whole = sums.len() - sums.len() % width;
    let columns = columns.map(|column| &column[..whole]);
    let x = x.map(|x| -> Vector<S, A> { x.splat() });
    let mut at = 0;
    while at < whole {
        // The terms are added up separately first, so that the long sum is rounded less often.
        let mut terms: [Vector<S, A>; AXPY_VECTORS] = [A::ZERO.splat(); AXPY_VECTORS];
        if const { A::IS_FLOAT } && ahead != 0 {
            for column in columns {
                let next = column.as_ptr().wrapping_add(at).wrapping_offset(ahead);
                prefetch_far(next.cast(), width * size_of::<A>());
            }
        }
        for c in 0..AXPY_COLUMNS {
            // One check of the bounds for all vectors.
            let column = &columns[c][at..at + width];
            for v in 0..AXPY_VECTORS {
                terms[v] = A::mul_then_add_lanes::<S>(load(&column[v * lanes..]), x[c], terms[v]);
            }
        }
        let sums = &mut sums[at..at + width];
        for v in 0..AXPY_VECTORS {
            let sums = &mut sums[v * lanes..];
            store(load::<S, A>(sums) + terms[v], sums);
        }
        at += width;
    }
    at
}

/// Number of sums that are computed together where less than 256 bytes of them are left.
const FEW_SUMS: usize = 8;

/// Adds the scaled columns to the sums from `done` on, `N` sums at a time. Returns how many sums are done
/// then.
#[inline(always)]
fn add_columns<A: Wide, const N: usize>(sums: &mut [A], columns: &[&[A]], x: &[A], done: usize) -> usize {
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
