//! The embeddings of real weights, against PyTorch's: `embed/golden.py` wrote them. The weights are not in
//! the repository: `examples/embed/fetch FOLDER` downloads them, and `FLEX_MINILM=FOLDER` tells where they
//! are.

use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use flex_examples::models::minilm::MiniLmConfig;
use flex_examples::weights::Weights;
use std::io::Write;
use std::path::PathBuf;

type B = Flex;

/// A sentence with its tokens and the first values of its embedding.
struct Golden {
    #[cfg_attr(not(feature = "embed"), expect(dead_code))]
    sentence: String,
    tokens: Vec<i32>,
    values: Vec<f32>,
}

fn golden() -> Vec<Golden> {
    let mut file = csv::Reader::from_reader(&include_bytes!("../embed/golden.csv")[..]);
    let parse = |row: Result<(String, String, String), _>| {
        let (sentence, tokens, values) = row.expect("a row");
        Golden {
            sentence,
            tokens: tokens.split(' ').map(|v| v.parse().expect("a token")).collect(),
            values: values.split(' ').map(|v| v.parse().expect("a value")).collect(),
        }
    };
    file.deserialize().map(parse).collect()
}

/// The folder with the weights; without one, a line says that the test is skipped.
fn folder(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FLEX_MINILM").map(PathBuf::from);
    if folder.is_none() {
        let reason = "FLEX_MINILM names no folder with the weights (examples/embed/fetch makes one)";
        // Written directly to stderr, because the test harness hides the output of passing tests. If stderr
        // is closed, nothing can be done.
        let _ = writeln!(std::io::stderr(), "{test} skipped: {reason}");
    }
    folder
}

fn equals_golden(golden: &Golden, embedding: &[f32]) {
    assert_eq!(embedding.len(), 384);
    for (k, (value, expected)) in embedding.iter().zip(&golden.values).enumerate() {
        assert!((value - expected).abs() < 1e-5, "value {k}: {value}, and PyTorch has {expected}");
    }
}

#[test]
fn embeddings_equal_pytorchs() {
    let Some(folder) = folder("embeddings_equal_pytorchs") else { return };
    let device = Default::default();
    let weights = Weights::open(&folder.join("model.safetensors")).expect("the weights");
    let blank = || MiniLmConfig::of(&weights).expect("its sizes").blank::<B>(&device);
    for model in [weights.load(blank()).expect("weights"), weights.lend(blank()).expect("weights")] {
        for golden in golden() {
            let ids = TensorData::new(golden.tokens.clone(), [1, golden.tokens.len()]);
            let embedding = model.embed(Tensor::<B, 2, Int>::from_data(ids, &device), None);
            equals_golden(&golden, &embedding.into_data().to_vec::<f32>().expect("floats"));
        }
    }
}

/// With the tokenizer, and with all sentences in one padded batch.
#[cfg(feature = "embed")]
#[test]
fn sentences_become_their_tokens_and_embeddings() {
    use flex_examples::sentences::SentenceEncoder;
    let Some(folder) = folder("sentences_become_their_tokens_and_embeddings") else { return };
    let (weights, tokenizer) = (folder.join("model.safetensors"), folder.join("tokenizer.json"));
    let encoder = SentenceEncoder::<B>::open(&weights, &tokenizer, &Default::default()).expect("the files");
    let golden = golden();
    let sentences: Vec<String> = golden.iter().map(|golden| golden.sentence.clone()).collect();
    let tokens = encoder.tokens(&sentences).expect("tokens");
    let embeddings = encoder.embed(&sentences, |_| ()).expect("embeddings");
    assert_eq!(embeddings.dims(), [sentences.len(), 384]);
    let values = embeddings.into_data().to_vec::<f32>().expect("floats");
    for ((golden, tokens), values) in golden.iter().zip(tokens).zip(values.chunks(384)) {
        assert!(tokens.iter().eq(golden.tokens.iter().map(|&id| id as u32).collect::<Vec<_>>().iter()));
        equals_golden(golden, values);
    }
}
