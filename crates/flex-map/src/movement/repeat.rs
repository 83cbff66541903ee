//! Repetition along an axis.

use crate::Tensor;
use crate::error::{Error, Result, check_axis};
use crate::layout::checked_num_elements;
use crate::parallel::{self, Work};

const OP: &str = "repeat";

/// Longest run, in bytes, that is repeated by doubling; longer runs are copied once per repetition.
const MAX_DOUBLED: usize = 256;

/// Repeats the tensor `times` times along `axis`. Zero times gives an axis of size zero.
///
/// # Errors
/// An axis out of range, or a result too large to address.
pub fn repeat(tensor: Tensor, axis: usize, times: usize) -> Result<Tensor> {
    check_axis(OP, axis, tensor.rank())?;
    if times == 1 {
        return Ok(tensor);
    }
    let mut shape = tensor.shape().clone();
    let overflow = || Error::Overflow { op: OP, shape: tensor.shape().to_vec() };
    shape.as_mut_slice()[axis] = shape[axis].checked_mul(times).ok_or_else(overflow)?;
    if checked_num_elements(OP, &shape)? == 0 {
        return Tensor::empty(shape, tensor.dtype());
    }
    let run: usize = tensor.shape()[axis..].iter().product();
    if run > 1 && run * tensor.dtype().size() <= MAX_DOUBLED {
        let tensor = tensor.into_contiguous()?;
        return dispatch!(bits OP, tensor.dtype(), T => {
            let src = tensor.as_slice::<T>().expect("contiguous");
            Tensor::build::<T>(OP, shape, tensor.dtype(), |out| {
                let row = run * times;
                let rows = parallel::rows_per_task(row * size_of::<T>());
                let work = Work::Bytes(size_of_val(out));
                parallel::for_each_chunk(out, rows * row, work, |k, out| {
                    let src = src[k * rows * run..].chunks_exact(run);
                    for (out, src) in out.chunks_exact_mut(row).zip(src) {
                        double(out, src);
                    }
                });
            })
        });
    }
    // A view that repeats along an axis of stride zero, made row-major.
    let (mut split, mut target) = (tensor.shape().to_vec(), tensor.shape().to_vec());
    split.insert(axis, 1);
    target.insert(axis, times);
    tensor.reshape(split)?.expand(&target)?.into_contiguous()?.reshape(shape)
}

/// Fills `out` with repetitions of `src`, by copies that double in length.
pub(crate) fn double<T: Copy>(out: &mut [T], src: &[T]) {
    out[..src.len()].copy_from_slice(src);
    let mut done = src.len();
    while done < out.len() {
        let next = done.min(out.len() - done);
        out.copy_within(..next, done);
        done += next;
    }
}
