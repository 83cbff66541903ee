//! Elementwise operations.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// One-operand operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Abs,
    Neg,
    Sign,
    Recip,
    Sqrt,
    Exp,
    Expm1,
    Ln,
    Log1p,
    Sin,
    Cos,
    Tan,
    Sinh,
    Cosh,
    Tanh,
    Asin,
    Acos,
    Atan,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Floor,
    Ceil,
    Trunc,
    Round,
    Relu,
    Sigmoid,
    LogSigmoid,
    Gelu,
    Silu,
    BitNot,
}
/// Two-operand operations. `Rem` has the sign of the divisor (Python). The `*Grad` ones take (input or output as Burn's trait names it, grad).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    Atan2,
    Max,
    Min,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    ReluGrad,
    SigmoidGrad,
    GeluGrad,
    LogSigmoidGrad,
}
/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}
/// Boolean connectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Logical {
    And,
    Or,
    Xor,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn unary(op: Unary, tensor: Tensor) -> Result<Tensor> {
    let _ = (&op, &tensor);
    Err(Error::argument("unary", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn binary(op: Binary, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    let _ = (&op, &lhs, &rhs);
    Err(Error::argument("binary", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn binary_scalar(op: Binary, lhs: Tensor, rhs: Scalar) -> Result<Tensor> {
    let _ = (&op, &lhs, &rhs);
    Err(Error::argument("binary_scalar", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn scalar_binary(op: Binary, lhs: Scalar, rhs: Tensor) -> Result<Tensor> {
    let _ = (&op, &lhs, &rhs);
    Err(Error::argument("scalar_binary", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn compare(op: Compare, lhs: Tensor, rhs: Tensor, store: BoolStore) -> Result<Tensor> {
    let _ = (&op, &lhs, &rhs, &store);
    Err(Error::argument("compare", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn compare_scalar(op: Compare, lhs: Tensor, rhs: Scalar, store: BoolStore) -> Result<Tensor> {
    let _ = (&op, &lhs, &rhs, &store);
    Err(Error::argument("compare_scalar", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn logical(op: Logical, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    let _ = (&op, &lhs, &rhs);
    Err(Error::argument("logical", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn logical_not(tensor: Tensor) -> Result<Tensor> {
    let _ = (&tensor);
    Err(Error::argument("logical_not", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn is_nan(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let _ = (&tensor, &store);
    Err(Error::argument("is_nan", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn is_inf(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    let _ = (&tensor, &store);
    Err(Error::argument("is_inf", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn clamp(tensor: Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let _ = (&tensor, &min, &max);
    Err(Error::argument("clamp", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn mask_where(tensor: Tensor, mask: Tensor, value: Tensor) -> Result<Tensor> {
    let _ = (&tensor, &mask, &value);
    Err(Error::argument("mask_where", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn mask_fill(tensor: Tensor, mask: Tensor, value: Scalar) -> Result<Tensor> {
    let _ = (&tensor, &mask, &value);
    Err(Error::argument("mask_fill", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn cast(tensor: Tensor, dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &dtype);
    Err(Error::argument("cast", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn leaky_relu(tensor: Tensor, slope: f64) -> Result<Tensor> {
    let _ = (&tensor, &slope);
    Err(Error::argument("leaky_relu", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn prelu(tensor: Tensor, alpha: Tensor) -> Result<Tensor> {
    let _ = (&tensor, &alpha);
    Err(Error::argument("prelu", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn hard_sigmoid(tensor: Tensor, alpha: f64, beta: f64) -> Result<Tensor> {
    let _ = (&tensor, &alpha, &beta);
    Err(Error::argument("hard_sigmoid", "operation", "pending", "an implementation"))
}
