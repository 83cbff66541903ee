//! Takes Burn's `TensorData` apart.

use super::burn_backend::{DType, Shape, TensorData};
use super::burn_std::Bytes;

pub(super) fn parts(data: TensorData) -> (Bytes, Shape, DType) {
    let (shape, dtype) = (data.shape().clone(), data.dtype());
    (data.into_bytes(), shape, dtype)
}
