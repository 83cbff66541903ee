//! The cache of plans. A plan holds the data that depends on the length of a transform alone.

use super::real::RealFft;
use super::source::FftFloat;
use super::{SharedPlan, elements_per_sample};
use crate::{Result, storage};
use alloc::sync::Arc;
use alloc::vec::Vec;
use storage::Lock;

/// The plans used last, the latest first.
pub(super) struct Plans<A>(Lock<Vec<(usize, SharedPlan<A>)>>);

/// f32 or f64, with the cache of its plans.
pub(super) trait Cached: FftFloat {
    /// The cache.
    fn cache() -> &'static Plans<Self>;
}

macro_rules! cached {
    ($($ty:ty),*) => {
        $(
            impl Cached for $ty {
                fn cache() -> &'static Plans<$ty> {
                    static CACHE: Plans<$ty> = Plans::new();
                    &CACHE
                }
            }
        )*

        /// Drops the cached plans. Transforms that run keep theirs.
        pub fn cleanup() {
            $(<$ty>::cache().clear();)*
        }
    };
}
cached!(f32, f64);

/// Most plans in a cache.
const KEPT: usize = 16;

/// Most samples of all plans in a cache together; the latest plan is kept even if it is longer. A plan for
/// f32 takes 13 bytes per sample, and 120 if the length has a large prime factor; a plan for f64 takes twice
/// as much.
const KEPT_SAMPLES: usize = 1 << 22;

/// The plan for real transforms of length `n`, from the cache if possible.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory) under the name `op`.
pub(super) fn plan<A: Cached>(op: &'static str, n: usize) -> Result<SharedPlan<A>> {
    A::cache().plan(op, n)
}

impl<A: FftFloat> Plans<A> {
    const fn new() -> Self {
        Self(Lock::new(Vec::new()))
    }

    fn plan(&self, op: &'static str, n: usize) -> Result<SharedPlan<A>> {
        if let Some(plan) = self.0.lock().and_then(|mut cache| use_cached(&mut cache, n)) {
            return Ok(plan);
        }
        // The process ends if there is no memory for a plan.
        storage::try_list::<A>(op, n.saturating_mul(elements_per_sample(n)))?;
        // Planning takes a while; no other thread waits for the lock meanwhile.
        let plan = Arc::new(RealFft::new(n));
        // A process that was forked while another thread held the lock keeps no plans.
        let Some(mut cache) = self.0.lock() else { return Ok(plan) };
        if let Some(plan) = use_cached(&mut cache, n) {
            return Ok(plan);
        }
        let samples = cache.iter().scan(n, |samples, (len, _)| {
            *samples += len;
            Some(*samples)
        });
        let kept = samples.take(KEPT - 1).take_while(|samples| *samples <= KEPT_SAMPLES).count();
        let dropped = cache.split_off(kept);
        cache.insert(0, (n, Arc::clone(&plan)));
        // Freeing a plan takes a while too.
        drop(cache);
        drop(dropped);
        Ok(plan)
    }

    fn clear(&self) {
        let plans = self.0.lock().map(|mut plans| core::mem::take(&mut *plans));
        drop(plans);
    }
}

/// The plan for `n`, moved to the front of the cache.
fn use_cached<A>(cache: &mut [(usize, SharedPlan<A>)], n: usize) -> Option<SharedPlan<A>> {
    let at = cache.iter().position(|(len, _)| *len == n)?;
    cache[..=at].rotate_right(1);
    Some(Arc::clone(&cache[0].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths<A>(plans: &Plans<A>) -> Vec<usize> {
        plans.0.lock().unwrap().iter().map(|(n, _)| *n).collect()
    }

    #[test]
    fn plans_are_shared_and_their_number_is_bounded() {
        let cache = Plans::<f32>::new();
        let first = cache.plan("rfft", 60).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.plan("rfft", 60).unwrap()));
        for n in 61..61 + 2 * KEPT {
            cache.plan("rfft", n).unwrap();
        }
        assert_eq!(lengths(&cache).len(), KEPT);
        assert!(!Arc::ptr_eq(&first, &cache.plan("rfft", 60).unwrap()));
    }

    #[test]
    fn plans_are_bounded_by_their_samples_too() {
        let cache = Plans::<f64>::new();
        for n in [64, KEPT_SAMPLES / 2, KEPT_SAMPLES / 4, 32] {
            cache.plan("rfft", n).unwrap();
        }
        assert_eq!(lengths(&cache), [32, KEPT_SAMPLES / 4, KEPT_SAMPLES / 2, 64]);
        cache.plan("rfft", KEPT_SAMPLES / 2).unwrap();
        let long = Arc::downgrade(&cache.plan("rfft", KEPT_SAMPLES - KEPT_SAMPLES / 4).unwrap());
        assert_eq!(lengths(&cache), [KEPT_SAMPLES - KEPT_SAMPLES / 4]);
        cache.plan("rfft", 64).unwrap();
        let longest = KEPT_SAMPLES + KEPT_SAMPLES / 4;
        cache.plan("rfft", longest).unwrap();
        assert_eq!(lengths(&cache), [longest]);
        cache.plan("rfft", 64).unwrap();
        assert_eq!(lengths(&cache), [64]);
        cache.plan("rfft", KEPT_SAMPLES / 2).unwrap();
        cache.clear();
        assert!(lengths(&cache).is_empty() && long.upgrade().is_none());
    }
}
