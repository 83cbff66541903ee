//! Gradients of softmax, log_softmax and layer_norm in one pass, compared with the gradients that Burn
//! composes from small operations.

use crate::common::{assert_same, float, panic_message};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn_flex::{Flex, autodiff};
use burn_ndarray::NdArray;
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::{DType, Tensor, TensorPrimitive, activation};

type B = Autodiff<Flex>;

fn double<B: Backend, const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D> {
    float::<B, D>(shape, seed).cast(DType::F64)
}

/// The result of `f`, and the gradients of the leaves when the result is weighted.
fn with_gradients<B: AutodiffBackend, const D: usize>(
    x: Tensor<B, D>,
    f: impl Fn(Tensor<B, D>) -> Tensor<B, D>,
) -> [Tensor<B::InnerBackend, D>; 2] {
    let x = x.require_grad();
    let output = f(x.clone());
    let weights = float::<B, D>(output.dims(), 9).cast(output.dtype());
    let grads = (output.clone() * weights).sum().backward();
    [output.inner(), x.grad(&grads).expect("a gradient")]
}

fn same<Got: Backend, Want: Backend, const D: usize>(
    got: [Tensor<Got, D>; 2],
    want: [Tensor<Want, D>; 2],
    tolerance: f64,
    what: &str,
) {
    for (got, want) in got.into_iter().zip(want) {
        assert_same(&got.into_data(), &want.into_data(), tolerance, what);
    }
}

#[test]
fn softmax_has_the_gradient_of_burns_own() {
    for dim in 0..3 {
        for shape in [[3, 4, 5], [2, 70, 3], [2, 3, 130], [1, 1, 1]] {
            let x = || double::<B, 3>(shape, 1);
            let want = with_gradients(x(), |x| activation::softmax(x, dim));
            same(with_gradients(x(), |x| autodiff::softmax(x, dim)), want, 1e-11, "softmax");
            let want = with_gradients(x(), |x| activation::log_softmax(x, dim));
            same(with_gradients(x(), |x| autodiff::log_softmax(x, dim)), want, 1e-11, "log_softmax");
        }
    }
}

#[test]
fn every_strategy_and_backend_is_served() {
    let want = || with_gradients(double::<B, 2>([5, 7], 1), |x| autodiff::softmax(x.exp(), 1));
    let got = with_gradients(double::<Autodiff<Flex, BalancedCheckpointing>, 2>([5, 7], 1), |x| {
        autodiff::softmax(x.exp(), 1)
    });
    same(got, want(), 0.0, "checkpointing");
    let got =
        with_gradients(double::<Autodiff<Flex<f64, i64>>, 2>([5, 7], 1), |x| autodiff::softmax(x.exp(), 1));
    same(got, want(), 0.0, "Flex<f64, i64>");
    // Tensors that are not `Autodiff<Flex>` use Burn's functions.
    let got =
        with_gradients(double::<Autodiff<Flex<f32, u8>>, 2>([5, 7], 1), |x| autodiff::softmax(x.exp(), 1));
    same(got, want(), 1e-11, "Flex<f32, u8>");
    let got = with_gradients(double::<Autodiff<NdArray>, 2>([5, 7], 1), |x| autodiff::softmax(x.exp(), 1));
    same(got, want(), 1e-11, "NdArray");
    let plain = autodiff::softmax(double::<Flex, 2>([5, 7], 1).exp(), 1);
    assert_eq!(plain.into_data(), want()[0].to_data());
}

/// Burn's own function, which Burn differentiates operation by operation.
fn plain_layer_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    beta: Option<Tensor<B, 1>>,
) -> Tensor<B, D> {
    let [x, gamma, beta] = [
        Some(x.into_primitive().tensor()),
        Some(gamma.into_primitive().tensor()),
        beta.map(|beta| beta.into_primitive().tensor()),
    ];
    let output = B::layer_norm(x.unwrap(), gamma.unwrap(), beta, 1e-5);
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

#[test]
fn layer_norm_has_the_gradients_of_burns_own() {
    for shape in [[3, 4, 5], [2, 3, 70], [30, 40, 33], [1, 2, 1]] {
        for with_beta in [true, false] {
            let leaves = || {
                let affine = |seed| double::<B, 1>([shape[2]], seed).require_grad();
                (double::<B, 3>(shape, 1).require_grad(), affine(2), affine(3))
            };
            let gradients = |f: &dyn Fn(Tensor<B, 3>, Tensor<B, 1>, Option<Tensor<B, 1>>) -> Tensor<B, 3>| {
                let (x, gamma, beta) = leaves();
                let output = f(x.clone(), gamma.clone(), with_beta.then(|| beta.clone()));
                let grads = (output * double::<B, 3>(shape, 9)).sum().backward();
                let of_beta = with_beta.then(|| beta.grad(&grads).unwrap().into_data());
                let of_gamma = gamma.grad(&grads).unwrap().into_data();
                (x.grad(&grads).unwrap().into_data(), of_gamma, of_beta)
            };
            let got = gradients(&|x, gamma, beta| autodiff::layer_norm(x, gamma, beta, 1e-5));
            let want = gradients(&|x, gamma, beta| plain_layer_norm(x, gamma, beta));
            assert_same(&got.0, &want.0, 1e-9, "for the input");
            assert_same(&got.1, &want.1, 1e-11, "for gamma");
            if let (Some(got), Some(want)) = (got.2, want.2) {
                assert_same(&got, &want, 1e-11, "for beta");
            }
        }
    }
}

#[test]
fn a_leaf_may_stand_for_two_operands_or_for_none() {
    // Gamma and beta are the same tensor, whose gradient is the sum of both; the input is not tracked.
    let x = double::<B, 2>([4, 6], 1);
    let both = double::<B, 1>([6], 2).require_grad();
    let gradient = |y: Tensor<B, 2>| both.grad(&y.powi_scalar(2).sum().backward()).unwrap().into_data();
    let got = gradient(autodiff::layer_norm(x.clone(), both.clone(), Some(both.clone()), 1e-5));
    let want = gradient(plain_layer_norm(x.clone(), both.clone(), Some(both.clone())));
    assert_same(&got, &want, 1e-11, "gamma and beta");
    // Without tracked leaves, no state is kept.
    let y = autodiff::layer_norm(x.clone(), both.clone().detach(), None, 1e-5);
    assert!(!y.is_require_grad());
    assert_eq!(y.inner().dims(), [4, 6]);
    // The gradient reaches the operations before the layer normalisation.
    let scale = Tensor::<B, 1>::ones([6], &Default::default()).cast(DType::F64).require_grad();
    let through = |f: &dyn Fn(Tensor<B, 2>) -> Tensor<B, 2>| {
        let y = f(x.clone() * scale.clone().unsqueeze());
        scale.grad(&(y * double::<B, 2>([4, 6], 5)).sum().backward()).unwrap().into_data()
    };
    let got = through(&|x| autodiff::log_softmax(x, 1));
    assert_same(&got, &through(&|x| activation::log_softmax(x, 1)), 1e-11, "through");
}

#[test]
fn bad_arguments_are_named() {
    let x = || float::<B, 2>([2, 3], 1).require_grad();
    assert!(panic_message(|| drop(autodiff::softmax(x(), 2))).starts_with("softmax: axis 2"));
    assert!(panic_message(|| drop(autodiff::log_softmax(x(), 2))).starts_with("log_softmax: axis 2"));
    let message = panic_message(|| drop(autodiff::layer_norm(x(), float::<B, 1>([2], 1), None, 1e-5)));
    assert!(message.starts_with("layer_norm: got a tensor of shape [2]"), "{message}");
}
