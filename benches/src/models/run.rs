//! The models on a backend of Burn, ready to be timed.

use super::data::INPUTS;
use super::{CONTEXT, Task, Workload};
use crate::call::{Call, Numbers};
use crate::peers::wait;
use burn::backend::Autodiff;
use burn::module::AutodiffModule;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{Adam, AdamConfig, GradientsParams, Optimizer};
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::{Int, Tensor};
use flex_examples::models::gpt2::Gpt2Config;
use flex_examples::models::lstm::LstmModelConfig;
use flex_examples::models::minilm::MiniLmConfig;
use flex_examples::models::mlp::MlpConfig;
use flex_examples::models::resnet::ResNetConfig;
use flex_examples::models::transformer::TransformerConfig;
use flex_examples::weights::{TorchNames, Weights};
use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;

/// Learning rate of the steps whose losses are compared.
pub const LEARNS: f64 = 1e-3;
/// Number of these steps. The first loss shows the forward pass; the others show gradients and the optimizer.
pub const STEPS: usize = 4;
/// Learning rate of the steps that are timed. Thousands of steps on one batch would train weights that no
/// input reaches any more, whose momenta decay into subnormal numbers: a slow case that models in the field
/// do not have.
pub const HARDLY_LEARNS: f64 = 1e-9;

/// The call of a row on backend `B`, over the weights and inputs in `folder`.
///
/// # Panics
/// Panics if a file is not there or does not fit.
pub fn call<B: Backend>(workload: &Workload, folder: &Path) -> Call {
    let files = Files::open(workload, folder);
    let device = &B::Device::default();
    match workload.task {
        Task::MiniLm { .. } => {
            let inputs = (files.lent(MiniLmConfig::new().blank::<B>(device)), files.ids::<B, 2>(0));
            Call::new(inputs, |(model, ids)| model.forward(ids.clone(), None), wait::<B>)
        }
        Task::ResNet50 { folded, .. } => {
            let model = files.lent(ResNetConfig::resnet50().blank::<B>(device));
            let model = if folded { model.fold_batch_norms() } else { model };
            let inputs = (model, files.floats::<B, 4>(0));
            Call::new(inputs, |(model, images)| model.forward(images.clone()), wait::<B>)
        }
        Task::Prefill => {
            let model = files.lent(Gpt2Config::new().blank::<B>(device));
            let cache = RefCell::new(model.cache(1, 2 * CONTEXT));
            Call::new(
                (model, files.ids::<B, 2>(0), cache),
                |(model, ids, cache)| {
                    let mut cache = cache.borrow_mut();
                    cache.truncate(0);
                    model.forward_last(ids.clone(), &mut cache)
                },
                wait::<B>,
            )
        }
        Task::Token => {
            let model = files.lent(Gpt2Config::new().blank::<B>(device));
            let mut cache = model.cache(1, 2 * CONTEXT);
            model.forward_last(files.ids::<B, 2>(1), &mut cache);
            Call::new(
                (model, files.ids::<B, 2>(0), RefCell::new(cache)),
                |(model, ids, cache)| {
                    let mut cache = cache.borrow_mut();
                    cache.truncate(CONTEXT);
                    model.forward_last(ids.clone(), &mut cache)
                },
                wait::<B>,
            )
        }
        Task::Lstm => {
            // Lent, its weights would be transposed views, with which each of its 1,024 products takes 1.1
            // times as long.
            let inputs = (files.loaded(LstmModelConfig::new().blank::<B>(device)), files.floats::<B, 3>(0));
            Call::new(inputs, |(model, steps)| model.forward(steps.clone(), None).0, wait::<B>)
        }
        Task::TrainResNet18 => training::<Autodiff<B>, _, _>(
            workload,
            folder,
            |files| {
                let model = ResNetConfig::resnet18().blank::<Autodiff<B>>(&Default::default());
                (files.loaded(model), files.floats::<Autodiff<B>, 4>(0))
            },
            |model, images| model.forward(images),
        ),
        Task::TrainTransformer => training::<Autodiff<B>, _, _>(
            workload,
            folder,
            |files| {
                let model = TransformerConfig::new().blank::<Autodiff<B>>(&Default::default());
                (files.loaded(model), files.ids::<Autodiff<B>, 2>(0))
            },
            |model, ids| model.forward(ids),
        ),
        Task::TrainMlp => training::<Autodiff<B>, _, _>(
            workload,
            folder,
            |files| {
                let model = MlpConfig::new().blank::<Autodiff<B>>(&Default::default());
                (files.loaded(model), files.floats::<Autodiff<B>, 2>(0))
            },
            |model, inputs| model.forward(inputs),
        ),
    }
}

/// The weights and inputs of a row.
struct Files {
    name: &'static str,
    weights: Weights,
    inputs: Weights,
}

impl Files {
    fn open(workload: &Workload, folder: &Path) -> Self {
        let open = |path: &Path| Weights::open(path).unwrap_or_else(|e| panic!("{e}"));
        let inputs = open(&folder.join(INPUTS));
        Self { name: workload.name, weights: open(&workload.weights(folder)), inputs }
    }

    /// The model over the mapped file, for inference.
    fn lent<B: Backend, M: TorchNames<B>>(&self, model: M) -> M {
        self.weights.lend(model).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The model with weights of its own, for training, and where products with transposed views take longer.
    fn loaded<B: Backend, M: TorchNames<B>>(&self, model: M) -> M {
        self.weights.load(model).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The input of this number. It is the result of an operation, like most operands.
    fn floats<B: Backend, const D: usize>(&self, number: usize) -> Tensor<B, D> {
        let data = self.inputs.get(&format!("{}.{number}", self.name)).expect("the input was written");
        let tensor = Tensor::<B, D>::from_data(data, &Default::default());
        tensor.clone().mul_scalar(1.0)
    }

    fn ids<B: Backend, const D: usize>(&self, number: usize) -> Tensor<B, D, Int> {
        let data = self.inputs.get(&format!("{}.{number}", self.name)).expect("the input was written");
        Tensor::from_data(data.convert::<B::IntElem>(), &Default::default())
    }
}

/// A model in training on one batch.
struct Trained<B: AutodiffBackend, M: AutodiffModule<B>, I> {
    /// Taken out for the moment of a step.
    model: Option<M>,
    adam: OptimizerAdaptor<Adam, M, B>,
    inputs: I,
    labels: Tensor<B, 1, Int>,
    forward: fn(&M, I) -> Tensor<B, 2>,
}

impl<B: AutodiffBackend, M: AutodiffModule<B>, I: Clone> Trained<B, M, I> {
    /// Takes a step and returns the loss before it.
    fn step(&mut self, rate: f64) -> Tensor<B, 1> {
        let model = self.model.take().expect("a step puts the model back");
        let scores = (self.forward)(&model, self.inputs.clone());
        let loss = CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, self.labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        self.model = Some(self.adam.step(rate, model, gradients));
        loss
    }
}

/// Steps of a model with Adam on the cross-entropy. The numbers are the losses of the first steps.
fn training<B: AutodiffBackend, M: AutodiffModule<B> + 'static, I: Clone + 'static>(
    workload: &Workload,
    folder: &Path,
    open: fn(&Files) -> (M, I),
    forward: fn(&M, I) -> Tensor<B, 2>,
) -> Call {
    let (workload, folder) = (*workload, folder.to_owned());
    // The file is not mapped any more when the training begins.
    let start = move || {
        let files = Files::open(&workload, &folder);
        let (model, inputs) = open(&files);
        Trained {
            model: Some(model),
            adam: AdamConfig::new().init(),
            inputs,
            labels: files.ids::<B, 1>(1),
            forward,
        }
    };
    let mut timed = start();
    Call {
        run: Box::new(move || {
            let loss = black_box(timed.step(HARDLY_LEARNS));
            wait::<B>();
            drop(loss);
        }),
        numbers: Box::new(move || {
            let mut trained = start();
            let losses = (0..STEPS).map(|_| trained.step(LEARNS).numbers());
            losses.collect::<Option<Vec<_>>>().map(|losses| losses.concat())
        }),
    }
}
