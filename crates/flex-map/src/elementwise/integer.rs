//! Functions of integers that floats lack.

use super::element::{Fn1, Fn2};
use super::number::Integer;
use crate::Element;
use core::ops;
use flex_math::simd::Levels;

/// Functions of two integers as kernels: the levels that they gain from, and whether they are light or heavy
/// ([`Fn2::IS_LIGHT`]).
macro_rules! integer_fn {
    ($($(#[$doc:meta])* $name:ident<$bound:ident> on $levels:ident, $weight:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;
        impl<T: $bound> Fn2<T> for $name {
            type Out = T;
            const LEVELS: Levels = Levels::$levels;
            const IS_LIGHT: bool = integer_fn!(@$weight);
            #[inline(always)]
            fn at($a: T, $b: T) -> T {
                $value
            }
        }
    )*};
    (@light) => { true };
    (@heavy) => { false };
}

integer_fn! {
    /// Quotient, truncated.
    Quotient<Integer> on Lean, heavy: |a, b| a.div(b);
    /// Remainder with the sign of the divisor.
    IntRem<Integer> on Lean, heavy: |a, b| a.rem(b);
    /// Power; its loop over the bits of the exponent does not vectorise.
    IntPow<Integer> on Baseline, heavy: |a, b| a.pow(b);
    /// Left shift; 0 for counts out of range.
    Shl<Integer> on Lean, heavy: |a, b| a.shl(b);
    /// Right shift; the sign for counts out of range.
    Shr<Integer> on Lean, heavy: |a, b| a.shr(b);
    BitAnd<BitLogic> on Lean, light: |a, b| a & b;
    BitOr<BitLogic> on Lean, light: |a, b| a | b;
    BitXor<BitLogic> on Lean, light: |a, b| a ^ b;
}

pub(super) trait BitLogic:
    Element + ops::BitAnd<Output = Self> + ops::BitOr<Output = Self> + ops::BitXor<Output = Self>
{
}
impl<T> BitLogic for T where
    T: Element + ops::BitAnd<Output = T> + ops::BitOr<Output = T> + ops::BitXor<Output = T>
{
}

/// Every bit flipped.
pub(super) struct BitNot;
impl<T: Element + ops::Not<Output = T>> Fn1<T> for BitNot {
    type Out = T;
    #[inline(always)]
    fn at(a: T) -> T {
        !a
    }
}
