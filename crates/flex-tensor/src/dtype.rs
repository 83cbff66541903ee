//! From the run-time [`DType`] to Rust types, in one place.

use burn_std::{BoolStore, DType, bf16, f16};
use bytemuck::Pod;
use core::fmt::Debug;
use num_traits::AsPrimitive;

/// A Rust type that tensors store. Booleans are stored as `u8` holding 0 or 1.
///
/// Conversions follow Rust's `as`: float to integer truncates and saturates (NaN becomes 0), integer to integer
/// wraps, everything to float rounds to nearest.
pub trait Element: Pod + Send + Sync + Default + PartialEq + PartialOrd + Debug + 'static {
    /// The dtype that this type stands for (`u8` stands for `U8`, though it also stores booleans).
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
    /// From `f64`.
    fn from_f64(value: f64) -> Self;
    /// From `i64`.
    fn from_i64(value: i64) -> Self;
    /// From `u64`.
    fn from_u64(value: u64) -> Self;
    /// Smallest and largest finite value, for saturating conversions.
    fn bounds() -> (Self, Self);
}

macro_rules! impl_element {
    ($($ty:ty, $dtype:expr, $is_float:expr, $zero:expr, $one:expr, $min:expr, $max:expr;)*) => {$(
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
            fn from_f64(value: f64) -> Self { value.as_() }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { value.as_() }
            #[inline(always)]
            fn from_u64(value: u64) -> Self { value.as_() }
            fn bounds() -> (Self, Self) { ($min, $max) }
        }
    )*};
}

impl_element! {
    f64, DType::F64, true, 0.0, 1.0, f64::MIN, f64::MAX;
    f32, DType::F32, true, 0.0, 1.0, f32::MIN, f32::MAX;
    f16, DType::F16, true, f16::ZERO, f16::ONE, f16::MIN, f16::MAX;
    bf16, DType::BF16, true, bf16::ZERO, bf16::ONE, bf16::MIN, bf16::MAX;
    i64, DType::I64, false, 0, 1, i64::MIN, i64::MAX;
    i32, DType::I32, false, 0, 1, i32::MIN, i32::MAX;
    i16, DType::I16, false, 0, 1, i16::MIN, i16::MAX;
    i8, DType::I8, false, 0, 1, i8::MIN, i8::MAX;
    u64, DType::U64, false, 0, 1, u64::MIN, u64::MAX;
    u32, DType::U32, false, 0, 1, u32::MIN, u32::MAX;
    u16, DType::U16, false, 0, 1, u16::MIN, u16::MAX;
    u8, DType::U8, false, 0, 1, u8::MIN, u8::MAX;
}

/// Whether elements of `dtype` can be read as `T`: the same type, a boolean stored as `u8`, or an unsigned
/// integer of the same width taken as raw bits (how data movement handles every dtype with four kernels).
pub fn stores<T: Element>(dtype: DType) -> bool {
    if T::DTYPE == dtype {
        return true;
    }
    let raw_bits = matches!(T::DTYPE, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    raw_bits && dtype.size() == size_of::<T>() && !matches!(dtype, DType::QFloat(_))
}

/// Whether the engine stores tensors of this dtype.
pub fn is_supported(dtype: DType) -> bool {
    Stored::new(dtype).is_some()
}

macro_rules! stored {
    ($($name:ident = $dtype:pat => $value:expr;)*) => {
        /// A dtype that the engine stores, in a word. [`DType`] has room for quantization schemes, which makes it 32 bytes: a
        /// tensor that carries one is longer than what compilers move without calling `memcpy`. In a single byte it would be
        /// waited for when a fresh tensor, padding and all, is moved word by word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Stored {
            $(
                #[allow(missing_docs)]
                $name,
            )*
        }

        impl Stored {
            /// `None` when the engine does not store tensors of this dtype.
            #[inline]
            pub fn new(dtype: DType) -> Option<Self> {
                match dtype {
                    $($dtype => Some(Self::$name),)*
                    DType::Flex32 | DType::QFloat(_) | DType::Bool(BoolStore::U32) => None,
                }
            }

            /// `dtype`, for a tensor of elements `T`.
            ///
            /// # Panics
            /// In the name of `op`, when `T` does not store it.
            pub fn of<T: Element>(op: &'static str, dtype: DType) -> Self {
                match Self::new(dtype) {
                    Some(stored) if stores::<T>(dtype) => stored,
                    _ => panic!("{op}: {:?} does not store {dtype:?}", T::DTYPE),
                }
            }

            /// The dtype.
            #[inline]
            pub fn dtype(self) -> DType {
                match self {
                    $(Self::$name => $value,)*
                }
            }
        }
    };
    ($($name:ident)*; $($bool:ident: $store:path),*) => {
        stored! {
            $($name = DType::$name => DType::$name;)*
            $($bool = DType::Bool($store) => DType::Bool($store);)*
        }
    };
}

stored! { F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8; Bool: BoolStore::Native, BoolU8: BoolStore::U8 }

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

    /// The value in `T`, held to the nearest bound when `T` is an integer type that cannot represent it.
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
/// The first word names the set of dtypes accepted; others give [`Error::DType`](crate::Error::DType).
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
                | $crate::DType::Bool($crate::BoolStore::Native | $crate::BoolStore::U8) => u8)
    };
    (bits $op:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch!(@arms $op, $dtype, "a float, integer or bool dtype", $T => $body;
            $crate::DType::F64 | $crate::DType::I64 | $crate::DType::U64 => u64,
            $crate::DType::F32 | $crate::DType::I32 | $crate::DType::U32 => u32,
            $crate::DType::F16 | $crate::DType::BF16
                | $crate::DType::I16 | $crate::DType::U16 => u16,
            $crate::DType::I8 | $crate::DType::U8
                | $crate::DType::Bool($crate::BoolStore::Native | $crate::BoolStore::U8) => u8)
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
}
