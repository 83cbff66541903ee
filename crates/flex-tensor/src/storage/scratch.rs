//! Typed working memory.

use super::{Bytes, alloc, scratch};
use crate::error::Result;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// Working memory for elements of a type. At first the elements are arbitrary.
///
/// It begins at the start of a cache line, as every [buffer](super::ALIGN) of more than 256 bytes, so that
/// vectors of a row lie in one line each. A `Vec` of numbers does not: system allocators begin 16 bytes after
/// the start of a line. Softmax of a million f16, whose passes over a row are in f32, took 491 us in a `Vec`,
/// and takes 436 (one thread of Zen 4).
pub struct Scratch<T> {
    bytes: Bytes,
    element: PhantomData<T>,
}

impl<T: Pod> Scratch<T> {
    /// Memory for `len` elements.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) under the name `op`.
    pub fn new(op: &'static str, len: usize) -> Result<Self> {
        Ok(Self { bytes: scratch(op, len.saturating_mul(size_of::<T>()))?, element: PhantomData })
    }

    /// [`new`](Self::new) for tasks, whose operation has asked for the memory.
    ///
    /// # Panics
    /// When the system does not have that much memory.
    pub fn for_task(len: usize) -> Self {
        Self { bytes: alloc(len.saturating_mul(size_of::<T>())), element: PhantomData }
    }

    /// The same memory, all of whose bytes are zeros.
    #[must_use]
    pub fn zeroed(mut self) -> Self {
        self.bytes.fill(0);
        self
    }

    /// The first `len` elements. If there are fewer, other memory takes the place of this, as
    /// [`for_task`](Self::for_task) provides it.
    ///
    /// # Panics
    /// When the system does not have that much memory.
    #[inline]
    pub fn elements(&mut self, len: usize) -> &mut [T] {
        if self.bytes.len() / size_of::<T>() < len {
            replace(&mut self.bytes, len.saturating_mul(size_of::<T>()));
        }
        &mut self[..len]
    }
}

/// Not inlined: every kernel that converts its operands gets here.
#[cold]
#[inline(never)]
fn replace(bytes: &mut Bytes, len: usize) {
    // Given back first, so that no task has both.
    *bytes = alloc(0);
    *bytes = alloc(len);
}

impl<T: Pod> Default for Scratch<T> {
    /// No memory.
    fn default() -> Self {
        Self::for_task(0)
    }
}

impl<T: Pod> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        cast_slice(&self.bytes)
    }
}

impl<T: Pod> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        cast_slice_mut(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ALIGN;

    #[test]
    fn memory_begins_with_a_cache_line_and_grows_on_demand() {
        let mut scratch = Scratch::<f32>::default();
        assert!(scratch.is_empty() && scratch.elements(0).is_empty());
        for len in [65, 1000, 100, 5000] {
            let start = scratch.elements(len);
            assert_eq!((start.len(), start.as_ptr().addr() % ALIGN), (len, 0));
            start.fill(1.0);
        }
        assert_eq!(scratch.len(), 5000);
        assert_eq!(*Scratch::<u128>::new("exp", 3).unwrap().zeroed(), [0; 3]);
        assert!(Scratch::<f64>::new("exp", usize::MAX).is_err());
    }
}
