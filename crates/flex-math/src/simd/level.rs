//! The instruction sets that kernels are compiled for, and which of them this process uses.
//!
//! Each level costs a copy of every kernel, so there are few. On x86-64 the levels are the baseline (SSE2),
//! AVX2 with FMA and F16C, and AVX-512 (F, BW, CD, DQ, VL). SSE4.2 has no level: processors without AVX2 are
//! older than 2013, or sold for other kinds of work. x86 of 32 bits has the first two of these levels. Other
//! architectures have two levels: the baseline and what `macerator` finds (NEON, LASX, SIMD128).

use super::{Simd, WithSimd};
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::sync::atomic::{AtomicU8, Ordering};
use macerator::Arch;

/// An instruction set that kernels are compiled for. Levels are ordered: each level includes the levels
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Level {
    /// The instructions that every processor of the architecture has.
    Baseline,
    /// AVX2, FMA and F16C on x86; the vectors that `macerator` finds on other architectures.
    Vectors,
    /// AVX-512 with its extensions BW, CD, DQ and VL on x86-64; no other architecture has this level.
    WideVectors,
}

/// The levels that speed up a loop, for which it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// All levels.
    All,
    /// The baseline and [`Level::Vectors`]. For loops that wait for memory or narrow their results.
    Lean,
    /// The baseline alone. For loops that do not vectorise.
    Baseline,
}

/// The error of [`set_level`]: the machine lacks the requested level, or the crate was built without the
/// feature `simd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelError {
    /// The requested level.
    pub asked: Level,
    /// The highest level of this machine.
    pub highest: Level,
}

impl fmt::Display for LevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, highest) = (self.asked.name(), self.highest.name());
        write!(
            f,
            "set_level: the level is {asked}, expected at most {highest}, the highest level of this machine"
        )
    }
}

impl core::error::Error for LevelError {}

const X86: bool = cfg!(any(target_arch = "x86", target_arch = "x86_64"));

const ALL: [Level; 3] = [Level::Baseline, Level::Vectors, Level::WideVectors];

impl Level {
    /// The levels of this machine, from the lowest to the highest.
    pub fn here() -> impl DoubleEndedIterator<Item = Level> {
        let highest = detect();
        ALL.into_iter().filter(move |level| *level <= highest)
    }

    /// The name of the level's instruction set, as used by `FLEX_SIMD` and in logs.
    pub fn name(self) -> &'static str {
        match self {
            Level::Baseline => "baseline",
            Level::Vectors if X86 => "avx2",
            Level::Vectors if cfg!(target_arch = "aarch64") => "neon",
            Level::Vectors if cfg!(target_family = "wasm") => "simd128",
            Level::Vectors => "vectors",
            Level::WideVectors => "avx512",
        }
    }
}

/// The level in use; [`UNKNOWN`] until [`level`] is called for the first time.
static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

const UNKNOWN: u8 = u8::MAX;

/// The level of this process: the highest level of the machine, unless [`set_level`] or the environment
/// variable `FLEX_SIMD` sets a lower one. The variable holds the [name](Level::name) of a level, and is read
/// once (with the feature `std`).
#[inline(always)]
pub fn level() -> Level {
    // Relaxed: the level guards no other data, and every stored value is a level of this machine.
    match ALL.get(usize::from(LEVEL.load(Ordering::Relaxed))) {
        Some(&level) => level,
        None => choose(),
    }
}

/// Sets the level of this process from the next operation on, for measurements and for finding faults. It
/// overrides `FLEX_SIMD`. The results of transcendental functions, products and convolutions may differ
/// between levels in the last bits.
///
/// `rustfft`, which computes Fourier transforms, chooses its instruction set itself.
///
/// # Errors
/// If this machine lacks the level.
pub fn set_level(level: Level) -> Result<(), LevelError> {
    let highest = detect();
    if level > highest {
        return Err(LevelError { asked: level, highest });
    }
    LEVEL.store(level as u8, Ordering::Relaxed);
    Ok(())
}

/// # Panics
/// If `FLEX_SIMD` is not the name of a level of this machine: a measurement at another level would mislead.
#[cold]
#[inline(never)]
fn choose() -> Level {
    let level = wanted().unwrap_or_else(detect);
    // A level set by another thread in the meantime wins.
    match LEVEL.compare_exchange(UNKNOWN, level as u8, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => level,
        Err(set) => ALL[set as usize],
    }
}

#[cfg(feature = "std")]
fn wanted() -> Option<Level> {
    extern crate std;
    use std::string::String;
    use std::vec::Vec;

    let name = std::env::var("FLEX_SIMD").ok().filter(|name| !name.is_empty())?;
    let found = Level::here().find(|level| level.name() == name);
    Some(found.unwrap_or_else(|| {
        let names: Vec<&str> = Level::here().map(Level::name).collect();
        let names: String = names.join(", ");
        panic!("FLEX_SIMD is \"{name}\", expected the name of a level of this machine: {names}")
    }))
}

#[cfg(not(feature = "std"))]
fn wanted() -> Option<Level> {
    None
}

/// A proof that the machine has vectors: for algorithms that pay with vectors alone, whose operations are not
/// compiled for the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasVectors(());

impl HasVectors {
    /// The proof, unless the process is at the baseline.
    #[inline(always)]
    pub fn here() -> Option<Self> {
        (level() > Level::Baseline).then_some(Self(()))
    }

    /// [`dispatch`](super::dispatch) among the levels with vectors.
    #[inline(always)]
    pub fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        // SAFETY: the machine has a level with vectors, and so has every level from it on.
        unsafe { run_at::<Op, MIN_VECTOR, 64>(level().max(Level::Vectors), op) }
    }

    /// [`dispatch_lean`](super::dispatch_lean) among the levels with vectors.
    #[inline(always)]
    pub fn dispatch_lean<Op: WithSimd>(self, op: Op) -> Op::Output {
        // SAFETY: as above.
        unsafe { run_at::<Op, MIN_VECTOR, 32>(level().max(Level::Vectors), op) }
    }
}

/// Bytes of the shortest vectors.
const MIN_VECTOR: usize = 16;

/// Runs `op` at the level of the process, or at the highest level below it whose vectors have at most
/// `WIDEST` bytes.
#[inline(always)]
pub(super) fn run<Op: WithSimd, const WIDEST: usize>(op: Op) -> Op::Output {
    // SAFETY: `LEVEL` holds a level that `detect` found on this machine.
    unsafe { run_at::<Op, 0, WIDEST>(level(), op) }
}

/// [`run`] at `level`, compiled for levels whose vectors have at least `NARROWEST` bytes.
///
/// # Safety
/// The machine must have the level, and its vectors must have at least `NARROWEST` bytes.
#[inline(always)]
pub(super) unsafe fn run_at<Op: WithSimd, const NARROWEST: usize, const WIDEST: usize>(
    level: Level,
    op: Op,
) -> Op::Output {
    let level = if WIDEST < 64 { level.min(Level::Vectors) } else { level };
    let mut call = PendingOp { op: ManuallyDrop::new(op), output: MaybeUninit::uninit() };
    // SAFETY: as the caller vouches; a level includes all lower ones.
    unsafe { run_compiled::<Op, NARROWEST, WIDEST>(level, &mut call) };
    // SAFETY: `dispatch` returned, so it called `Compiled::with_simd`, which returns only after it wrote the
    // output.
    unsafe { call.output.assume_init() }
}

/// Not inlined, since it holds the code of the baseline, whose registers the caller would have to save.
///
/// # Safety
/// The machine must have the level, whose vectors must have `NARROWEST` to `WIDEST` bytes.
#[inline(never)]
unsafe fn run_compiled<Op: WithSimd, const NARROWEST: usize, const WIDEST: usize>(
    level: Level,
    call: &mut PendingOp<Op>,
) {
    // SAFETY: as the caller vouches.
    unsafe { level.arch().dispatch(Compiled::<Op, NARROWEST, WIDEST>(call)) }
}

/// `macerator`'s name for [`Level::WideVectors`]. It has none on x86 of 32 bits, where `detect` never finds
/// that level.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
const WIDE: Arch = Arch::V4;
#[cfg(all(feature = "simd", target_arch = "x86"))]
const WIDE: Arch = Arch::V3;

impl Level {
    /// `macerator`'s name for the level.
    #[inline(always)]
    fn arch(self) -> Arch {
        // A table, not a `match`, which would be a branch per level in each of the engine's thousand
        // dispatches.
        #[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
        return const { [Arch::Scalar, Arch::V3, WIDE] }[self as usize];
        #[cfg(not(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64"))))]
        if self == Level::Baseline { Arch::Scalar } else { Arch::detect() }
    }
}

/// An operation on its way to the code of an instruction set, and its result on the way back.
///
/// `macerator` hands its operation through six functions per instruction set. By value, these moves were a
/// third of the code that the compiler had to translate for flex-map (310,000 of 954,000 lines of LLVM IR).
struct PendingOp<Op: WithSimd> {
    op: ManuallyDrop<Op>,
    output: MaybeUninit<Op::Output>,
}

/// The operation of a [`PendingOp`], compiled only for the instruction sets of [`Level`]s whose vectors have
/// `NARROWEST` to `WIDEST` bytes. `macerator` instantiates every instruction set that it knows; the compiler
/// removes code behind a constant `false`. Made by [`run_at`] alone.
struct Compiled<'a, Op: WithSimd, const NARROWEST: usize, const WIDEST: usize>(&'a mut PendingOp<Op>);

impl<Op: WithSimd, const NARROWEST: usize, const WIDEST: usize> WithSimd
    for Compiled<'_, Op, NARROWEST, WIDEST>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if const { is_level::<S>() && is_between(size_of::<S::Register>(), NARROWEST, WIDEST) } {
            // SAFETY: `run_at` makes one `Compiled` for each `PendingOp`, and this function consumes it, so
            // the operation is taken once.
            let op = unsafe { ManuallyDrop::take(&mut self.0.op) };
            self.0.output.write(op.with_simd::<S>());
        } else {
            // SAFETY: `run_at`, which alone makes a `Compiled`, dispatches it to the instruction set of a
            // level whose vectors have at least `NARROWEST` bytes, as its caller vouches, and at most
            // `WIDEST`: with less than 64 it lowers the level to `Vectors`.
            // A panic in place of this line is a function and a branch in each of a thousand dispatches.
            unsafe { core::hint::unreachable_unchecked() }
        }
    }
}

const fn is_between(bytes: usize, least: usize, most: usize) -> bool {
    least <= bytes && bytes <= most
}

/// Whether an instruction set belongs to a [`Level`]. SSE4.2, which on x86-64 is the one with vectors of 16
/// bytes, does not.
const fn is_level<S: Simd>() -> bool {
    !X86 || size_of::<S::Register>() != 16
}

/// The highest level of this machine.
fn detect() -> Level {
    #[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
    return match Arch::detect() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4 => Level::WideVectors,
        Arch::V3 => Level::Vectors,
        _ => Level::Baseline,
    };
    #[cfg(not(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64"))))]
    if cfg!(feature = "simd") && !matches!(Arch::detect(), Arch::Scalar) {
        Level::Vectors
    } else {
        Level::Baseline
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::skipped::skipped;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn levels_of_this_machine_are_ordered_and_start_at_the_baseline() {
        let levels: Vec<Level> = Level::here().collect();
        assert_eq!(levels[0], Level::Baseline);
        assert!(levels.is_sorted());
        assert!(levels.contains(&level()));
    }

    #[test]
    fn a_level_that_the_machine_lacks_is_refused() {
        let highest = detect();
        let Some(above) = ALL.into_iter().find(|level| *level > highest) else {
            skipped("this machine has every level");
            return;
        };
        let error = set_level(above).unwrap_err();
        assert_eq!(error, LevelError { asked: above, highest });
        assert!(error.to_string().starts_with("set_level: the level is"));
    }
}
