//! The only place that decides how many threads run and how work is split among them.
//!
//! Splitting is by fixed block sizes that depend on the problem alone, never on the number of threads, so results
//! are the same bits on any machine. Without the `rayon` feature everything runs on the calling thread.

mod parts;
#[cfg(feature = "rayon")]
mod section;
#[cfg(feature = "rayon")]
mod standby;

use core::ops::Range;
use parts::Parts;

/// Memory-bound work (bytes read plus written) that passes while a sleeping helper wakes up: see [`Work::is_parallel`].
///
/// One core of Zen 5 moves 100 bytes per ns as long as they are in its third-level cache, and a worker that sleeps
/// takes some 50 us to come.
const WAKE_BYTES: usize = 8 * 1024 * 1024;

/// [`WAKE_BYTES`] when helpers are [awake](standby): some 3 us, beside which the handing over (1 us) is small. On two threads,
/// adding 65,536 f32 takes 3.6 us, and took 4.6 on one.
const AWAKE_BYTES: usize = 320 * 1024;

/// Arithmetic (floating-point operations, or their equivalent in time) that is worth waking a helper.
///
/// That is some 40 us on one thread, at 100 operations per ns: 65,536 `exp`, of 16 operations each, take 11 us.
const WAKE_FLOPS: usize = 4 * 1024 * 1024;

/// [`WAKE_FLOPS`] when helpers are awake: again some 5 us.
const AWAKE_FLOPS: usize = 512 * 1024;

/// Bytes, or operations, that one thread gets done in a nanosecond.
const PER_NANOSECOND: usize = 100;

/// Bytes that one task should move at least, so that handing it out (about 1 us) is small beside it.
const TASK_BYTES: usize = 128 * 1024;

/// How much there is to do, to decide whether threads pay.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Bytes read plus bytes written, for work bound by memory.
    Bytes(usize),
    /// Operations, for work bound by arithmetic; a transcendental function counts about 16.
    Flops(usize),
    /// Enough, as the caller has found out by other means.
    Worthwhile,
}

impl Work {
    /// Whether threads pay for this amount of work on this machine, now.
    pub fn is_parallel(self) -> bool {
        self.pays(helpers_are_awake())
    }

    /// `t` threads save `1 - 1/t` of the time, which has to be more than it takes to have them.
    fn pays(self, awake: bool) -> bool {
        let t = threads();
        let (bytes, flops) = if awake { (AWAKE_BYTES, AWAKE_FLOPS) } else { (WAKE_BYTES, WAKE_FLOPS) };
        t > 1
            && match self {
                Work::Bytes(n) => n >= bytes + bytes / (t - 1),
                Work::Flops(n) => n >= flops,
                Work::Worthwhile => true,
            }
    }

    /// What the work takes one thread, in nanoseconds; `None` when it would not pay to have more, even if they were awake.
    fn alone(self) -> Option<usize> {
        match self {
            Work::Bytes(n) | Work::Flops(n) => self.pays(true).then_some(n / PER_NANOSECOND),
            Work::Worthwhile => None,
        }
    }
}

fn helpers_are_awake() -> bool {
    #[cfg(feature = "rayon")]
    {
        standby::is_awake()
    }
    #[cfg(not(feature = "rayon"))]
    {
        false
    }
}

fn work_alone(nanoseconds: usize) {
    #[cfg(feature = "rayon")]
    standby::work_alone(nanoseconds);
    let _ = nanoseconds;
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
    // One chunk is what small operations have, in which every call counts.
    if out.len() <= chunk {
        if !out.is_empty() {
            f(0, out);
        }
        return;
    }
    let parts = Parts::new(out, chunk);
    // SAFETY: `each_task` calls with each number once.
    each_task(parts.count(), work, &|k| f(k, unsafe { parts.take(k) }));
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
    let (a, b) = (Parts::new(a, chunk_a), Parts::new(b, chunk_b));
    // SAFETY: as in `for_each_chunk`, for both.
    each_task(a.count(), work, &|k| f(k, unsafe { a.take(k) }, unsafe { b.take(k) }));
}

/// Calls `f` with `0..count`, each once, in parallel when `work` pays.
///
/// Everything goes through this one function, and `f` is `dyn`: kernels have hundreds of instances, and an instance of
/// rayon's iterators for each of them was a third of the engine's machine code and build time.
fn each_task(count: usize, work: Work, f: &(dyn Fn(usize) + Sync)) {
    #[cfg(feature = "rayon")]
    if count > 1 && work.is_parallel() {
        return section::run(count, f);
    }
    (0..count).for_each(f);
    // Now that the next operation is about to come: a helper woken any earlier would be asleep again by then.
    if count > 1
        && let Some(nanoseconds) = work.alone()
    {
        work_alone(nanoseconds);
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
