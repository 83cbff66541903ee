//! Results have the same bits on any number of threads: every operation that uses threads, with shapes next
//! to the sizes at which work is cut.
#![cfg(feature = "rayon")]
#![allow(missing_docs)]

mod cases;

use cases::{OPERATIONS, compute};
use flex_core::parallel::{Work, for_each_task};
use flex_core::{Bytes, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Cases of each operation.
const ROUNDS: u64 = 12;

/// The name of a case, and its results on the threads of a pool.
fn on(pool: &ThreadPool, case: u64) -> (&'static str, Result<Vec<Bytes>>) {
    pool.install(|| {
        // With a helper awake, smaller operations use threads too.
        let (name, results) = compute(case, || for_each_task(2, Work::Worthwhile, |_| {}));
        (name, results.and_then(|results| results.into_iter().map(|tensor| tensor.into_bytes()).collect()))
    })
}

#[test]
fn no_operation_depends_on_the_number_of_threads() {
    let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let pools = [1, 2, 3, 5, 8, 64].map(pool);
    let (alone, several) = pools.split_first().expect("pools");
    let mut failures = Vec::new();
    for case in 0..ROUNDS * OPERATIONS.len() as u64 {
        let (name, want) = on(alone, case);
        for pool in several {
            let threads = pool.current_num_threads();
            match (on(pool, case).1, &want) {
                (Ok(got), Ok(want)) if got.len() == want.len() => {
                    let differ = (0..got.len()).filter(|&k| got[k][..] != want[k][..]).collect::<Vec<_>>();
                    if !differ.is_empty() {
                        failures
                            .push(format!("case {case}, {name}: results {differ:?} on {threads} threads"));
                    }
                }
                (got, want) => {
                    let [got, want] =
                        [got.map(|r| r.len()), want.as_ref().map(Vec::len).map_err(Clone::clone)];
                    failures
                        .push(format!("case {case}, {name}: {got:?} on {threads} threads, {want:?} on one"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
