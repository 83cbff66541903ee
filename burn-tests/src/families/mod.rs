//! The rows, by family. Each family is one generated test.

pub mod boolean;
pub mod comparison;
pub mod float_binary;
pub mod float_unary;
pub mod integer;
pub mod reduction;
