//! The few columns after the last whole vector, as dot products: a vector of columns would be mostly empty.
//!
//! 14x14 pixels are 12 vectors of AVX-512 and 4 columns. A strip multiplies the vectors first, and its terms
//! are in the first-level cache when they are multiplied by these columns, which are packed as runs of terms.
//! Convolutions of one image, from 1,024 to 256 channels at 14x14, take 958 us in place of 993, from 256 to
//! 1,024 984 in place of 1,000; 3x3 with a stride of 2 from 512 channels at 14x14, whose 49 outputs are 3
//! vectors and 1 column, 2,618 in place of 2,991 (one thread of Zen 4; with AVX2 1,020 and 1,041, 994 and
//! 1,048, 2,759 and 3,070).

use super::blocks::pack_panels;
use super::dots;
use super::tile;
use super::{MatLayout, MatRef, OldElements, ProductPart, Right, Scales, multiply_by_dots};
use crate::float::Real;
use core::ops::Range;
use flex_math::simd::SQUARE;

/// The most columns: as many as a tile of dot products has.
const FEW: usize = SQUARE;

/// Rows that are multiplied by the few columns at a time: two strips, whose terms are still in the
/// first-level cache.
///
/// The few columns are the rows of these products. A tile of dot products has four columns and, at AVX2, two
/// rows: one column and twelve rows are three tiles. When it was a column, and each strip was multiplied
/// apart, they were six tiles. Convolutions at 7x7 from 512 to 2,048 channels took 1,864 us and take 1,675,
/// from 2,048 to 512 2,089 and 1,895 (one thread of Zen 3).
pub(super) const TOGETHER: usize = 2 * tile::ROWS;

/// Least number of rows of a product that has such columns. Packing a column takes as long as the products
/// that a few strips save.
const ROWS: usize = 48;

/// Whether columns are multiplied apart in products of this type: for f64, of which few models consist, it is
/// not worth its machine code.
pub(super) const fn serves<T>() -> bool {
    size_of::<T>() == size_of::<f32>()
}

/// Whether columns after the last whole vector are multiplied apart, in a product that begins with a bias and
/// has so many rows, so many terms in a block, and a left operand of this layout. The answer is for the whole
/// product and not for a part: the order in which terms are summed depends on it.
pub(super) fn are_apart<T>(rows: usize, terms: usize, left: MatLayout) -> bool {
    serves::<T>() && rows >= ROWS && terms >= dots::TERMS && left.col_stride == 1
}

/// How many of the columns of a part are multiplied apart where they may be: those after the last vector of
/// `lanes`, if they are few. Dot products with short vectors are no faster.
#[inline(always)]
pub(super) fn count(cols: usize, lanes: usize) -> usize {
    let few = cols % lanes;
    if lanes >= 2 * FEW && cols > lanes && few <= FEW { few } else { 0 }
}

/// Writes these terms of these columns to `to`, column after column.
#[inline(never)]
pub(super) fn pack<T: Real>(b: Right<'_, T>, terms: Range<usize>, cols: Range<usize>, to: &mut [T]) {
    let (depth, few) = (terms.len(), cols.len());
    let (packed, panel) = to.split_at_mut(few * depth);
    let columns = match b {
        Right::Matrix(b) => b.part(terms, cols),
        Right::Columns { columns, cols: (first, _), .. } => {
            columns.pack(terms, first + cols.start..first + cols.end, few, bytemuck::cast_slice_mut(panel));
            MatRef::new(panel, MatLayout::row_major(depth, few))
        }
    };
    // A panel whose columns are the terms.
    pack_panels(columns.transposed(), depth, packed);
}

/// Elements of the room for [`pack`].
pub(super) fn room(few: usize, terms: usize) -> usize {
    2 * few * terms
}

/// Multiplies these rows and terms of a part by its last columns, which are `packed`. The sums of the first
/// terms begin with the bias; the sums of later terms are added to them.
#[inline(never)]
pub(super) fn multiply<T: Real>(
    part: &ProductPart<'_, T>,
    rows: Range<usize>,
    terms: Range<usize>,
    packed: &[T],
) {
    let few = packed.len() / terms.len();
    let first = part.d.cols.checked_sub(few).expect("gemm: the last columns");
    let (cols, is_first) = (first..part.d.cols, terms.start == 0);
    let a = part.a.part(rows.clone(), terms);
    if let Some(bias) = part.bias.filter(|_| is_first) {
        for at in 0..rows.len() * few {
            let (i, j) = (rows.start + at / few, cols.start + at % few);
            // SAFETY: the part has the columns, and as many rows as `a`. Its positions may be written.
            unsafe { *part.target.wrapping_add(part.d.position(i, j)) = bias[i] };
        }
    }
    // Rows and columns change places: tiles of dot products have four columns, and may have fewer rows.
    let (left, right) = (MatRef::new(packed, MatLayout::row_major(few, a.layout().cols)), a.transposed());
    let d = part.d.part(&rows, &cols).transposed();
    let strip = ProductPart {
        d,
        old: OldElements::of(part.target, d),
        a: left,
        b: Right::Matrix(right),
        scales: Scales { alpha: T::ONE, beta: T::ONE },
        bias: None,
        ..*part
    };
    multiply_by_dots(strip, right, 1);
}
