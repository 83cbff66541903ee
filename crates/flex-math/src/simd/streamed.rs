//! Stores that go past the caches.
//!
//! A store to memory that no cache holds reads its cache line first, and a third of the traffic of an
//! addition is such reads. A streaming store sends whole lines to memory. The caches do not hold the result
//! afterwards, so it is for results that are too large for them.

use super::{CACHE_LINE, Scalar, Simd, Vector, store};
use crate::simd::Avx512;
use bytemuck::Pod;

/// A slice that is written by streaming stores, inside of [`streamed`].
pub struct Streamed<'a, T>(&'a mut [T]);

/// Lets `write` store to a slice past the caches, where the processor can. Nobody reads the slice meanwhile;
/// afterwards every thread finds what was written.
#[inline(always)]
pub fn streamed<T, R>(to: &mut [T], write: impl FnOnce(&mut Streamed<'_, T>) -> R) -> R {
    // Dropped when `write` panics too.
    let _fence = Fence;
    write(&mut Streamed(to))
}

impl<T: Scalar + Pod> Streamed<'_, T> {
    /// Writes vectors to the elements from `at` on, one after the other.
    ///
    /// # Panics
    /// When they do not fit into the slice.
    #[inline(always)]
    pub fn put<S: Simd, const N: usize>(&mut self, at: usize, vectors: &[Vector<S, T>; N]) {
        let lanes = T::lanes::<S>();
        let to = &mut self.0[at..at + N * lanes];
        if let Some(avx512) = Avx512::<S>::proof()
            && to.as_ptr().addr().is_multiple_of(CACHE_LINE)
        {
            for (vector, to) in vectors.iter().zip(to.chunks_exact_mut(lanes)) {
                avx512.stream(*vector, to);
            }
            return;
        }
        for (vector, to) in vectors.iter().zip(to.chunks_exact_mut(lanes)) {
            store(*vector, to);
        }
    }
}

impl<S: Simd> Avx512<S> {
    /// Writes a vector to a whole cache line past the caches. Others may read the line after a [`Fence`].
    ///
    /// # Panics
    /// When `line` is no cache line.
    #[inline(always)]
    fn stream<T: Scalar + Pod>(self, vector: Vector<S, T>, line: &mut [T]) {
        assert!(size_of_val(line) == CACHE_LINE && line.as_ptr().addr().is_multiple_of(CACHE_LINE));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `self` proves that the processor has AVX-512F. The line is borrowed, has the size of the
        // vector, and is aligned to it. `Streamed` borrows it until `streamed` has passed a fence, so nobody
        // accesses it before.
        unsafe {
            use core::arch::x86_64::{__m512i, _mm512_stream_si512};
            assert!(size_of::<Vector<S, T>>() == size_of::<__m512i>());
            let vector = core::mem::transmute_copy::<Vector<S, T>, __m512i>(&vector);
            _mm512_stream_si512(line.as_mut_ptr().cast(), vector);
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("no proof: {vector:?}");
    }
}

/// Orders streaming stores before what follows, when it is dropped.
struct Fence;

impl Drop for Fence {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of x86-64.
        unsafe {
            core::arch::x86_64::_mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{WithSimd, for_each_isa};
    extern crate std;
    use std::vec::Vec;

    /// Writes two vectors of numbers to elements `at..` of a slice, and returns the slice.
    #[derive(Clone)]
    struct Write {
        offset: usize,
        at: usize,
    }

    impl WithSimd for Write {
        type Output = (usize, Vec<f32>);

        fn with_simd<S: Simd>(self) -> Self::Output {
            let lanes = f32::lanes::<S>();
            let mut room = std::vec![0.0; 256];
            let start = room.as_ptr().align_offset(CACHE_LINE) + self.offset;
            let values: Vec<f32> = (1..=2 * lanes as u32).map(|n| n as f32).collect();
            let vectors =
                [crate::simd::load::<S, f32>(&values), crate::simd::load::<S, f32>(&values[lanes..])];
            streamed(&mut room[start..start + 128], |to| to.put::<S, 2>(self.at, &vectors));
            (lanes, room[start..start + 128].to_vec())
        }
    }

    #[test]
    fn vectors_lie_where_they_were_put_at_every_alignment() {
        for offset in [0, 1, 4, 8, 15, 16] {
            for at in [0, 1, 16, 32, 96] {
                for_each_isa(Write { offset, at }, |isa, (lanes, got)| {
                    let want =
                        |k: usize| if (at..at + 2 * lanes).contains(&k) { (k - at + 1) as f32 } else { 0.0 };
                    assert!(
                        got.iter().enumerate().all(|(k, &got)| got == want(k)),
                        "{isa} {offset} {at}: {got:?}"
                    );
                });
            }
        }
    }

    #[test]
    #[should_panic]
    fn vectors_that_do_not_fit_are_refused() {
        struct Beyond;
        impl WithSimd for Beyond {
            type Output = ();
            fn with_simd<S: Simd>(self) {
                let vector = crate::simd::load::<S, f32>(&[0.0; 64]);
                streamed(&mut [0.0f32; 64], |to| to.put::<S, 1>(63, &[vector]));
            }
        }
        crate::simd::dispatch(Beyond);
    }
}
