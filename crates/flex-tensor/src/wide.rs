//! Stored types and computing types: half precision is stored in 16 bits and computed in f32; f32 and f64 are
//! computed as stored.
//!
//! A kernel is written once over [`Accumulator`] and sees blocks. [`Wide`] passes it the stored block itself
//! where both types are the same, and otherwise a converted copy in a reused scratch buffer.

use crate::{Element, bf16, f16};
use alloc::vec::Vec;

/// A type that kernels compute in: f32 or f64.
pub trait Accumulator: Element + flex_math::Float {}
impl Accumulator for f32 {}
impl Accumulator for f64 {}

/// A stored float type.
pub trait Wide: Element {
    /// The type that kernels compute in.
    type Acc: Accumulator;

    /// The values of `src` in the computing type. They are in `scratch` where they have to be converted.
    fn widen<'a>(src: &'a [Self], scratch: &'a mut Vec<Self::Acc>) -> &'a [Self::Acc];

    /// Lets `f` write values for all of `dst` in the computing type. The slice passed to `f` holds arbitrary
    /// values.
    fn narrow<R>(dst: &mut [Self], scratch: &mut Vec<Self::Acc>, f: impl FnOnce(&mut [Self::Acc]) -> R) -> R;
}

macro_rules! same {
    ($($ty:ty),*) => {$(
        impl Wide for $ty {
            type Acc = $ty;

            #[inline(always)]
            fn widen<'a>(src: &'a [$ty], _: &'a mut Vec<$ty>) -> &'a [$ty] {
                src
            }

            #[inline(always)]
            fn narrow<R>(dst: &mut [$ty], _: &mut Vec<$ty>, f: impl FnOnce(&mut [$ty]) -> R) -> R {
                f(dst)
            }
        }
    )*};
}

macro_rules! through_f32 {
    ($($ty:ty),*) => {$(
        impl Wide for $ty {
            type Acc = f32;

            fn widen<'a>(src: &'a [$ty], scratch: &'a mut Vec<f32>) -> &'a [f32] {
                let block = take(scratch, src.len());
                flex_math::half::to_f32(src, block);
                block
            }

            fn narrow<R>(dst: &mut [$ty], scratch: &mut Vec<f32>, f: impl FnOnce(&mut [f32]) -> R) -> R {
                let block = take(scratch, dst.len());
                let result = f(block);
                flex_math::half::from_f32(block, dst);
                result
            }
        }
    )*};
}

same!(f32, f64);
through_f32!(f16, bf16);

/// The first `len` elements of `buffer`, which grows if it is too short. They hold arbitrary values.
#[inline]
pub fn take<T: Element>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::ZERO);
    }
    &mut buffer[..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn half_goes_through_the_scratch_buffer_and_f32_does_not() {
        let mut scratch = vec![];
        let half: Vec<f16> = (0..40).map(|i| f16::from_f32(i as f32)).collect();
        let wide = f16::widen(&half[1..], &mut scratch);
        assert_eq!((wide.len(), wide[0], wide[38]), (39, 1.0, 39.0));
        let mut back = vec![f16::ZERO; 3];
        f16::narrow(&mut back, &mut scratch, |block| block.copy_from_slice(&[1.0, f32::NAN, 1e9]));
        assert_eq!(back[0], f16::ONE);
        assert!(back[1].is_nan());
        assert_eq!(back[2], f16::INFINITY);

        let (single, mut unused) = (vec![1.0f32, 2.0], vec![]);
        assert_eq!(f32::widen(&single, &mut unused).as_ptr(), single.as_ptr());
        assert!(unused.is_empty());
    }
}
