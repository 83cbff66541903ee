//! Convolutions as products of matrices (im2col): each output channel is a weighted sum of windows.
//!
//! The [sums over windows](super::product) read the windows where they lie, again for every few output
//! channels: in pieces of a few cache lines, of which most begin in the middle of a line. The product of
//! matrices packs a block of windows once, and multiplies it by all output channels while it is in the cache.
//! This pays for many output channels.
//!
//! A program whose one pass computes all outputs in order is one product, which writes them where they belong
//! ([`Lowered::multiply`]). Other passes, such as the four of a transposed convolution with a stride of 2,
//! are products that a task computes block by block in working memory, and writes to every second output or
//! so ([`Lowered::multiply_passes`]).

mod coefficients;
mod windows;

use super::program::{Pass, Program};
use super::run::{ConvOperands, write_at};
use crate::matmul::gemm::{Completion, MatLayout, MatMut, MatRef, Right, Threads, gemm_completed};
use crate::storage::{Finish, Scratch};
use crate::stored::{Computing, Sink};
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::{self, Level};
use windows::WindowColumns;

/// Least number of output channels with the widest vectors: 12 for each of the four vectors of a packed
/// panel, as for the products of matrices (`matmul/gemm/blocks.rs`).
const ROWS: usize = 48;

/// [`ROWS`] with shorter vectors, for windows that are packed. On one thread of Zen 3, with AVX2, 5x5 from
/// 128 to 32 channels of 28x28 takes 2,440 us in place of 3,660, from 64 to 16 channels of 56x56 as long as
/// sums over windows.
const ROWS_SHORT: usize = 24;

/// [`ROWS_SHORT`] where windows are read where they lie: 32 to 24 channels of 112x112 take 260 us in place of
/// 400, to 6 channels 62 in place of 111.
const ROWS_IN_PLACE: usize = 6;

/// Least number of terms. With fewer, writing the output takes longer than the sums.
const TERMS: usize = 16;

/// Elements of the outputs that [`Lowered::multiply_passes`] computes at a time: half of a second-level cache
/// of 512 KiB. With half as many, 128 to 64 channels of 64x64 with a kernel of 2x2 take 5.3 ms in place of
/// 4.2 (one thread of Zen 3); most others take as long.
const BLOCK: usize = 64 * 1024;

/// The most output channels of such a block.
const BLOCK_CHANNELS: usize = 512;

/// Least number of positions of a band of a pass, on average: two panels of AVX2.
const BAND: usize = 32;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A program that is computed as products of matrices.
#[derive(Clone, Copy)]
pub(super) struct Lowered<'a> {
    program: &'a Program,
    /// Whether one product writes all outputs where they belong.
    in_order: bool,
    /// Whether the coefficients of each pass are a matrix where they lie. Otherwise they are
    /// [sorted](Self::sorted).
    in_place: bool,
}

impl<'a> Lowered<'a> {
    /// The products, if they pay for this number of images, each with a product for each group.
    pub fn of(program: &'a Program, images: usize) -> Option<Self> {
        let in_order = program.is_in_order();
        let in_place = program.passes.iter().all(|pass| coefficients::are_matrix(program, pass, in_order));
        let lowered = Self { program, in_order, in_place };
        let channels = program.planes.channels;
        let whole = program.turned.is_none() && program.summed == channels && !program.passes.is_empty();
        // Passes that share taps, because they skip padding, would need a copy of coefficients for each.
        let few_taps = lowered.row_len() <= channels * program.taps();
        // With the widest vectors, sums over windows have tiles of 8 rows by three vectors, and products of
        // several passes have not been timed.
        let fit = in_order || few_taps && simd::level() != Level::WideVectors;
        let large = |pass: &Pass| {
            let positions: usize = pass.count.iter().product();
            let (rows, least) = lowered.least(pass);
            let all = positions.saturating_mul(images);
            program.rows >= rows
                && channels * pass.taps.len() >= TERMS
                && positions >= least
                && (in_place || all >= lowered.least_sorted())
        };
        (whole && fit && program.passes.iter().all(large)).then_some(lowered)
    }

    /// Least numbers of output channels and of positions. Fewer positions leave much of a panel empty. 49
    /// positions of a pointwise convolution are three vectors and one position for the sums over windows,
    /// which take 450 us for 512 to 2,048 channels, and the product of matrices 750 (Zen 5).
    ///
    /// Where vectors are shorter, the sums over windows have tiles of 4 rows by two vectors, and the products
    /// of 6 rows. On Zen 3, with AVX2, the same convolution takes 3,110 us and the product 1,410; 3x3 on 512
    /// channels of 4x4 pixels 1,980 and 1,150, of 2x2 1,250 and 970.
    fn least(&self, pass: &Pass) -> (usize, usize) {
        match (simd::level(), self.reads_planes(pass)) {
            (Level::WideVectors, true) => (ROWS, 128),
            (Level::WideVectors, false) => (ROWS, 33),
            (_, true) => (ROWS_IN_PLACE, 4),
            (_, false) => (ROWS_SHORT, 4),
        }
    }

    /// Least number of positions of all images for which coefficients are sorted, which takes as long as the
    /// sums for some of them: see the costs in `choice.rs`.
    fn least_sorted(&self) -> usize {
        if simd::level() == Level::WideVectors { 384 } else { 64 }
    }

    /// Whether one product writes all outputs where they belong: [`multiply`](Self::multiply).
    pub fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Whether the windows of a pass are the rows of a matrix in memory.
    fn reads_planes(&self, pass: &Pass) -> bool {
        let [_, high, wide] = [0, 1, 2].map(|k| self.program.planes.axes[k].len);
        pass.taps.len() == 1 && pass.count[2] == wide && (pass.count[0] == 1 || pass.count[1] == high)
    }

    /// Writes to `out` some outputs of pass `number` for unit `unit`, a group of an image: the channels
    /// `rows` at the positions `cols`.
    fn product<A: Computing>(
        &self,
        operands: &ConvOperands<'_, A>,
        planes: &[A],
        (number, unit): (usize, usize),
        (rows, cols): (Range<usize>, Range<usize>),
        out: &mut [A],
        finish: Option<Finish<'_>>,
        threads: Threads,
    ) {
        let (program, pass) = (self.program, &self.program.passes[number]);
        let &ConvOperands { weight, bias, groups, .. } = operands;
        let group = unit % groups;
        let terms = program.planes.channels * pass.taps.len();
        let left = self.coefficients(number, group, &rows);
        let columns = WindowColumns { program, pass, planes };
        let right = if self.reads_planes(pass) {
            let offset = pass.taps[0].p + cols.start;
            let (row_stride, cols) = (program.planes.channel_len() as isize, cols.len());
            let layout = MatLayout { rows: terms, cols, offset, row_stride, col_stride: 1 };
            Right::Matrix(MatRef::new(planes, layout))
        } else {
            Right::Columns { columns: &columns, terms, cols: (cols.start, cols.end) }
        };
        let bias = &bias[group * program.rows..][rows.clone()];
        let out = MatMut::new(out, MatLayout::row_major(rows.len(), cols.len()));
        gemm_completed(out, MatRef::new(weight, left), right, Completion { bias, finish }, threads);
    }

    /// Computes the outputs of unit `unit`, `[rows, positions]`, from its planes. Passes the elements to
    /// `finish`. For a program [in order](Self::is_in_order).
    pub fn multiply<A: Computing>(
        &self,
        operands: &ConvOperands<'_, A>,
        unit: usize,
        planes: &[A],
        out: &mut [A],
        threads: Threads,
        finish: Option<Finish<'_>>,
    ) {
        let (rows, len) = (self.program.rows, self.program.out_len());
        let first = unit * rows * len;
        let moved = finish.map(|finish| move |at: usize, run: &mut [u8]| finish(first + at, run));
        let finish = moved.as_ref().map(|moved| moved as Finish<'_>);
        self.product(operands, planes, (0, unit), (0..rows, 0..len), out, finish, threads);
    }

    /// The most bands of positions that tasks compute, so that a pass has two panels of positions in each.
    pub fn most_bands(&self) -> usize {
        let positions = self.program.passes.iter().map(|pass| pass.count.iter().product::<usize>());
        (positions.min().unwrap_or(0) / BAND).max(1)
    }

    /// Bytes that [`multiply_passes`](Self::multiply_passes) takes at most, beside what products take.
    pub fn working_memory<A>(&self) -> usize {
        let alternating = self.program.passes.chunk_by(Pass::alternates_with);
        let most = alternating.map(<[Pass]>::len).max().unwrap_or(0);
        let rounded_up = self.program.rows.min(BLOCK_CHANNELS) * most * LINE / size_of::<A>();
        let runs = self.program.out_len() * size_of::<(usize, usize)>();
        (BLOCK + rounded_up) * size_of::<A>() + runs
    }

    /// Computes outputs of unit `unit` from its planes: of the channels from `row` on, for which `pieces` has
    /// the memory, in a band of the axis `axis`, the outermost one with more than one output.
    pub fn multiply_passes<A: Computing>(
        &self,
        operands: &ConvOperands<'_, A>,
        (unit, row): (usize, usize),
        planes: &[A],
        (axis, band): (usize, &Range<usize>),
        pieces: &mut [Sink<'_>],
    ) {
        let program = self.program;
        if !program.is_complete() {
            let bias = &operands.bias[unit % operands.groups * program.rows + row..];
            pieces.iter_mut().zip(bias).for_each(|(piece, &bias)| piece.fill(bias));
        }
        let band_start = band.start * program.out[axis + 1..].iter().product::<usize>();
        let mut memory = Scratch::<A>::default();
        let mut runs = Vec::new();
        let mut number = 0;
        // No band divides outputs that alternate: it is a multiple of the step, from which no pass is
        // further.
        for alternating in program.passes.chunk_by(Pass::alternates_with) {
            let inner: usize = alternating[0].count[axis + 1..].iter().product();
            let range = alternating[0].within(axis, band);
            let positions = range.start * inner..range.end * inner;
            for (k, channels) in pieces.chunks_mut(BLOCK_CHANNELS).enumerate() {
                let first = row + k * BLOCK_CHANNELS;
                let rows = first..first + channels.len();
                // Blocks of equal lengths, up to whole cache lines.
                let blocks = (positions.len() * rows.len() * alternating.len()).div_ceil(BLOCK).max(1);
                let together = positions.len().div_ceil(blocks).next_multiple_of(LINE / size_of::<A>());
                let mut from = positions.start;
                while from < positions.end {
                    let cols = from..positions.end.min(from + together);
                    let (len, size) = (cols.len(), rows.len() * cols.len());
                    let block = &mut memory.elements(alternating.len() * size)[..alternating.len() * size];
                    for (n, out) in block.chunks_exact_mut(size).enumerate() {
                        let part = (rows.clone(), cols.clone());
                        self.product(operands, planes, (number + n, unit), part, out, None, Threads::One);
                    }
                    self.list_runs(&alternating[0], cols, band_start, &mut runs);
                    for (r, piece) in channels.iter_mut().enumerate() {
                        write_runs(&runs, &block[r * len..], size, piece, alternating);
                    }
                    from += len;
                }
            }
            number += alternating.len();
        }
    }

    /// The runs of pixels that some outputs of a pass belong to: the place of the first output of each,
    /// counted from `start`, and the number of outputs.
    fn list_runs(&self, pass: &Pass, outputs: Range<usize>, start: usize, runs: &mut Vec<(usize, usize)>) {
        let [_, high, wide] = pass.count;
        runs.clear();
        let mut from = outputs.start;
        while from < outputs.end {
            let (row, w) = (from / wide, from % wide);
            let len = (wide - w).min(outputs.end - from);
            runs.push((self.program.output(pass, [row / high, row % high, w]) - start, len));
            from += len;
        }
    }
}

/// Writes a row of the products of some passes that alternate, `product` elements apart in `values`, to
/// [runs](Lowered::list_runs) of outputs.
fn write_runs<A: Computing>(
    runs: &[(usize, usize)],
    values: &[A],
    product: usize,
    piece: &mut Sink<'_>,
    passes: &[Pass],
) {
    let step = passes[0].step[2];
    let mut from = 0;
    for &(at, len) in runs {
        let row = |k: usize| &values[k * product + from..][..len];
        if passes.len() == 2
            && step == 2
            && let Some(piece) = piece.values::<A>()
        {
            let pairs = piece[at..][..2 * len].as_chunks_mut().0;
            pairs.iter_mut().zip(row(0).iter().zip(row(1))).for_each(|(to, (a, b))| *to = [*a, *b]);
        } else {
            (0..passes.len()).for_each(|k| write_at(row(k), piece, at + k, step));
        }
        from += len;
    }
}
