//! Conversions between Burn's types and the engine's.

mod bytes;
pub(super) mod dtype;

use super::scheme::stored_scales;
pub(super) use super::scheme::{parameters, stored, to_burn as burn_scheme, to_engine as scheme};

use super::data::parts;
use super::{FlexQTensor, FlexTensor, burn_backend, burn_std};
use alloc::string::ToString;
use alloc::vec::Vec;
use burn_backend::ops::{self, GridSamplePaddingMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{BoolDType, ExecutionError, Scalar, Shape, TensorData, TensorMetadata};
use burn_std::Bytes;
use flex_core::elementwise::{Binary, binary, cast};
use flex_core::index::Update;
use flex_core::pool;
use flex_core::quant::QTensor;
use flex_core::vision::GridPadding;
use flex_core::{BoolStore, DType, Error, Result, Slice, Tensor, attention, conv, norm};
use smallvec::SmallVec;

/// Turns an error of the engine into a panic with its message, since Burn's traits return no `Result`.
pub(super) trait OrPanic {
    /// The type of the result.
    type Output;

    /// Wraps the result for Burn.
    ///
    /// # Panics
    /// With the engine's message, which starts with the operation's name.
    #[track_caller]
    fn or_panic(self) -> Self::Output;
}

macro_rules! or_panic {
    ($($engine:ty => $burn:ty: $wrap:expr;)*) => {$(
        impl OrPanic for Result<$engine> {
            type Output = $burn;

            #[track_caller]
            #[inline]
            fn or_panic(self) -> $burn {
                match self {
                    Ok(value) => $wrap(value),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    )*};
}

or_panic! {
    Tensor => FlexTensor: FlexTensor;
    (Tensor, Tensor) => (FlexTensor, FlexTensor): |(a, b)| (FlexTensor(a), FlexTensor(b));
    (Tensor, Tensor, Tensor) => (FlexTensor, FlexTensor, FlexTensor):
        |(a, b, c)| (FlexTensor(a), FlexTensor(b), FlexTensor(c));
    QTensor => FlexQTensor: FlexQTensor::from;
    (QTensor, Tensor) => (FlexQTensor, FlexTensor): |(a, b): (QTensor, _)| (FlexQTensor::from(a), FlexTensor(b));
    conv::DeformConvGradients => conv::DeformConvGradients: |gradients| gradients;
    norm::LayerNormGradients => norm::LayerNormGradients: |gradients| gradients;
}

/// Unwraps a list of tensors.
pub(super) fn inner(tensors: Vec<FlexTensor>) -> Vec<Tensor> {
    tensors.into_iter().map(|t| t.0).collect()
}

/// Unwraps an optional tensor.
pub(super) fn optional(tensor: Option<FlexTensor>) -> Option<Tensor> {
    tensor.map(|t| t.0)
}

pub(super) fn scalar(value: Scalar) -> flex_core::Scalar {
    match value {
        Scalar::Float(v) => flex_core::Scalar::Float(v),
        Scalar::Int(v) => flex_core::Scalar::Int(v),
        Scalar::UInt(v) => flex_core::Scalar::UInt(v),
        Scalar::Bool(v) => flex_core::Scalar::Bool(v),
    }
}

/// The engine's shape as Burn's. The opposite direction is `into`: the engine's shape is made from any slice
/// of sizes.
#[inline]
pub(super) fn burn_shape(shape: &flex_core::Shape) -> Shape {
    // Ranks that the compiler knows: copying a slice of unknown length would call `memcpy`, and most
    // operations ask for a shape.
    let (sizes, rank) = match *shape.as_slice() {
        [a] => ([a, 1, 1, 1, 1], 1),
        [a, b] => ([a, b, 1, 1, 1], 2),
        [a, b, c] => ([a, b, c, 1, 1], 3),
        [a, b, c, d] => ([a, b, c, d, 1], 4),
        [a, b, c, d, e] => ([a, b, c, d, e], 5),
        _ => return Shape::from(shape.as_slice()),
    };
    Shape::new_raw(burn_std::SmallVec::from_buf_and_len(sizes, rank))
}

/// The engine's slices.
#[inline]
pub(super) fn slices(slices: &[burn_backend::Slice]) -> SmallVec<[Slice; 5]> {
    let convert = |&burn_backend::Slice { start, end, step }: &_| Slice { start, end, step };
    // Filled in place: `collect` checks the room for every slice, a tenth of the time of a small operation.
    let mut few = [Slice { start: 0, end: None, step: 1 }; 5];
    if slices.len() > few.len() {
        return slices.iter().map(convert).collect();
    }
    for (to, from) in few.iter_mut().zip(slices) {
        *to = convert(from);
    }
    SmallVec::from_buf_and_len(few, slices.len())
}

/// A tensor of data whose dtype `accepts` admits; the engine adopts the buffer without a copy.
pub(super) fn from_data(
    data: TensorData,
    op: &'static str,
    expected: &'static str,
    accepts: fn(burn_backend::DType) -> bool,
) -> Result<Tensor> {
    let (bytes, shape, given) = parts(data);
    if !accepts(given) {
        return Err(dtype::refusal(op, given, expected));
    }
    let (bytes, stored) = match given {
        // `Flex32` is stored as `f32`; only kernels of GPU backends distinguish the two.
        burn_backend::DType::Flex32 => (bytes, burn_backend::DType::F32),
        burn_backend::DType::Bool(burn_backend::BoolStore::U32) => {
            let bools = bytes_of_words(op, &bytes)?;
            (Bytes::from_bytes_vec(bools), burn_backend::DType::Bool(burn_backend::BoolStore::Native))
        }
        _ => (bytes, given),
    };
    let dtype = dtype::checked("from_data", stored, "a float, integer or bool (native, u8) dtype")?;
    Tensor::from_bytes(bytes::to_engine(bytes), shape, dtype)
}

/// The tensor's data; without a copy if nothing else shares the buffer.
pub(super) fn into_data(tensor: FlexTensor) -> core::result::Result<TensorData, ExecutionError> {
    let (shape, dtype) = (burn_shape(tensor.0.shape()), dtype::to_burn(tensor.0.dtype()));
    let bytes = tensor.0.into_bytes().map_err(execution_error)?;
    Ok(TensorData::from_bytes(bytes::to_burn(bytes), shape, dtype))
}

/// Booleans of four bytes, which GPU backends return, as booleans of one byte. Burn's own conversion takes
/// any number of bytes, and fails if they are not aligned for words.
fn bytes_of_words(op: &'static str, bytes: &[u8]) -> Result<Vec<u8>> {
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Error::argument(op, "number of bytes", bytes.len(), "4 for each element"));
    }
    Ok(words.iter().map(|word| u8::from(*word != [0; 4])).collect())
}

/// A quantized tensor of data.
pub(super) fn from_quantized_data(data: TensorData) -> Result<QTensor> {
    let (bytes, shape, dtype) = parts(data);
    match dtype {
        burn_backend::DType::QFloat(burn) => scheme("quantized from_data", &burn)
            .and_then(|scheme| QTensor::from_bytes(&bytes, shape, scheme, stored_scales(&scheme)))
            .map(|tensor| QTensor { scheme: stored(tensor.scheme), ..tensor }),
        other => Err(dtype::refusal("q_from_data", other, "a quantized dtype")),
    }
}

/// The data of a quantized tensor.
pub(super) fn into_quantized_data(tensor: FlexQTensor) -> core::result::Result<TensorData, ExecutionError> {
    let (shape, dtype) = (tensor.shape(), tensor.dtype());
    let tensor = tensor.into_core();
    let bytes = tensor.to_bytes(stored_scales(&tensor.scheme)).map_err(execution_error)?;
    Ok(TensorData::from_bytes(bytes::to_burn(bytes), shape, dtype))
}

pub(super) fn execution_error(error: Error) -> ExecutionError {
    ExecutionError::WithContext { reason: error.to_string() }
}

/// Swaps the last two axes.
pub(super) fn transpose(tensor: FlexTensor) -> Result<Tensor> {
    match tensor.0.rank() {
        rank @ 2.. => tensor.0.swap_axes(rank - 2, rank - 1),
        _ => Err(Error::shape("transpose", tensor.0.shape(), "at least two axes")),
    }
}

/// Powers with integer exponents, of the dtype of `base`. Powers of halves are computed in f32: halves would
/// round large exponents, and with them the sign of a negative number's power. Powers of integers with
/// exponents of another dtype are computed in 64 bits: a narrow dtype would wrap the exponents.
pub(super) fn powers(base: Tensor, exponents: Tensor) -> Result<Tensor> {
    let dtype = base.dtype();
    let wide = match (dtype, exponents.dtype()) {
        (DType::F16 | DType::BF16, _) => DType::F32,
        (base, exponents) if base.is_float() || base == exponents => base,
        (_, DType::U64) => DType::U64,
        _ => DType::I64,
    };
    let powers = binary(Binary::Pow, cast(base, wide)?, cast(exponents, wide)?)?;
    cast(powers, dtype)
}

/// How the booleans of a bool tensor are stored, for operations whose result is stored like their input.
pub(super) fn store_of(tensor: &FlexTensor) -> BoolStore {
    match tensor.0.dtype() {
        DType::Bool(store) => store,
        _ => BoolStore::Native,
    }
}

/// The dtype of index outputs where Burn's trait has no argument for it: `preferred` if it can hold `size`
/// indices, otherwise `i64`.
pub(super) fn index_dtype(preferred: DType, size: usize) -> DType {
    let largest: u64 = match preferred {
        DType::I8 => i8::MAX as u64,
        DType::U8 => u8::MAX as u64,
        DType::I16 => i16::MAX as u64,
        DType::U16 => u16::MAX as u64,
        DType::I32 => i32::MAX as u64,
        DType::U32 => u32::MAX as u64,
        _ => return preferred,
    };
    if size as u64 <= largest.saturating_add(1) { preferred } else { DType::I64 }
}

/// [`index_dtype`] for indices along an axis of an integer tensor; prefers the tensor's dtype.
pub(super) fn axis_index_dtype(tensor: &FlexTensor, axis: usize) -> DType {
    // The operation itself refuses an axis out of range.
    index_dtype(tensor.0.dtype(), tensor.0.shape().get(axis).copied().unwrap_or(0))
}

pub(super) fn update(op: IndexingUpdateOp) -> Update {
    match op {
        IndexingUpdateOp::Assign => Update::Assign,
        IndexingUpdateOp::Add => Update::Add,
        IndexingUpdateOp::Mul => Update::Mul,
        IndexingUpdateOp::Min => Update::Min,
        IndexingUpdateOp::Max => Update::Max,
    }
}

pub(super) fn grid_padding(mode: GridSamplePaddingMode) -> GridPadding {
    match mode {
        GridSamplePaddingMode::Zeros => GridPadding::Zeros,
        GridSamplePaddingMode::Border => GridPadding::Border,
        GridSamplePaddingMode::Reflection => GridPadding::Reflection,
    }
}

pub(super) fn conv_transpose_options<const N: usize>(
    options: ops::ConvTransposeOptions<N>,
) -> conv::ConvTransposeOptions<N> {
    let ops::ConvTransposeOptions { stride, padding, padding_out, dilation, groups } = options;
    conv::ConvTransposeOptions { stride, padding, padding_out, dilation, groups }
}

pub(super) fn deform_conv_options(options: ops::DeformConvOptions<2>) -> conv::DeformConvOptions {
    let ops::DeformConvOptions { stride, padding, dilation, weight_groups, offset_groups } = options;
    conv::DeformConvOptions { stride, padding, dilation, weight_groups, offset_groups }
}

pub(super) fn unfold_options(options: ops::UnfoldOptions) -> conv::UnfoldOptions {
    let ops::UnfoldOptions { stride, padding, dilation } = options;
    conv::UnfoldOptions { stride, padding, dilation }
}

pub(super) fn attention_options(options: ops::AttentionModuleOptions) -> attention::AttentionOptions {
    let ops::AttentionModuleOptions { scale, softcap, is_causal } = options;
    attention::AttentionOptions { scale, softcap, is_causal }
}

pub(super) fn avg_pool_options<const N: usize>(
    kernel: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
    count_include_pad: bool,
    ceil_mode: bool,
) -> pool::AvgPoolOptions<N> {
    pool::AvgPoolOptions { kernel, stride, padding, count_include_pad, ceil_mode }
}

pub(super) fn max_pool_options<const N: usize>(
    kernel: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
    dilation: [usize; N],
    ceil_mode: bool,
) -> pool::MaxPoolOptions<N> {
    pool::MaxPoolOptions { kernel, stride, padding, dilation, ceil_mode }
}

/// A bool tensor of one value.
pub(super) fn full_bools(shape: Shape, value: bool, dtype: BoolDType) -> Result<Tensor> {
    let dtype = dtype::created("full", burn_backend::DType::Bool(dtype));
    flex_core::elementwise::full(shape, flex_core::Scalar::Bool(value), dtype)
}

/// The scalar as a bool: everything but zero is true.
pub(super) fn truth(value: Scalar) -> bool {
    scalar(value).to_f64() != 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_outputs_keep_the_dtype_while_every_index_fits() {
        assert_eq!(index_dtype(DType::I8, 128), DType::I8);
        assert_eq!(index_dtype(DType::I8, 129), DType::I64);
        assert_eq!(index_dtype(DType::U8, 256), DType::U8);
        assert_eq!(index_dtype(DType::U8, 257), DType::I64);
        assert_eq!(index_dtype(DType::U64, usize::MAX), DType::U64);
    }
}
