//! A transformer encoder that classifies sequences of tokens, of a size to train on a CPU.

use super::drawn;
use crate::weights::{Place, TorchNames, renamed};
use burn::config::Config;
use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Int, Tensor, backend::Backend};

/// The sizes of a [`Transformer`].
#[derive(Config, Debug)]
pub struct TransformerConfig {
    /// Number of different tokens.
    #[config(default = 1000)]
    pub vocabulary: usize,
    /// Longest sequence.
    #[config(default = 128)]
    pub positions: usize,
    /// Width of the model.
    #[config(default = 256)]
    pub width: usize,
    /// Width of the feed-forward layers.
    #[config(default = 1024)]
    pub feed_forward: usize,
    /// Attention heads per layer.
    #[config(default = 8)]
    pub heads: usize,
    /// Number of layers.
    #[config(default = 4)]
    pub layers: usize,
    /// Number of classes.
    #[config(default = 10)]
    pub classes: usize,
    /// Share of values that training drops.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl TransformerConfig {
    /// A model with random weights, the same in each run.
    pub fn init<B: Backend>(&self, device: &B::Device) -> Transformer<B> {
        drawn(self.blank(device), device)
    }

    /// A model to load weights into.
    pub fn blank<B: Backend>(&self, device: &B::Device) -> Transformer<B> {
        let embedding = |n| EmbeddingConfig::new(n, self.width).init(device);
        Transformer {
            tokens: embedding(self.vocabulary),
            positions: embedding(self.positions),
            encoder: TransformerEncoderConfig::new(self.width, self.feed_forward, self.heads, self.layers)
                .with_dropout(self.dropout)
                .init(device),
            head: LinearConfig::new(self.width, self.classes).init(device),
        }
    }
}

/// Embeddings of tokens and positions, Burn's transformer encoder (norms after the residual additions, gelu),
/// and a linear head on the mean over the sequence.
#[derive(Module, Debug)]
pub struct Transformer<B: Backend> {
    tokens: Embedding<B>,
    positions: Embedding<B>,
    encoder: TransformerEncoder<B>,
    head: Linear<B>,
}

impl<B: Backend> Transformer<B> {
    /// Scores (logits) of shape `[n, classes]` for sequences of shape `[n, length]`.
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let length = ids.dims()[1];
        let positions = self.positions.weight.val().slice(0..length).unsqueeze();
        let x = self.tokens.forward(ids) + positions;
        let x = self.encoder.forward(TransformerEncoderInput::new(x));
        self.head.forward(x.mean_dim(1).squeeze_dim(1))
    }
}

impl<B: Backend> TorchNames<B> for Transformer<B> {
    fn place(path: &str) -> Place {
        for (number, operand) in ["query", "key", "value"].iter().enumerate() {
            if let Some((layer, kind)) = path.split_once(&format!(".mha.{operand}.")) {
                let name = format!("{layer}.self_attn.in_proj_{kind}");
                return Place { name, part: Some((number, 3)) };
            }
        }
        renamed(
            path,
            &[
                ("mha.output", "self_attn.out_proj"),
                ("pwff.linear_inner", "linear1"),
                ("pwff.linear_outer", "linear2"),
                ("norm_", "norm"),
            ],
        )
        .into()
    }
}
