//! The state of random numbers: one generator for the process, whatever release asks.
//!
//! An operation takes its part of the stream under the lock, and draws numbers from that part after releasing
//! the lock, so that threads do not wait for each other. The numbers in a part depend on the seed and on what
//! was drawn before, not on the number of threads.

use flex_core::random::Generator;
use flex_core::storage::Lock;

static GENERATOR: Lock<Option<Generator>> = Lock::new(None);

/// # Panics
/// In a process that was forked while another thread took its part of the stream.
fn with_generator<R>(f: impl FnOnce(&mut Option<Generator>) -> R) -> R {
    let generator = GENERATOR.lock();
    f(&mut generator.expect("random: another thread drew numbers when this process was forked"))
}

/// Starts the stream of the seed.
pub(crate) fn seed(seed: u64) {
    with_generator(|generator| *generator = Some(Generator::new(seed)));
}

/// The part of the stream for a tensor of `elements` elements.
pub(crate) fn take(elements: usize) -> Generator {
    with_generator(|generator| generator.get_or_insert_with(|| Generator::new(entropy())).take(elements))
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
