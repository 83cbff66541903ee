//! Scaled dot-product attention.
//!
//! Scores are never stored whole: a task takes a block of queries over tiles of keys, keeps each query's largest score
//! and its sum of exponentials so far, and rescales what it has when a tile brings a larger score (the online
//! softmax of Milakov and Gimelshein 2018, tiled as in FlashAttention, Dao et al. 2022). Tiles that the causal mask
//! hides from the whole block are not visited.

mod plan;
mod tile;

use crate::Tensor;
use crate::error::Result;
use crate::matmul::gemm::{MatLayout, MatRef};
use crate::norm::work::FloatElement;
use crate::parallel::{self, Work};
use alloc::vec::Vec;
use plan::Plan;
use tile::{Inputs, Scratch, attend};

/// Options of scaled dot-product attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// Score scale, `1/sqrt(depth)` by default.
    pub scale: Option<f64>,
    /// Soft cap `c > 0`: scores become `c * tanh(score / c)`.
    pub softcap: Option<f64>,
    /// Masks keys after the query; the last query sees the last key.
    pub is_causal: bool,
}

/// `softmax(query @ key^T * scale) @ value`, for every batch element and head.
///
/// Shapes: `query [batch, heads, queries, depth]`, `key [batch, heads, keys, depth]`,
/// `value [batch, heads, keys, value_depth]`, and `mask` and `bias` anything that broadcasts to
/// `[batch, heads, queries, keys]`. The result has shape `[batch, heads, queries, value_depth]`.
///
/// In this order, scores are scaled, soft-capped, set to `-inf` where the mask is true or the causal mask hides the key, and
/// `bias` is added. A query whose scores are all `-inf` gets zeros, and so does one without any keys. NaN in a
/// query, key or bias makes the query's result NaN; so does NaN in any value that takes part. A key that the
/// causal mask hides may or may not take part with weight zero, so a NaN in its value may or may not show, as in other
/// tiled implementations.
///
/// f16 and bf16 are computed in f32 and rounded once; f64 in f64.
///
/// # Errors
/// A dtype that is not a float, a mask that is not bool, dtypes that differ, shapes that do not fit together, a soft cap that
/// is not positive.
pub fn attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionOptions,
) -> Result<Tensor> {
    let plan = Plan::new(&query, &key, &value, mask.as_ref(), bias.as_ref(), options)?;
    let (query, value) = (unit_depth(query)?, unit_depth(value)?);
    // The product wants neighbouring keys side by side. Where every key is read many times, turn them once here
    // rather than for each block of queries.
    let key = if plan.queries >= MIN_QUERIES_TO_TURN {
        key.swap_axes(2, 3)?.into_contiguous()?
    } else {
        unit_depth(key)?.swap_axes(2, 3)?
    };
    dispatch!(float "attention", query.dtype(), T => {
        run::<T>(&plan, &query, &key, &value, mask.as_ref(), bias.as_ref())
    })
}

/// Queries per head from which turning the keys pays.
const MIN_QUERIES_TO_TURN: usize = 16;

/// The tensor with its last axis contiguous; other axes may lie as they like.
fn unit_depth(tensor: Tensor) -> Result<Tensor> {
    if tensor.layout().strides()[3] == 1 || tensor.shape()[3] == 1 {
        Ok(tensor)
    } else {
        tensor.into_contiguous()
    }
}

/// A block of queries of one head, and where its result goes.
struct Task<'a, T> {
    head: [usize; 2],
    first: usize,
    out: &'a mut [T],
}

fn run<T: FloatElement>(
    plan: &Plan,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let shape = [plan.batch, plan.heads, plan.queries, plan.value_depth];
    Tensor::build::<T>("attention", shape, query.dtype(), |out| {
        if out.is_empty() || plan.keys == 0 {
            return out.fill(T::ZERO);
        }
        let head_size = plan.queries * plan.value_depth;
        let block = plan.query_block;
        let mut tasks: Vec<Task<'_, T>> = (out.chunks_exact_mut(head_size).enumerate())
            .flat_map(|(index, head)| {
                let blocks = head.chunks_mut(block * plan.value_depth).enumerate();
                let head = [index / plan.heads, index % plan.heads];
                blocks.map(move |(b, out)| Task { head, first: b * block, out })
            })
            .collect();
        let scores = plan.batch * plan.heads * plan.queries * plan.keys;
        // Per score: an exponential, and the products, which run at many operations per cycle.
        let flops = scores.saturating_mul(16 + (plan.depth + plan.value_depth) / 8);
        let mask = mask.map(|mask| mask.storage::<u8>());
        let bias = bias.map(|bias| bias.storage::<T>());
        parallel::for_each_chunk(&mut tasks, 1, Work::Flops(flops), |_, tasks| {
            let mut scratch = Scratch::<T::Work>::new(plan);
            for task in tasks {
                let head = |tensor: &Tensor, rows, depth| head_layout(tensor, task.head, rows, depth);
                let inputs = Inputs {
                    query: MatRef::new(query.storage::<T>(), head(query, plan.queries, plan.depth)),
                    key: MatRef::new(key.storage::<T>(), head(key, plan.depth, plan.keys)),
                    value: MatRef::new(value.storage::<T>(), head(value, plan.keys, plan.value_depth)),
                    mask,
                    bias,
                };
                attend(plan, task.head, task.first, inputs, &mut scratch, task.out);
            }
        });
    })
}

/// The matrix of one head.
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
