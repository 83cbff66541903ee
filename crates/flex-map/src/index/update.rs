//! The updates of single elements, as kernels over rows and over lists of positions.
//!
//! The loops that distribute the updates are compiled for raw bits of four widths. Only the kernels know the
//! dtype; they are called through two function pointers per dtype and [`Update`].

use super::Update;
use crate::error::{Error, Result};
use crate::{DType, Element, bf16, f16};
use core::marker::PhantomData;
use core::ops::BitOr;
use flex_math::simd::vectorize_lean;

/// One kind of update of one dtype, whose elements are passed as bits of type `B`.
pub(super) struct UpdateKernel<B> {
    /// `out[i] = combine(out[i], values[i])`.
    pub row: fn(out: &mut [B], values: &[B]),
    /// `out[positions[i]] = combine(out[positions[i]], values[i])`, in order.
    pub at: fn(out: &mut [B], positions: &[usize], values: &[B]),
}

/// The kernel for a dtype whose elements have the size of `B`.
pub(super) fn kernel<B: Updatable + BitOr<Output = B>>(
    op: &'static str,
    dtype: DType,
    update: Update,
) -> Result<UpdateKernel<B>> {
    let update = match (dtype.is_bool(), update) {
        (true, Update::Add | Update::Max) => Update::Or,
        (true, Update::Mul) => Update::Min,
        (_, update) => update,
    };
    dispatch!(any op, dtype, T => {
        if Widths::<B, T>::EQUAL {
            make::<B, T>(op, dtype, update)
        } else {
            Err(Error::argument(op, "width", size_of::<B>(), "the width of the dtype"))
        }
    })
}

/// Whether `B` has the size of `T`; a constant, so that kernels for other pairs are never compiled.
struct Widths<B, T>(PhantomData<(B, T)>);

impl<B, T> Widths<B, T> {
    const EQUAL: bool = size_of::<B>() == size_of::<T>();
}

fn make<B: Updatable + BitOr<Output = B>, T: Updatable>(
    op: &'static str,
    dtype: DType,
    update: Update,
) -> Result<UpdateKernel<B>> {
    Ok(match update {
        Update::Assign => UpdateKernel::new::<B, Assign>(),
        Update::Add if T::IS_FLOAT => UpdateKernel::new::<T, Add>(),
        Update::Mul if T::IS_FLOAT => UpdateKernel::new::<T, Mul>(),
        // Signed and unsigned integers have the same bits.
        Update::Add => UpdateKernel::new::<B, Add>(),
        Update::Mul => UpdateKernel::new::<B, Mul>(),
        Update::Min => UpdateKernel::new::<T, Min>(),
        Update::Max => UpdateKernel::new::<T, Max>(),
        Update::Or if T::IS_FLOAT => return Err(Error::dtype(op, dtype, "a bool or integer dtype")),
        Update::Or => UpdateKernel::new::<B, Or>(),
    })
}

impl<B: Element> UpdateKernel<B> {
    fn new<T: Element, C: UpdateFn<T>>() -> Self {
        Self {
            row: |out, values| {
                let (out, values) =
                    (bytemuck::cast_slice_mut::<B, T>(out), bytemuck::cast_slice::<B, T>(values));
                vectorize_lean(
                    #[inline(always)]
                    || out.iter_mut().zip(values).for_each(|(o, &v)| *o = C::combine(*o, v)),
                );
            },
            at: |out, positions, values| {
                let (out, values) =
                    (bytemuck::cast_slice_mut::<B, T>(out), bytemuck::cast_slice::<B, T>(values));
                for (&position, &v) in positions.iter().zip(values) {
                    let o = &mut out[position];
                    *o = C::combine(*o, v);
                }
            },
        }
    }
}

trait UpdateFn<T> {
    fn combine(there: T, value: T) -> T;
}

macro_rules! combine {
    ($($name:ident $method:ident)*) => {$(
        struct $name;
        impl<T: Updatable> UpdateFn<T> for $name {
            #[inline(always)]
            fn combine(there: T, value: T) -> T {
                there.$method(value)
            }
        }
    )*};
}
combine!(Assign assign  Add add  Mul mul  Min min  Max max);

/// Of the bits of integers and booleans.
struct Or;

impl<B: BitOr<Output = B>> UpdateFn<B> for Or {
    #[inline(always)]
    fn combine(there: B, value: B) -> B {
        there | value
    }
}

/// The arithmetic of the updates. Not the operators of `core`: integer operators may panic on overflow, and
/// `min` drops NaN.
pub(super) trait Updatable: Element {
    #[inline(always)]
    fn assign(self, value: Self) -> Self {
        value
    }
    fn add(self, value: Self) -> Self;
    fn mul(self, value: Self) -> Self;
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
    fn min(self, value: Self) -> Self {
        if self < value || self != self { self } else { value }
    }
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
    fn max(self, value: Self) -> Self {
        if self > value || self != self { self } else { value }
    }
}

macro_rules! float {
    ($($T:ty)*) => {$(
        impl Updatable for $T {
            #[inline(always)]
            fn add(self, value: Self) -> Self { self + value }
            #[inline(always)]
            fn mul(self, value: Self) -> Self { self * value }
        }
    )*};
}
float!(f64 f32 f16 bf16);

macro_rules! int {
    ($($T:ty)*) => {$(
        impl Updatable for $T {
            #[inline(always)]
            fn add(self, value: Self) -> Self { self.wrapping_add(value) }
            #[inline(always)]
            fn mul(self, value: Self) -> Self { self.wrapping_mul(value) }
        }
    )*};
}
int!(i64 i32 i16 i8 u64 u32 u16 u8);

/// Whether many updates of one element would lose precision in this dtype, so that they are computed in
/// `f32`.
pub(super) fn widens(dtype: DType, update: Update) -> bool {
    matches!(dtype, DType::F16 | DType::BF16) && matches!(update, Update::Add | Update::Mul)
}
