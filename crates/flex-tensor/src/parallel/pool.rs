//! Which [board](super::board) serves the calling thread, and rayon's pools, whose threads are the helpers.
//!
//! Each pool has a board, and its threads help nobody else: who limits or pins a pool does it on purpose, and
//! a pool that is busy keeps no other from working. Threads outside of any pool belong to the global pool.
//!
//! Rayon does not tell which pool a thread belongs to. So a thread of a pool makes a board when it needs one
//! first, and its calls for helpers carry the board to others. A helper that knows two boards has found two
//! of the same pool: it notes the older one as the [elder](Numbered::elder) of the younger one, and all who
//! use the younger one move on to its elder. So threads that help each other agree in the end. The board of
//! the global pool is older than any.
//!
//! The board is not broadcast to all threads of a pool, since a pool may have a thread that never listens:
//! the thread that built it (`use_current_thread`). The pool would wait for that thread when it ends.
//!
//! A process that is forked while another thread starts the global pool has neither that thread nor the pool,
//! and both this crate's and rayon's cells stay locked there. It computes on one thread, without them.

use super::Tasks;
use super::board::Board;
use super::standby::serve;
use crate::storage::process;
use alloc::sync::Arc;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::OnceLock;
use std::time::Duration;

/// How long a helper stays before it looks for other work in its pool. Whole models on two cores take as long
/// as with helpers that stay.
const TURN: Duration = Duration::from_millis(50);

/// A board with its place in the order of all boards.
struct Numbered {
    board: Board,
    /// Zero for the board of the global pool.
    number: usize,
    /// An older board of the same pool, to be used in place of this one.
    elder: OnceLock<Arc<Numbered>>,
}

impl Numbered {
    fn new(number: usize) -> Arc<Self> {
        Arc::new(Self { board: Board::new(), number, elder: OnceLock::new() })
    }

    /// The oldest board that is known of the same pool. Elders have smaller numbers, so the walk ends.
    fn eldest(self: &Arc<Self>) -> &Arc<Self> {
        let mut board = self;
        while let Some(elder) = board.elder.get() {
            board = elder;
        }
        board
    }
}

/// The global pool.
struct Global {
    board: Arc<Numbered>,
    threads: usize,
}

static GLOBAL: OnceLock<Global> = OnceLock::new();

/// The process that began to start the global pool; zero before that.
static STARTER: AtomicU32 = AtomicU32::new(0);

/// Number of boards made so far.
static BOARDS: AtomicUsize = AtomicUsize::new(1);

std::thread_local! {
    /// The board of the pool that this thread belongs to. Empty outside of pools, and before the thread heard
    /// of a board.
    static BOARD: RefCell<Option<Arc<Numbered>>> = const { RefCell::new(None) };
}

/// The global pool. `None` in a process that was forked while another thread started it.
fn global() -> Option<&'static Global> {
    GLOBAL.get().or_else(start_global)
}

#[cold]
fn start_global() -> Option<&'static Global> {
    let process = process::current();
    // Noted before `GLOBAL` and rayon's cells are locked, so that a process whose copy of the memory has a
    // locked cell also has this note.
    let starter = STARTER.compare_exchange(0, process, Ordering::SeqCst, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if starter.is_err_and(|starter| starter != process) {
        return None;
    }
    Some(GLOBAL.get_or_init(|| Global { board: Numbered::new(0), threads: global_threads() }))
}

/// Starts rayon's global pool, and returns its number of threads. One if the system refuses threads: then
/// every question to the pool panics.
#[cold]
fn global_threads() -> usize {
    // WebAssembly without threads is for rayon to find out: `build_global` would fail there, where the first
    // use of the pool makes do with this thread.
    #[cfg(not(target_family = "wasm"))]
    if let Err(error) = rayon::ThreadPoolBuilder::new().build_global()
        && std::error::Error::source(&error).is_some()
    {
        return 1;
    }
    // The program built the pool itself, perhaps in vain.
    std::panic::catch_unwind(rayon::current_num_threads).unwrap_or(1)
}

/// Calls `f` with the calling thread's board and the number of threads of its pool. `None` when there is no
/// [global] pool, or the thread is about to end, and has no thread-local data any more.
fn with_board<R>(f: impl FnOnce(&Arc<Numbered>, usize) -> R) -> Option<R> {
    if rayon::current_thread_index().is_none() {
        let Global { board, threads } = global()?;
        return Some(f(board, *threads));
    }
    let make = || Numbered::new(BOARDS.fetch_add(1, Ordering::Relaxed));
    let settled = |board: &RefCell<Option<Arc<Numbered>>>| {
        let mut board = board.borrow_mut();
        let known = board.get_or_insert_with(make);
        if known.elder.get().is_some() {
            *known = known.eldest().clone();
        }
        // Cloned, because tasks run while `f` does, and this thread may settle for another board meanwhile.
        known.clone()
    };
    let board = BOARD.try_with(settled).ok()?;
    Some(f(&board, rayon::current_num_threads()))
}

/// Tells a thread of a pool a board of the pool. If the thread knows another one, users of the younger of the
/// two will move on to the older one.
fn settle(new: &Arc<Numbered>) {
    let _ = BOARD.try_with(|board| {
        let mut board = board.borrow_mut();
        let new = new.eldest();
        let eldest = match board.as_ref().map(Numbered::eldest) {
            Some(old) if old.number < new.number => {
                // In vain if another helper was faster. Its note will do: boards are merged pair by pair.
                let _ = new.elder.set(old.clone());
                old
            }
            Some(old) if new.number < old.number => {
                let _ = old.elder.set(new.clone());
                new
            }
            _ => new,
        };
        // The old board is dropped here unless others use it. Nothing of it is foreign code.
        *board = Some(Arc::clone(eldest));
    });
}

/// A call for helpers, which more threads hear than are wanted.
struct HelperCall {
    board: Arc<Numbered>,
    /// Number of helpers that have not come yet.
    wanted: AtomicUsize,
    /// The place in its pool of the thread that called; `None` for a thread outside of the pool.
    caller: Option<usize>,
}

impl HelperCall {
    /// Helps, if a helper is still wanted.
    fn answer(&self) {
        settle(&self.board);
        // Relaxed: the number alone decides, and nothing else depends on its order.
        let come = |wanted: usize| wanted.checked_sub(1);
        if self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, come).is_ok() {
            // A caller that finds its own call, between two jobs of rayon's, has no section that it could
            // wait for: it would keep its own next job waiting.
            let lingers = self.caller.is_none() || self.caller != rayon::current_thread_index();
            serve(&self.board.board, TURN, lingers);
        }
    }
}

/// Asks the calling thread's pool for helpers, without waiting for them.
///
/// One thread more than needed is asked, and the first to come help. A system that is busy may queue a woken
/// thread on the core of the caller, which works on, while another core idles until the scheduler's next
/// tick, up to 4 ms later. On two cores, after other work of rayon's, that happened to a fourth of the
/// wake-ups when one thread was asked: the 90th percentile of the time of a product of two 512x512 matrices
/// was 2.39 ms, as on one thread, and is 1.29 ms.
fn spawn(board: &Arc<Numbered>, helpers: usize) {
    let call = Arc::new(HelperCall {
        board: board.clone(),
        wanted: AtomicUsize::new(helpers),
        caller: rayon::current_thread_index(),
    });
    for _ in 0..=helpers {
        let call = call.clone();
        rayon::spawn(move || call.answer());
    }
}

/// Number of threads that parallel sections use.
pub(super) fn threads() -> usize {
    match rayon::current_thread_index() {
        Some(_) => rayon::current_num_threads(),
        None => global().map_or(1, |global| global.threads),
    }
}

/// Whether a helper is awake or on its way.
pub(super) fn is_awake() -> bool {
    if rayon::current_thread_index().is_none() {
        return global().is_some_and(|global| global.board.board.is_awake());
    }
    let is_awake = |board: &RefCell<Option<Arc<Numbered>>>| {
        board.borrow().as_ref().is_some_and(|board| board.board.is_awake())
    };
    BOARD.try_with(is_awake).unwrap_or(false)
}

/// Counts work that an awake helper would have sped up; `nanoseconds` is the time that the work takes one
/// thread.
pub(super) fn work_alone(nanoseconds: usize) {
    with_board(|board, threads| {
        board.board.work_alone(nanoseconds, threads - 1, &|helpers| spawn(board, helpers));
    });
}

/// Calls `task` with each number of `0..tasks` once, on this thread and on the threads of its pool that come
/// to help.
///
/// # Panics
/// With the panic of a task, after every thread has left the section; tasks that were not begun may be left
/// out then.
pub(super) fn run(tasks: usize, task: &dyn Tasks) {
    let parallel = with_board(|board, threads| {
        board.board.run(threads - 1, tasks, task, &|helpers| spawn(board, helpers));
    });
    if parallel.is_none() {
        (0..tasks).for_each(|k| task.run(k));
    }
}

#[cfg(test)]
mod tests;
