//! The backend's random state: one generator for the process.
//!
//! An operation takes its part of the stream under the lock, and draws numbers from that part after releasing
//! the lock, so that threads do not wait for each other. The numbers in a part depend on the seed and on what
//! was drawn before, not on the number of threads.

use super::FlexTensor;
use super::convert::{OrPanic, dtype};
use burn_backend::{Distribution, FloatDType, IntDType, Shape};
use burn_std::stub::Mutex;
use flex_core::DType;
use flex_core::layout::checked_num_elements;
use flex_core::random::{self, Generator};

static GENERATOR: Mutex<Option<Generator>> = Mutex::new(None);

/// Starts the stream of the seed.
pub(super) fn seed(seed: u64) {
    // The lock cannot be poisoned: nothing panics under it.
    *GENERATOR.lock().expect("random: the generator's lock") = Some(Generator::new(seed));
}

/// The part of the stream for a tensor of `elements` elements.
fn take(elements: usize) -> Generator {
    let mut guard = GENERATOR.lock().expect("random: the generator's lock");
    guard.get_or_insert_with(|| Generator::new(entropy())).take(elements)
}

/// A seed for programs that set none. The keys of the standard hasher come from the system's entropy.
#[cfg(feature = "std")]
fn entropy() -> u64 {
    use core::hash::BuildHasher;
    std::collections::hash_map::RandomState::new().hash_one(std::thread::current().id())
}

/// Without an operating system there is no entropy; programs have to set a seed.
#[cfg(not(feature = "std"))]
fn entropy() -> u64 {
    0x5DEE_CE66_D1CE_4E5B
}

pub(super) fn float(shape: Shape, distribution: Distribution, dtype: FloatDType) -> FlexTensor {
    let dtype = match distribution {
        Distribution::Bernoulli(_) => dtype::created("random", dtype),
        _ => dtype::float("random", dtype),
    };
    draw(shape, convert(distribution, random::Distribution::Standard), dtype)
}

/// The default distribution of integers is `[0, 255)`, as in Burn's other backends, or the part of it that
/// the dtype holds.
pub(super) fn int(shape: Shape, distribution: Distribution, dtype: IntDType) -> FlexTensor {
    let default = random::Distribution::Uniform { low: 0.0, high: 255.0 };
    draw(shape, convert(distribution, default), dtype::int(dtype))
}

fn draw(shape: Shape, distribution: random::Distribution, dtype: DType) -> FlexTensor {
    checked_num_elements("random", &shape)
        .and_then(|elements| random::random(&mut take(elements), shape.into(), distribution, dtype))
        .or_panic()
}

fn convert(distribution: Distribution, default: random::Distribution) -> random::Distribution {
    match distribution {
        Distribution::Default => default,
        Distribution::Uniform(low, high) => random::Distribution::Uniform { low, high },
        Distribution::Normal(mean, std) => random::Distribution::Normal { mean, std },
        Distribution::Bernoulli(probability) => random::Distribution::Bernoulli { probability },
    }
}
