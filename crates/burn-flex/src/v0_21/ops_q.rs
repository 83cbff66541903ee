//! Operations on quantized tensors.
//!
//! Arithmetic keeps the trait's defaults: dequantize, compute on floats, quantize where the scheme propagates; there is
//! nothing in between that they would skip. Layout and indexing work on the quantized values when one scale serves
//! the whole tensor; block scales belong to positions, so block-quantized tensors pass through floats.

use super::backend::{Flex, FlexDevice, FlexFloat, FlexInt};
use super::convert::{OrPanic, execution_error, transpose};
use super::{FlexQTensor as Q, FlexTensor as T, ops};

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantLevel, QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{DType, ExecutionError, FloatDType, IntDType, Shape, Slice, TensorData};
use flex_core::quant::{self, QTensor};
use flex_core::{Error, Result, Tensor, index, movement, reduce, sort};

impl<F: FlexFloat, I: FlexInt> QTensorOps<Self> for Flex<F, I> {
    fn q_from_data(data: TensorData, _device: &FlexDevice) -> Q {
        match data.dtype {
            DType::QFloat(scheme) => quant::from_bytes(data.bytes, data.shape, scheme),
            other => Err(Error::dtype("q_from_data", other, "a quantized dtype")),
        }
        .or_panic()
    }

    async fn q_into_data(tensor: Q) -> core::result::Result<TensorData, ExecutionError> {
        let (shape, dtype) = (tensor.0.values.shape().clone(), DType::QFloat(tensor.0.scheme));
        let bytes = quant::to_bytes(tensor.0).map_err(execution_error)?;
        Ok(TensorData::from_bytes(bytes, shape, dtype))
    }

    fn quantize(tensor: T, scheme: &QuantScheme, qparams: QuantizationParametersPrimitive<Self>) -> Q {
        quant::quantize(tensor.0, qparams.scales.0, *scheme).or_panic()
    }

    fn quantize_dynamic(tensor: T, scheme: &QuantScheme) -> Q {
        quant::quantize_dynamic(tensor.0, *scheme).or_panic()
    }

    ops! {
        dequantize(tensor: Q, dtype: FloatDType) => quant::dequantize(tensor.0, dtype.into());
    }

    fn q_device(_tensor: &Q) -> FlexDevice {
        FlexDevice
    }

    fn q_to_device(tensor: Q, _device: &FlexDevice) -> Q {
        tensor
    }

    fn q_reshape(tensor: Q, shape: Shape) -> Q {
        rearrange(tensor, |t| t.reshape(shape)).or_panic()
    }

    fn q_expand(tensor: Q, shape: Shape) -> Q {
        rearrange(tensor, |t| t.expand(&shape)).or_panic()
    }

    fn q_transpose(tensor: Q) -> Q {
        rearrange(tensor, |t| transpose(T(t))).or_panic()
    }

    fn q_swap_dims(tensor: Q, dim1: usize, dim2: usize) -> Q {
        rearrange(tensor, |t| t.swap_axes(dim1, dim2)).or_panic()
    }

    fn q_permute(tensor: Q, axes: &[usize]) -> Q {
        rearrange(tensor, |t| t.permute(axes)).or_panic()
    }

    fn q_flip(tensor: Q, axes: &[usize]) -> Q {
        rearrange(tensor, |t| t.flip(axes)).or_panic()
    }

    fn q_slice(tensor: Q, slices: &[Slice]) -> Q {
        rearrange(tensor, |t| t.slice(slices)).or_panic()
    }

    fn q_select(tensor: Q, dim: usize, indices: T) -> Q {
        rearrange(tensor, |t| index::select(t, dim, indices.0)).or_panic()
    }

    fn q_gather(dim: usize, tensor: Q, indices: T) -> Q {
        rearrange(tensor, |t| index::gather(dim, t, indices.0)).or_panic()
    }

    fn q_repeat_dim(tensor: Q, dim: usize, times: usize) -> Q {
        rearrange(tensor, |t| movement::repeat(t, dim, times)).or_panic()
    }

    fn q_sort(tensor: Q, dim: usize, descending: bool) -> Q {
        rearrange(tensor, |t| sort::sort(t, dim, descending)).or_panic()
    }

    fn q_topk(tensor: Q, dim: usize, k: usize) -> Q {
        rearrange(tensor, |t| sort::topk(t, dim, k)).or_panic()
    }

    fn q_max(tensor: Q) -> Q {
        rearrange(tensor, reduce::max).or_panic()
    }

    fn q_min(tensor: Q) -> Q {
        rearrange(tensor, reduce::min).or_panic()
    }

    ops! {
        q_argmax(tensor: Q, dim: usize, out_dtype: IntDType) =>
            comparable(tensor).and_then(|t| reduce::argmax(t, dim, out_dtype.into()));
        q_argmin(tensor: Q, dim: usize, out_dtype: IntDType) =>
            comparable(tensor).and_then(|t| reduce::argmin(t, dim, out_dtype.into()));
        q_argtopk(tensor: Q, dim: usize, k: usize, out_dtype: IntDType) =>
            comparable(tensor).and_then(|t| sort::argtopk(t, dim, k, out_dtype.into()));
        q_argsort(tensor: Q, dim: usize, descending: bool, out_dtype: IntDType) =>
            comparable(tensor).and_then(|t| sort::argsort(t, dim, descending, out_dtype.into()));
    }
}

/// Applies an operation that only moves elements (or picks among them by order).
fn rearrange(tensor: Q, op: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<QTensor> {
    let scheme = tensor.0.scheme;
    match scheme.level {
        QuantLevel::Tensor => Ok(QTensor { values: op(tensor.0.values)?, ..tensor.0 }),
        QuantLevel::Block(_) => {
            let moved = op(quant::dequantize(tensor.0, DType::F32)?)?;
            quant::quantize_dynamic(moved, scheme)
        }
    }
}

/// A tensor whose elements compare as the quantized ones do: the integers themselves under one (positive) scale.
fn comparable(tensor: Q) -> Result<Tensor> {
    match tensor.0.scheme.level {
        QuantLevel::Tensor => Ok(tensor.0.values),
        QuantLevel::Block(_) => quant::dequantize(tensor.0, DType::F32),
    }
}
