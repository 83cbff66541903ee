//! Batch normalisation: of each channel, over the batch and the pixels.

use super::channels::{ChannelPass, Channels, Pair, run};
use super::columns::LineKernel;
use crate::error::{Error, Result, check_same_dtype};
use crate::stored::{Sink, Source};
use crate::{Blank, DType, Shape, Tensor, storage};
use alloc::{vec, vec::Vec};
use flex_map::elementwise::{Binary, binary};

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, with given statistics.
///
/// `tensor` has shape `[batch, channels, ...]`, the others have shape `[channels]`.
///
/// f32 and f64 are computed as `x * scale + shift`, or as `(x - mean) * scale + beta` where a channel's mean
/// is more than four standard deviations from zero. These operations may wait, and then run in the pass that
/// computes the tensor, such as a convolution. The scale and the shift of a channel are computed in f64 and
/// rounded once. f16 and bf16 are computed in f32 in one pass, and rounded once.
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
    let given =
        check(op, &tensor, &["gamma", "beta", "mean", "variance"], vec![gamma, beta, mean, variance])?;
    let mut totals = storage::try_room(op, given.len(), Pair::default())?;
    if !matches!(tensor.dtype(), DType::F32 | DType::F64) {
        totals.iter_mut().zip(&given).for_each(|(total, given)| *total = [given[2], given[3]]);
        return run(op, &Normalise { given: &given, epsilon }, tensor, None, &mut totals, true);
    }
    let deviation = |variance: f64| num_traits::Float::sqrt(variance + epsilon);
    let is_far = given.iter().any(|&[_, _, mean, variance]| mean.abs() > FAR * deviation(variance));
    for (total, &[gamma, beta, mean, variance]) in totals.iter_mut().zip(&given) {
        let scale = gamma / deviation(variance);
        *total = [scale, if is_far { beta } else { beta - mean * scale }];
    }
    let mut shape = tensor.shape().clone();
    shape.fill(1);
    shape[1] = given.len();
    let [scale, shift] = numbers(op, &shape, tensor.dtype(), &totals)?;
    let apply = || {
        let centred = if is_far {
            totals.iter_mut().zip(&given).for_each(|(total, given)| total[0] = given[2]);
            let [mean, _] = numbers(op, &shape, tensor.dtype(), &totals)?;
            binary(Binary::Sub, tensor, mean)?
        } else {
            tensor
        };
        binary(Binary::Add, binary(Binary::Mul, centred, scale)?, shift)
    };
    apply().map_err(|error: Error| error.named(op))
}

/// Standard deviations between a mean and zero from which on the mean is subtracted first. `x * scale +
/// shift` has rounding errors of about `3 |mean| / deviation` units of `gamma`, in the last place, where `x`
/// is near the mean: 12 units at most.
const FAR: f64 = 4.0;

/// [`batch_norm`] with the statistics of the batch itself: returns `(output, mean, variance)`.
///
/// `tensor` has shape `[batch, channels, ...]`; `gamma`, `beta`, the mean and the variance have shape
/// `[channels]`. The variance is biased: it is divided by the number of the channel's elements. It is
/// computed around the mean in a second pass, which also corrects the mean (the corrected two-pass algorithm
/// of Chan, Golub and LeVeque), so that a large mean causes no cancellation. f16 and bf16 are computed in f32
/// and rounded once. The statistics of a channel without elements are NaN.
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
    let given = check(op, &tensor, &["gamma", "beta"], vec![gamma, beta])?;
    let dtype = tensor.dtype();
    let mut totals = storage::try_room(op, given.len(), Pair::default())?;
    if tensor.num_elements() == 0 {
        totals.fill([f64::NAN; 2]);
    }
    let output = run(op, &Normalise { given: &given, epsilon }, tensor, None, &mut totals, false)?;
    let [mean, variance] = numbers(op, &[given.len()].into(), dtype, &totals)?;
    Ok((output, mean, variance))
}

/// Checks the tensor and the arguments, which have one number per channel; returns these numbers of each
/// channel. The arguments are moved here, so that callers have no code that drops each of them.
#[inline(never)]
pub(super) fn check(
    op: &'static str,
    tensor: &Tensor,
    names: &[&'static str],
    arguments: Vec<Tensor>,
) -> Result<Vec<[f64; 4]>> {
    let &[_, channels, ..] = tensor.shape().as_slice() else {
        return Err(Error::shape(op, tensor.shape(), "at least two axes, [batch, channels, ...]"));
    };
    if !tensor.dtype().is_float() {
        return Err(Error::dtype(op, tensor.dtype(), "a float dtype (f64, f32, f16, bf16)"));
    }
    for (name, argument) in names.iter().zip(&arguments) {
        check_same_dtype(op, tensor.dtype(), argument.dtype())?;
        if argument.shape().as_slice() != [channels] {
            let expected = alloc::format!("{name} of shape [{channels}], a number per channel");
            return Err(Error::shape(op, argument.shape(), expected));
        }
    }
    let mut given = storage::try_room(op, channels, [0.0; 4])?;
    for (which, argument) in arguments.into_iter().enumerate() {
        let argument = argument.into_contiguous()?;
        let source = Source::of(&argument);
        given.iter_mut().enumerate().for_each(|(c, given)| given[which] = source.get(c));
    }
    Ok(given)
}

/// Tensors of the first and of the second numbers of channels, rounded once.
#[inline(never)]
pub(super) fn numbers(op: &'static str, shape: &Shape, dtype: DType, pairs: &[Pair]) -> Result<[Tensor; 2]> {
    let mut blanks = [Blank::new(op, shape.clone(), dtype)?, Blank::new(op, shape.clone(), dtype)?];
    for (which, blank) in blanks.iter_mut().enumerate() {
        for (bytes, pair) in blank.bytes().chunks_exact_mut(dtype.size()).zip(pairs) {
            Sink::new(bytes, dtype).set(pair[which]);
        }
    }
    Ok(blanks.map(Blank::finish))
}

/// Mean and variance, and then the normalised tensor.
struct Normalise<'a> {
    /// Gamma and beta, and perhaps more.
    given: &'a [[f64; 4]],
    epsilon: f64,
}

impl ChannelPass for Normalise<'_> {
    fn sum(&self, channels: &Channels<'_>, k: usize, tile: &[Sink<'_>], sums: &mut [Pair]) {
        let count = channels.samples_of_tile(k) as f64;
        channels.sum(k, LineKernel::Sum, tile, &[], sums);
        let mut numbers = storage::room(sums.len(), [0.0; 4]);
        for (numbers, sums) in numbers.iter_mut().zip(&mut *sums) {
            // Means as they are subtracted.
            numbers[0] = channels.rounded(sums[0] / count);
            *sums = Pair::default();
        }
        let means = channels.spread(k, &numbers, LineKernel::Apart);
        channels.sum(k, LineKernel::Apart, tile, &means, sums);
        for (sums, [mean, ..]) in sums.iter_mut().zip(numbers) {
            let [apart, squares] = *sums;
            // By how much the sum of the first pass was rounded. Not a number if the mean is infinite.
            let rest = if apart.is_finite() { apart / count } else { 0.0 };
            *sums = [mean + rest, squares / count - rest * rest];
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

    fn kernel(&self) -> LineKernel {
        LineKernel::Affine
    }

    /// Mean, scale and shift.
    fn constants(&self, c: usize, _: f64, [mean, variance]: Pair) -> [f64; 4] {
        let [gamma, beta, ..] = self.given[c];
        [mean, gamma / num_traits::Float::sqrt(variance + self.epsilon), beta, 0.0]
    }
}
