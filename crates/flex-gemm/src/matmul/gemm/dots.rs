//! Products whose operands are both contiguous along the terms, and of which one has few rows or columns: dot
//! products of runs. Packing the right operand would cost more than the product.

use super::tile::has_32_registers;
use super::{MatRef, Part};
use crate::float::Real;
use flex_math::simd::{Simd, Vector, WithSimd, has_vectors};

/// A part of a product of operands whose terms are neighbours.
pub(super) struct Dots<'a, T>(pub Part<'a, T>);

impl<T: Real> WithSimd for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if const { has_32_registers::<S>() } {
            self.by_tiles::<S, 4, 4>();
        } else {
            self.by_tiles::<S, 2, 4>();
        }
    }
}

impl<T: Real> Dots<'_, T> {
    /// Computes `R` rows and `C` columns at a time. Where there are fewer, the last ones stand in for the
    /// others.
    #[inline(always)]
    fn by_tiles<S: Simd, const R: usize, const C: usize>(self) {
        let Part { target, d, a, b, scales } = self.0;
        let (m, n, k) = (d.rows, d.cols, a.layout().cols);
        let columns = b.transposed();
        let run = |matrix: &MatRef<'_, T>, line: usize| {
            matrix.row_run(line, 0, k).expect("dots: the terms are neighbours").as_ptr()
        };
        for j in (0..n).step_by(C) {
            let right: [*const T; C] = core::array::from_fn(|c| run(&columns, (j + c).min(n - 1)));
            for i in (0..m).step_by(R) {
                let left: [*const T; R] = core::array::from_fn(|r| run(&a, (i + r).min(m - 1)));
                // SAFETY: `row_run` returned slices of `k` elements.
                let sums = unsafe { dots::<S, T, R, C>(left, right, k) };
                for (r, sums) in sums.iter().enumerate().take(m - i) {
                    for (c, sum) in sums.iter().enumerate().take(n - j) {
                        let out = target.wrapping_add(d.position(i + r, j + c));
                        // SAFETY: every position of `d` may be read and written, as `Part::new` asks.
                        unsafe { scales.store(*sum, out) };
                    }
                }
            }
        }
    }
}

/// The dot products of runs of `k` elements.
///
/// # Safety
/// The runs must be valid for reads.
#[inline(always)]
unsafe fn dots<S: Simd, T: Real, const R: usize, const C: usize>(
    left: [*const T; R],
    right: [*const T; C],
    k: usize,
) -> [[T; C]; R] {
    let mut result = [[T::ZERO; C]; R];
    let mut p = 0;
    if const { has_vectors::<S>() } {
        let lanes = T::lanes::<S>();
        let mut sums: [[Vector<S, T>; C]; R] = [[T::ZERO.splat(); C]; R];
        while p + lanes <= k {
            // SAFETY: `p + lanes` is at most `k`.
            unsafe {
                let mut vectors: [Vector<S, T>; C] = [T::ZERO.splat(); C];
                for (vector, right) in vectors.iter_mut().zip(right) {
                    *vector = T::vload_unaligned(right.add(p));
                }
                for (sums, left) in sums.iter_mut().zip(left) {
                    let left: Vector<S, T> = T::vload_unaligned(left.add(p));
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = left.mul_add(vector, *sum);
                    }
                }
            }
            p += lanes;
        }
        for (result, sums) in result.iter_mut().zip(sums) {
            for (result, sum) in result.iter_mut().zip(sums) {
                let mut lanes = [T::ZERO; 16];
                // SAFETY: no vector has more than 16 elements.
                unsafe { T::vstore_unaligned(lanes.as_mut_ptr(), sum) };
                *result = lanes.iter().fold(T::ZERO, |sum, lane| sum + *lane);
            }
        }
    }
    while p < k {
        for (result, left) in result.iter_mut().zip(left) {
            for (result, right) in result.iter_mut().zip(right) {
                // SAFETY: `p` is below `k`.
                *result += unsafe { *left.add(p) * *right.add(p) };
            }
        }
        p += 1;
    }
    result
}
