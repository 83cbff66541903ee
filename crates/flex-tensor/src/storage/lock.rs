//! A lock that a forked process does not wait for.
//!
//! A process that is forked has a copy of the locks that other threads held at that time. These threads do
//! not exist there, so nobody will release the copies.

#[cfg(feature = "std")]
use super::process;
#[cfg(feature = "std")]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(feature = "std")]
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

#[cfg(not(feature = "std"))]
use spin::{Mutex, MutexGuard};

/// A value that one thread uses at a time. No panic may leave it half-changed.
pub struct Lock<T> {
    value: Mutex<T>,
    /// The [generation](process::generation) of the process whose thread took the lock last; [`DEAD`] if that
    /// thread does not exist any more.
    #[cfg(feature = "std")]
    taken_in: AtomicU32,
}

/// No generation of a process.
#[cfg(feature = "std")]
const DEAD: u32 = u32::MAX;

/// How long a thread waits for a lock that was taken before its process was known to be forked. Threads hold
/// these locks for microseconds, so a thread of this process releases it meanwhile, unless the system runs
/// other threads all the time. Each lock that was held at the fork costs this time once.
#[cfg(feature = "std")]
const PATIENCE: Duration = Duration::from_millis(50);

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            #[cfg(feature = "std")]
            taken_in: AtomicU32::new(0),
        }
    }

    /// Waits for the lock. `None` in a forked process if another thread held the lock at the fork.
    #[cfg(feature = "std")]
    #[inline]
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        process::remember();
        self.attempt().or_else(|| self.wait(PATIENCE))
    }

    /// [`lock`](Self::lock) for data that a thread can do without: in a forked process, `None` also if a
    /// thread of this process holds the lock that took it before the fork was known.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn lock_or_do_without(&self) -> Option<MutexGuard<'_, T>> {
        process::remember();
        self.attempt().or_else(|| self.wait(Duration::ZERO))
    }

    /// Takes the lock if nobody holds it.
    #[cfg(feature = "std")]
    #[inline]
    fn attempt(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.value.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.note();
        Some(guard)
    }

    /// Notes that a thread of this process has taken the lock.
    #[cfg(feature = "std")]
    fn note(&self) {
        self.taken_in.store(process::generation(), Ordering::Relaxed);
    }

    /// [`lock`](Self::lock) where somebody holds it, or did so at a fork. Waits at most for `patience` if it
    /// was taken before the fork was known.
    #[cfg(feature = "std")]
    #[cold]
    fn wait(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        // A lock that was taken since this process knows that it is forked is released by its threads.
        let is_forked = process::is_forked();
        let mut start: Option<Instant> = None;
        loop {
            let taken_in = self.taken_in.load(Ordering::Relaxed);
            if !is_forked || taken_in == process::generation() {
                let guard = self.value.lock().unwrap_or_else(PoisonError::into_inner);
                self.note();
                return Some(guard);
            }
            if taken_in == DEAD {
                return None;
            }
            if start.get_or_insert_with(Instant::now).elapsed() >= patience {
                // Unless somebody else took it now.
                let _ = self.taken_in.compare_exchange(taken_in, DEAD, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            std::thread::yield_now();
            if let Some(guard) = self.attempt() {
                return Some(guard);
            }
        }
    }

    /// Waits for the lock.
    #[cfg(not(feature = "std"))]
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(self.value.lock())
    }
}
