//! The pool: freed blocks wait, by size class, for the next tensor of their size.
//!
//! Page faults cost more than arithmetic on large tensors (a fresh 64 MB output takes longer to fault in than to
//! compute), and the allocator's bookkeeping more than arithmetic on small ones. The pool removes both.
//!
//! There are four classes per power of two, so at most a fifth of a block is unused. Blocks are kept up to
//! [`set_limit`]; beyond it they go back to the system.

use super::block::Block;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smallest class.
const MIN_CLASS: usize = 64;
/// Enough classes for every size below 2^48 bytes; larger blocks are not pooled.
const CLASSES: usize = 4 * (48 - 6);
/// Bytes kept for reuse until [`set_limit`] says otherwise.
pub const DEFAULT_LIMIT: usize = if cfg!(target_pointer_width = "64") { 1 << 30 } else { 64 << 20 };

static FREE: [Mutex<Vec<Block>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];
static CACHED: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_LIMIT);
static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);

/// What the pool holds and has done since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes in blocks that wait for reuse.
    pub cached_bytes: usize,
    /// Bytes in blocks that tensors hold.
    pub live_bytes: usize,
    /// Upper bound of `cached_bytes`.
    pub limit: usize,
    /// Allocations served from a waiting block.
    pub hits: u64,
    /// Allocations that went to the system.
    pub misses: u64,
}

/// Reads the counters. They are exact once no other thread allocates or frees.
pub fn stats() -> PoolStats {
    PoolStats {
        cached_bytes: CACHED.load(Relaxed),
        live_bytes: LIVE.load(Relaxed),
        limit: LIMIT.load(Relaxed),
        hits: HITS.load(Relaxed),
        misses: MISSES.load(Relaxed),
    }
}

/// Bounds the bytes kept for reuse; zero turns the pool off. Frees what exceeds the new bound.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
    if CACHED.load(Relaxed) > bytes {
        clear();
    }
}

/// Returns every waiting block to the system.
pub fn clear() {
    for class in &FREE {
        let blocks = core::mem::take(&mut *lock(class));
        let bytes: usize = blocks.iter().map(Block::capacity).sum();
        CACHED.fetch_sub(bytes, Relaxed);
    }
}

/// A block of at least `len` bytes; `None` when the system has none.
pub(super) fn take(len: usize) -> Option<Block> {
    let (class, capacity) = class_of(len);
    let waiting = FREE.get(class).and_then(|c| lock(c).pop());
    let block = match waiting {
        Some(block) => {
            CACHED.fetch_sub(block.capacity(), Relaxed);
            HITS.fetch_add(1, Relaxed);
            block
        }
        None => {
            MISSES.fetch_add(1, Relaxed);
            // What waits for reuse may be what the system lacks.
            Block::new(capacity).or_else(|| {
                clear();
                Block::new(capacity)
            })?
        }
    };
    LIVE.fetch_add(block.capacity(), Relaxed);
    Some(block)
}

/// Keeps a block for reuse, or frees it when the pool is full.
pub(super) fn give_back(block: Block) {
    let capacity = block.capacity();
    LIVE.fetch_sub(capacity, Relaxed);
    let (class, _) = class_of(capacity);
    let Some(class) = FREE.get(class) else { return };
    // Reserve room first, so that threads that free at once cannot overshoot the limit together.
    let cached = CACHED.fetch_add(capacity, Relaxed) + capacity;
    if cached > LIMIT.load(Relaxed) {
        CACHED.fetch_sub(capacity, Relaxed);
        return;
    }
    lock(class).push(block);
}

/// The class that serves `len` bytes, and the size of its blocks: 1, 1.25, 1.5 or 1.75 times a power of two.
fn class_of(len: usize) -> (usize, usize) {
    let len = len.max(MIN_CLASS);
    let log = len.ilog2();
    let quarter = 1usize << (log - 2);
    let base = 1usize << log;
    let steps = (len - base).div_ceil(quarter);
    let class = 4 * (log as usize - 6) + steps;
    (class, base.saturating_add(steps * quarter))
}

fn lock(class: &Mutex<Vec<Block>>) -> MutexGuard<'_, Vec<Block>> {
    // Nothing panics while a lock is held, and a list of blocks has no invariant to break.
    class.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_by_at_most_a_quarter_and_map_onto_themselves() {
        let mut previous = 0;
        for len in (0..100_000).chain([1 << 20, (1 << 20) + 1, (1 << 40) + 7]) {
            let (class, size) = class_of(len);
            assert!(size >= len && size <= MIN_CLASS.max(len + len / 4 + 1), "{len} -> {size}");
            assert_eq!(class_of(size), (class, size), "a block returns to the class it came from");
            if len > 0 && len < 100_000 {
                assert!(class >= previous && class <= previous + 1);
            }
            previous = class;
        }
    }

    #[test]
    fn a_freed_block_serves_the_next_tensor_of_its_size() {
        // A size that no other test uses, since the pool is shared by the process.
        let len = 1_234_567;
        let first = super::super::alloc(len);
        let address = first.as_ptr();
        drop(first);
        let second = super::super::alloc(len - 1000);
        assert_eq!(second.as_ptr(), address);
    }
}
