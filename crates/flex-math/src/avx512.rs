//! AVX-512 instructions that macerator leaves out: splitting a float into exponent and significand and
//! scaling it, look-up in a table held in registers, special values of logarithms, and an estimate of the
//! inverse square root.
//!
//! Kernels ask for the [proof](Avx512::proof) and use another method where there is none. Scaling by one
//! instruction made exp of f32 in the second-level cache a third faster (0.19 to 0.125 ns per element on one
//! thread of Zen 5).

use crate::float::*;
use crate::simd::*;

/// Declares methods that are one instruction for vectors of f32 and another one for vectors of f64.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $single:expr, $double:expr;)*) => {
        impl<S: Simd> Avx512<S> {$(
            $(#[$doc])*
            #[inline(always)]
            pub(crate) fn $name<T: Float>(self, $($arg: Vector<S, $ty>),*) -> Vector<S, T> {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `self` proves that `S` is the instruction set with AVX-512F, and that the processor
                // has it. `cast` checks the sizes of the vectors.
                return unsafe {
                    use core::arch::x86_64::*;
                    if size_of::<T>() == 4 {
                        cast($single($(cast($arg)),*))
                    } else {
                        cast($double($(cast($arg)),*))
                    }
                };
                #[cfg(not(target_arch = "x86_64"))]
                {
                    let _ = ($($arg),*);
                    unreachable!()
                }
            }
        )*}
    };
}

/// Reinterprets a vector as another vector type of the same size.
///
/// # Safety
///
/// Both types are vectors of numbers, for which every bit pattern is a valid value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn cast<A, B>(vector: A) -> B {
    assert!(size_of::<A>() == 64 && size_of::<B>() == 64);
    // SAFETY: the caller vouches for the types; the sizes are the same.
    unsafe { core::mem::transmute_copy(&vector) }
}

instructions! {
    /// `x * 2^n` for integers `n` of any size, rounded once. NaN where `x` or `n` is NaN.
    scale(x: T, n: T) = _mm512_scalef_ps, _mm512_scalef_pd;

    /// `floor(log2 |x|)`, also for subnormal numbers; minus infinity for zeros.
    exponent(x: T) = _mm512_getexp_ps, _mm512_getexp_pd;

    /// `|x| 2^-exponent(x)`, in `[1, 2)`, also for subnormal numbers; 1 for zeros and infinities.
    significand(x: T) = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>,
        _mm512_getmant_pd::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>;

    /// `|x| 2^-n`, with the integer `n` for which the result is in `[0.75, 1.5)`, also for subnormal numbers;
    /// 1 for zeros and infinities.
    near_one(x: T) = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>,
        _mm512_getmant_pd::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>;

    /// About `1 / sqrt(x)` for positive normal `x`, with a relative error below 2^-14.
    inverse_root(x: T) = _mm512_rsqrt14_ps, _mm512_rsqrt14_pd;

    /// `y`, or a special value chosen by the class of `x`. Each class has a hexadecimal digit in `responses`,
    /// from the lowest digit up: quiet NaN, signalling NaN, zero, 1, minus infinity, infinity, other negative
    /// numbers, other positive numbers. The digits mean: 0 `y`, 2 the NaN of `x`, 3 NaN, 4 minus infinity, 5
    /// infinity (Intel's manual, VFIXUPIMMPS, lists more).
    respond(y: T, x: T, responses: T::Int) = _mm512_fixupimm_ps::<0>, _mm512_fixupimm_pd::<0>;
}

impl<S: Simd> Avx512<S> {
    /// The elements of `table` selected by the low four bits of each index.
    #[inline(always)]
    pub(crate) fn lookup<T: Float>(self, table: &[T; 16], index: Vector<S, T::Int>) -> Vector<S, T> {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `self` proves AVX-512F, as in `instructions`. The table has 16 elements: one vector of f32,
        // where `T` has four bytes, and two vectors of f64 otherwise. The loads need no alignment.
        return unsafe {
            use core::arch::x86_64::*;
            let at = table.as_ptr();
            if size_of::<T>() == 4 {
                cast(_mm512_permutexvar_ps(cast(index), _mm512_loadu_ps(at.cast())))
            } else {
                let (low, high) = (_mm512_loadu_pd(at.cast()), _mm512_loadu_pd(at.add(8).cast()));
                cast(_mm512_permutex2var_pd(low, cast(index), high))
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (table, index);
            unreachable!()
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::simd::isa_name;
    use crate::skipped::skipped;
    use crate::{UnaryFn, map};
    use std::{vec, vec::Vec};

    /// Whether this process uses AVX-512. If not, says that the test is skipped.
    fn has_avx512() -> bool {
        let has = isa_name() == "avx512";
        if !has {
            skipped(&std::format!("this process uses {}, not avx512", isa_name()));
        }
        has
    }

    /// The proof, in code that [`has_avx512`] guards.
    #[inline(always)]
    fn avx512<S: Simd>() -> Avx512<S> {
        Avx512::proof().expect("the process uses AVX-512")
    }

    /// `x * 2^n`.
    #[derive(Clone, Copy)]
    struct Times(f32);

    impl<T: Float> UnaryFn<T> for Times {
        #[inline(always)]
        fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
            avx512::<S>().scale(x, splat(self.0))
        }
    }

    /// The element of a table of the numbers 0 to 15 that the bits of the argument select.
    #[derive(Clone, Copy)]
    struct Pick;

    impl<T: Float> UnaryFn<T> for Pick {
        #[inline(always)]
        fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
            avx512::<S>().lookup(&core::array::from_fn(|i| num(i as f32)), bits(x))
        }
    }

    #[test]
    fn scaling_rounds_once() {
        if !has_avx512() {
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
        if !has_avx512() {
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

    /// The results of `f`, computed in f64 and in f32.
    fn both<F: UnaryFn<f64> + UnaryFn<f32>>(f: F, x: &[f64]) -> Vec<[f64; 2]> {
        let mut wide = vec![0.0; x.len()];
        map(f, x, &mut wide);
        let mut narrow = vec![0.0; x.len()];
        map(f, &x.iter().map(|&x| x as f32).collect::<Vec<_>>(), &mut narrow);
        wide.into_iter().zip(narrow).map(|(wide, narrow)| [wide, narrow as f64]).collect()
    }

    /// Declares the function object `$name`: `$x => $f`.
    macro_rules! function {
        ($name:ident, $x:ident => $f:expr) => {
            #[derive(Clone, Copy)]
            struct $name;
            impl<T: Float> UnaryFn<T> for $name {
                #[inline(always)]
                fn eval<S: Simd>(self, $x: Vector<S, T>) -> Vector<S, T> {
                    $f
                }
            }
        };
    }

    function!(Exponent, x => avx512::<S>().exponent(x));
    function!(Significand, x => avx512::<S>().significand(x));
    function!(NearOne, x => avx512::<S>().near_one(x));
    function!(InverseRoot, x => avx512::<S>().inverse_root(x));

    #[test]
    fn floats_are_taken_apart() {
        if !has_avx512() {
            return;
        }
        let inf = f64::INFINITY;
        // 2^-130 and its multiples are subnormal in f32.
        let tiny = libm::exp2(-130.0);
        let x = [1.0, -1.5, 1.75, 0.75, 6.0, -1e-3, 1.25 * tiny, -tiny, 0.0, -0.0, inf, -inf];
        let exponents = [0.0, 0.0, 0.0, -1.0, 2.0, -10.0, -130.0, -130.0, -inf, -inf, inf, inf];
        let significands = [1.0, 1.5, 1.75, 1.5, 1.5, 1.024, 1.25, 1.0, 1.0, 1.0, 1.0, 1.0];
        let near = [1.0, 0.75, 0.875, 0.75, 0.75, 1.024, 1.25, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(both(Exponent, &x), exponents.map(|e| [e, e]));
        assert_eq!(both(Significand, &x), significands.map(|m| [m, m as f32 as f64]));
        assert_eq!(both(NearOne, &x), near.map(|m| [m, m as f32 as f64]));
        for f in [both(Exponent, &[f64::NAN]), both(Significand, &[f64::NAN]), both(NearOne, &[f64::NAN])] {
            assert!(f[0].iter().all(|y| y.is_nan()));
        }
    }

    #[test]
    fn inverse_roots_are_as_good_as_promised() {
        if !has_avx512() {
            return;
        }
        let x: Vec<f64> = (0..1 << 16).map(|i| 0.5 + i as f64 / 16384.0).collect();
        for (x, y) in x.iter().zip(both(InverseRoot, &x)) {
            assert!(y.iter().all(|y| (y * x.sqrt() - 1.0).abs() < libm::exp2(-14.0)), "{x}");
        }
    }

    /// 7, or the logarithm where it is not finite.
    #[derive(Clone, Copy)]
    struct Respond;

    impl UnaryFn<f32> for Respond {
        #[inline(always)]
        fn eval<S: Simd>(self, x: Vector<S, f32>) -> Vector<S, f32> {
            avx512::<S>().respond(splat(7.0), x, 0x0353_0422.splat())
        }
    }

    #[test]
    fn classes_of_numbers_have_responses() {
        if !has_avx512() {
            return;
        }
        let inf = f32::INFINITY;
        let x = [f32::NAN, 0.0, -0.0, 1.0, -inf, inf, -2.0, -1e-45, 1e-45, f32::MAX];
        let want = [f32::NAN, -inf, -inf, 7.0, f32::NAN, inf, f32::NAN, f32::NAN, 7.0, 7.0];
        let mut got = [0.0; 10];
        map(Respond, &x, &mut got);
        for i in 0..10 {
            assert!(got[i] == want[i] || got[i].is_nan() && want[i].is_nan(), "{}: {}", x[i], got[i]);
        }
    }
}
