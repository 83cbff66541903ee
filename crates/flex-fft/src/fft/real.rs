//! Real transforms by complex ones.
//!
//! For even `n = 2m`, neighbouring samples are the real and imaginary parts of `m` complex numbers. Their
//! transform `Z` holds the transforms `E` and `O` of the even and odd samples:
//!
//! ```text
//! 2 E[k] = Z[k] + conj Z[m-k]       2i O[k] = Z[k] - conj Z[m-k]
//! X[k] = E[k] + w^k O[k],  w = exp(-2 pi i / n)
//! ```
//!
//! The inverse solves these equations for `Z`. An odd `n` takes a complex transform of full length.

use super::complex::ComplexFft;
use super::source::FftFloat;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::f64::consts::TAU;
use flex_math::simd::vectorize;
use num_complex::Complex;
use num_traits::Float;

/// Real transforms of length `n`.
pub(super) struct RealFft<A> {
    n: usize,
    /// Real and imaginary parts of `w^k`, `k < n / 2`, for even `n`.
    cos: Vec<A>,
    sin: Vec<A>,
    forward: Arc<dyn ComplexFft<A>>,
    inverse: Arc<dyn ComplexFft<A>>,
}

impl<A: FftFloat> RealFft<A> {
    /// Plans for length `n`, which must not be zero.
    pub fn new(n: usize) -> Self {
        Self::over(n, A::complex_fft)
    }

    /// Plans for length `n` over complex transforms from `complex_fft(length, inverse)`.
    fn over(n: usize, complex_fft: impl Fn(usize, bool) -> Arc<dyn ComplexFft<A>>) -> Self {
        let even = n.is_multiple_of(2);
        let len = if even { n / 2 } else { n };
        let twiddles = if even { len } else { 0 };
        let angle = |k: usize| -TAU * k as f64 / n as f64;
        Self {
            n,
            cos: (0..twiddles).map(|k| A::from_f64(Float::cos(angle(k)))).collect(),
            sin: (0..twiddles).map(|k| A::from_f64(Float::sin(angle(k)))).collect(),
            forward: complex_fft(len, false),
            inverse: complex_fft(len, true),
        }
    }

    /// Length of the working memory, in real elements.
    pub fn scratch_len(&self) -> usize {
        2 * (2 * self.n + self.forward.scratch_len().max(self.inverse.scratch_len()))
    }

    /// Transforms `row` (`n` samples) to its spectrum in `re` and `im` (`n / 2 + 1` bins).
    pub fn forward(&self, row: &[A], re: &mut [A], im: &mut [A], scratch: &mut [A]) {
        let scratch: &mut [Complex<A>] = bytemuck::cast_slice_mut(scratch);
        if self.n.is_multiple_of(2) {
            let m = self.n / 2;
            let (z, scratch) = scratch.split_at_mut(m);
            self.forward.out_of_place(
                bytemuck::cast_slice(row),
                z,
                &mut scratch[..self.forward.scratch_len()],
            );
            vectorize(
                #[inline(always)]
                || self.split(z, re, im),
            );
        } else {
            let (z, scratch) = scratch.split_at_mut(self.n);
            for (z, x) in z.iter_mut().zip(row) {
                *z = Complex::new(*x, A::ZERO);
            }
            self.forward.in_place(z, &mut scratch[..self.forward.scratch_len()]);
            for ((re, im), z) in re.iter_mut().zip(&mut *im).zip(z) {
                (*re, *im) = (z.re, z.im);
            }
            im[0] = A::ZERO;
        }
    }

    /// Computes the spectrum `X` from `Z`.
    #[inline(always)]
    fn split(&self, z: &[Complex<A>], re: &mut [A], im: &mut [A]) {
        let m = z.len();
        (re[0], im[0]) = (z[0].re + z[0].im, A::ZERO);
        (re[m], im[m]) = (z[0].re - z[0].im, A::ZERO);
        let half = A::from_f64(0.5);
        // Slices of equal length, so that the loop has one bound.
        let (re, im) = (&mut re[1..m], &mut im[1..m]);
        let (cos, sin, z, mirrored) = (&self.cos[1..m], &self.sin[1..m], &z[1..m], &z[1..m]);
        for k in 0..m - 1 {
            let (a, b) = (z[k], mirrored[m - 2 - k]);
            let (sum_re, sum_im) = (a.re + b.re, a.im - b.im);
            let (diff_re, diff_im) = (a.re - b.re, a.im + b.im);
            re[k] = half * (sum_re + (cos[k] * diff_im + sin[k] * diff_re));
            im[k] = half * (sum_im - (cos[k] * diff_re - sin[k] * diff_im));
        }
    }

    /// Transforms a spectrum of `n / 2 + 1` bins to the signal `out` (`n` samples).
    pub fn inverse(&self, re: &[A], im: &[A], out: &mut [A], scratch: &mut [A]) {
        let scratch: &mut [Complex<A>] = bytemuck::cast_slice_mut(scratch);
        if self.n.is_multiple_of(2) {
            let z: &mut [Complex<A>] = bytemuck::cast_slice_mut(out);
            vectorize(
                #[inline(always)]
                || self.join(re, im, z),
            );
            self.inverse.in_place(z, &mut scratch[..self.inverse.scratch_len()]);
        } else {
            let scale = A::from_f64(1.0 / self.n as f64);
            let (z, scratch) = scratch.split_at_mut(self.n);
            z[0] = Complex::new(re[0] * scale, A::ZERO);
            for k in 1..re.len() {
                z[k] = Complex::new(re[k] * scale, im[k] * scale);
                z[self.n - k] = z[k].conj();
            }
            self.inverse.in_place(z, &mut scratch[..self.inverse.scratch_len()]);
            for (o, z) in out.iter_mut().zip(z) {
                *o = z.re;
            }
        }
    }

    /// Computes `Z / n` from the spectrum `X`.
    #[inline(always)]
    fn join(&self, re: &[A], im: &[A], z: &mut [Complex<A>]) {
        let m = z.len();
        let scale = A::from_f64(1.0 / self.n as f64);
        z[0] = Complex::new((re[0] + re[m]) * scale, (re[0] - re[m]) * scale);
        let (re, im) = (&re[1..m], &im[1..m]);
        let (cos, sin, z) = (&self.cos[1..m], &self.sin[1..m], &mut z[1..m]);
        for k in 0..m - 1 {
            let mirrored = m - 2 - k;
            let (sum_re, sum_im) = (re[k] + re[mirrored], im[k] - im[mirrored]);
            let (diff_re, diff_im) = (re[k] - re[mirrored], im[k] + im[mirrored]);
            // i conj(w^k) (diff_re + i diff_im)
            let turned_re = sin[k] * diff_re - cos[k] * diff_im;
            let turned_im = cos[k] * diff_re + sin[k] * diff_im;
            z[k] = Complex::new((sum_re + turned_re) * scale, (sum_im + turned_im) * scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mixed_radix;
    use super::*;
    use alloc::vec;

    /// Compares with the complex transforms of builds without `std`.
    #[test]
    fn both_sources_of_complex_transforms_agree() {
        for n in (1..40).chain([64, 97, 194, 240, 251, 502, 1024]) {
            let row: Vec<f64> = (0..n).map(|j| (j * j % 23) as f64 / 11.0 - 1.0).collect();
            let [(re, im, back), (other_re, other_im, other_back)] =
                [RealFft::over(n, mixed_radix::complex_fft), RealFft::<f64>::new(n)].map(|plan| {
                    let (mut re, mut im, mut back) =
                        (vec![0.0; n / 2 + 1], vec![0.0; n / 2 + 1], vec![0.0; n]);
                    let mut scratch = vec![f64::NAN; plan.scratch_len()];
                    plan.forward(&row, &mut re, &mut im, &mut scratch);
                    plan.inverse(&re, &im, &mut back, &mut scratch);
                    (re, im, back)
                });
            let pairs = re.iter().zip(&other_re).chain(im.iter().zip(&other_im));
            for (a, b) in pairs.chain(back.iter().zip(&other_back)).chain(back.iter().zip(&row)) {
                assert!((a - b).abs() < 1e-11, "length {n}: {a} and {b}");
            }
        }
    }
}
