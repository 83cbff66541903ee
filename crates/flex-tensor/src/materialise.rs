//! Row-major copies of views.

use crate::Tensor;
use crate::error::Result;
use crate::walk::copy_to_contiguous;

impl Tensor {
    /// A tensor with the same elements in row-major order, in a buffer of its own.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) when the system has no room for the copy; the error of a
    /// computation that provides the bytes.
    pub fn materialise(&self) -> Result<Self> {
        // Before there is memory for the copy, which a computation may need too.
        self.evaluate()?;
        dispatch!(bits "contiguous", self.dtype(), T => {
            Tensor::build::<T>("contiguous", self.shape().clone(), self.dtype(), |out| {
                copy_to_contiguous(self.storage::<T>(), self.layout(), out);
            })
        })
    }
}
