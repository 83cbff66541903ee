//! The loops that search for extremes, over bytes and behind `dyn`, so that the code that drives them is
//! compiled once.

use super::kernel::{RowStarts, fold_rows};
use super::lift::{Arith, Lift};
use super::operations::Extreme;
use super::order::Order;
use super::scratch::ValueBytes;
use super::sizes::{BATCH, LANES};
use crate::Element;
use core::marker::PhantomData;
use core::ops::Range;
use flex_math::simd::{Gains, Levels, vectorize_for, vectorize_with};

/// Number of short rows that are searched at once, one per lane.
const SIDE_BY_SIDE: usize = 16;

/// Rows shorter than this are searched side by side.
const MIN_VECTOR_ROW: usize = 24;

/// Rows shorter than this are searched to the end: a mispredicted early exit costs more.
const MIN_EARLY_EXIT: usize = 512;

/// Rows between two conversions of 32-bit row numbers to indices.
const MAX_ROWS: usize = 1 << 30;

/// A search for extremes. Positions and row lengths are counted in elements.
pub(super) trait ArgKernel: Sync {
    /// Bytes of an element.
    fn element_size(&self) -> usize;
    /// Bytes of a key.
    fn key_size(&self) -> usize;
    /// Writes the indices of the extremes of rows of `n` elements: at most [`BATCH`] rows of at most a
    /// [`BLOCK`](super::sizes::BLOCK) of elements.
    fn find_rows(&self, src: &[u8], starts: RowStarts, n: usize, indices: &mut [i64]);
    /// The key of the extreme of `n` elements from `start` on, at most a [`BLOCK`](super::sizes::BLOCK).
    fn best_key(&self, src: &[u8], start: usize, n: usize) -> ValueBytes;
    /// Whether the key `later` replaces the `best` key so far.
    fn beats(&self, later: ValueBytes, best: ValueBytes) -> bool;
    /// The index, relative to `start`, of the first of `n` elements that has this key.
    fn locate(&self, src: &[u8], start: usize, n: usize, key: ValueBytes) -> usize;
    /// Writes the `keys` and `indices` of the extremes of columns over some rows. `numbers` is working
    /// memory.
    fn track_rows(
        &self,
        src: &[u8],
        starts: RowStarts,
        rows: Range<usize>,
        keys: &mut [u8],
        indices: &mut [i64],
        numbers: &mut [u32],
    );
    /// Replaces the keys and indices of columns by the `earlier` ones where they do not beat them.
    fn absorb(&self, earlier_keys: &[u8], earlier: &[i64], keys: &mut [u8], indices: &mut [i64]);
}

/// The search for the elements `T` that come last in the order `O`.
pub(super) struct ByOrder<T, O> {
    order: O,
    element: PhantomData<fn(T)>,
}

impl<T, O> ByOrder<T, O> {
    pub fn new(order: O) -> Self {
        Self { order, element: PhantomData }
    }
}

impl<T: Lift, O: Order<T>> ByOrder<T, O> {
    /// The keys, in the order `to`, of the extremes of rows of `n` elements.
    fn best_keys(&self, to: impl Order<T>, src: &[T], starts: RowStarts, n: usize, best: &mut [T::Wide]) {
        let order = self.order.by_value();
        fold_rows(Extreme { order }, src, starts, n, best);
        for best in best {
            *best = to.key(order.element(*best));
        }
    }
}

impl<T: Lift, O: Order<T>> ArgKernel for ByOrder<T, O> {
    fn element_size(&self) -> usize {
        size_of::<T>()
    }

    fn key_size(&self) -> usize {
        size_of::<T::Wide>()
    }

    fn find_rows(&self, src: &[u8], starts: RowStarts, n: usize, indices: &mut [i64]) {
        let src = bytemuck::cast_slice(src);
        if n < MIN_VECTOR_ROW {
            return find_short_rows(self.order, src, starts, n, indices);
        }
        let best = &mut [T::Wide::ZERO; BATCH][..indices.len()];
        let order = self.order.equality();
        self.best_keys(order, src, starts, n, best);
        locate_rows(order, src, starts, n, best, indices);
    }

    fn best_key(&self, src: &[u8], start: usize, n: usize) -> ValueBytes {
        let mut best = [T::Wide::ZERO];
        let starts = RowStarts { first: start, stride: 0 };
        self.best_keys(self.order, bytemuck::cast_slice(src), starts, n, &mut best);
        ValueBytes::new(best[0])
    }

    fn beats(&self, later: ValueBytes, best: ValueBytes) -> bool {
        later.get::<T::Wide>().beats(best.get())
    }

    fn locate(&self, src: &[u8], start: usize, n: usize, key: ValueBytes) -> usize {
        let mut index = [0];
        let starts = RowStarts { first: start, stride: 0 };
        let order = self.order.equality();
        let key = order.key(self.order.element(key.get()));
        locate_rows(order, bytemuck::cast_slice(src), starts, n, &[key], &mut index);
        index[0] as usize
    }

    fn track_rows(
        &self,
        src: &[u8],
        starts: RowStarts,
        rows: Range<usize>,
        keys: &mut [u8],
        indices: &mut [i64],
        numbers: &mut [u32],
    ) {
        let (src, keys) = (bytemuck::cast_slice(src), bytemuck::cast_slice_mut(keys));
        track_rows(self.order, src, starts, rows, keys, indices, numbers);
    }

    fn absorb(&self, earlier_keys: &[u8], earlier: &[i64], keys: &mut [u8], indices: &mut [i64]) {
        let earlier_keys = bytemuck::cast_slice::<_, T::Wide>(earlier_keys);
        let keys = bytemuck::cast_slice_mut::<_, T::Wide>(keys);
        for (j, (key, &earlier_key)) in keys.iter_mut().zip(earlier_keys).enumerate() {
            if !key.beats(earlier_key) {
                (*key, indices[j]) = (earlier_key, earlier[j]);
            }
        }
    }
}

/// The levels of a search among elements `T`. Keys of integers and halves are compared as unsigned integers,
/// for which vectors of 32 bytes do: the position of the largest of 1 Mi i32 takes 71 us with AVX2 and took
/// 174 with AVX-512. AVX2 does not compare unsigned integers of 64 bits: it takes 471 us for i64, and AVX-512
/// 207 (one thread of Zen 5).
struct SearchLevels<T>(PhantomData<T>);

impl<T: Element> Gains for SearchLevels<T> {
    const LEVELS: Levels = if T::IS_FLOAT || size_of::<T>() == 8 { Levels::All } else { Levels::Lean };
}

/// Tracks the best value and its index along several rows at once, which needs vectors. Without branches,
/// since the position of an extreme is unpredictable.
fn find_short_rows<T: Lift, O: Order<T>>(order: O, src: &[T], starts: RowStarts, n: usize, out: &mut [i64]) {
    vectorize_with::<SearchLevels<T>, _>(
        #[inline(always)]
        |vectors| {
            if vectors {
                find_side_by_side::<SIDE_BY_SIDE, T, O>(order, src, starts, n, out);
            } else {
                find_side_by_side::<1, T, O>(order, src, starts, n, out);
            }
        },
    );
}

/// [`find_short_rows`] along `N` rows at once.
#[inline(always)]
fn find_side_by_side<const N: usize, T: Lift, O: Order<T>>(
    order: O,
    src: &[T],
    starts: RowStarts,
    n: usize,
    out: &mut [i64],
) {
    for (g, out) in out.chunks_mut(N).enumerate() {
        let last = out.len() - 1;
        let mut rows: [&[T]; N] = [&[]; N];
        let mut best = [T::Wide::ZERO; N];
        for l in 0..N {
            let at = starts.at(g * N + l.min(last));
            rows[l] = &src[at..at + n];
            best[l] = order.key(rows[l][0]);
        }
        let mut index = [0u32; N];
        for j in 1..n {
            let mut x = [T::ZERO; N];
            for l in 0..N {
                x[l] = rows[l][j];
            }
            for l in 0..N {
                let x = order.key(x[l]);
                let replace = x.beats(best[l]);
                best[l] = if replace { x } else { best[l] };
                index[l] = if replace { j as u32 } else { index[l] };
            }
        }
        for (o, i) in out.iter_mut().zip(index) {
            *o = i as i64;
        }
    }
}

/// The index in each row of the first element that equals the row's best value, or of the first NaN if that
/// value is NaN.
fn locate_rows<T: Lift, O: Order<T>>(
    order: O,
    src: &[T],
    starts: RowStarts,
    n: usize,
    best: &[T::Wide],
    out: &mut [i64],
) {
    vectorize_for::<SearchLevels<T>, _>(
        #[inline(always)]
        || {
            for (i, (o, &value)) in out.iter_mut().zip(best).enumerate() {
                let at = starts.at(i);
                *o = locate(order, &src[at..at + n], value) as i64;
            }
        },
    );
}

#[inline(always)]
fn locate<T: Lift, O: Order<T>>(order: O, row: &[T], value: T::Wide) -> usize {
    if row.len() < MIN_EARLY_EXIT {
        let mut first = u32::MAX;
        for (i, &x) in row.iter().enumerate() {
            let here = if same(order, x, value) { i as u32 } else { u32::MAX };
            first = first.min(here);
        }
        return first as usize;
    }
    let (chunks, rest) = row.as_chunks::<LANES>();
    let (mut at, mut tail) = (0, rest);
    for chunk in chunks {
        let mut any = false;
        for &x in chunk {
            any |= same(order, x, value);
        }
        if any {
            tail = chunk;
            break;
        }
        at += LANES;
    }
    for &x in tail {
        if same(order, x, value) {
            break;
        }
        at += 1;
    }
    at
}

#[inline(always)]
fn same<T: Lift, O: Order<T>>(order: O, x: T, value: T::Wide) -> bool {
    let x = order.key(x);
    (x == value) | (x.is_nan() & value.is_nan())
}

/// Writes the best keys of columns over some rows, and the rows' indices.
fn track_rows<T: Lift, O: Order<T>>(
    order: O,
    src: &[T],
    starts: RowStarts,
    rows: Range<usize>,
    keys: &mut [T::Wide],
    indices: &mut [i64],
    numbers: &mut [u32],
) {
    let width = keys.len();
    vectorize_for::<SearchLevels<T>, _>(
        #[inline(always)]
        || {
            for (key, &x) in keys.iter_mut().zip(starts.row(src, rows.start, width)) {
                *key = order.key(x);
            }
            indices.fill(rows.start as i64);
            for first in rows.clone().step_by(MAX_ROWS) {
                numbers.fill(u32::MAX);
                for i in 0..(rows.end - first).min(MAX_ROWS) {
                    track(order, starts.row(src, first + i, width), i as u32, keys, numbers);
                }
                for (index, &number) in indices.iter_mut().zip(&*numbers) {
                    *index = if number == u32::MAX { *index } else { first as i64 + number as i64 };
                }
            }
        },
    );
}

/// Where row `i` beats the best values, replaces them and their row numbers.
#[inline(always)]
fn track<T: Lift, O: Order<T>>(order: O, row: &[T], i: u32, best: &mut [T::Wide], number: &mut [u32]) {
    let width = row.len();
    let (best, number) = (&mut best[..width], &mut number[..width]);
    for j in 0..width {
        let value = order.key(row[j]);
        let replace = value.beats(best[j]);
        best[j] = if replace { value } else { best[j] };
        number[j] = if replace { i } else { number[j] };
    }
}
