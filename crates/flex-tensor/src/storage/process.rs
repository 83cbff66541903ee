//! Whether this process is a fork of the process that first used the engine.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// A process, and how many forks lie between the process that first took one of the engine's locks and this
/// one. In one word, so that a thread which learns of a fork by another thread learns both.
#[derive(Clone, Copy)]
struct Known {
    process: u32,
    generation: u32,
}

/// The process as far as it is known: the first that took a lock, until a fork of it finds out that it is
/// one. Zero before that.
static KNOWN: AtomicU64 = AtomicU64::new(0);

impl Known {
    fn load() -> Self {
        let word = KNOWN.load(Ordering::Relaxed);
        Self { process: (word >> 32) as u32, generation: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.process) << 32 | u64::from(self.generation)
    }

    /// Replaces what is known, unless another thread of this process did so before.
    fn replace(self, by: Self) {
        let _ = KNOWN.compare_exchange(self.word(), by.word(), Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// The number of this process, which finds out here whether it is forked. Where no process is forked the
/// number is 1: WebAssembly has no numbers of processes, and asking for one ends the program.
pub fn current() -> u32 {
    if !cfg!(unix) {
        return 1;
    }
    let (known, process) = (Known::load(), std::process::id());
    if known.process != process && known.process != 0 {
        known.replace(Known { process, generation: known.generation.wrapping_add(1) });
    }
    process
}

/// Notes the process. Called before each lock, so that a process whose copy of the memory has a locked lock
/// also has this note.
#[inline]
pub(super) fn remember() {
    if KNOWN.load(Ordering::Relaxed) == 0 {
        note();
    }
}

#[cold]
fn note() {
    Known { process: 0, generation: 0 }.replace(Known { process: current(), generation: 0 });
    // The note is in memory before the lock is.
    fence(Ordering::SeqCst);
}

/// The number that tells this process from those that it was forked from. It changes when the process finds
/// out that it is forked, by [`current`].
#[inline]
pub(super) fn generation() -> u32 {
    Known::load().generation
}

/// Whether this process is a fork of the process that first took a lock. This asks the system, so callers ask
/// only if a lock is locked.
#[cold]
pub(super) fn is_forked() -> bool {
    current();
    generation() > 0
}
