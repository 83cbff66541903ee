//! Training, evaluation, and saving and loading of weights.

use super::data::{Digits, SIDE};
use super::model::Model;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::store::{BurnpackStore, ModuleSnapshot};
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::error::Error;
use std::path::Path;

/// Training parameters.
#[derive(Clone, Debug)]
pub struct Config {
    /// Passes over the training images.
    pub epochs: usize,
    /// Seed of the weights, the dropout and the order of the images.
    pub seed: u64,
    /// Images per step.
    pub batch: usize,
    /// Learning rate of the first step; it falls linearly to a tenth of that.
    pub learning_rate: f64,
}

impl Default for Config {
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

/// The images as a tensor of shape `[n, 1, SIDE, SIDE]`.
fn images(digits: &Digits, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(digits.pixels().to_vec(), [digits.len(), 1, SIDE, SIDE]), device)
}

/// The labels as a tensor of shape `[n]`.
fn labels(digits: &Digits, device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(digits.labels().to_vec(), [digits.len()]), device)
}

/// Trains a new model with Adam on the cross-entropy; calls `observe` after every step. The device has to
/// track gradients.
pub fn train(digits: &Digits, config: &Config, device: &Device, mut observe: impl FnMut(Update)) -> Model {
    device.seed(config.seed);
    let mut order_rng = StdRng::seed_from_u64(config.seed);
    let mut model = Model::new(device);
    let mut optimizer = AdamConfig::new().init();
    let loss_fn = CrossEntropyLossConfig::new().init(device);

    let mut order: Vec<usize> = (0..digits.len()).collect();
    let batches = order.len().div_ceil(config.batch);
    let steps = config.epochs * batches;
    let mut step = 0;
    for epoch in 0..config.epochs {
        order.shuffle(&mut order_rng);
        let mut loss_sum = 0.0;
        for (k, batch) in order.chunks(config.batch).enumerate() {
            let batch = digits.pick(batch);
            let scores = model.forward(images(&batch, device));
            let loss = loss_fn.forward(scores, labels(&batch, device));
            loss_sum += loss.clone().into_scalar::<f32>() as f64;
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
pub fn evaluate(model: &Model, digits: &Digits, device: &Device) -> usize {
    let answers = model.forward(images(digits, device)).argmax(1).flatten::<1>(0, 1);
    answers.equal(labels(digits, device)).int().sum().into_scalar::<i64>() as usize
}

/// Writes the weights to `path`, in Burn's own format (the extension is `.bpk`).
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save(model: &Model, path: &Path) -> Result<(), Box<dyn Error>> {
    Ok(model.save_into(&mut BurnpackStore::from_file(path))?)
}

/// Reads weights from `path` into a fresh model.
///
/// # Errors
/// Fails if the file cannot be read or holds another model.
pub fn load(path: &Path, device: &Device) -> Result<Model, Box<dyn Error>> {
    let mut model = Model::new(device);
    let read = model.load_from(&mut BurnpackStore::from_file(path))?;
    if !read.is_success() {
        return Err(format!("the file holds another model: {read:?}").into());
    }
    Ok(model)
}
