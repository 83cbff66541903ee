//! Look-up in tables of sixteen numbers that lie in registers.

use crate::Float;
use crate::simd::*;

/// The instructions of a look-up.
pub(crate) enum Lookup<S> {
    Avx512(Avx512<S>),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2<S>),
}

impl<S> Clone for Lookup<S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Lookup<S> {}

impl<S: Simd> Lookup<S> {
    /// The instructions for tables of `T`; `None` where there are none. With AVX2 a table of f64 would take
    /// four registers and seven instructions for each look-up, longer than what look-ups replace.
    #[inline(always)]
    pub(crate) fn of<T: Float>() -> Option<Self> {
        if let Some(avx512) = Avx512::proof() {
            return Some(Self::Avx512(avx512));
        }
        #[cfg(target_arch = "x86_64")]
        if let (4, Some(avx2)) = (size_of::<T>(), Avx2::proof()) {
            return Some(Self::Avx2(avx2));
        }
        None
    }

    /// The elements of `table` selected by the low four bits of each index.
    #[inline(always)]
    pub(crate) fn get<T: Float>(self, table: &[T; 16], index: Vector<S, T::Int>) -> Vector<S, T> {
        match self {
            Self::Avx512(avx512) => avx512.lookup(table, index),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.lookup(table, index),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl<S: Simd> Avx2<S> {
    /// The elements of a table of numbers of four bytes selected by the low four bits of each index.
    #[inline(always)]
    fn lookup<T: Float>(self, table: &[T; 16], index: Vector<S, T::Int>) -> Vector<S, T> {
        use core::arch::x86_64::*;
        use core::mem::transmute_copy;
        assert!(size_of::<T>() == 4 && size_of::<Vector<S, T>>() == size_of::<__m256>());
        // SAFETY: `self` proves that `S` is the instruction set with AVX2, and that the processor has it. The
        // vectors have the size of its registers, and every bit pattern is a valid number. The table has two
        // registers of numbers; the loads need no alignment.
        unsafe {
            let index: __m256i = transmute_copy(&index);
            let at = table.as_ptr().cast::<f32>();
            let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(at), index);
            let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(at.add(8)), index);
            // The fourth bit of the index chooses the register.
            let choice = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index));
            transmute_copy(&_mm256_blendv_ps(low, high, choice))
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use crate::simd::{Scalar, Simd, Vector, WithSimd, for_each_isa, load, store};
    use crate::skipped::skipped;
    use crate::{Erf, UnaryFn};
    use std::vec::Vec;

    /// The error function over its whole domain. Not gelu, which takes another way for large arguments.
    #[derive(Clone)]
    struct Sampled;

    impl WithSimd for Sampled {
        type Output = Vec<u32>;
        fn with_simd<S: Simd>(self) -> Vec<u32> {
            let mut values: Vec<f32> = (0..1 << 16).map(|i| (i - (1 << 15)) as f32 / 3000.0).collect();
            for values in values.chunks_exact_mut(f32::lanes::<S>()) {
                let x: Vector<S, f32> = load(values);
                store(Erf.eval(x), values);
            }
            values.into_iter().map(f32::to_bits).collect()
        }
    }

    #[test]
    fn tables_give_the_same_bits_at_both_levels_that_have_them() {
        let mut found = Vec::new();
        for_each_isa(Sampled, |isa, bits| {
            if isa == "avx512" || isa == "avx2" {
                found.push(bits);
            }
        });
        match &found[..] {
            [avx512, avx2] => assert!(avx512 == avx2),
            _ => skipped("this machine has no AVX-512 to compare AVX2 with"),
        }
    }
}
