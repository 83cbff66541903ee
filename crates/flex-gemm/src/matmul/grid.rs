//! How a product of floats is cut into parts for threads and into blocks of terms.
//!
//! The `gemm` crate chooses its algorithm and the number of terms that it sums at a time by the shape of the
//! matrices it is given. A part of a product has another shape than the product, so the choices are made here
//! for the whole product, and parts are cut such that `gemm` cannot choose differently. The bits of a product
//! then do not depend on the number of its parts.

use super::gemm::MatLayout;
use crate::parallel::thresholds::{TASK_MULTIPLICATIONS, TASK_PACKING};
use core::ops::Range;

/// Rows of a part, and columns, are a multiple of these numbers, apart from the last part's. They are
/// multiples of the tiles' sizes of `gemm`'s kernels, and parts are never smaller.
const ROWS: usize = 48;
const COLS: usize = 24;

/// `gemm` multiplies up to this number of elements of the output term by term along contiguous operands.
const DOT_ELEMENTS: usize = 256;

/// Number of terms that are summed at a time at most. `gemm` divides a smaller number of terms no further.
const TERMS: usize = 512;

/// Least size of the second-level cache, in bytes, for which `gemm` can hold [`TERMS`] terms of a tile's rows
/// in the part of the cache that it sets aside for them. With less it would make no progress.
const CACHE: usize = 192 * 1024;

/// The cut of a product of the matrices `[rows, terms]` and `[terms, cols]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Number of rows and columns of the output.
    rows: usize,
    cols: usize,
    /// Number of parts that the rows are cut into, and the columns.
    row_parts: usize,
    col_parts: usize,
    /// Number of blocks of terms, of equal lengths up to one.
    pub blocks: usize,
}

impl Grid {
    /// The cut of `a @ b` for this number of threads, on a processor with this many bytes of second-level
    /// cache.
    pub fn new(a: &MatLayout, b: &MatLayout, threads: usize, cache: usize) -> Self {
        let (rows, cols, terms) = (a.rows, b.cols, a.cols);
        let whole = Self { rows, cols, row_parts: 1, col_parts: 1, blocks: 1 };
        // Here `gemm` has algorithms for vectors and for dot products, whose choice a cut could change.
        let dots = a.col_stride == 1 && b.row_stride == 1 && rows.saturating_mul(cols) <= DOT_ELEMENTS;
        if rows < 2 || cols < 2 || dots {
            return whole;
        }
        let most = if cache < CACHE { (cache / 1024).max(1) } else { TERMS };
        let blocked = Self { blocks: terms.div_ceil(most).max(1), ..whole };
        let multiplications = rows.saturating_mul(cols).saturating_mul(terms);
        let parts = threads.min(multiplications / TASK_MULTIPLICATIONS);
        (1..=parts)
            .map(|row_parts| Self { row_parts, col_parts: parts / row_parts, ..blocked })
            .map(|grid| Self { col_parts: grid.col_parts.min(cols / COLS).max(1), ..grid })
            .filter(|grid| grid.row_parts == 1 || grid.row_parts <= rows / ROWS)
            .filter(|grid| grid.parts() == 1 || grid.smallest() > DOT_ELEMENTS)
            .min_by_key(Self::cost)
            .unwrap_or(blocked)
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.row_parts * self.col_parts
    }

    /// Rows and columns of a part.
    pub fn part(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let (row, col) = (index / self.col_parts, index % self.col_parts);
        (cut(self.rows, ROWS, self.row_parts, row), cut(self.cols, COLS, self.col_parts, col))
    }

    /// Elements of the smallest part.
    fn smallest(&self) -> usize {
        let side = |len: usize, unit: usize, parts: usize| {
            if parts == 1 { len } else { len / unit / parts * unit }
        };
        side(self.rows, ROWS, self.row_parts).saturating_mul(side(self.cols, COLS, self.col_parts))
    }

    /// Time of the largest part, in multiplications per term: those of its elements, and packing the rows
    /// and columns, which every part does for itself.
    fn cost(&self) -> usize {
        let (rows, cols) = (self.rows.div_ceil(self.row_parts), self.cols.div_ceil(self.col_parts));
        rows.saturating_mul(cols).saturating_add((rows + cols).saturating_mul(TASK_PACKING))
    }
}

/// Part `index` of `parts` of an axis: whole units, with the rest in the last part.
fn cut(len: usize, unit: usize, parts: usize, index: usize) -> Range<usize> {
    let units = len / unit;
    let end = if index + 1 == parts { len } else { units * (index + 1) / parts * unit };
    units * index / parts * unit..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn grid(rows: usize, cols: usize, terms: usize, threads: usize) -> Grid {
        Grid::new(&MatLayout::col_major(rows, terms), &MatLayout::row_major(terms, cols), threads, 1 << 20)
    }

    #[test]
    fn parts_cover_every_element_once() {
        for (rows, cols) in [(2, 2), (48, 6), (49, 300), (1000, 24), (1024, 1024), (97, 5000)] {
            for threads in [1, 2, 3, 7, 64] {
                let grid = grid(rows, cols, 5000, threads);
                assert!(grid.parts() <= threads.max(1), "{grid:?}");
                let mut seen = vec![0u8; rows * cols];
                for part in 0..grid.parts() {
                    let (r, c) = grid.part(part);
                    assert!(grid.parts() == 1 || r.len() * c.len() > DOT_ELEMENTS, "{grid:?} {r:?} {c:?}");
                    r.for_each(|i| c.clone().for_each(|j| seen[i * cols + j] += 1));
                }
                assert!(seen.iter().all(|&n| n == 1), "{grid:?}");
            }
        }
    }

    #[test]
    fn the_blocks_of_terms_do_not_depend_on_the_threads() {
        for terms in [1, 512, 513, 1024, 1025, 5000] {
            let blocks = |threads| grid(300, 300, terms, threads).blocks;
            assert_eq!(blocks(1), terms.div_ceil(512));
            assert!([2, 3, 64].iter().all(|&threads| blocks(threads) == blocks(1)));
        }
        let (a, b) = (MatLayout::row_major(300, 1000), MatLayout::row_major(1000, 300));
        assert_eq!(Grid::new(&a, &b, 1, 64 * 1024).blocks, 16);
    }

    #[test]
    fn large_products_have_a_part_for_each_thread() {
        assert_eq!(grid(1024, 1024, 1024, 2).parts(), 2);
        assert_eq!(grid(1024, 1024, 1024, 64).parts(), 64);
        // Few rows are cut by columns, and the other way round.
        let (wide, tall) = (grid(64, 4096, 1024, 4), grid(4096, 24, 1024, 4));
        assert_eq!((wide.row_parts, wide.col_parts), (1, 4));
        assert_eq!((tall.row_parts, tall.col_parts), (4, 1));
        // Products too small for threads, and those that `gemm` computes by dot products, stay whole.
        assert_eq!(grid(60, 60, 60, 8).parts(), 1);
        let long =
            Grid::new(&MatLayout::row_major(16, 1 << 20), &MatLayout::col_major(1 << 20, 16), 8, 1 << 20);
        assert_eq!((long.parts(), long.blocks), (1, 1));
    }
}
