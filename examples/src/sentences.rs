//! Sentences as vectors whose product is the similarity of what they say.

use crate::models::minilm::{MiniLm, MiniLmConfig};
use crate::weights::Weights;
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use std::error::Error;
use std::path::Path;
use tokenizers::{Tokenizer, TruncationParams};

/// Longest sentence in tokens, as sentence-transformers sets it; what is beyond it does not count.
const LONGEST: usize = 256;
/// Most tokens that go through the model at once, with padding: they bound the memory for activations.
const BATCH: usize = 2048;

/// A tokenizer and the model that it belongs to.
pub struct SentenceEncoder<B: Backend> {
    tokenizer: Tokenizer,
    model: MiniLm<B>,
    device: B::Device,
}

impl<B: Backend> SentenceEncoder<B> {
    /// The model of a safetensors file, on whose memory it computes, and the tokenizer of a `tokenizer.json`.
    ///
    /// # Errors
    /// A file can't be read, or holds something else.
    pub fn open(weights: &Path, tokenizer: &Path, device: &B::Device) -> Result<Self, Box<dyn Error>> {
        let weights = Weights::open(weights)?.without_prefix("bert.");
        let config = MiniLmConfig::of(&weights)?;
        let model = weights.lend(config.blank(device))?;
        let describe = |error| format!("{}: {error}", tokenizer.display());
        let mut tokenizer = Tokenizer::from_file(tokenizer).map_err(describe)?;
        let known = tokenizer.get_vocab_size(true);
        if known > config.vocabulary {
            return Err(
                format!("the tokenizer has {known} tokens, and the model {}", config.vocabulary).into()
            );
        }
        let max_length = LONGEST.min(config.positions);
        let truncation = TruncationParams { max_length, ..Default::default() };
        // Sentences are padded here, and only to the longest of their batch.
        tokenizer.with_padding(None).with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
        Ok(Self { tokenizer, model, device: device.clone() })
    }

    /// The tokens of each sentence.
    ///
    /// # Errors
    /// The tokenizer refuses a sentence.
    pub fn tokens(&self, sentences: &[String]) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
        let encoded =
            self.tokenizer.encode_batch(sentences.to_vec(), true).map_err(|error| error.to_string())?;
        Ok(encoded.iter().map(|encoding| encoding.get_ids().to_vec()).collect())
    }

    /// Embeddings of shape `[n, width]` and of length 1. `done` is told how many more sentences are done.
    ///
    /// # Errors
    /// There is no sentence, or the tokenizer refuses one.
    pub fn embed(&self, sentences: &[String], done: impl Fn(usize)) -> Result<Tensor<B, 2>, Box<dyn Error>> {
        if sentences.is_empty() {
            return Err("there is no sentence".into());
        }
        let tokens = self.tokens(sentences)?;
        // Sentences of like lengths go together, and their embeddings back to their places.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|&k| tokens[k].len());
        let mut parts = Vec::new();
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let fits = |&n: &usize| n * tokens[rest[n - 1]].len() <= BATCH;
            let (batch, after) = rest.split_at((1..=rest.len()).take_while(fits).last().unwrap_or(1));
            let batch: Vec<&[u32]> = batch.iter().map(|&k| tokens[k].as_slice()).collect();
            parts.push(self.embed_batch(&batch));
            done(batch.len());
            rest = after;
        }
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &k)| places[k] = place as i32);
        let places = TensorData::new(places, [order.len()]);
        Ok(Tensor::cat(parts, 0).select(0, Tensor::from_data(places, &self.device)))
    }

    fn embed_batch(&self, batch: &[&[u32]]) -> Tensor<B, 2> {
        let longest = batch.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let shape = [batch.len(), longest];
        let row = |tokens: &&[u32]| {
            let tokens = tokens.to_vec();
            (0..longest).map(move |k| tokens.get(k).map(|&id| id as i32))
        };
        let ids: Vec<Option<i32>> = batch.iter().flat_map(row).collect();
        let padding: Vec<bool> = ids.iter().map(Option::is_none).collect();
        let padding = padding
            .contains(&true)
            .then(|| Tensor::<B, 2, Bool>::from_data(TensorData::new(padding, shape), &self.device));
        let ids: Vec<i32> = ids.into_iter().map(Option::unwrap_or_default).collect();
        let ids = TensorData::new(ids, shape);
        self.model.embed(Tensor::<B, 2, Int>::from_data(ids, &self.device), padding)
    }
}
