//! Least-significant-digit radix sort of unsigned integers by a range of their bits, serial or in parallel.
//!
//! Each pass distributes all items by one digit and keeps the order of equal ones (Knuth, The Art of Computer
//! Programming, vol. 3, 5.2.5). One read counts the digits of all passes; a pass in which all items share a
//! digit is skipped. In parallel, the items are cut into chunks of fixed size, and each chunk writes its
//! items of a bucket to a slice of its own, between the slices of the chunks before and after it.

use super::key::Digits;
use crate::parallel::thresholds::{PARALLEL_SORT_ITEMS, PARALLEL_SORT_THREADS, TASK_RADIX_ITEMS};
use crate::parallel::{self, Work};
use alloc::vec::Vec;

/// Fewer items than this are sorted by comparison. Measured on Zen 5: 128 random u32 cost 1.0 us either way.
const MIN_RADIX: usize = 160;

/// From this number of items on, eleven-bit digits save more passes than their tables cost.
const MIN_WIDE_DIGITS: usize = 2048;

const NARROW: usize = 1 << 8;
const WIDE: usize = 1 << 11;

/// Sorts `items` by the key in the `bits` bits from bit `low` on. Items of equal keys keep their order,
/// provided that their bits below `low` ascend. `scratch` has the length of `items`; its contents are lost.
///
/// Inlined, with the serial sort, so that the number of bits and of tables is constant. Left to the compiler,
/// the inlining varied with changes elsewhere, and 4,096 f32 took 333,000 or 391,000 instructions.
#[inline(always)]
pub(super) fn sort<I: Digits>(items: &mut [I], scratch: &mut [I], low: u32, bits: u32) {
    let n = items.len();
    if n < MIN_RADIX {
        items.sort_unstable();
    } else if n < MIN_WIDE_DIGITS || bits <= 16 {
        sort_serial::<I, NARROW, { NARROW - 1 }>(items, scratch, low, bits);
    } else if n < PARALLEL_SORT_ITEMS || parallel::threads() < PARALLEL_SORT_THREADS {
        sort_serial::<I, WIDE, { WIDE - 1 }>(items, scratch, low, bits);
    } else {
        sort_parallel(items, scratch, low, bits);
    }
}

fn work<I>(items: &[I]) -> Work {
    Work::Bytes(2 * size_of_val(items))
}

#[inline(always)]
fn sort_serial<I: Digits, const BUCKETS: usize, const MASK: usize>(
    items: &mut [I],
    scratch: &mut [I],
    low: u32,
    bits: u32,
) {
    let width = BUCKETS.ilog2();
    let mut counts: Vec<[u32; BUCKETS]> = alloc::vec![[0; BUCKETS]; bits.div_ceil(width) as usize];
    for &item in &*items {
        let mut shift = low;
        for table in &mut counts {
            table[item.digit::<MASK>(shift)] += 1;
            shift += width;
        }
    }
    let (mut from, mut to) = (items, scratch);
    let mut swapped = false;
    for (pass, table) in counts.iter_mut().enumerate() {
        let shift = low + pass as u32 * width;
        if table[from[0].digit::<MASK>(shift)] as usize == from.len() {
            continue;
        }
        let mut next = 0;
        for count in table.iter_mut() {
            next += core::mem::replace(count, next);
        }
        for &item in &*from {
            let at = &mut table[item.digit::<MASK>(shift)];
            to[*at as usize] = item;
            *at += 1;
        }
        (from, to) = (to, from);
        swapped = !swapped;
    }
    if swapped {
        to.copy_from_slice(from);
    }
}

fn sort_parallel<I: Digits>(items: &mut [I], scratch: &mut [I], low: u32, bits: u32) {
    const MASK: usize = NARROW - 1;
    let (n, work) = (items.len(), work(items));
    let (mut from, mut to) = (items, scratch);
    let mut swapped = false;
    for shift in (low..low + bits).step_by(NARROW.ilog2() as usize) {
        let counts = parallel::map_blocks(n, TASK_RADIX_ITEMS, work, |range| {
            // Two tables: the counts of equal neighbours would wait for each other.
            let mut tables = [[0u32; NARROW]; 2];
            let (pairs, rest) = from[range].as_chunks::<2>();
            for [a, b] in pairs {
                tables[0][a.digit::<MASK>(shift)] += 1;
                tables[1][b.digit::<MASK>(shift)] += 1;
            }
            for a in rest {
                tables[0][a.digit::<MASK>(shift)] += 1;
            }
            let [mut sum, other] = tables;
            sum.iter_mut().zip(&other).for_each(|(a, b)| *a += b);
            sum
        });
        let shared = from[0].digit::<MASK>(shift);
        if counts.iter().map(|table| table[shared] as usize).sum::<usize>() == n {
            continue;
        }
        let mut slots: Vec<Vec<core::slice::IterMut<'_, I>>> = Vec::new();
        slots.resize_with(counts.len(), || Vec::with_capacity(NARROW));
        let mut rest = &mut *to;
        for bucket in 0..NARROW {
            for (table, slots) in counts.iter().zip(&mut slots) {
                let (slot, tail) = rest.split_at_mut(table[bucket] as usize);
                slots.push(slot.iter_mut());
                rest = tail;
            }
        }
        let source = &*from;
        parallel::for_each_chunk(&mut slots, 1, work, |chunk, slots| {
            let slots: &mut [_; NARROW] = (&mut slots[0][..]).try_into().expect("one slot per bucket");
            for &item in &source[chunk * TASK_RADIX_ITEMS..((chunk + 1) * TASK_RADIX_ITEMS).min(n)] {
                if let Some(slot) = slots[item.digit::<MASK>(shift)].next() {
                    *slot = item;
                }
            }
        });
        drop(slots);
        (from, to) = (to, from);
        swapped = !swapped;
    }
    if swapped {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_path_sorts_by_the_bits_asked_for() {
        for n in
            [0usize, 1, 2, 100, 159, 160, 2047, 2048, 5000, PARALLEL_SORT_ITEMS, PARALLEL_SORT_ITEMS + 77]
        {
            for mask in [u32::MAX, 0xff, 0xff00_0000, 0x00ff_f000, 0] {
                let key = |i: usize| (i as u32).wrapping_mul(0x9e37_79b9) & mask;
                // The index below the key shows whether equal keys keep their order.
                let mut items: Vec<u64> = (0..n).map(|i| (key(i) as u64) << 32 | i as u64).collect();
                let mut want = items.clone();
                want.sort_unstable();
                let mut again = items.clone();
                sort(&mut items, &mut vec![0; n], 32, 32);
                assert!(items == want, "{n} items, mask {mask:x}");
                if n > 0 {
                    sort_parallel(&mut again, &mut vec![0; n], 32, 32);
                    assert!(again == want, "{n} items in parallel, mask {mask:x}");
                }
            }
        }
        let mut bytes: Vec<u8> = (0..1000).map(|i| (i * 77 % 251) as u8).collect();
        let mut want = bytes.clone();
        want.sort_unstable();
        sort(&mut bytes, &mut vec![0; 1000], 0, 8);
        assert_eq!(bytes, want);
    }
}
