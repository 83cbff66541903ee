//! How elements are stored, the type that they are computed in, and scratch memory of that type.

use crate::dtype::Element;
use crate::error::Result;
use crate::float::FloatElement;
use crate::storage;
use crate::{Bytes, DType, Shape, Tensor};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// Pooled memory for intermediate values, initially with arbitrary contents.
pub(super) struct Scratch<T> {
    bytes: Bytes,
    ty: PhantomData<T>,
}

impl<T: Element> Scratch<T> {
    /// Allocates `len` elements. The callers' plans have checked that the number of bytes does not overflow.
    pub fn new(len: usize) -> Self {
        Self { bytes: storage::alloc(len * size_of::<T>()), ty: PhantomData }
    }
}

impl<T: Element> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes)
    }
}

impl<T: Element> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.bytes)
    }
}

/// Values in the computed type: the tensor's own memory, or a converted copy.
pub(super) enum Values<'a, T> {
    Borrowed(&'a [T]),
    Owned(Scratch<T>),
}

impl<'a, T: Element> Values<'a, T> {
    /// Borrows the stored values, or converts them if the computed type differs.
    pub fn of<S: FloatElement + flex_math::StoredFloat<Compute = T>>(values: &'a [S]) -> Self {
        match S::as_compute(values) {
            Some(values) => Self::Borrowed(values),
            None => {
                let mut copy = Scratch::new(values.len());
                S::widen_slice(values, &mut copy);
                Self::Owned(copy)
            }
        }
    }
}

impl<T: Element> Deref for Values<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Borrowed(values) => values,
            Self::Owned(values) => values,
        }
    }
}

/// Calls `f` with a slice of the computed type: `out` itself, or a temporary that is then rounded into `out`.
pub(super) fn compute_into<S: FloatElement, R>(out: &mut [S], f: impl FnOnce(&mut [S::Compute]) -> R) -> R {
    if let Some(out) = S::as_compute_mut(out) {
        return f(out);
    }
    let mut wide = Scratch::new(out.len());
    let result = f(&mut wide);
    S::narrow_slice(&wide, out);
    result
}

/// A result tensor under construction, written in the computed type.
pub(super) struct Output<S: FloatElement> {
    tensor: Tensor,
    wide: Option<Scratch<S::Compute>>,
}

impl<S: FloatElement> Output<S> {
    /// A tensor of arbitrary contents.
    pub fn new(shape: &Shape, dtype: DType) -> Result<Self> {
        let mut tensor = Tensor::empty(shape.clone(), dtype)?;
        let wide =
            S::as_compute_mut(stored(&mut tensor)).is_none().then(|| Scratch::new(shape.num_elements()));
        Ok(Self { tensor, wide })
    }

    /// The elements.
    pub fn values(&mut self) -> &mut [S::Compute] {
        match &mut self.wide {
            Some(wide) => wide,
            None => S::as_compute_mut(stored(&mut self.tensor)).expect("no conversion"),
        }
    }

    /// Returns the tensor; its elements are rounded here if the stored type differs from the computed type.
    pub fn finish(mut self) -> Tensor {
        if let Some(wide) = &self.wide {
            S::narrow_slice(wide, stored(&mut self.tensor));
        }
        self.tensor
    }
}

fn stored<S: FloatElement>(tensor: &mut Tensor) -> &mut [S] {
    tensor.dense_mut().expect("a tensor of our own")
}
