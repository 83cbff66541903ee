//! A product on one thread: the loops over blocks, and packing.
//!
//! A *strip* is the rows of a tile, a *panel* the columns of a full tile. A block of terms of several panels
//! stays in the second-level cache while all strips pass over it, and the terms of a strip stay in the
//! first-level cache while it passes over the panels (Goto and van de Geijn, "Anatomy of high-performance
//! matrix multiplication", 2008).
//!
//! The left operand is read where it lies, unless the terms of its rows are not neighbours. The right operand
//! is packed into panels where its columns are not neighbours. Otherwise the first strip reads it where it
//! lies, and packs it on the way if several strips follow: the stores cost nothing beside the sums.

use super::few;
use super::grid::Blocks;
use super::tile::{
    FETCH_BLOCK, FETCH_NEAR, FETCH_TILE, KEEP, LeftRows, Next, NextPanels, ROWS, STACK, SUM, StripProduct,
    TALL, fetches_apart, has_32_registers, lanes,
};
use super::{MatLayout, MatRef, ProductPart, Right};
use crate::float::Real;
use crate::storage::Scratch;
use crate::walk::starts;
use core::mem::MaybeUninit;
use flex_math::simd::{SQUARE, Simd, WithSimd, has_vectors, prefetch, transposed};

/// Bytes of the block of panels that all strips pass over: half of a small second-level cache.
const BLOCK_BYTES: usize = 256 * 1024;

/// The right operand is packed from [`PACK_ROWS`] rows of the output per vector of a panel on, if a block of
/// its terms takes more than [`PACK_BYTES`]. A smaller operand stays in the caches as it is. Panels of few
/// vectors read a cache line of each row, so packing pays sooner.
///
/// On Zen 4, 32 rows by a square of 1,024 took 604 us in place and 613 packed on the way; 128 rows 3,227 and
/// 2,727, where the square was not in the second-level cache. At AVX2, 16 rows by a square of 384 took 43 us
/// and 45, 32 rows by a square of 1,024 took 1,239 and 717.
const PACK_ROWS: usize = 12;
pub(super) const PACK_BYTES: usize = 64 * 1024;

/// The most rows by which packed panels are multiplied one by one, if they do not fit a block. All strips
/// pass over a panel and share in prefetching the next one, so that memory delivers panels all the time.
/// With more rows there is time enough to [prefetch a block](NextPanels), and the left operand would be read
/// too often.
///
/// On one thread of Zen 3, by blocks and by panels, in GFLOP/s: 12 rows by 768 x 3,072 38.0 and 62.6, 16 by a
/// square of 384 38.2 and 54.6, 16 by 384 x 1,536 42.6 and 52.8, 32 by 768 x 3,072 51.4 and 58.1, 48 by
/// 384 x 1,536 62.7 and 80.3, 64 70.3 and 81.5; 128 by 768 x 3,072 82.1 and 78.8. With prefetches, 8 rows by
/// squares of 256 in the third-level cache took longer: 61.6 and 54.0.
const STREAMED_ROWS: usize = 64;

/// Bytes of an operand that takes no time to come from memory, if the other one is as small.
const SMALL_BYTES: usize = 8 * 1024;

/// Rows of the left operand that are packed at a time, as a multiple of [`ROWS`].
const LEFT_ROWS: usize = 128 * ROWS;

/// A part of a product that is computed by blocks.
pub(super) struct PartByBlocks<'a, T> {
    pub part: ProductPart<'a, T>,
    /// Number of blocks of terms, at least one. Their sums are added up in order.
    pub blocks: usize,
}

impl<T: Real> WithSimd for PartByBlocks<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        // Conditions on constants: one of them is compiled.
        match const { panel_vectors::<S>() } {
            4 => self.by_blocks::<S, 4>(),
            2 => self.by_blocks::<S, 2>(),
            _ => self.by_blocks::<S, 1>(),
        }
    }
}

/// Vectors of a panel: the columns of a full tile.
pub(super) const fn panel_vectors<S: Simd>() -> usize {
    if has_32_registers::<S>() {
        4
    } else if has_vectors::<S>() {
        2
    } else {
        1
    }
}

impl<T: Real> PartByBlocks<'_, T> {
    /// Computes the product in panels of `V` vectors.
    #[inline(always)]
    fn by_blocks<S: Simd, const V: usize>(self) {
        let ProductPart { target, d, a, b, panels, bias, few_apart, .. } = self.part;
        let (l, r) = (a.layout(), b.layout());
        let (m, k) = (d.rows, l.cols);
        let few = if const { has_vectors::<S>() && few::serves::<T>() } && few_apart {
            few::count(d.cols, lanes::<S, T>())
        } else {
            0
        };
        let n = d.cols - few;
        let width = V * lanes::<S, T>();
        let heights = Heights::of::<S>();
        // They were packed for another level if the level of the process changed meanwhile.
        let panels = panels.filter(|panels| panels.width() == width);
        let depth = k.div_ceil(self.blocks);
        let pays = m >= V * PACK_ROWS && n.saturating_mul(depth).saturating_mul(size_of::<T>()) > PACK_BYTES;
        // The first strip packs whole vectors of columns.
        let whole = heights != Heights::Plain && n.is_multiple_of(lanes::<S, T>());
        // Columns that are not stored are no neighbours either.
        let strided = r.col_stride != 1 || n < lanes::<S, T>();
        let pack_right = panels.is_none() && (strided || pays && !whole);
        let keep = panels.is_none() && pays && !pack_right;
        let pack_left = l.col_stride != 1 && n > width;
        let small = k.saturating_mul(m.max(n)).saturating_mul(size_of::<T>()) <= SMALL_BYTES;
        let right_bytes = n.saturating_mul(k).saturating_mul(size_of::<T>());
        let streams = panels.is_some() && m <= STREAMED_ROWS && right_bytes > BLOCK_BYTES;
        let fit = if streams { 1 } else { BLOCK_BYTES / size_of::<T>() / width / depth.max(1) };
        let across = n.next_multiple_of(width).min(fit.max(1) * width);
        let right_len = if pack_right || keep { across * depth } else { 0 };
        let few_len = few::room(few, depth);
        let (down, left_len) = if pack_left {
            let down = m.min(LEFT_ROWS);
            (down, down * depth)
        } else {
            (m, 0)
        };
        let mut buffer;
        let packed: &mut [T] = if left_len + right_len + few_len > 0 {
            buffer = Scratch::for_task(left_len + right_len + few_len);
            &mut buffer
        } else {
            &mut []
        };
        let (left_packed, packed) = packed.split_at_mut(left_len);
        let (right_packed, few_packed) = packed.split_at_mut(right_len);
        let mut stack = [const { MaybeUninit::<T>::uninit() }; STACK];
        let nothing = Next::none(stack.as_ptr().cast());
        let blocks = Blocks::new(k, self.blocks);
        // Not `step_by`, which divides, also for the smallest product.
        let mut row = 0;
        while row < m {
            let rows = down.min(m - row);
            // With more rows than this the first strip is a full one, and others follow.
            let keep = keep && rows > TALL;
            let number_of_strips = strips(rows, heights).count();
            for index in 0..self.blocks {
                let (term, terms) = (blocks.start(index), blocks.len(index));
                if pack_left {
                    pack_strips(a.part(row..row + rows, term..term + terms), heights, left_packed);
                }
                let (old, scales) = self.part.old_of_block(index);
                if few > 0 {
                    few::pack(b, term..term + terms, n..n + few, few_packed);
                }
                let mut col = 0;
                while col < n {
                    let cols = across.min(n - col);
                    if pack_right {
                        match b {
                            Right::Matrix(b) => {
                                pack_panels(b.part(term..term + terms, col..col + cols), width, right_packed);
                            }
                            Right::Columns { columns, cols: (first, _), .. } => {
                                let (terms, cols) = (term..term + terms, first + col..first + col + cols);
                                let to =
                                    &mut right_packed[..cols.len().next_multiple_of(width) * terms.len()];
                                columns.pack(terms, cols, width, bytemuck::cast_slice_mut(to));
                            }
                        }
                    }
                    // The columns that the first strip reads after these. Columns that are packed first come
                    // from elsewhere.
                    let (next_index, next_col) =
                        if col + cols < n { (index, col + cols) } else { (index + 1, 0) };
                    // Full strips share its block, without the first one.
                    let sharing = (rows / ROWS).saturating_sub(1) * cols.div_ceil(width);
                    let (mut next, mut next_panel, mut next_panels) = (nothing, None, NextPanels::NONE);
                    if next_index < self.blocks && !(small || pack_right) {
                        let (next_term, next_cols) = (blocks.start(next_index), across.min(n - next_col));
                        let next_terms = blocks.len(next_index);
                        if let Some(panels) = &panels {
                            let start = panels.pointer(next_term..next_term + next_terms, next_col);
                            let len = next_terms * next_cols.next_multiple_of(width);
                            if streams {
                                next_panel = Some((start, len));
                            } else if sharing > 0 {
                                next_panels = NextPanels::new(start, len, sharing);
                            }
                        } else {
                            let start = b.pointer(next_term, next_col);
                            next = Next::new(start, r.row_stride, next_cols, next_terms, sharing);
                        }
                    }
                    let (mut tiles, mut apart) = (0, row);
                    for (number, (first, height)) in strips(rows, heights).enumerate() {
                        let at = row + first;
                        let packed = right_packed.as_mut_ptr();
                        let next = match next_panel {
                            Some((start, len)) => Next::share(start, len, terms, number, number_of_strips),
                            None => next.after(tiles),
                        };
                        // The first strip prefetches the next tile instead.
                        let next_panels =
                            if first == 0 { NextPanels::NONE } else { next_panels.after(tiles) };
                        tiles += if first == 0 { 0 } else { cols.div_ceil(width) };
                        let left = if pack_left {
                            left_packed.as_ptr().wrapping_add(first * terms)
                        } else {
                            a.pointer(at, term)
                        };
                        // The rows of the next strip or block of terms may come from memory. Weights of
                        // convolutions do: ResNet-50 takes 36.1 ms in place of 38.9 (Zen 5, one thread).
                        let next_left = if pack_left {
                            left
                        } else if first + height < rows {
                            a.pointer(at + height, term)
                        } else {
                            a.pointer(row, if col + cols < n { term } else { term + terms })
                        };
                        let in_place = panels.is_none() && !(pack_right || keep && first > 0);
                        let right = match &panels {
                            Some(panels) => panels.pointer(term..term + terms, col),
                            None if in_place => b.pointer(term, col),
                            None => packed.cast_const(),
                        };
                        let does = if small {
                            SUM
                        } else if keep && first == 0 {
                            KEEP
                        } else if in_place && first == 0 {
                            FETCH_TILE
                        } else if next.is_any() {
                            FETCH_BLOCK
                        } else {
                            FETCH_NEAR
                        };
                        let strip = StripProduct {
                            terms,
                            left,
                            left_row: LeftRows::new::<T>(if pack_left { 1 } else { l.row_stride }),
                            next_left,
                            left_term: if pack_left { height as isize } else { l.col_stride },
                            right,
                            right_term: if in_place { r.row_stride } else { width as isize },
                            panel: if in_place { width } else { terms * width },
                            width,
                            padded: pack_right || panels.is_some(),
                            out: target.wrapping_add(d.position(at, col)),
                            out_row: d.row_stride,
                            out_col: d.col_stride,
                            old: old.at(at, col),
                            cols,
                            scales,
                            bias: match bias {
                                Some(bias) if index == 0 => bias[at..].as_ptr(),
                                _ => core::ptr::null(),
                            },
                            stack: stack.as_mut_ptr().cast(),
                            packed,
                            next,
                            next_panels,
                        };
                        // SAFETY: rows `at..at + height`, columns `col..col + cols` and terms
                        // `term..term + terms` lie in the operands and in the output, whose positions are
                        // valid. `pack_strips`, and `pack_panels` or the first strip, packed the same
                        // ranges in the layouts that are named above. An operand that is not packed has at
                        // least as many columns as a vector, so a vector that ends at column `col + cols`
                        // lies inside of it. The first strip keeps whole vectors of columns, for which
                        // `right_packed` has room. `panels` have the blocks, the columns and the width of
                        // this product, and as many numbers. `bias` has an element for each row.
                        unsafe { strip.rows::<S, V>(height, does) };
                        let end = at + height;
                        let due = end - apart >= few::TOGETHER || first + height == rows;
                        if few > 0 && col + cols == n && due {
                            let packed = &few_packed[..few * terms];
                            few::multiply(&self.part, apart..end, term..term + terms, packed);
                            apart = end;
                        }
                    }
                    col += cols;
                }
            }
            row += rows;
        }
    }
}

impl<T: Real> StripProduct<T> {
    /// Multiplies the strip, of `height` rows, by all columns. Besides, a strip of [`ROWS`] rows does the
    /// work that `does` names, one of the constants of [`tile`](super::tile). Strips of other heights
    /// prefetch the next tile, whether or not they are the first to pass over a block.
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    unsafe fn rows<S: Simd, const V: usize>(&self, height: usize, does: u8) {
        // Conditions on constants: strips of other heights are not compiled.
        // SAFETY: as the caller vouches.
        unsafe {
            if const { has_vectors::<S>() } {
                match height {
                    ROWS if does == KEEP => return self.columns::<S, ROWS, V, KEEP>(),
                    // For f64, of which few models consist, it is not worth its machine code.
                    ROWS if const { size_of::<T>() == 4 } && does == FETCH_TILE => {
                        return self.first_pass::<S, ROWS, V>();
                    }
                    // Beside four vectors, a prefetch of a line that is in use costs nothing; beside two, 2
                    // to 7 % of the time (Zen 4).
                    ROWS if const { V < 4 } && does == FETCH_NEAR => {
                        return self.columns::<S, ROWS, V, FETCH_NEAR>();
                    }
                    ROWS if does != SUM => return self.columns::<S, ROWS, V, FETCH_BLOCK>(),
                    4 if const { fetches_apart::<S>(4) && size_of::<T>() == 4 } && does == FETCH_BLOCK => {
                        return self.columns::<S, 4, 2, FETCH_BLOCK>();
                    }
                    // Two vectors of sums in each of these rows hide the latency of the additions.
                    5 => return self.columns::<S, 5, 2, FETCH_TILE>(),
                    4 => return self.columns::<S, 4, 2, FETCH_TILE>(),
                    3 => return self.columns::<S, 3, V, FETCH_TILE>(),
                    2 => return self.columns::<S, 2, V, FETCH_TILE>(),
                    _ => {}
                }
            }
            if const { has_32_registers::<S>() } {
                match height {
                    8 => return self.columns::<S, 8, 2, FETCH_TILE>(),
                    7 => return self.columns::<S, 7, 2, FETCH_TILE>(),
                    _ => {}
                }
            }
            match height {
                // Not apart: with a call for each full strip, a product of 32 x 32 x 32 took 1.18 us in
                // place of 1.08 (one thread of Zen 4).
                ROWS => self.tiles::<S, ROWS, V, SUM>(),
                _ => self.columns::<S, 1, V, FETCH_TILE>(),
            }
        }
    }
}

/// Which heights of strips there are: every height up to [`TALL`], every height up to [`ROWS`], or, without
/// vectors, [`ROWS`] and 1 alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heights {
    Tall,
    Short,
    Plain,
}

impl Heights {
    #[inline(always)]
    fn of<S: Simd>() -> Self {
        if const { !has_vectors::<S>() } {
            Self::Plain
        } else if const { has_32_registers::<S>() } {
            Self::Tall
        } else {
            Self::Short
        }
    }
}

/// The strips of `rows` rows: the first row of each, and their number. The last strips are as high as can be:
/// each passes over the right operand once.
#[inline(always)]
fn strips(rows: usize, heights: Heights) -> impl Iterator<Item = (usize, usize)> {
    const ABOVE: usize = ROWS + 1;
    let mut row = 0;
    core::iter::from_fn(move || {
        let height = match rows - row {
            0 => return None,
            left @ ABOVE..=TALL if heights == Heights::Tall => left,
            ABOVE..=TALL if heights == Heights::Short => TALL / 2,
            left @ ..ROWS if heights != Heights::Plain => left,
            ROWS.. => ROWS,
            _ => 1,
        };
        row += height;
        Some((row - height, height))
    })
}

/// Terms that [`pack_strips`] packs at a time: the numbers of neighbouring strips share cache lines, which
/// stay in the first-level cache meanwhile.
const PACK_TERMS: usize = 64;

/// How many numbers ahead of a strip [`pack_strips`] prefetches in each term: two cache lines of f32. Terms
/// lie too far apart for the processor to do it. 128 products of a transposed matrix of 128 x 128 by one of
/// 128 x 32, both in memory, take 0.86 of the time, gradients of weights 0.97 to 1 (Zen 3, one thread; 16 and
/// 64 are equal).
const STRIPS_AHEAD: usize = 32;

/// Packs the rows of `left`, [strip](strips) after strip: the numbers of a term become neighbours. Not
/// inlined: no instruction set speeds it up.
#[inline(never)]
fn pack_strips<T: Real>(left: MatRef<'_, T>, heights: Heights, to: &mut [T]) {
    let MatLayout { rows, cols: terms, row_stride, col_stride, .. } = left.layout();
    let data = left.data();
    for from in starts(0..terms, PACK_TERMS) {
        let until = terms.min(from + PACK_TERMS);
        for (first, height) in strips(rows, heights) {
            let to = &mut to[first * terms..][from * height..until * height];
            let mut at = left.layout().position(first, from);
            if row_stride == 1 && height == ROWS {
                for to in to.as_chunks_mut::<ROWS>().0 {
                    prefetch(data.as_ptr().wrapping_add(at + STRIPS_AHEAD).cast(), 1);
                    *to = *data[at..].first_chunk().expect("a strip of rows");
                    at = at.wrapping_add_signed(col_stride);
                }
                continue;
            }
            for to in to.chunks_exact_mut(height) {
                let each = (0..height).map(|i| data[at.wrapping_add_signed(i as isize * row_stride)]);
                to.iter_mut().zip(each).for_each(|(to, from)| *to = from);
                at = at.wrapping_add_signed(col_stride);
            }
        }
    }
}

/// Packs the columns of `right` into panels of `width` columns, the last padded with zeros: the numbers of a
/// term become neighbours. Not inlined: no instruction set speeds it up.
#[inline(never)]
pub(super) fn pack_panels<T: Real>(right: MatRef<'_, T>, width: usize, to: &mut [T]) {
    let MatLayout { rows: terms, cols, row_stride, col_stride, .. } = right.layout();
    let data = right.data();
    let whole = |len: usize| len / SQUARE * SQUARE;
    // Where the terms are neighbours, squares of terms and columns are transposed.
    let (square_terms, square_cols) =
        if row_stride == 1 && col_stride != 1 { (whole(terms), whole(cols)) } else { (0, 0) };
    if !cols.is_multiple_of(width) {
        let last = cols / width * width * terms;
        to[last..last + width * terms].fill(T::ZERO);
    }
    // Term after term, so that a row is read from end to end.
    for p in 0..terms {
        let done = if p < square_terms { square_cols } else { 0 };
        for first in starts(done / width * width..cols, width) {
            let skip = done.saturating_sub(first);
            let cols = width.min(cols - first);
            let to = &mut to[first * terms + p * width..][..cols];
            let at = right.layout().position(p, first);
            if col_stride == 1 {
                to.copy_from_slice(&data[at..at + cols]);
            } else {
                for (j, to) in to.iter_mut().enumerate().skip(skip) {
                    *to = data[at.wrapping_add_signed(j as isize * col_stride)];
                }
            }
        }
    }
    if square_terms > 0 {
        pack_squares(right.transposed(), width, to, square_cols, square_terms);
    }
}

/// Terms that [`pack_squares`] packs at a time: a cache line of f32. So lines are read at once, and rows of a
/// panel are written from end to end. Square after square down the columns, every line of the panel was
/// fetched for each square that it is in: 384 x 384 numbers took 130 us, in place of 50.
const SQUARE_TERMS: usize = 4 * SQUARE;

/// [`pack_panels`] for the first columns and terms, whole squares of them. The columns are the rows of
/// `columns`.
#[inline(always)]
fn pack_squares<T: Real>(columns: MatRef<'_, T>, width: usize, to: &mut [T], cols: usize, terms: usize) {
    let depth = columns.layout().cols;
    for (panel, to) in to.chunks_mut(width * depth).enumerate().take(cols.div_ceil(width)) {
        let in_panel = panel * width..cols.min((panel + 1) * width);
        for from in starts(0..terms, SQUARE_TERMS) {
            for first in starts(in_panel.clone(), SQUARE) {
                for term in starts(from..terms.min(from + SQUARE_TERMS), SQUARE) {
                    let square: [[T; SQUARE]; SQUARE] = core::array::from_fn(|i| {
                        let run = columns.row_run(first + i, term, SQUARE).expect("the terms are neighbours");
                        prefetch(run.as_ptr().wrapping_add(SQUARE_TERMS).cast(), 1);
                        *run.first_chunk().expect("a run of a square")
                    });
                    let to = to[term * width..][..SQUARE * width].chunks_exact_mut(width);
                    for (to, row) in to.zip(transposed(square)) {
                        *to[first % width..].first_chunk_mut().expect("squares fit a panel") = row;
                    }
                }
            }
        }
    }
}
