//! Sorting and top-k (largest first).

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
pub fn sort(tensor: Tensor, axis: usize, descending: bool) -> Result<Tensor> {
    let _ = (&tensor, &axis, &descending);
    Err(Error::argument("sort", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn sort_with_indices(
    tensor: Tensor,
    axis: usize,
    descending: bool,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let _ = (&tensor, &axis, &descending, &index_dtype);
    Err(Error::argument("sort_with_indices", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn argsort(tensor: Tensor, axis: usize, descending: bool, index_dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &axis, &descending, &index_dtype);
    Err(Error::argument("argsort", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn topk(tensor: Tensor, axis: usize, k: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis, &k);
    Err(Error::argument("topk", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn topk_with_indices(
    tensor: Tensor,
    axis: usize,
    k: usize,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let _ = (&tensor, &axis, &k, &index_dtype);
    Err(Error::argument("topk_with_indices", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn argtopk(tensor: Tensor, axis: usize, k: usize, index_dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &axis, &k, &index_dtype);
    Err(Error::argument("argtopk", "operation", "pending", "an implementation"))
}
