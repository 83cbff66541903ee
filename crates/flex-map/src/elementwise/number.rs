//! Comparison and arithmetic of single elements, and of vectors of floats, with every outcome defined.
//!
//! Integers wrap as two's complement. Division by zero gives 0, and so does its remainder (NumPy's choice;
//! PyTorch raises an error and Burn does not specify it); `MIN / -1` wraps to `MIN`, with remainder 0.
//! Division truncates; the remainder has the sign of the divisor, as in Python and PyTorch, so it belongs to
//! a division that rounds down.

use crate::{Element, bf16, f16};
use flex_math::Float;
use flex_math::simd::{Simd, Vector, abs, greater_or_second, less_or_second, neg};

pub(crate) trait Compared: Element {
    fn less(self, other: Self) -> bool;
    fn at_most(self, other: Self) -> bool;
}

macro_rules! compared_by_operators {
    ($($ty:ty)*) => {$(
        impl Compared for $ty {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn at_most(self, other: Self) -> bool {
                self <= other
            }
        }
    )*};
}

compared_by_operators!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

/// Comparisons by integer operations, which vectorise: the magnitude, negated for negative numbers, has the
/// order of the numbers and is 0 for both zeros. NaN is recognised by its magnitude.
macro_rules! compared_by_bits {
    ($($ty:ty)*) => {$(
        impl Compared for $ty {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                !nan(self) & !nan(other) & (rank(self) < rank(other))
            }
            #[inline(always)]
            fn at_most(self, other: Self) -> bool {
                !nan(self) & !nan(other) & (rank(self) <= rank(other))
            }
        }
    )*};
}

compared_by_bits!(f16 bf16);

#[inline(always)]
pub(super) fn nan<T: FloatBits>(x: T) -> bool {
    x.magnitude() > T::INFINITE
}

/// The magnitude of a half, negated for negative numbers.
#[inline(always)]
pub(super) fn rank<T: Element>(x: T) -> i16 {
    let bits: i16 = bytemuck::cast(x);
    let negative = bits >> 15;
    ((bits & i16::MAX) ^ negative) - negative
}

pub(super) trait FloatBits: Element {
    type Bits: PartialOrd;
    /// The bits of infinity; greater magnitudes are NaN.
    const INFINITE: Self::Bits;
    /// All bits but the sign.
    fn magnitude(self) -> Self::Bits;
}

macro_rules! float_bits {
    ($($ty:ty: $bits:ty;)*) => {$(
        impl FloatBits for $ty {
            type Bits = $bits;
            const INFINITE: $bits = <$ty>::INFINITY.to_bits();
            #[inline(always)]
            fn magnitude(self) -> $bits {
                self.to_bits() & (<$bits>::MAX >> 1)
            }
        }
    )*};
}

float_bits! {
    f32: u32;
    f64: u64;
    f16: u16;
    bf16: u16;
}

/// Choice among numbers and change of signs: no result is rounded, so halves are not converted.
pub(crate) trait Selection: Copy {
    fn zero() -> Self;
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    /// `yes` where this is less than `than`, and `no` elsewhere.
    fn if_less(self, than: Self, yes: Self, no: Self) -> Self;
    /// `bound` where this is less than it. NaN stays NaN, and -0.0 is not less than 0.0.
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        self.if_less(bound, bound, self)
    }
    /// `bound` where it is less than this. NaN stays NaN.
    #[inline(always)]
    fn no_more_than(self, bound: Self) -> Self {
        bound.if_less(self, bound, self)
    }
    /// `yes` where this is less than or equal to `limit`, and `no` elsewhere.
    fn if_at_most(self, limit: Self, yes: Self, no: Self) -> Self;
}

/// Arithmetic: of integers, and of vectors of f32 and f64.
pub(crate) trait Arithmetic: Selection {
    fn one() -> Self;
    fn add(self, rhs: Self) -> Self;
    fn sub(self, rhs: Self) -> Self;
    fn mul(self, rhs: Self) -> Self;
    /// Quotient, truncated for integers.
    fn div(self, rhs: Self) -> Self;
    /// The larger one; NaN if either is NaN.
    fn max(self, rhs: Self) -> Self;
    /// The smaller one; NaN if either is NaN.
    fn min(self, rhs: Self) -> Self;
    /// -1, 0 or 1; 0 for NaN, as in PyTorch and in Burn's default.
    fn sign(self) -> Self;
}

/// [`Selection`] for single elements.
macro_rules! impl_select {
    ($ty:ty, $zero:expr, abs: |$a:ident| $abs:expr, neg: |$b:ident| $neg:expr) => {
        impl Selection for $ty {
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

/// [`Selection`] for halves, by operations on bits.
macro_rules! impl_select_half {
    ($($ty:ty: $bits:ty;)*) => {$(
        impl_select!(
            $ty,
            <$ty>::from_bits(0),
            abs: |x| Self::from_bits(x.to_bits() & (<$bits>::MAX >> 1)),
            neg: |x| Self::from_bits(x.to_bits() ^ !(<$bits>::MAX >> 1))
        );
    )*};
}

impl_select_half! {
    f16: u16;
    bf16: u16;
}

impl<S: Simd, T: Float> Selection for Vector<S, T> {
    #[inline(always)]
    fn zero() -> Self {
        <T as num_traits::Zero>::zero().splat()
    }
    #[inline(always)]
    fn abs(self) -> Self {
        abs(self)
    }
    #[inline(always)]
    fn neg(self) -> Self {
        neg(self)
    }
    #[inline(always)]
    fn if_less(self, than: Self, yes: Self, no: Self) -> Self {
        self.lt(than).select(yes, no)
    }
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        greater_or_second(bound, self)
    }
    #[inline(always)]
    fn no_more_than(self, bound: Self) -> Self {
        less_or_second(bound, self)
    }
    #[inline(always)]
    fn if_at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        self.le(limit).select(yes, no)
    }
}

impl<S: Simd, T: Float> Arithmetic for Vector<S, T> {
    #[inline(always)]
    fn one() -> Self {
        <T as num_traits::One>::one().splat()
    }
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
    #[inline(always)]
    fn max(self, rhs: Self) -> Self {
        // NaN on the right is the second operand; NaN on the left is selected by `self.eq(self)`.
        self.eq(self).select(greater_or_second(self, rhs), self)
    }
    #[inline(always)]
    fn min(self, rhs: Self) -> Self {
        self.eq(self).select(less_or_second(self, rhs), self)
    }
    #[inline(always)]
    fn sign(self) -> Self {
        let (zero, one) = (Self::zero(), Self::one());
        self.gt(zero).select(one, zero) - self.lt(zero).select(one, zero)
    }
}

pub(crate) trait Integer: Arithmetic + Element {
    /// Remainder with the sign of the divisor.
    fn rem(self, rhs: Self) -> Self;
    /// Exact power, wrapped. A negative exponent gives the reciprocal truncated: 0, except for bases 1 and
    /// -1.
    fn pow(self, exponent: Self) -> Self;
    /// Left shift; 0 for a count that is negative or at least the width.
    fn shl(self, count: Self) -> Self;
    /// Right shift that copies the sign bit; the sign alone (-1 or 0) for a count that is negative or at
    /// least the width.
    fn shr(self, count: Self) -> Self;
}

/// Implements the operations of an integer type; `$quotient` is the truncated `$a / $b`, and 0 for a divisor
/// of 0.
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

        impl Arithmetic for $ty {
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
                let rest = self.wrapping_sub(Arithmetic::div(self, rhs).wrapping_mul(rhs));
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

/// The quotient of integers by way of a float that does not round across an integer: the gap between `a / b`
/// and the next integer is at least `1 / b`, more than half an ULP of the float. Unlike integer division,
/// this vectorises. A divisor of 0 is replaced by 1, and the quotient by 0. The saturating cast would turn
/// `MIN / -1` into `MAX`, so it goes to the wider integer `$wide`.
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
    // Not through i64: the cast to i64 vectorises only with AVX-512. MIN / -1 is the only quotient that
    // saturates.
    let quotient = through_float!(a, b, i32, f64, i32);
    if a == i32::MIN && b == -1 { i32::MIN } else { quotient }
});
impl_integer!(u8, u8, signed: false, |a, b| through_float!(a, b, u8, f32, i32));
impl_integer!(u16, u16, signed: false, |a, b| through_float!(a, b, u16, f32, i32));
impl_integer!(u32, u32, signed: false, |a, b| through_float!(a, b, u32, f64, u32));
impl_integer!(i64, u64, signed: true, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) });
impl_integer!(u64, u64, signed: false, |a, b| a.checked_div(b).unwrap_or(0));
