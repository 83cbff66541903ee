//! The one error type of the engine: the operation, the argument it got, and the argument it expected.

use crate::DType;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::RangeInclusive;

/// Result of an engine operation.
pub type Result<T> = core::result::Result<T, Error>;

/// The reason why an operation rejected its arguments. Every message starts with the operation's name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two operands whose shapes cannot be combined.
    #[error("{op}: shapes {lhs:?} and {rhs:?} do not fit together, expected {expected}")]
    ShapeMismatch {
        /// Operation.
        op: &'static str,
        /// Shape of the left or first operand.
        lhs: Vec<usize>,
        /// Shape of the right or second operand.
        rhs: Vec<usize>,
        /// Shapes that would have been accepted.
        expected: Cow<'static, str>,
    },
    /// One operand of the wrong shape or rank.
    #[error("{op}: got a tensor of shape {got:?}, expected {expected}")]
    Shape {
        /// Operation.
        op: &'static str,
        /// The rejected shape.
        got: Vec<usize>,
        /// Shapes that would have been accepted.
        expected: Cow<'static, str>,
    },
    /// An axis that the tensor does not have.
    #[error("{op}: axis {axis} is out of range for a tensor of rank {rank}")]
    Axis {
        /// Operation.
        op: &'static str,
        /// The rejected axis.
        axis: usize,
        /// Rank of the tensor.
        rank: usize,
    },
    /// A dtype that the operation is not defined for.
    #[error("{op}: dtype {got} is not supported, expected {expected}")]
    DType {
        /// Operation.
        op: &'static str,
        /// Name of the rejected dtype. A name, since front ends reject dtypes that the engine does not have.
        got: &'static str,
        /// Dtypes that would have been accepted.
        expected: &'static str,
    },
    /// Two operands that should share a dtype and do not.
    #[error("{op}: operands have dtypes {} and {}, expected the same dtype", lhs.name(), rhs.name())]
    DTypeMismatch {
        /// Operation.
        op: &'static str,
        /// Dtype of the left or first operand.
        lhs: DType,
        /// Dtype of the right or second operand.
        rhs: DType,
    },
    /// An index outside the axis.
    #[error("{op}: index {index} is out of range for axis {axis} of size {size}")]
    Index {
        /// Operation.
        op: &'static str,
        /// The rejected index.
        index: i128,
        /// The axis.
        axis: usize,
        /// Size of that axis; valid indices are `0..size`.
        size: usize,
    },
    /// A parameter outside its domain.
    #[error("{op}: {name} is {got}, expected {expected}")]
    Argument {
        /// Operation.
        op: &'static str,
        /// The parameter.
        name: &'static str,
        /// The rejected value.
        got: String,
        /// Values that would have been accepted.
        expected: Cow<'static, str>,
    },
    /// A shape whose element or byte count does not fit the address space.
    #[error("{op}: a tensor of shape {shape:?} has more elements than memory can address")]
    Overflow {
        /// Operation.
        op: &'static str,
        /// The rejected shape.
        shape: Vec<usize>,
    },
    /// A result, or working memory, that fits the address space, but not the memory that the system has left.
    #[error("{op}: {} needs {bytes} bytes, more than the system has left", holder(shape))]
    Memory {
        /// Operation.
        op: &'static str,
        /// Shape of the result; empty for working memory.
        shape: Vec<usize>,
        /// The bytes that were asked for.
        bytes: usize,
    },
}

/// The user of the memory that is missing, for the message.
fn holder(shape: &[usize]) -> Cow<'static, str> {
    match shape {
        [] => "working memory".into(),
        _ => alloc::format!("a tensor of shape {shape:?}").into(),
    }
}

impl Error {
    /// The same error under the name of another operation, for operations built from the one that failed.
    #[cold]
    pub fn named(mut self, name: &'static str) -> Self {
        match &mut self {
            Self::ShapeMismatch { op, .. }
            | Self::Shape { op, .. }
            | Self::Axis { op, .. }
            | Self::DType { op, .. }
            | Self::DTypeMismatch { op, .. }
            | Self::Index { op, .. }
            | Self::Argument { op, .. }
            | Self::Overflow { op, .. }
            | Self::Memory { op, .. } => *op = name,
        }
        self
    }

    /// [`Error::ShapeMismatch`] from two shapes.
    #[cold]
    pub fn shapes(
        op: &'static str,
        lhs: &[usize],
        rhs: &[usize],
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::ShapeMismatch { op, lhs: lhs.to_vec(), rhs: rhs.to_vec(), expected: expected.into() }
    }

    /// [`Error::Shape`] from a shape.
    #[cold]
    pub fn shape(op: &'static str, got: &[usize], expected: impl Into<Cow<'static, str>>) -> Self {
        Self::Shape { op, got: got.to_vec(), expected: expected.into() }
    }

    /// [`Error::DType`] from a dtype.
    #[cold]
    pub fn dtype(op: &'static str, got: DType, expected: &'static str) -> Self {
        Self::DType { op, got: got.name(), expected }
    }

    /// [`Error::Argument`] from any value that can be printed.
    #[cold]
    pub fn argument(
        op: &'static str,
        name: &'static str,
        got: impl Display,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Argument { op, name, got: got.to_string(), expected: expected.into() }
    }

    /// [`Error::Index`] from any integer.
    #[cold]
    pub fn index(op: &'static str, index: impl Into<i128>, axis: usize, size: usize) -> Self {
        Self::Index { op, index: index.into(), axis, size }
    }
}

/// The values of an integer dtype.
///
/// # Errors
/// A dtype that is not an integer.
pub fn integer_range(op: &'static str, dtype: DType) -> Result<RangeInclusive<i128>> {
    dtype.integer_range().ok_or_else(|| Error::dtype(op, dtype, "an integer dtype"))
}

/// `Ok` when `dtype` is an integer dtype that can hold every index of an axis of `size` elements.
pub fn check_index_dtype(op: &'static str, dtype: DType, size: usize) -> Result<()> {
    let values = integer_range(op, dtype)?;
    if size as i128 - 1 > *values.end() {
        let expected = alloc::format!("a dtype that holds indices up to {}", size - 1);
        return Err(Error::argument(op, "index dtype", dtype.name(), expected));
    }
    Ok(())
}

/// `Ok` when `axis` exists in a tensor of `rank` axes.
pub fn check_axis(op: &'static str, axis: usize, rank: usize) -> Result<()> {
    if axis < rank { Ok(()) } else { Err(Error::Axis { op, axis, rank }) }
}

/// `Ok` when both dtypes are the same.
pub fn check_same_dtype(op: &'static str, lhs: DType, rhs: DType) -> Result<()> {
    if lhs == rhs { Ok(()) } else { Err(Error::DTypeMismatch { op, lhs, rhs }) }
}

/// `Ok` when a tensor has the rank that `expected` describes.
pub fn check_rank(op: &'static str, shape: &[usize], rank: usize, expected: &'static str) -> Result<()> {
    if shape.len() == rank { Ok(()) } else { Err(Error::shape(op, shape, expected)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_op_what_came_and_what_was_needed() {
        let e = Error::shapes("matmul", &[2, 3], &[4, 5], "equal inner dimensions");
        assert_eq!(
            e.to_string(),
            "matmul: shapes [2, 3] and [4, 5] do not fit together, expected equal inner dimensions"
        );
        let e = Error::dtype("exp", DType::I32, "a float dtype");
        assert_eq!(e.to_string(), "exp: dtype i32 is not supported, expected a float dtype");
        assert!(check_axis("sum", 2, 2).unwrap_err().to_string().starts_with("sum: axis 2"));
        assert!(check_axis("sum", 2, 2).unwrap_err().named("var").to_string().starts_with("var: axis 2"));
    }
}
