// What Burn 0.21 calls by other names than later releases. The rows are written in the names that stand
// here; the package for another release, such as `burn-0.22/burn-tests`, has a file of this name with its
// own.

use burn_backend::ops::{InterpolateMode, MaxPool1dWithIndices, MaxPool2dWithIndices};
pub(crate) use burn_backend::quantization::{QuantLevel, QuantParam};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive};
use burn_backend::tensor::{FloatTensor, QuantizedTensor};
use burn_backend::{DType, Element, QTensorPrimitive, Shape, TensorData};
use burn_std::Bytes;

/// Whether data can be made whose bytes do not fit its shape and dtype.
pub(crate) const MISLABELLED: bool = true;

/// Burn's backends, with the methods that the rows call and this release has under other names: none.
pub trait Backend: burn_backend::Backend {}
impl<B: burn_backend::Backend> Backend for B {}

pub(crate) fn max_pool1d_with_indices<B: Backend>(
    x: FloatTensor<B>,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil: bool,
) -> MaxPool1dWithIndices<B> {
    B::max_pool1d_with_indices(x, kernel, stride, padding, dilation, ceil)
}

pub(crate) fn max_pool2d_with_indices<B: Backend>(
    x: FloatTensor<B>,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil: bool,
) -> MaxPool2dWithIndices<B> {
    B::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil)
}

/// A convolution's padding by these numbers at both ends of each axis.
pub(crate) fn pads<const N: usize>(padding: [usize; N]) -> [usize; N] {
    padding
}

pub(crate) fn is_nearest_exact(_: &InterpolateMode) -> bool {
    false
}

/// The elements.
///
/// # Panics
/// If the data has another dtype.
pub(crate) fn values<E: Element>(data: &TensorData) -> Vec<E> {
    data.to_vec().expect("the dtype")
}

/// Data of these parts, which need not fit each other.
pub(crate) fn data(bytes: Bytes, shape: Shape, dtype: DType) -> TensorData {
    TensorData { bytes, shape, dtype }
}

pub(crate) fn shape_of(data: &TensorData) -> &Shape {
    &data.shape
}

pub(crate) fn dtype_of(data: &TensorData) -> DType {
    data.dtype
}

pub(crate) fn scheme_of<B: Backend>(tensor: &QuantizedTensor<B>) -> QuantScheme {
    *tensor.scheme()
}

/// A scheme by its parts.
pub(crate) fn scheme(
    value: QuantValue,
    param: QuantParam,
    store: QuantStore,
    level: QuantLevel,
) -> QuantScheme {
    QuantScheme::default().with_value(value).with_param(param).with_store(store).with_level(level)
}

pub(crate) fn level_of(scheme: &QuantScheme) -> QuantLevel {
    scheme.level
}

pub(crate) fn param_of(scheme: &QuantScheme) -> QuantParam {
    scheme.param
}

/// Given scales, of one level.
pub(crate) fn parameters<B: Backend>(scales: FloatTensor<B>) -> QuantizationParametersPrimitive<B> {
    QuantizationParametersPrimitive { scales }
}

/// Schemes that Burn has and a backend of this release refuses.
pub(crate) const REFUSED: &[(&str, QuantParam)] = &[
    ("scales of 8 bits", QuantParam::UE8M0),
    ("scales of 8 bits with a mantissa", QuantParam::UE4M3),
];

/// Methods of which Burn's autodiff computes some derivatives wrong.
pub(crate) const WRONG_DERIVATIVES: &[&str] = &["float_div_scalar", "float_repeat_dim", "float_cumprod"];
