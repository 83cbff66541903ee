//! The types that reductions compute in. Halves are computed in f32. Integers are handled as unsigned: sums and
//! products wrap the same, and an order-preserving map takes care of comparisons, so four kernels serve all eight
//! integer dtypes.

use crate::{Element, bf16, f16};
use flex_math::Half;

/// A number that kernels compute with. Integers wrap.
pub(crate) trait Arith: Copy + PartialOrd + Default + Send + Sync + 'static {
    /// Not above any other value: the identity of a maximum.
    const LOWEST: Self;
    /// The additive identity.
    const ZERO: Self;
    /// The multiplicative identity.
    const ONE: Self;
    /// Sum; wraps for integers.
    fn add(self, other: Self) -> Self;
    /// Product; wraps for integers.
    fn mul(self, other: Self) -> Self;
    /// The value as f64.
    fn to_f64(self) -> f64;

    /// The larger one; NaN when either is NaN.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        if (other > self) | other.is_nan() { other } else { self }
    }

    /// Whether this value, coming later, replaces the `best` so far: larger, or the first NaN.
    #[inline(always)]
    fn beats(self, best: Self) -> bool {
        ((self > best) | self.is_nan()) & !best.is_nan()
    }

    /// Whether this is NaN.
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

/// An element and the type it is computed in.
pub(crate) trait Lift: Element {
    /// f32 for the halves, the type itself otherwise.
    type Wide: Arith;
    /// Exact conversion, in code that vectorises.
    fn widen(self) -> Self::Wide;
    /// Rounds to nearest.
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! impl_lift_self {
    ($($ty:ty),*) => {$(
        impl Lift for $ty {
            type Wide = $ty;
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
            #[inline(always)]
            fn widen(self) -> f32 { <$ty as Half>::widen(self.to_bits()) }
            #[inline(always)]
            fn narrow(wide: f32) -> $ty { <$ty>::from_bits(<$ty as Half>::narrow(wide)) }
        }
    )*};
}

impl_lift_self!(f32, f64, u8, u16, u32, u64);
impl_lift_half!(f16, bf16);

/// Which extreme is wanted. All are maxima of some view of the elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Want {
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
    /// The largest absolute value.
    MaxAbs,
}

/// An element whose extremes can be found as maxima of a [view](Ordered::look) of it.
pub(crate) trait Ordered: Lift {
    /// Bit masks that make the view.
    type View: Copy + Send + Sync;
    /// The view for an extreme; `signed` when an unsigned integer stands for the bits of a signed one.
    fn view(want: Want, signed: bool) -> Self::View;
    /// The element as one whose maximum is wanted.
    fn look(self, view: Self::View) -> Self::Wide;
    /// The wanted extreme from that maximum.
    fn unlook(wide: Self::Wide, view: Self::View) -> Self;
}

/// Floats: bits to keep (all, or all but the sign), then bits to flip (none, or the sign).
macro_rules! impl_ordered_float {
    ($($ty:ty => $bits:ty;)*) => {$(
        impl Ordered for $ty {
            type View = ($bits, $bits);
            fn view(want: Want, _signed: bool) -> Self::View {
                let sign = !(<$bits>::MAX >> 1);
                match want {
                    Want::Max => (<$bits>::MAX, 0),
                    Want::Min => (<$bits>::MAX, sign),
                    Want::MaxAbs => (!sign, 0),
                }
            }
            #[inline(always)]
            fn look(self, (keep, flip): Self::View) -> Self::Wide {
                Lift::widen(Self::from_bits((self.to_bits() & keep) ^ flip))
            }
            #[inline(always)]
            fn unlook(wide: Self::Wide, (_, flip): Self::View) -> Self {
                Self::from_bits(<Self as Lift>::narrow(wide).to_bits() ^ flip)
            }
        }
    )*};
}

/// Integers: the bit whose presence negates (the sign when absolute values are compared), then bits to flip: the sign
/// makes the order of signed integers that of unsigned ones, and all bits reverse it.
macro_rules! impl_ordered_uint {
    ($($ty:ty),*) => {$(
        impl Ordered for $ty {
            type View = ($ty, $ty);
            fn view(want: Want, signed: bool) -> Self::View {
                let sign = if signed { !(<$ty>::MAX >> 1) } else { 0 };
                match want {
                    Want::Max => (0, sign),
                    Want::Min => (0, !sign),
                    Want::MaxAbs => (sign, sign),
                }
            }
            #[inline(always)]
            fn look(self, (negative, flip): Self::View) -> $ty {
                let mask = (0 as $ty).wrapping_sub((self & negative) >> (<$ty>::BITS - 1));
                (self ^ mask).wrapping_sub(mask) ^ flip
            }
            #[inline(always)]
            fn unlook(wide: $ty, (_, flip): Self::View) -> $ty {
                wide ^ flip
            }
        }
    )*};
}

impl_ordered_float! { f64 => u64; f32 => u32; f16 => u16; bf16 => u16; }
impl_ordered_uint!(u8, u16, u32, u64);

/// The bits of an integer and the type that sums of them are taken in.
pub(crate) trait WideSum: Element {
    /// u64 up to 32 bits, u128 for 64.
    type Sum: Copy + Default + Send + Sync + 'static;
    /// The value plus half the range when it is `signed`, which makes it non-negative.
    fn widen_biased(self, signed: bool) -> Self::Sum;
    /// The sum. Overflows beyond 2^32 elements of 32 bits.
    fn add_wide(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// The mean of `n` such values, truncated toward zero; zero when there are none.
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

/// The magnitude bits of a float, for tests of zero.
pub(crate) fn magnitude_mask(size: usize) -> u64 {
    u64::MAX >> (65 - 8 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_order_as_the_values_do() {
        let values = [i8::MIN, -127, -3, -1, 0, 1, 2, 126, 127];
        for want in [Want::Max, Want::Min, Want::MaxAbs] {
            let view = u8::view(want, true);
            for a in values {
                for b in values {
                    let key = |x: i8| match want {
                        Want::Max => x as i32,
                        Want::Min => -(x as i32),
                        Want::MaxAbs => x.wrapping_abs() as i32,
                    };
                    let (la, lb) = ((a as u8).look(view), (b as u8).look(view));
                    assert_eq!(la.cmp(&lb), key(a).cmp(&key(b)), "{want:?} {a} {b}");
                }
                let back = u8::unlook((a as u8).look(view), view) as i8;
                assert_eq!(back, if want == Want::MaxAbs { a.wrapping_abs() } else { a });
            }
        }
        let view = f16::view(Want::Min, false);
        assert_eq!(f16::unlook(f16::from_f32(-2.5).look(view), view), f16::from_f32(-2.5));
        assert!(f16::NAN.look(view).is_nan());
    }
}
