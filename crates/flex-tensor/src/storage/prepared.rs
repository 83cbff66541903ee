//! Forms of a buffer's bytes that kernels prepare once and read again, such as the weights of a model in the
//! order in which a kernel reads them.
//!
//! A form is prepared at the second use of unchanged bytes: in training a weight changes after each use, and
//! nothing is kept for it. It belongs to the buffer. It ends with the buffer, and before the bytes are
//! written.
//!
//! Forms trade memory for time. All forms of the process together take at most [`limit`] bytes. Beyond it,
//! and where the system has no memory, kernels compute as at the first use; results have the same bits.

use super::{Bytes, try_alloc};
use alloc::boxed::Box;
use core::any::Any;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use once_cell::race::OnceBox;

/// Bytes of all forms.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The most bytes of all forms, or [`UNSET`].
static LIMIT: AtomicUsize = AtomicUsize::new(UNSET);

/// The limit before it is first asked for.
const UNSET: usize = usize::MAX;

/// The most bytes that all forms may take together: [`default_limit`], unless the environment variable
/// `FLEX_PREPARE` or [`set_limit`] says otherwise. `FLEX_PREPARE` is a number of bytes, or `off`; empty is as
/// good as unset.
///
/// # Panics
/// When `FLEX_PREPARE` is something else.
pub fn limit() -> usize {
    match LIMIT.load(Relaxed) {
        UNSET => {
            #[cfg(feature = "std")]
            let first = super::environment::bytes("FLEX_PREPARE", 0).unwrap_or_else(default_limit);
            #[cfg(not(feature = "std"))]
            let first = default_limit();
            let limit = first.min(UNSET - 1);
            // Another thread may have set a limit meanwhile.
            LIMIT.compare_exchange(UNSET, limit, Relaxed, Relaxed).err().unwrap_or(limit)
        }
        limit => limit,
    }
}

/// An eighth of the memory that the process may use, as the [pool](super::pool::default_limit) keeps for
/// reuse; 0 without `std`, where nothing tells how much memory there is.
pub fn default_limit() -> usize {
    #[cfg(feature = "std")]
    return super::pool::default_limit();
    #[cfg(not(feature = "std"))]
    0
}

/// Limits the bytes of all forms together; with zero, kernels prepare nothing. Forms that exist stay as long
/// as their tensors.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes.min(UNSET - 1), Relaxed);
}

/// Bytes that forms take now.
pub fn bytes() -> usize {
    TAKEN.load(Relaxed)
}

/// A description of a form: the kernel that reads it (by the type of the key), and which bytes it was made
/// of.
pub trait Key: Any + Eq + Send + Sync {}

impl<T: Any + Eq + Send + Sync> Key for T {}

/// The most forms of a buffer. Some convolutions read another form for single images than for batches.
const MOST_FORMS: usize = 2;

/// A buffer's places for forms: of the first [`MOST_FORMS`] keys with which its bytes were used.
///
/// Dropping a buffer asks whether there is a form. So `Slot` asks by one comparison that is inlined into the
/// caller: the library's `OnceBox` asks in a function, which took 14 of the 1,000 instructions of a small
/// operation.
#[derive(Default)]
pub(super) struct Slot(ManuallyDrop<OnceBox<Use>>);

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        self.empty();
    }
}

/// The first use by a key, and the form that comes of it.
struct Use {
    key: Box<dyn Any + Send + Sync>,
    /// Whether a thread prepares the form, or did.
    claimed: AtomicBool,
    form: OnceBox<Form>,
    /// The first use by the next key.
    next: OnceBox<Use>,
}

struct Form {
    bytes: Bytes,
    _share: Share,
}

/// A part of the bytes that forms may take.
struct Share(usize);

impl Share {
    fn take(bytes: usize) -> Option<Self> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|&taken| taken <= limit());
        TAKEN.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Self(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Relaxed);
    }
}

impl Slot {
    /// Forgets everything, before the bytes change.
    #[inline]
    pub fn empty(&mut self) {
        if self.0.get().is_some() {
            self.forget();
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        drop(core::mem::take(&mut *self.0));
    }

    /// The form of this key, if there is one.
    pub fn form<K: Key>(&self, key: &K) -> Option<&[u8]> {
        self.of(key)?.form.get().map(|form| &form.bytes[..])
    }

    /// The first use by this key.
    fn of<K: Key>(&self, key: &K) -> Option<&Use> {
        core::iter::successors(self.0.get(), |used| used.next.get())
            .find(|used| used.key.downcast_ref() == Some(key))
    }

    /// Notes the first use by a key, if there is a place.
    fn add<K: Key>(&self, key: K) {
        let mut place: &OnceBox<Use> = &self.0;
        for _ in 0..MOST_FORMS {
            let Some(used) = place.get() else {
                let (claimed, form, next) = (AtomicBool::new(false), OnceBox::new(), OnceBox::new());
                // If another thread was faster, its use is in this place.
                let _ = place.set(Box::new(Use { key: Box::new(key), claimed, form, next }));
                return;
            };
            // Another thread came first with this key.
            if used.key.downcast_ref() == Some(&key) {
                return;
            }
            place = &used.next;
        }
    }

    /// See [`Tensor::prepare`](crate::Tensor::prepare).
    pub fn prepare<K: Key>(&self, key: K, len: usize, write: impl FnOnce(&mut [u8])) -> Option<&[u8]> {
        let Some(used) = self.of(&key) else {
            if limit() >= len {
                self.add(key);
            }
            return None;
        };
        if used.form.get().is_none() && !used.claimed.swap(true, Relaxed) {
            let memory = Share::take(len).and_then(|share| Some((share, try_alloc(len)?)));
            let Some((share, mut bytes)) = memory else {
                used.claimed.store(false, Relaxed);
                return None;
            };
            write(&mut bytes);
            // Nobody else has claimed it.
            let _ = used.form.set(Box::new(Form { bytes, _share: share }));
        }
        used.form.get().map(|form| &form.bytes[..])
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::Tensor;
    use alloc::vec::Vec;
    use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

    /// The tests count the bytes of all forms.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn weight(first: u32) -> Tensor {
        let values: Vec<u32> = (first..first + 100).collect();
        Tensor::from_slice(&values, [100]).unwrap()
    }

    /// The form of `tensor` from element `key` on: its elements in reverse order.
    fn prepare(tensor: &Tensor, key: usize) -> Option<&[u32]> {
        let values = &tensor.storage::<u32>()[key..];
        let form = tensor.prepare(key, values.len() * 4, |form| {
            let form: &mut [u32] = bytemuck::cast_slice_mut(form);
            form.iter_mut().zip(values.iter().rev()).for_each(|(to, from)| *to = *from);
        });
        form.map(bytemuck::cast_slice)
    }

    fn reversed(tensor: &Tensor, key: usize) -> Vec<u32> {
        tensor.storage::<u32>()[key..].iter().rev().copied().collect()
    }

    #[test]
    fn the_second_use_prepares_the_form_that_later_uses_read() {
        let _alone = alone();
        let weight = weight(7);
        assert!(weight.form(&3usize).is_none() && prepare(&weight, 3).is_none());
        assert!(weight.form(&3usize).is_none() && bytes() == 0);
        let form = prepare(&weight, 3).expect("the second use");
        assert_eq!((form, bytes()), (&reversed(&weight, 3)[..], 4 * 97));
        let view = weight.clone().narrow(0, 5, 2).unwrap();
        assert_eq!(view.form(&3usize).unwrap().as_ptr(), form.as_ptr().cast());
        assert_eq!(prepare(&view, 3).unwrap().as_ptr(), form.as_ptr());
        // The second key has a place; later ones, and others of this and of another type, have none.
        assert!(prepare(&weight, 4).is_none());
        assert_eq!(prepare(&weight, 4).expect("the second use"), reversed(&weight, 4));
        for _ in 0..3 {
            assert!(prepare(&weight, 5).is_none() && weight.form(&3u32).is_none());
        }
        assert_eq!((prepare(&weight, 3).unwrap(), bytes()), (form, 4 * (97 + 96)));
        drop(weight);
        assert_eq!(bytes(), 4 * (97 + 96));
        drop(view);
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn a_write_ends_the_form() {
        let _alone = alone();
        let writes: [fn(&mut Tensor); 3] = [
            |tensor| tensor.storage_mut::<u32>().unwrap()[1] = 1000,
            |tensor| tensor.dense_mut::<u32>().unwrap()[2] = 1000,
            |tensor| tensor.dense_bytes_mut().unwrap()[12] = 5,
        ];
        for write in writes {
            let mut weight = weight(3);
            assert!(prepare(&weight, 0).is_none() && prepare(&weight, 0).is_some());
            let other = weight.clone();
            assert!(weight.storage_mut::<u32>().is_none() && weight.dense_bytes_mut().is_none());
            assert!(weight.form(&0usize).is_some(), "shared memory is not written");
            drop(other);
            write(&mut weight);
            assert!(weight.form(&0usize).is_none() && bytes() == 0);
            assert!(prepare(&weight, 0).is_none(), "the first use of these bytes");
            assert_eq!(prepare(&weight, 0).unwrap(), reversed(&weight, 0));
            let moved = Tensor::from_bytes(weight.into_bytes().unwrap(), [100], crate::DType::U32).unwrap();
            assert!(moved.form(&0usize).is_none() && bytes() == 0);
        }
    }

    #[test]
    fn all_forms_together_stay_below_the_limit() {
        let _alone = alone();
        let before = limit();
        set_limit(999);
        let (a, b, c) = (weight(0), weight(1), weight(2));
        for weight in [&a, &b, &c] {
            assert!(prepare(weight, 0).is_none());
        }
        assert!(prepare(&a, 0).is_some() && prepare(&b, 0).is_some());
        assert!(prepare(&c, 0).is_none() && prepare(&c, 0).is_none());
        assert_eq!(bytes(), 800);
        drop(a);
        assert_eq!(prepare(&c, 0).unwrap(), reversed(&c, 0));
        set_limit(0);
        assert!(prepare(&b, 0).is_some(), "it exists");
        let late = weight(4);
        assert!(prepare(&late, 0).is_none() && prepare(&late, 0).is_none());
        drop((b, c));
        set_limit(before);
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn no_memory_is_no_form() {
        let _alone = alone();
        let (weight, before) = (weight(0), limit());
        set_limit(usize::MAX);
        let ask = || weight.prepare(1u8, isize::MAX as usize / 2, |_| unreachable!("no memory is written"));
        if cfg!(target_pointer_width = "64") {
            assert!(ask().is_none() && ask().is_none() && ask().is_none());
        }
        set_limit(before);
        assert_eq!(bytes(), 0);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "starts threads")]
    fn threads_share_one_form() {
        let _alone = alone();
        for round in 0..50 {
            let (weight, start) = (weight(round), Barrier::new(4));
            let want = reversed(&weight, 2);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        let forms = [0; 8].map(|_| prepare(&weight, 2));
                        let mut first = None;
                        for form in forms.into_iter().flatten() {
                            assert_eq!(form, want);
                            assert_eq!(*first.get_or_insert(form.as_ptr()), form.as_ptr());
                        }
                    });
                }
            });
            assert_eq!(prepare(&weight, 2).unwrap(), want);
            assert_eq!(bytes(), 4 * 98);
        }
    }
}
