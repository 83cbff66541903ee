//! Resizing by separable kernels, and its gradient.
//!
//! An output element is a weighted sum over `K` rows and `K` columns. Sums of rows vectorise well, sums
//! within a row hardly do. So the sums within rows are computed on the side that has fewer rows: on the input
//! if the image grows (each input row is resampled once and used for several output rows), on the output if
//! it shrinks.

use super::taps::Taps;
use super::{Interpolation, check_image, nearest};
use crate::Tensor;
use crate::error::{Error, Result, check_same_dtype};
use crate::float::{FloatElement, Real, take};
use crate::layout::checked_num_elements;
use crate::parallel::{self, Work};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::vectorize_lean;

/// Resizes images `[batch, channels, height, width]` to `size`, `[height, width]`.
///
/// With `align_corners`, the centres of the corner elements of input and output coincide; without it, their
/// outer corners do. `Nearest` ignores it. `Bilinear` and `Bicubic` repeat the border elements outside of the
/// image; `Lanczos3` skips positions outside and scales the remaining weights to a sum of one.
///
/// # Errors
/// Fails if the dtype is not a float, the rank is not 4, a spatial axis is empty, or a size is zero.
pub fn interpolate(x: Tensor, size: [usize; 2], mode: Interpolation, align_corners: bool) -> Result<Tensor> {
    const OP: &str = "interpolate";
    check(OP, &x, size)?;
    let x = x.into_contiguous()?;
    match mode {
        Interpolation::Nearest => nearest::resize(OP, &x, size),
        Interpolation::Bilinear => forward::<2>(OP, &x, size, mode, align_corners),
        Interpolation::Bicubic => forward::<4>(OP, &x, size, mode, align_corners),
        Interpolation::Lanczos3 => forward::<6>(OP, &x, size, mode, align_corners),
    }
}

/// Gradient of [`interpolate`] with respect to `x`: the exact adjoint of the resizing, for every mode.
///
/// # Errors
/// The errors of [`interpolate`], and a `grad` whose shape is not `[batch, channels]` of `x` followed by
/// `size`, or whose dtype is not that of `x`.
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
    match mode {
        Interpolation::Nearest => backward::<1>(OP, &x, &grad, mode, align_corners),
        Interpolation::Bilinear => backward::<2>(OP, &x, &grad, mode, align_corners),
        Interpolation::Bicubic => backward::<4>(OP, &x, &grad, mode, align_corners),
        Interpolation::Lanczos3 => backward::<6>(OP, &x, &grad, mode, align_corners),
    }
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

fn forward<const K: usize>(
    op: &'static str,
    x: &Tensor,
    size: [usize; 2],
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    dispatch!(float op, x.dtype(), T => run_forward::<T, K>(op, x, size, mode, align_corners))
}

fn run_forward<T: FloatElement, const K: usize>(
    op: &'static str,
    x: &Tensor,
    size: [usize; 2],
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    let [batch, channels, height, width] = core::array::from_fn(|k| x.shape()[k]);
    let plan = Resampling::<T::Compute, K> {
        rows: Taps::new(height, size[0], mode, align_corners),
        cols: Taps::new(width, size[1], mode, align_corners),
    };
    let src = x.as_slice::<T>().expect("contiguous");
    Tensor::build::<T>(op, [batch, channels, size[0], size[1]], x.dtype(), |out| {
        // About 2 K operations per element and pass.
        let block = parallel::rows_per_task(K * size[1] * size_of::<T>());
        let work = Work::Flops(out.len().saturating_mul(4 * K));
        parallel::for_each_chunk(out, block * size[1], work, |k, out| {
            let (mut wide, mut narrow, mut scratch) = (Vec::new(), Vec::new(), plan.scratch());
            let mut rest = out;
            let mut first = k * block;
            while !rest.is_empty() {
                // The rows of this task that belong to one image.
                let (plane, i) = (first / size[0], first % size[0]);
                let n = (rest.len() / size[1]).min(size[0] - i);
                let (out, tail) = core::mem::take(&mut rest).split_at_mut(n * size[1]);
                (rest, first) = (tail, first + n);
                let reach = plan.rows.reach(i..i + n);
                let start = plane * height * width;
                let block = &src[start + reach.start * width..start + reach.end * width];
                let block = T::in_compute(block, &mut wide);
                T::through_compute(out, &mut narrow, |out| {
                    plan.resize(block, reach.start, i..i + n, out, &mut scratch);
                });
            }
        });
    })
}

/// The taps of both axes.
struct Resampling<A, const K: usize> {
    rows: Taps<A, K>,
    cols: Taps<A, K>,
}

/// Buffers of a task.
struct ResamplingScratch<A> {
    /// A row of the input with its border extended on both sides.
    padded: Vec<A>,
    /// The last `K` resampled rows; row `r` of the input is in slot `r % K`.
    slots: Vec<A>,
    kept: Vec<usize>,
    zeros: Vec<A>,
}

impl<A: Real, const K: usize> Resampling<A, K> {
    const PAD: usize = Taps::<A, K>::PAD;

    fn scratch(&self) -> ResamplingScratch<A> {
        ResamplingScratch {
            padded: vec![A::ZERO; self.cols.input + 2 * Self::PAD],
            slots: vec![A::ZERO; K * self.cols.output()],
            kept: vec![usize::MAX; K],
            zeros: vec![A::ZERO; self.cols.input.max(self.cols.output())],
        }
    }

    /// Computes the output rows `rows` of one image; `src` holds the image's input rows from `first` on.
    ///
    /// The choice of the instruction set is in here, so that the code is compiled for f32 and f64 alone, not
    /// for the halves too.
    fn resize(
        &self,
        src: &[A],
        first: usize,
        rows: Range<usize>,
        out: &mut [A],
        scratch: &mut ResamplingScratch<A>,
    ) {
        vectorize_lean(
            #[inline(always)]
            || self.resize_rows(src, first, rows, out, scratch),
        );
    }

    #[inline(always)]
    fn resize_rows(
        &self,
        src: &[A],
        first: usize,
        rows: Range<usize>,
        out: &mut [A],
        scratch: &mut ResamplingScratch<A>,
    ) {
        let (width, out_width) = (self.cols.input, self.cols.output());
        let ResamplingScratch { padded, slots, kept, zeros } = scratch;
        let grows = self.rows.input <= self.rows.output();
        kept.fill(usize::MAX);
        for (i, out) in rows.zip(out.chunks_exact_mut(out_width)) {
            let weights = &self.rows.weights[i];
            let elements: [Option<usize>; K] = core::array::from_fn(|k| self.rows.element(i, k));
            if grows {
                for r in elements.into_iter().flatten() {
                    if kept[r % K] != r {
                        kept[r % K] = r;
                        padded[Self::PAD..][..width].copy_from_slice(&src[(r - first) * width..][..width]);
                        self.extend(padded);
                        self.resample(padded, &mut slots[r % K * out_width..][..out_width]);
                    }
                }
                let slots = &*slots;
                let row = |r: Option<usize>| match r {
                    Some(r) => &slots[r % K * out_width..][..out_width],
                    None => &zeros[..out_width],
                };
                combine(elements.map(row), weights, out);
            } else {
                let row = |r: Option<usize>| match r {
                    Some(r) => &src[(r - first) * width..][..width],
                    None => &zeros[..width],
                };
                combine(elements.map(row), weights, &mut padded[Self::PAD..][..width]);
                self.extend(padded);
                self.resample(padded, out);
            }
        }
    }

    /// Fills the elements before and after a row.
    #[inline(always)]
    fn extend(&self, padded: &mut [A]) {
        let width = self.cols.input;
        let (left, right) = match self.cols.repeat_border {
            true => (padded[Self::PAD], padded[Self::PAD + width - 1]),
            false => (A::ZERO, A::ZERO),
        };
        padded[..Self::PAD].fill(left);
        padded[Self::PAD + width..].fill(right);
    }

    /// Resamples a row of the input to the width of the output.
    #[inline(always)]
    fn resample(&self, padded: &[A], out: &mut [A]) {
        for ((o, start), weights) in out.iter_mut().zip(&self.cols.starts).zip(&self.cols.weights) {
            let window: &[A; K] = padded[*start..*start + K].try_into().expect("K elements");
            let mut sum = window[0] * weights[0];
            for k in 1..K {
                sum += window[k] * weights[k];
            }
            *o = sum;
        }
    }

    /// The adjoint of [`resize`](Self::resize) for a whole image, with the two passes in reverse order.
    fn spread(&self, grad: &[A], out: &mut [A], scratch: &mut Vec<A>) {
        vectorize_lean(
            #[inline(always)]
            || self.spread_image(grad, out, scratch),
        );
    }

    #[inline(always)]
    fn spread_image(&self, grad: &[A], out: &mut [A], scratch: &mut Vec<A>) {
        let (width, out_width) = (self.cols.input, self.cols.output());
        let padded_len = width + 2 * Self::PAD;
        if self.rows.input <= self.rows.output() {
            let buffer = take(scratch, padded_len + self.rows.input * out_width);
            let (padded, sums) = buffer.split_at_mut(padded_len);
            sums.fill(A::ZERO);
            for (i, grad) in grad.chunks_exact(out_width).enumerate() {
                self.spread_rows(i, grad, out_width, sums);
            }
            for (sum, out) in sums.chunks_exact(out_width).zip(out.chunks_exact_mut(width)) {
                self.spread_cols(sum, padded);
                out.copy_from_slice(&padded[Self::PAD..][..width]);
            }
        } else {
            let padded = take(scratch, padded_len);
            out.fill(A::ZERO);
            for (i, grad) in grad.chunks_exact(out_width).enumerate() {
                self.spread_cols(grad, padded);
                self.spread_rows(i, &padded[Self::PAD..][..width], width, out);
            }
        }
    }

    /// Adds row `i` of the output, weighted, to the rows of `sums` that contributed to it.
    #[inline(always)]
    fn spread_rows(&self, i: usize, row: &[A], width: usize, sums: &mut [A]) {
        for (k, w) in self.rows.weights[i].iter().enumerate() {
            if let Some(r) = self.rows.element(i, k) {
                for (o, v) in sums[r * width..][..width].iter_mut().zip(row) {
                    *o += *v * *w;
                }
            }
        }
    }

    /// The adjoint of [`resample`](Self::resample) and [`extend`](Self::extend).
    #[inline(always)]
    fn spread_cols(&self, row: &[A], padded: &mut [A]) {
        padded.fill(A::ZERO);
        for ((g, start), weights) in row.iter().zip(&self.cols.starts).zip(&self.cols.weights) {
            let window: &mut [A; K] = (&mut padded[*start..*start + K]).try_into().expect("K elements");
            for (o, w) in window.iter_mut().zip(weights) {
                *o += *g * *w;
            }
        }
        if self.cols.repeat_border {
            let last = Self::PAD + self.cols.input - 1;
            for k in 0..Self::PAD {
                padded[Self::PAD] += padded[k];
                padded[last] += padded[last + 1 + k];
            }
        }
    }
}

/// `sum_k weights[k] * rows[k]`, elementwise.
#[inline(always)]
fn combine<A: Real, const K: usize>(rows: [&[A]; K], weights: &[A; K], out: &mut [A]) {
    let n = out.len();
    let rows = rows.map(|row| &row[..n]);
    for (x, o) in out.iter_mut().enumerate() {
        let mut sum = rows[0][x] * weights[0];
        for k in 1..K {
            sum += rows[k][x] * weights[k];
        }
        *o = sum;
    }
}

fn backward<const K: usize>(
    op: &'static str,
    x: &Tensor,
    grad: &Tensor,
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    dispatch!(float op, x.dtype(), T => run_backward::<T, K>(op, x, grad, mode, align_corners))
}

fn run_backward<T: FloatElement, const K: usize>(
    op: &'static str,
    x: &Tensor,
    grad: &Tensor,
    mode: Interpolation,
    align_corners: bool,
) -> Result<Tensor> {
    let [height, width, out_height, out_width] =
        [x.shape()[2], x.shape()[3], grad.shape()[2], grad.shape()[3]];
    let plan = Resampling::<T::Compute, K> {
        rows: Taps::new(height, out_height, mode, align_corners),
        cols: Taps::new(width, out_width, mode, align_corners),
    };
    let src = grad.as_slice::<T>().expect("contiguous");
    Tensor::build::<T>(op, x.shape().clone(), x.dtype(), |out| {
        let (input_plane, output_plane) = (height * width, out_height * out_width);
        let planes = parallel::rows_per_task(K * output_plane * size_of::<T>());
        let work = Work::Flops(src.len().saturating_mul(4 * K));
        parallel::for_each_chunk(out, planes * input_plane, work, |k, out| {
            let (mut wide, mut narrow, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
            for (plane, out) in out.chunks_exact_mut(input_plane).enumerate() {
                let grad = &src[(k * planes + plane) * output_plane..][..output_plane];
                let grad = T::in_compute(grad, &mut wide);
                T::through_compute(out, &mut narrow, |out| plan.spread(grad, out, &mut scratch));
            }
        });
    })
}
