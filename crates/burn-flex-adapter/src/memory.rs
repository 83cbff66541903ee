//! The pool of freed memory, forms of weights, and functions that bound them.
//!
//! Buffers of dropped tensors wait in a pool for the next tensor of their size, because fresh pages cost more
//! than the arithmetic on them. By default at most an eighth of the memory that the process may use waits
//! there (`default_limit`); without `std` there is no pool. [`cleanup`] (also `Backend::memory_cleanup`)
//! returns them to the system.

#[cfg(feature = "std")]
pub use flex_core::storage::pool::{FIXED_LIMIT, PoolStats, default_limit, set_limit, stats};

/// Forms of weights, which a kernel prepares at the second use of a weight and reads at later uses.
///
/// A convolution whose weight is transformed first (Winograd's method) transforms it once, if the weight does
/// not change. Results have the same bits. The form takes some 1.2 to 4 times the memory of the weight, and
/// ends with it or when it is written; by default all forms together take at most an eighth of the memory
/// that the process may use. `set_limit(0)`, or `FLEX_PREPARE=off` in the environment, lets nothing be
/// prepared. Without `std` nothing is, unless a limit is set.
pub mod prepared {
    pub use flex_core::storage::prepared::{bytes, default_limit, limit, set_limit};
}

/// Returns memory that waits for reuse to the system: the blocks of the pool, and the plans of Fourier
/// transforms. Live tensors are not touched.
pub fn cleanup() {
    flex_core::storage::cleanup();
    flex_core::fft::cleanup();
}
