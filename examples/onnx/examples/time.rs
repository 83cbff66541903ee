//! Computes batches of the samples and prints how long that took. `time.py` runs it beside ONNX Runtime.
//!
//! Each line of the input is the files of a batch and a number of turns; each line of the output is the
//! seconds of the fastest turn.

use burn::tensor::Device;
use filetype::{Content, FileTypes};
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let types = FileTypes::new(&Device::flex())?;
    let mut paths =
        std::fs::read_dir("samples")?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    let mut samples = Vec::new();
    for path in paths {
        if let Content::Tokens(tokens) = types.read(&path)? {
            samples.push(tokens);
        }
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (files, turns) = line.split_once(' ').ok_or("a line needs two numbers")?;
        let batch: Vec<&[i32]> =
            samples.iter().cycle().take(files.parse()?).map(|tokens| &**tokens).collect();
        let mut fastest = f64::INFINITY;
        for _ in 0..turns.parse::<usize>()? {
            let start = Instant::now();
            std::hint::black_box(types.scores(&batch).into_data());
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        println!("{fastest}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
