//! The sizes that the work of reductions and scans is cut to. They depend on the problem alone, never on the
//! number of threads, so results are bit-identical for any number of threads.

/// Independent accumulators along a row: four AVX-512 registers of f32, enough to hide the latency of an
/// addition.
pub(super) const LANES: usize = 64;

pub(super) const QUARTER: usize = LANES / 4;

/// Independent accumulators along a row of fewer than [`LANES`] elements.
pub(super) const SHORT_LANES: usize = 16;

/// Elements of a row between two pairwise combinations, unless its reducer sets another number: 64 additions
/// per lane.
pub(super) const BLOCK: usize = 4096;

/// Rows of a matrix that go into one pairwise combination.
pub(super) const BLOCK_ROWS: usize = 128;

/// Elements of a contiguous run that one task reduces.
pub(super) const TASK: usize = 64 * 1024;

/// Rows from this length on are split among tasks.
pub(super) const LONG_ROW: usize = 2 * TASK;

/// Rows whose results are finished together.
pub(super) const BATCH: usize = 64;

/// Columns that a task reduces together: their f32 accumulators and source elements stay in the first-level
/// cache.
pub(super) const TILE: usize = 1024;
