//! Operations on quantized tensors.
//!
//! Arithmetic keeps the trait's defaults: dequantize, compute on floats, and quantize again if the scheme
//! propagates. Layout and selection move the codes and scales if blocks stay whole.

use flex_core::quant::{self, QTensor, QuantValue};
use flex_core::{DType, Result, Tensor};

macro_rules! quantized_ops {
    () => {
        // Conversion.
        q_ops! {
            q_from_data(data: TensorData, _device: &FlexDevice) => from_quantized_data(data);
            quantize(tensor: T, scheme: &QuantScheme, qparams: QuantizationParametersPrimitive<Self>) =>
                convert::scheme("quantize", scheme).and_then(|scheme| {
                    let (scales, global) = convert::parameters(qparams)?;
                    quant::quantize(tensor.0, scales, global, convert::stored(scheme))
                });
            quantize_dynamic(tensor: T, scheme: &QuantScheme) =>
                convert::scheme("quantize_dynamic", scheme)
                    .and_then(|scheme| quant::quantize_dynamic(tensor.0, convert::stored(scheme)));
        }

        ops! {
            dequantize(tensor: Q, dtype: FloatDType) =>
                quant::dequantize(tensor.into_core(), dtype::float("dequantize", dtype));
        }

        async fn q_into_data(tensor: Q) -> core::result::Result<TensorData, ExecutionError> {
            into_quantized_data(tensor)
        }

        fn q_to_device(tensor: Q, _device: &FlexDevice) -> Q {
            tensor
        }

        // Layout and selection.
        q_ops! {
            q_reshape(tensor: Q, shape: Shape) => tensor.into_core().reshape(shape);
            q_expand(tensor: Q, shape: Shape) => tensor.into_core().expand(&shape);
            q_transpose(tensor: Q) => match tensor.as_core().rank() {
                rank @ 2.. => tensor.into_core().swap_axes(rank - 2, rank - 1),
                _ => Err(flex_core::Error::shape("transpose", tensor.as_core().shape(), "at least two axes")),
            };
            q_swap_dims(tensor: Q, dim1: usize, dim2: usize) => tensor.into_core().swap_axes(dim1, dim2);
            q_permute(tensor: Q, axes: &[usize]) => tensor.into_core().permute(axes);
            q_flip(tensor: Q, axes: &[usize]) => tensor.into_core().flip(axes);
            q_slice(tensor: Q, slices: &[Slice]) => tensor.into_core().slice(&convert::slices(slices));
            q_select(tensor: Q, dim: usize, indices: T) => tensor.into_core().select(dim, indices.0);
            q_gather(dim: usize, tensor: Q, indices: T) => tensor.into_core().gather(dim, indices.0);
            q_repeat_dim(tensor: Q, dim: usize, times: usize) => tensor.into_core().repeat(dim, times);
            q_cat(tensors: Vec<Q>, dim: usize) => quant::cat(tensors.into_iter().map(|t| t.into_core()).collect(), dim);
        }

        // Order: indices come from the tensor of `comparable`, elements are selected by index.
        ops! {
            q_argmax(tensor: Q, dim: usize, out_dtype: IntDType) =>
                quantized_ops::comparable(tensor.into_core()).and_then(|t| reduce::argmax(t, dim, dtype::int(out_dtype)));
            q_argmin(tensor: Q, dim: usize, out_dtype: IntDType) =>
                quantized_ops::comparable(tensor.into_core()).and_then(|t| reduce::argmin(t, dim, dtype::int(out_dtype)));
            q_argtopk(tensor: Q, dim: usize, k: usize, out_dtype: IntDType) =>
                quantized_ops::comparable(tensor.into_core()).and_then(|t| sort::argtopk(t, dim, k, dtype::int(out_dtype)));
            q_argsort(tensor: Q, dim: usize, descending: bool, out_dtype: IntDType) =>
                quantized_ops::comparable(tensor.into_core()).and_then(|t| sort::argsort(t, dim, descending, dtype::int(out_dtype)));
        }

        q_ops! {
            // The trait's default returns the element of the largest magnitude, with its sign.
            q_max_abs(tensor: Q) => tensor.into_core().map_numbers(reduce::max_abs);
            q_max_abs_dim(tensor: Q, dim: usize) => tensor.into_core().map_numbers(|t| reduce::max_abs_dim(t, dim));
            // The trait's default asks for indices of the default dtype, which may be too narrow for the
            // axis.
            q_max_dim(tensor: Q, dim: usize) =>
                quantized_ops::picked("max_dim", tensor.into_core(), dim, |t| reduce::argmax(t, dim, flex_core::DType::I64));
            q_min_dim(tensor: Q, dim: usize) =>
                quantized_ops::picked("min_dim", tensor.into_core(), dim, |t| reduce::argmin(t, dim, flex_core::DType::I64));
            q_topk(tensor: Q, dim: usize, k: usize) =>
                quantized_ops::picked("topk", tensor.into_core(), dim, |t| sort::argtopk(t, dim, k, flex_core::DType::I64));
            q_sort(tensor: Q, dim: usize, descending: bool) =>
                quantized_ops::picked("sort", tensor.into_core(), dim, |t| sort::argsort(t, dim, descending, flex_core::DType::I64));
        }

        fn q_sort_with_indices(tensor: Q, dim: usize, descending: bool, out_dtype: IntDType) -> (Q, T) {
            let pick = |t| sort::argsort(t, dim, descending, dtype::int(out_dtype));
            quantized_ops::by_index("sort_with_indices", tensor.into_core(), dim, pick).or_panic()
        }
    };
}

/// A tensor whose elements compare like the quantized ones: the codes if they are integers with a single,
/// positive scale, otherwise the dequantized numbers. Quantization makes positive scales, but scales that
/// were read from a file may be anything.
pub(crate) fn comparable(tensor: QTensor) -> Result<Tensor> {
    let of_integers = !matches!(tensor.scheme.value, QuantValue::E4M3 | QuantValue::E5M2 | QuantValue::E2M1);
    if of_integers && tensor.is_per_tensor() && tensor.scales.item::<f32>() > 0.0 {
        return Ok(tensor.values);
    }
    quant::dequantize(tensor, DType::F32)
}

/// The elements along an axis at the indices from `pick`. Errors name `op`.
pub(crate) fn picked(
    op: &'static str,
    tensor: QTensor,
    axis: usize,
    pick: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<QTensor> {
    by_index(op, tensor, axis, pick).map(|(picked, _)| picked)
}

/// The elements along an axis at the indices from `pick`, and the indices. Errors name `op`.
pub(crate) fn by_index(
    op: &'static str,
    tensor: QTensor,
    axis: usize,
    pick: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<(QTensor, Tensor)> {
    let indices = comparable(tensor.clone()).and_then(pick).map_err(|error| error.named(op))?;
    Ok((tensor.gather(axis, indices.clone())?, indices))
}
