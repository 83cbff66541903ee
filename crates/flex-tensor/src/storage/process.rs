//! Whether this process is a fork of the process that first used the pool.

use core::sync::atomic::{AtomicU32, Ordering, fence};

/// The process that first took one of the engine's locks; zero before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The number of this process. Where no process is forked it is 1: WebAssembly has no numbers of processes,
/// and asking for one ends the program.
pub fn current() -> u32 {
    if cfg!(unix) { std::process::id() } else { 1 }
}

/// Notes the process. Called before each lock, so that a process whose copy of the memory has a locked lock
/// also has this note.
#[inline]
pub fn remember() {
    if PROCESS.load(Ordering::Relaxed) == 0 {
        note();
    }
}

#[cold]
fn note() {
    let _ = PROCESS.compare_exchange(0, current(), Ordering::SeqCst, Ordering::Relaxed);
    // The note is in memory before the lock is.
    fence(Ordering::SeqCst);
}

/// Whether this process is a fork of the noted process. This asks the system, so callers ask only if a lock
/// is locked.
#[cold]
pub fn is_forked() -> bool {
    PROCESS.load(Ordering::Relaxed) != current()
}
