//! Real Fourier transforms of any length, along any axis.
//!
//! ```text
//! rfft   X[k] = sum_j x[j] exp(-2 pi i j k / n),   k = 0 ..= n/2
//! irfft  x[j] = 1/n sum_k X[k] exp(2 pi i j k / n),  with X[n-k] the conjugate of X[k]
//! ```
//!
//! `real` turns a real transform of even length into a complex one of half the length, and `plan` keeps the
//! data that depends on the length alone. `source` chooses where complex transforms come from: `rustfft` or
//! `mixed_radix`.

mod complex;
mod mixed_radix;
mod plan;
mod real;
mod source;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result, check_axis, check_same_dtype};
use crate::float::FloatElement;
use crate::layout::checked_num_elements;
use crate::parallel::thresholds::TASK_FFT_FLOPS;
use crate::parallel::{self, Work};
use crate::storage::{self, Scratch};
use crate::{Shape, Tensor};
use alloc::sync::Arc;
use plan::{Cached, plan};
use real::RealFft;

pub use plan::cleanup;

/// Spectrum `(re, im)` of a real signal along `axis`: `n / 2 + 1` bins. `n` defaults to the length of the
/// axis. A longer signal is cut to `n` samples, a shorter one is padded with zeros.
///
/// # Errors
/// A dtype that is not float, an axis out of range or empty, or `n` of zero.
pub fn rfft(signal: Tensor, axis: usize, n: Option<usize>) -> Result<(Tensor, Tensor)> {
    const OP: &str = "rfft";
    check_float(OP, &signal)?;
    check_axis(OP, axis, signal.rank())?;
    let n = check_length(OP, &signal, axis, n.unwrap_or(signal.shape()[axis]))?;
    let last = signal.rank() - 1;
    let signal = signal.swap_axes(axis, last)?.into_contiguous()?;
    let (re, im) = dispatch!(float OP, signal.dtype(), T => {
        forward::<T>(OP, &signal, n, &*plan::<<T as flex_math::StoredFloat>::Compute>(OP, n)?)
    })?;
    // The bins of one signal are neighbours in memory, whichever axis was transformed.
    Ok((re.swap_axes(axis, last)?, im.swap_axes(axis, last)?))
}

/// Real signal of `n` samples from its spectrum along `axis`, the inverse of [`rfft`]. `n` defaults to
/// `2 * (bins - 1)`. Bins above `n / 2` are ignored, missing bins are zero. The imaginary parts of bin 0 and,
/// for even `n`, of bin `n / 2` are taken as zero.
///
/// # Errors
/// A dtype that is not float, `re` and `im` of different shapes or dtypes, an axis out of range or empty, or
/// a length of zero (a single bin without `n`).
pub fn irfft(re: Tensor, im: Tensor, axis: usize, n: Option<usize>) -> Result<Tensor> {
    const OP: &str = "irfft";
    check_float(OP, &re)?;
    check_same_dtype(OP, re.dtype(), im.dtype())?;
    if re.shape() != im.shape() {
        return Err(Error::shapes(OP, re.shape(), im.shape(), "real and imaginary parts of the same shape"));
    }
    check_axis(OP, axis, re.rank())?;
    let bins = re.shape()[axis];
    let n = check_length(OP, &re, axis, n.unwrap_or(2 * bins.saturating_sub(1)))?;
    let last = re.rank() - 1;
    let re = re.swap_axes(axis, last)?.into_contiguous()?;
    let im = im.swap_axes(axis, last)?.into_contiguous()?;
    let signal = dispatch!(float OP, re.dtype(), T => {
        inverse::<T>(OP, &re, &im, n, &*plan::<<T as flex_math::StoredFloat>::Compute>(OP, n)?)
    })?;
    signal.swap_axes(axis, last)
}

fn check_float(op: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::dtype(op, x.dtype(), "a float dtype (f64, f32, f16, bf16)"))
}

/// Below this length, whose transform and plan take at most 42 MB, the system is not asked for memory in
/// advance, but for a new plan. A transform of this length takes 200 us, and the question some.
const ASKED: usize = 1 << 17;

/// Elements that a transform of `n` takes per sample, with its plan: signals, spectra, roots of unity and
/// working memory. A length with a large prime factor is a convolution of the next power of two but one.
fn elements_per_sample(n: usize) -> usize {
    let rest = [2, 3, 5, 7, 11, 13].iter().fold(n, |mut n, factor| {
        while n % factor == 0 {
            n /= factor;
        }
        n
    });
    if rest == 1 { 12 } else { 40 }
}

/// Returns `n` if the axis can be transformed at this length.
fn check_length(op: &'static str, x: &Tensor, axis: usize, n: usize) -> Result<usize> {
    let shape = x.shape();
    if shape[axis] == 0 {
        return Err(Error::shape(op, shape, alloc::format!("at least one element along axis {axis}")));
    }
    if n == 0 {
        return Err(Error::argument(op, "length of the transform", n, "at least 1"));
    }
    // This bounds the working buffers too: a complex transform of any length fits into 8 n elements.
    checked_num_elements(op, &[n, 8])?;
    if n >= ASKED {
        let element = x.dtype().size().max(size_of::<f32>());
        storage::ensure(op, n.saturating_mul(elements_per_sample(n) * element))?;
    }
    Ok(n)
}

/// `shape` with `len` elements along the last axis.
fn with_last(shape: &Shape, len: usize) -> Shape {
    let mut shape = shape.clone();
    let last = shape.len() - 1;
    shape[last] = len;
    shape
}

/// Work of one transform. Transforms are vectorised, so several operations count as one: 1024 samples take
/// 0.7 us, 4096 take 2 us, 65536 take 43 us on one core of a Zen 4, and 16 rows of 1024 are faster on one
/// thread than on two.
fn flops(n: usize) -> usize {
    (n.ilog2() as usize + 2).saturating_mul(n).div_ceil(4)
}

/// Number of transforms per task, so that a task takes some 5 us.
fn rows_per_task(n: usize) -> usize {
    TASK_FFT_FLOPS.div_ceil(flops(n))
}

/// Asks for the working memory of the tasks, which end with a panic if there is none.
fn ensure_scratch<A>(op: &'static str, elements: usize, tasks: usize) -> Result<()> {
    let bytes = elements.saturating_mul(size_of::<A>());
    // Less is not worth the time of asking.
    if bytes < 1 << 20 { Ok(()) } else { storage::ensure_for_tasks(op, bytes, tasks) }
}

fn forward<T: FloatElement>(
    op: &'static str,
    signal: &Tensor,
    n: usize,
    plan: &RealFft<T::Compute>,
) -> Result<(Tensor, Tensor)>
where
    T::Compute: Cached,
{
    let (len, bins) = (signal.shape()[signal.rank() - 1], n / 2 + 1);
    let src = signal.as_slice::<T>().expect("contiguous");
    let shape = with_last(signal.shape(), bins);
    let rows = src.len() / len;
    let work = Work::Flops(rows.saturating_mul(flops(n)));
    ensure_scratch::<T::Compute>(op, n + plan.scratch_len(), rows.div_ceil(rows_per_task(n)))?;
    let mut im = None;
    let re = Tensor::try_build::<T>(op, shape.clone(), signal.dtype(), |re| {
        im = Some(Tensor::build::<T>(op, shape.clone(), signal.dtype(), |im| {
            let block = rows_per_task(n);
            parallel::for_each_chunk2(re, block * bins, im, block * bins, work, |k, re, im| {
                let mut scratch = Scratch::<T::Compute>::for_task(n + plan.scratch_len());
                let (padded, scratch) = scratch.split_at_mut(n);
                let [mut wide, mut narrow_re, mut narrow_im] = [(); 3].map(|()| Scratch::default());
                let rows = src[k * block * len..].chunks_exact(len);
                for ((row, re), im) in rows.zip(re.chunks_exact_mut(bins)).zip(im.chunks_exact_mut(bins)) {
                    let row = T::in_compute(&row[..len.min(n)], &mut wide);
                    let row = if len < n { continue_with_zeros(row, padded) } else { row };
                    T::through_compute(re, &mut narrow_re, |re| {
                        T::through_compute(im, &mut narrow_im, |im| plan.forward(row, re, im, scratch))
                    });
                }
            });
        })?);
        Ok(())
    })?;
    Ok((re, im.expect("built with the real part")))
}

fn inverse<T: FloatElement>(
    op: &'static str,
    re: &Tensor,
    im: &Tensor,
    n: usize,
    plan: &RealFft<T::Compute>,
) -> Result<Tensor>
where
    T::Compute: Cached,
{
    let (len, bins) = (re.shape()[re.rank() - 1], n / 2 + 1);
    let (re_src, im_src) = (re.as_slice::<T>().expect("contiguous"), im.as_slice::<T>().expect("contiguous"));
    let rows = re_src.len() / len;
    let work = Work::Flops(rows.saturating_mul(flops(n)));
    ensure_scratch::<T::Compute>(op, 2 * bins + plan.scratch_len(), rows.div_ceil(rows_per_task(n)))?;
    Tensor::build::<T>(op, with_last(re.shape(), n), re.dtype(), |out| {
        let block = rows_per_task(n);
        parallel::for_each_chunk(out, block * n, work, |k, out| {
            let mut scratch = Scratch::<T::Compute>::for_task(2 * bins + plan.scratch_len());
            let (padded, scratch) = scratch.split_at_mut(2 * bins);
            let (padded_re, padded_im) = padded.split_at_mut(bins);
            let [mut wide_re, mut wide_im, mut narrow] = [(); 3].map(|()| Scratch::default());
            for (r, out) in out.chunks_exact_mut(n).enumerate() {
                let range = (k * block + r) * len..(k * block + r) * len + len.min(bins);
                let mut re = T::in_compute(&re_src[range.clone()], &mut wide_re);
                let mut im = T::in_compute(&im_src[range], &mut wide_im);
                if len < bins {
                    re = continue_with_zeros(re, padded_re);
                    im = continue_with_zeros(im, padded_im);
                }
                T::through_compute(out, &mut narrow, |out| plan.inverse(re, im, out, scratch));
            }
        });
    })
}

/// Copies `row` to `buffer` and fills the rest with zeros; returns the buffer.
fn continue_with_zeros<'a, A: crate::float::Real>(row: &[A], buffer: &'a mut [A]) -> &'a [A] {
    let (head, tail) = buffer.split_at_mut(row.len());
    head.copy_from_slice(row);
    tail.fill(A::ZERO);
    buffer
}

/// A plan that several calls share.
type SharedPlan<A> = Arc<RealFft<A>>;
