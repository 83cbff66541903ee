//! Reductions down the columns of matrices: the tiles, tasks and blocks of rows, and the order of combining
//! partial results.

use super::kernel::{KernelFacts, ReduceKernel, RowStarts};
use super::scratch::{WORD, Word, whole_words, with_scratch, words};
use super::sizes::{BLOCK_ROWS, TILE};
use super::traversal::MIN_COLUMNS;
use crate::Tensor;
use crate::error::Result;
use crate::parallel::{self, Work};
use crate::storage::{Cut, PieceReduction, Scratch};
use crate::walk::Walk;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

/// With this many tasks, matrices or tiles are split among tasks whole, instead of along the reduced axis.
/// The order of sums follows from this number and the next.
const ENOUGH_TASKS: usize = 8;

/// Bounds for the least number of rows per task when the reduced axis is split; short rows get more. Each
/// task leaves a partial row, which is written to memory and then merged by one thread: with 64 of 1024 rows
/// of f32 per task instead of 32, their sum takes 50 us instead of 60 on two threads of a Xeon (Emerald
/// Rapids).
const TASK_ROWS: RangeInclusive<usize> = 32..=256;

/// The number of rows of `bytes` bytes per task, when `n` rows are split.
fn rows_of_a_task(n: usize, bytes: usize) -> usize {
    let few = (n / (2 * ENOUGH_TASKS)).clamp(*TASK_ROWS.start(), *TASK_ROWS.end());
    parallel::rows_per_task(bytes).max(few)
}

/// A reduction down the columns of a matrix. A partial result covers some rows of a tile of columns; it is
/// bytes that start at a [`Word`].
pub(super) trait ColumnKernel: Sync {
    /// Bytes of the partial result of a tile of `width` columns.
    fn partial_size(&self, width: usize) -> usize;
    /// Reduces rows `rows` of a tile of `width` columns, whose row 0 starts at position `start`, to
    /// `partial`, whose previous contents are ignored. `scratch` is for the kernel alone, and holds what the
    /// kernel's previous call left there.
    fn fold(
        &self,
        start: usize,
        rows: Range<usize>,
        width: usize,
        partial: &mut [u8],
        scratch: &mut Scratch<Word>,
    );
    /// Combines `partial`, of `width` columns, with the partial result of `earlier` rows.
    fn absorb(&self, width: usize, earlier: &[u8], partial: &mut [u8]);
    /// Writes the outputs of a tile of `width` columns to `out`.
    fn write(&self, width: usize, partial: &[u8], out: &mut [u8]);
}

/// The sizes of a reduction along an axis.
#[derive(Clone, Copy)]
pub(super) struct ReductionSizes {
    /// Elements that are reduced to one: of a row, or of a column.
    pub n: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Bytes of an output.
    pub output: usize,
}

/// Reduces the columns of matrices of `n` rows to the outputs `out`. The rows of `walk` are the matrices, its
/// inner axis their columns.
///
/// Many matrices are split among tasks whole, wide ones by tiles of columns, long ones by blocks of rows
/// whose partial results are merged pairwise. The split depends on the sizes alone.
pub(super) fn drive_columns(
    walk: &Walk<1>,
    sizes: ReductionSizes,
    out: &mut [u8],
    kernel: &dyn ColumnKernel,
) {
    let ReductionSizes { n, element, output } = sizes;
    let width = walk.inner().size;
    let work = Work::Bytes(out.len() / output * n * element);
    let whole = |start: usize, row: &mut [u8], partial: &mut [u8], scratch: &mut Scratch<Word>| {
        for (t, tile) in row.chunks_mut(TILE * output).enumerate() {
            let width = tile.len() / output;
            let partial = &mut partial[..kernel.partial_size(width)];
            kernel.fold(start + t * TILE, 0..n, width, partial, scratch);
            kernel.write(width, partial, tile);
        }
    };
    let size = kernel.partial_size(width.min(TILE));
    if walk.rows() >= ENOUGH_TASKS {
        let rows = parallel::rows_per_task(n * width * element);
        parallel::for_each_chunk(out, rows * width * output, work, |k, out| {
            with_scratch(size, &mut |partial| {
                let mut scratch = Scratch::default();
                let mut chunks = out.chunks_exact_mut(width * output);
                walk.for_each_row(k * rows..k * rows + chunks.len(), |[start]| {
                    whole(start, chunks.next().expect("one row per output row"), partial, &mut scratch);
                });
            });
        });
        return;
    }
    let block = rows_of_a_task(n, width * element);
    let blocks = n.div_ceil(block);
    let mut chunks = out.chunks_exact_mut(width * output);
    walk.for_each_row(0..walk.rows(), |[start]| {
        let row = chunks.next().expect("one row per output row");
        let tiles = width.div_ceil(TILE);
        if tiles >= ENOUGH_TASKS {
            parallel::for_each_chunk(row, TILE * output, work, |t, tile| {
                with_scratch(size, &mut |partial| {
                    whole(start + t * TILE, tile, partial, &mut Scratch::default())
                });
            });
        } else if blocks == 1 {
            with_scratch(size, &mut |partial| whole(start, row, partial, &mut Scratch::default()));
        } else {
            let mut partials = ColumnPartials::new([width, blocks], output, size);
            let ColumnPartials { tiles, each, .. } = partials;
            let columns = |t: usize| TILE.min(width - t * TILE);
            parallel::for_each_chunk(&mut partials.words, each, work, |task, partial| {
                let (b, t) = (task / tiles, task % tiles);
                let partial = &mut bytemuck::cast_slice_mut(partial)[..kernel.partial_size(columns(t))];
                let rows = b * block..((b + 1) * block).min(n);
                kernel.fold(start + t * TILE, rows, columns(t), partial, &mut Scratch::default());
            });
            partials.write(kernel, row);
        }
    });
}

/// [`drive_columns`] of a contiguous matrix of `n` rows of `width` elements that waits for its reader: blocks
/// of rows are reduced while they are computed. `None` if the tensor has to be computed first.
pub(super) fn columns_when_computed(
    tensor: &mut Tensor,
    [n, width]: [usize; 2],
    kernel: &dyn ReduceKernel,
) -> Result<Option<ColumnPartials>> {
    let facts = kernel.facts();
    if width.div_ceil(TILE) >= ENOUGH_TASKS {
        return wide_columns_when_computed(tensor, [n, width], kernel);
    }
    let block = rows_of_a_task(n, width * facts.element);
    // Otherwise the rows are not split.
    if width < MIN_COLUMNS || block >= n {
        return Ok(None);
    }
    let size = width.min(TILE) * facts.accumulator;
    let mut partials = ColumnPartials::new([width, n.div_ceil(block)], facts.result, size);
    let ColumnPartials { tiles, each, .. } = partials;
    let fold = |piece: &[u8], partial: &mut [u8]| {
        let rows = piece.len() / (width * facts.element);
        fold_tiles(kernel, piece, [rows, width], partial, each * WORD);
    };
    let reduction = PieceReduction {
        cut: Cut::Even(block * width),
        partials: bytemuck::cast_slice_mut(&mut partials.words),
        partial: tiles * each * WORD,
        fold: &fold,
    };
    Ok(tensor.fold_when_computed(reduction)?.then_some(partials))
}

/// Reduces a contiguous matrix of `rows` rows of `width` elements, each tile of columns to `each` bytes of
/// `partial`.
fn fold_tiles(
    kernel: &dyn ReduceKernel,
    matrix: &[u8],
    [rows, width]: [usize; 2],
    partial: &mut [u8],
    each: usize,
) {
    let columns = ReduceColumns::contiguous(kernel, matrix, [rows, width]);
    for (t, partial) in partial.chunks_exact_mut(each).take(width.div_ceil(TILE)).enumerate() {
        let width = TILE.min(width - t * TILE);
        let partial = &mut partial[..columns.partial_size(width)];
        columns.fold(t * TILE, 0..rows, width, partial, &mut Scratch::default());
    }
}

/// Most bytes of the columns that are reduced together while they are computed: a part of a second-level
/// cache.
const PIECE_BYTES: usize = 256 * 1024;

/// Shortest columns that are folded in tiles: the accumulators of all columns take a part of the columns'
/// memory.
const LEAST_FOLDED: usize = 4;

/// [`columns_when_computed`] where tasks are tiles of columns. A piece has several tiles, so that memory is
/// read in long runs.
fn wide_columns_when_computed(
    tensor: &mut Tensor,
    [n, width]: [usize; 2],
    kernel: &dyn ReduceKernel,
) -> Result<Option<ColumnPartials>> {
    let facts = kernel.facts();
    let tiles = PIECE_BYTES / (n * TILE * facts.element);
    if tiles == 0 || n < LEAST_FOLDED {
        return Ok(None);
    }
    let len = tiles * TILE;
    let room = [width.next_multiple_of(len), 1];
    let mut partials = ColumnPartials::new(room, facts.result, TILE * facts.accumulator);
    let each = partials.each * WORD;
    let fold = |piece: &[u8], partial: &mut [u8]| {
        let width = piece.len() / (n * facts.element);
        fold_tiles(kernel, piece, [n, width], partial, each);
    };
    let runs = |k: usize, run: &mut dyn FnMut(Range<usize>)| {
        let columns = k * len..((k + 1) * len).min(width);
        (0..n).for_each(|row| run(row * width + columns.start..row * width + columns.end));
    };
    let reduction = PieceReduction {
        cut: Cut::Runs { of: &runs, longest: n * len },
        partials: bytemuck::cast_slice_mut(&mut partials.words),
        partial: tiles * each,
        fold: &fold,
    };
    Ok(tensor.fold_when_computed(reduction)?.then_some(partials))
}

/// The partial results of blocks of rows of a matrix: for each block, one for each tile of columns.
pub(super) struct ColumnPartials {
    words: Scratch<Word>,
    /// Words of a partial result.
    each: usize,
    tiles: usize,
    blocks: usize,
    /// Bytes of an output.
    output: usize,
}

impl ColumnPartials {
    /// Room for the partial results of `blocks` blocks of `width` columns, each of at most `size` bytes.
    fn new([width, blocks]: [usize; 2], output: usize, size: usize) -> Self {
        let (tiles, each) = (width.div_ceil(TILE), whole_words(size) / WORD);
        Self { words: words(blocks * tiles * each * WORD), each, tiles, blocks, output }
    }

    /// Writes the outputs of all columns to `out`.
    pub(super) fn write(&mut self, kernel: &dyn ColumnKernel, out: &mut [u8]) {
        let Self { words, each, tiles, blocks, output } = self;
        for (t, tile) in out.chunks_mut(TILE * *output).enumerate() {
            let width = tile.len() / *output;
            let merged = merge_partials(kernel, width, &mut words[t * *each..], *tiles * *each, *blocks);
            kernel.write(width, merged, tile);
        }
    }
}

/// Merges the partial results of `blocks` blocks of rows, `each` words apart, pairwise and in order.
fn merge_partials<'a>(
    kernel: &dyn ColumnKernel,
    width: usize,
    partials: &'a mut [Word],
    each: usize,
    blocks: usize,
) -> &'a [u8] {
    let size = kernel.partial_size(width);
    // The merged result of a pair replaces the later of the two: `ends` holds the positions still to be
    // merged.
    let mut ends: Vec<usize> = (0..blocks).collect();
    while ends.len() > 1 {
        for pair in ends.chunks_exact(2) {
            let (earlier, later) = partials.split_at_mut(pair[1] * each);
            let earlier = &bytemuck::cast_slice(&earlier[pair[0] * each..])[..size];
            kernel.absorb(width, earlier, &mut bytemuck::cast_slice_mut(later)[..size]);
        }
        let odd = (ends.len() % 2 == 1).then_some(blocks - 1);
        ends = ends.chunks_exact(2).map(|pair| pair[1]).chain(odd).collect();
    }
    &bytemuck::cast_slice(&partials[(blocks - 1) * each..])[..size]
}

/// A reduction down the columns of `src`.
pub(super) struct ReduceColumns<'a> {
    pub kernel: &'a dyn ReduceKernel,
    /// The kernel's [facts](ReduceKernel::facts).
    pub facts: KernelFacts,
    /// The tensor's elements, in which positions count.
    pub src: &'a [u8],
    /// Distance between rows.
    pub stride: isize,
    /// Whether rows are too short for vectors, and contiguous in memory.
    pub narrow: bool,
    pub n: usize,
    /// How often each row counts.
    pub copies: usize,
}

impl ColumnKernel for ReduceColumns<'_> {
    fn partial_size(&self, width: usize) -> usize {
        width * self.facts.accumulator
    }

    fn fold(
        &self,
        start: usize,
        rows: Range<usize>,
        width: usize,
        partial: &mut [u8],
        scratch: &mut Scratch<Word>,
    ) {
        if self.narrow {
            self.fold_narrow(start, rows, width, partial, scratch);
        } else {
            self.fold_wide(RowStarts { first: start, stride: self.stride }, rows, partial, scratch);
        }
    }

    fn absorb(&self, _width: usize, earlier: &[u8], partial: &mut [u8]) {
        self.kernel.absorb(earlier, partial);
    }

    fn write(&self, _width: usize, partial: &[u8], out: &mut [u8]) {
        self.kernel.finish(partial, self.n, self.copies, out);
    }
}

impl<'a> ReduceColumns<'a> {
    /// Of rows of `width` elements that lie one after the other.
    pub(super) fn contiguous(kernel: &'a dyn ReduceKernel, src: &'a [u8], [n, width]: [usize; 2]) -> Self {
        Self { kernel, facts: kernel.facts(), src, stride: width as isize, narrow: false, n, copies: 1 }
    }

    /// Reduces rows `rows` at `starts` to `acc`, which holds one accumulator per column.
    fn fold_wide(&self, starts: RowStarts, rows: Range<usize>, acc: &mut [u8], scratch: &mut Scratch<Word>) {
        let kernel = self.kernel;
        if !self.facts.rounds || rows.len() <= BLOCK_ROWS {
            kernel.clear(acc);
            kernel.add_rows(self.src, starts, rows, acc);
            return;
        }
        // Blocks of rows are combined like the carries of a binary counter: `levels` is a stack of the
        // results of 1, 2, 4, ... blocks, and `acc` is the result of the latest blocks.
        let (size, each) = (acc.len(), whole_words(acc.len()));
        let levels = rows.len().div_ceil(BLOCK_ROWS).ilog2() as usize + 1;
        if scratch.len() < levels * each / WORD {
            *scratch = words(levels * each);
        }
        let levels: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        let (mut depth, mut count, mut i) = (0usize, 0usize, rows.start);
        while i < rows.end {
            let end = (i + BLOCK_ROWS).min(rows.end);
            kernel.clear(acc);
            kernel.add_rows(self.src, starts, i..end, acc);
            let mut carry = count;
            while carry & 1 == 1 {
                depth -= 1;
                kernel.absorb(&levels[depth * each..depth * each + size], acc);
                carry >>= 1;
            }
            levels[depth * each..depth * each + size].copy_from_slice(acc);
            depth += 1;
            count += 1;
            i = end;
        }
        // `acc` equals the top of the stack.
        for level in (0..depth - 1).rev() {
            kernel.absorb(&levels[level * each..level * each + size], acc);
        }
    }

    /// Reduces contiguous rows of `width` elements: first takes several as one wide row, then combines the
    /// parts of the result.
    fn fold_narrow(
        &self,
        start: usize,
        rows: Range<usize>,
        width: usize,
        acc: &mut [u8],
        scratch: &mut Scratch<Word>,
    ) {
        /// Most elements of a wide row.
        const WIDE: usize = 256;
        let together = (WIDE / width).min(rows.len()).max(1);
        let (wide, size) = (together * width, self.facts.accumulator);
        let starts = RowStarts { first: start + rows.start * width, stride: wide as isize };
        let (whole, rest) = (rows.len() / together, rows.len() % together * width);
        with_scratch(wide * size, &mut |lanes| {
            self.fold_wide(starts, 0..whole, lanes, scratch);
            self.kernel.add_rows(self.src, starts, whole..whole + 1, &mut lanes[..rest * size]);
            self.kernel.clear(acc);
            self.kernel.absorb(lanes, acc);
        });
    }
}
