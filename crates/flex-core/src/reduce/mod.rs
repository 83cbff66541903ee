//! Reductions and scans.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// `sum` of all elements, shape [1].
///
/// # Errors
/// Pending.
pub fn sum(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("sum", "operation", "pending", "an implementation"))
}
/// `mean` of all elements, shape [1].
///
/// # Errors
/// Pending.
pub fn mean(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("mean", "operation", "pending", "an implementation"))
}
/// `prod` of all elements, shape [1].
///
/// # Errors
/// Pending.
pub fn prod(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("prod", "operation", "pending", "an implementation"))
}
/// `max` of all elements, shape [1].
///
/// # Errors
/// Pending.
pub fn max(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("max", "operation", "pending", "an implementation"))
}
/// `min` of all elements, shape [1].
///
/// # Errors
/// Pending.
pub fn min(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("min", "operation", "pending", "an implementation"))
}
/// `max_abs` of all elements, shape [1].
///
/// # Errors
/// Pending.
pub fn max_abs(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("max_abs", "operation", "pending", "an implementation"))
}
/// `sum` along an axis, which is kept with size 1.
///
/// # Errors
/// Pending.
pub fn sum_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("sum_dim", "operation", "pending", "an implementation"))
}
/// `mean` along an axis, which is kept with size 1.
///
/// # Errors
/// Pending.
pub fn mean_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("mean_dim", "operation", "pending", "an implementation"))
}
/// `prod` along an axis, which is kept with size 1.
///
/// # Errors
/// Pending.
pub fn prod_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("prod_dim", "operation", "pending", "an implementation"))
}
/// `max` along an axis, which is kept with size 1.
///
/// # Errors
/// Pending.
pub fn max_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("max_dim", "operation", "pending", "an implementation"))
}
/// `min` along an axis, which is kept with size 1.
///
/// # Errors
/// Pending.
pub fn min_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("min_dim", "operation", "pending", "an implementation"))
}
/// `max_abs` along an axis, which is kept with size 1.
///
/// # Errors
/// Pending.
pub fn max_abs_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("max_abs_dim", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn argmax(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &axis, &index_dtype);
    Err(Error::argument("argmax", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn argmin(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &axis, &index_dtype);
    Err(Error::argument("argmin", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn max_dim_with_indices(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<(Tensor, Tensor)> {
    let _ = (&tensor, &axis, &index_dtype);
    Err(Error::argument("max_dim_with_indices", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn min_dim_with_indices(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<(Tensor, Tensor)> {
    let _ = (&tensor, &axis, &index_dtype);
    Err(Error::argument("min_dim_with_indices", "operation", "pending", "an implementation"))
}
/// Over numbers (non-zero) and bools; shape [1].
///
/// # Errors
/// Pending.
pub fn any(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let _ = (&tensor, &store);
    Err(Error::argument("any", "operation", "pending", "an implementation"))
}
/// Over numbers (non-zero) and bools; shape [1].
///
/// # Errors
/// Pending.
pub fn all(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let _ = (&tensor, &store);
    Err(Error::argument("all", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn any_dim(tensor: Tensor, axis: usize, store: BoolStore) -> Result<Tensor> {
    let _ = (&tensor, &axis, &store);
    Err(Error::argument("any_dim", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn all_dim(tensor: Tensor, axis: usize, store: BoolStore) -> Result<Tensor> {
    let _ = (&tensor, &axis, &store);
    Err(Error::argument("all_dim", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cumsum(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("cumsum", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cumprod(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("cumprod", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cummin(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("cummin", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cummax(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis);
    Err(Error::argument("cummax", "operation", "pending", "an implementation"))
}
