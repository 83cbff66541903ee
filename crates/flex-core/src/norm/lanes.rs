//! Maxima and sums of slices, with enough independent partial results for the compiler to vectorise. Call them
//! inside [`vectorize`](flex_math::simd::vectorize).

use super::work::Work;
use flex_math::fold_halves;

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
    let mut total = T::zero();
    for block in values.chunks(SUM_BLOCK) {
        let (body, tail) = block.as_chunks::<LANES>();
        let mut lanes = [T::zero(); LANES];
        for chunk in body {
            for l in 0..LANES {
                lanes[l] = lanes[l] + f(chunk[l]);
            }
        }
        for (lane, value) in lanes.iter_mut().zip(tail) {
            *lane = *lane + f(*value);
        }
        total = total + fold_halves(&mut lanes, |a, b| a + b);
    }
    total
}
