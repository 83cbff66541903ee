//! Bytes that are computed when somebody first reads them.

use super::Bytes;
use crate::Tensor;
use crate::error::Result;
use alloc::sync::Arc;
use core::any::Any;

/// A computation whose result is the bytes of a tensor. It runs when somebody first reads the bytes, and
/// never if nobody does. [`Tensor::deferred`](crate::Tensor::deferred) makes a tensor of it.
pub trait Deferred: Any + Send + Sync {
    /// Whether the bytes are not computed yet.
    fn waits(&self) -> bool;

    /// The bytes. The first call computes them; calls of other threads wait meanwhile.
    ///
    /// # Errors
    /// The error of the computation, at each call.
    fn bytes(&self) -> Result<&[u8]>;

    /// The bytes, apart from the computation.
    ///
    /// # Errors
    /// The error of the computation, or [`Error::Memory`](crate::Error::Memory) when another thread holds
    /// the computation and the system has no room for a copy.
    fn into_bytes(self: Arc<Self>) -> Result<Bytes>;

    /// Computes the bytes piece by piece, and folds each piece while it is in the cache; does not store the
    /// bytes unless `is_held`, that is, unless somebody will read them.
    ///
    /// The bytes are units of `unit` bytes, and `out` has as many units of another size. `fold` gets
    /// consecutive units of the bytes, and the same units of `out`.
    ///
    /// Returns whether it did so. If not, as by default, `out` is as before and the bytes can be read.
    ///
    /// # Errors
    /// The error of the computation.
    fn fold(&self, is_held: bool, unit: usize, out: &mut [u8], fold: Fold<'_>) -> Result<bool> {
        let _ = (is_held, unit, out, fold);
        Ok(false)
    }
}

/// Folds units of bytes into units of another size.
pub type Fold<'a> = &'a (dyn Fn(&[u8], &mut [u8]) + Sync);

/// A kernel whose result waits for the operations that follow it, which then complete each piece of the
/// result while it is in the cache.
pub trait Producer: Send + Sync {
    /// The result: a contiguous tensor that nothing else shares. Each of its elements is passed to `finish`
    /// once, when the kernel needs it no more.
    ///
    /// # Errors
    /// Too little memory. What else can be wrong is found before the result waits.
    fn produce(&self, finish: Option<Finish<'_>>) -> Result<Tensor>;
}

/// Completes consecutive elements of a result in place, given the number of the first one. Tasks of a kernel
/// may call it at the same time, each for elements of its own.
pub type Finish<'a> = &'a (dyn Fn(usize, &mut [u8]) + Sync);
