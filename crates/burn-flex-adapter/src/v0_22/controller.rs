//! The engine's buffers as Burn sees them.

use burn_std_22::{AccessError, AccessPolicy, AllocationController, AllocationProperty};
use core::mem::MaybeUninit;

/// A buffer of the engine that is lent to Burn, and returns to the engine's pool when Burn drops it.
pub(super) struct Controller(pub(super) flex_core::Bytes);

impl AllocationController for Controller {
    /// The alignment of copies of the bytes. `Bytes` refuses a copy with a stricter alignment.
    fn alloc_align(&self) -> usize {
        align_of::<u128>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes: &mut [u8] = &mut self.0;
        // SAFETY: `u8` and `MaybeUninit<u8>` have the same layout, `&mut self` makes the access exclusive,
        // and the caller guarantees that it writes initialised bytes.
        Ok(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes: &[u8] = &self.0;
        // SAFETY: the two types have the same layout, and initialised bytes may be read as `MaybeUninit`.
        Ok(unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }
}
