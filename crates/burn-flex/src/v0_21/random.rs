//! The backend's random state: one global stream of generators.
//!
//! An operation takes its generator under the lock and draws from it after releasing the lock, so that threads do
//! not wait for each other's numbers. The generator depends on the seed and on how many operations came before,
//! not on threads.

use super::FlexTensor;
use super::convert::OrPanic;
use burn_backend::{DType, Distribution, Shape};
use burn_std::stub::Mutex;
use flex_core::random::{self, Generator};

static STREAM: Mutex<Option<Stream>> = Mutex::new(None);

struct Stream {
    seed: u64,
    operations: u64,
}

/// Starts the stream over.
pub(super) fn seed(seed: u64) {
    // The lock cannot be poisoned: nothing panics under it.
    *STREAM.lock().expect("random: the stream's lock") = Some(Stream { seed, operations: 0 });
}

/// The generator of the next operation.
fn next_generator() -> Generator {
    let mut guard = STREAM.lock().expect("random: the stream's lock");
    let stream = guard.get_or_insert_with(|| Stream { seed: entropy(), operations: 0 });
    let number = stream.operations;
    stream.operations = number.wrapping_add(1);
    Generator::new(mix(mix(stream.seed) ^ number))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection in which each input bit moves half of the
/// output bits, so different (seed, operation) pairs of one seed never share a key.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A seed for programs that set none: the keys of the standard hasher come from the system's entropy.
#[cfg(feature = "std")]
fn entropy() -> u64 {
    use core::hash::{BuildHasher, Hash, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    std::thread::current().id().hash(&mut hasher);
    hasher.finish()
}

/// Without an operating system there is no entropy to ask for; programs seed themselves.
#[cfg(not(feature = "std"))]
fn entropy() -> u64 {
    0x5DEE_CE66_D1CE_4E5B
}

pub(super) fn float(shape: Shape, distribution: Distribution, dtype: DType) -> FlexTensor {
    let distribution = convert(distribution, random::Distribution::Uniform { low: 0.0, high: 1.0 });
    random::random(&mut next_generator(), shape, distribution, dtype).or_panic()
}

/// Integers by default come from `[0, 255)`, as in Burn's other backends, or as much of it as the dtype holds.
pub(super) fn int(shape: Shape, distribution: Distribution, dtype: DType) -> FlexTensor {
    let high = if dtype == DType::I8 { i8::MAX as f64 } else { u8::MAX as f64 };
    let distribution = convert(distribution, random::Distribution::Uniform { low: 0.0, high });
    random::random(&mut next_generator(), shape, distribution, dtype).or_panic()
}

fn convert(distribution: Distribution, default: random::Distribution) -> random::Distribution {
    match distribution {
        Distribution::Default => default,
        Distribution::Uniform(low, high) => random::Distribution::Uniform { low, high },
        Distribution::Normal(mean, std) => random::Distribution::Normal { mean, std },
        Distribution::Bernoulli(probability) => random::Distribution::Bernoulli { probability },
    }
}
