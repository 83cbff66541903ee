//! Right operands that are packed once and read by many products, such as the weights of a model.
//!
//! A product packs its right operand in passing: the first rows that are multiplied read a cache line from
//! each row of it, in pages of their own. Of a product with few rows that is much of the time, and the next
//! product with the same weight packs it again. A weight that is used again is kept packed beside the tensor
//! instead ([`Tensor::prepare`](crate::Tensor::prepare)), and read from end to end: panel after panel by few
//! rows, and by blocks of panels otherwise.
//!
//! On one thread of Zen 3, whose other thread was busy, 128 rows by 768 x 3,072 in memory were multiplied at
//! 54.3 GFLOP/s without the panels and at 64.6 with them, by 384 x 1,536 at 59.8 and 64.4; 16 rows by
//! 384 x 1,536 at 24.6 and 32.7; 8 rows by a square of 256 at 56.0 and 66.6. For 1,024 rows panels gain
//! little.

use super::super::plan::RightOperand;
use super::blocks::{PACK_BYTES, pack_panels, panel_vectors};
use super::dots;
use super::grid::{self, Blocks};
use super::tile::lanes;
use super::{MatLayout, MatRef};
use crate::float::Real;
use crate::parallel::{Work, for_each_chunk};
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ops::Range;
use flex_math::simd::{Simd, WithSimd, dispatch, has_vectors};

/// Least number of rows of the products that a right operand is packed for: one row is a product with a
/// vector.
///
/// Panels are read as fast as memory delivers them. One thread of Zen 3 multiplied 2 rows by 384x384 in
/// memory at 23.2 GFLOP/s by panels, and at 9.2 by an operand that is row-major; 3 rows at 31.8 and 10.4, and
/// 2 rows by a square of 768 in the cache at 30.0 and 25.9. An operand that is used only twice is packed for
/// nothing.
const LEAST_ROWS: usize = 2;

/// Most rows of such products. With more rows, packing takes little of the time, and the memory is saved.
const MOST_ROWS: usize = 512;

/// [`MOST_ROWS`] for the weight of a layer, which is multiplied again and again. For 1,024 rows by 1,536x384
/// two threads of Zen 3 gain 9 % if the weight is transposed, and 2 % otherwise; for 2,048 rows by 384x384
/// 2 % and 1 %.
const MOST_ROWS_OF_LAYER: usize = 2048;

/// Panels that a task packs. Rows of the operand are read in pieces of as many panels.
const TASK_PANELS: usize = 8;

/// The shape of the panels of a right operand: all that they depend on, besides the numbers. The key of
/// [`Tensor::prepare`](crate::Tensor::prepare).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PanelShape {
    /// The layout of the operand.
    matrix: MatLayout,
    /// Columns of a panel.
    width: usize,
}

impl PanelShape {
    /// The panels that products of this many rows by this operand should read, from the second product on;
    /// `None` if panels gain nothing.
    pub fn of<T: Real>(rows: usize, matrix: MatLayout, operand: RightOperand) -> Option<Self> {
        let MatLayout { rows: terms, cols, row_stride, col_stride, .. } = matrix;
        let expanded = row_stride == 0 || col_stride == 0;
        let large = terms.saturating_mul(cols).saturating_mul(size_of::<T>()) > PACK_BYTES;
        let of_layer = operand == RightOperand::Weight;
        let most = if of_layer { MOST_ROWS_OF_LAYER } else { MOST_ROWS };
        let by_dots = || row_stride == 1 && dots::pay(rows, cols, terms, of_layer);
        if !large || expanded || !(LEAST_ROWS..=most).contains(&rows) || by_dots() {
            return None;
        }
        let width = dispatch(PanelWidth::<T>(PhantomData));
        (width > 0).then_some(Self { matrix, width })
    }

    /// Whether an operand of this layout was packed.
    pub fn is_of(&self, matrix: MatLayout) -> bool {
        self.matrix == matrix
    }

    /// Columns of all panels: the last one is padded.
    fn padded(&self) -> usize {
        self.matrix.cols.next_multiple_of(self.width)
    }

    /// Numbers of all panels.
    pub fn len(&self) -> usize {
        self.matrix.rows.saturating_mul(self.padded())
    }

    /// Packs the operand `matrix`, on all threads.
    ///
    /// # Panics
    /// When the operand has another layout, or there is no room for it.
    pub fn pack<T: Real>(&self, matrix: MatRef<'_, T>, mut to: &mut [T]) {
        assert!(self.is_of(matrix.layout()) && to.len() == self.len(), "gemm: panels of another matrix");
        let MatLayout { rows: terms, cols, .. } = self.matrix;
        let blocks = Blocks::new(terms, grid::blocks(terms));
        for index in 0..grid::blocks(terms) {
            let (term, terms) = (blocks.start(index), blocks.len(index));
            let (block, rest) = to.split_at_mut(terms * self.padded());
            let work = Work::Bytes(size_of_val(block));
            let across = TASK_PANELS * self.width;
            for_each_chunk(block, terms * across, work, |task, to| {
                let part = matrix.part(term..term + terms, task * across..cols.min((task + 1) * across));
                pack_panels(part, self.width, to);
            });
            to = rest;
        }
    }
}

/// Finds the columns of a panel of `T` at the level of the process; 0 without vectors.
struct PanelWidth<T>(PhantomData<T>);

impl<T: Real> WithSimd for PanelWidth<T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> usize {
        if const { has_vectors::<S>() } { panel_vectors::<S>() * lanes::<S, T>() } else { 0 }
    }
}

/// Columns of an operand that was [packed](PanelShape::pack): the panels of each block of terms, one block
/// after the other.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a, T> {
    numbers: &'a [T],
    shape: PanelShape,
    /// The first of the columns.
    first: usize,
}

impl<'a, T> Panels<'a, T> {
    /// All columns.
    ///
    /// # Panics
    /// When there are not as many numbers as panels of this shape have.
    pub fn new(numbers: &'a [T], shape: PanelShape) -> Self {
        assert!(numbers.len() == shape.len(), "gemm: {} numbers for panels of {shape:?}", numbers.len());
        Self { numbers, shape, first: 0 }
    }

    /// The columns from `cols.start` on.
    ///
    /// # Panics
    /// When they do not begin with a panel.
    pub fn columns(self, cols: &Range<usize>) -> Self {
        assert!(cols.start.is_multiple_of(self.shape.width), "gemm: columns that begin inside of a panel");
        Self { first: self.first + cols.start, ..self }
    }

    /// The same panels, whose numbers are of type `T` by another name.
    pub fn cast<U: Pod>(self) -> Panels<'a, U>
    where
        T: Pod,
    {
        // Numbers of another size would be fewer or more.
        assert!(size_of::<U>() == size_of::<T>(), "gemm: a type of another size");
        Panels { numbers: bytemuck::cast_slice(self.numbers), shape: self.shape, first: self.first }
    }

    /// Columns of a panel.
    pub fn width(&self) -> usize {
        self.shape.width
    }

    /// Where the panel that begins with column `col` begins, in the block of the terms `block`; dangling if
    /// there is no such panel.
    #[inline(always)]
    pub fn pointer(&self, block: Range<usize>, col: usize) -> *const T {
        let at = block.start * self.shape.padded() + (self.first + col) * block.len();
        self.numbers.as_ptr().wrapping_add(at)
    }
}
