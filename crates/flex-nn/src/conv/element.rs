//! How elements are stored, the type that they are computed in, and scratch memory of that type.

use super::product::Real;
use crate::dtype::Element;
use crate::error::Result;
use crate::storage;
use crate::{Bytes, DType, Shape, Tensor, bf16, f16};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use flex_math::Half;

/// A stored float type. The half types are computed in `f32` and rounded once.
pub(super) trait Store: Element {
    /// The type of the arithmetic.
    type Acc: Real;
    fn widen(self) -> Self::Acc;
    fn narrow(value: Self::Acc) -> Self;
    /// The slice itself if no conversion is needed.
    fn borrow(values: &[Self]) -> Option<&[Self::Acc]>;
    /// [`borrow`](Self::borrow) of a mutable slice.
    fn borrow_mut(values: &mut [Self]) -> Option<&mut [Self::Acc]>;
    /// Copies with conversion; the slices have the same length.
    fn widen_slice(src: &[Self], dst: &mut [Self::Acc]);
    /// Copies with one rounding; the slices have the same length.
    fn narrow_slice(src: &[Self::Acc], dst: &mut [Self]);
}

macro_rules! impl_store {
    (native $ty:ty) => {
        impl Store for $ty {
            type Acc = $ty;
            #[inline(always)]
            fn widen(self) -> $ty {
                self
            }
            #[inline(always)]
            fn narrow(value: $ty) -> $ty {
                value
            }
            #[inline(always)]
            fn borrow(values: &[$ty]) -> Option<&[$ty]> {
                Some(values)
            }
            #[inline(always)]
            fn borrow_mut(values: &mut [$ty]) -> Option<&mut [$ty]> {
                Some(values)
            }
            #[inline(always)]
            fn widen_slice(src: &[$ty], dst: &mut [$ty]) {
                dst.copy_from_slice(src);
            }
            #[inline(always)]
            fn narrow_slice(src: &[$ty], dst: &mut [$ty]) {
                dst.copy_from_slice(src);
            }
        }
    };
    (half $ty:ty) => {
        impl Store for $ty {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                <$ty as Half>::widen(self.bits())
            }
            #[inline(always)]
            fn narrow(value: f32) -> $ty {
                <$ty as Half>::from_pattern(<$ty as Half>::narrow(value))
            }
            #[inline(always)]
            fn borrow(_: &[$ty]) -> Option<&[f32]> {
                None
            }
            #[inline(always)]
            fn borrow_mut(_: &mut [$ty]) -> Option<&mut [f32]> {
                None
            }
            #[inline(always)]
            fn widen_slice(src: &[$ty], dst: &mut [f32]) {
                flex_math::half::to_f32(src, dst);
            }
            #[inline(always)]
            fn narrow_slice(src: &[f32], dst: &mut [$ty]) {
                flex_math::half::from_f32(src, dst);
            }
        }
    };
}

impl_store!(native f32);
impl_store!(native f64);
impl_store!(half f16);
impl_store!(half bf16);

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
    pub fn of<S: Store<Acc = T>>(values: &'a [S]) -> Self {
        match S::borrow(values) {
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
pub(super) fn compute_into<S: Store, R>(out: &mut [S], f: impl FnOnce(&mut [S::Acc]) -> R) -> R {
    if let Some(out) = S::borrow_mut(out) {
        return f(out);
    }
    let mut wide = Scratch::new(out.len());
    let result = f(&mut wide);
    S::narrow_slice(&wide, out);
    result
}

/// A result tensor under construction, written in the computed type.
pub(super) struct Output<S: Store> {
    tensor: Tensor,
    wide: Option<Scratch<S::Acc>>,
}

impl<S: Store> Output<S> {
    /// A tensor of arbitrary contents.
    pub fn new(shape: &Shape, dtype: DType) -> Result<Self> {
        let mut tensor = Tensor::empty(shape.clone(), dtype)?;
        let wide = S::borrow_mut(stored(&mut tensor)).is_none().then(|| Scratch::new(shape.num_elements()));
        Ok(Self { tensor, wide })
    }

    /// The elements.
    pub fn values(&mut self) -> &mut [S::Acc] {
        match &mut self.wide {
            Some(wide) => wide,
            None => S::borrow_mut(stored(&mut self.tensor)).expect("no conversion"),
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

fn stored<S: Store>(tensor: &mut Tensor) -> &mut [S] {
    tensor.dense_mut().expect("a tensor of our own")
}
