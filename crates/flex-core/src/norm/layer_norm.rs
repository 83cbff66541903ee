//! Layer normalisation over the last axis.

use super::lanes::sum_of;
use super::rows::map_rows;
use super::work::{FloatElement, Work};
use crate::error::{Error, Result, check_same_dtype};
use crate::{Element, Tensor};
use alloc::vec;
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis, with the biased variance.
///
/// `gamma` and `beta` have the shape `[d]` of the last axis. The variance is taken around the mean in a second pass
/// over the row, which is in the cache by then, so that a large mean does not cancel it. f16 and bf16
/// are computed in f32 and rounded once.
///
/// # Errors
/// A dtype that is not a float, dtypes that differ, no axes, `gamma` or `beta` of another shape.
pub fn layer_norm(tensor: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Result<Tensor> {
    let op = "layer_norm";
    let Some(&width) = tensor.shape().last() else {
        return Err(Error::shape(op, tensor.shape(), "at least one axis"));
    };
    for affine in core::iter::once(&gamma).chain(&beta) {
        check_same_dtype(op, tensor.dtype(), affine.dtype())?;
        if affine.shape().as_slice() != [width] {
            let expected = alloc::format!("gamma and beta of shape [{width}]");
            return Err(Error::shape(op, affine.shape(), expected));
        }
    }
    dispatch!(float op, tensor.dtype(), T => run::<T>(op, tensor, gamma, beta, epsilon))
}

fn run<T: FloatElement>(
    op: &'static str,
    tensor: Tensor,
    gamma: Tensor,
    beta: Option<Tensor>,
    epsilon: f64,
) -> Result<Tensor> {
    let width = gamma.num_elements();
    let gamma = row::<T>(gamma)?;
    let beta = match beta {
        Some(beta) => row::<T>(beta)?,
        None => vec![T::Work::ZERO; width],
    };
    if width == 0 {
        return Ok(tensor);
    }
    let tensor = tensor.into_contiguous()?;
    map_rows::<T>(op, tensor, width, |rows| normalise(rows, &gamma, &beta, T::Work::from_f64(epsilon)))
}

/// The elements of a vector, in the type that they are computed in.
fn row<T: FloatElement>(tensor: Tensor) -> Result<Vec<T::Work>> {
    let tensor = tensor.into_contiguous()?;
    let from = tensor.as_slice::<T>().expect("made contiguous");
    let mut to = vec![T::Work::ZERO; from.len()];
    T::load(from, &mut to);
    Ok(to)
}

fn normalise<F: Work>(rows: &mut [F], gamma: &[F], beta: &[F], epsilon: F) {
    let width = gamma.len();
    let count = F::from_f64(width as f64);
    vectorize(
        #[inline(always)]
        || {
            for row in rows.chunks_exact_mut(width) {
                let mean = sum_of(row, |x| x) / count;
                let variance = sum_of(row, |x| (x - mean) * (x - mean)) / count;
                let scale = F::ONE / num_traits::Float::sqrt(variance + epsilon);
                for ((x, gamma), beta) in row.iter_mut().zip(gamma).zip(beta) {
                    *x = (*x - mean) * scale * *gamma + *beta;
                }
            }
        },
    );
}
