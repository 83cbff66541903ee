//! Halves converted by vector instructions of x86-64, where the instruction set that a loop is compiled for has them: f16 by
//! those that F16C, which comes with AVX2 here, and AVX-512F have for it, bf16 by integer arithmetic.
//!
//! As [`Half`](crate::Half) has it for all other machines, a vector of f16 takes 6 instructions to widen and 15 to narrow. That
//! of bf16 is the same here and there; but the compiler leaves it scalar in loops that it unrolls, which made the sum of
//! two vectors of bf16 five times slower than of f16. The results are the same, bit for bit; the rounding modes and the
//! flushing of subnormals that a thread may have set do not matter here, because nearest even is asked for, F16C ignores
//! the others, and integers know none. (`vcvtneps2bf16` of AVX512-BF16 flushes subnormals.)

use crate::half;
use crate::simd::Simd;

/// Conversion of whole vectors, where the machine has them. The trait seals [`Half`](crate::Half).
pub trait Vectors: Sized {
    /// Widens whole vectors from the front of `src` on, and returns how many elements that were: none where `S` has no
    /// instruction for it.
    fn widen_vectors<S: Simd>(src: &[Self], dst: &mut [f32]) -> usize;

    /// Narrows whole vectors from the front of `src` on, to nearest even, and returns how many elements that were.
    fn narrow_vectors<S: Simd>(src: &[f32], dst: &mut [Self]) -> usize;
}

/// The conversions of both widths of vectors, which are expressions of pointers to the elements.
macro_rules! vectors {
    ($half:ty, widen: |$from:ident, $to:ident| $wide16:block $wide8:block, narrow: $narrow16:block $narrow8:block) => {
        impl Vectors for $half {
            #[inline(always)]
            fn widen_vectors<S: Simd>(src: &[$half], dst: &mut [f32]) -> usize {
                #[cfg(target_arch = "x86_64")]
                {
                    use core::arch::x86_64::*;
                    match S::lanes32() {
                        16 => each(
                            src,
                            dst,
                            #[inline(always)]
                            |from: &[$half; 16], to: &mut [f32; 16]| {
                                let ($from, $to) = (from.as_ptr(), to.as_mut_ptr());
                                // SAFETY: on x86-64 only the instruction set with AVX-512F has 16 lanes of 32 bits; it has what
                                // loads and stores 256 bits, too. `S` is made the parameter of code that runs only where it was
                                // detected. The arrays are as long as the vectors; loads and stores need no alignment.
                                unsafe { $wide16 }
                            },
                        ),
                        8 => each(
                            src,
                            dst,
                            #[inline(always)]
                            |from: &[$half; 8], to: &mut [f32; 8]| {
                                let ($from, $to) = (from.as_ptr(), to.as_mut_ptr());
                                // SAFETY: likewise, only the instruction set with AVX2 and F16C has 8 lanes.
                                unsafe { $wide8 }
                            },
                        ),
                        _ => 0,
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                {
                    let _ = (src, dst);
                    0
                }
            }

            #[inline(always)]
            fn narrow_vectors<S: Simd>(src: &[f32], dst: &mut [$half]) -> usize {
                #[cfg(target_arch = "x86_64")]
                {
                    use core::arch::x86_64::*;
                    match S::lanes32() {
                        16 => each(
                            src,
                            dst,
                            #[inline(always)]
                            |from: &[f32; 16], to: &mut [$half; 16]| {
                                let ($from, $to) = (from.as_ptr(), to.as_mut_ptr());
                                // SAFETY: as in `widen_vectors`.
                                unsafe { $narrow16 }
                            },
                        ),
                        8 => each(
                            src,
                            dst,
                            #[inline(always)]
                            |from: &[f32; 8], to: &mut [$half; 8]| {
                                let ($from, $to) = (from.as_ptr(), to.as_mut_ptr());
                                // SAFETY: as in `widen_vectors`.
                                unsafe { $narrow8 }
                            },
                        ),
                        _ => 0,
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                {
                    let _ = (src, dst);
                    0
                }
            }
        }
    };
}

vectors!(half::f16,
widen: |from, to| {
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())));
} {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(from.cast())));
},
narrow: {
    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<NEAREST>(_mm512_loadu_ps(from)));
} {
    _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from)));
});

// Narrowing adds half a unit of the last place that stays, less one if that place is even; NaN becomes quiet instead.
vectors!(half::bf16,
widen: |from, to| {
    let low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
    _mm512_storeu_ps(to, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(low)));
} {
    let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
    _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)));
},
narrow: {
    let value = _mm512_loadu_ps(from);
    let bits = _mm512_castps_si512(value);
    let high = _mm512_srli_epi32::<16>(bits);
    let odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
    let top = _mm512_srli_epi32::<16>(_mm512_mask_mov_epi32(rounded, nan, quiet));
    _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(top));
} {
    let value = _mm256_loadu_ps(from);
    let bits = _mm256_castps_si256(value);
    let high = _mm256_srli_epi32::<16>(bits);
    let odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
    let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
    let top = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
    // Packing works within each half of a register: the first and the third quarter hold the result.
    let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(top, top));
    _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
});

/// Calls `convert` on each whole vector of `N` elements and returns how many elements those hold. `convert` has to be marked as always
/// inlined: the intrinsics in it can be inlined only where it has been.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn each<A, B, const N: usize>(src: &[A], dst: &mut [B], convert: impl Fn(&[A; N], &mut [B; N])) -> usize {
    let (from, to) = (src.as_chunks::<N>().0, dst.as_chunks_mut::<N>().0);
    assert!(from.len() == to.len(), "flex_math::x86_half: slices of different lengths");
    for (from, to) in from.iter().zip(to) {
        convert(from, to);
    }
    from.len() * N
}
