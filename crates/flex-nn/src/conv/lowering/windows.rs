//! The right operand of a [product](super::Lowered): windows of planes, made while they are packed.

use super::super::program::{Pass, Program};
use crate::matmul::gemm::Columns;
use crate::stored::Computing;
use core::ops::Range;
use flex_math::simd::{WIDEST, vectorize_lean};
use smallvec::SmallVec;

/// The windows of a pass: a row for each channel and tap, a column for each of the pass's outputs.
pub(super) struct WindowColumns<'a, A> {
    pub program: &'a Program,
    pub pass: &'a Pass,
    pub planes: &'a [A],
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
        let [_, high, wide] = self.pass.count;
        let [_, pitch_h, pitch_w] = [0, 1, 2].map(|k| self.program.planes.axes[k].len);
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
        let wide = self.pass.count[2].min(WIDEST);
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
        let (taps, step) = (&self.pass.taps[..], self.program.planes.channel_len());
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
