//! Trains a small convolutional network on real handwritten digits through `Device::flex().autodiff()`, saves
//! its weights, loads them into a fresh model, and evaluates that model.
//!
//! `cargo run --release -p flex-examples-22 --example digits` in the folder `burn-0.22` does all of it;
//! `-- --help` lists the options. Nothing in this program names this repository: cargo's patch in
//! `burn-0.22/Cargo.toml` does.

#[path = "../../../examples/src/digits/data.rs"]
#[allow(dead_code, reason = "the other example uses all of it")]
mod data;
mod model;
mod train;

use burn::tensor::Device;
use clap::Parser;
use data::Digits;
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::time::Instant;
use train::{Config, evaluate, load, save, train};

/// Trains a small convolutional network on 1,437 handwritten digits and tests it on 360 others.
#[derive(Parser)]
struct Args {
    /// Passes over the training images.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Seed of the weights, the dropout and the order of the images.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Fail if the test accuracy is lower, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    at_least: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let device = Device::flex();
    let split = Digits::load().split();
    println!("training on {} images with Burn 0.22 on {device:?}", split.train.len());

    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {eta} left, {msg}")?;
    let bar = ProgressBar::new(0).with_style(style);
    let start = Instant::now();
    let config = Config { epochs: args.epochs as usize, seed: args.seed, ..Config::default() };
    let model = train(&split.train, &config, &device.clone().autodiff(), |update| {
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
    let weights = folder.path().join("digits.bpk");
    save(&model, &weights)?;
    let kilobytes = std::fs::metadata(&weights)?.len() / 1000;
    println!("saved the weights ({kilobytes} kB) and loaded them into a fresh model");
    let fresh = load(&weights, &device)?;
    let correct = evaluate(&fresh, &split.test, &device);
    let total = split.test.len();
    let accuracy = 100.0 * correct as f64 / total as f64;
    println!("test accuracy {accuracy:.1} % ({correct}/{total})");
    if accuracy < args.at_least {
        return Err(format!("that is less than {} %", args.at_least).into());
    }
    Ok(())
}
