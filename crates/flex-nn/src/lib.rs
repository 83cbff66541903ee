//! Neural-network operations on tensors: convolution, pooling, normalization, attention, image operations,
//! losses, random numbers and quantization.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(missing_docs)]

extern crate alloc;

#[macro_use]
extern crate flex_tensor;

#[macro_use]
mod stored;

use flex_gemm::matmul;
use flex_map::{index, movement};
use flex_tensor::*;

pub mod attention;
pub mod conv;
mod divisor;
pub mod loss;
pub mod norm;
pub mod pool;
pub mod quant;
pub mod random;
#[cfg(test)]
#[path = "../../flex-math/src/skipped.rs"]
mod skipped;
pub mod vision;
