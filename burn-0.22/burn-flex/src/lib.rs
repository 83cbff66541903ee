//! `Flex`: a pure-Rust CPU backend for [Burn](https://burn.dev) 0.22.
//!
//! Programs on Burn 0.22 do not name this crate. They ask for Burn's feature `flex` and write
//! `Device::flex()`; cargo takes this package in the place of upstream's after
//!
//! ```toml
//! [patch.crates-io]
//! burn-flex = { git = "...", version = "0.22" }
//! ```
//!
//! This crate only names the part of `burn-flex-adapter` for this release, which translates between Burn's
//! traits and the engine `flex-core`. An error of the engine (shapes that do not fit, an index out of
//! range, ...) becomes a panic with the engine's message, which starts with the operation's name; other
//! tensors remain usable after it.
//!
//! Features: `std` (which brings `simd`), `simd` and `rayon`, all on by default. Without `std` the crate
//! needs only `alloc`.
//! `fft` adds [`ops::fft`], and `tracing` the spans of Burn's own functions; `doc` is the default and `fft`.
//! Upstream's `x86-v4` and `apple-amx` are accepted, and have nothing left to switch: `simd` finds AVX-512 by
//! itself, and the engine has no code for Apple's coprocessor. So is `critical-section`, which burn-dispatch
//! asks for on targets without atomic exchanges of pointers, such as `thumbv6m-none-eabi`. The engine shares
//! tensors by `alloc::sync::Arc`, and so does not compile there.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]

#[doc(inline)]
pub use burn_flex_adapter::v0_22::{Flex, FlexDevice, FlexQTensor, FlexTensor};
pub use burn_flex_adapter::{deferred, memory};
pub use flex_core::Layout;

/// Operations that Burn's crates call by name.
pub mod ops {
    #[cfg(feature = "fft")]
    pub use burn_flex_adapter::v0_22::fft;
}
