//! Normalisations along an axis: softmax and its kin, layer normalisation.
//!
//! Rows are computed in blocks that stay in the cache for all passes: `rows` cuts a tensor into such blocks,
//! converts half precision to f32 and back, and writes in place where it may; `lanes` has the reductions.

pub(crate) mod lanes;
mod layer_norm;
mod rows;
mod softmax;
pub(crate) mod work;

pub use layer_norm::layer_norm;
pub use softmax::{log_softmax, softmax, softmin};

#[cfg(test)]
mod tests;
