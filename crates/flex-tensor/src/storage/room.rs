//! Working memory whose size follows from shapes and options. The standard library ends the process if it
//! cannot provide the memory of a vector; these functions return an error, or panic where an error cannot be
//! returned.
//!
//! An operation that takes working memory in its tasks, which return nothing, asks for it with [`ensure`]
//! before the tasks begin, and takes it with [`room`] or [`alloc`](super::alloc).

use crate::error::{Error, Result};
use alloc::vec::Vec;

/// Fewer bytes than this are not asked for in advance.
const ASKED: usize = 1 << 20;

/// `Ok` if the system can provide `bytes` of working memory now, apart from what is in use. Nothing is kept,
/// so another thread may take the memory first.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
#[inline]
pub fn ensure(op: &'static str, bytes: usize) -> Result<()> {
    if bytes < ASKED { Ok(()) } else { ask(op, bytes) }
}

/// [`ensure`] for an operation whose tasks, of which there are `tasks`, take `bytes` each while they run.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
#[inline]
pub fn ensure_for_tasks(op: &'static str, bytes: usize, tasks: usize) -> Result<()> {
    ensure(op, bytes.saturating_mul(tasks.min(crate::parallel::threads())))
}

#[cold]
fn ask(op: &'static str, bytes: usize) -> Result<()> {
    with_room(|| Vec::<u8>::new().try_reserve_exact(bytes).ok()).ok_or_else(|| missing(op, bytes))
}

/// Calls `take`, and once again without the blocks that wait for reuse if it fails.
fn with_room<R>(mut take: impl FnMut() -> Option<R>) -> Option<R> {
    take().or_else(|| {
        super::cleanup();
        take()
    })
}

#[cold]
fn missing(op: &'static str, bytes: usize) -> Error {
    Error::Memory { op, shape: Vec::new(), bytes }
}

/// A list with the capacity for `len` elements.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
pub fn try_list<T>(op: &'static str, len: usize) -> Result<Vec<T>> {
    let list = with_room(|| {
        let mut list = Vec::new();
        list.try_reserve_exact(len).ok().map(|()| list)
    });
    list.ok_or_else(|| missing(op, len.saturating_mul(size_of::<T>())))
}

/// `len` times `value`.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
pub fn try_room<T: Copy>(op: &'static str, len: usize, value: T) -> Result<Vec<T>> {
    let mut list = try_list(op, len)?;
    list.resize(len, value);
    Ok(list)
}

/// The elements of an iterator of known length.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
pub fn try_collect<T>(op: &'static str, elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = try_list(op, elements.len())?;
    list.extend(elements);
    Ok(list)
}

/// `len` times `value`, for tasks.
///
/// # Panics
/// When the system does not have that much memory.
pub fn room<T: Copy>(len: usize, value: T) -> Vec<T> {
    try_room("storage", len, value).unwrap_or_else(|error| panic!("{error}"))
}

/// An empty list with the capacity for `len` elements, for tasks.
///
/// # Panics
/// When the system does not have that much memory.
pub fn list<T>(len: usize) -> Vec<T> {
    try_list("storage", len).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes `list` at least `len` long.
///
/// # Panics
/// When the system does not have that much memory.
#[inline]
pub fn grow<T: Copy>(list: &mut Vec<T>, len: usize, value: T) {
    if list.len() < len {
        grow_now(list, len, value);
    }
}

/// Makes room for `more` elements behind the last one.
///
/// # Panics
/// When the system does not have that much memory.
#[inline]
pub fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if with_room(|| list.try_reserve(more).ok()).is_none() {
        panic!("{}", missing("storage", (list.len().saturating_add(more)).saturating_mul(size_of::<T>())));
    }
}

#[cold]
fn grow_now<T: Copy>(list: &mut Vec<T>, len: usize, value: T) {
    if with_room(|| list.try_reserve_exact(len - list.len()).ok()).is_none() {
        panic!("{}", missing("storage", len.saturating_mul(size_of::<T>())));
    }
    list.resize(len, value);
}

/// [`try_alloc`](super::try_alloc) for working memory.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
pub fn scratch(op: &'static str, len: usize) -> Result<super::Bytes> {
    super::try_alloc(len).ok_or_else(|| missing(op, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_holds_is_an_error_that_tells_how_much_it_is() {
        // 32 bits may address as much as half of `isize::MAX`, but no list is longer than all of it.
        const MUCH: usize = if usize::BITS == 64 { isize::MAX as usize / 2 } else { isize::MAX as usize + 1 };
        let want = "exp: working memory needs 4611686018427387903 bytes, more than the system has left";
        let errors = [
            ensure("exp", MUCH).unwrap_err(),
            try_list::<u8>("exp", MUCH).unwrap_err(),
            try_room("exp", MUCH, 0u8).unwrap_err(),
            try_collect("exp", [1u8; 1].iter().copied().cycle().take(MUCH).map_exact(MUCH)).unwrap_err(),
            scratch("exp", MUCH).unwrap_err(),
        ];
        if cfg!(target_pointer_width = "64") {
            errors.iter().for_each(|error| assert_eq!(error.to_string(), want));
        }
        assert!(matches!(try_list::<u64>("exp", usize::MAX), Err(Error::Memory { bytes: usize::MAX, .. })));
    }

    /// An iterator that says how long it is.
    struct Exact<I>(I, usize);

    impl<I: Iterator> Iterator for Exact<I> {
        type Item = I::Item;

        fn next(&mut self) -> Option<I::Item> {
            self.0.next()
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.1, Some(self.1))
        }
    }

    impl<I: Iterator> ExactSizeIterator for Exact<I> {}

    trait MapExact: Iterator + Sized {
        fn map_exact(self, len: usize) -> Exact<Self> {
            Exact(self, len)
        }
    }
    impl<I: Iterator> MapExact for I {}

    #[test]
    fn what_there_is_room_for_is_provided() {
        assert_eq!(ensure("exp", 0), Ok(()));
        assert_eq!(ensure("exp", 3 << 20), Ok(()));
        assert_eq!(try_room("exp", 3, 7u16).unwrap(), [7; 3]);
        assert_eq!(try_collect("exp", (0..4usize).map(|i| i * i)).unwrap(), [0, 1, 4, 9]);
        assert_eq!(room(2, 1.5f64), [1.5; 2]);
        let mut list = alloc::vec![1u8];
        grow(&mut list, 3, 4);
        grow(&mut list, 2, 9);
        assert_eq!(list, [1, 4, 4]);
        reserve(&mut list, 100);
        assert!(list.capacity() >= 103);
        assert_eq!(scratch("exp", 1000).unwrap().len(), 1000);
    }
}
