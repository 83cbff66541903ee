//! Convolutions and their gradients (conv_bias_backward also serves transposed convolutions).

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// Options of a convolution over N spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ConvOptions<const N: usize> {
    pub stride: [usize; N],
    pub padding: [usize; N],
    pub dilation: [usize; N],
    pub groups: usize,
}
/// Options of a transposed convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ConvTransposeOptions<const N: usize> {
    pub stride: [usize; N],
    pub padding: [usize; N],
    pub padding_out: [usize; N],
    pub dilation: [usize; N],
    pub groups: usize,
}
/// Options of `deform_conv2d`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DeformConvOptions {
    pub stride: [usize; 2],
    pub padding: [usize; 2],
    pub dilation: [usize; 2],
    pub weight_groups: usize,
    pub offset_groups: usize,
}
/// Options of `unfold4d`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct UnfoldOptions {
    pub stride: [usize; 2],
    pub padding: [usize; 2],
    pub dilation: [usize; 2],
}
/// Gradients of `deform_conv2d`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct DeformConvGradients {
    pub x: Tensor,
    pub offset: Tensor,
    pub weight: Tensor,
    pub mask: Option<Tensor>,
    pub bias: Option<Tensor>,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &weight, &bias, &options);
    Err(Error::argument("conv", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv_x_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &weight, &grad, &options);
    Err(Error::argument("conv_x_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &weight, &grad, &options);
    Err(Error::argument("conv_weight_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv_bias_backward<const N: usize>(bias: Tensor, grad: Tensor) -> Result<Tensor> {
    let _ = (&bias, &grad);
    Err(Error::argument("conv_bias_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv_transpose<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &weight, &bias, &options);
    Err(Error::argument("conv_transpose", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv_transpose_x_backward<const N: usize>(
    weight: Tensor,
    grad: Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let _ = (&weight, &grad, &options);
    Err(Error::argument("conv_transpose_x_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn conv_transpose_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &weight, &grad, &options);
    Err(Error::argument("conv_transpose_weight_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: &DeformConvOptions,
) -> Result<Tensor> {
    let _ = (&x, &offset, &weight, &mask, &bias, &options);
    Err(Error::argument("deform_conv2d", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn deform_conv2d_backward(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    grad: Tensor,
    options: &DeformConvOptions,
) -> Result<DeformConvGradients> {
    let _ = (&x, &offset, &weight, &mask, &bias, &grad, &options);
    Err(Error::argument("deform_conv2d_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn unfold4d(x: Tensor, kernel: [usize; 2], options: &UnfoldOptions) -> Result<Tensor> {
    let _ = (&x, &kernel, &options);
    Err(Error::argument("unfold4d", "operation", "pending", "an implementation"))
}
