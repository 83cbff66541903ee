//! Two instructions of AVX-512 that macerator leaves out: multiplication by a power of two that may be far out of range, and
//! look-up in a table that is held in registers.
//!
//! Kernels ask [`available`] and take another road elsewhere; the question folds when a kernel is instantiated. Scaling made
//! exp of f32 in the second cache a third faster (0.19 to 0.125 ns per element on one thread of Zen 5).

use crate::float::*;
use crate::simd::*;

/// Whether `S` has [`scale`] and [`lookup`].
#[inline(always)]
pub(crate) fn available<S: Simd>() -> bool {
    cfg!(target_arch = "x86_64") && S::lanes32() == 16
}

/// `x * 2^n` for integers `n` of any size, rounded once. NaN where `x` or `n` is.
///
/// # Panics
/// Unless [`available`].
#[inline(always)]
pub(crate) fn scale<S: Simd, T: Float>(x: Vector<S, T>, n: Vector<S, T>) -> Vector<S, T> {
    imp::scale(x, n)
}

/// The elements of `table` that the low four bits of each index name.
///
/// # Panics
/// Unless [`available`].
#[inline(always)]
pub(crate) fn lookup<S: Simd, T: Float>(table: &[T; 16], index: Vector<S, T::Int>) -> Vector<S, T> {
    imp::lookup(table, index)
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::*;
    use core::arch::x86_64::{
        __m512, __m512d, __m512i, _mm512_loadu_pd, _mm512_loadu_ps, _mm512_permutex2var_pd,
        _mm512_permutexvar_ps, _mm512_scalef_pd, _mm512_scalef_ps,
    };
    use core::mem::transmute_copy;

    #[inline(always)]
    pub(super) fn scale<S: Simd, T: Float>(x: Vector<S, T>, n: Vector<S, T>) -> Vector<S, T> {
        check::<S, T>();
        // SAFETY: `check` found `S` to be the instruction set with AVX-512F, and `S` is made the parameter of code that
        // runs only where it was detected. Its vectors are 64 bytes in which every bit pattern is a value, as the types
        // of the intrinsics are.
        unsafe {
            if size_of::<T>() == 4 {
                let y = _mm512_scalef_ps(transmute_copy(&x), transmute_copy(&n));
                transmute_copy::<__m512, _>(&y)
            } else {
                let y = _mm512_scalef_pd(transmute_copy(&x), transmute_copy(&n));
                transmute_copy::<__m512d, _>(&y)
            }
        }
    }

    #[inline(always)]
    pub(super) fn lookup<S: Simd, T: Float>(table: &[T; 16], index: Vector<S, T::Int>) -> Vector<S, T> {
        check::<S, T>();
        let at = table.as_ptr();
        // SAFETY: as in `scale`; the table has 16 elements, which is one vector of f32, which `T` is if it has four
        // bytes, and two of f64. Loads need no alignment.
        unsafe {
            let index: __m512i = transmute_copy(&index);
            if size_of::<T>() == 4 {
                let y = _mm512_permutexvar_ps(index, _mm512_loadu_ps(at.cast()));
                transmute_copy::<__m512, _>(&y)
            } else {
                let (low, high) = (_mm512_loadu_pd(at.cast()), _mm512_loadu_pd(at.add(8).cast()));
                let y = _mm512_permutex2var_pd(low, index, high);
                transmute_copy::<__m512d, _>(&y)
            }
        }
    }

    #[inline(always)]
    fn check<S: Simd, T: Float>() {
        assert!(available::<S>() && size_of::<Vector<S, T>>() == 64, "flex_math: AVX-512 is not selected");
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::*;

    pub(super) fn scale<S: Simd, T: Float>(_: Vector<S, T>, _: Vector<S, T>) -> Vector<S, T> {
        unreachable!("AVX-512 is not available")
    }

    pub(super) fn lookup<S: Simd, T: Float>(_: &[T; 16], _: Vector<S, T::Int>) -> Vector<S, T> {
        unreachable!("AVX-512 is not available")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::isa_name;
    use crate::{UnaryFn, map};

    /// `x * 2^n`.
    #[derive(Clone, Copy)]
    struct Times(f32);

    impl<T: Float> UnaryFn<T> for Times {
        #[inline(always)]
        fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
            scale(x, splat(self.0))
        }
    }

    /// The element that the bits of an argument name, of a table of the numbers 0 to 15.
    #[derive(Clone, Copy)]
    struct Pick;

    impl<T: Float> UnaryFn<T> for Pick {
        #[inline(always)]
        fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
            lookup(&core::array::from_fn(|i| num(i as f32)), bits(x))
        }
    }

    #[test]
    fn scaling_rounds_once() {
        if isa_name() != "avx512" {
            return;
        }
        let values = [1.0, -1.5, 3.0, 0.75, f64::INFINITY, f64::NAN, -0.0, 1e-30];
        for n in [0.0, 1.0, -3.0, 127.0, 128.0, -126.0, -149.0, -150.0, 1023.0, -1022.0, -1074.0] {
            let mut wide = [0.0; 8];
            map(Times(n), &values, &mut wide);
            let mut narrow = [0.0; 8];
            map(Times(n), &values.map(|x| x as f32), &mut narrow);
            for i in 0..8 {
                let want = values[i] * libm::exp2(n as f64);
                assert!(wide[i] == want || want.is_nan() && wide[i].is_nan(), "{} * 2^{n}", values[i]);
                let want = (values[i] as f32 as f64 * libm::exp2(n as f64)) as f32;
                assert!(narrow[i] == want || want.is_nan() && narrow[i].is_nan(), "{} * 2^{n}", values[i]);
            }
        }
        let mut far = [0.0; 2];
        map(Times(3000.0), &[1.0, -1e-30], &mut far);
        assert_eq!(far, [f64::INFINITY, f64::NEG_INFINITY]);
        map(Times(-3000.0), &[1e30, 1.0], &mut far);
        assert_eq!(far, [0.0, 0.0]);
    }

    #[test]
    fn the_low_four_bits_choose() {
        if isa_name() != "avx512" {
            return;
        }
        let mut narrow = [0.0; 64];
        map(Pick, &core::array::from_fn::<_, 64, _>(|i| f32::from_bits(i as u32)), &mut narrow);
        let mut wide = [0.0; 64];
        map(Pick, &core::array::from_fn::<_, 64, _>(|i| f64::from_bits(i as u64)), &mut wide);
        for i in 0..64 {
            assert_eq!((narrow[i], wide[i]), ((i % 16) as f32, (i % 16) as f64));
        }
    }
}
