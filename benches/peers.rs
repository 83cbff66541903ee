//! `cargo bench -p flex-benches`: Flex against upstream's `burn-flex` 0.21 and `burn-ndarray` 0.21.

use burn_flex::Flex;
use burn_ndarray::NdArray;
use clap::Parser;
use flex_benches::{Budget, Case, Row, cases, print_table, time_in_turn, worst_and_mean};
use indicatif::{ProgressBar, ProgressStyle};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const PEERS: [&str; 3] = ["flex", "upstream", "ndarray"];

/// Times the cases of PEERS.md on Flex and its peers, in turn.
#[derive(Parser)]
struct Args {
    /// Only cases whose name contains one of these.
    filter: Vec<String>,
    /// Measure longer, for figures to publish.
    #[arg(long)]
    full: bool,
    /// Leave out burn-ndarray, whose slowest rows take seconds.
    #[arg(long)]
    no_ndarray: bool,
    /// Passed by `cargo bench`; without meaning here.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let millis = if args.full { 2000 } else { 300 };
    let budget = Budget { per_case: Duration::from_millis(millis), min_samples: 5 };
    let mut lists = vec![cases::<Flex>(), cases::<upstream_flex::Flex>()];
    if !args.no_ndarray {
        lists.push(cases::<NdArray>());
    }
    let peers = &PEERS[..lists.len()];
    let picked: Vec<usize> = (0..lists[0].len())
        .filter(|&k| args.filter.is_empty() || args.filter.iter().any(|f| lists[0][k].name.contains(f)))
        .collect();

    // A peer that cannot run a case panics once, while it is set up; its message is of no interest here.
    std::panic::set_hook(Box::new(|_| ()));
    let bar = ProgressBar::new(picked.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("a valid template"));
    let mut rows = Vec::new();
    for k in picked {
        let name = lists[0][k].name.clone();
        bar.set_message(name.clone());
        let mut runs: Vec<_> = lists.iter().map(|list| set_up(&list[k])).collect();
        rows.push(Row { name, seconds: time_in_turn(&mut runs, budget) });
        bar.inc(1);
    }
    bar.finish_and_clear();

    print_table(peers, &rows);
    for (k, peer) in peers.iter().enumerate().skip(1) {
        if let Some((worst, mean)) = worst_and_mean(&rows, k) {
            let ratio = worst.ratio(k).unwrap_or(f64::NAN);
            println!("\n{peer} / flex: geometric mean {mean:.2}, worst row {} {ratio:.2}", worst.name);
        }
    }
}

/// The call of a case, or nothing when this backend cannot run it.
fn set_up(case: &Case) -> Option<Box<dyn FnMut()>> {
    catch_unwind(AssertUnwindSafe(|| {
        let mut run = (case.setup)();
        run();
        run
    }))
    .ok()
}
