//! Runs the products of a plan. The drivers know bytes and no element types; they are compiled once.

use super::gemm::Threads;
use super::gemv::{self, Elements, gemv};
use super::kernels::{KeptPanels, MatBytes, ProductKernels, fill_rows};
use super::plan::{Algorithm, ProductPlan};
use crate::Tensor;
use crate::parallel::thresholds::TASK_MULTIPLICATIONS;
use crate::parallel::{self, Work};

/// Products of a plan, by number. The kernels for two tensors of the same dtype are in
/// [`kernels`](super::kernels); products with more operands, such as scales, implement this themselves.
pub(crate) trait Products: Sync {
    /// Writes product `index` to `dst`.
    fn multiply(&self, index: usize, dst: &mut [u8], threads: Threads);
}

/// The products of two operands of the same element type.
struct PlannedProducts<'a> {
    kernels: &'a ProductKernels,
    plan: &'a ProductPlan,
    lhs: &'a [u8],
    rhs: &'a [u8],
    /// The panels of the right operand, if it is to be kept in panels.
    panels: Option<KeptPanels<'a>>,
    /// A row that is added to each row of the output.
    bias: Option<&'a [u8]>,
}

/// [`PlannedProducts`] of matrices.
struct Matrices<'a>(PlannedProducts<'a>);

impl Products for Matrices<'_> {
    fn multiply(&self, index: usize, dst: &mut [u8], threads: Threads) {
        let PlannedProducts { kernels, plan, lhs, rhs, panels, bias } = self.0;
        let [a, b] = plan.layouts(index);
        let (a, b) = (MatBytes { bytes: lhs, layout: a }, MatBytes { bytes: rhs, layout: b });
        match (kernels.panels, panels) {
            (Some(kernel), Some(panels)) => kernel.multiply(dst, a, b, bias, panels, threads),
            _ => (kernels.gemm)(dst, a, b, bias, threads),
        }
    }
}

/// [`PlannedProducts`] of a matrix and a vector. If there is a bias, the output holds it already.
struct Vectors<'a>(PlannedProducts<'a>);

impl Products for Vectors<'_> {
    fn multiply(&self, index: usize, dst: &mut [u8], threads: Threads) {
        let PlannedProducts { kernels, plan, lhs, rhs, bias, .. } = self.0;
        let (l, r) = plan.offsets(index);
        let (w, x) = if plan.n == 1 {
            let w = gemv::Matrix { data: lhs, offset: l, row: plan.lhs.row, col: plan.lhs.col };
            (w, Elements { data: rhs, offset: r, stride: plan.rhs.row, len: plan.k })
        } else {
            let w = gemv::Matrix { data: rhs, offset: r, row: plan.rhs.col, col: plan.rhs.row };
            (w, Elements { data: lhs, offset: l, stride: plan.lhs.col, len: plan.k })
        };
        gemv(kernels.vectors, dst, w, x, bias.is_some(), threads);
    }
}

/// Writes the products of `lhs` and `rhs` to `out`, with `bias` added to each row.
pub(crate) fn run(
    kernels: &ProductKernels,
    plan: &ProductPlan,
    lhs: &[u8],
    rhs: &Tensor,
    out: &mut [u8],
    bias: Option<&[u8]>,
) {
    let algorithm = plan.algorithm(parallel::threads());
    if let (Some(bias), Algorithm::Zeros | Algorithm::Gemv) = (bias, algorithm) {
        fill_rows(out, bias, Threads::Pool);
    }
    let panels = if algorithm == Algorithm::Gemm { panels(kernels, plan, rhs) } else { None };
    let rhs = rhs.storage_bytes();
    let products = PlannedProducts { kernels, plan, lhs, rhs, panels, bias };
    match algorithm {
        Algorithm::Empty => {}
        Algorithm::Zeros if bias.is_some() => {}
        Algorithm::Zeros => out.fill(0),
        Algorithm::Gemv => {
            // Large products run in parallel inside each product, small ones in parallel over the batch.
            let bytes = plan.multiplications().saturating_mul(kernels.vectors.element());
            let batch = plan.batch_size();
            let vectors = &Vectors(products);
            if batch == 1 || Work::Bytes(bytes).is_parallel() {
                in_turn(vectors, batch, out, Threads::Pool);
            } else {
                let work = Work::Bytes(bytes.saturating_mul(batch));
                side_by_side(vectors, batch, out, parallel::rows_per_task(bytes), work);
            }
        }
        Algorithm::Gemm | Algorithm::BatchedGemm => matrices(plan, &Matrices(products), out),
    }
}

/// The panels in which the right operand of a single product is to be kept, if any: packed at its second use.
fn panels<'a>(kernels: &ProductKernels, plan: &ProductPlan, rhs: &'a Tensor) -> Option<KeptPanels<'a>> {
    let kernel = kernels.panels.filter(|_| plan.batch.is_empty())?;
    let [_, layout] = plan.layouts(0);
    let (shape, len) = kernel.shape(plan.m, layout, plan.operand)?;
    let right = MatBytes { bytes: rhs.storage_bytes(), layout };
    Some((shape, rhs.prepare(shape, len, |to| kernel.pack(shape, right, to))))
}

/// Writes the products of a plan to `out`, whose elements may be of any type.
pub(crate) fn matrices(plan: &ProductPlan, products: &dyn Products, out: &mut [u8]) {
    if out.is_empty() {
        return;
    }
    let (batch, multiplications) = (plan.batch_size(), plan.multiplications());
    if plan.is_by_batch(parallel::threads()) {
        let per_task = TASK_MULTIPLICATIONS.div_ceil(multiplications.max(1));
        let work = Work::Multiplications(multiplications.saturating_mul(batch));
        side_by_side(products, batch, out, per_task, work);
    } else {
        parallel::decide(Work::Multiplications(multiplications), |pays| {
            in_turn(products, batch, out, if pays { Threads::Pool } else { Threads::One });
        });
    }
}

/// The products one after the other.
fn in_turn(products: &dyn Products, batch: usize, out: &mut [u8], threads: Threads) {
    let size = out.len() / batch;
    for (index, dst) in out.chunks_exact_mut(size).enumerate() {
        products.multiply(index, dst, threads);
    }
}

/// The products on all threads, each on one thread, `per_task` at a time.
fn side_by_side(products: &dyn Products, batch: usize, out: &mut [u8], per_task: usize, work: Work) {
    let size = out.len() / batch;
    parallel::for_each_chunk(out, per_task.saturating_mul(size), work, |task, chunk| {
        for (i, dst) in chunk.chunks_exact_mut(size).enumerate() {
            products.multiply(task * per_task + i, dst, Threads::One);
        }
    });
}
