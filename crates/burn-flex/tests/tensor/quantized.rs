//! Quantized tensors: one scale per tensor and per block, layouts, selection, and the data that goes to disk.

use crate::common::{self, float, int};
use burn_flex::Flex;
use burn_tensor::quantization::{BlockSize, QuantLevel, QuantParam, QuantScheme, QuantStore, QuantValue};
use burn_tensor::{Int, Tensor, TensorData, s};

fn schemes() -> [QuantScheme; 2] {
    let scheme = QuantScheme::default()
        .with_value(QuantValue::Q8S)
        .with_store(QuantStore::Native)
        .with_param(QuantParam::F32);
    [scheme.with_level(QuantLevel::Tensor), scheme.with_level(QuantLevel::Block(BlockSize::new([8])))]
}

/// A matrix whose rows differ in size by powers of ten, so that block scales matter.
fn matrix() -> Tensor<Flex, 2> {
    let sizes = Tensor::<Flex, 2>::from_data(
        [[1.0], [10.0], [0.1], [100.0], [1.0], [3.0], [0.01], [30.0]],
        &Default::default(),
    );
    float::<Flex, 2>([8, 32], 1) * sizes
}

fn close(got: Tensor<Flex, 2>, expected: Tensor<Flex, 2>, what: &str) {
    // Half a quantization step of the largest value, twice for values that are quantized again.
    let step = expected.clone().abs().max().into_scalar() / 127.0;
    let error = (got - expected).abs().max().into_scalar();
    assert!(error <= 1.01 * step, "{what}: off by {error}, a step is {step}");
}

#[test]
fn quantizing_keeps_values_within_half_a_step() {
    let [tensor, block] = schemes();
    close(matrix().quantize_dynamic(&tensor).dequantize(), matrix(), "one scale");
    // Each row has its own scales.
    let got = matrix().quantize_dynamic(&block).dequantize();
    for row in 0..8 {
        close(
            got.clone().slice([row..row + 1, 0..32]),
            matrix().slice([row..row + 1, 0..32]),
            "block scales",
        );
    }
}

#[test]
fn layouts_and_selections_move_the_right_values() {
    for scheme in schemes() {
        let q = || matrix().quantize_dynamic(&scheme);
        let f = || matrix().quantize_dynamic(&scheme).dequantize();
        let name = format!("{:?}", scheme.level);
        close(q().reshape([16, 16]).dequantize(), f().reshape([16, 16]), &name);
        close(q().transpose().dequantize(), f().transpose(), &name);
        close(q().swap_dims(0, 1).transpose().dequantize(), f(), &name);
        close(q().permute([1, 0]).dequantize(), f().permute([1, 0]), &name);
        close(q().flip([1]).dequantize(), f().flip([1]), &name);
        close(q().slice([s![2..6], s![8..24]]).dequantize(), f().slice([s![2..6], s![8..24]]), &name);
        close(q().select(0, int([5], 8, 2)).dequantize(), f().select(0, int([5], 8, 2)), &name);
        close(q().gather(1, int([8, 16], 32, 2)).dequantize(), f().gather(1, int([8, 16], 32, 2)), &name);
        close(q().repeat_dim(0, 2).dequantize(), f().repeat_dim(0, 2), &name);
        close(q().sort(1).dequantize(), f().sort(1), &name);
        close(Tensor::cat(vec![q(), q()], 0).dequantize(), Tensor::cat(vec![f(), f()], 0), &name);
        close(q().max_dim(1).dequantize(), f().max_dim(1), &name);
        close(q().min_dim(0).dequantize(), f().min_dim(0), &name);
        assert_eq!(q().max().dequantize().into_scalar(), f().max().into_scalar(), "{name}");
        for dim in 0..2 {
            let same = |a: Tensor<Flex, 2, Int>, b: Tensor<Flex, 2, Int>| {
                assert_eq!(a.into_data(), b.into_data(), "{name}")
            };
            same(q().argmax(dim), f().argmax(dim));
            same(q().argmin(dim), f().argmin(dim));
        }
    }
}

#[test]
fn the_order_is_that_of_the_numbers_where_a_scale_is_negative() {
    let [scheme, _] = schemes();
    let data = TensorData::quantized(vec![1i8, 3, -2, 2], [1, 4], scheme, &[-0.5]);
    let q = || Tensor::<Flex, 2>::from_data(data.clone(), &Default::default());
    q().dequantize().into_data().assert_eq(&TensorData::from([[-0.5f32, -1.5, 1.0, -1.0]]), true);
    assert_eq!(q().argmax(1).into_scalar(), 2);
    assert_eq!(q().argmin(1).into_scalar(), 1);
    q().sort(1).dequantize().into_data().assert_eq(&TensorData::from([[-1.5f32, -1.0, -0.5, 1.0]]), true);
}

#[test]
fn selecting_rows_leaves_the_values_of_their_blocks_alone() {
    let [_, block] = schemes();
    let got = matrix().quantize_dynamic(&block).select(0, int([5], 8, 2)).dequantize();
    let expected = matrix().quantize_dynamic(&block).dequantize().select(0, int([5], 8, 2));
    common::assert_same(&got.into_data(), &expected.into_data(), 1e-6, "select");
}

#[test]
fn arithmetic_computes_on_the_dequantized_values() {
    for scheme in schemes() {
        let q = || matrix().quantize_dynamic(&scheme);
        let f = || matrix().quantize_dynamic(&scheme).dequantize();
        let weight = || float::<Flex, 2>([32, 4], 2);
        common::assert_same(
            &q().matmul(weight()).into_data(),
            &f().matmul(weight()).into_data(),
            1e-5,
            "matmul",
        );
        common::assert_same(&(q() + q()).into_data(), &(f() + f()).into_data(), 1e-6, "add");
        common::assert_same(&q().exp().into_data(), &f().exp().into_data(), 1e-6, "exp");
        common::assert_same(&q().sum().into_data(), &f().sum().into_data(), 1e-5, "sum");
    }
}

#[test]
fn data_round_trips() {
    for scheme in schemes() {
        let q = matrix().quantize_dynamic(&scheme);
        let expected = q.clone().dequantize().into_data();
        let data = q.into_data();
        let back = Tensor::<Flex, 2>::from_data(data.clone(), &Default::default());
        assert_eq!(back.clone().dequantize().into_data(), expected);
        assert_eq!(back.into_data(), data);
    }
}
