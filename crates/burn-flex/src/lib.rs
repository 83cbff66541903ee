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
//! `Autodiff<Flex>` trains. `Flex<f64, i64>` is the same backend with other default element types; both
//! support every float and integer dtype.
//!
//! This crate only names the part of `burn-flex-adapter` for this release, which translates between Burn's
//! traits and the engine `flex-core`. An error of the engine
//! (shapes that do not fit, an index out of range, ...) becomes a panic with the engine's message, which
//! starts with the operation's name; other tensors remain usable after it.
//!
//! Features: `std` (which brings `simd`), `simd` and `rayon`, all on by default. Without `std` the crate
//! needs only `alloc`. `tracing` adds the spans of Burn's own functions, and `autodiff` the module of that
//! name. Burn's features of these names also turn on upstream's `doc`, `x86-v4` and `apple-amx`. They are
//! accepted. `doc` is the default; the others have nothing left to switch: `simd` finds AVX-512 by itself,
//! and the engine has no code for Apple's coprocessor. `critical-section` is accepted too, but the engine
//! still does not compile for targets without atomic exchanges of pointers. Upstream's crate for this release
//! has no feature `fft`: Fourier transforms are methods of Burn 0.21's traits.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]

#[cfg(feature = "autodiff")]
pub mod autodiff;

#[doc(inline)]
pub use burn_flex_adapter::v0_21::{Flex, FlexDevice, FlexFloat, FlexInt, FlexQTensor, FlexTensor};
pub use burn_flex_adapter::{deferred, memory};
