//! An aligned piece of memory from the global allocator, always initialised.

use super::align;
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;

/// Alignment requested from the allocator. For larger alignments the allocator zeroes memory itself, touching
/// every page, where `calloc` hands out pages that the system has zeroed already. So [`align`] is reached by
/// an offset instead.
const SYSTEM_ALIGN: usize = 16;

/// An owned block of initialised bytes that starts at a multiple of its [`align`].
pub struct Block {
    /// The address that the allocator returned.
    base: NonNull<u8>,
    /// Distance from `base` to the aligned start; less than the alignment.
    lead: usize,
    /// Usable bytes from the aligned start on.
    capacity: usize,
}

/// The distance from `base` to the aligned start of a block of `capacity` bytes, which is less than the
/// alignment whatever the address is. The library's `align_offset` may return any larger number instead.
fn lead(base: NonNull<u8>, capacity: usize) -> usize {
    base.addr().get().wrapping_neg() % align(capacity)
}

// SAFETY: a `Block` owns its memory, as a `Box<[u8]>` does; no thread-bound state is attached to it.
unsafe impl Send for Block {}
// SAFETY: shared access only reads, through `as_slice`.
unsafe impl Sync for Block {}

impl Block {
    /// A zeroed block of at least `capacity` usable bytes; `None` when the system cannot provide it.
    pub fn new(capacity: usize) -> Option<Self> {
        let layout = Self::layout(capacity)?;
        // SAFETY: the layout's size is at least the alignment, so it is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { base, lead: lead(base, capacity), capacity })
    }

    /// The layout of the allocation; `None` when it exceeds the address space.
    fn layout(capacity: usize) -> Option<Layout> {
        Layout::from_size_align(capacity.checked_add(align(capacity))?, SYSTEM_ALIGN).ok()
    }

    /// Number of usable bytes; the pool counts them.
    #[cfg(feature = "std")]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The address of the memory, for [`from_raw`](Self::from_raw); otherwise the memory leaks.
    #[cfg(feature = "std")]
    pub fn into_raw(self) -> NonNull<u8> {
        core::mem::ManuallyDrop::new(self).base
    }

    /// The block that [`into_raw`](Self::into_raw) took apart.
    ///
    /// # Safety
    /// `base` must come from `into_raw` of a block of this capacity, and no block may have been made of it
    /// since.
    #[cfg(feature = "std")]
    pub unsafe fn from_raw(base: NonNull<u8>, capacity: usize) -> Self {
        Self { base, lead: lead(base, capacity), capacity }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `lead < align(capacity)` (see the function `lead`), and `align(capacity) + capacity` bytes
        // were allocated, so the range lies inside the allocation. All of it was zeroed, so it is
        // initialised. `&self` keeps writers away.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(self.lead), self.capacity) }
    }

    /// The bytes, mutable.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr().add(self.lead), self.capacity) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let layout = Self::layout(self.capacity).expect("the layout that it was allocated with");
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), layout) }
    }
}
