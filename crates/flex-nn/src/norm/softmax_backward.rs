//! Gradients of softmax and log_softmax.
//!
//! With `y` the output and `g` the gradient of the output, along the axis:
//! * softmax: `y (g - sum(g y))`, since `dy_i / dx_j = y_i (1[i = j] - y_j)`;
//! * log_softmax: `g - exp(y) sum(g)`, since `dy_i / dx_j = 1[i = j] - exp(y_j)`.

use super::check_grad;
use super::lanes::{sum_of, sum_of_tuples};
use super::rows::map_rows;
use super::softmax::MIN_ROW;
use crate::Tensor;
use crate::error::{Result, check_axis};
use crate::float::Real;
use crate::storage::Scratch;
use crate::stored::{Computing, Source};
use flex_math::simd::{Simd, Vector, vectorize};
use flex_math::{BinaryFn, Exp, UnaryFn, map, map2_in_place};

#[derive(Clone, Copy)]
enum SlopeOf {
    Softmax,
    LogSoftmax,
}

/// Gradient of [`softmax`](super::softmax) with respect to its input, from the `output` of softmax along
/// `axis` and `grad`, the gradient of that output.
///
/// One pass over both tensors. The result reuses the buffer of `grad` if no other tensor shares it. f16 and
/// bf16 are computed in f32 and rounded once.
///
/// # Errors
/// Fails if a dtype is not a float, dtypes or shapes differ, or the axis is out of range.
pub fn softmax_backward(output: Tensor, grad: Tensor, axis: usize) -> Result<Tensor> {
    along("softmax_backward", output, grad, axis, SlopeOf::Softmax)
}

/// Gradient of [`log_softmax`](super::log_softmax) with respect to its input. See [`softmax_backward`].
///
/// # Errors
/// The errors of [`softmax_backward`].
pub fn log_softmax_backward(output: Tensor, grad: Tensor, axis: usize) -> Result<Tensor> {
    along("log_softmax_backward", output, grad, axis, SlopeOf::LogSoftmax)
}

fn along(op: &'static str, output: Tensor, grad: Tensor, axis: usize, kind: SlopeOf) -> Result<Tensor> {
    check_grad(op, &output, &grad)?;
    check_axis(op, axis, output.rank())?;
    // The kernels are fast along rows: another axis is swapped with the last one.
    let last = output.rank() - 1;
    let (output, grad) = (output.swap_axes(axis, last)?, grad.swap_axes(axis, last)?);
    computing!(op, output.dtype(), A => run::<A>(op, output, grad, kind))?.swap_axes(axis, last)
}

fn run<A: Computing>(op: &'static str, output: Tensor, grad: Tensor, kind: SlopeOf) -> Result<Tensor> {
    let (output, grad) = (output.into_contiguous()?, grad.into_contiguous()?);
    let width = output.shape()[output.rank() - 1];
    if output.num_elements() == 0 {
        return Ok(grad);
    }
    map_rows::<A>(op, grad, Some(Source::of(&output)), width, |grad, output, to| {
        if let Some(grad) = grad {
            to.copy_from_slice(grad);
        }
        match kind {
            SlopeOf::Softmax => softmax_rows(output, to, width),
            SlopeOf::LogSoftmax if width < MIN_ROW => short_log_softmax_rows(output, to, width),
            SlopeOf::LogSoftmax => log_softmax_rows(output, to, width),
        }
    })
}

/// Replaces rows of gradients of the output by gradients of the input.
fn softmax_rows<F: Real>(output: &[F], grad: &mut [F], width: usize) {
    vectorize(
        #[inline(always)]
        || {
            for (output, grad) in output.chunks_exact(width).zip(grad.chunks_exact_mut(width)) {
                let sum = sum_of_tuples([output, grad], |[y, g]| y * g);
                grad.iter_mut().zip(output).for_each(|(g, y)| *g = *y * (*g - sum));
            }
        },
    );
}

/// [`softmax_rows`] for log_softmax.
fn log_softmax_rows<F: Real>(output: &[F], grad: &mut [F], width: usize) {
    for (output, grad) in output.chunks_exact(width).zip(grad.chunks_exact_mut(width)) {
        let sum = flex_math::sum(grad);
        map2_in_place(LogSoftmaxSlope(sum), grad, output);
    }
}

/// `g - exp(y) sum`.
#[derive(Clone, Copy)]
struct LogSoftmaxSlope<F>(F);

impl<F: Real> BinaryFn<F> for LogSoftmaxSlope<F> {
    #[inline(always)]
    fn eval<S: Simd>(self, g: Vector<S, F>, y: Vector<S, F>) -> Vector<S, F> {
        g - Exp.eval(y) * self.0.splat()
    }
}

/// [`log_softmax_rows`] for rows that are too short to be worth a call each.
fn short_log_softmax_rows<F: Real>(output: &[F], grad: &mut [F], width: usize) {
    let mut exps = Scratch::<F>::for_task(output.len());
    map(Exp, output, &mut exps);
    vectorize(
        #[inline(always)]
        || {
            for (exps, grad) in exps.chunks_exact(width).zip(grad.chunks_exact_mut(width)) {
                let sum = sum_of(grad, |g| g);
                grad.iter_mut().zip(exps).for_each(|(g, exp)| *g = *g - *exp * sum);
            }
        },
    );
}
