//! Maxima and sums of slices, with enough independent partial results for the compiler to vectorise them. To
//! be called inside [`vectorize`].

use crate::float::Real;
use flex_math::fold_halves;
use flex_math::simd::{OperandRuns, vectorize};

/// Number of independent partial results.
pub(super) const LANES: usize = 32;
/// Most elements that are summed in one set of partial sums; longer sums add up blocks of this length.
const SUM_BLOCK: usize = 4096;

/// The largest element. NaN is skipped; the result is `-inf` for a slice that is empty or all NaN.
#[inline(always)]
pub(crate) fn max_of<T: Real>(values: &[T]) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let (body, tail) = values.as_chunks::<LANES>();
    let mut largest = [T::neg_infinity(); LANES];
    for chunk in body {
        for l in 0..LANES {
            largest[l] = larger(largest[l], chunk[l]);
        }
    }
    let mut lanes = largest;
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane = larger(*lane, *value);
    }
    fold_halves(&mut lanes, larger)
}

/// The sum of `f(x)` over the elements `x`.
#[inline(always)]
pub(crate) fn sum_of<T: Real>(values: &[T], f: impl Fn(T) -> T) -> T {
    sum_of_tuples([values], |[x]| f(x))
}

/// The sum over all positions of `f` of the elements at that position of `N` slices of equal length.
#[inline(always)]
pub(crate) fn sum_of_tuples<T: Real, const N: usize>(values: [&[T]; N], f: impl Fn([T; N]) -> T) -> T {
    let len = values[0].len();
    let mut total = T::zero();
    for start in (0..len).step_by(SUM_BLOCK) {
        let end = len.min(start + SUM_BLOCK);
        let (count, rest) = ((end - start) / LANES, (end - start) % LANES);
        let runs = values.map(|values| OperandRuns::<_, LANES>::new(&values[start..end], 1, count));
        // Not the array that is folded: the compiler does not vectorise a loop over an array that is borrowed
        // later, and attention to 2,048 keys takes a tenth longer.
        let mut sums = [T::zero(); LANES];
        for c in 0..count {
            let chunks = runs.map(|runs| runs.get(c));
            for l in 0..LANES {
                sums[l] += f(chunks.map(|chunk| chunk[l]));
            }
        }
        let mut lanes = sums;
        let rests = values.map(|values| &values[end - rest..end]);
        for (l, lane) in lanes.iter_mut().enumerate().take(rest) {
            *lane += f(rests.map(|rest| rest[l]));
        }
        total += fold_halves(&mut lanes, |a, b| a + b);
    }
    total
}

/// Adds the row `from` to the row `to`; calls [`vectorize`] itself.
pub(super) fn add<T: Real>(to: &mut [T], from: &[T]) {
    vectorize(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, from)| *to += *from),
    );
}
