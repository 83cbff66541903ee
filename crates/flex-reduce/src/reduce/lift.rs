//! The types that reductions compute in. Halves are computed in f32. Integers are handled as unsigned: sums
//! and products wrap the same way, and comparisons go through an [`Order`](super::order::Order), so four
//! kernels serve all eight integer dtypes.

use super::sizes::{BLOCK, LONG_ROW};
use crate::{Element, bf16, f16};
use bytemuck::Pod;
use core::marker::PhantomData;
use flex_math::half::widen_inlined;
use flex_math::simd::{Levels, Simd, has_vectors};
use flex_math::{Half, StoredFloat};

/// A number that kernels compute with. Integers wrap.
pub(crate) trait Arith: Pod + PartialOrd + Default + Send + Sync {
    /// Not above any other value: the identity of a maximum.
    const LOWEST: Self;
    const ZERO: Self;
    const ONE: Self;
    /// A value that is NaN; zero for integers, which have none.
    const NAN: Self;
    /// Sum; wraps for integers.
    fn add(self, other: Self) -> Self;
    /// Product; wraps for integers.
    fn mul(self, other: Self) -> Self;
    fn to_f64(self) -> f64;

    /// The larger one; NaN when either is NaN.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // Two choices, of which the first is one instruction: running maxima of 4,096 f32 take 2 us, and took
        // 2.9 as one choice by two conditions (one thread of Zen 5).
        let larger = if other > self { other } else { self };
        if other.is_nan() { other } else { larger }
    }

    /// Whether this value, coming later, replaces the `best` so far: larger, or the first NaN.
    #[inline(always)]
    fn beats(self, best: Self) -> bool {
        ((self > best) | self.is_nan()) & !best.is_nan()
    }

    #[inline(always)]
    #[allow(clippy::eq_op)] // The portable test for NaN, constant false for integers.
    fn is_nan(self) -> bool {
        self != self
    }
}

macro_rules! impl_arith_float {
    ($($ty:ty),*) => {$(
        impl Arith for $ty {
            const LOWEST: Self = <$ty>::NEG_INFINITY;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAN: Self = <$ty>::NAN;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}

macro_rules! impl_arith_uint {
    ($($ty:ty),*) => {$(
        impl Arith for $ty {
            const LOWEST: Self = 0;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const NAN: Self = 0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}

impl_arith_float!(f32, f64);
impl_arith_uint!(u8, u16, u32, u64);

/// Explicit vector code for a loop: in the vectors of the instruction set that the loop is compiled for, if
/// it has any.
pub(crate) trait LoopVectors {
    /// Whether the loop is compiled for an instruction set that [has vectors](has_vectors).
    const VECTORS: bool;
    /// Writes the values of `from` to `to`, which has the same length. Widened one by one, in lanes that the
    /// compiler vectorises, halves took longer: the sums of 1,024 rows of 1,024 bf16 took 126 us, and 40 by
    /// way of slices that were widened first.
    fn widen<H: Half>(from: &[H], to: &mut [f32]);
    /// The sum of a row by [`flex_math::sum_in`]; `None` without vectors.
    fn sum<T: StoredFloat>(row: &[T]) -> Option<T::Compute>;
}

/// Whole vectors of `S`.
pub(crate) struct InVectors<S>(PhantomData<S>);

impl<S: Simd> LoopVectors for InVectors<S> {
    const VECTORS: bool = has_vectors::<S>();

    #[inline(always)]
    fn widen<H: Half>(from: &[H], to: &mut [f32]) {
        widen_inlined::<S, H>(from, to);
    }

    #[inline(always)]
    fn sum<T: StoredFloat>(row: &[T]) -> Option<T::Compute> {
        if const { Self::VECTORS } { Some(flex_math::sum_in::<S, T>(row)) } else { None }
    }
}

/// One element at a time, in loops that are compiled once for all instruction sets.
pub(crate) struct OneByOne;

impl LoopVectors for OneByOne {
    const VECTORS: bool = false;

    #[inline(always)]
    fn widen<H: Half>(from: &[H], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = H::widen(from.bits());
        }
    }

    #[inline(always)]
    fn sum<T: StoredFloat>(_row: &[T]) -> Option<T::Compute> {
        None
    }
}

/// An element type and the type that it is computed in.
pub(crate) trait Lift: Element {
    /// f32 for the halves, the type itself otherwise.
    type Wide: Arith;
    /// Whether `Wide` differs from the element type, so that [`widen_all`](Self::widen_all) is worth its
    /// array of results.
    const CONVERTS: bool = false;
    /// The instruction sets that loops of products are compiled for. Products of short integers are too rare
    /// for more than the baseline. Products of i64 are vectorised by AVX-512 alone: 65,536 took 27 us on the
    /// baseline, and 7 with AVX-512. Products of f32 and f64 take as long with AVX2 as with AVX-512 (2.8 and
    /// 5.2 us for 64 rows of 1,024; Zen 4), products down the columns of 1,024 x 1,024 halves 303 and 183.
    const PRODUCT_LEVELS: Levels = match (Self::IS_FLOAT, size_of::<Self>()) {
        (true, 2) | (false, 8) => Levels::All,
        (true, _) | (false, 4) => Levels::Lean,
        _ => Levels::Baseline,
    };
    /// The longest row whose sum or product one fold computes without losing accuracy: a block for floats, or
    /// more where [`sum_row`](Self::sum_row) and [`product_row`](Self::product_row) keep errors small by
    /// themselves.
    const LONGEST: usize = if Self::IS_FLOAT { BLOCK } else { usize::MAX };
    /// Exact conversion, in code that vectorises.
    fn widen(self) -> Self::Wide;
    /// Exact conversion of all of `from` to `to`, which has the same length.
    #[inline(always)]
    fn widen_all<W: LoopVectors>(from: &[Self], to: &mut [Self::Wide]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.widen();
        }
    }
    /// Rounds to nearest.
    fn narrow(wide: Self::Wide) -> Self;
    /// The sum of a row in explicit vector code; `None` if there is no such code or the row is too short for
    /// it. Loops over lanes that the compiler vectorises reach half the speed for f32: 4.9 against 1.9 us for
    /// 65,536 elements. Sums of rows of 64 to 255 f32 took 0.26 to 0.49 ns per element in such loops, and
    /// take 0.05 to 0.12.
    #[inline(always)]
    fn sum_row<W: LoopVectors>(_row: &[Self]) -> Option<Self::Wide> {
        None
    }
    /// The product of a row; see [`sum_row`](Self::sum_row).
    #[inline(always)]
    fn product_row(_row: &[Self]) -> Option<Self::Wide> {
        None
    }
}

/// Rows from this length on are worth a second dispatch over instruction sets (3 ns), which takes products
/// and sums without vectors to explicit vector code.
const MIN_VECTOR_ROW: usize = 256;

macro_rules! impl_lift_self {
    ($($ty:ty $(: $sum:path, $product:path)?;)*) => {$(
        impl Lift for $ty {
            type Wide = $ty;
            $(
                const LONGEST: usize = LONG_ROW;
                #[inline(always)]
                fn sum_row<W: LoopVectors>(row: &[$ty]) -> Option<$ty> {
                    // Not `or_else`: its closure would be compiled for the baseline.
                    match W::sum(row) {
                        None if row.len() >= MIN_VECTOR_ROW => Some($sum(row)),
                        sum => sum,
                    }
                }
                #[inline(always)]
                fn product_row(row: &[$ty]) -> Option<$ty> { (row.len() >= MIN_VECTOR_ROW).then(|| $product(row)) }
            )?
            #[inline(always)]
            fn widen(self) -> $ty { self }
            #[inline(always)]
            fn narrow(wide: $ty) -> $ty { wide }
        }
    )*};
}

macro_rules! impl_lift_half {
    ($($ty:ty),*) => {$(
        impl Lift for $ty {
            type Wide = f32;
            const CONVERTS: bool = true;
            #[inline(always)]
            fn widen(self) -> f32 { <$ty as Half>::widen(self.to_bits()) }
            #[inline(always)]
            fn widen_all<W: LoopVectors>(from: &[Self], to: &mut [f32]) { W::widen(from, to) }
            #[inline(always)]
            fn narrow(wide: f32) -> $ty { <$ty>::from_bits(<$ty as Half>::narrow(wide)) }
            #[inline(always)]
            fn sum_row<W: LoopVectors>(row: &[$ty]) -> Option<f32> { W::sum(row) }
        }
    )*};
}

impl_lift_self! {
    f32: flex_math::sum, flex_math::product;
    f64: flex_math::sum, flex_math::product;
    u8;
    u16;
    u32;
    u64;
}
impl_lift_half!(f16, bf16);

/// The bits of an integer, and the type in which sums are accumulated.
pub(crate) trait WideSum: Element {
    /// u64 up to 32 bits, u128 for 64.
    type Sum: Pod + Default + Send + Sync;
    /// The value; if `signed`, plus half the range, which makes it non-negative.
    fn widen_biased(self, signed: bool) -> Self::Sum;
    /// The sum of two sums. Overflows beyond 2^32 elements of 32 bits.
    fn add_wide(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// The mean of `n` biased values, truncated toward zero; 0 if `n` is 0.
    fn mean(sum: Self::Sum, n: usize, signed: bool) -> Self;
}

macro_rules! impl_wide_sum {
    ($($ty:ty => $sum:ty;)*) => {$(
        impl WideSum for $ty {
            type Sum = $sum;
            #[inline(always)]
            fn widen_biased(self, signed: bool) -> $sum {
                (self ^ ((signed as $ty) << (<$ty>::BITS - 1))) as $sum
            }
            #[inline(always)]
            fn add_wide(a: $sum, b: $sum) -> $sum { a.wrapping_add(b) }
            fn mean(sum: $sum, n: usize, signed: bool) -> $ty {
                let bias = ((signed as i128) << (<$ty>::BITS - 1)) * n as i128;
                (sum as i128 - bias).checked_div(n as i128).unwrap_or(0) as $ty
            }
        }
    )*};
}

impl_wide_sum! { u8 => u64; u16 => u64; u32 => u64; u64 => u128; }

/// The magnitude bits of a float of `size` bytes, which are 0 for both zeros.
pub(crate) fn magnitude_mask(size: usize) -> u64 {
    u64::MAX >> (65 - 8 * size)
}
