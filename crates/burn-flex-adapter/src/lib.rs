//! Burn's backend traits over the engine `flex-core`, one module per Burn release.
//!
//! Programs do not depend on this crate. They depend on `burn-flex`, of which there is one package per
//! release, with the version number of that release; each re-exports one module from here.
//!
//! Code that the releases share is written once, in `src/shared`:
//!
//! * `*_ops.rs` are lists of trait methods, each of which is one call into the engine. A list is a macro.
//!   Each release expands it inside of an `impl` of its own trait, where types have the release's meaning.
//! * The other files (conversions, tensors, random numbers) are modules of every release, which includes
//!   them by path; they take Burn's crates from `super`.
//!
//! `src/v0_21` and `src/v0_22` hold the code that differs.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]
// The files of `shared` are modules of every release.
#![allow(clippy::duplicate_mod)]

extern crate alloc;

#[cfg(any(feature = "v0_21", feature = "v0_22"))]
#[macro_use]
mod shared;

pub mod deferred;
pub mod memory;
#[cfg(any(feature = "v0_21", feature = "v0_22"))]
mod stream;
#[cfg(feature = "v0_21")]
pub mod v0_21;
#[cfg(feature = "v0_22")]
pub mod v0_22;
