//! One section of a run: cases on one number of threads, measured in a process of its own.

use crate::cases::Case;
use crate::files;
use crate::limits::Limits;
use crate::peers::{Peer, is_attempting};
use crate::report::{Row, Section};
use crate::timing::{Budget, time_in_turn};
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs this program again with these arguments and `--threads N --section FILE`, and returns what the child
/// wrote into the file. Libraries read the number of threads from the environment when they start, hence the
/// process.
///
/// # Errors
/// The program cannot be started, fails, or writes something else.
pub fn apart<T: DeserializeOwned>(
    threads: usize,
    args: impl IntoIterator<Item = OsString>,
) -> Result<T, String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let file: PathBuf =
        std::env::temp_dir().join(format!("flex-bench-{}-{threads}.json", std::process::id()));
    let status = Command::new(program)
        .args(["--threads", &threads.to_string(), "--section"])
        .arg(&file)
        .args(args)
        .envs(["RAYON_NUM_THREADS", "MATMUL_NUM_THREADS"].map(|name| (name, threads.to_string())))
        .status()
        .map_err(|e| format!("cannot start a section: {e}"))?;
    let found =
        if status.success() { files::read(&file) } else { Err(format!("no report on {threads} threads")) };
    // Removing fails if the file was never written, which does not matter.
    let _ = fs::remove_file(&file);
    found
}

/// Starts the threads of this process.
///
/// # Errors
/// The system refuses them, or they were started before.
pub fn start_threads(threads: usize) -> Result<(), String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|e| format!("cannot start {threads} threads: {e}"))
}

/// Measures the cases on `threads` threads, in this process.
pub fn measure<'a>(
    cases: impl ExactSizeIterator<Item = &'a Case>,
    peers: &[Box<dyn Peer>],
    budget: Budget,
    threads: usize,
) -> Section {
    let mut limits = Limits::measure(threads);
    let bar = progress(cases.len());
    let mut rows = Vec::new();
    for case in cases {
        bar.set_message(case.name.clone());
        let mut runs: Vec<_> = peers.iter().map(|peer| peer.case(&case.name)).collect();
        let mut notes: Vec<_> = peers.iter().map(|peer| peer.note()).collect();
        if notes.iter().all(Option::is_none) {
            notes.clear();
        }
        let seconds = time_in_turn(&mut runs, budget);
        let limit = limits.seconds(case.bytes, case.flops);
        rows.push(Row { name: case.name.clone(), family: case.family, limit, seconds, notes });
        bar.inc(1);
    }
    bar.finish_and_clear();
    limits.measure_peak_again(threads);
    Section { threads, limits, rows }
}

/// A progress bar over so many steps.
pub fn progress(steps: usize) -> ProgressBar {
    ProgressBar::new(steps as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("a valid template"))
}

/// Silences the panic messages of peers that cannot run a case: while the case is set up, a panic is no news,
/// and its message would only clutter the output. Later it ends the process, and tells why.
pub fn hide_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_attempting() {
            print(panic);
        }
    }));
}

/// The processor's name, if the system provides it, and the instruction set that Flex uses.
pub fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    format!("{name} ({})", flex_math::simd::isa_name())
}
