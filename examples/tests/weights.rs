//! Weights into files and models, and what is refused.

use burn::module::Module;
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::Flex;
use flex_examples::models::gpt2::Gpt2Config;
use flex_examples::models::lstm::LstmModelConfig;
use flex_examples::models::minilm::MiniLmConfig;
use flex_examples::models::mlp::MlpConfig;
use flex_examples::models::transformer::TransformerConfig;
use flex_examples::weights::{Error, TorchNames, Weights};
use std::path::PathBuf;

type B = Flex;

fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weights.safetensors");
    (folder, path)
}

fn all(weights: &Weights) -> Vec<(String, TensorData)> {
    weights.names().map(|name| (name.to_owned(), weights.get(name).expect("a tensor"))).collect()
}

fn small_mlp() -> MlpConfig {
    MlpConfig::new().with_inputs(6).with_hidden(4).with_classes(3)
}

/// Through a file into blank models and back: every bit is there.
fn survives_a_file<M: TorchNames<B>>(model: M, blank: impl Fn() -> M) {
    let (_folder, path) = file();
    let weights = Weights::of(&model);
    weights.save(&path).expect("a file");
    let read = Weights::open(&path).expect("the file");
    assert_eq!(all(&read), all(&weights));
    assert_eq!(all(&Weights::of(&read.load(blank()).expect("the weights"))), all(&weights));
    assert_eq!(all(&Weights::of(&read.lend(blank()).expect("the weights"))), all(&weights));
    // Without a file too, and the blank model's own values are others.
    assert_eq!(all(&Weights::of(&weights.load(blank()).expect("the weights"))), all(&weights));
    assert_ne!(all(&Weights::of(&blank())), all(&weights));
}

#[test]
fn weights_survive_a_file() {
    let device = Default::default();
    survives_a_file(small_mlp().init::<B>(&device), || small_mlp().blank(&device));
    // Parameters that are parts of PyTorch's tensors.
    let lstm = LstmModelConfig::new().with_inputs(5).with_hidden(7);
    survives_a_file(lstm.init::<B>(&device), || lstm.blank(&device));
    let transformer = TransformerConfig::new().with_width(16).with_feed_forward(24).with_layers(2);
    survives_a_file(transformer.init::<B>(&device), || transformer.blank(&device));
}

#[test]
fn linear_weights_are_transposed_and_gates_are_in_pytorchs_order() {
    let device = Default::default();
    let mlp = small_mlp().init::<B>(&device);
    let weights = Weights::of(&mlp);
    assert_eq!(weights.get("0.weight").expect("a weight").shape.to_vec(), [4, 6]);
    // Row r of PyTorch's matrix makes output r: the first output of an input with a single 1.
    let x = Tensor::<B, 2>::from_data([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]], &device);
    let (w, b) = (weights.get("0.weight").unwrap(), weights.get("0.bias").unwrap());
    let (w, b) = (w.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    let (v, c) = (weights.get("2.weight").unwrap(), weights.get("2.bias").unwrap());
    let (v, c) = (v.to_vec::<f32>().unwrap(), c.to_vec::<f32>().unwrap());
    let hidden: Vec<f32> = (0..4).map(|r| (w[r * 6 + 2] + b[r]).max(0.0)).collect();
    let scores: Vec<f32> =
        (0..3).map(|r| (0..4).map(|k| v[r * 4 + k] * hidden[k]).sum::<f32>() + c[r]).collect();
    let came = mlp.forward(x).into_data().to_vec::<f32>().unwrap();
    for (came, score) in came.iter().zip(scores) {
        assert!((came - score).abs() < 1e-6, "{came} and {score}");
    }

    let lstm = LstmModelConfig::new().with_inputs(2).with_hidden(3).init::<B>(&device);
    let whole = Weights::of(&lstm).get("bias_hh_l0").expect("biases").to_vec::<f32>().unwrap();
    let gates = [&lstm.input_gate, &lstm.forget_gate, &lstm.cell_gate, &lstm.output_gate];
    let parts = gates.map(|gate| gate.hidden_transform.bias.as_ref().expect("a bias").val());
    assert_eq!(whole, Tensor::cat(parts.to_vec(), 0).into_data().to_vec::<f32>().unwrap());
}

#[test]
fn lent_weights_are_the_files_memory() {
    let (_folder, path) = file();
    let model = MlpConfig::new().init::<B>(&Default::default());
    Weights::of(&model).save(&path).expect("a file");
    let weights = Weights::open(&path).expect("the file");
    let lent = weights.lend(MlpConfig::new().blank::<B>(&Default::default())).expect("weights");
    // The file stays mapped as long as the model needs it.
    drop(weights);
    std::fs::remove_file(&path).expect("the file");
    let x = Tensor::<B, 2>::ones([2, 784], &Default::default());
    let (a, b) = (model.forward(x.clone()).into_data(), lent.forward(x).into_data());
    a.assert_approx_eq::<f32>(&b, burn::tensor::Tolerance::rel_abs(1e-5, 1e-6));
}

#[test]
fn halves_and_prefixes_are_understood() {
    let mut weights = Weights::default();
    let model = small_mlp().init::<B>(&Default::default());
    for (name, data) in all(&Weights::of(&model)) {
        weights.insert(format!("model.{name}"), data.convert_dtype(DType::F16));
    }
    let (_folder, path) = file();
    weights.save(&path).expect("a file");
    let read = Weights::open(&path).expect("the file").without_prefix("model.");
    let loaded = read.load(small_mlp().blank::<B>(&Default::default())).expect("weights");
    for ((name, a), (_, b)) in all(&Weights::of(&loaded)).iter().zip(all(&Weights::of(&model))) {
        assert_eq!(a.dtype, DType::F32, "{name}");
        a.assert_approx_eq::<f32>(&b, burn::tensor::Tolerance::rel_abs(1e-3, 1e-4));
    }
}

fn refusal(weights: &Weights) -> String {
    weights.load(small_mlp().blank::<B>(&Default::default())).expect_err("a refusal").to_string()
}

#[test]
fn wrong_weights_are_refused_by_name_and_shape() {
    let good = Weights::of(&small_mlp().init::<B>(&Default::default()));
    assert_eq!(refusal(&Weights::default()), "tensor `0.weight` is missing");

    let mut bad = good.clone();
    bad.insert("0.weight", TensorData::zeros::<f32, _>([6, 4]));
    assert_eq!(refusal(&bad), "tensor `0.weight` has shape [6, 4], and the model needs [4, 6]");

    let mut bad = good.clone();
    bad.insert("2.bias", TensorData::zeros::<i32, _>([3]));
    assert_eq!(refusal(&bad), "tensor `2.bias` holds I32, and the model needs floats");

    // The file's name comes first.
    let (_folder, path) = file();
    bad.save(&path).expect("a file");
    let read = Weights::open(&path).expect("the file");
    assert_eq!(
        refusal(&read),
        format!("{}: tensor `2.bias` holds I32, and the model needs floats", path.display())
    );

    // A tensor of parts: the shape of the whole is told.
    let lstm = LstmModelConfig::new().with_inputs(2).with_hidden(3);
    let mut bad = Weights::of(&lstm.init::<B>(&Default::default()));
    bad.insert("weight_hh_l0", TensorData::zeros::<f32, _>([13, 3]));
    let error = bad.load(lstm.blank::<B>(&Default::default())).expect_err("a refusal");
    assert_eq!(error.to_string(), "tensor `weight_hh_l0` has shape [13, 3], and the model needs [12, 3]");
}

#[test]
fn files_that_are_no_safetensors_are_refused() {
    let (folder, path) = file();
    assert!(matches!(Weights::open(&path), Err(Error::Io(p, _)) if p == path));
    let error = Weights::open(folder.path()).expect_err("a refusal").to_string();
    assert!(error.ends_with("a folder came, and a safetensors file is needed"), "{error}");
    for bytes in [&b""[..], b"{}", b"\xff\xff\xff\xff\xff\xff\xff\xff{}", &[0; 64]] {
        std::fs::write(&path, bytes).expect("a file");
        let error = Weights::open(&path).expect_err("a refusal").to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
    // A file that was cut.
    let model = small_mlp().init::<B>(&Default::default());
    assert_eq!(model.num_params(), 6 * 4 + 4 + 4 * 3 + 3);
    Weights::of(&model).save(&path).expect("a file");
    let whole = std::fs::read(&path).expect("the file");
    std::fs::write(&path, &whole[..whole.len() - 4]).expect("a file");
    assert!(matches!(Weights::open(&path), Err(Error::Format(..))));
}

/// The number of heads changes no shape, so a wrong one would change the embeddings without an error.
#[test]
fn heads_come_from_the_config_beside_the_weights() {
    let device = Default::default();
    let (folder, path) = file();
    let config = folder.path().join("config.json");
    let write = |text: &str| std::fs::write(&config, text).expect("a file");

    let bert = MiniLmConfig::new().with_vocabulary(9).with_width(48).with_feed_forward(8).with_layers(1);
    Weights::of(&bert.init::<B>(&device)).save(&path).expect("a file");
    let of = || MiniLmConfig::of(&Weights::open(&path).expect("the file"));
    let error = of().expect_err("a refusal").to_string();
    assert!(error.contains("a model of width 48") && error.contains("config.json"), "{error}");
    write(r#"{"model_type": "bert", "num_attention_heads": 3, "layer_norm_eps": 1e-5}"#);
    let read = of().expect("sizes");
    assert_eq!((read.width, read.heads, read.layers, read.epsilon), (48, 3, 1, 1e-5));
    write(r#"{"num_attention_heads": 5}"#);
    let error = of().expect_err("a refusal").to_string();
    assert!(error.contains("5 attention heads by config.json, and a divisor of the width 48"), "{error}");
    write("[");
    assert!(matches!(of(), Err(Error::Config(p, _)) if p == config));

    let gpt2 = Gpt2Config::new().with_vocabulary(9).with_width(48).with_layers(1);
    Weights::of(&gpt2.init::<B>(&device)).save(&path).expect("a file");
    write(r#"{"n_head": 4}"#);
    let of = || Gpt2Config::of(&Weights::open(&path).expect("the file"));
    assert_eq!(of().expect("sizes").heads, 4);
    write("{}");
    assert!(of().expect_err("a refusal").to_string().contains("a width of [768, 1024, 1280, 1600]"));
}

#[test]
fn the_known_models_need_no_config() {
    let device = Default::default();
    let bert = MiniLmConfig::new().with_vocabulary(9).with_feed_forward(8).with_layers(1);
    let read = MiniLmConfig::of(&Weights::of(&bert.init::<B>(&device))).expect("sizes");
    assert_eq!((read.width, read.heads, read.epsilon), (384, 12, 1e-12));
    let gpt2 = Gpt2Config::new().with_vocabulary(9).with_layers(1);
    assert_eq!(Gpt2Config::of(&Weights::of(&gpt2.init::<B>(&device))).expect("sizes").heads, 12);
}
