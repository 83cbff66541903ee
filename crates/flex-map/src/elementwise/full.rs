//! Tensors of one number.

#[cfg(feature = "std")]
use super::deferred;
use crate::error::Result;
use crate::{DType, Scalar, Shape, Tensor};

/// A row-major tensor with every element set to `value` (converted by [`Scalar::cast`]). A large one takes no
/// memory until its bytes are read (see [`deferred`](super::deferred)).
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Memory`](crate::Error::Memory).
pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
    let (shape, value) = (shape.into(), value.into());
    #[cfg(feature = "std")]
    if let Some(constant) = deferred::constant(&shape, value, dtype)? {
        return Ok(constant);
    }
    Tensor::full(shape, value, dtype)
}
