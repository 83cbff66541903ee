//! Real Fourier transforms.

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
pub fn rfft(signal: Tensor, axis: usize, n: Option<usize>) -> Result<(Tensor, Tensor)> {
    let _ = (&signal, &axis, &n);
    Err(Error::argument("rfft", "operation", "pending", "an implementation"))
}
/// See the module docs.
///
/// # Errors
/// Pending.
pub fn irfft(re: Tensor, im: Tensor, axis: usize, n: Option<usize>) -> Result<Tensor> {
    let _ = (&re, &im, &axis, &n);
    Err(Error::argument("irfft", "operation", "pending", "an implementation"))
}
