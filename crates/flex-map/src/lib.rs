//! Operations of the Flex engine that compute or move elements one by one: elementwise functions, indexing,
//! and copies into another shape.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[macro_use]
extern crate flex_tensor;

use flex_tensor::*;

pub mod elementwise;
pub mod index;
pub mod movement;
