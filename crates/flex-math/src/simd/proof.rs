//! Proofs that code runs with an instruction set of x86-64, for the instructions that `macerator` leaves out.
//!
//! The functions that use such instructions are methods of a proof, or take one. They need no check, and no
//! caller can reach them where the instructions are missing. An instruction set is one line here and one file
//! with its methods.

use super::Simd;
use core::marker::PhantomData;

macro_rules! proofs {
    ($($(#[$doc:meta])* $name:ident: registers of $bytes:literal bytes;)*) => {$(
        $(#[$doc])*
        // Other architectures have no code that asks for some of the proofs.
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
        pub(crate) struct $name<S>(PhantomData<S>);

        impl<S> Clone for $name<S> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S> Copy for $name<S> {}

        impl<S: Simd> $name<S> {
            /// The proof, in code compiled for this instruction set; `None` in all other code. Which of the
            /// two is a constant once the code is compiled.
            // `Simd` is sealed, and its implementations for x86-64 differ in the size of their registers (the
            // test below). A function of `S` is reached only by way of `dispatch`, where the processor has
            // the instructions of `S`.
            #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
            #[inline(always)]
            pub(crate) fn proof() -> Option<Self> {
                (cfg!(target_arch = "x86_64") && size_of::<S::Register>() == $bytes).then_some(Self(PhantomData))
            }
        }
    )*};
}

proofs! {
    /// `S` is the instruction set with AVX-512 F, BW, CD, DQ and VL.
    Avx512: registers of 64 bytes;
    /// `S` is the instruction set with AVX2, FMA and F16C.
    Avx2: registers of 32 bytes;
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    extern crate std;
    use super::*;
    use crate::simd::{WithSimd, for_each_isa};
    use core::any::TypeId;
    use core::arch::x86_64::{__m256, __m512};
    use std::is_x86_feature_detected as detected;

    /// Whether there is a proof of AVX-512 and of AVX2, and whether the registers are theirs.
    #[derive(Clone)]
    struct Proofs;

    impl WithSimd for Proofs {
        type Output = [[bool; 2]; 2];
        fn with_simd<S: Simd>(self) -> Self::Output {
            let register = TypeId::of::<S::Register>();
            [
                [Avx512::<S>::proof().is_some(), register == TypeId::of::<__m512>()],
                [Avx2::<S>::proof().is_some(), register == TypeId::of::<__m256>()],
            ]
        }
    }

    #[test]
    fn a_proof_exists_where_the_processor_has_the_instructions_and_nowhere_else() {
        for_each_isa(Proofs, |isa, [avx512, avx2]| {
            assert_eq!(avx512, [isa == "avx512"; 2]);
            assert_eq!(avx2, [isa == "avx2"; 2]);
            if isa == "avx512" {
                assert!(detected!("avx512f") && detected!("avx512bw") && detected!("avx512cd"));
                assert!(detected!("avx512dq") && detected!("avx512vl"));
            }
            if isa == "avx2" {
                assert!(detected!("avx2") && detected!("fma") && detected!("f16c"));
            }
        });
    }
}
