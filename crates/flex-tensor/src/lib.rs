//! What every kernel of the Flex engine stands on: the [`Tensor`], its [`Layout`] of signed strides, its storage and the pool
//! behind it, walks over strided elements, the work that threads share, and the errors. There are no kernels here but copies.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;

#[macro_use]
pub mod dtype;
pub mod error;
pub mod layout;
mod materialise;
pub mod parallel;
pub mod storage;
mod tensor;
pub mod walk;
pub mod wide;

pub use dtype::{BoolStore, DType, Element, Scalar};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use layout::{Layout, Shape, Slice};
pub use storage::Bytes;
pub use tensor::Tensor;
