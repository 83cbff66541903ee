//! A product on one thread: the loops over blocks, and packing.
//!
//! A *strip* is the rows of a tile, a *panel* the columns of a full tile. A block of terms of several panels
//! stays in the second-level cache while all strips pass over it, and the terms of a strip stay in the
//! first-level cache while it passes over the panels (Goto and van de Geijn, "Anatomy of high-performance
//! matrix multiplication", 2008).
//!
//! The left operand is read where it lies, unless the terms of its rows are not neighbours. The right operand
//! is packed into panels where its columns are not neighbours, and where many strips will read it.

use super::tile::{ROWS, Strip, has_32_registers, lanes};
use super::{MatLayout, MatRef, Part, Scales};
use crate::float::Real;
use crate::storage;
use flex_math::simd::{Simd, WithSimd, has_vectors};

/// Bytes of the block of panels that all strips pass over: half of a small second-level cache.
const BLOCK_BYTES: usize = 256 * 1024;

/// Rows of the output per vector of a panel, and bytes of a block of terms of the right operand, from which
/// it is packed. For fewer strips packing costs more than it saves, and so it does for an operand that stays
/// in the caches. Panels of few vectors read a cache line of each row, which no hardware prefetches: at AVX2,
/// 47 rows by a square of 1,024 took 2,490 us in place and 1,190 packed; 12 rows, 380 and 490.
const PACK_ROWS: usize = 12;
const PACK_BYTES: usize = 64 * 1024;

/// Rows of the left operand that are packed at a time, as a multiple of [`ROWS`].
const LEFT_ROWS: usize = 128 * ROWS;

/// A part of a product that is computed by blocks.
pub(super) struct Product<'a, T> {
    pub part: Part<'a, T>,
    /// Number of blocks of terms, at least one. Their sums are added up in order.
    pub blocks: usize,
}

impl<T: Real> WithSimd for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if const { has_32_registers::<S>() } {
            self.by_blocks::<S, 4>();
        } else if const { !has_vectors::<S>() } {
            self.by_blocks::<S, 1>();
        } else {
            self.by_blocks::<S, 2>();
        }
    }
}

impl<T: Real> Product<'_, T> {
    /// Computes the product in panels of `V` vectors.
    #[inline(always)]
    fn by_blocks<S: Simd, const V: usize>(self) {
        let Part { target, d, a, b, scales } = self.part;
        let (l, r) = (a.layout(), b.layout());
        let (m, n, k) = (d.rows, d.cols, l.cols);
        let width = V * lanes::<S, T>();
        let vectors = const { has_vectors::<S>() };
        let depth = k.div_ceil(self.blocks);
        let large = n.saturating_mul(depth).saturating_mul(size_of::<T>()) > PACK_BYTES;
        let pack_right = r.col_stride != 1 || n < lanes::<S, T>() || (m >= V * PACK_ROWS && large);
        let pack_left = l.col_stride != 1 && n > width;
        let (across, right_len) = if pack_right {
            let panels = BLOCK_BYTES / size_of::<T>() / width / depth.max(1);
            let across = n.next_multiple_of(width).min(panels.max(1) * width);
            (across, across * depth)
        } else {
            (n, 0)
        };
        let (down, left_len) = if pack_left {
            let down = m.min(LEFT_ROWS);
            (down, down * depth)
        } else {
            (m, 0)
        };
        let mut buffer;
        let packed: &mut [T] = if pack_left || pack_right {
            buffer = storage::alloc((left_len + right_len) * size_of::<T>());
            bytemuck::cast_slice_mut(&mut buffer)
        } else {
            &mut []
        };
        let (left_packed, right_packed) = packed.split_at_mut(left_len);
        for row in (0..m).step_by(down) {
            let rows = down.min(m - row);
            for block in 0..self.blocks {
                // Blocks whose sizes differ by one at most.
                let at = |i: usize| i * (k / self.blocks) + i.min(k % self.blocks);
                let (term, terms) = (at(block), at(block + 1) - at(block));
                if pack_left {
                    pack_strips(a.part(row..row + rows, term..term + terms), vectors, left_packed);
                }
                let beta = if block == 0 { scales.beta } else { T::ONE };
                for col in (0..n).step_by(across) {
                    let cols = across.min(n - col);
                    if pack_right {
                        pack_panels(b.part(term..term + terms, col..col + cols), width, right_packed);
                    }
                    for (first, height) in strips(rows, vectors) {
                        let at = row + first;
                        let left = if pack_left {
                            left_packed.as_ptr().wrapping_add(first * terms)
                        } else {
                            a.pointer(at, term)
                        };
                        let right = if pack_right { right_packed.as_ptr() } else { b.pointer(term, col) };
                        let strip = Strip {
                            terms,
                            left,
                            left_row: if pack_left { 1 } else { l.row_stride },
                            left_term: if pack_left { height as isize } else { l.col_stride },
                            right,
                            right_term: if pack_right { width as isize } else { r.row_stride },
                            panel: if pack_right { terms * width } else { width },
                            width,
                            padded: pack_right,
                            out: target.wrapping_add(d.position(at, col)),
                            out_row: d.row_stride,
                            out_col: d.col_stride,
                            cols,
                            scales: Scales { beta, ..scales },
                        };
                        // SAFETY: rows `at..at + height`, columns `col..col + cols` and terms
                        // `term..term + terms` are those of the operands and of the output, whose positions
                        // are valid. `pack_strips` and `pack_panels` packed the same ranges in the layouts
                        // that are named above. Panels that are not packed have at least as many columns as a
                        // vector: with fewer, the right operand is packed.
                        unsafe {
                            match height {
                                6 => strip.columns::<S, 6, V>(),
                                4 if vectors => strip.columns::<S, 4, V>(),
                                2 if vectors => strip.columns::<S, 2, V>(),
                                _ => strip.columns::<S, 1, V>(),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The strips of `rows` rows: the first row of each, and their number. Few heights keep the code small: 6, 4,
/// 2 and 1 rows, and only 6 and 1 where there are no `vectors`.
#[inline(always)]
fn strips(rows: usize, vectors: bool) -> impl Iterator<Item = (usize, usize)> {
    let mut row = 0;
    core::iter::from_fn(move || {
        let height = match rows - row {
            0 => return None,
            ROWS.. => ROWS,
            4 | 5 if vectors => 4,
            2 | 3 if vectors => 2,
            _ => 1,
        };
        row += height;
        Some((row - height, height))
    })
}

/// Terms that [`pack_strips`] packs at a time: the numbers of neighbouring strips share cache lines, which
/// stay in the first-level cache meanwhile.
const PACK_TERMS: usize = 64;

/// Packs the rows of `left`, [strip](strips) after strip: the numbers of a term become neighbours. Not
/// inlined: no instruction set speeds it up.
#[inline(never)]
fn pack_strips<T: Real>(left: MatRef<'_, T>, vectors: bool, to: &mut [T]) {
    let MatLayout { rows, cols: terms, row_stride, col_stride, .. } = left.layout();
    let data = left.data();
    for from in (0..terms).step_by(PACK_TERMS) {
        let until = terms.min(from + PACK_TERMS);
        for (first, height) in strips(rows, vectors) {
            let to = &mut to[first * terms..][from * height..until * height];
            let mut at = left.layout().position(first, from);
            for to in to.chunks_exact_mut(height) {
                match <&mut [T; ROWS]>::try_from(&mut *to) {
                    Ok(to) if row_stride == 1 => *to = *data[at..].first_chunk().expect("a strip of rows"),
                    _ => {
                        let each = (0..height).map(|i| data[at.wrapping_add_signed(i as isize * row_stride)]);
                        to.iter_mut().zip(each).for_each(|(to, from)| *to = from);
                    }
                }
                at = at.wrapping_add_signed(col_stride);
            }
        }
    }
}

/// Rows and columns of the squares that [`pack_panels`] transposes at a time.
const SQUARE: usize = 8;

/// Packs the columns of `right` into panels of `width` columns, the last padded with zeros: the numbers of a
/// term become neighbours.
#[inline(always)]
fn pack_panels<T: Real>(right: MatRef<'_, T>, width: usize, to: &mut [T]) {
    let MatLayout { rows: terms, cols, row_stride, col_stride, .. } = right.layout();
    // Where the terms are neighbours, squares of terms and columns are transposed.
    let squares = row_stride == 1 && col_stride != 1;
    let in_squares = |len: usize| if squares { len / SQUARE * SQUARE } else { 0 };
    pack_rest(right, width, to, in_squares(terms), squares);
    if squares && terms >= SQUARE {
        let across = right.transposed();
        for first in (0..in_squares(cols)).step_by(SQUARE) {
            let panel = &mut to[first / width * width * terms..][..width * terms];
            for (block, to) in panel.chunks_exact_mut(SQUARE * width).enumerate() {
                let mut square = [[T::ZERO; SQUARE]; SQUARE];
                for (i, row) in square.iter_mut().enumerate() {
                    let run = across.row_run(first + i, block * SQUARE, SQUARE);
                    *row = *run.and_then(|run| run.first_chunk()).expect("the terms are neighbours");
                }
                for (to, row) in to.chunks_exact_mut(width).zip(transposed(square)) {
                    *to[first % width..].first_chunk_mut().expect("squares fit a panel") = row;
                }
            }
        }
    }
}

/// [`pack_panels`] without the squares of the first `in_squares` terms, if there are `squares`. Not inlined:
/// no instruction set speeds it up.
#[inline(never)]
fn pack_rest<T: Real>(right: MatRef<'_, T>, width: usize, to: &mut [T], in_squares: usize, squares: bool) {
    let MatLayout { rows: terms, cols, col_stride, .. } = right.layout();
    let data = right.data();
    let last = cols / width * width * terms;
    if !cols.is_multiple_of(width) {
        to[last..last + width * terms].fill(T::ZERO);
    }
    // Term after term, so that a row is read from end to end.
    for p in 0..terms {
        for first in (0..cols).step_by(width) {
            let cols = width.min(cols - first);
            let to = &mut to[first * terms + p * width..][..cols];
            let at = right.layout().position(p, first);
            if col_stride == 1 {
                to.copy_from_slice(&data[at..at + cols]);
            } else {
                let done = if squares && p < in_squares { cols / SQUARE * SQUARE } else { 0 };
                for (j, to) in to.iter_mut().enumerate().skip(done) {
                    *to = data[at.wrapping_add_signed(j as isize * col_stride)];
                }
            }
        }
    }
}

/// The square with rows and columns exchanged.
#[inline(always)]
fn transposed<T: Real>(mut square: [[T; SQUARE]; SQUARE]) -> [[T; SQUARE]; SQUARE] {
    const HALF: usize = SQUARE * SQUARE / 2;
    // Each round interleaves both halves, which moves the highest bit of an element's position to the lowest
    // place; three rounds exchange the bits of the row and of the column. The compiler has instructions for
    // interleaving, and none for a whole transposition.
    for _ in 0..SQUARE.ilog2() {
        let mut mixed = [[T::ZERO; SQUARE]; SQUARE];
        let (from, to) = (square.as_flattened(), mixed.as_flattened_mut());
        for i in 0..HALF {
            to[2 * i] = from[i];
            to[2 * i + 1] = from[HALF + i];
        }
        square = mixed;
    }
    square
}
