//! The drivers that convert halves, and compute half precision in f32.
//!
//! Each vector is widened, computed and rounded to nearest even without passing through memory, in the loop that f32 takes too.
//! The result is the f32 result rounded once more, so it is within half a ULP of the half type of the f32 result.

use super::Half;
use super::odd::to_odd_vector;
use crate::simd::{Simd, Vector, prefetch_ahead};
use crate::slice::{AsIs, Destination, Each, Same, Source, run1, run2, same_len};
use crate::{BinaryFn, UnaryFn, eval_scalar, eval2_scalar};
use core::marker::PhantomData;

/// Converts `src` to f32, exactly.
///
/// # Panics
///
/// If the lengths differ.
pub fn to_f32<H: Half>(src: &[H], dst: &mut [f32]) {
    same_len("half::to_f32", src.len(), dst.len());
    // SAFETY: both have as many elements, and do not overlap, since one is borrowed exclusively.
    unsafe { run1(Identity, Widened(src.as_ptr()), AsIs(dst.as_mut_ptr()), src.len()) }
}

/// Rounds `src` to the nearest, ties to even.
///
/// # Panics
///
/// If the lengths differ.
pub fn from_f32<H: Half>(src: &[f32], dst: &mut [H]) {
    same_len("half::from_f32", src.len(), dst.len());
    // SAFETY: as in `to_f32`.
    unsafe { run1(Identity, Each(src.as_ptr()), Rounded::<H, false>(dst.as_mut_ptr()), src.len()) }
}

/// Rounds `src` to the nearest, ties to even. Once: not to f32 first.
///
/// # Panics
///
/// If the lengths differ.
pub fn from_f64<H: Half>(src: &[f64], dst: &mut [H]) {
    same_len("half::from_f64", src.len(), dst.len());
    // SAFETY: as in `to_f32`.
    unsafe {
        run1(Identity, Odd(src.as_ptr(), PhantomData::<H>), Rounded::<H, false>(dst.as_mut_ptr()), src.len())
    }
}

/// Converts from one half type to the other, to the nearest, ties to even.
///
/// # Panics
///
/// If the lengths differ.
pub fn convert<A: Half, B: Half>(src: &[A], dst: &mut [B]) {
    same_len("half::convert", src.len(), dst.len());
    // SAFETY: as in `to_f32`.
    unsafe { run1(Identity, Widened(src.as_ptr()), Rounded::<B, false>(dst.as_mut_ptr()), src.len()) }
}

#[derive(Clone, Copy)]
struct Identity;

impl UnaryFn<f32> for Identity {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, f32>) -> Vector<S, f32> {
        x
    }
}

/// An operand of [`map_half`] or [`map2_half`].
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, H> {
    /// One element per result.
    Each(&'a [H]),
    /// The same number for every result, which need not be a half.
    Same(f32),
    /// What the destination holds, element by element, before it is overwritten.
    Out,
}

/// Writes `f` of the operand, computed in f32, to `dst`. Where `f` returns NaN, it is an operand's or the default one: a payload of
/// its own may be lost on rounding, and NaN with it.
///
/// # Panics
///
/// If the lengths differ.
pub fn map_half<H: Half, F: UnaryFn<f32>>(f: F, src: Operand<'_, H>, dst: &mut [H]) {
    let (to, len) = (Rounded::<H, true>(dst.as_mut_ptr()), dst.len());
    match Loaded::new(src, to, len, "map_half") {
        Loaded::Constant(value) => dst.fill(H::from_pattern(H::narrow(eval_scalar(f, value)))),
        // SAFETY: `Loaded::new` points to `len` elements, as many as `dst` has: another slice, which does not overlap it, or
        // `dst` itself by the same pointer, through which alone it is used here.
        Loaded::Halves(src) => unsafe { run1(f, src, to, len) },
    }
}

/// Writes `f` of the operands, computed in f32, to `dst`. NaN are as in [`map_half`].
///
/// # Panics
///
/// If the lengths differ.
pub fn map2_half<H: Half, F: BinaryFn<f32>>(f: F, a: Operand<'_, H>, b: Operand<'_, H>, dst: &mut [H]) {
    let (to, len) = (Rounded::<H, true>(dst.as_mut_ptr()), dst.len());
    // SAFETY: as in `map_half`, for both operands.
    unsafe {
        match (Loaded::new(a, to, len, "map2_half"), Loaded::new(b, to, len, "map2_half")) {
            (Loaded::Halves(a), Loaded::Halves(b)) => run2(f, a, b, to, len),
            (Loaded::Halves(a), Loaded::Constant(b)) => run2(f, a, Same(b), to, len),
            (Loaded::Constant(a), Loaded::Halves(b)) => run2(f, Same(a), b, to, len),
            (Loaded::Constant(a), Loaded::Constant(b)) => {
                dst.fill(H::from_pattern(H::narrow(eval2_scalar(f, a, b))));
            }
        }
    }
}

/// An operand whose length was checked.
enum Loaded<H> {
    Halves(Widened<H>),
    Constant(f32),
}

impl<H> Loaded<H> {
    /// The operand of a driver that writes `len` elements to `dst`. NaN have payloads that halves have room for.
    fn new(operand: Operand<'_, H>, dst: Rounded<H, true>, len: usize, op: &str) -> Self {
        match operand {
            Operand::Each(src) => {
                same_len(op, src.len(), len);
                Self::Halves(Widened(src.as_ptr()))
            }
            Operand::Same(value) => Self::Constant(if value.is_nan() { f32::NAN } else { value }),
            Operand::Out => Self::Halves(Widened(dst.0.cast_const())),
        }
    }
}

/// At least as many as there are lanes of f32 in a vector of any instruction set.
const MAX_LANES: usize = 16;

/// One half per result.
#[derive(Clone, Copy)]
struct Widened<H>(*const H);

/// One f64 per result, which will be rounded once more, to `H`.
#[derive(Clone, Copy)]
struct Odd<H>(*const f64, PhantomData<H>);

/// The results rounded to halves. `OWN_NAN` is that of [`Half::narrow_vector`]: true of what arithmetic makes of widened halves,
/// since it returns an operand's NaN, quieted, or the default one.
#[derive(Clone, Copy)]
struct Rounded<H, const OWN_NAN: bool>(*mut H);

impl<H: Half> Source<f32> for Widened<H> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, f32> {
        // SAFETY: the caller vouches for a whole vector from `i` on.
        H::widen_vector::<S>(unsafe { core::slice::from_raw_parts(self.0.add(i), S::lanes32()) })
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, f32> {
        let mut padded = [H::from_pattern(H::narrow(1.0)); MAX_LANES];
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that there is room.
        unsafe { core::ptr::copy_nonoverlapping(self.0.add(i), padded[..rest].as_mut_ptr(), rest) };
        H::widen_vector::<S>(&padded[..S::lanes32()])
    }
}

impl<H: Half> Source<f32> for Odd<H> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, f32> {
        prefetch_ahead(self.0.wrapping_add(i), S::lanes32());
        // SAFETY: the caller vouches for a whole vector from `i` on.
        to_odd_vector::<S, H>(unsafe { core::slice::from_raw_parts(self.0.add(i), S::lanes32()) })
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, f32> {
        let mut padded = [1.0; MAX_LANES];
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that there is room.
        unsafe { core::ptr::copy_nonoverlapping(self.0.add(i), padded[..rest].as_mut_ptr(), rest) };
        to_odd_vector::<S, H>(&padded[..S::lanes32()])
    }
}

impl<H: Half, const OWN_NAN: bool> Destination<f32> for Rounded<H, OWN_NAN> {
    #[inline(always)]
    unsafe fn put<S: Simd>(self, i: usize, value: Vector<S, f32>) {
        // SAFETY: the caller vouches for a whole vector from `i` on; the elements are initialised, and the operands, which may
        // be the same elements, were read before.
        H::narrow_vector::<S, OWN_NAN>(value, unsafe {
            core::slice::from_raw_parts_mut(self.0.add(i), S::lanes32())
        });
    }

    #[inline(always)]
    unsafe fn put_rest<S: Simd>(self, i: usize, rest: usize, value: Vector<S, f32>) {
        let mut padded = [H::from_pattern(0); MAX_LANES];
        H::narrow_vector::<S, OWN_NAN>(value, &mut padded[..S::lanes32()]);
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that there are as many.
        unsafe { core::ptr::copy_nonoverlapping(padded[..rest].as_ptr(), self.0.add(i), rest) }
    }
}
