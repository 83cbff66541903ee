//! The handle that tensors share.

use super::Bytes;
use alloc::sync::Arc;

/// The memory behind a tensor, which its clones and views share. Nothing else of the engine knows what lies behind it.
#[derive(Clone, Debug)]
pub(crate) struct Buffer(Arc<Bytes>);

impl Buffer {
    /// A buffer that nobody shares yet.
    #[inline]
    pub fn new(bytes: Bytes) -> Self {
        Self(Arc::new(bytes))
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether nobody shares the buffer, and it is written where it lies. Memory lent by a file or another library may
    /// count as shared: writing to it would copy it whole.
    #[inline]
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.0.is_writable()
    }

    /// The bytes, writable, when the buffer [is unique](Self::is_unique).
    #[inline]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // Asked first, since `get_mut` answers with an atomic exchange.
        if !self.is_unique() {
            return None;
        }
        Arc::get_mut(&mut self.0).map(|bytes| &mut bytes[..])
    }

    /// Whether both are one buffer.
    #[inline]
    pub fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bytes; a copy when others share the buffer.
    pub fn into_bytes(self) -> Bytes {
        Arc::try_unwrap(self.0).unwrap_or_else(|shared| super::copy_of(&shared))
    }
}
