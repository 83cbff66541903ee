//! A forked process has a copy of the memory, and one thread. It computes on that thread.
#![cfg(all(unix, feature = "rayon"))]

use flex_tensor::parallel::{Work, for_each_chunk};
use flex_tensor::storage;
use std::sync::atomic::{AtomicBool, Ordering};
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
fn forked(f: impl FnOnce() -> bool) -> Option<bool> {
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
fn sections(count: usize) -> bool {
    (0..count).all(|_| {
        let mut numbers = [0; 16];
        for_each_chunk(&mut numbers, 1, Work::Worthwhile, |k, number| number[0] = k);
        numbers.iter().enumerate().all(|(k, &number)| number == k)
    })
}

#[test]
fn a_forked_process_computes_whatever_other_threads_were_doing() {
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().unwrap();
    assert!(sections(10));
    // Asleep, then awake, at the time of the fork.
    assert_eq!(forked(|| sections(100)), Some(true));
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(forked(|| sections(100)), Some(true));
    // Other callers and their helpers may hold any lock at the time of the fork.
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    sections(10);
                }
            });
        }
        let ok = (0..300).all(|_| forked(|| sections(20)) == Some(true));
        end.store(true, Ordering::Relaxed);
        assert!(ok, "a forked process hung, or computed something wrong");
    });
    // The parent goes on with its helpers.
    assert!(sections(100));
}

/// Takes and returns blocks of the sizes that wait behind locks.
fn blocks(count: usize) -> bool {
    (0..count).all(|k| {
        let mut blocks: Vec<_> = (0..6).map(|k| storage::alloc((20 + k % 3 * 10) << 10)).collect();
        blocks.iter_mut().for_each(|block| block.fill(k as u8));
        blocks.iter().all(|block| block.iter().all(|&byte| byte == k as u8))
    })
}

#[test]
fn a_forked_process_has_memory_whatever_locks_other_threads_held() {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    drop(storage::alloc(20 << 10));
                    drop(storage::alloc(30 << 10));
                }
            });
        }
        let child = || {
            let ok = blocks(20);
            // Of all classes, with and without blocks to evict.
            storage::pool::set_limit(1 << 20);
            let ok = ok && blocks(20);
            storage::cleanup();
            storage::pool::set_limit(0);
            ok && blocks(20) && storage::pool::stats().misses > 0
        };
        let ok = (0..300).all(|_| forked(child) == Some(true));
        end.store(true, Ordering::Relaxed);
        assert!(ok, "a forked process hung, or lost what it wrote");
    });
    assert!(blocks(100));
}
