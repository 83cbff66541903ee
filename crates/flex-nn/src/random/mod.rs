//! Random tensors from a counter-based generator.
//!
//! A [`Generator`] is a key and a counter; the numbers at a counter are a function of the two (Philox, see
//! `philox.rs`). A tensor is cut into blocks of a fixed length, each of which owns a range of counters, so blocks are
//! generated in any order, by any number of threads, and a seed always gives the same numbers. (Machines with and
//! without fused multiply-add may differ in the last bits of normal numbers.)

mod block;
mod philox;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::movement::convert::FloatBlock;
use crate::parallel::{self, Work};
use crate::{DType, Element, Scalar, Shape, Tensor};
use block::{Integers, Normal, Planes, Uniform};
use flex_math::simd::vectorize;

const OP: &str = "random";

/// What the elements are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// The natural range of the dtype: `[0, 1)` for floats, every value for integers, a fair coin for booleans.
    Standard,
    /// Evenly from `low` on, below `high`. Integers are drawn from the bounds without their fractions, held to the range
    /// of the dtype. Bounds that are equal in the dtype give `low`.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The end of the range, which is not drawn.
        high: f64,
    },
    /// The normal distribution. Integers are its values without their fractions, held to the range of the dtype.
    Normal {
        /// Centre.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// One with this probability, zero otherwise.
    Bernoulli {
        /// Chance of a one.
        probability: f64,
    },
}

/// A stream of random numbers: what a key (the seed) gives from a counter on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    key: u64,
    counter: u64,
}

impl Generator {
    /// The start of the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { key: seed, counter: 0 }
    }

    /// Cuts the part off the stream that [`random`] uses for a tensor of `elements`, whatever its dtype and
    /// distribution. A generator behind a lock hands out parts, and tensors are filled outside of the lock.
    pub fn take(&mut self, elements: usize) -> Self {
        let part = self.clone();
        let used = (elements.div_ceil(block::LEN) as u64).wrapping_mul(block::COUNTERS);
        self.counter = self.counter.wrapping_add(used);
        part
    }
}

/// A tensor of random numbers; the generator moves on behind them.
///
/// Floats of a uniform distribution have 24 random bits (`f64` 53) and never round up to `high`; half precision is
/// `f32` rounded.
///
/// # Errors
/// A probability outside of `[0, 1]`, a standard deviation that is negative, bounds in the wrong order or so far apart
/// that their distance overflows, parameters that are not finite; booleans from a distribution other than
/// [`Bernoulli`](Distribution::Bernoulli) and [`Standard`](Distribution::Standard).
pub fn random(
    generator: &mut Generator,
    shape: Shape,
    distribution: Distribution,
    dtype: DType,
) -> Result<Tensor> {
    check(distribution)?;
    let elements = crate::layout::checked_num_elements(OP, &shape)?;
    let stream = |generator: &mut Generator| generator.take(elements);
    match distribution {
        Distribution::Bernoulli { probability } => bernoulli(generator, shape, probability, dtype),
        _ if dtype.is_bool() => match distribution {
            Distribution::Standard => bernoulli(generator, shape, 0.5, dtype),
            _ => Err(Error::dtype(OP, dtype, "a float or integer dtype for this distribution")),
        },
        Distribution::Normal { mean, std } if dtype == DType::F64 || !dtype.is_float() => {
            let normal = Normal { mean, std };
            dispatch!(number OP, dtype, T => fill::<f64, T>(
                stream(generator), shape, dtype, Normal::<f64>::PLANES,
                |words, out| normal.fill_f64(words, out),
                |from, to| vectorize(#[inline(always)] || convert(from, to, T::from_f64)),
            ))
        }
        Distribution::Normal { mean, std } => {
            let normal = Normal { mean: mean as f32, std: std as f32 };
            dispatch!(float OP, dtype, T => fill::<f32, T>(
                stream(generator), shape, dtype, Normal::<f32>::PLANES,
                |words, out| normal.fill_f32(words, out), T::write_f32,
            ))
        }
        _ if dtype.is_float() => {
            let (low, high) = match distribution {
                Distribution::Uniform { low, high } => (low, high),
                _ => (0.0, 1.0),
            };
            dispatch!(float OP, dtype, T => {
                let bounds = float_bounds::<T>(low, high)?;
                if dtype == DType::F64 {
                    fill::<f64, T>(
                        stream(generator), shape, dtype, Planes::TWO,
                        |words, out| bounds.fill_f64(words, out),
                        |from, to| convert(from, to, T::from_f64),
                    )
                } else {
                    fill::<f32, T>(
                        stream(generator), shape, dtype, Planes::ONE,
                        |words, out| bounds.fill_f32(words, out), T::write_f32,
                    )
                }
            })
        }
        _ => dispatch!(int OP, dtype, T => {
            let integers = int_bounds::<T>(distribution);
            fill::<i64, T>(
                stream(generator), shape, dtype, integers.planes(),
                |words, out| integers.fill(words, out),
                |from, to| vectorize(#[inline(always)] || convert(from, to, T::from_i64)),
            )
        }),
    }
}

fn check(distribution: Distribution) -> Result<()> {
    let refuse = |name, got: f64, expected: &'static str| Err(Error::argument(OP, name, got, expected));
    match distribution {
        Distribution::Bernoulli { probability } if !(0.0..=1.0).contains(&probability) => {
            refuse("probability", probability, "a number from 0 to 1")
        }
        Distribution::Normal { mean, .. } if !mean.is_finite() => refuse("mean", mean, "a finite number"),
        Distribution::Normal { std, .. } if !(std.is_finite() && std >= 0.0) => {
            refuse("standard deviation", std, "a finite number of at least 0")
        }
        Distribution::Uniform { low, .. } if !low.is_finite() => refuse("low", low, "a finite number"),
        Distribution::Uniform { low, high } if !(high.is_finite() && low <= high) => {
            refuse("high", high, "a finite number that is not below the low bound")
        }
        _ => Ok(()),
    }
}

/// The uniform distribution over the values of `T`.
fn float_bounds<T: Element>(low: f64, high: f64) -> Result<Uniform> {
    let (low, end) = (T::from_f64(low).to_f64(), T::from_f64(high));
    let high = end.to_f64();
    let span = high - low;
    let largest = if T::DTYPE == DType::F64 { f64::MAX } else { f32::MAX.into() };
    if !(span.is_finite() && span <= largest) {
        let expected = alloc::format!("bounds whose distance {} can hold", T::DTYPE.name());
        return Err(Error::argument(OP, "range", format_args!("{low}..{high}"), expected));
    }
    Ok(Uniform { low, span, below: largest_below(end).to_f64().max(low) })
}

/// The largest value below `high`, a finite one.
fn largest_below<T: Element>(high: T) -> T {
    // Floats of one sign are ordered as their bits.
    macro_rules! step {
        ($Bits:ty) => {{
            let bits: $Bits = bytemuck::cast(high);
            let below = if high > T::ZERO {
                bits - 1
            } else if high < T::ZERO {
                bits + 1
            } else {
                <$Bits>::MAX / 2 + 2
            };
            bytemuck::cast(below)
        }};
    }
    match size_of::<T>() {
        2 => step!(u16),
        4 => step!(u32),
        _ => step!(u64),
    }
}

/// The range of integers that a distribution other than normal asks for.
fn int_bounds<T: Element>(distribution: Distribution) -> Integers {
    let value = |v: T| -> i128 {
        if T::bounds().0 == T::ZERO { (v.to_i64() as u64).into() } else { v.to_i64().into() }
    };
    let (min, max) = (value(T::bounds().0), value(T::bounds().1));
    let (low, high) = match distribution {
        // `as` cuts the fraction off and holds to the range of i128.
        Distribution::Uniform { low, high } => {
            ((low as i128).clamp(min, max), (high as i128).clamp(min, max + 1))
        }
        _ => (min, max + 1),
    };
    // Wrapping: a range of all 64-bit values has 2^64 of them, written 0.
    Integers { low: low as i64, range: high.max(low + 1).wrapping_sub(low) as u64 }
}

fn bernoulli(generator: &mut Generator, shape: Shape, probability: f64, dtype: DType) -> Result<Tensor> {
    // Exactly this many of the 2^32 words give a one.
    let ones = (probability * 4_294_967_296.0) as u64;
    if ones == 0 || ones == 1 << 32 {
        generator.take(shape.num_elements());
        return Tensor::full(shape, Scalar::UInt((ones != 0) as u64), dtype);
    }
    let last = (ones - 1) as u32;
    let stream = generator.take(shape.num_elements());
    // As bits, a one is the same for signed and unsigned integers, so only floats differ.
    dispatch!(any OP, dtype, T => fill::<u8, T>(
        stream, shape, dtype, Planes::ONE,
        |words, out| vectorize(#[inline(always)] || convert(words, out, |w| (w <= last) as u8)),
        |from, to| vectorize(#[inline(always)] || convert(from, to, |b| if b != 0 { T::ONE } else { T::ZERO })),
    ))
}

#[inline(always)]
fn convert<A: Copy, B>(from: &[A], to: &mut [B], f: impl Fn(A) -> B) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f(from));
}

/// Blocks that one task generates. One AVX-512 core takes 0.4 ns for an even and 0.8 ns for a normal `f32`, which makes 7 to
/// 12 us per task.
const BLOCKS_PER_TASK: usize = 16;

/// Elements of a tensor whose words need little room: one group per plane.
const FEW: usize = philox::GROUP;

/// A tensor whose blocks `produce` computes from random words and `store` converts.
fn fill<X: Element, T: Element>(
    stream: Generator,
    shape: Shape,
    dtype: DType,
    planes: Planes,
    produce: impl Fn(&[u32], &mut [X]) + Sync,
    store: impl Fn(&[X], &mut [T]) + Sync,
) -> Result<Tensor> {
    let block = |index: usize, out: &mut [T], words: &mut [u32], values: &mut [X]| {
        let first = stream.counter.wrapping_add((index as u64).wrapping_mul(block::COUNTERS));
        let (width, yielded) = planes.cut(out.len());
        let words = &mut words[..planes.count * width];
        for (plane, words) in words.chunks_exact_mut(width).enumerate() {
            philox::fill(stream.key, first.wrapping_add((plane * planes.len / 4) as u64), words);
        }
        produce(words, &mut values[..yielded]);
        store(&values[..out.len()], out);
    };
    Tensor::build::<T>(OP, shape, dtype, |out| {
        // Clearing the room for a whole block would cost more than a few numbers.
        if (1..=FEW).contains(&out.len()) {
            return block(0, out, &mut [0; 4 * FEW], &mut [X::ZERO; 2 * FEW]);
        }
        // Ten rounds of the generator and a few functions per number.
        let work = Work::Flops(64 * out.len());
        parallel::for_each_chunk(out, BLOCKS_PER_TASK * block::LEN, work, |k, out| {
            let mut words = [0; 2 * block::LEN];
            let mut values = [X::ZERO; block::LEN];
            for (i, out) in out.chunks_mut(block::LEN).enumerate() {
                block(k * BLOCKS_PER_TASK + i, out, &mut words, &mut values);
            }
        });
    })
}
