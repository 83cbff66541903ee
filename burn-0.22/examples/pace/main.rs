//! Times what programs on Burn 0.22 do, through Burn's user API, on whatever crate `burn-flex` the program is
//! linked with: ordinary operations, layers, a block of a transformer, and the digits example.
//!
//! `burn-0.22/compare` builds this program with this repository's `burn-flex` and with upstream's, runs both
//! in turn, and prints a table. An argument selects the cases whose names contain it.

#[path = "../../../examples/src/digits/data.rs"]
#[allow(dead_code, reason = "the other example uses all of it")]
mod data;
#[path = "../digits/model.rs"]
mod model;
mod operations;
mod programs;
#[path = "../digits/train.rs"]
#[allow(dead_code, reason = "nothing is saved here")]
mod train;

use burn::tensor::Device;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long a case is repeated.
const TIME: Duration = Duration::from_millis(100);
/// Shortest time that a sample takes; calls are repeated within it.
const SAMPLE: Duration = Duration::from_millis(2);
/// Fewest samples of a case.
const SAMPLES: usize = 3;

fn main() {
    println!("backend\t{}", std::any::type_name::<burn::backend::Flex>());
    let bench = Bench { device: Device::flex(), filter: std::env::args().nth(1).unwrap_or_default() };
    operations::small(&bench);
    operations::elementwise(&bench);
    operations::moving(&bench);
    operations::reductions(&bench);
    operations::products(&bench);
    operations::modules(&bench);
    programs::batch_norm(&bench);
    programs::transformer(&bench);
    programs::digits(&bench);
}

/// What all cases need.
struct Bench {
    device: Device,
    /// Part of the names of the cases to run.
    filter: String,
}

impl Bench {
    /// Prints the case and the shortest time of a call, in seconds.
    ///
    /// A backend may return before it has computed. So the result of every call is held until the device is
    /// synchronised, which computes what somebody holds. That takes 5 ns where nothing waits.
    fn time<R>(&self, case: &str, mut call: impl FnMut() -> R) {
        if !case.contains(&self.filter) {
            return;
        }
        let mut timed = |repeats: usize| {
            let start = Instant::now();
            for _ in 0..repeats {
                let result = black_box(call());
                self.device.sync().expect("memory for the results");
                drop(result);
            }
            start.elapsed().as_secs_f64()
        };
        // The first call finds cold caches, and no blocks in a backend's pool of memory.
        timed(1);
        let repeats = (SAMPLE.as_secs_f64() / timed(1)).clamp(1.0, 1e6) as usize;
        let (mut best, mut samples) = (f64::INFINITY, 0);
        let end = Instant::now() + TIME;
        while samples < SAMPLES || Instant::now() < end {
            best = best.min(timed(repeats) / repeats as f64);
            samples += 1;
        }
        println!("{case}\t{best:e}");
    }
}
