//! Complex transforms of a fixed length, and the cache of plans.

use super::Shared;
use super::real::RealFft;
use crate::float::Real;
use alloc::sync::Arc;
use alloc::vec::Vec;
use num_complex::Complex;
use spin::Mutex;

/// A complex transform of a fixed length, not scaled: `X[k] = sum_j x[j] exp(-2 pi i j k / n)`, `+2 pi` for
/// the inverse.
pub(super) trait ComplexFft<A>: Send + Sync {
    /// Length of the working memory for both methods, in complex elements.
    fn scratch_len(&self) -> usize;
    /// Transforms `input` to `output`.
    fn out_of_place(&self, input: &[Complex<A>], output: &mut [Complex<A>], scratch: &mut [Complex<A>]);
    /// Transforms `data` in place.
    fn in_place(&self, data: &mut [Complex<A>], scratch: &mut [Complex<A>]);
}

/// f32 or f64, with the source of its complex transforms and the cache of its plans.
pub(super) trait FftFloat: Real + bytemuck::Pod {
    /// The complex transform of length `n`, forward or inverse.
    fn complex_fft(n: usize, inverse: bool) -> Arc<dyn ComplexFft<Self>>;
    /// The cached plans with their lengths, the latest used first.
    fn cache() -> &'static Mutex<Vec<(usize, Shared<Self>)>>;
}

#[cfg(feature = "std")]
impl<A: FftFloat + rustfft::FftNum> ComplexFft<A> for Arc<dyn rustfft::Fft<A>> {
    fn scratch_len(&self) -> usize {
        self.get_immutable_scratch_len().max(self.get_inplace_scratch_len())
    }

    fn out_of_place(&self, input: &[Complex<A>], output: &mut [Complex<A>], scratch: &mut [Complex<A>]) {
        self.process_immutable_with_scratch(input, output, scratch);
    }

    fn in_place(&self, data: &mut [Complex<A>], scratch: &mut [Complex<A>]) {
        self.process_with_scratch(data, scratch);
    }
}

/// `rustfft`'s planner for the vectors of this processor; an error if it lacks AVX (x86-64).
///
/// `rustfft::FftPlanner` would add portable code for processors without them, 0.3 MB that hardly anybody
/// runs: there the engine's own transforms serve, as they do without `std`.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
fn library_planner<A: rustfft::FftNum>() -> Result<rustfft::FftPlannerAvx<A>, ()> {
    rustfft::FftPlannerAvx::new()
}

/// `rustfft`'s planner for NEON, which every processor of this architecture has.
#[cfg(all(feature = "std", target_arch = "aarch64"))]
fn library_planner<A: rustfft::FftNum>() -> Result<rustfft::FftPlannerNeon<A>, ()> {
    rustfft::FftPlannerNeon::new()
}

/// `rustfft`'s planner, which has portable code and code for the vectors of WebAssembly.
#[cfg(all(feature = "std", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn library_planner<A: rustfft::FftNum>() -> Result<rustfft::FftPlanner<A>, ()> {
    Ok(rustfft::FftPlanner::new())
}

macro_rules! impl_fft_float {
    ($($ty:ty),*) => {$(
        impl FftFloat for $ty {
            fn complex_fft(n: usize, inverse: bool) -> Arc<dyn ComplexFft<$ty>> {
                #[cfg(feature = "std")]
                if let Ok(mut planner) = library_planner::<$ty>() {
                    let fft = if inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) };
                    return Arc::new(fft);
                }
                super::mixed_radix::complex_fft(n, inverse)
            }

            fn cache() -> &'static Mutex<Vec<(usize, Shared<$ty>)>> {
                static CACHE: Mutex<Vec<(usize, Shared<$ty>)>> = Mutex::new(Vec::new());
                &CACHE
            }
        }
    )*};
}
impl_fft_float!(f32, f64);

/// Number of plans in the cache: the latest used.
const KEPT: usize = 16;

/// The plan for real transforms of length `n`, from the cache if possible.
pub(super) fn plan<A: FftFloat>(n: usize) -> Shared<A> {
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
