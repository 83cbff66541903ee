//! Data movement: copies that change the positions of elements, never their values. Every dtype is moved as
//! the unsigned integer of its width.
//!
//! * [`cat`] and [`repeat`] build larger tensors, [`slice_assign`] overwrites a part of one, [`reshape`]
//!   copies only where it has to, [`arange`] counts.
//! * Other operations are built from two copies: `Tensor::materialise` copies any layout to row-major order,
//!   and `region` copies any layout into a strided region of a buffer.

mod cat;
pub mod convert;
pub(crate) mod region;
mod repeat;
#[cfg(test)]
mod tests;

pub use cat::cat;
#[cfg(feature = "std")]
pub(crate) use repeat::double;
pub use repeat::repeat;

use crate::error::{Error, Result, integer_range};
use crate::parallel::thresholds::TASK_ARANGE_ELEMENTS;
use crate::parallel::{self, Work};
use crate::{DType, Element, Shape, Slice, Tensor};
use region::copy_into_view;

/// The tensor in row-major order over a buffer that nothing else shares: the tensor itself if possible,
/// otherwise a copy.
pub fn into_writable(tensor: Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() && tensor.is_unique() { Ok(tensor) } else { tensor.materialise() }
}

/// The same elements in the same row-major order under another shape: a view where strides can express the
/// shape, otherwise a copy, which waits for its reader if it is large.
///
/// # Errors
/// The element counts differ, or the system has no room for a copy that does not wait.
pub fn reshape(tensor: Tensor, shape: Shape) -> Result<Tensor> {
    tensor.reshape_or(shape, |tensor, shape| {
        #[cfg(feature = "std")]
        if let Some(copy) = crate::elementwise::deferred::row_major(&tensor, &shape) {
            return Ok(copy);
        }
        tensor.materialise()?.reshape(shape)
    })
}

/// `tensor` with the elements that `slices` select (see [`Layout::slice`](crate::Layout::slice)) replaced by
/// `value`, which has the shape of the slice. With a negative step, the slice begins with its last element.
///
/// Writes in place if nothing else shares the buffer.
///
/// # Errors
/// Different dtypes or ranks, more slices than axes, a step of zero, or a value of another shape than the
/// slice.
pub fn slice_assign(tensor: Tensor, slices: &[Slice], value: Tensor) -> Result<Tensor> {
    const OP: &str = "slice_assign";
    crate::error::check_same_dtype(OP, tensor.dtype(), value.dtype())?;
    let region = tensor.layout().clone().slice(slices).map_err(|error| error.named(OP))?;
    if value.shape() != region.shape() {
        let expected = "a value of the shape that the slices select";
        return Err(Error::shapes(OP, region.shape(), value.shape(), expected));
    }
    if region.num_elements() == 0 {
        return Ok(tensor);
    }
    if region.num_elements() == tensor.num_elements() && slices.iter().all(|slice| slice.step > 0) {
        // Everything is overwritten: the value is the result.
        return Ok(value);
    }
    // Dense layouts address each position once, so their elements can be written in any order of the axes.
    let mut tensor =
        if tensor.is_unique() && tensor.layout().is_dense() { tensor } else { tensor.materialise()? };
    let region = tensor.layout().clone().slice(slices)?;
    // A contiguous copy reads columns in tiles, not one by one.
    let steps = value.shape().iter().zip(value.layout().strides()).rev();
    let inner = steps.filter(|(size, _)| **size != 1).map(|(_, stride)| *stride).next();
    let value = if matches!(inner, None | Some(0 | 1)) { value } else { value.into_contiguous()? };
    dispatch!(bits OP, tensor.dtype(), T => {
        let target = tensor.storage_mut::<T>().expect("the only owner");
        copy_into_view(target, &region, value.storage::<T>(), value.layout());
        Ok(())
    })?;
    Ok(tensor)
}

/// `[start, start + step, ...]`, excluding `end`: `ceil((end - start) / step)` elements, none if
/// `end <= start`.
///
/// # Errors
/// A step of zero, a dtype that is not an integer, or values that the dtype cannot hold.
pub fn arange(start: i64, end: i64, step: usize, dtype: DType) -> Result<Tensor> {
    const OP: &str = "arange";
    if step == 0 {
        return Err(Error::argument(OP, "step", 0, "a step of at least 1"));
    }
    let span = (end as i128 - start as i128).max(0) as u128;
    let count = span.div_ceil(step as u128);
    let too_long = || Error::argument(OP, "range", format_args!("{start}..{end}"), "fewer elements");
    let count = usize::try_from(count).map_err(|_| too_long())?;
    let values = integer_range(OP, dtype)?;
    // The values lie in `start..end`, so the last one fits i64.
    let last = start.wrapping_add((count.saturating_sub(1) as i64).wrapping_mul(step as i64));
    if count > 0 && !(values.contains(&start.into()) && values.contains(&last.into())) {
        let got = format_args!("{start}..{end}");
        return Err(Error::argument(OP, "range", got, alloc::format!("values that {} holds", dtype.name())));
    }
    // Signed and unsigned integers have the same bits.
    dispatch!(bits OP, dtype, T => {
        Tensor::build::<T>(OP, [count], dtype, |out| {
            let work = Work::Bytes(size_of_val(out));
            parallel::for_each_chunk(out, TASK_ARANGE_ELEMENTS, work, |k, out| {
                let first = start.wrapping_add(((k * TASK_ARANGE_ELEMENTS) as i64).wrapping_mul(step as i64));
                flex_math::simd::vectorize_lean(#[inline(always)] || {
                    for (i, o) in out.iter_mut().enumerate() {
                        *o = T::from_i64(first.wrapping_add((i as i64).wrapping_mul(step as i64)));
                    }
                });
            });
        })
    })
}
