//! Converts any float dtype to `f32` and back, in whole vectors.

use crate::error::Result;
use crate::parallel::{self, Work};
use crate::{DType, Element, Tensor, bf16, f16};
use flex_math::simd::vectorize_lean;

/// A float type whose blocks convert to and from `f32`.
pub trait FloatBlock: Element {
    /// Writes `src`, rounded to `f32`, to `dst` of the same length.
    fn read_f32(src: &[Self], dst: &mut [f32]);
    /// Writes `src`, rounded to nearest, to `dst` of the same length.
    fn write_f32(src: &[f32], dst: &mut [Self]);
}

impl FloatBlock for f32 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        dst.copy_from_slice(src);
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        dst.copy_from_slice(src);
    }
}

impl FloatBlock for f64 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        vectorize_lean(
            #[inline(always)]
            || dst.iter_mut().zip(src).for_each(|(to, &from)| *to = from as f32),
        );
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        vectorize_lean(
            #[inline(always)]
            || dst.iter_mut().zip(src).for_each(|(to, &from)| *to = from.into()),
        );
    }
}

impl FloatBlock for f16 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        flex_math::half::to_f32(src, dst);
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        flex_math::half::from_f32(src, dst);
    }
}

impl FloatBlock for bf16 {
    fn read_f32(src: &[Self], dst: &mut [f32]) {
        flex_math::half::to_f32(src, dst);
    }
    fn write_f32(src: &[f32], dst: &mut [Self]) {
        flex_math::half::from_f32(src, dst);
    }
}

/// A float tensor as `f32`: the tensor itself if it is one, otherwise a row-major copy.
pub fn into_f32(op: &'static str, tensor: Tensor) -> Result<Tensor> {
    if tensor.dtype() == DType::F32 {
        return Ok(tensor);
    }
    let tensor = tensor.into_contiguous()?;
    dispatch!(float op, tensor.dtype(), T => {
        let src = tensor.as_slice::<T>().expect("contiguous");
        Tensor::build::<f32>(op, tensor.shape().clone(), DType::F32, |out| {
            let block = parallel::rows_per_task(size_of::<T>() + size_of::<f32>());
            let work = Work::Bytes(size_of_val(src) + size_of_val(out));
            parallel::for_each_chunk(out, block, work, |k, out| {
                T::read_f32(&src[k * block..][..out.len()], out);
            });
        })
    })
}

/// An `f32` tensor in another float dtype: the tensor itself if that is `f32`, otherwise a row-major copy.
pub fn from_f32(op: &'static str, tensor: Tensor, dtype: DType) -> Result<Tensor> {
    if dtype == DType::F32 {
        return Ok(tensor);
    }
    let tensor = tensor.into_contiguous()?;
    let src = tensor.as_slice::<f32>().expect("contiguous");
    dispatch!(float op, dtype, T => {
        Tensor::build::<T>(op, tensor.shape().clone(), dtype, |out| {
            let block = parallel::rows_per_task(size_of::<T>() + size_of::<f32>());
            let work = Work::Bytes(size_of_val(src) + size_of_val(out));
            parallel::for_each_chunk(out, block, work, |k, out| {
                T::write_f32(&src[k * block..][..out.len()], out);
            });
        })
    })
}
