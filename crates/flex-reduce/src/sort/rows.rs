//! Sorting of contiguous rows, with and without the original indices of the elements.

use super::key::{Digits, Key, KeyMap};
use super::radix;
use crate::parallel::{self, Work};
use crate::storage;
use alloc::vec::Vec;

/// Elements that one task sorts, in whole rows, if rows are shorter.
const TASK: usize = 8 * 1024;

/// Rows from this length on are sorted one by one, each in parallel.
const LONG_ROW: usize = 128 * 1024;

/// The number of operations that sorting one element is counted as.
const OPERATIONS: usize = 32;

/// Calls `f` with pooled working memory for `len` items.
pub(super) fn with_scratch<I: Digits, O>(len: usize, f: impl FnOnce(&mut [I]) -> O) -> O {
    let mut bytes = storage::alloc(len * size_of::<I>());
    f(bytemuck::cast_slice_mut(&mut bytes))
}

/// How `len` elements in rows of `n` are split: the elements per task, and the work in total.
fn split(len: usize, n: usize) -> (usize, Work) {
    let rows = if n >= LONG_ROW { len / n } else { (TASK / n).max(1) };
    (rows * n, Work::Flops(len * OPERATIONS))
}

/// Sorts each row of `n >= 1` elements in place.
pub(super) fn sort_values<B: Key>(map: KeyMap<B>, rows: &mut [B], n: usize) {
    let (chunk, work) = split(rows.len(), n);
    parallel::for_each_chunk(rows, chunk, work, |_, rows| {
        with_scratch::<B, _>(2 * n, |scratch| {
            let (keys, scratch) = scratch.split_at_mut(n);
            for row in rows.chunks_exact_mut(n) {
                let exact = map.keys(row, keys);
                radix::sort(keys, scratch, 0, B::BITS);
                let specials = if exact { Vec::new() } else { shared_elements(map, row) };
                map.elements(keys, row);
                for (key, elements) in specials {
                    let start = keys.partition_point(|&k| k < key);
                    row[start..start + elements.len()].copy_from_slice(&elements);
                }
            }
        });
    });
}

/// The elements of a row whose bits their key does not determine, in order, grouped by key.
fn shared_elements<B: Key>(map: KeyMap<B>, row: &[B]) -> Vec<(B, Vec<B>)> {
    let with_key = |key| (key, row.iter().copied().filter(|&bits| map.key(bits) == key).collect());
    map.shared_keys().map(with_key).into()
}

/// Writes, for each element of the sorted rows of `n >= 1` elements, its index in the unsorted row.
pub(super) fn sort_indices<B: Key, I: Key>(
    map: KeyMap<B>,
    rows: RowPairs<'_, B>,
    indices: &mut [I],
    n: usize,
) {
    let (chunk, work) = split(indices.len(), n);
    match rows {
        RowPairs::Read(rows) => parallel::for_each_chunk(indices, chunk, work, |k, indices| {
            let rows = &rows[k * chunk..k * chunk + indices.len()];
            let rows = rows.chunks_exact(n).zip(indices.chunks_exact_mut(n));
            sorted_pairs(map, n, |sorter| {
                rows.for_each(|(row, indices)| write_indices::<B, I>(sorter.sort(row).0, indices))
            });
        }),
        RowPairs::Sort(values) => {
            parallel::for_each_chunk2(values, chunk, indices, chunk, work, |_, rows, indices| {
                let rows = rows.chunks_exact_mut(n).zip(indices.chunks_exact_mut(n));
                sorted_pairs(map, n, |sorter| {
                    for (row, indices) in rows {
                        let (pairs, keys, exact) = sorter.sort(row);
                        write_indices::<B, I>(pairs, indices);
                        if exact {
                            for (k, &pair) in keys.iter_mut().zip(pairs) {
                                *k = B::key(pair);
                            }
                            map.elements(keys, row);
                        } else {
                            keys.copy_from_slice(row);
                            for (o, &pair) in row.iter_mut().zip(pairs) {
                                *o = keys[B::index(pair) as usize];
                            }
                        }
                    }
                });
            })
        }
    }
}

/// The rows whose order is wanted.
pub(super) enum RowPairs<'a, B> {
    /// Only the indices are wanted.
    Read(&'a [B]),
    /// The rows are to be sorted in place as well.
    Sort(&'a mut [B]),
}

fn write_indices<B: Key, I: Key>(pairs: &[B::Packed], indices: &mut [I]) {
    for (o, &pair) in indices.iter_mut().zip(pairs) {
        *o = I::from_u64(B::index(pair) as u64);
    }
}

/// Working memory to sort rows of one length together with their indices.
struct PairSorter<'a, B: Key> {
    map: KeyMap<B>,
    keys: &'a mut [B],
    pairs: &'a mut [B::Packed],
    scratch: &'a mut [B::Packed],
}

impl<B: Key> PairSorter<'_, B> {
    /// The sorted pairs of a row, a buffer for its keys, and whether all elements can be restored from the
    /// keys.
    fn sort(&mut self, row: &[B]) -> (&[B::Packed], &mut [B], bool) {
        let exact = self.map.keys(row, self.keys);
        for (i, (pair, &key)) in self.pairs.iter_mut().zip(&*self.keys).enumerate() {
            *pair = key.pack(i as u32);
        }
        radix::sort(self.pairs, self.scratch, 32, B::BITS);
        (self.pairs, self.keys, exact)
    }
}

fn sorted_pairs<B: Key>(map: KeyMap<B>, n: usize, f: impl FnOnce(&mut PairSorter<'_, B>)) {
    with_scratch::<B, _>(n, |keys| {
        with_scratch::<B::Packed, _>(2 * n, |pairs| {
            let (pairs, scratch) = pairs.split_at_mut(n);
            f(&mut PairSorter { map, keys, pairs, scratch });
        });
    });
}
