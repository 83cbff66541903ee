//! Reading by index along one axis.
//!
//! [`gather`] and [`select`] are one loop over the output. It walks two more layouts of the output's shape:
//! the tensor's, with stride zero on the indexed axis, and the index tensor's, which in `select` has stride
//! zero on all other axes. If the index is constant along the innermost axis, as in `select` and in `gather`
//! with an expanded index tensor, a row is one copy.

use super::each_row::for_each_row;
use super::indices::{BLOCK, Indices, repeated};
use crate::error::{Error, Result, check_axis, check_rank};
use crate::layout::{Layout, Strides, checked_num_elements};
use crate::walk::{Walk, gather_row};
use crate::{Element, Shape, Tensor};
use flex_math::simd::{CACHE_LINE, prefetch};

/// `out[i, j, k] = tensor[i, indices[i, j, k], k]` (for axis 1 of three). The result has the shape of
/// `indices`, which has the rank of `tensor` and is at most as large on the other axes.
///
/// # Errors
/// An axis out of range, shapes that do not fit, an index dtype that is not an integer, an index out of
/// range.
pub fn gather(axis: usize, tensor: Tensor, indices: Tensor) -> Result<Tensor> {
    const OP: &str = "gather";
    check_axis(OP, axis, tensor.rank())?;
    check_index_shape(OP, axis, tensor.shape(), indices.shape())?;
    let shape = indices.shape().clone();
    let index_layout = indices.layout().clone();
    take(OP, axis, &tensor, &indices, index_layout, shape)
}

/// `out[i, j, k] = tensor[i, indices[j], k]` (for axis 1 of three): the slices at the indices in a 1-D
/// tensor.
///
/// # Errors
/// An axis out of range, an index tensor that is not 1-D or not of an integer dtype, an index out of range.
pub fn select(tensor: Tensor, axis: usize, indices: Tensor) -> Result<Tensor> {
    select_named("select", tensor, axis, indices)
}

/// The rows of `weights` (`[n, d]`) at the indices: a tensor `[..., d]` for `indices` of shape `[...]`.
///
/// # Errors
/// Weights that are not 2-D, an index dtype that is not an integer, an index out of range.
pub fn embedding(weights: Tensor, indices: Tensor) -> Result<Tensor> {
    const OP: &str = "embedding";
    check_rank(OP, weights.shape(), 2, "weights of two axes")?;
    let mut shape = indices.shape().clone();
    shape.push(weights.shape()[1]);
    let indices = flatten(indices)?;
    select_named(OP, weights, 0, indices)?.reshape(shape)
}

pub(super) fn flatten(tensor: Tensor) -> Result<Tensor> {
    let count = tensor.num_elements();
    tensor.reshape([count])
}

/// Checks the shape of the index tensor of `gather` and `scatter`.
pub(super) fn check_index_shape(
    op: &'static str,
    axis: usize,
    shape: &[usize],
    indices: &[usize],
) -> Result<()> {
    let fits = shape.len() == indices.len() && (0..shape.len()).all(|k| k == axis || indices[k] <= shape[k]);
    if fits {
        return Ok(());
    }
    let expected =
        alloc::format!("indices of the same rank that are no larger on the axes other than {axis}");
    Err(Error::shapes(op, shape, indices, expected))
}

/// [`select`] with the name of another operation in errors.
fn select_named(op: &'static str, tensor: Tensor, axis: usize, indices: Tensor) -> Result<Tensor> {
    check_axis(op, axis, tensor.rank())?;
    check_rank(op, indices.shape(), 1, "indices of one axis")?;
    let mut shape = tensor.shape().clone();
    shape.as_mut_slice()[axis] = indices.num_elements();
    checked_num_elements(op, &shape)?;
    let mut strides = Strides::from_elem(0, shape.len());
    strides[axis] = indices.layout().strides()[0];
    let index_layout = Layout::new(shape.clone(), strides, indices.layout().offset());
    take(op, axis, &tensor, &indices, index_layout, shape)
}

/// The loop of this module: makes an output of `shape`. `index_layout`, of the same shape, locates each
/// element's index.
fn take(
    op: &'static str,
    axis: usize,
    tensor: &Tensor,
    indices: &Tensor,
    index_layout: Layout,
    shape: Shape,
) -> Result<Tensor> {
    let checked = Indices::checked(op, indices, axis, tensor.shape()[axis])?;
    dispatch!(bits op, tensor.dtype(), T => {
        Tensor::build::<T>(op, shape.clone(), tensor.dtype(), |out| {
            if out.is_empty() {
                return;
            }
            let layout = tensor.layout();
            let mut strides: Strides = layout.strides().into();
            let axis_stride = core::mem::replace(&mut strides[axis], 0);
            let source = Layout::new(shape.clone(), strides, layout.offset());
            let walk = Walk::new([&Layout::contiguous(shape), &source, &index_layout]);
            let axis = (layout.shape()[axis], axis_stride);
            take_rows(tensor.storage::<T>(), axis, &checked, &walk, out);
        })
    })
}

/// Reads the rows of the output along an axis with this size and stride.
fn take_rows<T: Element>(
    src: &[T],
    (axis_size, axis_stride): (usize, isize),
    indices: &Indices,
    walk: &Walk<3>,
    out: &mut [T],
) {
    let [_, step, index_step] = walk.inner().strides;
    if index_step == 0 {
        for_each_row(walk, out, 2 * size_of::<T>(), |[_, start, index], row| {
            let start = start.wrapping_add_signed(indices.get(index) as isize * axis_stride);
            gather_row(src, start, step, row);
        });
        return;
    }
    // Each row of the output then reads from one contiguous line of the tensor.
    let in_line = axis_stride == 1 && step == 0;
    let bytes = axis_size * size_of::<T>();
    for_each_row(walk, out, 2 * size_of::<T>() + size_of::<usize>(), |[_, start, index], row| {
        // In most cases, the memory behind this line of the tensor is read next, in the order of the indices,
        // which the hardware cannot predict: it is prefetched.
        let next = src.as_ptr().wrapping_add(start + axis_size).cast::<u8>();
        let worthwhile = in_line && bytes <= MAX_LINE && bytes <= row.len() * CACHE_LINE;
        let part = if worthwhile { (bytes * BLOCK / row.len()).min(bytes) } else { 0 };
        let (mut start, mut index) = (start, index);
        let mut block = [0usize; BLOCK];
        for (k, piece) in row.chunks_mut(BLOCK).enumerate() {
            prefetch(next.wrapping_add(k * part), part);
            let block = &mut block[..piece.len()];
            indices.read(index, index_step, block);
            let element =
                |at: usize, i: usize| at.wrapping_add_signed((i as isize).wrapping_mul(axis_stride));
            if let Some(i) = repeated(block) {
                gather_row(src, element(start, i), step, piece);
            } else if in_line {
                let line = &src[start..start + axis_size];
                for (o, &i) in piece.iter_mut().zip(&*block) {
                    *o = line[i];
                }
            } else {
                let mut at = start;
                for (o, &i) in piece.iter_mut().zip(&*block) {
                    *o = src[element(at, i)];
                    at = at.wrapping_add_signed(step);
                }
            }
            start = start.wrapping_add_signed(piece.len() as isize * step);
            index = index.wrapping_add_signed(piece.len() as isize * index_step);
        }
    });
}

/// Longest line of the tensor, in bytes, that is prefetched: half of the first-level cache. A line is
/// prefetched if it is read at least as often as it has cache lines.
const MAX_LINE: usize = 16 * 1024;
