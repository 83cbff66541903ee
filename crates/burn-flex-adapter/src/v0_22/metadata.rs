//! The metadata that Burn asks tensors for.

use super::convert::{burn_shape, dtype};
use super::{FlexDevice, FlexQTensor, FlexTensor};
use burn_backend_22::{DType, Shape, TensorMetadata};

impl TensorMetadata for FlexTensor {
    type Device = FlexDevice;

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

    fn device(&self) -> FlexDevice {
        FlexDevice
    }

    /// Whether an operation may write its result into this tensor's buffer.
    fn can_mut(&self) -> bool {
        self.0.is_unique()
    }
}

impl TensorMetadata for FlexQTensor {
    type Device = FlexDevice;

    fn dtype(&self) -> DType {
        DType::QFloat(self.0.scheme)
    }

    fn shape(&self) -> Shape {
        burn_shape(self.0.tensor.shape())
    }

    fn rank(&self) -> usize {
        self.0.tensor.rank()
    }

    fn device(&self) -> FlexDevice {
        FlexDevice
    }

    /// Whether an operation may write its result into this tensor's codes.
    fn can_mut(&self) -> bool {
        self.0.tensor.values.is_unique()
    }
}
