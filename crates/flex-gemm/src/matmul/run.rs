//! Runs a plan, with one driver for every dtype.

use super::gemm::{MatLayout, MatRef, Threads};
use super::gemv::{self, gemv};
use super::kernels::Multiply;
use super::lane::Lane;
use super::plan::{Algorithm, ProductPlan};
use crate::parallel::thresholds::{PRODUCT_SPEEDUP, TASK_MULTIPLICATIONS};
use crate::parallel::{self, Work};

/// Writes the products to `out`, with `bias` added to each row.
pub(crate) fn run<T: Multiply>(plan: &ProductPlan, lhs: &[T], rhs: &[T], out: &mut [T], bias: Option<&[T]>) {
    if let Some(bias) = bias {
        fill_rows(out, bias);
    }
    let accumulate = bias.is_some();
    let (m, n, k) = (plan.m, plan.n, plan.k);
    let size = m * n;
    let algorithm = plan.algorithm(parallel::threads());
    let product = |index: usize, dst: &mut [T], threads: Threads| {
        let (l, r) = plan.offsets(index);
        let a = MatLayout { rows: m, cols: k, offset: l, row_stride: plan.lhs.row, col_stride: plan.lhs.col };
        let b = MatLayout { rows: k, cols: n, offset: r, row_stride: plan.rhs.row, col_stride: plan.rhs.col };
        T::gemm(dst, MatRef::new(lhs, a), MatRef::new(rhs, b), accumulate, threads);
    };
    match algorithm {
        Algorithm::Empty => {}
        Algorithm::Zeros if accumulate => {}
        Algorithm::Zeros => out.fill(T::ZERO),
        Algorithm::Gemv => run_gemv(plan, lhs, rhs, out, accumulate),
        Algorithm::Gemm => {
            let threads = if plan.is_large() { Threads::Pool } else { Threads::One };
            for (index, dst) in out.chunks_exact_mut(size).enumerate() {
                product(index, dst, threads);
            }
        }
        Algorithm::BatchedGemm => {
            let per_task = TASK_MULTIPLICATIONS.div_ceil(plan.multiplications()).max(1);
            let flops = 2usize.saturating_mul(plan.multiplications()).saturating_mul(plan.batch_size());
            parallel::for_each_chunk(
                out,
                per_task * size,
                Work::Flops(flops / PRODUCT_SPEEDUP),
                |task, chunk| {
                    for (i, dst) in chunk.chunks_exact_mut(size).enumerate() {
                        product(task * per_task + i, dst, Threads::One);
                    }
                },
            );
        }
    }
}

/// Products with a vector: large products run in parallel inside each product, small ones in parallel over
/// the batch.
fn run_gemv<T: Lane>(plan: &ProductPlan, lhs: &[T], rhs: &[T], out: &mut [T], accumulate: bool) {
    let (m, n, k) = (plan.m, plan.n, plan.k);
    let one = |index: usize, y: &mut [T], serial: bool| {
        let (l, r) = plan.offsets(index);
        let (w, x) = if n == 1 {
            let w = gemv::Matrix { data: lhs, offset: l, row: plan.lhs.row, col: plan.lhs.col };
            (w, gemv::gather(rhs, r, plan.rhs.row, k))
        } else {
            let w = gemv::Matrix { data: rhs, offset: r, row: plan.rhs.col, col: plan.rhs.row };
            (w, gemv::gather(lhs, l, plan.lhs.col, k))
        };
        gemv(y, w, &x, accumulate, serial);
    };
    let (batch, size) = (plan.batch_size(), m * n);
    let bytes = plan.multiplications().saturating_mul(size_of::<T>());
    if batch == 1 || gemv::work(bytes).is_parallel() {
        for (index, y) in out.chunks_exact_mut(size).enumerate() {
            one(index, y, false);
        }
        return;
    }
    let per_task = parallel::rows_per_task(bytes);
    let work = gemv::work(bytes.saturating_mul(batch));
    parallel::for_each_chunk(out, per_task * size, work, |task, chunk| {
        for (i, y) in chunk.chunks_exact_mut(size).enumerate() {
            one(task * per_task + i, y, true);
        }
    });
}

/// Sets every row of a row-major matrix to `row`.
fn fill_rows<T: Copy + Send + Sync>(out: &mut [T], row: &[T]) {
    if row.is_empty() {
        return;
    }
    let bytes = size_of_val(out);
    let rows = parallel::rows_per_task(size_of_val(row));
    parallel::for_each_chunk(out, rows * row.len(), Work::Bytes(bytes), |_, chunk| {
        chunk.chunks_exact_mut(row.len()).for_each(|to| to.copy_from_slice(row));
    });
}
