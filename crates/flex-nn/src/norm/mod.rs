//! Normalisations along an axis: softmax, log_softmax, softmin, layer normalisation, and gradients; and batch
//! normalisation.
//!
//! Rows are computed in blocks that stay in the cache for all passes. `rows` cuts a tensor into such blocks,
//! converts half precision to f32 and back, and writes in place if possible; `lanes` holds the reductions.
//! `channels` cuts a tensor for batch normalisation, whose sums run over all axes but one.

mod batch_norm;
mod batch_norm_backward;
mod channels;
mod columns;
pub(crate) mod lanes;
mod layer_norm;
mod layer_norm_backward;
mod rows;
mod softmax;
mod softmax_backward;

use crate::Tensor;
use crate::error::{Error, Result, check_same_dtype};

pub use batch_norm::{batch_norm, batch_norm_train};
pub use batch_norm_backward::batch_norm_train_backward;
pub use layer_norm::layer_norm;
pub use layer_norm_backward::{LayerNormGradients, layer_norm_backward};
pub use softmax::{log_softmax, softmax, softmin};
pub use softmax_backward::{log_softmax_backward, softmax_backward};

/// Checks that the gradient of an output has the dtype and the shape of `tensor`.
fn check_grad(op: &'static str, tensor: &Tensor, grad: &Tensor) -> Result<()> {
    check_same_dtype(op, tensor.dtype(), grad.dtype())?;
    if tensor.shape() != grad.shape() {
        return Err(Error::shapes(op, tensor.shape(), grad.shape(), "equal shapes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
