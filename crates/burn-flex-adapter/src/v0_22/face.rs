//! Methods of upstream's tensors that need no trait in scope. Burn's crates and users' kernels call them:
//! burn-signal does not compile without `dtype`.

use super::convert::{self, OrPanic, dtype};
use super::{FlexDevice, FlexTensor};
use burn_backend_22::{DType, TensorData};
use flex_core::Layout;

impl FlexTensor {
    /// A tensor of these elements, without a copy of them.
    ///
    /// # Panics
    /// If the engine does not store the dtype, or the data has another number of elements than its shape.
    pub fn from_data(data: TensorData) -> Self {
        convert::from_data(data, "from_data", "a dtype of numbers or booleans", |_| true).or_panic()
    }

    /// The elements in row-major order. Copies them if they lie otherwise, or another tensor shares them.
    ///
    /// # Panics
    /// If the system has no memory for a copy.
    pub fn into_data(self) -> TensorData {
        convert::into_data(self).unwrap_or_else(|error| panic!("into_data: {error:?}"))
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        dtype::to_burn(self.0.dtype())
    }

    /// The shape, the strides and the start of the elements in their buffer.
    pub fn layout(&self) -> &Layout {
        self.0.layout()
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.0.is_contiguous()
    }

    /// Whether no other tensor shares the elements.
    pub fn is_unique(&self) -> bool {
        self.0.is_unique()
    }

    /// Where the tensor lies: there is one device.
    pub fn device(&self) -> FlexDevice {
        FlexDevice
    }
}
