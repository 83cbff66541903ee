//! Batch normalisation: of each channel, over the batch and the pixels.

use super::channels::{Channels, Line, Pair, Pass};
use super::columns::{add, add_apart, affine, load};
use crate::error::{Error, Result, check_same_dtype};
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, DType, Element, Shape, Tensor, storage};
use alloc::vec::Vec;
use core::marker::PhantomData;
use flex_map::elementwise::{Binary, binary};

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, with given statistics.
///
/// `tensor` has shape `[batch, channels, ...]`, the others have shape `[channels]`.
///
/// f32 and f64 are computed as `x * scale + shift`. These two operations may wait, and then run in the pass
/// that computes the tensor, such as a convolution. The scale and the shift of a channel are computed in f64
/// and rounded once. f16 and bf16 are computed in f32 in one pass, and rounded once.
///
/// # Errors
/// Fails if the dtype is not a float, dtypes differ, the tensor has fewer than two axes, or another argument
/// does not have shape `[channels]`.
pub fn batch_norm(
    tensor: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: f64,
) -> Result<Tensor> {
    let op = "batch_norm";
    let named = [("gamma", &gamma), ("beta", &beta), ("mean", &mean), ("variance", &variance)];
    let channels = check(op, &tensor, named)?;
    let (gamma, beta) = (gamma.into_contiguous()?, beta.into_contiguous()?);
    let [means, variances] = [mean.into_contiguous()?, variance.into_contiguous()?];
    let [mean, variance] = [&means, &variances].map(Source::of);
    let affine = Affine { gamma: Source::of(&gamma), beta: Source::of(&beta), epsilon };
    let of = |c| affine.line(c, [mean.get(c), variance.get(c)]);
    match tensor.dtype() {
        DType::F32 | DType::F64 => {
            let mut shape: Shape = core::iter::repeat_n(1, tensor.rank()).collect();
            shape[1] = channels;
            let scale = numbers(op, shape.clone(), tensor.dtype(), |c| of(c)[1])?;
            let shift = numbers(op, shape, tensor.dtype(), |c| {
                let [mean, scale, shift] = of(c);
                shift - mean * scale
            })?;
            binary(Binary::Mul, tensor, scale)
                .and_then(|scaled| binary(Binary::Add, scaled, shift))
                .map_err(|error| error.named(op))
        }
        dtype => {
            let mut totals = storage::try_list(op, channels)?;
            totals.extend((0..channels).map(|c| [mean.get(c), variance.get(c)]));
            computing!(op, dtype, A => normalise::<A>(op, tensor, affine, &mut totals, true))
        }
    }
}

/// [`batch_norm`] with the statistics of the batch itself: returns `(output, mean, variance)`.
///
/// `tensor` has shape `[batch, channels, ...]`; `gamma`, `beta`, the mean and the variance have shape
/// `[channels]`. The variance is biased: it is divided by the number of the channel's elements. It is computed
/// around the mean in a second pass, which also corrects the mean (the corrected two-pass algorithm of Chan,
/// Golub and LeVeque), so that a large mean causes no cancellation. f16 and bf16 are computed in f32 and
/// rounded once. The statistics of a channel without elements are NaN.
///
/// # Errors
/// Fails if the dtype is not a float, dtypes differ, the tensor has fewer than two axes, or `gamma` or `beta`
/// does not have shape `[channels]`.
pub fn batch_norm_train(
    tensor: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = "batch_norm_train";
    let channels = check(op, &tensor, [("gamma", &gamma), ("beta", &beta)])?;
    let (gamma, beta) = (gamma.into_contiguous()?, beta.into_contiguous()?);
    let affine = Affine { gamma: Source::of(&gamma), beta: Source::of(&beta), epsilon };
    let dtype = tensor.dtype();
    let mut totals = storage::try_room(op, channels, Pair::default())?;
    if tensor.num_elements() == 0 {
        totals.fill([f64::NAN; 2]);
    }
    let output = computing!(op, dtype, A => normalise::<A>(op, tensor, affine, &mut totals, false))?;
    let part = |which: usize| numbers(op, [channels].into(), dtype, |c| totals[c][which]);
    Ok((output, part(0)?, part(1)?))
}

/// Checks the tensor and the named arguments, which have one number per channel; returns the number of
/// channels.
pub(super) fn check<const N: usize>(
    op: &'static str,
    tensor: &Tensor,
    named: [(&'static str, &Tensor); N],
) -> Result<usize> {
    let &[_, channels, ..] = tensor.shape().as_slice() else {
        return Err(Error::shape(op, tensor.shape(), "at least two axes, [batch, channels, ...]"));
    };
    if !tensor.dtype().is_float() {
        return Err(Error::dtype(op, tensor.dtype(), "a float dtype (f64, f32, f16, bf16)"));
    }
    for (name, argument) in named {
        check_same_dtype(op, tensor.dtype(), argument.dtype())?;
        if argument.shape().as_slice() != [channels] {
            let expected = alloc::format!("{name} of shape [{channels}], a number per channel");
            return Err(Error::shape(op, argument.shape(), expected));
        }
    }
    Ok(channels)
}

/// A tensor of the numbers, each rounded once.
pub(super) fn numbers(
    op: &'static str,
    shape: Shape,
    dtype: DType,
    number: impl Fn(usize) -> f64,
) -> Result<Tensor> {
    let mut blank = Blank::new(op, shape, dtype)?;
    for (c, bytes) in blank.bytes().chunks_exact_mut(dtype.size()).enumerate() {
        Sink::new(bytes, dtype).set(number(c));
    }
    Ok(blank.finish())
}

/// What follows the normalisation.
#[derive(Clone, Copy)]
struct Affine<'a> {
    gamma: Source<'a>,
    beta: Source<'a>,
    epsilon: f64,
}

impl Affine<'_> {
    /// Mean, scale and shift of channel `c`, given its mean and variance: `y = (x - mean) * scale + shift`.
    fn line(&self, c: usize, [mean, variance]: Pair) -> [f64; 3] {
        let scale = self.gamma.get(c) / num_traits::Float::sqrt(variance + self.epsilon);
        [mean, scale, self.beta.get(c)]
    }
}

/// The normalised tensor. `totals` are the mean and the variance of each channel: those that are `given`, or
/// else those of the tensor, which are returned there.
fn normalise<A: Computing>(
    op: &'static str,
    tensor: Tensor,
    affine: Affine<'_>,
    totals: &mut [Pair],
    given: bool,
) -> Result<Tensor> {
    if tensor.num_elements() == 0 {
        return Ok(tensor);
    }
    let tensor = tensor.into_contiguous()?;
    let channels = &Channels::new(tensor.shape());
    let pass = Normalise::<A> { channels, x: Source::of(&tensor), affine, given, computing: PhantomData };
    if !given {
        channels.sum_parts(op, &pass, totals)?;
    }
    let mut blank = Blank::new(op, tensor.shape().clone(), tensor.dtype())?;
    channels.write(op, &pass, blank.bytes(), tensor.dtype(), totals)?;
    Ok(blank.finish())
}

/// Mean and variance, and then the normalised tensor.
struct Normalise<'a, A> {
    channels: &'a Channels,
    x: Source<'a>,
    affine: Affine<'a>,
    /// Whether the statistics are known.
    given: bool,
    computing: PhantomData<A>,
}

impl<A: Computing> Pass for Normalise<'_, A> {
    fn sum(&self, k: usize, _: Option<&[Sink<'_>]>, sums: &mut [Pair]) {
        if self.given {
            return;
        }
        let count = self.channels.samples_of_tile(k) as f64;
        let mut scratch = Vec::<A>::new();
        self.channels.sum(k, 0..1, sums, &mut |lines: &[Line], columns: &mut [A]| {
            let x = lines.iter().map(|line| self.x.slice(line.place.clone())).collect();
            let x = load(&x, &mut scratch);
            add(columns, &x[..lines.len()]);
        });
        // Means as they are subtracted.
        sums.iter_mut().for_each(|sums| *sums = [0.0, Element::to_f64(A::from_f64(sums[0] / count))]);
        let mut numbers = storage::list(sums.len());
        numbers.extend(sums.iter().map(|sums| [sums[1], 0.0, 0.0, 0.0]));
        let means = self.channels.spread(k, &numbers, 1);
        let mut apart = storage::room(sums.len(), Pair::default());
        self.channels.sum(k, 0..2, &mut apart, &mut |lines: &[Line], columns: &mut [A]| {
            let x = lines.iter().map(|line| self.x.slice(line.place.clone())).collect();
            let x = load(&x, &mut scratch);
            add_apart(columns, &x[..lines.len()], &means);
        });
        for (sums, [apart, squares]) in sums.iter_mut().zip(apart) {
            // By how much the sum of the first pass was rounded. Not a number if the mean is infinite.
            let rest = if apart.is_finite() { apart / count } else { 0.0 };
            *sums = [sums[1] + rest, squares / count - rest * rest];
        }
    }

    /// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
    /// 1979.
    fn join(&self, total: &mut Pair, before: f64, sums: Pair, count: f64) {
        let (all, apart) = (before + count, sums[0] - total[0]);
        let share = count / all;
        total[0] += apart * share;
        total[1] = (total[1] * before + sums[1] * count) / all + apart * apart * share * (before / all);
    }

    fn write(&self, k: usize, tile: &mut [Sink<'_>], totals: &[Pair]) {
        let first = self.channels.of_tile(k).start;
        let (mut loaded, mut own) = (Vec::<A>::new(), Vec::<A>::new());
        let mut numbers = storage::list(totals.len());
        numbers.extend(totals.iter().enumerate().map(|(c, total)| {
            let [mean, scale, shift] = self.affine.line(first + c, *total);
            [mean, scale, shift, 0.0]
        }));
        let constants = self.channels.spread(k, &numbers, 3);
        for Line { run, inside, place } in self.channels.lines(k) {
            let x = self.x.slice(place).load(&mut loaded);
            tile[run].part(inside).through(&mut own, |to| affine(x, to, &constants));
        }
    }
}
