//! Continues a text with GPT-2, and tells how many tokens per second the prompt and the continuation took.
//!
//! ```console
//! cargo run --release --example generate      # random weights, bytes as tokens
//! cargo run --release --features tokenizers --example generate -- \
//!     --weights gpt2/model.safetensors --tokenizer gpt2/tokenizer.json "Once upon a time"
//! ```

mod text;

use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use clap::{Parser, ValueEnum};
use flex_examples::models::gpt2::{Gpt2, Gpt2Config, choose};
use flex_examples::weights::Weights;
use indicatif::{ProgressBar, ProgressStyle};
use rand::{SeedableRng, rngs::StdRng};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use text::Text;

type B = Flex;

/// Continues a text with GPT-2.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Weights under Hugging Face's names (safetensors); random ones if there are none. Weights of another
    /// width than GPT-2's need their model's `config.json` beside them.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// The model's `tokenizer.json`; without it a token is a byte. Needs `--features tokenizers`.
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Size of a model with random weights.
    #[arg(long, value_enum, default_value_t = Size::Small)]
    size: Size,
    /// Tokens to add.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// 0 takes the likeliest token; 1 draws tokens as likely as the model says.
    #[arg(long, default_value_t = 0.0)]
    temperature: f64,
    /// Seed of the draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The text to continue.
    #[arg(default_value = "The quick brown fox jumps over the lazy dog, and then it")]
    prompt: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Size {
    /// 124 million weights.
    Small,
    /// 355 million weights.
    Medium,
    /// 774 million weights.
    Large,
}

impl Size {
    fn config(self) -> Gpt2Config {
        let (layers, width, heads) = match self {
            Self::Small => (12, 768, 12),
            Self::Medium => (24, 1024, 16),
            Self::Large => (36, 1280, 20),
        };
        Gpt2Config::new().with_layers(layers).with_width(width).with_heads(heads)
    }
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
    let text = Text::open(args.tokenizer.as_deref())?;
    let (config, model) = model(args)?;
    let prompt = text.encode(&args.prompt)?;
    let count = args.tokens as usize;
    if let Some(token) = prompt.iter().find(|&&token| token as usize >= config.vocabulary) {
        return Err(
            format!("token {token} of the prompt, and the model has {} tokens", config.vocabulary).into()
        );
    }
    if prompt.is_empty() || prompt.len() + count > config.positions {
        let positions = config.positions;
        return Err(format!(
            "a prompt of {} tokens and {count} more, and the model takes 2 to {positions}",
            prompt.len()
        )
        .into());
    }

    let mut cache = model.cache(1, prompt.len() + count);
    let mut rng = StdRng::seed_from_u64(args.seed);
    let mut next = |scores: Tensor<B, 2>| -> Result<u32, String> {
        let scores = scores.into_data().to_vec::<f32>().map_err(|error| format!("{error:?}"))?;
        Ok(choose(&scores, args.temperature, &mut rng) as u32)
    };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} tokens, {per_sec}")?;
    let bar = ProgressBar::new(args.tokens.into()).with_style(style);

    let start = Instant::now();
    let mut tokens = vec![next(model.forward_last(ids(&prompt), &mut cache))?];
    let prefill = start.elapsed();
    let start = Instant::now();
    while tokens.len() < count {
        let last = *tokens.last().expect("a token");
        tokens.push(next(model.forward_last(ids(&[last]), &mut cache))?);
        bar.set_position(tokens.len() as u64);
    }
    let decode = start.elapsed();
    bar.finish_and_clear();

    println!("{}{}", args.prompt, text.decode(&tokens)?);
    let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64();
    println!("prefill: {} tokens, {:.1} tokens per second", prompt.len(), rate(prompt.len(), prefill));
    if count > 1 {
        println!("decode:  {} tokens, {:.1} tokens per second", count - 1, rate(count - 1, decode));
    }
    Ok(())
}

/// The model that was asked for, and its sizes.
fn model(args: &Args) -> Result<(Gpt2Config, Gpt2<B>), Box<dyn Error>> {
    let device = Default::default();
    let Some(path) = &args.weights else {
        let wait = ProgressBar::new_spinner().with_message("drawing random weights");
        wait.enable_steady_tick(Duration::from_millis(100));
        let config = args.size.config();
        let model = config.init(&device);
        wait.finish_and_clear();
        println!("no weights were given: these are random, and so is the text");
        return Ok((config, model));
    };
    let weights = Weights::open(path)?.without_prefix("transformer.");
    let config = Gpt2Config::of(&weights)?;
    let model = weights.lend(config.blank(&device))?;
    Ok((config, model))
}

/// Tokens as a batch of one text.
fn ids(tokens: &[u32]) -> Tensor<B, 2, Int> {
    let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
    let shape = [1, tokens.len()];
    Tensor::from_data(TensorData::new(tokens, shape), &Default::default())
}
