//! Vectors from slices and to slices, and sums of their lanes, with which dot products end.

use super::{SQUARE, Scalar, Simd, Vector, transposed};
use crate::Float;
use bytemuck::Pod;

/// Elements of the widest vector: 16 numbers of f32.
pub const WIDEST: usize = 16;

/// The vector of the first elements of `from`. The lengths are constants inside of a dispatched function, and
/// the checks are optimised away.
///
/// # Panics
/// When `from` is shorter than a vector.
#[inline(always)]
pub fn load<S: Simd, T: Scalar + Pod>(from: &[T]) -> Vector<S, T> {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&from[..T::lanes::<S>()]))
}

/// Writes a vector to the first elements of `to`.
///
/// # Panics
/// When `to` is shorter than a vector.
#[inline(always)]
pub fn store<S: Simd, T: Scalar + Pod>(vector: Vector<S, T>, to: &mut [T]) {
    bytemuck::cast_slice_mut(&mut to[..T::lanes::<S>()]).copy_from_slice(bytemuck::bytes_of(&vector));
}

/// The sums of the lanes of each vector. The order of the additions is the same for all vectors.
///
/// One vector after the other, this takes half of the time of dot products of 256 terms. For f32 on x86-64,
/// an instruction adds lanes of several vectors: with AVX-512, 45 instructions add up the lanes of 16
/// vectors.
#[inline(always)]
pub fn lane_sums<S: Simd, T: Float + Pod, const R: usize>(
    vectors: [[Vector<S, T>; SQUARE]; R],
) -> [[T; SQUARE]; R] {
    let mut sums = [[T::zero(); SQUARE]; R];
    #[cfg(target_arch = "x86_64")]
    if const { size_of::<T>() == 4 } {
        if let (Some(avx512), true) = (super::Avx512::<S>::proof(), R == SQUARE) {
            avx512.lane_sums(&vectors, &mut sums);
            return sums;
        }
        if let Some(avx2) = super::Avx2::<S>::proof() {
            avx2.lane_sums(&vectors, &mut sums);
            return sums;
        }
    }
    for (sums, row) in sums.iter_mut().zip(vectors) {
        let mut square = [[T::zero(); SQUARE]; SQUARE];
        for (square, vector) in square.iter_mut().zip(row) {
            let mut lanes = [T::zero(); WIDEST];
            // SAFETY: no vector has more elements.
            unsafe { T::vstore_unaligned(lanes.as_mut_ptr(), vector) };
            for four in lanes.chunks_exact(SQUARE).take(T::lanes::<S>().div_ceil(SQUARE)) {
                square.iter_mut().zip(four).for_each(|(sum, lane)| *sum = *sum + *lane);
            }
        }
        *sums = row_sum(transposed(square));
    }
    sums
}

/// The sum of the rows of a square.
#[inline(always)]
pub fn row_sum<T: Float>([a, b, c, d]: [[T; SQUARE]; SQUARE]) -> [T; SQUARE] {
    core::array::from_fn(|i| (a[i] + b[i]) + (c[i] + d[i]))
}

/// `a * x`, plus `b * y` where there is such a term.
///
/// For f32 on x86-64 these are up to three instructions. For arrays that came from a wider vector the
/// compiler made 11 instructions, on parts cut between other elements and in some cases read again from
/// memory: a tenth of the time of dot products of 256 terms.
#[inline(always)]
pub fn weighted<T: Float + Pod>((a, x): (T, [T; SQUARE]), term: Option<(T, [T; SQUARE])>) -> [T; SQUARE] {
    #[cfg(target_arch = "x86_64")]
    if const { size_of::<T>() == 4 } {
        use core::arch::x86_64::{__m128, _mm_add_ps, _mm_mul_ps};
        let times = |a: T, x: [T; SQUARE]| -> __m128 {
            // SAFETY: SSE is part of x86-64.
            #[allow(unused_unsafe, reason = "which of these are safe depends on the compiler's version")]
            unsafe {
                _mm_mul_ps(bytemuck::cast([a; SQUARE]), bytemuck::cast(x))
            }
        };
        let mut sum = times(a, x);
        if let Some((b, y)) = term {
            // SAFETY: as above.
            #[allow(unused_unsafe, reason = "which of these are safe depends on the compiler's version")]
            unsafe {
                sum = _mm_add_ps(times(b, y), sum);
            }
        }
        return bytemuck::cast(sum);
    }
    core::array::from_fn(|i| term.map_or(a * x[i], |(b, y)| b * y[i] + a * x[i]))
}

/// In each group of four lanes, the sums of the lanes of four vectors of f32.
#[cfg(target_arch = "x86_64")]
macro_rules! sums_in_fours {
    (
        $row:expr; $add:ident, $low:ident, $high:ident, $low_pairs:ident, $high_pairs:ident, $pairs:ident,
        $single:ident
    ) => {{
        let [a, b, c, d] = $row;
        let ab = $pairs($add($low(a, b), $high(a, b)));
        let cd = $pairs($add($low(c, d), $high(c, d)));
        $add($single($low_pairs(ab, cd)), $single($high_pairs(ab, cd)))
    }};
}

#[cfg(target_arch = "x86_64")]
impl<S: Simd> super::Avx512<S> {
    /// [`lane_sums`] of a square of vectors of f32.
    #[inline(always)]
    fn lane_sums<T, const R: usize>(self, vectors: &[[Vector<S, T>; SQUARE]; R], sums: &mut [[T; SQUARE]; R])
    where
        T: macerator::Scalar,
    {
        use core::arch::x86_64::*;
        assert!(R == SQUARE && size_of::<T>() == 4);
        // SAFETY: `self` proves that the processor has AVX-512F, and that vectors of `S` are its registers,
        // of 16 numbers of four bytes here. `sums` has as many numbers.
        unsafe {
            let mut fours = [_mm512_setzero_ps(); SQUARE];
            for (four, row) in fours.iter_mut().zip(vectors) {
                *four = sums_in_fours!(
                    core::mem::transmute_copy::<_, [__m512; SQUARE]>(row);
                    _mm512_add_ps, _mm512_unpacklo_ps, _mm512_unpackhi_ps, _mm512_unpacklo_pd,
                    _mm512_unpackhi_pd, _mm512_castps_pd, _mm512_castpd_ps
                );
            }
            let [a, b, c, d] = fours;
            // The lower and the upper half of two rows, then the even and the odd quarters of four.
            let ab = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
            let cd = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xee>(c, d));
            let all =
                _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd));
            _mm512_storeu_ps(sums.as_mut_ptr().cast(), all);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl<S: Simd> super::Avx2<S> {
    /// [`lane_sums`] of vectors of f32.
    #[inline(always)]
    fn lane_sums<T, const R: usize>(self, vectors: &[[Vector<S, T>; SQUARE]; R], sums: &mut [[T; SQUARE]; R])
    where
        T: macerator::Scalar,
    {
        use core::arch::x86_64::*;
        assert!(size_of::<T>() == 4);
        for (sums, row) in sums.iter_mut().zip(vectors) {
            // SAFETY: `self` proves that the processor has AVX2, and that vectors of `S` are its registers,
            // of 8 numbers of four bytes here. A row of `sums` has four numbers.
            unsafe {
                let fours = sums_in_fours!(
                    core::mem::transmute_copy::<_, [__m256; SQUARE]>(row);
                    _mm256_add_ps, _mm256_unpacklo_ps, _mm256_unpackhi_ps, _mm256_unpacklo_pd,
                    _mm256_unpackhi_pd, _mm256_castps_pd, _mm256_castpd_ps
                );
                let sum = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps::<1>(fours));
                _mm_storeu_ps(sums.as_mut_ptr().cast(), sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::simd::{WithSimd, for_each_isa, has_vectors};
    use std::vec::Vec;

    /// The sums of lanes of four and of two rows of vectors that hold the numbers 0, 1, 2, ..., times a
    /// number for each vector, and the number of lanes; nothing without vectors.
    #[derive(Clone)]
    struct Sums<T>(core::marker::PhantomData<T>);

    impl<T: Float + Pod> WithSimd for Sums<T> {
        type Output = Option<(usize, [[T; SQUARE]; 4], [[T; SQUARE]; 2])>;

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Self::Output {
            if !has_vectors::<S>() {
                return None;
            }
            let number = |i: usize| T::from(i).expect("a small number");
            let mut vectors = [[T::zero().splat::<S>(); SQUARE]; 4];
            for (at, vector) in vectors.as_flattened_mut().iter_mut().enumerate() {
                let lanes: [T; WIDEST] = core::array::from_fn(|i| number(i * (at + 1)));
                // SAFETY: no vector has more elements than the widest one.
                *vector = unsafe { T::vload_unaligned(lanes.as_ptr()) };
            }
            let two = [vectors[0], vectors[1]];
            Some((T::lanes::<S>(), lane_sums::<S, T, 4>(vectors), lane_sums::<S, T, 2>(two)))
        }
    }

    fn check<T: Float + Pod>() {
        for_each_isa(Sums::<T>(core::marker::PhantomData), |isa, sums| {
            let Some((lanes, four, two)) = sums else { return };
            let want: Vec<T> =
                (1..=16).map(|at| T::from(at * (lanes * (lanes - 1) / 2)).expect("a small number")).collect();
            assert_eq!(four.as_flattened(), want, "{isa}");
            assert_eq!(two.as_flattened(), &want[..8], "{isa}");
        });
    }

    #[test]
    fn each_sum_is_that_of_its_vector() {
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn weighted_sums_match_the_definition() {
        let (x, y) = ([1.5f32, -2.0, f32::INFINITY, 0.0], [4.0f32, 0.25, 1.0, -8.0]);
        assert_eq!(weighted((2.0, x), None), [3.0, -4.0, f32::INFINITY, 0.0]);
        assert_eq!(weighted((2.0, x), Some((0.5, y))), [5.0, -3.875, f32::INFINITY, -4.0]);
        let (x, y) = (x.map(f64::from), y.map(f64::from));
        assert_eq!(weighted((2.0, x), None), [3.0, -4.0, f64::INFINITY, 0.0]);
        assert_eq!(weighted((2.0, x), Some((0.5, y))), [5.0, -3.875, f64::INFINITY, -4.0]);
    }
}
