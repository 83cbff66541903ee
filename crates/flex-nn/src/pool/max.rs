//! Max pooling without indices.

use super::MaxPoolOptions;
use super::drive::for_each_piece;
use super::fold::{Fold, FoldScratch, Max, fold_piece};
use super::plan::{PoolAxis, PoolPlan, per_axis};
use crate::error::Result;
use crate::parallel;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor};
use flex_math::simd::vectorize_lean;

/// Plan of a max pooling of `x`.
pub(super) fn plan<const N: usize>(
    op: &'static str,
    x: &Tensor,
    options: &MaxPoolOptions<N>,
) -> Result<PoolPlan> {
    PoolPlan::new::<N>(op, x, |k, input| {
        PoolAxis::regular(
            op,
            input,
            per_axis(options.kernel, 1)[k],
            per_axis(options.stride, 1)[k],
            per_axis(options.padding, 0)[k],
            per_axis(options.dilation, 1)[k],
            options.ceil_mode,
        )
    })
}

/// Maximum over the windows of `x`, `[batch, channels, (height,) width]`. The maximum of a window with NaN is
/// NaN.
///
/// # Errors
/// Fails if the dtype is not a float, the rank is not `N + 2`, a spatial axis is empty, a kernel, stride or
/// dilation is zero, or the kernel is larger than the padded input.
pub fn max_pool<const N: usize>(x: Tensor, options: &MaxPoolOptions<N>) -> Result<Tensor> {
    const OP: &str = "max_pool";
    let plan = plan(OP, &x, options)?;
    let x = x.into_contiguous()?;
    computing!(OP, x.dtype(), A => run::<A>(OP, &plan, &x))
}

fn run<A: Computing>(op: &'static str, plan: &PoolPlan, x: &Tensor) -> Result<Tensor>
where
    Max: Fold<A>,
{
    let (dtype, size, src) = (x.dtype(), x.dtype().size(), Source::of(x));
    let mut blank = Blank::new(op, plan.out_shape.clone(), dtype)?;
    let chunk = plan.chunk(size);
    parallel::for_each_chunk(blank.bytes(), chunk * size, plan.work(size), |k, out| {
        let mut scratch = FoldScratch::new();
        for_each_piece::<A>(plan, src, k * chunk, Sink::new(out, dtype), &mut |part, out, _| {
            vectorize_lean(
                #[inline(always)]
                || fold_piece::<A, Max>(plan, part, out, &mut scratch, |_, _| ()),
            );
        });
    });
    Ok(blank.finish())
}
