//! The engine of Flex: a CPU tensor library in pure Rust, free of any deep-learning framework's traits and types.
//!
//! A [`Tensor`] is a shared byte buffer plus a [`Layout`] of signed strides. View operations move no data;
//! compute operations take tensors by value, reuse a buffer that nobody else holds, and otherwise write into a
//! pooled one. Every operation validates its arguments at the door and returns [`Result`].
//!
//! `flex-core` builds without `std` (it needs `alloc`).
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;

#[macro_use]
pub mod dtype;
pub mod attention;
pub mod conv;
pub mod elementwise;
pub mod error;
pub mod fft;
pub mod index;
pub mod layout;
pub mod loss;
pub mod matmul;
pub mod movement;
pub mod norm;
pub mod parallel;
pub mod pool;
pub mod quant;
pub mod random;
pub mod reduce;
pub mod sort;
pub mod storage;
mod tensor;
pub mod vision;
pub mod walk;
mod wide;

pub use dtype::{BoolStore, DType, Element, Scalar};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use layout::{Layout, Shape, Slice};
pub use storage::Bytes;
pub use tensor::Tensor;
