//! How many callers a pool has at a time, and what follows if they are many.
//!
//! Callers work too. With as many callers as the pool has threads, every core has its caller, and a helper
//! would take a core from one caller to work for another. So callers and helpers together are at most as many
//! as the threads of the pool.
//!
//! With more callers than that, the system lets each run for some milliseconds (up to ten) while the others
//! wait. A request that is answered within one turn is fast, and the next one waits for everybody's turn. So
//! callers take shorter turns: they [yield](Crowd::take_turns) between sections.
//!
//! Measured on two cores by `benches/callers.rs`, the 99th percentile of the latencies before and after: 16
//! callers of a model that takes one core 1.1 ms, 45 and 25 ms; 16 callers of one that takes 2.3 ms, 46 and
//! 38; two callers of the latter, 5.9 and 3.4. The total throughput of 16 fell by 2 %.

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
// Not loom's: no result depends on them, and they would multiply the orders of its models.
use core::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Time over which callers are counted: longer than the pause between two sections of a busy caller.
const WINDOW: Duration = Duration::from_millis(1);

/// How long a caller works before it yields its core to the next, if there are more callers than threads.
const TURN: Duration = Duration::from_millis(1);

std::thread_local! {
    /// When this thread's turn began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// See the [module](self). Counts are estimates: they decide who works, never what is computed.
pub(super) struct Crowd {
    /// What the times are counted from.
    start: Instant,
    /// Begin of the window, in nanoseconds.
    window: AtomicU64,
    /// The sections that callers used in the window, a bit for each.
    used: AtomicU64,
    /// Callers in the last window.
    callers: AtomicUsize,
    /// Number of helpers that may be up.
    room: AtomicUsize,
}

impl Crowd {
    /// Age of a window, in nanoseconds, from which on it tells nothing about the callers that are there now.
    const LONG: u64 = 20 * WINDOW.as_nanos() as u64;

    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            window: AtomicU64::new(0),
            used: AtomicU64::new(0),
            callers: AtomicUsize::new(1),
            room: AtomicUsize::new(usize::MAX),
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
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
            let callers = used.count_ones() as usize;
            self.callers.store(callers, Relaxed);
            self.room.store(most.saturating_sub(callers - 1), Relaxed);
        }
    }

    /// Forgets a crowd that was last seen long ago. Called where no section is used.
    pub(super) fn forget(&self) {
        if self.room() < usize::MAX {
            self.forget_at(self.now());
        }
    }

    /// [`forget`](Self::forget) at a time.
    fn forget_at(&self, now: u64) {
        if now.saturating_sub(self.window.load(Relaxed)) >= 2 * WINDOW.as_nanos() as u64 {
            self.callers.store(1, Relaxed);
            self.room.store(usize::MAX, Relaxed);
        }
    }

    /// Number of helpers that may be up.
    pub(super) fn room(&self) -> usize {
        self.room.load(Relaxed)
    }

    /// Yields the core when the turn of this caller is over and there are more callers than `threads`.
    /// Called while the caller uses no section.
    pub(super) fn take_turns(&self, threads: usize) {
        if self.callers.load(Relaxed) <= threads {
            return;
        }
        let now = Instant::now();
        let is_over = |begun: Option<Instant>| begun.is_none_or(|begun| now - begun >= TURN);
        if BEGUN.try_with(Cell::get).is_ok_and(is_over) {
            yield_now();
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
        assert_eq!(room(3, &[0, 1], 0xffff), (16, 0));
        assert_eq!(room(4, &[3], 0), (1, 7), "the others have gone");
        assert_eq!(room(5, &[0, 1], 0), (2, 6));
        crowd.forget_at(7 * length);
        assert_eq!(crowd.room(), 6, "just seen");
        crowd.forget_at(8 * length);
        assert_eq!((crowd.callers.load(Relaxed), crowd.room()), (1, usize::MAX));
        // A crowd that ended within a window is not taken for one that is there when the next caller comes.
        assert_eq!(room(10, &[0, 1, 2, 3], 0), (4, 4));
        (0..4).for_each(|number| crowd.note_at(11 * length + 1, number, 7, || 0));
        crowd.note_at(100 * length, 0, 7, || 0);
        assert_eq!((crowd.callers.load(Relaxed), crowd.room()), (1, 7));
    }
}
