//! Methods of upstream's tensors that need no trait in scope. Burn's crates and users' kernels call them:
//! burn-signal does not compile without `dtype`.

use super::convert::{self, OrPanic, dtype};
use super::{FlexDevice, FlexQTensor, FlexTensor};
use burn_backend_22::{DType, Element, Shape, TensorData};
use flex_core::{Layout, Tensor};

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

    /// The bytes of the buffer, of which a view shows a part: [`layout`](Self::layout) says which.
    pub fn bytes(&self) -> &[u8] {
        self.0.storage_bytes()
    }

    /// The elements of the buffer, of which a view shows a part: [`layout`](Self::layout) says which.
    ///
    /// # Panics
    /// If the tensor has another dtype. Booleans are read as `u8`.
    pub fn storage<E: Element + bytemuck::Pod>(&self) -> &[E] {
        self.assert_stores::<E>("storage");
        bytemuck::cast_slice(self.0.storage_bytes())
    }

    /// The elements of the buffer, to be written; `None` if another tensor shares them.
    ///
    /// # Panics
    /// If the tensor has another dtype. Booleans are written as `u8`.
    pub fn try_storage_mut<E: Element + bytemuck::Pod>(&mut self) -> Option<&mut [E]> {
        self.assert_stores::<E>("try_storage_mut");
        self.0.storage_bytes_mut().map(bytemuck::cast_slice_mut)
    }

    /// The elements in row-major order; `None` if they lie in another order, or the tensor has another dtype.
    pub fn as_slice<E: Element + bytemuck::Pod>(&self) -> Option<&[E]> {
        let start = self.0.layout().offset();
        let found = E::dtype() == self.dtype() && self.is_contiguous();
        found.then(|| &self.storage::<E>()[start..start + self.0.num_elements()])
    }

    fn assert_stores<E: Element>(&self, op: &str) {
        let (asked, dtype) = (E::dtype(), self.dtype());
        let fits = asked == dtype || asked == DType::U8 && dtype.is_bool();
        assert!(fits, "{op}: the tensor's dtype is {dtype:?}, and not {asked:?}");
    }

    /// The same elements, in row-major order without gaps, alone in their buffer: [`storage`](Self::storage)
    /// and [`bytes`](Self::bytes) show them and nothing else.
    ///
    /// # Panics
    /// If the system has no memory for a copy.
    pub fn to_contiguous(&self) -> Self {
        // The engine also calls a part of a larger buffer contiguous.
        if self.0.fills_buffer() { self.clone() } else { self.0.materialise().or_panic() }
    }

    /// The same elements in another shape; a view where the strides allow.
    ///
    /// # Panics
    /// If the numbers of elements differ.
    pub fn reshape(&self, shape: Shape) -> Self {
        self.0.clone().reshape(shape).or_panic()
    }

    /// A view with two axes swapped.
    ///
    /// # Panics
    /// If an axis is out of range.
    pub fn transpose(&self, dim1: usize, dim2: usize) -> Self {
        self.0.clone().swap_axes(dim1, dim2).or_panic()
    }

    /// A view of `len` places of an axis, from `start`.
    ///
    /// # Panics
    /// If the axis or the places are out of range.
    pub fn narrow(&self, dim: usize, start: usize, len: usize) -> Self {
        self.0.clone().narrow(dim, start, len).or_panic()
    }

    /// A view with its axes in another order.
    ///
    /// # Panics
    /// If `axes` is not a permutation.
    pub fn permute(&self, axes: &[usize]) -> Self {
        self.0.clone().permute(axes).or_panic()
    }

    /// A tensor of zeros, as upstream's function of this name returns.
    ///
    /// # Panics
    /// If the engine does not store the dtype, or the system has no memory.
    pub fn empty(shape: Shape, dtype: DType) -> Self {
        Self::zeros(shape, dtype)
    }

    /// A tensor of zeros.
    ///
    /// # Panics
    /// If the engine does not store the dtype, or the system has no memory.
    pub fn zeros(shape: Shape, dtype: DType) -> Self {
        Tensor::full(shape, 0.0, dtype::created("zeros", dtype)).or_panic()
    }
}

impl FlexQTensor {
    /// The scales: one for the tensor, or one for each block. In a scheme of two levels they are relative to
    /// a scale of the tensor.
    pub fn scales(&self) -> &[f32] {
        self.as_core().scales.as_slice().expect("scales in row-major order")
    }
}
