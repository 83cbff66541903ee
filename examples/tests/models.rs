//! What the models compute, on this project's backend.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Int, Tensor, TensorData, Tolerance};
use burn_flex::Flex;
use flex_examples::models::gpt2::Gpt2Config;
use flex_examples::models::lstm::LstmModelConfig;
use flex_examples::models::minilm::MiniLmConfig;
use flex_examples::models::mlp::MlpConfig;
use flex_examples::models::resnet::ResNetConfig;
use flex_examples::models::transformer::TransformerConfig;
use flex_examples::weights::{TorchNames, Weights};

type B = Flex;
type Train = burn::backend::Autodiff<Flex>;

/// Names and numbers of a model's weights.
fn counts<M: TorchNames<B>>(model: &M) -> (usize, usize) {
    (Weights::of(model).names().count(), model.num_params())
}

fn tokens<B: Backend>(shape: [usize; 2], vocabulary: usize) -> Tensor<B, 2, Int> {
    let ids: Vec<i32> = (0..shape[0] * shape[1]).map(|k| (k * 37 % vocabulary) as i32).collect();
    Tensor::from_data(TensorData::new(ids, shape), &Default::default())
}

/// Numbers without an order, in -1..1.
fn numbers<B: Backend, const D: usize>(shape: [usize; D]) -> Tensor<B, D> {
    let values = (0..shape.iter().product::<usize>()).map(|k| (0.37 * (k * k % 9973) as f32).sin()).collect();
    Tensor::from_data(TensorData::new::<f32, _>(values, shape), &Default::default())
}

fn close<const D: usize>(a: Tensor<B, D>, b: Tensor<B, D>, tolerance: f32) {
    a.into_data().assert_approx_eq::<f32>(&b.into_data(), Tolerance::rel_abs(tolerance, tolerance));
}

/// torchvision documents 11,689,512 and 25,557,032 parameters. Burn counts running means and variances too:
/// two for each of 4,800 and of 26,560 channels. A state of PyTorch has a count of batches besides for each
/// of 20 and of 53 norms, which makes 122 and 320 entries.
#[test]
fn residual_networks_have_torchvisions_weights() {
    let device = Default::default();
    let small = ResNetConfig::resnet18().init::<B>(&device);
    assert_eq!(counts(&small), (122 - 20, 11_689_512 + 2 * 4_800));
    let large = ResNetConfig::resnet50().init::<B>(&device);
    assert_eq!(counts(&large), (320 - 53, 25_557_032 + 2 * 26_560));
    let names = Weights::of(&large);
    for name in
        ["conv1.weight", "bn1.running_var", "layer1.0.downsample.1.bias", "layer4.2.conv3.weight", "fc.bias"]
    {
        assert!(names.get(name).is_some(), "{name}");
    }
    let images = numbers::<B, 4>([2, 3, 40, 56]);
    assert_eq!(small.forward(images.clone()).dims(), [2, 1000]);
    assert_eq!(large.forward(images).dims(), [2, 1000]);
}

/// all-MiniLM-L6-v2 has 22,713,216 parameters, of which its unused pooler has 384 * 384 + 384.
#[test]
fn the_sentence_encoder_has_its_models_weights() {
    let model = MiniLmConfig::new().init::<B>(&Default::default());
    assert_eq!(counts(&model), (101, 22_713_216 - 384 * 384 - 384));
    let embeddings = model.embed(tokens([3, 9], 30522), None);
    assert_eq!(embeddings.dims(), [3, 384]);
    close(embeddings.powi_scalar(2).sum_dim(1), Tensor::ones([3, 1], &Default::default()), 1e-5);
}

#[test]
fn the_smaller_models_have_their_weights() {
    let device = Default::default();
    assert_eq!(counts(&MlpConfig::new().init::<B>(&device)), (4, 784 * 128 + 128 + 128 * 10 + 10));
    assert_eq!(counts(&LstmModelConfig::new().init::<B>(&device)), (4, 4 * (2 * 256 * 256 + 2 * 256)));
    // Hugging Face's formula for one layer: 12 d^2 + 13 d.
    let gpt2 = Gpt2Config::new().with_vocabulary(100).with_positions(32).with_width(48).with_layers(3);
    let weights = (100 + 32) * 48 + 3 * (12 * 48 * 48 + 13 * 48) + 2 * 48;
    assert_eq!(counts(&gpt2.init::<B>(&device)), (2 + 3 * 12 + 2, weights));
    // A layer of torch.nn.TransformerEncoder: 12 tensors; 4 d^2 + 2 d f weights, 9 d + f in biases and norms.
    let layer = 4 * 256 * 256 + 2 * 256 * 1024 + 9 * 256 + 1024;
    let weights = (1000 + 128) * 256 + 4 * layer + 256 * 10 + 10;
    assert_eq!(counts(&TransformerConfig::new().init::<B>(&device)), (2 + 4 * 12 + 2, weights));
}

#[test]
fn random_weights_are_the_same_in_each_run() {
    let values = || {
        let model = MlpConfig::new().init::<B>(&Default::default());
        Weights::of(&model).get("0.weight").expect("a weight").to_vec::<f32>().expect("floats")
    };
    let (a, b) = (values(), values());
    assert!(a == b && a.iter().any(|&v| v != a[0]));
}

/// Gives every parameter other values, so that norms have something to do.
struct Scatter;

impl<B: Backend> ModuleMapper<B> for Scatter {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|t| if D == 1 { numbers(t.dims()) * 0.5 + 1.0 } else { t })
    }
}

#[test]
fn folded_batch_norms_give_the_same_scores() {
    let device = Default::default();
    for config in [ResNetConfig::resnet18(), ResNetConfig::resnet50()] {
        let model = config.with_classes(10).init::<B>(&device).map(&mut Scatter);
        let images = numbers::<B, 4>([2, 3, 64, 64]);
        let scores = model.forward(images.clone());
        let folded = model.fold_batch_norms();
        assert!(Weights::of(&folded).names().all(|name| !name.contains("bn") && !name.contains("running")));
        let size = scores.clone().abs().max().into_scalar();
        assert!(size.is_finite() && size > 0.0);
        close(folded.forward(images) / size, scores / size, 1e-4);
    }
}

#[test]
fn padding_changes_no_embedding() {
    let config = MiniLmConfig::new().with_vocabulary(200).with_layers(2).with_width(48).with_feed_forward(96);
    let device = Default::default();
    let model = config.init::<B>(&device);
    let ids = tokens::<B>([2, 7], 200);
    let (short, long) = (4, 7);
    let padding: Vec<bool> = (0..2 * long).map(|k| k / long == 0 && k % long >= short).collect();
    let padding = Tensor::<B, 2, Bool>::from_data(TensorData::new(padding, [2, long]), &device);
    let together = model.embed(ids.clone(), Some(padding));
    let first = model.embed(ids.clone().slice([0..1, 0..short]), None);
    let second = model.embed(ids.slice(1..2), None);
    close(together, Tensor::cat(vec![first, second], 0), 1e-5);
}

#[test]
fn tokens_one_by_one_get_the_scores_of_the_whole_text() {
    let config = Gpt2Config::new().with_vocabulary(90).with_positions(24).with_width(48).with_layers(3);
    let config = config.with_heads(4);
    let model = config.init::<B>(&Default::default());
    let (n, length) = (2, 11);
    let ids = tokens::<B>([n, length], 90);
    let whole = model.forward(ids.clone(), &mut model.cache(n, length));
    assert_eq!(whole.dims(), [n, length, 90]);

    // A first part, single tokens, and a part in the middle of the text.
    let mut cache = model.cache(n, 24);
    for _ in 0..2 {
        let mut parts = Vec::new();
        for part in [0..4, 4..5, 5..6, 6..9, 9..10] {
            parts.push(model.forward(ids.clone().slice([0..n, part]), &mut cache));
        }
        assert_eq!(cache.len(), 10);
        let last = model.forward_last(ids.clone().slice([0..n, 10..11]), &mut cache);
        parts.push(last.unsqueeze_dim(1));
        close(Tensor::cat(parts, 1), whole.clone(), 1e-4);
        // The memory serves the next text.
        cache.clear();
        assert!(cache.is_empty() && cache.capacity() == 24);
    }
}

#[test]
#[should_panic(expected = "4 tokens after 3, and the cache has room for 6")]
fn a_full_cache_is_refused() {
    let model =
        Gpt2Config::new().with_vocabulary(9).with_width(12).with_layers(1).init::<B>(&Default::default());
    let mut cache = model.cache(1, 6);
    model.forward(tokens([1, 3], 9), &mut cache);
    model.forward(tokens([1, 4], 9), &mut cache);
}

/// A step in the direction of the gradients must make the loss smaller.
fn learns<B: AutodiffBackend, M: burn::module::AutodiffModule<B>>(
    model: M,
    loss: impl Fn(&M) -> Tensor<B, 1>,
) {
    use burn::optim::{GradientsParams, Optimizer, SgdConfig};
    let before = loss(&model);
    let gradients = GradientsParams::from_grads(before.backward(), &model);
    let model = SgdConfig::new().init().step(1e-4, model, gradients);
    let (before, after) = (before.into_data(), loss(&model).into_data());
    let value = |data: TensorData| data.convert::<f32>().to_vec::<f32>().expect("a number")[0];
    let (before, after) = (value(before), value(after));
    assert!(after < before, "{before} to {after}");
}

#[test]
fn models_learn() {
    let device = Default::default();
    let images = numbers::<Train, 4>([4, 3, 64, 64]);
    let resnet = ResNetConfig::resnet18().with_classes(10).init::<Train>(&device);
    learns(resnet, |m| m.forward(images.clone()).powi_scalar(2).mean());

    let transformer = TransformerConfig::new().with_layers(2).with_width(64).with_feed_forward(128);
    let ids = tokens::<Train>([3, 12], 1000);
    learns(transformer.init::<Train>(&device), |m| m.forward(ids.clone()).powi_scalar(2).mean());

    let inputs = numbers::<Train, 2>([8, 784]);
    learns(MlpConfig::new().init::<Train>(&device), |m| m.forward(inputs.clone()).powi_scalar(2).mean());
}
