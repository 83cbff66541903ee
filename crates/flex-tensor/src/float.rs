//! Float dtypes as they are stored and as they are computed: half precision is stored in 16 bits and computed
//! in f32; f32 and f64 are computed as stored.
//!
//! A kernel is written once over [`Real`] and sees blocks. [`FloatElement`] passes it the stored block itself
//! where both types are the same, and otherwise a converted copy in a reused scratch buffer.

use crate::Element;
use crate::storage::Scratch;
use core::ops::AddAssign;
use flex_math::StoredFloat;

/// A type that kernels compute in: f32 or f64.
pub trait Real: Element + flex_math::Float + AddAssign {}
impl Real for f32 {}
impl Real for f64 {}

/// A float type that tensors store: f16, bf16, f32 or f64. Its computing type and the conversions are those
/// of [`StoredFloat`].
pub trait FloatElement: Element + StoredFloat<Compute: Real> {
    /// The values of `src` in the computing type. They are in `scratch` where they have to be converted.
    #[inline(always)]
    fn in_compute<'a>(src: &'a [Self], scratch: &'a mut Scratch<Self::Compute>) -> &'a [Self::Compute] {
        if let Some(values) = Self::as_compute(src) {
            return values;
        }
        let block = scratch.elements(src.len());
        Self::widen_slice(src, block);
        block
    }

    /// Lets `f` write values for all of `dst` in the computing type. The slice passed to `f` holds arbitrary
    /// values.
    #[inline(always)]
    fn through_compute<R>(
        dst: &mut [Self],
        scratch: &mut Scratch<Self::Compute>,
        f: impl FnOnce(&mut [Self::Compute]) -> R,
    ) -> R {
        if let Some(values) = Self::as_compute_mut(dst) {
            return f(values);
        }
        let block = scratch.elements(dst.len());
        let result = f(block);
        Self::narrow_slice(block, dst);
        result
    }
}

impl<T: Element + StoredFloat<Compute: Real>> FloatElement for T {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::f16;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn half_goes_through_the_scratch_buffer_and_f32_does_not() {
        let mut scratch = Scratch::default();
        let half: Vec<f16> = (0..40).map(|i| f16::from_f32(i as f32)).collect();
        let wide = f16::in_compute(&half[1..], &mut scratch);
        assert_eq!((wide.len(), wide[0], wide[38]), (39, 1.0, 39.0));
        let mut back = vec![f16::ZERO; 3];
        f16::through_compute(&mut back, &mut scratch, |block| block.copy_from_slice(&[1.0, f32::NAN, 1e9]));
        assert_eq!(back[0], f16::ONE);
        assert!(back[1].is_nan());
        assert_eq!(back[2], f16::INFINITY);

        let (single, mut unused) = (vec![1.0f32, 2.0], Scratch::default());
        assert_eq!(f32::in_compute(&single, &mut unused).as_ptr(), single.as_ptr());
        assert!(unused.is_empty());
    }
}
