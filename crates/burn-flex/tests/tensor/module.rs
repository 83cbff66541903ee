//! Operations behind modules, against the oracle.

use crate::common::{agree, assert_same, bool, float, int};
use burn_flex::Flex;
use burn_tensor::backend::Backend;
use burn_tensor::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode,
    InterpolateOptions, UnfoldOptions,
};
use burn_tensor::{Int, Tensor, TensorData, activation, module, signal};

const CLOSE: f64 = 5e-5;

#[test]
fn activations_agree() {
    fn x<B: Backend>() -> Tensor<B, 2> {
        float::<B, 2>([9, 33], 1) * 3.0
    }
    agree!(CLOSE, B => activation::relu(x::<B>()));
    agree!(CLOSE, B => activation::leaky_relu(x::<B>(), 0.1));
    agree!(CLOSE, B => activation::prelu(x::<B>(), float([33], 2)));
    agree!(CLOSE, B => activation::prelu(x::<B>(), float([1], 2)));
    agree!(CLOSE, B => activation::gelu(x::<B>()));
    agree!(CLOSE, B => activation::sigmoid(x::<B>()));
    agree!(CLOSE, B => activation::hard_sigmoid(x::<B>(), 0.2, 0.5));
    agree!(CLOSE, B => activation::log_sigmoid(x::<B>()));
    agree!(CLOSE, B => activation::silu(x::<B>()));
    agree!(CLOSE, B => activation::mish(x::<B>()));
    agree!(CLOSE, B => activation::softplus(x::<B>(), 1.5));
    agree!(CLOSE, B => activation::quiet_softmax(x::<B>(), 1));
    for dim in 0..2 {
        agree!(CLOSE, B => activation::softmax(x::<B>(), dim));
        agree!(CLOSE, B => activation::log_softmax(x::<B>(), dim));
        agree!(CLOSE, B => activation::softmin(x::<B>(), dim));
        agree!(CLOSE, B => activation::softmax(x::<B>().transpose(), dim));
    }
}

#[test]
fn embedding_and_linear_agree() {
    agree!(0.0, B => module::embedding(float::<B, 2>([11, 6], 1), int([3, 4], 11, 2)));
    for with_bias in [false, true] {
        agree!(CLOSE, B => module::linear(float::<B, 2>([5, 7], 1), float([7, 9], 2), with_bias.then(|| float([9], 3))));
        agree!(CLOSE, B => module::linear(float::<B, 4>([2, 3, 5, 7], 1), float([7, 9], 2), with_bias.then(|| float([9], 3))));
        agree!(CLOSE, B => module::linear(float::<B, 1>([7], 1), float([7, 9], 2), with_bias.then(|| float([9], 3))));
    }
}

#[test]
fn convolutions_agree() {
    for (stride, padding, dilation, groups) in [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 2, 4)] {
        let o1 = ConvOptions::new([stride], [padding], [dilation], groups);
        agree!(CLOSE, B => module::conv1d(float::<B, 3>([2, 4, 13], 1), float([8, 4 / groups, 3], 2), Some(float([8], 3)), o1.clone()));
        let o2 = ConvOptions::new([stride, 1], [padding, 1], [dilation, 1], groups);
        agree!(CLOSE, B => module::conv2d(float::<B, 4>([2, 4, 13, 9], 1), float([8, 4 / groups, 3, 2], 2), Some(float([8], 3)), o2.clone()));
        agree!(CLOSE, B => module::conv2d(float::<B, 4>([2, 4, 13, 9], 1).swap_dims(2, 3), float([8, 4 / groups, 1, 1], 2), None, ConvOptions::new([1, 1], [0, 0], [1, 1], groups)));
        let o3 = ConvOptions::new([stride, 1, 2], [padding, 1, 0], [dilation, 1, 1], groups);
        agree!(CLOSE, B => module::conv3d(float::<B, 5>([2, 4, 9, 5, 6], 1), float([8, 4 / groups, 3, 2, 2], 2), Some(float([8], 3)), o3.clone()));
    }
}

#[test]
fn transposed_convolutions_agree() {
    for (stride, padding, out, dilation, groups) in
        [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (2, 1, 0, 2, 2), (3, 0, 2, 1, 4)]
    {
        let o1 = ConvTransposeOptions::new([stride], [padding], [out], [dilation], groups);
        agree!(CLOSE, B => module::conv_transpose1d(float::<B, 3>([2, 4, 7], 1), float([4, 8 / groups, 3], 2), Some(float([8], 3)), o1.clone()));
        let o2 = ConvTransposeOptions::new([stride, 1], [padding, 1], [out, 0], [dilation, 1], groups);
        agree!(CLOSE, B => module::conv_transpose2d(float::<B, 4>([2, 4, 7, 5], 1), float([4, 8 / groups, 3, 2], 2), Some(float([8], 3)), o2.clone()));
        let o3 =
            ConvTransposeOptions::new([stride, 1, 2], [padding, 1, 0], [out, 0, 1], [dilation, 1, 1], groups);
        agree!(CLOSE, B => module::conv_transpose3d(float::<B, 5>([2, 4, 4, 5, 3], 1), float([4, 8 / groups, 3, 2, 2], 2), None, o3.clone()));
    }
}

#[test]
fn deformable_convolution_agrees() {
    let options = DeformConvOptions::new([1, 2], [1, 1], [1, 1], 2, 2);
    agree!(CLOSE, B => module::deform_conv2d(
        float::<B, 4>([2, 4, 6, 7], 1), float([2, 2 * 2 * 9, 6, 4], 2), float([6, 2, 3, 3], 3),
        Some(float([2, 2 * 9, 6, 4], 4)), Some(float([6], 5)), options.clone()));
    agree!(CLOSE, B => module::deform_conv2d(
        float::<B, 4>([2, 4, 6, 7], 1), float([2, 2 * 2 * 9, 6, 4], 2), float([6, 2, 3, 3], 3), None, None, options.clone()));
}

#[test]
fn unfolding_agrees() {
    for (stride, padding, dilation) in [([1, 1], [0, 0], [1, 1]), ([2, 1], [1, 0], [1, 2])] {
        let options = UnfoldOptions::new(stride, padding, dilation);
        agree!(0.0, B => module::unfold4d(float::<B, 4>([2, 3, 7, 8], 1), [2, 3], options.clone()));
    }
}

#[test]
fn pooling_agrees() {
    for ceil in [false, true] {
        for include in [false, true] {
            agree!(CLOSE, B => module::avg_pool1d(float::<B, 3>([2, 3, 10], 1), 3, 2, 1, include, ceil));
            agree!(CLOSE, B => module::avg_pool2d(float::<B, 4>([2, 3, 10, 9], 1), [3, 2], [2, 2], [1, 0], include, ceil));
        }
        agree!(0.0, B => module::max_pool1d(float::<B, 3>([2, 3, 10], 1), 3, 2, 1, 1, ceil));
        agree!(0.0, B => module::max_pool2d(float::<B, 4>([2, 3, 10, 9], 1), [3, 2], [2, 2], [1, 0], [1, 2], ceil));
        agree!(0.0, B => module::max_pool1d_with_indices(float::<B, 3>([2, 3, 10], 1), 3, 2, 1, 2, ceil).1);
        agree!(0.0, B => module::max_pool2d_with_indices(float::<B, 4>([2, 3, 10, 9], 1), [3, 2], [2, 2], [1, 0], [1, 2], ceil).0);
        agree!(0.0, B => module::max_pool2d_with_indices(float::<B, 4>([2, 3, 10, 9], 1), [3, 2], [2, 2], [1, 0], [1, 2], ceil).1);
    }
    agree!(CLOSE, B => module::adaptive_avg_pool1d(float::<B, 3>([2, 3, 10], 1), 4));
    agree!(CLOSE, B => module::adaptive_avg_pool2d(float::<B, 4>([2, 3, 10, 9], 1), [3, 4]));
}

#[test]
fn interpolation_agrees() {
    for mode in [InterpolateMode::Nearest, InterpolateMode::Bilinear, InterpolateMode::Bicubic] {
        for corners in [true, false] {
            let options = InterpolateOptions::new(mode.clone()).with_align_corners(corners);
            agree!(1e-4, B => module::interpolate(float::<B, 4>([2, 3, 6, 7], 1), [9, 5], options.clone()));
        }
    }
}

#[test]
fn attention_agrees_with_its_definition() {
    let options = [
        AttentionModuleOptions::default(),
        AttentionModuleOptions { scale: Some(0.3), softcap: Some(2.0), is_causal: true },
    ];
    for options in options {
        for (masked, biased) in [(false, false), (true, false), (false, true), (true, true)] {
            let x = |heads, seq, dim, seed| float::<Flex, 4>([2, heads, seq, dim], seed);
            let inputs = || {
                let mask = masked.then(|| bool::<Flex, 4>([2, 3, 5, 9], 4));
                let bias = biased.then(|| float::<Flex, 4>([2, 3, 5, 9], 5));
                (x(3, 5, 8, 1), x(3, 9, 8, 2), x(3, 9, 6, 3), mask, bias)
            };
            let (q, k, v, mask, bias) = inputs();
            let got = module::attention(q, k, v, mask, bias, options);
            let (q, k, v, mask, bias) = inputs();
            let expected = module::attention_fallback(q, k, v, mask, bias, options);
            assert_same(&got.into_data(), &expected.into_data(), CLOSE, "attention");
        }
    }
}

#[test]
fn layer_norm_agrees_with_its_definition() {
    use burn_tensor::{TensorPrimitive, ops::ModuleOps};
    fn primitive<const D: usize>(t: Tensor<Flex, D>) -> burn_flex::FlexTensor {
        t.into_primitive().tensor()
    }
    let (x, gamma, beta) =
        (float::<Flex, 3>([3, 5, 33], 1), float::<Flex, 1>([33], 2), float::<Flex, 1>([33], 3));
    let got = <Flex>::layer_norm(
        primitive(x.clone()),
        primitive(gamma.clone()),
        Some(primitive(beta.clone())),
        1e-5,
    );
    let (var, mean) = x.clone().var_mean_bias(2);
    let expected = (x - mean) / (var + 1e-5).sqrt() * gamma.unsqueeze() + beta.unsqueeze();
    let got = Tensor::<Flex, 3>::from_primitive(TensorPrimitive::Float(got));
    assert_same(&got.into_data(), &expected.into_data(), CLOSE, "layer_norm");
}

#[test]
fn ctc_loss_agrees() {
    fn ints<B: Backend>(values: [i32; 2]) -> Tensor<B, 1, Int> {
        Tensor::from_data(TensorData::from(values), &Default::default())
    }
    agree!(1e-4, B => module::ctc_loss(
        activation::log_softmax(float::<B, 3>([12, 2, 5], 1), 2),
        int::<B, 2>([2, 4], 4, 2) + 1, ints([12, 10]), ints([4, 3]), 0));
}

#[test]
fn fourier_transforms_agree_with_the_definition_and_invert() {
    let x = float::<Flex, 2>([3, 16], 1);
    let (re, im) = signal::rfft(x.clone(), 1, None);
    let samples = x.clone().into_data().to_vec::<f32>().unwrap();
    let mut expected = (Vec::new(), Vec::new());
    for row in samples.chunks(16) {
        for k in 0..9 {
            let angle = |n: usize| -std::f64::consts::TAU * (k * n) as f64 / 16.0;
            expected.0.push((0..16).map(|n| row[n] as f64 * angle(n).cos()).sum::<f64>() as f32);
            expected.1.push((0..16).map(|n| row[n] as f64 * angle(n).sin()).sum::<f64>() as f32);
        }
    }
    assert_same(&re.clone().into_data(), &TensorData::new(expected.0, [3, 9]), 1e-3, "rfft: real part");
    assert_same(&im.clone().into_data(), &TensorData::new(expected.1, [3, 9]), 1e-3, "rfft: imaginary part");
    assert_same(&signal::irfft(re, im, 1, None).into_data(), &x.into_data(), 1e-3, "irfft");
}
