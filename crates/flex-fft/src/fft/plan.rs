//! The cache of plans: what depends on the length of a transform alone.

use super::Shared;
use super::real::RealFft;
use super::source::FftFloat;
use alloc::sync::Arc;
use alloc::vec::Vec;
use spin::Mutex;

/// f32 or f64, with the cache of its plans.
pub(super) trait Cached: FftFloat {
    /// The cached plans with their lengths, the latest used first.
    fn cache() -> &'static Mutex<Vec<(usize, Shared<Self>)>>;
}

macro_rules! cached {
    ($($ty:ty),*) => {$(
        impl Cached for $ty {
            fn cache() -> &'static Mutex<Vec<(usize, Shared<$ty>)>> {
                static CACHE: Mutex<Vec<(usize, Shared<$ty>)>> = Mutex::new(Vec::new());
                &CACHE
            }
        }
    )*};
}
cached!(f32, f64);

/// Number of plans in the cache: the latest used.
const KEPT: usize = 16;

/// The plan for real transforms of length `n`, from the cache if possible.
pub(super) fn plan<A: Cached>(n: usize) -> Shared<A> {
    plan_in(A::cache(), n)
}

fn plan_in<A: FftFloat>(cache: &Mutex<Vec<(usize, Shared<A>)>>, n: usize) -> Shared<A> {
    if let Some(plan) = use_cached(&mut cache.lock(), n) {
        return plan;
    }
    // Planning takes a while; no other thread waits for the lock meanwhile.
    let plan = Arc::new(RealFft::new(n));
    let mut cache = cache.lock();
    if let Some(plan) = use_cached(&mut cache, n) {
        return plan;
    }
    cache.truncate(KEPT - 1);
    cache.insert(0, (n, Arc::clone(&plan)));
    plan
}

/// The plan for `n`, moved to the front of the cache.
fn use_cached<A>(cache: &mut [(usize, Shared<A>)], n: usize) -> Option<Shared<A>> {
    let at = cache.iter().position(|(len, _)| *len == n)?;
    cache[..=at].rotate_right(1);
    Some(Arc::clone(&cache[0].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_shared_and_their_number_is_bounded() {
        let cache = Mutex::new(Vec::new());
        let first = plan_in::<f32>(&cache, 60);
        assert!(Arc::ptr_eq(&first, &plan_in(&cache, 60)));
        for n in 61..61 + 2 * KEPT {
            plan_in(&cache, n);
        }
        assert_eq!(cache.lock().len(), KEPT);
        assert!(!Arc::ptr_eq(&first, &plan_in(&cache, 60)));
    }
}
