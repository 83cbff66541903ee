//! Matrix products of bf16 by the instruction that multiplies pairs of bf16.
//!
//! Both operands are [packed](super::pack) into pairs of terms: the left operand in strips of [`TILE_ROWS`]
//! rows, the right operand in panels of [`TILE_COLS`] columns. Tiles of sums are computed in f32 registers,
//! [`PAIRS`] pairs at a time, added up in f32 and rounded once.
//!
//! The instruction takes subnormal operands and sums for zero, which matters only where a result is small
//! itself. So packing finds the smallest and the largest magnitude of each strip and panel. Where these
//! magnitudes allow subnormal values to arise, the results are compared with a bound ([`largest_doubtful`]):
//! tiles with a result that is not large compared with all possible losses are computed again in ordinary
//! arithmetic. Results equal f32 sums, for all operands.

use super::blocked::{Packed, Tile, TileKernel, TileRows, TileSizes, multiply};
use super::gemm::{MatRef, Threads, sizes};
use super::half;
use super::pack::{MagnitudeRange, Pairs};
use crate::bf16;
use crate::parallel::thresholds::{BF16_PRODUCT_SPEEDUP, TASK_BF16_STRIPS};
use crate::parallel::{self, Work};
use flex_math::Half;
use flex_math::dot::{Bf16Dot, TILE_COLS, TILE_ROWS, TileRow, tile_exact};
use flex_math::simd::vectorize;

/// Number of pairs of terms that are summed in registers.
const PAIRS: usize = 256;
/// Minimum number of rows for which packing the right operand pays. One thread of Zen 5 takes 1.3 ms for 16
/// rows times 2048 by 2048, and 1.0 by way of f32, which puts the break-even at about 32 rows; on a busy
/// machine packing costs more.
const MIN_ROWS: usize = 48;
type TileSums = [TileRow; TILE_ROWS];

/// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major. Computed by way of f32 where the
/// instruction is missing or does not pay.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn gemm(
    dst: &mut [bf16],
    a: MatRef<'_, bf16>,
    b: MatRef<'_, bf16>,
    accumulate: bool,
    threads: Threads,
) {
    match Bf16Dot::detect() {
        Some(dot) if a.layout().rows >= MIN_ROWS => by_pairs(dot, dst, a, b, accumulate, threads),
        _ => half::gemm(dst, a, b, accumulate, threads),
    }
}

fn by_pairs(
    dot: Bf16Dot,
    dst: &mut [bf16],
    a: MatRef<'_, bf16>,
    b: MatRef<'_, bf16>,
    accumulate: bool,
    threads: Threads,
) {
    let (m, n, k) = sizes(dst, a, b);
    if dst.is_empty() || k == 0 {
        if !accumulate {
            dst.fill(bf16::ZERO);
        }
        return;
    }
    let strips = m.div_ceil(TILE_ROWS);
    // Strips of equal height, so that less of the last strip is wasted.
    let width = m.div_ceil(strips);
    let left = Packed::new(&Pairs { dot, lines: a, width, pad: false }, threads);
    let right = Packed::new(&Pairs { dot, lines: b.transposed(), width: TILE_COLS, pad: true }, threads);
    let strips = strips.div_ceil(2 * parallel::threads()).clamp(1, TASK_BF16_STRIPS);
    let flops = 2usize.saturating_mul(m).saturating_mul(n).saturating_mul(k) / BF16_PRODUCT_SPEEDUP;
    let work = Work::Flops(if threads == Threads::Pool { flops } else { 0 });
    multiply(&Bf16Product { dot, k, strips, accumulate }, &left, &right, bytemuck::cast_slice_mut(dst), work);
}

/// Sums of `k` products of bf16.
struct Bf16Product {
    dot: Bf16Dot,
    k: usize,
    strips: usize,
    accumulate: bool,
}

impl TileKernel for Bf16Product {
    fn sizes(&self) -> TileSizes {
        TileSizes { block: PAIRS, sum: size_of::<f32>(), strips: self.strips }
    }

    fn multiply(&self, left: &[u8], right: &[u8], sums: &mut [u8], add: bool) {
        sum_block(left, right, sums, add, |a, b, sums| self.dot.tile(a, b, sums));
    }

    fn finish(&self, tile: Tile<'_>, out: TileRows<'_>) {
        let Tile { left, right, sums } = tile;
        let (rows, n, columns) = out.parts();
        let [a_range, b_range] = [left.notes, right.notes].map(MagnitudeRange::noted);
        if let Some(bound) = largest_doubtful(a_range, b_range, self.k)
            && any_below(bound, rows, n, columns.clone(), bytemuck::cast_slice(sums), self.accumulate)
        {
            let pair = size_of::<u32>();
            let blocks = left.terms.chunks(PAIRS * left.width * pair);
            for (i, (a, b)) in blocks.zip(right.terms.chunks(PAIRS * right.width * pair)).enumerate() {
                sum_block(a, b, sums, i > 0, tile_exact);
            }
        }
        finish(rows, n, columns, bytemuck::cast_slice(sums), self.accumulate);
    }
}

/// [`TileKernel::multiply`] by the function `tile`.
#[inline]
fn sum_block(
    a: &[u8],
    b: &[u8],
    sums: &mut [u8],
    add: bool,
    tile: impl Fn(&[u32], &[[u32; TILE_COLS]], &mut [TileRow]),
) {
    let (a, b) = (bytemuck::cast_slice(a), bytemuck::cast_slice::<u8, u32>(b).as_chunks().0);
    let sums: &mut [TileRow] = bytemuck::cast_slice_mut(sums);
    if !add {
        return tile(a, b, sums);
    }
    let mut more: TileSums = [[0.0; TILE_COLS]; TILE_ROWS];
    let more = &mut more[..sums.len()];
    tile(a, b, more);
    sums.as_flattened_mut().iter_mut().zip(more.as_flattened()).for_each(|(sum, more)| *sum += more);
}

/// The magnitude below which a sum of `k` products is in doubt; `None` when no sum is.
///
/// Numbers of exponent `e` are multiples of `2^(e-7)`. So if the exponents add up to -112 or more, all
/// products, and all sums of them, rounded or not, are multiples of `2^-126`: zero or normal. Otherwise a
/// term loses less than `2^-126` times the other operand when an operand is subnormal, less than `2^-126`
/// when the product is, and less than `2^-126` when the sum is: in all `2 * k * 2^-126` times the largest
/// operand, or 1. This is less than half an ulp of an f32 that is `2^24` times as large. With infinite
/// operands or NaN, every finite result is in doubt.
fn largest_doubtful(a: MagnitudeRange, b: MagnitudeRange, k: usize) -> Option<f32> {
    const BIAS: u16 = 127;
    if a == MagnitudeRange::NONE || b == MagnitudeRange::NONE {
        return None;
    }
    let [ea, eb] = [a.least, b.least].map(|magnitude| magnitude >> 7);
    if ea > 0 && eb > 0 && ea + eb >= 2 * BIAS - 112 {
        return None;
    }
    // Clamped so that NaN does not hide infinity.
    let largest = bf16::from_bits(a.most.max(b.most).clamp(bf16::ONE.to_bits(), bf16::INFINITY.to_bits()));
    Some(k as f32 * largest.to_f32() * f32::from_bits((127 - 101) << 23))
}

/// Whether any result of the tile is smaller in magnitude than `bound`, or not comparable with it.
fn any_below(
    bound: f32,
    rows: &[bf16],
    n: usize,
    columns: core::ops::Range<usize>,
    sums: &[TileRow],
    accumulate: bool,
) -> bool {
    vectorize(
        #[inline(always)]
        || {
            let mut large = true;
            for (row, sums) in rows.chunks_exact(n).zip(sums) {
                for (old, sum) in row[columns.clone()].iter().zip(sums) {
                    let old = if accumulate { bf16::widen(old.to_bits()) } else { 0.0 };
                    large &= (sum + old).abs() >= bound;
                }
            }
            !large
        },
    )
}

/// Rounds a tile to its columns of `rows`, each of length `n`, or adds it to their values if `accumulate`.
fn finish(rows: &mut [bf16], n: usize, columns: core::ops::Range<usize>, sums: &[TileRow], accumulate: bool) {
    vectorize(
        #[inline(always)]
        || {
            for (row, sums) in rows.chunks_exact_mut(n).zip(sums) {
                let row = &mut row[columns.clone()];
                match <&mut [bf16; TILE_COLS]>::try_from(&mut *row) {
                    Ok(row) => round(row, sums, accumulate),
                    Err(_) => round(row, sums, accumulate),
                }
            }
        },
    );
}

#[inline(always)]
fn round(row: &mut [bf16], sums: &[f32], accumulate: bool) {
    if accumulate {
        for (to, sum) in row.iter_mut().zip(sums) {
            *to = bf16::from_bits(bf16::narrow(sum + bf16::widen(to.to_bits())));
        }
    } else {
        for (to, sum) in row.iter_mut().zip(sums) {
            *to = bf16::from_bits(bf16::narrow(*sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::gemm::MatLayout;
    use crate::matmul::tests::noise;
    use crate::skipped::skipped;
    use alloc::vec;
    use alloc::vec::Vec;
    use std::sync::Once;

    /// A matrix in a buffer.
    #[derive(Clone, Debug)]
    struct Matrix {
        data: Vec<bf16>,
        layout: MatLayout,
    }

    impl Matrix {
        fn view(&self) -> MatRef<'_, bf16> {
            MatRef::new(&self.data, self.layout)
        }

        fn at(&self, i: usize, j: usize) -> f64 {
            let l = &self.layout;
            let position = l.offset as isize + i as isize * l.row_stride + j as isize * l.col_stride;
            self.data[position as usize].to_f64()
        }
    }

    /// A row-major matrix of the values of `f`.
    fn matrix(rows: usize, cols: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
        let data = (0..rows * cols).map(|i| bf16::from_f64(f(i / cols, i % cols))).collect();
        Matrix { data, layout: MatLayout::row_major(rows, cols) }
    }

    fn random(rows: usize, cols: usize, seed: u64) -> Matrix {
        Matrix { data: noise(rows * cols, seed), layout: MatLayout::row_major(rows, cols) }
    }

    /// Random matrices in every layout: plain, transposed, from an offset, flipped, stepped, expanded along
    /// either axis.
    fn every_layout(rows: usize, cols: usize, seed: u64) -> Vec<Matrix> {
        let plain = MatLayout::row_major(rows, cols);
        let flipped = MatLayout { row_stride: -plain.row_stride, col_stride: -1, ..plain };
        let stepped = MatLayout { row_stride: 2 * cols as isize + 1, col_stride: 2, ..plain };
        [
            plain,
            MatLayout::col_major(rows, cols),
            plain.at(3),
            flipped.at(rows * cols - 1),
            stepped,
            MatLayout { row_stride: 0, ..plain },
            MatLayout { row_stride: 1, col_stride: 0, ..plain },
        ]
        .into_iter()
        .map(|layout| Matrix { data: noise(rows * (2 * cols + 1) + 3, seed), layout })
        .collect()
    }

    /// The products by every method that this machine has, with the names of the methods.
    fn products(dst: &[bf16], a: &Matrix, b: &Matrix, accumulate: bool) -> Vec<(&'static str, Vec<bf16>)> {
        let mut list = vec![];
        // A plan copies other operands, which `half::gemm` refuses.
        let has_lines = |m: &Matrix| m.layout.row_stride == 1 || m.layout.col_stride == 1;
        if has_lines(a) && has_lines(b) {
            list.extend([("f32", dst.to_vec()), ("door", dst.to_vec())]);
            half::gemm(&mut list[0].1, a.view(), b.view(), accumulate, Threads::Pool);
            gemm(&mut list[1].1, a.view(), b.view(), accumulate, Threads::Pool);
        }
        if let Some(dot) = Bf16Dot::detect() {
            for (name, threads) in [("pairs", Threads::Pool), ("pairs on one thread", Threads::One)] {
                let mut dst = dst.to_vec();
                by_pairs(dot, &mut dst, a.view(), b.view(), accumulate, threads);
                list.push((name, dst));
            }
        } else {
            // Once, not for each product.
            static SAID: Once = Once::new();
            SAID.call_once(|| skipped("this process has no AVX512-BF16; products in f32 are tested"));
        }
        list
    }

    /// Compares all methods with sums in f64.
    ///
    /// A sum of `k` products and an old value in f32 takes `k` additions. The error of each is at most
    /// `2^-24` of a partial sum, which is bounded by the sum of magnitudes. The loss to subnormals counts as
    /// one more addition. Products of bf16 are exact unless they are subnormal; then their error is at most
    /// `2^-150`. Rounding to bf16 adds `2^-8` of the result, or half of the smallest subnormal, `2^-134`.
    fn check(a: &Matrix, b: &Matrix, accumulate: bool) {
        let (m, n, k) = (a.layout.rows, b.layout.cols, a.layout.cols);
        let old = if accumulate { noise(m * n, 3) } else { vec![bf16::NAN; m * n] };
        for (way, got) in products(&old, a, b, accumulate) {
            for (index, got) in got.iter().enumerate() {
                let (i, j) = (index / n, index % n);
                let mut want = if accumulate { old[index].to_f64() } else { 0.0 };
                let mut magnitudes = want.abs();
                for p in 0..k {
                    let term = a.at(i, p) * b.at(p, j);
                    want += term;
                    magnitudes += term.abs();
                }
                let got = got.to_f64();
                let what = alloc::format!("{way}: {m}x{n}x{k} at {i}, {j}: {got} for {want}");
                if want.is_nan() {
                    assert!(got.is_nan(), "{what}");
                } else if want.is_infinite() {
                    assert_eq!(got, want, "{what}");
                } else {
                    let sums = (k + 2) as f64 * (2f64.powi(-24) * magnitudes + 2f64.powi(-150));
                    let bound = sums + 2f64.powi(-8) * (want.abs() + sums) + 2f64.powi(-134);
                    assert!((got - want).abs() <= bound, "{what} +- {bound}");
                }
            }
        }
    }

    #[test]
    fn sizes_around_every_edge_of_a_tile_match_the_definition() {
        for m in [1, 2, 13, 14, 15, 28, 57] {
            for n in [1, 2, 15, 31, 32, 33, 65] {
                for k in [1, 2, 3, 31, 32, 33, 64] {
                    check(&random(m, k, 1), &random(k, n, 2), (m + n + k) % 2 == 0);
                }
            }
        }
        for k in [2 * PAIRS - 1, 2 * PAIRS, 2 * PAIRS + 1, 4 * PAIRS + 3] {
            check(&random(17, k, 1), &random(k, 35, 2), k % 2 == 0);
        }
        // Several tasks of strips, and several tasks of panels to pack.
        check(&random(130, 70, 1), &random(70, 300, 2), false);
    }

    #[test]
    fn any_layout_matches_the_definition() {
        for (m, n, k) in [(3, 5, 4), (15, 33, 35), (29, 34, 32)] {
            for a in every_layout(m, k, 1) {
                for b in every_layout(k, n, 2) {
                    check(&a, &b, false);
                    check(&a, &b, true);
                }
            }
        }
    }

    #[test]
    fn sums_without_terms_are_zero_or_what_was_there() {
        let (a, b) = (random(2, 0, 1), random(0, 3, 2));
        check(&a, &b, false);
        check(&a, &b, true);
        check(&random(0, 4, 1), &random(4, 3, 2), false);
        check(&random(3, 4, 1), &random(4, 0, 2), false);
    }

    #[test]
    fn nan_and_infinity_follow_arithmetic() {
        for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut a = random(30, 70, 1);
            a.data[3 * 70 + 5] = bf16::from_f64(special);
            let mut b = random(70, 40, 2);
            // Infinity times zero.
            b.data[5 * 40 + 6] = bf16::ZERO;
            check(&a, &b, false);
            check(&a, &b, true);
            // Infinity minus infinity, in another column.
            b.data[9 * 40 + 7] = bf16::from_f64(special);
            check(&a, &b, false);
        }
    }

    #[test]
    fn subnormal_numbers_count() {
        let pow = |e: i32| 2f64.powi(e);
        let sign = |i: usize| if i % 3 == 0 { -1.0 } else { 1.0 };
        let spread = |i: usize, j: usize| ((7 * i + 11 * j) % 13) as i32;
        let (m, n, k) = (17, 35, 37);
        // Subnormal operands, alone and among others, whose products are normal; subnormal results; both.
        for (ea, eb) in [(-130, 100), (-133, 20), (-65, -66), (-70, -60), (-130, -3), (-126, 0)] {
            let a = matrix(m, k, |i, p| sign(i + p) * pow((ea + spread(i, p) % 4).max(-133)));
            let b = matrix(k, n, |p, j| pow(eb - spread(p, j)));
            check(&a, &b, false);
            let (at, bt) = (
                matrix(n, k, |j, p| pow(eb - spread(j, p))),
                matrix(k, m, |p, i| pow((ea + spread(i, p) % 4).max(-133))),
            );
            check(&at, &bt, false);
            // Among large results, which are in other rows.
            let mixed = matrix(m, k, |i, p| if i == 4 { pow(ea.max(-133)) } else { spread(i, p) as f64 });
            check(&mixed, &b, false);
        }
        // Sums that cancel to subnormal numbers, where neither operand is small by itself.
        let a = matrix(m, 2, |i, p| if p == 0 { 1.0 + pow(-7) } else { -1.0 } * pow(-(i as i32) - 50));
        check(&a, &matrix(2, n, |_, j| pow(-70 - (j % 5) as i32)), false);
        // Infinity times a number that the instruction takes for zero.
        let mut a = matrix(m, k, |i, p| pow(-130 + spread(i, p) % 3));
        a.data[5] = bf16::INFINITY;
        let mut b = random(k, n, 2);
        b.data.iter_mut().take(n).for_each(|v| *v = bf16::from_f64(pow(-131)));
        b.data[5 * n + 2] = bf16::from_f64(pow(-130));
        check(&a, &b, false);
        check(&a, &b, true);
    }

    #[test]
    fn results_are_in_doubt_where_something_subnormal_can_arise() {
        let of = |least: f64, most: f64| MagnitudeRange {
            least: bf16::from_f64(least).to_bits(),
            most: bf16::from_f64(most).to_bits(),
        };
        let pow = |e: i32| 2f64.powi(e);
        let doubtful = |a, b| largest_doubtful(a, b, 4).is_some();
        assert!(!doubtful(of(pow(-56), 1.0), of(pow(-56), 1.0)));
        assert!(doubtful(of(pow(-56), 1.0), of(pow(-57), 1.0)));
        assert!(!doubtful(of(pow(-126), 1.0), of(pow(14), pow(20))));
        assert!(doubtful(of(pow(-127), 1.0), of(pow(100), pow(100))));
        assert!(!doubtful(MagnitudeRange::NONE, of(pow(-130), 1.0)));
        assert_eq!(largest_doubtful(of(pow(-130), 2.0), of(1.0, 8.0), 4), Some((pow(-101) * 32.0) as f32));
        let endless = MagnitudeRange { most: bf16::NAN.to_bits(), ..of(pow(-130), 1.0) };
        assert_eq!(largest_doubtful(endless, of(1.0, 1.0), 4), Some(f32::INFINITY));
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "starts threads")]
    #[cfg(feature = "rayon")]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        let (a, b) = (random(150, 700, 1), random(700, 90, 2));
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| products(&vec![bf16::ZERO; 150 * 90], &a, &b, false))
        };
        let alone = run(1);
        for threads in [2, 3, 8] {
            for ((way, one), (_, many)) in alone[1..].iter().zip(&run(threads)[1..]) {
                assert_eq!(one, many, "{way} on {threads} threads");
            }
        }
    }
}
