//! A parallel section in which the caller works from the start and helpers join when they wake up.
//!
//! `rayon`'s own iterators, called from a thread that is not one of its workers, hand all work over and
//! block: two wake-ups pass before the caller goes on. On a virtual machine each costs some 50 us, which made
//! operations of 100 us slower on two threads than on one. Here tasks are claimed from a counter. The caller
//! claims tasks like every helper, asks for helpers without waiting for them, and when no task is left waits
//! only for helpers in the middle of a task. The caller claims from the front and helpers from the back, so
//! that the data that one operation leaves in a core's own caches is what that core reads in the next
//! operation. A helper that comes too late finds the section closed.
//!
//! A [`Section`] serves one caller after the other and lives as long as its [board](super::board). So a
//! helper may look at it at any time, and no section costs an allocation.

use super::Tasks;
use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, UnsafeCell, spin_loop, yield_now};
use alloc::boxed::Box;
use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Bits of [`Section::state`] that count the helpers inside.
const INSIDE: u64 = 0xffff;

/// The amount that [`Section::state`] holds for each helper that may be inside at once.
const ALLOWED: u64 = 1 << 16;

/// Flag in [`Section::state`]: helpers may enter.
const OPEN: u64 = 1 << 32;

/// Flag in [`Section::state`]: the caller sleeps until the last helper has left.
const WAITING: u64 = 1 << 33;

/// Flag in [`Section::state`]: a caller uses the section.
const TAKEN: u64 = 1 << 34;

/// Most helpers that may be inside a section at once.
pub(super) const MAX_HELPERS: usize = INSIDE as usize;

/// The amount that [`Section::claimed`] grows by when a task is claimed from the back.
const BACK: u64 = 1 << 32;

/// Most tasks of a section: the claims of all threads must fit the halves of a counter.
pub(super) const MAX_TASKS: usize = 1 << 30;

/// Number of spins before the caller starts to yield its core while it waits for helpers (some 10 us).
const SPINS: usize = if cfg!(all(test, loom)) { 0 } else { 4096 };

/// How long the caller waits awake for helpers: the time that waking it takes, so that waiting costs at most
/// twice the best choice in hindsight.
const PATIENCE: Duration = if cfg!(all(test, loom)) { Duration::ZERO } else { Duration::from_micros(50) };

/// The payload of a panic.
pub(super) type Payload = Box<dyn Any + Send>;

/// The end of the list from which a thread claims tasks.
#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

/// The tasks of a section. Not a reference, because it outlives what it points at; threads inside the section
/// alone may look there.
#[derive(Clone, Copy)]
struct Job {
    task: *const dyn Tasks,
    tasks: usize,
}

/// See the [module](self).
///
/// One on each pair of cache lines, which processors fetch together: sections of other callers are written
/// all the time.
#[repr(align(128))]
pub(super) struct Section {
    /// Helpers inside, helpers allowed, and the flags. Zero when no caller uses the section.
    state: AtomicU64,
    /// Tasks claimed from the front (low half) and from the back (high half). When the sum is the number of
    /// tasks or more, no task is left.
    claimed: AtomicU64,
    /// Written by the caller that has taken the section, while it is not open; read by helpers inside.
    job: UnsafeCell<Option<Job>>,
    /// Whether `payload` is worth a look.
    panicked: AtomicBool,
    /// The payload of the first panic of a task.
    payload: Mutex<Option<Payload>>,
    /// The lock that a waiting caller sleeps on. It guards no data: the caller waits for `state`.
    door: Mutex<()>,
    left: Condvar,
}

// SAFETY: only `job` keeps the type from being `Send` and `Sync` by itself, for its pointer and its cell. The
// pointer leads to a `dyn Tasks`, which is `Sync`, so any thread may use it. The cell is written by the one
// caller whose compare-exchange took the section, before it opens the section, and is read by helpers only
// between `enter` and `leave`, when no caller writes it (see `Taken::open`).
unsafe impl Send for Section {}
// SAFETY: see above.
unsafe impl Sync for Section {}

impl Section {
    pub(super) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            payload: Mutex::new(None),
            door: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    /// Takes the section for a caller, unless another uses it.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        // The Acquire pairs with the Release of the caller that gave the section back.
        let free = self.state.load(Ordering::Relaxed) == 0
            && self.state.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Lazily: a `Taken` that is dropped gives the section back.
        free.then(|| Taken { section: self })
    }

    /// Lets a helper enter, unless the section is closed or full.
    ///
    /// The state may belong to an earlier section when it is read, and to a later section when it is
    /// exchanged. That does no harm: the helper is then inside of the later section, and learns its tasks
    /// after it has entered.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        let enter =
            |state: u64| (state & OPEN != 0 && state & INSIDE < state % OPEN / ALLOWED).then_some(state + 1);
        let entered = self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok();
        entered.then(|| Inside { section: self })
    }

    /// Whether a caller uses the section.
    pub(super) fn is_taken(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0
    }

    /// Number of helpers inside.
    pub(super) fn helpers(&self) -> usize {
        (self.state.load(Ordering::Relaxed) & INSIDE) as usize
    }

    /// Claims a task, and tells whether it is the last one.
    fn claim(&self, end: End, tasks: usize) -> Option<(usize, bool)> {
        let one = match end {
            End::Front => 1,
            End::Back => BACK,
        };
        let claimed = self.claimed.fetch_add(one, Ordering::Relaxed);
        let (front, back) = ((claimed % BACK) as usize, (claimed / BACK) as usize);
        let task = match end {
            End::Front => front,
            End::Back => (tasks - 1).wrapping_sub(back),
        };
        (front + back < tasks).then_some((task, front + back + 1 == tasks))
    }

    /// Runs tasks until none is left. Calls `on_claim` after each claim, with whether no task is left.
    ///
    /// Does not unwind: it runs foreign code (tasks, and the destructors of what they own) inside
    /// `catch_unwind` alone.
    ///
    /// # Safety
    /// `job` belongs to this section, and the section stays open or waits for this thread until the call
    /// ends.
    unsafe fn work(&self, end: End, job: Job, mut on_claim: impl FnMut(bool)) {
        // SAFETY: the caller of `Taken::open` keeps the tasks alive until the section is closed and every
        // helper has left. The caller of this function vouches that this does not happen before the function
        // returns.
        let task = unsafe { &*job.task };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            while let Some((k, last)) = self.claim(end, job.tasks) {
                on_claim(last);
                task.run(k);
            }
        }));
        if let Err(payload) = outcome {
            // Tasks that are not yet claimed need not run.
            self.claimed.store(MAX_TASKS as u64, Ordering::Relaxed);
            on_claim(true);
            self.keep(payload);
        }
    }

    /// The payload that [`keep`](Self::keep) kept, for the caller alone.
    fn payload(&self) -> Option<Payload> {
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panicked.store(false, Ordering::Relaxed);
        self.payload.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the payload of the first panic, which is the one that is reported.
    #[cold]
    fn keep(&self, payload: Payload) {
        let mut first = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
            self.panicked.store(true, Ordering::Relaxed);
        } else {
            // The destructor of a payload is foreign code, which may panic itself, so a later payload is
            // leaked.
            core::mem::forget(payload);
        }
    }
}

/// A helper inside a section; leaves when dropped.
pub(super) struct Inside<'a> {
    section: &'a Section,
}

impl Inside<'_> {
    /// Runs tasks as a helper until none is left. Calls `on_claim` as [`Section::work`] does.
    pub(super) fn help(&self, on_claim: impl FnMut(bool)) {
        // SAFETY: the caller writes the cell before it opens the section, and not again before every helper
        // has left. The Acquire of the exchange in `enter` makes that write visible.
        let job = self.section.job.with(|job| unsafe { *job });
        if let Some(job) = job {
            // SAFETY: it is the job of the section that this helper is inside of, and it leaves when dropped.
            unsafe { self.section.work(End::Back, job, on_claim) }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: what this helper did happens before the caller goes on.
        let before = self.section.state.fetch_sub(1, Ordering::Release);
        if before & WAITING != 0 && before & INSIDE == 1 {
            // From here on the section may belong to another caller. That one, if it sleeps too, looks at the
            // state and sleeps on. The lock is taken so that the notification cannot come between the
            // caller's look at the state and its sleep.
            let door = self.section.door.lock().unwrap_or_else(PoisonError::into_inner);
            self.section.left.notify_all();
            drop(door);
        }
    }
}

/// A section that a caller has taken. Free again when dropped.
pub(super) struct Taken<'a> {
    section: &'a Section,
}

impl<'a> Taken<'a> {
    /// Opens the section to at most `helpers` helpers at once.
    ///
    /// # Safety
    /// The returned [`Open`] must be dropped or [closed](Open::close) before `task` ends: only that waits for
    /// the helpers.
    pub(super) unsafe fn open(self, tasks: usize, task: &dyn Tasks, helpers: usize) -> Open<'a> {
        debug_assert!(0 < tasks && tasks <= MAX_TASKS && helpers <= MAX_HELPERS);
        // SAFETY: only the lifetime changes. The pointer is followed by threads inside the section alone.
        // This caller is inside until it closes the section, and closing waits for all helpers.
        let task = unsafe { core::mem::transmute::<*const dyn Tasks, *const (dyn Tasks + 'static)>(task) };
        let job = Job { task, tasks };
        let section = self.section;
        // SAFETY: no helper is inside. None was when the last caller gave the section back, which happens
        // before this caller took it, and none can enter before it is open.
        section.job.with_mut(|cell| unsafe { *cell = Some(job) });
        section.claimed.store(0, Ordering::Relaxed);
        // Release: a helper that enters sees the job and the counter.
        section.state.store(TAKEN | OPEN | (helpers as u64 * ALLOWED), Ordering::Release);
        Open { taken: self, job, is_open: true }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Release: the next caller finds the section as this one leaves it.
        self.section.state.store(0, Ordering::Release);
    }
}

/// A section that helpers may enter. Closed when dropped.
pub(super) struct Open<'a> {
    taken: Taken<'a>,
    job: Job,
    is_open: bool,
}

impl Open<'_> {
    /// Runs tasks as the caller until none is left. Calls `on_claim` after each claim, with whether no task
    /// is left. Does not unwind.
    pub(super) fn work(&self, on_claim: impl FnMut(bool)) {
        // SAFETY: it is the job of this section, which is closed by `self` alone.
        unsafe { self.taken.section.work(End::Front, self.job, on_claim) }
    }

    /// Number of helpers inside.
    pub(super) fn helpers(&self) -> usize {
        self.taken.section.helpers()
    }

    /// Waits until every helper has left, and returns the payload of the first panic.
    ///
    /// `forked` tells whether this process is a copy of the one that the helpers run in.
    pub(super) fn close(mut self, forked: impl Fn() -> bool) -> Option<Payload> {
        if let Err(Ghosts) = self.wait(&forked) {
            // The copied state counts helpers that this process does not have, so nobody can use it again.
            core::mem::forget(self);
            panic!(
                "flex-tensor: a process that was forked inside of a parallel section lacks the section's threads, \
                 and with them a part of the result"
            );
        }
        self.taken.section.payload()
    }

    /// Lets no helper enter any more, and waits until all have left.
    fn wait(&mut self, forked: &dyn Fn() -> bool) -> Result<(), Ghosts> {
        self.is_open = false;
        let state = &self.taken.section.state;
        // Acquire, here and below: what the helpers did happens before what comes next.
        if state.fetch_and(!OPEN, Ordering::Acquire) & INSIDE == 0 {
            return Ok(());
        }
        for _ in 0..SPINS {
            if state.load(Ordering::Acquire) & INSIDE == 0 {
                return Ok(());
            }
            spin_loop();
        }
        self.wait_long(forked)
    }

    #[cold]
    fn wait_long(&self, forked: &dyn Fn() -> bool) -> Result<(), Ghosts> {
        let Section { state, door, left, .. } = self.taken.section;
        if !PATIENCE.is_zero() {
            let start = Instant::now();
            while start.elapsed() < PATIENCE {
                if state.load(Ordering::Acquire) & INSIDE == 0 {
                    return Ok(());
                }
                yield_now();
            }
        }
        if forked() {
            return Err(Ghosts);
        }
        let mut guard = door.lock().unwrap_or_else(PoisonError::into_inner);
        // A helper that leaves after this sees the flag, and takes the lock before it notifies.
        state.fetch_or(WAITING, Ordering::Relaxed);
        while state.load(Ordering::Acquire) & INSIDE != 0 {
            guard = left.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

/// Helpers that this process does not have.
struct Ghosts;

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // The caller unwinds, by a panic outside of any task, which counts as the first one.
            let _ = self.wait(&|| false);
            core::mem::forget(self.taken.section.payload());
        }
    }
}
