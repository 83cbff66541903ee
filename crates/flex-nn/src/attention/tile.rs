//! Attention of one block of queries over the tiles of keys that the block can see.

use super::plan::{AttentionPlan, KEY_BLOCK};
use crate::float::Real;
use crate::matmul::gemm::{MatLayout, MatMut, MatRef, Threads, gemm_into};
use crate::norm::lanes::{max_of, sum_of};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::walk::gather_row;
use alloc::vec;
use flex_math::simd::vectorize;
use flex_math::{ExpNonPositive, Tanh, map_in_place};

/// Buffers of a task, allocated once and used for all its tiles.
pub(super) struct TileScratch<F> {
    scores: Scratch<F>,
    /// Largest score of each query so far.
    max: Scratch<F>,
    /// Sum of the exponentials of each query's scores so far.
    sum: Scratch<F>,
    /// Converted operands and results if the stored type is not the computing type; empty otherwise.
    query: Scratch<F>,
    operand: Scratch<F>,
    out: Scratch<F>,
}

impl<F: Real> TileScratch<F> {
    pub fn new(plan: &AttentionPlan) -> Self {
        let rows = plan.query_block.min(plan.queries);
        Self {
            scores: Scratch::for_task(rows * KEY_BLOCK.min(plan.keys)),
            max: Scratch::for_task(rows),
            sum: Scratch::for_task(rows),
            query: Scratch::default(),
            operand: Scratch::default(),
            out: Scratch::default(),
        }
    }
}

/// Bytes that the buffers of a task take in the computing type `A`.
pub(super) fn scratch_bytes<A>(plan: &AttentionPlan) -> usize {
    let (rows, keys) = (plan.query_block.min(plan.queries), KEY_BLOCK.min(plan.keys));
    let wide = plan.depth.max(plan.value_depth);
    let elements = wide.saturating_mul(2 * rows + keys).saturating_add(rows * (keys + 2));
    elements.saturating_mul(size_of::<A>())
}

/// A matrix as it is stored.
#[derive(Clone, Copy)]
pub(super) struct StoredMatrix<'a> {
    pub data: Source<'a>,
    pub layout: MatLayout,
}

impl<'a> StoredMatrix<'a> {
    /// `len` rows from row `first` on.
    fn rows(self, first: usize, len: usize) -> Self {
        let offset = self.layout.offset.wrapping_add_signed(first as isize * self.layout.row_stride);
        Self { layout: MatLayout { rows: len, offset, ..self.layout }, ..self }
    }

    /// `len` columns from column `first` on.
    fn cols(self, first: usize, len: usize) -> Self {
        Self { layout: self.layout.transposed(), ..self }.rows(first, len).transposed()
    }

    fn transposed(self) -> Self {
        Self { layout: self.layout.transposed(), ..self }
    }

    /// The matrix in the type that the products are computed in: the matrix itself, or a copy converted into
    /// `buffer`. One of the matrix's axes is contiguous.
    fn convert<'b, A: Computing>(self, buffer: &'b mut Scratch<A>) -> MatRef<'b, A>
    where
        'a: 'b,
    {
        if let Some(data) = self.data.values() {
            return MatRef::new(data, self.layout);
        }
        // Of an axis of size one, the stride does not matter.
        if self.layout.col_stride != 1 && self.layout.cols > 1 {
            assert!(self.layout.row_stride == 1 || self.layout.rows <= 1, "attention: an axis is contiguous");
            return self.transposed().convert(buffer).transposed();
        }
        let MatLayout { rows, cols, offset, row_stride, .. } = self.layout;
        for (i, to) in buffer.elements(rows * cols).chunks_exact_mut(cols.max(1)).enumerate() {
            let at = offset.wrapping_add_signed(i as isize * row_stride);
            self.data.slice(at..at + cols).read(to);
        }
        MatRef::new(buffer, MatLayout::row_major(rows, cols))
    }
}

/// The operands that a task reads.
#[derive(Clone, Copy)]
pub(super) struct AttentionInputs<'a> {
    /// `[queries, depth]` of one head.
    pub query: StoredMatrix<'a>,
    /// `[depth, keys]`.
    pub key: StoredMatrix<'a>,
    /// `[keys, value_depth]`.
    pub value: StoredMatrix<'a>,
    /// The whole buffers of mask and bias, indexed by the plan's layouts.
    pub mask: Option<&'a [u8]>,
    pub bias: Option<Source<'a>>,
}

/// Writes the attention of a head's queries to `out`, from query `first` on, one query per row of `out`.
pub(super) fn attend<A: Computing>(
    plan: &AttentionPlan,
    head: [usize; 2],
    first: usize,
    inputs: AttentionInputs<'_>,
    scratch: &mut TileScratch<A>,
    out: &mut Sink<'_>,
) {
    // The result is rounded once, after the last tile.
    let mut rounded_later = core::mem::take(&mut scratch.out);
    out.through(&mut rounded_later, |result| attend_in(plan, head, first, inputs, scratch, result));
    scratch.out = rounded_later;
}

/// [`attend`] in the computing type.
fn attend_in<A: Computing>(
    plan: &AttentionPlan,
    head: [usize; 2],
    first: usize,
    inputs: AttentionInputs<'_>,
    scratch: &mut TileScratch<A>,
    result: &mut [A],
) {
    let TileScratch { scores, max, sum, query, operand, .. } = scratch;
    let (zero, one) = (A::ZERO, A::ONE);
    let rows = result.len() / plan.value_depth;
    let (max, sum) = (&mut max[..rows], &mut sum[..rows]);
    // The lowest finite number, so that a query that sees no key subtracts a finite maximum from its `-inf`
    // scores.
    max.fill(A::min_value());
    sum.fill(zero);
    let out_layout = MatLayout::row_major(rows, plan.value_depth);
    let query = inputs.query.rows(first, rows).convert(query);
    let visible = plan.visible(first + rows - 1);
    if visible == 0 {
        result.fill(zero);
    }
    for start in (0..visible).step_by(KEY_BLOCK) {
        let keys = KEY_BLOCK.min(visible - start);
        let scores = &mut scores[..rows * keys];
        let layout = MatLayout::row_major(rows, keys);
        let key = inputs.key.cols(start, keys).convert(operand);
        let scale = A::from_f64(plan.scale);
        gemm_into(MatMut::new(scores, layout), query, key, scale, zero, Threads::One);
        adjust(plan, head, [first, start], scores, keys, inputs.mask, inputs.bias);
        for (group, rows) in scores.chunks_mut(keys * GROUP).enumerate() {
            let group = group * GROUP..group * GROUP + rows.len() / keys;
            let mut shrink = [zero; GROUP];
            exponentials(rows, keys, &mut max[group.clone()], &mut sum[group.clone()], &mut shrink);
            if start > 0 {
                let result = &mut result[group.start * plan.value_depth..group.end * plan.value_depth];
                vectorize(
                    #[inline(always)]
                    || {
                        for (row, shrink) in result.chunks_exact_mut(plan.value_depth).zip(&shrink) {
                            row.iter_mut().for_each(|y| *y = *y * *shrink);
                        }
                    },
                );
            }
        }
        let value = inputs.value.rows(start, keys).convert(operand);
        let beta = if start > 0 { one } else { zero };
        gemm_into(
            MatMut::new(result, out_layout),
            MatRef::new(scores, layout),
            value,
            one,
            beta,
            Threads::One,
        );
    }
    vectorize(
        #[inline(always)]
        || {
            for (row, sum) in result.chunks_exact_mut(plan.value_depth).zip(sum) {
                if *sum == A::ZERO {
                    // A query that sees no key. The product with infinite values is NaN.
                    row.fill(A::ZERO);
                } else {
                    let divisor = *sum;
                    row.iter_mut().for_each(|y| *y = *y / divisor);
                }
            }
        },
    );
}

/// Rows whose exponentials are computed together: 16 KiB of f32 at 256 keys fit into the first-level cache.
const GROUP: usize = 16;

/// Applies soft cap, mask, causal mask and bias to a tile of scores, in this order.
fn adjust<A: Computing>(
    plan: &AttentionPlan,
    head: [usize; 2],
    at: [usize; 2],
    scores: &mut [A],
    keys: usize,
    mask: Option<&[u8]>,
    bias: Option<Source<'_>>,
) {
    let hidden = A::neg_infinity();
    if let Some(cap) = plan.softcap {
        // A cap that the dtype rounds to zero would make NaN of a score of zero, and an infinite one, which
        // caps nothing, of all.
        let cap = A::from_f64(cap).max(A::min_positive_value());
        if cap.is_finite() {
            scores.iter_mut().for_each(|x| *x = *x / cap);
            map_in_place(Tanh, scores);
            scores.iter_mut().for_each(|x| *x = *x * cap);
        }
    }
    if let (Some(layout), Some(data)) = (&plan.mask, mask) {
        // All queries share the row of a padding mask.
        let rows = if layout.strides()[2] == 0 { scores.len() / keys } else { 1 };
        let mut row = vec![0u8; keys];
        let mut marks = vec![A::ZERO; keys];
        for (i, scores) in scores.chunks_exact_mut(rows * keys).enumerate() {
            let start = layout.position(&[head[0], head[1], at[0] + i, at[1]]);
            gather_row(data, start, layout.strides()[3], &mut row);
            if row.iter().all(|&m| m == 0) {
                continue;
            }
            let (row, marks) = (&row, &mut marks[..]);
            vectorize(
                #[inline(always)]
                move || {
                    // Marks are as wide as scores, so that the loop over all queries converts nothing.
                    for (mark, &m) in marks.iter_mut().zip(row) {
                        *mark = if m != 0 { A::ONE } else { A::ZERO };
                    }
                    for scores in scores.chunks_exact_mut(marks.len()) {
                        for (x, &mark) in scores.iter_mut().zip(&*marks) {
                            *x = if mark != A::ZERO { hidden } else { *x };
                        }
                    }
                },
            );
        }
    }
    if plan.is_causal {
        for (i, scores) in scores.chunks_exact_mut(keys).enumerate() {
            let visible = plan.visible(at[0] + i).saturating_sub(at[1]);
            if visible < keys {
                scores[visible..].fill(hidden);
            }
        }
    }
    if let (Some(layout), Some(data)) = (&plan.bias, bias) {
        let mut wide = vec![A::ZERO; keys];
        let mut row = vec![0u64; (keys * data.size()).div_ceil(size_of::<u64>())];
        let row: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut row)[..keys * data.size()];
        for (i, scores) in scores.chunks_exact_mut(keys).enumerate() {
            let start = layout.position(&[head[0], head[1], at[0] + i, at[1]]);
            data.gather(start, layout.strides()[3], row);
            data.convert(row, &mut wide);
            let wide = &wide;
            vectorize(
                #[inline(always)]
                || scores.iter_mut().zip(wide).for_each(|(x, &b)| *x += b),
            );
        }
    }
}

/// Replaces the scores of some rows by `exp(score - max)` and updates the rows' maxima and sums. Writes to
/// `shrink` the factor by which each row's earlier results have to be multiplied.
fn exponentials<F: Real>(
    scores: &mut [F],
    keys: usize,
    max: &mut [F],
    sum: &mut [F],
    shrink: &mut [F; GROUP],
) {
    vectorize(
        #[inline(always)]
        || {
            for ((row, max), shrink) in scores.chunks_exact_mut(keys).zip(&mut *max).zip(&mut *shrink) {
                // A NaN score is skipped here; it reaches the sum through its exponential.
                let largest = max_of(row);
                let new = if largest > *max { largest } else { *max };
                *shrink = *max - new;
                *max = new;
                row.iter_mut().for_each(|x| *x = *x - new);
            }
        },
    );
    map_in_place(ExpNonPositive, scores);
    map_in_place(ExpNonPositive, &mut shrink[..]);
    vectorize(
        #[inline(always)]
        || {
            for ((row, sum), shrink) in scores.chunks_exact(keys).zip(sum).zip(&*shrink) {
                *sum = *sum * *shrink + sum_of(row, |x| x);
            }
        },
    );
}
