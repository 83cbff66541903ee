//! `Autodiff<Flex>` trains: gradients are compared with the oracle's, or with finite differences where the
//! oracle approximates.

use crate::common::{self, assert_same, float, int};
use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::ops::{
    ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode, InterpolateOptions,
};
use burn_tensor::{IndexingUpdateOp, Int, Tensor, TensorData, activation, module};

const CLOSE: f64 = 1e-4;

/// Gradients of the sum of squares of an expression with respect to its inputs, whose shapes are given.
macro_rules! gradients {
    ($B:ident, ($($x:ident: $shape:expr),*), $body:expr) => {{
        $(let $x = float::<$B, _>($shape, stringify!($x).len() as u64 + stringify!($x).as_bytes()[0] as u64).require_grad();)*
        let leaves = ($($x.clone(),)*);
        let out = $body;
        let grads = (out.clone() * out).sum().backward();
        let ($($x,)*) = leaves;
        vec![$((stringify!($x), $x.grad(&grads).expect("a gradient").into_data()),)*]
    }};
}

macro_rules! same_gradients {
    ($B:ident => ($($x:ident: $shape:expr),* $(,)?), $body:expr) => {{
        let got: Vec<(&str, TensorData)> = {
            type $B = Autodiff<Flex>;
            gradients!($B, ($($x: $shape),*), $body)
        };
        let expected: Vec<(&str, TensorData)> = {
            type $B = Autodiff<burn_ndarray::NdArray<f32, i32>>;
            gradients!($B, ($($x: $shape),*), $body)
        };
        for ((name, got), (_, expected)) in got.iter().zip(&expected) {
            assert_same(got, expected, CLOSE, &format!("d/d{name} of {}", stringify!($body)));
        }
    }};
}

#[test]
fn elementwise_gradients_agree() {
    // Arguments near zero: far from it, the slope 1 - tanh^2 would be a few rounding errors of tanh.
    same_gradients!(B => (x: [5, 7], y: [1, 7]), (x.exp() * y.sin() / 4.0 + 0.2).tanh());
    same_gradients!(B => (x: [5, 7]), (x.abs() + 0.1).log().powf_scalar(2.0));
    same_gradients!(B => (x: [5, 7]), activation::relu(x));
    same_gradients!(B => (x: [5, 7]), activation::sigmoid(x));
    same_gradients!(B => (x: [5, 7]), activation::log_sigmoid(x));
    same_gradients!(B => (x: [5, 7]), activation::silu(x));
    same_gradients!(B => (x: [5, 7]), activation::softmax(x, 1));
    same_gradients!(B => (x: [5, 7]), activation::log_softmax(x, 0));
    same_gradients!(B => (x: [5, 7]), x.cumsum(1).clamp(-1.0, 1.0));
    same_gradients!(B => (x: [5, 7]), x.sort(1).slice([0..5, 2..5]));
}

#[test]
fn the_gelu_gradient_is_exact() {
    // d/dx sum(gelu(x)) against central differences in f64.
    let x = common::values(64, 3).iter().map(|v| *v as f64 * 2.0).collect::<Vec<_>>();
    let gelu = |v: f64| {
        let t = Tensor::<Flex, 1>::from_data(
            TensorData::new(vec![v], [1]),
            (&Default::default(), burn_tensor::DType::F64),
        );
        activation::gelu(t).into_data().to_vec::<f64>().unwrap()[0]
    };
    let leaf = Tensor::<Autodiff<Flex>, 1>::from_data(
        TensorData::new(x.clone(), [64]),
        (&Default::default(), burn_tensor::DType::F64),
    )
    .require_grad();
    let grads = activation::gelu(leaf.clone()).sum().backward();
    let got = leaf.grad(&grads).unwrap().into_data().to_vec::<f64>().unwrap();
    for (x, got) in x.iter().zip(got) {
        let expected = (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
        assert!((got - expected).abs() < 1e-8, "gelu'({x}) is {got}, expected {expected}");
    }
}

#[test]
fn product_gradients_agree() {
    same_gradients!(B => (x: [5, 7], w: [7, 4]), x.matmul(w));
    same_gradients!(B => (x: [3, 5, 7], w: [1, 7, 4]), x.matmul(w));
    same_gradients!(B => (x: [2, 3, 5, 7], w: [7, 4], b: [4]), module::linear(x, w, Some(b)));
    same_gradients!(B => (w: [11, 4]), module::embedding(w, int([3, 5], 11, 1)));
}

#[test]
fn convolution_gradients_agree() {
    for (stride, padding, dilation, groups) in [(1, 0, 1, 1), (2, 1, 1, 2), (2, 2, 2, 4)] {
        let width = 4 / groups;
        let options = ConvOptions::new([stride], [padding], [dilation], groups);
        same_gradients!(B => (x: [2, 4, 9], w: [8, width, 3], b: [8]), module::conv1d(x, w, Some(b), options.clone()));
        let options = ConvOptions::new([stride, 1], [padding, 1], [dilation, 1], groups);
        same_gradients!(B => (x: [2, 4, 9, 8], w: [8, width, 3, 2], b: [8]), module::conv2d(x, w, Some(b), options.clone()));
        let options = ConvOptions::new([stride; 3], [padding; 3], [dilation, 1, 1], groups);
        same_gradients!(B => (x: [2, 4, 5, 6, 4], w: [8, width, 3, 2, 2], b: [8]), module::conv3d(x, w, Some(b), options.clone()));
    }
}

#[test]
fn transposed_convolution_gradients_agree() {
    for (stride, padding, out, dilation, groups) in [(1, 0, 0, 1, 1), (2, 1, 1, 1, 2), (2, 1, 0, 2, 4)] {
        let width = 8 / groups;
        let options = ConvTransposeOptions::new([stride], [padding], [out], [dilation], groups);
        same_gradients!(B => (x: [2, 4, 5], w: [4, width, 3], b: [8]), module::conv_transpose1d(x, w, Some(b), options.clone()));
        let options = ConvTransposeOptions::new([stride, 1], [padding, 0], [out, 0], [dilation, 1], groups);
        same_gradients!(B => (x: [2, 4, 5, 4], w: [4, width, 3, 2], b: [8]), module::conv_transpose2d(x, w, Some(b), options.clone()));
        let options =
            ConvTransposeOptions::new([stride, 1, 1], [padding, 0, 0], [out, 0, 0], [dilation, 1, 1], groups);
        same_gradients!(B => (x: [2, 4, 3, 4, 2], w: [4, width, 3, 2, 2], b: [8]), module::conv_transpose3d(x, w, Some(b), options.clone()));
    }
}

/// Compared with central differences in f64: the oracle's offset gradients are wrong near the border.
#[test]
fn deformable_convolution_gradients_are_slopes() {
    type A = Autodiff<Flex>;
    let names = ["x", "offset", "weight", "mask", "bias"];
    let shapes: [&[usize]; 5] = [&[2, 4, 6, 7], &[2, 36, 6, 4], &[6, 2, 3, 3], &[2, 18, 6, 4], &[6]];
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let inputs: Vec<Vec<f64>> = shapes
        .iter()
        .zip(1..)
        .map(|(s, k)| common::values(count(s), k).into_iter().map(f64::from).collect())
        .collect();
    fn tensor<const D: usize>(values: &[f64], shape: &[usize]) -> Tensor<A, D> {
        let data = TensorData::new(values.to_vec(), shape);
        Tensor::from_data(data, (&Default::default(), burn_tensor::DType::F64)).require_grad()
    }
    let run = |inputs: &[Vec<f64>]| {
        let x: Tensor<A, 4> = tensor(&inputs[0], shapes[0]);
        let offset: Tensor<A, 4> = tensor(&inputs[1], shapes[1]);
        let weight: Tensor<A, 4> = tensor(&inputs[2], shapes[2]);
        let mask: Tensor<A, 4> = tensor(&inputs[3], shapes[3]);
        let bias: Tensor<A, 1> = tensor(&inputs[4], shapes[4]);
        let options = DeformConvOptions::new([1, 2], [1, 1], [1, 1], 2, 2);
        let leaves = (x.clone(), offset.clone(), weight.clone(), mask.clone(), bias.clone());
        (leaves, module::deform_conv2d(x, offset, weight, Some(mask), Some(bias), options).sum())
    };
    let ((x, offset, weight, mask, bias), out) = run(&inputs);
    let grads = out.backward();
    let grads = [
        x.grad(&grads).unwrap().into_data(),
        offset.grad(&grads).unwrap().into_data(),
        weight.grad(&grads).unwrap().into_data(),
        mask.grad(&grads).unwrap().into_data(),
        bias.grad(&grads).unwrap().into_data(),
    ];
    let step = 1e-6;
    for k in 0..5 {
        let got = grads[k].to_vec::<f64>().unwrap();
        for i in 0..count(shapes[k]) {
            let at = |delta: f64| {
                let mut moved = inputs.clone();
                moved[k][i] += delta;
                run(&moved).1.into_data().to_vec::<f64>().unwrap()[0]
            };
            let expected = (at(step) - at(-step)) / (2.0 * step);
            assert!(
                (got[i] - expected).abs() < 1e-5 * expected.abs().max(1.0),
                "{}[{i}]: {} and {expected}",
                names[k],
                got[i]
            );
        }
    }
}

#[test]
fn pooling_and_resampling_gradients_agree() {
    same_gradients!(B => (x: [2, 3, 10]), module::avg_pool1d(x, 3, 2, 1, false, false));
    same_gradients!(B => (x: [2, 3, 10, 9]), module::avg_pool2d(x, [3, 2], [2, 2], [1, 1], true, false));
    same_gradients!(B => (x: [2, 3, 10]), module::max_pool1d(x, 3, 2, 1, 1, false));
    same_gradients!(B => (x: [2, 3, 10, 9]), module::max_pool2d(x, [3, 2], [2, 1], [1, 1], [1, 1], false));
    same_gradients!(B => (x: [2, 3, 10]), module::adaptive_avg_pool1d(x, 4));
    same_gradients!(B => (x: [2, 3, 10, 9]), module::adaptive_avg_pool2d(x, [3, 4]));
    same_gradients!(B => (x: [2, 3, 5, 4]),
        module::interpolate(x, [7, 9], InterpolateOptions::new(InterpolateMode::Nearest)));
}

/// The oracle has no gradient for bilinear resampling. Resampling is linear, so its gradient is its
/// transpose.
#[test]
fn the_gradient_of_resampling_is_its_transpose() {
    type A = Autodiff<Flex>;
    for mode in [InterpolateMode::Bilinear, InterpolateMode::Bicubic, InterpolateMode::Lanczos3] {
        for corners in [true, false] {
            let options = InterpolateOptions::new(mode.clone()).with_align_corners(corners);
            let x = float::<A, 4>([1, 2, 5, 4], 1).require_grad();
            let g = float::<A, 4>([1, 2, 7, 9], 2);
            let out = module::interpolate(x.clone(), [7, 9], options.clone());
            // <g, A x> == <A^T g, x>
            let left: f32 = (g.clone() * out.clone()).sum().into_scalar();
            let grads = (g * out).sum().backward();
            let right: f32 = (x.grad(&grads).unwrap() * x.inner()).sum().into_scalar();
            assert!((left - right).abs() < 1e-3 * left.abs().max(1.0), "{mode:?}: {left} and {right}");
        }
    }
}

#[test]
fn indexing_gradients_agree() {
    same_gradients!(B => (x: [4, 5, 6]), x.gather(1, int([4, 3, 6], 5, 2)));
    same_gradients!(B => (x: [4, 5, 6]), x.select(1, int([9], 5, 2)));
    same_gradients!(B => (x: [4, 5], y: [4, 9]),
        x.select_assign(1, int([9], 5, 2), y, IndexingUpdateOp::Add));
    same_gradients!(B => (x: [4, 5], y: [2, 2]), x.slice_assign([1..3, 2..4], y));
    same_gradients!(B => (x: [4, 5]), x.repeat_dim(0, 3).max_dim(1));
}

#[test]
fn ctc_gradients_agree() {
    fn ints<B: Backend>(values: [i32; 2]) -> Tensor<B, 1, Int> {
        Tensor::from_data(TensorData::from(values), &Default::default())
    }
    same_gradients!(B => (x: [12, 2, 5]), module::ctc_loss(
        activation::log_softmax(x, 2), int::<B, 2>([2, 4], 4, 2) + 1, ints([12, 10]), ints([4, 3]), 0));
}

#[test]
fn a_model_learns() {
    fn train<B: AutodiffBackend>() -> f32 {
        let x = float::<B, 2>([64, 2], 1);
        let target = (x.clone().slice([0..64, 0..1]) * x.clone().slice([0..64, 1..2])).detach();
        let mut params = (
            float::<B, 2>([2, 16], 2) * 0.5,
            float::<B, 2>([1, 16], 3) * 0.1,
            float::<B, 2>([16, 1], 4) * 0.3,
        );
        let mut last = f32::MAX;
        for _ in 0..300 {
            let (w, b, v) = (params.0.require_grad(), params.1.require_grad(), params.2.require_grad());
            let hidden = activation::gelu(x.clone().matmul(w.clone()) + b.clone());
            let error = hidden.matmul(v.clone()) - target.clone();
            let loss = (error.clone() * error).mean();
            let grads = loss.backward();
            last = loss.into_scalar().elem();
            let step =
                |p: Tensor<B, 2>| Tensor::from_inner(p.clone().inner() - p.grad(&grads).unwrap() * 0.05);
            params = (step(w), step(b), step(v));
        }
        last
    }
    use burn_tensor::ElementConversion;
    let loss = train::<Autodiff<Flex>>();
    assert!(loss < 0.1, "the loss is still {loss}");
}
