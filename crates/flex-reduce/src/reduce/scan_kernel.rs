//! The loops of scans, over bytes and behind `dyn`, so that the code that drives them is compiled once.
//!
//! A scan is a chain of dependent operations, so latency limits its speed. [`scan_group`] breaks the chain:
//! it scans eight strips of a row side by side, each from the identity, and then adds to each the total of
//! what precedes it. The end of a strip is computed exactly like the total added to the next strip, so sums
//! of non-negative numbers never decrease.

use super::scanner::Scanner;
use super::scratch::ValueBytes;
use crate::Element;
use core::marker::PhantomData;
use flex_math::simd::{Gains, Levels, vectorize_for, vectorize_with};

/// Number of strips that are scanned side by side.
const STRIPS: usize = 8;

/// Longest strip; the running values of all strips stay in the first-level cache.
const MAX_STRIP: usize = 128;

/// Longest strip that uses a small buffer: clearing a buffer for [`MAX_STRIP`] would cost more than the scan.
/// A cumsum of 64 elements took 0.39 us; without that and without a search for the order of its axes, it
/// takes 0.2.
const SHORT_STRIP: usize = 16;

/// Elements that a chain takes per step, for scanners that allow groups but not strips: 4,096 products of f32
/// take 4.5 us on one thread of a Xeon, and took 9 element by element.
pub(super) const GROUP: usize = 4;

/// Rows shorter than this, and remainders, are scanned as a plain chain.
const MIN_GROUP: usize = 32;

/// A scan over bytes. Running values are passed as [`ValueBytes`], or as bytes of a carry that starts at a
/// [`Word`](super::scratch::Word).
pub(super) trait ScanKernel: Sync {
    /// Bytes of an element.
    fn element_size(&self) -> usize;
    /// Bytes of a running value.
    fn running_size(&self) -> usize;
    /// [`Scanner::STRIPS`].
    fn has_strips(&self) -> bool;
    /// The running value of no elements.
    fn identity(&self) -> ValueBytes;
    /// The running value of `a` followed by `b`.
    fn combine(&self, a: ValueBytes, b: ValueBytes) -> ValueBytes;
    /// Scans each of the rows of `n` elements in place, continuing from the running value `base`. Returns the
    /// total of the last row; without strips, the running value at its end.
    fn scan_rows(&self, rows: &mut [u8], n: usize, base: ValueBytes) -> ValueBytes;
    /// The total of a row, by the same operations as in [`scan_rows`](Self::scan_rows).
    fn total(&self, row: &[u8]) -> ValueBytes;
    /// Fills `carry` with running values of no elements.
    fn clear(&self, carry: &mut [u8]);
    /// Scans in place down the columns of rows as wide as `carry`, which holds the columns' running values on
    /// entry and exit.
    fn advance(&self, carry: &mut [u8], rows: &mut [u8]);
}

/// The kernel of a scanner `S` of elements `T`.
pub(super) struct TypedScan<T, S> {
    scanner: S,
    element: PhantomData<fn(T)>,
}

impl<T, S> TypedScan<T, S> {
    pub fn new(scanner: S) -> Self {
        Self { scanner, element: PhantomData }
    }
}

impl<T: Element, S: Scanner<T>> ScanKernel for TypedScan<T, S> {
    fn element_size(&self) -> usize {
        size_of::<T>()
    }

    fn running_size(&self) -> usize {
        size_of::<S::Acc>()
    }

    fn has_strips(&self) -> bool {
        S::STRIPS
    }

    fn identity(&self) -> ValueBytes {
        ValueBytes::new(self.scanner.identity())
    }

    fn combine(&self, a: ValueBytes, b: ValueBytes) -> ValueBytes {
        ValueBytes::new(self.scanner.combine(a.get(), b.get()))
    }

    fn scan_rows(&self, rows: &mut [u8], n: usize, base: ValueBytes) -> ValueBytes {
        let (rows, identity) = (bytemuck::cast_slice_mut(rows), self.scanner.identity());
        if n < STRIPS * (SHORT_STRIP + 1) {
            self.scan_with(&mut [identity; STRIPS * SHORT_STRIP], rows, n, base)
        } else {
            self.scan_with(&mut [identity; STRIPS * MAX_STRIP], rows, n, base)
        }
    }

    fn total(&self, row: &[u8]) -> ValueBytes {
        let (s, row) = (self.scanner, bytemuck::cast_slice(row));
        ValueBytes::new(vectorize_with::<RowLevels<T, S>, _>(
            #[inline(always)]
            |vectors| total::<T, S>(s, row, vectors),
        ))
    }

    fn clear(&self, carry: &mut [u8]) {
        bytemuck::cast_slice_mut(carry).fill(self.scanner.identity());
    }

    fn advance(&self, carry: &mut [u8], rows: &mut [u8]) {
        let (s, carry, rows) =
            (self.scanner, bytemuck::cast_slice_mut(carry), bytemuck::cast_slice_mut(rows));
        vectorize_for::<ColumnLevels<T, S>, _>(
            #[inline(always)]
            || advance::<T, S>(s, carry, rows),
        );
    }
}

impl<T: Element, S: Scanner<T>> TypedScan<T, S> {
    /// [`ScanKernel::scan_rows`] with room for the running values of all strips of a group.
    fn scan_with(&self, running: &mut [S::Acc], rows: &mut [T], n: usize, base: ValueBytes) -> ValueBytes {
        let (s, base) = (self.scanner, base.get());
        ValueBytes::new(vectorize_with::<RowLevels<T, S>, _>(
            #[inline(always)]
            |vectors| {
                let mut total = s.identity();
                for row in rows.chunks_exact_mut(n) {
                    total = scan_block(s, row, base, running, vectors);
                }
                total
            },
        ))
    }
}

/// [`Scanner::ROW_LEVELS`], where [`vectorize_for`] reads it.
struct RowLevels<T, S>(PhantomData<(T, S)>);

impl<T, S: Scanner<T>> Gains for RowLevels<T, S> {
    const LEVELS: Levels = S::ROW_LEVELS;
}

/// [`Scanner::COLUMN_LEVELS`], likewise.
struct ColumnLevels<T, S>(PhantomData<(T, S)>);

impl<T, S: Scanner<T>> Gains for ColumnLevels<T, S> {
    const LEVELS: Levels = S::COLUMN_LEVELS;
}

/// Elements per strip of the next group, of `len` elements left; fewer than [`MIN_GROUP`] are left to a plain
/// chain.
#[inline(always)]
fn strip_len(len: usize) -> usize {
    (len / STRIPS).min(MAX_STRIP)
}

/// Scans a block in place, continuing from the running value `base`. Returns the total of the block; without
/// strips, the running value at its end. Without `vectors`, integers, whose results do not depend on the
/// order, are scanned as a plain chain.
#[inline(always)]
fn scan_block<T: Element, S: Scanner<T>>(
    s: S,
    block: &mut [T],
    base: S::Acc,
    running: &mut [S::Acc],
    vectors: bool,
) -> S::Acc {
    if !S::STRIPS {
        let (mut acc, mut rest) = (base, block);
        if S::GROUPS {
            let (groups, tail) = rest.as_chunks_mut::<GROUP>();
            for group in groups {
                let [a, b, c, d] = *group;
                let [a, b, c, d] = [s.lift(a), s.lift(b), s.lift(c), s.lift(d)];
                let (ab, cd) = (s.combine(a, b), s.combine(c, d));
                let lower = |x| s.lower(s.combine(acc, x));
                *group = [lower(a), lower(ab), lower(s.combine(ab, c)), lower(s.combine(ab, cd))];
                acc = s.combine(acc, s.combine(ab, cd));
            }
            rest = tail;
        }
        for x in rest {
            acc = s.combine(acc, s.lift(*x));
            *x = s.lower(acc);
        }
        return acc;
    }
    let (mut carry, mut rest) = (s.identity(), block);
    while (vectors || T::IS_FLOAT) && rest.len() >= MIN_GROUP {
        let (group, tail) = rest.split_at_mut(strip_len(rest.len()) * STRIPS);
        carry = scan_group(s, group, base, carry, running);
        rest = tail;
    }
    let mut local = s.identity();
    for x in rest {
        local = s.combine(local, s.lift(*x));
        *x = s.lower(s.combine(base, s.combine(carry, local)));
    }
    s.combine(carry, local)
}

/// Scans the strips of a group in place, continuing from `base` combined with `carry`. Returns `carry`
/// combined with the total of the group. `running` has room for the running value of each element.
#[inline(always)]
fn scan_group<T: Element, S: Scanner<T>>(
    s: S,
    group: &mut [T],
    base: S::Acc,
    mut carry: S::Acc,
    running: &mut [S::Acc],
) -> S::Acc {
    let len = group.len() / STRIPS;
    let mut rest = &mut *running;
    let mut of_strips: [&mut [S::Acc]; STRIPS] = Default::default();
    for strip in &mut of_strips {
        (*strip, rest) = rest.split_at_mut(len);
    }
    scan_strips::<T, S>(
        s,
        group,
        #[inline(always)]
        |k, i, acc| of_strips[k][i] = acc,
    );
    let (mut strips, mut locals) = (group, &*running);
    // If the compiler knows that there are eight strips, it makes eight copies of the vectorised loop. For
    // bytes they pay: 4,096 running sums of u8 take 1.4 us with them, and 1.7 without (one thread of Zen 4).
    let count = if const { size_of::<T>() == 1 } { STRIPS } else { core::hint::black_box(STRIPS) };
    for _ in 0..count {
        let (strip, local);
        (strip, strips) = strips.split_at_mut(len);
        (local, locals) = locals.split_at(len);
        for (x, &local) in strip.iter_mut().zip(local) {
            *x = s.lower(s.combine(base, s.combine(carry, local)));
        }
        carry = s.combine(carry, local[len - 1]);
    }
    carry
}

/// The total of a block, by the same operations as [`scan_block`].
#[inline(always)]
fn total<T: Element, S: Scanner<T>>(s: S, block: &[T], vectors: bool) -> S::Acc {
    let (mut carry, mut rest) = (s.identity(), block);
    while (vectors || T::IS_FLOAT) && rest.len() >= MIN_GROUP {
        let (group, tail) = rest.split_at(strip_len(rest.len()) * STRIPS);
        let ends = scan_strips::<T, S>(
            s,
            group,
            #[inline(always)]
            |_, _, _| (),
        );
        for end in ends {
            carry = s.combine(carry, end);
        }
        rest = tail;
    }
    let mut local = s.identity();
    for &x in rest {
        local = s.combine(local, s.lift(x));
    }
    s.combine(carry, local)
}

/// The totals of the strips of a group, accumulated side by side; `see(strip, index, value)` gets every
/// running value.
#[inline(always)]
fn scan_strips<T: Element, S: Scanner<T>>(
    s: S,
    group: &[T],
    mut see: impl FnMut(usize, usize, S::Acc),
) -> [S::Acc; STRIPS] {
    let len = group.len() / STRIPS;
    let mut strips: [&[T]; STRIPS] = [&[]; STRIPS];
    for (k, strip) in strips.iter_mut().enumerate() {
        *strip = &group[k * len..][..len];
    }
    let mut acc = [s.identity(); STRIPS];
    for i in 0..len {
        for k in 0..STRIPS {
            acc[k] = s.combine(acc[k], s.lift(strips[k][i]));
            see(k, i, acc[k]);
        }
    }
    acc
}

/// Scans in place down the columns of a matrix as wide as `carry`, whose running values it updates.
#[inline(always)]
fn advance<T: Element, S: Scanner<T>>(s: S, carry: &mut [S::Acc], rows: &mut [T]) {
    for row in rows.chunks_exact_mut(carry.len()) {
        advance_row(s, carry, row);
    }
}

/// [`advance`] over one row. A function of its own, whose arguments are known not to overlap.
#[inline(always)]
fn advance_row<T: Element, S: Scanner<T>>(s: S, carry: &mut [S::Acc], row: &mut [T]) {
    let row = &mut row[..carry.len()];
    for j in 0..carry.len() {
        let acc = s.combine(carry[j], s.lift(row[j]));
        carry[j] = acc;
        row[j] = s.lower(acc);
    }
}
