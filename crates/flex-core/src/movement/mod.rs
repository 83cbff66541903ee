//! Data movement.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
pub(crate) mod materialise;
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cat(tensors: Vec<Tensor>, axis: usize) -> Result<Tensor> {
    let _ = (&tensors, &axis);
    Err(Error::argument("cat", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn repeat(tensor: Tensor, axis: usize, times: usize) -> Result<Tensor> {
    let _ = (&tensor, &axis, &times);
    Err(Error::argument("repeat", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn slice_assign(tensor: Tensor, slices: &[Slice], value: Tensor) -> Result<Tensor> {
    let _ = (&tensor, &slices, &value);
    Err(Error::argument("slice_assign", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn arange(start: i64, end: i64, step: usize, dtype: DType) -> Result<Tensor> {
    let _ = (&start, &end, &step, &dtype);
    Err(Error::argument("arange", "operation", "pending", "an implementation"))
}
