//! From a mask to indices.

use crate::error::{Error, Result, integer_range};
use crate::parallel::thresholds::TASK_MASK_ELEMENTS;
use crate::parallel::{self, Work};
use crate::{DType, Element, Tensor};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::vectorize_lean;

const OP: &str = "nonzero";

/// The indices of the true elements of a boolean tensor, in row-major order, with shape `[count, rank]`.
///
/// # Errors
/// A tensor that is not boolean, an index dtype that is not an integer or cannot hold the sizes.
pub fn nonzero(tensor: Tensor, index_dtype: DType) -> Result<Tensor> {
    if !tensor.dtype().is_bool() {
        return Err(Error::dtype(OP, tensor.dtype(), "a bool dtype"));
    }
    let tensor = tensor.into_contiguous()?;
    let (shape, rank) = (tensor.shape().clone(), tensor.rank());
    let mask = tensor.as_slice::<u8>().expect("contiguous");
    let values = integer_range(OP, index_dtype)?;
    if !shape.iter().all(|&size| size as i128 - 1 <= *values.end()) {
        let expected = alloc::format!("axes whose indices fit {}", index_dtype.name());
        return Err(Error::shape(OP, &shape, expected));
    }
    let work = Work::Bytes(mask.len());
    let counts = counts(mask, work);
    let total: usize = counts.iter().sum();
    // Indices are not negative, so signed and unsigned dtypes hold the same bits.
    dispatch!(bits OP, index_dtype, I => {
        Tensor::build::<I>(OP, [total, rank], index_dtype, |out| {
            // Without axes an index has no elements.
            if !out.is_empty() {
                for_each_task(mask, &counts, rank, out, work, |range, out| {
                    list(&mask[range.clone()], range.start, &shape, out);
                });
            }
        })
    })
}

/// The number of true elements of each task's part of a mask.
pub(super) fn counts(mask: &[u8], work: Work) -> Vec<usize> {
    parallel::map_blocks(mask.len(), TASK_MASK_ELEMENTS, work, |range| count(&mask[range]))
}

/// Calls `f` with the range of each task's part of a mask and its part of `out`, which has `width` places for
/// each true element: [`counts`] has their numbers.
pub(super) fn for_each_task<T: Element>(
    mask: &[u8],
    counts: &[usize],
    width: usize,
    out: &mut [T],
    work: Work,
    f: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    let mut rest = out;
    let mut parts: Vec<&mut [T]> = Vec::with_capacity(counts.len());
    for count in counts {
        let (part, tail) = rest.split_at_mut(count * width);
        parts.push(part);
        rest = tail;
    }
    parallel::for_each_chunk(&mut parts, 1, work, |k, part| {
        let first = k * TASK_MASK_ELEMENTS;
        f(first..(first + TASK_MASK_ELEMENTS).min(mask.len()), part[0]);
    });
}

fn count(mask: &[u8]) -> usize {
    vectorize_lean(
        #[inline(always)]
        || {
            // Runs short enough that sums of bytes do not overflow.
            mask.chunks(128).map(|run| run.iter().fold(0u8, |sum, &b| sum + (b != 0) as u8) as usize).sum()
        },
    )
}

/// Writes the indices of the true elements of `mask`, which starts at flat position `first` of a tensor of
/// shape `shape`.
fn list<I: Element>(mask: &[u8], first: usize, shape: &[usize], out: &mut [I]) {
    let (&width, outer) = shape.split_last().expect("elements without axes have no indices");
    let rank = shape.len();
    let mut index = vec![0usize; outer.len()];
    let mut row = first / width;
    let mut column = first % width;
    for (i, &size) in index.iter_mut().zip(outer).rev() {
        *i = row % size;
        row /= size;
    }
    let mut prefix: Vec<I> = index.iter().map(|&i| I::from_u64(i as u64)).collect();
    let mut targets = out.chunks_exact_mut(rank);
    let mut rest = mask;
    while !rest.is_empty() {
        let (run, tail) = rest.split_at(rest.len().min(width - column));
        for_each_true(run, |i| {
            let target = targets.next().expect("as many as were counted");
            target[..rank - 1].copy_from_slice(&prefix);
            target[rank - 1] = I::from_u64((column + i) as u64);
        });
        (rest, column) = (tail, 0);
        for ((i, p), &size) in index.iter_mut().zip(&mut prefix).zip(outer).rev() {
            *i = if *i + 1 == size { 0 } else { *i + 1 };
            *p = I::from_u64(*i as u64);
            if *i != 0 {
                break;
            }
        }
    }
}

/// Mask elements whose true positions are listed at a time.
const GROUP: usize = 64;

/// Calls `f` with the position of each nonzero byte. Positions are collected without branches, which would be
/// mispredicted; groups of zeros are skipped.
#[inline(always)]
fn for_each_true(mask: &[u8], mut f: impl FnMut(usize)) {
    for (k, group) in mask.chunks(GROUP).enumerate() {
        if group.iter().fold(0, |any, &b| any | b) == 0 {
            continue;
        }
        let mut list = [0u8; GROUP];
        let mut len = 0;
        for (i, &b) in group.iter().enumerate() {
            // Within bounds: `len` counts only elements before `i`.
            list[len & (GROUP - 1)] = i as u8;
            len += (b != 0) as usize;
        }
        list[..len].iter().for_each(|&i| f(GROUP * k + i as usize));
    }
}
