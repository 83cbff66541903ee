//! The typed loops of products with a vector, compiled for each instruction set.

use super::gemv::{AXPY_COLUMNS, AXPY_TILE, DOT_ROWS, Matrix, VectorKernel};
use super::lane::{Lane, Wide};
use crate::dtype::Element;
use crate::walk::gather_row;
use bytemuck::{cast_slice, cast_slice_mut};
use core::marker::PhantomData;
use flex_math::simd::{Scalar, Simd, Vector, WithSimd, dispatch, vectorize, vectorize_lean};

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

    fn finish(&self, y: &mut [u8], sums: &[u8], accumulate: bool) {
        let (y, sums) = (cast_slice_mut::<u8, T>(y), cast_slice::<u8, T::Acc>(sums));
        if !accumulate {
            return T::narrow_all(sums, y);
        }
        let mut old = [T::Acc::ZERO; BLOCK];
        for (y, sums) in y.chunks_mut(BLOCK).zip(sums.chunks(BLOCK)) {
            let old = &mut old[..y.len()];
            T::widen_all(y, old);
            add(old, sums);
            T::narrow_all(old, y);
        }
    }
}

/// `sums += more`.
fn add<A: Wide>(sums: &mut [A], more: &[A]) {
    vectorize_lean(
        #[inline(always)]
        || sums.iter_mut().zip(more).for_each(|(sum, value)| *sum = A::plus(*sum, *value)),
    );
}

/// See [`VectorKernel::dots`].
fn dots<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, p: usize, x: &[T::Acc]) {
    for (group, sums) in sums.chunks_mut(DOT_ROWS).enumerate() {
        let mut rows: [&[T]; DOT_ROWS] = [&[]; DOT_ROWS];
        let rows = &mut rows[..sums.len()];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = w.run(first + group * DOT_ROWS + r, p, x.len());
        }
        let mut running = Running::new();
        if T::as_terms(&[]).is_some() {
            let mut terms: [&[T::Acc]; DOT_ROWS] = [&[]; DOT_ROWS];
            for (terms, row) in terms.iter_mut().zip(&*rows) {
                *terms = T::as_terms(row).unwrap_or_default();
            }
            running.add(&terms[..rows.len()], x);
        } else {
            // Converts a block of each row at a time.
            let mut terms = [[T::Acc::ZERO; BLOCK]; DOT_ROWS];
            for (block, x) in x.chunks(BLOCK).enumerate() {
                for (terms, row) in terms.iter_mut().zip(&*rows) {
                    T::widen_all(&row[block * BLOCK..][..x.len()], &mut terms[..x.len()]);
                }
                running.add(&terms.each_ref().map(|terms| &terms[..x.len()])[..rows.len()], x);
            }
        }
        running.totals(sums);
    }
}

/// Dot products of up to [`DOT_ROWS`] rows, of which some terms are summed.
struct Running<A> {
    /// Vectors of partial sums; of each array the bytes of a vector are used.
    vectors: [[[u8; VECTOR]; DOT_VECTORS]; DOT_ROWS],
    /// Sums of the terms past the last whole group of vectors.
    tails: [A; DOT_ROWS],
    /// Number of accumulators of a vector.
    lanes: usize,
}

impl<A: Wide> Running<A> {
    fn new() -> Self {
        Self { vectors: [[[0; VECTOR]; DOT_VECTORS]; DOT_ROWS], tails: [A::ZERO; DOT_ROWS], lanes: 1 }
    }

    /// Adds the products of the rows with `x`. All blocks but the last must hold whole groups of vectors.
    fn add(&mut self, rows: &[&[A]], x: &[A]) {
        let lanes = dispatch(Dots { rows, x, vectors: &mut self.vectors });
        let whole = x.len() - x.len() % (lanes * DOT_VECTORS);
        for (row, tail) in rows.iter().zip(&mut self.tails) {
            for (w, x) in row[whole..].iter().zip(&x[whole..]) {
                *tail = A::mul_add(*w, *x, *tail);
            }
        }
        self.lanes = lanes;
    }

    /// Adds up the partial sums.
    fn totals(&self, sums: &mut [A]) {
        for ((sum, vectors), tail) in sums.iter_mut().zip(&self.vectors).zip(self.tails) {
            *sum = tail;
            for lane in (0..self.lanes * size_of::<A>()).step_by(size_of::<A>()) {
                let [low, high] =
                    vectors.each_ref().map(|v| bytemuck::pod_read_unaligned(&v[lane..lane + size_of::<A>()]));
                *sum = A::plus(*sum, A::plus(low, high));
            }
        }
    }
}

/// Adds products to `vectors`, as far as `x` has whole groups of vectors, and returns the number of lanes.
struct Dots<'a, A> {
    rows: &'a [&'a [A]],
    x: &'a [A],
    vectors: &'a mut [[[u8; VECTOR]; DOT_VECTORS]; DOT_ROWS],
}

impl<A: Wide> WithSimd for Dots<'_, A> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> usize {
        if let [a, b, c, d] = *self.rows {
            add_dots::<S, A, DOT_ROWS>([a, b, c, d], self.x, self.vectors);
        } else {
            for (row, vectors) in self.rows.iter().zip(self.vectors) {
                add_dots::<S, A, 1>([row], self.x, core::array::from_mut(vectors));
            }
        }
        A::lanes::<S>()
    }
}

/// [`Dots`] of `R` rows.
#[inline(always)]
fn add_dots<S: Simd, A: Wide, const R: usize>(
    mut rows: [&[A]; R],
    x: &[A],
    vectors: &mut [[[u8; VECTOR]; DOT_VECTORS]; R],
) {
    let lanes = A::lanes::<S>();
    let step = lanes * DOT_VECTORS;
    let x = &x[..x.len() - x.len() % step];
    for row in &mut rows {
        *row = &row[..x.len()];
    }
    let mut sums: [[Vector<S, A>; DOT_VECTORS]; R] = [[A::ZERO.splat(); DOT_VECTORS]; R];
    for (sums, vectors) in sums.iter_mut().zip(&*vectors) {
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            *sum = bytemuck::pod_read_unaligned(&vector[..size_of::<Vector<S, A>>()]);
        }
    }
    let mut p = 0;
    while p < x.len() {
        let group: [Vector<S, A>; DOT_VECTORS] = [load(&x[p..]), load(&x[p + lanes..])];
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = A::mul_add_lanes(load(&row[p + v * lanes..]), group[v], *sum);
            }
        }
        p += step;
    }
    for (sums, vectors) in sums.iter().zip(vectors) {
        for (sum, vector) in sums.iter().zip(vectors) {
            vector[..size_of::<Vector<S, A>>()].copy_from_slice(bytemuck::bytes_of(sum));
        }
    }
}

/// The vector of the first elements of `from`. The lengths are constants inside of a dispatched function, and
/// the checks are optimised away.
#[inline(always)]
fn load<S: Simd, T: Scalar>(from: &[T]) -> Vector<S, T> {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&from[..T::lanes::<S>()]))
}

/// See [`VectorKernel::axpys`].
fn axpys<T: Lane>(sums: &mut [T::Acc], w: Matrix<'_, T>, first: usize, start: usize, x: &[T::Acc]) {
    vectorize(
        #[inline(always)]
        || {
            for (tile, sums) in sums.chunks_mut(AXPY_TILE).enumerate() {
                let (i, n) = (first + tile * AXPY_TILE, sums.len());
                let (groups, rest) = x.as_chunks::<AXPY_COLUMNS>();
                for (g, x) in groups.iter().enumerate() {
                    let mut columns: [&[T]; AXPY_COLUMNS] = [&[]; AXPY_COLUMNS];
                    for (c, column) in columns.iter_mut().enumerate() {
                        *column = w.run(i, start + g * AXPY_COLUMNS + c, n);
                    }
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
fn axpy<T: Lane, const C: usize>(sums: &mut [T::Acc], mut columns: [&[T]; C], x: &[T::Acc; C]) {
    let n = sums.len();
    for column in &mut columns {
        *column = &column[..n];
    }
    for j in 0..n {
        // The terms are added up separately first, so that the long sum is rounded less often.
        let mut term = T::mul_add(columns[0][j].widen(), x[0], T::Acc::ZERO);
        for c in 1..C {
            term = T::mul_add(columns[c][j].widen(), x[c], term);
        }
        sums[j] = T::plus(sums[j], term);
    }
}
