//! Gradients of batch normalisation by the statistics of the batch.
//!
//! With `h = (x - mean) * s`, `s = 1 / sqrt(variance + epsilon)`, `g` the gradient of the output, and sums and
//! means over a channel:
//! * the gradient of beta is the sum of `g`, and the gradient of gamma is the sum of `g h`;
//! * the gradient of the input is `gamma * s * (g - mean(g) - h mean(g h))` (Ioffe and Szegedy, "Batch
//!   Normalization", 2015, section 3).

use super::batch_norm::{check, numbers};
use super::channels::{Channels, Line, Pair, Pass};
use super::columns::{add_products, gradient, load};
use crate::error::{Error, Result, check_same_dtype};
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor, storage};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Gradients of [`batch_norm_train`](super::batch_norm_train) with respect to `tensor`, gamma and beta, from
/// the mean and the variance that it returned, and `grad`, the gradient of its output. Returns them in the
/// order `(tensor, gamma, beta)`.
///
/// `tensor` and `grad` have shape `[batch, channels, ...]`, the others and their gradients `[channels]`. The result
/// reuses the buffer of `grad` if no other tensor shares it. f16 and bf16 are computed in f32 and rounded
/// once. The gradients of gamma and beta of a channel without elements are zero.
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
    let named = [("gamma", &gamma), ("mean", &mean), ("variance", &variance)];
    let channels = check(op, &tensor, named)?;
    check_same_dtype(op, tensor.dtype(), grad.dtype())?;
    if tensor.shape() != grad.shape() {
        return Err(Error::shapes(op, tensor.shape(), grad.shape(), "equal shapes"));
    }
    let [gamma, mean, variance] =
        [gamma.into_contiguous()?, mean.into_contiguous()?, variance.into_contiguous()?];
    let [gamma, mean, variance] = [&gamma, &mean, &variance].map(Source::of);
    let given = Given { gamma, mean, variance, epsilon };
    let dtype = tensor.dtype();
    let mut totals = storage::try_room(op, channels, Pair::default())?;
    let input = computing!(op, dtype, A => run::<A>(op, tensor, given, grad, &mut totals))?;
    let part = |which: usize| numbers(op, [channels].into(), dtype, |c| totals[c][which]);
    Ok((input, part(1)?, part(0)?))
}

/// What is known of the channels.
#[derive(Clone, Copy)]
struct Given<'a> {
    gamma: Source<'a>,
    mean: Source<'a>,
    variance: Source<'a>,
    epsilon: f64,
}

impl Given<'_> {
    /// `1 / sqrt(variance + epsilon)` of channel `c`.
    fn scale(&self, c: usize) -> f64 {
        1.0 / num_traits::Float::sqrt(self.variance.get(c) + self.epsilon)
    }
}

/// The gradient of the input. `totals` become the sums of `g` and of `g h` of each channel.
fn run<A: Computing>(
    op: &'static str,
    tensor: Tensor,
    given: Given<'_>,
    grad: Tensor,
    totals: &mut [Pair],
) -> Result<Tensor> {
    if tensor.num_elements() == 0 {
        return Ok(grad);
    }
    let (tensor, mut grad) = (tensor.into_contiguous()?, grad.into_contiguous()?);
    let (dtype, channels) = (tensor.dtype(), &Channels::new(tensor.shape()));
    let x = Source::of(&tensor);
    let pass = Gradient::<A> { channels, x, given, grad: None, computing: PhantomData };
    channels.sum_parts(op, &Gradient { grad: Some(Source::of(&grad)), ..pass }, totals)?;
    if let Some(bytes) = grad.dense_bytes_mut() {
        channels.write(op, &pass, bytes, dtype, totals)?;
        return Ok(grad);
    }
    let mut blank = Blank::new(op, tensor.shape().clone(), dtype)?;
    channels.write(op, &Gradient { grad: Some(Source::of(&grad)), ..pass }, blank.bytes(), dtype, totals)?;
    Ok(blank.finish())
}

/// The sums of `g` and of `g h`, and then the gradient of the input.
struct Gradient<'a, A> {
    channels: &'a Channels,
    x: Source<'a>,
    given: Given<'a>,
    /// The gradient of the output, if it is not where the result will be.
    grad: Option<Source<'a>>,
    computing: PhantomData<A>,
}

impl<A: Computing> Pass for Gradient<'_, A> {
    fn sum(&self, k: usize, tile: Option<&[Sink<'_>]>, sums: &mut [Pair]) {
        let (mut loaded, mut own) = (Vec::<A>::new(), Vec::<A>::new());
        let mut numbers = storage::list(sums.len());
        numbers.extend(
            self.channels.of_tile(k).map(|c| [self.given.mean.get(c), self.given.scale(c), 0.0, 0.0]),
        );
        let constants = self.channels.spread(k, &numbers, 2);
        self.channels.sum(k, 0..2, sums, &mut |lines: &[Line], columns: &mut [A]| {
            let x = lines.iter().map(|line| self.x.slice(line.place.clone())).collect();
            let x = load(&x, &mut loaded);
            let grad = lines.iter().map(|line| match (self.grad, tile) {
                (None, Some(tile)) => tile[line.run].source().slice(line.inside.clone()),
                (grad, _) => grad.expect("a gradient").slice(line.place.clone()),
            });
            let grad = grad.collect();
            let grad = load(&grad, &mut own);
            add_products(columns, &x[..lines.len()], &grad[..lines.len()], &constants);
        });
    }

    fn join(&self, total: &mut Pair, _: f64, sums: Pair, _: f64) {
        total[0] += sums[0];
        total[1] += sums[1];
    }

    fn write(&self, k: usize, tile: &mut [Sink<'_>], totals: &[Pair]) {
        let (first, count) = (self.channels.of_tile(k).start, self.channels.samples() as f64);
        let (mut loaded, mut own) = (Vec::<A>::new(), Vec::<A>::new());
        let mut numbers = storage::list(totals.len());
        numbers.extend(totals.iter().enumerate().map(|(c, total)| {
            let scale = self.given.scale(first + c);
            let [of_grad, of_product] = total.map(|sum| sum / count);
            let slope = self.given.gamma.get(first + c) * scale;
            [self.given.mean.get(first + c), of_grad, of_product * scale, slope]
        }));
        let constants = self.channels.spread(k, &numbers, 4);
        for Line { run, inside, place } in self.channels.lines(k) {
            let mut to = tile[run].part(inside);
            if let Some(grad) = self.grad {
                to.bytes().copy_from_slice(grad.slice(place.clone()).bytes());
            }
            let x = self.x.slice(place).load(&mut loaded);
            match to.values() {
                Some(grad) => gradient(x, grad, &constants),
                None => {
                    let own = crate::float::take(&mut own, x.len());
                    to.source().read(own);
                    gradient(x, own, &constants);
                    to.write(own);
                }
            }
        }
    }
}
