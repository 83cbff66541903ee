//! From the contents of files to their types.

use crate::content::{Content, Sizes};
use crate::imported::Model;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::Deserialize;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// What the model's `config.json` says.
#[derive(Deserialize)]
struct Config {
    #[serde(flatten)]
    sizes: Sizes,
    /// The type that each score stands for.
    target_labels_space: Vec<String>,
    /// Below this score the model's answer is a guess.
    medium_confidence_threshold: f32,
    /// The same for types that have a limit of their own.
    thresholds: HashMap<String, f32>,
    /// Types that users know by another name.
    overwrite_map: HashMap<String, String>,
}

/// What `types.json` says of a type.
#[derive(Clone, Deserialize)]
struct Type {
    description: Option<String>,
    group: Option<String>,
    is_text: bool,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The type's short name, such as `rust`.
    pub label: String,
    /// Its description, such as `Rust source`.
    pub description: String,
    /// The group that it belongs to, such as `code`.
    pub group: String,
    /// How sure the model is, from 0 to 1. For an unsure model the type is plain text or unknown. 1 where the
    /// model was not asked.
    pub score: f32,
}

/// The model, and what its answers mean.
pub struct FileTypes {
    model: Model,
    config: Config,
    types: HashMap<String, Type>,
    device: Device,
}

impl FileTypes {
    /// The imported model, with its weights, on a device.
    ///
    /// # Errors
    /// The files beside the model are not what this program knows.
    pub fn new(device: &Device) -> serde_json::Result<Self> {
        Ok(Self {
            model: Model::from_embedded(device),
            config: serde_json::from_str(include_str!("../model/config.json"))?,
            types: serde_json::from_str(include_str!("../model/types.json"))?,
            device: device.clone(),
        })
    }

    /// Reads what has to be known of a file, 8 KiB of it at most.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, path: &Path) -> io::Result<Content> {
        Content::of_path(path, &self.config.sizes)
    }

    /// The names of the types, in the order of their scores.
    pub fn labels(&self) -> &[String] {
        &self.config.target_labels_space
    }

    /// The score of each type for each of some tokens of files, `[files, types]`; a row sums up to 1.
    pub fn scores(&self, tokens: &[&[i32]]) -> Tensor<2> {
        let shape = [tokens.len(), self.config.sizes.first + self.config.sizes.last];
        let data = TensorData::new(tokens.concat(), shape);
        self.model.forward(Tensor::<2, Int>::from_data(data, (&self.device, DType::I32)))
    }

    /// Tells the types of files, all of which the model sees in one batch.
    pub fn tell(&self, contents: &[Content]) -> Vec<Answer> {
        let tokens: Vec<&[i32]> = contents
            .iter()
            .filter_map(|content| if let Content::Tokens(tokens) = content { Some(&**tokens) } else { None })
            .collect();
        let scores = if tokens.is_empty() { Vec::new() } else { floats(self.scores(&tokens)) };
        let mut scores = scores.chunks(self.labels().len());
        contents
            .iter()
            .map(|content| match content {
                Content::Folder => self.answer("directory", 1.0),
                Content::Empty => self.answer("empty", 1.0),
                Content::Few { text: true } => self.answer("txt", 1.0),
                Content::Special | Content::Few { text: false } => self.answer("unknown", 1.0),
                Content::Tokens(_) => self.best(scores.next().unwrap_or_default()),
            })
            .collect()
    }

    /// The type with the highest score, or a general one where that score is low.
    fn best(&self, scores: &[f32]) -> Answer {
        let best = scores.iter().copied().zip(self.labels()).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((score, label)) = best else { return self.answer("unknown", 0.0) };
        let least = self.config.thresholds.get(label).unwrap_or(&self.config.medium_confidence_threshold);
        let label = self.config.overwrite_map.get(label).unwrap_or(label);
        if score >= *least {
            return self.answer(label, score);
        }
        let is_text = self.types.get(label).is_some_and(|kind| kind.is_text);
        self.answer(if is_text { "txt" } else { "unknown" }, score)
    }

    fn answer(&self, label: &str, score: f32) -> Answer {
        let known = self.types.get(label);
        Answer {
            label: label.to_owned(),
            description: known.and_then(|kind| kind.description.as_deref()).unwrap_or(label).to_owned(),
            group: known.and_then(|kind| kind.group.as_deref()).unwrap_or("unknown").to_owned(),
            score,
        }
    }
}

/// The values of a tensor of f32.
fn floats(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}
