//! The remainder of floats, with the sign of the divisor.
//!
//! `a - floor(a / b) * b`, which is exact while the quotient is small, is vectorised; other elements use the
//! exact `fmod` of the language. As in PyTorch, a remainder of zero has the sign of `a`, and a remainder that
//! rounds up to the divisor is left there.

use super::float::ThroughSingle;
use super::kernel::{FloatKernels, Kernel, Src, Typed};
use crate::{Element, bf16, f16};
use core::marker::PhantomData;
use flex_math::simd::vectorize_lean;

/// Elements that are computed by the fast formula before the few that need `fmod` are corrected.
const BLOCK: usize = 64;

pub(super) const REMAINDER: FloatKernels<2> = [
    &Rem::<f64>(PhantomData),
    SINGLE,
    &ThroughSingle::<f16, 2>::rounded(SINGLE),
    &ThroughSingle::<bf16, 2>::rounded(SINGLE),
];

const SINGLE: &dyn Kernel<2> = &Rem::<f32>(PhantomData);

trait FloatRem: Element {
    /// The remainder by the fast formula, and whether it is right: wrong for a huge quotient, or if anything
    /// is not finite.
    fn fast(a: Self, b: Self) -> (Self, bool);
    /// The remainder by `fmod`.
    fn exact(a: Self, b: Self) -> Self;
}

/// 1.5 * 2^52: adding and subtracting it rounds to an integer, on every instruction set.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// The largest integer not above `q`, for `|q| < 2^51`.
#[inline(always)]
fn floor(q: f64) -> f64 {
    let nearest = (q + MAGIC) - MAGIC;
    nearest - if nearest > q { 1.0 } else { 0.0 }
}

impl FloatRem for f32 {
    #[inline(always)]
    fn fast(a: f32, b: f32) -> (f32, bool) {
        // In f64. A quotient of f32 that is not an integer is at least 2^-24 from one, so up to 2^28 rounding
        // does not reach an integer, and the product of the floor and b is exact.
        let q = a as f64 / b as f64;
        let r = (a as f64 - floor(q) * b as f64) as f32;
        let r = if r == 0.0 { f32::from_bits(a.to_bits() & (1 << 31)) } else { r };
        (r, q.abs() < 268_435_456.0 && b.abs() < f32::INFINITY)
    }

    fn exact(a: f32, b: f32) -> f32 {
        let r = a % b;
        if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
    }
}

impl FloatRem for f64 {
    #[inline(always)]
    fn fast(a: f64, b: f64) -> (f64, bool) {
        let q = a / b;
        // Only the final result is rounded. If the quotient was rounded up to the next integer, the remainder
        // is exact and a little below zero; adding the divisor once corrects it.
        let r = num_traits::Float::mul_add(-floor(q), b, a);
        let r = if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r };
        let r = if r == 0.0 { f64::from_bits(a.to_bits() & (1 << 63)) } else { r };
        (r, q.abs() < 1_125_899_906_842_624.0 && b.abs() < f64::INFINITY)
    }

    fn exact(a: f64, b: f64) -> f64 {
        let r = a % b;
        if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
    }
}

struct Rem<T>(PhantomData<T>);

impl<T: FloatRem> Kernel<2> for Rem<T> {
    fn run(&self, out: &mut [u8], [a, b]: [Src<'_>; 2]) {
        let (out, a, b) = (bytemuck::cast_slice_mut(out), a.typed::<T>(), b.typed::<T>());
        vectorize_lean(
            #[inline(always)]
            || remainders(out, a, b),
        );
    }
}

#[inline(always)]
fn remainders<T: FloatRem>(out: &mut [T], from_a: Typed<'_, T>, from_b: Typed<'_, T>) {
    // Ones in the unused end of the last block suit the fast formula.
    let mut a = [T::ONE; BLOCK];
    let mut b = [T::ONE; BLOCK];
    for (k, out) in out.chunks_mut(BLOCK).enumerate() {
        load(&mut a[..out.len()], from_a, k, out);
        load(&mut b[..out.len()], from_b, k, out);
        let mut result = [T::ZERO; BLOCK];
        let mut all = true;
        for i in 0..BLOCK {
            let (r, right) = T::fast(a[i], b[i]);
            result[i] = r;
            all &= right;
        }
        if !all {
            for i in 0..BLOCK {
                if !T::fast(a[i], b[i]).1 {
                    result[i] = T::exact(a[i], b[i]);
                }
            }
        }
        let len = out.len();
        out.copy_from_slice(&result[..len]);
    }
}

#[inline(always)]
fn load<T: Copy>(block: &mut [T], operand: Typed<'_, T>, k: usize, out: &[T]) {
    match operand {
        Typed::Each(values) => block.copy_from_slice(&values[k * BLOCK..][..block.len()]),
        Typed::Same(value) => block.fill(value),
        Typed::Out => block.copy_from_slice(out),
    }
}
