//! Normalisations along an axis.

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
pub fn softmax(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("softmax", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn log_softmax(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("log_softmax", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn softmin(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("softmin", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn layer_norm(tensor: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Result<Tensor> {
    let _ = (&tensor, &gamma, &beta, &epsilon);
    Err(Error::argument("layer_norm", "operation", "pending", "an implementation"))
}
