//! Slots for blocks: one atomic exchange takes a block or returns one.
//!
//! The code needs nothing but an atomic pointer per slot, so that a model checker can run it.

use super::block::Block;
use super::sync::{AtomicPtr, Ordering};
use core::ptr::{self, NonNull};

/// Number of slots.
pub(super) const SLOTS: usize = 4;

/// A few slots, each empty or with one block. All blocks have the same capacity, which the owner of the slots
/// knows.
///
/// Why no two threads get one block: a block is in the slots as the address that [`Block::into_raw`]
/// returned, and as nothing else. [`keep`](Self::keep) stores the address only into an empty slot and only
/// once. [`take`](Self::take) exchanges it for null, and of all exchanges of a slot exactly one sees the
/// address. So an address belongs to its slot or to one thread. It is not dereferenced before it belongs to
/// the thread, so it does no harm if a slot is emptied and filled again, with the same address or another
/// one, between the load that looks at it and the exchange.
///
/// Why the next owner sees what the last owner wrote: `keep` stores with `Release`, and `take` exchanges with
/// `Acquire`. An exchange that reads the address synchronises with the store that wrote it, since a slot is
/// written by nothing else but exchanges that write null. The load before the exchange only avoids exchanges
/// of slots that are empty, so it may be `Relaxed`; a slot that it wrongly finds empty or full costs a look
/// at the list behind the lock.
///
/// Null stands for an empty slot.
pub(super) struct Slots(pub(super) [AtomicPtr<u8>; SLOTS]);

impl Slots {
    /// Takes a block from a slot; `capacity` is the capacity of the blocks that [`keep`](Self::keep) is
    /// called with.
    pub fn take(&self, capacity: usize) -> Option<Block> {
        for slot in &self.0 {
            if !slot.load(Ordering::Relaxed).is_null()
                && let Some(base) = NonNull::new(slot.swap(ptr::null_mut(), Ordering::Acquire))
            {
                // SAFETY: `keep` stored the result of `into_raw` for a block of this capacity, and after the
                // exchange only this thread has it.
                return Some(unsafe { Block::from_raw(base, capacity) });
            }
        }
        None
    }

    /// Puts a block into a slot, or returns the block when no slot is free.
    pub fn keep(&self, block: Block) -> Option<Block> {
        let capacity = block.capacity();
        let base = block.into_raw();
        for slot in &self.0 {
            let empty = ptr::null_mut();
            if slot.load(Ordering::Relaxed).is_null()
                && slot.compare_exchange(empty, base.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
            {
                return None;
            }
        }
        // SAFETY: the block was taken apart above, and its address is stored nowhere.
        Some(unsafe { Block::from_raw(base, capacity) })
    }

    /// Number of full slots.
    pub fn count(&self) -> usize {
        self.0.iter().filter(|slot| !slot.load(Ordering::Relaxed).is_null()).count()
    }
}
