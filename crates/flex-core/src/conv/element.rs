//! How elements are stored and what they are computed in, and scratch memory for the latter.

use super::product::Real;
use crate::dtype::Element;
use crate::storage;
use burn_std::{Bytes, bf16, f16};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use flex_math::Half;
use flex_math::simd::vectorize;

/// A stored float. The half types are computed in `f32` and rounded once.
pub(super) trait Store: Element {
    /// What it is computed in.
    type Acc: Real;
    fn widen(self) -> Self::Acc;
    fn narrow(value: Self::Acc) -> Self;
    /// The values themselves where no conversion is needed.
    fn borrow(values: &[Self]) -> Option<&[Self::Acc]>;
    /// [`borrow`](Self::borrow) for writing.
    fn borrow_mut(values: &mut [Self]) -> Option<&mut [Self::Acc]>;
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
            fn borrow(values: &[$ty]) -> Option<&[$ty]> {
                Some(values)
            }
            fn borrow_mut(values: &mut [$ty]) -> Option<&mut [$ty]> {
                Some(values)
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
            fn borrow(_: &[$ty]) -> Option<&[f32]> {
                None
            }
            fn borrow_mut(_: &mut [$ty]) -> Option<&mut [f32]> {
                None
            }
        }
    };
}

impl_store!(native f32);
impl_store!(native f64);
impl_store!(half f16);
impl_store!(half bf16);

/// Copies with conversion.
#[inline(always)]
pub(super) fn widen_slice<S: Store>(src: &[S], dst: &mut [S::Acc]) {
    match S::borrow(src) {
        Some(src) => dst.copy_from_slice(src),
        None => dst.iter_mut().zip(src).for_each(
            #[inline(always)]
            |(d, s)| *d = s.widen(),
        ),
    }
}

/// Copies with one rounding.
pub(super) fn narrow_slice<S: Store>(src: &[S::Acc], dst: &mut [S]) {
    match S::borrow_mut(dst) {
        Some(dst) => dst.copy_from_slice(src),
        None => vectorize(
            #[inline(always)]
            || {
                for (d, s) in dst.iter_mut().zip(src) {
                    *d = S::narrow(*s);
                }
            },
        ),
    }
}

/// Pooled memory for intermediate values, with arbitrary contents.
pub(super) struct Scratch<T> {
    bytes: Bytes,
    ty: PhantomData<T>,
}

impl<T: Element> Scratch<T> {
    /// `len` elements; the callers' plans have checked that their bytes can be counted.
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

/// Values in the type that they are computed in: the tensor's own memory, or a converted copy.
pub(super) enum Values<'a, T> {
    Borrowed(&'a [T]),
    Owned(Scratch<T>),
}

impl<'a, T: Element> Values<'a, T> {
    /// Converts the stored values if they have to be.
    pub fn of<S: Store<Acc = T>>(values: &'a [S]) -> Self {
        match S::borrow(values) {
            Some(values) => Self::Borrowed(values),
            None => {
                let mut copy = Scratch::new(values.len());
                vectorize(
                    #[inline(always)]
                    || widen_slice(values, &mut copy),
                );
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

/// Lets `f` write a result in the type that it is computed in; rounds it into `out` where that is another type.
pub(super) fn compute_into<S: Store, R>(out: &mut [S], f: impl FnOnce(&mut [S::Acc]) -> R) -> R {
    if let Some(out) = S::borrow_mut(out) {
        return f(out);
    }
    let mut wide = Scratch::new(out.len());
    let result = f(&mut wide);
    narrow_slice(&wide, out);
    result
}
