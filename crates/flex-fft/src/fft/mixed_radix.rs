//! The engine's own complex transforms: mixed radix for lengths with small prime factors, Bluestein for other
//! lengths. `source` tells where they serve.
//!
//! The mixed-radix transform is Stockham's: each pass combines sub-transforms of `radix` and writes them in
//! the order that the next pass reads, so no bit reversal is needed. Bluestein's algorithm writes
//! `jk = (j^2 + k^2 - (k-j)^2) / 2`, which turns the sum over `j` into a convolution with a chirp, computed
//! by transforms whose length is a power of two.

use super::complex::ComplexFft;
use crate::float::Real;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::f64::consts::{PI, TAU};
use num_complex::Complex;
use num_traits::Float;

/// Largest prime factor that is transformed directly. A factor of `p` costs `p` operations per element.
const LARGEST_RADIX: usize = 13;

/// The transform of length `n`, forward or inverse.
pub(super) fn complex_fft<A: Real>(n: usize, inverse: bool) -> Arc<dyn ComplexFft<A>> {
    match factors(n) {
        Some(factors) => Arc::new(MixedRadix::new(n, factors, inverse)),
        None => Arc::new(Bluestein::new(n, inverse)),
    }
}

/// The radices of the passes for length `n`; `None` when `n` has a prime factor above [`LARGEST_RADIX`].
fn factors(mut n: usize) -> Option<Vec<usize>> {
    let mut factors = vec![];
    for radix in [4, 2, 3, 5, 7, 11, LARGEST_RADIX] {
        while n.is_multiple_of(radix) {
            factors.push(radix);
            n /= radix;
        }
    }
    (n == 1).then_some(factors)
}

/// `exp(i angle)` for the inverse transform, `exp(-i angle)` for the forward one.
fn unit<A: Real>(angle: f64, inverse: bool) -> Complex<A> {
    let (sin, cos) = Float::sin_cos(angle);
    Complex::new(A::from_f64(cos), A::from_f64(if inverse { sin } else { -sin }))
}

struct MixedRadix<A> {
    factors: Vec<usize>,
    /// `exp(-2 pi i k / n)` for `k < n`, conjugate for the inverse transform.
    roots: Vec<Complex<A>>,
}

impl<A: Real> MixedRadix<A> {
    fn new(n: usize, factors: Vec<usize>, inverse: bool) -> Self {
        let roots = (0..n).map(|k| unit(TAU * k as f64 / n as f64, inverse)).collect();
        Self { factors, roots }
    }

    /// One pass over `stride` interleaved transforms of length `len`: splits each into `radix` transforms of
    /// length `len / radix`.
    fn pass(&self, radix: usize, len: usize, stride: usize, x: &[Complex<A>], y: &mut [Complex<A>]) {
        let n = self.roots.len();
        let part = len / radix;
        let mut legs = [Complex::new(A::ZERO, A::ZERO); LARGEST_RADIX];
        for j in 0..part {
            for q in 0..stride {
                for (r, leg) in legs[..radix].iter_mut().enumerate() {
                    *leg = x[q + stride * (j + part * r)];
                }
                for k in 0..radix {
                    let mut sum = legs[0];
                    for (r, leg) in legs[..radix].iter().enumerate().skip(1) {
                        sum = sum + *leg * self.roots[(r * k % radix) * (n / radix)];
                    }
                    y[q + stride * (radix * j + k)] = sum * self.roots[j * k * stride];
                }
            }
        }
    }
}

impl<A: Real> ComplexFft<A> for MixedRadix<A> {
    fn scratch_len(&self) -> usize {
        self.roots.len()
    }

    fn out_of_place(&self, input: &[Complex<A>], output: &mut [Complex<A>], scratch: &mut [Complex<A>]) {
        output.copy_from_slice(input);
        self.in_place(output, scratch);
    }

    fn in_place(&self, data: &mut [Complex<A>], scratch: &mut [Complex<A>]) {
        let (mut len, mut stride) = (data.len(), 1);
        let scratch = &mut scratch[..len];
        for (k, &radix) in self.factors.iter().enumerate() {
            if k.is_multiple_of(2) {
                self.pass(radix, len, stride, data, scratch);
            } else {
                self.pass(radix, len, stride, scratch, data);
            }
            (len, stride) = (len / radix, stride * radix);
        }
        if !self.factors.len().is_multiple_of(2) {
            data.copy_from_slice(scratch);
        }
    }
}

struct Bluestein<A> {
    /// `exp(-pi i k^2 / n)` for `k < n`, conjugate for the inverse transform.
    chirp: Vec<Complex<A>>,
    /// Transform of the conjugate chirp at the length of the convolution, including its scale.
    filter: Vec<Complex<A>>,
    forward: MixedRadix<A>,
    inverse: MixedRadix<A>,
}

impl<A: Real> Bluestein<A> {
    fn new(n: usize, inverse: bool) -> Self {
        // k^2 modulo 2n, exactly: the angle stays small for any length.
        let square = |k: usize| (k as u128 * k as u128 % (2 * n as u128)) as f64;
        let chirp: Vec<Complex<A>> = (0..n).map(|k| unit(PI * square(k) / n as f64, inverse)).collect();
        let len = (2 * n - 1).next_power_of_two();
        let radices = factors(len).expect("a power of two");
        let forward = MixedRadix::new(len, radices.clone(), false);
        let zero = Complex::new(A::ZERO, A::ZERO);
        let (mut filter, mut scratch) = (vec![zero; len], vec![zero; len]);
        let scale = A::from_f64(1.0 / len as f64);
        for (k, c) in chirp.iter().enumerate() {
            filter[k] = c.conj() * scale;
            filter[(len - k) % len] = filter[k];
        }
        forward.in_place(&mut filter, &mut scratch);
        Self { chirp, filter, forward, inverse: MixedRadix::new(len, radices, true) }
    }
}

impl<A: Real> ComplexFft<A> for Bluestein<A> {
    fn scratch_len(&self) -> usize {
        2 * self.filter.len()
    }

    fn out_of_place(&self, input: &[Complex<A>], output: &mut [Complex<A>], scratch: &mut [Complex<A>]) {
        output.copy_from_slice(input);
        self.in_place(output, scratch);
    }

    fn in_place(&self, data: &mut [Complex<A>], scratch: &mut [Complex<A>]) {
        let (z, scratch) = scratch.split_at_mut(self.filter.len());
        z.fill(Complex::new(A::ZERO, A::ZERO));
        for ((z, x), c) in z.iter_mut().zip(&*data).zip(&self.chirp) {
            *z = *x * *c;
        }
        self.forward.in_place(z, scratch);
        for (z, f) in z.iter_mut().zip(&self.filter) {
            *z = *z * *f;
        }
        self.inverse.in_place(z, scratch);
        for ((x, z), c) in data.iter_mut().zip(z).zip(&self.chirp) {
            *x = *z * *c;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<A: Real>(n: usize, epsilon: f64) {
        let signal: Vec<Complex<f64>> = (0..n)
            .map(|k| Complex::new((k * 37 % 101) as f64 / 50.0 - 1.0, (k * 53 % 97) as f64 / 48.0 - 1.0))
            .collect();
        for inverse in [false, true] {
            let fft = complex_fft::<A>(n, inverse);
            let mut data: Vec<Complex<A>> =
                signal.iter().map(|z| Complex::new(A::from_f64(z.re), A::from_f64(z.im))).collect();
            let mut scratch = vec![Complex::new(A::ZERO, A::ZERO); fft.scratch_len()];
            fft.in_place(&mut data, &mut scratch);
            for (k, z) in data.iter().enumerate() {
                let mut sum = Complex::new(0.0, 0.0);
                for (j, x) in signal.iter().enumerate() {
                    sum += x * unit::<f64>(TAU * (j * k % n) as f64 / n as f64, inverse);
                }
                let error = (crate::Element::to_f64(z.re) - sum.re)
                    .abs()
                    .max((crate::Element::to_f64(z.im) - sum.im).abs());
                assert!(error <= epsilon * (n as f64).sqrt(), "length {n}, bin {k}: off by {error:e}");
            }
        }
    }

    #[test]
    fn all_lengths_match_the_definition() {
        for n in (1..=70).chain([81, 97, 100, 121, 128, 169, 210, 251, 256, 289, 360, 499, 512]) {
            check::<f64>(n, 1e-14);
            check::<f32>(n, 1e-5);
        }
    }
}
