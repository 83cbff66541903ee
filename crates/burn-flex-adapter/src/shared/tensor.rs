//! The tensor primitives: newtypes of the engine's tensors, since Burn's traits need types of this crate.

use super::burn_backend::quantization::QuantScheme;
use super::convert::{OrPanic, burn_scheme};
use alloc::boxed::Box;
use flex_core::Tensor;
use flex_core::quant::QTensor;

/// A float, integer or bool tensor of [`Flex`](super::Flex).
///
/// Clones and views share one buffer; writes go to a buffer that nothing else shares.
#[derive(Clone, Debug)]
pub struct FlexTensor(pub(super) Tensor);

impl FlexTensor {
    /// The engine's tensor, with layout, buffer and sharing.
    pub fn as_core(&self) -> &Tensor {
        &self.0
    }

    /// The engine's tensor, without a copy.
    pub fn into_core(self) -> Tensor {
        self.0
    }

    /// Whether both tensors are views of one buffer.
    pub fn shares_storage(&self, other: &Self) -> bool {
        self.0.shares_storage(&other.0)
    }
}

impl From<Tensor> for FlexTensor {
    fn from(tensor: Tensor) -> Self {
        Self(tensor)
    }
}

/// A quantized tensor of [`Flex`](super::Flex): codes, scales, and their scheme.
///
/// Boxed, since Burn passes float tensors as an enum of both kinds. Unboxed, a quantized tensor would make
/// that enum 320 bytes long; a float tensor has 120 bytes.
#[derive(Clone, Debug)]
pub struct FlexQTensor(pub(super) Box<Quantized>);

#[derive(Clone, Debug)]
pub(super) struct Quantized {
    pub(super) tensor: QTensor,
    /// The scheme as Burn's type, which Burn asks for by reference or with every dtype.
    pub(super) scheme: QuantScheme,
}

impl FlexQTensor {
    /// The engine's quantized tensor.
    pub fn as_core(&self) -> &QTensor {
        &self.0.tensor
    }

    /// The engine's quantized tensor, without a copy.
    pub fn into_core(self) -> QTensor {
        self.0.tensor
    }
}

impl From<QTensor> for FlexQTensor {
    /// Scales of blocks are copied if they do not lie in row-major order, in which upstream's `scales` shows
    /// them.
    ///
    /// # Panics
    /// If the system has no memory for the copy.
    fn from(mut tensor: QTensor) -> Self {
        tensor.scales = tensor.scales.into_contiguous().or_panic().0;
        let scheme = burn_scheme(&tensor.scheme);
        Self(Box::new(Quantized { tensor, scheme }))
    }
}
