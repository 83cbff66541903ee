//! The only module that decides how many threads run and how work is split among them. The numbers that it
//! decides by are in [`thresholds`].
//!
//! The blocks that a result depends on, such as the blocks of a sum, are sized by the problem alone, never by
//! the number of threads. So results have the same bits on any machine. Without the `rayon` feature
//! everything runs on the calling thread.

#[cfg(feature = "rayon")]
mod board;
#[cfg(feature = "rayon")]
mod crowd;
#[cfg(all(test, loom))]
mod loom_models;
mod parts;
// Loom's own threads stand for a pool's in its models.
#[cfg_attr(not(all(feature = "rayon", not(all(test, loom)))), path = "parallel/alone.rs")]
mod pool;
#[cfg(feature = "rayon")]
mod section;
#[cfg(feature = "rayon")]
mod standby;
#[cfg(feature = "rayon")]
mod sync;
pub mod thresholds;

use crate::small::collected;
use core::ops::Range;
use parts::Parts;
use smallvec::SmallVec;
use thresholds::{
    AWAKE_BYTES, AWAKE_FLOPS, AWAKE_MULTIPLICATIONS, MULTIPLICATIONS_PER_NANOSECOND, PER_NANOSECOND,
    TASK_BYTES, WAKE_BYTES, WAKE_FLOPS, WAKE_MULTIPLICATIONS,
};

/// The amount of work, from which [`Work::is_parallel`] decides whether threads pay.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Bytes read plus bytes written, for work bound by memory.
    Bytes(usize),
    /// Operations, for work bound by arithmetic; a transcendental function counts about 16.
    Flops(usize),
    /// Multiplications of products of float matrices, which take far less time than plain operations.
    Multiplications(usize),
    /// Enough work for threads, as the caller has determined by other means.
    Worthwhile,
}

impl Work {
    /// Whether threads pay for this amount of work on this machine, now.
    pub fn is_parallel(self) -> bool {
        self.pays(pool::is_awake())
    }

    /// Whether threads pay, with helpers `awake` or not: `t` threads save `1 - 1/t` of the time, which must
    /// exceed the cost of the helpers.
    fn pays(self, awake: bool) -> bool {
        let t = threads();
        let (bytes, flops) = if awake { (AWAKE_BYTES, AWAKE_FLOPS) } else { (WAKE_BYTES, WAKE_FLOPS) };
        t > 1
            && match self {
                Work::Bytes(n) => n >= bytes + bytes / (t - 1),
                Work::Flops(n) => n >= flops,
                Work::Multiplications(n) => {
                    n >= if awake { AWAKE_MULTIPLICATIONS } else { WAKE_MULTIPLICATIONS }
                }
                Work::Worthwhile => true,
            }
    }

    /// The time that one thread needs for the work, in nanoseconds; `None` if more threads would not pay even
    /// with helpers awake.
    fn alone(self) -> Option<usize> {
        let nanoseconds = match self {
            Work::Bytes(n) | Work::Flops(n) => n / PER_NANOSECOND,
            Work::Multiplications(n) => n / MULTIPLICATIONS_PER_NANOSECOND,
            Work::Worthwhile => return None,
        };
        self.pays(true).then_some(nanoseconds)
    }
}

/// Number of threads that parallel sections use.
pub fn threads() -> usize {
    pool::threads()
}

/// Splits `out` into consecutive chunks of `chunk` elements (the last may be shorter) and calls
/// `f(k, chunk_k)` for each chunk, in parallel when `work` pays.
///
/// # Panics
/// When `chunk` is zero.
pub fn for_each_chunk<T: Send>(out: &mut [T], chunk: usize, work: Work, f: impl Fn(usize, &mut [T]) + Sync) {
    each_chunk(out, chunk, work, &f);
}

/// The work on a chunk; not `dyn Fn` for the reason that [`Tasks`] gives.
trait Chunks<T>: Sync {
    /// Runs for chunk `number`.
    fn run(&self, number: usize, chunk: &mut [T]);
}

impl<T, F: Fn(usize, &mut [T]) + Sync> Chunks<T> for F {
    fn run(&self, number: usize, chunk: &mut [T]) {
        self(number, chunk)
    }
}

/// [`for_each_chunk`], compiled once per type of elements instead of once per kernel, and with one copy of
/// the kernel for small and large outputs.
fn each_chunk<T: Send>(out: &mut [T], chunk: usize, work: Work, f: &dyn Chunks<T>) {
    assert!(chunk > 0, "for_each_chunk: the chunk size is zero");
    // Small operations have one chunk; for them every call counts.
    if out.len() <= chunk {
        if !out.is_empty() {
            f.run(0, out);
        }
        return;
    }
    let parts = Parts::new(out, chunk);
    // SAFETY: `each_task` calls the closure with each number once.
    each_task(parts.count(), work, &|k: usize| f.run(k, unsafe { parts.take(k) }));
}

/// [`for_each_chunk`] over two outputs: `f(k, a_k, b_k)` gets chunk `k` of `a`, of `chunk_a` elements, and
/// chunk `k` of `b`, of `chunk_b` elements.
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
    each_chunk2(a, chunk_a, b, chunk_b, work, &f);
}

/// [`Chunks`] of two outputs.
trait Chunks2<A, B>: Sync {
    /// Runs for chunks `number`.
    fn run(&self, number: usize, a: &mut [A], b: &mut [B]);
}

impl<A, B, F: Fn(usize, &mut [A], &mut [B]) + Sync> Chunks2<A, B> for F {
    fn run(&self, number: usize, a: &mut [A], b: &mut [B]) {
        self(number, a, b)
    }
}

/// [`for_each_chunk2`], compiled once per pair of types.
fn each_chunk2<A: Send, B: Send>(
    a: &mut [A],
    chunk_a: usize,
    b: &mut [B],
    chunk_b: usize,
    work: Work,
    f: &dyn Chunks2<A, B>,
) {
    assert!(chunk_a > 0 && chunk_b > 0, "for_each_chunk2: a chunk size is zero");
    assert_eq!(
        a.len().div_ceil(chunk_a),
        b.len().div_ceil(chunk_b),
        "for_each_chunk2: the outputs have different numbers of chunks"
    );
    let (a, b) = (Parts::new(a, chunk_a), Parts::new(b, chunk_b));
    // SAFETY: as in `for_each_chunk`, for both outputs.
    each_task(a.count(), work, &|k: usize| f.run(k, unsafe { a.take(k) }, unsafe { b.take(k) }));
}

/// [`for_each_chunk`] over any number of outputs of bytes, each given with the size of its chunks: `f(k,
/// chunks)` gets chunk `k` of every output.
///
/// # Panics
/// When a chunk size is zero or the outputs have different numbers of chunks.
pub fn for_each_chunks(
    outs: &mut [(&mut [u8], usize)],
    work: Work,
    f: impl Fn(usize, &mut [&mut [u8]]) + Sync,
) {
    let parts: SmallVec<[Parts<'_, u8>; 4]> = collected(outs.iter_mut().map(|(out, chunk)| {
        assert!(*chunk > 0, "for_each_chunks: a chunk size is zero");
        Parts::new(out, *chunk)
    }));
    let count = parts.first().map_or(0, Parts::count);
    let equal = parts.iter().all(|part| part.count() == count);
    assert!(equal, "for_each_chunks: the outputs have different numbers of chunks");
    each_task(count, work, &|k: usize| {
        // SAFETY: as in `for_each_chunk`, for every output.
        let mut chunks: SmallVec<[&mut [u8]; 4]> =
            collected(parts.iter().map(|part| unsafe { part.take(k) }));
        f(k, &mut chunks);
    });
}

/// Tasks with numbers. A trait of its own because `dyn Fn` has a table with a copy of the closure's code for
/// each of `call`, `call_mut` and `call_once`: 0.2 MB of the engine's machine code.
trait Tasks: Sync {
    /// Runs task `number`.
    fn run(&self, number: usize);
}

impl<F: Fn(usize) + Sync> Tasks for F {
    fn run(&self, number: usize) {
        self(number)
    }
}

/// Calls `f` with each number of `0..count` once, in parallel when `work` pays. For outputs that
/// [`for_each_chunk`] cannot cut, such as blocks of columns.
pub fn for_each_task(count: usize, work: Work, f: impl Fn(usize) + Sync) {
    each_task(count, work, &f);
}

/// [`for_each_task`], compiled once.
///
/// All parallel work goes through this one function, and `f` is `dyn`: kernels have hundreds of instances,
/// and one instance of rayon's iterators for each of them was a third of the engine's machine code and build
/// time.
fn each_task(count: usize, work: Work, f: &dyn Tasks) {
    if count > 1 && work.is_parallel() {
        return pool::run(count, f);
    }
    (0..count).for_each(|k| f.run(k));
    // After the work, because the next operation is about to come: a helper woken earlier would be asleep
    // again by then.
    if count > 1
        && let Some(nanoseconds) = work.alone()
    {
        pool::work_alone(nanoseconds);
    }
}

/// Calls `f` with whether threads pay for `work`. For work that decides by itself how it is cut, and is cut
/// otherwise on one thread.
pub fn decide<R>(work: Work, f: impl FnOnce(bool) -> R) -> R {
    let pays = work.is_parallel();
    let result = f(pays);
    // After the work, as in `each_task`.
    if !pays && let Some(nanoseconds) = work.alone() {
        pool::work_alone(nanoseconds);
    }
    result
}

/// Computes `f` for each block of at most `block` indices of `0..n` (in parallel when `work` pays) and
/// returns the results in block order, for a reduction whose order does not depend on the threads.
///
/// # Panics
/// When `block` is zero, or the system has no memory for the list of results.
pub fn map_blocks<R: Send>(
    n: usize,
    block: usize,
    work: Work,
    f: impl Fn(Range<usize>) -> R + Sync,
) -> alloc::vec::Vec<R> {
    assert!(block > 0, "map_blocks: the block size is zero");
    let count = n.div_ceil(block);
    let mut results = crate::storage::list::<Option<R>>(count);
    results.extend((0..count).map(|_| None));
    for_each_chunk(&mut results, 1, work, |k, slot| {
        slot[0] = Some(f(k * block..((k + 1) * block).min(n)));
    });
    let mut list = crate::storage::list(count);
    list.extend(results.into_iter().flatten());
    list
}

/// Number of consecutive rows that one task should take, so that it moves at least 128 KiB when each row
/// costs `bytes_per_row`. At least one.
pub fn rows_per_task(bytes_per_row: usize) -> usize {
    TASK_BYTES.div_ceil(bytes_per_row.max(1)).max(1)
}
