//! The engine of Flex: a CPU tensor library in pure Rust, independent of any deep-learning framework's traits
//! and types.
//!
//! A [`Tensor`] is a shared byte buffer plus a [`Layout`] of signed strides. View operations move no data;
//! compute operations take tensors by value, reuse a buffer that nothing else shares, and otherwise write to
//! a pooled one. Every operation validates its arguments first and returns [`Result`].
//!
//! The engine is divided into crates by concern, which compile in parallel; this crate re-exports them, and
//! adds the operations that are made of operations of several crates.
//!
//! `flex-core` builds without `std` (it needs `alloc`).
#![no_std]
#![deny(missing_docs)]

pub use flex_fft::fft;
pub use flex_gemm::matmul;
pub use flex_map::{elementwise, index, movement};
pub use flex_nn::{attention, conv, loss, norm, pool, quant, random, vision};
pub use flex_reduce::sort;
pub use flex_tensor::{
    BoolStore, Bytes, DType, Element, Error, Layout, Result, Scalar, Shape, Slice, Tensor, bf16, dtype,
    error, f16, layout, parallel, storage, walk,
};

pub mod reduce;
