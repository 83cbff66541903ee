//! The pool of freed memory, and functions that bound it.
//!
//! Buffers of dropped tensors wait in a pool for the next tensor of their size, because fresh pages cost more
//! than the arithmetic on them. By default at most an eighth of the memory that the process may use waits
//! there (`default_limit`); without `std` there is no pool. [`cleanup`] (also `Backend::memory_cleanup`)
//! returns them to the system.

#[cfg(feature = "std")]
pub use flex_core::storage::pool::{FIXED_LIMIT, PoolStats, default_limit, set_limit, stats};

/// Returns memory that waits for reuse to the system: the blocks of the pool, and the plans of Fourier
/// transforms. Live tensors are not touched.
pub fn cleanup() {
    flex_core::storage::cleanup();
    flex_core::fft::cleanup();
}
