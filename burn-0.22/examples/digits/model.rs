//! The network: the same as in the example for Burn 0.21.

use super::data::{CLASSES, SIDE};
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Device, Tensor};

/// Channels after the first convolution; the second doubles them.
const CHANNELS: usize = 16;
/// Width of the hidden layer.
const HIDDEN: usize = 128;

/// Two 3x3 convolutions, a 2x2 max pooling and two linear layers.
#[derive(Module, Debug)]
pub struct Model {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
    dropout: Dropout,
    activation: Relu,
}

impl Model {
    /// A network with random weights, drawn from the device's seeded generator.
    pub fn new(device: &Device) -> Self {
        let conv =
            |from, to| Conv2dConfig::new([from, to], [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        let pooled = SIDE / 2;
        Self {
            conv1: conv(1, CHANNELS),
            conv2: conv(CHANNELS, 2 * CHANNELS),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(2 * CHANNELS * pooled * pooled, HIDDEN).init(device),
            output: LinearConfig::new(HIDDEN, CLASSES).init(device),
            dropout: DropoutConfig::new(0.3).init(),
            activation: Relu::new(),
        }
    }

    /// Scores (logits) of shape `[n, CLASSES]` for images of shape `[n, 1, SIDE, SIDE]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.activation.forward(self.conv1.forward(images));
        let x = self.activation.forward(self.conv2.forward(x));
        let x = self.pool.forward(x).flatten(1, 3);
        let x = self.activation.forward(self.hidden.forward(self.dropout.forward(x)));
        self.output.forward(self.dropout.forward(x))
    }
}
