//! A parallel section in which the caller works from the start and helpers join when they wake up.
//!
//! `rayon`'s own iterators, called from a thread that is not one of its workers, hand all work over and
//! block: two wake-ups pass before the caller goes on. On a virtual machine each costs some 50 us, which made
//! operations of 100 us slower on two threads than on one. Here tasks are claimed from a counter. The caller
//! claims tasks like every helper, asks the pool for helpers without waiting for them, and when no task is
//! left waits only for helpers in the middle of a task. The caller claims from the front and helpers from the
//! back, so that the data that one operation leaves in a core's own caches is what that core reads in the
//! next operation. A helper that comes too late finds the section closed, and stays on [standby] for the next
//! section.

use super::{Tasks, standby};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Flag in [`Section::inside`]: no helper may enter any more. The other bits count the helpers inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The amount that [`Section::claimed`] grows by when a task is claimed from the back.
const BACK: u64 = 1 << 32;

/// Sections with more tasks, which do not occur, run on the caller alone: the claims of all threads must fit
/// the halves of a counter.
const MAX_TASKS: usize = 1 << 30;

#[derive(Clone, Copy)]
enum Claim {
    Caller,
    Helper,
}

/// Number of spins before the caller starts to yield its core while it waits for helpers (some 10 us).
const SPINS: usize = 4096;

pub(super) struct Section {
    /// The tasks. Only threads inside the section may run them: see [`Section::enter`].
    task: &'static dyn Tasks,
    tasks: usize,
    /// Maximum number of threads that may help at once: the caller's pool has no more.
    helpers: usize,
    /// Tasks claimed from the front (low half) and from the back (high half). When the sum is `tasks` or
    /// more, no task is left.
    claimed: AtomicU64,
    /// Helpers inside, and whether the section is [`CLOSED`].
    inside: AtomicUsize,
    /// The payload of the first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Section {
    /// Lets a helper enter, unless the section is closed or full. The caller of [`run`] stays in it until
    /// every helper that entered has left.
    fn enter(&self) -> bool {
        // A closed section counts as full.
        let enter = |inside| (inside < self.helpers).then_some(inside + 1);
        self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::Release);
    }

    /// Runs tasks as a helper, unless the section is closed or full.
    pub(super) fn help(&self) {
        if self.enter() {
            // Leaves when dropped, so that the caller would not wait for ever if `work` unwound.
            let _inside = Inside(self);
            self.work(Claim::Helper);
        }
    }

    fn claim(&self, claim: Claim) -> Option<usize> {
        let one = match claim {
            Claim::Caller => 1,
            Claim::Helper => BACK,
        };
        let claimed = self.claimed.fetch_add(one, Ordering::Relaxed);
        let (front, back) = ((claimed % BACK) as usize, (claimed / BACK) as usize);
        (front + back < self.tasks).then(|| match claim {
            Claim::Caller => front,
            Claim::Helper => self.tasks - 1 - back,
        })
    }

    /// Runs tasks until none is left. Does not unwind: it runs foreign code (tasks, and the destructors of
    /// what they own) inside `catch_unwind` alone.
    fn work(&self, claim: Claim) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            while let Some(k) = self.claim(claim) {
                self.task.run(k);
            }
        }));
        if let Err(payload) = outcome {
            // Tasks that are not yet claimed need not run.
            self.claimed.store(MAX_TASKS as u64, Ordering::Relaxed);
            let mut slot = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.is_none() {
                *slot = Some(payload);
            } else {
                // The first panic is the one that is reported. The destructor of a payload is foreign code,
                // which may panic itself, so a later payload is leaked.
                core::mem::forget(payload);
            }
        }
    }

    fn close(&self) {
        self.inside.fetch_or(CLOSED, Ordering::Relaxed);
        let mut spins = 0;
        while self.inside.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins < SPINS { spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// A helper inside a section.
struct Inside<'a>(&'a Section);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A section that helpers may enter.
struct Open<'a>(&'a Section);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Calls `task` with each number of `0..tasks` once, on this thread and on the threads of the pool that come
/// to help.
///
/// # Panics
/// With the panic of a task, after every thread has left the section; tasks that were not begun may be left
/// out then.
pub(super) fn run(tasks: usize, task: &dyn Tasks) {
    // SAFETY: the extended lifetime is never relied on beyond this call. `task` is called by this thread
    // below, and by helpers between `enter` and `leave`. `close` returns only when no helper is inside and
    // none can enter any more; it is reached on every path, since `Open` calls it when dropped, and its
    // Acquire load pairs with the Release of each `leave`, which `Inside` calls when dropped. A helper that
    // finds the section closed drops its handle without looking at `task`.
    let task = unsafe { core::mem::transmute::<&dyn Tasks, &'static dyn Tasks>(task) };
    if tasks > MAX_TASKS {
        return (0..tasks).for_each(|k| task.run(k));
    }
    let helpers = (rayon::current_num_threads() - 1).min(tasks.saturating_sub(1));
    let section = Arc::new(Section {
        task,
        tasks,
        helpers,
        claimed: AtomicU64::new(0),
        inside: AtomicUsize::new(0),
        panic: Mutex::new(None),
    });
    if helpers > 0 {
        standby::call(&section, helpers);
    }
    // Closes when dropped: no helper may go on over `task` once this frame is gone, even if `work` unwound.
    let open = Open(&section);
    section.work(Claim::Caller);
    drop(open);
    let panic = section.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::sync::atomic::AtomicBool;

    fn run(tasks: usize, task: &(impl Fn(usize) + Sync)) {
        super::run(tasks, task);
    }

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    #[test]
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
}
