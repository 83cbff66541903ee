//! Dtypes. The engine does not store all of Burn's: `Flex32`, which only kernels of GPU backends distinguish
//! from `F32`; booleans of four bytes; and the dtypes of quantized tensors, for which the engine has schemes.

use super::burn_backend as burn;
use burn::{BoolDType, FloatDType, IntDType};
use flex_core::{BoolStore, DType, Error, Result};

/// The expected dtype in errors of operations that make a tensor of a dtype that the caller names.
const ANY: &str = "a float, integer or bool dtype";
/// The expected dtype in errors of operations whose result is a float tensor.
const FLOAT: &str = "a float dtype (f64, f32, f16, bf16)";
/// The expected dtype in errors of operations whose result is a mask.
const MASK: &str = "a bool dtype of one byte (native, u8)";
/// The expected dtype in errors of reductions to a bool.
const TRUTH: &str = "a bool dtype stored as native bool or u8";

/// The engine's dtype; `None` if the engine does not store tensors of `dtype`.
#[inline]
pub fn stored(dtype: burn::DType) -> Option<DType> {
    Some(match dtype {
        burn::DType::F64 => DType::F64,
        burn::DType::F32 => DType::F32,
        burn::DType::F16 => DType::F16,
        burn::DType::BF16 => DType::BF16,
        burn::DType::I64 => DType::I64,
        burn::DType::I32 => DType::I32,
        burn::DType::I16 => DType::I16,
        burn::DType::I8 => DType::I8,
        burn::DType::U64 => DType::U64,
        burn::DType::U32 => DType::U32,
        burn::DType::U16 => DType::U16,
        burn::DType::U8 => DType::U8,
        burn::DType::Bool(burn::BoolStore::Native) => DType::Bool(BoolStore::Native),
        burn::DType::Bool(burn::BoolStore::U8) => DType::Bool(BoolStore::U8),
        burn::DType::Flex32 | burn::DType::QFloat(_) | burn::DType::Bool(burn::BoolStore::U32) => {
            return None;
        }
    })
}

/// Burn's dtype.
#[inline]
pub fn to_burn(dtype: DType) -> burn::DType {
    match dtype {
        DType::F64 => burn::DType::F64,
        DType::F32 => burn::DType::F32,
        DType::F16 => burn::DType::F16,
        DType::BF16 => burn::DType::BF16,
        DType::I64 => burn::DType::I64,
        DType::I32 => burn::DType::I32,
        DType::I16 => burn::DType::I16,
        DType::I8 => burn::DType::I8,
        DType::U64 => burn::DType::U64,
        DType::U32 => burn::DType::U32,
        DType::U16 => burn::DType::U16,
        DType::U8 => burn::DType::U8,
        DType::Bool(BoolStore::Native) => burn::DType::Bool(burn::BoolStore::Native),
        DType::Bool(BoolStore::U8) => burn::DType::Bool(burn::BoolStore::U8),
    }
}

/// The error for a dtype that the engine lacks.
#[cold]
pub fn refusal(op: &'static str, got: burn::DType, expected: &'static str) -> Error {
    Error::DType { op, got: got.name(), expected }
}

/// The engine's dtype.
///
/// # Errors
/// A dtype that the engine does not store; the error names `op`.
pub fn checked(op: &'static str, dtype: burn::DType, expected: &'static str) -> Result<DType> {
    stored(dtype).ok_or_else(|| refusal(op, dtype, expected))
}

/// The engine's dtype.
///
/// # Panics
/// If the engine does not store the dtype; the message names `op`.
#[inline]
#[track_caller]
fn expect(op: &'static str, dtype: burn::DType, expected: &'static str) -> DType {
    match stored(dtype) {
        Some(dtype) => dtype,
        None => panic!("{}", refusal(op, dtype, expected)),
    }
}

/// The dtype of a tensor that `op` creates.
///
/// # Panics
/// When the engine does not store it.
#[inline]
#[track_caller]
pub fn created(op: &'static str, dtype: impl Into<burn::DType>) -> DType {
    expect(op, dtype.into(), ANY)
}

/// The dtype of a float tensor that `op` returns.
///
/// # Panics
/// When the engine does not store it.
#[inline]
#[track_caller]
pub fn float(op: &'static str, dtype: FloatDType) -> DType {
    expect(op, dtype.into(), FLOAT)
}

/// The dtype of an integer tensor. The engine stores all integer dtypes.
#[inline]
pub fn int(dtype: IntDType) -> DType {
    match dtype {
        IntDType::I64 => DType::I64,
        IntDType::I32 => DType::I32,
        IntDType::I16 => DType::I16,
        IntDType::I8 => DType::I8,
        IntDType::U64 => DType::U64,
        IntDType::U32 => DType::U32,
        IntDType::U16 => DType::U16,
        IntDType::U8 => DType::U8,
    }
}

/// How the booleans of a mask that `op` returns are stored.
///
/// # Panics
/// If the engine does not store booleans in this way.
#[inline]
#[track_caller]
pub fn mask(op: &'static str, store: BoolDType) -> BoolStore {
    bools(op, store, MASK)
}

/// How the boolean result of a reduction `op` is stored.
///
/// # Panics
/// If the engine does not store booleans in this way.
#[inline]
#[track_caller]
pub fn truth(op: &'static str, store: BoolDType) -> BoolStore {
    bools(op, store, TRUTH)
}

#[inline]
#[track_caller]
fn bools(op: &'static str, store: BoolDType, expected: &'static str) -> BoolStore {
    match store {
        burn::BoolStore::Native => BoolStore::Native,
        burn::BoolStore::U8 => BoolStore::U8,
        burn::BoolStore::U32 => panic!("{}", refusal(op, burn::DType::Bool(store), expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::DType as B;

    #[test]
    fn a_dtype_that_came_in_goes_out_again() {
        let floats = [B::F64, B::F32, B::F16, B::BF16];
        let ints = [B::I64, B::I32, B::I16, B::I8, B::U64, B::U32, B::U16, B::U8];
        let bools = [B::Bool(burn::BoolStore::Native), B::Bool(burn::BoolStore::U8)];
        for dtype in floats.into_iter().chain(ints).chain(bools) {
            let own = stored(dtype).expect("one that the engine stores");
            assert_eq!((to_burn(own), own.size(), own.name()), (dtype, dtype.size(), dtype.name()));
            let kind = (own.is_float(), own.is_int(), own.is_uint(), own.is_bool());
            assert_eq!(kind, (dtype.is_float(), dtype.is_int(), dtype.is_uint(), dtype.is_bool()));
        }
        ints.into_iter().for_each(|dtype| assert_eq!(Some(int(dtype.into())), stored(dtype)));
        for dtype in [B::Flex32, B::Bool(burn::BoolStore::U32), B::QFloat(Default::default())] {
            assert_eq!(stored(dtype), None);
        }
    }
}
