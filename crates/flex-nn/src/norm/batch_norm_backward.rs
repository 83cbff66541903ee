//! Gradients of batch normalisation by the statistics of the batch.
//!
//! With `h = (x - mean) * s`, `s = 1 / sqrt(variance + epsilon)`, `g` the gradient of the output, and sums
//! and means over a channel:
//! * the gradient of beta is the sum of `g`, and the gradient of gamma is the sum of `g h`;
//! * the gradient of the input is `gamma * s * (g - mean(g) - h mean(g h))` (Ioffe and Szegedy, "Batch
//!   Normalization", 2015, section 3).

use super::batch_norm::{check, numbers};
use super::channels::{ChannelPass, Channels, Pair, run};
use super::check_grad;
use super::columns::LineKernel;
use crate::error::Result;
use crate::stored::Sink;
use crate::{Tensor, storage};
use alloc::vec;

/// Gradients of [`batch_norm_train`](super::batch_norm_train) with respect to `tensor`, gamma and beta, from
/// the mean and the variance that it returned, and `grad`, the gradient of its output. Returns them in the
/// order `(tensor, gamma, beta)`.
///
/// `tensor` and `grad` have shape `[batch, channels, ...]`, the others and their gradients `[channels]`. The
/// result reuses the buffer of `grad` if no other tensor shares it. f16 and bf16 are computed in f32 and
/// rounded once. The gradients of gamma and beta of a channel without elements are zero.
///
/// # Errors
/// Fails if the dtype is not a float, dtypes differ, `tensor` has fewer than two axes, `grad` has another
/// shape, or another argument does not have shape `[channels]`.
pub fn batch_norm_train_backward(
    tensor: Tensor,
    gamma: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: f64,
    grad: Tensor,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = "batch_norm_train_backward";
    let given = check(op, &tensor, &["gamma", "mean", "variance"], vec![gamma, mean, variance])?;
    check_grad(op, &tensor, &grad)?;
    let dtype = tensor.dtype();
    let mut totals = storage::try_room(op, given.len(), Pair::default())?;
    let input = run(op, &Gradient { given: &given, epsilon }, tensor, Some(grad), &mut totals, false)?;
    let [beta, gamma] = numbers(op, &[given.len()].into(), dtype, &totals)?;
    Ok((input, gamma, beta))
}

/// The sums of `g` and of `g h`, and then the gradient of the input.
struct Gradient<'a> {
    /// Gamma, mean and variance.
    given: &'a [[f64; 4]],
    epsilon: f64,
}

impl Gradient<'_> {
    /// `1 / sqrt(variance + epsilon)` of channel `c`.
    fn scale(&self, c: usize) -> f64 {
        1.0 / num_traits::Float::sqrt(self.given[c][2] + self.epsilon)
    }
}

impl ChannelPass for Gradient<'_> {
    fn sum(&self, channels: &Channels<'_>, k: usize, tile: &[Sink<'_>], sums: &mut [Pair]) {
        let mut numbers = storage::room(sums.len(), [0.0; 4]);
        for (c, numbers) in channels.of_tile(k).zip(&mut numbers) {
            *numbers = [self.given[c][1], self.scale(c), 0.0, 0.0];
        }
        let constants = channels.spread(k, &numbers, LineKernel::Products);
        channels.sum(k, LineKernel::Products, tile, &constants, sums);
    }

    fn join(&self, total: &mut Pair, _: f64, sums: Pair, _: f64) {
        total[0] += sums[0];
        total[1] += sums[1];
    }

    fn kernel(&self) -> LineKernel {
        LineKernel::Gradient
    }

    fn constants(&self, c: usize, count: f64, [of_grad, of_product]: Pair) -> [f64; 4] {
        let ([gamma, mean, ..], scale) = (self.given[c], self.scale(c));
        [mean, of_grad / count, of_product / count * scale, gamma * scale]
    }
}
