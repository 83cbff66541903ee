//! Gradients of layer normalisation.
//!
//! With `h = (x - mean) * scale`, `scale = 1 / sqrt(variance + epsilon)`, `g` the gradient of the output and
//! `c = g * gamma`:
//! * the gradient of gamma is the sum of `g h` over the rows, and the gradient of beta is the sum of `g`;
//! * the gradient of the input is `scale * (c - mean(c) - h mean(c h))`: `c` without its components along the
//!   two directions in which a row can move without changing its `h` (Ba, Kiros and Hinton, "Layer
//!   Normalization", 2016, section 5).

use super::check_grad;
use super::lanes::{add, sum_of_tuples};
use super::layer_norm::{Moments, check, row};
use super::rows::FLOPS_PER_ELEMENT;
use crate::error::Result;
use crate::float::Real;
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor, parallel, storage};
use flex_math::simd::{Simd, WithSimd, dispatch};

/// Least number of elements per task.
const TASK: usize = 64 * 1024;
/// Most tasks: each task has its own sums of the gradients of gamma and beta. The number of tasks must not
/// depend on the number of threads, so that the result does not depend on it either.
const MAX_TASKS: usize = 64;
/// Rows whose gradients of gamma and beta are summed before the sums are added to the task's, to reduce
/// rounding errors.
const SUM_ROWS: usize = 256;

/// The result of [`layer_norm_backward`].
#[derive(Debug)]
pub struct LayerNormGradients {
    /// Gradient of the input, in its shape.
    pub input: Tensor,
    /// Gradient of gamma, of shape `[d]`.
    pub gamma: Tensor,
    /// Gradient of beta, of shape `[d]`.
    pub beta: Tensor,
}

/// Gradients of [`layer_norm`](super::layer_norm) with respect to `tensor`, gamma and beta, from `grad`, the
/// gradient of its output.
///
/// One pass over `tensor` and `grad`, which computes the moments of every row again. The result reuses the
/// buffer of `grad` if no other tensor shares it. f16 and bf16 are computed in f32 and rounded once.
///
/// # Errors
/// The errors of [`layer_norm`](super::layer_norm), and a `grad` of another shape or dtype than `tensor`.
pub fn layer_norm_backward(
    tensor: Tensor,
    gamma: Tensor,
    grad: Tensor,
    epsilon: f64,
) -> Result<LayerNormGradients> {
    let op = "layer_norm_backward";
    let width = check(op, &tensor, [&gamma])?;
    check_grad(op, &tensor, &grad)?;
    computing!(op, tensor.dtype(), A => run::<A>(op, tensor, gamma, grad, width, epsilon))
}

fn run<A: Computing>(
    op: &'static str,
    tensor: Tensor,
    gamma: Tensor,
    grad: Tensor,
    width: usize,
    epsilon: f64,
) -> Result<LayerNormGradients> {
    let dtype = tensor.dtype();
    let gamma = row::<A>(op, gamma)?;
    let epsilon = A::from_f64(epsilon);
    let (tensor, mut grad) = (tensor.into_contiguous()?, grad.into_contiguous()?);
    let x = Source::of(&tensor);
    let count = x.len() / width.max(1);
    let rows = (TASK / width.max(1)).max(count.div_ceil(MAX_TASKS)).max(1);
    // For each task, the gradient of gamma and the gradient of beta.
    let tasks = count.div_ceil(rows);
    let mut sums = Scratch::<A>::new(op, tasks * 2 * width)?.zeroed();
    let mut total = Scratch::<A>::new(op, 2 * width)?.zeroed();
    storage::ensure_for_tasks(op, (4 * size_of::<A>()).saturating_mul(width), tasks)?;
    let work = parallel::Work::Flops(FLOPS_PER_ELEMENT * x.len());
    let (chunk, chunk_of_sums) = ((rows * width).max(1), (2 * width).max(1));
    let mut run = |from: Option<Source<'_>>, to: &mut [u8]| {
        parallel::for_each_chunk2(to, chunk * dtype.size(), &mut sums, chunk_of_sums, work, |k, to, sums| {
            let to = Sink::new(to, dtype);
            let range = k * chunk..k * chunk + to.len();
            rows_backward(
                x.slice(range.clone()),
                from.map(|from| from.slice(range)),
                to,
                &gamma,
                epsilon,
                sums,
            );
        });
    };
    let mut blank = None;
    match grad.dense_bytes_mut() {
        Some(data) => run(None, data),
        None => {
            let mut other = Blank::new(op, tensor.shape().clone(), dtype)?;
            run(Some(Source::of(&grad)), other.bytes());
            blank = Some(other);
        }
    }
    let input = blank.map_or(grad, Blank::finish);
    sums.chunks_exact(chunk_of_sums).for_each(|sums| add(&mut total, sums));
    let part = |sums: &[A]| {
        let mut blank = Blank::new(op, [width].into(), dtype)?;
        A::narrow(dtype, sums, blank.bytes());
        Ok(blank.finish())
    };
    let (gamma, beta) = total.split_at(width);
    Ok(LayerNormGradients { input, gamma: part(gamma)?, beta: part(beta)? })
}

/// Computes the rows of a task. Without `grad`, the gradient of the output is in `to`.
fn rows_backward<A: Computing>(
    x: Source<'_>,
    grad: Option<Source<'_>>,
    mut to: Sink<'_>,
    gamma: &[A],
    epsilon: A,
    sums: &mut [A],
) {
    let width = gamma.len();
    let mut room = Scratch::<A>::for_task(4 * width).zeroed();
    let (partial, room) = room.split_at_mut(2 * width);
    let (loaded, own) = room.split_at_mut(width);
    for k in 0..to.len() / width {
        if k % SUM_ROWS == 0 {
            add(sums, partial);
            partial.fill(A::ZERO);
        }
        let range = k * width..(k + 1) * width;
        let (x, mut to) = (x.slice(range.clone()), to.part(range.clone()));
        if let Some(grad) = grad {
            to.bytes().copy_from_slice(grad.slice(range).bytes());
        }
        let x = match x.values() {
            Some(x) => x,
            None => {
                x.read(loaded);
                &*loaded
            }
        };
        match to.values() {
            Some(grad) => dispatch(RowBackward { x, grad, gamma, epsilon, sums: partial }),
            None => {
                to.source().read(own);
                dispatch(RowBackward { x, grad: own, gamma, epsilon, sums: partial });
                to.write(own);
            }
        }
    }
    add(sums, partial);
}

/// A row whose gradient is computed in the place of `grad`. The gradients of gamma and beta are added to
/// `sums`.
struct RowBackward<'a, F> {
    x: &'a [F],
    grad: &'a mut [F],
    gamma: &'a [F],
    epsilon: F,
    sums: &'a mut [F],
}

impl<F: Real> WithSimd for RowBackward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { x, grad, gamma, epsilon, sums } = self;
        let Moments { mean, scale } = Moments::of_in::<S>(x, epsilon);
        let count = F::from_f64(x.len() as f64);
        let (for_gamma, for_beta) = sums.split_at_mut(x.len());
        let mean_c = sum_of_tuples([&*grad, gamma], |[g, gamma]| g * gamma) / count;
        let mean_ch =
            sum_of_tuples([&*grad, gamma, x], |[g, gamma, x]| g * gamma * ((x - mean) * scale)) / count;
        let operands = grad.iter_mut().zip(x).zip(gamma);
        for (((g, x), gamma), (for_gamma, for_beta)) in operands.zip(for_gamma.iter_mut().zip(for_beta)) {
            let h = (*x - mean) * scale;
            *for_gamma += *g * h;
            *for_beta += *g;
            *g = scale * (*g * *gamma - mean_c - h * mean_ch);
        }
    }
}
