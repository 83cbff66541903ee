//! Matrix products.

#[allow(dead_code)] // Until the operations use all of it.
pub(crate) mod gemm;

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
pub fn matmul(lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    let _ = (&lhs, &rhs);
    Err(Error::argument("matmul", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn linear(x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Result<Tensor> {
    let _ = (&x, &weight, &bias);
    Err(Error::argument("linear", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn linear_x_backward(weight: Tensor, grad: Tensor) -> Result<Tensor> {
    let _ = (&weight, &grad);
    Err(Error::argument("linear_x_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn linear_weight_backward(x: Tensor, grad: Tensor) -> Result<Tensor> {
    let _ = (&x, &grad);
    Err(Error::argument("linear_weight_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn linear_bias_backward(grad: Tensor) -> Result<Tensor> {
    let _ = (&grad);
    Err(Error::argument("linear_bias_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cross(lhs: Tensor, rhs: Tensor, axis: usize) -> Result<Tensor> {
    let _ = (&lhs, &rhs, &axis);
    Err(Error::argument("cross", "operation", "pending", "an implementation"))
}
