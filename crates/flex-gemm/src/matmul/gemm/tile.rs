//! Tiles: sums of a few rows by a few vectors of columns, which stay in registers.
//!
//! The kernel of a tile multiplies numbers of the left operand, which it broadcasts, by vectors of the right
//! operand. The sum of an element begins with zero and adds its terms in order, whatever the tile it lies in.

use super::blocks::panel_vectors;
use super::{OldElements, Scales};
use crate::float::Real;
use flex_math::simd::{CACHE_LINE, Simd, Vector, WIDEST, apart, has_vectors, prefetch, prefetch_far};

/// Rows of a full tile. With four vectors of columns, 24 of the 32 registers of AVX-512 hold sums, which
/// hides the latency of the additions (4 clocks, two units); with two, 12 of the 16 of AVX2.
pub(super) const ROWS: usize = 6;

/// Rows of the tallest tile, of two vectors of columns, where there are 32 registers. Up to as many rows pass
/// over the right operand once.
pub(super) const TALL: usize = 8;

/// Terms by which numbers of the right operand are prefetched before they are used. The hardware prefetches
/// within a page, and rows of an operand that is not packed lie in pages of their own.
const AHEAD: usize = 8;

/// Prefetch distance, in terms, per distinct row address modulo [`ALIAS`].
///
/// The addresses of rows that are a multiple of [`ALIAS`] apart are all equal modulo [`ALIAS`]: their cache
/// lines compete for a few sets of eight lines, and a line that is fetched too early is evicted before its
/// use. On Zen 4, 8 rows by a square of 1,024 took 268 us with a distance of 8 terms, 226 with 4 and 194 with
/// 2; by 768 x 3,072 757, 629 and 578; by a square of 768, whose rows have four distinct addresses, 86, 105
/// and 96.
const AHEAD_PER_PLACE: usize = 2;

/// Terms after which the first tile of a strip prefetches another cache line of each row of the next strip:
/// the f32 of a line. While every tile did so again, 128 rows by 384 x 1,536 were multiplied at 56.9 GFLOP/s
/// in place of 63.0 (Zen 3, the other thread of the core busy).
const LINE: usize = 16;

/// Terms that a tile adds in one pass of its loop over a packed panel. The pointers move on once for all of
/// them, and the panel itself is not prefetched: the hardware follows it, or earlier strips fetched it.
///
/// A term of six rows by two vectors takes 12 multiplications, 8 loads and half an instruction besides; one
/// at a time, with prefetches, it took 25 instructions. A core of Zen 3 executes three per clock while its
/// other thread is busy. There, a loop of its own over packed panels reached 72 GFLOP/s with four terms in a
/// pass, 60 with one, and 92 without loads.
const TERMS: usize = 4;

/// Whether tiles of this type add [`TERMS`] terms in a pass: for f64, of which few models consist, the loop
/// is not worth its machine code.
const fn has_passes<T>() -> bool {
    size_of::<T>() == size_of::<f32>()
}

/// Where the rows of a tile are stored, and where their old elements are. The elements of a row are
/// neighbours.
#[derive(Clone, Copy)]
struct TileOutput<T> {
    out: *mut T,
    out_row: isize,
    old: *const T,
    old_row: isize,
}

impl<T> TileOutput<T> {
    /// Column `j` of row `i`, old and new.
    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> (*const T, *mut T) {
        let (old, out) = (self.old_row.wrapping_mul(i as isize), self.out_row.wrapping_mul(i as isize));
        (self.old.wrapping_offset(old).wrapping_add(j), self.out.wrapping_offset(out).wrapping_add(j))
    }
}

/// What a strip does besides its sums. Numbers, since const parameters cannot be enums.
///
/// Nothing: the operands are small. Chosen at run time, every loop would execute the instructions of a
/// prefetch: 5 % of the instructions of a product of 32 x 32.
pub(super) const SUM: u8 = 0;
/// Prefetching the numbers of the right operand shortly before their use, and the next strip of the left
/// operand. Strips of the kinds below do so too. Strips of other heights than [`ROWS`], which are followed by
/// one strip at most, do not prefetch the left operand.
pub(super) const FETCH_NEAR: u8 = 1;
/// Prefetching the right operand a tile ahead: the first strip that passes over it, which may find it in
/// memory. Its rows lie in pages of their own, and the hardware prefetches within a page.
///
/// On one thread of Zen 4, 8 rows by a matrix of 384 x 1,536 in memory took 245 us without this and 83 with
/// it; 16 rows by a square of 384 78 and 53.
pub(super) const FETCH_TILE: u8 = 2;
/// As [`FETCH_TILE`], and packing the right operand.
pub(super) const KEEP: u8 = 3;
/// Prefetching the [`Next`] block of the right operand.
pub(super) const FETCH_BLOCK: u8 = 4;

/// Whether strips of `rows` rows that do this may pass over packed panels, and have a loop for them.
const fn unrolls(rows: usize, does: u8) -> bool {
    match does {
        FETCH_NEAR | FETCH_BLOCK => true,
        FETCH_TILE => rows != ROWS,
        _ => false,
    }
}

/// Whether strips of `rows` rows have two loops over packed panels, one that fetches the next block and one
/// without prefetches: the two strips of eight rows, where tiles have six rows at most. Strips of other
/// heights prefetch a line in use where nothing is to come. This would take 7 % of the time of 8 rows by a
/// square of 256 (Zen 3).
pub(super) const fn fetches_apart<S: Simd>(rows: usize) -> bool {
    rows == TALL / 2 && !has_32_registers::<S>()
}

/// Bytes after which addresses have the same place in the first-level cache.
const ALIAS: usize = 4096;

/// Terms by which rows that are `stride` numbers of `T` apart are prefetched.
#[inline(always)]
fn ahead<T>(stride: isize) -> isize {
    let apart = stride.unsigned_abs().wrapping_mul(size_of::<T>()) | ALIAS;
    let places = ALIAS >> apart.trailing_zeros();
    AHEAD.min(AHEAD_PER_PLACE * places) as isize
}

/// Bytes of the "vectors" of the plain loops that stand in for vectors at the baseline: two registers on
/// x86-64. The sums of a full tile then take 12 of its 16 registers.
const PLAIN_BYTES: usize = 32;

/// Whether there are 32 registers for vectors: enough for four vectors of sums in each row of a tile.
pub(super) const fn has_32_registers<S: Simd>() -> bool {
    size_of::<S::Register>() == 64 || cfg!(target_arch = "aarch64")
}

/// Elements of the largest tile, and of its rows.
pub(super) const STACK: usize = if ROWS * 4 > TALL * 2 { ROWS * 4 } else { TALL * 2 } * WIDEST;
pub(super) const WIDTH: usize = 4 * WIDEST;

/// Elements of a vector.
#[inline(always)]
pub(super) fn lanes<S: Simd, T: Real>() -> usize {
    if const { has_vectors::<S>() } { T::lanes::<S>() } else { PLAIN_BYTES / size_of::<T>() }
}

/// A strip of the left operand, the panels that it passes over, and their output.
pub(super) struct StripProduct<T> {
    pub terms: usize,
    /// The number of row `i` and term `p` is `p * left_term` numbers after the first one of row `i`.
    pub left: *const T,
    pub left_row: LeftRows,
    pub left_term: isize,
    /// Where the next strip begins, which lies as this one does.
    pub next_left: *const T,
    /// The number of term `p` and column `j` is at `j / width * panel + p * right_term + j % width`.
    pub right: *const T,
    pub right_term: isize,
    pub panel: usize,
    pub width: usize,
    /// Whether panels are padded, so that a vector may reach over the last column.
    pub padded: bool,
    /// The element of row `i` and column `j` is at `i * out_row + j * out_col`.
    pub out: *mut T,
    pub out_row: isize,
    pub out_col: isize,
    /// The old elements; if `beta` is zero, [`WIDTH`] zeros that stand for those of each row.
    pub old: OldElements<T>,
    pub cols: usize,
    pub scales: Scales<T>,
    /// What the sums of each row begin with; null for zeros.
    pub bias: *const T,
    /// Room for a tile that does not lie in the output: [`STACK`] elements.
    pub stack: *mut T,
    /// Where a strip that keeps the right operand packs it: the number of term `p` and column `j` goes to
    /// `j / width * width * terms + p * width + j % width`.
    pub packed: *mut T,
    /// The block that comes next.
    pub next: Next<T>,
    /// The block of packed panels that comes next.
    pub next_panels: NextPanels,
}

/// The part of the right operand that tiles prefetch, row by row: its next block, or its next tile.
///
/// The first strip of a block would wait for memory, so the strips that pass over the block before prefetch
/// it: each tile fetches a portion, one cache line of each of some rows. On Zen 4, 128 rows by 768 x 3,072 in
/// memory took 5.56 ms in place of 6.32.
#[derive(Clone, Copy)]
pub(super) struct Next<T> {
    /// Where the first portion of all begins.
    start: *const T,
    /// Numbers by which a tile moves on after each term, and besides after each pass of [`TERMS`] terms.
    row: isize,
    pass: isize,
    /// Numbers from the rows of a portion to the rows of the next portion, of the same lines.
    apart: isize,
    /// Portions that tiles have fetched, and that there are.
    fetched: usize,
    portions: usize,
    /// Logarithm of the number of portions, with different rows, of the same lines.
    log: u32,
}

impl<T> Next<T> {
    /// Nothing to fetch: tiles name a line again that is in use.
    #[inline(always)]
    pub fn none(in_use: *const T) -> Self {
        Self { start: in_use, row: 0, pass: 0, apart: 0, fetched: 0, portions: 0, log: 0 }
    }

    /// Whether there are portions to fetch.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.fetched < self.portions
    }

    /// `cols` columns of `terms` rows from `start` on, which `tiles` tiles may fetch. If these are many, a
    /// portion has as many rows as a tile has passes, and not terms, so that memory has more time: eight
    /// images of 256 channels at 56x56, to 64 channels, take 11.3 ms in place of 13.1, of 1,024 channels at
    /// 14x14, to 256, 12.7 in place of 14.7 (one thread of Zen 3).
    #[inline(always)]
    pub fn new(start: *const T, row: isize, cols: usize, terms: usize, tiles: usize) -> Self {
        // A row may begin in the middle of a line.
        let lines = (cols * size_of::<T>()).div_ceil(CACHE_LINE) + 1;
        let rows = Self { row, portions: lines, ..Self::none(start) };
        if const { !has_passes::<T>() } || tiles < lines * TERMS {
            return rows;
        }
        let apart = (terms / TERMS) as isize * row;
        Self { row: 0, pass: row, apart, portions: lines * TERMS, log: TERMS.ilog2(), ..rows }
    }

    /// The share of strip number `strip` of `strips`, which fetch `len` numbers from `start` on while each
    /// multiplies one panel. A tile fetches a line for each of its `terms` terms, so it may fetch a line
    /// several times.
    #[inline(always)]
    pub fn share(start: *const T, len: usize, terms: usize, strip: usize, strips: usize) -> Self {
        let share = len.div_ceil(strips);
        let row = share.div_ceil(terms) as isize;
        Self { row, portions: 1, ..Self::none(start.wrapping_add(strip * share)) }
    }

    /// The portions that are left after `tiles` tiles.
    #[inline(always)]
    pub fn after(self, tiles: usize) -> Self {
        if self.fetched + tiles < self.portions {
            Self { fetched: self.fetched + tiles, ..self }
        } else {
            Self::none(self.start)
        }
    }

    /// Where the first portion that is left begins.
    #[inline(always)]
    fn first(&self) -> *const T {
        let (line, part) = (self.fetched >> self.log, self.fetched & ((1 << self.log) - 1));
        self.start.wrapping_byte_add(line * CACHE_LINE).wrapping_offset(part as isize * self.apart)
    }
}

/// The next block of packed panels, of which each tile prefetches a few cache lines.
///
/// The first strip of a block would wait for memory, which delivers the numbers of a tile later than they are
/// multiplied. The strips after it leave time enough, if each of their tiles fetches its share. 128 rows by
/// 768 x 3,072 in memory were multiplied at 62.7 GFLOP/s without this and at 68.0 with it, by 3,072 x 768 at
/// 61.4 and 64.0 (one thread of Zen 3); nothing was gained while the first few tiles fetched the whole block.
#[derive(Clone, Copy)]
pub(super) struct NextPanels {
    start: *const u8,
    /// Bytes for each tile.
    share: usize,
}

impl NextPanels {
    /// Nothing to fetch.
    pub const NONE: Self = Self { start: core::ptr::null(), share: 0 };

    /// A block of `len` numbers, of which `tiles` tiles fetch equal shares.
    pub fn new<T>(start: *const T, len: usize, tiles: usize) -> Self {
        let lines = (len * size_of::<T>()).div_ceil(CACHE_LINE);
        Self { start: start.cast(), share: lines.div_ceil(tiles) * CACHE_LINE }
    }

    /// The shares that are left after `tiles` tiles.
    #[inline(always)]
    pub fn after(self, tiles: usize) -> Self {
        Self { start: self.start.wrapping_add(tiles * self.share), ..self }
    }

    /// Prefetches the first share.
    #[inline(always)]
    fn fetch(self) {
        prefetch_far(self.start, self.share);
    }
}

/// Distances of the rows of a strip from its first row, in bytes: once, three, five and seven times the
/// distance of neighbours. The address of any row is the address of the first, plus one of them times 1, 2 or
/// 4: x86 adds that up while it loads.
///
/// The strip knows the multiples. From the distance of neighbours alone, the compiler adds from row to row: 5
/// of 32 instructions for each term of a tile of 6 rows by two vectors. Both threads of a core share its
/// decoders. A core of Zen 3 whose other thread was busy multiplied 128 rows by 384 x 1,536 at 46.6 GFLOP/s
/// without the multiples, and at 53.4 with them; by 768 x 3,072 at 42.2 and 47.2. With the other thread idle
/// it reached 75.0 and 73.6.
#[derive(Clone, Copy)]
pub(super) struct LeftRows([isize; 4]);

impl LeftRows {
    /// Rows that are `distance` numbers of `T` apart.
    #[inline(always)]
    pub fn new<T>(distance: isize) -> Self {
        let one = distance.wrapping_mul(size_of::<T>() as isize);
        Self([1isize, 3, 5, 7].map(|times| one.wrapping_mul(times)))
    }

    /// The distance of row `row`, at most [`TALL`].
    #[inline(always)]
    fn to(self, row: usize) -> isize {
        let Self([one, three, five, seven]) = self;
        match row {
            0 => 0,
            1 | 2 | 4 => one * row as isize,
            3 | 6 => three * (row / 3) as isize,
            5 => five,
            _ => seven,
        }
    }
}

impl<T: Real> StripProduct<T> {
    /// Multiplies the strip, of `R` rows, by all columns, in tiles of up to `V` vectors. With `DO == KEEP` it
    /// also packs the right operand.
    ///
    /// # Safety
    /// * `left`, `right` and `old` must be valid for reads of all elements that the fields describe (`old` of
    ///   [`WIDTH`] if `beta` is zero), `out` for reads and writes. With `DO == KEEP`, `packed` must be valid
    ///   for writes. `bias` must be null or valid for reads of `R` elements, and `stack` valid for writes and
    ///   reads of [`STACK`].
    /// * If the panels are not padded, the last vector of a row ends at the last column and may begin before
    ///   the first column: this memory must be valid for reads.
    /// * With `DO == KEEP`, the number of columns must be a multiple of a vector.
    #[inline(always)]
    pub unsafe fn columns<S: Simd, const R: usize, const V: usize, const DO: u8>(&self) {
        // SAFETY: as the caller vouches.
        apart::<S, _>(
            #[inline(always)]
            || unsafe { self.tiles::<S, R, V, DO>() },
        );
    }

    /// [`columns`](Self::columns) with [`FETCH_TILE`], for a right operand that is not packed. Whole panels
    /// alone prefetch: so the loops for smaller tiles are not compiled again.
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    pub unsafe fn first_pass<S: Simd, const R: usize, const V: usize>(&self) {
        let width = V * lanes::<S, T>();
        let whole = if self.is_in_runs() { self.cols / width * width } else { 0 };
        apart::<S, _>(
            #[inline(always)]
            || {
                let mut j = 0;
                while j < whole {
                    let right = self.right.wrapping_add(j);
                    let next = self.next_tile(right, self.cols - j, width);
                    let to = self.in_output(j);
                    // SAFETY: as the caller vouches, for these columns.
                    unsafe { self.tile::<S, R, V, FETCH_TILE>(right, self.packed, to, next) };
                    j += width;
                }
            },
        );
        if whole < self.cols {
            let rest = Self {
                right: self.right.wrapping_add(whole),
                out: self.out.wrapping_offset(whole as isize * self.out_col),
                old: self.old.at(0, whole),
                cols: self.cols - whole,
                ..*self
            };
            // SAFETY: as the caller vouches, for these columns.
            unsafe { rest.columns::<S, R, V, FETCH_BLOCK>() };
        }
    }

    /// Whether neighbouring columns of the output and of its old elements are neighbours in memory.
    #[inline(always)]
    fn is_in_runs(&self) -> bool {
        self.out_col == 1 && self.scales.takes_runs(self.old.col_stride)
    }

    /// The output of a tile that begins with column `j`.
    #[inline(always)]
    fn in_output(&self, j: usize) -> TileOutput<T> {
        TileOutput {
            out: self.out.wrapping_offset(j as isize * self.out_col),
            out_row: self.out_row,
            old: self.old.at(0, j).start,
            old_row: self.old.row_stride,
        }
    }

    /// The next tile, which a tile of `width` columns prefetches: the right operand of the tile begins at
    /// `right`, and `left` columns are left.
    #[inline(always)]
    fn next_tile(&self, right: *const T, left: usize, width: usize) -> Next<T> {
        if left > width {
            Next { row: self.right_term, ..Next::none(right.wrapping_add(width)) }
        } else {
            self.next
        }
    }

    /// [`columns`](Self::columns), in the caller's function.
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    pub unsafe fn tiles<S: Simd, const R: usize, const V: usize, const DO: u8>(&self) {
        let lanes = lanes::<S, T>();
        // Otherwise all tiles go by way of the stack.
        let direct = if self.is_in_runs() { self.cols } else { 0 };
        let mut j = 0;
        while j < self.cols {
            let right = self.right.wrapping_add(j / self.width * self.panel + j % self.width);
            let packed = self.packed.wrapping_add(j / self.width * self.width * self.terms + j % self.width);
            let left = self.cols - j;
            let next = if const { DO == FETCH_BLOCK } {
                self.next.after(j / self.width)
            } else if const { DO == FETCH_TILE || DO == KEEP } {
                self.next_tile(right, left, V * lanes)
            } else {
                self.next
            };
            if const { DO == FETCH_NEAR || DO == FETCH_BLOCK } {
                self.next_panels.after(j / self.width).fetch();
            }
            // Whether a tile of `v` vectors lies in the output, or is padded and no vector of it is empty.
            let direct = |v: usize| direct >= j + v * lanes;
            let fits = |v: usize| direct(v) || self.padded && left > (v - 1) * lanes;
            // SAFETY: as the caller vouches. A tile of `V` vectors has as many columns, and whole tiles begin
            // at multiples of their width inside of a panel.
            unsafe {
                if const { V == 4 } && fits(4) {
                    let cols = left.min(4 * lanes);
                    self.part::<S, R, 4, DO>(right, packed, j, 0, cols, direct(4), next);
                    j += cols;
                } else if const { V >= 2 } && fits(2) {
                    let cols = left.min(2 * lanes);
                    self.part::<S, R, 2, DO>(right, packed, j, 0, cols, direct(2), next);
                    j += cols;
                } else {
                    // Where a vector begins before column `j` for lack of padding, its first columns are
                    // skipped.
                    let cols = left.min(lanes);
                    let skip = if self.padded { 0 } else { lanes - cols };
                    self.part::<S, R, 1, DO>(
                        right.wrapping_sub(skip),
                        packed,
                        j,
                        skip,
                        cols,
                        direct(1),
                        next,
                    );
                    j += cols;
                }
            }
        }
    }

    /// Multiplies the strip by a part of a panel, `V` vectors of columns, of which `cols` from `skip` on are
    /// columns of the output, from column `j` on; `direct` tells that all are, and that they are neighbours
    /// in memory. Otherwise the tile lies on the stack.
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    unsafe fn part<S: Simd, const R: usize, const V: usize, const DO: u8>(
        &self,
        right: *const T,
        packed: *mut T,
        j: usize,
        skip: usize,
        cols: usize,
        direct: bool,
        next: Next<T>,
    ) {
        let stacked = self.stack;
        let pitch = (V * WIDEST) as isize;
        let output = self.in_output(j);
        // SAFETY: the positions of the output are valid, as the caller vouches; a row of `stack` has room for
        // `V` of the widest vectors, and is at most `WIDTH` long. A tile writes all of its elements.
        unsafe {
            let mut to = output;
            if !direct {
                (to.out, to.out_row) = (stacked, pitch);
                if self.scales.beta != T::ZERO {
                    stacked.write_bytes(0, R * V * WIDEST);
                    let strides = [self.old.row_stride, self.old.col_stride];
                    copy([R, cols], output.old, strides, stacked.add(skip), [pitch, 1]);
                    (to.old, to.old_row) = (stacked, pitch);
                }
            }
            self.tile::<S, R, V, DO>(right, packed, to, next);
            // Asked anew. The compiler would carry the first answer past the tile, by compiling the tile
            // twice: 70 KB of machine code.
            if core::hint::black_box(!direct) {
                copy([R, cols], stacked.add(skip), [pitch, 1], output.out, [self.out_row, self.out_col]);
            }
        }
    }

    /// Multiplies the strip by `V` vectors of columns. If it has to `KEEP` the vectors, it also writes them
    /// to `packed`.
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const V: usize, const DO: u8>(
        &self,
        right: *const T,
        packed: *mut T,
        to: TileOutput<T>,
        next: Next<T>,
    ) {
        if const { !has_vectors::<S>() } {
            // SAFETY: as the caller vouches. A match on a constant: the other loop is not compiled.
            return unsafe {
                match const { PLAIN_BYTES / size_of::<T>() } {
                    4 => self.plain_tile::<R, V, 4>(right, to),
                    _ => self.plain_tile::<R, V, 8>(right, to),
                }
            };
        }
        let lanes = lanes::<S, T>();
        let first_tile = core::ptr::eq(right, self.right);
        let mut sums: [[Vector<S, T>; V]; R] = [[T::ZERO.splat(); V]; R];
        if !self.bias.is_null() {
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as the caller vouches.
                *sums = [unsafe { *self.bias.add(i) }.splat(); V];
            }
        }
        let (mut left, mut right, mut packed) = (self.left, right, packed);
        let ahead = self.right_term.wrapping_mul(ahead::<T>(self.right_term));
        let mut next_line = next.first();
        let rows = self.left_row;
        // The first tile of a strip fetches all lines of the next strip, the others only the first.
        let whole = self.terms.max(1);
        let line = if const { R == ROWS && DO != SUM } && first_tile { LINE } else { whole };
        // The loop over a packed panel runs as long as this many terms are left. A number, not a condition,
        // for which the compiler would make two copies of the loops around it.
        let panel = panel_vectors::<S>() * lanes;
        let in_panel = self.left_term == 1 && self.right_term == panel as isize;
        let unrolled = if in_panel { TERMS } else { usize::MAX };
        // SAFETY: as the caller vouches; the pointers past the last term are not read.
        unsafe {
            for first in (0..self.terms).step_by(line) {
                if const { R == ROWS && DO != SUM } {
                    let next = self.next_left.wrapping_offset(first as isize * self.left_term);
                    for row in 0..R {
                        prefetch_far(next.wrapping_byte_offset(rows.to(row)).cast(), 1);
                    }
                }
                // Counted down: for a range, the compiler keeps two counters and compares them. With one, the
                // examples of `LeftRows` reach 60.4 and 52.6 GFLOP/s.
                let mut still = line.min(self.terms - first);
                if const { V > 1 && has_passes::<T>() && unrolls(R, DO) } {
                    while still >= unrolled {
                        still -= TERMS;
                        for term in 0..TERMS {
                            if const { DO == FETCH_BLOCK || DO == FETCH_TILE && !fetches_apart::<S>(R) } {
                                prefetch_far(next_line.cast(), 1);
                                next_line = next_line.wrapping_offset(next.row);
                            }
                            let vectors = load_run::<S, T, V>(right.add(term * panel));
                            sums = add_term::<S, T, R, V>(sums, left.add(term), rows, vectors);
                        }
                        next_line = next_line.wrapping_offset(next.pass);
                        left = left.wrapping_add(TERMS);
                        right = right.wrapping_add(TERMS * panel);
                    }
                }
                while still > 0 {
                    still -= 1;
                    if const { DO != SUM } {
                        prefetch(right.wrapping_offset(ahead).cast(), V * lanes * size_of::<T>());
                    }
                    if const { DO >= FETCH_TILE } {
                        let bytes = if DO == FETCH_BLOCK { 1 } else { V * lanes * size_of::<T>() };
                        prefetch_far(next_line.cast(), bytes);
                        next_line = next_line.wrapping_offset(next.row + next.pass);
                    }
                    let vectors = load_run::<S, T, V>(right);
                    if const { DO == KEEP } {
                        for (v, vector) in vectors.iter().enumerate() {
                            T::vstore_unaligned(packed.add(v * lanes), *vector);
                        }
                        packed = packed.wrapping_add(self.width);
                    }
                    sums = add_term::<S, T, R, V>(sums, left, rows, vectors);
                    left = left.wrapping_offset(self.left_term);
                    right = right.wrapping_offset(self.right_term);
                }
            }
            let Scales { alpha, beta } = self.scales;
            let (by, keep): (Vector<S, T>, Vector<S, T>) = (alpha.splat(), beta.splat());
            for (i, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    let (old, out) = to.at(i, v * lanes);
                    T::vstore_unaligned(out, keep.mul_add(T::vload_unaligned(old), *sum * by));
                }
            }
        }
    }

    /// [`tile`](Self::tile) in loops over arrays of `N` elements, which the compiler vectorises.
    ///
    /// # Safety
    /// As for [`columns`](Self::columns).
    #[inline(always)]
    unsafe fn plain_tile<const R: usize, const V: usize, const N: usize>(
        &self,
        right: *const T,
        to: TileOutput<T>,
    ) {
        let mut sums = [[[T::ZERO; N]; V]; R];
        // SAFETY: as the caller vouches.
        unsafe {
            if !self.bias.is_null() {
                for (i, sums) in sums.iter_mut().enumerate() {
                    sums.as_flattened_mut().fill(*self.bias.add(i));
                }
            }
            for p in 0..self.terms as isize {
                let vectors =
                    right.wrapping_offset(p * self.right_term).cast::<[[T; N]; V]>().read_unaligned();
                for (i, sums) in sums.iter_mut().enumerate() {
                    let row = self.left.wrapping_byte_offset(self.left_row.to(i));
                    let number = *row.wrapping_offset(p * self.left_term);
                    for (sum, x) in sums.as_flattened_mut().iter_mut().zip(vectors.as_flattened()) {
                        *sum += number * *x;
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                for (j, sum) in sums.as_flattened().iter().enumerate() {
                    let (old, out) = to.at(i, j);
                    self.scales.store(*sum, old, out);
                }
            }
        }
    }
}

/// `V` vectors, which lie one after the other.
///
/// # Safety
/// The vectors must be valid for reads.
#[inline(always)]
unsafe fn load_run<S: Simd, T: Real, const V: usize>(from: *const T) -> [Vector<S, T>; V] {
    let mut vectors = [T::ZERO.splat(); V];
    for (v, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: as the caller vouches.
        *vector = unsafe { T::vload_unaligned(from.add(v * T::lanes::<S>())) };
    }
    vectors
}

/// Adds a term to the sums: its numbers of the left operand, of which the first is at `left`, times
/// `vectors`.
///
/// # Safety
/// The numbers must be valid for reads.
#[inline(always)]
unsafe fn add_term<S: Simd, T: Real, const R: usize, const V: usize>(
    mut sums: [[Vector<S, T>; V]; R],
    left: *const T,
    rows: LeftRows,
    vectors: [Vector<S, T>; V],
) -> [[Vector<S, T>; V]; R] {
    for (i, sums) in sums.iter_mut().enumerate() {
        // SAFETY: as the caller vouches.
        let number: Vector<S, T> = unsafe { *left.byte_offset(rows.to(i)) }.splat();
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            *sum = number.mul_add(vector, *sum);
        }
    }
    sums
}

/// Copies a block of rows. The first stride is the distance of rows, the second the distance of columns. Not
/// inlined: no instruction set speeds it up.
///
/// # Safety
/// All elements of `from` must be valid for reads, all elements of `to` for writes. The two blocks must not
/// overlap.
#[inline(never)]
unsafe fn copy<T: Real>(
    [rows, cols]: [usize; 2],
    from: *const T,
    from_strides: [isize; 2],
    to: *mut T,
    to_strides: [isize; 2],
) {
    let size = size_of::<T>();
    let in_bytes = |strides: [isize; 2]| strides.map(|stride| stride.wrapping_mul(size as isize));
    let (from, to) = (from.cast(), to.cast());
    let (from_strides, to_strides) = (in_bytes(from_strides), in_bytes(to_strides));
    // SAFETY: as the caller vouches.
    unsafe { copy_bytes([rows, cols * size], size, from, from_strides, to, to_strides) };
}

/// [`copy`] of rows of `cols` bytes, with strides in bytes, for elements of `size` bytes, which is 4 or 8:
/// contiguous rows in runs of constant lengths, others element by element.
///
/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_bytes(
    [rows, cols]: [usize; 2],
    size: usize,
    from: *const u8,
    from_strides: [isize; 2],
    to: *mut u8,
    to_strides: [isize; 2],
) {
    let whole = from_strides[1] == size as isize && to_strides[1] == size as isize;
    for i in 0..rows as isize {
        let mut from = from.wrapping_offset(i.wrapping_mul(from_strides[0]));
        let mut to = to.wrapping_offset(i.wrapping_mul(to_strides[0]));
        // SAFETY: as the caller vouches; the runs add up to `cols`, which is a multiple of `size`.
        unsafe {
            if whole {
                for _ in 0..cols / 64 {
                    core::ptr::copy_nonoverlapping(from, to, 64);
                    (from, to) = (from.add(64), to.add(64));
                }
                for run in [32, 16, 8, 4] {
                    if cols & run != 0 {
                        core::ptr::copy_nonoverlapping(from, to, run);
                        (from, to) = (from.add(run), to.add(run));
                    }
                }
            } else {
                for _ in 0..cols / size {
                    if size == 8 {
                        core::ptr::copy_nonoverlapping(from, to, 8);
                    } else {
                        core::ptr::copy_nonoverlapping(from, to, 4);
                    }
                    // Seldom needed, and so not unrolled.
                    from = core::hint::black_box(from.wrapping_offset(from_strides[1]));
                    to = to.wrapping_offset(to_strides[1]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_strip_are_at_multiples_of_their_distance() {
        for distance in [1isize, 3, -5, 1000, 0] {
            let rows = LeftRows::new::<f64>(distance);
            assert!((0..TALL).all(|row| rows.to(row) == 8 * distance * row as isize), "{distance}");
        }
    }
}
