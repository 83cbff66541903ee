//! The left operands of [products](super::Lowered): the coefficients of a pass, with a row for each output
//! channel and a column for each term.

use super::super::product::Tap;
use super::super::program::{Pass, Program};
use super::Lowered;
use crate::error::Result;
use crate::matmul::gemm::MatLayout;
use crate::parallel::{Work, for_each_chunk};
use crate::storage::Scratch;
use crate::stored::Computing;
use crate::walk::starts;
use core::ops::Range;

/// Whether the coefficients of a pass are a matrix where they lie. The columns of the matrix need to be
/// neighbours, unless it is an operand of `one_product`: several products would each pack it.
pub(super) fn are_matrix(program: &Program, pass: &Pass, one_product: bool) -> bool {
    let taps = &pass.taps[..];
    one_product && taps.len() == 1
        || program.coefficients.channel == taps.len() && taps.iter().enumerate().all(|(k, tap)| tap.a == k)
}

/// Rows and channels that are sorted together: with kernels of 3x3 18 KiB of the first-level cache.
/// Neighbours along either axis share cache lines.
const ROWS_TOGETHER: usize = 16;
const CHANNELS_TOGETHER: usize = 32;

impl Lowered<'_> {
    /// The coefficients of a pass for some rows of a group.
    pub(super) fn coefficients(&self, number: usize, group: usize, rows: &Range<usize>) -> MatLayout {
        let program = self.program;
        let (channels, pass) = (program.planes.channels, &program.passes[number]);
        let (taps, cols) = (pass.taps.len(), channels * pass.taps.len());
        let (offset, row, term) = if self.in_place {
            let at = program.coefficients;
            let term = if taps == 1 { at.channel } else { 1 };
            (group * at.group + rows.start * at.row + pass.taps[0].a, at.row, term)
        } else {
            let row = self.row_len();
            let before: usize = program.passes[..number].iter().map(|pass| pass.taps.len()).sum();
            ((group * program.rows + rows.start) * row + channels * before, row, 1)
        };
        MatLayout { rows: rows.len(), cols, offset, row_stride: row as isize, col_stride: term as isize }
    }

    /// Coefficients of a row in the order of [`sorted`](Self::sorted).
    pub(super) fn row_len(&self) -> usize {
        let taps: usize = self.program.passes.iter().map(|pass| pass.taps.len()).sum();
        self.program.planes.channels * taps
    }

    /// Number of coefficients that are [sorted](Self::sorted).
    pub fn sorted_len(&self, groups: usize) -> usize {
        if self.in_place { 0 } else { groups * self.program.rows * self.row_len() }
    }

    /// The coefficients in the order in which the products read them: `[groups, rows]` and, for each row,
    /// pass after pass its `[channels, taps]`. `None` if they are read where they lie.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn sorted<A: Computing>(
        &self,
        op: &'static str,
        groups: usize,
        weight: &[A],
    ) -> Result<Option<Scratch<A>>> {
        if self.in_place {
            return Ok(None);
        }
        let Self { program, .. } = self;
        let (row_len, at) = (self.row_len(), program.coefficients);
        let mut sorted = Scratch::new(op, self.sorted_len(groups))?;
        let work = Work::Bytes(2 * size_of_val(&sorted[..]));
        let channels = program.planes.channels;
        for_each_chunk(&mut sorted, ROWS_TOGETHER * row_len, work, |task, out| {
            for first in starts(0..channels, CHANNELS_TOGETHER) {
                let block = first..channels.min(first + CHANNELS_TOGETHER);
                for (r, out) in out.chunks_exact_mut(row_len).enumerate() {
                    let row = task * ROWS_TOGETHER + r;
                    let (group, row) = (row / program.rows, row % program.rows);
                    let from = &weight[group * at.group + row * at.row + first * at.channel..];
                    let mut out = out;
                    for pass in &program.passes {
                        let (here, rest) = out.split_at_mut(channels * pass.taps.len());
                        let to = &mut here[block.start * pass.taps.len()..block.end * pass.taps.len()];
                        sort(&pass.taps, from, at.channel, to);
                        out = rest;
                    }
                }
            }
        });
        Ok(Some(sorted))
    }
}

/// Writes the coefficients of these taps, for channels that are `step` apart, to `[channels, taps]`.
fn sort<A: Copy>(taps: &[Tap], from: &[A], step: usize, to: &mut [A]) {
    match taps.len() {
        // The passes of kernels of 2x2 to 4x4 with a stride of 2: loops of a constant length.
        1 => sort_taps::<A, 1>(taps, from, step, to),
        2 => sort_taps::<A, 2>(taps, from, step, to),
        4 => sort_taps::<A, 4>(taps, from, step, to),
        count => {
            for (channel, to) in to.chunks_exact_mut(count).enumerate() {
                let from = &from[channel * step..];
                to.iter_mut().zip(taps).for_each(|(to, tap)| *to = from[tap.a]);
            }
        }
    }
}

/// [`sort`] for `N` taps.
fn sort_taps<A: Copy, const N: usize>(taps: &[Tap], from: &[A], step: usize, to: &mut [A]) {
    let at: [usize; N] = core::array::from_fn(|k| taps[k].a);
    for (channel, to) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let from = &from[channel * step..];
        *to = at.map(|at| from[at]);
    }
}
