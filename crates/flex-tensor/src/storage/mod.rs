//! Buffers: 64-byte aligned blocks behind [`Bytes`], recycled through a [pool] when `std` is there; the smallest lie in the
//! box that owns them.
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

/// Alignment of every buffer of more than 256 bytes that the engine allocates: one cache line, and one AVX-512 register.
pub const ALIGN: usize = 64;

/// Bytes of one number, or a few small ones: what a full reduction gives.
const NUMBER: usize = 16;

/// Bytes up to which a buffer is [`Small`].
const SMALL: usize = 256;

/// A buffer of `len` bytes with arbitrary (but initialised) contents; `None` when the system has not that much memory.
#[inline]
pub fn try_alloc(len: usize) -> Option<Bytes> {
    if len <= NUMBER {
        return Some(Small::<NUMBER>::bytes(len, |_| ()));
    }
    if len <= SMALL {
        return Some(Small::<SMALL>::bytes(len, |_| ()));
    }
    try_alloc_block(len)
}

fn try_alloc_block(len: usize) -> Option<Bytes> {
    #[cfg(feature = "std")]
    let block = pool::take(len)?;
    #[cfg(not(feature = "std"))]
    let block = Block::new(len)?;
    // SAFETY: `Block::as_slice` is initialised over its whole length, which is at least `len`.
    Some(unsafe { Bytes::from_controller(Box::new(BlockController { block: Some(block) }), len) })
}

/// A buffer that holds the bytes of one number.
///
/// # Panics
/// When there are more than 16.
pub fn number(bytes: &[u8]) -> Bytes {
    Small::<NUMBER>::bytes(bytes.len(), |number| number[..bytes.len()].copy_from_slice(bytes))
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

/// A buffer in the box of its owner: one allocation less, and none of the four atomic operations of the pool. The allocators of
/// today keep such sizes ready for each thread.
#[repr(align(16))]
struct Small<const N: usize>([u8; N]);

impl<const N: usize> Small<N> {
    /// A buffer of `len <= N` bytes, written by `fill`.
    fn bytes(len: usize, fill: impl FnOnce(&mut [u8; N])) -> Bytes {
        assert!(len <= N, "storage: {len} bytes in a buffer of {N}");
        // Not zeros: for these the compiler calls `calloc`, which takes 120 instructions more than `malloc`.
        let mut bytes = [0xA5; N];
        fill(&mut bytes);
        // SAFETY: all `N` bytes are initialised, and `len` is at most `N`.
        unsafe { Bytes::from_controller(Box::new(Self(bytes)), len) }
    }
}

impl<const N: usize> AllocationController for Small<N> {
    fn alloc_align(&self) -> usize {
        align_of::<Self>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    unsafe fn memory_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the two types have one layout, `&mut self` makes the access exclusive, and `Bytes`, which alone gets this, writes
        // initialised bytes.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), N) }
    }

    fn memory(&self) -> &[MaybeUninit<u8>] {
        // SAFETY: the two types have one layout, and what is initialised may be read as what need not be.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), N) }
    }
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
        for len in [0, 1, 15, 16, 17, 63, 64, 256, 257, 4096, 100_000, 5_000_000] {
            let mut bytes = alloc(len);
            assert_eq!(bytes.len(), len);
            let align = if len <= SMALL { align_of::<u128>() } else { ALIGN };
            assert_eq!(bytes.as_ptr() as usize % align, 0);
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
