//! Many callers at once: each answers requests on a thread of its own for a while.

use burn_tensor::TensorData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Answers one request. A caller's own copy, whose weights are shared with the other callers.
pub type Request = Box<dyn FnMut() -> TensorData + Send>;

/// What was measured in one turn.
#[derive(Debug)]
pub struct Turn {
    /// Requests per second of all callers together.
    pub rate: f64,
    /// Seconds from request to answer.
    pub latencies: Vec<f64>,
}

/// A caller among those that are counted. Dropped, also by a panic, it counts no more: the other callers wait
/// for the end of the count.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets callers answer requests for a while, and checks every answer.
///
/// # Panics
/// Panics after the turn if a request panicked, or its answer has other bits than `expected`.
pub fn take_turn(requests: Vec<Request>, expected: &TensorData, turn: Duration) -> Turn {
    let callers = requests.len();
    let start = Barrier::new(callers);
    // Callers that still answer requests which they began in time.
    let busy = AtomicUsize::new(callers);
    let outcomes: Vec<(f64, Vec<f64>)> = thread::scope(|scope| {
        let threads: Vec<_> = (requests.into_iter())
            .map(|mut request| {
                let (start, busy) = (&start, &busy);
                scope.spawn(move || {
                    let counted = Counted(busy);
                    let mut answer = move || {
                        let start = Instant::now();
                        let result = request();
                        let end = Instant::now();
                        // Not `==`, for which zeros of both signs are equal.
                        assert!(
                            result.as_bytes() == expected.as_bytes(),
                            "a caller among others gets other bits than alone"
                        );
                        (start, end)
                    };
                    // A caller that fails here comes to the barrier too: the others wait for all.
                    let warm = catch_unwind(AssertUnwindSafe(&mut answer));
                    start.wait();
                    if let Err(panic) = warm {
                        resume_unwind(panic);
                    }
                    let until = Instant::now() + turn;
                    let (mut answered, mut latencies) = (0.0, Vec::new());
                    loop {
                        let (start, end) = answer();
                        latencies.push((end - start).as_secs_f64());
                        if end >= until {
                            // Of the last request, the part before the end of the turn.
                            let part = (until - start).as_secs_f64() / (end - start).as_secs_f64();
                            answered += part;
                            break;
                        }
                        answered += 1.0;
                    }
                    drop(counted);
                    // The load stays the same until the last measured request is answered.
                    while busy.load(Ordering::Relaxed) > 0 {
                        answer();
                    }
                    (answered, latencies)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a caller failed")).collect()
    });
    let rate = outcomes.iter().map(|(answered, _)| answered).sum::<f64>() / turn.as_secs_f64();
    Turn { rate, latencies: outcomes.into_iter().flat_map(|(_, latencies)| latencies).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller whose answers are 1, but for this one.
    fn caller(wrong: Option<usize>) -> Request {
        let mut answers = 0;
        Box::new(move || {
            thread::sleep(Duration::from_millis(1));
            answers += 1;
            TensorData::from([if wrong == Some(answers) { 2.0f32 } else { 1.0 }])
        })
    }

    fn turn(wrong: Option<usize>) -> Turn {
        let requests = [None, wrong, None].map(caller).into();
        take_turn(requests, &TensorData::from([1.0f32]), Duration::from_millis(20))
    }

    #[test]
    fn all_answers_of_a_turn_are_counted() {
        let turn = turn(None);
        assert!(turn.latencies.len() >= 3 && turn.latencies.iter().all(|&seconds| seconds >= 1e-3));
        assert!(turn.rate > 0.0 && turn.rate <= 3000.0, "{}", turn.rate);
    }

    /// In the warm-up and later. The other callers wait for all at both ends of a turn.
    #[test]
    fn a_turn_ends_although_a_caller_fails() {
        for wrong in [1, 2, 3] {
            assert!(catch_unwind(|| turn(Some(wrong))).is_err(), "answer {wrong}");
        }
    }
}
