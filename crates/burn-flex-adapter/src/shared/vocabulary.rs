//! The names in which the lists of operations are written: the engine's functions, Burn's types of the
//! release, and the conversions between them.

pub(super) use super::burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions,
    GridSampleOptions, InterpolateOptions, MaxPool1dBackward, MaxPool1dWithIndices, MaxPool2dBackward,
    MaxPool2dWithIndices, UnfoldOptions,
};
pub(super) use super::burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
pub(super) use super::burn_backend::tensor::IndexingUpdateOp;
pub(super) use super::burn_backend::{
    BoolDType, DType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
};
pub(super) use super::convert::{
    self, OrPanic, attention_options, axis_index_dtype, conv_transpose_options, deform_conv_options, dtype,
    from_data, from_quantized_data, grid_padding, inner, into_data, into_quantized_data, optional, scalar,
    store_of, transpose, unfold_options, update,
};
pub(super) use super::options::{self, interpolation};
pub(super) use super::random;
pub(super) use super::{FlexDevice, FlexQTensor as Q, FlexTensor as T};
pub(super) use crate::shared::quantized_ops;
pub(super) use alloc::vec::Vec;
pub(super) use core::ops::Range;
pub(super) use flex_core::elementwise::{
    self, Binary as B, Compare as C, Logical, Unary as U, binary, binary_scalar, cast, compare,
    compare_scalar, logical, logical_not, unary,
};
pub(super) use flex_core::index::{self, Update};
pub(super) use flex_core::{
    Tensor, attention, conv, loss, matmul, movement, norm, pool, quant, reduce, sort, vision,
};
