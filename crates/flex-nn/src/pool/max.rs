//! Max pooling without indices.

use super::MaxPoolOptions;
use super::fold::{Fold, FoldScratch, Max, fold_piece};
use super::plan::{Piece, PoolAxis, PoolPlan, per_axis};
use crate::Tensor;
use crate::error::Result;
use crate::float::{FloatElement, Real};
use crate::parallel;
use alloc::vec::Vec;
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
    dispatch!(float OP, x.dtype(), T => run::<T>(OP, &plan, &x))
}

/// Writes the maxima of the windows of `piece` to `out`; `src` holds the rows of the input plane from
/// `first_row` on. A function of the computing type alone, so that halves share the code of f32.
fn max_piece<A: Real>(
    plan: &PoolPlan,
    piece: &Piece,
    src: &[A],
    first_row: usize,
    out: &mut [A],
    scratch: &mut FoldScratch<A>,
) where
    Max: Fold<A>,
{
    vectorize_lean(
        #[inline(always)]
        || fold_piece::<A, Max>(plan, piece, src, first_row, out, scratch, |_, _| ()),
    );
}

fn run<T: FloatElement>(op: &'static str, plan: &PoolPlan, x: &Tensor) -> Result<Tensor>
where
    Max: Fold<T::Compute>,
{
    let src = x.as_slice::<T>().expect("contiguous");
    Tensor::build::<T>(op, plan.out_shape.clone(), x.dtype(), |out| {
        let chunk = plan.chunk(size_of::<T>());
        parallel::for_each_chunk(out, chunk, plan.work(size_of::<T>()), |k, out| {
            let (mut wide, mut narrow, mut scratch) = (Vec::new(), Vec::new(), FoldScratch::new());
            let mut rest = out;
            for piece in plan.pieces(k * chunk..k * chunk + rest.len()) {
                let (out, tail) = core::mem::take(&mut rest).split_at_mut(piece.len());
                rest = tail;
                let rows = plan.rows.reach(piece.rows.clone());
                let start = piece.plane * plan.input_plane();
                let block = &src[start + rows.start * plan.cols.input..start + rows.end * plan.cols.input];
                let block = T::in_compute(block, &mut wide);
                T::through_compute(out, &mut narrow, |out| {
                    max_piece(plan, &piece, block, rows.start, out, &mut scratch);
                });
            }
        });
    })
}
