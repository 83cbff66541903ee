//! What the shapes of weights do not tell: the `config.json` that Hugging Face publishes beside them.

use super::{Error, Weights};
use burn::config::Config;

/// The entries that are read. The file has many more.
#[derive(Config, Debug)]
pub(crate) struct Published {
    /// Attention heads, as BERT's files call them.
    num_attention_heads: Option<usize>,
    /// Attention heads, as GPT-2's files call them.
    n_head: Option<usize>,
    /// What layer norms add to the variance, in BERT's files.
    pub layer_norm_eps: Option<f64>,
}

impl Weights {
    /// The `config.json` beside the file of the weights, if there is one.
    pub(crate) fn published(&self) -> Result<Option<Published>, Error> {
        let Some(path) = self.source.as_ref().map(|source| source.with_file_name("config.json")) else {
            return Ok(None);
        };
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Io(path, error)),
        };
        match Published::load_binary(&bytes) {
            Ok(published) => Ok(Some(published)),
            Err(error) => Err(Error::Config(path, error.to_string())),
        }
    }

    /// The number of attention heads of a model of this width: what is published, or what the models that
    /// are `known` by their width have. Heads of another width would give other numbers without an error.
    pub(crate) fn heads(
        &self,
        width: usize,
        published: Option<&Published>,
        known: &'static [(usize, usize)],
    ) -> Result<usize, Error> {
        let named = published.and_then(|published| published.num_attention_heads.or(published.n_head));
        let heads = named.or_else(|| known.iter().find(|(of, _)| *of == width).map(|(_, heads)| *heads));
        match heads {
            Some(heads) if heads > 0 && width.is_multiple_of(heads) => Ok(heads),
            _ => Err(Error::Heads { source: self.source.clone(), width, heads, known }),
        }
    }
}
