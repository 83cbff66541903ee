//! Dtypes, and the mapping from the run-time [`DType`] to Rust types.

use crate::{bf16, f16};
use bytemuck::Pod;
use core::fmt::Debug;
use core::ops::RangeInclusive;
use flex_math::half;
use num_traits::AsPrimitive;

/// The type of a tensor's elements.
///
/// A `DType` is one word long: [`BoolStore`] is a word, and its unused values encode the other types. Every
/// tensor holds a `DType`. If it were a single byte, the processor would stall when a fresh tensor is moved
/// word by word, padding included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// A float of 64 bits.
    F64,
    /// A float of 32 bits.
    F32,
    /// A float of 16 bits, of which 5 are the exponent.
    F16,
    /// A float of 16 bits, of which 8 are the exponent.
    BF16,
    /// A signed integer of 64 bits.
    I64,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 8 bits.
    I8,
    /// An unsigned integer of 64 bits.
    U64,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 8 bits.
    U8,
    /// A boolean.
    Bool(BoolStore),
}

/// A front end's name for the way in which booleans are stored. The engine stores every boolean as a byte
/// holding 0 or 1, and only keeps the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum BoolStore {
    /// As Rust's `bool`.
    Native,
    /// As `u8`.
    U8,
}

const _: () = assert!(size_of::<DType>() == size_of::<usize>(), "a dtype is one word");

impl DType {
    /// Bytes of an element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool(_) => 1,
        }
    }

    /// Whether this is a floating-point type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    /// Whether this is a signed integer type.
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::I16 | DType::I8)
    }

    /// Whether this is an unsigned integer type.
    #[inline]
    pub const fn is_uint(self) -> bool {
        matches!(self, DType::U64 | DType::U32 | DType::U16 | DType::U8)
    }

    /// The values of an integer type; `None` for floats and booleans.
    #[inline]
    pub const fn integer_range(self) -> Option<RangeInclusive<i128>> {
        let bits = 8 * self.size();
        match (self.is_int(), self.is_uint()) {
            (true, _) => Some(-(1 << (bits - 1))..=(1 << (bits - 1)) - 1),
            (_, true) => Some(0..=(1 << bits) - 1),
            _ => None,
        }
    }

    /// Whether this is a boolean, stored either way.
    #[inline]
    pub const fn is_bool(self) -> bool {
        matches!(self, DType::Bool(_))
    }

    /// The name used in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool(BoolStore::Native) => "bool",
            DType::Bool(BoolStore::U8) => "bool(u8)",
        }
    }
}

/// A Rust type that tensors store. Booleans are stored as `u8` holding 0 or 1.
///
/// Conversions follow Rust's `as`: float to integer truncates and saturates (NaN becomes 0), integer to
/// integer wraps, and conversions to float round to nearest.
pub trait Element: Pod + Send + Sync + Default + PartialEq + PartialOrd + Debug + 'static {
    /// The dtype of this type. `u8` has `U8`, though it also stores booleans.
    const DTYPE: DType;
    /// Whether this is a floating-point type.
    const IS_FLOAT: bool;
    /// The additive identity.
    const ZERO: Self;
    /// The multiplicative identity.
    const ONE: Self;
    /// The value as `f64`.
    fn to_f64(self) -> f64;
    /// The value as `i64`.
    fn to_i64(self) -> i64;
    /// The value converted from `f64`.
    fn from_f64(value: f64) -> Self;
    /// The value converted from `i64`.
    fn from_i64(value: i64) -> Self;
    /// The value converted from `u64`.
    fn from_u64(value: u64) -> Self;
    /// Smallest and largest finite value, for saturating conversions.
    fn bounds() -> (Self, Self);
}

macro_rules! impl_element {
    ($($ty:ty, $dtype:expr, $is_float:expr, $zero:expr, $one:expr, $min:expr, $max:expr, $from:ident;)*) => {$(
        impl Element for $ty {
            const DTYPE: DType = $dtype;
            const IS_FLOAT: bool = $is_float;
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            #[inline(always)]
            fn to_f64(self) -> f64 { self.as_() }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.as_() }
            #[inline(always)]
            fn from_f64(value: f64) -> Self { converted!($from, value, half::to_odd) }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { converted!($from, value, half::i64_to_odd) }
            #[inline(always)]
            fn from_u64(value: u64) -> Self { converted!($from, value, half::u64_to_odd) }
            fn bounds() -> (Self, Self) { ($min, $max) }
        }
    )*};
}

/// A number in `Self`. Halves are rounded once: the crate `half` converts 64 bits by way of f32, or leaves
/// out the low bits.
macro_rules! converted {
    (by_as, $value:expr, $to_odd:path) => {
        $value.as_()
    };
    (once, $value:expr, $to_odd:path) => {
        Self::from_bits(<Self as half::Half>::narrow($to_odd($value)))
    };
}

impl_element! {
    f64, DType::F64, true, 0.0, 1.0, f64::MIN, f64::MAX, by_as;
    f32, DType::F32, true, 0.0, 1.0, f32::MIN, f32::MAX, by_as;
    f16, DType::F16, true, f16::ZERO, f16::ONE, f16::MIN, f16::MAX, once;
    bf16, DType::BF16, true, bf16::ZERO, bf16::ONE, bf16::MIN, bf16::MAX, once;
    i64, DType::I64, false, 0, 1, i64::MIN, i64::MAX, by_as;
    i32, DType::I32, false, 0, 1, i32::MIN, i32::MAX, by_as;
    i16, DType::I16, false, 0, 1, i16::MIN, i16::MAX, by_as;
    i8, DType::I8, false, 0, 1, i8::MIN, i8::MAX, by_as;
    u64, DType::U64, false, 0, 1, u64::MIN, u64::MAX, by_as;
    u32, DType::U32, false, 0, 1, u32::MIN, u32::MAX, by_as;
    u16, DType::U16, false, 0, 1, u16::MIN, u16::MAX, by_as;
    u8, DType::U8, false, 0, 1, u8::MIN, u8::MAX, by_as;
}

/// Whether elements of `dtype` can be read as `T`: the same type, a boolean read as `u8`, or an unsigned
/// integer of the same width, read as raw bits (by which data movement handles every dtype with four
/// kernels).
#[inline]
pub fn stores<T: Element>(dtype: DType) -> bool {
    if T::DTYPE == dtype {
        return true;
    }
    let raw_bits = matches!(T::DTYPE, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    raw_bits && dtype.size() == size_of::<T>()
}

/// A number that is not yet bound to a dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float.
    Float(f64),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A boolean.
    Bool(bool),
}

impl Scalar {
    /// The value in `T`, with the rules of Rust's `as`.
    pub fn cast<T: Element>(self) -> T {
        match self {
            Scalar::Float(v) => T::from_f64(v),
            Scalar::Int(v) => T::from_i64(v),
            Scalar::UInt(v) => T::from_u64(v),
            Scalar::Bool(v) => T::from_u64(v as u64),
        }
    }

    /// The value in `T`, clamped to the range of `T` when `T` is an integer type that cannot represent it.
    /// Bounds of a comparison (`clamp`) need this: `x.clamp_min(300)` of an `i8` is 127, not 44.
    pub fn saturate<T: Element>(self) -> T {
        if T::IS_FLOAT {
            return self.cast();
        }
        let (min, max) = T::bounds();
        let value: i128 = match self {
            // `as` saturates, and i128 holds every bound of the integer types.
            Scalar::Float(v) => v as i128,
            Scalar::Int(v) => v.into(),
            Scalar::UInt(v) => v.into(),
            Scalar::Bool(v) => v.into(),
        };
        let as_i128 = |t: T| match T::DTYPE {
            DType::U64 => t.to_i64() as u64 as i128,
            _ => t.to_i64() as i128,
        };
        if value <= as_i128(min) {
            min
        } else if value >= as_i128(max) {
            max
        } else if value < 0 {
            T::from_i64(value as i64)
        } else {
            T::from_u64(value as u64)
        }
    }

    /// The value as `f64`.
    pub fn to_f64(self) -> f64 {
        self.cast()
    }
}

impl From<f64> for Scalar {
    fn from(v: f64) -> Self {
        Scalar::Float(v)
    }
}
impl From<f32> for Scalar {
    fn from(v: f32) -> Self {
        Scalar::Float(v.into())
    }
}
impl From<i64> for Scalar {
    fn from(v: i64) -> Self {
        Scalar::Int(v)
    }
}
impl From<i32> for Scalar {
    fn from(v: i32) -> Self {
        Scalar::Int(v.into())
    }
}

/// Binds `$T` to the Rust type of a run-time dtype and evaluates `$body` (of type `Result<_>`) once per arm.
/// The first word names the accepted set of dtypes; other dtypes give [`Error::DType`](crate::Error::DType).
///
/// * `float`: f64, f32, f16, bf16
/// * `int`: the eight integer types
/// * `number`: both of the above
/// * `any`: numbers, and booleans as `u8`
/// * `bits`: every dtype as the unsigned integer of its width; for data movement
#[macro_export]
#[doc(hidden)]
macro_rules! dispatch {
    (@arms $op:expr, $dtype:expr, $expected:literal, $T:ident => $body:expr; $($pat:pat => $ty:ty),* $(,)?) => {
        match $dtype {
            $($pat => { type $T = $ty; $body })*
            // `any` and `bits` match every dtype.
            #[allow(unreachable_patterns)]
            other => Err($crate::Error::dtype($op, other, $expected)),
        }
    };
    (float $op:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!(@arms $op, $dtype, "a float dtype (f64, f32, f16, bf16)", $T => $body;
            $crate::DType::F64 => f64, $crate::DType::F32 => f32,
            $crate::DType::F16 => $crate::f16, $crate::DType::BF16 => $crate::bf16)
    };
    (int $op:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!(@arms $op, $dtype, "an integer dtype", $T => $body;
            $crate::DType::I64 => i64, $crate::DType::I32 => i32,
            $crate::DType::I16 => i16, $crate::DType::I8 => i8,
            $crate::DType::U64 => u64, $crate::DType::U32 => u32,
            $crate::DType::U16 => u16, $crate::DType::U8 => u8)
    };
    (number $op:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!(@arms $op, $dtype, "a float or integer dtype", $T => $body;
            $crate::DType::F64 => f64, $crate::DType::F32 => f32,
            $crate::DType::F16 => $crate::f16, $crate::DType::BF16 => $crate::bf16,
            $crate::DType::I64 => i64, $crate::DType::I32 => i32,
            $crate::DType::I16 => i16, $crate::DType::I8 => i8,
            $crate::DType::U64 => u64, $crate::DType::U32 => u32,
            $crate::DType::U16 => u16, $crate::DType::U8 => u8)
    };
    (any $op:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!(@arms $op, $dtype, "a float, integer or bool dtype", $T => $body;
            $crate::DType::F64 => f64, $crate::DType::F32 => f32,
            $crate::DType::F16 => $crate::f16, $crate::DType::BF16 => $crate::bf16,
            $crate::DType::I64 => i64, $crate::DType::I32 => i32,
            $crate::DType::I16 => i16, $crate::DType::I8 => i8,
            $crate::DType::U64 => u64, $crate::DType::U32 => u32,
            $crate::DType::U16 => u16,
            $crate::DType::U8
                | $crate::DType::Bool(_) => u8)
    };
    (bits $op:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!(@arms $op, $dtype, "a float, integer or bool dtype", $T => $body;
            $crate::DType::F64 | $crate::DType::I64 | $crate::DType::U64 => u64,
            $crate::DType::F32 | $crate::DType::I32 | $crate::DType::U32 => u32,
            $crate::DType::F16 | $crate::DType::BF16
                | $crate::DType::I16 | $crate::DType::U16 => u16,
            $crate::DType::I8 | $crate::DType::U8
                | $crate::DType::Bool(_) => u8)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_holds_to_the_bounds() {
        assert_eq!(Scalar::Int(300).saturate::<i8>(), 127);
        assert_eq!(Scalar::Float(-1e30).saturate::<u8>(), 0);
        assert_eq!(Scalar::Float(1e30).saturate::<u64>(), u64::MAX);
        assert_eq!(Scalar::UInt(u64::MAX).saturate::<i64>(), i64::MAX);
        assert_eq!(Scalar::UInt(u64::MAX).saturate::<u64>(), u64::MAX);
        assert_eq!(Scalar::Int(-5).saturate::<i32>(), -5);
        assert_eq!(Scalar::Float(2.5).saturate::<f32>(), 2.5);
    }

    #[test]
    fn casts_follow_rust() {
        assert_eq!(Scalar::Int(300).cast::<u8>(), 44);
        assert_eq!(Scalar::Float(f64::NAN).cast::<i32>(), 0);
        assert_eq!(Scalar::UInt(u64::MAX).cast::<u64>(), u64::MAX);
        assert_eq!(Scalar::Bool(true).cast::<f32>(), 1.0);
    }

    /// Numbers a little beyond the middle of two halves, by less than f32 tells.
    #[test]
    fn halves_are_rounded_once() {
        let tie = 1.0 + 2f64.powi(-8);
        let next = 1.0 + 2f32.powi(-7);
        assert_eq!(<bf16 as Element>::from_f64(tie).to_f32(), 1.0);
        assert_eq!(<bf16 as Element>::from_f64(tie + 2f64.powi(-40)).to_f32(), next);
        assert_eq!(<bf16 as Element>::from_f64(-tie - 2f64.powi(-40)).to_f32(), -next);
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(<f16 as Element>::from_f64(tie).to_f32(), 1.0);
        assert_eq!(<f16 as Element>::from_f64(tie + 2f64.powi(-40)).to_f32(), 1.0 + 2f32.powi(-10));
        let tie = (1i64 << 60) + (1 << 52);
        let next = 2f32.powi(60) + 2f32.powi(53);
        assert_eq!(<bf16 as Element>::from_i64(tie).to_f32(), 2f32.powi(60));
        assert_eq!(<bf16 as Element>::from_i64(tie + 1).to_f32(), next);
        assert_eq!(<bf16 as Element>::from_u64(tie as u64 + 1).to_f32(), next);
        assert!(<f16 as Element>::from_f64(f64::NAN).is_nan());
        assert_eq!(<f16 as Element>::from_f64(1e300), f16::INFINITY);
        assert_eq!(<f16 as Element>::from_i64(-70_000), f16::NEG_INFINITY);
    }
}
