//! Quantized tensors of Burn 0.22: schemes of one and of two levels of scales in every dtype of scales, and
//! their bytes, by Burn's own reader and writer.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{
    BlockLayout, QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive, QuantizedBytes,
    ScaleDtype, scale_to_dtype,
};
use burn_backend::{Backend, DType, FloatDType, TensorData, TensorMetadata};
use burn_flex::{Flex, FlexDevice, FlexQTensor, FlexTensor};
use burn_tensor::quantization::quantized_data_len;
use burn_tensor::{Device, Tensor};
use futures_lite::future::block_on;

const VALUES: [QuantValue; 9] = [
    QuantValue::Q8F,
    QuantValue::Q8S,
    QuantValue::Q4F,
    QuantValue::Q4S,
    QuantValue::Q2F,
    QuantValue::Q2S,
    QuantValue::E4M3,
    QuantValue::E5M2,
    QuantValue::E2M1,
];
const SCALES: [ScaleDtype; 5] =
    [ScaleDtype::F32, ScaleDtype::F16, ScaleDtype::BF16, ScaleDtype::UE8M0, ScaleDtype::UE4M3];

/// Every scheme that the backend takes for a tensor whose axes are divided by 4 and by 8.
fn schemes() -> Vec<QuantScheme> {
    let mut all = Vec::new();
    for value in VALUES {
        let scheme = QuantScheme::default().with_value(value).with_store(QuantStore::Native);
        all.push(scheme);
        for dtype in SCALES {
            all.push(scheme.per_tensor(dtype));
            for block in [&[8u8][..], &[4, 8]] {
                all.push(scheme.per_block(block, dtype));
                all.push(scheme.per_block(block, dtype).per_tensor(ScaleDtype::F32));
            }
        }
    }
    all.retain(|scheme| Flex::supports_dtype(&FlexDevice, DType::QFloat(*scheme)));
    all
}

const SHAPE: [usize; 2] = [8, 24];

/// Numbers of very different magnitudes.
fn numbers() -> Vec<f32> {
    let value = |i: usize| (((i * 7919 + 13) % 2003) as f32 / 1000.0 - 1.0) * (1.0 + (i / 37 % 11) as f32);
    (0..SHAPE[0] * SHAPE[1]).map(value).collect()
}

fn quantized(scheme: &QuantScheme) -> FlexQTensor {
    Flex::quantize_dynamic(FlexTensor::from_data(TensorData::new(numbers(), SHAPE)), scheme)
}

fn floats(tensor: FlexQTensor) -> Vec<f32> {
    Flex::dequantize(tensor, FloatDType::F32).into_data().iter::<f32>().collect()
}

/// The codes, the scales, and the scale of the tensor.
fn parts(tensor: &FlexQTensor) -> (Vec<i8>, Vec<f32>, Option<f32>) {
    let tensor = tensor.as_core();
    (tensor.values.to_vec(), tensor.scales.to_vec(), tensor.global)
}

#[test]
fn all_schemes_that_burn_can_quantize_are_taken() {
    // The codes of 9 kinds; one scale of 5 dtypes, named or not; 2 blocks of scales of 5 dtypes, and of the
    // 2 that fit a scale of the tensor.
    assert_eq!(schemes().len(), 9 * (1 + 5 + 2 * (5 + 2)));
}

/// Tensors are stored with one byte for each code, also where packed ones are asked for, or are written by
/// another backend.
#[test]
fn packed_schemes_give_tensors_of_bytes() {
    let is_float = |value| matches!(value, QuantValue::E4M3 | QuantValue::E5M2 | QuantValue::E2M1);
    for scheme in schemes().into_iter().filter(|scheme| !is_float(scheme.value)) {
        let native = quantized(&scheme);
        let packed = scheme.with_store(QuantStore::PackedU32(0));
        assert!(!Flex::supports_dtype(&FlexDevice, DType::QFloat(packed)), "{packed:?}");
        let got = quantized(&packed);
        assert_eq!(TensorMetadata::dtype(&got), DType::QFloat(scheme));
        assert_eq!(parts(&got), parts(&native), "{packed:?}");
        let bits = scheme.value.size_bits();
        let pack = |codes: &[i8]| {
            let mask = (1u32 << bits) - 1;
            codes.iter().rev().fold(0u32, |word, &code| word << bits | (code as u32 & mask))
        };
        let (codes, ..) = parts(&native);
        let words = codes.chunks(32 / bits).map(pack);
        let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
        let written = block_on(Flex::q_into_data(native.clone())).expect("data");
        bytes.extend(&written.as_bytes()[codes.len()..]);
        let data = TensorData::from_bytes_vec(bytes, SHAPE, DType::QFloat(packed));
        let read = Flex::q_from_data(data, &FlexDevice);
        assert_eq!(TensorMetadata::dtype(&read), DType::QFloat(scheme));
        assert_eq!(parts(&read), parts(&native), "{packed:?}");
    }
}

/// What saves a tensor asks Burn for the number of its bytes first. Rows of three codes are no whole words.
#[test]
fn the_bytes_are_as_many_as_burn_counts() {
    for scheme in [QuantScheme::default(), QuantScheme::default().with_value(QuantValue::Q4S)] {
        let numbers = FlexTensor::from_data(TensorData::new(vec![0.5f32; 9], [3, 3]));
        let data = block_on(Flex::q_into_data(Flex::quantize_dynamic(numbers, &scheme))).expect("data");
        let DType::QFloat(stored) = data.dtype() else { panic!("{:?}", data.dtype()) };
        assert_eq!(data.as_bytes().len(), quantized_data_len(&stored, &[3, 3].into()), "{scheme:?}");
    }
}

#[test]
fn codes_and_scales_by_definition() {
    let numbers = numbers();
    for scheme in schemes() {
        let (low, high) = scheme.value.range();
        let blocks = scheme.block_size().map(|block| BlockLayout::new(&SHAPE.into(), &block));
        let block_of = |i| blocks.as_ref().map_or(0, |blocks| blocks.block_of(i));
        let mut scales = vec![0f32; blocks.as_ref().map_or(1, BlockLayout::num_blocks)];
        numbers.iter().enumerate().for_each(|(i, x)| scales[block_of(i)] = scales[block_of(i)].max(x.abs()));
        scales.iter_mut().for_each(|s| *s = *s * 2.0 / (high - low));
        let two_levels = scheme.num_levels() == 2;
        let peak = scales.iter().copied().fold(0.0, f32::max);
        let global = two_levels.then(|| peak / scheme.scale_dtype().max_representable());
        let round = |s: f32| scale_to_dtype(s / global.unwrap_or(1.0), scheme.scale_dtype());
        let scales: Vec<f32> = scales.into_iter().map(round).collect();
        let got = quantized(&scheme);
        assert_eq!(TensorMetadata::dtype(&got), DType::QFloat(scheme));
        let (codes, got_scales, got_global) = parts(&got);
        assert_eq!((&got_scales, got_global), (&scales, global), "{scheme:?}");
        let scale = |i: usize| scales[block_of(i)] * global.unwrap_or(1.0);
        let back = floats(got);
        for (i, (&x, y)) in numbers.iter().zip(&back).enumerate() {
            let exact = (x / scale(i)).clamp(low, high);
            match scheme.value {
                // Half a step of the float's mantissa, or of its smallest numbers.
                QuantValue::E4M3 | QuantValue::E5M2 | QuantValue::E2M1 => {
                    let (bits, least) = match scheme.value {
                        QuantValue::E4M3 => (3, 2f32.powi(-10)),
                        QuantValue::E5M2 => (2, 2f32.powi(-17)),
                        _ => (1, 0.25),
                    };
                    let half_a_step = (exact.abs() * 2f32.powi(-bits - 1)).max(least);
                    assert!((y / scale(i) - exact).abs() <= half_a_step * 1.0001, "{scheme:?} {x} {y}");
                }
                _ => {
                    assert_eq!(codes[i], (x / scale(i)).round().clamp(low, high) as i8, "{scheme:?} {x}");
                    assert_eq!(*y, codes[i] as f32 * scale(i), "{scheme:?} {x}");
                }
            }
        }
        // Given scales give the same codes.
        let single = |values: Vec<f32>| {
            let n = values.len();
            FlexTensor::from_data(TensorData::new(values, [n]))
        };
        let given = QuantizationParametersPrimitive {
            scales: single(scales),
            global: global.map(|global| single(vec![global])),
        };
        let again =
            Flex::quantize(FlexTensor::from_data(TensorData::new(numbers.clone(), SHAPE)), &scheme, given);
        assert_eq!(parts(&again).0, codes, "{scheme:?}");
    }
}

#[test]
fn scales_follow_the_blocks_of_a_view() {
    let scheme = QuantScheme::default()
        .with_value(QuantValue::Q8S)
        .with_store(QuantStore::Native)
        .per_block([4, 8], ScaleDtype::F32);
    let tensor = quantized(&scheme);
    // 8 rows of 24 elements are 2 rows of 3 blocks.
    let scales = tensor.scales().to_vec();
    assert_eq!(scales.len(), 6);
    let turned = Flex::q_permute(tensor, &[1, 0]);
    assert_eq!(turned.scales(), [0, 3, 1, 4, 2, 5].map(|block| scales[block]));
}

#[test]
fn bytes_are_those_of_burn() {
    for scheme in schemes() {
        let tensor = quantized(&scheme);
        let (codes, scales, global) = parts(&tensor);
        let data = block_on(Flex::q_into_data(tensor.clone())).expect("data");
        assert_eq!(data.dtype(), DType::QFloat(scheme));
        let written = QuantizedBytes::new(codes.clone(), SHAPE, scheme, &scales, global).bytes;
        assert_eq!(data.as_bytes(), &written[..], "{scheme:?}");
        let read = QuantizedBytes { bytes: data.clone().into_bytes(), scheme, shape: SHAPE.into() };
        let (read_codes, read_scales) = read.into_vec_i8();
        assert_eq!(
            (&read_codes, &read_scales.block, read_scales.global),
            (&codes, &scales, global),
            "{scheme:?}"
        );
        let back = Flex::q_from_data(data.clone(), &FlexDevice);
        assert_eq!(parts(&back), (codes, scales, global), "{scheme:?}");
        assert_eq!(TensorMetadata::dtype(&back), DType::QFloat(scheme));
        assert_eq!(floats(back), floats(tensor));
    }
}

#[test]
fn tables_of_values_are_refused() {
    let scheme = QuantScheme::default().with_mode(burn_backend::quantization::QuantMode::Lookup);
    assert!(!Flex::supports_dtype(&FlexDevice, DType::QFloat(scheme)));
    let call = std::panic::catch_unwind(|| quantized(&scheme)).map(drop);
    let message = call.expect_err("refused").downcast_ref::<String>().expect("a message").clone();
    assert!(message.starts_with("quantize_dynamic: scheme is"), "{message}");
}

/// Two levels through Burn's user API: quantized weights in a product, their bytes, views.
#[test]
fn users_multiply_by_quantized_weights() {
    let device = Device::flex();
    let scheme = QuantScheme::default()
        .with_value(QuantValue::Q8S)
        .with_store(QuantStore::Native)
        .per_block([8], ScaleDtype::UE4M3)
        .per_tensor(ScaleDtype::F32);
    let weight = Tensor::<2>::from_data(TensorData::new(numbers(), SHAPE), &device);
    let x = Tensor::<2>::from_data(TensorData::new(numbers(), [24, 8]), &device);
    let exact = x.clone().matmul(weight.clone());
    let quantized = weight.quantize_dynamic(&scheme);
    let stored = Tensor::<2>::from_data(quantized.clone().into_data(), &device);
    for weight in [quantized.clone(), stored, quantized.transpose().transpose()] {
        let error = (x.clone().matmul(weight) - exact.clone()).abs().max().into_scalar::<f32>();
        let largest = exact.clone().abs().max().into_scalar::<f32>();
        assert!(error < 0.02 * largest, "{error} of {largest}");
    }
}
