//! Gradient of a convolution with respect to its bias.

use crate::Tensor;
use crate::dtype::Element;
use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::float::FloatElement;
use crate::parallel::{Work, for_each_chunk, rows_per_task};
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
    dispatch!(float OP, grad.dtype(), T => {
        Tensor::build::<T>(OP, bias.shape().clone(), grad.dtype(), |out| {
            sum_channels(grad.as_slice().expect("contiguous"), grad.shape()[0], out);
        })
    })
}

/// Sums `[batch, channels, row]` over the first and the last axis.
pub(super) fn sum_channels<S: FloatElement>(values: &[S], batch: usize, out: &mut [S]) {
    let channels = out.len();
    let row = values.len() / (batch * channels).max(1);
    // Short rows of several images are summed together.
    let images = if row < SHORT { BLOCK / row.max(1) } else { 1 };
    let per_task = rows_per_task(batch * row * size_of::<S>());
    for_each_chunk(out, per_task.min(channels.max(1)), Work::Bytes(size_of_val(values)), |task, out| {
        for (k, out) in out.iter_mut().enumerate() {
            let channel = task * per_task + k;
            let at = |image: usize| &values[(image * channels + channel) * row..][..row];
            let of_images = |k: usize| match images {
                1 => sum(at(k)),
                _ => sum_rows((k * images..((k + 1) * images).min(batch)).map(at)),
            };
            *out = S::from_compute(pairwise(0, batch.div_ceil(images), &of_images));
        }
    });
}

/// The pairwise sum of `f` over `len` indices from `start` on.
fn pairwise<T: Element + core::ops::Add<Output = T>>(start: usize, len: usize, f: &impl Fn(usize) -> T) -> T {
    match len {
        0 => T::ZERO,
        1 => f(start),
        _ => pairwise(start, len / 2, f) + pairwise(start + len / 2, len - len / 2, f),
    }
}

/// The sum of a row of any length.
fn sum<S: FloatElement>(values: &[S]) -> S::Compute {
    if values.len() > BLOCK {
        let (a, b) = values.split_at((values.len() / 2).next_multiple_of(LANES));
        return sum(a) + sum(b);
    }
    vectorize(
        #[inline(always)]
        || {
            let mut lanes = [S::Compute::ZERO; LANES];
            let chunks = values.chunks_exact(LANES);
            let rest = chunks.remainder();
            for chunk in chunks {
                for (lane, v) in lanes.iter_mut().zip(chunk) {
                    *lane += v.to_compute();
                }
            }
            for (lane, v) in lanes.iter_mut().zip(rest) {
                *lane += v.to_compute();
            }
            fold_halves(&mut lanes, |a, b| a + b)
        },
    )
}

/// The sum of a few short rows.
fn sum_rows<'a, S: FloatElement>(rows: impl Iterator<Item = &'a [S]>) -> S::Compute {
    vectorize(
        #[inline(always)]
        || {
            let mut lanes = [S::Compute::ZERO; LANES];
            for row in rows {
                for chunk in row.chunks(LANES) {
                    for (lane, v) in lanes.iter_mut().zip(chunk) {
                        *lane += v.to_compute();
                    }
                }
            }
            fold_halves(&mut lanes, |a, b| a + b)
        },
    )
}
