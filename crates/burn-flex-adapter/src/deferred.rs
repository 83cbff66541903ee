//! When operations compute: at once, or when their results are read.
//!
//! A light operation on f32 (a few instructions, such as an addition or relu) that reads and writes 512 KiB
//! and more returns a tensor that waits for its reader. Any other elementwise operation does so if it moves
//! 64 MiB and more. A chain of such operations is then one pass through memory, in which intermediate results
//! never leave the cache. A convolution waits too: the operations that follow it run on each piece of its
//! result while the piece is in the cache. So does the copy that a reshape of a large tensor may need, which
//! reductions read without making it. Results have the same bits, and shapes and dtypes are checked at
//! each call. Reading a tensor computes it; so does `Backend::sync`, which computes every result that a
//! tensor still holds.
//!
//! Times measured around single operations therefore need a `sync` before the clock stops.
//! [`set_least_bytes`], or `FLEX_DEFER=off` in the environment, lets operations compute at their calls.

#[cfg(feature = "std")]
pub use flex_core::elementwise::deferred::{LEAST_BYTES, least_bytes, set_least_bytes};

/// Computes every result that waits for its reader.
pub(crate) fn evaluate_all() -> flex_core::Result<()> {
    #[cfg(feature = "std")]
    flex_core::elementwise::deferred::evaluate_all()?;
    Ok(())
}
