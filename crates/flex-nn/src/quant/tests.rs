use super::*;
use crate::layout::coordinates;
use crate::{Element, Slice, bf16, f16, index, movement};
use alloc::string::ToString;
use alloc::vec;

const INTS: [QuantValue; 6] =
    [QuantValue::Q8F, QuantValue::Q8S, QuantValue::Q4F, QuantValue::Q4S, QuantValue::Q2F, QuantValue::Q2S];

const MINIS: [QuantValue; 3] = [QuantValue::E4M3, QuantValue::E5M2, QuantValue::E2M1];

fn scheme(value: QuantValue, blocks: &[u8]) -> QuantScheme {
    let level =
        if blocks.is_empty() { QuantLevel::Tensor } else { QuantLevel::Block(BlockSize::new(blocks)) };
    let (param, store, mode) = (QuantParam::F32, QuantStore::Native, QuantMode::Symmetric);
    QuantScheme { value, param, store, level, tensor_scale: false, mode }
}

/// Numbers of very different magnitudes.
fn sample(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |i: usize| {
        let x = ((i * 7919 + 13) % 2003) as f32 / 1000.0 - 1.0;
        x * (1.0 + (i / 37 % 11) as f32)
    };
    Tensor::from_slice(&(0..count).map(value).collect::<Vec<f32>>(), shape.to_vec()).unwrap()
}

fn floats(tensor: &QTensor) -> Vec<f32> {
    dequantize(tensor.clone(), DType::F32).unwrap().to_vec::<f32>()
}

/// Position of the scale of each element, from the definition of blocks.
fn scale_of(shape: &[usize], blocks: &[u8]) -> Vec<usize> {
    let lead = shape.len() - blocks.len().min(shape.len());
    let block = |axis: usize| if axis < lead { 1 } else { blocks[axis - lead] as usize };
    coordinates(shape)
        .iter()
        .map(|i| {
            if blocks.is_empty() {
                return 0;
            }
            (0..shape.len()).fold(0, |at, axis| at * (shape[axis] / block(axis)) + i[axis] / block(axis))
        })
        .collect()
}

/// One scale for each block, from the definition of blocks.
fn scales_shape(shape: &[usize], blocks: &[u8]) -> Vec<usize> {
    if blocks.is_empty() {
        return vec![1];
    }
    let lead = shape.len() - blocks.len();
    let block = |axis: usize| if axis < lead { 1 } else { blocks[axis - lead] as usize };
    shape.iter().enumerate().map(|(axis, size)| size / block(axis)).collect()
}

const CASES: [(&[usize], &[u8]); 9] = [
    (&[6], &[]),
    (&[4, 32], &[]),
    (&[4, 32], &[8]),
    (&[4, 32], &[1, 32]),
    (&[4, 32], &[2, 4]),
    (&[2, 4, 6], &[2, 4, 3]),
    (&[2, 4, 6], &[4, 1]),
    (&[3, 5, 64], &[64]),
    (&[2, 0, 4], &[2]),
];

#[test]
fn dynamic_quantization_by_definition() {
    for value in INTS {
        let (low, high) = value.range();
        for (shape, blocks) in CASES {
            let scheme = scheme(value, blocks);
            let tensor = sample(shape);
            let numbers = tensor.to_vec::<f32>();
            let owner = scale_of(shape, blocks);
            let got = quantize_dynamic(tensor.clone(), scheme).unwrap();
            assert_eq!(got.shape().as_slice(), shape);
            assert_eq!(got.scales.shape().as_slice(), scales_shape(shape, blocks));
            let mut scales = vec![0f32; got.scales.num_elements()];
            numbers.iter().zip(&owner).for_each(|(x, &s)| scales[s] = scales[s].max(x.abs()));
            scales.iter_mut().for_each(|s| *s = *s * 2.0 / (high - low));
            assert_eq!(got.scales.to_vec::<f32>(), scales);
            let codes: Vec<i8> = numbers
                .iter()
                .zip(&owner)
                .map(|(x, &s)| (x / scales[s]).round().clamp(low, high) as i8)
                .collect();
            assert_eq!(got.values.to_vec::<i8>(), codes, "{value:?} {shape:?} {blocks:?}");
            let want: Vec<f32> = codes.iter().zip(&owner).map(|(&q, &s)| q as f32 * scales[s]).collect();
            assert_eq!(floats(&got), want);
            // Quantizing again with the same scales gives the same codes.
            let again = quantize(tensor, got.scales.clone(), None, scheme).unwrap();
            assert_eq!(again.values.to_vec::<i8>(), codes);
            assert_eq!(again.scales.to_vec::<f32>(), scales);
        }
    }
}

#[test]
fn errors_stay_within_half_a_step() {
    for (value, steps) in
        INTS.map(|v| (v, v.range().1 - v.range().0)).into_iter().chain(MINIS.map(|v| (v, 0.0)))
    {
        for (shape, blocks) in CASES {
            let tensor = sample(shape);
            let got = quantize_dynamic(tensor.clone(), scheme(value, blocks)).unwrap();
            let (owner, scales) = (scale_of(shape, blocks), got.scales.to_vec::<f32>());
            for ((x, y), &s) in tensor.to_vec::<f32>().iter().zip(floats(&got)).zip(&owner) {
                let bound = match value {
                    QuantValue::E4M3 => (x.abs() / 16.0).max(scales[s] * 2f32.powi(-10)),
                    QuantValue::E5M2 => (x.abs() / 8.0).max(scales[s] * 2f32.powi(-17)),
                    QuantValue::E2M1 => (x.abs() / 4.0).max(scales[s] / 4.0),
                    // The upper bound of a full range is half a step closer to zero than the lower bound.
                    _ => scales[s] * if steps as u32 % 2 == 1 { 1.0 } else { 0.5 },
                };
                assert!((x - y).abs() <= bound * 1.0001, "{value:?} {x} {y}");
            }
        }
    }
}

#[test]
fn large_tensors_in_parallel() {
    for blocks in [&[][..], &[32], &[4, 8], &[250, 1]] {
        let tensor = sample(&[1000, 416]);
        let scheme = scheme(QuantValue::Q8S, blocks);
        let got = quantize_dynamic(tensor.clone(), scheme).unwrap();
        let owner = scale_of(&[1000, 416], blocks);
        let (numbers, scales) = (tensor.to_vec::<f32>(), got.scales.to_vec::<f32>());
        let mut largest = vec![0f32; scales.len()];
        numbers.iter().zip(&owner).for_each(|(x, &s)| largest[s] = largest[s].max(x.abs()));
        assert!(scales.iter().zip(&largest).all(|(&s, &l)| s == l / 127.0));
        let codes = got.values.to_vec::<i8>();
        let correct = |((x, &q), &s): ((&f32, &i8), &usize)| q as f32 == (x / scales[s]).round();
        assert!(numbers.iter().zip(&codes).zip(&owner).all(correct));
        let back = floats(&got);
        assert!(back.iter().zip(&codes).zip(&owner).all(|((&y, &q), &s)| y == q as f32 * scales[s]));
    }
}

#[test]
fn zeros_infinities_and_nan() {
    let zeros = Tensor::full([2, 4], crate::Scalar::Int(0), DType::F32).unwrap();
    for blocks in [&[][..], &[2]] {
        for value in INTS.into_iter().chain(MINIS) {
            let got = quantize_dynamic(zeros.clone(), scheme(value, blocks)).unwrap();
            assert_eq!(floats(&got), [0.0; 8]);
            let no_scale =
                Tensor::full([got.scales.num_elements()], crate::Scalar::Int(0), DType::F32).unwrap();
            let got = quantize(zeros.clone(), no_scale, None, scheme(value, blocks)).unwrap();
            assert_eq!(floats(&got), [0.0; 8]);
        }
    }
    let odd = Tensor::from_slice(&[f32::NAN, 1.0, -2.0, 0.5], [4]).unwrap();
    let got = quantize_dynamic(odd, scheme(QuantValue::Q8S, &[])).unwrap();
    assert_eq!(got.values.to_vec::<i8>(), [0, 64, -127, 32]);
    assert_eq!(got.scales.item::<f32>(), 2.0 / 127.0);
    let odd = Tensor::from_slice(&[f32::INFINITY, 1.0, f32::NEG_INFINITY], [3]).unwrap();
    let got = quantize_dynamic(odd, scheme(QuantValue::Q8S, &[])).unwrap();
    assert_eq!(got.values.to_vec::<i8>(), [127, 0, -127]);
    assert!(floats(&got).iter().all(|v| !v.is_nan()));
    let huge = Tensor::from_slice(&[f32::MAX, -f32::MAX], [2]).unwrap();
    let got = quantize_dynamic(huge, scheme(QuantValue::Q2S, &[])).unwrap();
    assert_eq!(floats(&got), [f32::MAX, -f32::MAX]);
}

#[test]
fn every_float_dtype_and_layout() {
    let scheme = scheme(QuantValue::Q8S, &[4]);
    let tensor = sample(&[6, 8]);
    let turned = tensor.clone().swap_axes(0, 1).unwrap().materialise().unwrap();
    let want = quantize_dynamic(tensor.clone(), scheme).unwrap();
    let got = quantize_dynamic(turned.swap_axes(0, 1).unwrap(), scheme).unwrap();
    assert_eq!(got.values.to_vec::<i8>(), want.values.to_vec::<i8>());
    for dtype in [DType::F64, DType::F16, DType::BF16] {
        let other = from_f32("test", tensor.clone(), dtype).unwrap();
        let rounded = into_f32("test", other.clone()).unwrap();
        let want = quantize_dynamic(rounded, scheme).unwrap();
        let scales = from_f32("test", want.scales.clone(), DType::F64).unwrap();
        for got in
            [quantize_dynamic(other.clone(), scheme).unwrap(), quantize(other, scales, None, scheme).unwrap()]
        {
            assert_eq!(got.values.to_vec::<i8>(), want.values.to_vec::<i8>());
        }
        let numbers = dequantize(want.clone(), dtype).unwrap();
        assert_eq!(numbers.dtype(), dtype);
        let same = from_f32("test", dequantize(want, DType::F32).unwrap(), dtype).unwrap();
        assert_eq!(numbers.into_bytes().unwrap().to_vec(), same.into_bytes().unwrap().to_vec());
    }
    // With one scale, a view keeps its order in memory.
    let whole = quantize_dynamic(tensor, self::scheme(QuantValue::Q8S, &[])).unwrap();
    let numbers = dequantize(whole.clone(), DType::F32).unwrap();
    for (got, want) in [
        (whole.clone().permute(&[1, 0]), numbers.clone().permute(&[1, 0])),
        (whole.clone().flip(&[0]), numbers.clone().flip(&[0])),
        (
            whole.clone().slice(&[Slice::new(1, Some(5), 2)]),
            numbers.clone().slice(&[Slice::new(1, Some(5), 2)]),
        ),
        (whole.clone().expand(&[2, 6, 8]), numbers.clone().expand(&[2, 6, 8])),
    ] {
        let got = got.unwrap();
        assert_eq!(got.shape(), want.as_ref().unwrap().shape());
        assert_eq!(floats(&got), want.unwrap().to_vec::<f32>());
    }
    let turned = dequantize(whole.swap_axes(0, 1).unwrap(), DType::BF16).unwrap();
    assert!(!turned.is_contiguous() && turned.layout().is_dense());
}

const PRECISIONS: [QuantParam; 4] = [QuantParam::F16, QuantParam::BF16, QuantParam::UE8M0, QuantParam::UE4M3];

/// The smallest number of a precision that is not below `scale`, found among all of its numbers.
fn rounded_up(precision: QuantParam, scale: f32) -> f32 {
    let numbers: Vec<f32> = match precision {
        QuantParam::F32 => return scale,
        QuantParam::F16 => (0..0x7C00).map(|bits| f16::from_bits(bits).to_f32()).collect(),
        QuantParam::BF16 => (0..0x7F80).map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        QuantParam::UE8M0 => (-126..=127).map(|exponent| 2f32.powi(exponent)).collect(),
        // Three bits of mantissa; the last code of the last exponent is NaN.
        QuantParam::UE4M3 => {
            let normal = (-6..=8).flat_map(|e| (8..16).map(move |m| m as f32 * 2f32.powi(e - 3)));
            (0..8).map(|m| m as f32 * 2f32.powi(-9)).chain(normal).filter(|&n| n <= 448.0).collect()
        }
    };
    numbers.iter().copied().find(|&n| n >= scale).unwrap_or(*numbers.last().expect("some"))
}

#[test]
fn scales_are_rounded_up_to_their_precision() {
    for param in PRECISIONS {
        let scheme = QuantScheme { param, ..scheme(QuantValue::Q8S, &[2]) };
        let plain = quantize_dynamic(sample(&[4, 4]), self::scheme(QuantValue::Q8S, &[2])).unwrap();
        let got = quantize_dynamic(sample(&[4, 4]), scheme).unwrap();
        let want: Vec<f32> = plain.scales.to_vec::<f32>().into_iter().map(|s| rounded_up(param, s)).collect();
        assert_eq!(got.scales.to_vec::<f32>(), want);
        // So no number is clipped: all are within half a step.
        for ((i, x), y) in sample(&[4, 4]).to_vec::<f32>().iter().enumerate().zip(floats(&got)) {
            assert!((x - y).abs() <= want[i / 2] * 0.5001, "{param:?} {x} {y}");
        }
        for scale in [1e-30, 3e-5, 6.1e-5, 0.001, 0.0156, 0.0157, 1.0, 1.0001, 447.0, 449.0, 7e4, 3.4e38] {
            assert_eq!(param.round_up(scale), rounded_up(param, scale), "{param:?} {scale}");
        }
    }
}

fn two_levels_of(value: QuantValue, blocks: &[u8]) -> QuantScheme {
    QuantScheme { param: QuantParam::UE4M3, tensor_scale: true, ..scheme(value, blocks) }
}

#[test]
fn scales_of_two_levels_by_definition() {
    for (value, param) in [
        (QuantValue::Q8S, QuantParam::UE4M3),
        (QuantValue::Q4F, QuantParam::F16),
        (QuantValue::E2M1, QuantParam::UE4M3),
    ] {
        for (shape, blocks) in CASES.into_iter().filter(|(_, blocks)| !blocks.is_empty()) {
            let scheme = QuantScheme { param, ..two_levels_of(value, blocks) };
            let (low, high) = value.range();
            let tensor = sample(shape);
            let (numbers, owner) = (tensor.to_vec::<f32>(), scale_of(shape, blocks));
            let got = quantize_dynamic(tensor.clone(), scheme).unwrap();
            let mut raw = vec![0f32; got.scales.num_elements()];
            numbers.iter().zip(&owner).for_each(|(x, &s)| raw[s] = raw[s].max(x.abs()));
            raw.iter_mut().for_each(|s| *s = *s * 2.0 / (high - low));
            let peak = raw.iter().copied().fold(0.0, f32::max);
            let global = (peak / rounded_up(param, f32::MAX)).max(f32::MIN_POSITIVE);
            assert_eq!(got.global, Some(global));
            let relative: Vec<f32> =
                raw.iter().map(|s| rounded_up(param, (s / global).max(f32::MIN_POSITIVE))).collect();
            assert_eq!(got.scales.to_vec::<f32>(), relative);
            let of_element = |s: usize| relative[s] * global;
            let codes = got.values.to_vec::<i8>();
            if value != QuantValue::E2M1 {
                let expected: Vec<i8> = numbers
                    .iter()
                    .zip(&owner)
                    .map(|(x, &s)| (x / of_element(s)).round().clamp(low, high) as i8)
                    .collect();
                assert_eq!(codes, expected, "{shape:?} {blocks:?}");
                let expected: Vec<f32> =
                    codes.iter().zip(&owner).map(|(&q, &s)| q as f32 * of_element(s)).collect();
                assert_eq!(floats(&got), expected);
            }
            let again = quantize(tensor, got.scales.clone(), Some(global), scheme).unwrap();
            assert_eq!((again.values.to_vec::<i8>(), again.global), (codes, Some(global)));
            // Bytes: codes, scales in their precision, the scale of the tensor.
            let bytes = got.to_bytes(param).unwrap();
            assert_eq!(bytes.len(), numbers.len() + param.size() * relative.len() + 4);
            assert_eq!(bytes[bytes.len() - 4..], global.to_ne_bytes());
            let back = QTensor::from_bytes(&bytes, shape, scheme, param).unwrap();
            assert_eq!((back.scales.to_vec::<f32>(), back.global), (relative, Some(global)));
            assert_eq!(floats(&back), floats(&got));
        }
    }
    // What keeps blocks whole keeps the scale of the tensor; tensors of another scale are quantized anew.
    let scheme = two_levels_of(QuantValue::Q8S, &[4]);
    let q = quantize_dynamic(sample(&[4, 8]), scheme).unwrap();
    let same = cat(vec![q.clone(), q.clone().flip(&[0]).unwrap()], 0).unwrap();
    assert_eq!(same.global, q.global);
    let turned = q.clone().swap_axes(0, 1).unwrap();
    assert_eq!(floats(&turned.clone().swap_axes(0, 1).unwrap()), floats(&q));
    assert_eq!((turned.global, turned.scheme.tensor_scale), (q.global, true));
    let small = Tensor::full([4, 8], 0.001, DType::F32).unwrap();
    let mixed = cat(vec![q.clone(), quantize_dynamic(small, scheme).unwrap()], 0).unwrap();
    for (got, expected) in floats(&mixed).iter().zip(floats(&q).into_iter().chain([0.001; 32])) {
        assert!((got - expected).abs() <= expected.abs() / 8.0 + 0.02, "{got} {expected}");
    }
}

#[test]
fn bytes_hold_scales_in_their_precision() {
    for param in PRECISIONS {
        let scheme = QuantScheme { param, ..scheme(QuantValue::Q8S, &[2]) };
        let got = quantize_dynamic(sample(&[3, 6]), scheme).unwrap();
        let bytes = got.to_bytes(param).unwrap();
        assert_eq!(bytes.len(), 18 + 9 * param.size());
        let back = QTensor::from_bytes(&bytes, [3, 6], scheme, param).unwrap();
        assert_eq!(back.scales.to_vec::<f32>(), got.scales.to_vec::<f32>());
        assert_eq!(floats(&back), floats(&got));
    }
    // The ends of the formats of 8 bits.
    let scales = |param, codes: &[u8]| {
        let bytes = [&vec![1u8; codes.len()][..], codes].concat();
        let scheme = QuantScheme { param, ..scheme(QuantValue::Q8S, &[1]) };
        floats(&QTensor::from_bytes(&bytes, [codes.len()], scheme, param).unwrap())
    };
    let got = scales(QuantParam::UE8M0, &[0, 1, 127, 254, 255]);
    assert_eq!(got[..4], [2f32.powi(-127), 2f32.powi(-126), 1.0, 2f32.powi(127)]);
    assert!(got[4].is_nan());
    assert_eq!(scales(QuantParam::UE4M3, &[0, 1, 0x38, 0x7E]), [0.0, 2f32.powi(-9), 1.0, 448.0]);
}

/// Codes of `bits` bits, packed into as few `u32` as possible with the first code lowest, followed by the
/// scales.
fn packed_bytes(codes: &[i8], bits: usize, scales: &[f32]) -> Vec<u8> {
    let mut words = vec![0u32; codes.len().div_ceil(32 / bits)];
    for (i, &code) in codes.iter().enumerate() {
        let code = code as u32 & ((1 << bits) - 1);
        words[i * bits / 32] |= code << (i * bits % 32);
    }
    [bytemuck::cast_slice::<u32, u8>(&words), bytemuck::cast_slice(scales)].concat()
}

#[test]
fn bytes_are_codes_and_scales_one_after_another() {
    for value in INTS.into_iter().chain(MINIS) {
        for (shape, blocks) in CASES {
            let scheme = scheme(value, blocks);
            let got = quantize_dynamic(sample(shape), scheme).unwrap();
            let bytes = got.to_bytes(QuantParam::F32).unwrap();
            let (codes, scales) = (got.values.to_vec::<i8>(), got.scales.to_vec::<f32>());
            let want = [bytemuck::cast_slice::<i8, u8>(&codes), bytemuck::cast_slice(&scales)].concat();
            assert_eq!(bytes[..], want[..]);
            let back = QTensor::from_bytes(&bytes, shape, scheme, QuantParam::F32).unwrap();
            assert_eq!(back.values.to_vec::<i8>(), codes);
            assert_eq!(back.scales.to_vec::<f32>(), scales);
            assert_eq!(back.scales.shape(), got.scales.shape());
        }
    }
}

#[test]
fn packed_bytes_are_words_of_codes_then_scales() {
    for value in INTS {
        let packed = |blocks| QuantScheme { store: QuantStore::PackedU32(0), ..scheme(value, blocks) };
        for count in [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64] {
            let scheme = packed(&[]);
            let got = quantize_dynamic(sample(&[count]), scheme).unwrap();
            let (codes, scales) = (got.values.to_vec::<i8>(), got.scales.to_vec::<f32>());
            let bytes = got.to_bytes(QuantParam::F32).unwrap();
            let mut want = packed_bytes(&codes, value.size_bits(), &scales);
            if value.size_bits() == 8 {
                // One byte per code; the padding of the last word is optional.
                want.drain(count..want.len() - 4);
            }
            assert_eq!(bytes[..], want[..], "{value:?} {count}");
            let back = QTensor::from_bytes(&bytes, [count], scheme, QuantParam::F32).unwrap();
            assert_eq!((back.values.to_vec::<i8>(), back.scales.to_vec::<f32>()), (codes, scales));
        }
        let got = quantize_dynamic(sample(&[3, 16]), packed(&[8])).unwrap();
        let (codes, scales) = (got.values.to_vec::<i8>(), got.scales.to_vec::<f32>());
        assert_eq!(
            got.to_bytes(QuantParam::F32).unwrap()[..],
            packed_bytes(&codes, value.size_bits(), &scales)[..]
        );
    }
    // A padded last word of 8-bit codes.
    let scheme = QuantScheme { store: QuantStore::PackedU32(0), ..scheme(QuantValue::Q8S, &[]) };
    let bytes = [&[1u8, 2, 255, 4, 5, 0, 0, 0][..], &0.5f32.to_ne_bytes()].concat();
    let got = QTensor::from_bytes(&bytes, [5], scheme, QuantParam::F32).unwrap();
    assert_eq!(floats(&got), [0.5, 1.0, -0.5, 2.0, 2.5]);
}

#[test]
fn moves_that_keep_blocks_whole_are_exact() {
    let tensor = sample(&[4, 6, 8]);
    for blocks in [&[4u8][..], &[2, 4], &[2, 3, 8], &[3, 1], &[2, 1, 1]] {
        let q = quantize_dynamic(tensor.clone(), scheme(QuantValue::Q8S, blocks)).unwrap();
        let f = dequantize(q.clone(), DType::F32).unwrap();
        let exact = |got: Result<QTensor>, want: Result<Tensor>| {
            let (got, want) = (got.unwrap(), want.unwrap());
            assert_eq!(got.shape(), want.shape());
            assert_eq!(floats(&got), want.to_vec::<f32>(), "{blocks:?}");
            // The result is still a well-formed tensor of its scheme, through bytes and back.
            use QuantParam::F32;
            let back =
                QTensor::from_bytes(&got.to_bytes(F32).unwrap(), got.shape(), got.scheme, F32).unwrap();
            assert_eq!(floats(&back), want.to_vec::<f32>());
            QTensor::new(got.values, got.scales, got.global, got.scheme).unwrap();
        };
        for axes in [[0, 2, 1], [2, 1, 0], [1, 2, 0]] {
            exact(q.clone().permute(&axes), f.clone().permute(&axes));
        }
        exact(q.clone().swap_axes(0, 2).unwrap().swap_axes(0, 2), Ok(f.clone()));
        let there_and_back = q.clone().swap_axes(1, 2).unwrap().swap_axes(1, 2).unwrap();
        assert_eq!(there_and_back.scheme, q.scheme);
        exact(q.clone().flip(&[0, 2]), f.clone().flip(&[0, 2]));
        exact(q.clone().expand(&[3, 4, 6, 8]), f.clone().expand(&[3, 4, 6, 8]));
        exact(q.clone().repeat(1, 2), movement::repeat(f.clone(), 1, 2));
        let s = [Slice::new(2, Some(4), 1), Slice::new(0, None, -1), Slice::new(0, Some(8), 1)];
        exact(q.clone().slice(&s), f.clone().slice(&s));
        exact(cat(vec![q.clone(), q.clone()], 2), movement::cat(vec![f.clone(), f.clone()], 2));
        exact(cat(vec![q.clone(), q.clone()], 0), movement::cat(vec![f.clone(), f.clone()], 0));
        if blocks == [4] {
            exact(q.clone().reshape([24, 8]), f.clone().reshape([24, 8]));
            exact(q.clone().reshape([192]), f.clone().reshape([192]));
            let i = Tensor::from_slice(&[5i64, 0, 0], [3]).unwrap();
            exact(q.clone().select(1, i.clone()), index::select(f.clone(), 1, i));
            let s = [Slice::new(0, None, -2), Slice::new(1, None, 3), Slice::new(4, None, 1)];
            exact(q.clone().slice(&s), f.clone().slice(&s));
        }
    }
    let one = quantize_dynamic(sample(&[4, 1]), scheme(QuantValue::Q8S, &[2, 1])).unwrap();
    let numbers = dequantize(one.clone(), DType::F32).unwrap().expand(&[4, 5]).unwrap();
    assert_eq!(floats(&one.expand(&[4, 5]).unwrap()), numbers.to_vec::<f32>());
}

#[test]
fn moves_that_tear_blocks_apart_are_quantized_anew() {
    let tensor = sample(&[4, 8]);
    let q = quantize_dynamic(tensor, scheme(QuantValue::Q8S, &[4])).unwrap();
    let f = dequantize(q.clone(), DType::F32).unwrap();
    let near = |got: QTensor, want: Tensor| {
        assert_eq!(got.shape(), want.shape());
        let step = got.scales.to_vec::<f32>().into_iter().fold(0.0, f32::max);
        assert!(floats(&got).iter().zip(want.to_vec::<f32>()).all(|(a, b)| (a - b).abs() <= step * 0.501));
    };
    let s = [Slice::full(), Slice::new(2, Some(6), 1)];
    near(q.clone().slice(&s).unwrap(), f.clone().slice(&s).unwrap());
    let i = Tensor::from_slice(&[7i64, 0, 3, 3], [4]).unwrap();
    near(q.clone().select(1, i.clone()).unwrap(), index::select(f.clone(), 1, i).unwrap());
    let i = Tensor::from_slice(&[1i64; 8], [1, 8]).unwrap();
    near(q.clone().gather(0, i.clone()).unwrap(), index::gather(0, f.clone(), i).unwrap());
    let whole = quantize_dynamic(f.clone(), scheme(QuantValue::Q8S, &[])).unwrap();
    near(cat(vec![whole, q.clone()], 0).unwrap(), movement::cat(vec![f.clone(), f.clone()], 0).unwrap());
    let (a, b) = (sample(&[4, 8]), sample(&[6, 8]));
    let parts = [a.clone(), b.clone()].map(|t| quantize_dynamic(t, scheme(QuantValue::Q8S, &[])).unwrap());
    let joined = cat(parts.to_vec(), 0).unwrap();
    let want = movement::cat(vec![a, b], 0).unwrap();
    let step = joined.scales.item::<f32>();
    assert!(floats(&joined).iter().zip(want.to_vec::<f32>()).all(|(a, b)| (a - b).abs() <= step * 1.01));
    // Three columns hold no whole block of the old size: block sizes are reduced to a divisor.
    let s = [Slice::full(), Slice::new(0, Some(3), 1)];
    near(q.slice(&s).unwrap(), f.slice(&s).unwrap());
}

#[test]
fn what_does_not_fit_is_refused() {
    let starts = |result: Result<QTensor>, want: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with(want), "{message}");
    };
    let q8 = |blocks: &[u8]| scheme(QuantValue::Q8S, blocks);
    let t = || sample(&[4, 6]);
    starts(quantize_dynamic(t(), q8(&[4])), "quantize_dynamic: got a tensor of shape [4, 6]");
    starts(quantize_dynamic(t(), q8(&[0])), "quantize_dynamic: got a tensor of shape");
    starts(quantize_dynamic(t(), q8(&[2, 2, 2])), "quantize_dynamic: got a tensor of shape");
    starts(
        quantize_dynamic(Tensor::from_slice(&[1i32], [1]).unwrap(), q8(&[])),
        "quantize_dynamic: dtype i32",
    );
    starts(quantize(t(), sample(&[2]), None, q8(&[])), "quantize: got a tensor of shape [2]");
    starts(quantize(t(), sample(&[4]), None, q8(&[2])), "quantize: got a tensor of shape [4]");
    let stored = |store| QuantScheme { store, ..q8(&[]) };
    let store = "quantize_dynamic: store of the scheme";
    starts(quantize_dynamic(t(), stored(QuantStore::PackedU32(1))), store);
    starts(quantize_dynamic(t(), stored(QuantStore::PackedNative(0))), store);
    let packed = QuantScheme { value: QuantValue::E4M3, ..stored(QuantStore::PackedU32(0)) };
    starts(quantize_dynamic(t(), packed), store);
    // A scale of the tensor would be subnormal.
    let two = |param| QuantScheme { param, ..two_levels_of(QuantValue::Q8S, &[2]) };
    for param in [QuantParam::F32, QuantParam::BF16, QuantParam::UE8M0] {
        starts(quantize_dynamic(t(), two(param)), "quantize_dynamic: parameter precision");
    }
    let global = "quantize: scale of the tensor is";
    starts(quantize(t(), sample(&[4, 3]), None, two(QuantParam::F16)), global);
    starts(quantize(t(), sample(&[4, 3]), Some(1.0), q8(&[2])), global);
    let bytes = |len: usize| vec![0; len];
    starts(
        QTensor::from_bytes(&bytes(27), [4, 6], q8(&[]), QuantParam::F32),
        "quantized from_data: number of bytes is 27",
    );
    starts(
        QTensor::from_bytes(&bytes(28), [4, 6], q8(&[2]), QuantParam::F32),
        "quantized from_data: number of bytes is 28",
    );
    starts(
        QTensor::from_bytes(&bytes(28), [usize::MAX, 2], q8(&[]), QuantParam::F32),
        "quantized from_data: a tensor of shape",
    );
    starts(QTensor::new(t(), sample(&[1]), None, q8(&[])), "quantized tensor: dtype f32");
    let codes = Tensor::from_slice(&[1i8], [1]).unwrap();
    starts(QTensor::new(codes.clone(), codes.clone(), None, q8(&[])), "quantized tensor: dtype i8");
    starts(QTensor::new(codes, sample(&[2]), None, q8(&[])), "quantized tensor: got a tensor of shape [2]");
    starts(cat(vec![], 0), "cat: number of tensors");
    let q = quantize_dynamic(t(), q8(&[])).unwrap();
    assert!(dequantize(q.clone(), DType::I32).unwrap_err().to_string().starts_with("dequantize: dtype i32"));
    starts(q.clone().permute(&[0, 0]), "permute: axes");
    starts(q.clone().swap_axes(0, 2), "swap_dims: axis 2");
    starts(q.reshape([5]), "reshape: shapes");
    assert!(i8::DTYPE == DType::I8);
}

#[test]
fn blocks_of_one_element_take_any_shape() {
    for shape in [&[6][..], &[3, 2], &[1, 2, 3]] {
        let tensor = quantize_dynamic(sample(&[2, 3]), scheme(QuantValue::Q8S, &[1, 1])).unwrap();
        let want = floats(&tensor);
        let got = tensor.reshape(shape).unwrap();
        assert_eq!(floats(&got), want, "{shape:?}");
        assert!(got.to_bytes(QuantParam::F32).is_ok(), "{shape:?}");
    }
}
