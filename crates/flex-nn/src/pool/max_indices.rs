//! Max pooling that also returns the position of each maximum, and its gradient.

use super::MaxPoolOptions;
use super::drive::{check_memory, for_each_piece, map_planes};
use super::fold::{Phases, Split};
use super::max;
use super::plan::{PoolAxis, PoolPart, PoolPlan, Windows};
use crate::error::{Error, Result, check_index_dtype};
use crate::float::Real;
use crate::index::check_indices;
use crate::parallel;
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source, low_bits};
use crate::{Blank, DType, Element, Tensor, storage};
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// [`max_pool`](super::max_pool) and, for each maximum, its flat index within the spatial plane of the input
/// (`row * width + column`), in `index_dtype`. As in PyTorch, equal maxima give the index of the first of
/// them in row-major order, several NaN the index of the last. A window of only padding gives the index of
/// the nearest element.
///
/// # Errors
/// The errors of [`max_pool`](super::max_pool), and an `index_dtype` that is not an integer type or too
/// narrow to number the elements of a plane.
pub fn max_pool_with_indices<const N: usize>(
    x: Tensor,
    options: &MaxPoolOptions<N>,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    const OP: &str = "max_pool_with_indices";
    let plan = max::plan(OP, &x, options)?;
    check_index_dtype(OP, index_dtype, plan.input_plane())?;
    let x = x.into_contiguous()?;
    computing!(OP, x.dtype(), A => run::<A>(OP, &plan, &x, index_dtype))
}

fn run<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let (dtype, size, src) = (x.dtype(), x.dtype().size(), Source::of(x));
    let mut values = Blank::new(op, plan.out_shape.clone(), dtype)?;
    let mut indices = Blank::new(op, plan.out_shape.clone(), index_dtype)?;
    let (chunk, width) = (plan.chunk(size), index_dtype.size());
    check_memory::<A>(op, plan, dtype, chunk)?;
    // Winners and indices of a piece.
    let tasks = (values.bytes().len() / size).div_ceil(chunk.max(1));
    storage::ensure_for_tasks(op, chunk.saturating_mul(size_of::<u64>() + size_of::<u32>()), tasks)?;
    let (out, out_indices) = (values.bytes(), indices.bytes());
    let work = plan.work(size);
    parallel::for_each_chunk2(out, chunk * size, out_indices, chunk * width, work, |k, out, out_indices| {
        let mut scratch = WindowSearch::new();
        for_each_piece::<A>(plan, src, k * chunk, Sink::new(out, dtype), &mut |part, out, at| {
            let bytes = &mut out_indices[at * width..(at + out.len()) * width];
            // Indices are not negative, so signed and unsigned types store the same bits.
            if width == size_of::<u64>() {
                return scratch.search(plan, part, out, bytemuck::cast_slice_mut(bytes));
            }
            let mut found = core::mem::take(&mut scratch.found);
            let indices = found.elements(out.len());
            scratch.search(plan, part, out, indices);
            low_bits(indices, width, bytes);
            scratch.found = found;
        });
    });
    Ok((values.finish(), indices.finish()))
}

/// Bits of a winner that hold the column; [`Split`] is limited to kernels of at most 32 columns.
const COL_BITS: u32 = 5;

/// Buffers, reused from row to row and from piece to piece.
struct WindowSearch<A> {
    phases: Phases<A>,
    /// The winning tap of each window: its row, shifted by [`COL_BITS`], and its column.
    winners: Scratch<u32>,
    /// The indices of a piece, if they are not computed in place.
    found: Scratch<u64>,
}

impl<A: Real> WindowSearch<A> {
    fn new() -> Self {
        Self { phases: Phases::new(), winners: Scratch::default(), found: Scratch::default() }
    }

    /// Maxima and their indices of one piece. Unlike a plain maximum, the search cannot run along one axis
    /// after the other, because ties are settled in row-major order. Instead, each tap is compared for a
    /// whole row of windows at a time.
    fn search(&mut self, plan: &PoolPlan, part: &PoolPart<'_, A>, out: &mut [A], indices: &mut [u64]) {
        // Not lean: the gradient of a pooling of 4 x 64 planes of 112 x 112 takes 6 ms with AVX-512, and 12
        // with AVX2 (one thread of Zen 5).
        vectorize(
            #[inline(always)]
            || search_rows(plan, part, out, indices, self),
        );
    }
}

#[inline(always)]
fn search_rows<A: Real>(
    plan: &PoolPlan,
    part: &PoolPart<'_, A>,
    out: &mut [A],
    out_indices: &mut [u64],
    scratch: &mut WindowSearch<A>,
) {
    let piece = &part.piece;
    let (width, n) = (plan.cols.input, piece.cols.len());
    let reach = plan.cols.reach(piece.cols.clone());
    let split = Split::new(&plan.cols, &piece.cols);
    let rows = out.chunks_exact_mut(n).zip(out_indices.chunks_exact_mut(n));
    for (i, (out_row, index_row)) in piece.rows.clone().zip(rows) {
        let row_taps = plan.rows.taps(i);
        let numbered = row_taps.count < 1 << (u32::BITS - COL_BITS - 1);
        let Some(split) = split.as_ref().filter(|_| numbered) else {
            search_each(plan, part, i, out_row, index_row);
            continue;
        };
        let winners = scratch.winners.elements(n);
        winners.fill(u32::MAX);
        out_row.fill(A::neg_infinity());
        for (ky, r) in row_taps.iter().enumerate() {
            let row = part.row(plan, r, reach.clone());
            scratch.phases.fill(split, row, reach.start, A::neg_infinity());
            for kx in 0..split.kernel {
                let tap = (ky << COL_BITS | kx) as u32;
                let values = scratch.phases.tap(split, kx, n);
                for ((best, winner), v) in out_row.iter_mut().zip(&mut *winners).zip(values) {
                    let wins = *v > *best || v.is_nan();
                    *best = if wins { *v } else { *best };
                    *winner = if wins { tap } else { *winner };
                }
            }
        }
        for ((j, index), winner) in piece.cols.clone().zip(index_row).zip(&*winners) {
            let (row, col) = match *winner {
                // No element was larger than -inf: the first element of the window, or the element nearest to
                // the window.
                u32::MAX => (row_taps.start, plan.cols.taps(j).start),
                tap => {
                    let (ky, kx) = (tap >> COL_BITS, tap & ((1 << COL_BITS) - 1));
                    (row_taps.start + ky as usize * row_taps.step, split.position(j, kx as usize, &plan.cols))
                }
            };
            *index = (row * width + col) as u64;
        }
    }
}

/// Searches a row of windows, one window at a time.
#[inline(always)]
fn search_each<A: Real>(
    plan: &PoolPlan,
    part: &PoolPart<'_, A>,
    i: usize,
    out: &mut [A],
    out_indices: &mut [u64],
) {
    let width = plan.cols.input;
    let row_taps = plan.rows.taps(i);
    for ((j, out), index) in part.piece.cols.clone().zip(out).zip(out_indices) {
        let col_taps = plan.cols.taps(j);
        let (mut best, mut at) = (A::neg_infinity(), row_taps.start * width + col_taps.start);
        for r in row_taps.iter() {
            let row = part.row(plan, r, 0..width);
            for c in col_taps.iter() {
                if row[c] > best || row[c].is_nan() {
                    (best, at) = (row[c], r * width + c);
                }
            }
        }
        (*out, *index) = (best, at as u64);
    }
}

/// Gradient of [`max_pool_with_indices`] with respect to `x`: each element of `grad` is added to the input
/// element that its index names. Windows of only padding contribute nothing.
///
/// # Errors
/// The errors of [`max_pool`](super::max_pool), a `grad` or `indices` without the shape of the output, a
/// `grad` of another dtype than `x`, `indices` that are not integers, and an index outside of the plane.
pub fn max_pool_backward<const N: usize>(
    x: Tensor,
    grad: Tensor,
    indices: Tensor,
    options: &MaxPoolOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "max_pool_backward";
    let plan = max::plan(OP, &x, options)?;
    plan.check_grad(OP, &x, &grad)?;
    if indices.shape() != &plan.out_shape {
        let expected = alloc::format!("indices of shape {:?}", plan.out_shape.as_slice());
        return Err(Error::shapes(OP, grad.shape(), indices.shape(), expected));
    }
    let (grad, indices) = (grad.into_contiguous()?, indices.into_contiguous()?);
    check_indices(OP, &indices, N + 1, plan.input_plane())?;
    computing!(OP, x.dtype(), A => run_backward::<A>(OP, &plan, &x, &grad, &indices))
}

fn run_backward<A: Computing>(
    op: &'static str,
    plan: &PoolPlan,
    x: &Tensor,
    grad: &Tensor,
    indices: &Tensor,
) -> Result<Tensor> {
    let (live_rows, live_cols) = (live(op, &plan.rows)?, live(op, &plan.cols)?);
    let (dtype, indices) = (indices.dtype(), Source::of(indices));
    map_planes::<A>(op, plan, x, grad, dtype.size(), |plane, grads, _, out| {
        let bytes = indices.slice(plane * grads.len()..(plane + 1) * grads.len()).bytes();
        out.fill(A::ZERO);
        match dtype.size() {
            1 => scatter::<A, u8>(&live_rows, &live_cols, grads, bytes, out),
            2 => scatter::<A, u16>(&live_rows, &live_cols, grads, bytes, out),
            4 => scatter::<A, u32>(&live_rows, &live_cols, grads, bytes, out),
            _ => scatter::<A, u64>(&live_rows, &live_cols, grads, bytes, out),
        }
    })
}

/// Adds the gradients of the windows that are not of only padding to the elements that their indices name.
fn scatter<A: Real, I: Element>(
    live_rows: &[bool],
    live_cols: &[bool],
    grads: &[A],
    indices: &[u8],
    out: &mut [A],
) {
    let indices: &[I] = bytemuck::cast_slice(indices);
    let width = live_cols.len();
    let rows = grads.chunks_exact(width).zip(indices.chunks_exact(width));
    for (_, (grads, indices)) in live_rows.iter().zip(rows).filter(|(live, _)| **live) {
        for ((g, i), live) in grads.iter().zip(indices).zip(live_cols) {
            if *live {
                let o = &mut out[i.to_i64() as usize];
                *o += *g;
            }
        }
    }
}

/// For each window of an axis, whether it contains an element of the input.
fn live(op: &'static str, axis: &PoolAxis) -> Result<Vec<bool>> {
    debug_assert!(matches!(axis.windows, Windows::Regular { .. }));
    storage::try_collect(op, (0..axis.output).map(|i| axis.taps(i).count > 0))
}
