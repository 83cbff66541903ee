//! The scans: running sums, products, minima and maxima. Float sums and products accumulate in f64.

use super::lift::{Arith, Lift};
use super::order::Order;
use bytemuck::Pod;
use flex_math::simd::Levels;

/// An associative operation that a scan accumulates with.
pub(super) trait Scanner<T>: Copy + Send + Sync {
    /// The running value, of at most 8 bytes.
    type Acc: Pod + Send + Sync;
    /// Whether the results of strips may be combined afterwards. Not for products of floats: `a * (b * c)`
    /// can overflow where `(a * b) * c` does not.
    const STRIPS: bool;
    /// Whether the elements of a [`GROUP`](super::scan_kernel::GROUP) may be combined before the running
    /// value: if `Acc` has the range for any group.
    const GROUPS: bool = false;
    /// The instruction sets that the loops along rows are compiled for. A scan is a chain of dependent
    /// operations, whose latency wider vectors do not shorten: running maxima take 0.94 to 1.07 of the time
    /// with AVX2 that they take with AVX-512 (Zen 4).
    const ROW_LEVELS: Levels = Levels::Lean;
    /// The instruction sets that the loops down columns are compiled for.
    const COLUMN_LEVELS: Levels = Levels::Lean;
    /// The value of no elements.
    fn identity(self) -> Self::Acc;
    /// The value of one element.
    fn lift(self, value: T) -> Self::Acc;
    /// The operation; `a` comes before `b`.
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The running value, converted to an element.
    fn lower(self, acc: Self::Acc) -> T;
}

/// Element types, with a type exact enough for their running sums and products.
pub(super) trait Accumulate: Lift {
    /// f64 for floats, the type itself for integers.
    type Acc: Arith;
    /// Converts exactly.
    fn raise(self) -> Self::Acc;
    /// Rounds to nearest, once.
    fn lower(acc: Self::Acc) -> Self;
}

/// The accumulators of element types. `$wide` converts an accumulator to the type that the element is
/// narrowed from.
macro_rules! impl_accumulate {
    ($wide:expr; $($ty:ty => $acc:ty;)*) => {$(
        impl Accumulate for $ty {
            type Acc = $acc;
            #[inline(always)]
            fn raise(self) -> $acc { Lift::widen(self) as $acc }
            #[inline(always)]
            fn lower(acc: $acc) -> Self { Self::narrow($wide(acc)) }
        }
    )*};
}

impl_accumulate! { core::convert::identity; f64 => f64; u64 => u64; u32 => u32; u16 => u16; u8 => u8; }
impl_accumulate! { |acc| acc as f32; f32 => f64; }
// By way of f32, rounded to odd there, so that nothing is rounded to nearest twice.
impl_accumulate! { flex_math::half::to_odd; crate::f16 => f64; crate::bf16 => f64; }

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

#[derive(Clone, Copy)]
pub(super) struct CumProd;

impl<T: Accumulate> Scanner<T> for CumProd {
    type Acc = T::Acc;
    const STRIPS: bool = !T::IS_FLOAT;
    /// Rows of halves gain a tenth from AVX-512, which converts them (Zen 4).
    const ROW_LEVELS: Levels = match (T::IS_FLOAT, size_of::<T>()) {
        (true, 2) => Levels::All,
        (true, _) | (false, 4..) => Levels::Lean,
        _ => Levels::Baseline,
    };
    /// Columns of f32 gain a fifth from AVX-512 (Zen 5): they are multiplied in f64.
    const COLUMN_LEVELS: Levels = match T::IS_FLOAT {
        true => Levels::All,
        false => <Self as Scanner<T>>::ROW_LEVELS,
    };
    /// A product of four f32, or of four halves, is far from the ends of f64's range.
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
    /// The order, in which NaN is above all numbers.
    pub order: O,
}

impl<T: Lift, O: Order<T>> Scanner<T> for CumExtreme<O> {
    type Acc = T::Wide;
    const STRIPS: bool = true;
    /// Where AVX2 has no maximum that fits (of floats it drops NaN), the compiler turns `carry[j] =
    /// max(carry[j], x)` into masked stores. The masked stores of AVX2 are slow on AMD's processors: 1,024
    /// running maxima of 1,024 f32 take 676 us on Zen 5, and 246 with AVX-512.
    const COLUMN_LEVELS: Levels = match (T::IS_FLOAT, size_of::<T>()) {
        (true, _) | (false, 8) => Levels::All,
        _ => Levels::Lean,
    };
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
