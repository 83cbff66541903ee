//! The metadata that Burn asks tensors for.

use super::convert::{burn_shape, dtype};
use super::{FlexQTensor, FlexTensor};
use burn_backend_21::quantization::{QuantScheme, QuantStore};
use burn_backend_21::{DType, QTensorPrimitive, Shape, TensorMetadata};

impl TensorMetadata for FlexTensor {
    #[inline]
    fn dtype(&self) -> DType {
        dtype::to_burn(self.0.dtype())
    }

    #[inline]
    fn shape(&self) -> Shape {
        burn_shape(self.0.shape())
    }

    fn rank(&self) -> usize {
        self.0.rank()
    }
}

impl TensorMetadata for FlexQTensor {
    fn dtype(&self) -> DType {
        DType::QFloat(self.0.scheme)
    }

    fn shape(&self) -> Shape {
        burn_shape(self.0.tensor.shape())
    }

    fn rank(&self) -> usize {
        self.0.tensor.rank()
    }
}

impl QTensorPrimitive for FlexQTensor {
    fn scheme(&self) -> &QuantScheme {
        &self.0.scheme
    }

    fn default_scheme() -> QuantScheme {
        QuantScheme::default().with_store(QuantStore::Native)
    }
}
