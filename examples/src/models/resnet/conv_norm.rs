//! A convolution and its batch norm, which can be folded into it.

use burn::module::{Initializer, Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, PaddingConfig2d};
use burn::tensor::{Tensor, backend::Backend};

/// A convolution without a bias and a batch norm, or a convolution with a bias.
#[derive(Module, Debug)]
pub(super) struct ConvNorm<B: Backend> {
    conv: Conv2d<B>,
    bn: Option<BatchNorm<B>>,
}

impl<B: Backend> ConvNorm<B> {
    /// A square kernel, padded such that stride 1 keeps the image's size.
    pub(super) fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &B::Device) -> Self {
        let padding = kernel / 2;
        let conv = Conv2dConfig::new(channels, [kernel, kernel])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .with_bias(false)
            // As torchvision: variances stay the same over a convolution and a relu.
            .with_initializer(Initializer::KaimingNormal { gain: 2f64.sqrt(), fan_out_only: true })
            .init(device);
        Self { conv, bn: Some(BatchNormConfig::new(channels[1]).init(device)) }
    }

    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let x = self.conv.forward(x);
        match &self.bn {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }

    /// With `s = gamma / sqrt(var + epsilon)`, the norm of `w x` is `(s w) x + (beta - s mean)`.
    pub(super) fn fold(self) -> Self {
        let Self { mut conv, bn: Some(norm) } = self else { return self };
        let variance = norm.running_var.value();
        let scale = norm.gamma.val() / (variance + norm.epsilon).sqrt();
        let channels = scale.dims()[0];
        let bias = norm.beta.val() - norm.running_mean.value() * scale.clone();
        conv.weight = conv.weight.map(|weight| weight * scale.reshape([channels, 1, 1, 1]));
        conv.bias = Some(Param::from_tensor(bias.detach()));
        Self { conv, bn: None }
    }
}
