//! ResNet-18 and ResNet-50 as torchvision has them, and batch norms folded into convolutions.

mod block;
mod conv_norm;

use super::drawn;
use crate::weights::{Error, Place, TorchNames, Weights};
use block::{Block, BlockConfig};
use burn::config::Config;
use burn::module::Module;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Tensor, backend::Backend};
use conv_norm::ConvNorm;

/// Channels of the first block of each of the four stages.
const CHANNELS: [usize; 4] = [64, 128, 256, 512];

/// The sizes of a [`ResNet`].
#[derive(Config, Debug)]
pub struct ResNetConfig {
    /// Number of blocks in each stage.
    pub blocks: [usize; 4],
    /// Whether a block is a bottleneck (1x1, 3x3, 1x1) instead of two 3x3 convolutions.
    pub bottleneck: bool,
    /// Number of classes.
    #[config(default = 1000)]
    pub classes: usize,
}

impl ResNetConfig {
    /// The sizes of a model with these weights: any of torchvision's from ResNet-18 to ResNet-152.
    ///
    /// # Errors
    /// There is no last layer.
    pub fn of(weights: &Weights) -> Result<Self, Error> {
        let [classes, _] = weights.dims("fc.weight")?;
        let blocks = [1, 2, 3, 4].map(|stage| weights.parts(&format!("layer{stage}.")));
        let bottleneck = weights.names().any(|name| name == "layer1.0.conv3.weight");
        Ok(Self { blocks, bottleneck, classes })
    }

    /// ResNet-18 for ImageNet's 1000 classes.
    pub fn resnet18() -> Self {
        Self::new([2, 2, 2, 2], false)
    }

    /// ResNet-50 for ImageNet's 1000 classes.
    pub fn resnet50() -> Self {
        Self::new([3, 4, 6, 3], true)
    }

    /// A model with random weights, the same in each run.
    pub fn init<B: Backend>(&self, device: &B::Device) -> ResNet<B> {
        drawn(self.blank(device), device)
    }

    /// A model to load weights into.
    pub fn blank<B: Backend>(&self, device: &B::Device) -> ResNet<B> {
        let mut from = CHANNELS[0];
        let mut stages = Vec::new();
        for (stage, (&blocks, channels)) in self.blocks.iter().zip(CHANNELS).enumerate() {
            let block = |number| {
                let stride = if stage > 0 && number == 0 { 2 } else { 1 };
                let config = BlockConfig { from, channels, stride, bottleneck: self.bottleneck };
                from = config.to();
                config.init(device)
            };
            stages.push((0..blocks).map(block).collect());
        }
        ResNet {
            stem: ConvNorm::new([3, CHANNELS[0]], 7, 2, device),
            pool: MaxPool2dConfig::new([3, 3])
                .with_strides([2, 2])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(),
            layers: stages,
            average: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            fc: LinearConfig::new(from, self.classes).init(device),
            activation: Relu::new(),
        }
    }
}

/// A residual network for images.
#[derive(Module, Debug)]
pub struct ResNet<B: Backend> {
    stem: ConvNorm<B>,
    pool: MaxPool2d,
    layers: Vec<Vec<Block<B>>>,
    average: AdaptiveAvgPool2d,
    fc: Linear<B>,
    activation: Relu,
}

impl<B: Backend> ResNet<B> {
    /// Scores (logits) of shape `[n, classes]` for images of shape `[n, 3, height, width]`, normalised as
    /// ImageNet's.
    pub fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = self.pool.forward(self.activation.forward(self.stem.forward(images)));
        let x = self.layers.iter().flatten().fold(x, |x, block| block.forward(x));
        self.fc.forward(self.average.forward(x).flatten(1, 3))
    }

    /// The same function of images with no batch norms: their running means and variances are multiplied into
    /// the convolutions before them, which get biases. For inference.
    pub fn fold_batch_norms(self) -> Self {
        let fold = |blocks: Vec<Block<B>>| blocks.into_iter().map(Block::fold).collect();
        Self { stem: self.stem.fold(), layers: self.layers.into_iter().map(fold).collect(), ..self }
    }
}

impl<B: Backend> TorchNames<B> for ResNet<B> {
    fn place(path: &str) -> Place {
        let fields: Vec<&str> = path.split('.').collect();
        match *fields.as_slice() {
            ["stem", layer, kind] => format!("{layer}1.{kind}"),
            ["layers", stage, block, "convs", number, layer, kind] => {
                format!("layer{}.{block}.{layer}{}.{kind}", one_more(stage), one_more(number))
            }
            ["layers", stage, block, "downsample", layer, kind] => {
                let number = if layer == "conv" { 0 } else { 1 };
                format!("layer{}.{block}.downsample.{number}.{kind}", one_more(stage))
            }
            _ => path.to_owned(),
        }
        .into()
    }
}

/// torchvision counts stages and layers from 1.
fn one_more(number: &str) -> usize {
    number.parse::<usize>().map_or(0, |number| number + 1)
}
