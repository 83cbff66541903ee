//! The only call into the `gemm` family of crates, behind a checked interface over slices.
//!
//! `gemm` takes raw pointers and strides without checks. Here a matrix is a slice, an offset and two strides.
//! Creating a matrix checks that its elements stay inside the slice, so safe code cannot reach outside it.
//! `gemm` detects AVX-512, AVX2 or NEON at run time and packs operands where necessary, so any strides are
//! accepted: transposed, flipped, stepped or expanded matrices are multiplied without a copy.

use super::grid::Grid;
use crate::dtype::DType;
use crate::float::Real;
use crate::parallel::{self, Work};
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ops::Range;
use gemm_common::Parallelism;
use gemm_common::cache::CACHE_INFO;

/// Where the kernel for a type comes from.
trait HasKernel: Real {
    /// The kernel for this machine.
    fn kernel() -> GemmFn<Self>;
}

impl HasKernel for f32 {
    fn kernel() -> GemmFn<f32> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl HasKernel for f64 {
    fn kernel() -> GemmFn<f64> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// A kernel of `gemm`: `dst = alpha * dst + beta * lhs @ rhs`. The arguments are `m`, `n` and `k`; the start,
/// the column stride and the row stride of `dst`; whether `dst` is read; the same three of `lhs` and of
/// `rhs`; `alpha` and `beta`; whether `dst`, `lhs` and `rhs` are conjugated; the threads.
type GemmFn<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// Whether a product may use the thread pool. Inside a parallel section it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread alone.
    One,
    /// All threads of the pool, when the product is large enough.
    Pool,
}

/// The positions of a matrix's elements in a slice: element `(i, j)` is at
/// `offset + i*row_stride + j*col_stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatLayout {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Position of element `(0, 0)`.
    pub offset: usize,
    /// Distance between neighbours in a column, in elements.
    pub row_stride: isize,
    /// Distance between neighbours in a row, in elements.
    pub col_stride: isize,
}

impl MatLayout {
    /// A row-major matrix without gaps, from the start of the slice on.
    pub fn row_major(rows: usize, cols: usize) -> Self {
        Self { rows, cols, offset: 0, row_stride: cols as isize, col_stride: 1 }
    }

    /// A column-major matrix without gaps, from the start of the slice on.
    pub fn col_major(rows: usize, cols: usize) -> Self {
        Self { rows, cols, offset: 0, row_stride: 1, col_stride: rows as isize }
    }

    /// The same layout from another offset on.
    pub fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// The layout with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            offset: self.offset,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// The elements of these rows and columns, which must exist.
    fn part(&self, rows: &Range<usize>, cols: &Range<usize>) -> Self {
        // Wraps only where the matrix has no elements, whose offset is arbitrary.
        let step = |first: usize, stride: isize| (first as isize).wrapping_mul(stride);
        let skipped = step(rows.start, self.row_stride).wrapping_add(step(cols.start, self.col_stride));
        let offset = self.offset.wrapping_add_signed(skipped);
        Self { rows: rows.len(), cols: cols.len(), offset, ..*self }
    }

    /// The same elements with the order of the rows reversed.
    fn rows_reversed(self) -> Self {
        // Wraps only where the offset of a matrix without elements is arbitrary.
        let last = (self.rows as isize).wrapping_sub(1).wrapping_mul(self.row_stride);
        Self {
            offset: self.offset.wrapping_add_signed(last),
            row_stride: self.row_stride.wrapping_neg(),
            ..self
        }
    }

    /// The same elements with the order of the columns reversed.
    fn cols_reversed(self) -> Self {
        self.transposed().rows_reversed().transposed()
    }

    /// Position of element `(i, j)`.
    #[inline(always)]
    fn position(&self, i: usize, j: usize) -> usize {
        self.offset.wrapping_add_signed(i as isize * self.row_stride + j as isize * self.col_stride)
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Whether every element lies in a slice of `len` elements. Computed without overflow.
    fn fits(&self, len: usize) -> bool {
        if self.is_empty() {
            return true;
        }
        let reach = |size: usize, stride: isize| (size as i128 - 1) * stride as i128;
        let (r, c) = (reach(self.rows, self.row_stride), reach(self.cols, self.col_stride));
        // Each product is below 2^127 in magnitude; the additions are checked.
        let lowest = (self.offset as i128).checked_add(r.min(0)).and_then(|v| v.checked_add(c.min(0)));
        let highest = (self.offset as i128).checked_add(r.max(0)).and_then(|v| v.checked_add(c.max(0)));
        matches!((lowest, highest), (Some(low), Some(high)) if low >= 0 && high < len as i128)
    }

    /// # Panics
    /// When an element lies outside of a slice of `len` elements.
    fn check(&self, len: usize) {
        assert!(self.fits(len), "gemm: {self:?} leaves a slice of {len} elements");
    }

    /// Whether no two elements lie at the same position: the inner axis (smaller stride) has a nonzero
    /// stride, and a step of the outer axis passes all of the inner axis.
    fn is_injective(&self) -> bool {
        let (r, c) = (self.row_stride.unsigned_abs() as u128, self.col_stride.unsigned_abs() as u128);
        let (rows, cols) = (self.rows as u128, self.cols as u128);
        match (rows, cols) {
            (0, _) | (_, 0) | (1, 1) => true,
            (_, 1) => r > 0,
            (1, _) => c > 0,
            _ => (c > 0 && r > (cols - 1) * c) || (r > 0 && c > (rows - 1) * r),
        }
    }
}

/// A matrix to read. Invariant: the elements stay inside the slice.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    layout: MatLayout,
}

impl<'a, T> MatRef<'a, T> {
    /// The matrix of the elements of `data` that `layout` addresses.
    ///
    /// # Panics
    /// When an element lies outside `data`.
    pub fn new(data: &'a [T], layout: MatLayout) -> Self {
        layout.check(data.len());
        Self { data, layout }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        // The set of positions is the same, so the invariant holds.
        Self { layout: self.layout.transposed(), ..self }
    }

    /// The layout.
    pub fn layout(&self) -> MatLayout {
        self.layout
    }

    /// `len` rows from `first` on.
    ///
    /// # Panics
    /// When the matrix does not have these rows.
    pub fn rows(self, first: usize, len: usize) -> Self {
        assert!(first <= self.layout.rows && len <= self.layout.rows - first, "gemm: rows out of range");
        // Rows of a matrix inside a slice are inside it too. Without rows or columns the offset may be
        // anything.
        let offset =
            self.layout.offset.wrapping_add_signed((first as isize).wrapping_mul(self.layout.row_stride));
        Self::new(self.data, MatLayout { rows: len, ..self.layout.at(offset) })
    }

    /// `len` columns from `first` on.
    ///
    /// # Panics
    /// When the matrix does not have these columns.
    pub fn cols(self, first: usize, len: usize) -> Self {
        self.transposed().rows(first, len).transposed()
    }

    /// The whole slice, which the layout's positions index.
    pub fn data(&self) -> &'a [T] {
        self.data
    }
}

impl<'a, T: Pod> MatRef<'a, T> {
    /// The same matrix, whose elements are of type `T` by another name.
    pub(crate) fn cast<U: Pod>(self) -> MatRef<'a, U> {
        // Elements of another size would change the meaning of the layout. As many as before keep the
        // invariant.
        assert!(size_of::<U>() == size_of::<T>(), "gemm: a type of another size");
        MatRef { data: bytemuck::cast_slice(self.data), layout: self.layout }
    }
}

impl<'a, T: Copy> MatRef<'a, T> {
    /// The element `(i, j)`.
    ///
    /// # Panics
    /// When the position lies outside the slice.
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data[self.layout.position(i, j)]
    }

    /// `len` elements of row `i` from column `j` on; `None` when they are not neighbours in memory.
    ///
    /// # Panics
    /// When an element lies outside the slice.
    #[inline(always)]
    pub fn row_run(&self, i: usize, j: usize, len: usize) -> Option<&'a [T]> {
        let start = self.layout.position(i, j);
        (self.layout.col_stride == 1).then(|| &self.data[start..start + len])
    }
}

/// A matrix to write. Invariant: the elements stay inside the slice, and no two elements have the same
/// position.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    layout: MatLayout,
}

impl<'a, T> MatMut<'a, T> {
    /// The matrix of the elements of `data` that `layout` addresses.
    ///
    /// # Panics
    /// When an element lies outside `data`, or when two elements may lie at the same position.
    pub fn new(data: &'a mut [T], layout: MatLayout) -> Self {
        layout.check(data.len());
        assert!(layout.is_injective(), "gemm: elements of the destination {layout:?} overlap");
        Self { data, layout }
    }
}

impl<'a, T: Pod> MatMut<'a, T> {
    /// See [`MatRef::cast`].
    fn cast<U: Pod>(self) -> MatMut<'a, U> {
        assert!(size_of::<U>() == size_of::<T>(), "gemm: a type of another size");
        MatMut { data: bytemuck::cast_slice_mut(self.data), layout: self.layout }
    }
}

/// Returns `m`, `n` and `k` of `a @ b`, for kernels that write the product row-major to `dst`.
///
/// # Panics
/// When the shapes do not fit together.
pub(crate) fn sizes<T>(dst: &[T], a: MatRef<'_, T>, b: MatRef<'_, T>) -> (usize, usize, usize) {
    let (m, n, k) = (a.layout.rows, b.layout.cols, a.layout.cols);
    assert!(b.layout.rows == k && dst.len() == m * n, "gemm: the shapes do not fit together");
    (m, n, k)
}

/// `dst = alpha * a @ b + beta * dst`. With `beta` zero, `dst` is not read: stale NaN in `dst` do not matter.
///
/// The order in which products are summed depends on the shapes and strides alone, not on the number of
/// threads: see [`Grid`].
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
    let (d, l, r) = (dst.layout, a.layout, b.layout);
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
    // Some virtual machines report no second-level cache, and `gemm` divides by its size.
    if CACHE_INFO[1].cache_bytes == 0 {
        by_definition(dst, a, b, alpha, beta);
    } else if T::DTYPE == DType::F64 {
        parts::<f64>(dst.cast(), a.cast(), b.cast(), bytemuck::cast(alpha), bytemuck::cast(beta), threads);
    } else {
        parts::<f32>(dst.cast(), a.cast(), b.cast(), bytemuck::cast(alpha), bytemuck::cast(beta), threads);
    }
}

/// [`gemm_into`] without the `gemm` crate.
fn by_definition<T: Real>(dst: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T, beta: T) {
    for i in 0..dst.layout.rows {
        for j in 0..dst.layout.cols {
            let sum = (0..a.layout.cols).fold(T::ZERO, |sum, p| sum + a.at(i, p) * b.at(p, j));
            let element = &mut dst.data[dst.layout.position(i, j)];
            let old = if beta == T::ZERO { T::ZERO } else { beta * *element };
            *element = old + alpha * sum;
        }
    }
}

/// [`gemm_into`] for shapes that fit together and a destination with elements: computes the parts of the
/// [`Grid`], each in blocks of terms.
fn parts<T: HasKernel>(
    dst: MatMut<'_, T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    alpha: T,
    beta: T,
    threads: Threads,
) {
    let (d, a, b) = ordered(dst.layout, a, b);
    let threads = if threads == Threads::Pool { parallel::threads() } else { 1 };
    let grid = Grid::new(&a.layout, &b.layout, threads, CACHE_INFO[1].cache_bytes);
    let target = Target { start: dst.data.as_mut_ptr(), len: dst.data.len(), data: PhantomData };
    parallel::for_each_task(grid.parts(), Work::Worthwhile, |part| {
        let (rows, cols) = grid.part(part);
        let (d, a, b) =
            (d.part(&rows, &cols), a.rows(rows.start, rows.len()), b.cols(cols.start, cols.len()));
        // SAFETY: the parts of a grid do not overlap, each is computed once, and the layout of the
        // destination is injective, so no other thread has a matrix with an element of this one.
        unsafe { block(&target, d, a, b, alpha, beta, &grid) };
    });
}

/// Computes a part of a product block by block. The sums of the blocks are added up in order.
///
/// # Safety
/// No element of `d` may be in use elsewhere.
unsafe fn block<T: HasKernel>(
    target: &Target<'_, T>,
    d: MatLayout,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    alpha: T,
    mut beta: T,
    grid: &Grid,
) {
    let (k, blocks) = (a.layout.cols, grid.blocks);
    for i in 0..blocks {
        // Blocks whose sizes differ by one at most; without overflow, since `blocks` is at most `k` or one.
        let at = |i: usize| i * (k / blocks) + i.min(k % blocks);
        let (first, len) = (at(i), at(i + 1) - at(i));
        // SAFETY: as the caller vouches.
        unsafe { call(target, d, a.cols(first, len), b.rows(first, len), alpha, beta) };
        beta = T::ONE;
    }
}

/// The memory of a destination, which threads share. Each writes elements of its own.
struct Target<'a, T> {
    start: *mut T,
    len: usize,
    data: PhantomData<&'a mut [T]>,
}

// SAFETY: the fields are read alone; what is done with the pointer is up to `call`, whose caller vouches that
// no two threads use the same elements. The elements may be sent to other threads.
unsafe impl<T: Send> Sync for Target<'_, T> {}

/// The one call of a kernel: `d = alpha * a @ b + beta * d` for shapes that fit together, with `d` in the
/// order of [`ordered`].
///
/// # Safety
/// No element of `d` may be in use elsewhere, and `d` must be injective.
unsafe fn call<T: HasKernel>(
    target: &Target<'_, T>,
    d: MatLayout,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    alpha: T,
    beta: T,
) {
    let (l, r, k) = (a.layout, b.layout, a.layout.cols);
    d.check(target.len);
    assert!(l.rows == d.rows && r.cols == d.cols && r.rows == k, "gemm: parts that do not fit together");
    let read_dst = beta != T::ZERO;
    // Operands without elements (k = 0) are not read. Their offsets were not checked, so zero is used
    // instead.
    let start = |layout: &MatLayout| if k == 0 { 0 } else { layout.offset };
    // SAFETY:
    // * Bounds: `gemm` addresses element (i, j) of each matrix at its pointer plus i*rs + j*cs with i and j
    //   below the sizes that are passed. `MatRef::new` is the only constructor of the operands, the fields
    //   are private, and it asserts in exact arithmetic that all those positions, counted from the start of
    //   the slice, lie inside of it; `d` was checked in the same way above. The sizes of the three matrices
    //   were asserted above to agree on m, n and k. Partial tiles are loaded with masks or through packing
    //   buffers of `gemm`'s own, whose loads and stores do not assume more alignment than that of the
    //   element.
    // * Provenance: negative strides reach below the offset, so the pointers are taken from the whole slice
    //   (`as_ptr().add(offset)`), not from its tail. The offsets are in bounds: element (0, 0) of a matrix
    //   that is not empty lies there, and the offset of an empty operand is replaced by zero.
    // * Aliasing: the destination is borrowed exclusively for the life of `target`, so it overlaps neither
    //   operand; the caller vouches for its other parts.
    // * Initialised: slices of f32 and f64 are; with `read_dst` false `dst` is written without being read.
    unsafe {
        T::kernel()(
            d.rows,
            d.cols,
            k,
            target.start.add(d.offset),
            d.col_stride,
            d.row_stride,
            read_dst,
            a.data.as_ptr().add(start(&l)),
            l.col_stride,
            l.row_stride,
            b.data.as_ptr().add(start(&r)),
            r.col_stride,
            r.row_stride,
            beta,
            alpha,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// The layout of `dst`, `a` and `b` for the same product in the order that the kernels want: a destination
/// whose columns are its more contiguous axis (`dst' = b' @ a'` otherwise), and strides of `dst` and of the
/// sums' terms that are not negative.
fn ordered<'a, T>(
    dst: MatLayout,
    a: MatRef<'a, T>,
    b: MatRef<'a, T>,
) -> (MatLayout, MatRef<'a, T>, MatRef<'a, T>) {
    let (mut d, mut a, mut b) = if dst.col_stride.unsigned_abs() < dst.row_stride.unsigned_abs() {
        (dst.transposed(), b.transposed(), a.transposed())
    } else {
        (dst, a, b)
    };
    // Reversed axes name the same positions, so the invariants of the matrices hold.
    if d.row_stride < 0 {
        d = d.rows_reversed();
        a.layout = a.layout.rows_reversed();
    }
    if d.col_stride < 0 {
        d = d.cols_reversed();
        b.layout = b.layout.cols_reversed();
    }
    if a.layout.col_stride < 0 {
        a.layout = a.layout.cols_reversed();
        b.layout = b.layout.rows_reversed();
    }
    (d, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Element;
    use crate::matmul::tests::noise;
    use alloc::vec;
    use alloc::vec::Vec;

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
            check::<f32>([m, n, k], 1e-6, by_definition);
        }
    }

    #[test]
    fn matrices_that_leave_their_slice_are_refused() {
        let data = [0f32; 12];
        let plain = MatLayout::row_major(3, 4);
        let bad = [
            plain.at(1),
            MatLayout { row_stride: 5, ..plain },
            MatLayout { row_stride: -1, ..plain },
            MatLayout { row_stride: isize::MAX, ..plain },
            MatLayout { row_stride: isize::MIN, col_stride: isize::MAX, ..plain },
            MatLayout { rows: usize::MAX, ..plain },
            MatLayout { rows: usize::MAX, row_stride: isize::MAX, ..plain }.at(usize::MAX),
        ];
        for layout in bad {
            assert!(!layout.fits(data.len()), "{layout:?}");
        }
        assert!(plain.fits(12) && MatLayout { rows: 0, ..plain }.at(99).fits(0));
    }

    #[test]
    fn overlapping_destinations_are_refused() {
        let plain = MatLayout::row_major(3, 4);
        for (row_stride, col_stride) in [(0, 1), (1, 0), (1, 1), (3, 1), (2, 3), (-3, 1)] {
            assert!(!MatLayout { row_stride, col_stride, ..plain }.is_injective());
        }
        for (row_stride, col_stride) in [(4, 1), (1, 3), (-4, 1), (9, 2)] {
            assert!(MatLayout { row_stride, col_stride, ..plain }.is_injective());
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
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        // Around the sizes at which `gemm` changes its algorithm or its blocks: 64 rows and columns, 256
        // elements, 512 terms; and shapes that give a part few rows or columns.
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
                    assert!(wide == bits::<f64>(shape, sides, pool), "f64 {shape:?} {sides:?} {threads}");
                }
            }
        }
    }
}
