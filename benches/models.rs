//! `cargo bench -p flex-benches --bench models`: whole models on Flex and its peers. `-- --help` says what
//! can be chosen.

use clap::{Parser, ValueEnum};
use flex_benches::args::positive;
use flex_benches::check::largest_difference;
use flex_benches::files::{json, write};
use flex_benches::models::{
    Difference, HARDLY_LEARNS, LEARNS, Memory, Outcome, STEPS, Workload, cases, workloads, write_data,
};
use flex_benches::peers::{Library, Peer, Python, cpu_backend, wait};
use flex_benches::{Budget, Case, Report, Reported, memory, part_cases, section};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Times whole models and training steps on Flex and its peers, in turn, on the same weights and inputs, and
/// compares their results first.
///
/// Peers are upstream's burn-flex; PyTorch with --torch and ONNX Runtime with --onnx, which both need Python.
/// Each fails where a result differs from Flex's by more than rounding. Give paths in full: cargo runs a
/// bench in the folder of its package.
#[derive(Parser, Clone)]
struct Args {
    /// Only models whose name contains one of these words.
    filter: Vec<String>,
    /// Print the models' names instead of running them.
    #[arg(long)]
    list: bool,
    /// Flex without upstream's burn-flex.
    #[arg(long)]
    alone: bool,
    /// Add PyTorch. Each model runs in several variants at first (as it is, with channels last, and others),
    /// of which the fastest is timed.
    #[arg(long)]
    torch: bool,
    /// Give PyTorch a variant by torch.compile, which needs a C++ compiler and takes minutes.
    #[arg(long, requires = "torch")]
    compile: bool,
    /// Add ONNX Runtime, on models that PyTorch exports.
    #[arg(long)]
    onnx: bool,
    /// The Python interpreter that has them: a name, or a full path.
    #[arg(long, default_value = "python3")]
    python: String,
    /// Threads of every peer; several numbers make one section each: `--threads 1,8`. The default is all
    /// threads of the machine.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    threads: Vec<u16>,
    /// Seconds that each model is timed for, on all peers together. Each peer has at least five turns.
    #[arg(long, default_value_t = 4.0, value_parser = positive)]
    seconds: f64,
    /// Report each peer's fastest turn in the place of the median: on a machine that others keep busy.
    #[arg(long)]
    fastest: bool,
    /// Time each distinct convolution, product and attention of the models too.
    #[arg(long)]
    parts: bool,
    /// Measure the peak memory of each model on each peer too, each in a process of its own.
    #[arg(long)]
    memory: bool,
    /// Write models.md and models.json into this folder.
    #[arg(long, value_name = "FOLDER")]
    publish: Option<PathBuf>,
    /// Do a step of the run in this process, and write JSON here.
    #[arg(long, hide = true)]
    section: Option<PathBuf>,
    /// Which step.
    #[arg(long, hide = true, default_value = "times")]
    step: Step,
    /// The weights and inputs.
    #[arg(long, hide = true, default_value = ".")]
    data: PathBuf,
    /// The one peer whose memory is measured.
    #[arg(long, hide = true)]
    peer: Option<String>,
    /// Passed by `cargo bench`; without meaning here.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What a process does for a run.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Step {
    /// Compares results.
    Values,
    /// Times models.
    Times,
    /// Times parts.
    Parts,
    /// Measures the memory of a model.
    Memory,
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
    let chosen = |name: &str| args.filter.is_empty() || args.filter.iter().any(|word| name.contains(&**word));
    let workloads: Vec<Workload> = workloads().into_iter().filter(|workload| chosen(workload.name)).collect();
    if workloads.is_empty() {
        return Err(format!("no model is called like {:?}; --list names them all", args.filter));
    }
    if args.list {
        workloads.iter().for_each(|workload| println!("{}: {}", workload.name, workload.label));
        return Ok(());
    }
    match &args.section {
        Some(path) => write(path, &step(args, &workloads)?),
        None => whole(args, &workloads),
    }
}

/// A whole run: each step in processes of its own.
fn whole(args: &Args, workloads: &[Workload]) -> Result<(), String> {
    if !args.torch && !args.onnx {
        eprintln!("without PyTorch and ONNX Runtime, which --torch, --onnx and --python add");
    }
    let all = std::thread::available_parallelism().map_or(1, |n| n.get()) as u16;
    let threads = if args.threads.is_empty() { vec![all] } else { args.threads.clone() };
    let most = threads.iter().copied().max().unwrap_or(all).into();
    let folder = tempfile::tempdir().map_err(|e| format!("cannot make a folder for weights: {e}"))?;
    let args = &Args { data: folder.path().to_owned(), ..args.clone() };
    write_data(workloads, &args.data)?;
    if args.onnx {
        export(args, workloads)?;
    }

    let names: Vec<&str> = workloads.iter().map(|workload| workload.name).collect();
    let differences: Vec<Difference> = section::apart(most, given(args, Step::Values, &names))?;
    let sections = |step| {
        let reports = threads.iter().map(|&n| section::apart(n.into(), given(args, step, &names)));
        Report::merge(reports.collect::<Result<_, _>>()?)
    };
    let report = sections(Step::Times)?;
    let parts = args.parts.then(|| sections(Step::Parts)).transpose()?;
    let memory = if args.memory { peaks(args, workloads, &report, most)? } else { vec![] };

    let outcome = Outcome { report, fastest: args.fastest, differences, memory, parts };
    println!("{}", outcome.markdown());
    if let Some(folder) = &args.publish {
        fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        write(&folder.join("models.md"), &outcome.markdown())?;
        write(&folder.join("models.json"), &json(&outcome))?;
    }
    match &outcome.disagreements()[..] {
        [] => Ok(()),
        found => Err(format!(
            "results that were not compared, or differ from Flex's by more than rounding:\n{}",
            found.join("\n")
        )),
    }
}

/// The arguments of a process that does a step.
fn given(args: &Args, step: Step, names: &[&str]) -> Vec<OsString> {
    let flags = [
        (args.alone, "--alone"),
        (args.torch, "--torch"),
        (args.compile, "--compile"),
        (args.onnx, "--onnx"),
        (args.fastest, "--fastest"),
    ];
    let step = step.to_possible_value().expect("every step has a name").get_name().to_string();
    let seconds = args.seconds.to_string();
    let mut given: Vec<OsString> = vec!["--data".into(), args.data.clone().into()];
    given.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| OsString::from(flag)));
    given.extend(["--python", &args.python, "--seconds", &seconds, "--step", &step].map(Into::into));
    given.extend(args.peer.iter().flat_map(|peer| ["--peer", peer]).map(OsString::from));
    given.push("--".into());
    given.extend(names.iter().map(Into::into));
    given
}

/// Lets PyTorch write the models that ONNX Runtime reads.
fn export(args: &Args, workloads: &[Workload]) -> Result<(), String> {
    let torch = Python::start(&torch(args, &args.data), &args.python, 1)?;
    let bar = section::progress(workloads.len());
    for workload in workloads.iter().filter(|workload| !workload.trains()) {
        bar.set_message(format!("exporting {}", workload.name));
        let path = args.data.join(workload.name).with_extension("onnx");
        if !torch.export(workload.name, &path) {
            eprintln!("{} is left out for ONNX Runtime", workload.name);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// PyTorch with models.
fn torch(args: &Args, folder: &Path) -> Library {
    let numbers = [LEARNS.to_string(), STEPS.to_string(), HARDLY_LEARNS.to_string()];
    Library::torch_models(folder, numbers.into_iter().chain(args.compile.then(|| "compile".into())))
}

/// Does a step in this process; returns its JSON.
fn step(args: &Args, workloads: &[Workload]) -> Result<String, String> {
    let threads: usize = args.threads.first().copied().unwrap_or(1).into();
    section::start_threads(threads)?;
    let report = |peers: &[Box<dyn Peer>], cases: &[Case], budget| {
        let section = section::measure(cases.iter(), peers, budget, threads);
        let peers = peers.iter().map(|peer| peer.name().to_string()).collect();
        json(&Report { machine: section::machine(), peers, sections: vec![section] })
    };
    match args.step {
        Step::Values => Ok(json(&compare(&with_models(args, workloads, threads)?, workloads))),
        Step::Times => {
            let budget = budget(args, args.seconds, 5);
            let cases = cases::<burn_flex::Flex>(workloads, &args.data);
            Ok(report(&with_models(args, workloads, threads)?, &cases, budget))
        }
        Step::Parts => {
            let budget = budget(args, args.seconds / 8.0, 3);
            let cases = part_cases::<burn_flex::Flex>(parts(workloads), || ());
            Ok(report(&with_parts(args, workloads, threads)?, &cases, budget))
        }
        Step::Memory => {
            let before = memory::peak();
            let peer = backends(args, workloads).into_iter().find(|p| Some(p.name()) == args.peer.as_deref());
            let peer = peer.ok_or("there is no such peer")?;
            let mut run = peer.case(workloads[0].name);
            if let Some(run) = &mut run {
                run.sample(CALLS);
            }
            Ok(json(&run.and_then(|_| Some([before?, memory::peak()?]))))
        }
    }
}

fn budget(args: &Args, seconds: f64, min_samples: usize) -> Budget {
    let reported = if args.fastest { Reported::Fastest } else { Reported::Median };
    Budget { per_case: Duration::from_secs_f64(seconds), min_samples, reported }
}

/// Calls after which a process has all the memory that it needs.
const CALLS: usize = 3;

fn parts(workloads: &[Workload]) -> impl Iterator<Item = flex_benches::Part> {
    workloads.iter().flat_map(Workload::parts).map(|(part, _)| part)
}

/// The backends of Burn with whole models, Flex first.
fn backends(args: &Args, workloads: &[Workload]) -> Vec<Box<dyn Peer>> {
    #[allow(unused_mut, reason = "without the feature there is one")]
    let mut backends = vec![cpu_backend("flex", cases::<burn_flex::Flex>(workloads, &args.data))];
    #[cfg(feature = "upstream")]
    if !args.alone {
        backends.push(cpu_backend("upstream", cases::<upstream_flex::Flex>(workloads, &args.data)));
    }
    backends
}

/// All peers with whole models.
fn with_models(args: &Args, workloads: &[Workload], threads: usize) -> Result<Vec<Box<dyn Peer>>, String> {
    let mut peers = backends(args, workloads);
    let libraries = [(args.torch, torch(args, &args.data)), (args.onnx, Library::onnx(&args.data))];
    for (_, library) in libraries.iter().filter(|(asked, _)| *asked) {
        peers.push(Box::new(Python::start(library, &args.python, threads)?));
    }
    Ok(peers)
}

/// The same peers with parts of models.
fn with_parts(args: &Args, workloads: &[Workload], threads: usize) -> Result<Vec<Box<dyn Peer>>, String> {
    // Results may wait until they are read.
    let flex = part_cases::<burn_flex::Flex>(parts(workloads), wait::<burn_flex::Flex>);
    let mut peers = vec![cpu_backend("flex", flex)];
    #[cfg(feature = "upstream")]
    if !args.alone {
        peers.push(cpu_backend(
            "upstream",
            part_cases::<upstream_flex::Flex>(parts(workloads), wait::<upstream_flex::Flex>),
        ));
    }
    let libraries = [(args.torch, Library::torch()), (args.onnx, Library::onnx(&args.data))];
    for (_, library) in libraries.iter().filter(|(asked, _)| *asked) {
        peers.push(Box::new(Python::start(library, &args.python, threads)?));
    }
    Ok(peers)
}

/// Compares the results of all peers with Flex's.
fn compare(peers: &[Box<dyn Peer>], workloads: &[Workload]) -> Vec<Difference> {
    let bar = section::progress(workloads.len() * peers.len());
    let mut differences = Vec::new();
    for workload in workloads {
        let numbers: Vec<Option<Vec<f64>>> = peers
            .iter()
            .map(|peer| {
                bar.set_message(format!("{} on {}", workload.name, peer.name()));
                bar.inc(1);
                peer.numbers(workload.name)
            })
            .collect();
        let relative = numbers.iter().map(|got| {
            let (expected, got) = (numbers[0].as_ref()?, got.as_ref()?);
            // Of PyTorch, the results of all variants follow each other.
            Some(largest_difference(expected, got))
        });
        differences.push(Difference { name: workload.name.into(), relative: relative.collect() });
    }
    bar.finish_and_clear();
    differences
}

/// Peak memory of each row on each peer, in the variant that was the fastest.
fn peaks(
    args: &Args,
    workloads: &[Workload],
    report: &Report,
    threads: usize,
) -> Result<Vec<Memory>, String> {
    let bar = section::progress(workloads.len() * report.peers.len());
    let mut memory = Vec::new();
    for workload in workloads {
        let row = report.sections.iter().flat_map(|s| &s.rows).find(|row| row.name == workload.name);
        let mut peaks = Vec::new();
        for (k, peer) in report.peers.iter().enumerate() {
            bar.set_message(format!("memory of {} on {peer}", workload.name));
            let library = match &**peer {
                "torch" => Some(torch(args, &args.data)),
                "onnx" => Some(Library::onnx(&args.data)),
                _ => None,
            };
            let peak = match library {
                Some(library) => {
                    let note = row.and_then(|row| row.notes.get(k)?.as_deref()).unwrap_or_default();
                    let python = Python::start(&library, &args.python, threads)?;
                    let before = python.peak();
                    let mut run = python.variant(workload.name, note);
                    if let Some(run) = &mut run {
                        run.sample(CALLS);
                    }
                    run.and_then(|_| Some([before?, python.peak()?]))
                }
                None => {
                    let args = Args { peer: Some(peer.clone()), ..args.clone() };
                    section::apart(threads, given(&args, Step::Memory, &[workload.name]))?
                }
            };
            peaks.push(peak);
            bar.inc(1);
        }
        memory.push(Memory { name: workload.name.into(), peaks });
    }
    bar.finish_and_clear();
    Ok(memory)
}
