//! A slice cut into chunks that tasks take by number.

use core::marker::PhantomData;

/// A slice in chunks of equal length, of which the last may be shorter. Each task takes the chunk of its
/// number.
///
/// The methods of slices hand out chunks one after the other, to one thread. A lock around each chunk would
/// serve several threads, but cost a list of locks in every parallel section and code in every instance.
pub(super) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    chunk: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: threads share only the right to take chunks. Chunks do not overlap, and their elements may be sent
// to other threads.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    /// The chunks of `chunk > 0` elements of a slice.
    pub(super) fn new(slice: &'a mut [T], chunk: usize) -> Self {
        debug_assert!(chunk > 0);
        Self { start: slice.as_mut_ptr(), len: slice.len(), chunk, slice: PhantomData }
    }

    /// Number of chunks.
    pub(super) fn count(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    /// Chunk number `k`.
    ///
    /// # Panics
    /// When there is no such chunk.
    ///
    /// # Safety
    /// No chunk number may be taken twice.
    #[allow(clippy::mut_from_ref, reason = "each call returns other elements, as the caller vouches")]
    pub(super) unsafe fn take(&self, k: usize) -> &mut [T] {
        assert!(k < self.count(), "parallel: chunk {k} of {}", self.count());
        let first = k * self.chunk;
        // SAFETY: `first < len`, since `k` is below the number of chunks. So `first` and the remaining
        // elements, at most `chunk`, lie inside the slice, which `self` borrows exclusively. Chunks of other
        // numbers have other elements, and the caller vouches that this number was not taken before.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(first), self.chunk.min(self.len - first)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn chunks_cover_a_slice_once_and_in_order() {
        for (len, chunk) in [(1, 1), (7, 7), (7, 3), (8, 4), (9, 100)] {
            let mut slice: Vec<usize> = (0..len).collect();
            let parts = Parts::new(&mut slice, chunk);
            // SAFETY: each number is taken once.
            let all: Vec<usize> =
                (0..parts.count()).flat_map(|k| unsafe { parts.take(k) }.to_vec()).collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "chunk 3 of 3")]
    fn there_is_no_chunk_behind_the_last() {
        let mut slice = [0; 7];
        let parts = Parts::new(&mut slice, 3);
        // SAFETY: the number is taken once.
        let _ = unsafe { parts.take(3) };
    }
}
