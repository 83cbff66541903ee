//! Tensors of indices in the dtype that the caller asks for.

use crate::error::Result;
use crate::{DType, Element, Tensor};

/// Converts I64 indices, which have been [checked](crate::error::check_index_dtype) to fit.
pub(crate) fn into_index_dtype(op: &'static str, indices: Tensor, dtype: DType) -> Result<Tensor> {
    if dtype == DType::I64 {
        return Ok(indices);
    }
    let indices = indices.into_contiguous()?;
    let from = &indices.storage::<i64>()[indices.layout().span()];
    // Indices are not negative, so signed and unsigned dtypes hold the same bits.
    dispatch!(bits op, dtype, I => {
        Tensor::build::<I>(op, indices.shape().clone(), dtype, |out| {
            for (o, &i) in out.iter_mut().zip(from) {
                *o = I::from_i64(i);
            }
        })
    })
}
