//! f16 converted by the processor's own instructions, where the instruction set that a loop is compiled for has them:
//! F16C, which comes with AVX2 here, and AVX-512F.
//!
//! In integer and f32 arithmetic, as [`Half`](crate::Half) has it for all other machines, a vector takes 6 instructions to widen and 15 to
//! narrow. The results are the same, bit for bit; the rounding modes and the flushing of subnormals that a thread may
//! have set do not matter here, because nearest even is asked for and F16C ignores the others.

use crate::half::f16;
use crate::simd::Simd;

/// Widens whole vectors from the front of `src` on, and returns how many elements that were: none where `S` has no
/// instruction for it.
#[inline(always)]
pub(crate) fn widen<S: Simd>(src: &[f16], dst: &mut [f32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_loadu_si128, _mm256_cvtph_ps, _mm256_loadu_si256, _mm256_storeu_ps, _mm512_cvtph_ps,
            _mm512_storeu_ps,
        };
        match S::lanes32() {
            16 => vectors(src, dst, |from: &[f16; 16], to: &mut [f32; 16]| {
                // SAFETY: on x86-64 only the instruction set with AVX-512F, which also holds the 256-bit load, has 16 lanes of 32 bits, and
                // `S` is made the parameter of code that runs only where it was detected. The arrays are as long
                // as the vectors; loads and stores need no alignment.
                unsafe {
                    let halves = _mm256_loadu_si256(from.as_ptr().cast());
                    _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(halves));
                }
            }),
            8 => vectors(src, dst, |from: &[f16; 8], to: &mut [f32; 8]| {
                // SAFETY: likewise, only the instruction set with AVX2 and F16C has 8 lanes.
                unsafe {
                    let halves = _mm_loadu_si128(from.as_ptr().cast());
                    _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(halves));
                }
            }),
            _ => 0,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (src, dst);
        0
    }
}

/// Narrows whole vectors from the front of `src` on, to nearest even, and returns how many elements that were.
#[inline(always)]
pub(crate) fn narrow<S: Simd>(src: &[f32], dst: &mut [f16]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
            _mm256_storeu_si256, _mm512_cvtps_ph, _mm512_loadu_ps,
        };
        match S::lanes32() {
            16 => vectors(src, dst, |from: &[f32; 16], to: &mut [f16; 16]| {
                // SAFETY: as in `widen`.
                unsafe {
                    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
                    let halves = _mm512_cvtps_ph::<NEAREST>(_mm512_loadu_ps(from.as_ptr()));
                    _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
                }
            }),
            8 => vectors(src, dst, |from: &[f32; 8], to: &mut [f16; 8]| {
                // SAFETY: as in `widen`.
                unsafe {
                    let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                    _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
                }
            }),
            _ => 0,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (src, dst);
        0
    }
}

/// Calls `convert` on each whole vector of `N` elements and returns how many elements those hold.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn vectors<A, B, const N: usize>(src: &[A], dst: &mut [B], convert: impl Fn(&[A; N], &mut [B; N])) -> usize {
    let (from, to) = (src.as_chunks::<N>().0, dst.as_chunks_mut::<N>().0);
    assert!(from.len() == to.len(), "flex_math::f16c: slices of different lengths");
    for (from, to) in from.iter().zip(to) {
        convert(from, to);
    }
    from.len() * N
}
