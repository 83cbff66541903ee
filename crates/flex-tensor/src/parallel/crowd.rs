//! Counts the callers of a pool, and shortens their turns if there are many.
//!
//! Callers work too. With as many callers as the pool has threads, every core has its caller, and a helper
//! would take a core from one caller to work for another. So callers and helpers together are at most as many
//! as the threads of the pool. A section that a task opens belongs to a caller or helper that counts already.
//!
//! With more callers than that, the system lets each run until its next tick (4 ms here) while the others
//! wait. A request that is answered within one turn is fast, and the next one waits for everybody's turn. So
//! callers take shorter turns: they [yield](Crowd::take_turns) between sections, or between operations where
//! those are too small for one.
//!
//! A caller that waits for its core is not seen to use a section, unless the system stopped it inside of one.
//! So callers that have yielded are counted, and a crowd is remembered for a while.
//!
//! Measured on two cores of a Zen 4 by `benches/callers.rs`: 99th percentiles of the latencies as multiples
//! of the fair share, with a counter that saw no waiting callers and with this one, for a model that takes
//! one core 0.8 ms. With 4 callers they are 4.4 to 6.2 and 1.3, with 16 callers 4.1 to 4.5 and 1.8 to 2.7.
//! The total throughput is the same. The total throughput of 16 callers of a model that takes 17 ms fell by
//! 4 %.
//!
//! A queue in which callers waited for their turns, first come, first served, had 1.0 to 1.6 fair shares with
//! 16 callers of the model of 0.8 ms. But 16 callers of transformer blocks of 2 and 17 ms answered 7 to 9 %
//! fewer requests in total.

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
// Not loom's: no result depends on them, and they would multiply the orders of its models.
use core::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::OnceLock;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Time over which callers are counted: longer than the pause between two sections of a busy caller.
const WINDOW: Duration = Duration::from_millis(1);

/// How long a caller works before it yields its core to the next, if there are as many callers as threads.
/// With 1 ms the 99th percentile of 16 callers (see above) was at 2.8 to 3.0 fair shares, with 2 ms at 3.1;
/// with 0.3 ms it is no better than with this.
const TURN: Duration = Duration::from_micros(700);

/// How long a crowd is remembered after it was last seen whole. A caller that the system stops between two
/// sections is not seen until it goes on, which takes as long as the turns of the other callers.
const MEMORY: Duration = Duration::from_millis(10);

std::thread_local! {
    /// When this thread's turn began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// See the [module](self). Counts are estimates: they decide who works, never what is computed.
pub(super) struct Crowd {
    /// The instant from which times are counted. Set when it is first needed: WebAssembly without a system
    /// has one thread and no clock.
    start: OnceLock<Instant>,
    /// Begin of the window, in nanoseconds.
    window: AtomicU64,
    /// The sections that callers used in the window, a bit for each.
    used: AtomicU64,
    /// Callers that have yielded their core, and use no section meanwhile.
    waiting: AtomicUsize,
    /// The most callers of a window within [`MEMORY`], some of them perhaps counted twice.
    callers: AtomicUsize,
    /// When the number in `callers` was last seen, in nanoseconds.
    seen: AtomicU64,
    /// Number of helpers that may be up.
    room: AtomicUsize,
}

impl Crowd {
    /// Age of a window, in nanoseconds, from which on it tells nothing about the callers that are there now.
    const LONG: u64 = 20 * WINDOW.as_nanos() as u64;

    pub(super) fn new() -> Self {
        Self {
            start: OnceLock::new(),
            window: AtomicU64::new(0),
            used: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            callers: AtomicUsize::new(1),
            seen: AtomicU64::new(0),
            room: AtomicUsize::new(usize::MAX),
        }
    }

    fn now(&self) -> u64 {
        self.start.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    /// Notes that a caller uses the section `number`. Counts the callers when the window is over; `taken`
    /// tells which sections are taken, by callers that may have lost their core. A pool without other callers
    /// may have `most` helpers.
    pub(super) fn note(&self, number: usize, most: usize, taken: impl FnOnce() -> u64) {
        self.note_at(self.now(), number, most, taken);
    }

    /// [`note`](Self::note) at a time.
    fn note_at(&self, now: u64, number: usize, most: usize, taken: impl FnOnce() -> u64) {
        if self.used.load(Relaxed) & (1 << number) == 0 {
            self.used.fetch_or(1 << number, Relaxed);
        }
        let window = self.window.load(Relaxed);
        let age = now.saturating_sub(window);
        if age >= WINDOW.as_nanos() as u64
            && self.window.compare_exchange(window, now, Relaxed, Relaxed).is_ok()
        {
            let mut used = self.used.swap(0, Relaxed);
            if age >= Self::LONG {
                // Nobody closed the window while it was due: the crowd has gone.
                used = 0;
            }
            used |= taken() | 1 << number;
            let callers = used.count_ones() as usize + self.waiting.load(Relaxed);
            let is_remembered = now.saturating_sub(self.seen.load(Relaxed)) < MEMORY.as_nanos() as u64;
            if callers >= self.callers.load(Relaxed) || !is_remembered {
                self.seen.store(now, Relaxed);
                self.callers.store(callers, Relaxed);
                self.room.store(most.saturating_sub(callers - 1), Relaxed);
            }
        }
    }

    /// Number of helpers that may be up.
    pub(super) fn room(&self) -> usize {
        self.room.load(Relaxed)
    }

    /// Yields the core when the turn of this caller is over and there are as many callers as `threads`, or
    /// more: further callers may wait unseen for a core. Called while the caller uses no section.
    pub(super) fn take_turns(&self, threads: usize) {
        if self.callers.load(Relaxed) < threads {
            return;
        }
        let now = Instant::now();
        let is_over = |begun: Option<Instant>| begun.is_none_or(|begun| now - begun >= TURN);
        if BEGUN.try_with(Cell::get).is_ok_and(is_over) {
            self.waiting.fetch_add(1, Relaxed);
            yield_now();
            self.waiting.fetch_sub(1, Relaxed);
            let _ = BEGUN.try_with(|begun| begun.set(Some(Instant::now())));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn callers_take_the_place_of_helpers_while_they_are_there() {
        let crowd = Crowd::new();
        let length = WINDOW.as_nanos() as u64;
        assert_eq!(crowd.room(), usize::MAX);
        // Callers note their sections, and the last one in the time after the window.
        let room = |windows: u64, noted: &[usize], taken: u64| {
            let now = windows * length;
            noted.iter().for_each(|&number| crowd.note_at(now, number, 7, || taken));
            crowd.note_at(now + length, noted[0], 7, || taken);
            (crowd.callers.load(Relaxed), crowd.room())
        };
        assert_eq!(room(0, &[0], 0), (1, 7));
        assert_eq!(room(1, &[0, 1, 2], 0), (3, 5));
        assert_eq!(room(2, &[0, 1], 0b1110), (4, 4), "callers that wait for a core count");
        crowd.waiting.store(2, Relaxed);
        assert_eq!(room(3, &[0, 1, 2], 0), (5, 3), "callers that yielded theirs do");
        crowd.waiting.store(0, Relaxed);
        let memory = (MEMORY.as_nanos() / WINDOW.as_nanos()) as u64;
        assert_eq!(room(2 + memory, &[3], 0), (5, 3), "the others may come again");
        assert_eq!(room(3 + memory, &[3], 0), (1, 7), "they have gone");
        assert_eq!(room(4 + memory, &[0, 1], 0xffff), (16, 0));
        // A crowd that ended within a window is not taken for one that is there when the next caller comes.
        let last = 6 + memory;
        (0..4).for_each(|number| crowd.note_at(last * length, number, 7, || 0));
        crowd.note_at((last + 100) * length, 0, 7, || 0);
        assert_eq!((crowd.callers.load(Relaxed), crowd.room()), (1, 7));
    }
}
