//! Helpers that stay awake for a while after a section.
//!
//! Waking a sleeping worker takes longer than most operations; a spinning worker responds in a fraction of a
//! microsecond. So a helper spins for a while before it goes back to sleep. Operations too small to justify
//! waking a helper add their time to a counter; when the sum reaches the cost of a wake-up, a helper is woken
//! for the next operation.
//!
//! A woken thread is not always a running one. The system may queue it on the core of the caller, which works
//! on, while the other core idles until the scheduler's next tick, up to 4 ms later. On two cores that
//! happened to about every second wake-up. So a helper spins for much longer than the 50 us of a good
//! wake-up: see [`LINGER`].
//!
//! On two cores, in a sequence of operations: adding two tensors of 1,048,576 f32 takes 62 us instead of 126,
//! `exp` of 65,536 takes 6.2 instead of 10.5.

use super::board::Board;
use super::sync::{spin_loop, yield_now};
use std::time::{Duration, Instant};

/// How long a helper spins for the next section. A wake-up takes some 50 us on a virtual machine, or up to a
/// tick of the scheduler, so on average more than this. Measured with whole models on two cores: with 50 us a
/// helper was missing for a fifth of the time of ResNet-50, whose convolutions have serial parts of 100 us and
/// more between them, and with 500 us for a hundredth. Medians of three processes: ResNet-50 54 and 40 ms, a
/// training step of ResNet-18 105 and 95. 200 us does nearly as well, and 1 and 2 ms no better.
const LINGER: Duration = if cfg!(all(test, loom)) { Duration::ZERO } else { Duration::from_micros(500) };

/// How long a helper spins before it begins to yield its core between looks, as long as a caller does. A
/// yield takes a microsecond, or a turn of another thread: a helper that yields misses products of 10 us.
const SELFISH: Duration = Duration::from_micros(10);

/// Looks at the board between two reads of the clock.
const LOOKS: usize = if cfg!(all(test, loom)) { 1 } else { 64 };

/// What a helper does: works in the sections of a board, and goes when none came for a while, or when callers
/// need its core.
pub(super) fn serve(board: &Board) {
    let mut next = 0;
    loop {
        loop {
            if board.retire() {
                return;
            }
            if !board.help(&mut next) {
                break;
            }
        }
        if linger(board, &mut next) {
            continue;
        }
        // Fails when a section came just now.
        if board.dismiss() {
            return;
        }
        yield_now();
    }
}

/// Looks for sections until one was helped in; `false` after [`LINGER`].
fn linger(board: &Board, next: &mut usize) -> bool {
    if LINGER.is_zero() {
        return false;
    }
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if board.help(next) {
                return true;
            }
            spin_loop();
        }
        let waited = start.elapsed();
        if waited > LINGER {
            return false;
        }
        if waited > SELFISH {
            yield_now();
        }
    }
}
