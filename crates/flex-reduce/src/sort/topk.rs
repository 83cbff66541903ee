//! The first k elements of a row in sorted order, without sorting the row.
//!
//! A row is cut into groups. The k-th best of the groups' best keys bounds the k-th best key of the row,
//! since k groups have an element at least as good. So one vectorised pass finds the best key of each group,
//! a selection among these keys (a sixteenth of the row) finds the k best groups, and only these groups are
//! read again; of groups with equal keys, the first ones. Few more than k of their elements meet the bound,
//! unless many are equal; the k best are selected from these and sorted.

use super::key::{KeyMap, SortKey};
use super::radix;
use super::rows::{IndexSlice, write_indices};
use crate::error::Result;
use crate::parallel::thresholds::{LONG_TOPK_ROW, SPLIT_TOPK, TASK_TOPK_ELEMENTS};
use crate::parallel::{self, Work};
use crate::storage::{self, Scratch};
use alloc::vec::Vec;
use flex_math::simd::vectorize;

const GROUP: usize = 16;

/// Writes the first `k >= 1` elements of each row of `n >= k` elements, and their indices, in the sorted
/// order of `map`; of equal elements, the lowest index comes first. Either output may be empty if it is not
/// wanted.
pub(super) fn topk_rows<B: SortKey>(
    map: KeyMap<B>,
    rows: &[B],
    n: usize,
    k: usize,
    values: &mut [B],
    indices: IndexSlice<'_>,
) {
    let IndexSlice { bytes: indices, width } = indices;
    let count = rows.len() / n;
    let work = Work::Flops(8 * rows.len());
    let split = n >= LONG_TOPK_ROW && k <= SPLIT_TOPK;
    let per_task = if split { count } else { (TASK_TOPK_ELEMENTS / n).max(1) };
    // One chunk of each output per task; an output that is not wanted has no elements.
    let mut outputs: Vec<(&mut [B], &mut [u8])> = {
        let mut values = values.chunks_mut(per_task * k);
        let mut indices = indices.chunks_mut(per_task * k * width);
        let tasks = count.div_ceil(per_task);
        let mut outputs = storage::list(tasks);
        outputs.extend(
            (0..tasks).map(|_| (values.next().unwrap_or_default(), indices.next().unwrap_or_default())),
        );
        outputs
    };
    parallel::for_each_chunk(&mut outputs, 1, work, |task, output| {
        let (values, indices) = &mut output[0];
        let first = task * per_task;
        let mut finder = Finder::new(map, k);
        for r in 0..per_task.min(count - first) {
            let row = &rows[(first + r) * n..(first + r + 1) * n];
            finder.pairs.clear();
            if split {
                let parts = parallel::map_blocks(n, TASK_TOPK_ELEMENTS, work, |range| {
                    let mut finder = Finder::new(map, k);
                    finder.collect(&row[range.clone()], range.start);
                    finder.pairs
                });
                storage::reserve(&mut finder.pairs, parts.iter().map(Vec::len).sum());
                finder.pairs.extend(parts.into_iter().flatten());
                finder.keep_best();
            } else {
                finder.collect(row, 0);
            }
            let pairs = &mut finder.pairs;
            // Sorted by key, then by index, since the selection has shuffled the pairs.
            let mut scratch = Scratch::for_task(pairs.len());
            radix::sort(pairs, &mut scratch, 0, 32 + B::BITS);
            for (o, &pair) in values.iter_mut().skip(r * k).zip(&*pairs) {
                *o = row[B::index(pair) as usize];
            }
            if !indices.is_empty() {
                let indices = &mut indices[r * k * width..][..k * width];
                write_indices::<B>(pairs, IndexSlice { bytes: indices, width });
            }
        }
    });
}

/// `Ok` if there is memory for finding the `k` largest of `rows` rows of `n` elements.
pub(super) fn check_memory<B: SortKey>(op: &'static str, rows: usize, n: usize, k: usize) -> Result<()> {
    // Keys, and pairs with room to grow. Long rows are cut into short ones unless `k` is large.
    let each = 2 * size_of::<B>() + 4 * size_of::<B::Packed>();
    let (len, at_a_time) = if n >= LONG_TOPK_ROW && k <= SPLIT_TOPK {
        (n / TASK_TOPK_ELEMENTS * k, 1)
    } else {
        (n, parallel::threads().min(rows))
    };
    storage::ensure(op, len.saturating_mul(each).saturating_mul(at_a_time))
}

/// Finds the best elements of rows, one row after the other.
struct Finder<B: SortKey> {
    map: KeyMap<B>,
    k: usize,
    keys: Scratch<B>,
    /// The best key of each group, with the group's number.
    groups: Scratch<B::Packed>,
    /// The best keys with their indices.
    pairs: Vec<B::Packed>,
}

impl<B: SortKey> Finder<B> {
    fn new(map: KeyMap<B>, k: usize) -> Self {
        Self { map, k, keys: Scratch::default(), groups: Scratch::default(), pairs: Vec::new() }
    }

    /// Adds the `k` best pairs of `row` (all, if it is shorter); the first element of `row` has index
    /// `first`.
    fn collect(&mut self, row: &[B], first: usize) {
        let k = self.k;
        let keys = self.keys.elements(row.len());
        let groups = row.len().div_ceil(GROUP);
        if groups < 2 * k {
            self.map.keys(row, keys);
            storage::reserve(&mut self.pairs, row.len());
            self.pairs.extend((first..).zip(&*keys).map(|(i, &key)| key.pack(i as u32)));
        } else {
            let groups = self.groups.elements(groups);
            keys_and_bests(&self.map, row, keys, groups);
            let (better, &mut bound, _) = groups.select_nth_unstable(k - 1);
            storage::reserve(&mut self.pairs, k * GROUP);
            for &group in better.iter().chain([&bound]) {
                let start = B::index(group) as usize * GROUP;
                let group = keys[start..].iter().take(GROUP);
                let passing = (first + start..).zip(group).filter(|&(_, &key)| key <= B::key(bound));
                self.pairs.extend(passing.map(|(i, &key)| key.pack(i as u32)));
            }
        }
        self.keep_best();
    }

    fn keep_best(&mut self) {
        if self.pairs.len() > self.k {
            self.pairs.select_nth_unstable(self.k - 1);
            self.pairs.truncate(self.k);
        }
    }
}

/// Computes the keys of a row, and the least key, which is the best, of each group, with the group's number.
fn keys_and_bests<B: SortKey>(map: &KeyMap<B>, row: &[B], keys: &mut [B], groups: &mut [B::Packed]) {
    vectorize(
        #[inline(always)]
        || {
            map.keys_inline(row, keys);
            for (g, (best, group)) in groups.iter_mut().zip(keys.chunks(GROUP)).enumerate() {
                let mut least = group[0];
                for &key in group {
                    least = if key < least { key } else { least };
                }
                *best = least.pack(g as u32);
            }
        },
    );
}
