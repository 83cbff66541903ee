//! Running sums, products, minima and maxima.
//!
//! A scan is a chain of dependent operations, so its speed is that of their latency. [`scan_group`] breaks the chain:
//! it scans eight strips of a row side by side, each from the identity, and then adds what lies before each strip.
//! The value at the end of a strip is computed exactly as what is added to the next one, so sums of non-negative
//! numbers never decrease. Rows beyond [`BLOCK`] elements apply the same idea once more, to blocks, in parallel.
//! Float sums and products accumulate in f64.

use super::lift::{Arith, Lift};
use super::view::View;
use crate::error::{Result, check_axis};
use crate::parallel::{self, Work};
use crate::{Element, Tensor};
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// Strips that are scanned side by side.
const STRIPS: usize = 8;

/// Longest strip; the partial results of all strips stay in the first-level cache.
const MAX_STRIP: usize = 128;

/// Longest strip of rows for which clearing room for longer ones costs more than the scan: cumsum of 64 elements took 0.39 us, and
/// takes 0.2 without that and without a search for the order of its axis.
const SHORT_STRIP: usize = 16;

/// Elements that a chain takes at a step, where strips are not allowed but groups are: 4,096 products of f32 take 4.5 us on one
/// thread of a Xeon, and took 9.
const GROUP: usize = 4;

/// Rows shorter than this are scanned as a plain chain.
const MIN_GROUP: usize = 32;

/// Elements of a row that one task scans.
const BLOCK: usize = 64 * 1024;

/// Columns that are scanned together when a matrix is split by columns.
const TILE: usize = 256;

/// Number of tasks that is enough to split by outer index rather than by columns.
const ENOUGH_TASKS: usize = 8;

/// An associative operation to accumulate.
pub(super) trait Scanner<T>: Copy + Send + Sync {
    /// Running value.
    type Acc: Copy + Send + Sync;
    /// Whether strips may be combined after the fact: `a . (b . c)` overflows where `(a . b) . c` does not for
    /// products of floats.
    const STRIPS: bool;
    /// Whether a [`GROUP`] of elements may be combined before it meets the running value: where that has room for any group.
    const GROUPS: bool = false;
    /// The value of no elements.
    fn identity(self) -> Self::Acc;
    /// The value of one element.
    fn lift(self, value: T) -> Self::Acc;
    /// The operation.
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The running value as an element.
    fn lower(self, acc: Self::Acc) -> T;
}

/// A type that running sums and products are exact enough in.
pub(super) trait Accumulate: Lift {
    /// f64 for floats, the type itself for integers.
    type Acc: Arith;
    /// Exact.
    fn raise(self) -> Self::Acc;
    /// Rounds to nearest; halves through f32.
    fn lower(acc: Self::Acc) -> Self;
}

macro_rules! impl_accumulate {
    ($($ty:ty => $acc:ty;)*) => {$(
        impl Accumulate for $ty {
            type Acc = $acc;
            #[inline(always)]
            fn raise(self) -> $acc { self.widen() as $acc }
            #[inline(always)]
            fn lower(acc: $acc) -> Self { Self::narrow(acc as <Self as Lift>::Wide) }
        }
    )*};
}

impl_accumulate! {
    f64 => f64; f32 => f64; crate::f16 => f64; crate::bf16 => f64;
    u64 => u64; u32 => u32; u16 => u16; u8 => u8;
}

/// Running sum.
#[derive(Clone, Copy)]
pub(super) struct CumSum;

impl<T: Accumulate> Scanner<T> for CumSum {
    type Acc = T::Acc;
    const STRIPS: bool = true;
    #[inline(always)]
    fn identity(self) -> T::Acc {
        T::Acc::ZERO
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Acc {
        value.raise()
    }
    #[inline(always)]
    fn combine(self, a: T::Acc, b: T::Acc) -> T::Acc {
        a.add(b)
    }
    #[inline(always)]
    fn lower(self, acc: T::Acc) -> T {
        T::lower(acc)
    }
}

/// Running product.
#[derive(Clone, Copy)]
pub(super) struct CumProd;

impl<T: Accumulate> Scanner<T> for CumProd {
    type Acc = T::Acc;
    const STRIPS: bool = !T::IS_FLOAT;
    /// A product of four f32, or halves, is far from the ends of f64's range.
    const GROUPS: bool = T::IS_FLOAT && size_of::<T>() < size_of::<T::Acc>();
    #[inline(always)]
    fn identity(self) -> T::Acc {
        T::Acc::ONE
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Acc {
        value.raise()
    }
    #[inline(always)]
    fn combine(self, a: T::Acc, b: T::Acc) -> T::Acc {
        a.mul(b)
    }
    #[inline(always)]
    fn lower(self, acc: T::Acc) -> T {
        T::lower(acc)
    }
}

/// Running extreme; NaN from the first NaN on.
#[derive(Clone, Copy)]
pub(super) struct CumExtreme<V> {
    /// How to look at the elements.
    pub view: V,
}

impl<T: Lift, V: View<T>> Scanner<T> for CumExtreme<V> {
    type Acc = T::Wide;
    const STRIPS: bool = true;
    #[inline(always)]
    fn identity(self) -> T::Wide {
        T::Wide::LOWEST
    }
    #[inline(always)]
    fn lift(self, value: T) -> T::Wide {
        self.view.look(value)
    }
    #[inline(always)]
    fn combine(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.max(b)
    }
    #[inline(always)]
    fn lower(self, acc: T::Wide) -> T {
        self.view.unlook(acc)
    }
}

/// Scans along `axis`. The result has the memory order of the tensor, and its buffer when nobody else holds it.
pub(super) fn scan<T: Element, S: Scanner<T>>(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    s: S,
) -> Result<Tensor> {
    check_axis(op, axis, tensor.rank())?;
    if tensor.num_elements() == 0 {
        return tensor.into_contiguous();
    }
    if tensor.is_contiguous() {
        return scan_contiguous(op, tensor, axis, s);
    }
    let mut order: Vec<usize> = (0..tensor.rank()).collect();
    order.sort_by_key(|&k| core::cmp::Reverse(tensor.layout().strides()[k].unsigned_abs()));
    let in_order = tensor.clone().permute(&order)?;
    if !in_order.is_contiguous() {
        drop(in_order);
        return scan_contiguous(op, tensor.into_contiguous()?, axis, s);
    }
    drop(tensor);
    let mut back = alloc::vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    scan_contiguous(op, in_order, back[axis], s)?.permute(&back)
}

fn scan_contiguous<T: Element, S: Scanner<T>>(
    op: &'static str,
    mut tensor: Tensor,
    axis: usize,
    s: S,
) -> Result<Tensor> {
    let shape = tensor.shape().clone();
    let (n, width) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let run = |src: Option<&[T]>, out: &mut [T]| match width {
        1 => scan_rows(s, src, out, n),
        _ => scan_columns(s, src, out, n, width),
    };
    if let Some(data) = tensor.dense_mut::<T>() {
        run(None, data);
        return Ok(tensor);
    }
    let src = &tensor.storage::<T>()[tensor.layout().span()];
    Tensor::build::<T>(op, shape, tensor.dtype(), |out| run(Some(src), out))
}

/// What a step of a scan costs, as [`Work::Flops`] counts: 0.25 to 0.4 ns, since each waits for the one before.
const FLOPS: usize = 32;

/// Scans rows of `n` elements of `src`, or of `out` itself.
fn scan_rows<T: Element, S: Scanner<T>>(s: S, src: Option<&[T]>, out: &mut [T], n: usize) {
    let work = Work::Flops(FLOPS * out.len());
    if n <= BLOCK {
        let chunk = n * parallel::rows_per_task(2 * n * size_of::<T>());
        parallel::for_each_chunk(out, chunk, work, |k, out| {
            if let Some(src) = src {
                out.copy_from_slice(&src[k * chunk..k * chunk + out.len()]);
            }
            scan_blocks(s, out, n, s.identity());
        });
        return;
    }
    for (k, row) in out.chunks_exact_mut(n).enumerate() {
        scan_long_row(s, src.map(|src| &src[k * n..(k + 1) * n]), row);
    }
}

/// Scans a row in blocks: in parallel once each block's total is known, or one block after the other.
fn scan_long_row<T: Element, S: Scanner<T>>(s: S, src: Option<&[T]>, row: &mut [T]) {
    let scan = |b: usize, base: S::Acc, out: &mut [T]| {
        if let Some(src) = src {
            out.copy_from_slice(&src[b * BLOCK..b * BLOCK + out.len()]);
        }
        let len = out.len();
        scan_blocks(s, out, len, base)
    };
    let work = Work::Flops(FLOPS * row.len());
    if S::STRIPS && work.is_parallel() {
        let from: &[T] = src.unwrap_or(row);
        let totals = parallel::map_blocks(row.len(), BLOCK, work, |range| {
            vectorize(
                #[inline(always)]
                || total(s, &from[range.clone()]),
            )
        });
        let mut bases = Vec::with_capacity(totals.len());
        let mut base = s.identity();
        for total in totals {
            bases.push(base);
            base = s.combine(base, total);
        }
        parallel::for_each_chunk(row, BLOCK, work, |b, out| {
            scan(b, bases[b], out);
        });
        return;
    }
    let mut base = s.identity();
    for (b, out) in row.chunks_mut(BLOCK).enumerate() {
        let total = scan(b, base, out);
        base = if S::STRIPS { s.combine(base, total) } else { total };
    }
}

/// The sizes of the strips that a block is cut into; the rest of fewer than [`MIN_GROUP`] elements is a plain chain.
#[inline(always)]
fn strip_len(len: usize) -> usize {
    (len / STRIPS).min(MAX_STRIP)
}

/// Working memory: the running values of strips of up to `M` elements.
type Partial<A, const M: usize> = [[A; M]; STRIPS];

/// Scans each of the blocks of `n` elements in place as if `base` came before it; the total of the last one.
fn scan_blocks<T: Copy, S: Scanner<T>>(s: S, blocks: &mut [T], n: usize, base: S::Acc) -> S::Acc {
    vectorize(
        #[inline(always)]
        || {
            if n < STRIPS * (SHORT_STRIP + 1) {
                scan_each::<T, S, SHORT_STRIP>(s, blocks, n, base)
            } else {
                scan_each::<T, S, MAX_STRIP>(s, blocks, n, base)
            }
        },
    )
}

#[inline(always)]
fn scan_each<T: Copy, S: Scanner<T>, const M: usize>(
    s: S,
    blocks: &mut [T],
    n: usize,
    base: S::Acc,
) -> S::Acc {
    let mut total = s.identity();
    let mut partial: Partial<S::Acc, M> = [[total; M]; STRIPS];
    for block in blocks.chunks_exact_mut(n) {
        total = scan_block(s, block, base, &mut partial);
    }
    total
}

/// Scans a block in place as if `base` came before it, and returns the total of the block (of everything up to its
/// end when strips are not allowed).
#[inline(always)]
fn scan_block<T: Copy, S: Scanner<T>, const M: usize>(
    s: S,
    block: &mut [T],
    base: S::Acc,
    partial: &mut Partial<S::Acc, M>,
) -> S::Acc {
    if !S::STRIPS {
        let (mut acc, mut rest) = (base, block);
        if S::GROUPS {
            let (groups, tail) = rest.as_chunks_mut::<GROUP>();
            for group in groups {
                let [a, b, c, d] = group.map(|x| s.lift(x));
                let (ab, cd) = (s.combine(a, b), s.combine(c, d));
                *group = [a, ab, s.combine(ab, c), s.combine(ab, cd)].map(|x| s.lower(s.combine(acc, x)));
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
    while rest.len() >= MIN_GROUP {
        let (group, tail) = rest.split_at_mut(strip_len(rest.len()) * STRIPS);
        carry = scan_group(s, group, base, carry, partial);
        rest = tail;
    }
    let mut local = s.identity();
    for x in rest {
        local = s.combine(local, s.lift(*x));
        *x = s.lower(s.combine(base, s.combine(carry, local)));
    }
    s.combine(carry, local)
}

#[inline(always)]
fn scan_group<T: Copy, S: Scanner<T>, const M: usize>(
    s: S,
    group: &mut [T],
    base: S::Acc,
    mut carry: S::Acc,
    partial: &mut Partial<S::Acc, M>,
) -> S::Acc {
    let ends = scan_strips::<T, S, M>(
        s,
        group,
        #[inline(always)]
        |k, i, acc| partial[k][i] = acc,
    );
    let len = group.len() / STRIPS;
    for (k, strip) in group.chunks_exact_mut(len).enumerate() {
        for (x, &local) in strip.iter_mut().zip(&partial[k]) {
            *x = s.lower(s.combine(base, s.combine(carry, local)));
        }
        carry = s.combine(carry, ends[k]);
    }
    carry
}

/// The total of a block, by the same operations as [`scan_block`].
#[inline(always)]
fn total<T: Copy, S: Scanner<T>>(s: S, block: &[T]) -> S::Acc {
    let (mut carry, mut rest) = (s.identity(), block);
    while rest.len() >= MIN_GROUP {
        let (group, tail) = rest.split_at(strip_len(rest.len()) * STRIPS);
        let ends = scan_strips::<T, S, MAX_STRIP>(
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

/// Accumulates the strips of a group side by side; `see(strip, index, value)` gets every running value.
#[inline(always)]
fn scan_strips<T: Copy, S: Scanner<T>, const M: usize>(
    s: S,
    group: &[T],
    mut see: impl FnMut(usize, usize, S::Acc),
) -> [S::Acc; STRIPS] {
    let len = group.len() / STRIPS;
    let strips: [&[T]; STRIPS] = core::array::from_fn(|k| &group[k * len..(k + 1) * len]);
    let mut acc = [s.identity(); STRIPS];
    for i in 0..len.min(M) {
        for k in 0..STRIPS {
            acc[k] = s.combine(acc[k], s.lift(strips[k][i]));
            see(k, i, acc[k]);
        }
    }
    acc
}

/// Scans down the columns of matrices of `n` rows of `width` elements, all columns of a tile at once.
fn scan_columns<T: Element, S: Scanner<T>>(s: S, src: Option<&[T]>, out: &mut [T], n: usize, width: usize) {
    let work = Work::Flops(FLOPS * out.len());
    let matrix = n * width;
    if out.len() / matrix >= ENOUGH_TASKS || width < 2 * TILE {
        parallel::for_each_chunk(out, matrix, work, |k, out| {
            if let Some(src) = src {
                out.copy_from_slice(&src[k * matrix..(k + 1) * matrix]);
            }
            let mut carry = alloc::vec![s.identity(); width];
            advance(s, &mut carry, out);
        });
        return;
    }
    for (k, out) in out.chunks_exact_mut(matrix).enumerate() {
        let src = src.map(|src| &src[k * matrix..(k + 1) * matrix]);
        let mut tiles: Vec<Vec<&mut [T]>> = Vec::new();
        tiles.resize_with(width.div_ceil(TILE), || Vec::with_capacity(n));
        for row in out.chunks_exact_mut(width) {
            for (tile, part) in tiles.iter_mut().zip(row.chunks_mut(TILE)) {
                tile.push(part);
            }
        }
        parallel::for_each_chunk(&mut tiles, 1, work, |t, tile| {
            let mut carry = [s.identity(); TILE];
            for (i, row) in tile[0].iter_mut().enumerate() {
                if let Some(src) = src {
                    let at = i * width + t * TILE;
                    row.copy_from_slice(&src[at..at + row.len()]);
                }
                let len = row.len();
                advance(s, &mut carry[..len], row);
            }
        });
    }
}

/// The running values of columns, over the rows of a matrix as wide as `carry`.
fn advance<T: Copy, S: Scanner<T>>(s: S, carry: &mut [S::Acc], rows: &mut [T]) {
    vectorize(
        #[inline(always)]
        || {
            for row in rows.chunks_exact_mut(carry.len()) {
                for (acc, x) in carry.iter_mut().zip(row) {
                    *acc = s.combine(*acc, s.lift(*x));
                    *x = s.lower(*acc);
                }
            }
        },
    );
}
