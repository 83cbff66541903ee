//! The network. Its fields have the names of Hugging Face's.

use super::super::drawn;
use super::cache::{Cache, LayerCache};
use crate::weights::{Error, Place, TorchNames, Weights};
use burn::config::Config;
use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::module::{attention, linear};
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Int, Tensor, backend::Backend};

/// The sizes of a [`Gpt2`]; by default those of the smallest model, with 124 million weights.
#[derive(Config, Debug)]
pub struct Gpt2Config {
    /// Number of different tokens.
    #[config(default = 50257)]
    pub vocabulary: usize,
    /// Longest text in tokens.
    #[config(default = 1024)]
    pub positions: usize,
    /// Width of the model.
    #[config(default = 768)]
    pub width: usize,
    /// Attention heads per layer.
    #[config(default = 12)]
    pub heads: usize,
    /// Number of layers.
    #[config(default = 12)]
    pub layers: usize,
}

/// Width and attention heads of GPT-2's four sizes. Other models of the architecture may have wider heads.
const KNOWN: &[(usize, usize)] = &[(768, 12), (1024, 16), (1280, 20), (1600, 25)];

impl Gpt2Config {
    /// The sizes of a model with these weights. The shapes do not tell the number of attention heads: the
    /// `config.json` beside the file does, or the width is one of GPT-2's.
    ///
    /// # Errors
    /// There are no embeddings of tokens and positions. Without `config.json`: the width is not GPT-2's.
    pub fn of(weights: &Weights) -> Result<Self, Error> {
        let [vocabulary, width] = weights.dims("wte.weight")?;
        let [positions, _] = weights.dims("wpe.weight")?;
        let heads = weights.heads(width, weights.published()?.as_ref(), KNOWN)?;
        let layers = weights.parts("h.");
        Ok(Self { vocabulary, positions, width, heads, layers })
    }

    /// A model with random weights, the same in each run.
    pub fn init<B: Backend>(&self, device: &B::Device) -> Gpt2<B> {
        drawn(self.blank(device), device)
    }

    /// A model to load weights into.
    pub fn blank<B: Backend>(&self, device: &B::Device) -> Gpt2<B> {
        let width = self.width;
        let initializer = Initializer::Normal { mean: 0.0, std: 0.02 };
        let embedding = |n| EmbeddingConfig::new(n, width).with_initializer(initializer.clone()).init(device);
        let linear =
            |from, to| LinearConfig::new(from, to).with_initializer(initializer.clone()).init(device);
        let norm = || LayerNormConfig::new(width).init(device);
        let block = || Block {
            ln_1: norm(),
            attn: CausalAttention {
                c_attn: linear(width, 3 * width),
                c_proj: linear(width, width),
                heads: self.heads,
            },
            ln_2: norm(),
            mlp: FeedForward {
                c_fc: linear(width, 4 * width),
                c_proj: linear(4 * width, width),
                activation: Gelu::new_approximate(),
            },
        };
        Gpt2 {
            wte: embedding(self.vocabulary),
            wpe: embedding(self.positions),
            h: (0..self.layers).map(|_| block()).collect(),
            ln_f: norm(),
            heads: self.heads,
        }
    }
}

/// The decoder. Its head is the transpose of the tokens' embedding.
#[derive(Module, Debug)]
pub struct Gpt2<B: Backend> {
    wte: Embedding<B>,
    wpe: Embedding<B>,
    h: Vec<Block<B>>,
    ln_f: LayerNorm<B>,
    heads: usize,
}

#[derive(Module, Debug)]
struct Block<B: Backend> {
    ln_1: LayerNorm<B>,
    attn: CausalAttention<B>,
    ln_2: LayerNorm<B>,
    mlp: FeedForward<B>,
}

#[derive(Module, Debug)]
struct CausalAttention<B: Backend> {
    c_attn: Linear<B>,
    c_proj: Linear<B>,
    heads: usize,
}

#[derive(Module, Debug)]
struct FeedForward<B: Backend> {
    c_fc: Linear<B>,
    c_proj: Linear<B>,
    activation: Gelu,
}

impl<B: Backend> Gpt2<B> {
    /// An empty cache for `n` texts of at most `capacity` tokens each.
    ///
    /// # Panics
    /// Panics if the model has fewer positions than that.
    pub fn cache(&self, n: usize, capacity: usize) -> Cache<B> {
        let [positions, width] = self.wpe.weight.dims();
        assert!(
            capacity <= positions,
            "a cache for {capacity} tokens, and the model has {positions} positions"
        );
        let shape = [n, self.heads, capacity, width / self.heads];
        Cache::new(self.h.len(), shape, &self.wpe.weight.device())
    }

    /// Scores (logits) of shape `[n, length, vocabulary]` for what follows each token of `ids`, of shape `[n,
    /// length]`. The tokens continue the cache's, and are added to it.
    ///
    /// # Panics
    /// Panics if the cache has no room for the tokens, or was made for another number of texts.
    pub fn forward(&self, ids: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Tensor<B, 3> {
        let states = self.states(ids, cache);
        self.head(states)
    }

    /// Scores of shape `[n, vocabulary]` for what follows the last token, otherwise as
    /// [`forward`](Self::forward).
    pub fn forward_last(&self, ids: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Tensor<B, 2> {
        let states = self.states(ids, cache);
        let last = states.dims()[1] - 1;
        self.head(states.slice_dim(1, last..last + 1)).squeeze_dim(1)
    }

    fn states(&self, ids: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Tensor<B, 3> {
        let [_, tokens] = ids.dims();
        let seen = cache.len();
        assert!(
            seen + tokens <= cache.capacity(),
            "{tokens} tokens after {seen}, and the cache has room for {}",
            cache.capacity()
        );
        let positions = self.wpe.weight.val().slice(seen..seen + tokens).unsqueeze();
        let mut x = self.wte.forward(ids) + positions;
        for (block, layer) in self.h.iter().zip(cache.layers()) {
            x = x.clone() + block.attn.forward(block.ln_1.forward(x), seen, layer);
            x = x.clone() + block.mlp.forward(block.ln_2.forward(x));
        }
        cache.advance(tokens);
        self.ln_f.forward(x)
    }

    fn head(&self, states: Tensor<B, 3>) -> Tensor<B, 3> {
        linear(states, self.wte.weight.val().transpose(), None)
    }
}

impl<B: Backend> CausalAttention<B> {
    fn forward(&self, x: Tensor<B, 3>, seen: usize, cache: &mut LayerCache<B>) -> Tensor<B, 3> {
        let [n, tokens, width] = x.dims();
        let projected = self.c_attn.forward(x).reshape([n, tokens, 3, self.heads, width / self.heads]);
        let heads = |operand| {
            projected.clone().slice_dim(2, operand..operand + 1).squeeze_dim::<4>(2).swap_dims(1, 2)
        };
        let (keys, values) = cache.push(seen, heads(1), heads(2));
        // The last query is the last key's: a query sees the keys up to its own.
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        let context = attention(heads(0), keys, values, None, None, options);
        self.c_proj.forward(context.swap_dims(1, 2).reshape([n, tokens, width]))
    }
}

impl<B: Backend> FeedForward<B> {
    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        self.c_proj.forward(self.activation.forward(self.c_fc.forward(x)))
    }
}

impl<B: Backend> TorchNames<B> for Gpt2<B> {
    /// Hugging Face's `Conv1D` lies as Burn's linear layers do.
    const LINEARS_ARE_TRANSPOSED: bool = false;

    fn place(path: &str) -> Place {
        path.to_owned().into()
    }
}
