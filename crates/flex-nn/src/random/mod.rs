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
use crate::parallel::thresholds::TASK_RANDOM_BLOCKS;
use crate::parallel::{self, Work};
use crate::stored::{convert, low_bits};
use crate::{Blank, DType, Element, Scalar, Shape, Tensor, bf16, f16};
use block::{Integers, Normal, Uniform, WordPlanes};
use bytemuck::{cast_slice, cast_slice_mut};
use flex_math::StoredFloat;
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
    let numbers = match distribution {
        Distribution::Standard if dtype.is_bool() => Numbers::bernoulli(0.5, dtype),
        Distribution::Bernoulli { probability } => Numbers::bernoulli(probability, dtype),
        _ if dtype.is_bool() => {
            return Err(Error::dtype(OP, dtype, "a float or integer dtype for this distribution"));
        }
        Distribution::Normal { mean, std } if dtype == DType::F64 || !dtype.is_float() => {
            Ok(Numbers::Normal64(Normal { mean, std }))
        }
        Distribution::Normal { mean, std } => {
            Ok(Numbers::Normal32(Normal { mean: mean as f32, std: std as f32 }))
        }
        Distribution::Uniform { low, high } if dtype.is_float() => {
            Ok(Numbers::Uniform(float_bounds(low, high, dtype)?))
        }
        _ if dtype.is_float() => Ok(Numbers::Uniform(float_bounds(0.0, 1.0, dtype)?)),
        _ => Ok(Numbers::Integers(int_bounds(distribution, dtype))),
    };
    let stream = generator.take(elements);
    match numbers {
        Ok(numbers) => fill(stream, shape, dtype, &numbers),
        Err(Degenerate(value)) => Tensor::full(shape, Scalar::UInt(value), dtype),
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

/// The uniform distribution with bounds that are rounded to `dtype`; an error if their difference overflows
/// it.
fn float_bounds(low: f64, high: f64, dtype: DType) -> Result<Uniform> {
    let [low, high, below] = dispatch!(float OP, dtype, T => Ok(rounded::<T>(low, high)))?;
    let span = high - low;
    let largest = if dtype == DType::F64 { f64::MAX } else { f32::MAX.into() };
    if !(span.is_finite() && span <= largest) {
        let expected = alloc::format!("bounds whose distance {} can hold", dtype.name());
        return Err(Error::argument(OP, "range", format_args!("{low}..{high}"), expected));
    }
    Ok(Uniform { low, span, below: below.max(low) })
}

/// The bounds rounded to `T`, and the largest `T` below the high bound.
fn rounded<T: Element>(low: f64, high: f64) -> [f64; 3] {
    let end = T::from_f64(high);
    [T::from_f64(low).to_f64(), end.to_f64(), largest_below(end).to_f64()]
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
fn int_bounds(distribution: Distribution, dtype: DType) -> Integers {
    let (min, max) = dtype.integer_range().expect("an integer dtype").into_inner();
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

/// The numbers that the blocks of a tensor are filled with.
enum Numbers {
    /// The element with the bits `one` for the words up to `last`, zero for the others.
    Bernoulli { last: u32, one: u64 },
    /// Computed in f64 for f64, and in f32 for the other floats.
    Uniform(Uniform),
    /// Computed in f32 and rounded to the dtype, another float than f64.
    Normal32(Normal<f32>),
    /// Computed in f64; truncated and clamped for integers.
    Normal64(Normal<f64>),
    /// Computed in i64, of which the dtype holds the low bits.
    Integers(Integers),
}

/// A distribution of which every number is the same.
struct Degenerate(u64);

impl Numbers {
    /// Ones of the dtype with a probability, else zeros.
    fn bernoulli(probability: f64, dtype: DType) -> core::result::Result<Self, Degenerate> {
        // Exactly this many of the 2^32 possible words give a one.
        let ones = (probability * 4_294_967_296.0) as u64;
        if ones == 0 || ones == 1 << 32 {
            return Err(Degenerate((ones != 0) as u64));
        }
        let one = match dtype {
            DType::F64 => 1f64.to_bits(),
            DType::F32 => 1f32.to_bits().into(),
            DType::F16 => f16::ONE.to_bits().into(),
            DType::BF16 => bf16::ONE.to_bits().into(),
            _ => 1,
        };
        Ok(Self::Bernoulli { last: (ones - 1) as u32, one })
    }

    fn planes(&self, dtype: DType) -> WordPlanes {
        match self {
            Self::Bernoulli { .. } => WordPlanes::ONE,
            Self::Uniform(_) if dtype == DType::F64 => WordPlanes::TWO,
            Self::Uniform(_) => WordPlanes::ONE,
            Self::Normal32(_) => Normal::<f32>::PLANES,
            Self::Normal64(_) => Normal::<f64>::PLANES,
            Self::Integers(integers) => integers.planes(),
        }
    }

    /// Whether numbers are computed in 64 bits.
    fn is_wide(&self, dtype: DType) -> bool {
        dtype == DType::F64 || matches!(self, Self::Normal64(_) | Self::Integers(_))
    }

    /// Computes `count` numbers from random words, and writes the first ones to all of `out`, as elements of
    /// the dtype. `room` has room for the numbers as they are computed.
    fn write(&self, words: &[u32], count: usize, room: &mut [u64], dtype: DType, out: &mut [u8]) {
        match self {
            Self::Bernoulli { last, one } => match dtype.size() {
                1 => select(words, *last, *one as u8, out),
                2 => select(words, *last, *one as u16, cast_slice_mut(out)),
                4 => select(words, *last, *one as u32, cast_slice_mut(out)),
                _ => select(words, *last, *one, cast_slice_mut(out)),
            },
            Self::Uniform(uniform) if dtype == DType::F64 => uniform.fill_f64(words, cast_slice_mut(out)),
            Self::Uniform(uniform) => {
                singles(count, room, dtype, out, &|values| uniform.fill_f32(words, values));
            }
            Self::Normal32(normal) => {
                singles(count, room, dtype, out, &|values| normal.fill_f32(words, values));
            }
            Self::Normal64(normal) if dtype == DType::F64 && count * 8 == out.len() => {
                normal.fill_f64(words, cast_slice_mut(out));
            }
            Self::Normal64(normal) => {
                let room = &mut room[..count];
                normal.fill_f64(words, cast_slice_mut(room));
                let room = &mut room[..out.len() / dtype.size()];
                match dtype {
                    DType::F64 => out.copy_from_slice(cast_slice(room)),
                    _ => {
                        truncate(room, dtype);
                        low_bits(room, dtype.size(), out);
                    }
                }
            }
            Self::Integers(integers) if dtype.size() == 8 => integers.fill(words, cast_slice_mut(out)),
            Self::Integers(integers) => {
                let room = &mut room[..count];
                integers.fill(words, cast_slice_mut(room));
                low_bits(room, dtype.size(), out);
            }
        }
    }
}

/// Lets `produce` write `count` numbers, and writes the first ones to all of `out`.
fn singles(count: usize, room: &mut [u64], dtype: DType, out: &mut [u8], produce: &dyn Fn(&mut [f32])) {
    if dtype == DType::F32 && 4 * count == out.len() {
        return produce(cast_slice_mut(out));
    }
    let values = &mut cast_slice_mut(room)[..count];
    produce(values);
    let values = &values[..out.len() / dtype.size()];
    match dtype {
        DType::F16 => f16::narrow_slice(values, cast_slice_mut(out)),
        DType::BF16 => bf16::narrow_slice(values, cast_slice_mut(out)),
        _ => out.copy_from_slice(cast_slice(values)),
    }
}

/// Writes `one` for the words up to `last`, and zero for the others.
fn select<T: Element>(words: &[u32], last: u32, one: T, out: &mut [T]) {
    vectorize(
        // `move`: constants that are captured by reference are loaded again in every iteration.
        #[inline(always)]
        move || convert(words, out, move |word| if word <= last { one } else { T::ZERO }),
    );
}

/// Converts numbers in place, from the bits of f64 to the bits of i64 or u64. They are truncated and clamped
/// to the range of the dtype.
fn truncate(values: &mut [u64], dtype: DType) {
    if dtype == DType::U64 {
        return values.iter_mut().for_each(|value| *value = f64::from_bits(*value) as u64);
    }
    let (low, high) = dtype.integer_range().expect("an integer dtype").into_inner();
    let (low, high) = (low as i64, high as i64);
    vectorize(
        #[inline(always)]
        move || values.iter_mut().for_each(move |v| *v = (f64::from_bits(*v) as i64).clamp(low, high) as u64),
    );
}

/// Longest tensor that is generated with small buffers: one group of words per plane.
const FEW: usize = philox::GROUP;

/// A tensor filled block by block.
fn fill(stream: Generator, shape: Shape, dtype: DType, numbers: &Numbers) -> Result<Tensor> {
    let (planes, size) = (numbers.planes(dtype), dtype.size());
    let block = |index: usize, out: &mut [u8], words: &mut [u32], room: &mut [u64]| {
        let first = stream.counter.wrapping_add((index as u64).wrapping_mul(block::COUNTERS));
        let (width, yielded) = planes.cut(out.len() / size);
        let words = &mut words[..planes.count * width];
        for (plane, words) in words.chunks_exact_mut(width).enumerate() {
            philox::fill(stream.key, first.wrapping_add((plane * planes.len / 4) as u64), words);
        }
        numbers.write(words, yielded, room, dtype, out);
    };
    let mut blank = Blank::new(OP, shape, dtype)?;
    let out = blank.bytes();
    let elements = out.len() / size;
    if (1..=FEW).contains(&elements) {
        // Clearing buffers for a whole block would cost more than a few numbers. Numbers in 32 bits have two
        // planes of words at most.
        match (numbers.is_wide(dtype), planes.count) {
            (true, _) => block(0, out, &mut [0; 4 * FEW], &mut [0; 2 * FEW]),
            (false, 1) => block(0, out, &mut [0; FEW], &mut [0; FEW / 2]),
            (false, _) => block(0, out, &mut [0; 2 * FEW], &mut [0; FEW]),
        }
        return Ok(blank.finish());
    }
    // Ten rounds of the generator and a few function evaluations per number.
    let work = Work::Flops(64 * elements);
    parallel::for_each_chunk(out, TASK_RANDOM_BLOCKS * block::LEN * size, work, |k, out| {
        let mut words = [0; 2 * block::LEN];
        let (mut half, mut whole);
        let room: &mut [u64] = if numbers.is_wide(dtype) {
            whole = [0; block::LEN];
            &mut whole
        } else {
            half = [0; block::LEN / 2];
            &mut half
        };
        for (i, out) in out.chunks_mut(block::LEN * size).enumerate() {
            block(k * TASK_RANDOM_BLOCKS + i, out, &mut words, room);
        }
    });
    Ok(blank.finish())
}
