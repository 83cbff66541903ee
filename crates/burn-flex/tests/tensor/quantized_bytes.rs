//! The bytes of quantized tensors, checked with Burn's own reader and writer.

use burn_backend::ops::{FloatTensorOps, QTensorOps};
use burn_backend::quantization::{
    QuantLevel, QuantScheme, QuantStore, QuantValue, QuantizedBytes, params_shape,
};
use burn_backend::{TensorData, TensorMetadata};
use burn_flex::{Flex, FlexDevice, FlexQTensor};
use burn_std::future::block_on;

type B = Flex;

const INTS: [QuantValue; 6] =
    [QuantValue::Q8F, QuantValue::Q8S, QuantValue::Q4F, QuantValue::Q4S, QuantValue::Q2F, QuantValue::Q2S];

const MINIS: [QuantValue; 3] = [QuantValue::E4M3, QuantValue::E5M2, QuantValue::E2M1];

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

fn scheme(value: QuantValue, blocks: &[u8], store: QuantStore) -> QuantScheme {
    let level = if blocks.is_empty() { QuantLevel::Tensor } else { QuantLevel::block(blocks) };
    QuantScheme::default().with_value(value).with_store(store).with_level(level)
}

/// Numbers of very different magnitudes, quantized.
fn sample(shape: &[usize], scheme: QuantScheme) -> FlexQTensor {
    let count: usize = shape.iter().product();
    let value = |i: usize| {
        let x = ((i * 7919 + 13) % 2003) as f32 / 1000.0 - 1.0;
        x * (1.0 + (i / 37 % 11) as f32)
    };
    let data = TensorData::new((0..count).map(value).collect::<Vec<f32>>(), shape.to_vec());
    B::quantize_dynamic(B::float_from_data(data, &FlexDevice), &scheme)
}

fn parts(tensor: &FlexQTensor) -> (Vec<i8>, Vec<f32>) {
    let tensor = tensor.as_core();
    (tensor.values.to_vec(), tensor.scales.to_vec())
}

/// What Burn reads from the tensor's data, after a check that the backend reads the data back too.
fn read_by_burn(tensor: FlexQTensor) -> (Vec<i8>, Vec<f32>) {
    let (own, scheme, num_elements) =
        (parts(&tensor), tensor.as_core().scheme, tensor.shape().num_elements());
    let data = block_on(B::q_into_data(tensor)).unwrap();
    let back = B::q_from_data(data.clone(), &FlexDevice);
    assert_eq!((parts(&back), back.as_core().scheme), (own, scheme));
    let burn_backend::DType::QFloat(scheme) = data.dtype else { panic!("the data of a quantized tensor") };
    let (codes, scales) = QuantizedBytes { bytes: data.bytes, scheme, num_elements }.into_vec_i8();
    (codes, scales.scales)
}

#[test]
fn bytes_are_those_of_burn() {
    for value in INTS.into_iter().chain(MINIS) {
        for (shape, blocks) in CASES {
            let scheme = scheme(value, blocks, QuantStore::Native);
            let got = sample(shape, scheme);
            let scales = params_shape(&got.shape(), scheme.level);
            assert_eq!(got.as_core().scales.shape().as_slice(), scales.as_slice());
            let (codes, scales) = parts(&got);
            if codes.is_empty() {
                continue;
            }
            let written = QuantizedBytes::new(codes.clone(), scheme, &scales).bytes;
            assert_eq!(block_on(B::q_into_data(got.clone())).unwrap().bytes, written);
            assert_eq!(read_by_burn(got), (codes, scales), "{value:?} {shape:?} {blocks:?}");
        }
    }
}

#[test]
fn packed_bytes_are_those_of_burn() {
    for value in INTS {
        let packed = |blocks| scheme(value, blocks, QuantStore::PackedU32(0));
        for count in [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64] {
            let got = sample(&[count], packed(&[]));
            assert_eq!(read_by_burn(got.clone()), parts(&got), "{value:?} {count}");
        }
        let got = sample(&[3, 16], packed(&[8]));
        assert_eq!(read_by_burn(got.clone()), parts(&got));
    }
}
