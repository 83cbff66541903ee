//! Matrix products of integers: exact modulo 2^bits, blocked and vectorised.
//!
//! The scheme of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008) in plain
//! loops: the right operand is packed into panels of [`PANEL_BYTES`], the left operand into strips of [`MR`]
//! rows, and a kernel of fixed size keeps the sums of `MR` rows in registers. One core of Zen 5 does 300 (i8,
//! i16), 180 (i32) and 90 (i64) billion operations per second at 256^3.

use super::gemm::{MatRef, Threads, sizes};
use super::lane::Lane;
use super::vectors::{load, store};
use crate::dtype::Element;
use crate::parallel::thresholds::TASK_INTEGER_ROWS;
use crate::parallel::{self, Work};
use crate::storage;
use flex_math::simd::{Simd, VMulAdd, Vector, WithSimd, dispatch, vectorize};

/// Number of rows of the kernel.
const MR: usize = 4;
/// Width of a panel in bytes: two AVX-512 registers.
const PANEL_BYTES: usize = 128;
/// Number of terms per pass: a panel of 64 KiB stays in the second-level cache.
const K_BLOCK: usize = 512;
/// Up to this many multiplications, packing costs more than it saves.
const MIN_PACKED: usize = 16 * 16 * 16;

/// `dst = a @ b`, or `dst += a @ b` if `accumulate`; `dst` is row-major.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn gemm<T: Lane>(
    dst: &mut [T],
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    accumulate: bool,
    threads: Threads,
) {
    let (m, n, k) = sizes(dst, a, b);
    if !accumulate {
        dst.fill(T::ZERO);
    }
    if m.saturating_mul(n).saturating_mul(k) <= MIN_PACKED {
        return small(dst, a, b);
    }
    match size_of::<T::Acc>() {
        2 => packed::<T, 64>(dst, a, b, threads),
        4 => packed::<T, 32>(dst, a, b, threads),
        _ => packed::<T, 16>(dst, a, b, threads),
    }
}

/// `dst += a @ b` without packing.
fn small<T: Lane>(dst: &mut [T], a: MatRef<'_, T>, b: MatRef<'_, T>) {
    let (n, k) = (b.layout().cols, a.layout().cols);
    for (i, row) in dst.chunks_exact_mut(n).enumerate() {
        for p in 0..k {
            let x = a.at(i, p).widen();
            for (j, y) in row.iter_mut().enumerate() {
                *y = T::narrow(T::mul_add(x, b.at(p, j).widen(), y.widen()));
            }
        }
    }
}

/// `dst += a @ b` through packed panels of `NR` columns.
fn packed<T: Lane, const NR: usize>(dst: &mut [T], a: MatRef<'_, T>, b: MatRef<'_, T>, threads: Threads) {
    let (m, n, k) = (a.layout().rows, b.layout().cols, a.layout().cols);
    assert_eq!(NR * size_of::<T::Acc>(), PANEL_BYTES);
    let panels = n.div_ceil(NR);
    let flops = if threads == Threads::Pool { 2 * m * n * k } else { 0 };
    let mut buffer = storage::alloc(panels * k * PANEL_BYTES);
    let packed: &mut [T::Acc] = bytemuck::cast_slice_mut(&mut buffer);
    let bytes = if threads == Threads::Pool { n * k * size_of::<T>() + panels * k * PANEL_BYTES } else { 0 };
    parallel::for_each_chunk(packed, k * NR, Work::Bytes(bytes), |panel, out| {
        let first = panel * NR;
        let width = NR.min(n - first);
        for (p, row) in out.chunks_exact_mut(NR).enumerate() {
            match b.row_run(p, first, width) {
                Some(run) => row.iter_mut().zip(run).for_each(|(to, from)| *to = from.widen()),
                None => {
                    row[..width].iter_mut().enumerate().for_each(|(j, to)| *to = b.at(p, first + j).widen())
                }
            }
            row[width..].fill(T::Acc::ZERO);
        }
    });
    let packed = &*packed;
    parallel::for_each_chunk(dst, TASK_INTEGER_ROWS * n, Work::Flops(flops), |task, dst| {
        let mut strip = [[T::Acc::ZERO; MR]; K_BLOCK];
        for start in (0..k).step_by(K_BLOCK) {
            let terms = (k - start).min(K_BLOCK);
            for (s, rows) in dst.chunks_mut(MR * n).enumerate() {
                let (first, height) = (task * TASK_INTEGER_ROWS + s * MR, rows.len() / n);
                for (p, column) in strip[..terms].iter_mut().enumerate() {
                    *column = core::array::from_fn(|i| {
                        if i < height { a.at(first + i, start + p).widen() } else { T::Acc::ZERO }
                    });
                }
                strip_times_panels::<T, NR>(rows, n, &strip[..terms], packed, k, start);
            }
        }
    });
}

/// Adds the product of a strip with all panels to up to [`MR`] rows of the output.
fn strip_times_panels<T: Lane, const NR: usize>(
    rows: &mut [T],
    n: usize,
    strip: &[[T::Acc; MR]],
    packed: &[T::Acc],
    k: usize,
    start: usize,
) {
    let mut sums = [[T::Acc::ZERO; NR]; MR];
    for (j, panel) in packed.chunks_exact(k * NR).enumerate() {
        let panel = &panel.as_chunks::<NR>().0[start..start + strip.len()];
        dispatch(TileLoop { strip, panel, sums: &mut sums });
        let first = j * NR;
        let width = NR.min(n - first);
        let sums = &sums;
        vectorize(
            #[inline(always)]
            || {
                for (row, sums) in rows.chunks_exact_mut(n).zip(sums) {
                    for (y, sum) in row[first..first + width].iter_mut().zip(sums) {
                        *y = T::narrow(T::add(y.widen(), *sum));
                    }
                }
            },
        );
    }
}

/// `sums = strip^T @ panel`, two vectors of columns at a time: eight accumulators in registers.
struct TileLoop<'a, A, const NR: usize> {
    strip: &'a [[A; MR]],
    panel: &'a [[A; NR]],
    sums: &'a mut [[A; NR]; MR],
}

impl<A: VMulAdd, const NR: usize> WithSimd for TileLoop<'_, A, NR> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let lanes = A::lanes::<S>();
        // A panel is as wide as two of the widest vectors. Vectors of one lane (the scalar backend) are taken
        // in pairs too.
        for first in (0..NR).step_by(2 * lanes) {
            let mut sums: [[Vector<S, A>; 2]; MR] = [[A::default().splat(); 2]; MR];
            for (left, right) in self.strip.iter().zip(self.panel) {
                let right: [Vector<S, A>; 2] = [load(&right[first..]), load(&right[first + lanes..])];
                for (left, sums) in left.iter().zip(&mut sums) {
                    let left: Vector<S, A> = left.splat();
                    *sums = [left.mul_add(right[0], sums[0]), left.mul_add(right[1], sums[1])];
                }
            }
            for (sums, out) in sums.into_iter().zip(&mut *self.sums) {
                store(sums[0], &mut out[first..]);
                store(sums[1], &mut out[first + lanes..]);
            }
        }
    }
}
