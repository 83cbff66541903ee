//! Products with few columns and few terms, such as rotations of points: the right operand is a few vectors,
//! which stay in the first-level cache, and a row of the output is one or two vectors.
//!
//! Whole tiles would be mostly empty, and a strip of six rows would cost more than its sums. The rows are
//! written one after the other, each as whole vectors; the next row overwrites what lies after its end. Sums
//! have the order of [tiles](super::tile).

use super::{MatLayout, MatRef};
use crate::float::Real;
use core::ops::Range;
use flex_math::simd::{HasVectors, Simd, Vector, WithSimd, load, madd, store};

/// The most columns: a vector of 32 bytes of f32.
const COLS: usize = 8;

/// The most terms. On one thread of Zen 3, 10,000 rows with 16 terms by 4 columns take 60 us in place of 165
/// by tiles, and 131,072 rows with 2 terms by 4 columns 0.49 ms in place of 1.62. With 64 terms, 10,000 rows
/// take 212 us in place of 229 by tiles, or of 100 by dot products, where the right operand is transposed.
const TERMS: usize = 16;

/// Least number of rows. With fewer, copying the right operand would take a larger part of the time.
const ROWS: usize = 32;

/// The right operand, whose rows are as long as [`COLS`], and the row that is added to each row of the
/// product.
pub(super) struct NarrowRight<T> {
    vectors: HasVectors,
    terms: [[T; COLS]; TERMS],
    old: [T; COLS],
    cols: usize,
}

impl<T: Real> NarrowRight<T> {
    /// The right operand of a product with a left operand of layout `a`, and the `row` that is added to each
    /// row of the product; `None` if the product is better computed otherwise. For f64, of which few models
    /// consist, the loop is not worth its machine code.
    #[inline(always)]
    pub fn of(a: MatLayout, b: MatRef<'_, T>, row: Option<&[T]>) -> Option<Self> {
        let (terms, cols) = (a.cols, b.layout().cols);
        let fits = (1..=TERMS).contains(&terms) && cols <= COLS && a.rows >= ROWS && a.col_stride == 1;
        if !fits || size_of::<T>() != size_of::<f32>() {
            return None;
        }
        let vectors = HasVectors::here()?;
        // Not a positive zero, so that a negative zero stays negative.
        let mut right =
            Self { vectors, terms: [[T::ZERO; COLS]; TERMS], old: [T::from_f64(-0.0); COLS], cols };
        for (p, term) in right.terms.iter_mut().enumerate().take(terms) {
            term.iter_mut().enumerate().take(cols).for_each(|(j, to)| *to = b.at(p, j));
        }
        right.old.iter_mut().zip(row.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        Some(right)
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Writes the product of these rows of `a` and the operand to `out`.
    pub fn multiply(&self, a: MatRef<'_, T>, rows: Range<usize>, out: &mut [T]) {
        self.vectors.dispatch_lean(NarrowRows { a: a.part(rows, 0..a.layout().cols), b: self, out });
    }
}

/// [`NarrowRight::multiply`].
struct NarrowRows<'a, T> {
    a: MatRef<'a, T>,
    b: &'a NarrowRight<T>,
    out: &'a mut [T],
}

/// Rows that are multiplied together.
const TOGETHER: usize = 4;

impl<T: Real> WithSimd for NarrowRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        // Conditions on constants: one of them is compiled.
        match const { COLS * size_of::<T>() / size_of::<Vector<S, T>>() } {
            1 => self.rows::<S, 1>(),
            _ => self.rows::<S, 2>(),
        }
    }
}

impl<T: Real> NarrowRows<'_, T> {
    /// Rows of `V` vectors.
    #[inline(always)]
    fn rows<S: Simd, const V: usize>(self) {
        let Self { a, b, out } = self;
        let lanes = T::lanes::<S>();
        let MatLayout { rows, cols: terms, .. } = a.layout();
        let mut i = 0;
        while i < rows {
            // The last row stands for the rows after it, which are missing.
            let row =
                |r: usize| a.row_run((i + r).min(rows - 1), 0, terms).expect("the terms are neighbours");
            let a = [row(0), row(1), row(2), row(3)];
            let mut sums = [[T::ZERO.splat(); V]; TOGETHER];
            for (p, b) in b.terms[..terms].iter().enumerate() {
                for v in 0..V {
                    let b: Vector<S, T> = load::<S, T>(&b[v * lanes..(v + 1) * lanes]);
                    for r in 0..TOGETHER {
                        sums[r][v] = madd(b, a[r][p].splat(), sums[r][v]);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate().take(rows - i) {
                let mut last = [T::ZERO; COLS];
                let at = (i + r) * b.cols;
                let whole = at + COLS <= out.len();
                let to = if whole { &mut out[at..at + COLS] } else { &mut last };
                for v in 0..V {
                    let part = v * lanes..(v + 1) * lanes;
                    store(sums[v] + load::<S, T>(&b.old[part.clone()]), &mut to[part]);
                }
                if !whole {
                    out[at..at + b.cols].copy_from_slice(&last[..b.cols]);
                }
            }
            i += TOGETHER;
        }
    }
}
