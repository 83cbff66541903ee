//! Indexing.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// How scattered values combine with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Update {
    Assign,
    Add,
    Mul,
    Min,
    Max,
    Or,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn gather(axis: usize, tensor: Tensor, indices: Tensor) -> Result<Tensor> {
    let _ = (&axis, &tensor, &indices);
    Err(Error::argument("gather", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn scatter(
    axis: usize,
    tensor: Tensor,
    indices: Tensor,
    values: Tensor,
    update: Update,
) -> Result<Tensor> {
    let _ = (&axis, &tensor, &indices, &values, &update);
    Err(Error::argument("scatter", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn select(tensor: Tensor, axis: usize, indices: Tensor) -> Result<Tensor> {
    let _ = (&tensor, &axis, &indices);
    Err(Error::argument("select", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn select_update(
    tensor: Tensor,
    axis: usize,
    indices: Tensor,
    values: Tensor,
    update: Update,
) -> Result<Tensor> {
    let _ = (&tensor, &axis, &indices, &values, &update);
    Err(Error::argument("select_update", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn gather_nd(tensor: Tensor, indices: Tensor) -> Result<Tensor> {
    let _ = (&tensor, &indices);
    Err(Error::argument("gather_nd", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn scatter_nd(tensor: Tensor, indices: Tensor, values: Tensor, update: Update) -> Result<Tensor> {
    let _ = (&tensor, &indices, &values, &update);
    Err(Error::argument("scatter_nd", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn nonzero(tensor: Tensor, index_dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &index_dtype);
    Err(Error::argument("nonzero", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn embedding(weights: Tensor, indices: Tensor) -> Result<Tensor> {
    let _ = (&weights, &indices);
    Err(Error::argument("embedding", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn embedding_backward(weights: Tensor, grad: Tensor, indices: Tensor) -> Result<Tensor> {
    let _ = (&weights, &grad, &indices);
    Err(Error::argument("embedding_backward", "operation", "pending", "an implementation"))
}
