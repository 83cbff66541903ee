//! The choice of the instruction set, made here and nowhere else, and the vector types it is made for.
//!
//! Kernels are generic over [`Simd`]; [`dispatch`] compiles them for each [`Level`] and runs them at the level of the process:
//! the highest one of the machine, unless a lower one was [asked for](set_level). A dispatch costs a load and a predicted
//! branch.

pub use crate::float::{abs, neg};
pub use macerator::{
    Mask, MaskOps, Scalar, Simd, VAbs, VAdd, VBitAnd, VBitNot, VBitOr, VBitXor, VCeil, VDiv, VEq, VFloor,
    VFma, VMaskReduce, VMul, VMulAdd, VOrd, VRecip, VRoundTiesEven, VRoundToInt, VSelect, VShl, VShr, VSqrt,
    VSub, VToFloat, VTrunc, VTruncToInt, Vector, WithSimd,
};

mod level;

pub use level::{Level, LevelError, Levels, level, set_level};

/// Runs `op`, compiled for each [`Level`], at the level of this process.
#[inline]
pub fn dispatch<Op: WithSimd>(op: Op) -> Op::Output {
    level::run(level(), op)
}

/// [`dispatch`] for loops that vectors of 64 bytes do not speed up: compiled for the baseline and for AVX2 alone, they cost a
/// third less code.
#[inline]
pub fn dispatch_lean<Op: WithSimd>(op: Op) -> Op::Output {
    level::run_lean(level(), op)
}

/// Runs `f` in a function compiled for each [`Level`], at the level of this process, so that the plain loops inlined into it
/// are vectorised for it.
///
/// What `f` calls has to be inlined to profit: mark it `#[inline(always)]` or keep it in the closure.
#[inline]
pub fn vectorize<R>(f: impl FnOnce() -> R) -> R {
    dispatch(Call(f))
}

/// [`vectorize`] by way of [`dispatch_lean`].
#[inline]
pub fn vectorize_lean<R>(f: impl FnOnce() -> R) -> R {
    dispatch_lean(Call(f))
}

/// Work that says which levels it gains from.
pub trait Gains {
    /// The levels that it is compiled for.
    const LEVELS: Levels;
}

/// [`vectorize`], [`vectorize_lean`], or a plain call, by the levels that `G` gains from.
#[inline(always)]
pub fn vectorize_for<G: Gains, R>(f: impl FnOnce() -> R) -> R {
    // Constants, so that the compiler leaves out the branches not taken.
    if const { matches!(G::LEVELS, Levels::All) } {
        vectorize(f)
    } else if const { matches!(G::LEVELS, Levels::Lean) } {
        vectorize_lean(f)
    } else {
        f()
    }
}

/// A plain closure as an operation, which is the same code for every instruction set.
struct Call<F>(F);

impl<R, F: FnOnce() -> R> WithSimd for Call<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> R {
        (self.0)()
    }
}

/// Whether the instruction set `S` has vectors of its own: [`Level::Baseline`] has none, and `macerator` computes there
/// in pairs of 32 bits, or eights of 8.
#[inline(always)]
pub const fn has_vectors<S: Simd>() -> bool {
    size_of::<S::Register>() > size_of::<u64>()
}

/// Asks for the cache lines that a loop of `len` elements a turn reads 2 KiB after `at`, whether or not there are any. For
/// loops that do less than what moving their elements takes; see [`prefetch`].
///
/// The hardware's own prefetchers stop at the end of every 4 KiB page. On Zen 4, one thread summed 4 MiB from the third cache
/// at 93 GB/s without and at 120 GB/s with any distance from 1 to 4 KiB, and 64 MiB from memory at 31 and at 37 GB/s; from the
/// second cache there was no difference. Asking for what will be written as well took relu of 64 MiB from 6.6 to 4.0 ms on both
/// threads of a Xeon (Emerald Rapids), and exp of it from 6.8 to 5.2.
#[inline(always)]
pub fn prefetch_ahead<T>(at: *const T, len: usize) {
    prefetch(at.cast::<u8>().wrapping_add(2048), len * size_of::<T>());
}

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Asks for the cache lines of `len` bytes from `at` on; they need not exist. A hint, and none where the machine has no such
/// instruction.
#[inline(always)]
pub fn prefetch(at: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for byte in (0..len).step_by(CACHE_LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch may name any address, mapped or not; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(byte)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, len);
}

/// The name of this process's [`Level`], for logs and benchmarks.
pub fn isa_name() -> &'static str {
    level().name()
}

/// Runs `op` at every level of this machine, widest first, and hands each output with the name of the level to `report`. For
/// tests that compare the levels.
#[doc(hidden)]
pub fn for_each_isa<Op: WithSimd + Clone>(op: Op, mut report: impl FnMut(&'static str, Op::Output)) {
    for level in Level::here().rev() {
        report(level.name(), level::run(level, op.clone()));
    }
}
