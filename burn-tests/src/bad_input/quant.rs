//! Quantized tensors: unknown schemes, blocks that do not divide, bytes that do not fit.

use super::{BadCall, calls};
use crate::release::{self, QuantLevel, QuantParam, parameters};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue};
use burn_backend::tensor::QuantizedTensor;
use burn_backend::{Backend, DType, FloatDType, IntDType, Shape, Slice, TensorData};
use burn_std::Bytes;

/// 8-bit values, one per byte, with one scale.
fn native() -> QuantScheme {
    QuantScheme::default().with_store(QuantStore::Native)
}

fn blocks(sizes: &[u8]) -> QuantScheme {
    release::scheme(QuantValue::Q8F, QuantParam::F32, QuantStore::Native, QuantLevel::block(sizes))
}

fn data(bytes: usize, shape: &[usize], scheme: QuantScheme) -> TensorData {
    let bytes = Bytes::from_elems(vec![0u8; bytes]);
    release::data(bytes, Shape::from(shape.to_vec()), DType::QFloat(scheme))
}

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    conversion(&mut list);
    movement(&mut list);
    calls!(list, t,
        "argmax", "an axis out of range": q_argmax(t.q(&[2, 4]), 2, IntDType::I32);
        "argmin", "an axis out of range": q_argmin(t.quantized(&[2, 4], blocks(&[4])), 2, IntDType::I32);
        "argsort", "an axis out of range": q_argsort(t.q(&[2, 4]), 2, false, IntDType::I32);
        "argtopk", "more than there are": q_argtopk(t.q(&[2, 4]), 1, 5, IntDType::I32);
        "topk", "more than there are": q_topk(t.quantized(&[2, 4], blocks(&[4])), 1, 5);
        "sort", "an axis out of range": q_sort(t.q(&[2, 4]), 2, false);
        "sort", "an axis out of range": q_sort_with_indices(t.q(&[2, 4]), 2, true, IntDType::I32);
        "argmax", "an index dtype too narrow for the axis": q_argmax(t.q(&[300]), 0, IntDType::I8);
        "add", "sizes that differ": q_add(t.q(&[2, 4]), t.q(&[2, 8]));
        "sub", "sizes that differ": q_sub(t.q(&[2, 4]), t.q(&[3, 4]));
        "mul", "sizes that differ": q_mul(t.q(&[2, 4]), t.q(&[2, 8]));
        "div", "sizes that differ": q_div(t.q(&[2, 4]), t.q(&[8]));
        "sum", "an axis out of range": q_sum_dim(t.q(&[2, 4]), 2);
        "mean", "an axis out of range": q_mean_dim(t.q(&[2, 4]), 2);
        "cumsum", "an axis out of range": q_cumsum(t.q(&[2, 4]), 2);
    );
    list.push(BadCall::new("matmul", "q_matmul", "inner sizes that differ", |t| {
        use burn_backend::TensorPrimitive::QFloat;
        drop(B::q_matmul(QFloat(t.q(&[2, 4])), QFloat(t.q(&[8, 2]))));
    }));
    list
}

fn conversion<B: Backend>(list: &mut Vec<BadCall<B>>) {
    let schemes: [(&str, fn() -> QuantScheme, &[usize]); 8] = [
        ("words packed along another axis", || native().with_store(QuantStore::PackedU32(1)), &[4, 8]),
        ("packed native storage", || native().with_store(QuantStore::PackedNative(0)), &[4, 8]),
        (
            "tiny floats packed into words",
            || native().with_value(QuantValue::E4M3).with_store(QuantStore::PackedU32(0)),
            &[4, 8],
        ),
        ("blocks that do not divide the axis", || blocks(&[16]), &[4, 8]),
        ("blocks that do not divide another axis", || blocks(&[3, 8]), &[4, 8]),
        ("blocks of more axes than the tensor", || blocks(&[2, 2, 2]), &[4, 8]),
        ("blocks of zero", || blocks(&[0]), &[4, 8]),
        ("blocks of a scalar", || blocks(&[4]), &[]),
    ];
    let schemes = schemes.map(|(fault, scheme, shape)| (fault, scheme(), shape)).into_iter();
    let refused = release::REFUSED.iter().map(|&(fault, param)| {
        let (store, level) = (QuantStore::Native, QuantLevel::Tensor);
        (fault, release::scheme(QuantValue::Q8F, param, store, level), &[4, 8][..])
    });
    for (fault, scheme, shape) in schemes.chain(refused) {
        list.push(BadCall::new("quantize_dynamic", "quantize_dynamic", fault, move |t| {
            drop(B::quantize_dynamic(t.f(shape), &scheme));
        }));
        list.push(BadCall::new("quantize", "quantize", fault, move |t| {
            let scales = t.f(&[1]);
            drop(B::quantize(t.f(shape), &scheme, parameters::<B>(scales)));
        }));
        list.push(BadCall::new("from_data", "q_from_data", fault, move |t| {
            drop(B::q_from_data(data(36, shape, scheme), &t.device));
        }));
    }
    calls!(list, t,
        "quantize", "more scales than one":
            quantize(t.f(&[4, 8]), &native(), parameters::<B>(t.f(&[2])));
        "quantize", "fewer scales than blocks":
            quantize(t.f(&[4, 8]), &blocks(&[4]), parameters::<B>(t.f(&[4])));
        "from_data", "floats": q_from_data(TensorData::from([1f32, 2.0]), &t.device);
        "from_data", "bytes without a scale": q_from_data(data(32, &[4, 8], native()), &t.device);
        "from_data", "too many bytes": q_from_data(data(48, &[4, 8], native()), &t.device);
        "from_data", "no bytes": q_from_data(data(0, &[4, 8], native()), &t.device);
        "from_data", "a scale too few": q_from_data(data(32 + 4 * 7, &[4, 8], blocks(&[4])), &t.device);
        "from_data", "too few words of packed codes": q_from_data(
            data(8 + 4, &[4, 8], native().with_value(QuantValue::Q4S).with_store(QuantStore::PackedU32(0))), &t.device);
        "from_data", "a shape that overflows": q_from_data(data(4, &[1 << 32, 1 << 32], native()), &t.device);
    );
    let first = list.len();
    calls!(list, t, "dequantize", "an unknown dtype": dequantize(t.q(&[2, 4]), FloatDType::Flex32););
    list[first..].iter_mut().for_each(|call| call.legal_with = Some(DType::Flex32));
}

fn movement<B: Backend>(list: &mut Vec<BadCall<B>>) {
    // With one scale, and with blocks along one axis and along two.
    for scheme in [native as fn() -> QuantScheme, || blocks(&[4]), || blocks(&[2, 4])] {
        macro_rules! moved {
            ($($operation:literal, $fault:literal: $t:ident, $q:ident => $method:ident($($arg:expr),*);)*) => {$(
                list.push(BadCall::new($operation, stringify!($method), $fault, move |$t| {
                    let _ = $t;
                    let $q: QuantizedTensor<B> = $t.quantized(&[4, 8], scheme());
                    drop(B::$method($($arg),*));
                }));
            )*};
        }
        moved! {
            "reshape", "another number of elements": t, q => q_reshape(q, Shape::new([5, 4]));
            "reshape", "a product that wraps": t, q => q_reshape(q, Shape::new([1 << 32, 1 << 32, 32]));
            "expand", "an axis of another size than one": t, q => q_expand(q, Shape::new([8, 8]));
            "expand", "fewer axes": t, q => q_expand(q, Shape::new([8]));
            "swap_dims", "an axis out of range": t, q => q_swap_dims(q, 0, 2);
            "permute", "too few axes": t, q => q_permute(q, &[0]);
            "permute", "an axis twice": t, q => q_permute(q, &[1, 1]);
            "flip", "an axis out of range": t, q => q_flip(q, &[2]);
            "slice", "more slices than axes": t, q => q_slice(q, &[Slice::full(); 3]);
            "slice", "a step of zero": t, q => q_slice(q, &[Slice { start: 0, end: None, step: 0 }]);
            "select", "an axis out of range": t, q => q_select(q, 2, t.i(&[2]));
            "select", "an index of the axis' size": t, q => q_select(q, 0, t.ints(&[2], &[0, 4]));
            "select", "a negative index": t, q => q_select(q, 1, t.ints(&[2], &[0, -1]));
            "gather", "an axis out of range": t, q => q_gather(2, q, t.i(&[4, 8]));
            "gather", "an index of the axis' size": t, q => q_gather(1, q, t.ints(&[4, 2], &[0, 8]));
            "repeat", "an axis out of range": t, q => q_repeat_dim(q, 2, 2);
            "repeat", "more elements than memory": t, q => q_repeat_dim(q, 0, usize::MAX);
            "cat", "an axis out of range": t, q => q_cat(vec![q.clone(), q], 2);
            "cat", "another size on another axis":
                t, q => q_cat(vec![q, t.quantized(&[4, 16], scheme())], 0);
        }
    }
    calls!(list, t,
        "cat", "no tensors": q_cat(vec![], 0);
        "transpose", "a vector": q_transpose(t.q(&[8]));
    );
}
