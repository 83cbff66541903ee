//! The drivers that convert slices of halves, and compute half precision in f32.
//!
//! Each vector is widened, computed and rounded to nearest even without passing through memory, in the loop
//! that f32 uses too. The result is the f32 result rounded once more, so it differs from the f32 result by at
//! most half a ULP of the half type.

use super::odd::to_odd_vector;
use super::{Half, bf16, f16};
use crate::simd::{EveryLevel, Simd, Vector, prefetch_ahead};
use crate::slice::{AsIs, Destination, Each, Identity, StoredFloat, VectorSource, run1, same_len};
use core::marker::PhantomData;

/// Converts `src` to f32, exactly.
///
/// # Panics
///
/// If the lengths differ.
pub fn to_f32<H: Half>(src: &[H], dst: &mut [f32]) {
    H::widen_slice(src, dst);
}

/// Rounds `src` to the nearest halves, ties to even.
///
/// # Panics
///
/// If the lengths differ.
pub fn from_f32<H: Half>(src: &[f32], dst: &mut [H]) {
    H::narrow_slice(src, dst);
}

/// Rounds `src` to the nearest halves, ties to even, in one step (not to f32 first).
///
/// # Panics
///
/// If the lengths differ.
pub fn from_f64<H: Half>(src: &[f64], dst: &mut [H]) {
    H::narrow_slice64(src, dst);
}

/// Converts from one half type to the other, rounding to nearest, ties to even.
///
/// # Panics
///
/// If the lengths differ.
pub fn convert<A: Half, B: Half>(src: &[A], dst: &mut [B]) {
    same_len("half::convert", src.len(), dst.len());
    // SAFETY: both have `src.len()` elements, and do not overlap, since `dst` is borrowed exclusively.
    unsafe {
        run1(EveryLevel, Identity, Widened(src.as_ptr()), Rounded::<B, false>(dst.as_mut_ptr()), src.len())
    }
}

/// The loop of [`to_f32`].
#[inline(always)]
fn widen<H: Half>(src: &[H], dst: &mut [f32]) {
    same_len("half::to_f32", src.len(), dst.len());
    // SAFETY: as in `convert`.
    unsafe { run1(EveryLevel, Identity, Widened(src.as_ptr()), AsIs(dst.as_mut_ptr()), src.len()) }
}

/// The loop of [`from_f32`].
#[inline(always)]
fn narrow<H: Half>(src: &[f32], dst: &mut [H]) {
    same_len("half::from_f32", src.len(), dst.len());
    // SAFETY: as in `convert`.
    unsafe {
        run1(EveryLevel, Identity, Each(src.as_ptr()), Rounded::<H, false>(dst.as_mut_ptr()), src.len())
    }
}

/// The loop of [`from_f64`].
#[inline(always)]
pub(super) fn narrow64<H: Half>(src: &[f64], dst: &mut [H]) {
    same_len("half::from_f64", src.len(), dst.len());
    let odd = RoundedToOdd(src.as_ptr(), PhantomData::<H>);
    // SAFETY: as in `convert`.
    unsafe { run1(EveryLevel, Identity, odd, Rounded::<H, false>(dst.as_mut_ptr()), src.len()) }
}

macro_rules! stored_as_half {
    ($($half:ty)*) => {$(
        impl StoredFloat for $half {
            type Compute = f32;
            #[inline(always)]
            fn to_compute(self) -> f32 {
                <Self as Half>::widen(self.to_bits())
            }
            #[inline(always)]
            fn from_compute(value: f32) -> Self {
                Self::from_pattern(<Self as Half>::narrow(value))
            }
            #[inline(always)]
            fn constant(value: f32) -> f32 {
                if value.is_nan() { f32::NAN } else { value }
            }
            #[inline(always)]
            fn as_compute(_: &[Self]) -> Option<&[f32]> {
                None
            }
            #[inline(always)]
            fn as_compute_mut(_: &mut [Self]) -> Option<&mut [f32]> {
                None
            }
            // Without parameters, so that the loops are compiled here, once, and not again in every crate
            // that converts.
            fn widen_slice(src: &[Self], dst: &mut [f32]) {
                widen(src, dst);
            }
            fn narrow_slice(src: &[f32], dst: &mut [Self]) {
                narrow(src, dst);
            }
            #[inline(always)]
            fn source(src: *const Self) -> impl VectorSource<f32> {
                Widened(src)
            }
            #[inline(always)]
            fn destination(dst: *mut Self) -> impl Destination<f32> {
                Rounded::<Self, true>(dst)
            }
        }
    )*};
}

stored_as_half!(f16 bf16);

/// At least the number of f32 lanes in a vector of any instruction set.
const MAX_LANES: usize = 16;

/// An operand of halves, one per result.
#[derive(Clone, Copy)]
struct Widened<H>(*const H);

/// An operand of f64, rounded to odd because it will be rounded once more, to `H`.
#[derive(Clone, Copy)]
struct RoundedToOdd<H>(*const f64, PhantomData<H>);

/// Rounds the results to halves. `OWN_NAN` is the parameter of [`Half::narrow_vector`]. It is true for
/// results of arithmetic on widened halves, because arithmetic returns an operand's NaN, quieted, or the
/// default NaN.
#[derive(Clone, Copy)]
struct Rounded<H, const OWN_NAN: bool>(*mut H);

impl<H: Half> VectorSource<f32> for Widened<H> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, f32> {
        // SAFETY: the caller vouches for a whole vector from `i` on.
        H::widen_vector::<S>(unsafe { core::slice::from_raw_parts(self.0.add(i), S::lanes32()) })
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, f32> {
        let mut padded = [H::from_pattern(H::narrow(1.0)); MAX_LANES];
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that `padded` has room
        // for them.
        unsafe { core::ptr::copy_nonoverlapping(self.0.add(i), padded[..rest].as_mut_ptr(), rest) };
        H::widen_vector::<S>(&padded[..S::lanes32()])
    }
}

impl<H: Half> VectorSource<f32> for RoundedToOdd<H> {
    #[inline(always)]
    unsafe fn whole<S: Simd>(self, i: usize) -> Vector<S, f32> {
        // SAFETY: the caller vouches for a whole vector from `i` on.
        to_odd_vector::<S, H>(unsafe { core::slice::from_raw_parts(self.0.add(i), S::lanes32()) })
    }

    #[inline(always)]
    unsafe fn rest<S: Simd>(self, i: usize, rest: usize) -> Vector<S, f32> {
        let mut padded = [1.0; MAX_LANES];
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that `padded` has room
        // for them.
        unsafe { core::ptr::copy_nonoverlapping(self.0.add(i), padded[..rest].as_mut_ptr(), rest) };
        to_odd_vector::<S, H>(&padded[..S::lanes32()])
    }

    #[inline(always)]
    fn prefetch(self, i: usize, len: usize) {
        prefetch_ahead(self.0.wrapping_add(i), len);
    }
}

impl<H: Half, const OWN_NAN: bool> Destination<f32> for Rounded<H, OWN_NAN> {
    const ROUNDS: bool = true;
    #[inline(always)]
    unsafe fn put<S: Simd>(self, i: usize, value: Vector<S, f32>) {
        // SAFETY: the caller vouches for a whole vector from `i` on; the elements are initialised. The
        // operands may be the same elements, but were read before.
        H::narrow_vector::<S, OWN_NAN>(value, unsafe {
            core::slice::from_raw_parts_mut(self.0.add(i), S::lanes32())
        });
    }

    #[inline(always)]
    unsafe fn put_rest<S: Simd>(self, i: usize, rest: usize, value: Vector<S, f32>) {
        let mut padded = [H::from_pattern(0); MAX_LANES];
        H::narrow_vector::<S, OWN_NAN>(value, &mut padded[..S::lanes32()]);
        // SAFETY: the caller vouches for `rest` elements from `i` on; slicing checks that `padded` has as
        // many.
        unsafe { core::ptr::copy_nonoverlapping(padded[..rest].as_ptr(), self.0.add(i), rest) }
    }
}
