//! The size of each axis.

use crate::small::collected;
use core::fmt;
use core::ops::{Deref, DerefMut};
use smallvec::SmallVec;

/// Number of axes that shapes and strides hold without an allocation.
pub(super) const INLINE_AXES: usize = 5;

/// The size of each axis of a tensor, outermost first; a single number has no axes.
///
/// A `Shape` dereferences to the slice `[usize]`, and converts from everything that can be read as such a
/// slice: arrays, vectors, slices, and the shapes of front ends. Up to five axes need no allocation.
#[derive(PartialEq, Eq, Hash)]
pub struct Shape {
    axes: SmallVec<[usize; INLINE_AXES]>,
}

impl Shape {
    /// The shape of these sizes.
    #[inline]
    pub fn new<const RANK: usize>(sizes: [usize; RANK]) -> Self {
        Self { axes: copy_axes(&sizes) }
    }

    /// The shape of sizes that are in a list of the right type already.
    #[inline]
    pub(super) fn from_axes(axes: SmallVec<[usize; INLINE_AXES]>) -> Self {
        Self { axes }
    }

    /// The sizes.
    #[inline]
    pub fn as_slice(&self) -> &[usize] {
        &self.axes
    }

    /// The sizes, mutable.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [usize] {
        &mut self.axes
    }

    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Number of elements: the product of the sizes, which wraps on overflow.
    /// [`checked_num_elements`](super::checked_num_elements) detects the overflow.
    #[inline]
    pub fn num_elements(&self) -> usize {
        let mut count = 1;
        for &size in &self.axes {
            // The early exit keeps the compiler from unrolling the loop by eight, which costs nine
            // instructions more for one axis. Every operation asks several times.
            if size == 0 {
                return 0;
            }
            count *= size;
        }
        count
    }

    /// Adds an innermost axis.
    pub fn push(&mut self, size: usize) {
        self.axes.push(size);
    }

    /// Inserts an axis, which becomes axis `axis`.
    ///
    /// # Panics
    /// When `axis` is larger than the rank.
    pub fn insert(&mut self, axis: usize, size: usize) {
        self.axes.insert(axis, size);
    }

    /// Removes an axis and returns its size.
    ///
    /// # Panics
    /// When there is no such axis.
    pub fn remove(&mut self, axis: usize) -> usize {
        self.axes.remove(axis)
    }
}

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Self {
        Self { axes: copy_axes(&self.axes) }
    }
}

/// A copy of a list with one number for each axis.
///
/// Cloning a `SmallVec` pushes element by element, and `from_slice` calls `memcpy`. The processor stalls on
/// these few bytes when the list is then moved in whole vectors. Here the compiler knows all elements. A
/// layout is copied with every tensor.
#[inline]
pub(super) fn copy_axes<T: Copy + Default>(axes: &[T]) -> SmallVec<[T; INLINE_AXES]> {
    let none = T::default();
    let known = match *axes {
        [] => [none; INLINE_AXES],
        [a] => [a, none, none, none, none],
        [a, b] => [a, b, none, none, none],
        [a, b, c] => [a, b, c, none, none],
        [a, b, c, d] => [a, b, c, d, none],
        [a, b, c, d, e] => [a, b, c, d, e],
        _ => return SmallVec::from_slice(axes),
    };
    SmallVec::from_buf_and_len(known, axes.len())
}

impl<T: AsRef<[usize]>> From<T> for Shape {
    #[inline]
    fn from(sizes: T) -> Self {
        Self { axes: copy_axes(sizes.as_ref()) }
    }
}

impl From<&Shape> for Shape {
    #[inline]
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(sizes: I) -> Self {
        Self { axes: collected(sizes.into_iter()) }
    }
}

impl Deref for Shape {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        &self.axes
    }
}

impl DerefMut for Shape {
    #[inline]
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.axes
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.axes.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn shapes_of_every_rank_survive_copies() {
        for rank in 0..9 {
            let sizes: Vec<usize> = (2..2 + rank).collect();
            let shape = Shape::from(&sizes);
            assert_eq!((shape.as_slice(), shape.rank()), (&sizes[..], rank));
            assert_eq!(shape.clone(), shape);
            assert_eq!(sizes.iter().copied().collect::<Shape>(), shape);
            assert_eq!(shape.num_elements(), sizes.iter().product::<usize>());
        }
    }
}
