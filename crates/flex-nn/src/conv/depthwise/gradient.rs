//! The gradient of the weight of a depthwise convolution: for each tap, the products of the grid with the
//! windows of the tap.
//!
//! Vectors lie along the rows. A group of up to nine taps passes over the planes of a channel at a time, with
//! a vector of sums for each tap, and over four rows of the grid in registers. The sums of a channel are kept
//! as vectors for all images, and added up at the end.

use super::padded::{MARKS, PaddedRows, WritePlanes};
use super::{Depthwise, LEAST_FETCHED, LOW, TALL};
use crate::conv::program::Program;
use crate::conv::run::product_work;
use crate::error::Result;
use crate::parallel::for_each_chunk;
use crate::parallel::thresholds::CONV_WEIGHT_TASKS;
use crate::storage::{self, Scratch};
use flex_math::fold_halves;
use flex_math::simd::{Scalar, Simd, Vector, WIDEST, WithSimd, load, prefetch_far, store};

/// Columns of taps whose products are summed at a time, for the gradient of a weight.
const WIDE: usize = 3;

/// The most taps whose gradient is computed here. Four images of 96 channels at 56x56 take 3.7 ms with
/// kernels of 7x7, and 3.1 as sums along rows.
const MOST_GRADIENT_TAPS: usize = 25;

impl<'a> Depthwise<'a> {
    /// [`of`](Self::of) for the gradient of the weight, if it pays.
    pub fn of_gradient(program: &'a Program, units: usize) -> Option<Self> {
        let vectors = Self::pays(program, units)?;
        let rows =
            PaddedRows::of(&program.planes).filter(|_| program.passes[0].taps.len() <= MOST_GRADIENT_TAPS)?;
        Some(Self::new(program, vectors, Some(rows), program.out[1]))
    }

    /// Adds the gradient of the weight to `out`, `[groups, taps]`, from images and grids, `[batch, groups,
    /// ..]`.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn add_gradient(
        &self,
        op: &'static str,
        [batch, groups]: [usize; 2],
        image: &[f32],
        grid: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let taps = out.len() / groups;
        let per_task = groups.div_ceil(CONV_WEIGHT_TASKS);
        let grids = PaddedRows::plain(self.out);
        let gradient = DepthwiseGradient { depthwise: self, grids, batch, groups, taps };
        let room = (self.channels * (gradient.grid_len() + taps * WIDEST)).saturating_add(self.room());
        let room = room.saturating_mul(size_of::<f32>());
        storage::ensure_for_tasks(op, room, groups.div_ceil(per_task))?;
        let work = product_work(self.program.flops().saturating_mul(batch * groups), 1);
        for_each_chunk(out, per_task * taps, work, |task, out| {
            gradient.add(task * per_task, image, grid, out);
        });
        Ok(())
    }
}

/// How the gradient of a weight is computed.
struct DepthwiseGradient<'a> {
    depthwise: &'a Depthwise<'a>,
    /// How planes of the grid are written.
    grids: PaddedRows,
    batch: usize,
    /// Channels of an image.
    groups: usize,
    /// Elements of a channel's weight.
    taps: usize,
}

impl DepthwiseGradient<'_> {
    /// Elements of the grid of a channel of an image, as it is written.
    fn grid_len(&self) -> usize {
        self.depthwise.out[0] * self.grids.pitch
    }

    /// Adds the gradients of channels, from number `first` on, to `out`.
    fn add(&self, first: usize, image: &[f32], grid: &[f32], out: &mut [f32]) {
        let Self { depthwise, ref grids, batch, groups, taps } = *self;
        let Depthwise { program, height, out: [high, wide], vectors, .. } = *depthwise;
        let (len, source, unit) = (depthwise.planes_len(), program.planes.source_len(), high * wide);
        let held = depthwise.channels.min(out.len() / taps);
        let mut planes = Scratch::<f32>::for_task(depthwise.room());
        let mut lines = Scratch::<f32>::for_task(held * self.grid_len());
        let mut sums = Scratch::<f32>::for_task(held * taps * WIDEST);
        let fetches = size_of_val(image) >= LEAST_FETCHED;
        for (k, out) in out.chunks_mut(held * taps).enumerate() {
            let (first, count) = (first + k * held, out.len() / taps);
            let sums = &mut sums[..out.len() * WIDEST];
            sums.fill(0.0);
            for number in (0..batch).map(|image| image * groups + first) {
                vectors.dispatch(WritePlanes {
                    padded: depthwise.rows.as_ref().expect("a gradient has such planes"),
                    src: &image[number * source..],
                    rows: 0..height,
                    height,
                    fetches,
                    to: &mut planes[..count * len],
                    len,
                });
                vectors.dispatch(WritePlanes {
                    padded: grids,
                    src: &grid[number * unit..],
                    rows: 0..high,
                    height: high,
                    fetches,
                    to: &mut lines[..count * self.grid_len()],
                    len: self.grid_len(),
                });
                // Prefetches the next image, which the hardware does not foresee.
                let ahead = |from: *const f32, len: usize| {
                    let next = from.wrapping_add((number + groups) * len);
                    prefetch_far(next.cast(), count * len * size_of::<f32>());
                };
                ahead(image.as_ptr(), source);
                ahead(grid.as_ptr(), unit);
                let (planes, lines) = (&planes[..], &lines[..]);
                vectors.dispatch(GradientSums { gradient: self, planes, lines, sums: &mut *sums });
            }
            for (out, sums) in out.chunks_exact_mut(taps).zip(sums.chunks_exact(taps * WIDEST)) {
                for (&at, lanes) in depthwise.passes[0].coefficients.iter().zip(sums.as_chunks::<WIDEST>().0)
                {
                    let mut lanes = *lanes;
                    out[at] += fold_halves(&mut lanes, |a, b| a + b);
                }
            }
        }
    }
}

/// The products of the planes of channels and of their grids.
struct GradientSums<'a> {
    gradient: &'a DepthwiseGradient<'a>,
    planes: &'a [f32],
    lines: &'a [f32],
    /// For each channel and coefficient the sums of a vector, to which the products are added.
    sums: &'a mut [f32],
}

impl WithSimd for GradientSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { gradient, planes, lines, sums } = self;
        let &DepthwiseGradient { depthwise, taps, .. } = gradient;
        let (len, grid_len) = (depthwise.planes_len(), gradient.grid_len());
        for (k, sums) in sums.chunks_exact_mut(taps * WIDEST).enumerate() {
            let (planes, lines) = (&planes[k * len..], &lines[k * grid_len..][..grid_len]);
            let mut sums = sums;
            for block in &depthwise.passes[0].blocks {
                let planes = &planes[block.at..];
                for columns in block.columns.chunks(WIDE) {
                    // A group of fewer columns repeats its last one, whose sums are dropped.
                    let last = columns.len() - 1;
                    let all = [0, 1, 2].map(|c| columns[last.min(c)]);
                    let (these, rest) = sums.split_at_mut(block.rows * columns.len() * WIDEST);
                    sums = rest;
                    match block.rows {
                        1 => gradient.add_columns::<S, 1>(all, planes, lines, these),
                        2 => gradient.add_columns::<S, 2>(all, planes, lines, these),
                        _ => gradient.add_columns::<S, TALL>(all, planes, lines, these),
                    }
                }
            }
        }
    }
}

impl DepthwiseGradient<'_> {
    /// Adds the products for the taps of `K` rows and the columns to as many of `sums` as there are. The
    /// window of the first tap of a row begins with `planes`.
    #[inline(always)]
    fn add_columns<S: Simd, const K: usize>(
        &self,
        columns: [usize; WIDE],
        planes: &[f32],
        lines: &[f32],
        sums: &mut [f32],
    ) {
        let ([high, wide], lanes) = (self.depthwise.out, f32::lanes::<S>());
        let mut added = [[0f32.splat(); K]; WIDE];
        for at in (0..wide).step_by(lanes) {
            let marks = load::<S, f32>(&MARKS[WIDEST - lanes.min(wide - at)..]);
            let mut row = 0;
            while row + LOW <= high {
                added = self.add_rows::<S, LOW, K>(row, at, columns, planes, lines, marks, added);
                row += LOW;
            }
            while row < high {
                added = self.add_rows::<S, 1, K>(row, at, columns, planes, lines, marks, added);
                row += 1;
            }
        }
        for c in 0..WIDE {
            for k in 0..K {
                if let Some(sums) = sums.get_mut((c * K + k) * WIDEST..).filter(|sums| !sums.is_empty()) {
                    store(load::<S, f32>(sums) + added[c][k], sums);
                }
            }
        }
    }

    /// Adds the products of `R` rows of the grid, of the vectors at `at`, whose elements in a row are marked
    /// with ones: windows of other places may hold infinities.
    #[inline(always)]
    fn add_rows<S: Simd, const R: usize, const K: usize>(
        &self,
        row: usize,
        at: usize,
        columns: [usize; WIDE],
        planes: &[f32],
        lines: &[f32],
        marks: Vector<S, f32>,
        mut added: [[Vector<S, f32>; K]; WIDE],
    ) -> [[Vector<S, f32>; K]; WIDE] {
        let (pitch, line) = (self.depthwise.pitch, self.grids.pitch);
        let zero = 0f32.splat();
        let mut grid = [zero; R];
        for r in 0..R {
            grid[r] = load::<S, f32>(&lines[(row + r) * line + at..]);
        }
        for i in 0..R + K - 1 {
            let planes = &planes[(row + i) * pitch + at..];
            for c in 0..WIDE {
                let window = load::<S, f32>(&planes[columns[c]..]);
                let window = marks.gt(zero).select(window, zero);
                for k in 0..K {
                    if (k..k + R).contains(&i) {
                        added[c][k] = window.mul_add(grid[i - k], added[c][k]);
                    }
                }
            }
        }
        added
    }
}
