//! Working memory for accumulators whose type the drivers do not know.
//!
//! An accumulator is any plain type whose alignment is at most [`Word`]'s; the drivers know only its size.
//! Memory is allocated in words, so that bytes that start at a word can be read as any such type.

use crate::storage::Scratch;
use bytemuck::Pod;

/// The unit of working memory, which has the largest alignment that an accumulator may have.
pub(super) type Word = u128;

pub(super) const WORD: usize = size_of::<Word>();

/// Words that small reductions need: one accumulator of up to 64 bytes, or several smaller ones.
const FEW: usize = 4;

/// Words for [`BATCH`](super::sizes::BATCH) accumulators of up to a word.
const SOME: usize = 64;

/// Most words that are taken from the stack: a [`TILE`](super::sizes::TILE) of accumulators of 4 bytes.
const MANY: usize = 256;

/// Words that begin with a cache line, as [`Scratch`] does.
#[repr(align(64))]
struct WordsInLines<const N: usize>([Word; N]);

/// Calls `f` with `len` zeroed bytes that start at a word. Up to [`MANY`] words come from the stack.
#[inline]
pub(super) fn with_scratch<R>(len: usize, f: &mut dyn FnMut(&mut [u8]) -> R) -> R {
    if len <= FEW * WORD {
        f(&mut bytemuck::bytes_of_mut(&mut [0 as Word; FEW])[..len])
    } else if len <= SOME * WORD {
        f(&mut bytemuck::bytes_of_mut(&mut WordsInLines([0 as Word; SOME]).0)[..len])
    } else if len <= MANY * WORD {
        f(&mut bytemuck::bytes_of_mut(&mut WordsInLines([0 as Word; MANY]).0)[..len])
    } else {
        f(&mut bytemuck::cast_slice_mut(&mut words(len))[..len])
    }
}

pub(super) fn words(len: usize) -> Scratch<Word> {
    Scratch::for_task(len.div_ceil(WORD)).zeroed()
}

/// `len` rounded up to a multiple of [`WORD`], so that another accumulator may start there.
pub(super) fn whole_words(len: usize) -> usize {
    len.next_multiple_of(WORD)
}

/// The bytes of a value of at most 8 bytes, whose type the drivers do not know.
#[derive(Clone, Copy)]
pub(super) struct ValueBytes([u8; 8]);

impl ValueBytes {
    /// The bytes of `value`, followed by zeros.
    #[inline]
    pub fn new<A: Pod>(value: A) -> Self {
        let mut bytes = [0; 8];
        bytes[..size_of::<A>()].copy_from_slice(bytemuck::bytes_of(&value));
        Self(bytes)
    }

    /// The value, which must have been of type `A`.
    #[inline]
    pub fn get<A: Pod>(self) -> A {
        bytemuck::pod_read_unaligned(&self.0[..size_of::<A>()])
    }
}
