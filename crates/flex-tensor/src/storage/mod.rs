//! Buffers: aligned blocks, recycled through a [pool] with `std`; small boxes; memory of other
//! owners.
//!
//! A block is zeroed once, when it comes from the system, and never again: a block from the pool holds the
//! data that its last owner left. Its bytes are therefore initialised in the language's sense, so kernels
//! write their outputs through plain `&mut [T]`, without the cost of zeroing them first.

#[cfg(feature = "std")]
mod available;
mod block;
mod buffer;
mod bytes;
mod deferred;
#[cfg(feature = "std")]
pub mod environment;
mod lock;
#[cfg(all(test, loom))]
mod loom_models;
#[cfg(feature = "std")]
pub mod pool;
pub mod prepared;
#[cfg(feature = "std")]
pub mod process;
mod room;
mod scratch;
#[cfg(feature = "std")]
mod slots;
/// What [`slots`] takes from the standard library, and from loom in its models.
#[cfg(feature = "std")]
mod sync {
    pub(super) use core::sync::atomic::{AtomicPtr, Ordering};
}

pub(crate) use buffer::Buffer;
pub use bytes::{Adopted, Bytes};
pub use deferred::{Cut, Deferred, Finish, PieceReduction, Producer, RowReducer, RowReduction, RunsOfPiece};
pub use lock::Lock;
pub use room::{
    ensure, ensure_for_tasks, grow, list, reserve, room, scratch, try_collect, try_list, try_room,
};
pub use scratch::Scratch;

/// Alignment of every buffer of more than 256 bytes that the engine allocates: one cache line, and one
/// AVX-512 register.
pub const ALIGN: usize = 64;

/// Alignment of buffers of [`SPREAD`] bytes and more. A processor takes a load for one of an earlier store to
/// an address that has the same last 12 bits, and waits for the store. Loops store a few vectors behind their
/// loads, and system allocators put blocks of equal sizes next to each other, so that outputs often lay 64
/// bytes after an operand in these bits: on one thread of Zen 4, exp of 65,536 f32 took 15.4 us, and takes
/// 12.6 with any distance of 512 bytes and more, or none.
const FAR: usize = 512;

/// Smaller buffers are not worth the memory.
const SPREAD: usize = 4096;

/// Alignment of a block of `capacity` bytes.
fn align(capacity: usize) -> usize {
    if capacity < SPREAD { ALIGN } else { FAR }
}

/// A buffer of `len` bytes with arbitrary (but initialised) contents; `None` when the system does not have
/// that much memory.
#[inline]
pub fn try_alloc(len: usize) -> Option<Bytes> {
    Bytes::try_new(len)
}

/// A buffer that holds the bytes of one number.
///
/// # Panics
/// When there are more than 16 bytes.
#[inline]
pub fn number(bytes: &[u8]) -> Bytes {
    Bytes::number(bytes)
}

/// [`try_alloc`] for tasks, whose operation has asked for the memory with [`ensure`], and for buffers that
/// are small or no larger than others that the caller holds.
///
/// # Panics
/// When the system does not have that much memory.
pub fn alloc(len: usize) -> Bytes {
    try_alloc(len).unwrap_or_else(|| panic!("storage: the system has no {len} bytes of memory left"))
}

/// A new buffer of the engine with a copy of these bytes.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory) under the name `op`.
pub fn copy_of(op: &'static str, bytes: &[u8]) -> crate::Result<Bytes> {
    let mut copy = scratch(op, bytes.len())?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}

/// Frees the blocks that wait for reuse. Live tensors are not touched.
pub fn cleanup() {
    #[cfg(feature = "std")]
    pool::clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_writable_over_their_whole_length() {
        for len in [0, 1, 15, 16, 17, 63, 64, 256, 257, 4096, 100_000, 5_000_000] {
            let mut bytes = alloc(len);
            assert_eq!(bytes.len(), len);
            let align = match len {
                _ if len <= bytes::SMALL => align_of::<u128>(),
                _ if len < SPREAD => ALIGN,
                _ => FAR,
            };
            assert_eq!(bytes.as_ptr() as usize % align, 0);
            bytes.fill(0xA5);
            assert!(bytes.iter().all(|&b| b == 0xA5));
            assert_eq!(copy_of("copy", &bytes).unwrap()[..], bytes[..]);
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn what_no_machine_holds_is_refused() {
        // Half of the address space, and the most that a layout can describe.
        for len in [1 << 62, isize::MAX as usize, usize::MAX] {
            assert!(try_alloc(len).is_none());
        }
    }
}
