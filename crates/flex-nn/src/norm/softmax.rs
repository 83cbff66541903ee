//! softmax, log_softmax and softmin along any axis.
//!
//! `softmax(x) = exp(x - max) / sum(exp(x - max))`. The maximum may skip NaN: a NaN reaches the sum through
//! `exp`, and through the sum the whole row. A row of `-inf` and a row with `+inf` give NaN, because `inf -
//! inf` is NaN. PyTorch gives the same.
//!
//! Rows along the last axis are computed in cache-sized blocks. Along another axis, neighbouring columns are
//! computed together, so that memory is read and written in runs; if there are few neighbours, the block is
//! transposed into a scratch buffer and computed as rows.

use super::lanes::{LANES, add, max_of, sum_of};
use super::rows::{FLOPS_PER_ELEMENT, map_chunks, map_rows};
use crate::error::{Result, check_axis};
use crate::float::Real;
use crate::parallel;
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, DType, Tensor, storage};
use alloc::vec::Vec;
use flex_math::simd::{Simd, Vector, prefetch, vectorize, vectorize_lean};
use flex_math::{
    BinaryFn, ExpNonPositive, Ln, Recip, UnaryFn, eval_scalar, map, map_in_place, map2, map2_in_place,
};

/// Block length of a long row: the passes take turns block by block.
const BLOCK: usize = 4096;
/// Shortest row that is computed by itself; the exponentials of shorter rows are computed for many rows at a
/// time.
pub(super) const MIN_ROW: usize = 64;
/// Rows that are computed side by side if they are narrow, and their greatest width.
const SIDE_BY_SIDE: usize = 32;
const MAX_NARROW: usize = 40;
/// Elements of a tile of columns, unless [`MIN_TILE_COLUMNS`] needs more: 512 KiB of f32 fit into the
/// second-level cache.
const TILE: usize = 128 * 1024;
/// Least width of a tile with more rows than columns. Each row of such a tile is on another page and needs a
/// page lookup: twice as many columns mean half as many lookups. Softmax down 1,024 columns of 1,024 f32
/// takes 0.7 ms on two threads of a Xeon (1.1 ms with tiles of 128 columns that were copied together first).
const MIN_TILE_COLUMNS: usize = 512;
/// Most columns of a tile: one row and the per-column maxima and sums fit into the first-level cache.
const MAX_TILE_COLUMNS: usize = 1024;
/// Least number of columns that are computed as tiles: two AVX-512 vectors of f32, so that a row is worth its
/// calls.
const MIN_COLUMNS: usize = 32;
/// Rows of a tile whose exponentials are summed before the sum is added to the total.
const SUM_ROWS: usize = 256;

/// One of the three functions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SoftmaxKind {
    Softmax,
    LogSoftmax,
    Softmin,
}

/// `exp(x) / sum(exp(x))` along an axis.
///
/// f16 and bf16 are computed in f32 and rounded once. NaN and `+inf` make their row NaN; so does a row of
/// only `-inf`.
///
/// # Errors
/// Fails if the dtype is not a float or the axis is out of range.
pub fn softmax(tensor: Tensor, axis: usize) -> Result<Tensor> {
    along("softmax", tensor, axis, SoftmaxKind::Softmax)
}

/// `x - ln(sum(exp(x)))` along an axis, without the loss of digits that the logarithm of a softmax has.
///
/// Special values and half precision are as in [`softmax`].
///
/// # Errors
/// Fails if the dtype is not a float or the axis is out of range.
pub fn log_softmax(tensor: Tensor, axis: usize) -> Result<Tensor> {
    along("log_softmax", tensor, axis, SoftmaxKind::LogSoftmax)
}

/// `exp(-x) / sum(exp(-x))` along an axis.
///
/// Special values and half precision are as in [`softmax`] of `-x`.
///
/// # Errors
/// Fails if the dtype is not a float or the axis is out of range.
pub fn softmin(tensor: Tensor, axis: usize) -> Result<Tensor> {
    along("softmin", tensor, axis, SoftmaxKind::Softmin)
}

fn along(op: &'static str, tensor: Tensor, axis: usize, kind: SoftmaxKind) -> Result<Tensor> {
    check_axis(op, axis, tensor.rank())?;
    computing!(op, tensor.dtype(), A => run::<A>(op, tensor, axis, kind))
}

fn run<A: Computing>(op: &'static str, tensor: Tensor, axis: usize, kind: SoftmaxKind) -> Result<Tensor> {
    let tensor = tensor.into_contiguous()?;
    let shape = tensor.shape();
    let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    if tensor.num_elements() == 0 {
        return Ok(tensor);
    }
    if inner == 1 {
        return map_rows::<A>(op, tensor, None, size, |from, _, to| softmax_rows(from, to, size, kind));
    }
    let slab = size * inner;
    if inner < MIN_COLUMNS {
        let bytes = (2 * size_of::<A>()).saturating_mul(slab);
        storage::ensure_for_tasks(op, bytes, tensor.num_elements() / slab)?;
        return map_chunks(op, tensor, slab, |_, from, to| few_columns::<A>(from, to, size, inner, kind));
    }
    let dtype = tensor.dtype();
    let pieces = size.saturating_mul(inner.div_ceil(tile_columns(size, inner)));
    let bytes = pieces.saturating_mul(size_of::<Sink<'_>>());
    storage::ensure_for_tasks(op, bytes, tensor.num_elements() / slab)?;
    if shape[..axis].iter().product::<usize>() > 1 {
        return map_chunks(op, tensor, slab, |_, from, mut to| {
            for tile in &mut column_tiles(to.bytes(), dtype, size, inner) {
                softmax_columns::<A>(from, inner, tile, kind);
            }
        });
    }
    // There is one slab: its tiles are the tasks.
    let mut tensor = tensor;
    let work = parallel::Work::Flops(FLOPS_PER_ELEMENT * slab);
    let run = |from: Option<Source<'_>>, slab: &mut [u8]| {
        parallel::for_each_chunk(&mut column_tiles(slab, dtype, size, inner), 1, work, |_, tile| {
            tile.iter_mut().for_each(|tile| softmax_columns::<A>(from, inner, tile, kind));
        });
    };
    if let Some(data) = tensor.dense_bytes_mut() {
        run(None, data);
        return Ok(tensor);
    }
    let mut blank = Blank::new(op, tensor.shape().clone(), dtype)?;
    run(Some(Source::of(&tensor)), blank.bytes());
    Ok(blank.finish())
}

/// Applies `kind` to consecutive rows of `width` elements, from `from` into `to`, or in place without `from`.
fn softmax_rows<F: Real>(from: Option<&[F]>, to: &mut [F], width: usize, kind: SoftmaxKind) {
    let from = match from {
        Some(from) if kind == SoftmaxKind::Softmin || width < MIN_ROW => {
            to.copy_from_slice(from);
            None
        }
        from => from,
    };
    if kind == SoftmaxKind::Softmin {
        negate(to);
    }
    if width < MIN_ROW {
        short_rows(to, width, kind);
        return;
    }
    let keeps = kind == SoftmaxKind::LogSoftmax && from.is_none();
    let mut exps = Scratch::<F>::for_task(if keeps { BLOCK.min(width) } else { 0 });
    let mut from = from.map(|from| from.chunks_exact(width));
    for row in to.chunks_exact_mut(width) {
        softmax_row(from.as_mut().and_then(Iterator::next), row, kind, &mut exps);
    }
}

/// Applies `kind` to one row: a pass for the maximum, one for the exponentials and their sum, one for the
/// result. `exps` is the buffer for a block of exponentials if `to` still has to keep the source.
fn softmax_row<F: Real>(from: Option<&[F]>, to: &mut [F], kind: SoftmaxKind, exps: &mut [F]) {
    let max = flex_math::max(from.unwrap_or(to));
    let mut sum = F::ZERO;
    for start in (0..to.len()).step_by(BLOCK) {
        let block = start..to.len().min(start + BLOCK);
        let exps = match from {
            Some(from) => {
                map(WithSecond(ExpAbove, max), &from[block.clone()], &mut to[block.clone()]);
                &to[block]
            }
            None if kind == SoftmaxKind::LogSoftmax => {
                let exps = &mut exps[..block.len()];
                map(WithSecond(ExpAbove, max), &to[block], exps);
                exps
            }
            None => {
                map_in_place(WithSecond(ExpAbove, max), &mut to[block.clone()]);
                &to[block]
            }
        };
        sum += flex_math::sum(exps);
    }
    if kind == SoftmaxKind::LogSoftmax {
        let less = Less(max, eval_scalar(Ln, sum));
        match from {
            Some(from) => map(less, from, to),
            None => map_in_place(less, to),
        }
    } else {
        map_in_place(WithSecond(Times, F::ONE / sum), to);
    }
}

/// `exp(x - max)`.
#[derive(Clone, Copy)]
struct ExpAbove;

impl<F: Real> BinaryFn<F> for ExpAbove {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, F>, max: Vector<S, F>) -> Vector<S, F> {
        ExpNonPositive.eval(x - max)
    }
}

/// A function of two numbers, the second of which is the same for all elements.
#[derive(Clone, Copy)]
struct WithSecond<B, F>(B, F);

impl<F: Real, B: BinaryFn<F>> UnaryFn<F> for WithSecond<B, F> {
    const IS_LIGHT: bool = B::IS_LIGHT;
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, F>) -> Vector<S, F> {
        self.0.eval(x, self.1.splat())
    }
}

/// `x - max - log`, in this order: `max + log` may not be representable.
#[derive(Clone, Copy)]
struct Less<F>(F, F);

impl<F: Real> UnaryFn<F> for Less<F> {
    const IS_LIGHT: bool = true;
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, F>) -> Vector<S, F> {
        x - self.0.splat() - self.1.splat()
    }
}

/// `x * scale`.
#[derive(Clone, Copy)]
struct Times;

impl<F: Real> BinaryFn<F> for Times {
    const IS_LIGHT: bool = true;
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, F>, scale: Vector<S, F>) -> Vector<S, F> {
        x * scale
    }
}

/// Applies `kind` to short rows, in place.
fn short_rows<F: Real>(data: &mut [F], width: usize, kind: SoftmaxKind) {
    let side = width * SIDE_BY_SIDE;
    let whole = if width <= MAX_NARROW { data.len() / side * side } else { 0 };
    let (whole, rest) = data.split_at_mut(whole);
    if !whole.is_empty() {
        side_by_side(whole, width, kind);
    }
    along_rows(rest, width, kind);
}

/// [`short_rows`], with vectors along the rows. Vectors of 64 bytes would be wider than most rows: 65,536 f32
/// in rows of 10 take 272 us with vectors of AVX2, and took 312 (Zen 4).
fn along_rows<F: Real>(data: &mut [F], width: usize, kind: SoftmaxKind) {
    vectorize_lean(
        #[inline(always)]
        || {
            for row in data.chunks_exact_mut(width) {
                let max = max_of(row);
                row.iter_mut().for_each(|x| *x = *x - max);
            }
        },
    );
    if kind == SoftmaxKind::LogSoftmax {
        let mut exps = Scratch::<F>::for_task(data.len());
        map(ExpNonPositive, data, &mut exps);
        vectorize_lean(
            #[inline(always)]
            || {
                for (row, exps) in data.chunks_exact_mut(width).zip(exps.chunks_exact(width)) {
                    let log = eval_scalar(Ln, sum_of(exps, |x| x));
                    row.iter_mut().for_each(|x| *x = *x - log);
                }
            },
        );
        return;
    }
    map_in_place(ExpNonPositive, data);
    vectorize_lean(
        #[inline(always)]
        || {
            for row in data.chunks_exact_mut(width) {
                let scale = F::ONE / sum_of(row, |x| x);
                row.iter_mut().for_each(|x| *x = *x * scale);
            }
        },
    );
}

/// [`short_rows`], with vectors across [`SIDE_BY_SIDE`] rows, which are transposed and back: 65,536 f32 in
/// rows of 10 take 112 us, and in rows of 31 96 instead of 120.
fn side_by_side<F: Real>(data: &mut [F], width: usize, kind: SoftmaxKind) {
    let is_log = kind == SoftmaxKind::LogSoftmax;
    let mut columns = Scratch::<F>::for_task(width * SIDE_BY_SIDE);
    let mut exps = Scratch::<F>::for_task(if is_log { width * SIDE_BY_SIDE } else { 0 });
    let (columns, exps) = (columns.as_chunks_mut().0, exps.as_chunks_mut().0);
    let mut lanes = [[F::ZERO; SIDE_BY_SIDE]; LANES];
    for rows in data.chunks_exact_mut(width * SIDE_BY_SIDE) {
        less_maxima(rows, columns);
        let exps: &[_] = if is_log {
            map(ExpNonPositive, columns.as_flattened(), exps.as_flattened_mut());
            exps
        } else {
            map_in_place(ExpNonPositive, columns.as_flattened_mut());
            columns
        };
        let mut numbers = sum_columns(exps, &mut lanes);
        if is_log {
            map_in_place(Ln, &mut numbers);
        } else {
            numbers.iter_mut().for_each(|sum| *sum = F::ONE / *sum);
        }
        write_results(columns, &numbers, is_log, rows);
    }
}

/// A number of each of some rows.
type Side<F> = [F; SIDE_BY_SIDE];

/// Transposes rows to `columns`, less the maximum of each row.
fn less_maxima<F: Real>(rows: &[F], columns: &mut [Side<F>]) {
    vectorize_lean(
        #[inline(always)]
        || {
            // A constant count would become gathers, which take longer: f32 in rows of 16 108 us instead of
            // 91.
            let width = columns.len();
            let count = rows.len() / width;
            let mut max = [F::neg_infinity(); SIDE_BY_SIDE];
            for (j, column) in columns.iter_mut().enumerate() {
                for (r, to) in column.iter_mut().enumerate().take(count) {
                    *to = rows[r * width + j];
                }
                for (max, x) in max.iter_mut().zip(&*column) {
                    *max = if *x > *max { *x } else { *max };
                }
            }
            for column in columns {
                column.iter_mut().zip(&max).for_each(|(x, max)| *x = *x - *max);
            }
        },
    );
}

/// The sum of each row, in the order of [`sum_of`], so that the bits of a row do not depend on the rows
/// beside it. `lanes` is working memory.
fn sum_columns<F: Real>(columns: &[Side<F>], lanes: &mut [Side<F>; LANES]) -> Side<F> {
    let mut used = columns.len().min(LANES);
    let (first, rest) = columns.split_at(used);
    vectorize_lean(
        #[inline(always)]
        || {
            lanes[..used].copy_from_slice(first);
            lanes.iter_mut().zip(rest).for_each(|(sum, x)| add_each(sum, x));
            let mut half = LANES / 2;
            while half > 0 {
                let (to, from) = lanes.split_at_mut(half);
                to.iter_mut().zip(&from[..used.saturating_sub(half)]).for_each(|(sum, x)| add_each(sum, x));
                used = used.min(half);
                half /= 2;
            }
            lanes[0]
        },
    )
}

#[inline(always)]
fn add_each<F: Real>(to: &mut Side<F>, from: &Side<F>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
}

/// Writes what [`less_maxima`] has transposed back to `rows`, less a number for each row, or multiplied by
/// it.
fn write_results<F: Real>(columns: &[Side<F>], numbers: &Side<F>, less: bool, rows: &mut [F]) {
    vectorize_lean(
        #[inline(always)]
        || {
            let width = columns.len();
            let count = rows.len() / width;
            for (j, column) in columns.iter().enumerate() {
                let mut results = *column;
                for (x, number) in results.iter_mut().zip(numbers) {
                    *x = if less { *x - *number } else { *x * *number };
                }
                for (r, x) in results.iter().enumerate().take(count) {
                    rows[r * width + j] = *x;
                }
            }
        },
    );
}

fn negate<F: Real>(data: &mut [F]) {
    vectorize(
        #[inline(always)]
        || data.iter_mut().for_each(|x| *x = -*x),
    );
}

/// Applies `kind` down the few columns of a slab: transposes them into rows and back.
fn few_columns<A: Computing>(
    from: Option<Source<'_>>,
    mut to: Sink<'_>,
    size: usize,
    inner: usize,
    kind: SoftmaxKind,
) {
    let mut loaded = Scratch::<A>::for_task(to.len());
    from.unwrap_or(to.source()).read(&mut loaded);
    let mut rows = Scratch::<A>::for_task(to.len());
    for (c, row) in rows.chunks_exact_mut(size).enumerate() {
        row.iter_mut().zip(loaded[c..].iter().step_by(inner)).for_each(|(to, from)| *to = *from);
    }
    softmax_rows(None, &mut rows, size, kind);
    for (c, row) in rows.chunks_exact(size).enumerate() {
        row.iter().zip(loaded[c..].iter_mut().step_by(inner)).for_each(|(from, to)| *to = *from);
    }
    to.write(&loaded);
}

/// Neighbouring columns of a slab.
struct ColumnTile<'a> {
    /// The first column.
    first: usize,
    /// The columns' part of every row.
    rows: Vec<Sink<'a>>,
}

/// Number of columns of a tile of a slab of `size` rows of `inner` elements.
fn tile_columns(size: usize, inner: usize) -> usize {
    (TILE / size).clamp(MIN_TILE_COLUMNS, MAX_TILE_COLUMNS).min(inner)
}

/// Splits a slab of `size` rows of `inner` elements into tiles.
fn column_tiles(slab: &mut [u8], dtype: DType, size: usize, inner: usize) -> Vec<ColumnTile<'_>> {
    let columns = tile_columns(size, inner);
    let mut tiles: Vec<_> = (0..inner.div_ceil(columns))
        .map(|k| ColumnTile { first: k * columns, rows: storage::list(size) })
        .collect();
    for row in slab.chunks_exact_mut(inner * dtype.size()) {
        for (part, tile) in row.chunks_mut(columns * dtype.size()).zip(&mut tiles) {
            tile.rows.push(Sink::new(part, dtype));
        }
    }
    tiles
}

/// Applies `kind` down the columns of a tile, in three passes over the tile's rows: for the maxima, for the
/// sums of the exponentials, and for the result, which computes the exponentials again. Keeping them would
/// need another pass through memory, and for half precision a buffer of f32. `from` is the slab that the tile
/// is read from, if it is not computed in place.
fn softmax_columns<A: Computing>(
    from: Option<Source<'_>>,
    inner: usize,
    tile: &mut ColumnTile<'_>,
    kind: SoftmaxKind,
) {
    let ColumnTile { first, rows } = tile;
    let columns = rows[0].len();
    let source = from.map(|from| (from, inner, *first));
    let mut room = Scratch::<A>::for_task(5 * columns);
    let (loaded, room) = room.split_at_mut(columns);
    let (exps, room) = room.split_at_mut(columns);
    let (max, room) = room.split_at_mut(columns);
    let (sums, partial) = room.split_at_mut(columns);
    max.fill(A::neg_infinity());
    sums.fill(A::ZERO);
    for i in 0..rows.len() {
        larger(max, tile_row(source, i, rows[i].source(), loaded, kind));
    }
    for block in (0..rows.len()).step_by(SUM_ROWS) {
        partial.fill(A::ZERO);
        for i in block..rows.len().min(block + SUM_ROWS) {
            map2(ExpAbove, tile_row(source, i, rows[i].source(), loaded, kind), max, exps);
            add(partial, exps);
        }
        add(sums, partial);
    }
    match kind {
        SoftmaxKind::LogSoftmax => map_in_place(Ln, sums),
        _ => map_in_place(Recip, sums),
    }
    for (i, row) in rows.iter_mut().enumerate() {
        let x = tile_row(source, i, row.source(), loaded, kind);
        match kind {
            SoftmaxKind::LogSoftmax => less(x, max, sums, exps),
            _ => {
                map2(ExpAbove, x, max, exps);
                map2_in_place(Times, exps, sums);
            }
        }
        row.write(exps);
    }
}

/// Row `i` of a tile in the computing type: read from the slab `source` if there is one, else from `own`. The
/// row is copied to `room` if it has to be converted or negated.
fn tile_row<'a, A: Computing>(
    source: Option<(Source<'a>, usize, usize)>,
    i: usize,
    own: Source<'a>,
    room: &'a mut [A],
    kind: SoftmaxKind,
) -> &'a [A] {
    let row = source.map_or(own, |(from, inner, first)| {
        let at = i * inner + first;
        let row = from.slice(at..at + own.len());
        // The next row is a stride away, where the hardware prefetcher does not look.
        prefetch(row.bytes().as_ptr().wrapping_add(inner * from.size()), own.bytes().len());
        row
    });
    if let (Some(row), true) = (row.values(), kind != SoftmaxKind::Softmin) {
        return row;
    }
    row.read(room);
    if kind == SoftmaxKind::Softmin {
        negate(room);
    }
    room
}

/// Replaces each maximum by the element of `row` in the same column if that is larger.
fn larger<F: Real>(max: &mut [F], row: &[F]) {
    vectorize(
        #[inline(always)]
        || max.iter_mut().zip(row).for_each(|(max, x)| *max = if *x > *max { *x } else { *max }),
    );
}

/// `x - max - log`, column by column; see [`Less`].
fn less<F: Real>(row: &[F], max: &[F], log: &[F], to: &mut [F]) {
    vectorize(
        #[inline(always)]
        || {
            for (((to, x), max), log) in to.iter_mut().zip(row).zip(max).zip(log) {
                *to = *x - *max - *log;
            }
        },
    );
}
