//! Scaled dot-product attention.
//!
//! The whole score matrix is never stored: a task takes a block of queries over tiles of keys, keeps each
//! query's largest score and sum of exponentials so far, and rescales its partial results when a tile brings
//! a larger score (the online softmax of Milakov and Gimelshein 2018, tiled as in FlashAttention, Dao et al.
//! 2022). Tiles of keys that the causal mask hides from every query of the block are skipped.

mod plan;
mod tile;

use crate::error::Result;
use crate::matmul::gemm::MatLayout;
use crate::parallel::{self, Work};
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, DType, Tensor, storage};
use alloc::vec::Vec;
use plan::AttentionPlan;
use tile::{AttentionInputs, StoredMatrix, TileScratch, attend};

/// Options of scaled dot-product attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// Score scale, `1/sqrt(depth)` by default.
    pub scale: Option<f64>,
    /// Soft cap `c > 0`: scores become `c * tanh(score / c)`.
    pub softcap: Option<f64>,
    /// Hides the keys after the query's own position; the last query sees the last key.
    pub is_causal: bool,
}

/// `softmax(query @ key^T * scale) @ value`, for every batch element and head.
///
/// Shapes: `query [batch, heads, queries, depth]`, `key [batch, heads, keys, depth]`, `value [batch, heads,
/// keys, value_depth]`; `mask` and `bias` broadcast to `[batch, heads, queries, keys]`. The result has shape
/// `[batch, heads, queries, value_depth]`. Keys and values may have fewer heads, by which the number of heads
/// of queries can be divided: then neighbouring heads of queries share one (grouped-query attention, Ainslie
/// et al. 2023).
///
/// In this order, scores are scaled, soft-capped, set to `-inf` where the mask is true or the causal mask
/// hides the key, and `bias` is added. The result of a query is zero if all its scores are `-inf` or there
/// are no keys. NaN in a query, key or bias makes the query's result NaN; so does NaN in the value of any
/// visible key. A key that the causal mask hides may be skipped or enter with weight zero, so NaN in its
/// value may or may not reach the result, as in other tiled implementations.
///
/// f16 and bf16 are computed in f32 and rounded once; f64 is computed in f64.
///
/// # Errors
/// Fails if a dtype is not a float, the mask is not bool, dtypes differ, shapes do not fit together, or the
/// soft cap is not positive.
pub fn attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionOptions,
) -> Result<Tensor> {
    let plan = AttentionPlan::new(&query, &key, &value, mask.as_ref(), bias.as_ref(), options)?;
    let (query, value) = (unit_depth(query)?, unit_depth(value)?);
    // The matrix product reads neighbouring keys from contiguous memory. If every key is read many times, the
    // keys are transposed once here instead of once per block of queries.
    let key = if plan.queries >= MIN_QUERIES_TO_TURN {
        key.swap_axes(2, 3)?.into_contiguous()?
    } else {
        unit_depth(key)?.swap_axes(2, 3)?
    };
    computing!("attention", query.dtype(), A => {
        run::<A>(&plan, &query, &key, &value, mask.as_ref(), bias.as_ref())
    })
}

/// Queries per head from which transposing the keys pays.
const MIN_QUERIES_TO_TURN: usize = 16;

/// Returns the tensor with its last axis contiguous; the other axes may have any strides.
fn unit_depth(tensor: Tensor) -> Result<Tensor> {
    if tensor.layout().strides()[3] == 1 || tensor.shape()[3] == 1 {
        Ok(tensor)
    } else {
        tensor.into_contiguous()
    }
}

/// A block of queries of one head, from query `first` on, and the memory of its result.
struct AttentionTask<'a> {
    head: [usize; 2],
    first: usize,
    out: Sink<'a>,
}

/// The blocks of queries of all heads.
fn tasks<'a>(plan: &AttentionPlan, out: &'a mut [u8], dtype: DType) -> Result<Vec<AttentionTask<'a>>> {
    let row = plan.value_depth * dtype.size();
    let block = plan.query_block;
    let blocks = plan.queries.div_ceil(block);
    let mut tasks = storage::try_list("attention", plan.batch * plan.heads * blocks)?;
    for (index, head) in out.chunks_exact_mut(plan.queries * row).enumerate() {
        for (b, out) in head.chunks_mut(block * row).enumerate() {
            let head = [index / plan.heads, index % plan.heads];
            tasks.push(AttentionTask { head, first: b * block, out: Sink::new(out, dtype) });
        }
    }
    Ok(tasks)
}

fn run<A: Computing>(
    plan: &AttentionPlan,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let shape = [plan.batch, plan.heads, plan.queries, plan.value_depth];
    let mut blank = Blank::new("attention", shape.into(), query.dtype())?;
    let out = blank.bytes();
    if out.is_empty() || plan.keys == 0 {
        // The bits of zero.
        out.fill(0);
        return Ok(blank.finish());
    }
    let mut tasks = tasks(plan, out, query.dtype())?;
    storage::ensure_for_tasks("attention", tile::scratch_bytes::<A>(plan), tasks.len())?;
    let scores = plan.batch * plan.heads * plan.queries * plan.keys;
    // Per score: one exponential, and its share of the two matrix products, which run at many operations
    // per cycle.
    let flops = scores.saturating_mul(16 + (plan.depth + plan.value_depth) / 8);
    let mask = mask.map(|mask| mask.storage::<u8>());
    let bias = bias.map(Source::buffer);
    parallel::for_each_chunk(&mut tasks, 1, Work::Flops(flops), |_, tasks| {
        let mut scratch = TileScratch::<A>::new(plan);
        for task in tasks {
            let head = |tensor, [batch, head]: [usize; 2], sharing: usize, rows, cols| StoredMatrix {
                data: Source::buffer(tensor),
                layout: head_layout(tensor, [batch, head / sharing], rows, cols),
            };
            let inputs = AttentionInputs {
                query: head(query, task.head, 1, plan.queries, plan.depth),
                key: head(key, task.head, plan.sharing, plan.depth, plan.keys),
                value: head(value, task.head, plan.sharing, plan.keys, plan.value_depth),
                mask,
                bias,
            };
            attend(plan, task.head, task.first, inputs, &mut scratch, &mut task.out);
        }
    });
    drop(tasks);
    Ok(blank.finish())
}

/// The layout of one head of `tensor` as a matrix of `rows` x `cols`.
fn head_layout(tensor: &Tensor, head: [usize; 2], rows: usize, cols: usize) -> MatLayout {
    let layout = tensor.layout();
    let strides = layout.strides();
    let shift = head[0] as isize * strides[0] + head[1] as isize * strides[1];
    let offset = layout.offset().wrapping_add_signed(shift);
    MatLayout {
        rows,
        cols,
        offset,
        row_stride: strides[2],
        col_stride: if cols == 1 { 1 } else { strides[3] },
    }
}

#[cfg(test)]
mod tests;
