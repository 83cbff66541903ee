//! What a scan is: running sums, products, minima and maxima. Float sums and products accumulate in f64.

use super::lift::{Arith, Lift};
use super::order::Order;
use bytemuck::Pod;
use flex_math::simd::Levels;

/// An associative operation to accumulate.
pub(super) trait Scanner<T>: Copy + Send + Sync {
    /// Running value, of at most 8 bytes.
    type Acc: Pod + Send + Sync;
    /// Whether strips may be combined after the fact: `a . (b . c)` overflows where `(a . b) . c` does not for
    /// products of floats.
    const STRIPS: bool;
    /// Whether a [`GROUP`](super::scan_kernel::GROUP) of elements may be combined before it meets the running value:
    /// where that has room for any group.
    const GROUPS: bool = false;
    /// The instruction sets that the loops are compiled for. A scan is a chain of dependent operations: it waits for
    /// their latency, which wider vectors do not shorten.
    const LEVELS: Levels = Levels::Lean;
    /// The value of no elements.
    fn identity(self) -> Self::Acc;
    /// The value of one element.
    fn lift(self, value: T) -> Self::Acc;
    /// The operation.
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The running value as an element.
    fn lower(self, acc: Self::Acc) -> T;
}

/// A type that running sums and products are exact enough in.
pub(super) trait Accumulate: Lift {
    /// f64 for floats, the type itself for integers.
    type Acc: Arith;
    /// Exact.
    fn raise(self) -> Self::Acc;
    /// Rounds to nearest; halves through f32.
    fn lower(acc: Self::Acc) -> Self;
}

macro_rules! impl_accumulate {
    ($($ty:ty => $acc:ty;)*) => {$(
        impl Accumulate for $ty {
            type Acc = $acc;
            #[inline(always)]
            fn raise(self) -> $acc { self.widen() as $acc }
            #[inline(always)]
            fn lower(acc: $acc) -> Self { Self::narrow(acc as <Self as Lift>::Wide) }
        }
    )*};
}

impl_accumulate! {
    f64 => f64; f32 => f64; crate::f16 => f64; crate::bf16 => f64;
    u64 => u64; u32 => u32; u16 => u16; u8 => u8;
}

/// Running sum.
#[derive(Clone, Copy)]
pub(super) struct CumSum;

impl<T: Accumulate> Scanner<T> for CumSum {
    type Acc = T::Acc;
    const STRIPS: bool = true;
    #[inline(always)]
    fn identity(self) -> T::Acc {
        T::Acc::ZERO
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Acc {
        value.raise()
    }
    #[inline(always)]
    fn combine(self, a: T::Acc, b: T::Acc) -> T::Acc {
        a.add(b)
    }
    #[inline(always)]
    fn lower(self, acc: T::Acc) -> T {
        T::lower(acc)
    }
}

/// Running product.
#[derive(Clone, Copy)]
pub(super) struct CumProd;

impl<T: Accumulate> Scanner<T> for CumProd {
    type Acc = T::Acc;
    const STRIPS: bool = !T::IS_FLOAT;
    const LEVELS: Levels = if T::IS_FLOAT || size_of::<T>() >= 4 { Levels::Lean } else { Levels::Baseline };
    /// A product of four f32, or halves, is far from the ends of f64's range.
    const GROUPS: bool = T::IS_FLOAT && size_of::<T>() < size_of::<T::Acc>();
    #[inline(always)]
    fn identity(self) -> T::Acc {
        T::Acc::ONE
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Acc {
        value.raise()
    }
    #[inline(always)]
    fn combine(self, a: T::Acc, b: T::Acc) -> T::Acc {
        a.mul(b)
    }
    #[inline(always)]
    fn lower(self, acc: T::Acc) -> T {
        T::lower(acc)
    }
}

/// Running extreme; NaN from the first NaN on.
#[derive(Clone, Copy)]
pub(super) struct CumExtreme<O> {
    /// The order, in which NaN is above all.
    pub order: O,
}

impl<T: Lift, O: Order<T>> Scanner<T> for CumExtreme<O> {
    type Acc = T::Wide;
    const STRIPS: bool = true;
    #[inline(always)]
    fn identity(self) -> T::Wide {
        T::Wide::LOWEST
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Wide {
        self.order.key(value)
    }
    #[inline(always)]
    fn combine(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.max(b)
    }
    #[inline(always)]
    fn lower(self, acc: T::Wide) -> T {
        self.order.element(acc)
    }
}
