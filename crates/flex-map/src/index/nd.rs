//! Indexing by coordinates: the last axis of the index tensor, of size `k`, addresses the `k` leading axes of
//! the data.

use super::Update;
use super::indices::{Indices, List};
use super::rows::update_slices;
use crate::error::{Error, Result, check_same_dtype, integer_range};
use crate::layout::checked_num_elements;
use crate::parallel::{self, Work};
use crate::{Shape, Tensor};
use alloc::vec::Vec;

/// The slices of `tensor` at the coordinates in `indices`. `indices` has shape `[batch..., k]`, the result
/// `[batch..., tensor.shape[k..]...]`.
///
/// # Errors
/// An index tensor without axes or not of an integer dtype, more coordinates than axes, an index out of
/// range.
pub fn gather_nd(tensor: Tensor, indices: Tensor) -> Result<Tensor> {
    const OP: &str = "gather_nd";
    let k = check(OP, &tensor, &indices)?;
    let shape = slices_shape(&tensor, &indices, k);
    checked_num_elements(OP, &shape)?;
    let len: usize = tensor.shape()[k..].iter().product();
    // If each slice is contiguous, the strides of the leading axes can be used as they are.
    let tensor = if is_run(&tensor, k) { tensor } else { tensor.into_contiguous()? };
    let strides = &tensor.layout().strides()[..k];
    let starts = positions(OP, &tensor, &indices, strides)?;
    let starts = starts.as_ref();
    let first = tensor.layout().offset();
    dispatch!(bits OP, tensor.dtype(), T => {
        let src = tensor.storage::<T>();
        Tensor::build::<T>(OP, shape, tensor.dtype(), |out| {
            if out.is_empty() {
                return;
            }
            let work = Work::Bytes(2 * size_of_val(out) + size_of_val(starts));
            let rows = parallel::rows_per_task(2 * len * size_of::<T>() + size_of::<usize>());
            parallel::for_each_chunk(out, rows * len, work, |block, out| {
                let starts = &starts[block * rows..];
                if len == 1 {
                    for (o, &start) in out.iter_mut().zip(starts) {
                        *o = src[first.wrapping_add(start)];
                    }
                } else {
                    for (o, &start) in out.chunks_exact_mut(len).zip(starts) {
                        o.copy_from_slice(&src[first.wrapping_add(start)..][..len]);
                    }
                }
            });
        })
    })
}

/// `tensor` with the slices at the coordinates in `indices` updated with `values`. `indices` has shape
/// `[batch..., k]`, `values` `[batch..., tensor.shape[k..]...]`. Updates of one slice are applied in
/// row-major order.
///
/// Writes in place if nothing else shares the buffer.
///
/// # Errors
/// The errors of [`gather_nd`], values of another dtype or shape, [`Update::Or`] of floats.
pub fn scatter_nd(tensor: Tensor, indices: Tensor, values: Tensor, update: Update) -> Result<Tensor> {
    const OP: &str = "scatter_nd";
    check_same_dtype(OP, tensor.dtype(), values.dtype())?;
    let k = check(OP, &tensor, &indices)?;
    let expected = slices_shape(&tensor, &indices, k);
    if values.shape() != &expected {
        let expected = alloc::format!("values of shape {:?}", expected.as_slice());
        return Err(Error::shape(OP, values.shape(), expected));
    }
    let leading = &tensor.shape()[..k];
    let strides = crate::layout::contiguous_strides(leading);
    let rows = positions(OP, &tensor, &indices, &strides)?;
    let dims = [1, leading.iter().product(), tensor.shape()[k..].iter().product()];
    update_slices(OP, tensor, values, dims, rows.as_ref(), update)
}

/// Checks all but the values of the indices; returns the number of coordinates.
fn check(op: &'static str, tensor: &Tensor, indices: &Tensor) -> Result<usize> {
    integer_range(op, indices.dtype())?;
    match indices.shape().last() {
        Some(&k) if k <= tensor.rank() => Ok(k),
        _ => {
            let expected = alloc::format!("indices whose last axis has at most {} elements", tensor.rank());
            Err(Error::shape(op, indices.shape(), expected))
        }
    }
}

/// `[batch..., tensor.shape[k..]...]`.
fn slices_shape(tensor: &Tensor, indices: &Tensor, k: usize) -> Shape {
    let batch = &indices.shape()[..indices.rank() - 1];
    batch.iter().chain(&tensor.shape()[k..]).copied().collect()
}

/// Whether the axes from `k` on are contiguous.
fn is_run(tensor: &Tensor, k: usize) -> bool {
    let layout = tensor.layout();
    let wanted = crate::layout::contiguous_strides(&layout.shape()[k..]);
    (k..layout.rank()).all(|axis| layout.shape()[axis] == 1 || layout.strides()[axis] == wanted[axis - k])
}

/// For each row of coordinates, the sum of the coordinates times `strides` (wrapping, as two's complement).
/// Checks each coordinate against its axis.
fn positions(op: &'static str, tensor: &Tensor, indices: &Tensor, strides: &[isize]) -> Result<List> {
    let last = indices.rank() - 1;
    let mut columns: Vec<Tensor> = Vec::with_capacity(strides.len());
    for axis in 0..strides.len() {
        columns.push(indices.clone().narrow(last, axis, 1)?);
    }
    let mut sums = List::new(op, indices.shape()[..last].iter().product())?;
    if columns.is_empty() {
        sums.as_mut().fill(0);
    }
    for (axis, (column, &stride)) in columns.iter().zip(strides).enumerate() {
        let column = Indices::checked(op, column, axis, tensor.shape()[axis])?;
        let stride = stride as usize;
        column.for_each_block(sums.as_mut(), |sums, indices| {
            for (sum, index) in sums.iter_mut().zip(indices) {
                let before = if axis == 0 { 0 } else { *sum };
                *sum = before.wrapping_add(index.wrapping_mul(stride));
            }
        });
    }
    Ok(sums)
}
