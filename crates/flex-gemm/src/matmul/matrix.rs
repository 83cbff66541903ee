//! Matrices inside of slices, whose bounds are checked once.
//!
//! A matrix is a slice, an offset and two strides. Creating a matrix checks that its elements stay inside the
//! slice, so that kernels, which use pointers, cannot be led outside of it by safe code.

use bytemuck::Pod;
use core::ops::Range;

/// The positions of a matrix's elements in a slice: element `(i, j)` is at
/// `offset + i*row_stride + j*col_stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatLayout {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Position of element `(0, 0)`.
    pub offset: usize,
    /// Distance between neighbours in a column, in elements.
    pub row_stride: isize,
    /// Distance between neighbours in a row, in elements.
    pub col_stride: isize,
}

impl MatLayout {
    /// A row-major matrix without gaps, from the start of the slice on.
    pub fn row_major(rows: usize, cols: usize) -> Self {
        Self { rows, cols, offset: 0, row_stride: cols as isize, col_stride: 1 }
    }

    /// A column-major matrix without gaps, from the start of the slice on.
    pub fn col_major(rows: usize, cols: usize) -> Self {
        Self { rows, cols, offset: 0, row_stride: 1, col_stride: rows as isize }
    }

    /// The same layout from another offset on.
    pub fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// The layout with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            offset: self.offset,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// The elements of these rows and columns, which must exist.
    pub(super) fn part(&self, rows: &Range<usize>, cols: &Range<usize>) -> Self {
        let offset = self.position(rows.start, cols.start);
        Self { rows: rows.len(), cols: cols.len(), offset, ..*self }
    }

    /// Position of element `(i, j)`.
    #[inline(always)]
    pub(super) fn position(&self, i: usize, j: usize) -> usize {
        // Wraps only where the matrix has no elements, whose offset and strides are arbitrary.
        let step = |index: usize, stride: isize| (index as isize).wrapping_mul(stride);
        self.offset.wrapping_add_signed(step(i, self.row_stride).wrapping_add(step(j, self.col_stride)))
    }

    /// Whether the rows lie one after the other, without gaps.
    pub(super) fn is_row_major(&self) -> bool {
        self.col_stride == 1 && self.row_stride == self.cols as isize
    }

    /// Whether there are no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Whether every element lies in a slice of `len` elements. Computed without overflow.
    fn fits(&self, len: usize) -> bool {
        if self.is_empty() {
            return true;
        }
        let reach = |size: usize, stride: isize| (size as i128 - 1) * stride as i128;
        let (r, c) = (reach(self.rows, self.row_stride), reach(self.cols, self.col_stride));
        // Each product is below 2^127 in magnitude; the additions are checked.
        let lowest = (self.offset as i128).checked_add(r.min(0)).and_then(|v| v.checked_add(c.min(0)));
        let highest = (self.offset as i128).checked_add(r.max(0)).and_then(|v| v.checked_add(c.max(0)));
        matches!((lowest, highest), (Some(low), Some(high)) if low >= 0 && high < len as i128)
    }

    /// # Panics
    /// When an element lies outside of a slice of `len` elements.
    pub(super) fn check(&self, len: usize) {
        assert!(self.fits(len), "gemm: {self:?} leaves a slice of {len} elements");
    }

    /// Whether no two elements lie at the same position: the inner axis (smaller stride) has a nonzero
    /// stride, and a step of the outer axis passes all of the inner axis.
    fn is_injective(&self) -> bool {
        let (r, c) = (self.row_stride.unsigned_abs() as u128, self.col_stride.unsigned_abs() as u128);
        let (rows, cols) = (self.rows as u128, self.cols as u128);
        match (rows, cols) {
            (0, _) | (_, 0) | (1, 1) => true,
            (_, 1) => r > 0,
            (1, _) => c > 0,
            _ => (c > 0 && r > (cols - 1) * c) || (r > 0 && c > (rows - 1) * r),
        }
    }
}

/// A matrix to read. Invariant: the elements stay inside the slice.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    layout: MatLayout,
}

/// Panics. Compiled once, and not at each place that takes a part.
#[cold]
#[inline(never)]
fn no_such_part(rows: &Range<usize>, cols: &Range<usize>, [r, c]: [usize; 2]) -> ! {
    panic!("gemm: rows {rows:?} and columns {cols:?} of a {r}x{c} matrix");
}

impl<'a, T> MatRef<'a, T> {
    /// The matrix of the elements of `data` that `layout` addresses.
    ///
    /// # Panics
    /// When an element lies outside `data`.
    pub fn new(data: &'a [T], layout: MatLayout) -> Self {
        layout.check(data.len());
        Self { data, layout }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        // The set of positions is the same, so the invariant holds.
        Self { layout: self.layout.transposed(), ..self }
    }

    /// The layout.
    pub fn layout(&self) -> MatLayout {
        self.layout
    }

    /// The matrix of these rows and columns.
    ///
    /// # Panics
    /// When the matrix does not have them.
    pub fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let (r, c) = (self.layout.rows, self.layout.cols);
        if rows.start > rows.end || rows.end > r || cols.start > cols.end || cols.end > c {
            no_such_part(&rows, &cols, [r, c]);
        }
        // The positions are positions of the whole matrix, so the invariant holds.
        Self { data: self.data, layout: self.layout.part(&rows, &cols) }
    }

    /// `len` rows from `first` on.
    ///
    /// # Panics
    /// When the matrix does not have them.
    pub fn rows(self, first: usize, len: usize) -> Self {
        let cols = self.layout.cols;
        self.part(first..first + len, 0..cols)
    }

    /// Where element `(i, j)` lies; dangling if the matrix does not have it.
    #[inline(always)]
    pub(super) fn pointer(&self, i: usize, j: usize) -> *const T {
        self.data.as_ptr().wrapping_add(self.layout.position(i, j))
    }

    /// The whole slice, which the layout's positions index.
    pub fn data(&self) -> &'a [T] {
        self.data
    }
}

impl<'a, T: Pod> MatRef<'a, T> {
    /// The same matrix, whose elements are of type `T` by another name.
    pub(crate) fn cast<U: Pod>(self) -> MatRef<'a, U> {
        // Elements of another size would change the meaning of the layout. As many as before keep the
        // invariant.
        assert!(size_of::<U>() == size_of::<T>(), "gemm: a type of another size");
        MatRef { data: bytemuck::cast_slice(self.data), layout: self.layout }
    }
}

impl<'a, T: Copy> MatRef<'a, T> {
    /// The element `(i, j)`.
    ///
    /// # Panics
    /// When the position lies outside the slice.
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data[self.layout.position(i, j)]
    }

    /// `len` elements of row `i` from column `j` on; `None` when they are not neighbours in memory.
    ///
    /// # Panics
    /// When an element lies outside the slice.
    #[inline(always)]
    pub fn row_run(&self, i: usize, j: usize, len: usize) -> Option<&'a [T]> {
        let start = self.layout.position(i, j);
        (self.layout.col_stride == 1).then(|| &self.data[start..start + len])
    }
}

/// A matrix to write. Invariant: the elements stay inside the slice, and no two elements have the same
/// position.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    layout: MatLayout,
}

impl<'a, T> MatMut<'a, T> {
    /// The matrix of the elements of `data` that `layout` addresses.
    ///
    /// # Panics
    /// When an element lies outside `data`, or when two elements may lie at the same position.
    pub fn new(data: &'a mut [T], layout: MatLayout) -> Self {
        layout.check(data.len());
        assert!(layout.is_injective(), "gemm: elements of the destination {layout:?} overlap");
        Self { data, layout }
    }

    /// The slice and the positions of the elements in it.
    pub(super) fn into_parts(self) -> (&'a mut [T], MatLayout) {
        (self.data, self.layout)
    }
}

impl<'a, T: Pod> MatMut<'a, T> {
    /// See [`MatRef::cast`].
    pub(super) fn cast<U: Pod>(self) -> MatMut<'a, U> {
        assert!(size_of::<U>() == size_of::<T>(), "gemm: a type of another size");
        MatMut { data: bytemuck::cast_slice_mut(self.data), layout: self.layout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_that_leave_their_slice_are_refused() {
        let data = [0f32; 12];
        let plain = MatLayout::row_major(3, 4);
        let bad = [
            plain.at(1),
            MatLayout { row_stride: 5, ..plain },
            MatLayout { row_stride: -1, ..plain },
            MatLayout { row_stride: isize::MAX, ..plain },
            MatLayout { row_stride: isize::MIN, col_stride: isize::MAX, ..plain },
            MatLayout { rows: usize::MAX, ..plain },
            MatLayout { rows: usize::MAX, row_stride: isize::MAX, ..plain }.at(usize::MAX),
        ];
        for layout in bad {
            assert!(!layout.fits(data.len()), "{layout:?}");
        }
        assert!(plain.fits(12) && MatLayout { rows: 0, ..plain }.at(99).fits(0));
    }

    #[test]
    fn overlapping_destinations_are_refused() {
        let plain = MatLayout::row_major(3, 4);
        for (row_stride, col_stride) in [(0, 1), (1, 0), (1, 1), (3, 1), (2, 3), (-3, 1)] {
            assert!(!MatLayout { row_stride, col_stride, ..plain }.is_injective());
        }
        for (row_stride, col_stride) in [(4, 1), (1, 3), (-4, 1), (9, 2)] {
            assert!(MatLayout { row_stride, col_stride, ..plain }.is_injective());
        }
    }
}
