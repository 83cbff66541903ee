//! Square root and reciprocal, correctly rounded, and the length of the hypotenuse.

use crate::float::*;
use crate::simd::*;
use crate::{BinaryFn, Float, UnaryFn};

/// The square root, correctly rounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sqrt;

impl<T: Float> UnaryFn<T> for Sqrt {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        match Avx512::proof() {
            Some(avx512) if !unusual(x).any() => from_estimate(avx512, x),
            _ => x.sqrt(),
        }
    }
}

/// The lanes for which [`from_estimate`] might not return the correctly rounded square root: zero, negative
/// numbers, infinity, NaN, and numbers whose rounding errors are subnormal.
#[inline(always)]
fn unusual<S: Simd, T: Float>(x: Vector<S, T>) -> Mask<S, T> {
    let small = T::MIN_NORMAL * T::NORMALISE * T::NORMALISE;
    !(x.ge(small.splat()) & x.lt(T::INF.splat()))
}

/// The square root by Newton's method from an estimate of its inverse, in fused multiply-adds (Markstein
/// 1990).
///
/// The square root instruction occupies its unit longer on Intel's processors: sqrt of f64 in the
/// second-level cache went from 1.00 to 0.39 ns per element on one thread of a Xeon (Emerald Rapids), and
/// sqrt of f32 from 0.25 to 0.19.
///
/// `g` approaches the root and `h` half its inverse. Each step turns relative errors `e` into `3/2 e^2`: from
/// the estimate's 2^-14 to a few roundings. The last step adds the remainder times `h`. Before that sum is
/// rounded, its error is about the product of the errors of `g` and `h`, below 2^-102 for f64. Rounding could
/// go wrong only for a root nearer than that to the midpoint between two numbers. Only some dozens of
/// significands have such roots. The tests try these, and every significand of f32.
#[inline(always)]
fn from_estimate<S: Simd, T: Float>(avx512: Avx512<S>, x: Vector<S, T>) -> Vector<S, T> {
    let half = splat::<S, T>(0.5);
    let y = avx512.inverse_root(x);
    let (mut g, mut h) = (x * y, y * half);
    let steps = if T::MANTISSA == 23 { 1 } else { 2 };
    for _ in 0..steps {
        let r = neg(g).fma(h, half);
        (g, h) = (g.fma(r, g), h.fma(r, h));
    }
    let remainder = neg(g).fma(g, x);
    remainder.fma(h, g)
}

/// `1 / x`, correctly rounded: uses a division, not the machine's estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recip;

impl<T: Float> UnaryFn<T> for Recip {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        splat::<S, T>(1.0) / x
    }
}

/// `sqrt(x^2 + y^2)`, without overflow or underflow of the squares. Special cases as in C: infinite if an
/// operand is infinite, otherwise NaN if one is NaN.
///
/// Error below 2 ULP for f32 and f64: `a sqrt(1 + (b/a)^2)`, where `a` is the larger magnitude.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hypot;

impl<T: Float> BinaryFn<T> for Hypot {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>, y: Vector<S, T>) -> Vector<S, T> {
        let (zero, one) = (splat::<S, T>(0.0), splat::<S, T>(1.0));
        let (x, y) = (abs(x), abs(y));
        let swap = || x.lt(y);
        let (a, b) = (swap().select(y, x), swap().select(x, y));
        // Two zeros have no quotient. The comparison is of `b`: beside a zero `a`, it may be NaN.
        let quotient = b.eq(zero).select(zero, b / a);
        let length = a * Sqrt.eval(quotient * quotient + one);
        let infinite = x.eq(T::INF.splat()) | y.eq(T::INF.splat());
        infinite.select(T::INF.splat(), length)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::map;
    use std::{vec, vec::Vec};

    /// Compares with the square root instruction, which is correctly rounded.
    fn check<T: Float>(x: &[T]) {
        let mut got = vec![T::zero(); x.len()];
        map(Sqrt, x, &mut got);
        for (x, y) in x.iter().zip(got) {
            let want = num_traits::Float::sqrt(*x);
            assert!(y == want || y.is_nan() && want.is_nan(), "sqrt({x}): {y}, expected {want}");
        }
    }

    #[test]
    fn every_significand_of_f32() {
        // Two octaves, for both parities of the exponent.
        for first in (1f32.to_bits()..4f32.to_bits()).step_by(1 << 16) {
            check(&(first..first + (1 << 16)).map(f32::from_bits).collect::<Vec<_>>());
        }
    }

    #[test]
    fn roots_near_the_middle_between_two_f64() {
        // (n + 1/2)^2 = n^2 + n + 1/4, so the roots of n^2 + n + k for small k are as near to n + 1/2 as
        // roots get. The number has 53 bits if it is a multiple of 2^52 below 2^105, or one of 2^53 from
        // there on.
        let mut hard = Vec::new();
        for k in (-1024i128..=1024).step_by(2) {
            for (bits, range) in [(52, 1i128 << 104..1 << 105), (53, 1 << 105..1 << 106)] {
                for odd in [0, 1] {
                    // Each bit of n decides one more bit of the sum, whose derivative 2n + 1 is odd (Hensel).
                    let mut n = odd;
                    for bit in 1..bits {
                        if (n * n + n + k) >> bit & 1 == 1 {
                            n += 1 << bit;
                        }
                    }
                    let n = n | 1 << 52;
                    let x = n * n + n + k;
                    if x % (1 << bits) == 0 && range.contains(&x) {
                        hard.push(x as f64);
                    }
                }
            }
        }
        assert!(hard.len() > 1000, "{} numbers", hard.len());
        check(&hard);
        check(&hard.iter().map(|x| x * libm::exp2(-900.0)).collect::<Vec<_>>());
    }

    #[test]
    fn ends_of_the_range() {
        let mut x = vec![0.0, -0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX];
        x.extend((-1074..1024).map(|e| 1.7 * libm::exp2(e as f64)));
        check(&x);
        check(&x.iter().map(|&x| x as f32).collect::<Vec<_>>());
        // One unusual number switches its whole vector to the square root instruction.
        check(&[2.0, 3.0, 5.0, 0.0, 7.0, 1e-310, 11.0, 13.0]);
    }
}
