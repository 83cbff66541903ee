//! Products whose operands are both contiguous along the terms, if the left operand has few rows or the right
//! operand few columns: dot products of runs. Packing an operand would cost more than adding up the lanes of
//! each dot product at its end. With AVX2, 16 rows and more by the weight of a layer are multiplied by tiles
//! instead: weights are packed once for many products.
//!
//! The right operand is read once, a few columns at a time; the left operand has few rows, and stays in the
//! second-level cache. The sum of an element has the same order wherever the element lies: in a block of
//! terms, each lane of a vector adds up terms of its own, and then the lanes are added.

use super::grid::Blocks;
use super::tile::has_32_registers;
use super::{MatLayout, MatRef, OldElements, ProductPart, Scales};
use crate::float::Real;
use flex_math::simd::{CACHE_LINE, SQUARE, Simd, Vector, WIDEST, WithSimd, has_vectors};
use flex_math::simd::{Level, lane_sums, level, prefetch_far, row_sum, transposed};

/// Columns of a tile: the lanes of as many sums are added together.
const COLS: usize = SQUARE;

/// Least number of terms: as many as the widest vector has lanes.
pub(super) const TERMS: usize = WIDEST;

/// Most rows of a product that is computed as dot products. Packed tiles are faster if there are more rows
/// than three quarters of the terms: each row ends with sums of lanes, and packing costs as much for all
/// terms. The rows and a block of terms have to fit the second-level cache.
///
/// On Zen 4 with AVX-512, with terms x columns, packed and as dot products, in us: 16 rows by 64x256 10.2 and
/// 7.1, 64 by 64x256 23.8 and 26.0, 1024 by 64x48 57 and 82, 16 by 384x384 87 and 43, 128 by 384x384 372 and
/// 347, 512 by 384x384 1,348 and 1,475, 32 by 1024x1024 932 and 609, 256 by 1024x1024 5,134 and 5,097.
const ROWS: usize = 128;

/// [`ROWS`] at AVX2, which has 16 registers: tiles of dot products have 8 sums, packed tiles 12.
///
/// A core of Zen 3 whose other thread was busy computed dot products of 64 rows by a square of 768 at 43.8
/// GFLOP/s, packed tiles at 41.4; of 96 rows at 39.4 and 46.5, of 128 at 48.7 and 51.5. At the baseline, 128
/// rows are computed at 20.5 and 15.5 GFLOP/s.
const ROWS_OF_AVX2: usize = 80;

/// [`ROWS_OF_AVX2`] where the right operand is to be kept packed. On one thread of Zen 3 panels multiply 8
/// rows by 384x384 in memory 1.45 times as fast as dot products do, 16 rows 1.3 and 64 rows 1.65 times. But
/// an operand that cannot be kept is packed at each call, since the order of the sums must not depend on
/// that: then tiles reach 0.34 of the speed for 8 rows, 0.58 for 16 and 1.19 for 64.
const ROWS_OF_AVX2_BY_KEPT: usize = 15;

/// Most columns of a product that is computed as dot products whatever its rows: fewer than half a vector of
/// f32. Panels have whole vectors of columns: 1000 rows by 384x8 took 112 us, as dot products 57.
const NARROW: usize = 8;

/// Whether dot products are faster than tiles where the terms of both operands are neighbours. `kept` tells
/// that the right operand is to be packed once, and multiplied many times.
pub(super) fn pay(rows: usize, cols: usize, terms: usize, kept: bool) -> bool {
    let most = match cfg!(target_arch = "x86_64") && level() == Level::Vectors {
        true if kept => ROWS_OF_AVX2_BY_KEPT,
        true => ROWS_OF_AVX2,
        false => ROWS,
    };
    terms >= TERMS && (rows <= most.min(terms / 4 * 3) || cols <= NARROW)
}

/// Bytes of the left operand that stay in the second-level cache. A larger one is read block by block of
/// terms, for all columns; otherwise the right operand is read from end to end, which takes 39.8 us instead
/// of 47.3 for 8 rows by 1024x256.
const LEFT_BYTES: usize = 512 * 1024;

/// Prefetch distance: the terms of the tiles of columns from the tile that is multiplied to the tile that is
/// prefetched, counted once for each pass. Some 500 ns, about twice the latency of memory.
///
/// On one thread of Zen 4, 2 rows by a square of 256 in memory take 11.6 us, in place of 30 without
/// prefetches; 8 rows 14.5, in place of 28 with prefetches of the next tile to the first-level cache.
const AHEAD: usize = 2048;

/// A part of a product of operands whose terms are neighbours.
pub(super) struct PartByDots<'a, T> {
    pub part: ProductPart<'a, T>,
    /// Its right operand.
    pub right: MatRef<'a, T>,
    /// Number of blocks of terms, at least one. Their sums are added up in order.
    pub blocks: usize,
}

impl<T: Real> WithSimd for PartByDots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if const { has_32_registers::<S>() } {
            self.by_tiles::<S, 4>();
        } else {
            self.by_tiles::<S, 2>();
        }
    }
}

impl<T: Real> PartByDots<'_, T> {
    /// Computes `R` rows and [`COLS`] columns at a time. Where there are fewer, the last ones stand in for
    /// the others.
    #[inline(always)]
    fn by_tiles<S: Simd, const R: usize>(self) {
        let ProductPart { target, d, a, .. } = self.part;
        let b = self.right.transposed();
        let (m, n, k) = (d.rows, d.cols, a.layout().cols);
        assert!(a.layout().col_stride == 1 && b.layout().col_stride == 1, "dots: the terms are neighbours");
        assert!(k / self.blocks >= TERMS, "dots: fewer terms than a vector has");
        let blocks = Blocks::new(k, self.blocks);
        let by_columns = m * k * size_of::<T>() <= LEFT_BYTES;
        let passes = m.div_ceil(R);
        // Each pass over the columns prefetches some columns of a later tile.
        let each = COLS.div_ceil(passes).min(2);
        let tiles = if by_columns && self.blocks > 1 { 1 } else { (AHEAD / (passes * k)).max(1) };
        let (mut j, mut index) = (0, 0);
        while j < n && index < self.blocks {
            let (next_j, next_index) = match (by_columns, index + 1 < self.blocks, j + COLS < n) {
                (true, true, _) | (false, _, false) => (if by_columns { j } else { 0 }, index + 1),
                (true, false, _) => (j + COLS, 0),
                (false, _, true) => (j + COLS, index),
            };
            let (term, terms) = (blocks.start(index), blocks.len(index));
            let (old, scales) = self.part.old_of_block(index);
            let right = lines::<T, COLS>(&b, j, term);
            let ahead = lines::<T, COLS>(&b, next_j + (tiles - 1) * COLS, blocks.start(next_index));
            for pass in 0..passes {
                let line = |c: usize| if c < COLS { ahead[c] } else { right[0] };
                let two = [line(pass * each), line(pass * each + each - 1)];
                let i = pass * R;
                let left = lines::<T, R>(&a, i, term);
                let ahead = if passes == 1 { Ahead::Four(ahead) } else { Ahead::Two(two) };
                // SAFETY: the lines are rows of `a` and columns of `b`, whose terms `term..term + terms` are
                // contiguous. There are at least as many terms as a vector has lanes.
                let sums = unsafe { dots::<S, T, R>(left, right, ahead, terms) };
                let tile = d.part(&(i..m.min(i + R)), &(j..n.min(j + COLS)));
                let whole = (tile.rows, tile.cols) == (R, COLS);
                let (out, old) = (target.wrapping_add(tile.offset), old.at(i, j));
                // SAFETY: every position of `d` may be written, and the old elements may be read, as
                // `ProductPart::new` asks. Where a stride is 1, the elements of a whole tile along that axis
                // are neighbours.
                unsafe {
                    if whole && d.col_stride == 1 && scales.takes_runs(old.col_stride) {
                        for (r, sums) in sums.iter().enumerate() {
                            let out = out.wrapping_offset(r as isize * d.row_stride);
                            scales.store_run(*sums, old.at(r, 0).start, out);
                        }
                    } else if whole && d.row_stride == 1 && scales.takes_runs(old.row_stride) {
                        for c in 0..COLS {
                            let sums: [T; R] = core::array::from_fn(|r| sums[r][c]);
                            let out = out.wrapping_offset(c as isize * d.col_stride);
                            scales.store_run(sums, old.at(0, c).start, out);
                        }
                    } else {
                        store_each(scales, &sums, old, target, tile);
                    }
                }
            }
            (j, index) = (next_j, next_index);
        }
    }
}

/// Stores a tile element by element. Not inlined: no instruction set speeds it up.
///
/// # Safety
/// The positions of `tile`, which is no larger than `sums`, must be valid for writes, and their `old`
/// elements for reads.
#[inline(never)]
unsafe fn store_each<T: Real>(
    scales: Scales<T>,
    sums: &[[T; COLS]],
    old: OldElements<T>,
    target: *mut T,
    tile: MatLayout,
) {
    // One loop, since the compiler would repeat the inner one of two.
    for at in 0..tile.rows * tile.cols {
        let (i, j) = (at / tile.cols, at % tile.cols);
        // SAFETY: as the caller vouches.
        unsafe { scales.store(sums[i][j], old.at(i, j).start, target.wrapping_add(tile.position(i, j))) };
    }
}

/// Where lines `first..first + N` of a matrix have the term `term`. The last line stands in for lines that
/// the matrix does not have.
#[inline(always)]
fn lines<T, const N: usize>(matrix: &MatRef<'_, T>, first: usize, term: usize) -> [*const T; N] {
    let last = matrix.layout().rows - 1;
    core::array::from_fn(|i| matrix.pointer((first + i).min(last), term))
}

/// The columns of which each cache line is prefetched when the same terms are multiplied.
#[derive(Clone, Copy)]
enum Ahead<T> {
    Four([*const T; COLS]),
    Two([*const T; 2]),
}

/// The dot products of runs of `k` elements. The terms of the columns `ahead` are prefetched to the
/// second-level cache.
///
/// # Safety
/// The runs must be valid for reads, and at least as long as a vector.
#[inline(always)]
unsafe fn dots<S: Simd, T: Real, const R: usize>(
    left: [*const T; R],
    right: [*const T; COLS],
    ahead: Ahead<T>,
    k: usize,
) -> [[T; COLS]; R] {
    if const { !has_vectors::<S>() } {
        // SAFETY: as the caller vouches.
        return unsafe { plain_dots(left, right, k) };
    }
    let lanes = T::lanes::<S>();
    // SAFETY: as the caller vouches. The last vector ends at the last term, and `lanes` is at most `k`.
    unsafe {
        let mut sums = match ahead {
            Ahead::Four(ahead) => whole_vectors::<S, T, R, COLS>(left, right, ahead, k),
            Ahead::Two(ahead) => whole_vectors::<S, T, R, 2>(left, right, ahead, k),
        };
        let p = k - k % lanes;
        if p < k {
            // Terms that were added already are zeros in both operands, so that no infinity comes back.
            let last = k - lanes;
            let zero: Vector<S, T> = T::ZERO.splat();
            let marks: Vector<S, T> = T::vload_unaligned(T::NEW.as_ptr().add(WIDEST - (p - last)));
            let mut vectors: [Vector<S, T>; COLS] = [zero; COLS];
            for (vector, right) in vectors.iter_mut().zip(right) {
                *vector = marks.gt(zero).select(T::vload_unaligned(right.add(last)), zero);
            }
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = marks.gt(zero).select(T::vload_unaligned(left.add(last)), zero);
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = left.mul_add(vector, *sum);
                }
            }
        }
        lane_sums::<S, T, R>(sums)
    }
}

/// The sums of [`dots`] over the terms of whole vectors, lane by lane.
///
/// # Safety
/// As for [`dots`].
#[inline(always)]
unsafe fn whole_vectors<S: Simd, T: Real, const R: usize, const A: usize>(
    left: [*const T; R],
    right: [*const T; COLS],
    ahead: [*const T; A],
    k: usize,
) -> [[Vector<S, T>; COLS]; R] {
    let lanes = T::lanes::<S>();
    let mut sums: [[Vector<S, T>; COLS]; R] = [[T::ZERO.splat(); COLS]; R];
    let mut p = 0;
    while p + lanes <= k {
        let mut vectors: [Vector<S, T>; COLS] = [T::ZERO.splat(); COLS];
        // SAFETY: `p + lanes` is at most `k`.
        unsafe {
            for (vector, right) in vectors.iter_mut().zip(right) {
                *vector = T::vload_unaligned(right.add(p));
            }
            for (sums, left) in sums.iter_mut().zip(left) {
                let left: Vector<S, T> = T::vload_unaligned(left.add(p));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = left.mul_add(vector, *sum);
                }
            }
        }
        // Once for each cache line.
        if p % (CACHE_LINE / size_of::<T>()) < lanes {
            ahead.iter().for_each(|ahead| prefetch_far(ahead.wrapping_add(p).cast(), 1));
        }
        p += lanes;
    }
    sums
}

/// Zeros and ones.
trait Marks: Real {
    /// As many ones as the widest vector has elements, after as many zeros.
    const NEW: [Self; 2 * WIDEST] = {
        let mut marks = [Self::ZERO; 2 * WIDEST];
        let mut i = WIDEST;
        while i < 2 * WIDEST {
            marks[i] = Self::ONE;
            i += 1;
        }
        marks
    };
}

impl<T: Real> Marks for T {}

/// Elements of the arrays that stand in for vectors at the baseline: a register of f32 on x86-64.
const PLAIN: usize = SQUARE;

/// [`dots`] in loops over arrays, which the compiler keeps in vectors.
///
/// # Safety
/// The runs must be valid for reads.
#[inline(always)]
unsafe fn plain_dots<T: Real, const R: usize>(
    left: [*const T; R],
    right: [*const T; COLS],
    k: usize,
) -> [[T; COLS]; R] {
    let mut sums = [[[T::ZERO; PLAIN]; COLS]; R];
    let mut p = 0;
    while p + PLAIN <= k {
        // SAFETY: `p + PLAIN` is at most `k`.
        unsafe {
            let vectors = right.map(|right| right.add(p).cast::<[T; PLAIN]>().read_unaligned());
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = left.add(p).cast::<[T; PLAIN]>().read_unaligned();
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = core::array::from_fn(|i| sum[i] + left[i] * vector[i]);
                }
            }
        }
        p += PLAIN;
    }
    let mut result = sums.map(|sums| row_sum(transposed(sums)));
    while p < k {
        for (result, left) in result.iter_mut().zip(left) {
            for (result, right) in result.iter_mut().zip(right) {
                // SAFETY: `p` is below `k`.
                *result += unsafe { *left.add(p) * *right.add(p) };
            }
        }
        p += 1;
    }
    result
}
