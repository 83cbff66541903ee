//! Weights and inputs, written into a folder in which every peer finds them.

use super::{CONTEXT, Task, Workload};
use burn_flex::Flex;
use burn_tensor::TensorData;
use flex_examples::models::gpt2::Gpt2Config;
use flex_examples::models::lstm::LstmModelConfig;
use flex_examples::models::minilm::MiniLmConfig;
use flex_examples::models::mlp::MlpConfig;
use flex_examples::models::resnet::ResNetConfig;
use flex_examples::models::transformer::TransformerConfig;
use flex_examples::weights::Weights;
use std::path::Path;

/// The name of the file of inputs, which holds `CASE.NUMBER` for each.
pub(super) const INPUTS: &str = "inputs.safetensors";

/// Writes the weights and the inputs of these rows into `folder`.
///
/// # Errors
/// A file cannot be written.
pub fn write_data(workloads: &[Workload], folder: &Path) -> Result<(), String> {
    let mut inputs = Weights::default();
    for workload in workloads {
        for (number, data) in inputs_of(workload.task).into_iter().enumerate() {
            inputs.insert(format!("{}.{number}", workload.name), data);
        }
        let path = workload.weights(folder);
        if !path.exists() {
            varied(&blank(workload.task)).save(&path).map_err(|e| e.to_string())?;
        }
    }
    inputs.save(&folder.join(INPUTS)).map_err(|e| e.to_string())
}

/// Tensors of the names and shapes that the model has.
fn blank(task: Task) -> Weights {
    let device = Default::default();
    match task {
        Task::MiniLm { .. } => Weights::of(&MiniLmConfig::new().blank::<Flex>(&device)),
        Task::ResNet50 { .. } => Weights::of(&ResNetConfig::resnet50().blank::<Flex>(&device)),
        Task::Prefill | Task::Token => Weights::of(&Gpt2Config::new().blank::<Flex>(&device)),
        Task::Lstm => Weights::of(&LstmModelConfig::new().blank::<Flex>(&device)),
        Task::TrainResNet18 => Weights::of(&ResNetConfig::resnet18().blank::<Flex>(&device)),
        Task::TrainTransformer => Weights::of(&TransformerConfig::new().blank::<Flex>(&device)),
        Task::TrainMlp => Weights::of(&MlpConfig::new().blank::<Flex>(&device)),
    }
}

/// The same names and shapes with values as in a trained model: in a new model biases, means and variances
/// are all the same number, so a peer that confuses them would go unnoticed.
fn varied(weights: &Weights) -> Weights {
    let mut varied = Weights::default();
    for (seed, name) in weights.names().enumerate() {
        let shape = weights.get(name).expect("the name is one of the collection").shape.to_vec();
        let (middle, spread) = range(name, &shape);
        let values = noise(seed as u64, shape.iter().product()).map(|x| middle + spread * x).collect();
        varied.insert(name, TensorData::new::<f32, _>(values, shape));
    }
    varied
}

/// The middle and the half width of a tensor's values, which keep a signal's size through many layers.
fn range(name: &str, shape: &[usize]) -> (f32, f32) {
    match (name.rsplit('.').next().unwrap_or_default(), shape) {
        ("running_var", _) => (1.0, 0.5),
        ("running_mean", _) => (0.0, 0.2),
        // The scale of a norm.
        ("weight", [_]) => (1.0, 0.2),
        (_, [_]) => (0.0, 0.05),
        // A kernel: variances stay over a convolution and a relu.
        (_, [_, channels, height, width]) => (0.0, (6.0 / (channels * height * width) as f32).sqrt()),
        (_, shape) => (0.0, (3.0 / *shape.last().unwrap_or(&1) as f32).sqrt()),
    }
}

/// Values in [-1, 1), other ones for each seed.
fn noise(seed: u64, n: usize) -> impl Iterator<Item = f32> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..n).map(move |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    })
}

fn floats<const D: usize>(shape: [usize; D]) -> TensorData {
    TensorData::new(noise(100, shape.iter().product()).collect::<Vec<f32>>(), shape)
}

/// Integers below `below`.
fn integers<const D: usize>(shape: [usize; D], below: u64) -> TensorData {
    let values =
        (0..shape.iter().product::<usize>() as u64).map(|i| ((i * i * 389 + i * 97 + 7) % below) as i64);
    TensorData::new(values.collect::<Vec<_>>(), shape)
}

/// The inputs in the order of the model's arguments; for training, inputs and labels.
fn inputs_of(task: Task) -> Vec<TensorData> {
    match task {
        Task::MiniLm { batch, tokens } => vec![integers([batch, tokens], 30522)],
        Task::ResNet50 { batch, .. } => vec![floats([batch, 3, 224, 224])],
        Task::Prefill => vec![integers([1, CONTEXT], 50257)],
        Task::Token => vec![integers([1, 1], 50257), integers([1, CONTEXT], 50257)],
        Task::Lstm => vec![floats([8, 128, 256])],
        Task::TrainResNet18 => vec![floats([16, 3, 64, 64]), integers([16], 1000)],
        Task::TrainTransformer => vec![integers([16, 128], 1000), integers([16], 10)],
        Task::TrainMlp => vec![floats([32, 784]), integers([32], 10)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_get_values_of_their_kind() {
        let mut blank = Weights::default();
        let shapes: [(&str, &[usize]); 5] = [
            ("bn.running_var", &[8]),
            ("bn.weight", &[8]),
            ("bn.bias", &[8]),
            ("conv.weight", &[2, 3, 2, 2]),
            ("fc.weight", &[2, 12]),
        ];
        for (name, shape) in shapes {
            blank.insert(name, TensorData::zeros::<f32, _>(shape.to_vec()));
        }
        let varied = varied(&blank);
        let values = |name: &str| varied.get(name).unwrap().to_vec::<f32>().unwrap();
        let within = |name: &str, low: f32, high: f32| {
            values(name).iter().all(|x| (low..high).contains(x))
                && values(name).windows(2).any(|w| w[0] != w[1])
        };
        assert!(within("bn.running_var", 0.5, 1.5));
        assert!(within("bn.weight", 0.8, 1.2));
        assert!(within("bn.bias", -0.05, 0.05));
        assert!(within("conv.weight", -0.5f32.sqrt(), 0.5f32.sqrt()));
        assert!(within("fc.weight", -0.5, 0.5));
        assert_ne!(values("conv.weight")[..], values("fc.weight")[..]);
    }

    #[test]
    fn tokens_and_labels_lie_in_their_range_and_differ() {
        let ids = integers([2, 64], 30522).to_vec::<i64>().unwrap();
        assert!(ids.iter().all(|&id| (0..30522).contains(&id)));
        let mut distinct = ids.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 100, "{} of 128", distinct.len());
    }
}
