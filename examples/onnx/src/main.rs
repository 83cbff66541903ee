//! Tells file types.
//!
//! ```console
//! examples/onnx/fetch      # downloads the model: 16 MB, of which 3 MB stay in examples/onnx/model
//! cd examples/onnx && cargo run --release -- src/main.rs samples ../../README.md --recursive
//! ```

use burn::tensor::Device;
use clap::Parser;
use filetype::{Content, FileTypes};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files that the model sees at once: more of them take memory, and no less time.
const BATCH: usize = 16;

/// Tells the types of files from their contents, with Magika's model.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Looks into folders, and the folders in them. Links are not followed there.
    #[arg(short, long)]
    recursive: bool,
    /// The files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the type of each file; whether all of them could be read.
fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let types = FileTypes::new(&Device::flex())?;
    let mut all_read = true;
    let mut report = |path: &Path, error: std::io::Error| {
        eprintln!("error: {}: {error}", path.display());
        all_read = false;
    };
    let mut files = Vec::new();
    for path in &args.files {
        if args.recursive && path.is_dir() {
            list(path, &mut files, &mut report);
        } else {
            files.push(path.clone());
        }
    }
    for batch in files.chunks(BATCH) {
        let mut read: Vec<(&Path, Content)> = Vec::new();
        for path in batch {
            match types.read(path) {
                Ok(content) => read.push((path, content)),
                Err(error) => report(path, error),
            }
        }
        let (paths, contents): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        for (path, answer) in paths.iter().zip(types.tell(&contents)) {
            let percent = 100.0 * answer.score;
            println!("{}: {} ({}), {percent:.1} %", path.display(), answer.description, answer.group);
        }
    }
    Ok(all_read)
}

/// Lists the files of a folder and of the folders in it, in the order of their names.
fn list(folder: &Path, files: &mut Vec<PathBuf>, report: &mut impl FnMut(&Path, std::io::Error)) {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return report(folder, error),
    };
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list(&entry.path(), files, report),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            Ok(_) => {}
            Err(error) => report(&entry.path(), error),
        }
    }
}
