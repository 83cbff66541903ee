//! The k first elements of a row in sorted order, without sorting the row.
//!
//! Keys are compared with a threshold, the k-th best of those seen so far, one vector at a time; only the few that pass
//! are collected. When the collection is full it is cut down to its k best, which lowers the threshold: linear time in
//! the worst case, and a single pass of comparisons in the usual one.

use super::key::{Key, KeyMap};
use super::radix;
use super::rows::with_scratch;
use crate::parallel::{self, Work};
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// Elements compared with the threshold at once.
const LANES: usize = 64;

/// Elements of a task.
const TASK: usize = 32 * 1024;

/// Rows from this length on are split, when k is small.
const LONG_ROW: usize = 256 * 1024;

/// Writes the `k >= 1` first elements of each row of `n >= k` elements, and their indices, in sorted order (`map` says
/// which); of equal elements, those with the lowest index come first. Either output may be empty if it is not wanted.
pub(super) fn topk_rows<B: Key, I: Key>(
    map: KeyMap<B>,
    rows: &[B],
    n: usize,
    k: usize,
    values: &mut [B],
    indices: &mut [I],
) {
    let count = rows.len() / n;
    let work = Work::Flops(8 * rows.len());
    let split = n >= LONG_ROW && k <= TASK / 8;
    let per_task = if split { count } else { (TASK / n).max(1) };
    // One chunk of each output per task; an output that is not wanted has no elements.
    let mut outputs: Vec<(&mut [B], &mut [I])> = {
        let mut values = values.chunks_mut(per_task * k);
        let mut indices = indices.chunks_mut(per_task * k);
        (0..count.div_ceil(per_task))
            .map(|_| (values.next().unwrap_or_default(), indices.next().unwrap_or_default()))
            .collect()
    };
    parallel::for_each_chunk(&mut outputs, 1, work, |task, output| {
        let (values, indices) = &mut output[0];
        let first = task * per_task;
        let mut pairs = Vec::new();
        for r in 0..per_task.min(count - first) {
            let row = &rows[(first + r) * n..(first + r + 1) * n];
            pairs.clear();
            if split {
                let parts = parallel::map_blocks(n, TASK, work, |range| {
                    let mut best = Vec::new();
                    collect_best(map, &row[range.clone()], range.start, k, &mut best);
                    best
                });
                pairs.extend(parts.into_iter().flatten());
            } else {
                collect_best(map, row, 0, k, &mut pairs);
            }
            keep_best(&mut pairs, k);
            sort_pairs::<B>(&mut pairs);
            for (o, &pair) in values.iter_mut().skip(r * k).zip(&pairs) {
                *o = row[B::index(pair) as usize];
            }
            for (o, &pair) in indices.iter_mut().skip(r * k).zip(&pairs) {
                *o = I::from_u64(B::index(pair) as u64);
            }
        }
    });
}

/// Cuts `pairs` down to its `k` least.
fn keep_best<P: Ord>(pairs: &mut Vec<P>, k: usize) {
    if pairs.len() > k {
        pairs.select_nth_unstable(k - 1);
        pairs.truncate(k);
    }
}

/// Sorts by key, then by index: selecting has shuffled the pairs.
fn sort_pairs<B: Key>(pairs: &mut [B::Packed]) {
    with_scratch(pairs.len(), |scratch| radix::sort(pairs, scratch, 0, 32 + B::BITS));
}

/// Collects a superset of the `k` least pairs of `row`, whose first element has index `first`.
fn collect_best<B: Key>(map: KeyMap<B>, row: &[B], first: usize, k: usize, pairs: &mut Vec<B::Packed>) {
    let capacity = 2 * k + LANES;
    let mut threshold = None;
    for (c, chunk) in row.chunks(LANES).enumerate() {
        let start = first + c * LANES;
        let mut keys = [B::ZERO; LANES];
        match threshold {
            None => {
                map.keys(chunk, &mut keys);
                pairs.extend((start..).zip(&keys[..chunk.len()]).map(|(i, &key)| key.pack(i as u32)));
            }
            Some(limit) => {
                if passes(&map, chunk, &mut keys, limit) {
                    let passing = (start..).zip(&keys[..chunk.len()]).filter(|&(_, &key)| key < limit);
                    pairs.extend(passing.map(|(i, &key)| key.pack(i as u32)));
                }
            }
        }
        let full = if threshold.is_none() { k + LANES / 2 } else { capacity };
        if pairs.len() >= full {
            keep_best(pairs, k);
            // The k-th best so far; a later element of the same key comes after it.
            threshold = pairs.last().map(|&worst| B::key(worst));
        }
    }
}

/// Computes the keys of a chunk, and whether any is below the limit.
fn passes<B: Key>(map: &KeyMap<B>, chunk: &[B], keys: &mut [B; LANES], limit: B) -> bool {
    vectorize(
        #[inline(always)]
        || {
            map.keys_inline(chunk, keys);
            let mut any = false;
            for &key in &keys[..chunk.len()] {
                any |= key < limit;
            }
            any
        },
    )
}
