//! A lock that a forked process does not wait for.
//!
//! A process that is forked has a copy of the locks that other threads held at that time. These threads do
//! not exist there, so nobody will release the copies.

#[cfg(feature = "std")]
use super::process;
#[cfg(feature = "std")]
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

#[cfg(not(feature = "std"))]
use spin::{Mutex, MutexGuard};

/// A value that one thread uses at a time. No panic may leave it half-changed.
pub struct Lock<T>(Mutex<T>);

/// Attempts to take a lock in a forked process. Its own threads hold these locks for microseconds, unless the
/// system runs other threads meanwhile: so all attempts but the first [`SPINS`] give it the core.
#[cfg(feature = "std")]
const ATTEMPTS: usize = 1000;

/// See [`ATTEMPTS`].
#[cfg(feature = "std")]
const SPINS: usize = 100;

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock. `None` in a forked process if another thread held the lock at the fork.
    #[cfg(feature = "std")]
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        process::remember();
        for attempt in 0..ATTEMPTS {
            match self.0.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) if !process::is_forked() => {
                    return Some(self.0.lock().unwrap_or_else(PoisonError::into_inner));
                }
                Err(TryLockError::WouldBlock) if attempt < SPINS => core::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Waits for the lock.
    #[cfg(not(feature = "std"))]
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(self.0.lock())
    }
}
