//! Resizing by separable kernels, and its gradient.
//!
//! An output element is a weighted sum over some rows and as many columns, the *taps* of the mode. Sums of
//! rows vectorise well, sums within a row hardly do. So the sums within rows are computed on the side that
//! has fewer rows: on the input if the image grows (each input row is resampled once and used for several
//! output rows), on the output if it shrinks.

use super::taps::{MOST, Taps};
use super::{Interpolation, check_image, nearest};
use crate::error::{Error, Result, check_same_dtype};
use crate::float::Real;
use crate::layout::checked_num_elements;
use crate::parallel::{self, Work};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor, storage};
use core::ops::Range;
use flex_math::simd::vectorize_lean;

/// Resizes images `[batch, channels, height, width]` to `size`, `[height, width]`.
///
/// With `align_corners`, the centres of the corner elements of input and output coincide; without it, their
/// outer corners do. `Nearest` and `NearestExact` ignore it. `Bilinear` and `Bicubic` repeat the border
/// elements outside of the image; `Lanczos3` skips positions outside and scales the remaining weights to a
/// sum of one.
///
/// # Errors
/// Fails if the dtype is not a float, the rank is not 4, a spatial axis is empty, or a size is zero.
pub fn interpolate(x: Tensor, size: [usize; 2], mode: Interpolation, align_corners: bool) -> Result<Tensor> {
    const OP: &str = "interpolate";
    check(OP, &x, size)?;
    let x = x.into_contiguous()?;
    computing!(OP, x.dtype(), A => forward::<A>(OP, &x, size, mode, align_corners))
}

/// Gradient of [`interpolate`] with respect to `x`: the exact adjoint of the resizing, for every mode.
///
/// # Errors
/// The errors of [`interpolate`], and a `grad` whose shape is not `[batch, channels]` of `x` followed by
/// `size`, or whose dtype differs from the dtype of `x`.
pub fn interpolate_backward(
    x: Tensor,
    grad: Tensor,
    size: [usize; 2],
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    const OP: &str = "interpolate_backward";
    check(OP, &x, size)?;
    check_same_dtype(OP, x.dtype(), grad.dtype())?;
    let expected = [x.shape()[0], x.shape()[1], size[0], size[1]];
    if grad.shape().as_slice() != expected {
        let expected = alloc::format!("a gradient of shape {expected:?}");
        return Err(Error::shapes(OP, x.shape(), grad.shape(), expected));
    }
    let grad = grad.into_contiguous()?;
    computing!(OP, x.dtype(), A => backward::<A>(OP, &x, &grad, mode, align_corners))
}

fn check(op: &'static str, x: &Tensor, size: [usize; 2]) -> Result<()> {
    check_image(op, x)?;
    if size.contains(&0) {
        return Err(Error::argument(
            op,
            "size",
            alloc::format!("{size:?}"),
            "at least one row and one column",
        ));
    }
    checked_num_elements(op, &[x.shape()[0], x.shape()[1], size[0], size[1]])?;
    Ok(())
}

fn forward<A: Computing>(
    op: &'static str,
    x: &Tensor,
    size: [usize; 2],
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    match mode {
        Interpolation::Nearest => nearest::resize(op, x, size, false),
        Interpolation::NearestExact => nearest::resize(op, x, size, true),
        _ => {
            let input = [x.shape()[2], x.shape()[3]];
            resize_images::<A>(op, x, size, &Resampling::new(op, input, size, mode, align_corners)?)
        }
    }
}

/// Resizes images by `plan`.
fn resize_images<A: Computing>(
    op: &'static str,
    x: &Tensor,
    size: [usize; 2],
    plan: &Resampling<A>,
) -> Result<Tensor> {
    let taps = plan.rows.count;
    let [batch, channels, height, width] = core::array::from_fn(|k| x.shape()[k]);
    let (dtype, src) = (x.dtype(), Source::of(x));
    let mut blank = Blank::new(op, [batch, channels, size[0], size[1]].into(), dtype)?;
    let out = blank.bytes();
    let row_bytes = size[1] * dtype.size();
    // About 2 operations per tap, element and pass.
    let block = parallel::rows_per_task(taps * row_bytes);
    // Rows, and where elements are converted, the input and output rows of a task.
    let rows = 2usize.saturating_mul(width).saturating_add(size[1].saturating_mul(taps + 1));
    let converted = if dtype == A::DTYPE { 0 } else { height * width + block.min(size[0]) * size[1] };
    let bytes = rows.saturating_add(converted).saturating_mul(size_of::<A>());
    storage::ensure_for_tasks(op, bytes, (batch * channels).saturating_mul(size[0]).div_ceil(block))?;
    let work = Work::Flops((out.len() / dtype.size()).saturating_mul(4 * taps));
    parallel::for_each_chunk(out, block * row_bytes, work, |k, out| {
        let (mut wide, mut narrow, mut scratch) = (Scratch::default(), Scratch::default(), plan.scratch());
        let mut rest = out;
        let mut first = k * block;
        while !rest.is_empty() {
            // The rows of this task that belong to one image.
            let (plane, i) = (first / size[0], first % size[0]);
            let n = (rest.len() / row_bytes).min(size[0] - i);
            let (out, tail) = core::mem::take(&mut rest).split_at_mut(n * row_bytes);
            (rest, first) = (tail, first + n);
            let reach = plan.rows.reach(i..i + n);
            let start = plane * height * width;
            let block = src.slice(start + reach.start * width..start + reach.end * width);
            let block = block.load(&mut wide);
            Sink::new(out, dtype).through(&mut narrow, |out| {
                plan.resize(block, reach.start, i..i + n, out, &mut scratch);
            });
        }
    });
    Ok(blank.finish())
}

fn backward<A: Computing>(
    op: &'static str,
    x: &Tensor,
    grad: &Tensor,
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    let input = [x.shape()[2], x.shape()[3]];
    let output = [grad.shape()[2], grad.shape()[3]];
    spread_images::<A>(op, x, grad, &Resampling::new(op, input, output, mode, align_corners)?)
}

/// The adjoint of [`resize_images`].
fn spread_images<A: Computing>(
    op: &'static str,
    x: &Tensor,
    grad: &Tensor,
    plan: &Resampling<A>,
) -> Result<Tensor> {
    let taps = plan.rows.count;
    let (dtype, src) = (x.dtype(), Source::of(grad));
    let mut blank = Blank::new(op, x.shape().clone(), dtype)?;
    let (input_plane, output_plane) = (x.shape()[2] * x.shape()[3], grad.shape()[2] * grad.shape()[3]);
    let planes = parallel::rows_per_task(taps * output_plane * dtype.size());
    let work = Work::Flops(src.len().saturating_mul(4 * taps));
    let input_bytes = input_plane * dtype.size();
    // Rows, and where elements are converted, both planes.
    let rows = (x.shape()[3].saturating_add(grad.shape()[3])).saturating_mul(taps + 1);
    let converted = if dtype == A::DTYPE { 0 } else { input_plane.saturating_add(output_plane) };
    let bytes = rows.saturating_add(converted).saturating_mul(size_of::<A>());
    storage::ensure_for_tasks(op, bytes, (x.shape()[0] * x.shape()[1]).div_ceil(planes))?;
    parallel::for_each_chunk(blank.bytes(), planes * input_bytes, work, |k, out| {
        let [mut wide, mut narrow, mut scratch] = [(); 3].map(|()| Scratch::default());
        for (plane, out) in out.chunks_exact_mut(input_bytes).enumerate() {
            let start = (k * planes + plane) * output_plane;
            let grad = src.slice(start..start + output_plane).load(&mut wide);
            Sink::new(out, dtype).through(&mut narrow, |out| plan.spread(grad, out, &mut scratch));
        }
    });
    Ok(blank.finish())
}

/// A resampling of images: the taps of both axes.
struct Resampling<A> {
    rows: Taps<A>,
    cols: Taps<A>,
}

/// Buffers of a task.
struct ResamplingScratch<A> {
    /// A row of the input with its border extended on both sides.
    padded: Scratch<A>,
    /// The last resampled rows, as many as there are taps; row `r` of the input is in slot `r % taps`.
    slots: Scratch<A>,
    kept: [usize; MOST],
    zeros: Scratch<A>,
}

/// Evaluates an expression with the number of taps as the constant `K`: one of a list, or else [`MOST`]. The
/// number is looked at for each row, inside of one driver: with a driver for each number, interpolations took
/// 70 KB more code.
macro_rules! with_taps {
    ($taps:expr, [$($count:literal),+], $K:ident => $body:expr) => {
        match $taps {
            $($count => { const $K: usize = $count; $body })+
            _ => { const $K: usize = MOST; $body }
        }
    };
}

impl<A: Real> Resampling<A> {
    /// Resamples images of `input` rows and columns to `output` rows and columns.
    fn new(
        op: &'static str,
        input: [usize; 2],
        output: [usize; 2],
        mode: Interpolation,
        align_corners: bool,
    ) -> Result<Self> {
        let taps = |axis: usize| Taps::new(op, input[axis], output[axis], mode, align_corners);
        Ok(Self { rows: taps(0)?, cols: taps(1)? })
    }

    /// Buffers for [`resize`](Self::resize).
    fn scratch(&self) -> ResamplingScratch<A> {
        ResamplingScratch {
            padded: Scratch::for_task(self.cols.input + 2 * self.cols.pad()),
            slots: Scratch::for_task(self.cols.count * self.cols.output()),
            kept: [usize::MAX; MOST],
            zeros: Scratch::for_task(self.cols.input.max(self.cols.output())).zeroed(),
        }
    }

    /// Computes the output rows `rows` of an image; `src` holds its input rows from `first` on.
    fn resize(
        &self,
        src: &[A],
        first: usize,
        rows: Range<usize>,
        out: &mut [A],
        scratch: &mut ResamplingScratch<A>,
    ) {
        let (width, out_width) = (self.cols.input, self.cols.output());
        let (taps, pad) = (self.rows.count, self.cols.pad());
        let ResamplingScratch { padded, slots, kept, zeros } = scratch;
        let (padded, slots, zeros) = (&mut padded[..], &mut slots[..], &zeros[..]);
        let grows = self.rows.input <= self.rows.output();
        // An output row takes some turns, in one of which rows are combined, and in the others resampled. A
        // loop around both, so that each is compiled once: the turns are resampling up to `taps` rows and
        // combining them if the image grows, and combining and resampling once if it shrinks.
        let (turns, combining) = if grows { (taps + 1, taps) } else { (2, 0) };
        kept.fill(usize::MAX);
        vectorize_lean(
            #[inline(always)]
            || {
                for (i, out) in rows.zip(out.chunks_exact_mut(out_width)) {
                    for turn in 0..turns {
                        if turn == combining {
                            let (from, row_len) = if grows { (&*slots, out_width) } else { (src, width) };
                            let mut rows = [&zeros[..row_len]; MOST];
                            for (k, row) in rows[..taps].iter_mut().enumerate() {
                                if let Some(r) = self.rows.element(i, k) {
                                    let at = if grows { r % taps } else { r - first };
                                    *row = &from[at * row_len..][..row_len];
                                }
                            }
                            let to = if grows { &mut *out } else { &mut padded[pad..][..width] };
                            with_taps!(taps, [2, 4], K => combine::<A, K>(&rows, self.rows.weights(i), to));
                            continue;
                        }
                        let to = if grows {
                            let Some(r) = self.rows.element(i, turn) else { continue };
                            if kept[r % taps] == r {
                                continue;
                            }
                            kept[r % taps] = r;
                            padded[pad..][..width].copy_from_slice(&src[(r - first) * width..][..width]);
                            &mut slots[r % taps * out_width..][..out_width]
                        } else {
                            &mut *out
                        };
                        self.extend(padded);
                        with_taps!(taps, [2, 4], K => self.resample::<K>(padded, to));
                    }
                }
            },
        );
    }

    /// The adjoint of [`resize`](Self::resize) for a whole image: spreads the gradient of the output over the
    /// input. The two passes come in reverse order: the rows of the gradient are added up and the sums are
    /// spread along the rows, or each row is spread and then added.
    fn spread(&self, grad: &[A], out: &mut [A], scratch: &mut Scratch<A>) {
        let (width, out_width) = (self.cols.input, self.cols.output());
        let (taps, pad) = (self.cols.count, self.cols.pad());
        let sums_first = self.rows.input <= self.rows.output();
        let (row_len, sums_len) =
            if sums_first { (out_width, self.rows.input * out_width) } else { (width, 0) };
        let padded_len = width + 2 * pad;
        let buffer = scratch.elements(padded_len + sums_len);
        let (padded, sums) = buffer.split_at_mut(padded_len);
        // As in `resize`, each pass is compiled once.
        let count = self.rows.output();
        let turns = if sums_first { count + self.rows.input } else { 2 * count };
        vectorize_lean(
            #[inline(always)]
            || {
                if sums_first { &mut *sums } else { &mut *out }.fill(A::ZERO);
                for turn in 0..turns {
                    let (along_rows, i) = match sums_first {
                        true if turn < count => (false, turn),
                        true => (true, turn - count),
                        false => (turn % 2 == 0, turn / 2),
                    };
                    if along_rows {
                        let row = if sums_first { &*sums } else { grad };
                        let row = &row[i * out_width..][..out_width];
                        padded.fill(A::ZERO);
                        with_taps!(taps, [1, 2, 4], K => self.spread_cols::<K>(row, padded));
                        self.fold_border(padded);
                        if sums_first {
                            out[i * width..][..width].copy_from_slice(&padded[pad..][..width]);
                        }
                        continue;
                    }
                    let (row, to) = match sums_first {
                        true => (&grad[i * out_width..][..out_width], &mut *sums),
                        false => (&padded[pad..][..width], &mut *out),
                    };
                    self.spread_rows(i, row, row_len, to);
                }
            },
        );
    }

    /// Fills the elements before and after a row.
    #[inline(always)]
    fn extend(&self, padded: &mut [A]) {
        let (width, pad) = (self.cols.input, self.cols.pad());
        let (left, right) = match self.cols.repeat_border {
            true => (padded[pad], padded[pad + width - 1]),
            false => (A::ZERO, A::ZERO),
        };
        padded[..pad].fill(left);
        padded[pad + width..].fill(right);
    }

    /// Resamples a row of the input to the width of the output.
    #[inline(always)]
    fn resample<const K: usize>(&self, padded: &[A], out: &mut [A]) {
        for (o, (start, weights)) in out.iter_mut().zip(self.cols.each::<K>()) {
            let window: &[A; K] = padded[start..start + K].try_into().expect("K elements");
            let mut sum = window[0] * weights[0];
            for k in 1..K {
                sum += window[k] * weights[k];
            }
            *o = sum;
        }
    }

    /// Adds row `i` of the output, weighted, to the rows of `sums` that contributed to it.
    #[inline(always)]
    fn spread_rows(&self, i: usize, row: &[A], width: usize, sums: &mut [A]) {
        for (k, &w) in self.rows.weights(i).iter().enumerate() {
            if let Some(r) = self.rows.element(i, k) {
                for (o, v) in sums[r * width..][..width].iter_mut().zip(row) {
                    *o += *v * w;
                }
            }
        }
    }

    /// The adjoint of [`resample`](Self::resample): adds to `padded`.
    #[inline(always)]
    fn spread_cols<const K: usize>(&self, row: &[A], padded: &mut [A]) {
        for (g, (start, weights)) in row.iter().zip(self.cols.each::<K>()) {
            let window: &mut [A; K] = (&mut padded[start..start + K]).try_into().expect("K elements");
            for (o, w) in window.iter_mut().zip(weights) {
                *o += *g * *w;
            }
        }
    }

    /// The adjoint of [`extend`](Self::extend).
    #[inline(always)]
    fn fold_border(&self, padded: &mut [A]) {
        let pad = self.cols.pad();
        if self.cols.repeat_border {
            let last = pad + self.cols.input - 1;
            for k in 0..pad {
                padded[pad] += padded[k];
                padded[last] += padded[last + 1 + k];
            }
        }
    }
}

/// `sum_k weights[k] * rows[k]`, elementwise, over the first `K` rows.
#[inline(always)]
fn combine<A: Real, const K: usize>(rows: &[&[A]; MOST], weights: &[A], out: &mut [A]) {
    let n = out.len();
    let weights: &[A; K] = weights.try_into().expect("a weight per tap");
    let mut whole = [rows[0]; K];
    for (whole, row) in whole.iter_mut().zip(rows) {
        *whole = &row[..n];
    }
    let rows = whole;
    for (x, o) in out.iter_mut().enumerate() {
        let mut sum = rows[0][x] * weights[0];
        for k in 1..K {
            sum += rows[k][x] * weights[k];
        }
        *o = sum;
    }
}
