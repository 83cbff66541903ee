//! Products of matrices of floats, with any strides.
//!
//! The [`grid`] cuts a product into parts for threads. [`blocks`] computes a part by blocks, packs them and
//! calls the kernels of [`tile`]; [`dots`] computes products that are too narrow for packing an operand, and
//! the [`few`] columns after the last vector; [`narrow`] computes rows of eight columns at most. The
//! [`right`] operand may be made while it is packed, or be kept packed in [`panels`].

mod blocks;
mod dots;
mod few;
mod grid;
mod narrow;
mod panels;
mod right;
mod tile;

pub use super::matrix::{MatLayout, MatMut, MatRef};
use crate::dtype::DType;
use crate::float::Real;
use crate::parallel::{self, Work};
use crate::storage::Finish;
use blocks::PartByBlocks;
use core::marker::PhantomData;
use dots::PartByDots;
use flex_math::simd::{SQUARE, WIDEST, dispatch, weighted};
use grid::Grid;
use narrow::NarrowRight;
pub(crate) use panels::PanelShape;
use panels::Panels;
pub use right::{Columns, Right};

/// Whether a product may use the thread pool. Inside a parallel section it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread alone.
    One,
    /// All threads of the pool, when the product is large enough.
    Pool,
}

/// Returns `m`, `n` and `k` of `a @ b`, for kernels that write the product row-major to `dst`.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn sizes<T>(dst: &[T], a: MatRef<'_, T>, b: MatRef<'_, T>) -> (usize, usize, usize) {
    let (m, n, k) = (a.layout().rows, b.layout().cols, a.layout().cols);
    assert!(b.layout().rows == k && dst.len() == m * n, "gemm: the shapes do not fit together");
    (m, n, k)
}

/// `dst = alpha * a @ b + beta * dst`. With `beta` zero, `dst` is not read: stale NaN in `dst` do not matter.
///
/// The order in which terms are summed depends on the shapes and strides alone, not on the number of threads.
///
/// # Panics
/// When the shapes do not fit together. Operations check the shapes of their tensors first.
pub fn gemm_into<T: Real>(
    dst: MatMut<'_, T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    alpha: T,
    beta: T,
    threads: Threads,
) {
    let b = Right::Matrix(b);
    // Not a negative zero, by which the zeros of `OldElements::none` would become positive.
    let scales = Scales { alpha, beta: if beta == T::ZERO { T::ZERO } else { beta } };
    GemmArgs { dst, a, b, kept: None, scales, row: None, completion: None, threads }.run();
}

/// `dst = a @ b`, plus `row` in each row: `a @ b` is added to the row, as [`gemm_into`] adds it to `dst`.
///
/// If `b` is to be `kept` in panels, `kept` has the shape of the panels and, as soon as they are packed,
/// their numbers. Then the order of the sums is always the order of [`tile`], whether or not they are packed
/// yet. Otherwise it is the order of [`gemm_into`], which may compute [`dots`].
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn gemm_plus_row<T: Real>(
    dst: MatMut<'_, T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    row: Option<&[T]>,
    kept: Option<(PanelShape, Option<&[T]>)>,
    threads: Threads,
) {
    let kept = kept.map(|(shape, panels)| {
        assert!(shape.is_of(b.layout()), "gemm: panels of another matrix");
        panels.map(|panels| Panels::new(panels, shape))
    });
    let scales = Scales { alpha: T::ONE, beta: if row.is_some() { T::ONE } else { T::ZERO } };
    GemmArgs { dst, a, b: Right::Matrix(b), kept, scales, row, completion: None, threads }.run();
}

/// The bias that the sums of a product begin with, and the operations that complete them.
#[derive(Clone, Copy)]
pub struct Completion<'a, T> {
    /// What the sums of each row begin with.
    pub bias: &'a [T],
    /// Gets every element of the output once, soon after it was computed. A call passes a run of neighbours:
    /// the position of the first in the slice of the output, and the bytes of all.
    pub finish: Option<Finish<'a>>,
}

/// `dst = a @ b`, plus `bias` in each row, and passes the elements to `finish` while they are in the caches.
///
/// The order in which products are summed does not depend on the number of threads. It is as in
/// [`gemm_into`], but for one to four columns after the last whole vector.
///
/// # Panics
/// When the shapes do not fit together, or the columns of `dst` are not neighbours in memory.
pub fn gemm_completed<T: Real>(
    dst: MatMut<'_, T>,
    a: MatRef<'_, T>,
    b: Right<'_, T>,
    completion: Completion<'_, T>,
    threads: Threads,
) {
    let scales = Scales { alpha: T::ONE, beta: T::ZERO };
    GemmArgs { dst, a, b, kept: None, scales, row: None, completion: Some(completion), threads }.run();
}

/// The arguments of [`gemm_into`] or [`gemm_completed`].
struct GemmArgs<'a, T> {
    dst: MatMut<'a, T>,
    a: MatRef<'a, T>,
    b: Right<'a, T>,
    /// If the right operand is to be kept in panels: the panels, as soon as they are packed.
    kept: Option<Option<Panels<'a, T>>>,
    scales: Scales<T>,
    /// Old elements of every row of the output, in place of those that it has.
    row: Option<&'a [T]>,
    completion: Option<Completion<'a, T>>,
    threads: Threads,
}

impl<'a, T: Real> GemmArgs<'a, T> {
    /// The same arguments with the name `U` for the type `T`.
    fn cast<U: Real>(self) -> GemmArgs<'a, U> {
        let Self { dst, a, b, kept, scales: Scales { alpha, beta }, row, completion, threads } = self;
        let scales = Scales { alpha: bytemuck::cast(alpha), beta: bytemuck::cast(beta) };
        let completion = completion
            .map(|Completion { bias, finish }| Completion { bias: bytemuck::cast_slice(bias), finish });
        let (kept, row) = (kept.map(|panels| panels.map(Panels::cast)), row.map(bytemuck::cast_slice));
        GemmArgs { dst: dst.cast(), a: a.cast(), b: b.cast(), kept, scales, row, completion, threads }
    }

    /// Computes the product. The loops are compiled here, once per type, and not in every crate that
    /// multiplies.
    fn run(self) {
        if T::DTYPE == DType::F64 { f64_into(self.cast()) } else { f32_into(self.cast()) }
    }
}

#[inline(never)]
fn f32_into(args: GemmArgs<'_, f32>) {
    real_into(args);
}

#[inline(never)]
fn f64_into(args: GemmArgs<'_, f64>) {
    real_into(args);
}

/// [`gemm_into`] for one of both types.
#[inline(always)]
fn real_into<'a, T: Real>(args: GemmArgs<'a, T>) {
    let GemmArgs { dst, a, b, kept, scales, row, completion, threads } = args;
    let (data, d) = dst.into_parts();
    let (l, r) = (a.layout(), b.layout());
    let (m, n, k) = (d.rows, d.cols, l.cols);
    assert!(
        l.rows == m && r.cols == n && r.rows == k,
        "gemm: cannot multiply {}x{} by {}x{} into {m}x{n}",
        l.rows,
        l.cols,
        r.rows,
        r.cols
    );
    if d.is_empty() {
        return;
    }
    if let Some(row) = row {
        assert!(row.len() == n, "gemm: cannot add {} numbers to each row of {m}x{n}", row.len());
    }
    let plain = scales.alpha == T::ONE && (row.is_some() || scales.beta == T::ZERO) && d.is_row_major();
    if let (Right::Matrix(b), None, None, true) = (b, completion, kept, plain)
        && let Some(b) = NarrowRight::of(l, b, row)
    {
        return multiply_narrow(&mut data[d.offset..][..m * n], a, b, threads);
    }
    let start = data.as_mut_ptr();
    let old = match row {
        Some(row) => OldElements { start: row.as_ptr(), row_stride: 0, col_stride: 1 },
        None if scales.beta == T::ZERO => OldElements::none(),
        None => OldElements::of(start, d),
    };
    if let Some(Completion { bias, .. }) = completion {
        assert!(
            d.col_stride == 1 && bias.len() == m,
            "gemm: cannot complete {d:?} with {} numbers",
            bias.len()
        );
    }
    // Rows and columns may change places, if both operands are stored, neither in panels, and nothing
    // follows.
    let (d, old, a, b, dots) = match (b, completion) {
        (Right::Matrix(b), None) if kept.is_none() => {
            // Vectors lie along the axis of the output whose neighbours are close in memory.
            let turn = |(d, old, a, b): (MatLayout, OldElements<T>, MatRef<'a, T>, MatRef<'a, T>)| {
                (d.transposed(), old.transposed(), b.transposed(), a.transposed())
            };
            let close = d.col_stride.unsigned_abs() <= d.row_stride.unsigned_abs();
            let (d, old, a, b) = if close { (d, old, a, b) } else { turn((d, old, a, b)) };
            let runs = a.layout().col_stride == 1 && b.layout().row_stride == 1;
            let dots = runs && dots::pay(d.rows, d.cols, k, false);
            // Dot products pass over the longer operand once.
            let (d, old, a, b) = if dots && m > n { turn((d, old, a, b)) } else { (d, old, a, b) };
            (d, old, a, Right::Matrix(b), dots)
        }
        (b, _) => (d, old, a, b, false),
    };
    let (m, n) = (d.rows, d.cols);
    let threads = if threads == Threads::Pool { parallel::threads() } else { 1 };
    let finish = completion.and_then(|completion| completion.finish);
    // Whether columns are packed before they are multiplied, and not while the first rows are.
    let few_apart = completion.is_some() && few::are_apart::<T>(m, k / grid::blocks(k), a.layout());
    let vectors = if few_apart { n - few::count(n, WIDEST) } else { n };
    let dear = b.layout().col_stride != 1 || !vectors.is_multiple_of(WIDEST);
    let grid = if matches!(b, Right::Columns { .. }) || finish.is_some() {
        Grid::fine(m, n, k, threads, dear)
    } else {
        Grid::new(m, n, k, threads)
    };
    let output = SharedOutput { start, old, data: PhantomData };
    parallel::for_each_task(grid.parts(), Work::Worthwhile, |part| {
        let (rows, cols) = grid.part(part);
        let d = d.part(&rows, &cols);
        let bias = completion.map(|completion| &completion.bias[rows.clone()]);
        let panels = kept.flatten().map(|panels| panels.columns(&cols));
        let old = output.old().at(rows.start, cols.start);
        let (a, b) = (a.part(rows, 0..k), b.columns(cols));
        // SAFETY: all positions of `d` lie inside of `data`, as `MatMut` has checked, and `data` is borrowed
        // exclusively. The parts of a grid do not overlap, each is computed once, and the layout of the
        // output is injective: no two elements of a part lie at the same position, and none is in another
        // part. `old` begins with the old elements of the part: its own, `none`, or the part's columns of
        // `row`, which is as long as the output's rows, and borrowed, so that it does not overlap `data`.
        let part = unsafe { ProductPart::new(output.start(), (d, old), a, b, scales, bias) };
        let part = ProductPart { panels, few_apart, ..part };
        match b {
            Right::Matrix(right) if dots => multiply_by_dots(part, right, grid.blocks),
            _ => dispatch(PartByBlocks { part, blocks: grid.blocks }),
        }
        let Some(finish) = finish else { return };
        // Rows without a gap between them are one run.
        let (runs, len) =
            if d.row_stride == d.cols as isize { (1, d.rows * d.cols) } else { (d.rows, d.cols) };
        for run in 0..runs {
            let first = d.position(run, 0);
            // SAFETY: the run consists of elements of this part, which are neighbours. They lie inside of
            // `data`, and nobody else uses them now.
            let run = unsafe { core::slice::from_raw_parts_mut(output.start().add(first), len) };
            finish(first, bytemuck::cast_slice_mut(run));
        }
    });
}

/// Computes a [narrow] product, whose rows lie one after the other in `out`.
#[inline(always)]
fn multiply_narrow<T: Real>(out: &mut [T], a: MatRef<'_, T>, b: NarrowRight<T>, threads: Threads) {
    let (l, cols) = (a.layout(), b.cols());
    let bytes = (l.cols + cols) * size_of::<T>();
    let rows = if threads == Threads::Pool { parallel::rows_per_task(bytes) } else { l.rows };
    let work = Work::Bytes(bytes.saturating_mul(l.rows));
    parallel::for_each_chunk(out, rows * cols, work, |task, out| {
        let first = task * rows;
        b.multiply(a, first..first + out.len() / cols, out);
    });
}

/// Computes a part by dot products. Compiled once for its callers.
#[inline(never)]
fn multiply_by_dots<T: Real>(part: ProductPart<'_, T>, right: MatRef<'_, T>, blocks: usize) {
    dispatch(PartByDots { part, right, blocks });
}

/// Where the old elements of an output are: in the output, in a row that stands for each of its rows, or, if
/// none are added, in a few zeros that stand for all.
///
/// The output need not be set to the row first. With such a pass over it, 1,024 rows by 384 x 1,536 were
/// multiplied at 71.8 GFLOP/s, and without it at 81.6, 128 by 768 x 3,072 at 66.6 and 77.5 (one thread of
/// Zen 3); on two threads, 8 rows by a square of 256 gain a tenth. Setting the rows of each strip before the
/// strip was multiplied gained nothing: its stores waited for memory all at once. The zeros spare each tile a
/// second loop of stores.
#[derive(Clone, Copy)]
struct OldElements<T> {
    /// Row 0, column 0.
    start: *const T,
    row_stride: isize,
    col_stride: isize,
}

/// Numbers that change no sum, not even a negative zero: as many as a row of a tile has elements.
static NOTHING_F32: [f32; tile::WIDTH] = [-0.0; tile::WIDTH];
static NOTHING_F64: [f64; tile::WIDTH] = [-0.0; tile::WIDTH];

impl<T> OldElements<T> {
    /// [`tile::WIDTH`] zeros that stand for the elements of each row.
    fn none() -> Self {
        let start: *const T = match size_of::<T>() {
            4 => NOTHING_F32.as_ptr().cast(),
            _ => NOTHING_F64.as_ptr().cast(),
        };
        Self { start, row_stride: 0, col_stride: 0 }
    }

    /// The elements of this layout, whose positions count from `data`.
    fn of(data: *const T, layout: MatLayout) -> Self {
        let MatLayout { offset, row_stride, col_stride, .. } = layout;
        Self { start: data.wrapping_add(offset), row_stride, col_stride }
    }

    /// Rows and columns exchanged.
    fn transposed(self) -> Self {
        Self { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// The elements from this row and column on.
    #[inline(always)]
    fn at(self, row: usize, col: usize) -> Self {
        let step = |index: usize, stride: isize| (index as isize).wrapping_mul(stride);
        let step = step(row, self.row_stride).wrapping_add(step(col, self.col_stride));
        Self { start: self.start.wrapping_offset(step), ..self }
    }
}

/// How a product stores its sums: `alpha * sum + beta * old`. With `beta` zero the old value is not used:
/// tiles read the zeros of [`OldElements::none`] in its place, dot products nothing.
#[derive(Clone, Copy)]
struct Scales<T> {
    alpha: T,
    beta: T,
}

impl<T: Real> Scales<T> {
    /// Whether the `old` elements of neighbouring columns are neighbours in memory, or none are added.
    #[inline(always)]
    fn takes_runs(self, old_stride: isize) -> bool {
        old_stride == 1 || self.beta == T::ZERO
    }

    /// Writes the element `out`, whose sum is `sum`; `old` is its old value.
    ///
    /// # Safety
    /// `old` must be valid for reads, and `out` for writes.
    #[inline(always)]
    unsafe fn store(self, sum: T, old: *const T, out: *mut T) {
        let Self { alpha, beta } = self;
        // SAFETY: as the caller vouches.
        unsafe { *out = if beta == T::ZERO { alpha * sum } else { beta * *old + alpha * sum } };
    }

    /// [`store`](Self::store) for neighbours, from `old` and `out` on.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[inline(always)]
    unsafe fn store_run<const N: usize>(self, sums: [T; N], old: *const T, out: *mut T) {
        let Self { alpha, beta } = self;
        let (old, out) = (old.cast::<[T; N]>(), out.cast::<[T; N]>());
        // SAFETY: as the caller vouches.
        let old = if beta == T::ZERO { None } else { Some(unsafe { old.read_unaligned() }) };
        let mut new = sums;
        match new.first_chunk_mut() {
            Some(four) if N == SQUARE => {
                let old = old.and_then(|old| old.first_chunk().copied());
                *four = weighted((alpha, *four), old.map(|old| (beta, old)));
            }
            _ => {
                for (i, new) in new.iter_mut().enumerate() {
                    *new = old.map_or(alpha * *new, |old| beta * old[i] + alpha * *new);
                }
            }
        }
        // SAFETY: as the caller vouches.
        unsafe { out.write_unaligned(new) };
    }
}

/// A part of a product, which has elements: `d = alpha * a @ b + beta * old`.
struct ProductPart<'a, T> {
    /// The positions of `d` count from here.
    target: *mut T,
    d: MatLayout,
    /// The old elements of `d`.
    old: OldElements<T>,
    a: MatRef<'a, T>,
    b: Right<'a, T>,
    /// Its right operand, packed.
    panels: Option<Panels<'a, T>>,
    scales: Scales<T>,
    /// What the sums of each row begin with, if not with zero.
    bias: Option<&'a [T]>,
    /// Whether a [few] columns after the last whole vector are multiplied apart.
    few_apart: bool,
}

impl<'a, T: Real> ProductPart<'a, T> {
    /// # Panics
    /// When the shapes do not fit together.
    ///
    /// # Safety
    /// Every position of `d` may be read and written until the part is computed, and lies outside of the
    /// operands. `old` must be the elements of `d`; or numbers outside of `d` that may be read meanwhile, as
    /// many as `d` has columns if they stand for each row, or rows if they stand for each column; or, if
    /// `beta` is zero, [`OldElements::none`].
    unsafe fn new(
        target: *mut T,
        (d, old): (MatLayout, OldElements<T>),
        a: MatRef<'a, T>,
        b: Right<'a, T>,
        scales: Scales<T>,
        bias: Option<&'a [T]>,
    ) -> Self {
        let (l, r) = (a.layout(), b.layout());
        assert!(
            l.rows == d.rows
                && r.cols == d.cols
                && r.rows == l.cols
                && bias.is_none_or(|bias| bias.len() == d.rows),
            "gemm: parts that do not fit together"
        );
        Self { target, d, old, a, b, panels: None, scales, bias, few_apart: false }
    }

    /// What the sums of block `index` of the terms are added to, and how: those of later blocks are added to
    /// the sums of the first one.
    #[inline(always)]
    fn old_of_block(&self, index: usize) -> (OldElements<T>, Scales<T>) {
        match index {
            0 => (self.old, self.scales),
            _ => (OldElements::of(self.target, self.d), Scales { beta: T::ONE, ..self.scales }),
        }
    }
}

/// The memory of an output, which threads share. Each writes elements of its own.
struct SharedOutput<'a, T> {
    start: *mut T,
    old: OldElements<T>,
    data: PhantomData<&'a mut [T]>,
}

// SAFETY: what is shared is the addresses alone; `real_into` argues that no two threads use the same elements
// behind them, unless all only read them. The elements may be sent to other threads, and read by several.
unsafe impl<T: Send + Sync> Sync for SharedOutput<'_, T> {}

impl<T: Copy> SharedOutput<'_, T> {
    fn start(&self) -> *mut T {
        self.start
    }

    fn old(&self) -> OldElements<T> {
        self.old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Element;
    use crate::matmul::tests::noise;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::ops::Range;
    use std::sync::Mutex;

    fn at(data: &[f64], l: &MatLayout, i: usize, j: usize) -> f64 {
        let position = l.offset as isize + i as isize * l.row_stride + j as isize * l.col_stride;
        data[position as usize]
    }

    /// Every layout of a `rows x cols` matrix inside a buffer: transposed, flipped, stepped, expanded.
    fn layouts(rows: usize, cols: usize, writable: bool) -> Vec<(MatLayout, usize)> {
        let plain = MatLayout::row_major(rows, cols);
        let len = rows * cols;
        let last = len.saturating_sub(1);
        let mut list = vec![
            (plain, len),
            (MatLayout::col_major(rows, cols), len),
            (plain.at(3), len + 3),
            (MatLayout { row_stride: -plain.row_stride, col_stride: -1, offset: last, ..plain }, len.max(1)),
            (
                MatLayout { row_stride: 2 * cols as isize + 1, col_stride: 2, ..plain },
                rows * (2 * cols + 1) + 2 * cols,
            ),
        ];
        if !writable {
            list.push((MatLayout { row_stride: 0, ..plain }, cols.max(1)));
            list.push((MatLayout { col_stride: 0, row_stride: 1, ..plain }, rows.max(1)));
            list.push((MatLayout { row_stride: 1, col_stride: 1, ..plain }, rows + cols));
        }
        list
    }

    fn on_the_pool<T: Real>(d: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T, beta: T) {
        gemm_into(d, a, b, alpha, beta, Threads::Pool);
    }

    type Multiply<T> = fn(MatMut<'_, T>, MatRef<'_, T>, MatRef<'_, T>, T, T);

    fn check<T: Real>([m, n, k]: [usize; 3], tolerance: f64, multiply: Multiply<T>) {
        for (da, la) in layouts(m, k, false) {
            for (db, lb) in layouts(k, n, false) {
                for (dd, ld) in layouts(m, n, true) {
                    for beta in [0.0, 1.0, -0.5] {
                        let (a, b): (Vec<T>, Vec<T>) = (noise(la, 1), noise(lb, 2));
                        let mut d: Vec<T> = noise(ld, 3);
                        let before: Vec<f64> = d.iter().map(|v| Element::to_f64(*v)).collect();
                        if beta == 0.0 {
                            d.iter_mut().for_each(|v| *v = T::from_f64(f64::NAN));
                        }
                        multiply(
                            MatMut::new(&mut d, dd),
                            MatRef::new(&a, da),
                            MatRef::new(&b, db),
                            T::from_f64(1.5),
                            T::from_f64(beta),
                        );
                        let wide = |v: &[T]| v.iter().map(|v| Element::to_f64(*v)).collect::<Vec<f64>>();
                        let (a, b, d) = (wide(&a), wide(&b), wide(&d));
                        for i in 0..m {
                            for j in 0..n {
                                let mut want = if beta == 0.0 { 0.0 } else { beta * at(&before, &dd, i, j) };
                                for p in 0..k {
                                    want += 1.5 * at(&a, &da, i, p) * at(&b, &db, p, j);
                                }
                                let got = at(&d, &dd, i, j);
                                let bound = tolerance * (1.0 + k as f64);
                                assert!(
                                    (got - want).abs() <= bound,
                                    "{m}x{n}x{k} {got} {want} {dd:?} {da:?} {db:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn any_strides_match_the_definition() {
        for (m, n, k) in [(1, 1, 1), (3, 4, 5), (17, 33, 2), (1, 20, 9), (20, 1, 9), (65, 18, 31), (5, 7, 0)]
        {
            check::<f32>([m, n, k], 1e-6, on_the_pool);
            check::<f64>([m, n, k], 1e-15, on_the_pool);
        }
    }

    /// `a @ b`, row-major, of a row-major or column-major `a` and a row-major `b`.
    fn product<T: Real>([m, n, k]: [usize; 3], by_columns: bool, a: &[T], b: &[T]) -> Vec<T> {
        let left = if by_columns { MatLayout::col_major(m, k) } else { MatLayout::row_major(m, k) };
        let (a, b) = (MatRef::new(a, left), MatRef::new(b, MatLayout::row_major(k, n)));
        let mut d = vec![T::from_f64(f64::NAN); m * n];
        let out = MatMut::new(&mut d, MatLayout::row_major(m, n));
        gemm_into(out, a, b, T::ONE, T::ZERO, Threads::One);
        d
    }

    #[test]
    fn operands_that_are_packed_on_the_way_match_the_definition() {
        // More than 64 KiB of a block of terms; blocks of columns that end in whole vectors, and others;
        // every number of rows up to two tiles, and around the 768 rows that are packed at a time.
        let mut shapes = vec![];
        for (n, k) in [(64, 300), (80, 513), (272, 512), (275, 520), (131, 1030)] {
            shapes.extend((1..=15).map(|m| [m, n, k]));
        }
        shapes.extend([769, 774, 775, 776, 777, 782].map(|m| [m, 96, 200]));
        for [m, n, k] in shapes {
            for by_columns in [false, true] {
                let (a, b) = (noise::<f64>(m * k, 1), noise::<f64>(k * n, 2));
                let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<_>>();
                let wide = product([m, n, k], by_columns, &a, &b);
                let single = product([m, n, k], by_columns, &narrow(&a), &narrow(&b));
                let mut want = vec![0.0; m * n];
                for i in 0..m {
                    for p in 0..k {
                        let left = if by_columns { a[p * m + i] } else { a[i * k + p] };
                        for j in 0..n {
                            want[i * n + j] += left * b[p * n + j];
                        }
                    }
                }
                for (i, want) in want.iter().enumerate() {
                    let close = |got: f64, tolerance: f64| (got - want).abs() <= tolerance * k as f64;
                    assert!(close(wide[i], 1e-15), "{m}x{n}x{k} {} {want}", wide[i]);
                    assert!(close(f64::from(single[i]), 1e-6), "{m}x{n}x{k} {} {want}", single[i]);
                }
            }
        }
    }

    /// A matrix that is packed as if it were not stored.
    struct Unstored<'a>(MatRef<'a, f32>);

    impl Columns for Unstored<'_> {
        fn pack(&self, terms: Range<usize>, cols: Range<usize>, width: usize, to: &mut [u8]) {
            let to: &mut [f32] = bytemuck::cast_slice_mut(to);
            for (p, term) in terms.clone().enumerate() {
                for (j, col) in cols.clone().enumerate() {
                    to[j / width * width * terms.len() + p * width + j % width] = self.0.at(term, col);
                }
            }
        }
    }

    #[test]
    fn completed_products_pass_each_element_on_once() {
        // Around whole vectors and panels, strips, parts of 144 rows and 1,024 columns, and blocks of terms.
        for [m, n, k] in [
            [1, 1, 3],
            [7, 33, 20],
            [48, 196, 70],
            [100, 49, 600],
            [73, 64, 40],
            [150, 2100, 17],
            [3, 130, 0],
        ] {
            let (a, b, bias): (Vec<f32>, Vec<f32>, Vec<f32>) =
                (noise(m * k, 1), noise(k * n, 2), noise(m, 3));
            let left = MatRef::new(&a, MatLayout::row_major(m, k));
            let right = MatRef::new(&b, MatLayout::row_major(k, n));
            let unstored = Unstored(right);
            let columns = Right::Columns { columns: &unstored, terms: k, cols: (0, n) };
            // Rows without a gap, and with one.
            for (right, pitch) in [(Right::Matrix(right), n), (columns, n), (columns, n + 5)] {
                let (mut d, seen) = (vec![f32::NAN; m * pitch], Mutex::new(vec![]));
                let layout = MatLayout { row_stride: pitch as isize, ..MatLayout::row_major(m, n) };
                let finish = |at: usize, bytes: &mut [u8]| {
                    let run: &mut [f32] = bytemuck::cast_slice_mut(bytes);
                    seen.lock().unwrap().extend(at..at + run.len());
                    run.iter_mut().for_each(|v| *v = -*v);
                };
                let completion = Completion { bias: &bias, finish: Some(&finish) };
                gemm_completed(MatMut::new(&mut d, layout), left, right, completion, Threads::Pool);
                let mut seen = seen.into_inner().unwrap();
                seen.sort_unstable();
                let all: Vec<usize> = (0..m).flat_map(|i| i * pitch..i * pitch + n).collect();
                assert!(seen == all, "{m}x{n}x{k}: every element once");
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let terms = (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j]));
                    let want = -(f64::from(bias[i]) + terms.sum::<f64>());
                    let got = f64::from(d[i * pitch + j]);
                    assert!((got - want).abs() <= 1e-6 * (1 + k) as f64, "{m}x{n}x{k} {i},{j}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn dot_products_match_the_definition() {
        // Around whole vectors, tiles of 4x4 and 2x4, blocks of 512 terms, and a left operand that exceeds
        // its share of the cache.
        let terms = [15, 16, 17, 31, 33, 100, 511, 512, 513, 1030];
        let mut shapes: Vec<[usize; 3]> = vec![[128, 9, 1400], [128, 96, 200], [9, 127, 3000], [130, 7, 200]];
        for (i, k) in terms.into_iter().enumerate() {
            shapes.extend([[2 + i % 4, 3 + i, k], [11, 2 + i % 5, k], [8, 12, k]]);
        }
        for [m, n, k] in shapes {
            let (mut a, mut b) = (noise::<f64>(m * k, 1), noise::<f64>(k * n, 2));
            // Numbers that a vector reads twice at the end must not count twice, nor become NaN.
            let again = k.saturating_sub(k % 16 + 1);
            (a[again], b[again]) = (f64::INFINITY, 1.0);
            let multiply = |wide: bool| -> Vec<f64> {
                let (l, r) = (MatLayout::row_major(m, k), MatLayout::col_major(k, n));
                let (out, one, zero) = (MatLayout::row_major(m, n), 1.0, 0.0);
                if wide {
                    let mut d = vec![f64::NAN; m * n];
                    let (a, b) = (MatRef::new(&a, l), MatRef::new(&b, r));
                    gemm_into(MatMut::new(&mut d, out), a, b, one, zero, Threads::One);
                    return d;
                }
                let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<_>>();
                let (a, b, mut d) = (narrow(&a), narrow(&b), vec![f32::NAN; m * n]);
                let (a, b) = (MatRef::new(&a, l), MatRef::new(&b, r));
                gemm_into(MatMut::new(&mut d, out), a, b, 1.0, 0.0, Threads::One);
                d.into_iter().map(f64::from).collect()
            };
            for (wide, tolerance) in [(true, 1e-15), (false, 1e-6)] {
                for (at, got) in multiply(wide).into_iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let want: f64 = (0..k).map(|p| a[i * k + p] * b[j * k + p]).sum();
                    let close = if want.is_finite() {
                        (got - want).abs() <= tolerance * k as f64
                    } else {
                        got == want
                    };
                    assert!(close, "{m}x{n}x{k} {i},{j}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn narrow_products_match_the_definition() {
        // Around groups of four rows, whole vectors, and the sizes from which other ways serve; with gaps
        // between the rows of the left operand, from the last row to the first, and one row for all; and a
        // right operand of any strides.
        for m in [31, 32, 33, 34, 35, 63, 10_000] {
            for (n, k) in [(1, 1), (2, 3), (3, 3), (4, 2), (4, 16), (5, 7), (7, 4), (8, 2), (8, 16), (9, 17)]
            {
                narrow_product::<f32>([m, n, k], 1e-6);
                narrow_product::<f64>([m, n, k], 1e-15);
            }
        }
    }

    fn narrow_product<T: Real>([m, n, k]: [usize; 3], tolerance: f64) {
        let (a, b, row): (Vec<T>, Vec<T>, Vec<T>) = (noise(m * (k + 1), 1), noise(k * n, 2), noise(n, 3));
        let gaps = MatLayout { row_stride: k as isize + 1, offset: 1, ..MatLayout::row_major(m, k) };
        let back = MatLayout { row_stride: -gaps.row_stride, offset: (m - 1) * (k + 1), ..gaps };
        let one = MatLayout { row_stride: 0, ..gaps };
        let wide = |v: T| Element::to_f64(v);
        let rights = [MatLayout::row_major(k, n), MatLayout::col_major(k, n)];
        for (left, right) in rights.into_iter().flat_map(|right| [gaps, back, one].map(|left| (left, right)))
        {
            let (left, right) = (MatRef::new(&a, left), MatRef::new(&b, right));
            let (mut plain, mut added) = (vec![T::from_f64(f64::NAN); m * n], vec![T::ZERO; m * n]);
            let layout = MatLayout::row_major(m, n);
            gemm_into(MatMut::new(&mut plain, layout), left, right, T::ONE, T::ZERO, Threads::Pool);
            gemm_plus_row(MatMut::new(&mut added, layout), left, right, Some(&row), None, Threads::Pool);
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let want: f64 = (0..k).map(|p| wide(left.at(i, p)) * wide(right.at(p, j))).sum();
                let close = |got: T, want: f64| (wide(got) - want).abs() <= tolerance * (k + 1) as f64;
                let (plain, added) = (plain[i * n + j], added[i * n + j]);
                assert!(close(plain, want), "{m}x{n}x{k} {i},{j}: {plain:?} {want}");
                assert!(close(added, want + wide(row[j])), "{m}x{n}x{k} {i},{j} plus a row: {added:?}");
            }
        }
    }

    #[test]
    fn rows_of_narrow_products_do_not_touch_each_other() {
        // Numbers that are not finite stay in their rows.
        let (m, n, k) = (40, 3, 2);
        let mut a = vec![-0.0f32; m * k];
        (a[2 * k], a[7 * k + 1], a[39 * k]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let (left, right) = (MatLayout::row_major(m, k), MatLayout::row_major(k, n));
        let (b, row) = (vec![1.0f32; k * n], [-0.0f32; 3]);
        let mut got = vec![1.0f32; m * n];
        let out = MatMut::new(&mut got, MatLayout::row_major(m, n));
        let (a, b) = (MatRef::new(&a, left), MatRef::new(&b, right));
        gemm_plus_row(out, a, b, Some(&row), None, Threads::Pool);
        for (i, got) in got.chunks(n).enumerate() {
            match i {
                2 => assert!(got.iter().all(|v| v.is_nan())),
                7 => assert_eq!(got, [f32::INFINITY; 3]),
                39 => assert_eq!(got, [f32::NEG_INFINITY; 3]),
                _ => assert_eq!(got, [0.0; 3]),
            }
        }
    }

    #[test]
    fn a_row_is_added_as_if_every_row_held_it() {
        // Whole vectors and others, strips of all heights, several blocks of terms, and dot products of few
        // rows and of few columns.
        for shape in [[1, 40, 30], [2, 32, 1100], [9, 37, 70], [30, 16, 513], [130, 7, 600], [200, 65, 40]] {
            adds_a_row::<f32>(shape);
            adds_a_row::<f64>(shape);
        }
    }

    fn adds_a_row<T: Real>([m, n, k]: [usize; 3]) {
        let (a, b, row): (Vec<T>, Vec<T>, Vec<T>) = (noise(m * k, 1), noise(k * n, 2), noise(n, 3));
        let a = MatRef::new(&a, MatLayout::row_major(m, k));
        let gaps = MatLayout { row_stride: 2 * n as isize, col_stride: 2, ..MatLayout::row_major(m, n) };
        for right in [MatLayout::row_major(k, n), MatLayout::col_major(k, n)] {
            for out in [MatLayout::row_major(m, n), MatLayout::col_major(m, n), gaps] {
                let (b, len) = (MatRef::new(&b, right), 2 * m * n);
                let (mut got, mut want) = (vec![T::ONE; len], vec![T::ONE; len]);
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    want[out.position(i, j)] = row[j];
                }
                gemm_plus_row(MatMut::new(&mut got, out), a, b, Some(&row), None, Threads::Pool);
                gemm_into(MatMut::new(&mut want, out), a, b, T::ONE, T::ONE, Threads::Pool);
                let bytes = |v: &[T]| bytemuck::cast_slice::<T, u8>(v).to_vec();
                assert!(bytes(&got) == bytes(&want), "{m}x{n}x{k} {right:?} {out:?}");
            }
        }
    }

    #[test]
    fn the_bits_of_a_row_do_not_depend_on_the_rows_beside_it() {
        for (n, k) in [(33, 20), (96, 300), (272, 513)] {
            let (a, b) = (noise::<f32>(40 * k, 1), noise::<f32>(k * n, 2));
            let all = product([40, n, k], false, &a, &b);
            for m in 1..40 {
                let some = product([m, n, k], false, &a[..m * k], &b);
                assert!(some == all[..m * n], "{m} of 40 rows, {n} columns, {k} terms");
            }
        }
    }

    #[cfg(feature = "rayon")]
    /// The bits of `a @ b`, row-major, with operands that are contiguous along either axis, on a pool.
    fn bits<T: Real>([m, n, k]: [usize; 3], [left, right]: [bool; 2], pool: &rayon::ThreadPool) -> Vec<u64> {
        let side = |rows, cols, by_columns| {
            if by_columns { MatLayout::col_major(rows, cols) } else { MatLayout::row_major(rows, cols) }
        };
        let (a, b): (Vec<T>, Vec<T>) = (noise(m * k, 1), noise(k * n, 2));
        let mut d: Vec<T> = vec![T::ZERO; m * n];
        pool.install(|| {
            gemm_into(
                MatMut::new(&mut d, MatLayout::row_major(m, n)),
                MatRef::new(&a, side(m, k, left)),
                MatRef::new(&b, side(k, n, right)),
                T::ONE,
                T::ZERO,
                Threads::Pool,
            );
        });
        d.iter().map(|v| Element::to_f64(*v).to_bits()).collect()
    }

    #[cfg(feature = "rayon")]
    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "starts threads")]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        // Around the sizes of tiles, parts and blocks (6, 8, 24 and 48 rows, 64 columns, 512 terms) and of
        // products that are computed as dot products (128 rows, 8 columns), and shapes that give a part few
        // rows or columns.
        let sides = [2, 3, 5, 16, 17, 47, 64, 65, 128, 193];
        let mut shapes: Vec<[usize; 3]> =
            vec![[150, 170, 600], [192, 32, 1400], [100, 5, 20_000], [2, 1000, 1100]];
        for (i, &m) in sides.iter().enumerate() {
            let n = sides[(3 * i + 4) % sides.len()];
            shapes.extend([[m, n, 1100], [n, m, 513], [m, 1000, 512], [1030, n, 514]]);
        }
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (alone, pools) = (pool(1), [2, 3, 5, 8, 64].map(pool));
        for shape in shapes {
            for sides in [[false, false], [true, false], [false, true], [true, true]] {
                let (one, wide) = (bits::<f32>(shape, sides, &alone), bits::<f64>(shape, sides, &alone));
                for pool in &pools {
                    let threads = pool.current_num_threads();
                    assert!(one == bits::<f32>(shape, sides, pool), "f32 {shape:?} {sides:?} {threads}");
                }
                assert!(wide == bits::<f64>(shape, sides, &pools[1]), "f64 {shape:?} {sides:?}");
            }
        }
    }
}
