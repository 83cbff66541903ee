//! Lists of computations that may wait.

use crate::error::Result;
use crate::storage::Lock;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Computations that may wait, the latest last.
pub(super) struct Pending<D> {
    list: Lock<Vec<Weak<D>>>,
    /// Length of the list, to be read without its lock.
    len: AtomicUsize,
}

impl<D> Pending<D> {
    pub(super) const fn new() -> Self {
        Self { list: Lock::new(Vec::new()), len: AtomicUsize::new(0) }
    }

    /// Adds a computation.
    pub(super) fn add(&self, computation: &Arc<D>) {
        let Some(mut list) = self.list.lock() else { return };
        if list.len() == list.capacity() {
            // Also those that are computed and held. To ask them, they would have to be held here, and the
            // last holder runs destructors of operands, some of them a user's: not under the lock of the
            // list.
            list.retain(|computation| computation.strong_count() > 0);
            let room = list.len().max(16);
            list.reserve(room);
        }
        list.push(Arc::downgrade(computation));
        self.len.store(list.len(), Ordering::Release);
    }

    /// Calls `compute` for every computation, the latest first: it is a user of the others, some of which
    /// nobody else holds. `compute` returns when the computation has an outcome. Computations stay in the
    /// list until then: another thread that calls this meanwhile waits for them.
    ///
    /// # Errors
    /// The first error of `compute`, after all calls.
    pub(super) fn compute_all(&self, compute: impl Fn(&D) -> Result<()>) -> Result<()> {
        if self.len.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let Some(listed) = self.list.lock().map(|list| list.clone()) else { return Ok(()) };
        let mut result = Ok(());
        for computation in listed.iter().rev().filter_map(Weak::upgrade) {
            result = result.and(compute(&computation));
        }
        // Their addresses are not in use again, since `listed` refers to them.
        let address = |computation: &Weak<D>| computation.as_ptr().addr();
        let mut computed: Vec<usize> = listed.iter().map(address).collect();
        computed.sort_unstable();
        if let Some(mut list) = self.list.lock() {
            list.retain(|computation| computed.binary_search(&address(computation)).is_err());
            self.len.store(list.len(), Ordering::Release);
        }
        result
    }
}
