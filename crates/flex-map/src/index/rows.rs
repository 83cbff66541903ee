//! Updating whole slices: `select_update`, `embedding_backward` and the loop below `scatter_nd`.

use super::Update;
use super::indices::Indices;
use super::take::flatten;
use super::update::{UpdateKernel, kernel, widens};
use crate::error::{Error, Result, check_axis, check_rank, check_same_dtype};
use crate::movement::convert::{from_f32, into_f32};
use crate::movement::into_writable;
use crate::parallel::thresholds::UPDATE_BLOCKS;
use crate::parallel::{self, Work};
use crate::{Element, Tensor, storage};
use alloc::vec;
use alloc::vec::Vec;

/// `tensor[i, indices[j], k] = update(tensor[i, indices[j], k], values[i, j, k])` (for axis 1 of three).
/// `values` has the shape of `tensor`, except that its size along `axis` is the number of indices.
///
/// Writes in place if nothing else shares the buffer.
///
/// # Errors
/// An axis out of range, an index tensor that is not 1-D or not of an integer dtype, values of another dtype
/// or shape, an index out of range, [`Update::Or`] of floats.
pub fn select_update(
    tensor: Tensor,
    axis: usize,
    indices: Tensor,
    values: Tensor,
    update: Update,
) -> Result<Tensor> {
    select_update_named("select_update", tensor, axis, indices, values, update)
}

/// The gradient of [`embedding`](super::embedding) with respect to its weights: zeros of the shape of
/// `weights` (`[n, d]`), to which each row of `grad` (`[..., d]`) is added at its index (`indices` of shape
/// `[...]`). The result has the dtype of `grad`.
///
/// # Errors
/// Weights that are not 2-D, shapes that do not fit, an index dtype that is not an integer, an index out of
/// range.
pub fn embedding_backward(weights: Tensor, grad: Tensor, indices: Tensor) -> Result<Tensor> {
    const OP: &str = "embedding_backward";
    check_rank(OP, weights.shape(), 2, "weights of two axes")?;
    let width = weights.shape()[1];
    let mut expected = indices.shape().clone();
    expected.push(width);
    if grad.shape() != &expected {
        let expected = alloc::format!("a gradient of shape {:?}", expected.as_slice());
        return Err(Error::shape(OP, grad.shape(), expected));
    }
    let indices = flatten(indices)?;
    let grad = grad.reshape([indices.num_elements(), width])?;
    // Zero is all zero bits in every dtype.
    let (shape, dtype) = (weights.shape().clone(), grad.dtype());
    let zeros = dispatch!(bits OP, dtype, B => Tensor::filled::<B>(OP, shape, B::ZERO, dtype))?;
    select_update_named(OP, zeros, 0, indices, grad, Update::Add)
}

fn select_update_named(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    indices: Tensor,
    values: Tensor,
    update: Update,
) -> Result<Tensor> {
    check_axis(op, axis, tensor.rank())?;
    check_rank(op, indices.shape(), 1, "indices of one axis")?;
    check_same_dtype(op, tensor.dtype(), values.dtype())?;
    let mut expected = tensor.shape().clone();
    expected.as_mut_slice()[axis] = indices.num_elements();
    if values.shape() != &expected {
        let expected = "values of the first shape, with one slice for each index";
        return Err(Error::shapes(op, tensor.shape(), values.shape(), expected));
    }
    let rows = Indices::checked(op, &indices, axis, tensor.shape()[axis])?.to_list(op)?;
    let (shape, size) = (tensor.shape().clone(), tensor.shape()[axis]);
    let outer = shape[..axis].iter().product();
    let inner = shape[axis + 1..].iter().product();
    update_slices(op, tensor, values, [outer, size, inner], rows.as_ref(), update)
}

/// Updates the slices `rows` of a tensor, read as row-major `[outer, size, inner]`, with values read as
/// `[outer, rows.len(), inner]`. The caller has checked all sizes, and that each row is less than `size`.
pub(super) fn update_slices(
    op: &'static str,
    tensor: Tensor,
    values: Tensor,
    dims: [usize; 3],
    rows: &[usize],
    update: Update,
) -> Result<Tensor> {
    let dtype = tensor.dtype();
    if widens(dtype, update) {
        let sum = update_slices(op, into_f32(op, tensor)?, into_f32(op, values)?, dims, rows, update)?;
        return from_f32(op, sum, dtype);
    }
    dispatch!(bits op, dtype, B => {
        let kernel = kernel::<B>(op, dtype, update)?;
        if values.num_elements() == 0 {
            return Ok(tensor);
        }
        let values = values.into_contiguous()?;
        let mut tensor = into_writable(tensor)?;
        // The lists of the updates of each block of rows.
        storage::ensure(op, size_of_val(rows))?;
        let out = tensor.dense_mut::<B>().expect("the only owner, contiguous");
        update_rows(&kernel, out, dims, rows, values.as_slice::<B>().expect("contiguous"));
        Ok(tensor)
    })
}

fn update_rows<B: Element>(
    kernel: &UpdateKernel<B>,
    out: &mut [B],
    [outer, size, inner]: [usize; 3],
    rows: &[usize],
    values: &[B],
) {
    // Each value is read, and each target read and written.
    let work = Work::Bytes(3 * size_of_val(values));
    let (block, block_values) = (size * inner, rows.len() * inner);
    let update_block = |out: &mut [B], values: &[B]| {
        if inner == 1 {
            (kernel.at)(out, rows, values);
        } else {
            for (&row, values) in rows.iter().zip(values.chunks_exact(inner)) {
                (kernel.row)(&mut out[row * inner..][..inner], values);
            }
        }
    };
    if outer >= UPDATE_BLOCKS / 2 || inner == 1 || !work.is_parallel() {
        let blocks = parallel::rows_per_task(3 * block_values * size_of::<B>());
        // The blocks may exceed the address space where few of their rows are updated.
        parallel::for_each_chunk(out, blocks.saturating_mul(block), work, |k, out| {
            let values = values[k * blocks * block_values..].chunks_exact(block_values);
            out.chunks_exact_mut(block).zip(values).for_each(|(out, values)| update_block(out, values));
        });
        return;
    }
    // Each thread owns ranges of rows and gets the ordered list of the updates that fall into them.
    let shift = size.div_ceil(UPDATE_BLOCKS).next_power_of_two().trailing_zeros();
    let bucket_rows = 1usize << shift;
    let buckets = list_buckets(rows, shift, size.div_ceil(bucket_rows));
    let mut parts: Vec<(usize, usize, &mut [B])> = Vec::with_capacity(outer * buckets.len());
    for (o, block) in out.chunks_exact_mut(block).enumerate() {
        let pieces = block.chunks_mut(bucket_rows * inner).enumerate();
        parts.extend(pieces.filter(|(b, _)| !buckets[*b].is_empty()).map(|(b, piece)| (o, b, piece)));
    }
    parallel::for_each_chunk(&mut parts, 1, work, |_, part| {
        let (o, b, piece) = &mut part[0];
        let values = &values[*o * block_values..][..block_values];
        for &update in &buckets[*b] {
            let row = rows[update] - (*b << shift);
            (kernel.row)(&mut piece[row * inner..][..inner], &values[update * inner..][..inner]);
        }
    });
}

/// For each block of `1 << shift` rows, the positions in `rows` of the entries that fall into it.
fn list_buckets(rows: &[usize], shift: u32, count: usize) -> Vec<Vec<usize>> {
    let mut sizes = vec![0usize; count];
    rows.iter().for_each(|row| sizes[row >> shift] += 1);
    let mut buckets: Vec<Vec<usize>> = sizes.into_iter().map(storage::list).collect();
    rows.iter().enumerate().for_each(|(update, row)| buckets[row >> shift].push(update));
    buckets
}
