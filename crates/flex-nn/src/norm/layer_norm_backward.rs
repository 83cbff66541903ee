//! Gradients of layer normalisation.
//!
//! With `h = (x - mean) * scale`, `scale = 1 / sqrt(variance + epsilon)`, `g` the gradient of the output and
//! `c = g * gamma`:
//! * the gradient of gamma is the sum of `g h` over the rows, and the gradient of beta is the sum of `g`;
//! * the gradient of the input is `scale * (c - mean(c) - h mean(c h))`: `c` without its components along the
//!   two directions in which a row can move without changing its `h` (Ba, Kiros and Hinton, "Layer
//!   Normalization", 2016, section 5).

use super::lanes::{add, sum_of_tuples};
use super::layer_norm::{Moments, check, row};
use super::rows::FLOPS_PER_ELEMENT;
use crate::error::{Error, Result, check_same_dtype};
use crate::float::{FloatElement, Real};
use crate::{Element, Tensor, parallel};
use alloc::vec;
use alloc::vec::Vec;
use flex_math::simd::vectorize;

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
    check_same_dtype(op, tensor.dtype(), grad.dtype())?;
    if tensor.shape() != grad.shape() {
        return Err(Error::shapes(op, tensor.shape(), grad.shape(), "equal shapes"));
    }
    dispatch!(float op, tensor.dtype(), T => run::<T>(op, tensor, gamma, grad, width, epsilon))
}

fn run<T: FloatElement>(
    op: &'static str,
    tensor: Tensor,
    gamma: Tensor,
    grad: Tensor,
    width: usize,
    epsilon: f64,
) -> Result<LayerNormGradients> {
    let dtype = tensor.dtype();
    let gamma = row::<T>(gamma)?;
    let epsilon = T::Compute::from_f64(epsilon);
    let (tensor, mut grad) = (tensor.into_contiguous()?, grad.into_contiguous()?);
    let x = tensor.as_slice::<T>().expect("made contiguous above");
    let count = x.len() / width.max(1);
    let rows = (TASK / width.max(1)).max(count.div_ceil(MAX_TASKS)).max(1);
    // For each task, the gradient of gamma and the gradient of beta.
    let mut sums = vec![T::Compute::ZERO; count.div_ceil(rows) * 2 * width];
    let work = parallel::Work::Flops(FLOPS_PER_ELEMENT * x.len());
    let task = |k: usize, from: Option<&[T]>, to: &mut [T], sums: &mut [T::Compute]| {
        let x = &x[k * rows * width..][..to.len()];
        rows_backward(x, from, to, &gamma, epsilon, sums);
    };
    let (chunk, chunk_of_sums) = ((rows * width).max(1), (2 * width).max(1));
    let input = if let Some(data) = grad.dense_mut::<T>() {
        parallel::for_each_chunk2(data, chunk, &mut sums, chunk_of_sums, work, |k, to, sums| {
            task(k, None, to, sums);
        });
        grad
    } else {
        let from = grad.as_slice::<T>().expect("made contiguous above");
        Tensor::build::<T>(op, tensor.shape().clone(), dtype, |out| {
            parallel::for_each_chunk2(out, chunk, &mut sums, chunk_of_sums, work, |k, to, sums| {
                task(k, Some(&from[k * chunk..][..to.len()]), to, sums);
            });
        })?
    };
    let mut total = vec![T::Compute::ZERO; 2 * width];
    sums.chunks_exact(chunk_of_sums).for_each(|sums| add(&mut total, sums));
    let part = |sums: &[T::Compute]| Tensor::build::<T>(op, [width], dtype, |out| T::narrow_slice(sums, out));
    let (gamma, beta) = total.split_at(width);
    Ok(LayerNormGradients { input, gamma: part(gamma)?, beta: part(beta)? })
}

/// Computes the rows of a task. Without `grad`, the gradient of the output is in `to`.
fn rows_backward<T: FloatElement>(
    x: &[T],
    grad: Option<&[T]>,
    to: &mut [T],
    gamma: &[T::Compute],
    epsilon: T::Compute,
    sums: &mut [T::Compute],
) {
    let width = gamma.len();
    let mut room: Vec<T::Compute> = vec![T::Compute::ZERO; 4 * width];
    let (partial, room) = room.split_at_mut(2 * width);
    let (loaded, own) = room.split_at_mut(width);
    for (k, (x, to)) in x.chunks_exact(width).zip(to.chunks_exact_mut(width)).enumerate() {
        if k % SUM_ROWS == 0 {
            add(sums, partial);
            partial.fill(T::Compute::ZERO);
        }
        if let Some(grad) = grad {
            to.copy_from_slice(&grad[k * width..][..width]);
        }
        let x = match T::as_compute(x) {
            Some(x) => x,
            None => {
                T::widen_slice(x, loaded);
                &*loaded
            }
        };
        match T::as_compute_mut(to) {
            Some(grad) => row_backward(x, grad, gamma, epsilon, partial),
            None => {
                T::widen_slice(to, own);
                row_backward(x, own, gamma, epsilon, partial);
                T::narrow_slice(own, to);
            }
        }
    }
    add(sums, partial);
}

/// Computes one row in the place of its `grad`, and adds its gradients of gamma and beta to `sums`.
fn row_backward<F: Real>(x: &[F], grad: &mut [F], gamma: &[F], epsilon: F, sums: &mut [F]) {
    let Moments { mean, scale } = Moments::of(x, epsilon);
    let count = F::from_f64(x.len() as f64);
    let (for_gamma, for_beta) = sums.split_at_mut(x.len());
    vectorize(
        #[inline(always)]
        || {
            let mean_c = sum_of_tuples([grad, gamma], |[g, gamma]| g * gamma) / count;
            let mean_ch =
                sum_of_tuples([grad, gamma, x], |[g, gamma, x]| g * gamma * ((x - mean) * scale)) / count;
            let operands = grad.iter_mut().zip(x).zip(gamma);
            for (((g, x), gamma), (for_gamma, for_beta)) in operands.zip(for_gamma.iter_mut().zip(for_beta)) {
                let h = (*x - mean) * scale;
                *for_gamma += *g * h;
                *for_beta += *g;
                *g = scale * (*g * *gamma - mean_c - h * mean_ch);
            }
        },
    );
}
