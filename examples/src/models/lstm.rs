//! `burn::nn::Lstm` under PyTorch's names: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0` and `bias_hh_l0`,
//! each of which holds the input, forget, cell and output gates one after the other.

use super::drawn;
use crate::weights::{Place, TorchNames};
use burn::config::Config;
use burn::nn::{Lstm, LstmConfig};
use burn::tensor::backend::Backend;

/// The sizes of an [`Lstm`] with biases and the batch first.
#[derive(Config, Debug)]
pub struct LstmModelConfig {
    /// Numbers per step of the input.
    #[config(default = 256)]
    pub inputs: usize,
    /// Width of the hidden state.
    #[config(default = 256)]
    pub hidden: usize,
}

impl LstmModelConfig {
    /// A model with random weights, the same in each run.
    pub fn init<B: Backend>(&self, device: &B::Device) -> Lstm<B> {
        drawn(self.blank(device), device)
    }

    /// A model to load weights into.
    pub fn blank<B: Backend>(&self, device: &B::Device) -> Lstm<B> {
        LstmConfig::new(self.inputs, self.hidden, true).init(device)
    }
}

impl<B: Backend> TorchNames<B> for Lstm<B> {
    fn place(path: &str) -> Place {
        /// PyTorch's order.
        const GATES: [&str; 4] = ["input_gate", "forget_gate", "cell_gate", "output_gate"];
        let mut fields = path.split('.');
        let mut field = || fields.next().unwrap_or_default();
        let (gate, transform, kind) = (field(), field(), field());
        let side = if transform == "input_transform" { "ih" } else { "hh" };
        let part = GATES.iter().position(|g| *g == gate).map(|number| (number, GATES.len()));
        Place { name: format!("{kind}_{side}_l0"), part }
    }
}
