//! Computes blocks of numbers from random words.

use super::philox::GROUP;
use crate::float::Real;
use flex_math::simd::vectorize;
use flex_math::{Cos, Ln, Sin, Sqrt, map, map_in_place};

/// Numbers in a block. A block's words and intermediate values fit into the first-level cache.
pub(super) const LEN: usize = 1024;

/// Counters that a block owns: two words per number, four words per counter. Distributions that need one word
/// per number leave half of the counters unused, so that every distribution advances the stream by the same
/// amount.
pub(super) const COUNTERS: u64 = LEN as u64 / 2;

/// Arrangement of the words of a block: planes of equal length. The words of all planes at one position make
/// one number, or two numbers if a plane has half the length of a block. So the first few numbers only need
/// the first words of each plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordPlanes {
    /// Number of planes.
    pub count: usize,
    /// Words per plane: [`LEN`], or half of it.
    pub len: usize,
}

impl WordPlanes {
    /// One word per number.
    pub const ONE: Self = Self { count: 1, len: LEN };
    /// Two words per number.
    pub const TWO: Self = Self { count: 2, len: LEN };

    /// Returns how many words of each plane the first `elements` numbers of a block need (a multiple of
    /// [`GROUP`]), and how many numbers those words make.
    pub fn cut(self, elements: usize) -> (usize, usize) {
        let positions = elements.min(self.len);
        (positions.next_multiple_of(GROUP), positions * (LEN / self.len))
    }
}

/// 2^-32.
const WORD: f32 = 1.0 / 4_294_967_296.0;

/// The uniform distribution over `[low, low + span)`; the bounds are values of the output's dtype.
pub(super) struct Uniform {
    pub low: f64,
    pub span: f64,
    /// The largest value below the end of the range; results that round to the end become this value.
    pub below: f64,
}

impl Uniform {
    /// One word per number, of which 24 bits are used.
    pub fn fill_f32(&self, words: &[u32], out: &mut [f32]) {
        let (low, span, below) = (self.low as f32, self.span as f32, self.below as f32);
        vectorize(
            #[inline(always)]
            || {
                for (o, &word) in out.iter_mut().zip(words) {
                    // 24 bits fit into i32, and every vector unit can convert i32.
                    let unit = ((word >> 8) as i32) as f32 * (1.0 / 16_777_216.0);
                    let value = low + unit * span;
                    *o = if value > below { below } else { value };
                }
            },
        );
    }

    /// Two words per number, of which 53 bits are used.
    pub fn fill_f64(&self, words: &[u32], out: &mut [f64]) {
        let (low, span, below) = (self.low, self.span, self.below);
        let (high_words, low_words) = words.split_at(words.len() / 2);
        vectorize(
            #[inline(always)]
            || {
                for ((o, &a), &b) in out.iter_mut().zip(high_words).zip(low_words) {
                    let value = low + unit(a, b) * span;
                    *o = if value > below { below } else { value };
                }
            },
        );
    }
}

/// 53 bits of two words as a number in `[0, 1)`.
#[inline(always)]
fn unit(high: u32, low: u32) -> f64 {
    let bits = (high as u64) << 21 | (low >> 11) as u64;
    bits as i64 as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// The normal distribution by the method of Box and Muller (1958): an exponentially distributed squared
/// radius and a uniformly distributed angle give two independent numbers.
pub(super) struct Normal<T> {
    pub mean: T,
    pub std: T,
}

const HALF: usize = LEN / 2;

impl<T: Real> Normal<T> {
    /// `polar` writes uniform numbers above 0, from which the radii are computed, and angles. Each pair of
    /// them gives one number in each half of `out`.
    fn fill(&self, out: &mut [T], polar: impl FnOnce(&mut [T], &mut [T])) {
        let (mean, std) = (self.mean, self.std);
        let width = out.len() / 2;
        // Clearing buffers for a whole block would cost more than a few numbers.
        let (mut few, mut many);
        let [radius, angle] = if width <= GROUP {
            few = [[T::ZERO; GROUP]; 2];
            few.each_mut().map(|room| &mut room[..width])
        } else {
            many = [[T::ZERO; HALF]; 2];
            many.each_mut().map(|room| &mut room[..width])
        };
        let (sin, cos) = out.split_at_mut(width);
        polar(radius, angle);
        map_in_place(Ln, radius);
        let minus_two = -(T::ONE + T::ONE);
        vectorize(
            #[inline(always)]
            || radius.iter_mut().for_each(|r| *r = *r * minus_two),
        );
        map_in_place(Sqrt, radius);
        map(Sin, angle, sin);
        map(Cos, angle, cos);
        vectorize(
            #[inline(always)]
            || {
                for ((s, c), &r) in sin.iter_mut().zip(cos).zip(&*radius) {
                    *s = mean + std * (r * *s);
                    *c = mean + std * (r * *c);
                }
            },
        );
    }
}

impl Normal<f32> {
    /// Two words for two numbers.
    pub const PLANES: WordPlanes = WordPlanes { count: 2, len: HALF };

    /// The radius uses all 32 bits of a word, so that the tails reach to 6.7 standard deviations.
    pub fn fill_f32(&self, words: &[u32], out: &mut [f32]) {
        let (first, second) = words.split_at(words.len() / 2);
        self.fill(out, |radius, angle| {
            vectorize(
                #[inline(always)]
                || {
                    for (r, &word) in radius.iter_mut().zip(first) {
                        *r = word as f32 * WORD + 0.5 * WORD;
                    }
                    for (a, &word) in angle.iter_mut().zip(second) {
                        *a = (word as i32) as f32 * (core::f32::consts::PI / 2_147_483_648.0);
                    }
                },
            );
        });
    }
}

impl Normal<f64> {
    /// Four words for two numbers.
    pub const PLANES: WordPlanes = WordPlanes { count: 4, len: HALF };

    /// 53 bits for each of radius and angle.
    pub fn fill_f64(&self, words: &[u32], out: &mut [f64]) {
        let plane = words.len() / 4;
        let (first, second) = words.split_at(2 * plane);
        self.fill(out, |radius, angle| {
            vectorize(
                #[inline(always)]
                || {
                    for ((r, &a), &b) in radius.iter_mut().zip(&first[..plane]).zip(&first[plane..]) {
                        *r = unit(a, b) + 0.5 / 9_007_199_254_740_992.0;
                    }
                    for ((o, &a), &b) in angle.iter_mut().zip(&second[..plane]).zip(&second[plane..]) {
                        *o = (unit(a, b) - 0.5) * core::f64::consts::TAU;
                    }
                },
            );
        });
    }
}

/// Integers in `low..low + range` (wrapping); a `range` of 0 stands for 2^64.
pub(super) struct Integers {
    pub low: i64,
    pub range: u64,
}

impl Integers {
    /// Longest range that uses one word: the relative error of a number's probability is then less than
    /// 2^-16. With two words it is less than 2^-32 for ranges up to 2^32.
    const ONE_WORD: u64 = 1 << 16;

    pub fn planes(&self) -> WordPlanes {
        if (1..=Self::ONE_WORD).contains(&self.range) { WordPlanes::ONE } else { WordPlanes::TWO }
    }

    /// The high part of `word * range`, which is uniform up to the rounding of `2^bits / range`.
    pub fn fill(&self, words: &[u32], out: &mut [i64]) {
        let (low, range) = (self.low, self.range);
        if self.planes().count == 1 {
            return vectorize(
                #[inline(always)]
                || {
                    for (o, &word) in out.iter_mut().zip(words) {
                        *o = low.wrapping_add(((word as u64 * range) >> 32) as i64);
                    }
                },
            );
        }
        let (high_words, low_words) = words.split_at(words.len() / 2);
        let pairs = out.iter_mut().zip(high_words).zip(low_words);
        if range == 0 {
            for ((o, &a), &b) in pairs {
                *o = ((a as u64) << 32 | b as u64) as i64;
            }
        } else if range <= 1 << 32 {
            vectorize(
                #[inline(always)]
                || {
                    for ((o, &a), &b) in pairs {
                        let carry = (b as u64 * range) >> 32;
                        // The product plus carry is at most (2^32 - 1) 2^32 + 2^32 - 1, so it does not
                        // overflow.
                        *o = low.wrapping_add(((a as u64 * range + carry) >> 32) as i64);
                    }
                },
            );
        } else {
            for ((o, &a), &b) in pairs {
                let word = (a as u64) << 32 | b as u64;
                *o = low.wrapping_add(((word as u128 * range as u128) >> 64) as i64);
            }
        }
    }
}
