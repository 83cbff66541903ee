//! Attention.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// Options of scaled dot-product attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// Score scale, `1/sqrt(d)` by default.
    pub scale: Option<f64>,
    /// Soft cap of the scores.
    pub softcap: Option<f64>,
    /// Mask keys after the query.
    pub is_causal: bool,
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionOptions,
) -> Result<Tensor> {
    let _ = (&query, &key, &value, &mask, &bias, &options);
    Err(Error::argument("attention", "operation", "pending", "an implementation"))
}
