//! The encoder of `sentence-transformers/all-MiniLM-L6-v2`: BERT's architecture, whose mean over the tokens
//! is a sentence's embedding.

use super::drawn;
use crate::weights::{Error, Place, TorchNames, Weights, renamed};
use burn::config::Config;
use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Int, Tensor, backend::Backend};

/// The sizes of a [`MiniLm`]; by default those of all-MiniLM-L6-v2.
#[derive(Config, Debug)]
pub struct MiniLmConfig {
    /// Number of different tokens.
    #[config(default = 30522)]
    pub vocabulary: usize,
    /// Longest sequence.
    #[config(default = 512)]
    pub positions: usize,
    /// Width of the model.
    #[config(default = 384)]
    pub width: usize,
    /// Width of the feed-forward layers.
    #[config(default = 1536)]
    pub feed_forward: usize,
    /// Attention heads per layer.
    #[config(default = 12)]
    pub heads: usize,
    /// Number of layers.
    #[config(default = 6)]
    pub layers: usize,
    /// What layer norms add to the variance.
    #[config(default = 1e-12)]
    pub epsilon: f64,
}

/// Width and attention heads of the MiniLM models. Other models of BERT's architecture have wider heads.
const KNOWN: &[(usize, usize)] = &[(384, 12)];

impl MiniLmConfig {
    /// The sizes of a model with these weights. The shapes do not tell the number of attention heads and
    /// what norms add: the `config.json` beside the file does, or they are MiniLM's.
    ///
    /// # Errors
    /// There are no embeddings, or no layer. Without `config.json`: the width is not MiniLM's.
    pub fn of(weights: &Weights) -> Result<Self, Error> {
        let [vocabulary, width] = weights.dims("embeddings.word_embeddings.weight")?;
        let [positions, _] = weights.dims("embeddings.position_embeddings.weight")?;
        let [feed_forward, _] = weights.dims("encoder.layer.0.intermediate.dense.weight")?;
        let published = weights.published()?;
        let heads = weights.heads(width, published.as_ref(), KNOWN)?;
        let layers = weights.parts("encoder.layer.");
        let config = Self::new();
        let epsilon = published.and_then(|published| published.layer_norm_eps).unwrap_or(config.epsilon);
        Ok(config
            .with_vocabulary(vocabulary)
            .with_positions(positions)
            .with_width(width)
            .with_feed_forward(feed_forward)
            .with_heads(heads)
            .with_layers(layers)
            .with_epsilon(epsilon))
    }

    /// A model with random weights, the same in each run.
    pub fn init<B: Backend>(&self, device: &B::Device) -> MiniLm<B> {
        drawn(self.blank(device), device)
    }

    /// A model to load weights into.
    pub fn blank<B: Backend>(&self, device: &B::Device) -> MiniLm<B> {
        let width = self.width;
        let initializer = Initializer::Normal { mean: 0.0, std: 0.02 };
        let embedding = |n| EmbeddingConfig::new(n, width).with_initializer(initializer.clone()).init(device);
        let linear =
            |from, to| LinearConfig::new(from, to).with_initializer(initializer.clone()).init(device);
        let norm = || LayerNormConfig::new(width).with_epsilon(self.epsilon).init(device);
        let layer = || Layer {
            attention: SelfAttention {
                query: linear(width, width),
                key: linear(width, width),
                value: linear(width, width),
                output: linear(width, width),
                norm: norm(),
                heads: self.heads,
            },
            feed_forward: FeedForward {
                inner: linear(width, self.feed_forward),
                outer: linear(self.feed_forward, width),
                norm: norm(),
                activation: Gelu::new(),
            },
        };
        MiniLm {
            embeddings: Embeddings {
                words: embedding(self.vocabulary),
                positions: embedding(self.positions),
                types: embedding(2),
                norm: norm(),
            },
            layers: (0..self.layers).map(|_| layer()).collect(),
        }
    }
}

/// The encoder.
#[derive(Module, Debug)]
pub struct MiniLm<B: Backend> {
    embeddings: Embeddings<B>,
    layers: Vec<Layer<B>>,
}

#[derive(Module, Debug)]
struct Embeddings<B: Backend> {
    words: Embedding<B>,
    positions: Embedding<B>,
    /// Tells first from second sentences; all are first ones here.
    types: Embedding<B>,
    norm: LayerNorm<B>,
}

#[derive(Module, Debug)]
struct Layer<B: Backend> {
    attention: SelfAttention<B>,
    feed_forward: FeedForward<B>,
}

#[derive(Module, Debug)]
struct SelfAttention<B: Backend> {
    query: Linear<B>,
    key: Linear<B>,
    value: Linear<B>,
    output: Linear<B>,
    norm: LayerNorm<B>,
    heads: usize,
}

#[derive(Module, Debug)]
struct FeedForward<B: Backend> {
    inner: Linear<B>,
    outer: Linear<B>,
    norm: LayerNorm<B>,
    activation: Gelu,
}

impl<B: Backend> MiniLm<B> {
    /// The states of shape `[n, length, width]` after the last layer, for tokens of shape `[n, length]`.
    /// `padding` of the same shape is true where a sequence has no token any more.
    pub fn forward(&self, ids: Tensor<B, 2, Int>, padding: Option<Tensor<B, 2, Bool>>) -> Tensor<B, 3> {
        let x = self.embeddings.forward(ids);
        self.layers
            .iter()
            .fold(x, |x, layer| layer.feed_forward.forward(layer.attention.forward(x, padding.clone())))
    }

    /// Embeddings of shape `[n, width]` and of length 1: the mean over each sequence's tokens, normalised.
    pub fn embed(&self, ids: Tensor<B, 2, Int>, padding: Option<Tensor<B, 2, Bool>>) -> Tensor<B, 2> {
        /// The shortest vector that is still divided by its length, as in `torch.nn.functional.normalize`.
        const SHORTEST: f64 = 1e-12;
        let states = self.forward(ids, padding.clone());
        let mean = match padding {
            Some(padding) => {
                let tokens = padding.bool_not().float().unsqueeze_dim::<3>(2);
                (states * tokens.clone()).sum_dim(1) / tokens.sum_dim(1).clamp_min(1.0)
            }
            None => states.mean_dim(1),
        }
        .squeeze_dim::<2>(1);
        let length = mean.clone().powi_scalar(2).sum_dim(1).sqrt().clamp_min(SHORTEST);
        mean / length
    }
}

impl<B: Backend> Embeddings<B> {
    fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let length = ids.dims()[1];
        let positions = self.positions.weight.val().slice(0..length);
        let first = self.types.weight.val().slice(0..1);
        self.norm.forward(self.words.forward(ids) + (positions + first).unsqueeze())
    }
}

impl<B: Backend> SelfAttention<B> {
    fn forward(&self, x: Tensor<B, 3>, padding: Option<Tensor<B, 2, Bool>>) -> Tensor<B, 3> {
        let [n, length, width] = x.dims();
        let heads = |linear: &Linear<B>| {
            linear.forward(x.clone()).reshape([n, length, self.heads, width / self.heads]).swap_dims(1, 2)
        };
        let mask =
            padding.map(|padding| padding.reshape([n, 1, 1, length]).expand([n, self.heads, length, length]));
        let (query, key, value) = (heads(&self.query), heads(&self.key), heads(&self.value));
        let context = attention(query, key, value, mask, None, AttentionModuleOptions::default());
        let context = context.swap_dims(1, 2).reshape([n, length, width]);
        self.norm.forward(self.output.forward(context) + x)
    }
}

impl<B: Backend> FeedForward<B> {
    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let inner = self.activation.forward(self.inner.forward(x.clone()));
        self.norm.forward(self.outer.forward(inner) + x)
    }
}

impl<B: Backend> TorchNames<B> for MiniLm<B> {
    fn place(path: &str) -> Place {
        renamed(
            path,
            &[
                ("embeddings.words", "embeddings.word_embeddings"),
                ("embeddings.positions", "embeddings.position_embeddings"),
                ("embeddings.types", "embeddings.token_type_embeddings"),
                ("layers", "encoder.layer"),
                ("attention.output", "attention.output.dense"),
                ("attention.norm", "attention.output.norm"),
                ("attention.query", "attention.self.query"),
                ("attention.key", "attention.self.key"),
                ("attention.value", "attention.self.value"),
                ("feed_forward.inner", "intermediate.dense"),
                ("feed_forward.outer", "output.dense"),
                ("feed_forward.norm", "output.norm"),
                ("norm", "LayerNorm"),
            ],
        )
        .into()
    }
}
