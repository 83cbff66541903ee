//! Sums over several axes.
//!
//! Axes whose elements lie evenly in memory are summed as one axis, whatever their order in the tensor. If
//! that leaves several, the longest is summed first, since the others then read what is left of it. Sums of
//! halves stay in f32 between them, so that they are rounded once.

use super::kernel::{KernelFacts, ReduceKernel, RowStarts, TypedReduce};
use super::operations::{Sum, repeat};
use super::traversal::Axes;
use super::{Over, drivers, sum_over};
use crate::error::{Error, Result, check_axis};
use crate::layout::Layout;
use crate::{DType, Tensor, bf16, f16};
use alloc::sync::Arc;
use bytemuck::{cast_slice, cast_slice_mut};
use core::ops::Range;
use flex_math::StoredFloat;
use smallvec::SmallVec;

const OP: &str = "sum_dims";

/// Rows of fewer elements are short: 1.6 Mi f32 in rows of 56 take 230 us to add up, in long rows 140 (one
/// core of Zen 4).
const SHORT: isize = 256;
/// If there are so many long rows, their sums leave few enough elements for short rows to come second.
const FEW: usize = 4;

/// Sum along several axes, which are kept with size 1. An axis may be named more than once. Halves are summed
/// in f32 and rounded once.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn sum_dims(tensor: Tensor, axes: &[usize]) -> Result<Tensor> {
    let (rank, dtype) = (tensor.rank(), tensor.dtype());
    axes.iter().try_for_each(|&axis| check_axis(OP, axis, rank))?;
    if dtype.is_bool() {
        return Err(Error::dtype(OP, dtype, "a float or integer dtype"));
    }
    let wide = |shape: &[usize], axis: usize| shape[axis] != 1;
    let mut left: Axes =
        (0..rank).filter(|axis| axes.contains(axis) && wide(tensor.shape(), *axis)).collect();
    if left.len() > 1 && (0..rank).all(|axis| left.contains(&axis) || !wide(tensor.shape(), axis)) {
        return sum_over(OP, tensor, Over::All)?
            .reshape(SmallVec::<[usize; 6]>::from_elem(1, rank).as_slice());
    }
    let mut tensor = tensor;
    while !left.is_empty() {
        let (merged, axis) = merge_some(tensor, &mut left)?;
        let between = if dtype.is_float() && dtype.size() == 2 { DType::F32 } else { dtype };
        tensor = sum_along(merged, axis, if left.is_empty() { dtype } else { between })?;
    }
    Ok(tensor)
}

/// Makes one axis of the longest run of `axes` that lie evenly in memory; returns that axis, and takes those
/// of the run off the list. The other axes of the run get size 1.
fn merge_some(tensor: Tensor, axes: &mut Axes) -> Result<(Tensor, usize)> {
    // The order of the elements of a sum does not matter.
    let backward: Axes = axes.iter().copied().filter(|&axis| tensor.layout().strides()[axis] < 0).collect();
    let tensor = tensor.flip(&backward)?;
    let layout = tensor.layout();
    let mut shape = layout.shape().clone();
    if shape.contains(&0) {
        // There is nothing to read, and no layout to keep.
        let axis = axes.remove(0);
        return Ok((tensor, axis));
    }
    let strides = layout.strides();
    let order: Axes = layout.axes_by_stride().into_iter().filter(|axis| axes.contains(axis)).collect();
    // Runs of the order, each merged into its last axis.
    let (mut best, mut start) = (0..1, 0);
    let length = |run: Range<usize>| order[run].iter().map(|&axis| layout.shape()[axis]).product::<usize>();
    for end in 1..=order.len() {
        let even =
            |outer: usize, inner: usize| strides[outer] == strides[inner] * layout.shape()[inner] as isize;
        if end < order.len() && even(order[end - 1], order[end]) {
            continue;
        }
        // A repeated element is read once, and repeats what is left in the end. Short rows are added
        // to one another more slowly than long ones.
        let rank = |run: Range<usize>| match strides[order[run.end - 1]] {
            0 => 0,
            2..SHORT => length(run).min(FEW),
            _ => length(run),
        };
        if start == 0 || rank(start..end) > rank(best.clone()) {
            best = start..end;
        }
        start = end;
    }
    let axis = order[best.end - 1];
    let len = length(best.clone());
    for &merged in &order[best.clone()] {
        shape[merged] = 1;
    }
    shape[axis] = len;
    axes.retain(|axis| !order[best.clone()].contains(axis));
    let merged = Layout::new(shape, strides.into(), layout.offset());
    Ok((tensor.with_layout(merged), axis))
}

/// The sums along an axis in the dtype `to`: the tensor's own, or one of two float dtypes that are computed
/// alike.
fn sum_along(tensor: Tensor, axis: usize, to: DType) -> Result<Tensor> {
    let kernel: Arc<dyn ReduceKernel> = match tensor.dtype() {
        from if from == to => return sum_over(OP, tensor, Over::Axis(axis)),
        DType::F16 => Arc::new(TypedReduce::<f16, _>::new(Sum { mean: false })),
        DType::BF16 => Arc::new(TypedReduce::<bf16, _>::new(Sum { mean: false })),
        _ => Arc::new(TypedReduce::<f32, _>::new(Sum { mean: false })),
    };
    drivers::reduce_axis(OP, tensor, axis, &RoundedSums { kernel, to }, to)
}

/// A kernel of sums in f32 that writes them in another dtype than its elements have.
struct RoundedSums {
    kernel: Arc<dyn ReduceKernel>,
    /// f32, f16 or bf16.
    to: DType,
}

impl ReduceKernel for RoundedSums {
    fn shared(&self) -> Arc<dyn ReduceKernel> {
        Arc::new(Self { kernel: self.kernel.clone(), to: self.to })
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts { result: self.to.size(), ..self.kernel.facts() }
    }

    fn reduce_short(&self, _: &[u8], _: usize, _: usize, _: DType) -> Option<Tensor> {
        None
    }

    fn clear(&self, acc: &mut [u8]) {
        self.kernel.clear(acc);
    }

    fn fold_rows(&self, src: &[u8], starts: RowStarts, n: usize, acc: &mut [u8]) {
        self.kernel.fold_rows(src, starts, n, acc);
    }

    fn add_rows(&self, src: &[u8], starts: RowStarts, rows: Range<usize>, acc: &mut [u8]) {
        self.kernel.add_rows(src, starts, rows, acc);
    }

    fn absorb(&self, earlier: &[u8], acc: &mut [u8]) {
        self.kernel.absorb(earlier, acc);
    }

    fn merge(&self, acc: &mut [u8]) {
        self.kernel.merge(acc);
    }

    fn finish(&self, acc: &[u8], _n: usize, copies: usize, out: &mut [u8]) {
        /// Sums that are rounded together.
        const SOME: usize = 64;
        let acc: &[f32] = cast_slice(acc);
        let mut sums = [0.0; SOME];
        for (acc, out) in acc.chunks(SOME).zip(out.chunks_mut(SOME * self.to.size())) {
            let sums = &mut sums[..acc.len()];
            for (sum, &acc) in sums.iter_mut().zip(acc) {
                *sum = if copies == 1 { acc } else { repeat(acc, copies, |a, b| a + b) };
            }
            match self.to {
                DType::F16 => f16::narrow_slice(sums, cast_slice_mut(out)),
                DType::BF16 => bf16::narrow_slice(sums, cast_slice_mut(out)),
                _ => out.copy_from_slice(cast_slice(sums)),
            }
        }
    }
}
