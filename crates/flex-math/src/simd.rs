//! The choice of the instruction set, made here and nowhere else, and the vector types it is made for.
//!
//! Kernels are generic over [`Simd`]; [`dispatch`] instantiates them for the widest instruction set that
//! the machine has. Detection is cached by `macerator` in one atomic per instruction set, so a dispatch costs
//! a load and a predicted branch.

pub use macerator::{
    Mask, MaskOps, Scalar, Simd, VAbs, VAdd, VBitAnd, VBitNot, VBitOr, VBitXor, VCeil, VDiv, VEq, VFloor,
    VFma, VMaskReduce, VMul, VMulAdd, VOrd, VRecip, VRoundTiesEven, VRoundToInt, VSelect, VShl, VShr, VSqrt,
    VSub, VToFloat, VTrunc, VTruncToInt, Vector, WithSimd,
};

use macerator::Arch;

/// Runs `op` with the widest instruction set of this machine.
///
/// Without the `simd` feature that is the portable scalar backend.
#[inline]
pub fn dispatch<Op: WithSimd>(op: Op) -> Op::Output {
    // SAFETY: `selected` returns an instruction set that detection found on this machine, or the scalar
    // backend, which needs none.
    unsafe { selected().dispatch(op) }
}

/// Runs `f` in a function compiled for the widest instruction set of this machine, so that the plain
/// loops inlined into it are vectorised for it.
///
/// What `f` calls has to be inlined to profit: mark it `#[inline(always)]` or keep it in the closure.
#[inline]
pub fn vectorize<R>(f: impl FnOnce() -> R) -> R {
    struct Call<F>(F);
    impl<R, F: FnOnce() -> R> WithSimd for Call<F> {
        type Output = R;

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> R {
            (self.0)()
        }
    }
    dispatch(Call(f))
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

/// The name of the instruction set that [`dispatch`] uses, for logs and benchmarks.
pub fn isa_name() -> &'static str {
    name(selected())
}

/// Runs `op` on every instruction set of this machine, widest first, and hands each output with the name of its
/// instruction set to `report`. For tests that compare the backends.
#[doc(hidden)]
pub fn for_each_isa<Op: WithSimd + Clone>(op: Op, mut report: impl FnMut(&'static str, Op::Output)) {
    #[cfg(all(feature = "simd", target_arch = "x86_64"))]
    {
        let best = Arch::detect();
        for arch in [Arch::V4, Arch::V3, Arch::V2] {
            // The x86-64 levels are declared, and numbered, from the narrowest to the widest.
            if arch as u8 <= best as u8 {
                // SAFETY: the levels are cumulative, and `arch` is not above the detected one.
                report(name(arch), unsafe { arch.dispatch(op.clone()) });
            }
        }
    }
    #[cfg(all(feature = "simd", not(target_arch = "x86_64")))]
    report(isa_name(), dispatch(op.clone()));
    // SAFETY: the scalar backend needs no instruction set.
    report("scalar", unsafe { Arch::Scalar.dispatch(op) });
}

#[inline(always)]
fn selected() -> Arch {
    if cfg!(feature = "simd") { Arch::detect() } else { Arch::Scalar }
}

fn name(arch: Arch) -> &'static str {
    match arch {
        Arch::Scalar => "scalar",
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V2 => "sse4.2",
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V3 => "avx2",
        #[cfg(all(feature = "simd", target_arch = "x86_64"))]
        Arch::V4 => "avx512",
        #[cfg(target_arch = "aarch64")]
        Arch::NeonFma => "neon",
        #[allow(unreachable_patterns)]
        _ => "simd",
    }
}
