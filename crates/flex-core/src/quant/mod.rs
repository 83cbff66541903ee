//! Quantization.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
pub use burn_std::quantization::QuantScheme;
/// A quantized tensor.
#[derive(Clone, Debug)]
pub struct QTensor {
    /// Values, as the scheme stores them.
    pub values: Tensor,
    /// Scales.
    pub scales: Tensor,
    /// Scheme.
    pub scheme: QuantScheme,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn quantize(tensor: Tensor, scales: Tensor, scheme: QuantScheme) -> Result<QTensor> {
    let _ = (&tensor, &scales, &scheme);
    Err(Error::argument("quantize", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn quantize_dynamic(tensor: Tensor, scheme: QuantScheme) -> Result<QTensor> {
    let _ = (&tensor, &scheme);
    Err(Error::argument("quantize_dynamic", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn dequantize(tensor: QTensor, dtype: DType) -> Result<Tensor> {
    let _ = (&tensor, &dtype);
    Err(Error::argument("dequantize", "operation", "pending", "an implementation"))
}
/// Pending.
///
/// # Errors
/// Pending.
pub fn from_bytes(bytes: crate::Bytes, shape: Shape, scheme: QuantScheme) -> Result<QTensor> {
    let _ = (&bytes, &shape, &scheme);
    Err(Error::argument("q_from_data", "operation", "pending", "an implementation"))
}
/// Pending.
///
/// # Errors
/// Pending.
pub fn to_bytes(tensor: QTensor) -> Result<crate::Bytes> {
    let _ = &tensor;
    Err(Error::argument("q_into_data", "operation", "pending", "an implementation"))
}
