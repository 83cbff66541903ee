//! Matrix products of the Flex engine.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;

use flex_tensor::*;

pub mod matmul;
#[cfg(test)]
#[path = "../../flex-math/src/skipped.rs"]
mod skipped;
