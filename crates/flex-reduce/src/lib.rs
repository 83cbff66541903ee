//! Operations of the Flex engine that combine many elements: reductions, scans (running sums and the like)
//! and sorting.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;

#[macro_use]
extern crate flex_tensor;

use flex_tensor::*;

pub mod reduce;
pub mod sort;
