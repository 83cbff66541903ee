//! The thresholds that decide whether threads pay, and how much work one task gets. A change to one of them
//! is a change to this file alone.
//!
//! Sizes that tasks follow from, but that something else decides, lie beside their algorithms:
//!
//! * Sizes of blocks that decide the order of sums. A change to them changes results. They are in
//!   `flex-reduce` (`reduce/sizes.rs`, `reduce/columns.rs`, the blocks of `reduce/scan.rs`), in `flex-gemm`
//!   (the blocks of `matmul/gemv.rs` and `matmul/half.rs`), and in `flex-nn` (`norm/layer_norm_backward.rs`).
//! * Sizes of tiles that have to fit a cache, where a task is a number of tiles: columns of scatter, scans
//!   and softmax, channels of batch norm, queries and keys of attention, points of grid sampling, the planes
//!   of convolutions and Winograd's tiles, and the blocks and tiles of matrix products.
//! * Costs of one element in the units of [`Work`](super::Work).
//!
//! The times of the scheduler itself, such as how long a worker stays awake, are in the other files of
//! `parallel/`.

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

/// Most bytes of the output of an elementwise operation that one task computes. Estimated, not tuned: with
/// two operands of the same type, a task moves 192 KiB, some 10 us from memory, so the cost of a task (1 us)
/// is small beside it; a gathered operand stays in the second-level cache.
pub const TASK_ELEMENTWISE_BYTES: usize = 64 * 1024;

/// Least number of elements that one task of a chain of operations computes: 64 KiB of f32, as in operations
/// that do not wait. Also the elements of a convolution's result that operations complete at a time.
pub const TASK_CHAIN_ELEMENTS: usize = 16 * 1024;

/// Elements of a row of ascending numbers that one task writes; a multiple of every vector width.
pub const TASK_ARANGE_ELEMENTS: usize = 1 << 15;

/// Least number of rows of a product of halves that one task has, if other tasks have the same columns. Each
/// task converts the right operand for itself, which takes as long as 8 multiplications of each of its
/// elements.
pub const TASK_HALF_ROWS: usize = 64;

/// Elements that one task searches for infinities, NaN and huge values.
pub const TASK_FINITE_ELEMENTS: usize = 32 * 1024;

/// Elements of a mask that one task reads.
pub const TASK_MASK_ELEMENTS: usize = 1 << 16;

/// Fewest and most columns per task when threads share the columns of one block of a scatter.
pub const TASK_SCATTER_COLUMNS: [usize; 2] = [16, 256];

/// Blocks of rows that updates of rows are distributed over, if there are fewer than half as many outer
/// blocks. Enough to balance the threads, and few enough that listing each block's updates costs nothing
/// compared with the updates.
pub const UPDATE_BLOCKS: usize = 32;

/// From this number of matrices on, a task of a scan down the columns is a matrix; below it, a tile of
/// columns, if the matrices are wide.
pub const SCAN_MATRICES: usize = 8;

/// Multiplications of a product of matrices (`m * n * k`) that justify waking a helper.
///
/// One thread of Zen 5 takes 60 us for this number, about the time to wake a sleeping worker.
pub const WAKE_MULTIPLICATIONS: usize = 8 << 20;

/// [`WAKE_MULTIPLICATIONS`] when helpers are awake: two tasks.
pub const AWAKE_MULTIPLICATIONS: usize = 2 * TASK_MULTIPLICATIONS;

/// Multiplications of products of f32 that one thread does per nanosecond. Half of the peak of Zen 5, and the
/// peak of Zen 4.
pub const MULTIPLICATIONS_PER_NANOSECOND: usize = 50;

/// From this number of large products, or images of a convolution, per thread on, a batch runs side by side,
/// one per thread, even if the threads do not divide it: at most a fifth of the threads' time is idle then.
pub const PRODUCTS_PER_THREAD: usize = 4;

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

/// Number of strips of an operand of a bf16 product that one task packs.
pub const TASK_PACKED_STRIPS: usize = 8;

/// Rows of the output per task of an integer product.
pub const TASK_INTEGER_ROWS: usize = 32;

/// Tasks per thread that a product with a vector is cut into, across the columns, if its columns are long and
/// its sums short.
pub const VECTOR_PRODUCT_TASKS: usize = 2;

/// Least number of elements of each column that such a task adds up: shorter runs of memory are slower to
/// read.
pub const TASK_COLUMN_ELEMENTS: usize = 192;

/// Fewest threads with which the parallel radix sort is faster. Measured: 1 Mi u32 cost 3.1 ms serially and
/// 5.1 ms with two threads. The order of a stable sort is unique, so the choice does not affect the result.
pub const PARALLEL_SORT_THREADS: usize = 4;

/// Items that one task of the parallel radix sort distributes.
pub const TASK_RADIX_ITEMS: usize = 64 * 1024;

/// From this number of items on, one list is sorted in parallel.
pub const PARALLEL_SORT_ITEMS: usize = 2 * TASK_RADIX_ITEMS;

/// Elements that one task sorts, in whole rows, if rows are shorter.
pub const TASK_SORT_ELEMENTS: usize = 8 * 1024;

/// Rows from this length on are sorted one by one, each in parallel.
pub const LONG_SORTED_ROW: usize = 128 * 1024;

/// Elements in which one task looks for the first k in sorted order: whole rows, or a part of a long one.
pub const TASK_TOPK_ELEMENTS: usize = 32 * 1024;

/// Rows from this length on are split among tasks if k is at most [`SPLIT_TOPK`].
pub const LONG_TOPK_ROW: usize = 256 * 1024;

/// Largest k with which a long row is split: each part yields k elements, which are few beside it.
pub const SPLIT_TOPK: usize = TASK_TOPK_ELEMENTS / 8;

/// Floating-point operations per task of a convolution, about 4 us with AVX-512; smaller units of work are
/// joined.
pub const TASK_CONV_FLOPS: usize = 1024 * 1024;

/// Least number of tasks that a large convolution is cut into, if its shape allows it. It also enters the
/// cost by which a convolution's method is chosen (`conv/winograd/mod.rs`).
pub const CONV_TASKS: usize = 16;

/// Most output channels of a task of a large convolution.
pub const TASK_CONV_ROWS: usize = 64;

/// Images (times groups) with at most this work pack and multiply their planes in one task, while the planes
/// are in the cache, if there are [`WHOLE_CONV_UNITS`] of them. Larger images are packed first and then
/// multiplied by several tasks.
pub const WHOLE_CONV_FLOPS: usize = 8 * 1024 * 1024;

/// Least number of images (times groups) of at most [`WHOLE_CONV_FLOPS`] that are not split among tasks.
pub const WHOLE_CONV_UNITS: usize = 8;

/// From this number of images (times groups) on, none is split among tasks, whatever its work.
pub const MANY_CONV_UNITS: usize = 64;

/// Most tasks that the rows of the gradient of a convolution's weight are cut into.
pub const CONV_WEIGHT_TASKS: usize = 32;

/// Rows of the gradient of a deformable convolution's weight per task.
pub const TASK_DEFORM_ROWS: usize = 8;

/// Number of tasks of an attention below which its blocks of queries are smaller.
pub const ATTENTION_TASKS: usize = 16;

/// Operations per task of Fourier transforms: some 5 us.
pub const TASK_FFT_FLOPS: usize = 32 * 1024;

/// Blocks of random numbers per task. One AVX-512 core takes 0.4 ns per uniform and 0.8 ns per normal `f32`,
/// which makes 7 to 12 us per task.
pub const TASK_RANDOM_BLOCKS: usize = 16;
