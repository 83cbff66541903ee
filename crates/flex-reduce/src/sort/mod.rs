//! Sorting and top-k (largest first).
//!
//! Elements become unsigned keys with the same order ([`key`]), rows of keys are radix-sorted ([`radix`]),
//! and keys become elements again. Sorting is stable in both directions: equal elements keep their order. NaN
//! is greater than every number and equal to every NaN; -0.0 equals 0.0. All dtypes can be sorted, booleans
//! included.
//!
//! Axes other than the last one are moved there by a copy, and the result is a view of the sorted rows.

mod key;
mod radix;
mod rows;
#[cfg(test)]
mod tests;
mod topk;

use crate::error::{Error, Result, check_axis, check_index_dtype};
use crate::{Blank, DType, Shape, Tensor};
use key::KeyMap;
use rows::{IndexSlice, RowPairs, check_memory, sort_indices, sort_values};

/// Checks the axis and its length: indices are sorted as u32 and have to fit `index_dtype`.
fn check(op: &'static str, tensor: &Tensor, axis: usize, index_dtype: Option<DType>) -> Result<()> {
    check_axis(op, axis, tensor.rank())?;
    let size = tensor.shape()[axis];
    if size > u32::MAX as usize {
        return Err(Error::shape(op, tensor.shape(), "at most 2^32 - 1 elements along the sorted axis"));
    }
    index_dtype.map_or(Ok(()), |dtype| check_index_dtype(op, dtype, size))
}

/// A contiguous tensor whose last axis is `axis`.
fn axis_last(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let last = tensor.rank() - 1;
    tensor.swap_axes(axis, last)?.into_contiguous()
}

/// Undoes the swap of axes of [`axis_last`].
fn axis_back(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let last = tensor.rank() - 1;
    tensor.swap_axes(axis, last)
}

/// A contiguous tensor, copied if its buffer is shared.
fn into_unique(op: &'static str, mut tensor: Tensor) -> Result<Tensor> {
    dispatch!(bits op, tensor.dtype(), B => {
        if tensor.dense_mut::<B>().is_some() {
            return Ok(tensor);
        }
        let src = &tensor.storage::<B>()[tensor.layout().span()];
        Tensor::build::<B>(op, tensor.shape().clone(), tensor.dtype(), |out| out.copy_from_slice(src))
    })
}

/// A contiguous tensor of indices that `fill` writes, if there are any.
fn build_indices(
    op: &'static str,
    shape: Shape,
    dtype: DType,
    fill: &mut dyn FnMut(IndexSlice<'_>) -> Result<()>,
) -> Result<Tensor> {
    let mut blank = Blank::new(op, shape, dtype)?;
    let bytes = blank.bytes();
    if !bytes.is_empty() {
        fill(IndexSlice { bytes, width: dtype.size() })?;
    }
    Ok(blank.finish())
}

/// Sorts along `axis`; stable, NaN last when ascending and first when descending.
///
/// # Errors
/// An axis out of range or longer than 2^32 - 1.
pub fn sort(tensor: Tensor, axis: usize, descending: bool) -> Result<Tensor> {
    let op = "sort";
    check(op, &tensor, axis, None)?;
    let mut values = into_unique(op, axis_last(tensor, axis)?)?;
    let (dtype, n) = (values.dtype(), values.shape()[values.rank() - 1]);
    if n > 1 && values.num_elements() > 0 {
        dispatch!(bits op, dtype, B => {
            check_memory::<B>(op, n, false)?;
            if let Some(rows) = values.dense_mut::<B>() {
                sort_values(KeyMap::<B>::new(dtype, descending), rows, n);
            }
            Ok(())
        })?;
    }
    axis_back(values, axis)
}

/// Sorts along `axis` and returns the elements and their original indices along the axis; see [`sort`].
///
/// # Errors
/// An axis out of range or longer than 2^32 - 1, or an index dtype that is not an integer or too small for
/// the axis.
pub fn sort_with_indices(
    tensor: Tensor,
    axis: usize,
    descending: bool,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let op = "sort_with_indices";
    check(op, &tensor, axis, Some(index_dtype))?;
    let mut values = into_unique(op, axis_last(tensor, axis)?)?;
    let (dtype, shape) = (values.dtype(), values.shape().clone());
    let n = shape[shape.len() - 1];
    let indices = build_indices(op, shape, index_dtype, &mut |indices| {
        dispatch!(bits op, dtype, B => {
            check_memory::<B>(op, n, true)?;
            if let Some(rows) = values.dense_mut::<B>() {
                sort_indices(KeyMap::<B>::new(dtype, descending), RowPairs::Sort(rows), indices, n);
            }
            Ok(())
        })
    })?;
    Ok((axis_back(values, axis)?, axis_back(indices, axis)?))
}

/// The indices along `axis` that would sort the tensor; see [`sort`].
///
/// # Errors
/// The errors of [`sort_with_indices`].
pub fn argsort(tensor: Tensor, axis: usize, descending: bool, index_dtype: DType) -> Result<Tensor> {
    let op = "argsort";
    check(op, &tensor, axis, Some(index_dtype))?;
    let tensor = axis_last(tensor, axis)?;
    let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
    let n = shape[shape.len() - 1];
    let indices = build_indices(op, shape, index_dtype, &mut |indices| {
        dispatch!(bits op, dtype, B => {
            check_memory::<B>(op, n, true)?;
            let rows = &tensor.storage::<B>()[tensor.layout().span()];
            sort_indices(KeyMap::<B>::new(dtype, descending), RowPairs::Read(rows), indices, n);
            Ok(())
        })
    })?;
    axis_back(indices, axis)
}

/// The `k` largest elements along `axis` in descending order. NaN comes first; of equal elements, the lowest
/// index.
///
/// # Errors
/// An axis out of range or longer than 2^32 - 1, or shorter than `k`.
pub fn topk(tensor: Tensor, axis: usize, k: usize) -> Result<Tensor> {
    Ok(largest("topk", tensor, axis, k, DType::I64, TopkOutputs::Values)?.0)
}

/// The `k` largest elements along `axis` and their indices; see [`topk`].
///
/// # Errors
/// The errors of [`topk`], or an index dtype that is not an integer or too small for the axis.
pub fn topk_with_indices(
    tensor: Tensor,
    axis: usize,
    k: usize,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    largest("topk_with_indices", tensor, axis, k, index_dtype, TopkOutputs::Both)
}

/// The indices of the `k` largest elements along `axis`; see [`topk`].
///
/// # Errors
/// The errors of [`topk_with_indices`].
pub fn argtopk(tensor: Tensor, axis: usize, k: usize, index_dtype: DType) -> Result<Tensor> {
    Ok(largest("argtopk", tensor, axis, k, index_dtype, TopkOutputs::Indices)?.1)
}

/// The outputs of a top-k that are wanted.
#[derive(Clone, Copy, PartialEq)]
enum TopkOutputs {
    Values,
    Indices,
    Both,
}

/// The `k` largest elements and their indices; an unwanted output is empty.
fn largest(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    k: usize,
    index_dtype: DType,
    wanted: TopkOutputs,
) -> Result<(Tensor, Tensor)> {
    check(op, &tensor, axis, (wanted != TopkOutputs::Values).then_some(index_dtype))?;
    let size = tensor.shape()[axis];
    if k > size {
        let expected = alloc::format!("at most {size}, the size of axis {axis}");
        return Err(Error::argument(op, "k", k, expected));
    }
    let tensor = axis_last(tensor, axis)?;
    let (dtype, rank) = (tensor.dtype(), tensor.rank());
    let mut shape = tensor.shape().clone();
    shape[rank - 1] = k;
    let mut empty = shape.clone();
    empty[rank - 1] = 0;
    let values_shape = if wanted == TopkOutputs::Indices { empty.clone() } else { shape.clone() };
    let indices_shape = if wanted == TopkOutputs::Values { empty } else { shape.clone() };
    let mut indices = Tensor::empty(indices_shape, index_dtype)?;
    let values = dispatch!(bits op, dtype, B => Tensor::try_build::<B>(op, values_shape, dtype, |values| {
        if shape.num_elements() == 0 {
            return Ok(());
        }
        topk::check_memory::<B>(op, shape.num_elements() / k, size, k)?;
        let rows = &tensor.storage::<B>()[tensor.layout().span()];
        let map = KeyMap::<B>::new(dtype, true);
        let bytes = indices.dense_bytes_mut().unwrap_or_default();
        topk::topk_rows(map, rows, size, k, values, IndexSlice { bytes, width: index_dtype.size() });
        Ok(())
    }))?;
    Ok((axis_back(values, axis)?, axis_back(indices, axis)?))
}
