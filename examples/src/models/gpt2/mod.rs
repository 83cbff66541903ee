//! GPT-2: a decoder that predicts the next token, with a cache of keys and values.

mod cache;
mod model;
mod sample;

pub use cache::Cache;
pub use model::{Gpt2, Gpt2Config};
pub use sample::choose;
