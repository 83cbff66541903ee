//! A kernel of the blocked driver, written as a newcomer would write one: products of i8 that are summed in
//! i32, and whose epilogue subtracts a zero point, scales rows and columns, adds a bias, cuts off negative
//! values and writes f32. The kernel itself is this file's first half; its loops are plain ones.

use crate::Layout;
use crate::matmul::blocked::{
    Lines, Packed, Packing, Strips, Tile, TileKernel, TileRows, TileSizes, multiply,
};
use crate::matmul::gemm::{MatLayout, MatRef, Threads};
use crate::matmul::plan::ProductPlan;
use crate::matmul::run::{Products, matrices};
use crate::parallel::Work;
use alloc::vec;
use alloc::vec::Vec;
use bytemuck::{cast_slice, cast_slice_mut, pod_read_unaligned};
use flex_math::simd::vectorize;

/// Rows and columns of a tile.
const ROWS: usize = 6;
const COLS: usize = 16;
/// Number of terms per block.
const BLOCK: usize = 64;
/// Number of strips per task.
const STRIPS: usize = 4;

/// The rows of a matrix of i8. Every strip notes the sum of each of its lines.
struct Quantized<'a> {
    lines: MatRef<'a, i8>,
    width: usize,
}

impl Lines for Quantized<'_> {
    fn packing(&self) -> Packing {
        let MatLayout { rows, cols, .. } = self.lines.layout();
        let notes = self.width * size_of::<i32>();
        Packing {
            lines: rows,
            terms: cols,
            width: self.width,
            pad: true,
            term: 1,
            source: 1,
            notes,
            group: 2,
        }
    }

    fn pack(&self, strips: Strips<'_>) {
        for strip in strips.each() {
            let mut sums = vec![0i32; strip.width];
            for (at, to) in strip.terms.iter_mut().enumerate() {
                let (p, i) = (at / strip.width, at % strip.width);
                let value = if i < strip.lines { self.lines.at(strip.first + i, p) } else { 0 };
                sums[i] += i32::from(value);
                *to = value.cast_unsigned();
            }
            strip.notes.copy_from_slice(cast_slice(&sums));
        }
    }
}

/// `out[i][j] = relu(rows[i] * columns[j] * sum((a[i][p] - zero) * b[p][j]) + bias[j])`.
struct Dequantized<'a> {
    zero: i32,
    rows: &'a [f32],
    columns: &'a [f32],
    bias: Option<&'a [f32]>,
    relu: bool,
}

impl TileKernel for Dequantized<'_> {
    fn sizes(&self) -> TileSizes {
        TileSizes { block: BLOCK, sum: size_of::<i32>(), strips: STRIPS }
    }

    fn multiply(&self, left: &[u8], right: &[u8], sums: &mut [u8], add: bool) {
        let (left, right) = (cast_slice::<u8, i8>(left), cast_slice::<u8, i8>(right));
        let sums = cast_slice_mut::<u8, i32>(sums).as_chunks_mut::<COLS>().0;
        vectorize(
            #[inline(always)]
            || {
                if !add {
                    sums.fill([0; COLS]);
                }
                for (a, b) in left.chunks_exact(ROWS).zip(right.as_chunks::<COLS>().0) {
                    for (a, sums) in a.iter().zip(&mut *sums) {
                        for (sum, b) in sums.iter_mut().zip(b) {
                            *sum += i32::from(*a) * i32::from(*b);
                        }
                    }
                }
            },
        );
    }

    fn finish(&self, tile: Tile<'_>, out: TileRows<'_>) {
        let (rows, n, columns) = out.parts::<f32>();
        let sums = cast_slice::<u8, i32>(tile.sums).as_chunks::<COLS>().0;
        let of_columns: [i32; COLS] = pod_read_unaligned(tile.right.notes);
        for (i, (row, sums)) in rows.chunks_exact_mut(n).zip(sums).enumerate() {
            for (j, y) in row[columns.clone()].iter_mut().enumerate() {
                let (row, column) = (tile.left.first + i, columns.start + j);
                let sum = (sums[j] - self.zero * of_columns[j]) as f32;
                *y = sum * self.rows[row] * self.columns[column] + self.bias.map_or(0.0, |bias| bias[column]);
                if self.relu {
                    *y = y.max(0.0);
                }
            }
        }
    }
}

/// Operands and parameters of a product.
struct Case {
    m: usize,
    n: usize,
    k: usize,
    a: Vec<i8>,
    b: Vec<i8>,
    rows: Vec<f32>,
    columns: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    fn new(m: usize, n: usize, k: usize, seed: u64) -> Self {
        let bytes = |len: usize, seed: u64| (0..len).map(|i| super::mix(seed + 7 * i as u64) as i8).collect();
        let floats =
            |len: usize, seed: u64| (0..len).map(move |i| super::mix(seed + i as u64) as i8 as f32 / 64.0);
        Self {
            m,
            n,
            k,
            a: bytes(m * k, seed),
            b: bytes(k * n, seed + 1),
            rows: floats(m, seed + 2).collect(),
            columns: floats(n, seed + 3).collect(),
            bias: floats(n, seed + 4).map(|v| 1e4 * v).collect(),
        }
    }

    fn kernel(&self, extras: bool) -> Dequantized<'_> {
        let bias = extras.then_some(&self.bias[..]);
        Dequantized { zero: -3, rows: &self.rows, columns: &self.columns, bias, relu: extras }
    }

    /// `a`, row-major.
    fn left(&self, threads: Threads) -> Packed {
        let lines = MatRef::new(&self.a, MatLayout::row_major(self.m, self.k));
        Packed::new(&Quantized { lines, width: ROWS }, threads)
    }

    /// `b`, column-major: its columns are lines.
    fn right(&self, threads: Threads) -> Packed {
        let lines = MatRef::new(&self.b, MatLayout::row_major(self.n, self.k));
        Packed::new(&Quantized { lines, width: COLS }, threads)
    }

    /// Compares a result with exact sums, and an epilogue in f64.
    fn check(&self, got: &[f32], extras: bool) {
        let Self { m, n, k, .. } = *self;
        assert_eq!(got.len(), m * n);
        for (at, got) in got.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum: i64 =
                (0..k).map(|p| (i64::from(self.a[i * k + p]) + 3) * i64::from(self.b[j * k + p])).sum();
            let scaled = sum as f64 * f64::from(self.rows[i]) * f64::from(self.columns[j]);
            let bias = if extras { f64::from(self.bias[j]) } else { 0.0 };
            let want = if extras { (scaled + bias).max(0.0) } else { scaled };
            // Four roundings to f32.
            let bound = 4.0 * 2f64.powi(-24) * (scaled.abs() + bias.abs());
            assert!((f64::from(*got) - want).abs() <= bound, "{m}x{n}x{k} at {i}, {j}: {got} for {want}");
        }
    }
}

fn run(case: &Case, left: &Packed, right: &Packed, extras: bool, work: Work) -> Vec<f32> {
    // What the output holds does not matter.
    let mut out = vec![f32::NAN; case.m * case.n];
    multiply(&case.kernel(extras), left, right, cast_slice_mut(&mut out), work);
    out
}

#[test]
fn sizes_around_every_edge_match_the_definition() {
    for m in [1, ROWS - 1, ROWS, ROWS + 1, STRIPS * ROWS - 1, STRIPS * ROWS, STRIPS * ROWS + 1, 61] {
        for n in [1, COLS - 1, COLS, COLS + 1, 2 * COLS, 2 * COLS + 1] {
            for k in [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 3] {
                let case = Case::new(m, n, k, (m + n + k) as u64);
                for extras in [false, true] {
                    let (left, right) = (case.left(Threads::Pool), case.right(Threads::Pool));
                    case.check(&run(&case, &left, &right, extras, Work::Worthwhile), extras);
                }
            }
        }
    }
}

#[test]
fn a_packed_operand_serves_many_products() {
    let weights = Case::new(1, 35, 70, 1);
    let right = weights.right(Threads::One);
    for m in [1, 8, 40] {
        let case = Case { b: weights.b.clone(), ..Case::new(m, 35, 70, 9) };
        let left = case.left(Threads::One);
        let got = run(&case, &left, &right, true, Work::Flops(0));
        case.check(&got, true);
        assert_eq!(got, run(&case, &left, &right, true, Work::Worthwhile), "threads change the result");
    }
}

/// Products of a batch, whose output has another element type than the operands.
struct Batch<'a>(&'a [Case]);

impl Products for Batch<'_> {
    fn multiply(&self, index: usize, dst: &mut [u8], threads: Threads) {
        let case = &self.0[index];
        multiply(&case.kernel(false), &case.left(threads), &case.right(threads), dst, Work::Flops(0));
    }
}

#[test]
fn a_batch_runs_over_a_plan() {
    for (batch, m, n, k) in [(1, 9, 20, 30), (40, 9, 20, 30), (3, 120, 150, 500)] {
        let cases: Vec<Case> = (0..batch).map(|i| Case::new(m, n, k, i)).collect();
        let layout = |rows: usize, cols: usize| Layout::contiguous([batch as usize, rows, cols].into());
        let plan = ProductPlan::new("int8", &layout(m, k), &layout(k, n)).unwrap();
        let mut out = vec![f32::NAN; batch as usize * m * n];
        matrices(&plan, &Batch(&cases), cast_slice_mut(&mut out));
        for (case, got) in cases.iter().zip(out.chunks_exact(m * n)) {
            case.check(got, false);
        }
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn operands_that_do_not_fit_together_are_refused() {
    let (left, right) = (Case::new(4, 5, 6, 1).left(Threads::One), Case::new(4, 5, 7, 1).right(Threads::One));
    let case = Case::new(4, 5, 6, 1);
    let mut out = [0f32; 20];
    let refused = |right: &Packed, out: &mut [f32]| {
        let kernel = case.kernel(false);
        let attempt = core::panic::AssertUnwindSafe(|| {
            multiply(&kernel, &left, right, cast_slice_mut(out), Work::Flops(0));
        });
        std::panic::catch_unwind(attempt).is_err()
    };
    assert!(refused(&right, &mut out));
    let right = case.right(Threads::One);
    assert!(refused(&right, &mut out[..19]));
    assert!(!refused(&right, &mut out));
}
