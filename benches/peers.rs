//! `cargo bench -p flex-benches`: Flex against its peers. `-- --help` says which, and how to choose among
//! cases.

use clap::Parser;
use flex_benches::check::{Tally, check, is_readable, verdict};
use flex_benches::files::{json, read, write};
use flex_benches::peers::{self, Library, Peer, Python};
use flex_benches::{Budget, Report, Reported, cases, markdown, section, select, svg};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Times the same calls on Flex and its peers, in turn.
///
/// Peers are upstream's burn-flex and burn-ndarray; candle and numr when built with the features of these
/// names; Burn's GPU backends when built with `wgpu` or `cuda`, on a machine with such a device, in the
/// dtypes that the device computes correctly; PyTorch and NumPy with --torch, --torch-compile, --torch-cuda
/// and --numpy. Give paths in full: cargo runs a bench in the folder of its package.
#[derive(Parser, Clone)]
struct Args {
    /// Only cases whose name contains one of these words, from the short set or, with --full, from all cases.
    /// A case named in full is always found.
    filter: Vec<String>,
    /// Every case instead of the short set, measured longer, on one thread and on all: for figures to
    /// publish.
    #[arg(long)]
    full: bool,
    /// Print the cases' names instead of running them.
    #[arg(long)]
    list: bool,
    /// Do not measure: compare the results of the peers in this process with the results of Flex. End with an
    /// error if a result differs.
    #[arg(long, conflicts_with_all = ["alone", "torch", "torch_compile", "torch_cuda", "numpy", "publish", "json", "svg", "from"])]
    check: bool,
    /// Flex alone, for a profiler.
    #[arg(long, conflicts_with_all = ["torch", "torch_compile", "torch_cuda", "numpy", "publish"])]
    alone: bool,
    /// Leave out these peers: `--without ndarray`, whose slowest rows take seconds.
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    without: Vec<String>,
    /// Add PyTorch, in a process of its own that is timed in turn with the others.
    #[arg(long)]
    torch: bool,
    /// Add PyTorch with torch.compile, which needs a C++ compiler, for chains of operations. In a process of
    /// its own too.
    #[arg(long)]
    torch_compile: bool,
    /// Add PyTorch on its CUDA device, in a process of its own too.
    #[arg(long)]
    torch_cuda: bool,
    /// Add NumPy, in a process of its own too.
    #[arg(long)]
    numpy: bool,
    /// The Python interpreter that has PyTorch or NumPy: a name, or a full path.
    #[arg(long, default_value = "python3")]
    python: String,
    /// Threads of every peer; several numbers make one section each: `--threads 1,8`. The default is all
    /// threads of the machine; with --full, a section on one thread and a section on all. --alone and
    /// --processes take one number.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    threads: Vec<u16>,
    /// Measure in this many processes, one after the other, and tell how much their times differ.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["alone", "check", "full", "from", "publish", "svg"], value_parser = clap::value_parser!(u16).range(1..))]
    processes: Option<u16>,
    /// Do not measure: report the measurements in these JSON files.
    #[arg(long, value_name = "JSON", num_args = 1.., conflicts_with_all = ["filter", "full", "alone", "threads"])]
    from: Vec<PathBuf>,
    /// Write all measurements to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw the last section into this file, as SVG.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Write summary.md (families, for a README), table.md (all rows), run.json, and a chart per section into
    /// this folder.
    #[arg(long, value_name = "FOLDER")]
    publish: Option<PathBuf>,
    /// Measure in this process and write JSON here, nothing else: one section of a run.
    #[arg(long, hide = true)]
    section: Option<PathBuf>,
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
    if args.from.is_empty() {
        let cases = cases::<burn_flex::Flex>();
        let picked = select(&cases, &args.filter, args.full)?;
        if args.list {
            picked.into_iter().for_each(|k| println!("{}", cases[k].name));
            return Ok(());
        }
    }
    let all = std::thread::available_parallelism().map_or(1, |n| n.get()) as u16;
    let threads = match &args.threads[..] {
        [] if args.full && !args.alone && all > 1 => vec![1, all],
        [] => vec![all],
        given => given.to_vec(),
    };
    if (args.alone || args.processes.is_some()) && threads.len() > 1 {
        return Err(format!("{threads:?} threads, and --alone and --processes need one number of threads"));
    }
    if let Some(path) = &args.section {
        return write(path, &json(&measure(args, threads[0].into())?));
    }
    if args.check {
        return compare(args);
    }
    if let Some(count) = args.processes {
        let reports = (0..count).map(|_| measure_apart(args, threads[0])).collect::<Result<_, _>>()?;
        let report = Report::merge(reports)?;
        println!("{count} processes, {} threads\n\n{}", threads[0], markdown::processes(&report));
        return args.json.as_ref().map_or(Ok(()), |path| write(path, &json(&report)));
    }
    let report = if !args.from.is_empty() {
        Report::merge(args.from.iter().map(|path| read(path)).collect::<Result<_, _>>()?)?
    } else if args.alone {
        measure(args, threads[0].into())?
    } else {
        Report::merge(threads.into_iter().map(|n| measure_apart(args, n)).collect::<Result<_, _>>()?)?
    };
    output(args, &report)
}

/// Runs one section in a separate process.
fn measure_apart(args: &Args, threads: u16) -> Result<Report, String> {
    let flags = [
        (args.full, "--full"),
        (args.torch, "--torch"),
        (args.torch_compile, "--torch-compile"),
        (args.torch_cuda, "--torch-cuda"),
        (args.numpy, "--numpy"),
    ];
    let given = (flags.into_iter().filter_map(|(set, flag)| set.then_some(flag)))
        .chain(args.without.iter().flat_map(|peer| ["--without", peer]))
        .chain(["--python", &args.python, "--"])
        .chain(args.filter.iter().map(String::as_str));
    section::apart(threads.into(), given.map(Into::into))
}

/// Measures the cases on `threads` threads, in this process.
fn measure(args: &Args, threads: usize) -> Result<Report, String> {
    section::start_threads(threads)?;
    let (millis, min_samples) = if args.full { (1000, 5) } else { (300, 3) };
    let budget = Budget { per_case: Duration::from_millis(millis), min_samples, reported: Reported::Median };
    let cases = cases::<burn_flex::Flex>();
    let picked = select(&cases, &args.filter, args.full)?;
    let peers = who(args, threads)?;

    section::hide_panics();
    let section = section::measure(picked.into_iter().map(|k| &cases[k]), &peers, budget, threads);
    let peers = peers.iter().map(|peer| peer.name().to_string()).collect();
    Ok(Report { machine: section::machine(), peers, sections: vec![section] })
}

/// Compares the results of all peers with Flex; an error if a result differs, or Flex has none.
fn compare(args: &Args) -> Result<(), String> {
    let cases = cases::<burn_flex::Flex>();
    let picked = select(&cases, &args.filter, args.full)?;
    let peers = who(args, 1)?;
    let (flex, others) = peers.split_first().expect("Flex is there");
    section::hide_panics();
    let (mut tallies, mut missing) = (vec![Tally::default(); others.len()], Vec::new());
    let bar = section::progress(picked.len());
    for case in picked.into_iter().map(|k| &cases[k]) {
        bar.set_message(case.name.clone());
        let expected = flex.numbers(&case.name);
        if expected.is_none() && is_readable(case) {
            missing.push(case.name.clone());
        }
        for (peer, tally) in others.iter().zip(&mut tallies) {
            check(case, expected.as_deref(), &**peer, tally);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    for (peer, tally) in others.iter().zip(&tallies) {
        let Tally { same, unknown, different } = tally;
        println!("{}: {same} cases as Flex, {unknown} not known, {} different", peer.name(), different.len());
        different.iter().for_each(|d| println!("  {}: {}", d.case, d.what));
    }
    verdict(&tallies, &missing)
}

/// All peers that take part, Flex first.
fn who(args: &Args, threads: usize) -> Result<Vec<Box<dyn Peer>>, String> {
    if args.alone {
        return Ok(vec![peers::flex()]);
    }
    let mut others = peers::cpu_backends();
    others.extend(peers::libraries());
    others.extend(peers::gpu_backends());
    let libraries = [
        (args.torch, Library::torch()),
        (args.torch_compile, Library::torch_compile()),
        (args.torch_cuda, Library::torch_cuda()),
        (args.numpy, Library::numpy()),
    ];
    for (asked, library) in &libraries {
        if *asked {
            others.push(Box::new(Python::start(library, &args.python, threads)?));
        }
    }
    for name in &args.without {
        if !others.iter().any(|peer| peer.name() == name) {
            let names: Vec<&str> = others.iter().map(|peer| peer.name()).collect();
            return Err(format!("there is no peer {name:?} to leave out, only {names:?}"));
        }
    }
    others.retain(|peer| !args.without.iter().any(|name| name == peer.name()));
    Ok([peers::flex()].into_iter().chain(others).collect())
}

/// Prints the tables and writes the files that were asked for.
fn output(args: &Args, report: &Report) -> Result<(), String> {
    println!("{}", markdown::full(report));
    if let Some(path) = &args.json {
        write(path, &json(report))?;
    }
    if let (Some(path), Some(section)) = (&args.svg, report.sections.last()) {
        write(path, &svg(report, section))?;
    }
    let Some(folder) = &args.publish else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let charts = report.charts();
    for (section, chart) in report.sections.iter().zip(&charts) {
        write(&folder.join(chart), &svg(report, section))?;
    }
    let [table, run] = ["table.md", "run.json"];
    write(&folder.join(table), &markdown::full(report))?;
    write(&folder.join(run), &json(report))?;
    write(&folder.join("summary.md"), &markdown::compact(report, [table, run], &charts))
}
