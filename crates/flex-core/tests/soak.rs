//! Many threads compute for a long time, with a bound on the pool: every result has the bits that it has
//! alone, and the memory of the process does not grow once the pool and the system's allocator are warm.
//!
//! ```console
//! cargo test --release -p flex-core --test soak -- --ignored --nocapture    # 10 minutes
//! ```
//!
//! `FLEX_SOAK_SECONDS` sets another duration. `cargo test` runs some of the cases for some seconds. The
//! bound on memory holds for runs of 300 seconds and more.
#![allow(missing_docs)]

mod cases;

use cases::{Draw, OPERATIONS};
use flex_core::storage::pool as blocks;
use flex_core::{Tensor, parallel};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Callers at the same time.
const CALLERS: usize = 8;

/// What the pool may keep.
const LIMIT: usize = 512 << 20;

/// Pairs of an operation and its shapes.
const CASES: u64 = 1000;

/// Results that callers hold on to, so that blocks are freed late, and by other threads.
const HELD: usize = 32;

/// What the mean of resident memory may grow by, from the second fifth of the time to the last: it rises and
/// falls with the sizes that are in use.
const GROWTH: usize = 64 << 20;

/// Mean of some numbers; zero if there are none.
fn mean(numbers: &[usize]) -> usize {
    numbers.iter().sum::<usize>() / numbers.len().max(1)
}

/// The results of a case and a hash of their bytes.
fn compute(case: u64) -> (Vec<Tensor>, u64) {
    let (name, results) = cases::compute(case, || ());
    let results = results.unwrap_or_else(|error| panic!("case {case}, {name}: {error}"));
    let mut hash = DefaultHasher::new();
    for tensor in &results {
        hash.write(&tensor.clone().into_bytes().expect("memory"));
    }
    (results, hash.finish())
}

/// Bytes of memory that the process holds; `None` where the system does not tell.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kib| kib << 10)
}

/// The wrong case that was found first; `u64::MAX` if none was.
static WRONG: AtomicU64 = AtomicU64::new(u64::MAX);

/// Computes cases until `end`, and hands their results to whoever comes next to drop them.
fn call(caller: usize, want: &[u64], held: &Mutex<Vec<Vec<Tensor>>>, done: &AtomicU64, end: &AtomicBool) {
    let mut draw = Draw(caller as u64 ^ 0xDEAD);
    while !end.load(Relaxed) {
        let case = draw.below(want.len());
        let (results, hash) = compute(case as u64);
        if hash != want[case] {
            let _ = WRONG.compare_exchange(u64::MAX, case as u64, Relaxed, Relaxed);
        }
        done.fetch_add(1, Relaxed);
        let dropped = {
            let mut held = held.lock().expect("no panic");
            held.push(results);
            if held.len() > HELD { Some(held.swap_remove(draw.below(HELD))) } else { None }
        };
        drop(dropped);
    }
}

/// Ends the callers, also when the thread that watches them panics: they would be waited for.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn soak(time: Duration, cases: u64) {
    blocks::set_limit(LIMIT);
    let want: Vec<u64> = (0..cases).map(|case| compute(case).1).collect();
    println!("{cases} cases, {CALLERS} callers, a pool of {} threads, {time:.0?}", parallel::threads());
    let (held, done, end) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = End(&end);
        for caller in 0..CALLERS {
            let (want, held, done, end) = (&want, &held, &done, &end);
            scope.spawn(move || call(caller, want, held, done, end));
        }
        let start = Instant::now();
        let (mut samples, mut shown) = (Vec::new(), Duration::ZERO);
        while start.elapsed() < time {
            std::thread::sleep((time / 100).min(Duration::from_secs(1)));
            let now = resident().unwrap_or(0);
            samples.push(now);
            let stats = blocks::stats();
            assert!(stats.cached_bytes <= LIMIT, "{stats:?}");
            if start.elapsed() - shown >= Duration::from_secs(10) {
                shown = start.elapsed();
                println!(
                    "{:>4} s: {:>8} cases, {:>5} MiB resident, {:>4} MiB wait in the pool, {:>4} MiB live, \
                     {} hits, {} misses, {} evictions",
                    shown.as_secs(),
                    done.load(Relaxed),
                    now >> 20,
                    stats.cached_bytes >> 20,
                    stats.live_bytes >> 20,
                    stats.hits,
                    stats.misses,
                    stats.evictions
                );
            }
            assert_eq!(WRONG.load(Relaxed), u64::MAX, "this case has other bits than alone");
        }
        drop(ends);
        let fifth = samples.len() / 5;
        let [second, last] = [mean(&samples[fifth..2 * fifth]), mean(&samples[4 * fifth..])];
        println!(
            "{} cases; resident on average {} MiB in the second fifth of the time, {} MiB in the last; at most {} MiB",
            done.load(Relaxed),
            second >> 20,
            last >> 20,
            samples.iter().max().unwrap_or(&0) >> 20
        );
        // In a short run, the pool is not yet warm.
        if time >= Duration::from_secs(300) {
            assert!(last <= second + GROWTH, "resident memory grows: {second} bytes, then {last}");
        }
    });
    assert_eq!(WRONG.load(Relaxed), u64::MAX, "this case has other bits than alone");
    // Every block comes back.
    drop(held);
    let live = blocks::stats().live_bytes;
    assert!(live < 64 << 10, "{live} bytes of blocks were not returned");
}

#[test]
fn results_of_many_callers_have_the_bits_that_they_have_alone() {
    soak(Duration::from_secs(4), 6 * OPERATIONS.len() as u64);
}

#[test]
#[ignore = "takes 10 minutes"]
fn ten_minutes_of_many_callers_leave_memory_as_it_is() {
    let seconds = std::env::var("FLEX_SOAK_SECONDS").map_or(600, |text| text.parse().expect("seconds"));
    soak(Duration::from_secs(seconds), CASES);
}
