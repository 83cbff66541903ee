//! Row-major copies of views.

use crate::Tensor;
use crate::error::Result;
use crate::walk::copy_to_contiguous;

/// A tensor of the same elements in row-major order, over a buffer of its own.
pub(crate) fn materialise(tensor: &Tensor) -> Result<Tensor> {
    dispatch!(bits "contiguous", tensor.dtype(), T => {
        Tensor::build::<T>("contiguous", tensor.shape().clone(), tensor.dtype(), |out| {
            copy_to_contiguous(tensor.storage::<T>(), tensor.layout(), out);
        })
    })
}
