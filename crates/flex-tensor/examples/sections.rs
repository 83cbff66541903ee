//! What a parallel section costs, with tasks that do nothing: the least time of many, in nanoseconds.
//!
//! `RAYON_NUM_THREADS=2 cargo run --release -p flex-tensor --example sections`

use flex_tensor::parallel::{Work, for_each_task, threads};
use std::time::{Duration, Instant};

/// Nanoseconds per section, the least of many runs. After each section the caller does something else for
/// `pause`, which is not counted.
fn least(tasks: usize, pause: Duration) -> f64 {
    const SECTIONS: u32 = 200;
    let mut least = f64::INFINITY;
    let end = Instant::now() + Duration::from_millis(700);
    while Instant::now() < end {
        let start = Instant::now();
        let mut paused = Duration::ZERO;
        for _ in 0..SECTIONS {
            for_each_task(tasks, Work::Worthwhile, |k| {
                std::hint::black_box(k);
            });
            if !pause.is_zero() {
                let start = Instant::now();
                while start.elapsed() < pause {
                    std::hint::spin_loop();
                }
                paused += start.elapsed();
            }
        }
        least = least.min((start.elapsed() - paused).as_nanos() as f64 / f64::from(SECTIONS));
    }
    least
}

fn main() {
    println!("{} threads", threads());
    for tasks in [2, 16, 64] {
        let [awake, asleep] = [0, 200].map(|pause| least(tasks, Duration::from_micros(pause)));
        println!(
            "{tasks:>3} tasks: {awake:>7.0} ns one after the other, {asleep:>7.0} ns with helpers asleep"
        );
    }
}
