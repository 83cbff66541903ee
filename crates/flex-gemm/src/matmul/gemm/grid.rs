//! How a product of floats is cut into parts for threads and into blocks of terms.
//!
//! The blocks follow from the number of terms alone. The sum of an element is the same whatever part it lies
//! in, so the number of parts may follow the number of threads.

use crate::parallel::thresholds::{TASK_MULTIPLICATIONS, TASK_PACKING};
use core::iter::successors;
use core::ops::Range;

/// The rows and columns of a part are multiples of these numbers, apart from the last part's. They are
/// multiples of the rows and columns of tiles.
const ROWS: usize = 24;
const COLS: usize = 64;

/// The most rows and columns of a part that is completed in the cache: 576 KiB of f32. Rows of the output
/// are completed one by one, so they should be long; the columns are packed again for each part. With half
/// as many rows, most 1x1 convolutions of ResNet-50 take 1.01 to 1.02 times as long (Zen 4, one thread).
const FINE_ROWS: usize = 6 * ROWS;
const FINE_COLS: usize = 16 * COLS;

/// Parts have this many times as many rows, and as few columns, if packing a column is dear. Eight images of
/// ResNet-50, whose layers of 14x14 have such columns, take 276 ms in place of 283.
const DEAR: usize = 4;

/// Number of terms that are summed at a time at most: six rows of f32 take 12 KiB of the first-level cache.
const TERMS: usize = 512;

/// The cut of a product of the matrices `[rows, terms]` and `[terms, cols]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Number of rows and columns of the output.
    rows: usize,
    cols: usize,
    /// Number of parts that the rows are cut into, and the columns.
    row_parts: usize,
    col_parts: usize,
    /// Number of blocks of terms, of equal lengths up to one; at least one.
    pub blocks: usize,
}

impl Grid {
    /// The cut for this number of threads.
    pub fn new(rows: usize, cols: usize, terms: usize, threads: usize) -> Self {
        let blocks = blocks(terms);
        let whole = Self { rows, cols, row_parts: 1, col_parts: 1, blocks };
        let multiplications = rows.saturating_mul(cols).saturating_mul(terms);
        let parts = threads.min(multiplications / TASK_MULTIPLICATIONS);
        (1..=parts.min(rows / ROWS).max(1))
            .map(|row_parts| {
                let col_parts = (parts / row_parts).min(cols / COLS).max(1);
                Self { row_parts, col_parts, ..whole }
            })
            .min_by_key(Self::cost)
            .unwrap_or(whole)
    }

    /// The cut of a product whose parts are completed while they are in the second-level cache. `dear` tells
    /// that packing a column takes long, so that it should be done for many rows.
    pub fn fine(rows: usize, cols: usize, terms: usize, threads: usize, dear: bool) -> Self {
        let (high, wide) = if dear { (DEAR * FINE_ROWS, FINE_COLS / DEAR) } else { (FINE_ROWS, FINE_COLS) };
        let (most_rows, most_cols) = ((rows / ROWS).max(1), (cols / COLS).max(1));
        let (row_parts, col_parts) = (rows.div_ceil(high).min(most_rows), cols.div_ceil(wide).min(most_cols));
        let whole = Self { rows, cols, row_parts, col_parts, blocks: blocks(terms) };
        let multiplications = rows.saturating_mul(cols).saturating_mul(terms);
        let threads = threads.min(multiplications / TASK_MULTIPLICATIONS).max(1);
        let cuts =
            successors(Some(row_parts), |parts| Some(2 * parts)).take_while(|&parts| parts <= most_rows);
        cuts.flat_map(|row_parts| {
            let most = most_cols.min(col_parts + threads);
            (col_parts..=most).map(move |col_parts| Self { row_parts, col_parts, ..whole })
        })
        .min_by_key(|grid| grid.time(threads, if dear { DEAR } else { 1 }))
        .unwrap_or(whole)
    }

    /// Time of all parts on some threads, in multiplications per term. Packing a column takes `dear` times as
    /// long as packing a row.
    fn time(&self, threads: usize, dear: usize) -> usize {
        let (rows, cols) =
            (longest(self.rows, ROWS, self.row_parts), longest(self.cols, COLS, self.col_parts));
        let packing = (rows + dear * cols).saturating_mul(TASK_PACKING);
        self.parts().div_ceil(threads).saturating_mul(rows.saturating_mul(cols).saturating_add(packing))
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

    /// Time of the largest part, in multiplications per term: one for each of its elements, and the time of
    /// packing its rows and columns. Every part packs for itself.
    fn cost(&self) -> usize {
        let (rows, cols) = (self.rows.div_ceil(self.row_parts), self.cols.div_ceil(self.col_parts));
        rows.saturating_mul(cols).saturating_add((rows + cols).saturating_mul(TASK_PACKING))
    }
}

/// Number of blocks of terms, at least one.
pub(super) fn blocks(terms: usize) -> usize {
    terms.div_ceil(TERMS).max(1)
}

/// Part `index` of `parts` of an axis: whole units, with the rest in the last part.
fn cut(len: usize, unit: usize, parts: usize, index: usize) -> Range<usize> {
    let units = len / unit;
    let end = if index + 1 == parts { len } else { units * (index + 1) / parts * unit };
    units * index / parts * unit..end
}

/// Length of the longest of the parts that [`cut`] yields.
fn longest(len: usize, unit: usize, parts: usize) -> usize {
    let last = cut(len, unit, parts, parts - 1);
    last.len().max((len / unit).div_ceil(parts) * unit)
}

/// Blocks of terms, whose sizes differ by one at most.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    len: usize,
    longer: usize,
}

impl Blocks {
    /// `blocks` blocks of `terms` terms.
    pub fn new(terms: usize, blocks: usize) -> Self {
        Self { len: terms / blocks, longer: terms % blocks }
    }

    /// The first term of block `index`.
    #[inline(always)]
    pub fn start(&self, index: usize) -> usize {
        index * self.len + index.min(self.longer)
    }

    /// Number of terms of block `index`.
    #[inline(always)]
    pub fn len(&self, index: usize) -> usize {
        self.len + usize::from(index < self.longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn parts_cover_every_element_once() {
        for (rows, cols) in [(2, 2), (48, 6), (49, 300), (1000, 24), (1024, 1024), (97, 5000)] {
            for (threads, fine) in [1, 2, 3, 7, 64].into_iter().flat_map(|n| [(n, false), (n, true)]) {
                let grid = match fine {
                    true => Grid::fine(rows, cols, 5000, threads, threads % 2 == 0),
                    false => Grid::new(rows, cols, 5000, threads),
                };
                assert!(fine || grid.parts() <= threads, "{grid:?}");
                let mut seen = vec![0u8; rows * cols];
                for part in 0..grid.parts() {
                    let (r, c) = grid.part(part);
                    r.for_each(|i| c.clone().for_each(|j| seen[i * cols + j] += 1));
                }
                assert!(seen.iter().all(|&n| n == 1), "{grid:?}");
            }
        }
    }

    #[test]
    fn the_blocks_of_terms_do_not_depend_on_the_threads() {
        for terms in [1, 512, 513, 1024, 1025, 5000] {
            let blocks = |threads| Grid::new(300, 300, terms, threads).blocks;
            assert_eq!(blocks(1), terms.div_ceil(512));
            assert!([2, 3, 64].iter().all(|&threads| blocks(threads) == blocks(1)));
        }
    }

    #[test]
    fn fine_parts_are_small_and_occupy_the_threads() {
        let largest = |grid: &Grid| {
            let sizes = (0..grid.parts()).map(|part| grid.part(part)).map(|(r, c)| r.len() * c.len());
            sizes.max().unwrap()
        };
        for (threads, dear) in [(1, false), (2, true), (7, false), (64, true)] {
            let grid = Grid::fine(1024, 3136, 64, threads, dear);
            assert!(largest(&grid) <= (FINE_ROWS + ROWS) * (FINE_COLS + COLS), "{grid:?}");
            assert!(4 * grid.parts() >= 3 * threads, "{grid:?}");
        }
        // Two threads share few columns that are dear to pack by their rows, or by their columns.
        assert_eq!(Grid::fine(256, 196, 2304, 2, true).parts(), 2);
        assert_eq!(Grid::fine(60, 60, 60, 8, true).parts(), 1);
    }

    #[test]
    fn large_products_have_a_part_for_each_thread() {
        assert_eq!(Grid::new(1024, 1024, 1024, 2).parts(), 2);
        assert_eq!(Grid::new(1024, 1024, 1024, 64).parts(), 64);
        // Few rows are cut by columns, and the other way round.
        let (wide, tall) = (Grid::new(64, 4096, 1024, 4), Grid::new(4096, 24, 1024, 4));
        assert_eq!((wide.row_parts, wide.col_parts), (1, 4));
        assert_eq!((tall.row_parts, tall.col_parts), (4, 1));
        // Products too small for threads stay whole.
        assert_eq!(Grid::new(60, 60, 60, 8).parts(), 1);
    }
}
