//! Blocks of any float dtype as `f32` and back, in whole vectors.

use crate::dtype::Element;
use burn_std::{bf16, f16};
use flex_math::simd::vectorize;

/// A float type whose blocks convert to and from `f32`.
pub(crate) trait FloatBlock: Element {
    /// Writes `src`, rounded to `f32`, to `dst` of the same length.
    fn read_f32(src: &[Self], dst: &mut [f32]);
    /// Writes `src`, rounded to nearest, to `dst` of the same length.
    fn write_f32(src: &[f32], dst: &mut [Self]);
}

impl FloatBlock for f32 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        dst.copy_from_slice(src);
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        dst.copy_from_slice(src);
    }
}

impl FloatBlock for f64 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        vectorize(
            #[inline(always)]
            || dst.iter_mut().zip(src).for_each(|(to, &from)| *to = from as f32),
        );
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        vectorize(
            #[inline(always)]
            || dst.iter_mut().zip(src).for_each(|(to, &from)| *to = from.into()),
        );
    }
}

impl FloatBlock for f16 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        flex_math::half::to_f32(src, dst);
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        flex_math::half::from_f32(src, dst);
    }
}

impl FloatBlock for bf16 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        flex_math::half::to_f32(src, dst);
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        flex_math::half::from_f32(src, dst);
    }
}
