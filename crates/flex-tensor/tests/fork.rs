//! A forked process has a copy of the memory, and one thread. It computes on that thread.
#![cfg(all(unix, feature = "rayon"))]

mod common;

use common::{forked, sections};
use flex_tensor::storage;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_forked_process_computes_whatever_other_threads_were_doing() {
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().unwrap();
    assert!(sections(10));
    // Asleep, then awake, at the time of the fork.
    assert_eq!(forked(|| sections(100)), Some(true));
    std::thread::sleep(std::time::Duration::from_millis(5));
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

#[test]
fn a_forked_process_does_not_wait_for_a_lock_that_nobody_will_release() {
    let (lock, meet) = (storage::Lock::new(1), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let guard = lock.lock();
            meet.wait();
            meet.wait();
            drop(guard);
        });
        meet.wait();
        assert_eq!(forked(|| lock.lock().is_none()), Some(true));
        meet.wait();
    });
    // Nobody held it at this fork, and the child's own threads wait for each other.
    let child = || {
        let add = |_| *lock.lock().expect("a thread of this process releases it") += 1;
        std::thread::scope(|scope| {
            (0..4).for_each(|_| {
                scope.spawn(|| (0..1000).for_each(add));
            });
        });
        lock.lock().is_some_and(|value| *value == 4001)
    };
    assert_eq!(forked(child), Some(true));
}
