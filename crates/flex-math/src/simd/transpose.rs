//! Transposition of small squares in registers.

use bytemuck::Pod;

/// Rows and columns of the squares of [`transposed`].
pub const SQUARE: usize = 4;

/// The square with rows and columns exchanged.
///
/// For elements of four bytes on x86-64 these are eight instructions, which every level has. The code that
/// the compiler made of loops took 1.7 clocks per element.
#[inline(always)]
pub fn transposed<T: Pod>(square: [[T; SQUARE]; SQUARE]) -> [[T; SQUARE]; SQUARE] {
    #[cfg(target_arch = "x86_64")]
    if const { size_of::<T>() == 4 } {
        use core::arch::x86_64::{__m128, _mm_unpacklo_pd, _mm_unpacklo_ps};
        use core::arch::x86_64::{_mm_castpd_ps, _mm_castps_pd, _mm_unpackhi_pd, _mm_unpackhi_ps};
        let [a, b, c, d]: [__m128; SQUARE] = bytemuck::cast(square.map(bytemuck::cast::<_, __m128>));
        // SAFETY: SSE2 is part of x86-64.
        #[allow(unused_unsafe, reason = "which of these are safe depends on the compiler's version")]
        let columns = unsafe {
            let [ab, cd] = [_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d)].map(|v| _mm_castps_pd(v));
            let [ef, gh] = [_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d)].map(|v| _mm_castps_pd(v));
            [
                _mm_unpacklo_pd(ab, cd),
                _mm_unpackhi_pd(ab, cd),
                _mm_unpacklo_pd(ef, gh),
                _mm_unpackhi_pd(ef, gh),
            ]
            .map(|v| _mm_castpd_ps(v))
        };
        return columns.map(bytemuck::cast);
    }
    core::array::from_fn(|i| core::array::from_fn(|j| square[j][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_exchanged() {
        fn check<T: Pod + PartialEq + core::fmt::Debug>(from: impl Fn(u8) -> T) {
            let square = core::array::from_fn(|i| core::array::from_fn(|j| from((SQUARE * i + j) as u8)));
            let got = transposed(square);
            for i in 0..SQUARE {
                for j in 0..SQUARE {
                    assert_eq!(got[j][i], from((SQUARE * i + j) as u8));
                }
            }
        }
        check(|n| n);
        check(f32::from);
        check(u32::from);
        check(f64::from);
    }
}
