//! Shape, signed strides and start offset: the positions of a tensor's elements in its buffer, and the
//! algebra of views.

mod broadcast;
mod shape;
mod slice;
mod view;

pub use broadcast::stretched_stride;
pub use broadcast::{broadcast_shapes, expand_like};
pub use shape::Shape;
pub use slice::Slice;

use crate::error::{Error, Result};
use crate::small::sort_by_key;
use core::cmp::Reverse;
use shape::{INLINE_AXES, copy_axes};
use smallvec::SmallVec;

/// Signed strides, in elements.
pub type Strides = SmallVec<[isize; INLINE_AXES]>;

/// The positions of a tensor's elements: the element with index `(i0, i1, ...)` lies at
/// `offset + i0*strides[0] + i1*strides[1] + ...` elements from the start of the buffer.
///
/// Strides may be negative (flipped axes), zero (expanded axes) or overlap (unfolded windows). Invariant:
/// every element of the shape has a non-negative position; a [`Tensor`](crate::Tensor) also guarantees that
/// it lies inside the buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    strides: Strides,
    offset: usize,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Self {
        Self { shape: self.shape.clone(), strides: copy_axes(&self.strides), offset: self.offset }
    }
}

/// Number of elements of a shape.
///
/// # Errors
/// [`Error::Overflow`] when the product, at 8 bytes each, exceeds `isize::MAX`. An axis of size zero does not
/// hide an overflow of the other sizes, since strides are computed from them.
#[inline]
pub fn checked_num_elements(op: &'static str, shape: &[usize]) -> Result<usize> {
    let (mut product, mut fits, mut empty) = (1usize, true, false);
    for &size in shape {
        let (wider, overflows) = product.overflowing_mul(size.max(1));
        product = wider;
        fits &= !overflows;
        empty |= size == 0;
    }
    if !fits || product > isize::MAX as usize / 8 {
        return Err(Error::Overflow { op, shape: shape.to_vec() });
    }
    Ok(if empty { 0 } else { product })
}

/// Strides of a row-major tensor of this shape, in elements.
#[inline]
pub fn contiguous_strides(shape: &[usize]) -> Strides {
    let step = |size: usize| size.max(1) as isize;
    // Separate cases, so that the compiler knows all elements, as in `copy_axes`.
    match *shape {
        [_] => Strides::from_buf_and_len([1, 0, 0, 0, 0], 1),
        [_, b] => Strides::from_buf_and_len([step(b), 1, 0, 0, 0], 2),
        [_, b, c] => Strides::from_buf_and_len([step(b).wrapping_mul(step(c)), step(c), 1, 0, 0], 3),
        _ => {
            let mut strides: Strides = SmallVec::from_elem(0, shape.len());
            let mut total = 1isize;
            for (stride, &size) in strides.iter_mut().zip(shape).rev() {
                *stride = total;
                total = total.wrapping_mul(step(size));
            }
            strides
        }
    }
}

impl Layout {
    /// Row-major layout from offset zero.
    pub fn contiguous(shape: Shape) -> Self {
        let strides = contiguous_strides(&shape);
        Self { shape, strides, offset: 0 }
    }

    /// [`contiguous`](Self::contiguous) for a borrowed shape, which is copied.
    #[inline]
    pub fn contiguous_like(shape: &Shape) -> Self {
        // Computed from the original: computing from the copy would force the copy into memory.
        let strides = contiguous_strides(shape);
        Self { shape: shape.clone(), strides, offset: 0 }
    }

    /// The layout of one element, of shape `[1]`. Its parts are constants: if they were written number by
    /// number, the processor would stall when the layout is then moved in vectors.
    pub fn single() -> Self {
        let shape = SmallVec::from_buf_and_len([1, 0, 0, 0, 0], 1);
        Self {
            shape: Shape::from_axes(shape),
            strides: Strides::from_buf_and_len([1, 0, 0, 0, 0], 1),
            offset: 0,
        }
    }

    /// A layout from its parts.
    ///
    /// # Panics
    /// When shape and strides differ in length, or when an element would lie before the start of the buffer
    /// or beyond `isize::MAX`.
    pub fn new(shape: Shape, strides: Strides, offset: usize) -> Self {
        assert_eq!(shape.len(), strides.len(), "Layout: shape and strides differ in rank");
        let layout = Self { shape, strides, offset };
        let reach = layout.reach();
        assert!(reach.is_some(), "Layout: an element would lie before the start of the buffer, or too far");
        layout
    }

    /// Size of each axis.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Distance in elements between neighbours along each axis.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Position of the first element (index zero on all axes).
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape.num_elements()
    }

    /// Whether the elements lie in row-major order without gaps, from [`offset`](Self::offset) on. The
    /// strides of axes of size one do not matter. An empty tensor is contiguous.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
            match size {
                0 => return true,
                1 => {}
                _ if stride != step => {
                    // A zero-sized axis further out still makes the tensor empty, hence contiguous.
                    return self.shape.contains(&0);
                }
                _ => step *= size as isize,
            }
        }
        true
    }

    /// The axes from the largest absolute stride to the smallest: the order in which elements lie in memory.
    /// Axes of equal strides keep their order.
    pub fn axes_by_stride(&self) -> SmallVec<[usize; 6]> {
        let rank = self.rank();
        let few = [0, 1, 2, 3, 4, 5];
        // `collect` checks the room for every axis, half of the time of the whole function.
        let mut order: SmallVec<[usize; 6]> =
            if rank <= few.len() { SmallVec::from_buf_and_len(few, rank) } else { (0..rank).collect() };
        sort_by_key(&mut order, |&axis| Reverse(self.strides[axis].unsigned_abs()));
        order
    }

    /// Whether the elements fill one gapless range of the buffer, each exactly once, in any order of axes and
    /// directions (transposed, permuted, flipped). Such tensors can be processed as one flat run.
    pub fn is_dense(&self) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let mut step = 1usize;
        for &axis in self.axes_by_stride().iter().rev().filter(|&&axis| self.shape[axis] != 1) {
            if self.strides[axis].unsigned_abs() != step {
                return false;
            }
            step *= self.shape[axis];
        }
        true
    }

    /// The lowest and the highest position of an element; `None` when one is negative or too large for
    /// `isize`.
    fn reach(&self) -> Option<(usize, usize)> {
        let offset = isize::try_from(self.offset).ok()?;
        let (mut low, mut high) = (offset, offset);
        if !self.shape.contains(&0) {
            for (&size, &stride) in self.shape.iter().zip(&self.strides) {
                let reach = isize::try_from(size - 1).ok()?.checked_mul(stride)?;
                let end = if stride < 0 { &mut low } else { &mut high };
                *end = end.checked_add(reach)?;
            }
        }
        Some((usize::try_from(low).ok()?, usize::try_from(high).ok()?))
    }

    /// The half-open range of buffer positions that the elements touch; empty for an empty tensor.
    pub fn span(&self) -> core::ops::Range<usize> {
        if self.shape.contains(&0) {
            return self.offset..self.offset;
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            // Saturates, so that no buffer holds a layout that is too large: a shape alone may be that large.
            let reach = (size - 1).saturating_mul(stride.unsigned_abs());
            if stride < 0 {
                low -= reach;
            } else {
                high = high.saturating_add(reach);
            }
        }
        low..high.saturating_add(1)
    }

    /// Position of the element with this index.
    ///
    /// # Panics
    /// When the index lies outside the shape.
    pub fn position(&self, index: &[usize]) -> usize {
        assert!(
            index.len() == self.rank() && index.iter().zip(self.shape.iter()).all(|(i, s)| i < s),
            "Layout: index {index:?} lies outside of shape {:?}",
            self.shape.as_slice()
        );
        let delta: isize = index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s).sum();
        self.offset.wrapping_add_signed(delta)
    }
}

/// All indices of a shape in row-major order, for tests that visit element by element.
#[doc(hidden)]
pub fn coordinates(shape: &[usize]) -> alloc::vec::Vec<alloc::vec::Vec<usize>> {
    let mut list = alloc::vec![alloc::vec![]];
    for &size in shape {
        list = list
            .into_iter()
            .flat_map(|index| (0..size).map(move |i| [index.clone(), alloc::vec![i]].concat()))
            .collect();
    }
    list
}

#[cfg(test)]
mod tests;
