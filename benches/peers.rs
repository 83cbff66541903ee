//! `cargo bench -p flex-benches`: Flex against upstream's `burn-flex` 0.21, `burn-ndarray` 0.21 and, if asked, PyTorch.

use burn_flex::Flex;
use burn_ndarray::NdArray;
use clap::Parser;
use flex_benches::{Budget, Case, Limits, Python, Report, Row, Run, cases, svg, time_in_turn};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Times the same calls on Flex and its peers, in turn.
#[derive(Parser)]
struct Args {
    /// Only cases whose name contains one of these.
    filter: Vec<String>,
    /// Every case, measured longer, for figures to publish. Without it: the rows of PEERS.md.
    #[arg(long)]
    full: bool,
    /// Flex alone, for a profiler.
    #[arg(long)]
    alone: bool,
    /// Leave out burn-ndarray, whose slowest rows take seconds.
    #[arg(long)]
    no_ndarray: bool,
    /// Add PyTorch, in a process of its own that is timed in turn with the others.
    #[arg(long)]
    torch: bool,
    /// The Python interpreter that has PyTorch.
    #[arg(long, default_value = "python3")]
    python: String,
    /// Threads of every peer; all of the machine's when not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Write everything that was measured to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw the chart into this file, as SVG.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Passed by `cargo bench`; without meaning here.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = args.threads.unwrap_or_else(cores);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|e| format!("cannot start {threads} threads: {e}"))?;
    let millis = if args.full { 1000 } else { 300 };
    let budget = Budget { per_case: Duration::from_millis(millis), min_samples: 5 };
    let mut lists = vec![cases::<Flex>()];
    let mut peers = vec!["flex"];
    if !args.alone {
        lists.push(cases::<upstream_flex::Flex>());
        peers.push("upstream");
    }
    if !args.no_ndarray && !args.alone {
        lists.push(cases::<NdArray>());
        peers.push("ndarray");
    }
    let python = args.torch.then(|| Python::start(&args.python, threads)).transpose()?;
    peers.extend(python.as_ref().map(|_| "torch"));
    let named = |case: &Case| args.filter.is_empty() || args.filter.iter().any(|f| case.name.contains(f));
    let picked: Vec<usize> = (0..lists[0].len())
        .filter(|&k| named(&lists[0][k]) && (args.full || !args.filter.is_empty() || lists[0][k].short))
        .collect();

    // A peer that cannot run a case panics once, while it is set up; its message is of no interest here.
    std::panic::set_hook(Box::new(|_| ()));
    let limits = Limits::measure(threads);
    let bar = ProgressBar::new(picked.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("a valid template"));
    let mut rows = Vec::new();
    for k in picked {
        let Case { name, family, bytes, flops, .. } = &lists[0][k];
        bar.set_message(name.clone());
        let mut runs: Vec<_> = lists.iter().map(|list| set_up(&list[k])).collect();
        runs.extend(python.as_ref().map(|python| python.case(name)));
        let (limit, seconds) = (limits.seconds(*bytes, *flops), time_in_turn(&mut runs, budget));
        rows.push(Row { name: name.clone(), family: *family, limit, seconds });
        bar.inc(1);
    }
    bar.finish_and_clear();

    let peers = peers.into_iter().map(String::from).collect();
    let report = Report { machine: machine(), threads, limits, peers, rows };
    println!("{}", report.table());
    let write = |path: &PathBuf, text: String| {
        fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
    };
    if let Some(path) = &args.json {
        write(path, format!("{:#}\n", report.json()))?;
    }
    if let Some(path) = &args.svg {
        write(path, svg(&report))?;
    }
    Ok(())
}

/// The processor's name, where the system tells it, and the instruction set that Flex uses.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    format!("{name} ({})", flex_math::simd::isa_name())
}

/// The call of a case, or nothing when this backend cannot run it.
fn set_up(case: &Case) -> Option<Box<dyn Run>> {
    catch_unwind(AssertUnwindSafe(|| {
        let mut run = (case.setup)();
        run();
        Box::new(run) as Box<dyn Run>
    }))
    .ok()
}
