//! The right operand of a product: a matrix in memory, or columns that are made while they are packed.

use super::{MatLayout, MatRef};
use bytemuck::Pod;
use core::ops::Range;

/// A right operand that is not stored, such as the windows of an image (im2col).
pub trait Columns: Sync {
    /// Writes these terms (rows) of these columns to panels of `width` columns, as elements of the product's
    /// type.
    ///
    /// The number of term `p` and column `j`, both counted from the start of their ranges, goes to position
    /// `j / width * width * terms.len() + p * width + j % width`. Positions after the last column may be
    /// overwritten.
    fn pack(&self, terms: Range<usize>, cols: Range<usize>, width: usize, to: &mut [u8]);
}

/// A right operand.
#[derive(Clone, Copy)]
pub enum Right<'a, T> {
    /// A matrix in memory.
    Matrix(MatRef<'a, T>),
    /// `terms` terms of the columns `cols`.
    Columns {
        /// What packs the columns.
        columns: &'a dyn Columns,
        /// Number of terms.
        terms: usize,
        /// Numbers of the columns.
        cols: (usize, usize),
    },
}

impl<'a, T> Right<'a, T> {
    /// The layout; of columns that are not stored, one whose columns are no neighbours.
    pub(super) fn layout(&self) -> MatLayout {
        match self {
            Self::Matrix(matrix) => matrix.layout(),
            Self::Columns { terms, cols: (first, end), .. } => {
                MatLayout { rows: *terms, cols: end - first, offset: 0, row_stride: 0, col_stride: 0 }
            }
        }
    }

    /// Where term `p` of column `j` lies; null if the columns are not stored.
    #[inline(always)]
    pub(super) fn pointer(&self, p: usize, j: usize) -> *const T {
        match self {
            Self::Matrix(matrix) => matrix.pointer(p, j),
            Self::Columns { .. } => core::ptr::null(),
        }
    }

    /// The same terms of a part of the columns.
    ///
    /// # Panics
    /// When there are no such columns.
    pub(super) fn columns(self, part: Range<usize>) -> Self {
        match self {
            Self::Matrix(matrix) => {
                let terms = matrix.layout().rows;
                Self::Matrix(matrix.part(0..terms, part))
            }
            Self::Columns { columns, terms, cols: (first, end) } => {
                assert!(part.start <= part.end && part.end <= end - first, "gemm: columns that do not exist");
                Self::Columns { columns, terms, cols: (first + part.start, first + part.end) }
            }
        }
    }
}

impl<'a, T: Pod> Right<'a, T> {
    /// See [`MatRef::cast`].
    pub(super) fn cast<U: Pod>(self) -> Right<'a, U> {
        match self {
            Self::Matrix(matrix) => Right::Matrix(matrix.cast()),
            Self::Columns { columns, terms, cols } => {
                assert!(size_of::<U>() == size_of::<T>(), "gemm: a type of another size");
                Right::Columns { columns, terms, cols }
            }
        }
    }
}
