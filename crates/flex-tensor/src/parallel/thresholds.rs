//! Every threshold that decides whether threads pay, and how much work one task gets. A change to one of them
//! is a change to this file alone.
//!
//! The order of sums is not decided here: where it follows from the blocks of a computation, their sizes are
//! part of the algorithm and lie beside it.

/// Memory-bound work (bytes read plus written) that one thread does while a sleeping helper wakes up: see
/// [`Work::is_parallel`](super::Work::is_parallel).
///
/// One core of Zen 5 moves 100 bytes per ns while they are in its third-level cache; a sleeping worker takes
/// some 50 us to wake up.
pub const WAKE_BYTES: usize = 8 * 1024 * 1024;

/// [`WAKE_BYTES`] when helpers are awake: some 3 us, so that handing work over (1 us) is small. On two
/// threads, adding 65,536 f32 takes 3.6 us instead of 4.6.
pub const AWAKE_BYTES: usize = 320 * 1024;

/// Arithmetic (floating-point operations, or their equivalent in time) that justifies waking a helper.
///
/// That is some 40 us on one thread, at 100 operations per ns: 65,536 `exp`, of 16 operations each, take 11
/// us.
pub const WAKE_FLOPS: usize = 4 * 1024 * 1024;

/// [`WAKE_FLOPS`] when helpers are awake: some 5 us.
pub const AWAKE_FLOPS: usize = 512 * 1024;

/// Bytes, or operations, that one thread processes per nanosecond.
pub const PER_NANOSECOND: usize = 100;

/// Minimum number of bytes that one task should move, so that handing it out (about 1 us) is small in
/// comparison.
pub const TASK_BYTES: usize = 128 * 1024;

/// Multiplications of a product of matrices (`m * n * k`) that justify waking a helper.
///
/// One thread of Zen 5 takes 60 us for this number, about the time to wake a sleeping worker.
pub const WAKE_MULTIPLICATIONS: usize = 8 << 20;

/// [`WAKE_MULTIPLICATIONS`] when helpers are awake: two tasks.
pub const AWAKE_MULTIPLICATIONS: usize = 2 * TASK_MULTIPLICATIONS;

/// Multiplications of products of f32 that one thread does per nanosecond. Half of the peak of Zen 5, and the
/// peak of Zen 4.
pub const MULTIPLICATIONS_PER_NANOSECOND: usize = 50;

/// Multiplications per task of a batch of products: some 2 us of f32 on one core of Zen 5, enough to pay for
/// handing the task over.
pub const TASK_MULTIPLICATIONS: usize = 1 << 18;

/// Speed of the kernel that multiplies pairs of bf16 relative to plain loops, whose operations
/// [`Work::Flops`](super::Work::Flops) counts.
pub const BF16_PRODUCT_SPEEDUP: usize = 4;

/// Time of packing an element of an operand of a float product for the kernel, in multiplications. Every part
/// of a product packs the rows and columns that it multiplies for itself, so no thread waits for another.
pub const TASK_PACKING: usize = 16;

/// Maximum number of strips of the left operand per task of a bf16 product.
pub const TASK_BF16_STRIPS: usize = 4;

/// Rows of the output per task of an integer product.
pub const TASK_INTEGER_ROWS: usize = 32;

/// Fewest threads with which the parallel radix sort is faster. Measured: 1 Mi u32 cost 3.1 ms serially and
/// 5.1 ms with two threads. The order of a stable sort is unique, so the choice does not affect the result.
pub const PARALLEL_SORT_THREADS: usize = 4;

/// Floating-point operations per task of a convolution, about 4 us with AVX-512; smaller units of work are
/// joined.
pub const TASK_CONV_FLOPS: usize = 1024 * 1024;

/// Least number of tasks that a large convolution is cut into, if its shape allows it.
pub const CONV_TASKS: usize = 16;

/// Number of tasks of an attention below which its blocks of queries are smaller.
pub const ATTENTION_TASKS: usize = 16;

/// Operations per task of Fourier transforms: some 5 us.
pub const TASK_FFT_FLOPS: usize = 32 * 1024;

/// Blocks of random numbers per task. One AVX-512 core takes 0.4 ns per uniform and 0.8 ns per normal `f32`,
/// which makes 7 to 12 us per task.
pub const TASK_RANDOM_BLOCKS: usize = 16;
