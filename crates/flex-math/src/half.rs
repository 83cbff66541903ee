//! `f16` and `bf16`: conversion in whole vectors, and drivers that compute half precision in f32.
//!
//! A driver converts a block to f32, evaluates the f32 function on it and rounds the block back to nearest even, all
//! inside one dispatched function. The result is the f32 result rounded once more, so it is within half a
//! ULP of the half type of the f32 result.

pub use ::half::{bf16, f16};

use crate::f16c;
use crate::simd::{Scalar, Simd, WithSimd, dispatch};
use crate::slice::{same_len, walk1, walk2};
use crate::{BinaryFn, UnaryFn};

/// A 16-bit float: `f16` or `bf16`.
pub trait Half: Scalar + PartialEq + core::fmt::Debug + Send + Sync + 'static {
    /// The value of a bit pattern, exactly; NaN keeps its payload, and that of f16 becomes quiet.
    fn widen(bits: u16) -> f32;
    /// The nearest bit pattern, ties to even; NaN stays NaN and becomes quiet.
    fn narrow(value: f32) -> u16;
    /// The bit pattern.
    fn bits(self) -> u16;
    /// The value of a bit pattern.
    fn from_pattern(bits: u16) -> Self;

    /// Widens elements from the front of `src` on by instructions of `S` made for that, and returns how many.
    #[doc(hidden)]
    #[inline(always)]
    fn widen_vectors<S: Simd>(_src: &[Self], _dst: &mut [f32]) -> usize {
        0
    }
    /// Narrows elements likewise.
    #[doc(hidden)]
    #[inline(always)]
    fn narrow_vectors<S: Simd>(_src: &[f32], _dst: &mut [Self]) -> usize {
        0
    }
}

impl Half for f16 {
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        let magnitude = (bits as u32 & 0x7fff) << 13;
        // As f32, that has the exponent bias of f16: 2^112 corrects it, and normalises subnormals on the way.
        let value = f32::from_bits(magnitude) * 5.192_296_858_534_828e33;
        let infinite = if magnitude >= 0x7c00 << 13 { 0x7f80_0000 } else { 0 };
        let quiet = if magnitude > 0x7c00 << 13 { 0x0040_0000 } else { 0 };
        f32::from_bits(value.to_bits() | infinite | quiet | (bits as u32 & 0x8000) << 16)
    }

    #[inline(always)]
    fn widen_vectors<S: Simd>(src: &[f16], dst: &mut [f32]) -> usize {
        f16c::widen::<S>(src, dst)
    }

    #[inline(always)]
    fn narrow_vectors<S: Simd>(src: &[f32], dst: &mut [f16]) -> usize {
        f16c::narrow::<S>(src, dst)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let all = value.to_bits();
        let sign = (all >> 16) & 0x8000;
        let a = all & 0x7fff_ffff;
        // Normal results: rebias the exponent and round half to even in integers; a carry goes into the exponent.
        let odd = (a >> 13) & 1;
        let normal = (a.wrapping_sub(112 << 23).wrapping_add(0xfff + odd)) >> 13;
        // Subnormal results: adding 0.5 lets the floating-point unit round to multiples of 2^-24.
        let subnormal = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        // From 65520 on the result is infinite; NaN keeps the top of its payload.
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

    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_pattern(bits: u16) -> Self {
        Self::from_bits(bits)
    }
}

impl Half for bf16 {
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

    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_pattern(bits: u16) -> Self {
        Self::from_bits(bits)
    }
}

/// Converts `src` to f32, exactly.
///
/// # Panics
///
/// If the lengths differ.
pub fn to_f32<H: Half>(src: &[H], dst: &mut [f32]) {
    same_len("half::to_f32", src.len(), dst.len());
    dispatch(Widen { src, dst });
}

/// Rounds `src` to the nearest, ties to even.
///
/// # Panics
///
/// If the lengths differ.
pub fn from_f32<H: Half>(src: &[f32], dst: &mut [H]) {
    same_len("half::from_f32", src.len(), dst.len());
    dispatch(Narrow { src, dst });
}

/// [`to_f32`] inside of a function that is dispatched already.
///
/// # Panics
///
/// If the lengths differ.
#[inline(always)]
pub fn widen_inlined<S: Simd, H: Half>(src: &[H], dst: &mut [f32]) {
    same_len("half::widen_inlined", src.len(), dst.len());
    Widen { src, dst }.with_simd::<S>();
}

/// [`from_f32`] inside of a function that is dispatched already.
///
/// # Panics
///
/// If the lengths differ.
#[inline(always)]
pub fn narrow_inlined<S: Simd, H: Half>(src: &[f32], dst: &mut [H]) {
    same_len("half::narrow_inlined", src.len(), dst.len());
    Narrow { src, dst }.with_simd::<S>();
}

struct Widen<'a, H> {
    src: &'a [H],
    dst: &'a mut [f32],
}

impl<H: Half> WithSimd for Widen<'_, H> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let done = H::widen_vectors::<S>(self.src, self.dst);
        for (to, from) in self.dst[done..].iter_mut().zip(&self.src[done..]) {
            *to = H::widen(from.bits());
        }
    }
}

struct Narrow<'a, H> {
    src: &'a [f32],
    dst: &'a mut [H],
}

impl<H: Half> WithSimd for Narrow<'_, H> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let done = H::narrow_vectors::<S>(self.src, self.dst);
        for (to, from) in self.dst[done..].iter_mut().zip(&self.src[done..]) {
            *to = H::from_pattern(H::narrow(*from));
        }
    }
}

/// Elements that are converted at a time: small enough for the first cache with two operands, large enough for the
/// loops to pay. exp of f16 takes 0.39 ns per element with blocks of 64, 0.24 with 256 and 0.25 with 1024 (AVX-512, one
/// thread), recip 0.20, 0.12 and 0.14.
const BLOCK: usize = 256;

/// Writes `f(src[i])`, computed in f32, to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map_half<H: Half, F: UnaryFn<f32>>(f: F, src: &[H], dst: &mut [H]) {
    same_len("map_half", src.len(), dst.len());
    // SAFETY: both point to `src.len()` elements, `src` is initialised, and `dst`, borrowed exclusively, does not
    // overlap it.
    unsafe { run1(f, src.as_ptr(), dst.as_mut_ptr(), src.len()) }
}

/// Replaces each element by `f` of it, computed in f32.
pub fn map_half_in_place<H: Half, F: UnaryFn<f32>>(f: F, data: &mut [H]) {
    let ptr = data.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run1(f, ptr, ptr, data.len()) }
}

/// Writes `f(a[i], b[i])`, computed in f32, to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_half<H: Half, F: BinaryFn<f32>>(f: F, a: &[H], b: &[H], dst: &mut [H]) {
    same_len("map2_half", a.len(), b.len());
    same_len("map2_half", a.len(), dst.len());
    // SAFETY: the three slices have the same length, the sources are initialised, and `dst`, borrowed exclusively,
    // overlaps neither.
    unsafe { run2(f, Source::Each(a.as_ptr()), Source::Each(b.as_ptr()), dst.as_mut_ptr(), a.len()) }
}

/// Replaces each `a[i]` by `f(a[i], b[i])`, computed in f32.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_half_in_place<H: Half, F: BinaryFn<f32>>(f: F, a: &mut [H], b: &[H]) {
    same_len("map2_half_in_place", a.len(), b.len());
    let ptr = a.as_mut_ptr();
    // SAFETY: both slices have the same length and are initialised; the destination is the first source itself,
    // borrowed exclusively, so it does not overlap the second.
    unsafe { run2(f, Source::Each(ptr.cast_const()), Source::Each(b.as_ptr()), ptr, a.len()) }
}

/// Writes `f(a[i], b)`, computed in f32, to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_half_scalar_rhs<H: Half, F: BinaryFn<f32>>(f: F, a: &[H], b: f32, dst: &mut [H]) {
    same_len("map2_half_scalar_rhs", a.len(), dst.len());
    // SAFETY: `a` and `dst` have the same length, `a` is initialised, and `dst`, borrowed exclusively, does not
    // overlap it.
    unsafe { run2(f, Source::Each(a.as_ptr()), Source::Same(b), dst.as_mut_ptr(), a.len()) }
}

/// Replaces each `a[i]` by `f(a[i], b)`, computed in f32.
pub fn map2_half_scalar_rhs_in_place<H: Half, F: BinaryFn<f32>>(f: F, a: &mut [H], b: f32) {
    let ptr = a.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run2(f, Source::Each(ptr.cast_const()), Source::Same(b), ptr, a.len()) }
}

/// Writes `f(a, b[i])`, computed in f32, to `dst[i]`.
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_half_scalar_lhs<H: Half, F: BinaryFn<f32>>(f: F, a: f32, b: &[H], dst: &mut [H]) {
    same_len("map2_half_scalar_lhs", b.len(), dst.len());
    // SAFETY: `b` and `dst` have the same length, `b` is initialised, and `dst`, borrowed exclusively, does not
    // overlap it.
    unsafe { run2(f, Source::Same(a), Source::Each(b.as_ptr()), dst.as_mut_ptr(), b.len()) }
}

/// Replaces each `b[i]` by `f(a, b[i])`, computed in f32.
pub fn map2_half_scalar_lhs_in_place<H: Half, F: BinaryFn<f32>>(f: F, a: f32, b: &mut [H]) {
    let ptr = b.as_mut_ptr();
    // SAFETY: the slice is initialised and exclusively borrowed, and is source and destination at once.
    unsafe { run2(f, Source::Same(a), Source::Each(ptr.cast_const()), ptr, b.len()) }
}

/// An operand of a binary driver.
enum Source<H> {
    Each(*const H),
    Same(f32),
}

/// Converts `len` elements from `src` on to the front of `block`.
///
/// # Safety
///
/// `src` must be valid for reading `len` elements.
#[inline(always)]
unsafe fn load<S: Simd, H: Half>(src: *const H, block: &mut [f32; BLOCK], len: usize) {
    // SAFETY: the caller vouches for `len` elements, which nobody writes meanwhile.
    let src = unsafe { core::slice::from_raw_parts(src, len) };
    Widen { src, dst: &mut block[..len] }.with_simd::<S>();
}

/// Rounds the first `len` elements of `block` to `dst`.
///
/// # Safety
///
/// `dst` must be valid for writing `len` elements, which are initialised.
#[inline(always)]
unsafe fn store<S: Simd, H: Half>(block: &[f32; BLOCK], dst: *mut H, len: usize) {
    // SAFETY: the caller vouches for `len` initialised elements; no other reference to them is alive.
    let dst = unsafe { core::slice::from_raw_parts_mut(dst, len) };
    Narrow { src: &block[..len], dst }.with_simd::<S>();
}

/// # Safety
///
/// `src` must be valid for reading and `dst` for writing `len` elements, and the two must either be the same pointer
/// or not overlap.
#[inline(always)]
unsafe fn run1<H: Half, F: UnaryFn<f32>>(f: F, src: *const H, dst: *mut H, len: usize) {
    dispatch(Run1 { f, src, dst, len });
}

struct Run1<H, F> {
    f: F,
    src: *const H,
    dst: *mut H,
    len: usize,
}

impl<H: Half, F: UnaryFn<f32>> WithSimd for Run1<H, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let mut block = [0f32; BLOCK];
        let mut i = 0;
        while i < self.len {
            let n = BLOCK.min(self.len - i);
            // SAFETY: `Run1` is built in `run1` alone, whose caller vouches for `len` elements of both buffers, and
            // `i + n <= len`. If both are the same buffer, each block is read before it is written. The
            // walk is over the block, a local.
            unsafe {
                load::<S, H>(self.src.add(i), &mut block, n);
                let ptr = block.as_mut_ptr();
                walk1::<S, f32, F>(self.f, ptr, ptr, n);
                store::<S, H>(&block, self.dst.add(i), n);
            }
            i += n;
        }
    }
}

/// # Safety
///
/// Both operands must be readable and `dst` writable for `len` elements, and `dst` must either be the very pointer of
/// an operand or not overlap it.
#[inline(always)]
unsafe fn run2<H: Half, F: BinaryFn<f32>>(f: F, a: Source<H>, b: Source<H>, dst: *mut H, len: usize) {
    dispatch(Run2 { f, a, b, dst, len });
}

struct Run2<H, F> {
    f: F,
    a: Source<H>,
    b: Source<H>,
    dst: *mut H,
    len: usize,
}

impl<H: Half, F: BinaryFn<f32>> WithSimd for Run2<H, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let constant = |source: &Source<H>| match source {
            Source::Each(_) => 0.0,
            Source::Same(value) => *value,
        };
        // A scalar operand fills its block once.
        let mut a = [constant(&self.a); BLOCK];
        let mut b = [constant(&self.b); BLOCK];
        let mut out = [0f32; BLOCK];
        let mut i = 0;
        while i < self.len {
            let n = BLOCK.min(self.len - i);
            // SAFETY: `Run2` is built in `run2` alone, whose caller vouches for `len` elements of every buffer, and
            // `i + n <= len`. If the destination is an operand, each block is read before it is
            // written. The walk is over the three blocks, distinct locals.
            unsafe {
                if let Source::Each(ptr) = self.a {
                    load::<S, H>(ptr.add(i), &mut a, n);
                }
                if let Source::Each(ptr) = self.b {
                    load::<S, H>(ptr.add(i), &mut b, n);
                }
                walk2::<S, f32, F>(self.f, a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), n);
                store::<S, H>(&out, self.dst.add(i), n);
            }
            i += n;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use crate::simd::for_each_isa;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Bits of the conversion of all elements, by the instruction set that it is run on.
    #[derive(Clone)]
    struct Wide<'a, H>(&'a [H]);
    impl<H: Half> WithSimd for Wide<'_, H> {
        type Output = Vec<u32>;
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<u32> {
            let mut dst = vec![0.0; self.0.len()];
            Widen { src: self.0, dst: &mut dst }.with_simd::<S>();
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
            Narrow { src: self.0, dst: &mut dst }.with_simd::<S>();
            dst.into_iter().map(H::bits).collect()
        }
    }

    /// Every instruction set gives the same bits, of NaN too, in whole vectors and after the last one.
    fn agrees<H: Half + Default>() {
        let all: Vec<H> = (0..=u16::MAX).map(H::from_pattern).collect();
        let wide: Vec<u32> = all.iter().map(|h| H::widen(h.bits()).to_bits()).collect();
        // Neighbours of every half, the ties between them, and an odd number of them.
        let singles: Vec<f32> = (0..(1u32 << 20) - 3).map(|i| f32::from_bits((i << 12) | (i % 3))).collect();
        let narrow: Vec<u16> = singles.iter().map(|x| H::narrow(*x)).collect();
        for skip in 0..3 {
            for_each_isa(Wide(&all[skip..]), |isa, got| assert!(got == wide[skip..], "widen, {isa}"));
            for_each_isa(Halves::<H>(&singles[skip..], core::marker::PhantomData), |isa, got| {
                assert!(got == narrow[skip..], "narrow, {isa}");
            });
        }
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
