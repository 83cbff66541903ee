//! The requirements of the product kernels on an element type: an accumulator, conversions, and arithmetic.

use crate::dtype::Element;
use crate::{bf16, f16};
use flex_math::Half;
use flex_math::half::{from_f32, to_f32};
use flex_math::simd::{Scalar, Simd, VAdd, VFma, VMul, VMulAdd, Vector, load, vectorize_lean};

/// An element of a matrix product. Half floats accumulate in f32. Integers wrap, and `u8` accumulates in
/// `u16`, which has the same low byte. Signed integers use the unsigned type of their width: the low bits of
/// sums and products do not depend on the sign.
pub(crate) trait Lane: Element {
    /// Type of the accumulators.
    type Acc: Wide;
    /// Whether it is the element type: another one is larger.
    const IS_WIDE: bool = size_of::<Self>() == size_of::<Self::Acc>();
    /// The value in the accumulator type, exactly.
    fn widen(self) -> Self::Acc;
    /// The sum as an element, rounded or wrapped.
    fn narrow(acc: Self::Acc) -> Self;
    /// `a * b + c`.
    fn mul_add(a: Self::Acc, b: Self::Acc, c: Self::Acc) -> Self::Acc;
    /// `a * b + c` in every lane.
    fn mul_add_lanes<S: Simd>(
        a: Vector<S, Self::Acc>,
        b: Vector<S, Self::Acc>,
        c: Vector<S, Self::Acc>,
    ) -> Vector<S, Self::Acc>;
    /// [`mul_add`](Self::mul_add) in every lane: of floats, rounded twice.
    fn mul_then_add_lanes<S: Simd>(
        a: Vector<S, Self::Acc>,
        b: Vector<S, Self::Acc>,
        c: Vector<S, Self::Acc>,
    ) -> Vector<S, Self::Acc>;
    /// The elements in the accumulator type, if no conversion is needed.
    #[inline(always)]
    fn as_terms(values: &[Self]) -> Option<&[Self::Acc]> {
        if const { Self::IS_WIDE } { Some(bytemuck::cast_slice(values)) } else { None }
    }
    /// A vector of accumulators from as many elements.
    fn load_lanes<S: Simd>(from: &[Self]) -> Vector<S, Self::Acc>;
    /// [`widen`](Self::widen) of slices of the same length.
    fn widen_all(from: &[Self], to: &mut [Self::Acc]);
    /// [`narrow`](Self::narrow) of slices of the same length.
    fn narrow_all(from: &[Self::Acc], to: &mut [Self]);
    /// `a + b`.
    fn plus(a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

/// A type of accumulators. It is an element type with no other accumulators.
pub(crate) trait Wide: Lane<Acc = Self> + VMulAdd + VAdd {}

impl<A: Lane<Acc = A> + VMulAdd + VAdd> Wide for A {}

/// `a * b + c`, rounded once where one instruction does that; elsewhere a fused operation is a call per lane.
#[inline(always)]
fn fused_or_not<S: Simd, T: VFma + VMul + VAdd>(
    a: Vector<S, T>,
    b: Vector<S, T>,
    c: Vector<S, T>,
) -> Vector<S, T> {
    if <T as VFma>::is_accelerated::<S>() { a.fma(b, c) } else { a * b + c }
}

macro_rules! float_lane {
    ($($ty:ty),*) => {$(
        impl Lane for $ty {
            type Acc = Self;
            #[inline(always)]
            fn widen(self) -> Self { self }
            #[inline(always)]
            fn narrow(acc: Self) -> Self { acc }
            #[inline(always)]
            fn mul_add(a: Self, b: Self, c: Self) -> Self { a * b + c }
            #[inline(always)]
            fn mul_add_lanes<S: Simd>(a: Vector<S, Self>, b: Vector<S, Self>, c: Vector<S, Self>) -> Vector<S, Self> {
                fused_or_not(a, b, c)
            }
            #[inline(always)]
            fn mul_then_add_lanes<S: Simd>(a: Vector<S, Self>, b: Vector<S, Self>, c: Vector<S, Self>) -> Vector<S, Self> {
                a * b + c
            }
            #[inline(always)]
            fn load_lanes<S: Simd>(from: &[Self]) -> Vector<S, Self> { load(from) }
            #[inline(always)]
            fn widen_all(from: &[Self], to: &mut [Self]) { to.copy_from_slice(from) }
            #[inline(always)]
            fn narrow_all(from: &[Self], to: &mut [Self]) { to.copy_from_slice(from) }
            #[inline(always)]
            fn plus(a: Self, b: Self) -> Self { a + b }
        }
    )*};
}
float_lane!(f32, f64);

macro_rules! half_lane {
    ($($ty:ty),*) => {$(
        impl Lane for $ty {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 { <$ty as Half>::widen(self.to_bits()) }
            #[inline(always)]
            fn narrow(acc: f32) -> Self { Self::from_bits(<$ty as Half>::narrow(acc)) }
            #[inline(always)]
            fn mul_add(a: f32, b: f32, c: f32) -> f32 { a * b + c }
            #[inline(always)]
            fn mul_add_lanes<S: Simd>(a: Vector<S, f32>, b: Vector<S, f32>, c: Vector<S, f32>) -> Vector<S, f32> {
                fused_or_not(a, b, c)
            }
            #[inline(always)]
            fn mul_then_add_lanes<S: Simd>(a: Vector<S, f32>, b: Vector<S, f32>, c: Vector<S, f32>) -> Vector<S, f32> {
                a * b + c
            }
            #[inline(always)]
            fn load_lanes<S: Simd>(from: &[Self]) -> Vector<S, f32> {
                <$ty as Half>::widen_vector::<S>(&from[..f32::lanes::<S>()])
            }
            #[inline(always)]
            fn widen_all(from: &[Self], to: &mut [f32]) { to_f32(from, to) }
            #[inline(always)]
            fn narrow_all(from: &[f32], to: &mut [Self]) { from_f32(from, to) }
            #[inline(always)]
            fn plus(a: f32, b: f32) -> f32 { a + b }
        }
    )*};
}
half_lane!(f16, bf16);

/// The conversions of slices: none where elements are accumulators. (Only `u8` has another type of those.)
macro_rules! conversions {
    (u8, $acc:ty) => {
        #[inline(always)]
        fn load_lanes<S: Simd>(from: &[Self]) -> Vector<S, $acc> {
            let mut wide: Vector<S, $acc> = <$acc as Element>::ZERO.splat();
            let lanes: &mut [$acc] = bytemuck::cast_slice_mut(core::slice::from_mut(&mut wide));
            lanes.iter_mut().zip(from).for_each(|(to, from)| *to = <$acc>::from(*from));
            wide
        }
        fn widen_all(from: &[Self], to: &mut [$acc]) {
            vectorize_lean(
                #[inline(always)]
                || to.iter_mut().zip(from).for_each(|(to, from)| *to = <$acc>::from(*from)),
            );
        }
        fn narrow_all(from: &[$acc], to: &mut [Self]) {
            vectorize_lean(
                #[inline(always)]
                || to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as u8),
            );
        }
    };
    ($ty:ty, $acc:ty) => {
        #[inline(always)]
        fn load_lanes<S: Simd>(from: &[Self]) -> Vector<S, $acc> {
            load(from)
        }
        #[inline(always)]
        fn widen_all(from: &[Self], to: &mut [$acc]) {
            to.copy_from_slice(from);
        }
        #[inline(always)]
        fn narrow_all(from: &[$acc], to: &mut [Self]) {
            to.copy_from_slice(from);
        }
    };
}

macro_rules! int_lane {
    ($($ty:tt => $acc:ty),*) => {$(
        impl Lane for $ty {
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc { self as $acc }
            #[inline(always)]
            fn narrow(acc: $acc) -> Self { acc as Self }
            #[inline(always)]
            fn mul_add(a: $acc, b: $acc, c: $acc) -> $acc { a.wrapping_mul(b).wrapping_add(c) }
            #[inline(always)]
            fn mul_add_lanes<S: Simd>(a: Vector<S, $acc>, b: Vector<S, $acc>, c: Vector<S, $acc>) -> Vector<S, $acc> {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn mul_then_add_lanes<S: Simd>(a: Vector<S, $acc>, b: Vector<S, $acc>, c: Vector<S, $acc>) -> Vector<S, $acc> {
                a.mul_add(b, c)
            }
            conversions!($ty, $acc);
            #[inline(always)]
            fn plus(a: $acc, b: $acc) -> $acc { a.wrapping_add(b) }
        }
    )*};
}
int_lane!(u8 => u16, u16 => u16, u32 => u32, u64 => u64);
