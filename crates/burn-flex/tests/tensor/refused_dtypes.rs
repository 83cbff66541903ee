//! Dtypes of Burn that the engine does not store: the error messages of operations that are asked for them.

use crate::common::panic_message;
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps, QTensorOps};
use burn_backend::quantization::{QuantLevel, QuantParam, QuantScheme, QuantStore, QuantValue};
use burn_backend::{
    Backend, BoolStore, DType, DTypeUsageSet, Distribution, FloatDType, Shape, TensorData, TensorMetadata,
};
use burn_flex::{Flex, FlexDevice, FlexTensor};

type B = Flex;
const DEVICE: FlexDevice = FlexDevice;

fn floats() -> FlexTensor {
    B::float_from_data(TensorData::from([[1f32, 2.0]]), &DEVICE)
}

fn ints() -> FlexTensor {
    B::int_from_data(TensorData::from([[1i32, 2]]), &DEVICE)
}

fn bools() -> FlexTensor {
    B::bool_from_data(TensorData::from([[true, false]]), &DEVICE)
}

/// Cases of an operation and its whole message.
macro_rules! cases {
    ($($want:literal: $call:expr;)*) => { $(assert_eq!(panic_message(|| drop($call)), $want);)* };
}

#[test]
fn flex32_is_refused() {
    let shape = || Shape::new([2]);
    let flex32 = FloatDType::Flex32;
    cases! {
        "empty: dtype flex32 is not supported, expected a float, integer or bool dtype":
            B::float_empty(shape(), &DEVICE, flex32);
        "full: dtype flex32 is not supported, expected a float, integer or bool dtype":
            B::float_zeros(shape(), &DEVICE, flex32);
        "full: dtype flex32 is not supported, expected a float, integer or bool dtype":
            B::float_full(shape(), 2.0.into(), &DEVICE, flex32);
        "random: dtype flex32 is not supported, expected a float dtype (f64, f32, f16, bf16)":
            B::float_random(shape(), Distribution::Default, &DEVICE, flex32);
        "random: dtype flex32 is not supported, expected a float, integer or bool dtype":
            B::float_random(shape(), Distribution::Bernoulli(0.5), &DEVICE, flex32);
        "cast: dtype flex32 is not supported, expected a float dtype (f64, f32, f16, bf16)":
            B::float_cast(floats(), flex32);
        "cast: dtype flex32 is not supported, expected a float dtype (f64, f32, f16, bf16)":
            B::int_into_float(ints(), flex32);
        "cast: dtype flex32 is not supported, expected a float dtype (f64, f32, f16, bf16)":
            B::bool_into_float(bools(), flex32);
        "dequantize: dtype flex32 is not supported, expected a float dtype (f64, f32, f16, bf16)":
            B::dequantize(B::quantize_dynamic(floats(), &native()), flex32);
    }
}

#[test]
fn bools_of_four_bytes_are_refused() {
    let shape = || Shape::new([2]);
    let wide = BoolStore::U32;
    cases! {
        "empty: dtype bool(u32) is not supported, expected a float, integer or bool dtype":
            B::bool_empty(shape(), &DEVICE, wide);
        "full: dtype bool(u32) is not supported, expected a float, integer or bool dtype":
            B::bool_ones(shape(), &DEVICE, wide);
        "equal: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::float_equal(floats(), floats(), wide);
        "not_equal: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::int_not_equal_elem(ints(), 1.into(), wide);
        "greater: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::float_greater_elem(floats(), 1.0.into(), wide);
        "greater_equal: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::int_greater_equal(ints(), ints(), wide);
        "lower: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::float_lower(floats(), floats(), wide);
        "lower_equal: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::int_lower_equal_elem(ints(), 1.into(), wide);
        "is_nan: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::float_is_nan(floats(), wide);
        "is_inf: dtype bool(u32) is not supported, expected a bool dtype of one byte (native, u8)":
            B::float_is_inf(floats(), wide);
        "any: dtype bool(u32) is not supported, expected a bool dtype stored as native bool or u8":
            B::float_any(floats(), wide);
        "all: dtype bool(u32) is not supported, expected a bool dtype stored as native bool or u8":
            B::int_all(ints(), wide);
        "any_dim: dtype bool(u32) is not supported, expected a bool dtype stored as native bool or u8":
            B::int_any_dim(ints(), 1, wide);
        "all_dim: dtype bool(u32) is not supported, expected a bool dtype stored as native bool or u8":
            B::float_all_dim(floats(), 1, wide);
    }
}

fn native() -> QuantScheme {
    QuantScheme::default().with_value(QuantValue::Q8S).with_store(QuantStore::Native)
}

#[test]
fn data_of_another_kind_and_unknown_schemes_are_refused() {
    let quantized =
        || TensorData::from_bytes(burn_std::Bytes::from_elems(vec![0u8; 5]), [3], DType::QFloat(native()));
    cases! {
        "float_from_data: dtype qfloat is not supported, expected a float dtype (f64, f32, f16, bf16)":
            B::float_from_data(quantized(), &DEVICE);
        "int_from_data: dtype bool is not supported, expected an integer dtype":
            B::int_from_data(TensorData::from([true]), &DEVICE);
        "bool_from_data: dtype f32 is not supported, expected a bool dtype":
            B::bool_from_data(TensorData::from([1f32]), &DEVICE);
        "q_from_data: dtype f32 is not supported, expected a quantized dtype":
            B::q_from_data(TensorData::from([1f32]), &DEVICE);
        "quantized from_data: number of bytes is 5, expected 7 bytes for shape [3] and QuantScheme { \
         value: Q8S, param: F32, store: Native, level: Tensor, mode: Symmetric }":
            B::q_from_data(quantized(), &DEVICE);
        "quantize_dynamic: store of the scheme is (PackedU32(1), Q8S), expected Native, or for integers PackedU32 along the \
         innermost axis": B::quantize_dynamic(floats(), &native().with_store(QuantStore::PackedU32(1)));
        "quantize_dynamic: store of the scheme is (PackedNative(0), Q8S), expected Native, or for integers PackedU32 along \
         the innermost axis": B::quantize_dynamic(floats(), &native().with_store(QuantStore::PackedNative(0)));
        "quantize_dynamic: parameter precision of the scheme is UE8M0, expected F32, F16 or BF16":
            B::quantize_dynamic(floats(), &native().with_param(QuantParam::UE8M0));
        "quantize_dynamic: got a tensor of shape [1, 2], expected axes that the block sizes [3] divide":
            B::quantize_dynamic(floats(), &native().with_level(QuantLevel::block([3])));
    }
}

#[test]
fn what_is_refused_is_said_beforehand() {
    let none = |dtype| B::dtype_usage(&DEVICE, dtype) == DTypeUsageSet::empty();
    for dtype in [
        DType::Flex32,
        DType::Bool(BoolStore::U32),
        DType::QFloat(native().with_param(QuantParam::UE4M3)),
        DType::QFloat(native().with_store(QuantStore::PackedU32(1))),
    ] {
        assert!(none(dtype), "{dtype:?}");
    }
    for dtype in [DType::BF16, DType::U16, DType::Bool(BoolStore::U8), DType::QFloat(native())] {
        assert!(!none(dtype), "{dtype:?}");
    }
}

#[test]
fn bools_stay_stored_as_they_came() {
    for store in [BoolStore::Native, BoolStore::U8] {
        let data = TensorData::from([true, false, true]).convert_dtype(DType::Bool(store));
        let tensor = B::bool_from_data(data, &DEVICE);
        assert_eq!(tensor.dtype(), DType::Bool(store));
        assert_eq!(B::bool_not(tensor.clone()).dtype(), DType::Bool(store));
        assert_eq!(B::bool_any(tensor).dtype(), DType::Bool(store));
        assert_eq!(B::float_equal(floats(), floats(), store).dtype(), DType::Bool(store));
    }
}
