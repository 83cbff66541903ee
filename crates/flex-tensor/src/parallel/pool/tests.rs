//! The scheduler on rayon's pools.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

fn run(tasks: usize, task: &(impl Fn(usize) + Sync)) {
    super::run(tasks, task);
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn each_task_runs_once() {
    for threads in [1, 2, 8] {
        for tasks in [0, 1, 2, 7, 1000] {
            let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool(threads).install(|| {
                run(tasks, &|k| {
                    counts[k].fetch_add(1, Ordering::Relaxed);
                })
            });
            assert!(
                counts.iter().all(|c| c.load(Ordering::Relaxed) == 1),
                "{threads} threads, {tasks} tasks"
            );
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn helpers_come_and_are_no_more_than_the_pool_has() {
    let threads: Mutex<std::collections::HashSet<std::thread::ThreadId>> = Mutex::default();
    pool(3).install(|| {
        // Far more work than waking a helper takes.
        for _ in 0..200 {
            run(8, &|_| {
                threads.lock().unwrap().insert(std::thread::current().id());
                std::thread::sleep(std::time::Duration::from_micros(100));
            });
            let inside = threads.lock().unwrap().len();
            if inside > 1 {
                break;
            }
        }
    });
    // Helpers of other pools may be awake, but at most two enter one section.
    assert!(threads.into_inner().unwrap().len() > 1, "nobody helped");
    let inside = AtomicUsize::new(0);
    pool(3).install(|| {
        for _ in 0..50 {
            run(16, &|_| {
                let now = inside.fetch_add(1, Ordering::Relaxed) + 1;
                assert!(now <= 3, "{now} threads in a section of a pool of 3");
                std::thread::sleep(std::time::Duration::from_micros(20));
                inside.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

#[test]
fn what_a_section_borrows_may_go_when_it_returns() {
    // Many short sections, so that late helpers meet closed ones.
    for round in 0..2000 {
        let mut sums = [0usize; 4];
        let slots: Vec<Mutex<&mut usize>> = sums.iter_mut().map(Mutex::new).collect();
        run(4, &|k| **slots[k].lock().unwrap() += k + round);
        drop(slots);
        assert_eq!(sums, [round, round + 1, round + 2, round + 3]);
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn sections_nest_and_run_side_by_side() {
    let total = AtomicUsize::new(0);
    pool(3).install(|| {
        run(8, &|_| {
            run(8, &|_| {
                total.fetch_add(1, Ordering::Relaxed);
            })
        })
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                run(50, &|_| {
                    total.fetch_add(1, Ordering::Relaxed);
                })
            });
        }
    });
    assert_eq!(total.into_inner(), 64 + 200);
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn a_panic_reaches_the_caller_and_leaves_the_pool_usable() {
    for threads in [1, 4] {
        let pool = pool(threads);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| run(100, &|k| assert!(k != 37, "task {k} failed")));
        }));
        let payload = outcome.unwrap_err();
        assert_eq!(payload.downcast_ref::<alloc::string::String>().unwrap(), "task 37 failed");
        let total = AtomicUsize::new(0);
        pool.install(|| {
            run(10, &|k| {
                total.fetch_add(k, Ordering::Relaxed);
            })
        });
        assert_eq!(total.into_inner(), 45);
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn a_pool_ends_that_its_builder_is_a_thread_of() {
    let (end, ended) = std::sync::mpsc::channel();
    // A thread that has joined a pool belongs to it for good: rayon never frees what it notes about the
    // thread, and LeakSanitizer finds that once the thread has ended.
    std::thread::spawn(move || -> ! {
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(3).use_current_thread();
            let spawn = |thread: rayon::ThreadBuilder| {
                scope.spawn(|| thread.run());
                Ok(())
            };
            let pool = builder.spawn_handler(spawn).build().unwrap();
            pool.install(|| {
                run(64, &|_| {
                    total.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_micros(200));
                })
            });
        });
        // In vain if the test has given up.
        let _ = end.send(total.into_inner());
        loop {
            std::thread::park();
        }
    });
    // The scope above waits for the pool's threads, which wait for all jobs that were given to the pool.
    assert_eq!(ended.recv_timeout(std::time::Duration::from_secs(60)), Ok(64));
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn threads_that_help_each_other_agree_on_a_board() {
    use super::{Numbered, settle, with_board};
    let number = || with_board(|board, _| board.number).unwrap();
    // Numbers that no other test uses.
    let [old, middle, young] = [1, 2, 3].map(|n| Numbered::new(usize::MAX - 4 + n));
    let caller = pool(1);
    caller.install(|| {
        settle(&young);
        assert_eq!(number(), young.number);
    });
    // A helper that two callers ask, who do not know of each other.
    pool(1).install(|| {
        settle(&young);
        settle(&middle);
        assert_eq!(number(), middle.number);
        settle(&young);
        assert_eq!(number(), middle.number, "the older board stays");
    });
    assert_eq!(caller.install(number), middle.number, "the caller moves on to the older board");
    pool(1).install(|| {
        settle(&old);
        settle(&young);
        assert_eq!(number(), old.number);
    });
    assert_eq!(caller.install(number), old.number, "elders of elders are found");
    assert_eq!(Numbered::eldest(&young).number, old.number);
}

/// The payload of a panic whose destructor panics too.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a payload is dropped");
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn no_task_runs_after_two_panics_whose_payloads_panic_when_dropped() {
    use std::time::Duration;
    let (returned, after) = (AtomicBool::new(false), AtomicUsize::new(0));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).panic_handler(|_| {}).build().unwrap();
    // Wakes the helpers, so that they take the tasks from the back below.
    pool.install(|| run(64, &|_| std::thread::sleep(Duration::from_micros(200))));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pool.install(|| {
            run(4, &|k| match k {
                0 | 3 => {
                    std::thread::sleep(Duration::from_millis(if k == 3 { 5 } else { 15 }));
                    std::panic::panic_any(Bomb);
                }
                _ => {
                    for _ in 0..20 {
                        std::thread::sleep(Duration::from_millis(2));
                        after.fetch_add(returned.load(Ordering::SeqCst) as usize, Ordering::SeqCst);
                    }
                }
            })
        })
    }));
    returned.store(true, Ordering::SeqCst);
    let payload = outcome.expect_err("the panic of a task reaches the caller");
    assert!(payload.is::<Bomb>());
    core::mem::forget(payload);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(after.load(Ordering::SeqCst), 0, "a task ran on after its section had returned");
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn products_that_one_thread_did_alone_wake_a_helper_for_the_next() {
    use crate::parallel::{Work, decide, thresholds::WAKE_MULTIPLICATIONS};
    pool(2).install(|| {
        let pays = |n| decide(Work::Multiplications(n), |pays| pays);
        assert!((0..1000).all(|_| !pays(1000)));
        // Each counts as 20 us. Nothing runs, so a helper may have gone again; then the next is woken.
        assert!((0..1000).any(|_| pays(1 << 20)));
        assert!(pays(WAKE_MULTIPLICATIONS));
    });
    pool(1).install(|| assert!(!decide(Work::Multiplications(WAKE_MULTIPLICATIONS), |pays| pays)));
}
