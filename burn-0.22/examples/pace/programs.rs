//! Layers and models, in inference and in training.

use super::Bench;
use super::data::Digits;
use super::model::Model;
use super::train::{Config, evaluate, train};
use burn::nn::BatchNormConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::tensor::{Device, Distribution, Tensor};

/// A layer that normalises each of 64 channels, over 8 images of 56x56.
pub(super) fn batch_norm(bench: &Bench) {
    let input = |device: &Device| Tensor::<4>::random([8, 64, 56, 56], Distribution::Default, device);
    let layer = |device: &Device| BatchNormConfig::new(64).init(device);
    let (x, plain) = (input(&bench.device), layer(&bench.device));
    bench.time("batch norm, inference", || plain.forward(x.clone()));
    let device = &bench.device.clone().autodiff();
    let (x, tracked) = (input(device).require_grad(), layer(device));
    bench.time("batch norm, training", || tracked.forward(x.clone()).sum().backward());
}

/// A block of a transformer encoder: attention of 4 heads, a network of 1,024 neurons, two layer norms; 4
/// sequences of 128 vectors of 256 numbers.
pub(super) fn transformer(bench: &Bench) {
    let input = |device: &Device| Tensor::<3>::random([4, 128, 256], Distribution::Default, device);
    let block =
        |device: &Device| TransformerEncoderConfig::new(256, 1024, 4, 1).with_dropout(0.0).init(device);
    let run =
        |block: &TransformerEncoder, x: &Tensor<3>| block.forward(TransformerEncoderInput::new(x.clone()));
    let (x, plain) = (input(&bench.device), block(&bench.device));
    bench.time("transformer block, inference", || run(&plain, &x));
    let device = &bench.device.clone().autodiff();
    let (x, tracked) = (input(device), block(device));
    bench.time("transformer block, training", || run(&tracked, &x).sum().backward());
}

/// The digits example: an epoch of training from new weights, and the answers for 360 images.
pub(super) fn digits(bench: &Bench) {
    let split = Digits::load().split();
    let config = Config { epochs: 1, ..Config::default() };
    let tracked = bench.device.clone().autodiff();
    bench.time("digits, epoch of training", || train(&split.train, &config, &tracked, |_| ()));
    let model = Model::new(&bench.device);
    bench.time("digits, inference of 360 images", || evaluate(&model, &split.test, &bench.device));
}
