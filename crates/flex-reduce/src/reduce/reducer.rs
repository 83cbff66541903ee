//! What a reduction is, and the loops along a contiguous row that every reduction shares.

use super::lift::HalfWidening;
use super::sizes::{BLOCK, LANES, SHORT_LANES};
use crate::Element;
use bytemuck::Pod;
use flex_math::fold_halves;
use flex_math::simd::{Levels, prefetch_ahead};

/// An associative and commutative reduction of elements `T`: an identity, a lift of one element, and a combination.
///
/// A reduction in two passes (log-sum-exp, variance) is a reducer as well: its accumulator holds what blocks can be
/// merged by (the maximum and the sum relative to it; the count, the mean and the squared deviations), and its
/// [`fold_row`](Self::fold_row) reads the block that it gets twice. Set [`LONGEST`](Self::LONGEST) so that a block
/// stays in the first-level cache.
pub(crate) trait Reducer<T: Element>: Copy + Send + Sync {
    /// What some elements come to: a partial result, which need not be an element. Aligned to 16 bytes at most.
    type Acc: Pod + Send + Sync;
    /// Element of the result.
    type Out: Element;
    /// Whether combining rounds, so that the shape of the tree of combinations matters for accuracy.
    const ROUNDS: bool;
    /// The longest row that [`fold_row`](Self::fold_row) takes without losing accuracy.
    const LONGEST: usize = if Self::ROUNDS { BLOCK } else { usize::MAX };
    /// The instruction sets that the loops are compiled for. Those of integers wait for memory with vectors of 32 bytes
    /// already.
    const LEVELS: Levels = if T::IS_FLOAT { Levels::All } else { Levels::Lean };
    /// Whether [`lift_all`](Self::lift_all) is better at many elements than [`lift`](Self::lift) in a loop.
    const LIFTS_SLICES: bool = false;
    /// The accumulator of no elements.
    fn identity(self) -> Self::Acc;
    /// The accumulator of one element.
    fn lift(self, value: T) -> Self::Acc;
    /// Writes the accumulators of the elements `from` to `to`, which is as long.
    #[inline(always)]
    fn lift_all<W: HalfWidening>(self, from: &[T], to: &mut [Self::Acc]) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = self.lift(from);
        }
    }
    /// The accumulator of two sets, of which the elements of `a` come first.
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Reduces a row that is long enough for all lanes; meant to be inlined into a vectorised function.
    #[inline(always)]
    fn fold_row<W: HalfWidening>(self, row: &[T]) -> Self::Acc {
        fold_lanes::<W, LANES, T, Self>(self, row)
    }
    /// The result for `n` elements that occur `copies` times each.
    fn finish(self, acc: Self::Acc, n: usize, copies: usize) -> Self::Out;
}

/// Reduces a row of any length, which loses accuracy beyond [`Reducer::LONGEST`].
#[inline(always)]
pub(super) fn fold_any_row<W: HalfWidening, T: Element, R: Reducer<T>>(r: R, row: &[T]) -> R::Acc {
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

/// Reduces a row in `N` lanes, which only ever get constant indices, so that they stay in registers.
#[inline(always)]
pub(super) fn fold_lanes<W: HalfWidening, const N: usize, T: Element, R: Reducer<T>>(
    r: R,
    row: &[T],
) -> R::Acc {
    let mut acc = [r.identity(); N];
    let (chunks, rest) = row.as_chunks::<N>();
    for chunk in chunks {
        prefetch_ahead(chunk.as_ptr(), N);
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
    let rest = lift_padded::<W, N, T, R>(r, rest);
    for l in 0..N {
        acc[l] = r.combine(acc[l], rest[l]);
    }
    fold_halves(&mut acc, |a, b| r.combine(a, b))
}

/// Fewer than `N` elements, lifted, followed by identities.
#[inline(always)]
pub(super) fn lift_padded<W: HalfWidening, const N: usize, T: Element, R: Reducer<T>>(
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
