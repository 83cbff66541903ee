//! Average pooling, with windows of a fixed size or with a given number of windows (adaptive).

use super::AvgPoolOptions;
use super::drive::{map_pieces, map_planes};
use super::fold::{FoldScratch, PoolFold, Split, SumFold, fold_piece};
use super::plan::{PoolAxis, PoolPart, PoolPlan, per_axis};
use crate::error::{Error, Result};
use crate::float::Real;
use crate::storage::Scratch;
use crate::stored::Computing;
use crate::{Tensor, storage};
use alloc::vec::Vec;
use flex_math::simd::vectorize_lean;

/// Mean over the windows of `x`, `[batch, channels, (height,) width]`.
///
/// # Errors
/// Fails if the dtype is not a float, the rank is not `N + 2`, a spatial axis is empty, a kernel or stride is
/// zero, or the kernel is larger than the padded input.
pub fn avg_pool<const N: usize>(x: Tensor, options: &AvgPoolOptions<N>) -> Result<Tensor> {
    const OP: &str = "avg_pool";
    let plan = plan(OP, &x, options)?;
    forward(OP, &plan, x, options.count_include_pad)
}

/// Gradient of [`avg_pool`] with respect to `x`: each element of `grad` is spread evenly over its window.
///
/// # Errors
/// The errors of [`avg_pool`], and a `grad` without the shape of the output or the dtype of `x`.
pub fn avg_pool_backward<const N: usize>(
    x: Tensor,
    grad: Tensor,
    options: &AvgPoolOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "avg_pool_backward";
    let plan = plan(OP, &x, options)?;
    backward(OP, &plan, &x, grad, options.count_include_pad)
}

/// Mean over `size[k]` windows along spatial axis `k`; window `i` of `n` covers `floor(i*len/n) ..
/// ceil((i+1)*len/n)`.
///
/// # Errors
/// Fails if the dtype is not a float, the rank is not `N + 2`, or a spatial axis is empty.
pub fn adaptive_avg_pool<const N: usize>(x: Tensor, size: [usize; N]) -> Result<Tensor> {
    const OP: &str = "adaptive_avg_pool";
    let plan = PoolPlan::new::<N>(OP, &x, |k, input| Ok(PoolAxis::adaptive(input, per_axis(size, 1)[k])))?;
    forward(OP, &plan, x, false)
}

/// Gradient of [`adaptive_avg_pool`] with respect to `x`; the spatial shape of `grad` is the `size` of the
/// forward pass.
///
/// # Errors
/// The errors of [`adaptive_avg_pool`], and a `grad` of another rank, batch, channel count or dtype than `x`.
pub fn adaptive_avg_pool_backward<const N: usize>(x: Tensor, grad: Tensor) -> Result<Tensor> {
    const OP: &str = "adaptive_avg_pool_backward";
    if grad.rank() != N + 2 {
        return Err(Error::shape(OP, grad.shape(), alloc::format!("a gradient of rank {}", N + 2)));
    }
    let size: [usize; N] = core::array::from_fn(|k| grad.shape()[k + 2]);
    let plan = PoolPlan::new::<N>(OP, &x, |k, input| Ok(PoolAxis::adaptive(input, per_axis(size, 1)[k])))?;
    backward(OP, &plan, &x, grad, false)
}

fn plan<const N: usize>(op: &'static str, x: &Tensor, options: &AvgPoolOptions<N>) -> Result<PoolPlan> {
    PoolPlan::new::<N>(op, x, |k, input| {
        PoolAxis::regular(
            op,
            input,
            per_axis(options.kernel, 1)[k],
            per_axis(options.stride, 1)[k],
            per_axis(options.padding, 0)[k],
            1,
            options.ceil_mode,
        )
    })
}

/// The divisor of each window of an axis; 1 for windows without elements, whose sum is zero.
fn divisors<A: Real>(op: &'static str, axis: &PoolAxis, count_include_pad: bool) -> Result<Vec<A>> {
    let divisor = |i| A::from_f64(axis.divisor(i, count_include_pad).max(1) as f64);
    storage::try_collect(op, (0..axis.output).map(divisor))
}

fn forward(op: &'static str, plan: &PoolPlan, x: Tensor, count_include_pad: bool) -> Result<Tensor> {
    let x = x.into_contiguous()?;
    computing!(op, x.dtype(), A => run_forward::<A>(op, plan, &x, count_include_pad))
}

fn run_forward<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    count_include_pad: bool,
) -> Result<Tensor>
where
    SumFold: PoolFold<A>,
{
    let row_divisors = divisors::<A>(op, &plan.rows, count_include_pad)?;
    let col_divisors = divisors::<A>(op, &plan.cols, count_include_pad)?;
    map_pieces::<A>(op, plan, x, |part, scratch, out| {
        average(plan, part, &row_divisors, &col_divisors[part.piece.cols.clone()], scratch, out);
    })
}

/// Writes the means of the windows of a piece to `out`.
fn average<A: Real>(
    plan: &PoolPlan,
    part: &PoolPart<'_, A>,
    row_divisors: &[A],
    col_divisors: &[A],
    scratch: &mut FoldScratch<A>,
    out: &mut [A],
) where
    SumFold: PoolFold<A>,
{
    vectorize_lean(
        #[inline(always)]
        || {
            fold_piece::<A, SumFold>(
                plan,
                part,
                out,
                scratch,
                #[inline(always)]
                |i, row| {
                    let divisor = row_divisors[i];
                    for (o, d) in row.iter_mut().zip(col_divisors) {
                        *o = *o / (*d * divisor);
                    }
                },
            )
        },
    );
}

fn backward(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    grad: Tensor,
    count_include_pad: bool,
) -> Result<Tensor> {
    plan.check_grad(op, x, &grad)?;
    let grad = grad.into_contiguous()?;
    computing!(op, x.dtype(), A => run_backward::<A>(op, plan, x, &grad, count_include_pad))
}

fn run_backward<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    grad: &Tensor,
    count_include_pad: bool,
) -> Result<Tensor> {
    let row_divisors = divisors::<A>(op, &plan.rows, count_include_pad)?;
    let col_divisors = divisors::<A>(op, &plan.cols, count_include_pad)?;
    map_planes::<A>(op, plan, x, grad, 0, |_, grads, scratch, out| {
        vectorize_lean(
            #[inline(always)]
            || spread_plane(plan, grads, &row_divisors, &col_divisors, scratch, out),
        );
    })
}

/// Spreads the output gradient of one plane over the input plane.
#[inline(always)]
fn spread_plane<A: Real>(
    plan: &PoolPlan,
    grads: &[A],
    row_divisors: &[A],
    col_divisors: &[A],
    scratch: &mut Scratch<A>,
    out: &mut [A],
) {
    out.fill(A::ZERO);
    let (width, out_width) = (plan.cols.input, plan.cols.output);
    if out_width == 0 {
        return;
    }
    let split = Split::new(&plan.cols, &(0..out_width));
    let shares_len = out_width;
    let phases_len = split.map_or(0, |s| s.phases_len());
    let buffer = scratch.elements(width + shares_len + phases_len);
    let (row, rest) = buffer.split_at_mut(width);
    let (shares, phases) = rest.split_at_mut(shares_len);
    for (i, grads) in grads.chunks_exact(out_width).enumerate() {
        for ((share, g), d) in shares.iter_mut().zip(grads).zip(col_divisors) {
            *share = *g / (*d * row_divisors[i]);
        }
        match &split {
            Some(split) => split.spread(shares, phases, row),
            None => {
                row.fill(A::ZERO);
                for (j, share) in shares.iter().enumerate() {
                    let taps = plan.cols.taps(j);
                    for o in row[taps.start..].iter_mut().step_by(taps.step).take(taps.count) {
                        *o += *share;
                    }
                }
            }
        }
        for r in plan.rows.taps(i).iter() {
            for (o, v) in out[r * width..][..width].iter_mut().zip(&*row) {
                *o += *v;
            }
        }
    }
}
