//! The operation on the CPU.

use crate::Scale;
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_flex::Flex;

impl Scale for Flex {
    fn scale(tensor: FloatTensor<Self>, alpha: f32) -> FloatTensor<Self> {
        // The engine already has this loop; a missing operation would be written with `flex_core::walk`.
        <Self as FloatTensorOps<Self>>::float_mul_scalar(tensor, alpha.into())
    }
}
