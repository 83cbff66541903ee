//! The trait of reductions, and the loops along a contiguous row that all reductions share.

use super::lift::LoopVectors;
use super::sizes::{BLOCK, LANES, QUARTER, SHORT_LANES};
use crate::Element;
use bytemuck::Pod;
use flex_math::fold_halves;
use flex_math::simd::{Levels, prefetch_ahead};

/// An associative and commutative reduction of elements `T`: an identity, a lift of one element, and a
/// combination.
///
/// A reduction in two passes (log-sum-exp, variance) is a reducer as well. Its accumulator holds what is
/// needed to merge blocks: the maximum and the sum relative to it, or the count, the mean and the squared
/// deviations. Its [`fold_row`](Self::fold_row) reads its block twice; set [`LONGEST`](Self::LONGEST) so that
/// a block stays in the first-level cache.
pub(crate) trait Reducer<T: Element>: Copy + Send + Sync + 'static {
    /// The partial result of some elements; it need not be an element. Its alignment is 16 bytes at most.
    type Acc: Pod + Send + Sync;
    /// The element type of the result.
    type Out: Element;
    /// Whether a combination rounds, so that the shape of the tree of combinations matters for accuracy.
    const ROUNDS: bool;
    /// The longest row that [`fold_row`](Self::fold_row) reduces without losing accuracy.
    const LONGEST: usize = if Self::ROUNDS { BLOCK } else { usize::MAX };
    /// The instruction sets that the loops are compiled for. Integer loops are bound by memory already with
    /// vectors of 32 bytes.
    const LEVELS: Levels = if T::IS_FLOAT { Levels::All } else { Levels::Lean };
    /// Whether the compiler vectorises a plain loop along a row, for which it chooses the lanes. 64 rows of
    /// 1,024 (one thread of Zen 4): whether any u8 is true takes 0.7 us in such a loop, and took 3.1 in
    /// [`LANES`] lanes; maxima of i16 2.2 and 9.1, of i64 with AVX2 12 and 31.
    const IS_PLAIN: bool = !T::IS_FLOAT && !Self::ROUNDS;
    /// Whether [`lift_all`](Self::lift_all) is faster on many elements than [`lift`](Self::lift) in a loop.
    const LIFTS_SLICES: bool = false;
    /// The accumulator of no elements.
    fn identity(self) -> Self::Acc;
    /// The accumulator of one element.
    fn lift(self, value: T) -> Self::Acc;
    /// Writes the accumulators of the elements `from` to `to`, which has the same length.
    #[inline(always)]
    fn lift_all<W: LoopVectors>(self, from: &[T], to: &mut [Self::Acc]) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = self.lift(from);
        }
    }
    /// The accumulator of two sets of elements; the elements of `a` come before those of `b`.
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Reduces a row of at least [`LANES`] elements; meant to be inlined into a vectorised function.
    #[inline(always)]
    fn fold_row<W: LoopVectors>(self, row: &[T]) -> Self::Acc {
        fold_quarters::<W, T, Self>(self, row)
    }
    /// The result for `n` elements that count `copies` times each.
    fn finish(self, acc: Self::Acc, n: usize, copies: usize) -> Self::Out;
}

/// Reduces a row of any length; loses accuracy beyond [`Reducer::LONGEST`].
#[inline(always)]
pub(super) fn fold_any_row<W: LoopVectors, T: Element, R: Reducer<T>>(r: R, row: &[T]) -> R::Acc {
    if row.len() < SHORT_LANES / 2 {
        let mut acc = r.identity();
        for &x in row {
            acc = r.combine(acc, r.lift(x));
        }
        acc
    } else if row.len() < LANES {
        fold_lanes::<W, SHORT_LANES, T, R>(r, row)
    } else {
        r.fold_row::<W>(row)
    }
}

/// Reduces a row in `N` lanes. The lanes are indexed by constants only, so that they stay in registers.
#[inline(always)]
pub(super) fn fold_lanes<W: LoopVectors, const N: usize, T: Element, R: Reducer<T>>(
    r: R,
    row: &[T],
) -> R::Acc {
    let mut acc = [r.identity(); N];
    let (chunks, rest) = row.as_chunks::<N>();
    for chunk in chunks {
        prefetch_ahead(chunk.as_ptr(), N);
        fold_chunk::<W, N, T, R>(r, &mut acc, chunk);
    }
    let rest = lift_padded::<W, N, T, R>(r, rest);
    for l in 0..N {
        acc[l] = r.combine(acc[l], rest[l]);
    }
    fold_halves(&mut acc, |a, b| r.combine(a, b))
}

/// Reduces a row in [`LANES`] lanes, in the order of [`fold_lanes`]. The lanes are four arrays, since loops
/// over longer arrays are unrolled too late for the arrays to be kept in registers: products of rows of 64
/// f32 take 0.22 ns per element (Zen 4).
#[inline(always)]
pub(super) fn fold_quarters<W: LoopVectors, T: Element, R: Reducer<T>>(r: R, row: &[T]) -> R::Acc {
    let [mut a, mut b, mut c, mut d] = [[r.identity(); QUARTER]; 4];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        prefetch_ahead(chunk.as_ptr(), LANES);
        let [w, x, y, z] = chunk.as_chunks::<QUARTER>().0 else { unreachable!("four quarters") };
        fold_chunk::<W, QUARTER, T, R>(r, &mut a, w);
        fold_chunk::<W, QUARTER, T, R>(r, &mut b, x);
        fold_chunk::<W, QUARTER, T, R>(r, &mut c, y);
        fold_chunk::<W, QUARTER, T, R>(r, &mut d, z);
    }
    if !rest.is_empty() {
        let rest = lift_padded::<W, LANES, T, R>(r, rest);
        for l in 0..QUARTER {
            a[l] = r.combine(a[l], rest[l]);
            b[l] = r.combine(b[l], rest[QUARTER + l]);
            c[l] = r.combine(c[l], rest[2 * QUARTER + l]);
            d[l] = r.combine(d[l], rest[3 * QUARTER + l]);
        }
    }
    for l in 0..QUARTER {
        a[l] = r.combine(r.combine(a[l], c[l]), r.combine(b[l], d[l]));
    }
    fold_halves(&mut a, |a, b| r.combine(a, b))
}

/// Combines each lane with an element.
#[inline(always)]
fn fold_chunk<W: LoopVectors, const N: usize, T: Element, R: Reducer<T>>(
    r: R,
    acc: &mut [R::Acc; N],
    chunk: &[T; N],
) {
    if R::LIFTS_SLICES {
        let mut lifted = [r.identity(); N];
        r.lift_all::<W>(chunk, &mut lifted);
        for l in 0..N {
            acc[l] = r.combine(acc[l], lifted[l]);
        }
    } else {
        for l in 0..N {
            acc[l] = r.combine(acc[l], r.lift(chunk[l]));
        }
    }
}

/// The accumulators of fewer than `N` elements, padded with identities.
#[inline(always)]
pub(super) fn lift_padded<W: LoopVectors, const N: usize, T: Element, R: Reducer<T>>(
    r: R,
    rest: &[T],
) -> [R::Acc; N] {
    let mut padded = [r.identity(); N];
    if R::LIFTS_SLICES {
        r.lift_all::<W>(rest, &mut padded[..rest.len()]);
    } else {
        for (p, &x) in padded.iter_mut().zip(rest) {
            *p = r.lift(x);
        }
    }
    padded
}
