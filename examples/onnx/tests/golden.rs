//! The imported model on Flex against its scores in f64 and Magika's answers, which `golden.py` wrote.
//!
//! Of files on which the model is unsure, ONNX Runtime's own scores, in f32, differ from these by up to 8e-5.

use burn::tensor::Device;
use filetype::{Content, FileTypes};
use std::path::Path;

/// A file, its type, and the score of every type.
struct Golden {
    content: Content,
    name: String,
    label: String,
    scores: Vec<f32>,
}

fn golden(types: &FileTypes) -> Vec<Golden> {
    let parse = |row: &str| {
        let mut fields = row.split(',');
        let mut field = || fields.next().expect("a field").to_owned();
        let (name, label, _error, scores) = (field(), field(), field(), field());
        Golden {
            content: types.read(&Path::new("samples").join(&name)).expect("the sample"),
            name,
            label,
            scores: scores.split(' ').map(|score| score.parse().expect("a score")).collect(),
        }
    };
    include_str!("golden.csv").lines().skip(1).map(parse).collect()
}

fn equals_golden(golden: &Golden, scores: &[f32]) {
    assert_eq!(scores.len(), golden.scores.len());
    for (k, (score, expected)) in scores.iter().zip(&golden.scores).enumerate() {
        let name = &golden.name;
        assert!((score - expected).abs() < 1e-5, "{name}: score {k} is {score} instead of {expected}");
    }
}

#[test]
fn scores_are_those_of_the_model() {
    let types = FileTypes::new(&Device::flex()).expect("the model");
    let golden = golden(&types);
    assert!(golden.len() >= 10);
    let tokens: Vec<&[i32]> = golden
        .iter()
        .map(|golden| match &golden.content {
            Content::Tokens(tokens) => &tokens[..],
            other => panic!("{}: {other:?}", golden.name),
        })
        .collect();
    // Each file alone, and all of them in one batch.
    for (golden, tokens) in golden.iter().zip(&tokens) {
        equals_golden(golden, &types.scores(&[tokens]).into_data().try_to_vec::<f32>().expect("floats"));
    }
    let scores = types.scores(&tokens).into_data().try_to_vec::<f32>().expect("floats");
    assert_eq!(scores.len(), golden.len() * types.labels().len());
    for (golden, scores) in golden.iter().zip(scores.chunks(types.labels().len())) {
        equals_golden(golden, scores);
    }
}

/// Labels, limits of low scores and the batch of a program's call.
#[test]
fn answers_equal_magikas() {
    let types = FileTypes::new(&Device::flex()).expect("the model");
    let golden = golden(&types);
    let mut contents: Vec<Content> = golden.iter().map(|golden| golden.content.clone()).collect();
    contents.insert(3, types.read(Path::new("samples")).expect("a folder"));
    let mut answers = types.tell(&contents);
    let folder = answers.remove(3);
    assert_eq!((&*folder.label, folder.score), ("directory", 1.0));
    for (golden, answer) in golden.iter().zip(answers) {
        assert_eq!(answer.label, golden.label, "{}", golden.name);
        let best = golden.scores.iter().copied().fold(0.0, f32::max);
        assert!((answer.score - best).abs() < 1e-5, "{}: {answer:?}", golden.name);
    }
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let types = FileTypes::new(&Device::flex()).expect("the model");
    assert!(types.read(Path::new("samples/nothing-here")).is_err());
}
