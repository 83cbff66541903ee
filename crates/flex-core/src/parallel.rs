//! The only place that decides how many threads run and how work is split among them.
//!
//! Splitting is by fixed block sizes that depend on the problem alone, never on the number of threads, so results
//! are the same bits on any machine. Without the `rayon` feature everything runs on the calling thread.

#[cfg(feature = "rayon")]
mod section;

use core::ops::Range;

/// Memory-bound work (bytes read plus written) that passes while a helper wakes up: see [`Work::is_parallel`].
///
/// One core of Zen 5 moves 100 bytes per ns as long as they are in its third-level cache, and a worker that sleeps
/// takes some 50 us to come. Adding two tensors of 1,048,576 f32 (12 MiB) takes 149 us on one thread, and no less on two
/// that are awake: the cache is the limit, not the core.
const WAKE_BYTES: usize = 8 * 1024 * 1024;

/// Arithmetic (floating-point operations, or their equivalent in time) that is worth asking for a helper.
///
/// That is some 40 us on one thread, at 100 operations per ns: 65,536 `exp`, of 16 operations each, take 11 us.
const MIN_FLOPS: usize = 4 * 1024 * 1024;

/// Bytes that one task should move at least, so that handing it out (about 1 us) is small beside it.
const TASK_BYTES: usize = 128 * 1024;

/// How much there is to do, to decide whether threads pay.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Bytes read plus bytes written, for work bound by memory.
    Bytes(usize),
    /// Operations, for work bound by arithmetic; a transcendental function counts about 16.
    Flops(usize),
}

impl Work {
    /// Whether threads pay for this amount of work on this machine.
    ///
    /// `t` threads save `1 - 1/t` of the time, which has to be more than a wake-up takes.
    pub fn is_parallel(self) -> bool {
        let t = threads();
        t > 1
            && match self {
                Work::Bytes(n) => n >= WAKE_BYTES + WAKE_BYTES / (t - 1),
                Work::Flops(n) => n >= MIN_FLOPS,
            }
    }
}

/// Number of threads that parallel sections use.
pub fn threads() -> usize {
    #[cfg(feature = "rayon")]
    {
        rayon::current_num_threads()
    }
    #[cfg(not(feature = "rayon"))]
    {
        1
    }
}

/// Splits `out` into consecutive chunks of `chunk` elements (the last may be shorter) and calls `f(k, chunk_k)` for
/// each, in parallel when `work` pays.
///
/// # Panics
/// When `chunk` is zero.
pub fn for_each_chunk<T: Send>(out: &mut [T], chunk: usize, work: Work, f: impl Fn(usize, &mut [T]) + Sync) {
    assert!(chunk > 0, "for_each_chunk: the chunk size is zero");
    for_each_item(out.chunks_mut(chunk), work, &|k, c| f(k, c));
}

/// [`for_each_chunk`] over two outputs that advance together: chunk `k` of `a` has `chunk_a` elements and goes
/// with chunk `k` of `b` of `chunk_b` elements.
///
/// # Panics
/// When a chunk size is zero or the two outputs have different numbers of chunks.
pub fn for_each_chunk2<A: Send, B: Send>(
    a: &mut [A],
    chunk_a: usize,
    b: &mut [B],
    chunk_b: usize,
    work: Work,
    f: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    assert!(chunk_a > 0 && chunk_b > 0, "for_each_chunk2: a chunk size is zero");
    assert_eq!(
        a.len().div_ceil(chunk_a),
        b.len().div_ceil(chunk_b),
        "for_each_chunk2: the outputs have different numbers of chunks"
    );
    for_each_item(a.chunks_mut(chunk_a).zip(b.chunks_mut(chunk_b)), work, &|k, (a, b)| f(k, a, b));
}

/// Calls `f(k, item_k)` for each of `items`, in parallel when `work` pays.
///
/// Everything goes through this one function, and `f` is `dyn`: kernels have hundreds of instances, and an instance of
/// rayon's iterators for each of them was a third of the crate's machine code and build time.
fn for_each_item<I: ExactSizeIterator<Item: Send>>(
    items: I,
    work: Work,
    f: &(dyn Fn(usize, I::Item) + Sync),
) {
    #[cfg(feature = "rayon")]
    if items.len() > 1 && work.is_parallel() {
        // Each slot is taken by the one task of its number: the lock never waits, it only makes that safe to say.
        let slots: alloc::vec::Vec<_> = items.map(|item| std::sync::Mutex::new(Some(item))).collect();
        section::run(slots.len(), &|k| {
            let item = slots[k].lock().ok().and_then(|mut slot| slot.take());
            f(k, item.expect("each task runs once"));
        });
        return;
    }
    let _ = work;
    for (k, item) in items.enumerate() {
        f(k, item);
    }
}

/// Computes `f` for each block of at most `block` indices of `0..n` (in parallel when `work` pays) and returns the
/// results in block order, ready for a reduction whose order does not depend on the threads.
///
/// # Panics
/// When `block` is zero.
pub fn map_blocks<R: Send>(
    n: usize,
    block: usize,
    work: Work,
    f: impl Fn(Range<usize>) -> R + Sync,
) -> alloc::vec::Vec<R> {
    assert!(block > 0, "map_blocks: the block size is zero");
    let mut results: alloc::vec::Vec<Option<R>> = (0..n.div_ceil(block)).map(|_| None).collect();
    for_each_chunk(&mut results, 1, work, |k, slot| {
        slot[0] = Some(f(k * block..((k + 1) * block).min(n)));
    });
    results.into_iter().flatten().collect()
}

/// Number of consecutive rows that one task should take, so that a task moves at least 128 KiB when each row costs
/// `bytes_per_row`. At least one.
pub fn rows_per_task(bytes_per_row: usize) -> usize {
    TASK_BYTES.div_ceil(bytes_per_row.max(1)).max(1)
}
