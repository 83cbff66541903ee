//! Maxima and sums of slices, with enough independent partial results for the compiler to vectorise. Call them
//! inside [`vectorize`].

use super::work::Work;
use flex_math::fold_halves;
use flex_math::simd::vectorize;

/// Independent partial results.
const LANES: usize = 32;
/// Elements whose sum is taken in one go; longer sums add up blocks.
const SUM_BLOCK: usize = 4096;

/// The largest element, NaN aside (unless there is nothing else); `-inf` of an empty slice.
#[inline(always)]
pub(crate) fn max_of<T: Work>(values: &[T]) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let (body, tail) = values.as_chunks::<LANES>();
    let mut lanes = [T::neg_infinity(); LANES];
    for chunk in body {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], chunk[l]);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane = larger(*lane, *value);
    }
    lanes.into_iter().fold(T::neg_infinity(), larger)
}

/// The sum of `f` of the elements.
#[inline(always)]
pub(crate) fn sum_of<T: Work>(values: &[T], f: impl Fn(T) -> T) -> T {
    sum_of_tuples([values], |[x]| f(x))
}

/// The sum of `f` of the elements that lie in the same places of slices of equal length.
#[inline(always)]
pub(crate) fn sum_of_tuples<T: Work, const N: usize>(values: [&[T]; N], f: impl Fn([T; N]) -> T) -> T {
    let len = values[0].len();
    let mut total = T::zero();
    for start in (0..len).step_by(SUM_BLOCK) {
        let end = len.min(start + SUM_BLOCK);
        let blocks = values.map(|values| values[start..end].as_chunks::<LANES>());
        let mut lanes = [T::zero(); LANES];
        for c in 0..(end - start) / LANES {
            let chunks: [&[T; LANES]; N] = blocks.map(|(body, _)| &body[c]);
            for l in 0..LANES {
                lanes[l] = lanes[l] + f(chunks.map(|chunk| chunk[l]));
            }
        }
        for l in 0..(end - start) % LANES {
            lanes[l] = lanes[l] + f(blocks.map(|(_, tail)| tail[l]));
        }
        total = total + fold_halves(&mut lanes, |a, b| a + b);
    }
    total
}

/// Adds a row to another one; vectorised by itself.
pub(super) fn add<T: Work>(to: &mut [T], from: &[T]) {
    vectorize(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, from)| *to = *to + *from),
    );
}
