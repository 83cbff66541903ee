//! Random tensors from a counter-based generator.
//!
//! A [`Generator`] is a key and a counter; the numbers at a counter depend only on these two (Philox, see
//! `philox.rs`). A tensor is cut into blocks of a fixed length, each of which owns a range of counters. So
//! blocks are generated in any order by any number of threads, and a seed always gives the same numbers. (The
//! last bits of normal numbers may differ between machines with and without fused multiply-add.)

mod block;
mod philox;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::movement::convert::FloatBlock;
use crate::parallel::thresholds::TASK_RANDOM_BLOCKS;
use crate::parallel::{self, Work};
use crate::{DType, Element, Scalar, Shape, Tensor};
use block::{Integers, Normal, Planes, Uniform};
use flex_math::simd::vectorize;

const OP: &str = "random";

/// The distribution of the elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// The natural range of the dtype: `[0, 1)` for floats, every value for integers, true or false with
    /// equal probability for booleans.
    Standard,
    /// Uniform in `low..high`. For integers, the bounds are truncated to integers and clamped to the range of
    /// the dtype. Bounds that are equal in the dtype give `low`.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The end of the range, exclusive.
        high: f64,
    },
    /// The normal distribution. Integers are normal numbers, truncated and clamped to the range of the dtype.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// One with this probability, zero otherwise.
    Bernoulli {
        /// Probability of a one.
        probability: f64,
    },
}

/// A stream of random numbers: the numbers of a key (the seed) from a counter on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    key: u64,
    counter: u64,
}

impl Generator {
    /// The start of the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { key: seed, counter: 0 }
    }

    /// Splits off the part of the stream that [`random`] uses for a tensor of `elements`, for any dtype and
    /// distribution, and advances past it. A generator behind a lock can hand out such parts, so that tensors
    /// are filled without the lock.
    pub fn take(&mut self, elements: usize) -> Self {
        let part = self.clone();
        let used = (elements.div_ceil(block::LEN) as u64).wrapping_mul(block::COUNTERS);
        self.counter = self.counter.wrapping_add(used);
        part
    }
}

/// A tensor of random numbers; advances the generator past the numbers used.
///
/// Uniform floats have 24 random bits (`f64` has 53) and never round up to `high`. Half-precision numbers are
/// rounded from `f32`.
///
/// # Errors
/// Fails if a probability is outside of `[0, 1]`, a standard deviation is negative, bounds are in the wrong
/// order or so far apart that their difference overflows, a parameter is not finite, or booleans are to have
/// a distribution other than [`Bernoulli`](Distribution::Bernoulli) and [`Standard`](Distribution::Standard).
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

/// The uniform distribution with bounds that are rounded to `T`; an error if their difference overflows `T`.
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

/// The largest value below `high`; `high` is finite.
fn largest_below<T: Element>(high: T) -> T {
    // Floats of the same sign are ordered like their bit patterns (negative ones in reverse).
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

/// The range of integers of a uniform or the standard distribution.
fn int_bounds<T: Element>(distribution: Distribution) -> Integers {
    let value = |v: T| -> i128 {
        if T::bounds().0 == T::ZERO { (v.to_i64() as u64).into() } else { v.to_i64().into() }
    };
    let (min, max) = (value(T::bounds().0), value(T::bounds().1));
    let (low, high) = match distribution {
        // `as` truncates, and saturates at the range of i128.
        Distribution::Uniform { low, high } => {
            ((low as i128).clamp(min, max), (high as i128).clamp(min, max + 1))
        }
        _ => (min, max + 1),
    };
    // Wraps: the range of all 64-bit values has length 2^64, which is stored as 0.
    Integers { low: low as i64, range: high.max(low + 1).wrapping_sub(low) as u64 }
}

fn bernoulli(generator: &mut Generator, shape: Shape, probability: f64, dtype: DType) -> Result<Tensor> {
    // Exactly this many of the 2^32 possible words give a one.
    let ones = (probability * 4_294_967_296.0) as u64;
    if ones == 0 || ones == 1 << 32 {
        generator.take(shape.num_elements());
        return Tensor::full(shape, Scalar::UInt((ones != 0) as u64), dtype);
    }
    let last = (ones - 1) as u32;
    let stream = generator.take(shape.num_elements());
    // A one has the same bits in signed and unsigned integers, so only floats differ.
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

/// Longest tensor that is generated with small buffers: one group of words per plane.
const FEW: usize = philox::GROUP;

/// Fills a tensor block by block: `produce` computes numbers from random words, `store` converts them to `T`.
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
        // Clearing buffers for a whole block would cost more than a few numbers.
        if (1..=FEW).contains(&out.len()) {
            return block(0, out, &mut [0; 4 * FEW], &mut [X::ZERO; 2 * FEW]);
        }
        // Ten rounds of the generator and a few function evaluations per number.
        let work = Work::Flops(64 * out.len());
        parallel::for_each_chunk(out, TASK_RANDOM_BLOCKS * block::LEN, work, |k, out| {
            let mut words = [0; 2 * block::LEN];
            let mut values = [X::ZERO; block::LEN];
            for (i, out) in out.chunks_mut(block::LEN).enumerate() {
                block(k * TASK_RANDOM_BLOCKS + i, out, &mut words, &mut values);
            }
        });
    })
}
