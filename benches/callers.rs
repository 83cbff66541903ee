//! `cargo bench -p flex-benches --bench callers`: many threads that each run a model on shared weights.
//!
//! Programs that serve a model answer every request on a thread of its own. The bench measures how many
//! requests they answer in total, and how evenly: Flex beside upstream's burn-flex, in turn in one process.
//! `-- --help` says what can be chosen.

use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, TensorData};
use clap::Parser;
use flex_benches::args::positive;
use flex_benches::turn::{Request, Turn, take_turn};
use flex_examples::digits::{Digits, Model, SIDE, images};
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;
use std::time::Duration;

/// Threads that each run a model's forward pass, one request after the other, on shared weights.
///
/// The fair share of a caller is the latency of one caller alone (its median, with all threads of the
/// machine) times the number of callers: what each of them would see if the machine answered the requests one
/// by one, in turn. Every result is compared, bit by bit, with the result of a caller alone.
#[derive(Parser)]
struct Args {
    /// Only models whose name contains one of these words.
    filter: Vec<String>,
    /// Numbers of callers. One caller is always measured, since the others are compared with it.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,16", value_parser = clap::value_parser!(u16).range(1..))]
    callers: Vec<u16>,
    /// Turns of each peer with each number of callers.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Length of a turn, in seconds.
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    turn: f64,
    /// Flex without upstream's burn-flex.
    #[arg(long)]
    alone: bool,
    /// End with an error if Flex misses a target.
    #[arg(long)]
    check: bool,
    /// Passed by `cargo bench`; without meaning here.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Least total throughput, as a part of one caller's.
const THROUGHPUT: f64 = 0.95;
/// Most that the 99th percentile of the latencies may be, as a multiple of the fair share.
const SHARES: f64 = 2.0;

/// Makes a [`Request`] for one more caller.
type Callers = Box<dyn Fn() -> Request>;

fn main() -> ExitCode {
    let args = Args::parse();
    let models: [(&str, fn(&str) -> Callers); 3] = [
        ("digits_b64", |peer| of_peer(peer, digits::<burn_flex::Flex>, upstream_digits)),
        ("transformer_b1", |peer| of_peer(peer, || block::<burn_flex::Flex>(1), || upstream_block(1))),
        ("transformer_b8", |peer| of_peer(peer, || block::<burn_flex::Flex>(8), || upstream_block(8))),
    ];
    let chosen = |name: &str| args.filter.is_empty() || args.filter.iter().any(|word| name.contains(word));
    if !models.iter().any(|(name, _)| chosen(name)) {
        let names = models.map(|(name, _)| name);
        eprintln!("no model is called like {:?}; there are {names:?}", args.filter);
        return ExitCode::FAILURE;
    }
    let mut counts: Vec<usize> = args.callers.iter().map(|&callers| callers.into()).collect();
    counts.push(1);
    counts.sort_unstable();
    counts.dedup();
    let peers =
        if args.alone || cfg!(not(feature = "upstream")) { &["flex"][..] } else { &["flex", "upstream"] };
    let turn = Duration::from_secs_f64(args.turn);

    println!("threads of the machine: {}", rayon::current_num_threads());
    println!("fair share: the median latency of one caller alone, times the number of callers\n");
    println!(
        "| model | peer | callers | requests/s | of one caller's | p50 ms | p99 ms | fair share ms | p99 / fair |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut missed = Vec::new();
    for (name, model) in models.into_iter().filter(|(name, _)| chosen(name)) {
        let peers: Vec<Peer> = peers.iter().map(|peer| Peer::new(peer, model(peer), counts.len())).collect();
        let (table, misses) = measure(name, peers, &counts, args.rounds, turn);
        print!("{table}");
        missed.extend(misses);
    }
    println!(
        "\ntargets for flex: total throughput at least {THROUGHPUT} of one caller's, p99 at most {SHARES} fair shares"
    );
    match missed.is_empty() {
        true => println!("all are met"),
        false => missed.iter().for_each(|miss| println!("missed: {miss}")),
    }
    if args.check && !missed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn of_peer(peer: &str, flex: impl Fn() -> Callers, upstream: impl Fn() -> Callers) -> Callers {
    if peer == "flex" { flex() } else { upstream() }
}

#[cfg(feature = "upstream")]
fn upstream_digits() -> Callers {
    digits::<upstream_flex::Flex>()
}

#[cfg(feature = "upstream")]
fn upstream_block(batch: usize) -> Callers {
    block::<upstream_flex::Flex>(batch)
}

#[cfg(not(feature = "upstream"))]
fn upstream_digits() -> Callers {
    unreachable!("built without upstream's backend")
}

#[cfg(not(feature = "upstream"))]
fn upstream_block(_batch: usize) -> Callers {
    unreachable!("built without upstream's backend")
}

/// The network of the example `digits`, on 64 images of the data set.
fn digits<B: Backend>() -> Callers {
    let device = B::Device::default();
    B::seed(&device, 1);
    let model = Model::<B>::new(&device);
    let images = images::<B>(&Digits::load().pick(&(0..64).collect::<Vec<_>>()), &device);
    assert_eq!(images.dims(), [64, 1, SIDE, SIDE]);
    callers((model, images), |(model, images)| model.forward(images.clone()).into_data())
}

/// A block of a transformer: attention of 8 heads and a hidden layer of 1,024, on 128 tokens of width 256.
fn block<B: Backend>(batch: usize) -> Callers {
    let device = B::Device::default();
    B::seed(&device, 1);
    let model = TransformerEncoderConfig::new(256, 1024, 8, 1).init::<B>(&device);
    let waves: Vec<f32> = (0..batch * 128 * 256).map(|i| (i as f32 * 0.37).sin()).collect();
    let tokens = Tensor::<B, 3>::from_data(TensorData::new(waves, [batch, 128, 256]), &device);
    callers((model, tokens), |(model, tokens)| {
        model.forward(TransformerEncoderInput::new(tokens.clone())).into_data()
    })
}

fn callers<M: Clone + Send + 'static>(model: M, answer: fn(&M) -> TensorData) -> Callers {
    // Weights are drawn at their first use. Clones made before that would have weights of their own.
    answer(&model);
    Box::new(move || {
        let model = model.clone();
        Box::new(move || answer(&model))
    })
}

/// A backend with a model, and what was measured so far for each number of callers.
struct Peer {
    name: String,
    callers: Callers,
    /// The result of a caller alone.
    expected: TensorData,
    turns: Vec<Vec<Turn>>,
}

impl Peer {
    fn new(name: &str, callers: Callers, counts: usize) -> Self {
        let expected = callers()();
        Self { name: name.into(), callers, expected, turns: (0..counts).map(|_| Vec::new()).collect() }
    }
}

/// Measures the peers in turn, and returns rows of the table and the targets that Flex missed.
fn measure(
    model: &str,
    mut peers: Vec<Peer>,
    counts: &[usize],
    rounds: u16,
    turn: Duration,
) -> (String, Vec<String>) {
    let steps = u64::from(rounds) * (counts.len() * peers.len()) as u64;
    let style =
        ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} turns, {eta} left: {msg}").unwrap();
    let progress = ProgressBar::new(steps).with_style(style).with_prefix(model.to_string());
    for _ in 0..rounds {
        for (k, &count) in counts.iter().enumerate() {
            for peer in &mut peers {
                progress.set_message(format!("{count} callers of {}", peer.name));
                let requests: Vec<Request> = (0..count).map(|_| (peer.callers)()).collect();
                peer.turns[k].push(take_turn(requests, &peer.expected, turn));
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let (mut table, mut missed) = (String::new(), Vec::new());
    for peer in &peers {
        let [rate_alone, latency_alone] = [peer.rate(0), peer.latency(0, 50)];
        for (k, &count) in counts.iter().enumerate() {
            let (rate, fair) = (peer.rate(k), count as f64 * latency_alone);
            let [half, most] = [50, 99].map(|percent| peer.latency(k, percent));
            let (part, shares) = (rate / rate_alone, most / fair);
            table += &format!(
                "| {model} | {} | {count} | {rate:.1} | {part:.2} | {:.3} | {:.3} | {:.3} | {shares:.2} |\n",
                peer.name,
                half * 1e3,
                most * 1e3,
                fair * 1e3,
            );
            if peer.name == "flex" && part < THROUGHPUT {
                missed.push(format!("{model}, {count} callers: {part:.2} of one caller's throughput"));
            }
            if peer.name == "flex" && shares > SHARES {
                missed.push(format!("{model}, {count} callers: p99 of {shares:.2} fair shares"));
            }
        }
    }
    (table, missed)
}

impl Peer {
    /// Median over the turns of the requests per second.
    fn rate(&self, k: usize) -> f64 {
        percentile(self.turns[k].iter().map(|turn| turn.rate).collect(), 50)
    }

    /// A percentile of the latencies in all turns, in seconds.
    fn latency(&self, k: usize, percent: usize) -> f64 {
        percentile(self.turns[k].iter().flat_map(|turn| turn.latencies.iter().copied()).collect(), percent)
    }
}

fn percentile(mut samples: Vec<f64>, percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() * percent / 100).min(samples.len() - 1)]
}
