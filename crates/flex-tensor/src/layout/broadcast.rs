//! Broadcasting by NumPy's rule: axes are aligned at the right.

use super::{Layout, Shape, checked_num_elements};
use crate::error::{Error, Result};

/// The shape that two operands broadcast to: axes are aligned at the right, and axes of size one stretch.
///
/// # Errors
/// [`Error::ShapeMismatch`] when two sizes differ and neither is one; [`Error::Overflow`].
pub fn broadcast_shapes(op: &'static str, lhs: &[usize], rhs: &[usize]) -> Result<Shape> {
    let rank = lhs.len().max(rhs.len());
    let size_of =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    let mut out = smallvec::SmallVec::with_capacity(rank);
    for axis in 0..rank {
        out.push(match (size_of(lhs, axis), size_of(rhs, axis)) {
            (a, b) if a == b => a,
            (1, b) => b,
            (a, 1) => a,
            _ => return Err(Error::shapes(op, lhs, rhs, "equal sizes, or size 1, on every axis")),
        });
    }
    checked_num_elements(op, &out)?;
    Ok(Shape::from_axes(out))
}

/// The view of `layout` with the shape `target`; stretched axes have stride zero.
///
/// # Errors
/// [`Error::ShapeMismatch`] when an axis has neither the target's size nor size one, or when the target has
/// fewer axes.
pub fn expand_like(op: &'static str, layout: &Layout, target: &[usize]) -> Result<Layout> {
    let mismatch = || {
        Error::shapes(op, &layout.shape, target, "the first to stretch to the second along axes of size 1")
    };
    let lead = target.len().checked_sub(layout.rank()).ok_or_else(mismatch)?;
    checked_num_elements(op, target)?;
    let mut strides = super::Strides::from_elem(0, target.len());
    for axis in 0..layout.rank() {
        let (have, want) = (layout.shape[axis], target[lead + axis]);
        if have == want {
            strides[lead + axis] = layout.strides[axis];
        } else if have != 1 {
            return Err(mismatch());
        }
    }
    Ok(Layout { shape: Shape::from(target), strides, offset: layout.offset })
}

/// The stride of an operand along axis `axis` of `shape`, the shape that the operand broadcasts to; zero
/// where it is stretched.
pub fn stretched_stride(layout: &Layout, shape: &[usize], axis: usize) -> isize {
    match (axis + layout.rank()).checked_sub(shape.len()) {
        Some(own) if layout.shape()[own] == shape[axis] => layout.strides()[own],
        _ => 0,
    }
}
