//! Converts any float dtype to `f32` and back, in whole vectors.

use crate::error::{Error, Result};
use crate::parallel::{self, Work};
use crate::{Blank, DType, Tensor, bf16, f16};
use flex_math::StoredFloat;
use flex_math::simd::vectorize_lean;

/// The conversions between a dtype and `f32`, as functions of bytes, so that the loops over blocks are
/// compiled once.
struct Conversion {
    /// Writes the elements of the first slice, rounded to `f32`, to the second one.
    read: fn(&[u8], &mut [f32]),
    /// Writes the numbers, rounded to nearest, as elements to the second slice.
    write: fn(&[f32], &mut [u8]),
}

const F64: Conversion = Conversion {
    read: |src, dst| {
        let src: &[f64] = bytemuck::cast_slice(src);
        vectorize_lean(
            #[inline(always)]
            || dst.iter_mut().zip(src).for_each(|(to, &from)| *to = from as f32),
        );
    },
    write: |src, dst| {
        let dst: &mut [f64] = bytemuck::cast_slice_mut(dst);
        vectorize_lean(
            #[inline(always)]
            || dst.iter_mut().zip(src).for_each(|(to, &from)| *to = from.into()),
        );
    },
};

const F16: Conversion = Conversion {
    read: |src, dst| f16::widen_slice(bytemuck::cast_slice(src), dst),
    write: |src, dst| f16::narrow_slice(src, bytemuck::cast_slice_mut(dst)),
};

const BF16: Conversion = Conversion {
    read: |src, dst| bf16::widen_slice(bytemuck::cast_slice(src), dst),
    write: |src, dst| bf16::narrow_slice(src, bytemuck::cast_slice_mut(dst)),
};

impl Conversion {
    /// The conversions of a float dtype other than `f32`.
    fn of(op: &'static str, dtype: DType) -> Result<&'static Self> {
        match dtype {
            DType::F64 => Ok(&F64),
            DType::F16 => Ok(&F16),
            DType::BF16 => Ok(&BF16),
            _ => Err(Error::dtype(op, dtype, "a float dtype (f64, f32, f16, bf16)")),
        }
    }
}

/// A float tensor as `f32`: the tensor itself if it is one, otherwise a row-major copy.
///
/// # Errors
/// A dtype that is not a float, in the name of `op`.
pub fn into_f32(op: &'static str, tensor: Tensor) -> Result<Tensor> {
    if tensor.dtype() == DType::F32 {
        return Ok(tensor);
    }
    let (conversion, size) = (Conversion::of(op, tensor.dtype())?, tensor.dtype().size());
    let tensor = tensor.into_contiguous()?;
    let src = &tensor.storage_bytes()[tensor.layout().offset() * size..];
    Tensor::build::<f32>(op, tensor.shape().clone(), DType::F32, |out| {
        let block = parallel::rows_per_task(size + size_of::<f32>());
        let work = Work::Bytes(out.len() * (size + size_of::<f32>()));
        parallel::for_each_chunk(out, block, work, |k, out| {
            (conversion.read)(&src[k * block * size..][..out.len() * size], out);
        });
    })
}

/// An `f32` tensor in another float dtype: the tensor itself if that is `f32`, otherwise a row-major copy.
///
/// # Errors
/// A dtype that is not a float, in the name of `op`.
pub fn from_f32(op: &'static str, tensor: Tensor, dtype: DType) -> Result<Tensor> {
    if dtype == DType::F32 {
        return Ok(tensor);
    }
    let (conversion, size) = (Conversion::of(op, dtype)?, dtype.size());
    let tensor = tensor.into_contiguous()?;
    let src = tensor.as_slice::<f32>().expect("contiguous");
    let mut blank = Blank::new(op, tensor.shape().clone(), dtype)?;
    let block = parallel::rows_per_task(size + size_of::<f32>());
    let work = Work::Bytes(src.len() * (size + size_of::<f32>()));
    parallel::for_each_chunk(blank.bytes(), block * size, work, |k, out| {
        (conversion.write)(&src[k * block..][..out.len() / size], out);
    });
    Ok(blank.finish())
}
