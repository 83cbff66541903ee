//! Image resampling.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// Interpolation kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Interpolation {
    Nearest,
    Bilinear,
    Bicubic,
    Lanczos3,
}
/// What lies outside of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GridPadding {
    Zeros,
    Border,
    Reflection,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn interpolate(x: Tensor, size: [usize; 2], mode: Interpolation, align_corners: bool) -> Result<Tensor> {
    let _ = (&x, &size, &mode, &align_corners);
    Err(Error::argument("interpolate", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn interpolate_backward(
    x: Tensor,
    grad: Tensor,
    size: [usize; 2],
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    let _ = (&x, &grad, &size, &mode, &align_corners);
    Err(Error::argument("interpolate_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: Interpolation,
    padding: GridPadding,
    align_corners: bool,
) -> Result<Tensor> {
    let _ = (&x, &grid, &mode, &padding, &align_corners);
    Err(Error::argument("grid_sample", "operation", "pending", "an implementation"))
}
