//! Pooling over one or two spatial axes.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// Options of max pooling.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MaxPoolOptions<const N: usize> {
    pub kernel: [usize; N],
    pub stride: [usize; N],
    pub padding: [usize; N],
    pub dilation: [usize; N],
    pub ceil_mode: bool,
}
/// Options of average pooling.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AvgPoolOptions<const N: usize> {
    pub kernel: [usize; N],
    pub stride: [usize; N],
    pub padding: [usize; N],
    pub count_include_pad: bool,
    pub ceil_mode: bool,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn max_pool<const N: usize>(x: Tensor, options: &MaxPoolOptions<N>) -> Result<Tensor> {
    let _ = (&x, &options);
    Err(Error::argument("max_pool", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn max_pool_with_indices<const N: usize>(
    x: Tensor,
    options: &MaxPoolOptions<N>,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let _ = (&x, &options, &index_dtype);
    Err(Error::argument("max_pool_with_indices", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn max_pool_backward<const N: usize>(
    x: Tensor,
    grad: Tensor,
    indices: Tensor,
    options: &MaxPoolOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &grad, &indices, &options);
    Err(Error::argument("max_pool_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn avg_pool<const N: usize>(x: Tensor, options: &AvgPoolOptions<N>) -> Result<Tensor> {
    let _ = (&x, &options);
    Err(Error::argument("avg_pool", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn avg_pool_backward<const N: usize>(
    x: Tensor,
    grad: Tensor,
    options: &AvgPoolOptions<N>,
) -> Result<Tensor> {
    let _ = (&x, &grad, &options);
    Err(Error::argument("avg_pool_backward", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn adaptive_avg_pool<const N: usize>(x: Tensor, size: [usize; N]) -> Result<Tensor> {
    let _ = (&x, &size);
    Err(Error::argument("adaptive_avg_pool", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn adaptive_avg_pool_backward<const N: usize>(x: Tensor, grad: Tensor) -> Result<Tensor> {
    let _ = (&x, &grad);
    Err(Error::argument("adaptive_avg_pool_backward", "operation", "pending", "an implementation"))
}
