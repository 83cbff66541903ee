//! The parts of Burn's data.

use super::burn_backend::{DType, Shape, TensorData};
use super::burn_std::Bytes;

pub(super) fn parts(data: TensorData) -> (Bytes, Shape, DType) {
    (data.bytes, data.shape, data.dtype)
}
