//! Arithmetic on single elements, and on vectors of f32, with every outcome defined.
//!
//! Integers wrap as two's complement. Division by zero gives 0, and so does the remainder (NumPy's choice; PyTorch
//! raises an error and Burn says nothing); `MIN / -1` wraps to `MIN`, with remainder 0. Division truncates; the
//! remainder has the sign of the divisor, as Python's and PyTorch's, so it belongs to a division that rounds down.

use super::compare::Compared;
use crate::{Element, bf16, f16};
use flex_math::simd::{Scalar, Simd, Vector};

/// What functions need that choose among numbers or change signs: no result is rounded, and halves stay as they are.
pub(crate) trait Select: Copy {
    /// The additive identity.
    fn zero() -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Negation.
    fn neg(self) -> Self;
    /// `yes` where this is less than `than`, and `no` elsewhere.
    fn if_less(self, than: Self, yes: Self, no: Self) -> Self;
    /// `yes` where this is less than or equal to `limit`, and `no` elsewhere.
    fn if_at_most(self, limit: Self, yes: Self, no: Self) -> Self;
}

/// What has arithmetic: elements, and vectors of f32, in which halves are computed.
pub(crate) trait Number: Select {
    /// The multiplicative identity.
    fn one() -> Self;
    /// Sum.
    fn add(self, rhs: Self) -> Self;
    /// Difference.
    fn sub(self, rhs: Self) -> Self;
    /// Product.
    fn mul(self, rhs: Self) -> Self;
    /// Quotient, truncated for integers.
    fn div(self, rhs: Self) -> Self;
    /// The larger one; NaN when either is.
    fn max(self, rhs: Self) -> Self;
    /// The smaller one; NaN when either is.
    fn min(self, rhs: Self) -> Self;
    /// -1, 0 or 1; 0 for NaN, as in PyTorch and in Burn's default.
    fn sign(self) -> Self;
}

/// [`Select`] for single elements.
macro_rules! impl_select {
    ($ty:ty, $zero:expr, abs: |$a:ident| $abs:expr, neg: |$b:ident| $neg:expr) => {
        impl Select for $ty {
            #[inline(always)]
            fn zero() -> Self {
                $zero
            }
            #[inline(always)]
            fn abs(self) -> Self {
                let $a = self;
                $abs
            }
            #[inline(always)]
            fn neg(self) -> Self {
                let $b = self;
                $neg
            }
            #[inline(always)]
            fn if_less(self, than: Self, yes: Self, no: Self) -> Self {
                if self.less(than) { yes } else { no }
            }
            #[inline(always)]
            fn if_at_most(self, limit: Self, yes: Self, no: Self) -> Self {
                if self.at_most(limit) { yes } else { no }
            }
        }
    };
}

/// That of floats, by their bits.
macro_rules! impl_select_float {
    ($($ty:ty: $bits:ty;)*) => {$(
        impl_select!(
            $ty,
            <$ty>::from_bits(0),
            abs: |x| Self::from_bits(x.to_bits() & (<$bits>::MAX >> 1)),
            neg: |x| Self::from_bits(x.to_bits() ^ !(<$bits>::MAX >> 1))
        );
    )*};
}

impl_select_float! {
    f32: u32;
    f64: u64;
    f16: u16;
    bf16: u16;
}

/// The arithmetic of floats, one or many.
macro_rules! operators {
    () => {
        #[inline(always)]
        fn add(self, rhs: Self) -> Self {
            self + rhs
        }
        #[inline(always)]
        fn sub(self, rhs: Self) -> Self {
            self - rhs
        }
        #[inline(always)]
        fn mul(self, rhs: Self) -> Self {
            self * rhs
        }
        #[inline(always)]
        fn div(self, rhs: Self) -> Self {
            self / rhs
        }
    };
}

macro_rules! impl_float {
    ($ty:ty) => {
        impl Number for $ty {
            #[inline(always)]
            fn one() -> Self {
                1.0
            }
            operators!();

            #[inline(always)]
            fn max(self, rhs: Self) -> Self {
                // A NaN on the right fails the first test, on the left it passes the second.
                if self > rhs || self.is_nan() { self } else { rhs }
            }
            #[inline(always)]
            fn min(self, rhs: Self) -> Self {
                if self < rhs || self.is_nan() { self } else { rhs }
            }
            #[inline(always)]
            fn sign(self) -> Self {
                (if self > 0.0 { 1.0 } else { 0.0 }) - (if self < 0.0 { 1.0 } else { 0.0 })
            }
        }
    };
}

impl_float!(f32);
impl_float!(f64);

impl<S: Simd> Select for Vector<S, f32> {
    #[inline(always)]
    fn zero() -> Self {
        0.0f32.splat()
    }
    #[inline(always)]
    fn abs(self) -> Self {
        (self.reinterpret::<u32>() & (u32::MAX >> 1).splat()).reinterpret()
    }
    #[inline(always)]
    fn neg(self) -> Self {
        (self.reinterpret::<u32>() ^ (1u32 << 31).splat()).reinterpret()
    }
    #[inline(always)]
    fn if_less(self, than: Self, yes: Self, no: Self) -> Self {
        self.lt(than).select(yes, no)
    }
    #[inline(always)]
    fn if_at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        self.le(limit).select(yes, no)
    }
}

impl<S: Simd> Number for Vector<S, f32> {
    #[inline(always)]
    fn one() -> Self {
        1.0f32.splat()
    }
    operators!();

    #[inline(always)]
    fn max(self, rhs: Self) -> Self {
        // As for single elements.
        self.eq(self).select(self.gt(rhs).select(self, rhs), self)
    }
    #[inline(always)]
    fn min(self, rhs: Self) -> Self {
        self.eq(self).select(self.lt(rhs).select(self, rhs), self)
    }
    #[inline(always)]
    fn sign(self) -> Self {
        let (zero, one) = (Self::zero(), Self::one());
        self.gt(zero).select(one, zero) - self.lt(zero).select(one, zero)
    }
}

/// Integer elements.
pub(crate) trait Integer: Number + Element {
    /// Remainder with the sign of the divisor.
    fn rem(self, rhs: Self) -> Self;
    /// Exact power, wrapped. A negative exponent gives the reciprocal truncated: 0, except for bases 1 and -1.
    fn pow(self, exponent: Self) -> Self;
    /// Bits moved up; 0 for a count that is negative or not below the width.
    fn shl(self, count: Self) -> Self;
    /// Bits moved down, the sign filling; a count that is negative or not below the width leaves nothing but the
    /// sign (-1 or 0).
    fn shr(self, count: Self) -> Self;
}

/// `$wide` is a float that divides two values of the type without rounding across an integer: it has more bits than
/// they have together below their leading one, and unlike integer division it vectorises.
macro_rules! impl_integer {
    ($ty:ty, $unsigned:ty, signed: $signed:literal, |$a:ident, $b:ident| $quotient:expr) => {
        impl_select!(
            $ty,
            0,
            abs: |x| {
                #[allow(unused_comparisons)]
                if x < 0 { x.wrapping_neg() } else { x }
            },
            neg: |x| x.wrapping_neg()
        );

        impl Number for $ty {
            #[inline(always)]
            fn one() -> Self {
                1
            }
            #[inline(always)]
            fn add(self, rhs: Self) -> Self {
                self.wrapping_add(rhs)
            }
            #[inline(always)]
            fn sub(self, rhs: Self) -> Self {
                self.wrapping_sub(rhs)
            }
            #[inline(always)]
            fn mul(self, rhs: Self) -> Self {
                self.wrapping_mul(rhs)
            }
            #[inline(always)]
            fn div(self, rhs: Self) -> Self {
                let ($a, $b) = (self, rhs);
                $quotient
            }
            #[inline(always)]
            fn max(self, rhs: Self) -> Self {
                Ord::max(self, rhs)
            }
            #[inline(always)]
            fn min(self, rhs: Self) -> Self {
                Ord::min(self, rhs)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                #[allow(unused_comparisons)]
                let negative = self < 0;
                if negative { <$ty>::MAX.wrapping_add(<$ty>::MAX).wrapping_add(1) } else { (self > 0) as $ty }
            }
        }

        impl Integer for $ty {
            #[inline(always)]
            fn rem(self, rhs: Self) -> Self {
                let rest = self.wrapping_sub(Number::div(self, rhs).wrapping_mul(rhs));
                let rest = if rhs == 0 { 0 } else { rest };
                if $signed && rest != 0 && (rest ^ rhs) >> (<$ty>::BITS - 1) != 0 {
                    rest.wrapping_add(rhs)
                } else {
                    rest
                }
            }

            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                #[allow(unused_comparisons)]
                if exponent < 0 {
                    let odd = exponent & 1 == 1;
                    return match self {
                        1 => 1,
                        // Only a signed type has negative exponents, so MAX + MAX + 1 is -1.
                        b if b.wrapping_add(1) == 0 => {
                            if odd {
                                b
                            } else {
                                1
                            }
                        }
                        _ => 0,
                    };
                }
                let (mut base, mut left, mut power) = (self, exponent, 1);
                while left != 0 {
                    if left & 1 == 1 {
                        power = <$ty>::wrapping_mul(power, base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                power
            }

            #[inline(always)]
            fn shl(self, count: Self) -> Self {
                let inside = (count as $unsigned) < <$ty>::BITS as $unsigned;
                if inside { self << (count as u32 & (<$ty>::BITS - 1)) } else { 0 }
            }

            #[inline(always)]
            fn shr(self, count: Self) -> Self {
                let inside = (count as $unsigned) < <$ty>::BITS as $unsigned;
                let sign = if $signed { (self >> (<$ty>::BITS / 2)) >> (<$ty>::BITS / 2 - 1) } else { 0 };
                if inside { self >> (count as u32 & (<$ty>::BITS - 1)) } else { sign }
            }
        }
    };
}

/// Quotients through a float that divides two values of the type without rounding across an integer: the gap between
/// `a / b` and the next integer is at least `1 / b`, more than half an ULP of the float. Unlike integer division this
/// vectorises. The saturating cast turns `x / 0` into something finite, replaced by 0, and `MIN / -1` into `MAX`, so
/// the division is made in the next wider integer.
macro_rules! through_float {
    ($a:ident, $b:ident, $ty:ty, $float:ty, $wide:ty) => {{
        let divisor = if $b == 0 { 1 } else { $b };
        let quotient = ($a as $float / divisor as $float) as $wide as $ty;
        if $b == 0 { 0 } else { quotient }
    }};
}

impl_integer!(i8, u8, signed: true, |a, b| through_float!(a, b, i8, f32, i32));
impl_integer!(i16, u16, signed: true, |a, b| through_float!(a, b, i16, f32, i32));
impl_integer!(i32, u32, signed: true, |a, b| {
    // Not through i64: the cast to it vectorises on AVX-512 alone. MIN / -1 is the one quotient that saturates.
    let quotient = through_float!(a, b, i32, f64, i32);
    if a == i32::MIN && b == -1 { i32::MIN } else { quotient }
});
impl_integer!(u8, u8, signed: false, |a, b| through_float!(a, b, u8, f32, i32));
impl_integer!(u16, u16, signed: false, |a, b| through_float!(a, b, u16, f32, i32));
impl_integer!(u32, u32, signed: false, |a, b| through_float!(a, b, u32, f64, u32));
impl_integer!(i64, u64, signed: true, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) });
impl_integer!(u64, u64, signed: false, |a, b| a.checked_div(b).unwrap_or(0));
