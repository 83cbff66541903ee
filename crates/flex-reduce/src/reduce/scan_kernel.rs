//! The loops of scans, over bytes and behind `dyn`, so that the code that drives them is compiled once.
//!
//! A scan is a chain of dependent operations, so latency limits its speed. [`scan_group`] breaks the chain:
//! it scans eight strips of a row side by side, each from the identity, and then adds to each the total of
//! what precedes it. The end of a strip is computed exactly like the total added to the next strip, so sums
//! of non-negative numbers never decrease.

use super::scanner::Scanner;
use super::scratch::Packed;
use crate::Element;
use core::marker::PhantomData;
use core::ops::Range;
use core::slice::SliceIndex;
use flex_math::simd::{Gains, Levels, vectorize_for};

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

/// A scan over bytes. Running values are passed as [`Packed`], or as bytes of a carry that starts at a
/// [`Word`](super::scratch::Word).
pub(super) trait ScanKernel: Sync {
    /// Bytes of an element.
    fn element_size(&self) -> usize;
    /// Bytes of a running value.
    fn running_size(&self) -> usize;
    /// [`Scanner::STRIPS`].
    fn has_strips(&self) -> bool;
    /// The running value of no elements.
    fn identity(&self) -> Packed;
    /// The running value of `a` followed by `b`.
    fn combine(&self, a: Packed, b: Packed) -> Packed;
    /// Scans each of the rows of `n` elements in place, continuing from the running value `base`. Returns the
    /// total of the last row; without strips, the running value at its end.
    fn scan_rows(&self, rows: &mut [u8], n: usize, base: Packed) -> Packed;
    /// The total of a row, by the same operations as in [`scan_rows`](Self::scan_rows).
    fn total(&self, row: &[u8]) -> Packed;
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

    fn identity(&self) -> Packed {
        Packed::new(self.scanner.identity())
    }

    fn combine(&self, a: Packed, b: Packed) -> Packed {
        Packed::new(self.scanner.combine(a.get(), b.get()))
    }

    fn scan_rows(&self, rows: &mut [u8], n: usize, base: Packed) -> Packed {
        self.scan(&mut Rows::InPlace(bytemuck::cast_slice_mut(rows)), n, base)
    }

    fn total(&self, row: &[u8]) -> Packed {
        let row: &[T] = bytemuck::cast_slice(row);
        self.scan(&mut Rows::ForTotals(row), row.len(), self.identity())
    }

    fn clear(&self, carry: &mut [u8]) {
        bytemuck::cast_slice_mut(carry).fill(self.scanner.identity());
    }

    fn advance(&self, carry: &mut [u8], rows: &mut [u8]) {
        let (s, carry, rows) =
            (self.scanner, bytemuck::cast_slice_mut(carry), bytemuck::cast_slice_mut(rows));
        run::<T, S, _, _>(
            #[inline(always)]
            || advance::<T, S>(s, carry, rows),
        );
    }
}

/// Rows of equal length, one after the other.
enum Rows<'a, T> {
    /// Rows that the scanned rows replace.
    InPlace(&'a mut [T]),
    /// Rows of which only the totals are wanted. Both are one type, so that the loop is compiled once.
    ForTotals(&'a [T]),
}

impl<T> Rows<'_, T> {
    #[inline(always)]
    fn elements(&self) -> &[T] {
        match self {
            Self::InPlace(rows) => rows,
            Self::ForTotals(rows) => rows,
        }
    }

    /// The place of the scanned elements, if they are wanted.
    #[inline(always)]
    fn output<I: SliceIndex<[T]>>(&mut self, at: I) -> Option<&mut I::Output> {
        match self {
            Self::InPlace(rows) => Some(&mut rows[at]),
            Self::ForTotals(_) => None,
        }
    }
}

impl<T: Element, S: Scanner<T>> TypedScan<T, S> {
    /// Scans each of the rows of `n` elements, continuing from the running value `base`. Returns the total of
    /// the last row; without strips, the running value at its end.
    fn scan(&self, rows: &mut Rows<'_, T>, n: usize, base: Packed) -> Packed {
        let identity = self.scanner.identity();
        if n < STRIPS * (SHORT_STRIP + 1) {
            self.scan_with(&mut [identity; STRIPS * SHORT_STRIP], rows, n, base)
        } else {
            self.scan_with(&mut [identity; STRIPS * MAX_STRIP], rows, n, base)
        }
    }

    /// [`scan`](Self::scan) with room for the running values of all strips of a group.
    #[inline(never)]
    fn scan_with(&self, running: &mut [S::Acc], rows: &mut Rows<'_, T>, n: usize, base: Packed) -> Packed {
        let (s, base) = (self.scanner, base.get());
        Packed::new(run::<T, S, _, _>(
            #[inline(always)]
            || {
                let mut total = s.identity();
                let mut start = 0;
                while start < rows.elements().len() {
                    total = if S::STRIPS {
                        scan_strips_of_row(s, rows, start..start + n, base, running)
                    } else {
                        let row = rows.output(start..start + n).expect("totals are of scans with strips");
                        scan_chain(s, row, base)
                    };
                    start += n;
                }
                total
            },
        ))
    }
}

/// Runs the loop of a scanner, compiled for the instruction sets that the scanner names.
#[inline(always)]
fn run<T: Element, S: Scanner<T>, B: FnOnce() -> R, R>(body: B) -> R {
    vectorize_for::<TypedScan<T, S>, R>(body)
}

impl<T: Element, S: Scanner<T>> Gains for TypedScan<T, S> {
    const LEVELS: Levels = S::LEVELS;
}

/// Elements per strip of the next group, of `len` elements left; fewer than [`MIN_GROUP`] are left to a plain
/// chain.
#[inline(always)]
fn strip_len(len: usize) -> usize {
    (len / STRIPS).min(MAX_STRIP)
}

/// Scans a row in place as one chain, continuing from the running value `acc`. Returns the running value at
/// its end.
#[inline(always)]
fn scan_chain<T: Element, S: Scanner<T>>(s: S, row: &mut [T], mut acc: S::Acc) -> S::Acc {
    let mut rest = row;
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
    acc
}

/// Scans the row at `range` of `rows` by strips, continuing from the running value `base`. Returns the row's
/// total.
#[inline(always)]
fn scan_strips_of_row<T: Element, S: Scanner<T>>(
    s: S,
    rows: &mut Rows<'_, T>,
    range: Range<usize>,
    base: S::Acc,
    running: &mut [S::Acc],
) -> S::Acc {
    let (mut carry, mut start) = (s.identity(), range.start);
    while range.end - start >= MIN_GROUP {
        let end = start + strip_len(range.end - start) * STRIPS;
        carry = scan_group(s, rows, start..end, base, carry, running);
        start = end;
    }
    let mut local = s.identity();
    for i in start..range.end {
        local = s.combine(local, s.lift(rows.elements()[i]));
        if let Some(x) = rows.output(i) {
            *x = s.lower(s.combine(base, s.combine(carry, local)));
        }
    }
    s.combine(carry, local)
}

/// Scans the strips of a group, the elements `range` of `rows`, continuing from `base` combined with `carry`.
/// Returns `carry` combined with the total of the group. `running` has room for the running value of each
/// element.
#[inline(always)]
fn scan_group<T: Element, S: Scanner<T>>(
    s: S,
    rows: &mut Rows<'_, T>,
    range: Range<usize>,
    base: S::Acc,
    mut carry: S::Acc,
    running: &mut [S::Acc],
) -> S::Acc {
    let len = range.len() / STRIPS;
    let running = &mut running[..STRIPS * len];
    let ends = scan_side_by_side(s, &rows.elements()[range.clone()], running);
    for (k, end) in ends.into_iter().enumerate() {
        let start = range.start + k * len;
        if let Some(strip) = rows.output(start..start + len) {
            for (x, &local) in strip.iter_mut().zip(&running[k * len..]) {
                *x = s.lower(s.combine(base, s.combine(carry, local)));
            }
        }
        carry = s.combine(carry, end);
    }
    carry
}

/// The totals of the strips of a group, accumulated side by side. Writes the running value of each element to
/// `running`, which is as long as the group.
#[inline(always)]
fn scan_side_by_side<T: Element, S: Scanner<T>>(
    s: S,
    group: &[T],
    running: &mut [S::Acc],
) -> [S::Acc; STRIPS] {
    let len = group.len() / STRIPS;
    let (group, running) = (&group[..STRIPS * len], &mut running[..STRIPS * len]);
    let mut acc = [s.identity(); STRIPS];
    for i in 0..len {
        for k in 0..STRIPS {
            acc[k] = s.combine(acc[k], s.lift(group[k * len + i]));
            running[k * len + i] = acc[k];
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
