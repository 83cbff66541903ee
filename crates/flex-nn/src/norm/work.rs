//! The type that a float dtype is computed in, and conversions of whole blocks to and from it.

use crate::dtype::Element;
use crate::matmul::gemm::GemmFloat;
use crate::{bf16, f16};

/// The type of the arithmetic: f32 or f64.
pub(crate) trait Work: GemmFloat + flex_math::Float {
    /// The most negative finite value.
    const LOWEST: Self;
    /// The smallest positive normal value.
    const TINY: Self;
}
impl Work for f32 {
    const LOWEST: f32 = f32::MIN;
    const TINY: f32 = f32::MIN_POSITIVE;
}
impl Work for f64 {
    const LOWEST: f64 = f64::MIN;
    const TINY: f64 = f64::MIN_POSITIVE;
}

/// A float dtype: f32 and f64 are computed in their own type, f16 and bf16 in f32.
pub(crate) trait FloatElement: Element {
    /// The type of the arithmetic.
    type Work: Work;
    /// Converts a block, exactly. The slices have the same length.
    fn load(from: &[Self], to: &mut [Self::Work]);
    /// Rounds a block. The slices have the same length.
    fn store(from: &[Self::Work], to: &mut [Self]);
    /// The elements themselves if no conversion is needed.
    fn as_work(from: &[Self]) -> Option<&[Self::Work]>;
    /// See [`as_work`](Self::as_work).
    fn as_work_mut(from: &mut [Self]) -> Option<&mut [Self::Work]>;
}

macro_rules! whole {
    ($($ty:ty),*) => {$(
        impl FloatElement for $ty {
            type Work = Self;
            fn load(from: &[Self], to: &mut [Self]) { to.copy_from_slice(from) }
            fn store(from: &[Self], to: &mut [Self]) { to.copy_from_slice(from) }
            fn as_work(from: &[Self]) -> Option<&[Self]> { Some(from) }
            fn as_work_mut(from: &mut [Self]) -> Option<&mut [Self]> { Some(from) }
        }
    )*};
}
whole!(f32, f64);

macro_rules! half {
    ($($ty:ty),*) => {$(
        impl FloatElement for $ty {
            type Work = f32;
            fn load(from: &[Self], to: &mut [f32]) { flex_math::half::to_f32(from, to) }
            fn store(from: &[f32], to: &mut [Self]) { flex_math::half::from_f32(from, to) }
            fn as_work(_: &[Self]) -> Option<&[f32]> { None }
            fn as_work_mut(_: &mut [Self]) -> Option<&mut [f32]> { None }
        }
    )*};
}
half!(f16, bf16);
