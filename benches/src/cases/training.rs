//! Training of a model.

use super::{Cases, Family};
use crate::call::Numbers;
use burn::backend::Autodiff;
use burn_tensor::backend::Backend;
use flex_examples::digits::{Digits, Model, TrainConfig, train};

impl<B: Backend> Cases<B> {
    /// One epoch of the training loop of the `digits` example.
    pub(super) fn training(&mut self) {
        self.family = Family::Training;
        self.short = true;
        self.add(
            "digits_train_epoch",
            0,
            |d| (Digits::load().split().train, TrainConfig { epochs: 1, ..Default::default() }, d.clone()),
            |(digits, config, device)| train::<Autodiff<B>>(digits, config, device, |_| ()),
        );
    }
}

/// Trained weights cannot be compared, because no two backends round them alike.
impl<B: Backend> Numbers for Model<B> {
    fn numbers(&self) -> Option<Vec<f64>> {
        None
    }
}
