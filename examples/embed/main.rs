//! Sentence embeddings by all-MiniLM-L6-v2: how similar sentences are, and which lines of a text answer a
//! question.
//!
//! ```console
//! examples/embed/fetch minilm      # downloads the weights and the tokenizer (84 MB) into a folder
//! cargo run --release --features embed --example embed -- \
//!     --weights minilm/model.safetensors "A cat sits." "A dog runs."
//! cargo run --release --features embed --example embed -- \
//!     --weights minilm/model.safetensors --search README.md "How fast is it?"
//! ```

use burn::tensor::Tensor;
use burn_flex::Flex;
use clap::Parser;
use flex_examples::sentences::SentenceEncoder;
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

type B = Flex;

/// Prints how similar sentences are, or ranks the lines of a text by their similarity to a query.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The model's weights (safetensors); `examples/embed/fetch FOLDER` downloads them. Weights of another
    /// width than MiniLM's need their model's `config.json` beside them.
    #[arg(long)]
    weights: PathBuf,
    /// The model's tokenizer; by default the `tokenizer.json` beside the weights.
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// A text whose lines are ranked.
    #[arg(long, value_name = "FILE")]
    search: Option<PathBuf>,
    /// How many lines of the text are shown.
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Sentences to compare, or with `--search` the query.
    #[arg(required = true)]
    sentences: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let tokenizer = args.tokenizer.clone().unwrap_or_else(|| args.weights.with_file_name("tokenizer.json"));
    let encoder = SentenceEncoder::<B>::open(&args.weights, &tokenizer, &Default::default())?;
    match &args.search {
        Some(text) => search(&encoder, text, &args.sentences.join(" "), args.top),
        None => compare(&encoder, &args.sentences),
    }
}

/// Prints the similarity of each sentence to each other: 1 is the same, 0 has nothing to do with it.
fn compare(encoder: &SentenceEncoder<B>, sentences: &[String]) -> Result<(), Box<dyn Error>> {
    let embeddings = encoder.embed(sentences, |_| ())?;
    let similarities = products(embeddings.clone(), embeddings)?;
    let numbers: String = (1..=sentences.len()).map(|number| format!("{number:>7}")).collect();
    println!("   {numbers}");
    for (number, (row, sentence)) in similarities.chunks(sentences.len()).zip(sentences).enumerate() {
        let row: String = row.iter().map(|similarity| format!("{similarity:>7.3}")).collect();
        println!("{:>3}{row}   {sentence}", number + 1);
    }
    Ok(())
}

/// Prints the lines of the text that are most similar to the query.
fn search(encoder: &SentenceEncoder<B>, text: &Path, query: &str, top: usize) -> Result<(), Box<dyn Error>> {
    let read = std::fs::read_to_string(text).map_err(|error| format!("{}: {error}", text.display()))?;
    let lines: Vec<(usize, String)> = (1..)
        .zip(read.lines())
        .filter(|(_, l)| !l.trim().is_empty())
        .map(|(k, l)| (k, l.to_owned()))
        .collect();
    if lines.is_empty() {
        return Err(format!("{}: the file has no lines with text", text.display()).into());
    }
    let sentences: Vec<String> = lines.iter().map(|(_, line)| line.clone()).collect();

    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} lines, {eta} left")?;
    let bar = ProgressBar::new(lines.len() as u64).with_style(style);
    let start = Instant::now();
    let embeddings = encoder.embed(&sentences, |done| bar.inc(done as u64))?;
    let query = encoder.embed(&[query.to_owned()], |_| ())?;
    let similarities = products(query, embeddings)?;
    bar.finish_and_clear();
    println!("searched {} lines in {:.2} s", lines.len(), start.elapsed().as_secs_f64());

    let mut ranked: Vec<_> = lines.iter().zip(similarities).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    for ((number, line), similarity) in ranked.into_iter().take(top) {
        println!("{similarity:.3}  line {number:>4}  {line}");
    }
    Ok(())
}

/// The products of each row of `a` with each row of `b`, row by row.
fn products(a: Tensor<B, 2>, b: Tensor<B, 2>) -> Result<Vec<f32>, Box<dyn Error>> {
    a.matmul(b.transpose()).into_data().to_vec().map_err(|error| format!("{error:?}").into())
}
