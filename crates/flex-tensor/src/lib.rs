//! The base of all kernels of the Flex engine: the [`Tensor`], its [`Layout`] of signed strides, its storage
//! and the memory pool, walks over strided elements, parallel work, and the errors. Copies are the only
//! kernels in this crate.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;

#[macro_use]
pub mod dtype;
pub mod error;
pub mod float;
pub mod layout;
mod materialise;
pub mod parallel;
pub mod small;
pub mod storage;
mod tensor;
pub mod walk;

pub use dtype::{BoolStore, DType, Element, Scalar};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use layout::{Layout, Shape, Slice};
pub use storage::Bytes;
pub use tensor::{Blank, Tensor};
