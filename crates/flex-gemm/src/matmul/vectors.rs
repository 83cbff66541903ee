//! Loads and stores of whole vectors, in safe code. For use inside a dispatched function, where the lengths
//! are constants and the checks are optimised away.

use flex_math::simd::{Scalar, Simd, Vector};

/// The vector of the first elements of `from`.
///
/// # Panics
/// When `from` has fewer elements than a vector.
#[inline(always)]
pub(crate) fn load<S: Simd, T: Scalar>(from: &[T]) -> Vector<S, T> {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&from[..T::lanes::<S>()]))
}
