//! Helpers that stay awake for a while after a section.
//!
//! Waking a sleeping worker takes longer than most operations; a spinning worker responds in a fraction of a
//! microsecond. So a helper spins for a while before it goes back to sleep. Operations too small to justify
//! waking a helper add their time to a counter; when the sum reaches the cost of a wake-up, a helper is woken
//! for the next operation.
//!
//! A woken thread is not always a running one: see [`spawn`](super::pool). So a helper spins for longer than
//! the 50 us of a good wake-up.
//!
//! A helper is a thread of a pool that belongs to the whole program. So it goes back to the pool after its
//! turn, even if callers compute without end: other jobs of the program may wait there, and may need several
//! threads at once. A helper that is still needed is woken by the next section.
//!
//! On two cores, in a sequence of operations: adding two tensors of 1,048,576 f32 takes 62 us instead of 126,
//! `exp` of 65,536 takes 6.2 instead of 10.5.

use super::board::Board;
use super::sync::{spin_loop, yield_now};
use std::time::{Duration, Instant};

/// How long a helper spins for the next section. Waking it takes some 50 us on a virtual machine, and
/// sometimes milliseconds. Measured with whole models on two cores, medians of three processes: with 50 us
/// here ResNet-50 takes 45 ms and a training step of ResNet-18 96, with 500 us 42 and 91. 1 and 2 ms do no
/// better.
const LINGER: Duration = if cfg!(all(test, loom)) { Duration::ZERO } else { Duration::from_micros(500) };

/// How long a helper spins before it begins to yield its core between looks, as long as a caller does. A
/// yield takes a microsecond, or a turn of another thread: a helper that yields misses products of 10 us.
const SELFISH: Duration = Duration::from_micros(10);

/// Looks at the board, or sections helped in, between two reads of the clock.
const LOOKS: usize = if cfg!(all(test, loom)) { 1 } else { 64 };

/// What a helper does: works in the sections of a board, and goes when none came for a while, when callers
/// need its core, or when its turn is over. If it does not linger, it goes as soon as no section is posted.
pub(super) fn serve(board: &Board, turn: Duration, lingers: bool) {
    let begun = Instant::now();
    let mut next = 0;
    loop {
        // Several callers may always have a section posted, so the clock is read here too.
        for helped in 1.. {
            if board.retire() {
                return;
            }
            if !board.help(&mut next) {
                break;
            }
            if helped % LOOKS == 0 && begun.elapsed() >= turn && board.relieve() {
                return;
            }
        }
        let now = Instant::now();
        if now - begun >= turn && board.relieve() {
            return;
        }
        if lingers && linger(board, &mut next, now) {
            continue;
        }
        // Fails when a section came just now.
        if board.dismiss() {
            return;
        }
        yield_now();
    }
}

/// Looks for sections until one was helped in; `false` after [`LINGER`] from `start` on.
fn linger(board: &Board, next: &mut usize, start: Instant) -> bool {
    if LINGER.is_zero() {
        return false;
    }
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
