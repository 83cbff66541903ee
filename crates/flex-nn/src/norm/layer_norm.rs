//! Layer normalisation over the last axis.

use super::rows::map_rows;
use crate::Tensor;
use crate::error::{Error, Result, check_same_dtype};
use crate::float::Real;
use crate::storage::Scratch;
use crate::stored::{Computing, Source};
use flex_math::UnaryFn;
use flex_math::simd::{Simd, Vector, WithSimd, dispatch};

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis, with the biased variance.
///
/// `gamma` and `beta` have shape `[d]`, where `d` is the size of the last axis. The variance is computed
/// around the mean in a second pass over the row, which is in the cache by then, so that a large mean causes
/// no cancellation. f16 and bf16 are computed in f32 and rounded once.
///
/// # Errors
/// Fails if a dtype is not a float, dtypes differ, the tensor has no axes, or `gamma` or `beta` has another
/// shape.
pub fn layer_norm(tensor: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Result<Tensor> {
    let op = "layer_norm";
    check(op, &tensor, core::iter::once(&gamma).chain(&beta))?;
    computing!(op, tensor.dtype(), A => run::<A>(op, tensor, gamma, beta, epsilon))
}

/// Checks the tensor and its affine parameters; returns the size of the last axis.
pub(super) fn check<'a>(
    op: &'static str,
    tensor: &Tensor,
    affine: impl IntoIterator<Item = &'a Tensor>,
) -> Result<usize> {
    let Some(&width) = tensor.shape().last() else {
        return Err(Error::shape(op, tensor.shape(), "at least one axis"));
    };
    for affine in affine {
        check_same_dtype(op, tensor.dtype(), affine.dtype())?;
        if affine.shape().as_slice() != [width] {
            let expected = alloc::format!("gamma and beta of shape [{width}]");
            return Err(Error::shape(op, affine.shape(), expected));
        }
    }
    Ok(width)
}

fn run<A: Computing>(
    op: &'static str,
    tensor: Tensor,
    gamma: Tensor,
    beta: Option<Tensor>,
    epsilon: f64,
) -> Result<Tensor> {
    let width = gamma.num_elements();
    let gamma = row::<A>(op, gamma)?;
    let beta = match beta {
        Some(beta) => row::<A>(op, beta)?,
        None => Scratch::new(op, width)?.zeroed(),
    };
    if width == 0 {
        return Ok(tensor);
    }
    let tensor = tensor.into_contiguous()?;
    let epsilon = A::from_f64(epsilon);
    map_rows::<A>(op, tensor, None, width, |from, _, to| {
        dispatch(NormaliseRows { from, to, gamma: &gamma, beta: &beta, epsilon });
    })
}

/// The elements of a 1-D tensor in the computing type.
pub(super) fn row<A: Computing>(op: &'static str, tensor: Tensor) -> Result<Scratch<A>> {
    let tensor = tensor.into_contiguous()?;
    let mut to = Scratch::new(op, tensor.num_elements())?;
    Source::of(&tensor).read(&mut to);
    Ok(to)
}

/// Rows that are normalised, of `from` into `to`, or in place without `from`. One dispatch serves all rows.
struct NormaliseRows<'a, F> {
    from: Option<&'a [F]>,
    to: &'a mut [F],
    gamma: &'a [F],
    beta: &'a [F],
    epsilon: F,
}

impl<F: Real> WithSimd for NormaliseRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { from, to, gamma, beta, epsilon } = self;
        let width = gamma.len();
        let mut from = from.map(|from| from.chunks_exact(width));
        for row in to.chunks_exact_mut(width) {
            let from = from.as_mut().and_then(Iterator::next);
            let Moments { mean, scale } = Moments::of_in::<S>(from.unwrap_or(row), epsilon);
            let affine = gamma.iter().zip(beta);
            match from {
                Some(from) => row.iter_mut().zip(from).zip(affine).for_each(|((to, x), (gamma, beta))| {
                    *to = (*x - mean) * scale * *gamma + *beta;
                }),
                None => row.iter_mut().zip(affine).for_each(|(x, (gamma, beta))| {
                    *x = (*x - mean) * scale * *gamma + *beta;
                }),
            }
        }
    }
}

/// Mean and scale that a row is normalised by.
pub(super) struct Moments<F> {
    /// The mean.
    pub mean: F,
    /// `1 / sqrt(variance + epsilon)`.
    pub scale: F,
}

impl<F: Real> Moments<F> {
    /// The moments of a row, with the vectors of a chosen instruction set, to be inlined into a function that
    /// is compiled for it.
    #[inline(always)]
    pub fn of_in<S: Simd>(row: &[F], epsilon: F) -> Self {
        let count = F::from_f64(row.len() as f64);
        let mean = flex_math::sum_in::<S, F>(row) / count;
        let variance = flex_math::sum_with_in::<S, F, _>(SquareFrom(mean), row) / count;
        Self { mean, scale: F::ONE / num_traits::Float::sqrt(variance + epsilon) }
    }
}

/// `(x - mean)^2`.
#[derive(Clone, Copy)]
struct SquareFrom<F>(F);

impl<F: Real> UnaryFn<F> for SquareFrom<F> {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, F>) -> Vector<S, F> {
        let d = x - self.0.splat();
        d * d
    }
}
