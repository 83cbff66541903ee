//! Takes Burn's `TensorData` apart.

use super::burn_backend::{DType, Shape, TensorData};
use super::burn_std::Bytes;

pub(super) fn parts(data: TensorData) -> (Bytes, Shape, DType) {
    (data.bytes, data.shape, data.dtype)
}
