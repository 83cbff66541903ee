//! The bytes of a computation that one thread makes and others wait for.

use crate::Bytes;
use crate::error::{Error, Result};
use crate::storage::process;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// The bytes of a computation, or its error, once there is one.
pub(super) struct Outcome {
    bytes: OnceLock<Result<Bytes>>,
    /// The process whose thread computes the bytes; 0 before that.
    process: AtomicU32,
}

impl Outcome {
    pub(super) const fn new() -> Self {
        Self { bytes: OnceLock::new(), process: AtomicU32::new(0) }
    }

    /// Whether there is none yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.bytes.get().is_none()
    }

    /// Notes that a thread of this process computes the bytes. The caller asks the system for the
    /// [current](process::current) process, once for a whole chain.
    pub(super) fn begin(&self, process: u32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Lets the calling thread compute the bytes. `None` if a thread of this process does so already, or did.
    /// A thread of the process that this one was forked from cannot go on here, so its place is free.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        let (process, before) = (process::current(), self.process.load(Ordering::Relaxed));
        let is_free = self.is_awaited() && before != process;
        let claims = || self.process.compare_exchange(before, process, Ordering::Relaxed, Ordering::Relaxed);
        (is_free && claims().is_ok()).then(|| Claim(self))
    }

    /// Hands over the bytes or the error, unless there is one.
    pub(super) fn set(&self, bytes: Result<Bytes>) {
        let _ = self.bytes.set(bytes);
    }

    /// Hands over an error if the computation ends without an outcome, by a panic.
    pub(super) fn end(&self) {
        if self.is_awaited() {
            self.set(Err(no_result("lost in a panic")));
        }
    }

    /// Waits for the thread that computes the bytes.
    ///
    /// # Errors
    /// The error of its computation; an error if the thread is not of this process, which was forked
    /// meanwhile.
    pub(super) fn wait(&self) -> Result<&Bytes> {
        if self.is_awaited() && self.process.load(Ordering::Relaxed) != process::current() {
            return Err(no_result("computed by a thread of the process that this one was forked from"));
        }
        self.bytes.wait().as_ref().map_err(Error::clone)
    }

    /// The bytes or the error, if there is one.
    pub(super) fn into_bytes(self) -> Option<Result<Bytes>> {
        self.bytes.into_inner()
    }
}

/// What became of bytes that were read while they were computed, and not stored.
pub(super) const FOLDED: &str = "folded for its only reader";

/// The error of readers of bytes that there are not; `why` says what became of them.
pub(super) fn no_result(why: &'static str) -> Error {
    Error::argument("deferred", "result", why, "a result")
}

/// The right to compute the bytes of an [`Outcome`]. Once it is dropped there is an outcome, also after a
/// panic, since other threads may wait for it.
pub(super) struct Claim<'a>(&'a Outcome);

impl Claim<'_> {
    /// Hands over the bytes or the error. Returns the error.
    pub(super) fn finish(self, bytes: Result<Bytes>) -> Result<()> {
        let outcome = bytes.as_ref().map(|_| ()).map_err(Error::clone);
        self.0.set(bytes);
        outcome
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
