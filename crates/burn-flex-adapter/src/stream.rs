//! The state of random numbers: one generator for the process, whatever release asks.
//!
//! An operation takes its part of the stream under the lock, and draws numbers from that part after releasing
//! the lock, so that threads do not wait for each other. The numbers in a part depend on the seed and on what
//! was drawn before, not on the number of threads.

use flex_core::random::Generator;

#[cfg(feature = "std")]
static GENERATOR: std::sync::Mutex<Option<Generator>> = std::sync::Mutex::new(None);
#[cfg(not(feature = "std"))]
static GENERATOR: spin::Mutex<Option<Generator>> = spin::Mutex::new(None);

fn with_generator<R>(f: impl FnOnce(&mut Option<Generator>) -> R) -> R {
    #[cfg(feature = "std")]
    // The lock cannot be poisoned: nothing panics under it.
    return f(&mut GENERATOR.lock().expect("random: the generator's lock"));
    #[cfg(not(feature = "std"))]
    return f(&mut GENERATOR.lock());
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
