//! Gradient of a convolution with respect to its bias.

use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::float::Real;
use crate::parallel::{Work, for_each_chunk, rows_per_task};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor, storage};
use flex_math::fold_halves;
use flex_math::simd::vectorize;

/// Partial sums that are kept side by side: two AVX-512 vectors of f32.
const LANES: usize = 32;
/// Longest row that is summed lane by lane; longer rows are split in halves, so that rounding errors grow
/// with the logarithm of the row's length.
const BLOCK: usize = 2048;
/// Rows shorter than this are summed in groups: one call per row would cost more than the additions.
const SHORT: usize = 256;

/// Gradient of [`conv`](super::conv) and [`conv_transpose`](super::conv_transpose) over `N` spatial axes with
/// respect to the bias: `grad`, the gradient of the output, `[batch, channels, spatial...]`, summed over all
/// axes but the channels.
///
/// # Errors
/// Fails if `grad` has another rank, the bias does not have one element per channel, or dtypes differ or are
/// not floats.
pub fn conv_bias_backward<const N: usize>(bias: Tensor, grad: Tensor) -> Result<Tensor> {
    const OP: &str = "conv_bias_backward";
    check_same_dtype(OP, bias.dtype(), grad.dtype())?;
    check_rank(OP, grad.shape(), N + 2, "a gradient of shape [batch, channels, spatial...]")?;
    if bias.shape().to_vec() != [grad.shape()[1]] {
        return Err(Error::shapes(OP, bias.shape(), grad.shape(), "one element of the bias per channel"));
    }
    let grad = grad.into_contiguous()?;
    computing!(OP, grad.dtype(), A => sum_channels::<A>(OP, &grad))
}

/// Sums the contiguous `grad`, `[batch, channels, row]`, over the first and the last axis.
pub(super) fn sum_channels<A: Computing>(op: &'static str, grad: &Tensor) -> Result<Tensor> {
    let (batch, channels, dtype) = (grad.shape()[0], grad.shape()[1], grad.dtype());
    let values = Source::of(grad);
    let row = values.len() / (batch * channels).max(1);
    // Short rows of several images are summed together.
    let images = if row < SHORT { BLOCK / row.max(1) } else { 1 };
    let per_task = rows_per_task(batch * row * dtype.size()).min(channels.max(1));
    let work = Work::Bytes(values.bytes().len());
    if values.values::<A>().is_none() {
        let wide = row.saturating_mul(images.min(batch)).saturating_mul(size_of::<A>());
        storage::ensure_for_tasks(op, wide, channels)?;
    }
    let mut blank = Blank::new(op, [channels].into(), dtype)?;
    for_each_chunk(blank.bytes(), per_task * dtype.size(), work, |task, out| {
        let mut out = Sink::new(out, dtype);
        // The rows of a group of images, if they have to be converted.
        let mut wide = Scratch::<A>::default();
        for k in 0..out.len() {
            let channel = task * per_task + k;
            let at = |image: usize| (image * channels + channel) * row;
            let total = pairwise(0, batch.div_ceil(images), &mut |k: usize| {
                let group = k * images..((k + 1) * images).min(batch);
                match values.values::<A>() {
                    Some(values) if images == 1 => sum(&values[at(k)..][..row]),
                    Some(values) => sum_rows(&values[at(group.start)..], channels * row, row, group.len()),
                    None => {
                        let wide = wide.elements(group.len() * row);
                        for (image, wide) in group.clone().zip(wide.chunks_exact_mut(row.max(1))) {
                            values.slice(at(image)..at(image) + row).read(wide);
                        }
                        if images == 1 { sum(wide) } else { sum_rows(wide, row, row, group.len()) }
                    }
                }
            });
            out.part(k..k + 1).write(&[total]);
        }
    });
    Ok(blank.finish())
}

/// The pairwise sum of `f` over `len` indices from `start` on.
fn pairwise<A: Real>(start: usize, len: usize, f: &mut dyn FnMut(usize) -> A) -> A {
    match len {
        0 => A::ZERO,
        1 => f(start),
        _ => pairwise(start, len / 2, f) + pairwise(start + len / 2, len - len / 2, f),
    }
}

/// The sum of a row of any length.
fn sum<A: Real>(values: &[A]) -> A {
    if values.len() > BLOCK {
        let (a, b) = values.split_at((values.len() / 2).next_multiple_of(LANES));
        return sum(a) + sum(b);
    }
    vectorize(
        #[inline(always)]
        || {
            let (chunks, rest) = values.as_chunks::<LANES>();
            let mut sums = [A::ZERO; LANES];
            for chunk in chunks {
                for l in 0..LANES {
                    sums[l] += chunk[l];
                }
            }
            // A borrowed array is kept in memory, so the loop has an array of its own for its sums.
            let mut lanes = sums;
            for (lane, v) in lanes.iter_mut().zip(rest) {
                *lane += *v;
            }
            fold_halves(&mut lanes, |a, b| a + b)
        },
    )
}

/// The sum of `count` short rows of `len` elements, `stride` apart.
fn sum_rows<A: Real>(values: &[A], stride: usize, len: usize, count: usize) -> A {
    vectorize(
        #[inline(always)]
        || {
            let mut lanes = [A::ZERO; LANES];
            for row in 0..count {
                for chunk in values[row * stride..][..len].chunks(LANES) {
                    for (lane, v) in lanes.iter_mut().zip(chunk) {
                        *lane += *v;
                    }
                }
            }
            fold_halves(&mut lanes, |a, b| a + b)
        },
    )
}
