//! A process that is forked while another thread starts the global pool of threads does not wait for it.
#![cfg(all(unix, feature = "rayon"))]

mod common;

use common::{forked, sections};
use std::time::{Duration, Instant};

#[test]
fn a_process_forked_while_the_pool_starts_computes() {
    // This process never uses the pool, so that each of its children starts one.
    for round in 0..200 {
        let child = forked(|| {
            let starter = std::thread::spawn(|| sections(1));
            // Over the time that the start takes, some 200 us.
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(2 * round) {
                std::hint::spin_loop();
            }
            forked(|| sections(20)) == Some(true) && starter.join().unwrap_or(false) && sections(20)
        });
        assert_eq!(child, Some(true), "hung, or computed something wrong, in round {round}");
    }
}
