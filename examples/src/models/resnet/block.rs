//! Residual blocks.

use super::conv_norm::ConvNorm;
use burn::module::Module;
use burn::nn::Relu;
use burn::tensor::{Tensor, backend::Backend};

/// A bottleneck's last convolution has this many times the channels of its others.
const EXPANSION: usize = 4;

/// The sizes of a [`Block`].
#[derive(Clone, Copy)]
pub(super) struct BlockConfig {
    /// Channels that come.
    pub(super) from: usize,
    /// Channels of the 3x3 convolutions.
    pub(super) channels: usize,
    pub(super) stride: usize,
    pub(super) bottleneck: bool,
}

impl BlockConfig {
    /// Channels that leave.
    pub(super) fn to(&self) -> usize {
        if self.bottleneck { self.channels * EXPANSION } else { self.channels }
    }

    pub(super) fn init<B: Backend>(&self, device: &B::Device) -> Block<B> {
        let (from, channels, to, stride) = (self.from, self.channels, self.to(), self.stride);
        let conv = |channels, kernel, stride| ConvNorm::new(channels, kernel, stride, device);
        let convs = if self.bottleneck {
            vec![
                conv([from, channels], 1, 1),
                conv([channels, channels], 3, stride),
                conv([channels, to], 1, 1),
            ]
        } else {
            vec![conv([from, channels], 3, stride), conv([channels, to], 3, 1)]
        };
        let downsample = (stride != 1 || from != to).then(|| conv([from, to], 1, stride));
        Block { convs, downsample, activation: Relu::new() }
    }
}

/// Convolutions whose result is added to the input, which is brought to the same shape.
#[derive(Module, Debug)]
pub(super) struct Block<B: Backend> {
    convs: Vec<ConvNorm<B>>,
    downsample: Option<ConvNorm<B>>,
    activation: Relu,
}

impl<B: Backend> Block<B> {
    pub(super) fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let shortcut = match &self.downsample {
            Some(downsample) => downsample.forward(x.clone()),
            None => x.clone(),
        };
        let mut y = x;
        for (number, conv) in self.convs.iter().enumerate() {
            let relu = number + 1 < self.convs.len();
            y = conv.forward(y);
            if relu {
                y = self.activation.forward(y);
            }
        }
        self.activation.forward(y + shortcut)
    }

    pub(super) fn fold(self) -> Self {
        Self {
            convs: self.convs.into_iter().map(ConvNorm::fold).collect(),
            downsample: self.downsample.map(ConvNorm::fold),
            ..self
        }
    }
}
