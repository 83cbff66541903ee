//! Vectors of halves, read as f32 and written rounded. Where a loop is compiled for AVX2 (which comes with
//! F16C here) or AVX-512, f16 is converted by the processor's instruction and bf16 by integer arithmetic. All
//! other instruction sets convert lane by lane.
//!
//! The results are bit for bit the same as the results of [`Half::widen`] and [`Half::narrow`], except for
//! signalling NaN under `OWN_NAN`, which stay signalling. The rounding mode and the flushing of subnormals
//! that a thread may have set do not matter: the instructions ask for nearest even, and F16C ignores the
//! flushing modes. (The conversion to bf16 that some processors have flushes subnormals, and is not used.)

use super::{Half, bf16, f16};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Scalar, Simd, Vector, has_vectors};
use crate::slice::{lanes, lanes_mut};

/// [`Half::widen_vector`] lane by lane, on any machine.
#[inline(always)]
fn widen_lanes<S: Simd, H: Half>(src: &[H]) -> Vector<S, f32> {
    let mut wide: Vector<S, f32> = 0.0f32.splat();
    for (to, from) in lanes_mut(&mut wide).iter_mut().zip(src) {
        *to = if !has_vectors::<S>() { widen_one(*from) } else { H::widen(from.bits()) };
    }
    wide
}

/// [`Half::narrow_vector`] lane by lane, on any machine.
#[inline(always)]
fn narrow_lanes<S: Simd, H: Half>(value: Vector<S, f32>, dst: &mut [H]) {
    for (to, from) in dst.iter_mut().zip(lanes(&value)) {
        *to = if !has_vectors::<S>() { narrow_one(*from) } else { H::from_pattern(H::narrow(*from)) };
    }
}

/// [`Half::widen`] as a call. Inlined into the loops of the baseline, which the compiler vectorises and
/// unrolls, the conversions were a tenth of the engine's machine code, for processors that hardly anybody
/// has.
#[inline(never)]
fn widen_one<H: Half>(half: H) -> f32 {
    H::widen(half.bits())
}

/// [`Half::narrow`] as a call; see [`widen_one`].
#[inline(never)]
fn narrow_one<H: Half>(value: f32) -> H {
    H::from_pattern(H::narrow(value))
}

/// Permutation that widens: for each 16-bit word of 16 lanes, the index of its lane's half.
#[cfg(target_arch = "x86_64")]
const SPREAD: [u16; 32] = words(true);
/// Mask of the words that the widening keeps: the upper word of each lane.
#[cfg(target_arch = "x86_64")]
const UPPER: u32 = 0xaaaa_aaaa;
/// Permutation that narrows: for each of the 16 halves, the index of the upper word of its lane.
#[cfg(target_arch = "x86_64")]
const GATHER: [u16; 32] = words(false);

#[cfg(target_arch = "x86_64")]
const fn words(spread: bool) -> [u16; 32] {
    let mut words = [0; 32];
    let mut i = 0;
    while i < 32 {
        words[i as usize] = if spread { i / 2 } else { (2 * i + 1) % 32 };
        i += 1;
    }
    words
}

/// Defines the two conversions of one type: by the given expressions for vectors of 16 or 8 lanes, lane by
/// lane otherwise.
macro_rules! conversions {
    ($half:ident, $widen:ident, $narrow:ident;
        16 => |$bits16:ident| $widen16:expr, |$value16:ident| $narrow16:expr;
        8 => |$bits8:ident| $widen8:expr, |$value8:ident| $narrow8:expr;
    ) => {
        /// [`Half::widen_vector`].
        #[inline(always)]
        pub(super) fn $widen<S: Simd>(src: &[$half]) -> Vector<S, f32> {
            assert!(src.len() == S::lanes32(), "flex_math::half: a vector of another length");
            #[cfg(target_arch = "x86_64")]
            {
                use core::arch::x86_64::*;
                use core::mem::transmute_copy;
                let from = src.as_ptr();
                if Avx512::<S>::proof().is_some() {
                    // SAFETY: the proof is of AVX-512F and of AVX, whose 256-bit load this is. There are 16
                    // elements, as asserted, since a vector has 64 bytes; so 32 bytes can be read, without
                    // alignment. Every bit pattern of a vector is a valid value.
                    unsafe {
                        let $bits16 = _mm256_loadu_si256(from.cast());
                        return transmute_copy::<__m512, _>(&$widen16);
                    }
                }
                if Avx2::<S>::proof().is_some() {
                    // SAFETY: likewise; the proof is of AVX2 and F16C, and a vector has 32 bytes.
                    unsafe {
                        let $bits8 = _mm_loadu_si128(from.cast());
                        return transmute_copy::<__m256, _>(&$widen8);
                    }
                }
            }
            widen_lanes(src)
        }

        /// [`Half::narrow_vector`].
        #[inline(always)]
        pub(super) fn $narrow<S: Simd, const OWN_NAN: bool>(value: Vector<S, f32>, dst: &mut [$half]) {
            assert!(dst.len() == S::lanes32(), "flex_math::half: a vector of another length");
            #[cfg(target_arch = "x86_64")]
            {
                use core::arch::x86_64::*;
                use core::mem::transmute_copy;
                let to = dst.as_mut_ptr();
                if Avx512::<S>::proof().is_some() {
                    // SAFETY: as for widening; 16 elements are written.
                    unsafe {
                        let $value16 = transmute_copy::<_, __m512>(&value);
                        return _mm256_storeu_si256(to.cast(), $narrow16);
                    }
                }
                if Avx2::<S>::proof().is_some() {
                    // SAFETY: likewise, 8 elements.
                    unsafe {
                        let $value8 = transmute_copy::<_, __m256>(&value);
                        return _mm_storeu_si128(to.cast(), $narrow8);
                    }
                }
            }
            narrow_lanes(value, dst);
        }
    };
}

conversions! {
    f16, widen_f16, narrow_f16;
    16 => |bits| _mm512_cvtph_ps(bits),
        |value| _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(value);
    8 => |bits| _mm256_cvtph_ps(bits),
        |value| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
}

conversions! {
    bf16, widen_bf16, narrow_bf16;
    // One permutation widens or narrows, where shifts and width conversions would take two or three
    // instructions: negating 65,536 bf16 in the second-level cache takes 0.11 ns per element instead of 0.12
    // (one thread of Zen 4).
    16 => |bits| {
            let halves = _mm512_castsi256_si512(bits);
            let spread = _mm512_maskz_permutexvar_epi16(UPPER, _mm512_loadu_si512(SPREAD.as_ptr().cast()), halves);
            _mm512_castsi512_ps(spread)
        },
        |value| {
            let bits = _mm512_castps_si512(value);
            let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16));
            let rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
            let rounded = _mm512_mask_sub_epi32(rounded, odd, rounded, _mm512_set1_epi32(-1));
            // The treatment of NaN is two of six instructions: `x * x + x` of 16,384 bf16 takes 0.08 ns per
            // element without it and 0.11 with it (one thread of Zen 4).
            let nan = if OWN_NAN { 0 } else { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value) };
            let rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000));
            let gathered = _mm512_permutexvar_epi16(_mm512_loadu_si512(GATHER.as_ptr().cast()), rounded);
            _mm512_castsi512_si256(gathered)
        };
    8 => |bits| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits))),
        |value| {
            let bits = _mm256_castps_si256(value);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
            let rounded = if OWN_NAN {
                rounded
            } else {
                let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
                _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000)), nan)
            };
            let halves = _mm256_srli_epi32::<16>(rounded);
            // The instruction packs within each 128 bits, so the halves are in the first and the third
            // quarter.
            let packed = _mm256_packus_epi32(halves, halves);
            _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b10_00>(packed))
        };
}
