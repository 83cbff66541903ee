//! The pool: freed blocks wait, by size class, for the next tensor of their size.
//!
//! Page faults cost more than arithmetic on large tensors (a fresh 64 MB output takes longer to fault in than
//! to compute). The allocator's bookkeeping costs more than arithmetic on small tensors. The pool removes
//! both.
//!
//! There are four classes per power of two, so at most a fifth of a block is unused. Blocks are kept up to
//! [`default_limit`] or [`set_limit`]; beyond it the blocks that have waited longest go back to the system,
//! or the block that was just freed does (see [`Pool::make_room`]).
//!
//! A class of small blocks has a few [slots](Slots), which one atomic exchange empties or fills. This takes
//! four atomic operations for taking and returning a block; a lock and counters of the whole pool took nine.
//! The sum of 4,096 numbers takes 0.20 us instead of 0.26. All other free blocks wait behind the lock of
//! their class.
//!
//! A forked process has a copy of the pool, and of the locks that other threads held at that time. It goes on
//! without the classes behind these locks (see [`Lock`]); their blocks come from the system.

use super::Lock;
use super::available;
use super::block::Block;
use super::slots::{SLOTS, Slots};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::MutexGuard;

use Ordering::Relaxed;

/// Block size of the smallest class, in bytes.
const MIN_CLASS: usize = 64;
/// Enough classes for every size up to 2^39 bytes (2^31 on small machines); larger blocks are not pooled.
const CLASSES: usize = 4 * (if cfg!(target_pointer_width = "64") { 40 } else { 32 } - 6);

/// The [`default_limit`] where the system does not tell how much memory there is, which is everywhere but on
/// Linux.
pub const FIXED_LIMIT: usize = if cfg!(target_pointer_width = "64") { 1 << 30 } else { 64 << 20 };
/// By default the pool keeps one part in this many of the memory that the process may use.
const SHARE: u64 = 8;

/// Number of classes with slots: blocks of up to 16 KiB, which is 4,096 f32.
const SLOTTED: usize = 4 * 8 + 1;
/// More bytes than all full slots hold: there are four classes per power of two, each below twice that power,
/// up to 16 KiB.
const SLOT_BYTES: usize = 512 * 1024;

static POOL: Pool = Pool::new();

/// The pool of the process; tests make more. An empty pool consists of zero bytes, so that programs do not
/// contain its 17 KB.
struct Pool {
    classes: [Class; CLASSES],
    /// Bytes in blocks that wait behind the locks.
    cached: AtomicUsize,
    /// One more than the bytes kept for reuse; zero if [`UNSET`].
    limit_and_one: AtomicUsize,
    /// Number of blocks that came from the system. It is the pool's clock too: where every tensor finds a
    /// block, nothing has to be evicted, and no time needs to pass.
    misses: AtomicU64,
    /// Number of blocks that gave way to others.
    evictions: AtomicU64,
    /// The maximum of `cached` so far, apart from blocks that were not kept.
    peak: AtomicUsize,
}

/// The limit before the first block is returned.
const UNSET: usize = usize::MAX;

/// The free blocks of one size. Each class has cache lines of its own, so that threads that use different
/// sizes do not share one.
#[repr(align(64))]
struct Class {
    slots: Slots,
    /// `taken` counts the blocks that went to tensors, `returned` the blocks that came back.
    taken: AtomicU64,
    returned: AtomicU64,
    /// One more than the time at which the block was returned that has waited longest behind the lock; zero
    /// if there is none. Written under the lock.
    oldest_and_one: AtomicU64,
    waiting: Lock<Waiting>,
}

/// Later than every block.
const NONE_WAITS: u64 = u64::MAX;

/// The data behind the lock of a class.
struct Waiting {
    /// The blocks and the times at which they were returned. The last one is taken first, since the caches
    /// may still hold it; so blocks that nobody needs any more gather at the front.
    ///
    /// `None` before the first one: an empty list does not consist of zero bytes.
    #[expect(clippy::box_collection, reason = "a list by itself has a pointer that is not null")]
    blocks: Option<Box<VecDeque<(u64, Block)>>>,
    /// When a block of this class was first not kept since the class last missed; zero if all were kept.
    refused: u64,
    /// Blocks that were returned before this time give way to blocks of this class.
    since: u64,
}

impl Class {
    const fn new() -> Self {
        Self {
            slots: Slots([const { AtomicPtr::new(core::ptr::null_mut()) }; SLOTS]),
            taken: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            oldest_and_one: AtomicU64::new(0),
            waiting: Lock::new(Waiting { blocks: None, refused: 0, since: 0 }),
        }
    }

    /// When the block was returned that has waited longest behind the lock; [`NONE_WAITS`] if there is none.
    fn oldest(&self) -> u64 {
        self.oldest_and_one.load(Relaxed).wrapping_sub(1)
    }

    /// The data behind the lock. `None` if this process was forked from one in which another thread held the
    /// lock at that time: that thread does not exist here, and its lock stays locked.
    fn waiting(&self) -> Option<MutexGuard<'_, Waiting>> {
        let waiting = self.waiting.lock_or_do_without();
        if waiting.is_none() {
            // Nobody looks for blocks here any more.
            self.oldest_and_one.store(0, Relaxed);
        }
        waiting
    }

    /// Writes down which block is now the first in the list.
    fn note_oldest(&self, waiting: &Waiting) {
        let first = waiting.blocks.as_ref().and_then(|blocks| blocks.front());
        self.oldest_and_one.store(first.map_or(0, |(time, _)| time + 1), Relaxed);
    }

    /// Takes the block that was returned last.
    fn take_latest(&self) -> Option<Block> {
        let mut waiting = self.waiting()?;
        let Some((_, block)) = waiting.blocks.as_mut().and_then(|blocks| blocks.pop_back()) else {
            if waiting.refused != 0 {
                waiting.since = core::mem::take(&mut waiting.refused);
            }
            return None;
        };
        if waiting.blocks.as_ref().is_some_and(|blocks| blocks.is_empty()) {
            self.note_oldest(&waiting);
        }
        Some(block)
    }

    /// Takes the block that has waited longest, if it was returned before `since`.
    fn take_oldest(&self, since: u64) -> Option<Block> {
        let mut waiting = self.waiting()?;
        let block = waiting.blocks.as_mut()?.pop_front_if(|(time, _)| *time < since)?.1;
        self.note_oldest(&waiting);
        Some(block)
    }

    /// Notes that a block is not kept `now`, if it is the first since the class last missed.
    fn refuse(&self, now: u64) {
        if let Some(mut waiting) = self.waiting()
            && waiting.refused == 0
        {
            waiting.refused = now;
        }
    }

    /// Appends a block that is returned at `time`; drops it if there is no memory for the list.
    ///
    /// Returns whether the block is in the list.
    fn push(&self, block: Block, time: u64) -> bool {
        let Some(mut waiting) = self.waiting() else { return false };
        let blocks = waiting.blocks.get_or_insert_default();
        if blocks.try_reserve(1).is_err() {
            return false;
        }
        blocks.push_back((time, block));
        if blocks.len() == 1 {
            self.note_oldest(&waiting);
        }
        true
    }
}

/// The state of the pool, and its history since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes in blocks that wait for reuse.
    pub cached_bytes: usize,
    /// The most that `cached_bytes` was. Blocks of up to 16 KiB that waited between two calls of [`stats`]
    /// may be missing; these are at most 512 KiB.
    pub peak_cached_bytes: usize,
    /// Bytes in blocks that tensors hold.
    pub live_bytes: usize,
    /// Upper bound of `cached_bytes`.
    pub limit: usize,
    /// Allocations served from a waiting block.
    pub hits: u64,
    /// Allocations that went to the system.
    pub misses: u64,
    /// Waiting blocks that were freed because the pool had reached its limit.
    pub evictions: u64,
}

/// Reads the counters. They are exact once no other thread allocates or frees.
pub fn stats() -> PoolStats {
    POOL.stats()
}

/// The bytes kept for reuse unless [`set_limit`] says otherwise: an eighth of the memory that the process may
/// use, or [`FIXED_LIMIT`] where the system does not tell.
///
/// On Linux that memory is the least of the machine's memory, the limits of the control groups of the process
/// (versions 1 and 2, as containers set them), and the limits of its address space and data (`ulimit`). They
/// are read once.
pub fn default_limit() -> usize {
    // No `OnceLock`: a process that is forked while another thread fills it would wait for ever. Two threads
    // may read the files here, and one result counts.
    static FOUND: AtomicUsize = AtomicUsize::new(UNSET);
    let found = FOUND.load(Relaxed);
    if found != UNSET {
        return found;
    }
    let share = |bytes: u64| (bytes.min(usize::MAX as u64) / SHARE) as usize;
    let found = available::memory().map_or(FIXED_LIMIT, share);
    FOUND.compare_exchange(UNSET, found, Relaxed, Relaxed).err().unwrap_or(found)
}

/// Limits the bytes kept for reuse; zero turns the pool off. Blocks beyond the new limit are freed, the
/// longest-waiting first.
pub fn set_limit(bytes: usize) {
    POOL.set_limit(bytes);
}

/// Returns every waiting block to the system.
pub fn clear() {
    POOL.clear();
}

/// A block of at least `len` bytes; `None` when the system cannot provide it.
pub(super) fn take(len: usize) -> Option<Block> {
    POOL.take(len)
}

/// Keeps a block for reuse, or frees it.
pub(super) fn give_back(block: Block) {
    POOL.give_back(block);
}

impl Pool {
    const fn new() -> Self {
        Self {
            classes: [const { Class::new() }; CLASSES],
            cached: AtomicUsize::new(0),
            limit_and_one: AtomicUsize::new(UNSET.wrapping_add(1)),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    fn stats(&self) -> PoolStats {
        let (misses, limit) = (self.misses.load(Relaxed), self.limit());
        // Beyond the limit are only reservations of threads that find no room and take them back.
        let behind_locks = self.cached.load(Relaxed).min(behind_locks(limit).unwrap_or(limit));
        let mut stats = PoolStats {
            cached_bytes: behind_locks,
            peak_cached_bytes: 0,
            live_bytes: 0,
            limit,
            hits: 0,
            misses,
            evictions: self.evictions.load(Relaxed),
        };
        for (class, capacity) in self.classes.iter().zip(capacities()) {
            // In this order, since blocks are returned after they were taken.
            let returned = class.returned.load(Relaxed);
            let taken = class.taken.load(Relaxed);
            stats.cached_bytes += class.slots.count() * capacity;
            stats.live_bytes += taken.saturating_sub(returned) as usize * capacity;
            stats.hits += taken;
        }
        stats.hits = stats.hits.saturating_sub(misses);
        stats.peak_cached_bytes = self.peak.fetch_max(stats.cached_bytes, Relaxed).max(stats.cached_bytes);
        stats
    }

    #[inline]
    fn limit(&self) -> usize {
        match self.limit_and_one.load(Relaxed).wrapping_sub(1) {
            UNSET => self.read_limit(),
            limit => limit,
        }
    }

    #[cold]
    fn read_limit(&self) -> usize {
        let limit = default_limit().min(UNSET - 1);
        match self.limit_and_one.compare_exchange(0, limit + 1, Relaxed, Relaxed) {
            Ok(_) => limit,
            Err(set) => set - 1,
        }
    }

    fn set_limit(&self, bytes: usize) {
        self.limit_and_one.store(bytes.min(UNSET - 1) + 1, Relaxed);
        if bytes < SLOT_BYTES {
            self.empty_slots();
        }
        self.make_room(behind_locks(bytes).unwrap_or(bytes), NONE_WAITS);
    }

    fn empty_slots(&self) {
        for (class, capacity) in self.classes.iter().zip(capacities()) {
            while class.slots.take(capacity).is_some() {}
        }
    }

    fn clear(&self) {
        self.empty_slots();
        for (class, capacity) in self.classes.iter().zip(capacities()) {
            let Some(mut waiting) = class.waiting() else { continue };
            let blocks = waiting.blocks.take();
            class.note_oldest(&waiting);
            drop(waiting);
            self.cached.fetch_sub(blocks.as_ref().map_or(0, |blocks| blocks.len()) * capacity, Relaxed);
        }
    }

    fn take(&self, len: usize) -> Option<Block> {
        let (index, capacity) = class_of(len);
        let Some(class) = self.classes.get(index) else { return Block::new(capacity) };
        let block = (class.slots.take(capacity))
            .or_else(|| self.take_waiting(class))
            .or_else(|| self.allocate(capacity))?;
        class.taken.fetch_add(1, Relaxed);
        Some(block)
    }

    fn take_waiting(&self, class: &Class) -> Option<Block> {
        let block = class.take_latest()?;
        self.cached.fetch_sub(block.capacity(), Relaxed);
        Some(block)
    }

    fn allocate(&self, capacity: usize) -> Option<Block> {
        let block = Block::new(capacity).or_else(|| {
            // The memory that waits for reuse may be the memory that the system lacks.
            self.clear();
            Block::new(capacity)
        })?;
        self.misses.fetch_add(1, Relaxed);
        Some(block)
    }

    fn give_back(&self, block: Block) {
        let capacity = block.capacity();
        let (index, _) = class_of(capacity);
        let Some(class) = self.classes.get(index) else { return };
        class.returned.fetch_add(1, Relaxed);
        let limit = self.limit();
        let (has_slots, limit) = match behind_locks(limit) {
            Some(rest) => (index < SLOTTED, rest),
            None => (false, limit),
        };
        let block = if has_slots { class.slots.keep(block) } else { Some(block) };
        if let Some(block) = block {
            self.keep_waiting(class, block, limit);
        }
    }

    /// Appends a block to the list of its class, if there is or can be made room.
    fn keep_waiting(&self, class: &Class, block: Block, limit: usize) {
        let (capacity, now) = (block.capacity(), self.misses.load(Relaxed));
        // Reserves room first, so that threads that free at the same time cannot exceed the limit together.
        let reserved = self.cached.fetch_add(capacity, Relaxed) + capacity;
        let evicts = reserved > limit;
        let kept = (!evicts || self.make_room_for(class, capacity, limit, now)) && class.push(block, now);
        if !kept {
            self.cached.fetch_sub(capacity, Relaxed);
            return;
        }
        // Blocks that gave way no longer count.
        let cached = if evicts { self.cached.load(Relaxed) } else { reserved }.min(limit);
        if self.peak.load(Relaxed) < cached {
            self.peak.fetch_max(cached, Relaxed);
        }
    }

    /// Makes room for a block of `class`; returns whether there is room now.
    ///
    /// Evicting whatever has waited longest would be wrong for a program that needs a little more than the
    /// limit, over and over: each block would be evicted shortly before it is needed again, and nothing would
    /// ever be found in the pool. So the first time a block is not kept, and the time is noted. If the class
    /// lacks a block afterwards, then those blocks give way that nobody took between the noted time and now.
    #[cold]
    fn make_room_for(&self, class: &Class, capacity: usize, limit: usize, now: u64) -> bool {
        if capacity > limit {
            return false;
        }
        let Some(since) = class.waiting().map(|waiting| waiting.since) else { return false };
        if since != 0 && self.make_room(limit, since) {
            return true;
        }
        class.refuse(now);
        false
    }

    /// Evicts the blocks that have waited longest, among the blocks that were returned before `since`, until
    /// at most `limit` bytes wait behind the locks. Returns whether that succeeded.
    fn make_room(&self, limit: usize, since: u64) -> bool {
        while self.cached.load(Relaxed) > limit {
            let oldest = self.classes.iter().min_by_key(|class| class.oldest());
            let Some(class) = oldest.filter(|class| class.oldest() < since) else { return false };
            // Another thread may have taken the block meanwhile.
            if let Some(block) = class.take_oldest(since) {
                self.cached.fetch_sub(block.capacity(), Relaxed);
                self.evictions.fetch_add(1, Relaxed);
            }
        }
        true
    }
}

/// The part of the limit that is left for blocks behind locks: the bytes that the slots may hold are
/// reserved. `None` if the limit is so low that slots are not used.
fn behind_locks(limit: usize) -> Option<usize> {
    limit.checked_sub(SLOT_BYTES)
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

/// The block size of each class.
fn capacities() -> impl Iterator<Item = usize> {
    (0..CLASSES).map(|class| (4 + class % 4) << (class / 4 + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_by_at_most_a_quarter_and_map_onto_themselves() {
        let mut previous = 0;
        let large = if usize::BITS == 64 { (1u64 << 38) as usize } else { 1 << 30 };
        for len in (0..100_000).chain([1 << 20, (1 << 20) + 1, large + 7]) {
            let (class, size) = class_of(len);
            assert!(size >= len && size <= MIN_CLASS.max(len + len / 4 + 1), "{len} -> {size}");
            assert_eq!(class_of(size), (class, size), "a block returns to the class it came from");
            assert_eq!(capacities().nth(class), Some(size));
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

    #[test]
    fn slots_hold_less_than_is_set_aside_for_them() {
        let most: usize = capacities().take(SLOTTED).map(|capacity| SLOTS * capacity).sum();
        assert!(most <= SLOT_BYTES, "{most}");
        assert_eq!(capacities().nth(SLOTTED - 1), Some(16 << 10));
    }

    /// Takes a block of each size, and returns them all.
    fn use_together(pool: &Pool, sizes: &[usize]) {
        let blocks: Vec<_> = sizes.iter().map(|&size| pool.take(size).expect("memory")).collect();
        blocks.into_iter().for_each(|block| pool.give_back(block));
    }

    fn hits_of(pool: &Pool, run: impl FnOnce()) -> u64 {
        let before = pool.stats().hits;
        run();
        pool.stats().hits - before
    }

    /// A pool for some blocks, besides the slots.
    fn pool_of(bytes: usize) -> Pool {
        let pool = Pool::new();
        pool.set_limit(bytes + SLOT_BYTES);
        pool
    }

    const KIB: usize = 1024;

    #[test]
    fn sizes_that_are_not_used_any_more_give_way() {
        let pool = pool_of(4096 * KIB);
        use_together(&pool, &[256 * KIB; 20]);
        let full = pool.stats();
        assert_eq!((full.cached_bytes, full.evictions), (4096 * KIB, 0));
        let hits = hits_of(&pool, || (0..100).for_each(|_| use_together(&pool, &[320 * KIB, 640 * KIB])));
        assert!(hits >= 196, "{hits} hits, {:?}", pool.stats());
        let stats = pool.stats();
        assert_eq!((stats.evictions, stats.cached_bytes), (4, 4096 * KIB - 4 * 256 * KIB + 960 * KIB));
        assert_eq!(stats.peak_cached_bytes, 4096 * KIB);
    }

    #[test]
    fn blocks_beyond_what_their_size_still_needs_give_way() {
        let pool = pool_of(4096 * KIB);
        use_together(&pool, &[256 * KIB; 16]);
        let both = [256 * KIB, 256 * KIB, 2048 * KIB];
        let hits = hits_of(&pool, || (0..100).for_each(|_| use_together(&pool, &both)));
        assert!(hits >= 298, "{hits} hits, {:?}", pool.stats());
    }

    #[test]
    fn a_program_that_needs_more_than_the_limit_still_finds_most_of_it() {
        // Ten sizes that are needed in turn, of which nine fit: evicting the size that was not used for the
        // longest time would always evict the size that is needed next.
        let sizes: Vec<usize> = (0..10).map(|i| class_size(40 + i)).collect();
        let pool = pool_of(sizes[..9].iter().sum::<usize>() + 1);
        let round = || sizes.iter().for_each(|&size| use_together(&pool, &[size, size / 2]));
        round();
        let limit = pool.stats().limit;
        let hits = hits_of(&pool, || {
            for _ in 0..20 {
                round();
                assert!(pool.stats().cached_bytes <= limit);
            }
        });
        assert!(hits >= 20 * 12, "{hits} hits of {}", 20 * 20);
    }

    /// The size of the blocks of a class.
    fn class_size(class: usize) -> usize {
        capacities().nth(class).expect("a class")
    }

    #[test]
    fn a_lower_limit_frees_what_has_waited_longest() {
        let pool = pool_of(4096 * KIB);
        for size in [1024 * KIB, 512 * KIB, 256 * KIB] {
            use_together(&pool, &[size]);
        }
        pool.set_limit(1000 * KIB + SLOT_BYTES);
        assert_eq!((pool.stats().cached_bytes, pool.stats().evictions), (768 * KIB, 1));
        assert_eq!(hits_of(&pool, || use_together(&pool, &[512 * KIB, 256 * KIB, 1024])), 2);
        pool.set_limit(1);
        assert_eq!(pool.stats().cached_bytes, 0);
        use_together(&pool, &[1024, 512 * KIB]);
        let stats = pool.stats();
        assert_eq!((stats.cached_bytes, stats.live_bytes, stats.peak_cached_bytes), (0, 0, 1792 * KIB));
    }

    /// The block that gives way and its successor never wait at the same time.
    #[test]
    fn the_high_water_mark_leaves_out_what_gave_way() {
        let pool = pool_of(4096 * KIB);
        use_together(&pool, &[2560 * KIB]);
        (0..2).for_each(|_| use_together(&pool, &[2048 * KIB]));
        let stats = pool.stats();
        assert_eq!((stats.cached_bytes, stats.evictions), (2048 * KIB, 1));
        assert_eq!(stats.peak_cached_bytes, 2560 * KIB);
    }

    #[test]
    fn the_limit_follows_the_memory_of_the_process() {
        let limit = default_limit();
        assert_eq!(Pool::new().stats().limit, limit);
        match available::memory() {
            // Of an address space of 32 bits, at most the share of what it can address.
            Some(bytes) => assert_eq!(limit as u64, bytes.min(usize::MAX as u64) / SHARE),
            None => assert_eq!(limit, FIXED_LIMIT),
        }
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "starts threads")]
    fn threads_that_evict_from_each_other_lose_no_block() {
        let pool = pool_of(1024 * KIB);
        std::thread::scope(|scope| {
            for id in 0..4usize {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..500 {
                        let size = (20 + (id * 37 + round / 50 * 61) % 200) * KIB;
                        let mut blocks: Vec<_> = (0..3).map(|_| pool.take(size).expect("memory")).collect();
                        blocks.iter_mut().for_each(|block| block.as_mut_slice()[..64].fill(id as u8));
                        assert!(blocks.iter().all(|block| block.as_slice()[..64] == [id as u8; 64]));
                        blocks.into_iter().for_each(|block| pool.give_back(block));
                    }
                });
            }
        });
        let stats = pool.stats();
        assert_eq!((stats.live_bytes, stats.hits + stats.misses), (0, 4 * 500 * 3));
        assert!(stats.cached_bytes <= stats.limit && stats.peak_cached_bytes <= stats.limit, "{stats:?}");
        let waiting: usize = (pool.classes.iter().zip(capacities()))
            .map(|(class, capacity)| {
                class.waiting().unwrap().blocks.as_ref().map_or(0, |blocks| blocks.len()) * capacity
            })
            .sum();
        assert_eq!(pool.cached.load(Relaxed), waiting);
        pool.clear();
        assert_eq!(pool.stats().cached_bytes, 0);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "starts threads")]
    fn threads_that_share_a_class_never_share_a_block() {
        std::thread::scope(|scope| {
            for id in 0..8u8 {
                scope.spawn(move || {
                    for round in 0..2000 {
                        // More blocks than slots, of a class that other tests may use too.
                        let mut blocks: Vec<_> = (0..SLOTS + 2).map(|_| super::super::alloc(3000)).collect();
                        blocks.iter_mut().for_each(|block| block.fill(id));
                        assert!(blocks.iter().all(|block| block.iter().all(|&b| b == id)), "round {round}");
                    }
                });
            }
        });
    }
}
