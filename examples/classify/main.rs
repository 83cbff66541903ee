//! Classifies a picture with ResNet-50, or with any other of torchvision's residual networks whose weights
//! are given.
//!
//! ```console
//! cargo run --release --features classify --example classify      # random weights and a generated picture
//! cargo run --release --features classify --example classify -- \
//!     --weights resnet50.safetensors --labels labels.txt cat.jpg
//! ```
//!
//! The weights are a model's state under torchvision's names:
//! `safetensors.torch.save_file(resnet50(...).state_dict(), PATH)`.

use burn::tensor::activation::softmax;
use burn_flex::Flex;
use clap::Parser;
use flex_examples::models::resnet::{ResNet, ResNetConfig};
use flex_examples::pictures::Picture;
use flex_examples::weights::Weights;
use indicatif::ProgressBar;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

type B = Flex;

/// Classifies a picture with a residual network, and prints the five likeliest classes.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Weights under torchvision's names (safetensors); ResNet-50 with random weights if there are none.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// A text with the name of a class on each line.
    #[arg(long)]
    labels: Option<PathBuf>,
    /// Keep the batch norms, in place of folding them into the convolutions.
    #[arg(long)]
    keep_batch_norms: bool,
    /// How often the picture is classified; the shortest time is printed.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// A PNG or JPEG file; a generated picture if there is none.
    picture: Option<PathBuf>,
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
    let device = Default::default();
    let labels = args.labels.as_deref().map(read_lines).transpose()?;
    let picture = match &args.picture {
        Some(path) => Picture::open(path)?,
        None => {
            println!("no picture was given: this is a generated one");
            Picture::generated()
        }
    };
    let wait = ProgressBar::new_spinner().with_message("preparing the model");
    wait.enable_steady_tick(Duration::from_millis(100));
    let model = model(args.weights.as_deref())?;
    let model = if args.keep_batch_norms { model } else { model.fold_batch_norms() };
    wait.finish_and_clear();
    if args.weights.is_none() {
        println!("no weights were given: these are random, and so is the answer");
    }

    let input = picture.normalised::<B>(&device);
    let mut shortest = Duration::MAX;
    let mut scores = Vec::new();
    for _ in 0..args.runs {
        let start = Instant::now();
        scores = softmax(model.forward(input.clone()), 1)
            .into_data()
            .to_vec::<f32>()
            .map_err(|e| format!("{e:?}"))?;
        shortest = shortest.min(start.elapsed());
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    for &class in &order[..5.min(order.len())] {
        let label = labels.as_ref().and_then(|labels| labels.get(class)).map_or("", String::as_str);
        println!("{}", format!("{:>5.1} %  class {class:>3}  {label}", 100.0 * scores[class]).trim_end());
    }
    let norms = if args.keep_batch_norms { "batch norms kept" } else { "batch norms folded" };
    println!("{:.1} ms per picture ({norms}, best of {})", shortest.as_secs_f64() * 1e3, args.runs);
    Ok(())
}

/// The model of these weights, or a ResNet-50 with random ones.
fn model(weights: Option<&Path>) -> Result<ResNet<B>, Box<dyn Error>> {
    let device = Default::default();
    let Some(path) = weights else { return Ok(ResNetConfig::resnet50().init(&device)) };
    let weights = Weights::open(path)?;
    Ok(weights.lend(ResNetConfig::of(&weights)?.blank(&device))?)
}

fn read_lines(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}
