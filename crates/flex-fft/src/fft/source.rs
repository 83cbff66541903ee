//! Where complex transforms come from: `rustfft` with the feature `std`, where it has code for the
//! processor's vectors, and the engine's own transforms elsewhere.

use super::complex::ComplexFft;
use super::mixed_radix;
use crate::float::Real;
use alloc::sync::Arc;
#[cfg(feature = "std")]
use num_complex::Complex;

/// f32 or f64, with the source of its complex transforms.
pub(super) trait FftFloat: Real {
    /// The complex transform of length `n`, forward or inverse.
    fn complex_fft(n: usize, inverse: bool) -> Arc<dyn ComplexFft<Self>>;
}

#[cfg(feature = "std")]
impl<A: Real + rustfft::FftNum> ComplexFft<A> for Arc<dyn rustfft::Fft<A>> {
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
                mixed_radix::complex_fft(n, inverse)
            }
        }
    )*};
}
impl_fft_float!(f32, f64);
