//! Timing several closures in turn.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long to measure a case.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time spent on all peers of a case together.
    pub per_case: Duration,
    /// Least number of samples per peer, even if they take longer than `per_case`.
    pub min_samples: usize,
    /// Which of a peer's samples is reported.
    pub reported: Reported,
}

/// Which of a peer's samples is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The median: what a user sees.
    Median,
    /// The fastest: what the code can do, on a machine that others keep busy.
    Fastest,
}

/// Least duration of a sample: calls are repeated within a sample until the sample lasts this long. A model
/// calls one operation after the other. With samples of 0.1 ms, half of the time went into the recovery of
/// caches and threads from the previous peer.
const SAMPLE: Duration = Duration::from_millis(10);
/// Duration of the untimed calls before a sample; there is at least one such call. Threads that slept during
/// the turns of other peers may wake on the same processor until the system moves them apart: after PyTorch's
/// turn, products of 256 x 256 matrices took 101 to 144 us without these calls, and take 71 to 92 us with
/// them.
const WARM: Duration = Duration::from_millis(5);
/// Most samples per peer.
const MAX_SAMPLES: usize = 2001;

/// One peer on one case, ready to be timed.
pub trait Run {
    /// Seconds that `repeats` calls take, after some untimed calls.
    fn sample(&mut self, repeats: usize) -> f64;
}

/// Calls `f` repeatedly for a duration of [`WARM`].
fn warm_up(mut f: impl FnMut()) {
    let start = Instant::now();
    loop {
        f();
        if start.elapsed() >= WARM {
            return;
        }
    }
}

impl<F: FnMut()> Run for F {
    fn sample(&mut self, repeats: usize) -> f64 {
        warm_up(|| black_box(&mut *self)());
        let start = Instant::now();
        for _ in 0..repeats {
            black_box(&mut *self)();
        }
        start.elapsed().as_secs_f64()
    }
}

/// A peer whose calls return before the work is done. The device is idle at the start and at the end of a
/// sample.
pub struct Queued<F, W> {
    /// Enqueues the work of one call.
    pub call: F,
    /// Waits until the queue is empty.
    pub wait: W,
}

impl<F: FnMut(), W: FnMut()> Run for Queued<F, W> {
    fn sample(&mut self, repeats: usize) -> f64 {
        warm_up(|| {
            black_box(&mut self.call)();
            (self.wait)();
        });
        let start = Instant::now();
        for _ in 0..repeats {
            black_box(&mut self.call)();
        }
        (self.wait)();
        start.elapsed().as_secs_f64()
    }
}

/// Seconds per call of each peer, as `budget.reported` says; `None` for a peer that does not have the case.
pub fn time_in_turn(peers: &mut [Option<Box<dyn Run>>], budget: Budget) -> Vec<Option<f64>> {
    let repeats: Vec<usize> =
        peers.iter_mut().map(|peer| peer.as_mut().map_or(0, |run| calibrate(&mut **run))).collect();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
    let start = Instant::now();
    for round in 0..MAX_SAMPLES {
        if round >= budget.min_samples && start.elapsed() > budget.per_case {
            break;
        }
        for ((peer, &repeats), samples) in peers.iter_mut().zip(&repeats).zip(&mut samples) {
            let Some(run) = peer else { continue };
            samples.push(run.sample(repeats) / repeats as f64);
        }
    }
    samples.into_iter().map(|samples| budget.reported.of(samples)).collect()
}

/// Determines the calls per sample; also warms caches, pools and lazily built plans.
fn calibrate(run: &mut dyn Run) -> usize {
    let mut repeats = 1;
    loop {
        let elapsed = run.sample(repeats);
        if elapsed >= SAMPLE.as_secs_f64() {
            return repeats;
        }
        let wanted = SAMPLE.as_secs_f64() / elapsed.max(1e-9);
        repeats = (repeats as f64 * wanted.clamp(1.5, 100.0)).ceil() as usize;
    }
}

impl Reported {
    fn of(self, mut samples: Vec<f64>) -> Option<f64> {
        samples.sort_by(f64::total_cmp);
        match self {
            Self::Median => samples.get(samples.len() / 2).copied(),
            Self::Fastest => samples.first().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn slower_work_takes_longer_and_absent_peers_stay_absent() {
        let spin = |n: u64| -> Option<Box<dyn Run>> {
            Some(Box::new(move || {
                let mut x = 1u64;
                for _ in 0..n {
                    x = black_box(x.wrapping_mul(6364136223846793005));
                }
            }))
        };
        let (per_case, reported) = (Duration::from_millis(20), Reported::Median);
        let budget = Budget { per_case, min_samples: 3, reported };
        let times = time_in_turn(&mut [spin(1_000), None, spin(100_000)], budget);
        assert_eq!(times[1], None);
        assert!(times[2].unwrap() > 10.0 * times[0].unwrap());
    }

    #[test]
    fn queued_work_is_waited_for_before_the_clock_starts_and_before_it_stops() {
        let pause = Duration::from_millis(5);
        let queue = Cell::new(20);
        let call = || queue.set(queue.get() + 1);
        let mut peer = Queued { call, wait: || std::thread::sleep(pause * queue.take()) };
        let seconds = peer.sample(4);
        assert!(seconds >= 4.0 * pause.as_secs_f64(), "the calls' own work: {seconds}");
        assert!(seconds < 20.0 * pause.as_secs_f64(), "without what stood in the queue before: {seconds}");
        assert_eq!(queue.get(), 0);
    }

    #[test]
    fn the_median_ignores_outliers() {
        assert_eq!(Reported::Median.of(vec![3.0, 1.0, 100.0]), Some(3.0));
        assert_eq!(Reported::Fastest.of(vec![3.0, 1.0, 100.0]), Some(1.0));
        assert_eq!(Reported::Median.of(vec![]), None);
    }
}
