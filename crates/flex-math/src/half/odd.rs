//! Rounds f64 to f32 "to odd": an inexact result is the neighbour whose last mantissa bit is 1. Rounding the
//! result once more, to a half, then gives the same half as rounding the f64 once (Boldo and Melquiond,
//! "Emulation of FMA and correctly rounded sums", 2008).

use super::Half;
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx512;
use crate::simd::{Scalar, Simd, Vector};
use crate::slice::lanes_mut;

/// `x` rounded to odd: `x` itself if f32 represents it; otherwise, of the two neighbouring f32 values, the
/// one whose last mantissa bit is 1. NaN stays NaN. A finite `x` beyond the largest f32 becomes the largest
/// f32, with the sign of `x`.
#[inline(always)]
pub fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = near as f64;
    // Infinity lies above every finite number, so an overflowed `x` steps back to the largest number, which
    // is odd.
    let down = near.to_bits().wrapping_sub((back.abs() > x.abs()) as u32);
    // A NaN differs from itself; it stays as it is.
    let inexact = back != x && !x.is_nan();
    f32::from_bits(if inexact { down | 1 } else { near.to_bits() })
}

/// [`to_odd`] of an integer. Its low 11 bits, for which f64 has no room, are replaced by one bit: whether any
/// of them is set.
#[inline(always)]
pub fn i64_to_odd(x: i64) -> f32 {
    let fits = x.unsigned_abs() < 1 << 53;
    to_odd(if fits { x } else { x & !0x7ff | (((x & 0x7ff != 0) as i64) << 11) } as f64)
}

/// [`to_odd`] of an unsigned integer, as [`i64_to_odd`].
#[inline(always)]
pub fn u64_to_odd(x: u64) -> f32 {
    to_odd(if x < 1 << 53 { x } else { x & !0x7ff | (((x & 0x7ff != 0) as u64) << 11) } as f64)
}

/// [`to_odd`] of as many elements as a vector has lanes, for results of type `H`. Where `H` rounds all
/// numbers below f32's normal numbers to zero, the results for such numbers may be any of them.
///
/// # Panics
/// If `src` has any other number of elements.
// Only the AVX-512 path depends on `H`.
#[cfg_attr(not(target_arch = "x86_64"), allow(clippy::extra_unused_type_parameters))]
#[inline(always)]
pub(super) fn to_odd_vector<S: Simd, H: Half>(src: &[f64]) -> Vector<S, f32> {
    assert!(src.len() == S::lanes32(), "flex_math::half: a vector of another length");
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::<S>::proof() {
        return avx512.to_odd::<H>(src);
    }
    let mut odd: Vector<S, f32> = 0.0f32.splat();
    for (to, from) in lanes_mut(&mut odd).iter_mut().zip(src) {
        *to = to_odd(*from);
    }
    odd
}

#[cfg(target_arch = "x86_64")]
impl<S: Simd> Avx512<S> {
    /// [`to_odd_vector`] of 16 elements.
    #[inline(always)]
    fn to_odd<H: Half>(self, src: &[f64]) -> Vector<S, f32> {
        use core::arch::x86_64::*;
        let (low, high) = src.as_chunks::<8>().0.split_at(1);
        let (low, high) = (self.eight_to_odd::<H>(&low[0]), self.eight_to_odd::<H>(&high[0]));
        // SAFETY: `self` proves AVX-512F and DQ, and that the vectors of `S` have 64 bytes, in which every
        // bit pattern is a valid value.
        unsafe {
            let both = _mm512_castpd256_pd512(_mm256_castps_pd(low));
            let both = _mm512_insertf64x4::<1>(both, _mm256_castps_pd(high));
            core::mem::transmute_copy::<__m512d, _>(&both)
        }
    }

    /// Rounds eight numbers to odd. AVX-512 truncates as it converts; an inexact result gets an odd last bit.
    #[inline(always)]
    fn eight_to_odd<H: Half>(self, src: &[f64; 8]) -> core::arch::x86_64::__m256 {
        use core::arch::x86_64::*;
        // SAFETY: `self` proves AVX-512F and VL; the load is of eight numbers, without alignment.
        unsafe {
            let x = _mm512_loadu_pd(src.as_ptr());
            let whole = _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x);
            let inexact = if H::WIDE_EXPONENT {
                // False for NaN.
                _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(_mm512_cvtps_pd(whole), x)
            } else {
                // The bits cut off a normal number. 65,536 f64 become f16 in 5.3 us with this test and in
                // 7.3 with the comparison (two threads of Zen 4).
                _mm512_test_epi64_mask(_mm512_castpd_si512(x), _mm512_set1_epi64((1 << 29) - 1))
            };
            let bits = _mm256_castps_si256(whole);
            _mm256_castsi256_ps(_mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use crate::half::{bf16, f16};
    use crate::simd::{WithSimd, for_each_isa};
    use crate::slice::lanes;
    use alloc::vec::Vec;
    use core::marker::PhantomData;

    #[derive(Clone)]
    struct Odd<'a, H>(&'a [f64], PhantomData<H>);
    impl<H: Half> WithSimd for Odd<'_, H> {
        type Output = Vec<f32>;
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<f32> {
            let mut all = Vec::new();
            for src in self.0.chunks_exact(S::lanes32()) {
                all.extend_from_slice(lanes(&to_odd_vector::<S, H>(src)));
            }
            all
        }
    }

    /// For every 65,521st f32: the f32, the midpoint between it and the next f32, and the point a quarter of
    /// the way, each with its two f64 neighbours. Then numbers that have no f32 near them.
    fn around_singles() -> Vec<f64> {
        let mut all = Vec::new();
        for bits in (0..=u32::MAX).step_by(65_521) {
            let single = f32::from_bits(bits) as f64;
            for part in [0, 1 << 27, 1 << 28] {
                let near = single.to_bits().wrapping_add(part);
                all.extend([near.wrapping_sub(1), near, near.wrapping_add(1)].map(f64::from_bits));
            }
        }
        all.extend([
            f64::MIN_POSITIVE,
            5e-324,
            1e-46,
            1e-300,
            1e39,
            1e300,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ]);
        let negative: Vec<f64> = all.iter().map(|x| -x).collect();
        all.extend(negative);
        all.resize(all.len().next_multiple_of(16), 0.0);
        all
    }

    #[test]
    fn what_is_between_two_singles_becomes_the_odd_one() {
        for x in around_singles() {
            let y = to_odd(x);
            if x.is_nan() || x.is_infinite() || y as f64 == x {
                assert!(x.is_nan() && y.is_nan() || y as f64 == x, "{x:e}: {y:e}");
                continue;
            }
            assert_eq!(y.to_bits() & 1, 1, "{x:e}: {y:e}");
            assert_eq!(y.is_sign_negative(), x.is_sign_negative(), "{x:e}: {y:e}");
            // The magnitude of `x` lies between the magnitudes of the f32 before and after `y`.
            let (below, above) =
                (f32::from_bits(y.to_bits() - 1) as f64, f32::from_bits(y.to_bits() + 1) as f64);
            assert!(below.abs() < x.abs() && (x.abs() < above.abs() || above.is_infinite()), "{x:e}: {y:e}");
        }
    }

    #[test]
    fn every_instruction_set_rounds_alike() {
        let all = around_singles();
        let want: Vec<f32> = all.iter().map(|x| to_odd(*x)).collect();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for_each_isa(Odd::<bf16>(&all, PhantomData), |isa, got| assert!(bits(&got) == bits(&want), "{isa}"));
        let halves = |x: &[f32]| x.iter().map(|x| f16::narrow(*x)).collect::<Vec<_>>();
        for_each_isa(Odd::<f16>(&all, PhantomData), |isa, got| {
            assert!(halves(&got) == halves(&want), "{isa}")
        });
    }
}
