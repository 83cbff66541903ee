//! Convolutions as products of matrices (im2col): each output channel is a weighted sum of windows.
//!
//! The [sums over windows](super::product) read the windows where they lie, again for every few output
//! channels: in pieces of a few cache lines, of which most begin in the middle of a line. The product of
//! matrices packs a block of windows once, and multiplies it by all output channels while it is in the cache.
//! This pays for many output channels.

use super::program::{Pass, Program};
use super::run::ConvOperands;
use crate::matmul::gemm::{Columns, Completion, MatLayout, MatMut, MatRef, Right, Threads, gemm_completed};
use crate::storage::Finish;
use crate::stored::Computing;
use core::ops::Range;
use flex_math::simd::{self, Level, WIDEST, vectorize_lean};
use smallvec::SmallVec;

/// Least number of output channels: 12 for each of the four vectors of a packed panel, as for the products of
/// matrices (`matmul/gemm/blocks.rs`).
const ROWS: usize = 48;

/// Least number of terms. With fewer, writing the output takes longer than the sums.
const TERMS: usize = 16;

/// A program that is computed as a product of matrices.
#[derive(Clone, Copy)]
pub(super) struct Lowered<'a> {
    program: &'a Program,
    pass: &'a Pass,
}

impl<'a> Lowered<'a> {
    /// The product, if the program is one that pays.
    pub fn of(program: &'a Program) -> Option<Self> {
        let [pass] = &program.passes[..] else { return None };
        let taps = pass.taps.len();
        // The coefficients of a row lie one after the other, in the order of the terms.
        let ordered = taps == 1
            || program.coefficients.channel == taps
                && pass.taps.iter().enumerate().all(|(k, tap)| tap.a == k);
        let whole =
            program.is_in_order() && program.turned.is_none() && program.summed == program.planes.channels;
        let large = program.rows >= ROWS && program.summed * taps >= TERMS;
        let lowered = Self { program, pass };
        (ordered && whole && large && program.out_len() >= lowered.least_positions()).then_some(lowered)
    }

    /// Least number of positions: fewer leave much of a panel empty. 49 positions of a pointwise convolution
    /// are three vectors and one position for the sums over windows, which take 450 us for 512 to 2,048
    /// channels, and the product of matrices 750 (Zen 5).
    ///
    /// Where vectors are shorter, the sums over windows have tiles of 4 rows by two vectors, and the products
    /// of 6 rows. On Zen 3, with AVX2, the same convolution takes 3,110 us and the product 1,410; 3x3 on 512
    /// channels of 4x4 pixels 1,980 and 1,150, of 2x2 1,250 and 970.
    fn least_positions(&self) -> usize {
        match simd::level() {
            Level::WideVectors if self.is_pointwise() => 128,
            Level::WideVectors => 33,
            _ => 4,
        }
    }

    /// Whether the windows are the rows of a matrix in memory.
    fn is_pointwise(&self) -> bool {
        self.pass.taps.len() == 1 && self.program.planes.channel_len() == self.program.out_len()
    }

    /// Computes the outputs of image and group number `unit`, `[rows, positions]`, from its planes. Passes
    /// the elements to `finish`.
    pub fn multiply<A: Computing>(
        self,
        operands: &ConvOperands<'_, A>,
        unit: usize,
        planes: &[A],
        out: &mut [A],
        threads: Threads,
        finish: Option<Finish<'_>>,
    ) {
        let Self { program, pass } = self;
        let &ConvOperands { weight, bias, groups } = operands;
        let (rows, coefficients, len) = (program.rows, program.coefficients, program.out_len());
        let terms = program.summed * pass.taps.len();
        let group = unit % groups;
        let left = MatLayout {
            rows,
            cols: terms,
            offset: group * coefficients.group + pass.taps[0].a,
            row_stride: coefficients.row as isize,
            col_stride: if pass.taps.len() == 1 { coefficients.channel as isize } else { 1 },
        };
        let columns = WindowColumns { lowered: self, planes };
        let right = if self.is_pointwise() {
            Right::Matrix(MatRef::new(planes, MatLayout::row_major(terms, len)))
        } else {
            Right::Columns { columns: &columns, terms, cols: (0, len) }
        };
        let first = unit * rows * len;
        let moved = finish.map(|finish| move |at: usize, run: &mut [u8]| finish(first + at, run));
        let finish = moved.as_ref().map(|moved| moved as Finish<'_>);
        let completion = Completion { bias: &bias[group * rows..][..rows], finish };
        let out = MatMut::new(out, MatLayout::row_major(rows, len));
        gemm_completed(out, MatRef::new(weight, left), right, completion, threads);
    }
}

/// The windows of a pass: a row for each channel and tap, a column for each output position.
struct WindowColumns<'a, A> {
    lowered: Lowered<'a>,
    planes: &'a [A],
}

/// Neighbouring positions of a panel whose windows begin one after the other.
struct Stretch {
    /// The first position, from the start of the panel.
    col: usize,
    /// Where its window begins, from the first window of the tap.
    start: usize,
    len: usize,
}

impl<A: Computing> WindowColumns<'_, A> {
    /// The stretches of these positions.
    fn stretches(&self, cols: Range<usize>) -> SmallVec<[Stretch; 8]> {
        let Program { out: [_, high, wide], planes, .. } = self.lowered.program;
        let [_, pitch_h, pitch_w] = [0, 1, 2].map(|k| planes.axes[k].len);
        let mut list = SmallVec::new();
        let mut position = cols.start;
        while position < cols.end {
            let (row, w) = (position / wide, position % wide);
            let start = (row / high * pitch_h + row % high) * pitch_w + w;
            let len = (wide - w).min(cols.end - position);
            list.push(Stretch { col: position - cols.start, start, len });
            position += len;
        }
        list
    }
}

impl<A: Computing> Columns for WindowColumns<'_, A> {
    fn pack(&self, terms: Range<usize>, cols: Range<usize>, width: usize, to: &mut [u8]) {
        let to: &mut [A] = bytemuck::cast_slice_mut(to);
        let Lowered { program, pass } = self.lowered;
        let (taps, step) = (&pass.taps[..], program.planes.channel_len());
        for (panel, first) in cols.clone().step_by(width).enumerate() {
            let stretches = self.stretches(first..cols.end.min(first + width));
            let stretches = &stretches[..];
            let to = &mut to[panel * width * terms.len()..];
            vectorize_lean(
                #[inline(always)]
                || {
                    let (mut channel, mut tap) = (terms.start / taps.len(), terms.start % taps.len());
                    for row in 0..terms.len() {
                        let from = &self.planes[channel * step + taps[tap].p..];
                        let to = &mut to[row * width..];
                        for stretch in stretches {
                            copy_over(&from[stretch.start..], &mut to[stretch.col..], stretch.len);
                        }
                        tap += 1;
                        if tap == taps.len() {
                            (channel, tap) = (channel + 1, 0);
                        }
                    }
                },
            );
        }
    }
}

/// Copies `len` elements, and possibly a few more: in whole vectors, if both slices go on long enough. The
/// places beyond belong to columns and terms that are packed later.
#[inline(always)]
fn copy_over<A: Copy>(from: &[A], to: &mut [A], len: usize) {
    let whole = len.next_multiple_of(WIDEST);
    if from.len() < whole || to.len() < whole {
        return to[..len].copy_from_slice(&from[..len]);
    }
    for (from, to) in from[..whole].chunks_exact(WIDEST).zip(to[..whole].chunks_exact_mut(WIDEST)) {
        to.copy_from_slice(from);
    }
}
