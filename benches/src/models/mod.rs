//! Whole models: their weights and inputs, which all peers share, and their parts.

mod data;
mod outcome;
mod parts;
mod run;

pub use data::write_data;
pub use outcome::{Difference, Memory, Outcome, TOLERANCE};
pub use run::{HARDLY_LEARNS, LEARNS, STEPS};

use crate::cases::{Case, Family, Part};
use burn_tensor::backend::Backend;
use std::path::{Path, PathBuf};

/// A model and what it is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Hidden states of MiniLM-L6.
    MiniLm { batch: usize, tokens: usize },
    /// Scores of ResNet-50, with batch norms as they are or folded into the convolutions.
    ResNet50 { batch: usize, folded: bool },
    /// Scores after a text of [`CONTEXT`] tokens, by a decoder of GPT-2's smallest size.
    Prefill,
    /// Scores after one token more, with the keys and values of the text in a cache.
    Token,
    /// Hidden states of a sequence.
    Lstm,
    /// A training step of ResNet-18 with Adam.
    TrainResNet18,
    /// A training step of a transformer with Adam.
    TrainTransformer,
    /// A training step of two linear layers with Adam.
    TrainMlp,
}

/// Tokens before the one that is generated.
const CONTEXT: usize = 128;

/// A row of the table of models.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The case's name. Its first word names the file of weights.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    task: Task,
}

/// All rows.
pub fn workloads() -> Vec<Workload> {
    let minilm = |batch, tokens| Task::MiniLm { batch, tokens };
    let resnet = |batch, folded| Task::ResNet50 { batch, folded };
    [
        ("minilm_1x16", "MiniLM-L6, 1x16 tokens", minilm(1, 16)),
        ("minilm_1x128", "MiniLM-L6, 1x128 tokens", minilm(1, 128)),
        ("minilm_8x128", "MiniLM-L6, 8x128 tokens", minilm(8, 128)),
        ("resnet50_b1", "ResNet-50, batch 1", resnet(1, false)),
        ("resnet50_b8", "ResNet-50, batch 8", resnet(8, false)),
        ("resnet50_folded_b1", "ResNet-50 with folded batch norms, batch 1", resnet(1, true)),
        ("resnet50_folded_b8", "ResNet-50 with folded batch norms, batch 8", resnet(8, true)),
        ("gpt2_prefill", "GPT-2-small, prefill of 128 tokens", Task::Prefill),
        ("gpt2_token", "GPT-2-small, one token after 128", Task::Token),
        ("lstm_b8", "LSTM, batch 8, 128 steps, width 256", Task::Lstm),
        ("resnet18_train", "training step: ResNet-18 on 16x3x64x64", Task::TrainResNet18),
        (
            "transformer_train",
            "training step: transformer, 4 layers, width 256, 16x128",
            Task::TrainTransformer,
        ),
        ("mlp_train", "training step: MLP 784-128-10, batch 32", Task::TrainMlp),
    ]
    .map(|(name, label, task)| Workload { name, label, task })
    .to_vec()
}

impl Workload {
    /// Whether it is a training step.
    pub fn trains(&self) -> bool {
        matches!(self.task, Task::TrainResNet18 | Task::TrainTransformer | Task::TrainMlp)
    }

    /// The convolutions, products and attentions of one call, each with the number of its calls.
    pub fn parts(&self) -> Vec<(Part, usize)> {
        parts::of(self.task)
    }

    /// The file with the weights of the model.
    fn weights(&self, folder: &Path) -> PathBuf {
        let stem = self.name.split('_').next().unwrap_or_default();
        folder.join(stem).with_extension("safetensors")
    }
}

/// The cases of these rows on backend `B`, over the weights and inputs in `folder`.
pub fn cases<B: Backend>(workloads: &[Workload], folder: &Path) -> Vec<Case> {
    let case = |workload: &Workload| {
        let (workload, folder) = (*workload, folder.to_owned());
        Case {
            name: workload.name.into(),
            family: Family::Models,
            bytes: 0,
            flops: workload.parts().iter().map(|(part, times)| part.flops() * times).sum(),
            short: true,
            setup: Box::new(move || run::call::<B>(&workload, &folder)),
        }
    };
    workloads.iter().map(case).collect()
}
