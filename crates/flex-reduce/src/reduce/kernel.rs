//! The two inner loops of every reduction: along contiguous rows, and down the columns of a matrix.
//!
//! Accuracy of sums: both split their input into blocks and combine the blocks' results pairwise (a binary counter
//! of partial results, see [`Cascade`]), so the error grows with the logarithm of the number of blocks, as in
//! Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993).

use super::reducer::Reducer;
use alloc::vec::Vec;
use flex_math::fold_halves;
use flex_math::simd::{prefetch, prefetch_ahead, vectorize};

/// Independent partial results along a row: four AVX-512 registers of f32, enough to hide an addition's latency.
pub(super) const LANES: usize = 64;

/// A quarter of them.
pub(super) const QUARTER: usize = LANES / 4;

/// The same for rows too short to fold that many.
const SHORT_LANES: usize = 16;

/// Elements of a row between two pairwise combinations, unless its reducer knows better: 64 additions per lane.
pub(super) const BLOCK: usize = 4096;

/// Rows of a matrix that go into one pairwise combination.
const BLOCK_ROWS: usize = 128;

/// Rows added together before they go to the partial row, to save its loads and stores. Rows often lie a multiple of 4 KiB
/// apart: more of them at a time would compete for the same sets of the first-level cache.
pub(super) const GROUP: usize = 4;

/// Partial results of 1, 2, 4, ... blocks, combined as the carries of a binary counter run.
pub(super) struct Cascade<A> {
    levels: [A; 52],
    depth: usize,
    count: usize,
}

impl<A: Copy> Cascade<A> {
    fn new(identity: A) -> Self {
        Self { levels: [identity; 52], depth: 0, count: 0 }
    }

    /// Adds the next block's partial result.
    fn push(&mut self, mut acc: A, combine: impl Fn(A, A) -> A) {
        let mut carry = self.count;
        while carry & 1 == 1 {
            self.depth -= 1;
            acc = combine(self.levels[self.depth], acc);
            carry >>= 1;
        }
        self.levels[self.depth] = acc;
        self.depth += 1;
        self.count += 1;
    }

    /// The result of all blocks, `None` when there were none.
    fn finish(&self, combine: impl Fn(A, A) -> A) -> Option<A> {
        self.levels[..self.depth].iter().rev().copied().reduce(|acc, earlier| combine(earlier, acc))
    }
}

/// Combines partial results in order, pairwise.
pub(super) fn fold_partials<T, R: Reducer<T>>(r: R, partials: impl IntoIterator<Item = R::Acc>) -> R::Acc {
    let mut cascade = Cascade::new(r.identity());
    for acc in partials {
        cascade.push(acc, |a, b| r.combine(a, b));
    }
    cascade.finish(|a, b| r.combine(a, b)).unwrap_or(r.identity())
}

/// Reduces a contiguous run of any length on this thread.
pub(super) fn fold_run<T: Copy, R: Reducer<T>>(r: R, run: &[T]) -> R::Acc {
    let fold = |run| {
        let mut out = [r.identity()];
        fold_rows(r, run, Starts { start: 0, stride: 0 }, run.len(), &mut out);
        out[0]
    };
    if run.len() <= R::LONGEST {
        return fold(run);
    }
    fold_partials(r, run.chunks(R::LONGEST).map(fold))
}

/// Start positions that lie a constant stride apart.
#[derive(Clone, Copy)]
pub(super) struct Starts {
    /// The first one.
    pub start: usize,
    /// The distance to the next.
    pub stride: isize,
}

impl Starts {
    /// Position number `i`.
    #[inline(always)]
    pub fn at(self, i: usize) -> usize {
        self.start.wrapping_add_signed(i as isize * self.stride)
    }
}

/// Reduces the contiguous rows of `n` elements of `src` at `starts` to one value each. Rows longer than
/// [`Reducer::LONGEST`] lose accuracy.
pub(super) fn fold_rows<T: Copy, R: Reducer<T>>(
    r: R,
    src: &[T],
    starts: Starts,
    n: usize,
    out: &mut [R::Acc],
) {
    vectorize(
        #[inline(always)]
        || {
            for (i, o) in out.iter_mut().enumerate() {
                let at = starts.at(i);
                *o = fold_row(r, &src[at..at + n]);
            }
        },
    );
}

#[inline(always)]
fn fold_row<T: Copy, R: Reducer<T>>(r: R, row: &[T]) -> R::Acc {
    if row.len() < SHORT_LANES / 2 {
        let mut acc = r.identity();
        for &x in row {
            acc = r.combine(acc, r.lift(x));
        }
        acc
    } else if row.len() < LANES {
        fold_lanes::<SHORT_LANES, T, R>(r, row)
    } else {
        r.fold_row(row)
    }
}

/// Reduces a row in `N` lanes, which only ever get constant indices, so that they stay in registers.
#[inline(always)]
pub(super) fn fold_lanes<const N: usize, T: Copy, R: Reducer<T>>(r: R, row: &[T]) -> R::Acc {
    let mut acc = [r.identity(); N];
    let (chunks, rest) = row.as_chunks::<N>();
    for chunk in chunks {
        prefetch_ahead(chunk.as_ptr(), N);
        for l in 0..N {
            acc[l] = r.combine(acc[l], r.lift(chunk[l]));
        }
    }
    let rest = lift_padded::<N, T, R>(r, rest);
    for l in 0..N {
        acc[l] = r.combine(acc[l], rest[l]);
    }
    fold_halves(&mut acc, |a, b| r.combine(a, b))
}

/// Fewer than `N` elements, lifted, followed by identities.
#[inline(always)]
pub(super) fn lift_padded<const N: usize, T: Copy, R: Reducer<T>>(r: R, rest: &[T]) -> [R::Acc; N] {
    let mut padded = [r.identity(); N];
    for (p, &x) in padded.iter_mut().zip(rest) {
        *p = r.lift(x);
    }
    padded
}

/// A matrix of rows of contiguous elements: row `i` starts at `start + i * stride`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, T> {
    /// What the rows lie in.
    pub src: &'a [T],
    /// Position of row 0.
    pub start: usize,
    /// Distance between rows.
    pub stride: isize,
}

impl<'a, T> Rows<'a, T> {
    /// The first `width` elements of row `i`.
    #[inline(always)]
    pub fn row(&self, i: usize, width: usize) -> &'a [T] {
        let at = self.start.wrapping_add_signed(i as isize * self.stride);
        &self.src[at..at + width]
    }
}

/// Rows of one length that go into the partial results together.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a, T> {
    rows: [&'a [T]; GROUP],
    /// Distance to the rows that come next.
    next: isize,
}

/// Bytes of each row of a [`Group`] between what is folded and what is asked for. The sums of the columns of 1024 x 1024 f64, 8 MB
/// from the third cache of a Xeon (Emerald Rapids), take two threads 114 us with 1 or 2 KiB, 128 with 4, and 150 to 168 with
/// a whole row, of which four and the next four leave the first cache before they are read; those of f32 take 43 with 1 KiB, and 51.
const AHEAD: usize = 1024;

impl<'a, T: Copy> Group<'a, T> {
    /// `N` elements of each row from `at` on. Asks for what will be folded soon, in these rows or in the next ones: they begin
    /// other pages, where the hardware's own prefetchers stop.
    #[inline(always)]
    pub fn chunks<const N: usize>(self, at: usize) -> [&'a [T; N]; GROUP] {
        let width = self.rows[0].len();
        let ahead = (AHEAD / size_of::<T>()).min(width);
        let wrap = if at + ahead < width { 0 } else { self.next - width as isize };
        self.rows.map(|row| {
            let chunk = row[at..].first_chunk().expect("a row is as long as the partial results");
            prefetch(chunk.as_ptr().wrapping_offset(ahead as isize + wrap).cast(), size_of_val(chunk));
            chunk
        })
    }

    /// The elements at `at`.
    #[inline(always)]
    pub fn column(self, at: usize) -> [T; GROUP] {
        self.rows.map(|row| row[at])
    }
}

/// `acc[j] = combine(acc[j], elements of column j in rows first..last)`.
fn accumulate<T: Copy, R: Reducer<T>>(
    r: R,
    rows: Rows<'_, T>,
    first: usize,
    last: usize,
    acc: &mut [R::Acc],
) {
    vectorize(
        #[inline(always)]
        || {
            let width = acc.len();
            let mut i = first;
            while i + GROUP <= last {
                let group = Group {
                    rows: core::array::from_fn(|k| rows.row(i + k, width)),
                    next: GROUP as isize * rows.stride,
                };
                if !r.fold_group(group, acc) {
                    accumulate_group(r, group, acc);
                }
                i += GROUP;
            }
            while i < last {
                for (a, &x) in acc.iter_mut().zip(rows.row(i, width)) {
                    *a = r.combine(*a, r.lift(x));
                }
                i += 1;
            }
        },
    );
}

#[inline(always)]
fn accumulate_group<T: Copy, R: Reducer<T>>(r: R, group: Group<'_, T>, acc: &mut [R::Acc]) {
    let whole = acc.len() - acc.len() % LANES;
    let (chunks, rest) = acc.as_chunks_mut::<LANES>();
    for (c, acc) in chunks.iter_mut().enumerate() {
        let x = group.chunks::<LANES>(c * LANES);
        for l in 0..LANES {
            acc[l] = add_group(r, acc[l], [x[0][l], x[1][l], x[2][l], x[3][l]]);
        }
    }
    for (l, a) in rest.iter_mut().enumerate() {
        *a = add_group(r, *a, group.column(whole + l));
    }
}

#[inline(always)]
fn add_group<T, R: Reducer<T>>(r: R, acc: R::Acc, group: [T; GROUP]) -> R::Acc {
    combine_group(&|a, b| r.combine(a, b), acc, group.map(|x| r.lift(x)))
}

/// A group pairwise, and then with what was before.
#[inline(always)]
pub(super) fn combine_group<A>(combine: &impl Fn(A, A) -> A, acc: A, [x0, x1, x2, x3]: [A; GROUP]) -> A {
    combine(acc, combine(combine(x0, x1), combine(x2, x3)))
}

/// Reduces rows `first..last` of a matrix to the row `acc`, whose length is the width; `scratch` is working memory.
pub(super) fn fold_columns<T: Copy, R: Reducer<T>>(
    r: R,
    rows: Rows<'_, T>,
    first: usize,
    last: usize,
    acc: &mut [R::Acc],
    scratch: &mut Vec<R::Acc>,
) {
    acc.fill(r.identity());
    if !R::ROUNDS || last - first <= BLOCK_ROWS {
        accumulate(r, rows, first, last, acc);
        return;
    }
    // A `Cascade`, with rows in the place of numbers.
    let width = acc.len();
    let levels = (last - first).div_ceil(BLOCK_ROWS).ilog2() as usize + 1;
    scratch.clear();
    scratch.resize(levels * width, r.identity());
    let (mut depth, mut count, mut i) = (0usize, 0usize, first);
    while i < last {
        let end = (i + BLOCK_ROWS).min(last);
        acc.fill(r.identity());
        accumulate(r, rows, i, end, acc);
        let mut carry = count;
        while carry & 1 == 1 {
            depth -= 1;
            combine_rows(r, acc, &scratch[depth * width..(depth + 1) * width]);
            carry >>= 1;
        }
        scratch[depth * width..(depth + 1) * width].copy_from_slice(acc);
        depth += 1;
        count += 1;
        i = end;
    }
    // `acc` is the top of the stack.
    for level in (0..depth - 1).rev() {
        combine_rows(r, acc, &scratch[level * width..(level + 1) * width]);
    }
}

/// Reduces rows of `acc.len()` elements that lie one after the other, by taking several as one wide row first.
pub(super) fn fold_narrow<T: Copy, R: Reducer<T>>(
    r: R,
    run: &[T],
    acc: &mut [R::Acc],
    scratch: &mut Vec<R::Acc>,
) {
    const WIDTH: usize = 256;
    let width = acc.len();
    let rows = run.len() / width;
    let groups = (WIDTH / width).min(rows).max(1);
    let wide = groups * width;
    let mut lanes = [r.identity(); WIDTH];
    let lanes = &mut lanes[..wide];
    fold_columns(r, Rows { src: run, start: 0, stride: wide as isize }, 0, rows / groups, lanes, scratch);
    for (a, &x) in lanes.iter_mut().zip(&run[rows / groups * wide..]) {
        *a = r.combine(*a, r.lift(x));
    }
    acc.fill(r.identity());
    for group in lanes.chunks_exact(width) {
        combine_rows(r, acc, group);
    }
}

/// `acc[j] = combine(other[j], acc[j])`.
fn combine_rows<T, R: Reducer<T>>(r: R, acc: &mut [R::Acc], other: &[R::Acc]) {
    for (a, &o) in acc.iter_mut().zip(other) {
        *a = r.combine(o, *a);
    }
}
