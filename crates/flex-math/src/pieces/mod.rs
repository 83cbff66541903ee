//! Functions as polynomials of low degree in each of sixteen pieces of their domain, whose coefficients are
//! [looked up](Avx512::lookup) in registers.
//!
//! With AVX-512 the pieces take fewer instructions than one polynomial for the whole domain and its
//! additional steps (an exponential, a division, another polynomial near zero). With AVX2 a look-up of an f32
//! takes two permutations, of two cycles each on Zen 3, and a choice: there the eight look-ups of erf alone
//! took longer than erf does without them (1.2 against 1.14 ns per element).

mod tables;

pub(crate) use tables::*;

use crate::Float;
use crate::float::*;
use crate::simd::*;

/// A function of numbers from zero up. `tools/coefficients.py` chooses and fits the pieces.
pub struct Pieces<T: 'static> {
    /// Four neighbouring bits of `1 + scale x` are the number of the piece that `x` is in.
    pub scale: T,
    /// How many of these four bits are the highest bits of the significand; the others are the lowest bits of
    /// the exponent.
    pub significand_bits: u32,
    /// Whether the function is close to `x` near zero. The first piece then holds the difference from `x`,
    /// expanded around zero; the rounding of the difference hardly matters.
    pub from_identity: bool,
    /// One column per piece: the point that its polynomial is expanded around, then the coefficients from the
    /// lowest power up.
    pub rows: &'static [[T; 16]],
}

impl<T: Float> Pieces<T> {
    /// The function at `x`, which must be neither negative nor beyond the last piece. NaN stays NaN.
    #[inline(always)]
    pub(crate) fn at<S: Simd>(&self, avx512: Avx512<S>, x: Vector<S, T>) -> Vector<S, T> {
        let u = madd(x, self.scale.splat(), splat(1.0));
        let index = bits(u) >> (T::MANTISSA - self.significand_bits);
        let [points, values, coefficients @ ..] = self.rows else { panic!("a table has points and values") };
        let t = x - avx512.lookup(points, index);
        let mut value = avx512.lookup(values, index);
        if self.from_identity {
            let first = u.lt(splat(1.0 + 1.0 / (1 << self.significand_bits) as f32));
            value = first.select(x, value);
        }
        let mut i = coefficients.len() - 1;
        let mut slope = avx512.lookup(&coefficients[i], index);
        while i > 0 {
            i -= 1;
            slope = madd(slope, t, avx512.lookup(&coefficients[i], index));
        }
        madd(slope, t, value)
    }
}
