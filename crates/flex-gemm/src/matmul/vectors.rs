//! Whole vectors to and from slices, in safe code. Used inside of a dispatched function, where the lengths are
//! constants and the checks fold away.

use flex_math::simd::{Scalar, Simd, Vector};

/// The vector at the front of `from`.
///
/// # Panics
/// When there are fewer elements.
#[inline(always)]
pub(crate) fn load<S: Simd, T: Scalar>(from: &[T]) -> Vector<S, T> {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&from[..T::lanes::<S>()]))
}

/// Writes a vector to the front of `to`.
///
/// # Panics
/// When there are fewer elements.
#[inline(always)]
pub(crate) fn store<S: Simd, T: Scalar>(vector: Vector<S, T>, to: &mut [T]) {
    to[..T::lanes::<S>()].copy_from_slice(bytemuck::cast_slice(core::slice::from_ref(&vector)));
}
