//! The micro-kernel of `flex-gemm`'s bf16 matrix product: computes one tile of the result in registers.
//!
//! Operands are packed: a *pair* holds two neighbouring terms of a sum in one `u32`, the earlier term in the
//! low half. A tile has up to [`TILE_ROWS`] by [`TILE_COLS`] sums. Each sum runs over the pairs of a strip of
//! the left operand and of a panel of the right operand.
//!
//! [`Bf16Dot`] uses the `vdpbf16ps` instruction of AVX512-BF16. It multiplies and adds both terms of sixteen
//! pairs, at the rate of f32 multiply-adds of one term: 460 against 231 Gflop/s on one core of Zen 5, with
//! the operands in the first-level cache. It is not IEEE arithmetic: subnormal operands and subnormal sums
//! count as zero. Apart from that it is f32 arithmetic: products are exact, the sum is rounded to nearest
//! even after each of the two terms, the later term first, and infinities and NaN propagate. [`tile_exact`]
//! keeps subnormals, at the speed of plain f32 loops.

use crate::simd::{Level, Scalar, Simd, VFma, Vector, WithSimd, dispatch, level, load};

/// Maximum number of rows of a tile: 14 rows of two vectors are 28 accumulators, which leaves 4 of the 32
/// registers for the operands.
pub const TILE_ROWS: usize = 14;

/// Columns of a tile: two vectors of 16 sums.
pub const TILE_COLS: usize = 32;

/// One row of a tile's sums.
pub type TileRow = [f32; TILE_COLS];

/// Proof that this machine has the instruction that multiplies pairs of bf16.
#[derive(Clone, Copy, Debug)]
pub struct Bf16Dot(imp::Token);

impl Bf16Dot {
    /// `None` where the machine lacks the instruction, where the process is held to a [level] below AVX-512,
    /// without the feature `std` (which detects the instruction) or `simd`, and on other architectures.
    #[inline]
    pub fn detect() -> Option<Self> {
        (level() == Level::WideVectors).then(imp::detect).flatten().map(Self)
    }

    /// Sets `sums[i][j]` to the sum over `p` of both products of the pairs `left[p * sums.len() + i]` and
    /// `right[p][j]`.
    ///
    /// # Panics
    ///
    /// If `sums` has no rows or more than [`TILE_ROWS`], or if `left` does not have `sums.len()` pairs for
    /// each element of `right`.
    #[inline]
    pub fn tile(self, left: &[u32], right: &[[u32; TILE_COLS]], sums: &mut [TileRow]) {
        check(left, right, sums);
        imp::tile(self.0, left, right, sums);
    }

    /// Transposes a block in registers, which packing does most of the time.
    #[inline]
    pub fn transpose(self, block: &mut [[u32; 16]; 16]) {
        imp::transpose(self.0, block);
    }
}

/// [`Bf16Dot::tile`] in f32 arithmetic, subnormals included, on any machine.
///
/// # Panics
///
/// As [`Bf16Dot::tile`].
pub fn tile_exact(left: &[u32], right: &[[u32; TILE_COLS]], sums: &mut [TileRow]) {
    check(left, right, sums);
    dispatch(Exact { left, right, sums });
}

struct Exact<'a> {
    left: &'a [u32],
    right: &'a [[u32; TILE_COLS]],
    sums: &'a mut [TileRow],
}

impl WithSimd for Exact<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let rows = self.sums.len();
        let (blocks, rest) = self.sums.as_chunks_mut::<4>();
        let whole = 4 * blocks.len();
        for (i, sums) in blocks.iter_mut().enumerate() {
            exact::<S, 4>(self.left, self.right, rows, 4 * i, sums);
        }
        for (i, sums) in rest.iter_mut().enumerate() {
            exact::<S, 1>(self.left, self.right, rows, whole + i, core::array::from_mut(sums));
        }
    }
}

/// Computes `ROWS` rows, from row `first` on, of a tile of `rows` rows.
#[inline(always)]
fn exact<S: Simd, const ROWS: usize>(
    left: &[u32],
    right: &[[u32; TILE_COLS]],
    rows: usize,
    first: usize,
    sums: &mut [TileRow; ROWS],
) {
    let lanes = <f32 as Scalar>::lanes::<S>();
    let zero: Vector<S, f32> = 0f32.splat();
    for column in (0..TILE_COLS).step_by(lanes) {
        // Separate accumulators for the two terms of the pairs, so that more additions overlap.
        let mut acc = [[zero; 2]; ROWS];
        for (left, right) in left.chunks_exact(rows).zip(right) {
            let right = terms::<S>(load(&right[column..]));
            for (left, acc) in left[first..first + ROWS].iter().zip(&mut acc) {
                let left = terms::<S>(left.splat());
                for half in 0..2 {
                    let (a, b, c) = (left[half], right[half], acc[half]);
                    // A fused multiply-add never forms the product by itself; a subnormal product would take
                    // the time of ten normal ones.
                    acc[half] = if <f32 as VFma>::is_accelerated::<S>() { a.fma(b, c) } else { a * b + c };
                }
            }
        }
        for (sums, acc) in sums.iter_mut().zip(acc) {
            let sum = acc[0] + acc[1];
            sums[column..column + lanes].copy_from_slice(bytemuck::cast_slice(core::slice::from_ref(&sum)));
        }
    }
}

/// The two terms of each pair, as f32: the low half first.
#[inline(always)]
fn terms<S: Simd>(pairs: Vector<S, u32>) -> [Vector<S, f32>; 2] {
    let high: Vector<S, u32> = 0xffff_0000u32.splat();
    [(pairs << 16).reinterpret(), (pairs & high).reinterpret()]
}

#[inline(always)]
fn check(left: &[u32], right: &[[u32; TILE_COLS]], sums: &[TileRow]) {
    let rows = sums.len();
    assert!(0 < rows && rows <= TILE_ROWS, "tile: {rows} rows");
    assert_eq!(left.len(), rows * right.len(), "tile: the strip and the panel differ in length");
}

#[cfg(all(feature = "std", feature = "simd", target_arch = "x86_64"))]
mod imp {
    extern crate std;

    use super::{TILE_COLS, TileRow};
    use core::arch::x86_64::{
        __m512bh, __m512i, _mm512_add_epi32, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_permutex2var_epi32,
        _mm512_set1_epi32, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
        _mm512_storeu_si512,
    };

    /// Created only by [`detect`], on a machine that has AVX-512 F and BF16.
    #[derive(Clone, Copy, Debug)]
    pub struct Token(());

    pub fn detect() -> Option<Token> {
        // The standard library caches the result of the detection.
        let found = std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bf16");
        found.then_some(Token(()))
    }

    pub fn tile(_: Token, left: &[u32], right: &[[u32; TILE_COLS]], sums: &mut [TileRow]) {
        // One function per number of rows, so that all accumulators are in registers.
        macro_rules! by_rows {
            ($($rows:literal)*) => {
                match sums.len() {
                    // SAFETY: a `Token` exists only where detection found both instruction sets.
                    $($rows => unsafe {
                        run::<$rows>(left.as_chunks().0, right, sums.as_chunks_mut().0.first_mut().expect("as matched"))
                    },)*
                    rows => unreachable!("{rows} rows were refused"),
                }
            };
        }
        by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn run<const ROWS: usize>(left: &[[u32; ROWS]], right: &[[u32; TILE_COLS]], sums: &mut [TileRow; ROWS]) {
        let mut acc = [[_mm512_setzero_ps(); 2]; ROWS];
        for (left, right) in left.iter().zip(right) {
            let (low, high) = halves(right);
            for (pair, acc) in left.iter().zip(&mut acc) {
                let pair = as_terms(_mm512_set1_epi32(pair.cast_signed()));
                acc[0] = _mm512_dpbf16_ps(acc[0], pair, low);
                acc[1] = _mm512_dpbf16_ps(acc[1], pair, high);
            }
        }
        for (acc, sums) in acc.into_iter().zip(sums) {
            let (low, high) = sums.split_at_mut(TILE_COLS / 2);
            for (acc, to) in acc.into_iter().zip([low, high]) {
                assert!(to.len() == 16);
                // SAFETY: `to` is an exclusive borrow of the 16 f32 written; the store needs no alignment.
                unsafe { _mm512_storeu_ps(to.as_mut_ptr(), acc) };
            }
        }
    }

    pub fn transpose(_: Token, block: &mut [[u32; 16]; 16]) {
        // SAFETY: a `Token` exists only where detection found both instruction sets.
        unsafe { exchange(block) }
    }

    /// A perfect shuffle rotates the eight bits of row and column number by one, so four shuffles transpose.
    #[target_feature(enable = "avx512f")]
    fn exchange(block: &mut [[u32; 16]; 16]) {
        let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
        let mut rows = [_mm512_setzero_si512(); 16];
        for (row, from) in rows.iter_mut().zip(&*block) {
            *row = load(from);
        }
        for _ in 0..4 {
            let old = rows;
            for i in 0..8 {
                rows[2 * i] = _mm512_permutex2var_epi32(old[i], first, old[i + 8]);
                rows[2 * i + 1] = _mm512_permutex2var_epi32(old[i], second, old[i + 8]);
            }
        }
        for (row, to) in rows.into_iter().zip(block) {
            // SAFETY: `to` is an exclusive borrow of the 64 bytes written; the store needs no alignment.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), row) };
        }
    }

    /// The two vectors of one row of the panel.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn halves(row: &[u32; TILE_COLS]) -> (__m512bh, __m512bh) {
        let (halves, rest) = row.as_chunks::<16>();
        const { assert!(TILE_COLS == 32) };
        let [low, high] = halves else { unreachable!("{} pairs are left", rest.len()) };
        (as_terms(load(low)), as_terms(load(high)))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(from: &[u32; 16]) -> __m512i {
        // SAFETY: the array is the 64 bytes read; the load needs no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn as_terms(pairs: __m512i) -> __m512bh {
        // SAFETY: both types have 512 bits, and every bit pattern is valid.
        unsafe { core::mem::transmute::<__m512i, __m512bh>(pairs) }
    }
}

#[cfg(not(all(feature = "std", feature = "simd", target_arch = "x86_64")))]
mod imp {
    use super::{TILE_COLS, TileRow};

    /// No token exists.
    pub type Token = core::convert::Infallible;

    pub fn detect() -> Option<Token> {
        None
    }

    pub fn tile(token: Token, _: &[u32], _: &[[u32; TILE_COLS]], _: &mut [TileRow]) {
        match token {}
    }

    pub fn transpose(token: Token, _: &mut [[u32; 16]; 16]) {
        match token {}
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::skipped::skipped;
    use ::half::bf16;
    use std::sync::Once;
    use std::vec::Vec;

    fn pair(low: f32, high: f32) -> u32 {
        let bits = |v| u32::from(bf16::from_f32(v).to_bits());
        bits(low) | bits(high) << 16
    }

    const LACKING: &str = "this process has no AVX512-BF16";

    /// Runs both kernels, or the one that this machine has.
    fn each(left: &[u32], right: &[[u32; TILE_COLS]], rows: usize, check: impl Fn(&'static str, &[TileRow])) {
        let mut sums = [[f32::NAN; TILE_COLS]; TILE_ROWS];
        tile_exact(left, right, &mut sums[..rows]);
        check("exact", &sums[..rows]);
        if let Some(dot) = Bf16Dot::detect() {
            let mut sums = [[f32::NAN; TILE_COLS]; TILE_ROWS];
            dot.tile(left, right, &mut sums[..rows]);
            check("vdpbf16ps", &sums[..rows]);
            assert!(sums[rows..].as_flattened().iter().all(|v| v.is_nan()), "wrote below the tile");
        } else {
            // Once, not for each size.
            static SAID: Once = Once::new();
            SAID.call_once(|| skipped(&std::format!("{LACKING}; the exact kernel is tested")));
        }
    }

    #[test]
    fn tiles_of_every_height_match_the_definition() {
        // Small integers: every sum is exact.
        let a = |i: usize, t: usize| ((5 * i + 3 * t) % 17) as f32 - 8.0;
        let b = |t: usize, j: usize| ((7 * t + 11 * j) % 19) as f32 - 9.0;
        for rows in 1..=TILE_ROWS {
            for pairs in [0, 1, 2, 7, 40] {
                let left: Vec<u32> = (0..pairs * rows)
                    .map(|at| (at % rows, 2 * (at / rows)))
                    .map(|(i, t)| pair(a(i, t), a(i, t + 1)))
                    .collect();
                let right: Vec<[u32; TILE_COLS]> = (0..pairs)
                    .map(|p| core::array::from_fn(|j| pair(b(2 * p, j), b(2 * p + 1, j))))
                    .collect();
                each(&left, &right, rows, |kernel, sums| {
                    for (i, sums) in sums.iter().enumerate() {
                        for (j, sum) in sums.iter().enumerate() {
                            let want: f32 = (0..2 * pairs).map(|t| a(i, t) * b(t, j)).sum();
                            assert_eq!(*sum, want, "{kernel}: {rows} rows, {pairs} pairs, {i}, {j}");
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn special_values_follow_arithmetic() {
        let inf = f32::INFINITY;
        for (a, b, want) in [
            ((f32::NAN, 1.0), (1.0, 1.0), f32::NAN),
            ((1.0, 1.0), (1.0, f32::NAN), f32::NAN),
            ((inf, 1.0), (2.0, 1.0), inf),
            ((1.0, -inf), (2.0, 1.0), -inf),
            ((inf, 1.0), (0.0, 1.0), f32::NAN),
            ((inf, inf), (1.0, -1.0), f32::NAN),
            ((3e38, 3e38), (1.0, 1.0), inf),
        ] {
            each(&[pair(a.0, a.1)], &[[pair(b.0, b.1); TILE_COLS]], 1, |kernel, sums| {
                for sum in sums[0] {
                    assert!(sum == want || (sum.is_nan() && want.is_nan()), "{kernel}: {a:?} {b:?} {sum}");
                }
            });
        }
    }

    #[test]
    fn the_exact_tile_keeps_subnormal_numbers() {
        let tiny = f32::from_bits(1 << 16);
        for (a, b) in [(tiny, 1.0), (tiny, 1e30), (1e-20, 1e-20)] {
            let mut sums = [[0.0; TILE_COLS]];
            tile_exact(&[pair(a, 0.0)], &[[pair(b, 0.0); TILE_COLS]], &mut sums);
            let want = bf16::from_f32(a).to_f32() * bf16::from_f32(b).to_f32();
            assert!(want > 0.0 && sums[0] == [want; TILE_COLS], "{a} {b}");
        }
    }

    #[test]
    fn a_block_is_transposed() {
        let Some(dot) = Bf16Dot::detect() else {
            skipped(LACKING);
            return;
        };
        let mut block: [[u32; 16]; 16] =
            core::array::from_fn(|i| core::array::from_fn(|j| (100 * i + j) as u32));
        dot.transpose(&mut block);
        for (i, row) in block.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                assert_eq!(*value, (100 * j + i) as u32);
            }
        }
    }

    #[test]
    #[should_panic(expected = "differ in length")]
    fn a_strip_of_another_length_is_refused() {
        tile_exact(&[0; 5], &[[0; TILE_COLS]; 2], &mut [[0.0; TILE_COLS]; 3]);
    }

    #[test]
    #[should_panic(expected = "rows")]
    fn a_tile_without_rows_is_refused() {
        tile_exact(&[], &[], &mut []);
    }
}
