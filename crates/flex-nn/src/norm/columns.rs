//! Lines that are summed element by element, and functions of a line, with constants for each column.

use crate::float::{Real, take};
use crate::stored::{Computing, Source};
use alloc::vec::Vec;
use flex_math::simd::vectorize_lean;
use smallvec::SmallVec;

/// Lines that are summed at a time, by one dispatch.
pub(super) const LINES: usize = 4;
/// Lines should have a multiple of so many columns: loops compute them in vectors, and the rest one by one.
pub(super) const CHUNK: usize = 16;

/// [`LINES`] lines or fewer, of equal length, in the computing type.
pub(super) type Lines<'a, F> = [&'a [F]; LINES];

/// Loads the lines. They are in `scratch` where they have to be converted.
pub(super) fn load<'a, A: Computing>(
    sources: &SmallVec<[Source<'a>; LINES]>,
    scratch: &'a mut Vec<A>,
) -> Lines<'a, A> {
    let mut loaded: Lines<'a, A> = [&[]; LINES];
    let converted = sources[0].values::<A>().is_none();
    let len = sources[0].len();
    let mut rooms = if converted { take(scratch, LINES * len) } else { &mut [] }.chunks_exact_mut(len);
    for (source, loaded) in sources.iter().zip(&mut loaded) {
        *loaded = match rooms.next() {
            Some(room) => {
                source.read(room);
                room
            }
            None => source.values().unwrap_or_default(),
        };
    }
    loaded
}

/// Adds the elements of lines to `sums`.
pub(super) fn add<F: Real>(sums: &mut [F], lines: &[&[F]]) {
    vectorize_lean(
        #[inline(always)]
        || {
            for x in lines {
                sums.iter_mut().zip(*x).for_each(|(sum, x)| *sum += *x);
            }
        },
    );
}

/// Adds `x - mean` to the first half of the sums, and its square to the second half.
pub(super) fn add_apart<F: Real>(sums: &mut [F], lines: &[&[F]], mean: &[F]) {
    let (sums, squares) = sums.split_at_mut(mean.len());
    vectorize_lean(
        #[inline(always)]
        || {
            for x in lines {
                let sums = sums.iter_mut().zip(squares.iter_mut());
                for ((x, mean), (sum, square)) in x.iter().zip(mean).zip(sums) {
                    let apart = *x - *mean;
                    *sum += apart;
                    *square += apart * apart;
                }
            }
        },
    );
}

/// Adds `g` to the first half of the sums, and `g (x - mean) scale` to the second half. The constants are rows
/// of `mean` and `scale`.
pub(super) fn add_products<F: Real>(sums: &mut [F], lines: &[&[F]], grads: &[&[F]], constants: &[F]) {
    let (mean, scale) = constants.split_at(constants.len() / 2);
    let (sums, products) = sums.split_at_mut(mean.len());
    vectorize_lean(
        #[inline(always)]
        || {
            for (x, grad) in lines.iter().zip(grads) {
                let sums = sums.iter_mut().zip(products.iter_mut());
                let operands = x.iter().zip(*grad).zip(mean).zip(scale);
                for ((((x, grad), mean), scale), (sum, product)) in operands.zip(sums) {
                    *sum += *grad;
                    *product += *grad * ((*x - *mean) * *scale);
                }
            }
        },
    );
}

/// Writes `(x - mean) * scale + shift`. The constants are rows of these three.
pub(super) fn affine<F: Real>(x: &[F], to: &mut [F], constants: &[F]) {
    let (mean, constants) = constants.split_at(constants.len() / 3);
    let (scale, shift) = constants.split_at(mean.len());
    vectorize_lean(
        #[inline(always)]
        || {
            for ((((to, x), mean), scale), shift) in to.iter_mut().zip(x).zip(mean).zip(scale).zip(shift) {
                *to = (*x - *mean) * *scale + *shift;
            }
        },
    );
}

/// Replaces `g` by `(g - of_grad - (x - mean) * of_product) * slope`. The constants are rows of `mean`,
/// `of_grad`, `of_product` and `slope`.
pub(super) fn gradient<F: Real>(x: &[F], grad: &mut [F], constants: &[F]) {
    let (first, last) = constants.split_at(constants.len() / 2);
    let (mean, of_grad) = first.split_at(first.len() / 2);
    let (of_product, slope) = last.split_at(mean.len());
    vectorize_lean(
        #[inline(always)]
        || {
            let constants = mean.iter().zip(of_grad).zip(of_product).zip(slope);
            for ((grad, x), (((mean, of_grad), of_product), slope)) in grad.iter_mut().zip(x).zip(constants) {
                *grad = (*grad - *of_grad - (*x - *mean) * *of_product) * *slope;
            }
        },
    );
}
