//! Max pooling without indices.

use super::MaxPoolOptions;
use super::drive::map_pieces;
use super::fold::{MaxFold, PoolFold, fold_piece};
use super::plan::{PoolAxis, PoolPlan, per_axis};
use crate::Tensor;
use crate::error::Result;
use crate::stored::Computing;
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
    MaxFold: PoolFold<A>,
{
    map_pieces::<A>(op, plan, x, |part, scratch, out| {
        vectorize_lean(
            #[inline(always)]
            || fold_piece::<A, MaxFold>(plan, part, out, scratch, |_, _| ()),
        );
    })
}
