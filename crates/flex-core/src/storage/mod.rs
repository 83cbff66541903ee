//! Buffers: 64-byte aligned blocks behind [`Bytes`], recycled through a [pool] when `std` is there.
//!
//! A block is zeroed once, when it comes from the system, and never again: whoever takes one from the pool finds
//! whatever its last owner left. That keeps the bytes initialised in the language's sense, so kernels write their
//! outputs through plain `&mut [T]`, while nobody pays for zeroing what is about to be written.

mod block;
#[cfg(feature = "std")]
pub mod pool;

use alloc::boxed::Box;
use block::Block;
use burn_std::{AllocationController, AllocationProperty, Bytes};
use core::mem::MaybeUninit;

/// Alignment of every buffer the engine allocates: one cache line, and one AVX-512 register.
pub const ALIGN: usize = 64;

/// A buffer of `len` bytes with arbitrary (but initialised) contents; `None` when the system has not that much memory.
pub fn try_alloc(len: usize) -> Option<Bytes> {
    #[cfg(feature = "std")]
    let block = pool::take(len)?;
    #[cfg(not(feature = "std"))]
    let block = Block::new(len)?;
    // SAFETY: `Block::as_slice` is initialised over its whole length, which is at least `len`.
    Some(unsafe { Bytes::from_controller(Box::new(BlockController { block: Some(block) }), len) })
}

/// [`try_alloc`] for buffers that are no larger than others which the caller holds.
///
/// # Panics
/// When the system has not that much memory.
pub fn alloc(len: usize) -> Bytes {
    try_alloc(len).unwrap_or_else(|| panic!("storage: the system has no {len} bytes of memory left"))
}

/// Frees the blocks that wait for reuse. Live tensors are not touched.
pub fn cleanup() {
    #[cfg(feature = "std")]
    pool::clear();
}

/// Lends a [`Block`] to [`Bytes`] and returns it to the pool in the end.
struct BlockController {
    /// `None` only while dropping.
    block: Option<Block>,
}

impl BlockController {
    fn block(&self) -> &Block {
        self.block.as_ref().expect("present until drop")
    }
}

impl AllocationController for BlockController {
    /// The alignment that copies of the bytes are to have. `Bytes` refuses to copy to a stricter one than this.
    fn alloc_align(&self) -> usize {
        align_of::<u128>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    unsafe fn memory_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        self.block.as_mut().expect("present until drop").as_mut_slice()
    }

    fn memory(&self) -> &[MaybeUninit<u8>] {
        self.block().as_slice()
    }
}

impl Drop for BlockController {
    fn drop(&mut self) {
        #[cfg(feature = "std")]
        if let Some(block) = self.block.take() {
            pool::give_back(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_writable_over_their_whole_length() {
        for len in [0, 1, 63, 64, 65, 4096, 100_000, 5_000_000] {
            let mut bytes = alloc(len);
            assert_eq!(bytes.len(), len);
            assert_eq!(bytes.as_ptr() as usize % ALIGN, 0);
            bytes.fill(0xA5);
            assert!(bytes.iter().all(|&b| b == 0xA5));
            assert_eq!(bytes.clone(), bytes);
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn what_no_machine_holds_is_refused() {
        // Half of the address space, and all that a layout can describe.
        for len in [1 << 62, isize::MAX as usize, usize::MAX] {
            assert!(try_alloc(len).is_none());
        }
    }
}
