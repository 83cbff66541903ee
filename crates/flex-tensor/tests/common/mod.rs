//! What the tests of forked processes share.

use flex_tensor::parallel::{Work, for_each_chunk};
use std::time::{Duration, Instant};

// From the C library, which the standard library links.
unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn kill(process: i32, signal: i32) -> i32;
    fn _exit(code: i32) -> !;
}

const NO_WAIT: i32 = 1;
const SIGKILL: i32 = 9;

/// Runs `f` in a forked process. `None` if that does not end within some seconds; otherwise whether `f`
/// returned `true`.
pub fn forked(f: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the child is the copy of one thread. It calls `f`, whose safety does not depend on other
    // threads, and ends without a return to the test harness or a destructor.
    let child = unsafe { fork() };
    assert!(child >= 0, "no process could be made");
    if child == 0 {
        let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: ends the process.
        unsafe { _exit(!ok as i32) }
    }
    let start = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` is writable, and the process is this one's child, which nobody waited for yet.
        if unsafe { waitpid(child, &mut status, NO_WAIT) } == child {
            return Some(status == 0);
        }
        if start.elapsed() > Duration::from_secs(5) {
            // SAFETY: as above.
            unsafe {
                kill(child, SIGKILL);
                waitpid(child, &mut status, 0);
            }
            return None;
        }
        std::thread::yield_now();
    }
}

/// Many sections, of which each is right.
pub fn sections(count: usize) -> bool {
    (0..count).all(|_| {
        let mut numbers = [0; 16];
        for_each_chunk(&mut numbers, 1, Work::Worthwhile, |k, number| number[0] = k);
        numbers.iter().enumerate().all(|(k, &number)| number == k)
    })
}
