//! The memory that a target may use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Once;

/// The system's allocator, which refuses requests of [`LARGEST`] bytes and more. So an operation at an
/// extreme size either fails at once or is small enough to end soon.
struct Refusing;

/// The engine promises `Error::Memory` for requests of 1 MiB and more.
const LARGEST: usize = 2 << 20;

/// Whether a request is refused. Not that of a thread that panics, which reads debug information for its
/// trace.
fn refuses(size: usize) -> bool {
    size >= LARGEST && !std::thread::panicking()
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

// SAFETY: passes every call on to the system's allocator, or returns null, which says that there is no
// memory.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refuses(size) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Has results come straight from the system, so that AddressSanitizer sees accesses past their ends.
pub fn forget_freed_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| flex_core::storage::pool::set_limit(0));
}
