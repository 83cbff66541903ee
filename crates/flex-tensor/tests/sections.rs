//! Parallel sections of several callers and several pools.
#![cfg(feature = "rayon")]

use flex_tensor::parallel::{Work, for_each_task};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId, sleep};
use std::time::{Duration, Instant};

/// One test at a time: they count the threads of the global pool, which has four.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // In vain after the first time.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(4).build_global();
    // Many callers leave no room for helpers. The callers of the last test are forgotten after 20 ms.
    sleep(Duration::from_millis(30));
    guard
}

fn pool(name: &'static str, threads: usize) -> rayon::ThreadPool {
    let name = move |_| name.to_string();
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().unwrap()
}

/// Runs tasks that sleep, and returns the threads that took part.
fn sleepers(tasks: usize, each: Duration) -> HashSet<ThreadId> {
    let threads = Mutex::new(HashSet::new());
    for_each_task(tasks, Work::Worthwhile, |_| {
        threads.lock().unwrap().insert(thread::current().id());
        sleep(each);
    });
    threads.into_inner().unwrap()
}

#[test]
fn a_tiny_section_does_not_take_the_helpers_of_a_long_one() {
    let _alone = alone();
    for delay in [0, 10, 30, 100].map(Duration::from_micros) {
        for _ in 0..10 {
            // Until the helpers sleep.
            sleep(Duration::from_millis(2));
            let go = Barrier::new(2);
            let threads = thread::scope(|scope| {
                let long = scope.spawn(|| {
                    go.wait();
                    sleepers(40, Duration::from_millis(1))
                });
                go.wait();
                let start = Instant::now();
                while start.elapsed() < delay {
                    std::hint::spin_loop();
                }
                for_each_task(2, Work::Worthwhile, |_| {});
                long.join().unwrap()
            });
            assert!(threads.len() > 1, "the long section ran alone, {delay:?} before a tiny one");
        }
    }
}

#[test]
fn a_busy_pool_leaves_the_global_pool_its_helpers() {
    let _alone = alone();
    let busy = pool("busy", 4);
    let (ready, end) = (Barrier::new(5), Barrier::new(5));
    thread::scope(|scope| {
        // All threads of the pool have asked for helpers, and none comes to help.
        for _ in 0..4 {
            scope.spawn(|| {
                busy.install(|| {
                    ready.wait();
                    sleepers(8, Duration::from_millis(1));
                    ready.wait();
                    end.wait();
                })
            });
        }
        ready.wait();
        ready.wait();
        sleep(Duration::from_millis(5));
        let threads: Vec<usize> = (0..3).map(|_| sleepers(40, Duration::from_millis(1)).len()).collect();
        end.wait();
        assert!(threads.iter().all(|&n| n > 1), "{threads:?} threads of the global pool's four");
    });
}

#[test]
fn nobody_works_for_another_pool() {
    let _alone = alone();
    let pools = ["one", "two"].map(|name| (name, pool(name, 3)));
    thread::scope(|scope| {
        // Plain threads belong to the global pool, whose threads have no names.
        let caller = thread::current().id();
        for (name, pool) in &pools {
            scope.spawn(move || {
                pool.install(|| {
                    for _ in 0..200 {
                        for_each_task(8, Work::Worthwhile, |_| {
                            assert_eq!(thread::current().name(), Some(*name));
                            sleep(Duration::from_micros(50));
                        });
                    }
                })
            });
        }
        for _ in 0..200 {
            for_each_task(8, Work::Worthwhile, |_| {
                assert!(thread::current().id() == caller || thread::current().name().is_none());
                sleep(Duration::from_micros(50));
            });
        }
    });
}

#[test]
fn a_section_gets_help_while_the_helpers_that_are_up_work_for_another() {
    let _alone = alone();
    let pool = pool("eight", 8);
    let go = Barrier::new(2);
    let threads = thread::scope(|scope| {
        scope.spawn(|| {
            pool.install(|| {
                // Four threads at once.
                let all = Barrier::new(4);
                let first = AtomicBool::new(true);
                for_each_task(4, Work::Worthwhile, |_| {
                    all.wait();
                    if first.swap(false, Ordering::Relaxed) {
                        go.wait();
                    }
                    sleep(Duration::from_millis(300));
                });
            })
        });
        go.wait();
        pool.install(|| sleepers(4, Duration::from_millis(40)))
    });
    assert!(threads.len() > 1, "nobody helped in the second section");
}

#[test]
fn helpers_return_to_the_programs_own_work() {
    let _alone = alone();
    // One caller may have three of the pool's four threads as helpers, and two callers two.
    for callers in [1, 2] {
        let (met, deadline) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
        thread::scope(|scope| {
            for _ in 0..callers {
                scope.spawn(|| {
                    while !met.load(Ordering::Relaxed) && Instant::now() < deadline {
                        sleepers(16, Duration::from_micros(50));
                    }
                });
            }
            sleep(Duration::from_millis(5));
            // Jobs that end only when every thread of the pool has one.
            let all = Barrier::new(4);
            rayon::scope(|jobs| {
                for _ in 0..4 {
                    jobs.spawn(|_| {
                        all.wait();
                    });
                }
            });
            assert!(
                Instant::now() < deadline,
                "helpers of {callers} callers stayed as long as these computed"
            );
            met.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn more_callers_than_a_board_has_sections_for() {
    let _alone = alone();
    let all = Barrier::new(100);
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                all.wait();
                for _ in 0..20 {
                    let mut sums = [0; 8];
                    flex_tensor::parallel::for_each_chunk(&mut sums, 1, Work::Worthwhile, |k, sum| {
                        sum[0] += k;
                        sleep(Duration::from_micros(20));
                    });
                    assert_eq!(sums, [0, 1, 2, 3, 4, 5, 6, 7]);
                }
            });
        }
    });
}

#[test]
fn a_waiting_caller_sleeps() {
    let _alone = alone();
    // The caller's task is done at once; the helper's takes long.
    let begun = Barrier::new(2);
    let start = Instant::now();
    let before = processor_time();
    for_each_task(2, Work::Worthwhile, |k| {
        begun.wait();
        if k == 1 {
            sleep(Duration::from_millis(200));
        }
    });
    let (wall, used) = (start.elapsed(), processor_time() - before);
    assert!(wall >= Duration::from_millis(200));
    assert!(used <= Duration::from_millis(60), "{used:?} of a processor in {wall:?} of sleep");
}

/// Time that the processors spent on this process; zero where the system does not tell.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name in parentheses, the fields 14 and 15 (`man 5 proc_pid_stat`), in hundredths of a
    // second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}
