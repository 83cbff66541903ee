//! The sizes that reductions and scans are cut to. They depend on the problem alone, never on the number of threads,
//! so results are the same bits on any number of them.

/// Independent accumulators along a row: four AVX-512 registers of f32, enough to hide an addition's latency.
pub(super) const LANES: usize = 64;

/// A quarter of them.
pub(super) const QUARTER: usize = LANES / 4;

/// The same for rows too short to fold that many.
pub(super) const SHORT_LANES: usize = 16;

/// Elements of a row between two pairwise combinations, unless its reducer knows better: 64 additions per lane.
pub(super) const BLOCK: usize = 4096;

/// Rows of a matrix that go into one pairwise combination.
pub(super) const BLOCK_ROWS: usize = 128;

/// Elements of a contiguous run that one task reduces.
pub(super) const TASK: usize = 64 * 1024;

/// Rows from this length on are split over tasks; shorter ones are what tasks are made of.
pub(super) const LONG_ROW: usize = 2 * TASK;

/// Rows whose results are finished together.
pub(super) const BATCH: usize = 64;

/// Columns that a task reduces together: their accumulators in f32 and their sources stay in the first-level cache.
pub(super) const TILE: usize = 1024;
