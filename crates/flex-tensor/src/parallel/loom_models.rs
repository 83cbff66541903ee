//! Models of the scheduler: loom runs every order of the threads' steps, up to a number of preemptions, and
//! every value that a load may return.
//!
//! Loom fails a model in which all threads wait for each other, in which two threads access a cell without an
//! order between them, or in which an assertion fails.

use super::board::Board;
use super::standby::serve;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// Runs a model in all orders with at most two preemptions, or with `LOOM_MAX_PREEMPTIONS`.
fn model(f: impl Fn() + Send + Sync + 'static) {
    model_to(usize::MAX, f);
}

/// [`model`] with at most `preemptions` preemptions.
fn model_to(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2).min(preemptions));
    builder.check(f);
}

/// [`run_in_turns`] with helpers whose turns do not end.
fn run(board: &Arc<Board>, most: usize, tasks: usize, task: impl Fn(usize) + Sync) {
    run_in_turns(Duration::MAX, board, most, tasks, task);
}

/// [`Board::run`] with threads of loom's as helpers. `Arc` is `core`'s: a board that goes has no more steps.
fn run_in_turns(turn: Duration, board: &Arc<Board>, most: usize, tasks: usize, task: impl Fn(usize) + Sync) {
    board.run(most, tasks, &task, &|helpers| {
        for _ in 0..helpers {
            let board = board.clone();
            thread::spawn(move || serve(&board, turn, true));
        }
    });
}

/// Counts of how often tasks ran, in cells whose accesses loom checks. They must be read by the caller only
/// after every task, and never be written after that.
struct Counts<const N: usize>([UnsafeCell<usize>; N]);

// SAFETY: loom reports accesses that overlap.
unsafe impl<const N: usize> Sync for Counts<N> {}

impl<const N: usize> Counts<N> {
    fn new() -> Self {
        Self(core::array::from_fn(|_| UnsafeCell::new(0)))
    }

    fn count(&self, k: usize) {
        // SAFETY: loom reports accesses that overlap.
        self.0[k].with_mut(|count| unsafe { *count += 1 });
    }

    fn assert_once(&self) {
        for count in &self.0 {
            // SAFETY: loom reports accesses that overlap.
            assert_eq!(count.with(|count| unsafe { *count }), 1);
        }
    }
}

#[test]
fn loom_each_task_runs_once_and_before_the_section_returns() {
    model(|| {
        let board = Arc::new(Board::new());
        let counts = Counts::<3>::new();
        run(&board, 1, 3, |k| counts.count(k));
        counts.assert_once();
    });
}

#[test]
fn loom_two_helpers_share_a_section() {
    // With more preemptions loom finds an order without an end: two helpers that yield to each other for
    // ever, while the caller is about to open the section.
    model_to(1, || {
        let board = Arc::new(Board::new());
        let counts = Counts::<3>::new();
        run(&board, 2, 3, |k| counts.count(k));
        counts.assert_once();
    });
}

#[test]
fn loom_a_helper_meets_one_section_after_the_other() {
    model(|| {
        let board = Arc::new(Board::new());
        for _ in 0..2 {
            let counts = Counts::<2>::new();
            run(&board, 1, 2, |k| counts.count(k));
            counts.assert_once();
        }
    });
}

#[test]
fn loom_two_callers_share_a_helper() {
    model(|| {
        let board = Arc::new(Board::new());
        let other = {
            let board = board.clone();
            thread::spawn(move || {
                let counts = Counts::<2>::new();
                run(&board, 1, 2, |k| counts.count(k));
                counts.assert_once();
            })
        };
        let counts = Counts::<2>::new();
        run(&board, 1, 2, |k| counts.count(k));
        counts.assert_once();
        other.join().unwrap();
    });
}

#[test]
fn loom_sections_nest() {
    model(|| {
        let board = Arc::new(Board::new());
        let counts = Counts::<4>::new();
        run(&board, 1, 2, |outer| run(&board, 1, 2, |inner| counts.count(2 * outer + inner)));
        counts.assert_once();
    });
}

/// Two tasks, of which the first ends only when another thread has done the second.
fn pair(turn: Duration, board: &Arc<Board>) {
    let (done, news) = (Mutex::new(false), Condvar::new());
    run_in_turns(turn, board, 1, 2, |k| {
        let mut done = done.lock().unwrap();
        if k == 1 {
            *done = true;
            news.notify_one();
        }
        while !*done {
            done = news.wait(done).unwrap();
        }
    });
}

#[test]
fn loom_no_section_is_overlooked_by_a_helper_that_is_about_to_go() {
    for turn in [Duration::MAX, Duration::ZERO] {
        model(move || {
            let board = Arc::new(Board::new());
            pair(turn, &board);
            // The helper is looking, about to go, or gone.
            pair(turn, &board);
        });
    }
}

#[test]
fn loom_no_section_is_overlooked_after_another_callers() {
    model(|| {
        let board = Arc::new(Board::new());
        let other = {
            let board = board.clone();
            thread::spawn(move || run(&board, 1, 2, |_| {}))
        };
        pair(Duration::MAX, &board);
        other.join().unwrap();
    });
}

#[test]
fn loom_helpers_go_in_the_end() {
    model(|| {
        let board = Arc::new(Board::new());
        let helper = Mutex::new(None);
        board.run(1, 2, &|_: usize| {}, &|_| {
            let board = board.clone();
            *helper.lock().unwrap() = Some(thread::spawn(move || serve(&board, Duration::MAX, true)));
        });
        if let Some(helper) = helper.into_inner().unwrap() {
            helper.join().unwrap();
        }
        assert_eq!(board.helpers_up(), 0);
    });
}

#[test]
fn loom_helpers_of_two_callers_go_when_their_turn_is_over() {
    model_to(1, || {
        let board = Arc::new(Board::new());
        let other = {
            let board = board.clone();
            thread::spawn(move || run_in_turns(Duration::ZERO, &board, 1, 2, |_| {}))
        };
        let counts = Counts::<3>::new();
        run_in_turns(Duration::ZERO, &board, 1, 3, |k| counts.count(k));
        counts.assert_once();
        other.join().unwrap();
        assert!(board.helpers_up() <= 1, "a helper that is on its way, or about to go");
    });
}

#[test]
fn loom_work_alone_wakes_one_helper() {
    model(|| {
        let board = Arc::new(Board::new());
        let wakes = Arc::new(core::sync::atomic::AtomicUsize::new(0));
        let work = |board: &Board, wakes: &core::sync::atomic::AtomicUsize| {
            board.work_alone(30_000, 1, &|helpers| {
                wakes.fetch_add(helpers, Relaxed);
            })
        };
        let other = {
            let (board, wakes) = (board.clone(), wakes.clone());
            thread::spawn(move || work(&board, &wakes))
        };
        work(&board, &wakes);
        other.join().unwrap();
        assert!(board.is_awake());
        assert_eq!((wakes.load(Relaxed), board.helpers_up()), (1, 1));
    });
}

/// The payload of a panic whose destructor panics too.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("payload {} is dropped", self.0);
    }
}

#[test]
fn loom_the_first_of_two_panics_comes_and_no_payload_is_dropped() {
    model(|| {
        let board = Arc::new(Board::new());
        let ran = core::sync::atomic::AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(&board, 1, 2, |k| {
                ran.fetch_add(1, Relaxed);
                resume_unwind(Box::new(Bomb(k)));
            })
        }));
        let payload = outcome.unwrap_err().downcast::<Bomb>().unwrap();
        assert!(payload.0 < 2 && (1..=2).contains(&ran.load(Relaxed)));
        core::mem::forget(payload);
        // The next caller finds nothing of it.
        let counts = Counts::<2>::new();
        run(&board, 1, 2, |k| counts.count(k));
        counts.assert_once();
    });
}

#[test]
fn loom_no_task_runs_twice_after_a_panic() {
    model(|| {
        let board = Arc::new(Board::new());
        let ran = core::array::from_fn::<_, 3, _>(|_| core::sync::atomic::AtomicUsize::new(0));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(&board, 1, 3, |k| {
                ran[k].fetch_add(1, Relaxed);
                if k == 0 {
                    resume_unwind(Box::new(k));
                }
            })
        }));
        assert_eq!(*outcome.unwrap_err().downcast::<usize>().unwrap(), 0);
        for (k, ran) in ran.iter().enumerate() {
            assert!(ran.load(Relaxed) <= 1, "task {k} ran again after the panic of task 0");
        }
    });
}
