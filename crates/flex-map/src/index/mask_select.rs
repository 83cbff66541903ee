//! Reading by a mask.

use super::nonzero::{counts, for_each_task};
use crate::error::{Error, Result};
use crate::parallel::Work;
use crate::{Element, Tensor};
use flex_math::simd::vectorize_lean;

const OP: &str = "mask_select";

/// The elements of `tensor` where `mask` is true, in row-major order, as a tensor of one axis. The two have
/// the same shape and do not broadcast, as in Burn.
///
/// # Errors
/// A mask that is not boolean, or has another shape than the tensor.
pub fn mask_select(tensor: Tensor, mask: Tensor) -> Result<Tensor> {
    if !mask.dtype().is_bool() {
        return Err(Error::dtype(OP, mask.dtype(), "a mask of a bool dtype"));
    }
    if tensor.shape() != mask.shape() {
        return Err(Error::shapes(OP, tensor.shape(), mask.shape(), "a mask of the tensor's shape"));
    }
    let mask = mask.into_contiguous()?;
    let mask = mask.as_slice::<u8>().expect("contiguous");
    let dtype = tensor.dtype();
    let counts = counts(mask, Work::Bytes(mask.len()));
    let total: usize = counts.iter().sum();
    let tensor = tensor.into_contiguous()?;
    dispatch!(bits OP, dtype, T => {
        Tensor::build::<T>(OP, [total], dtype, |out| {
            let values = tensor.as_slice::<T>().expect("contiguous");
            let work = Work::Bytes(mask.len() + size_of_val(values));
            for_each_task(mask, &counts, 1, out, work, |range, out| {
                compress(&values[range.clone()], &mask[range], out);
            });
        })
    })
}

/// Elements that are selected at a time.
const GROUP: usize = 64;

/// Writes the values at true elements of a mask, of which there are as many as `out` has places.
fn compress<T: Element>(values: &[T], mask: &[u8], out: &mut [T]) {
    vectorize_lean(
        #[inline(always)]
        move || {
            let mut rest = out;
            for (values, mask) in values.chunks(GROUP).zip(mask.chunks(GROUP)) {
                // At most `GROUP`, so the sum of bytes does not overflow.
                let count = mask.iter().fold(0u8, |sum, &b| sum + (b != 0) as u8) as usize;
                let (part, tail) = core::mem::take(&mut rest).split_at_mut(count);
                rest = tail;
                if count == values.len() {
                    part.copy_from_slice(values);
                } else if count > 0 {
                    // Every value is written, and the next one overwrites those that are not selected: a
                    // branch would be mispredicted.
                    let mut chosen = [T::ZERO; GROUP];
                    let mut len = 0;
                    for (&value, &b) in values.iter().zip(mask) {
                        // Within bounds: `len` counts only elements before this one.
                        chosen[len & (GROUP - 1)] = value;
                        len += (b != 0) as usize;
                    }
                    part.copy_from_slice(&chosen[..count]);
                }
            }
        },
    );
}
