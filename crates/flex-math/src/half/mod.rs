//! `f16` and `bf16`: conversion of one number (here) and of whole vectors (`vector.rs`), and the drivers that
//! convert slices and compute half precision in f32 (`map.rs`).

mod map;
mod odd;
mod vector;

pub use ::half::{bf16, f16};
pub use map::{convert, from_f32, from_f64, to_f32};
pub use odd::{i64_to_odd, to_odd, u64_to_odd};

use crate::simd::{Simd, Vector};
use crate::slice::{StoredFloat, lanes, same_len};

/// A 16-bit float: `f16` or `bf16`.
pub trait Half: StoredFloat<Compute = f32> {
    /// Whether the exponent has f32's range, so that not all subnormal f32 are rounded to zero.
    #[doc(hidden)]
    const WIDE_EXPONENT: bool;
    /// The value of a bit pattern, exactly. A NaN keeps its payload; a NaN of f16 becomes quiet.
    fn widen(bits: u16) -> f32;
    /// The bit pattern nearest to `value`, ties to even. NaN stays NaN and becomes quiet.
    fn narrow(value: f32) -> u16;
    /// The bit pattern.
    fn bits(self) -> u16;
    /// The value of a bit pattern.
    fn from_pattern(bits: u16) -> Self;

    /// Widens as many elements as a vector has lanes.
    ///
    /// # Panics
    /// If `src` has any other number of elements.
    #[doc(hidden)]
    fn widen_vector<S: Simd>(src: &[Self]) -> Vector<S, f32>;
    /// Rounds the lanes of `value` and writes them to `dst`. `OWN_NAN` promises that no NaN has a payload for
    /// which `Self` has no room; NaN then need no special treatment, and signalling NaN stay signalling.
    ///
    /// # Panics
    /// If `dst` has any other number of elements.
    #[doc(hidden)]
    fn narrow_vector<S: Simd, const OWN_NAN: bool>(value: Vector<S, f32>, dst: &mut [Self]);

    /// The loop of [`from_f64`], compiled here, once.
    #[doc(hidden)]
    fn narrow_slice64(src: &[f64], dst: &mut [Self]);
}

/// Methods for bit patterns, and for vectors by two functions of [`vector`].
macro_rules! by_vectors {
    ($widen:ident, $narrow:ident) => {
        #[inline(always)]
        fn bits(self) -> u16 {
            self.to_bits()
        }

        #[inline(always)]
        fn from_pattern(bits: u16) -> Self {
            Self::from_bits(bits)
        }

        #[inline(always)]
        fn widen_vector<S: Simd>(src: &[Self]) -> Vector<S, f32> {
            vector::$widen(src)
        }

        #[inline(always)]
        fn narrow_vector<S: Simd, const OWN_NAN: bool>(value: Vector<S, f32>, dst: &mut [Self]) {
            vector::$narrow::<S, OWN_NAN>(value, dst)
        }

        fn narrow_slice64(src: &[f64], dst: &mut [Self]) {
            map::narrow64(src, dst)
        }
    };
}

impl Half for f16 {
    const WIDE_EXPONENT: bool = false;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        let magnitude = (bits as u32 & 0x7fff) << 13;
        // Read as f32, `magnitude` has the exponent bias of f16. The factor 2^112 corrects the bias, and
        // normalises subnormals.
        let value = f32::from_bits(magnitude) * 5.192_296_858_534_828e33;
        let infinite = if magnitude >= 0x7c00 << 13 { 0x7f80_0000 } else { 0 };
        let quiet = if magnitude > 0x7c00 << 13 { 0x0040_0000 } else { 0 };
        f32::from_bits(value.to_bits() | infinite | quiet | (bits as u32 & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let all = value.to_bits();
        let sign = (all >> 16) & 0x8000;
        let a = all & 0x7fff_ffff;
        // Normal results: rebias the exponent and round half to even in integers; a carry enters the
        // exponent.
        let odd = (a >> 13) & 1;
        let normal = (a.wrapping_sub(112 << 23).wrapping_add(0xfff + odd)) >> 13;
        // Subnormal results: adding 0.5 lets the floating-point unit round to multiples of 2^-24.
        let subnormal = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        // From 65520 on the result is infinite; NaN keeps the top bits of its payload.
        let nan = 0x7e00 | ((a >> 13) & 0x3ff);
        let huge = if a > 0x7f80_0000 { nan } else { 0x7c00 };
        let magnitude = if a >= 0x477f_f000 {
            huge
        } else if a < 113 << 23 {
            subnormal
        } else {
            normal
        };
        (sign | magnitude) as u16
    }

    by_vectors!(widen_f16, narrow_f16);
}

impl Half for bf16 {
    const WIDE_EXPONENT: bool = true;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits((bits as u32) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let a = value.to_bits();
        let rounded = a.wrapping_add(0x7fff + ((a >> 16) & 1)) >> 16;
        let nan = (a >> 16) | 0x40;
        (if a & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }) as u16
    }

    by_vectors!(widen_bf16, narrow_bf16);
}

/// [`to_f32`] inside a function that is already dispatched to `S`.
///
/// # Panics
///
/// If the lengths differ.
#[inline(always)]
pub fn widen_inlined<S: Simd, H: Half>(src: &[H], dst: &mut [f32]) {
    same_len("half::widen_inlined", src.len(), dst.len());
    let step = S::lanes32();
    let (mut from, mut to) = (src.chunks_exact(step), dst.chunks_exact_mut(step));
    for (from, to) in (&mut from).zip(&mut to) {
        to.copy_from_slice(lanes(&H::widen_vector::<S>(from)));
    }
    for (from, to) in from.remainder().iter().zip(to.into_remainder()) {
        *to = H::widen(from.bits());
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use crate::simd::{Scalar, WithSimd, for_each_isa};
    use crate::slice::lanes_mut;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The bits of all elements widened with one instruction set.
    #[derive(Clone)]
    struct Wide<'a, H>(&'a [H]);
    impl<H: Half> WithSimd for Wide<'_, H> {
        type Output = Vec<u32>;
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<u32> {
            let mut dst = vec![0.0; self.0.len()];
            widen_inlined::<S, H>(self.0, &mut dst);
            dst.into_iter().map(f32::to_bits).collect()
        }
    }

    #[derive(Clone)]
    struct Halves<'a, H>(&'a [f32], core::marker::PhantomData<H>);
    impl<H: Half + Default> WithSimd for Halves<'_, H> {
        type Output = Vec<u16>;
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<u16> {
            let mut dst = vec![H::default(); self.0.len()];
            let step = S::lanes32();
            for (from, to) in self.0.chunks_exact(step).zip(dst.chunks_exact_mut(step)) {
                let mut value: Vector<S, f32> = 0.0f32.splat();
                lanes_mut(&mut value).copy_from_slice(from);
                H::narrow_vector::<S, false>(value, to);
            }
            dst.into_iter().map(H::bits).collect()
        }
    }

    /// Checks that every instruction set gives the same bits, for NaN too.
    fn agrees<H: Half + Default>() {
        let all: Vec<H> = (0..=u16::MAX).map(H::from_pattern).collect();
        let wide: Vec<u32> = all.iter().map(|h| H::widen(h.bits()).to_bits()).collect();
        // Neighbours of every half, and the ties between them.
        let singles: Vec<f32> = (0..1u32 << 20).map(|i| f32::from_bits((i << 12) | (i % 3))).collect();
        let narrow: Vec<u16> = singles.iter().map(|x| H::narrow(*x)).collect();
        for_each_isa(Wide(&all), |isa, got| assert!(got == wide, "widen, {isa}"));
        for_each_isa(Halves::<H>(&singles, core::marker::PhantomData), |isa, got| {
            assert!(got == narrow, "narrow, {isa}");
        });
    }

    #[test]
    fn f16_is_converted_alike_by_every_instruction_set() {
        agrees::<f16>();
    }

    #[test]
    fn bf16_is_converted_alike_by_every_instruction_set() {
        agrees::<bf16>();
    }
}
