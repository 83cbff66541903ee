//! The handle of the memory that tensors share.

use super::prepared::{Key, Slot};
use super::{Bytes, Deferred};
use alloc::sync::Arc;
use core::fmt;

/// The memory of a tensor, shared with its clones and views. No other part of the engine knows how the memory
/// is owned.
#[derive(Clone, Debug)]
pub(crate) struct Buffer(Arc<Shared>);

/// Bytes, and the form of them that a kernel [prepared](super::prepared).
struct Shared {
    bytes: Bytes,
    prepared: Slot,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

impl Buffer {
    /// A buffer with one reference.
    #[inline]
    pub fn new(bytes: Bytes) -> Self {
        Self(Arc::new(Shared { bytes, prepared: Slot::default() }))
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Whether there is no other reference to the buffer, and a write to `part` bytes of it changes the
    /// memory in place.
    ///
    /// Memory lent by a file or another library is written only by a tensor that covers all of it. Its owner
    /// may copy all of it at the first write, whatever it said before; so a write to a small view would cost
    /// time and memory without a bound. A tensor that covers all of it needs as much memory for its result.
    #[inline]
    pub fn is_unique(&self, part: impl FnOnce() -> usize) -> bool {
        Arc::strong_count(&self.0) == 1
            && (!self.0.bytes.is_adopted() || self.0.bytes.is_writable() && part() >= self.len())
    }

    /// The bytes, mutable, when the buffer [is unique](Self::is_unique).
    #[inline]
    pub fn bytes_mut(&mut self, part: impl FnOnce() -> usize) -> Option<&mut [u8]> {
        // Checked first, since `get_mut` does an atomic exchange.
        if !self.is_unique(part) {
            return None;
        }
        Arc::get_mut(&mut self.0).map(|Shared { bytes, prepared }| {
            prepared.empty();
            &mut bytes[..]
        })
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.bytes.len()
    }

    /// The computation that provides the bytes, also when it has run.
    #[inline]
    pub fn computation(&self) -> Option<&dyn Deferred> {
        self.0.bytes.computation()
    }

    /// The [form](super::prepared) of this key, if there is one.
    pub fn form<K: Key>(&self, key: &K) -> Option<&[u8]> {
        self.0.prepared.form(key)
    }

    /// See [`Tensor::prepare`](crate::Tensor::prepare).
    pub fn prepare<K: Key>(&self, key: K, len: usize, write: impl FnOnce(&mut [u8])) -> Option<&[u8]> {
        self.0.prepared.prepare(key, len, write)
    }

    /// Computes the bytes, if a computation provides them and nobody has read them yet.
    ///
    /// # Errors
    /// The errors of the computation.
    pub fn evaluate(&self) -> crate::Result<()> {
        self.computation().map_or(Ok(()), |computation| computation.bytes().map(|_| ()))
    }

    /// Number of handles of the buffer, this one included.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Whether both handles refer to one buffer.
    #[inline]
    pub fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bytes; a copy when there are other references to the buffer.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) when the system has no room for the copy; the error of a
    /// computation that provides the bytes.
    pub fn into_bytes(self) -> crate::Result<Bytes> {
        match Arc::try_unwrap(self.0) {
            Ok(Shared { mut bytes, .. }) => bytes.settle().map(|()| bytes),
            Err(shared) => {
                let shared = Self(shared);
                shared.evaluate()?;
                super::copy_of("into_data", shared.bytes())
            }
        }
    }
}
