//! The interface between the drivers and a reduction: loops over bytes, behind `dyn`.
//!
//! The drivers are compiled once. They call a kernel once per batch of rows or block of columns, never per
//! element, and hold the kernel's accumulators as bytes. [`TypedReduce`] turns a [`Reducer`] into a kernel by
//! adding the loops.
//!
//! Accuracy of sums: the drivers split their input into blocks and combine the blocks' accumulators pairwise,
//! so the error grows with the logarithm of the number of blocks, as in Higham, "The accuracy of floating
//! point summation", SIAM J. Sci. Comput. 14 (1993).

use super::lift::{InVectors, LoopVectors, OneByOne};
use super::reducer::{Reducer, fold_any_row, fold_lanes};
use super::sizes::{LANES, LONG_ROW, SHORT_LANES};
use crate::{DType, Element, Tensor};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::Range;
use flex_math::simd::{Gains, Levels, Simd, WithSimd, dispatch_for, prefetch};

/// The start positions of rows that lie a constant stride apart.
#[derive(Clone, Copy)]
pub(super) struct RowStarts {
    /// The position of row 0.
    pub first: usize,
    /// The distance between starts of rows.
    pub stride: isize,
}

impl RowStarts {
    #[inline(always)]
    pub fn at(self, i: usize) -> usize {
        self.first.wrapping_add_signed(i as isize * self.stride)
    }

    /// The rows from row `i` on.
    pub fn skip(self, i: usize) -> Self {
        Self { first: self.at(i), ..self }
    }

    /// Row `i` of `src`, of `width` elements.
    #[inline(always)]
    pub fn row<T>(self, src: &[T], i: usize, width: usize) -> &[T] {
        let at = self.at(i);
        &src[at..at + width]
    }
}

/// The sizes and constants of a kernel that the drivers need.
#[derive(Clone, Copy)]
pub(super) struct KernelFacts {
    /// Bytes of an element.
    pub element: usize,
    /// Bytes of an accumulator.
    pub accumulator: usize,
    /// Bytes of an element of the result.
    pub result: usize,
    /// [`Reducer::LONGEST`].
    pub longest: usize,
    /// [`Reducer::ROUNDS`].
    pub rounds: bool,
}

/// A reduction over bytes. Accumulators lie one after the other, the first at the start of a
/// [`Word`](super::scratch::Word). Positions and row lengths are counted in elements.
pub(super) trait ReduceKernel: Send + Sync {
    /// A copy of the kernel, for a reduction that waits for its reader.
    fn shared(&self) -> Arc<dyn ReduceKernel>;
    /// The kernel's facts.
    fn facts(&self) -> KernelFacts;
    /// The result of `n` elements from position `start` on, as a tensor of `dtype`; `None` when `n` is so
    /// large that the elements have to be split. Spares small reductions the calls between fold and result, a
    /// fifth of their time.
    fn reduce_short(&self, src: &[u8], start: usize, n: usize, dtype: DType) -> Option<Tensor>;
    /// Fills `acc` with accumulators of no elements.
    fn clear(&self, acc: &mut [u8]);
    /// Reduces rows of `n` elements of `src`, each to its own accumulator in `acc`.
    fn fold_rows(&self, src: &[u8], starts: RowStarts, n: usize, acc: &mut [u8]);
    /// Adds rows `rows` of `src`, element by element, to `acc`, which holds one accumulator per column.
    fn add_rows(&self, src: &[u8], starts: RowStarts, rows: Range<usize>, acc: &mut [u8]);
    /// Combines `acc`, element by element, with each row of accumulators in `earlier`, all of which precede
    /// `acc` in order.
    fn absorb(&self, earlier: &[u8], acc: &mut [u8]);
    /// Combines accumulators pairwise, in order, into the first one.
    fn merge(&self, acc: &mut [u8]);
    /// Writes to `out` the results of the accumulators `acc`, each of `n` elements that count `copies` times.
    fn finish(&self, acc: &[u8], n: usize, copies: usize, out: &mut [u8]);
}

/// The kernel of a reducer `R` of elements `T`.
pub(super) struct TypedReduce<T, R> {
    reducer: R,
    element: PhantomData<fn(T)>,
}

impl<T, R> TypedReduce<T, R> {
    pub fn new(reducer: R) -> Self {
        Self { reducer, element: PhantomData }
    }
}

impl<T: Element, R: Reducer<T>> ReduceKernel for TypedReduce<T, R> {
    fn shared(&self) -> Arc<dyn ReduceKernel> {
        Arc::new(Self::new(self.reducer))
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts {
            element: size_of::<T>(),
            accumulator: size_of::<R::Acc>(),
            result: size_of::<R::Out>(),
            longest: R::LONGEST,
            rounds: R::ROUNDS,
        }
    }

    fn reduce_short(&self, src: &[u8], start: usize, n: usize, dtype: DType) -> Option<Tensor> {
        if n > R::LONGEST || n >= LONG_ROW {
            return None;
        }
        let (r, starts) = (self.reducer, RowStarts { first: start, stride: 0 });
        let mut acc = [r.identity()];
        fold_rows(r, bytemuck::cast_slice::<_, T>(src), starts, n, &mut acc);
        Some(Tensor::single(r.finish(acc[0], n, 1), dtype))
    }

    fn clear(&self, acc: &mut [u8]) {
        bytemuck::cast_slice_mut(acc).fill(self.reducer.identity());
    }

    fn fold_rows(&self, src: &[u8], starts: RowStarts, n: usize, acc: &mut [u8]) {
        fold_rows(self.reducer, bytemuck::cast_slice::<_, T>(src), starts, n, bytemuck::cast_slice_mut(acc));
    }

    fn add_rows(&self, src: &[u8], starts: RowStarts, rows: Range<usize>, acc: &mut [u8]) {
        let (src, acc) = (bytemuck::cast_slice(src), bytemuck::cast_slice_mut(acc));
        run::<T, R, _>(AddRows { r: self.reducer, src, starts, rows, acc });
    }

    fn absorb(&self, earlier: &[u8], acc: &mut [u8]) {
        let (earlier, acc) =
            (bytemuck::cast_slice::<_, R::Acc>(earlier), bytemuck::cast_slice_mut::<_, R::Acc>(acc));
        for row in earlier.chunks_exact(acc.len()) {
            for (a, &e) in acc.iter_mut().zip(row) {
                *a = self.reducer.combine(e, *a);
            }
        }
    }

    fn merge(&self, acc: &mut [u8]) {
        let acc = bytemuck::cast_slice_mut::<_, R::Acc>(acc);
        let mut step = 1;
        while step < acc.len() {
            for i in (0..acc.len() - step).step_by(2 * step) {
                acc[i] = self.reducer.combine(acc[i], acc[i + step]);
            }
            step *= 2;
        }
    }

    fn finish(&self, acc: &[u8], n: usize, copies: usize, out: &mut [u8]) {
        let (acc, out) = (bytemuck::cast_slice(acc), bytemuck::cast_slice_mut(out));
        for (o, &a) in out.iter_mut().zip(acc) {
            *o = self.reducer.finish(a, n, copies);
        }
    }
}

/// A loop that may be compiled for several instruction sets.
trait VectorLoop {
    /// Runs the loop; `W` widens halves with the instruction set that the loop is compiled for.
    fn run<W: LoopVectors>(self);
}

/// Adapts a [`VectorLoop`] to the dispatch over instruction sets.
struct InLevel<L>(L);

impl<L: VectorLoop> WithSimd for InLevel<L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        self.0.run::<InVectors<S>>();
    }
}

/// Runs the loop of a reducer, compiled for the instruction sets that the reducer names.
#[inline(always)]
fn run<T: Element, R: Reducer<T>, L: VectorLoop>(body: L) {
    // A constant, so that the branch not taken is not compiled.
    if const { matches!(R::LEVELS, Levels::Baseline) } {
        body.run::<OneByOne>();
    } else {
        dispatch_for::<ReducerLevels<T, R>, _>(InLevel(body));
    }
}

/// [`Reducer::LEVELS`], where [`dispatch_for`] reads it.
struct ReducerLevels<T, R>(PhantomData<(T, R)>);

impl<T: Element, R: Reducer<T>> Gains for ReducerLevels<T, R> {
    const LEVELS: Levels = R::LEVELS;
}

/// [`ReduceKernel::fold_rows`].
struct FoldRows<'a, T: Element, R: Reducer<T>> {
    r: R,
    src: &'a [T],
    starts: RowStarts,
    n: usize,
    acc: &'a mut [R::Acc],
}

impl<T: Element, R: Reducer<T>> VectorLoop for FoldRows<'_, T, R> {
    #[inline(always)]
    fn run<W: LoopVectors>(self) {
        for (i, acc) in self.acc.iter_mut().enumerate() {
            let row = self.starts.row(self.src, i, self.n);
            *acc = if const { R::IS_PLAIN } {
                row.iter().fold(self.r.identity(), |acc, &x| self.r.combine(acc, self.r.lift(x)))
            } else if const { !W::VECTORS && !R::ROUNDS } {
                // Extremes of floats in as many lanes as with vectors would be twice the code for AVX2.
                fold_lanes::<W, SHORT_LANES, T, R>(self.r, row)
            } else {
                fold_any_row::<W, T, R>(self.r, row)
            };
        }
    }
}

/// [`ReduceKernel::fold_rows`] on typed slices.
pub(super) fn fold_rows<T: Element, R: Reducer<T>>(
    r: R,
    src: &[T],
    starts: RowStarts,
    n: usize,
    acc: &mut [R::Acc],
) {
    run::<T, R, _>(FoldRows { r, src, starts, n, acc });
}

/// [`ReduceKernel::add_rows`].
struct AddRows<'a, T: Element, R: Reducer<T>> {
    r: R,
    src: &'a [T],
    starts: RowStarts,
    rows: Range<usize>,
    acc: &'a mut [R::Acc],
}

impl<T: Element, R: Reducer<T>> VectorLoop for AddRows<'_, T, R> {
    #[inline(always)]
    fn run<W: LoopVectors>(self) {
        let Self { r, src, starts, rows, acc } = self;
        let width = acc.len();
        let mut i = rows.start;
        // Groups without vectors would be as much code as those for AVX2, so only sums that have to round in
        // the same order have them.
        while const { R::ROUNDS || W::VECTORS } && i + GROUP <= rows.end {
            let first = opaque(i);
            let row = |k| starts.row(src, first + k, width);
            let rows = [row(0), row(1), row(2), row(3)];
            let group = RowGroup { rows, next: GROUP as isize * starts.stride };
            // Of each row, two AVX-512 vectors stay in registers if halves are widened to f32, and four
            // otherwise (64 columns of 4 bytes, 32 of 8).
            if const { R::LIFTS_SLICES || size_of::<R::Acc>() >= 8 } {
                add_group::<W, { LANES / 2 }, T, R>(r, group, acc);
            } else {
                add_group::<W, LANES, T, R>(r, group, acc);
            }
            i += GROUP;
        }
        while i < rows.end {
            for (a, &x) in acc.iter_mut().zip(starts.row(src, opaque(i), width)) {
                *a = r.combine(*a, r.lift(x));
            }
            i += 1;
        }
    }
}

/// The index `i` of a row, unknown to the compiler. Otherwise the compiler makes a loop of its own for rows
/// without elements, and vectorises the bounds checks of their starts: a third of the machine code.
#[inline(always)]
fn opaque(i: usize) -> usize {
    core::hint::black_box(i)
}

/// Rows added together before the accumulators are updated, which saves loads and stores of accumulators.
/// Rows often lie a multiple of 4 KiB apart: more rows at a time would compete for the same sets of the
/// first-level cache.
const GROUP: usize = 4;

/// Rows of equal length that are added to the accumulators together.
#[derive(Clone, Copy)]
struct RowGroup<'a, T> {
    rows: [&'a [T]; GROUP],
    /// Distance to the corresponding rows of the next group.
    next: isize,
}

/// Prefetch distance in each row of a [`RowGroup`], in bytes. Measured on two threads of a Xeon (Emerald
/// Rapids): the sums of the columns of 1024 x 1024 f64, 8 MB in the third-level cache, take 114 us with 1 or
/// 2 KiB, 128 with 4, and 150 to 168 with a whole row, since these four rows and the next four are evicted
/// from the first-level cache before they are read. Sums of f32 columns take 43 us with 1 KiB, and took 51.
const AHEAD: usize = 1024;

impl<'a, T: Copy> RowGroup<'a, T> {
    /// `N` elements of each row from `at` on. Prefetches the elements that will be folded soon, in these rows
    /// or in the next group's: the next rows begin other pages, where the hardware's own prefetchers stop.
    #[inline(always)]
    fn chunks<const N: usize>(self, at: usize) -> [&'a [T; N]; GROUP] {
        let width = self.rows[0].len();
        let ahead = (AHEAD / size_of::<T>()).min(width);
        let wrap = if at + ahead < width { 0 } else { self.next - width as isize };
        // Not `map`: see `lift_group`.
        let chunk = |row: &'a [T]| {
            let chunk = row[at..].first_chunk().expect("a row is as long as the accumulators");
            prefetch(chunk.as_ptr().wrapping_offset(ahead as isize + wrap).cast(), size_of_val(chunk));
            chunk
        };
        let [a, b, c, d] = self.rows;
        [chunk(a), chunk(b), chunk(c), chunk(d)]
    }

    #[inline(always)]
    fn column(self, at: usize) -> [T; GROUP] {
        let [a, b, c, d] = self.rows;
        [a[at], b[at], c[at], d[at]]
    }
}

/// Adds a group of rows to the accumulators, `N` columns at a time.
#[inline(always)]
fn add_group<W: LoopVectors, const N: usize, T: Element, R: Reducer<T>>(
    r: R,
    group: RowGroup<'_, T>,
    acc: &mut [R::Acc],
) {
    let whole = acc.len() - acc.len() % N;
    let (chunks, rest) = acc.as_chunks_mut::<N>();
    for (c, acc) in chunks.iter_mut().enumerate() {
        let x = group.chunks::<N>(c * N);
        if R::LIFTS_SLICES {
            let mut lifted = [[r.identity(); N]; GROUP];
            for (lifted, x) in lifted.iter_mut().zip(x) {
                r.lift_all::<W>(x, lifted);
            }
            for l in 0..N {
                acc[l] = combine_group(r, acc[l], [lifted[0][l], lifted[1][l], lifted[2][l], lifted[3][l]]);
            }
        } else {
            for l in 0..N {
                acc[l] = combine_group(r, acc[l], lift_group(r, [x[0][l], x[1][l], x[2][l], x[3][l]]));
            }
        }
    }
    for (l, acc) in rest.iter_mut().enumerate() {
        *acc = combine_group(r, *acc, lift_group(r, group.column(whole + l)));
    }
}

/// The accumulators of a group of elements. Written out, since `map` and `from_fn` of arrays go through eight
/// functions each, which were an eighth of what the compiler had to translate for this crate.
#[inline(always)]
fn lift_group<T: Element, R: Reducer<T>>(r: R, [a, b, c, d]: [T; GROUP]) -> [R::Acc; GROUP] {
    [r.lift(a), r.lift(b), r.lift(c), r.lift(d)]
}

/// Combines a group pairwise, and then with `acc`, which comes before.
#[inline(always)]
fn combine_group<T: Element, R: Reducer<T>>(r: R, acc: R::Acc, [a, b, c, d]: [R::Acc; GROUP]) -> R::Acc {
    r.combine(acc, r.combine(r.combine(a, b), r.combine(c, d)))
}
