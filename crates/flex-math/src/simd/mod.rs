//! The choice of the instruction set, which no other module makes, and the vector types of the instruction
//! sets.
//!
//! Kernels are generic over [`Simd`]. [`dispatch`] compiles them for each [`Level`] and runs them at the
//! level of the process: the highest level of the machine, unless a lower one was [set](set_level). A
//! dispatch costs a load and a predicted branch.

pub use crate::float::{abs, greater_or_second, less_or_second, madd, neg};
pub use macerator::{
    Mask, MaskOps, Scalar, Simd, VAbs, VAdd, VBitAnd, VBitNot, VBitOr, VBitXor, VCeil, VDiv, VEq, VFloor,
    VFma, VMaskReduce, VMul, VMulAdd, VOrd, VRecip, VRoundTiesEven, VRoundToInt, VSelect, VShl, VShr, VSqrt,
    VSub, VToFloat, VTrunc, VTruncToInt, Vector, WithSimd,
};

mod compiled;
mod lanes;
mod level;
mod proof;
mod runs;
mod streamed;
mod transpose;

pub use compiled::{LeveledLoop, LoopArgs, LoopCode, apart};
pub use lanes::{WIDEST, lane_sums, load, row_sum, store, weighted};
pub use level::{HasVectors, Level, LevelError, Levels, level, set_level};
#[cfg(target_arch = "x86_64")]
pub(crate) use proof::Avx2;
pub(crate) use proof::Avx512;
pub use runs::OperandRuns;
pub use streamed::{Streamed, streamed};
pub use transpose::{SQUARE, transposed};

/// Runs `op`, compiled for each [`Level`], at the level of this process.
#[inline(always)]
pub fn dispatch<Op: WithSimd>(op: Op) -> Op::Output {
    level::run::<Op, 64>(op)
}

/// The levels that code is compiled for, among which the level of this process is chosen.
pub trait Dispatch: Copy {
    /// Runs `op`, compiled for these levels.
    fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output;
    /// Runs a loop that is compiled for these levels.
    fn run_loop<A: LoopArgs>(self, code: &LeveledLoop<A>, args: A::Of<'_>);
}

/// Every level, as [`dispatch`] chooses.
#[derive(Clone, Copy, Debug)]
pub struct EveryLevel;

impl Dispatch for EveryLevel {
    #[inline(always)]
    fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        dispatch(op)
    }

    #[inline(always)]
    fn run_loop<A: LoopArgs>(self, code: &LeveledLoop<A>, args: A::Of<'_>) {
        code.call(args);
    }
}

impl Dispatch for HasVectors {
    #[inline(always)]
    fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        self.dispatch(op)
    }

    #[inline(always)]
    fn run_loop<A: LoopArgs>(self, code: &LeveledLoop<A>, args: A::Of<'_>) {
        code.call_with_vectors(self, args);
    }
}

/// [`dispatch`] for loops that vectors of 64 bytes do not speed up. They are compiled for the baseline and
/// for AVX2 alone, which is a third less code.
#[inline(always)]
pub fn dispatch_lean<Op: WithSimd>(op: Op) -> Op::Output {
    level::run::<Op, 32>(op)
}

/// Runs `f` in a function compiled for each [`Level`], at the level of this process. Plain loops that are
/// inlined into `f` are vectorised for that level.
///
/// The functions that `f` calls profit only if they are inlined: mark them `#[inline(always)]` or write them
/// in the closure.
#[inline(always)]
pub fn vectorize<R>(f: impl FnOnce() -> R) -> R {
    compiled::call::<R, 64>(
        #[inline(always)]
        |_| f(),
    )
}

/// [`vectorize`] for the baseline and AVX2 alone; see [`dispatch_lean`].
#[inline(always)]
pub fn vectorize_lean<R>(f: impl FnOnce() -> R) -> R {
    compiled::call::<R, 32>(
        #[inline(always)]
        |_| f(),
    )
}

/// [`vectorize_lean`] where `f` gets a constant: whether its level [has vectors](has_vectors).
#[inline(always)]
pub fn vectorize_lean_with<R>(f: impl FnOnce(bool) -> R) -> R {
    compiled::call::<R, 32>(f)
}

/// Work that states which levels speed it up.
pub trait Gains {
    /// The levels that the work is compiled for.
    const LEVELS: Levels;
}

/// Runs `op`, which more than the baseline speeds up, by [`dispatch_lean`] or by [`dispatch`], according to
/// the levels of `G`.
#[inline(always)]
pub fn dispatch_for<G: Gains, Op: WithSimd>(op: Op) -> Op::Output {
    // A constant, so that the branch not taken is not compiled.
    if const { matches!(G::LEVELS, Levels::Lean) } { dispatch_lean(op) } else { dispatch(op) }
}

/// Runs `f` by [`vectorize`], by [`vectorize_lean`] or by a plain call, according to the levels of `G`.
#[inline(always)]
pub fn vectorize_for<G: Gains, R>(f: impl FnOnce() -> R) -> R {
    vectorize_with::<G, R>(
        #[inline(always)]
        |_| f(),
    )
}

/// [`vectorize_for`] where `f` gets a constant: whether its level [has vectors](has_vectors). A loop that is
/// unrolled by hand for vectors can be a plain one elsewhere.
#[inline(always)]
pub fn vectorize_with<G: Gains, R>(f: impl FnOnce(bool) -> R) -> R {
    // Constants, so that the branches not taken are not compiled.
    if const { matches!(G::LEVELS, Levels::Baseline) } {
        f(false)
    } else if const { matches!(G::LEVELS, Levels::Lean) } {
        compiled::call::<R, 32>(f)
    } else {
        compiled::call::<R, 64>(f)
    }
}

/// Whether the instruction set `S` has vectors of its own. [`Level::Baseline`] has none: there `macerator`
/// computes 8 bytes at a time, in plain integers.
#[inline(always)]
pub const fn has_vectors<S: Simd>() -> bool {
    size_of::<S::Register>() > size_of::<u64>()
}

/// How far ahead a loop prefetches, in bytes: the memory that it reads and writes in its next turn.
///
/// So the cache misses of all its tensors are served at the same time. One thread of Zen 4 adds two tensors
/// of 16 MiB (in a loop like the engine's) at 0.41 ns per element, 0.48 without prefetches and 0.43 with 1
/// KiB; two of 1 MiB at 0.121, 0.124 and 0.139. Further ahead is worse than nothing where the hardware's own
/// prefetchers keep up. With 2 KiB the engine took, in ns per element, for `relu` of 16 Mi f32 0.51 and takes
/// 0.39; `exp` 0.41 and 0.33; a comparison of 1 Mi f32 0.119 and 0.094; an addition of 256 Ki f32 0.157 and
/// 0.129. Sums are the fastest without: 4 MiB at 101 GB/s, with 2 KiB at 76.
///
/// On a Xeon (Emerald Rapids) prefetching the destination 2 KiB ahead took `relu` of 64 MiB from 6.6 to 4.0
/// ms on both threads. Shorter distances were not measured there.
const AHEAD: usize = 256;

/// Prefetches `len` elements [`AHEAD`] bytes after `at`, for a loop that reads or writes `len` elements from
/// `at` on in this turn. The memory need not exist. For loops that compute for less time than moving their
/// elements takes; see [`prefetch`].
#[inline(always)]
pub fn prefetch_ahead<T>(at: *const T, len: usize) {
    prefetch(at.cast::<u8>().wrapping_add(AHEAD), len * size_of::<T>());
}

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Prefetches the cache lines of `len` bytes from `at` on; they need not exist. This is a hint, and does
/// nothing where the machine has no such instruction.
#[inline(always)]
pub fn prefetch(at: *const u8, len: usize) {
    prefetch_to::<FIRST_CACHE>(at, len);
}

/// [`prefetch`] to the second-level cache, for memory that is needed after other work in the first.
#[inline(always)]
pub fn prefetch_far(at: *const u8, len: usize) {
    prefetch_to::<SECOND_CACHE>(at, len);
}

/// `_MM_HINT_T0` of x86-64.
const FIRST_CACHE: i32 = 3;
/// `_MM_HINT_T1` of x86-64.
const SECOND_CACHE: i32 = 2;

#[inline(always)]
fn prefetch_to<const CACHE: i32>(at: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::_mm_prefetch;
        // Not `step_by`, which the compiler translates into many times as much, in each of a thousand loops.
        let mut byte = 0;
        while byte < len {
            // SAFETY: a prefetch may name any address, mapped or not; SSE is part of x86-64.
            unsafe { _mm_prefetch::<CACHE>(at.cast::<i8>().wrapping_add(byte)) };
            byte += CACHE_LINE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, len);
}

/// The name of this process's [`Level`], for logs and benchmarks.
pub fn isa_name() -> &'static str {
    level().name()
}

/// Runs `op` at every level of this machine, widest first, and passes each output with the name of its level
/// to `report`. For tests that compare the levels.
#[doc(hidden)]
pub fn for_each_isa<Op: WithSimd + Clone>(op: Op, mut report: impl FnMut(&'static str, Op::Output)) {
    for level in Level::here().rev() {
        // SAFETY: `here` lists levels of this machine.
        report(level.name(), unsafe { level::run_at::<Op, 0, 64>(level, op.clone()) });
    }
}
