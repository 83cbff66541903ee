//! The rows, by family. Each family is one generated test.

pub mod backend;
pub mod boolean;
pub mod cast;
pub mod comparison;
pub mod create;
pub mod float_binary;
pub mod float_unary;
pub mod index;
pub mod integer;
pub mod mask;
pub mod movement;
pub mod random;
pub mod reduction;
pub mod sort;
