//! The pool of freed memory, and functions that bound it.
//!
//! Buffers of dropped tensors wait in a pool for the next tensor of their size, because fresh pages cost more
//! than the arithmetic on them. [`cleanup`] (also `Backend::memory_cleanup`) returns them to the system.

pub use flex_core::storage::cleanup;
#[cfg(feature = "std")]
pub use flex_core::storage::pool::{DEFAULT_LIMIT, PoolStats, set_limit, stats};
