//! Owned bytes, whoever allocated them.

use super::block::Block;
use super::deferred::Deferred;
#[cfg(feature = "std")]
use super::pool;
use crate::error::Result;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytemuck::Pod;
use core::any::Any;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

/// Memory of another owner that the engine reads and writes without a copy: a vector, a buffer of a front
/// end, a file that is mapped into memory. [`Bytes::adopt`] takes the owner and [`Bytes::release`] returns
/// it.
pub trait Adopted: Any + Send + Sync {
    /// The bytes. Every call must return the same number of bytes.
    fn bytes(&self) -> &[u8];

    /// Whether [`bytes_mut`](Self::bytes_mut) writes to the memory itself. If not, results go to other
    /// buffers. An owner that does not know says `false`.
    fn is_writable(&self) -> bool;

    /// The bytes, mutable. Read-only memory has to be copied first.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl<T: Pod + Send + Sync> Adopted for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
}

/// Bytes of one number, or a few small ones: the size of the result of a full reduction.
const NUMBER: usize = 16;

/// Largest size of a buffer, in bytes, that the engine puts in a box rather than in a pooled block.
pub(super) const SMALL: usize = 256;

/// A number of bytes and their owner: the engine, or the owner that they were [adopted](Self::adopt) from.
///
/// `Bytes` dereferences to the slice `[u8]`.
pub struct Bytes {
    owner: Owner,
    len: usize,
}

/// The owner of bytes. The variants that are the engine's memory have room for at least `len` bytes.
enum Owner {
    /// Up to the size of a number, stored inline.
    OneNumber(OneNumber),
    /// A few bytes, in a box. A box saves the four atomic operations of the pool; today's allocators keep
    /// such sizes ready for each thread.
    Small(Box<Small>),
    /// Many bytes, from the pool.
    Block(Pooled),
    /// Memory of another owner.
    Adopted(Box<dyn Adopted>),
    /// Bytes that are computed when they are first read.
    Deferred(Arc<dyn Deferred>),
}

/// Aligned for pairs of numbers too, which sorting uses.
#[repr(align(16))]
struct OneNumber([u8; NUMBER]);

#[repr(align(16))]
struct Small([u8; SMALL]);

impl Bytes {
    /// `len` arbitrary (but initialised) bytes; `None` when the system does not have that much memory.
    #[inline]
    pub(super) fn try_new(len: usize) -> Option<Self> {
        let owner = if len <= NUMBER {
            Owner::OneNumber(OneNumber([0xA5; NUMBER]))
        } else if len <= SMALL {
            // Not zeros: for zeros the compiler calls `calloc`, which takes 120 instructions more than
            // `malloc`.
            Owner::Small(Box::new(Small([0xA5; SMALL])))
        } else {
            Owner::Block(Pooled::take(len)?)
        };
        Some(Self { owner, len })
    }

    /// The bytes of one number.
    ///
    /// # Panics
    /// When there are more than 16 bytes.
    #[inline]
    pub(super) fn number(bytes: &[u8]) -> Self {
        let mut number = [0xA5; NUMBER];
        number[..bytes.len()].copy_from_slice(bytes);
        Self { owner: Owner::OneNumber(OneNumber(number)), len: bytes.len() }
    }

    /// `len` bytes that `computation` provides when they are first read.
    pub(crate) fn deferred(len: usize, computation: Arc<dyn Deferred>) -> Self {
        Self { owner: Owner::Deferred(computation), len }
    }

    /// The computation that provides the bytes, also when it has run.
    #[inline]
    pub(crate) fn computation(&self) -> Option<&dyn Deferred> {
        match &self.owner {
            Owner::Deferred(computation) => Some(&**computation),
            _ => None,
        }
    }

    /// Puts the result of the computation, if there is one, in its place.
    ///
    /// # Errors
    /// The errors of [`Deferred`]. If the computation failed, it stays. If only its result cannot be taken
    /// over, for lack of memory, the bytes are empty afterwards.
    pub(super) fn settle(&mut self) -> Result<()> {
        if let Owner::Deferred(computation) = &self.owner {
            computation.bytes()?;
            if let Owner::Deferred(computation) = core::mem::replace(self, Self::number(&[])).owner {
                *self = computation.into_bytes()?;
            }
        }
        Ok(())
    }

    /// Number of bytes. Does not run a computation that provides them.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the slice has `is_empty`, and nobody asks a computation"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes over the memory of another owner.
    pub fn adopt(owner: impl Adopted) -> Self {
        // An owner may fetch its bytes at the first call, from a file say. That happens here, while no other
        // thread can call it.
        let len = owner.bytes().len();
        Self { len, owner: Owner::Adopted(Box::new(owner)) }
    }

    /// The owner that the bytes were adopted from.
    ///
    /// # Errors
    /// The bytes unchanged, when they were not adopted, or were adopted from an owner of another type.
    pub fn release<T: Adopted>(self) -> core::result::Result<T, Self> {
        let Self { owner, len } = self;
        match owner {
            Owner::Adopted(owner) if (&*owner as &dyn Any).is::<T>() => {
                let owner: Box<dyn Any> = owner;
                Ok(*owner.downcast().expect("of the type that it is"))
            }
            owner => Err(Self { owner, len }),
        }
    }

    /// Whether the memory belongs to another owner.
    #[inline]
    pub(super) fn is_adopted(&self) -> bool {
        matches!(self.owner, Owner::Adopted(_))
    }

    /// Whether a write changes these bytes in place. Read-only memory of another owner is copied first.
    #[inline]
    pub fn is_writable(&self) -> bool {
        match &self.owner {
            Owner::Adopted(owner) => owner.is_writable(),
            _ => true,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let all = match &self.owner {
            Owner::OneNumber(number) => &number.0[..],
            Owner::Small(small) => &small.0[..],
            Owner::Block(pooled) => pooled.0.as_slice(),
            Owner::Adopted(owner) => owner.bytes(),
            Owner::Deferred(computation) => computed(&**computation),
        };
        &all[..self.len]
    }
}

/// The result of a computation. Not inlined, since every operation reads bytes.
///
/// # Panics
/// With the computation's error.
#[inline(never)]
fn computed(computation: &dyn Deferred) -> &[u8] {
    computation.bytes().unwrap_or_else(|error| panic!("{error}"))
}

/// Puts the result of a computation in its place. Not inlined, as [`computed`].
///
/// # Panics
/// With the computation's error.
#[cold]
#[inline(never)]
fn settle(bytes: &mut Bytes) {
    bytes.settle().unwrap_or_else(|error| panic!("{error}"));
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        if let Owner::Deferred(_) = self.owner {
            settle(self);
        }
        let all = match &mut self.owner {
            Owner::OneNumber(number) => &mut number.0[..],
            Owner::Small(small) => &mut small.0[..],
            Owner::Block(pooled) => pooled.0.as_mut_slice(),
            Owner::Adopted(owner) => owner.bytes_mut(),
            Owner::Deferred(_) => unreachable!("the result of a computation is not one"),
        };
        &mut all[..self.len]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match &self.owner {
            Owner::OneNumber(_) => "number",
            Owner::Small(_) => "box",
            Owner::Block(_) => "pool",
            Owner::Adopted(_) => "adopted",
            Owner::Deferred(_) => "deferred",
        };
        f.debug_struct("Bytes").field("len", &self.len).field("owner", &owner).finish()
    }
}

/// A block that returns to the pool when it is dropped.
struct Pooled(ManuallyDrop<Block>);

impl Pooled {
    /// A block of at least `len` bytes; `None` when the system cannot provide one.
    #[inline]
    fn take(len: usize) -> Option<Self> {
        #[cfg(feature = "std")]
        let block = pool::take(len)?;
        #[cfg(not(feature = "std"))]
        let block = Block::new(len)?;
        Some(Self(ManuallyDrop::new(block)))
    }
}

impl Drop for Pooled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and nothing else takes the block or reads it afterwards.
        let block = unsafe { ManuallyDrop::take(&mut self.0) };
        #[cfg(feature = "std")]
        pool::give_back(block);
        #[cfg(not(feature = "std"))]
        drop(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Read-only memory; the first write makes a copy.
    struct ReadOnly(&'static [u8], Vec<u8>);

    impl Adopted for ReadOnly {
        fn bytes(&self) -> &[u8] {
            if self.1.is_empty() { self.0 } else { &self.1 }
        }

        fn is_writable(&self) -> bool {
            false
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            if self.1.is_empty() {
                self.1 = self.0.to_vec();
            }
            &mut self.1
        }
    }

    #[test]
    fn what_is_adopted_is_the_owners_own_memory_and_comes_back() {
        let owner = vec![1u32, 0, 3];
        let address = owner.as_ptr();
        let mut bytes = Bytes::adopt(owner);
        assert!(bytes.is_writable() && bytes.as_ptr() == address.cast());
        bytes[4] = 7;
        let bytes = bytes.release::<Vec<u64>>().expect_err("it is another vector");
        let owner = bytes.release::<Vec<u32>>().expect("it was adopted");
        assert_eq!(owner.as_ptr(), address);
        assert_eq!(owner, [1, u32::from_ne_bytes([7, 0, 0, 0]), 3]);
        assert!(Bytes::number(&[1, 2]).release::<Vec<u8>>().is_err());
    }

    #[test]
    fn memory_that_may_only_be_read_says_so() {
        static MEMORY: [u8; 3] = [1, 2, 3];
        let mut bytes = Bytes::adopt(ReadOnly(&MEMORY, Vec::new()));
        assert!(!bytes.is_writable() && bytes.as_ptr() == MEMORY.as_ptr());
        bytes[0] = 9;
        assert_eq!((&bytes[..], MEMORY[0]), (&[9, 2, 3][..], 1));
    }

    #[test]
    fn numbers_keep_their_bytes_when_they_move() {
        let bytes = Bytes::number(&2.5f64.to_ne_bytes());
        let moved = Box::new(bytes);
        assert_eq!((moved.len(), &moved[..]), (8, &2.5f64.to_ne_bytes()[..]));
        assert!(moved.is_writable());
    }
}
