//! `Flex`: a pure-Rust CPU backend for [Burn](https://burn.dev) 0.21.
//!
//! ```
//! use burn_flex::Flex;
//! use burn_tensor::Tensor;
//!
//! type B = Flex;
//! let x = Tensor::<B, 2>::from_data([[1.0, 2.0], [3.0, 4.0]], &Default::default());
//! assert_eq!(x.clone().matmul(x.transpose()).sum().into_scalar(), 52.0);
//! ```
//!
//! `Autodiff<Flex>` trains. `Flex<f64, i64>` is the same backend with other default element types; every
//! float and integer dtype works in either.
//!
//! This crate only translates: Burn's traits on one side, the engine `flex-core` on the other. A refusal of
//! the engine (shapes that do not fit, an index out of range, ...) becomes a panic with the engine's message,
//! which starts with the operation's name; other tensors remain usable after it.
//!
//! Features: `std`, `simd` and `rayon`, all on by default. Without `std` the crate needs `alloc` only.
//! `autodiff` adds the module of that name.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]

extern crate alloc;

pub mod memory;
mod v0_21;

#[cfg(feature = "autodiff")]
pub use v0_21::autodiff;
pub use v0_21::{Flex, FlexDevice, FlexFloat, FlexInt, FlexQTensor, FlexTensor};
