//! A kernel of your own: `scale`, which multiplies a tensor by a number.
//!
//! Burn has this operation. The crate adds it again from outside, in the way in which an operation that Burn
//! lacks can be added. An extension trait names the operation, and one file per kind of backend implements
//! it:
//!
//! | file | backend |
//! | --- | --- |
//! | `kernel.rs` | every GPU: the kernel, compiled at run time for the device |
//! | `cpu.rs` | `Flex` |
//! | `fused.rs` | `Fusion` over any of the former: how the operation enters the queue |
//! | `autodiff.rs` | `Autodiff` over any of the former: its derivative |
//!
//! The guide `docs/custom-kernels.md` walks through these files.
//!
//! ```
//! use burn_flex::Flex;
//! use burn_tensor::Tensor;
//!
//! let x = Tensor::<Flex, 1>::from_floats([1.0, 2.0], &Default::default());
//! flex_scale::scale(x, 0.5).into_data().assert_eq(&[0.5f32, 1.0].into(), true);
//! ```
#![deny(missing_docs)]

mod autodiff;
mod cpu;
mod fused;
mod kernel;

use burn_backend::Backend;
use burn_backend::tensor::FloatTensor;
use burn_tensor::{Tensor, TensorPrimitive};

/// Backends that implement `scale`.
pub trait Scale: Backend {
    /// `tensor * alpha`, in the dtype of the tensor.
    fn scale(tensor: FloatTensor<Self>, alpha: f32) -> FloatTensor<Self>;
}

/// `tensor * alpha`, in the dtype of the tensor, on any backend that implements [`Scale`].
pub fn scale<B: Scale, const D: usize>(tensor: Tensor<B, D>, alpha: f32) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(B::scale(tensor.into_primitive().tensor(), alpha)))
}
