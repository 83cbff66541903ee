//! Two linear layers with a relu between them, as for images of 28x28 pixels in ten classes.

use super::drawn;
use crate::weights::{Place, TorchNames};
use burn::config::Config;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig, Relu};
use burn::tensor::{Tensor, backend::Backend};

/// The sizes of an [`Mlp`].
#[derive(Config, Debug)]
pub struct MlpConfig {
    /// Numbers per input.
    #[config(default = 784)]
    pub inputs: usize,
    /// Width of the hidden layer.
    #[config(default = 128)]
    pub hidden: usize,
    /// Number of classes.
    #[config(default = 10)]
    pub classes: usize,
}

impl MlpConfig {
    /// A model with random weights, the same in each run.
    pub fn init<B: Backend>(&self, device: &B::Device) -> Mlp<B> {
        drawn(self.blank(device), device)
    }

    /// A model to load weights into.
    pub fn blank<B: Backend>(&self, device: &B::Device) -> Mlp<B> {
        Mlp {
            hidden: LinearConfig::new(self.inputs, self.hidden).init(device),
            output: LinearConfig::new(self.hidden, self.classes).init(device),
            activation: Relu::new(),
        }
    }
}

/// A perceptron with one hidden layer.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
    activation: Relu,
}

impl<B: Backend> Mlp<B> {
    /// Scores (logits) of shape `[n, classes]` for inputs of shape `[n, inputs]`.
    pub fn forward(&self, inputs: Tensor<B, 2>) -> Tensor<B, 2> {
        self.output.forward(self.activation.forward(self.hidden.forward(inputs)))
    }
}

impl<B: Backend> TorchNames<B> for Mlp<B> {
    fn place(path: &str) -> Place {
        crate::weights::renamed(path, &[("hidden", "0"), ("output", "2")]).into()
    }
}
