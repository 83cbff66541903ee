//! Losses with kernels of their own.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: usize,
) -> Result<Tensor> {
    let _ = (&log_probs, &targets, &input_lengths, &target_lengths, &blank);
    Err(Error::argument("ctc_loss", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn ctc_loss_backward(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    grad: Tensor,
    blank: usize,
) -> Result<Tensor> {
    let _ = (&log_probs, &targets, &input_lengths, &target_lengths, &grad, &blank);
    Err(Error::argument("ctc_loss_backward", "operation", "pending", "an implementation"))
}
