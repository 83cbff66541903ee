//! Sorting of contiguous rows, with and without the original indices of the elements.

use super::key::{KeyMap, SortKey};
use super::radix;
use crate::error::Result;
use crate::parallel::thresholds::{LONG_SORTED_ROW, TASK_SORT_ELEMENTS};
use crate::parallel::{self, Work};
use crate::storage::{self, Scratch};
use alloc::vec::Vec;

/// The number of operations that sorting one element is counted as.
const OPERATIONS: usize = 32;

/// How `len` elements in rows of `n` are split: the elements per task, and the work in total.
fn split(len: usize, n: usize) -> (usize, Work) {
    let rows = if n >= LONG_SORTED_ROW { len / n } else { (TASK_SORT_ELEMENTS / n).max(1) };
    (rows * n, Work::Flops(len * OPERATIONS))
}

/// `Ok` if there is memory for sorting rows of `n` elements: of the elements themselves, or of pairs with
/// their indices.
pub(super) fn check_memory<B: SortKey>(op: &'static str, n: usize, pairs: bool) -> Result<()> {
    let each = if pairs { size_of::<B>() + 2 * size_of::<B::Packed>() } else { 3 * size_of::<B>() };
    // Long rows are sorted one after the other.
    let rows = if n >= LONG_SORTED_ROW { 1 } else { parallel::threads() };
    storage::ensure(op, n.saturating_mul(each).saturating_mul(rows))
}

/// Sorts each row of `n >= 1` elements in place; there is at least one.
pub(super) fn sort_values<B: SortKey>(map: KeyMap<B>, rows: &mut [B], n: usize) {
    let (chunk, work) = split(rows.len(), n);
    parallel::for_each_chunk(rows, chunk, work, |_, rows| {
        let mut scratch = Scratch::<B>::for_task(2 * n);
        let (keys, scratch) = scratch.split_at_mut(n);
        sort_rows(map, rows, keys, scratch);
    });
}

/// Sorts rows as long as `keys` and `scratch`. A function of its own, whose arguments are known not to
/// overlap: without it, 4,096 f32 take 4 % more instructions.
#[inline(never)]
fn sort_rows<B: SortKey>(map: KeyMap<B>, rows: &mut [B], keys: &mut [B], scratch: &mut [B]) {
    for row in rows.chunks_exact_mut(keys.len()) {
        let exact = map.keys(row, keys);
        radix::sort(keys, scratch, 0, B::BITS);
        let specials = if exact { Vec::new() } else { shared_elements(map, row) };
        map.elements(keys, row);
        for (key, elements) in specials {
            let start = keys.partition_point(|&k| k < key);
            row[start..start + elements.len()].copy_from_slice(&elements);
        }
    }
}

/// The elements of a row whose bits their key does not determine, in order, grouped by key.
fn shared_elements<B: SortKey>(map: KeyMap<B>, row: &[B]) -> Vec<(B, Vec<B>)> {
    let with_key = |key| {
        let elements = || row.iter().copied().filter(|&bits| map.key(bits) == key);
        let mut list = storage::list(elements().count());
        list.extend(elements());
        (key, list)
    };
    map.shared_keys().map(with_key).into()
}

/// Writes, for each element of the sorted rows of `n >= 1` elements, its index in the unsorted row; there is
/// at least one.
pub(super) fn sort_indices<B: SortKey>(
    map: KeyMap<B>,
    rows: RowPairs<'_, B>,
    indices: IndexSlice<'_>,
    n: usize,
) {
    let IndexSlice { bytes, width } = indices;
    let (chunk, work) = split(bytes.len() / width, n);
    match rows {
        RowPairs::Read(rows) => parallel::for_each_chunk(bytes, chunk * width, work, |k, indices| {
            let rows = &rows[k * chunk..k * chunk + indices.len() / width];
            sorted_pairs(map, n, &mut |sorter| {
                for (row, indices) in rows.chunks_exact(n).zip(indices.chunks_exact_mut(n * width)) {
                    write_indices::<B>(sorter.sort(row).0, IndexSlice { bytes: indices, width });
                }
            });
        }),
        RowPairs::Sort(values) => {
            parallel::for_each_chunk2(values, chunk, bytes, chunk * width, work, |_, rows, indices| {
                sorted_pairs(map, n, &mut |sorter| {
                    let rows = rows.chunks_exact_mut(n).zip(indices.chunks_exact_mut(n * width));
                    for (row, indices) in rows {
                        let (pairs, keys, exact) = sorter.sort(row);
                        write_indices::<B>(pairs, IndexSlice { bytes: indices, width });
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

/// Indices of any integer dtype as bytes, so that the algorithms are not compiled for each of these dtypes.
pub(super) struct IndexSlice<'a> {
    pub bytes: &'a mut [u8],
    /// Bytes of an index.
    pub width: usize,
}

/// Writes the indices of the pairs.
pub(super) fn write_indices<B: SortKey>(pairs: &[B::Packed], indices: IndexSlice<'_>) {
    fn write<B: SortKey, I: SortKey>(pairs: &[B::Packed], indices: &mut [u8]) {
        for (o, &pair) in bytemuck::cast_slice_mut::<_, I>(indices).iter_mut().zip(pairs) {
            *o = I::from_u64(B::index(pair) as u64);
        }
    }
    match indices.width {
        1 => write::<B, u8>(pairs, indices.bytes),
        2 => write::<B, u16>(pairs, indices.bytes),
        4 => write::<B, u32>(pairs, indices.bytes),
        _ => write::<B, u64>(pairs, indices.bytes),
    }
}

/// Working memory to sort rows of one length together with their indices.
struct PairSorter<'a, B: SortKey> {
    map: KeyMap<B>,
    keys: &'a mut [B],
    pairs: &'a mut [B::Packed],
    scratch: &'a mut [B::Packed],
}

impl<B: SortKey> PairSorter<'_, B> {
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

/// Calls `f` with a sorter of rows of `n` elements.
fn sorted_pairs<B: SortKey>(map: KeyMap<B>, n: usize, f: &mut dyn FnMut(&mut PairSorter<'_, B>)) {
    let (mut keys, mut pairs) = (Scratch::<B>::for_task(n), Scratch::<B::Packed>::for_task(2 * n));
    let (pairs, scratch) = pairs.split_at_mut(n);
    f(&mut PairSorter { map, keys: &mut keys, pairs, scratch });
}
