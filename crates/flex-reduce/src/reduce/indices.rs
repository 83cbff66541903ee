//! Tensors of indices in the dtype that the caller asks for.

use crate::error::{Error, Result};
use crate::{DType, Element, Tensor};

/// `Ok` when `dtype` is an integer dtype that can hold every index of an axis of `size` elements.
pub(crate) fn check_index_dtype(op: &'static str, dtype: DType, size: usize) -> Result<()> {
    let values = dtype.integer_range().ok_or_else(|| Error::dtype(op, dtype, "an integer dtype"))?;
    if size as i128 - 1 > *values.end() {
        let expected = alloc::format!("a dtype that holds indices up to {}", size - 1);
        return Err(Error::argument(op, "index dtype", dtype.name(), expected));
    }
    Ok(())
}

/// Converts I64 indices, which have been [checked](check_index_dtype) to fit.
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
