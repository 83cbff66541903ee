//! The models compute what the same models in PyTorch do. `golden.py` wrote the expected numbers.

use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use flex_examples::models::gpt2::Gpt2Config;
use flex_examples::models::lstm::LstmModelConfig;
use flex_examples::models::mlp::MlpConfig;
use flex_examples::models::resnet::ResNetConfig;
use flex_examples::models::transformer::TransformerConfig;
use flex_examples::weights::{TorchNames, Weights};

type B = Flex;

/// Numbers in -1..1: a hash of each position. `golden.py` has the same.
fn scattered(count: usize, seed: u32) -> impl Iterator<Item = f64> {
    (0..count as u32).map(move |k| {
        let hash = k.wrapping_mul(2654435761).wrapping_add(seed * 40503);
        let hash = (hash ^ (hash >> 15)).wrapping_mul(2246822519);
        f64::from(hash ^ (hash >> 13)) / 2f64.powi(31) - 1.0
    })
}

fn filled<M: TorchNames<B>>(model: M) -> M {
    let mut weights = Weights::of(&model);
    let names: Vec<String> = weights.names().map(str::to_owned).collect();
    for name in names {
        let shape = weights.get(&name).expect("a tensor").shape.to_vec();
        let fan: usize = shape[1..].iter().product();
        let value = |v: f64| match shape.len() {
            2.. => v * (6.0 / fan as f64).sqrt(),
            _ if name.ends_with("weight") || name.ends_with("running_var") => 1.0 + 0.3 * v,
            _ => 0.2 * v,
        };
        let values = scattered(shape.iter().product(), name.len() as u32).map(|v| value(v) as f32).collect();
        weights.insert(name.clone(), TensorData::new::<f32, _>(values, shape));
    }
    weights.load(model).expect("the model's own names and shapes")
}

fn numbers<const D: usize>(shape: [usize; D]) -> Tensor<B, D> {
    let values = scattered(shape.iter().product(), 1).map(|v| v as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(values, shape), &Default::default())
}

fn tokens(shape: [usize; 2], vocabulary: usize) -> Tensor<B, 2, Int> {
    let ids: Vec<i32> = (0..shape[0] * shape[1]).map(|k| (k * 37 % vocabulary) as i32).collect();
    Tensor::from_data(TensorData::new(ids, shape), &Default::default())
}

/// Compares values with those of PyTorch's model, relative to the largest.
fn equals_pytorch<const D: usize>(model: &str, values: Tensor<B, D>) {
    let mut file = csv::Reader::from_reader(&include_bytes!("golden.csv")[..]);
    let rows: Vec<(String, String)> = file.deserialize().map(|row| row.expect("a row")).collect();
    let (_, expected) = rows.iter().find(|(name, _)| name == model).expect("the model's row");
    let expected: Vec<f32> = expected.split(' ').map(|v| v.parse().expect("a number")).collect();
    let values = values.into_data().to_vec::<f32>().expect("floats");
    assert_eq!(values.len(), expected.len(), "{model}");
    let size = expected.iter().fold(0f32, |size, v| size.max(v.abs()));
    assert!(size > 0.0 && size.is_finite());
    let differences = values.iter().zip(&expected).map(|(v, e)| (v - e).abs() / size);
    let difference = differences.fold(0f32, |a, b| if b > a || b.is_nan() { b } else { a });
    println!("{model}: values up to {size}, differences up to {difference:e} of that");
    assert!(difference < 1e-5, "{model}: {values:?}, and PyTorch has {expected:?}");
}

#[test]
fn resnet18() {
    let model = filled(ResNetConfig::resnet18().with_classes(8).blank::<B>(&Default::default()));
    equals_pytorch("resnet18", model.forward(numbers([1, 3, 48, 40])));
    equals_pytorch("resnet18", model.fold_batch_norms().forward(numbers([1, 3, 48, 40])));
}

#[test]
fn resnet50() {
    let model = filled(ResNetConfig::resnet50().with_classes(8).blank::<B>(&Default::default()));
    equals_pytorch("resnet50", model.forward(numbers([1, 3, 48, 40])));
    equals_pytorch("resnet50", model.fold_batch_norms().forward(numbers([1, 3, 48, 40])));
}

#[test]
fn gpt2() {
    let config =
        Gpt2Config::new().with_vocabulary(30).with_positions(10).with_width(24).with_heads(3).with_layers(2);
    let model = filled(config.blank::<B>(&Default::default()));
    let scores = model.forward_last(tokens([1, 7], 30), &mut model.cache(1, 7));
    equals_pytorch("gpt2", scores.slice([0..1, 0..12]));
}

#[test]
fn lstm() {
    let model = filled(LstmModelConfig::new().with_inputs(6).with_hidden(5).blank::<B>(&Default::default()));
    let (_, state) = model.forward(numbers([2, 4, 6]), None);
    equals_pytorch("lstm", state.hidden);
}

#[test]
fn mlp() {
    let config = MlpConfig::new().with_inputs(12).with_hidden(9).with_classes(4);
    equals_pytorch("mlp", filled(config.blank::<B>(&Default::default())).forward(numbers([3, 12])));
}

#[test]
fn transformer() {
    let config =
        TransformerConfig::new().with_vocabulary(30).with_positions(10).with_width(24).with_feed_forward(40);
    let config = config.with_heads(3).with_layers(2).with_classes(6);
    let model = filled(config.blank::<B>(&Default::default()));
    equals_pytorch("transformer", model.forward(tokens([2, 7], 30)));
}
