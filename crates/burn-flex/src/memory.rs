//! The pool of freed memory, and functions that bound it.
//!
//! Buffers of dropped tensors wait in a pool for the next tensor of their size, because fresh pages cost more
//! than the arithmetic on them. By default at most an eighth of the memory that the process may use waits there
//! (`default_limit`); without `std` there is no pool. [`cleanup`] (also `Backend::memory_cleanup`) returns them to the system.

pub use flex_core::storage::cleanup;
#[cfg(feature = "std")]
pub use flex_core::storage::pool::{FIXED_LIMIT, PoolStats, default_limit, set_limit, stats};
