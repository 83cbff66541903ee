//! Plain functions that are compiled for the instruction set of a level.
//!
//! `macerator` passes an operation through some twenty functions before it reaches the code of a level, since
//! it has the vector types of each level to choose. A closure needs no vector types: it takes one function
//! per level here.

use super::{HasVectors, Level, Levels, Simd, has_vectors, level};
use core::mem::ManuallyDrop;

/// The arguments of a [`LeveledLoop`].
pub trait LoopArgs {
    /// The arguments, which may borrow.
    type Of<'a>;
}

/// A loop that is compiled for several levels.
pub trait LoopCode<A: LoopArgs> {
    /// The levels that the loop is compiled for.
    const LEVELS: Levels;
    /// Whether the loop is not compiled for the baseline. Then [`HasVectors`] runs it.
    const NEEDS_VECTORS: bool = false;
    /// Runs the loop. `has_vectors` is a constant: whether the level has vectors. Must be inlined: mark it
    /// `#[inline(always)]`.
    fn run(args: A::Of<'_>, has_vectors: bool);
}

/// A [`LoopCode`] as data: its function for each level. So many loops share one kernel, which prepares their
/// arguments.
pub struct LeveledLoop<A: LoopArgs> {
    by_level: [LoopFn<A>; 3],
}

/// The function of a [`LoopCode`] for a level.
type LoopFn<A> = for<'a> unsafe fn(<A as LoopArgs>::Of<'a>);

impl<A: LoopArgs> LeveledLoop<A> {
    /// The functions of `L`.
    pub const fn new<L: LoopCode<A>>() -> Self {
        let plain: LoopFn<A> = if L::NEEDS_VECTORS { no_loop::<A> } else { loop_at_baseline::<A, L> };
        let (lean, wide): (LoopFn<A>, LoopFn<A>) = (loop_at_vectors::<A, L>, loop_at_wide_vectors::<A, L>);
        Self {
            by_level: match L::LEVELS {
                Levels::All => [plain, lean, wide],
                Levels::Lean => [plain, lean, lean],
                Levels::Baseline => [plain; 3],
            },
        }
    }

    /// Runs the loop at the level of the process.
    #[inline(always)]
    pub(super) fn call(&self, args: A::Of<'_>) {
        // SAFETY: `level` returns a level of this machine, and the function of a level is compiled for this
        // level or a lower one.
        unsafe { self.by_level[level() as usize](args) }
    }

    /// [`call`](Self::call) for a loop that may not be compiled for the baseline.
    #[inline(always)]
    pub(super) fn call_with_vectors(&self, _: HasVectors, args: A::Of<'_>) {
        // SAFETY: the machine has a level with vectors, and so has every level from it on; as for `call`.
        unsafe { self.by_level[level().max(Level::Vectors) as usize](args) }
    }
}

/// Calls `f` in a function that is compiled for the level of the process, or for the highest level below it
/// whose vectors have at most `WIDEST` bytes. `f` gets a constant: whether the level has vectors.
#[inline(always)]
pub(super) fn call<R, const WIDEST: usize>(f: impl FnOnce(bool) -> R) -> R {
    let (level, mut f) = (level(), ManuallyDrop::new(f));
    // SAFETY: `level` returns a level of this machine, which includes all lower ones. One function of the
    // three takes the closure.
    unsafe {
        if level == Level::Baseline {
            at_baseline(&mut f)
        } else if const { WIDEST >= 64 } && level == Level::WideVectors {
            at_wide_vectors(&mut f)
        } else {
            at_vectors(&mut f)
        }
    }
}

/// Calls `f` in a function of its own, compiled for the instruction set of its caller. So a large kernel
/// becomes several functions, each optimised by itself. In one function, the compiler's time grows with the
/// square of the number of loops: the tiles of products took 15 of 24 seconds of flex-gemm's.
#[inline(always)]
pub fn apart<S: Simd, R>(f: impl FnOnce() -> R) -> R {
    let mut f = ManuallyDrop::new(
        #[inline(always)]
        |_: bool| f(),
    );
    // SAFETY: `Simd` is sealed, and no implementation can be named outside of `macerator`: code that is
    // generic over `S` runs by way of `dispatch`, where the machine has the instructions of `S`. Vectors of
    // 64 bytes belong to `Level::WideVectors`, and all other vectors to `Level::Vectors`. One function of
    // the three takes the closure.
    unsafe {
        if const { !has_vectors::<S>() } {
            at_baseline(&mut f)
        } else if const { size_of::<S::Register>() == 64 } {
            at_wide_vectors(&mut f)
        } else {
            at_vectors(&mut f)
        }
    }
}

/// Compiles a function with the instructions of [`Level::Vectors`].
macro_rules! with_vectors {
    ($($function:tt)*) => {
        #[cfg_attr(
            all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")),
            target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,fxsr,lzcnt,popcnt")
        )]
        $($function)*
    };
}

/// Compiles a function with the instructions of [`Level::WideVectors`].
macro_rules! with_wide_vectors {
    ($($function:tt)*) => {
        with_vectors! {
            #[cfg_attr(
                all(feature = "simd", target_arch = "x86_64"),
                target_feature(enable = "avx512bw,avx512cd,avx512dq,avx512f,avx512vl")
            )]
            $($function)*
        }
    };
}

/// Not inlined into the function that chooses the level, which has other code to optimise.
///
/// # Safety
/// The closure must not have been taken.
#[inline(never)]
unsafe fn at_baseline<R>(f: &mut ManuallyDrop<impl FnOnce(bool) -> R>) -> R {
    // SAFETY: as the caller vouches.
    unsafe { ManuallyDrop::take(f)(false) }
}

with_vectors! {
    /// Takes the closure by reference, and moves it into its own frame: captured values are then known to
    /// change nowhere else. Passed by value, they would be read from the caller's frame in each turn of a
    /// loop again.
    ///
    /// # Safety
    /// The machine must have [`Level::Vectors`], and the closure must not have been taken.
    #[inline(never)]
    unsafe fn at_vectors<R>(f: &mut ManuallyDrop<impl FnOnce(bool) -> R>) -> R {
        // SAFETY: as the caller vouches.
        unsafe { ManuallyDrop::take(f)(true) }
    }
}

with_wide_vectors! {
    /// See [`at_vectors`].
    ///
    /// # Safety
    /// The machine must have [`Level::WideVectors`], and the closure must not have been taken.
    #[inline(never)]
    unsafe fn at_wide_vectors<R>(f: &mut ManuallyDrop<impl FnOnce(bool) -> R>) -> R {
        // SAFETY: as the caller vouches.
        unsafe { ManuallyDrop::take(f)(true) }
    }
}

/// In place of a loop that is not compiled for the baseline.
#[cold]
fn no_loop<A: LoopArgs>(_: A::Of<'_>) {
    panic!("simd: a loop that needs vectors ran at the baseline");
}

fn loop_at_baseline<A: LoopArgs, L: LoopCode<A>>(args: A::Of<'_>) {
    L::run(args, false);
}

with_vectors! {
    /// # Safety
    /// The machine must have [`Level::Vectors`].
    unsafe fn loop_at_vectors<A: LoopArgs, L: LoopCode<A>>(args: A::Of<'_>) {
        L::run(args, true);
    }
}

with_wide_vectors! {
    /// # Safety
    /// The machine must have [`Level::WideVectors`].
    unsafe fn loop_at_wide_vectors<A: LoopArgs, L: LoopCode<A>>(args: A::Of<'_>) {
        L::run(args, true);
    }
}
