//! Reduces (folds) rectangular windows: first along the columns, then along each row.
//!
//! For an output row, all input rows that its windows cover are folded into one row, elementwise. In that
//! row, the taps of neighbouring windows are `stride` apart. Splitting the row by phase (position modulo
//! stride) turns each tap into a contiguous run, and folding runs is again elementwise:
//!
//! ```text
//! stride 2:   row      a0 b0 a1 b1 a2 b2 ...
//!             phase 0  a0 a1 a2 ...    phase 1  b0 b1 b2 ...
//!             taps 0, 1, 2 of outputs 0, 1, ...: (a0 b0 a1), (a1 b1 a2), ...
//!                                        = phase 0, phase 1, phase 0 shifted by one
//! ```
//!
//! Phases hold the neutral element in place of padding, so no loop has a border case.

use super::plan::{PoolAxis, PoolPart, PoolPlan, Windows};
use crate::float::Real;
use crate::storage::{self, Scratch};
use crate::walk::every;
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::fold_halves;

/// An associative operation with a neutral element.
pub(super) trait PoolFold<A>: Copy + Sync {
    /// The value of padding.
    const NEUTRAL: A;
    /// Combines two values.
    fn join(a: A, b: A) -> A;
}

/// The larger value; NaN if either value is NaN.
#[derive(Clone, Copy)]
pub(super) struct MaxFold;
/// The sum.
#[derive(Clone, Copy)]
pub(super) struct SumFold;

macro_rules! impl_fold {
    ($($ty:ty),*) => {$(
        impl PoolFold<$ty> for MaxFold {
            const NEUTRAL: $ty = <$ty>::NEG_INFINITY;
            #[inline(always)]
            fn join(a: $ty, b: $ty) -> $ty {
                // The first selection is one instruction, which drops a NaN in `b`; the second selection
                // restores it.
                let larger = if b > a { b } else { a };
                if b.is_nan() { b } else { larger }
            }
        }
        impl PoolFold<$ty> for SumFold {
            const NEUTRAL: $ty = 0.0;
            #[inline(always)]
            fn join(a: $ty, b: $ty) -> $ty {
                a + b
            }
        }
    )*};
}
impl_fold!(f32, f64);

/// Row buffers, reused from row to row.
pub(super) struct FoldScratch<A> {
    row: Scratch<A>,
    phases: Phases<A>,
}

impl<A: Real> FoldScratch<A> {
    pub fn new() -> Self {
        Self { row: Scratch::default(), phases: Phases::new() }
    }
}

/// Folds the windows of a piece into `out`. `finish(i, row)` is called with each complete output row.
#[inline(always)]
pub(super) fn fold_piece<A: Real, F: PoolFold<A>>(
    plan: &PoolPlan,
    part: &PoolPart<'_, A>,
    out: &mut [A],
    scratch: &mut FoldScratch<A>,
    finish: impl Fn(usize, &mut [A]),
) {
    let piece = &part.piece;
    let reach = plan.cols.reach(piece.cols.clone());
    let split = Split::new(&plan.cols, &piece.cols);
    for (i, out_row) in piece.rows.clone().zip(out.chunks_exact_mut(piece.cols.len())) {
        let taps = plan.rows.taps(i);
        let row = |r: usize| part.row(plan, r, reach.clone());
        // One input row needs no folding and no copy.
        let folded: &[A] = if taps.count == 1 {
            row(taps.start)
        } else {
            let folded = scratch.row.elements(reach.len());
            fold_rows::<A, F>(taps.iter().map(row), folded);
            folded
        };
        match &split {
            Some(split) => {
                scratch.phases.fill(split, folded, reach.start, F::NEUTRAL);
                fold_phases::<A, F>(split, &scratch.phases, out_row);
            }
            None => {
                for (j, o) in piece.cols.clone().zip(out_row.iter_mut()) {
                    let taps = plan.cols.taps(j);
                    *o = if taps.count == 0 {
                        F::NEUTRAL
                    } else {
                        fold_run::<A, F>(&folded[taps.start - reach.start..], taps.count, taps.step)
                    };
                }
            }
        }
        finish(i, out_row);
    }
}

/// Folds rows elementwise.
#[inline(always)]
fn fold_rows<'a, A: Real, F: PoolFold<A>>(mut rows: impl Iterator<Item = &'a [A]>, out: &mut [A]) {
    match (rows.next(), rows.next(), rows.next()) {
        (Some(a), Some(b), Some(c)) => {
            for (((o, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                *o = F::join(F::join(*a, *b), *c);
            }
        }
        (Some(a), Some(b), None) => {
            for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
                *o = F::join(*a, *b);
            }
        }
        (Some(a), _, _) => out.copy_from_slice(a),
        (None, _, _) => out.fill(F::NEUTRAL),
    }
    while let Some(a) = rows.next() {
        if let Some(b) = rows.next() {
            for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
                *o = F::join(F::join(*o, *a), *b);
            }
        } else {
            for (o, a) in out.iter_mut().zip(a) {
                *o = F::join(*o, *a);
            }
        }
    }
}

/// Folds the taps of all windows; each tap is a contiguous run of a phase.
#[inline(always)]
fn fold_phases<A: Real, F: PoolFold<A>>(split: &Split, phases: &Phases<A>, out: &mut [A]) {
    let n = out.len();
    fold_rows::<A, F>((0..split.kernel).map(|k| phases.tap(split, k, n)), out);
}

/// Lanes of [`fold_run`].
const LANES: usize = 16;
/// Elements that [`fold_run`] folds in one chain per lane. The mean of 2^20 times 1.1 in f32 is off by 1e-5;
/// with one chain per lane for all of them it is off by 7e-4.
const RUN_BLOCK: usize = 64 * LANES;

/// Folds `count` elements of `src` that are `step` apart, in independent lanes and block by block.
#[inline(always)]
fn fold_run<A: Real, F: PoolFold<A>>(src: &[A], count: usize, step: usize) -> A {
    let mut lanes = fold_block::<A, F>(src, count.min(RUN_BLOCK), step);
    for start in (RUN_BLOCK..count).step_by(RUN_BLOCK) {
        let block = fold_block::<A, F>(&src[start * step..], (count - start).min(RUN_BLOCK), step);
        lanes.iter_mut().zip(block).for_each(|(lane, v)| *lane = F::join(*lane, v));
    }
    fold_halves(&mut lanes, F::join)
}

/// The lanes of a block of [`fold_run`].
#[inline(always)]
fn fold_block<A: Real, F: PoolFold<A>>(src: &[A], count: usize, step: usize) -> [A; LANES] {
    let mut lanes = [F::NEUTRAL; LANES];
    if step == 1 {
        let (vectors, rest) = src[..count].as_chunks::<LANES>();
        for vector in vectors {
            for (lane, v) in lanes.iter_mut().zip(vector) {
                *lane = F::join(*lane, *v);
            }
        }
        for (lane, v) in lanes.iter_mut().zip(rest) {
            *lane = F::join(*lane, *v);
        }
    } else {
        for (k, v) in src.iter().step_by(step).take(count).enumerate() {
            lanes[k % LANES] = F::join(lanes[k % LANES], *v);
        }
    }
    lanes
}

/// Geometry of a row that is split by phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub kernel: usize,
    stride: usize,
    dilation: usize,
    /// Input position of element 0 of phase 0; negative in the padding.
    origin: isize,
    /// Elements per phase.
    len: usize,
}

impl Split {
    /// The split for a range of output columns. `None` if windows are better folded one by one: adaptive
    /// windows, strides that would cut the row into many short phases, and kernels longer than 32 taps or a
    /// tile.
    pub fn new(axis: &PoolAxis, cols: &Range<usize>) -> Option<Self> {
        let Windows::Regular { kernel, stride, padding, dilation } = axis.windows else { return None };
        let extent = (kernel - 1) * dilation + 1;
        if stride > 4 || kernel > 32 || extent > super::plan::TILE {
            return None;
        }
        let origin = (cols.start * stride) as isize - padding as isize;
        Some(Self { kernel, stride, dilation, origin, len: cols.len() + (extent - 1) / stride })
    }
}

impl Split {
    /// Elements of all phases together.
    pub fn phases_len(&self) -> usize {
        self.len * self.stride
    }

    /// Input position of tap `k` of window `j`; the tap must lie inside of the axis.
    #[inline(always)]
    pub fn position(&self, j: usize, k: usize, axis: &PoolAxis) -> usize {
        let Windows::Regular { padding, .. } = axis.windows else { return 0 };
        (j * self.stride + k * self.dilation).saturating_sub(padding)
    }

    /// The adjoint of folding sums: adds the share of each window to all its taps. `row` is the whole input
    /// row and is overwritten; `phases` is a buffer of [`phases_len`](Self::phases_len) elements.
    #[inline(always)]
    pub fn spread<A: Real>(&self, shares: &[A], phases: &mut [A], row: &mut [A]) {
        phases.fill(A::ZERO);
        for k in 0..self.kernel {
            let offset = k * self.dilation;
            let run = &mut phases[(offset % self.stride) * self.len + offset / self.stride..];
            for (o, share) in run.iter_mut().zip(shares) {
                *o += *share;
            }
        }
        row.fill(A::ZERO);
        for (p, phase) in phases.chunks_exact(self.len).enumerate() {
            let start = self.origin + p as isize;
            let low = ((-start).max(0) as usize).div_ceil(self.stride);
            let from = start + (low * self.stride) as isize;
            if low < self.len && from < row.len() as isize {
                for (o, v) in row[from as usize..].iter_mut().step_by(self.stride).zip(&phase[low..]) {
                    *o = *v;
                }
            }
        }
    }
}

/// The phases of a row, one after the other.
pub(super) struct Phases<A> {
    data: Vec<A>,
    len: usize,
}

impl<A: Real> Phases<A> {
    /// No phases yet.
    pub fn new() -> Self {
        Self { data: Vec::new(), len: 0 }
    }

    /// Splits `row`, which holds the input from position `first` on.
    #[inline(always)]
    pub fn fill(&mut self, split: &Split, row: &[A], first: usize, neutral: A) {
        self.len = split.len;
        let len = split.len * split.stride;
        storage::grow(&mut self.data, len, A::ZERO);
        let data = &mut self.data[..len];
        for (p, phase) in data.chunks_exact_mut(split.len).enumerate() {
            // Element q of the phase is at `start + q * stride` in `row`.
            let start = split.origin + p as isize - first as isize;
            let stride = split.stride as isize;
            let low = ((-start).max(0) as usize).div_ceil(split.stride).min(split.len);
            let high = ((row.len() as isize - start).max(0) as usize).div_ceil(split.stride);
            let high = high.clamp(low, split.len);
            phase[..low].fill(neutral);
            phase[high..].fill(neutral);
            if low < high {
                let from = (start + low as isize * stride) as usize;
                match split.stride {
                    1 => phase[low..high].copy_from_slice(&row[from..from + high - low]),
                    2 => every::<A, 2>(&row[from..], &mut phase[low..high]),
                    3 => every::<A, 3>(&row[from..], &mut phase[low..high]),
                    _ => every::<A, 4>(&row[from..], &mut phase[low..high]),
                }
            }
        }
    }

    /// Tap `k` of `n` neighbouring windows, as a contiguous run.
    #[inline(always)]
    pub fn tap(&self, split: &Split, k: usize, n: usize) -> &[A] {
        let offset = k * split.dilation;
        &self.data[(offset % split.stride) * self.len + offset / split.stride..][..n]
    }
}
