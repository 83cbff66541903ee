//! The sections of one pool of threads, and the helpers that are awake for them.
//!
//! Every caller of the pool opens a section of its own, so callers do not take each other's helpers. A helper
//! works in any section that has tasks left, one after the other. When all sections of the board are taken, a
//! caller works alone.
//!
//! One word holds both which sections have tasks left and how many helpers are up. A caller that posts its
//! section learns in the same step how many helpers will see it, and wakes the missing ones. A helper goes in
//! a step that fails while any section is posted. So no section is overlooked, unless there are as many
//! callers as threads (see [`super::crowd`]).

use super::Tasks;
use super::crowd::Crowd;
use super::section::{MAX_HELPERS, MAX_TASKS, Section};
use super::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::storage::process;
use core::cell::Cell;
use std::panic::resume_unwind;

/// Number of sections, which are as many bits of [`Board::word`].
const SECTIONS: usize = if cfg!(all(test, loom)) { 2 } else { 48 };

/// The amount that [`Board::word`] holds for each helper that is up.
const UP: u64 = 1 << 48;

/// Models do not count callers: they have no clock, and every look would multiply the orders of their steps.
const IS_MODEL: bool = cfg!(all(test, loom));

/// Work done without a helper, in nanoseconds of one thread, after which a helper is woken for the next
/// operation.
const PRICE: usize = 50_000;

#[cfg(not(all(test, loom)))]
std::thread_local! {
    /// The section that this thread used last, nested ones left out. It is probably free, and its memory in
    /// the core's caches.
    static LAST: Cell<usize> = const { Cell::new(0) };

    /// Whether this thread runs a task of a section.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

#[cfg(all(test, loom))]
loom::thread_local! {
    static LAST: Cell<usize> = Cell::new(0);
    static IN_TASK: Cell<bool> = Cell::new(false);
}

/// The number of the section that this thread used last, nested ones left out; 0 if it used none.
fn last() -> usize {
    LAST.try_with(Cell::get).unwrap_or(0)
}

/// Whether this thread runs a task of a section. Its own sections are nested then, and it does not count as
/// another caller.
fn is_in_task() -> bool {
    IN_TASK.try_with(Cell::get).unwrap_or(false)
}

/// Runs `work`, which runs tasks and does not unwind.
fn in_task(work: impl FnOnce()) {
    let before = is_in_task();
    let _ = IN_TASK.try_with(|cell| cell.set(true));
    work();
    let _ = IN_TASK.try_with(|cell| cell.set(before));
}

/// Makes a number of helpers: other threads of the board's pool call [`serve`](super::standby::serve).
pub(super) type Spawn<'a> = &'a dyn Fn(usize);

/// See the [module](self).
pub(super) struct Board {
    /// Which sections are posted, that is, have tasks that nobody claimed (low 48 bits), and how many helpers
    /// are up: on their way, in a section, or spinning.
    word: CachePadded<AtomicU64>,
    /// Work done without a helper since one was last woken, in nanoseconds.
    alone: AtomicUsize,
    /// Upper bound of the number of sections that were ever taken at once: one as long as there is one
    /// caller, whose sections do not nest.
    used: AtomicUsize,
    /// Sections whose last use was nested, a bit for each. It only serves to count callers, which models do
    /// not do, so it is not loom's atomic.
    nested: core::sync::atomic::AtomicU64,
    /// The counts of simultaneous callers, once there were several.
    crowd: Crowd,
    /// The process in which the helpers run.
    process: u32,
    sections: [Section; SECTIONS],
}

/// Cache lines of its own: helpers spin on them.
#[repr(align(128))]
struct CachePadded<T>(T);

impl Board {
    pub(super) fn new() -> Self {
        Self {
            word: CachePadded(AtomicU64::new(0)),
            alone: AtomicUsize::new(0),
            used: AtomicUsize::new(1),
            nested: Default::default(),
            crowd: Crowd::new(),
            process: process::current(),
            sections: core::array::from_fn(|_| Section::new()),
        }
    }

    /// Whether this process was forked from the one that the pool's threads run in. It has none of them.
    pub(super) fn is_forked(&self) -> bool {
        self.process != process::current()
    }

    /// Whether a helper is awake or on its way.
    pub(super) fn is_awake(&self) -> bool {
        self.up(Ordering::Relaxed) > 0
    }

    fn up(&self, ordering: Ordering) -> usize {
        (self.word.0.load(ordering) / UP) as usize
    }

    /// Calls `task` with each number of `0..tasks` once, on this thread and on at most `most` helpers.
    ///
    /// # Panics
    /// With the panic of a task, after every thread has left the section; tasks that were not begun may be
    /// left out then.
    pub(super) fn run(&self, most: usize, tasks: usize, task: &dyn Tasks, spawn: Spawn) {
        let most = most.min(MAX_HELPERS);
        let helpers = most.min(tasks.saturating_sub(1));
        let is_nested = is_in_task();
        let taken = if helpers > 0 && tasks <= MAX_TASKS { self.take(is_nested) } else { None };
        let Some((number, taken)) = taken else {
            return (0..tasks).for_each(|k| task.run(k));
        };
        // Posted before it is open, so that a thread inside always finds the section posted, and a section
        // that it withdraws stays withdrawn. Release and Acquire, so that steps on the word are in the order
        // of its values.
        let before = self.word.0.fetch_or(1 << number, Ordering::AcqRel);
        // SAFETY: `open` is closed below, or dropped when this frame unwinds. Both happen before `task` ends.
        let open = unsafe { taken.open(tasks, task, helpers) };
        // Declared after `open`, so that it is dropped before, while the section still belongs to this
        // caller.
        let posted = Posted { board: self, number };
        if !is_nested {
            self.look_around(number, most);
        }
        let wanted = || (helpers + self.busy(number)).min(most);
        let first = wanted();
        if ((before / UP) as usize) < first {
            self.wake(first, spawn);
        }
        if self.alone.load(Ordering::Relaxed) != 0 {
            self.alone.store(0, Ordering::Relaxed);
        }
        let on_claim = |last| {
            if last {
                self.withdraw(number);
            } else if self.is_crowded() && self.up(Ordering::Relaxed) < most && open.helpers() < helpers {
                // Helpers that were free may have gone to other sections since, or made room for callers that
                // have gone.
                if !is_nested {
                    self.look_around(number, most);
                }
                self.wake(wanted(), spawn);
            }
        };
        in_task(|| open.work(on_claim));
        drop(posted);
        let payload = open.close(|| self.is_forked());
        if !is_nested {
            self.take_turns(most);
        }
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Counts the callers, if several sections have been in use at once. Called by the caller of section
    /// `number`, who may have `most` helpers.
    fn look_around(&self, number: usize, most: usize) {
        if !IS_MODEL && self.is_crowded() {
            self.crowd.note(number, most, || {
                let used = self.sections[..self.used.load(Ordering::Relaxed)].iter().enumerate();
                let taken = used.filter(|(_, section)| section.is_taken());
                taken.fold(0, |bits, (other, _)| bits | 1 << other) & !self.nested.load(Ordering::Relaxed)
            });
        }
    }

    /// Yields the core of a caller whose turn is over, if several sections have been in use at once. The
    /// caller uses no section, and may have `most` helpers.
    fn take_turns(&self, most: usize) {
        if !IS_MODEL && self.is_crowded() {
            self.crowd.take_turns(most + 1);
        }
    }

    /// Takes a section for a caller, or for a task of another section; `None` when all are taken.
    fn take(&self, is_nested: bool) -> Option<(usize, super::section::Taken<'_>)> {
        let last = last();
        (last..SECTIONS).chain(0..last).find_map(|number| {
            let taken = self.sections[number].take()?;
            if number >= self.used.load(Ordering::Relaxed) {
                self.used.fetch_max(number + 1, Ordering::Relaxed);
            }
            // Reading first mostly saves the exchange.
            if is_nested != (self.nested.load(Ordering::Relaxed) & 1 << number != 0) {
                self.nested.fetch_xor(1 << number, Ordering::Relaxed);
            }
            if number != last && !is_nested {
                let _ = LAST.try_with(|cell| cell.set(number));
            }
            Some((number, taken))
        })
    }

    /// Whether several sections have been in use at once.
    fn is_crowded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > 1
    }

    /// Number of helpers in other sections than `number`. They are up and may not come for long.
    fn busy(&self, number: usize) -> usize {
        if !self.is_crowded() {
            return 0;
        }
        let used = &self.sections[..self.used.load(Ordering::Relaxed)];
        used.iter()
            .enumerate()
            .filter(|&(other, _)| other != number)
            .map(|(_, section)| section.helpers())
            .sum()
    }

    /// Hides a section from helpers. Called by threads inside, and by the section's caller.
    fn withdraw(&self, number: usize) {
        // Reading first saves an exchange that all cores would have to agree on. A thread inside reads no
        // older value than the posting: the section was posted before it was opened, and entered after that.
        if self.word.0.load(Ordering::Relaxed) & (1 << number) != 0 {
            self.word.0.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }

    /// Counts work that an awake helper would have sped up; `nanoseconds` is the time that the work takes one
    /// thread. The caller may have `most` helpers.
    pub(super) fn work_alone(&self, nanoseconds: usize, most: usize, spawn: Spawn) {
        if self.alone.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds >= PRICE {
            self.alone.store(0, Ordering::Relaxed);
            // In a crowd no helper is awake, and operations that are small open no section.
            if !is_in_task() {
                self.look_around(last(), most);
                self.take_turns(most);
            }
            self.wake(1, spawn);
        }
    }

    /// Makes sure that `helpers` helpers are up, or as many as the callers leave room for.
    fn wake(&self, helpers: usize, spawn: Spawn) {
        let helpers = helpers.min(self.crowd.room());
        if self.up(Ordering::Relaxed) >= helpers || self.is_forked() {
            return;
        }
        let missing = |word| helpers.checked_sub((word / UP) as usize).filter(|&missing| missing > 0);
        let more = |word| missing(word).map(|missing| word + missing as u64 * UP);
        if let Ok(word) = self.word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more) {
            spawn(missing(word).unwrap_or(0));
        }
    }

    /// Helps in a posted section; `false` if there is none, or none with room and a task. `next` is the
    /// section to look at first, another one after each call that helped, so that all get help.
    pub(super) fn help(&self, next: &mut usize) -> bool {
        let posted = self.word.0.load(Ordering::Acquire) % UP;
        if posted == 0 {
            return false;
        }
        for number in (*next..SECTIONS).chain(0..*next) {
            if posted & (1 << number) == 0 {
                continue;
            }
            if let Some(inside) = self.sections[number].enter() {
                let mut helped = false;
                let on_claim = |last| {
                    helped = true;
                    if last {
                        self.withdraw(number);
                    }
                };
                in_task(|| inside.help(on_claim));
                drop(inside);
                if helped {
                    *next = (number + 1) % SECTIONS;
                    return true;
                }
            }
        }
        false
    }

    /// Lets a helper go when callers leave no room for it, even if sections are posted: their callers work.
    pub(super) fn retire(&self) -> bool {
        let room = self.crowd.room();
        if room == usize::MAX || self.up(Ordering::Relaxed) <= room {
            return false;
        }
        let go = |word| ((word / UP) as usize > room).then(|| word - UP);
        self.word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, go).is_ok()
    }

    /// Lets a helper go, unless a section is posted.
    pub(super) fn dismiss(&self) -> bool {
        let go = |word| (word % UP == 0).then(|| word - UP);
        self.word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, go).is_ok()
    }

    /// Lets a helper go whose turn is over. If there is one caller, it goes between two sections, as
    /// [`dismiss`](Self::dismiss) does. Several callers may leave no such moment, so there it goes at once:
    /// they look for missing helpers at each task.
    pub(super) fn relieve(&self) -> bool {
        if self.is_crowded() {
            self.word.0.fetch_sub(UP, Ordering::AcqRel);
            return true;
        }
        self.dismiss()
    }

    /// Number of helpers that are up.
    #[cfg(all(test, loom))]
    pub(super) fn helpers_up(&self) -> usize {
        self.up(Ordering::Acquire)
    }
}

/// A posted section; withdrawn when dropped.
struct Posted<'a> {
    board: &'a Board,
    number: usize,
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        self.board.withdraw(self.number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn nested_sections_are_no_further_callers() {
        let board = Board::new();
        let run = |tasks: &dyn Tasks| board.run(3, 2, tasks, &|_| {});
        // Many times as long as callers are counted for.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            run(&|_: usize| run(&|_: usize| ()));
            run(&|_: usize| ());
        }
        assert!(board.is_crowded(), "two sections were taken at once");
        assert!(board.crowd.room() >= 3, "the caller has {} helpers", board.crowd.room());
        assert!(!is_in_task());
        // A section that was nested counts again when it is not.
        assert_ne!(board.nested.load(Ordering::Relaxed), 0);
        let sections = (board.take(false), board.take(false));
        assert!(sections.0.is_some() && sections.1.is_some());
        assert_eq!(board.nested.load(Ordering::Relaxed), 0);
    }
}
