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

/// At most [`WIDEST`] neighbouring positions of a panel whose windows begin one after the other.
struct Stretch {
    /// Where the first position goes, from the first position of the term in the first panel.
    to: usize,
    /// Where its window begins, from the first window of the tap.
    from: usize,
    len: usize,
}

/// Stretches of the panels that are packed together: at least as many as the widest panel may have.
const STRETCHES: usize = 4 * WIDEST;

impl<A: Computing> WindowColumns<'_, A> {
    /// The stretches of these positions, in panels of `width` positions that are `panel` elements apart.
    fn stretches(&self, cols: Range<usize>, width: usize, panel: usize) -> SmallVec<[Stretch; STRETCHES]> {
        let Program { out: [_, high, wide], planes, .. } = self.lowered.program;
        let [_, pitch_h, pitch_w] = [0, 1, 2].map(|k| planes.axes[k].len);
        let mut list = SmallVec::new();
        let mut position = cols.start;
        while position < cols.end {
            let (row, w) = (position / wide, position % wide);
            let col = position - cols.start;
            let len = (wide - w).min(width - col % width).min(cols.end - position).min(WIDEST);
            let from = (row / high * pitch_h + row % high) * pitch_w + w;
            list.push(Stretch { to: col / width * panel + col % width, from, len });
            position += len;
        }
        debug_assert!(!list.spilled(), "more stretches than `panels_together` allows");
        list
    }

    /// Panels of `width` positions that have at most [`STRETCHES`] stretches together.
    fn panels_together(&self, width: usize) -> usize {
        let wide = self.lowered.program.out[2].min(WIDEST);
        // A stretch ends with a row of outputs, with a panel, or after `WIDEST` positions.
        let most = (width / wide + width / WIDEST + 2).min(width);
        (STRETCHES / most).max(1)
    }
}

impl<A: Computing> Columns for WindowColumns<'_, A> {
    /// Packs term after term, each for many panels: the taps of a channel read the same few cache lines.
    /// Panel after panel, packing took 28 % of the time of 128 channels of 56x56, 3x3 with a stride of 2, and
    /// takes 12; eight images take 27.7 ms in place of 32.5, eight of 3 channels of 224x224 with a kernel of
    /// 7x7 28.0 in place of 36.9 (one thread of Zen 3).
    fn pack(&self, terms: Range<usize>, cols: Range<usize>, width: usize, to: &mut [u8]) {
        let to: &mut [A] = bytemuck::cast_slice_mut(to);
        let Lowered { program, pass } = self.lowered;
        let (taps, step) = (&pass.taps[..], program.planes.channel_len());
        // So many more terms are reached by `WIDEST` elements from any position of a term on.
        let beyond = (width - 1 + WIDEST).div_ceil(width) - 1;
        let together = self.panels_together(width) * width;
        for (group, first) in cols.clone().step_by(together).enumerate() {
            let cols = first..cols.end.min(first + together);
            let stretches = self.stretches(cols, width, width * terms.len());
            let stretches = &stretches[..];
            let reach = stretches.iter().fold(0, |reach, stretch| reach.max(stretch.from + WIDEST));
            let to = &mut to[group * together * terms.len()..];
            vectorize_lean(
                #[inline(always)]
                || {
                    let (mut channel, mut tap) = (terms.start / taps.len(), terms.start % taps.len());
                    for row in 0..terms.len() {
                        let from = &self.planes[channel * step + taps[tap].p..];
                        let to = &mut to[row * width..];
                        if row + beyond < terms.len() && from.len() >= reach {
                            // Elements written beyond a stretch are overwritten by later stretches and terms.
                            for stretch in stretches {
                                to[stretch.to..][..WIDEST].copy_from_slice(&from[stretch.from..][..WIDEST]);
                            }
                        } else {
                            for &Stretch { to: at, from: start, len } in stretches {
                                to[at..][..len].copy_from_slice(&from[start..][..len]);
                            }
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
