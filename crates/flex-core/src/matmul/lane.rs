//! What the product kernels ask of an element type: an accumulator, conversions, and a matrix product.

use super::gemm::{MatLayout, MatMut, MatRef, Threads, gemm_into};
use super::{half, int};
use crate::dtype::Element;
use burn_std::{bf16, f16};
use flex_math::Half;

/// An element of a matrix product. Half floats accumulate in f32; integers wrap, and `u8` accumulates in `u16`,
/// which has the same low byte. Signed integers go by the unsigned type of their width: the low bits of sums and
/// products do not depend on the sign.
pub(crate) trait Lane: Element {
    /// Type of the sums.
    type Acc: Element;
    /// The value as a term of a sum, exactly.
    fn widen(self) -> Self::Acc;
    /// The sum as an element, rounded or wrapped.
    fn narrow(acc: Self::Acc) -> Self;
    /// `a * b + c`.
    fn mul_add(a: Self::Acc, b: Self::Acc, c: Self::Acc) -> Self::Acc;
    /// `a + b`.
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// `a * b - c * d`.
    fn det(a: Self::Acc, b: Self::Acc, c: Self::Acc, d: Self::Acc) -> Self::Acc;
    /// `dst = a @ b`, or `dst += a @ b`; `dst` is row-major.
    fn gemm(dst: &mut [Self], a: MatRef<'_, Self>, b: MatRef<'_, Self>, accumulate: bool, threads: Threads);
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
            fn add(a: Self, b: Self) -> Self { a + b }
            #[inline(always)]
            fn det(a: Self, b: Self, c: Self, d: Self) -> Self { a * b - c * d }
            fn gemm(dst: &mut [Self], a: MatRef<'_, Self>, b: MatRef<'_, Self>, accumulate: bool, threads: Threads) {
                let layout = MatLayout::row_major(a.layout().rows, b.layout().cols);
                let beta = if accumulate { 1.0 } else { 0.0 };
                gemm_into(MatMut::new(dst, layout), a, b, 1.0, beta, threads);
            }
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
            fn add(a: f32, b: f32) -> f32 { a + b }
            #[inline(always)]
            fn det(a: f32, b: f32, c: f32, d: f32) -> f32 { a * b - c * d }
            fn gemm(dst: &mut [Self], a: MatRef<'_, Self>, b: MatRef<'_, Self>, accumulate: bool, threads: Threads) {
                half::gemm(dst, a, b, accumulate, threads);
            }
        }
    )*};
}
half_lane!(f16, bf16);

macro_rules! int_lane {
    ($($ty:ty => $acc:ty),*) => {$(
        impl Lane for $ty {
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc { self as $acc }
            #[inline(always)]
            fn narrow(acc: $acc) -> Self { acc as Self }
            #[inline(always)]
            fn mul_add(a: $acc, b: $acc, c: $acc) -> $acc { a.wrapping_mul(b).wrapping_add(c) }
            #[inline(always)]
            fn add(a: $acc, b: $acc) -> $acc { a.wrapping_add(b) }
            #[inline(always)]
            fn det(a: $acc, b: $acc, c: $acc, d: $acc) -> $acc {
                a.wrapping_mul(b).wrapping_sub(c.wrapping_mul(d))
            }
            fn gemm(dst: &mut [Self], a: MatRef<'_, Self>, b: MatRef<'_, Self>, accumulate: bool, threads: Threads) {
                int::gemm(dst, a, b, accumulate, threads);
            }
        }
    )*};
}
int_lane!(u8 => u16, u16 => u16, u32 => u32, u64 => u64);
