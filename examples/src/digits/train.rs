//! Training, evaluation, and saving and loading of weights.

use super::data::{Digits, SIDE};
use super::model::Model;
use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::record::{FullPrecisionSettings, NamedMpkFileRecorder, RecorderError};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Int, Tensor, TensorData};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::path::Path;

/// Training parameters.
#[derive(Clone, Debug)]
pub struct TrainConfig {
    /// Passes over the training images.
    pub epochs: usize,
    /// Seed of the weights, the dropout and the order of the images.
    pub seed: u64,
    /// Images per step.
    pub batch: usize,
    /// Learning rate of the first step; it falls linearly to a tenth of that.
    pub learning_rate: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self { epochs: 20, seed: 7, batch: 64, learning_rate: 2e-3 }
    }
}

/// Progress that is reported to the observer after a training step.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Epoch, from 0.
    pub epoch: usize,
    /// Steps done so far, over all epochs.
    pub step: usize,
    /// Steps in total.
    pub steps: usize,
    /// Mean loss of the epoch so far.
    pub loss: f64,
    /// Whether this step ends its epoch.
    pub ends_epoch: bool,
}

/// Number of correct answers, out of a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// Images classified correctly.
    pub correct: usize,
    /// Images in total.
    pub total: usize,
}

impl Score {
    /// Share of correct answers in per cent.
    pub fn percent(&self) -> f64 {
        100.0 * self.correct as f64 / self.total as f64
    }
}

/// The images as a tensor of shape `[n, 1, SIDE, SIDE]`.
pub fn images<B: Backend>(digits: &Digits, device: &B::Device) -> Tensor<B, 4> {
    let data = TensorData::new(digits.pixels().to_vec(), [digits.len(), 1, SIDE, SIDE]);
    Tensor::from_data(data.convert::<B::FloatElem>(), device)
}

/// The labels as a tensor of shape `[n]`.
fn labels<B: Backend>(digits: &Digits, device: &B::Device) -> Tensor<B, 1, Int> {
    let data = TensorData::new(digits.labels().to_vec(), [digits.len()]);
    Tensor::from_data(data.convert::<B::IntElem>(), device)
}

/// Trains a new model with Adam on the cross-entropy; calls `observe` after every step.
pub fn train<B: AutodiffBackend>(
    digits: &Digits,
    config: &TrainConfig,
    device: &B::Device,
    mut observe: impl FnMut(Update),
) -> Model<B> {
    B::seed(device, config.seed);
    let mut order_rng = StdRng::seed_from_u64(config.seed);
    let mut model = Model::<B>::new(device);
    let mut optimizer = AdamConfig::new().init();
    let loss_fn = CrossEntropyLossConfig::new().init(device);

    let mut order: Vec<usize> = (0..digits.len()).collect();
    let steps = config.epochs * order.len().div_ceil(config.batch);
    let mut step = 0;
    for epoch in 0..config.epochs {
        order.shuffle(&mut order_rng);
        let mut loss_sum = 0.0;
        let batches = order.len().div_ceil(config.batch);
        for (k, batch) in order.chunks(config.batch).enumerate() {
            let batch = digits.pick(batch);
            let scores = model.forward(images(&batch, device));
            let loss = loss_fn.forward(scores, labels(&batch, device));
            loss_sum += loss.clone().into_scalar().elem::<f64>();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let progress = step as f64 / steps as f64;
            model = optimizer.step(config.learning_rate * (1.0 - 0.9 * progress), model, gradients);
            step += 1;
            let loss = loss_sum / (k + 1) as f64;
            observe(Update { epoch, step, steps, loss, ends_epoch: k + 1 == batches });
        }
    }
    model
}

/// Counts the images that the model classifies correctly.
pub fn evaluate<B: Backend>(model: &Model<B>, digits: &Digits, device: &B::Device) -> Score {
    let answers = model.forward(images(digits, device)).argmax(1).flatten::<1>(0, 1);
    let correct = answers.equal(labels(digits, device)).int().sum().into_scalar().elem::<i64>();
    Score { correct: correct as usize, total: digits.len() }
}

/// Writes the weights to `path` (MessagePack, full precision; the extension is `.mpk`).
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save<B: AutodiffBackend>(model: &Model<B>, path: &Path) -> Result<(), RecorderError> {
    model.valid().save_file(path, &NamedMpkFileRecorder::<FullPrecisionSettings>::new())
}

/// Reads weights from `path` into a fresh model.
///
/// # Errors
/// Fails if the file cannot be read or holds another model.
pub fn load<B: Backend>(path: &Path, device: &B::Device) -> Result<Model<B>, RecorderError> {
    let recorder = NamedMpkFileRecorder::<FullPrecisionSettings>::new();
    Model::new(device).load_file(path, &recorder, device)
}
