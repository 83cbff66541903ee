// Burn 0.22 in the names of the suite's rows, which are those of Burn 0.21.

use burn_backend::ops::{InterpolateMode, MaxPool1dWithIndices, MaxPool2dWithIndices};
pub(crate) use burn_backend::quantization::ScaleDtype as QuantParam;
use burn_backend::quantization::{
    BlockSize, QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive,
};
use burn_backend::tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor};
use burn_backend::{DType, Element, IntDType, Shape, TensorData, TensorMetadata, get_device_settings};
use burn_flex::{FlexTensor, ops::fft};
use burn_std::Bytes;
use std::any::Any;

/// Whether data can be made whose bytes do not fit its shape and dtype: Burn checks it.
pub(crate) const MISLABELLED: bool = false;

/// Burn's backends, with the methods that the rows call and this release has under other names.
pub trait Backend: burn_backend::Backend {
    fn float_scatter_add(
        dim: usize,
        tensor: FloatTensor<Self>,
        indices: IntTensor<Self>,
        value: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::float_scatter(dim, tensor, indices, value, IndexingUpdateOp::Add)
    }

    fn float_select_add(
        tensor: FloatTensor<Self>,
        dim: usize,
        indices: IntTensor<Self>,
        value: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::float_select_assign(tensor, dim, indices, value, IndexingUpdateOp::Add)
    }

    fn int_scatter_add(
        dim: usize,
        tensor: IntTensor<Self>,
        indices: IntTensor<Self>,
        value: IntTensor<Self>,
    ) -> IntTensor<Self> {
        Self::int_scatter(dim, tensor, indices, value, IndexingUpdateOp::Add)
    }

    fn int_select_add(
        tensor: IntTensor<Self>,
        dim: usize,
        indices: IntTensor<Self>,
        value: IntTensor<Self>,
    ) -> IntTensor<Self> {
        Self::int_select_assign(tensor, dim, indices, value, IndexingUpdateOp::Add)
    }

    fn float_device(tensor: &FloatTensor<Self>) -> Device<Self> {
        tensor.device()
    }

    fn int_device(tensor: &IntTensor<Self>) -> Device<Self> {
        tensor.device()
    }

    fn bool_device(tensor: &BoolTensor<Self>) -> Device<Self> {
        tensor.device()
    }

    fn q_device(tensor: &QuantizedTensor<Self>) -> Device<Self> {
        tensor.device()
    }

    /// Burn's crate for signals calls functions of the backends' crates by name; so does this, for Flex.
    ///
    /// # Panics
    /// On another backend: leave this method out.
    fn rfft(
        signal: FloatTensor<Self>,
        dim: usize,
        n: Option<usize>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let signal = flex(signal);
        let rfft = match signal.dtype() {
            DType::F64 => fft::rfft_f64,
            DType::F32 => fft::rfft_f32,
            DType::F16 => fft::rfft_f16,
            _ => fft::rfft_bf16,
        };
        let (re, im) = rfft(signal, dim, n);
        (same(re).expect("Flex's type"), same(im).expect("Flex's type"))
    }

    /// As [`rfft`](Self::rfft).
    ///
    /// # Panics
    /// As [`rfft`](Self::rfft).
    fn irfft(
        re: FloatTensor<Self>,
        im: FloatTensor<Self>,
        dim: usize,
        n: Option<usize>,
    ) -> FloatTensor<Self> {
        let (re, im) = (flex(re), flex(im));
        let irfft = match re.dtype() {
            DType::F64 => fft::irfft_f64,
            DType::F32 => fft::irfft_f32,
            DType::F16 => fft::irfft_f16,
            _ => fft::irfft_bf16,
        };
        same(irfft(re, im, dim, n)).expect("Flex's type")
    }
}

impl<B: burn_backend::Backend> Backend for B {}

/// A tensor of Flex.
///
/// # Panics
/// If the tensor is of another backend.
fn flex<T: 'static>(tensor: T) -> FlexTensor {
    same(tensor).expect("Burn 0.22's traits have no Fourier transform")
}

/// The value, if both types are the same.
fn same<T: 'static, U: 'static>(value: T) -> Option<U> {
    let value: Box<dyn Any> = Box::new(value);
    value.downcast().ok().map(|value| *value)
}

fn index_dtype<B: Backend>(x: &FloatTensor<B>) -> IntDType {
    get_device_settings::<B>(&x.device()).int_dtype
}

pub(crate) fn max_pool1d_with_indices<B: Backend>(
    x: FloatTensor<B>,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil: bool,
) -> MaxPool1dWithIndices<B> {
    let dtype = index_dtype::<B>(&x);
    B::max_pool1d_with_indices(x, kernel, stride, padding, dilation, ceil, dtype)
}

pub(crate) fn max_pool2d_with_indices<B: Backend>(
    x: FloatTensor<B>,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil: bool,
) -> MaxPool2dWithIndices<B> {
    let dtype = index_dtype::<B>(&x);
    B::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil, dtype)
}

/// A convolution's padding by these numbers at both ends of each axis.
pub(crate) fn pads<const N: usize>(padding: [usize; N]) -> [(usize, usize); N] {
    padding.map(|ends| (ends, ends))
}

pub(crate) fn is_nearest_exact(mode: &InterpolateMode) -> bool {
    matches!(mode, InterpolateMode::NearestExact)
}

/// The elements.
///
/// # Panics
/// If the data has another dtype.
pub(crate) fn values<E: Element>(data: &TensorData) -> Vec<E> {
    data.try_to_vec().expect("the dtype")
}

/// Data of these parts; only the bytes of quantized data need not fit the rest.
pub(crate) fn data(bytes: Bytes, shape: Shape, dtype: DType) -> TensorData {
    TensorData::from_bytes(bytes, shape, dtype)
}

pub(crate) fn shape_of(data: &TensorData) -> &Shape {
    data.shape()
}

pub(crate) fn dtype_of(data: &TensorData) -> DType {
    data.dtype()
}

pub(crate) fn scheme_of<B: Backend>(tensor: &QuantizedTensor<B>) -> QuantScheme {
    tensor.scheme()
}

/// The part of a tensor that shares a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum QuantLevel {
    Tensor,
    Block(BlockSize),
}

impl QuantLevel {
    pub(crate) fn block(sizes: impl AsRef<[u8]>) -> Self {
        Self::Block(BlockSize::new(sizes))
    }
}

/// A scheme by its parts.
pub(crate) fn scheme(
    value: QuantValue,
    param: QuantParam,
    store: QuantStore,
    level: QuantLevel,
) -> QuantScheme {
    let scheme = QuantScheme::default().with_value(value).with_store(store);
    match level {
        QuantLevel::Tensor => scheme.per_tensor(param),
        QuantLevel::Block(sizes) => scheme.per_block(sizes.as_slice(), param),
    }
}

pub(crate) fn level_of(scheme: &QuantScheme) -> QuantLevel {
    scheme.block_size().map_or(QuantLevel::Tensor, QuantLevel::Block)
}

pub(crate) fn param_of(scheme: &QuantScheme) -> QuantParam {
    scheme.scale_dtype()
}

/// Given scales, of one level.
pub(crate) fn parameters<B: Backend>(scales: FloatTensor<B>) -> QuantizationParametersPrimitive<B> {
    QuantizationParametersPrimitive { scales, global: None }
}

/// Schemes that Burn has and a backend of this release refuses.
pub(crate) const REFUSED: &[(&str, QuantParam)] = &[];

/// Methods of which Burn's autodiff computes some derivatives wrong.
pub(crate) const WRONG_DERIVATIVES: &[&str] = &["float_div_scalar"];
