//! Trains a small convolutional network on real handwritten digits, saves its weights, loads them into a
//! fresh model on the plain backend, and evaluates that model.
//!
//! `cargo run --release --example digits` does all of it; `-- --help` lists the options. Built with
//! `--features wgpu` or `--features cuda`, it trains on a GPU with `-- --backend wgpu`, `wgpu-fused`, `cuda`
//! or `cuda-fused`.

use burn::backend::Autodiff;
use burn::tensor::backend::AutodiffBackend;
use burn_flex::Flex;
use clap::{Parser, ValueEnum};
use flex_examples::digits::{Digits, Score, TrainConfig, evaluate, load, save, train};
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

/// Trains a small convolutional network on 1,437 handwritten digits and tests it on 360 others.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Passes over the training images.
    #[arg(long, default_value_t = TrainConfig::default().epochs, value_parser = at_least_one)]
    epochs: usize,
    /// Seed of the weights, the dropout and the order of the images.
    #[arg(long, default_value_t = TrainConfig::default().seed)]
    seed: u64,
    /// The backend that computes.
    #[arg(long, value_enum, default_value_t = BackendName::Flex)]
    backend: BackendName,
}

#[derive(Clone, Copy, ValueEnum)]
enum BackendName {
    /// The CPU backend of this project.
    Flex,
    /// A GPU through Vulkan, Metal or WebGPU.
    #[cfg(feature = "wgpu")]
    Wgpu,
    /// As above, with chains of operations as one kernel.
    #[cfg(feature = "wgpu")]
    WgpuFused,
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda,
    /// As above, with chains of operations as one kernel.
    #[cfg(feature = "cuda")]
    CudaFused,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one epoch is needed".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

fn main() -> ExitCode {
    match run_on(&Args::parse()) {
        Ok(score) => {
            println!("test accuracy {:.1} % ({}/{})", score.percent(), score.correct, score.total);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The only place where the backend is a value: from here on it is a type.
fn run_on(args: &Args) -> Result<Score, Box<dyn Error>> {
    match args.backend {
        BackendName::Flex => run::<Autodiff<Flex>>(args, &Default::default()),
        #[cfg(feature = "wgpu")]
        BackendName::Wgpu | BackendName::WgpuFused => {
            use burn_flex_wgpu::{Wgpu, WgpuDevice, WgpuFused, check};
            let device = WgpuDevice::default();
            check(&device)?;
            match args.backend {
                BackendName::Wgpu => run::<Autodiff<Wgpu>>(args, &device),
                _ => run::<Autodiff<WgpuFused>>(args, &device),
            }
        }
        #[cfg(feature = "cuda")]
        BackendName::Cuda | BackendName::CudaFused => {
            use burn_flex_cuda::{Cuda, CudaDevice, CudaFused, check};
            let device = CudaDevice::default();
            check(&device)?;
            match args.backend {
                BackendName::Cuda => run::<Autodiff<Cuda>>(args, &device),
                _ => run::<Autodiff<CudaFused>>(args, &device),
            }
        }
    }
}

/// The whole program on one backend: trains with `B`, evaluates with `B`'s inner backend.
fn run<B: AutodiffBackend>(args: &Args, device: &B::Device) -> Result<Score, Box<dyn Error>> {
    let split = Digits::load().split();
    let config = TrainConfig { epochs: args.epochs, seed: args.seed, ..Default::default() };
    println!("training on {} images with {}", split.train.len(), B::name(device));

    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {eta} left, {msg}")?;
    let bar = ProgressBar::new(0).with_style(style);
    let start = Instant::now();
    let model = train::<B>(&split.train, &config, device, |update| {
        bar.set_length(update.steps as u64);
        bar.set_position(update.step as u64);
        bar.set_message(format!("loss {:.4}", update.loss));
        if update.ends_epoch {
            bar.suspend(|| {
                println!("epoch {:>2}/{}  loss {:.4}", update.epoch + 1, config.epochs, update.loss)
            });
        }
    });
    bar.finish_and_clear();
    println!("trained in {:.1} s", start.elapsed().as_secs_f64());

    let folder = tempfile::tempdir()?;
    let weights = folder.path().join("digits.mpk");
    save(&model, &weights)?;
    println!(
        "saved the weights ({} kB) and loaded them into a fresh model",
        std::fs::metadata(&weights)?.len() / 1000
    );
    let fresh = load::<B::InnerBackend>(&weights, device)?;
    Ok(evaluate(&fresh, &split.test, device))
}
