//! The two products that every convolution here is made of.
//!
//! Both multiply a matrix with *windows* of one flat buffer `p`: row `k` of the other factor is not stored, it is
//! `p[offsets[k]..]`. A convolution needs no more than that. Over an image that carries its zero padding, the tap
//! at `(dy, dx)` of channel `c` reads the image shifted by a constant, so the column matrix of the classic
//! im2col lowering is a set of shifted windows of the image itself, and never has to be written out.
//!
//! * [`windows`] accumulates over `k` with one vector of window positions per register: outputs and input gradients;
//! * [`dots`] accumulates over the window positions: weight gradients.
//!
//! Both keep a tile of accumulators in registers, and each output is summed in an order that depends on the
//! shapes alone.

use crate::dtype::Element;
use core::ops::AddAssign;
use flex_math::Float;
use flex_math::simd::{Simd, Vector, WithSimd, dispatch};

/// What products are computed in: `f32` (for the half types too) or `f64`.
pub(super) trait Real: Element + Float + AddAssign {}
impl Real for f32 {}
impl Real for f64 {}

/// Rows of a matrix that [`windows`] handles at once at most: callers split rows by multiples of it.
pub(super) const BLOCK_ROWS: usize = 8;

/// Elements in the widest vector.
pub(super) const fn max_lanes<T>() -> usize {
    64 / size_of::<T>()
}

/// `out[i * len + n] = bias[i] + sum over k of a[i * K + k] * p[base + offsets[k] + n]` for `n` in `0..len`, where
/// `K` is the number of offsets and `out` has one row of `len` per bias.
///
/// # Panics
/// When a slice is too short.
pub(super) fn windows<T: Real>(
    a: &[T],
    bias: &[T],
    p: &[T],
    offsets: &[usize],
    base: usize,
    len: usize,
    out: &mut [T],
) {
    dispatch(Windows { a, bias, p, offsets, base, len, out });
}

struct Windows<'a, T> {
    a: &'a [T],
    bias: &'a [T],
    p: &'a [T],
    offsets: &'a [usize],
    base: usize,
    len: usize,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for Windows<'_, T> {
    type Output = ();

    /// 8 x 3 accumulators, 3 windows and a coefficient fill 28 of the 32 registers of AVX-512; 4 x 3 fit the 16 of
    /// the others. Rows that remain are padded with copies of the last one, whose results are dropped.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let rows = self.bias.len();
        let wide = size_of::<Vector<S, T>>() == 64;
        let mut row = 0;
        while row < rows {
            row += match rows - row {
                1 => self.rows::<S, 1, 8>(row),
                2..=4 => self.rows::<S, 4, 3>(row),
                _ if wide => self.rows::<S, 8, 3>(row),
                _ => self.rows::<S, 4, 3>(row),
            };
        }
    }
}

impl<T: Real> Windows<'_, T> {
    /// All of `R` rows from `row` on; returns `R`.
    #[inline(always)]
    fn rows<S: Simd, const R: usize, const V: usize>(&mut self, row: usize) -> usize {
        let lanes = T::lanes::<S>();
        let mut n = 0;
        while n + V * lanes <= self.len {
            let tile = self.tile::<S, R, V>(row, n);
            self.store(row, n, V * lanes, &tile);
            n += V * lanes;
        }
        while n < self.len {
            // The last tile overlaps the one before it where it can: whole vectors, inside of the windows.
            let rest = self.len - n;
            if rest > lanes && self.len >= V * lanes {
                let at = self.len - V * lanes;
                let tile = self.tile::<S, R, V>(row, at);
                self.store(row, at, V * lanes, &tile);
                break;
            }
            let at = if self.len >= lanes { n.min(self.len - lanes) } else { 0 };
            let tile = if self.len >= lanes { self.tile::<S, R, 1>(row, at) } else { self.edge::<S, R>(row) };
            self.store(row, at, lanes.min(self.len), &tile);
            n += lanes;
        }
        R
    }

    /// `R` slices of coefficients; rows past the end repeat the last.
    #[inline(always)]
    fn coefficients<const R: usize>(&self, row: usize) -> [&[T]; R] {
        let k = self.offsets.len();
        let mut a = [&self.a[..0]; R];
        for (r, a) in a.iter_mut().enumerate() {
            let r = (row + r).min(self.bias.len() - 1);
            *a = &self.a[r * k..][..k];
        }
        a
    }

    #[inline(always)]
    fn start<S: Simd, const R: usize, const V: usize>(&self, row: usize) -> [[Vector<S, T>; V]; R] {
        let mut acc = [[T::ZERO.splat(); V]; R];
        for (r, acc) in acc.iter_mut().enumerate() {
            *acc = [self.bias[(row + r).min(self.bias.len() - 1)].splat(); V];
        }
        acc
    }

    /// `R` rows of `V` vectors from position `n` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&self, row: usize, n: usize) -> [[Vector<S, T>; V]; R] {
        let lanes = T::lanes::<S>();
        let a = self.coefficients::<R>(row);
        let mut acc = self.start::<S, R, V>(row);
        let p = &self.p[self.base + n..];
        for (k, &offset) in self.offsets.iter().enumerate() {
            let window = &p[offset..offset + V * lanes];
            let mut x = [T::ZERO.splat(); V];
            for (v, x) in x.iter_mut().enumerate() {
                *x = load::<S, T>(&window[v * lanes..(v + 1) * lanes]);
            }
            for r in 0..R {
                let w = a[r][k].splat();
                for v in 0..V {
                    acc[r][v] = x[v].mul_add(w, acc[r][v]);
                }
            }
        }
        acc
    }

    /// A row shorter than a vector: reads past its end where `p` has something there, else a padded copy.
    #[inline(always)]
    fn edge<S: Simd, const R: usize>(&self, row: usize) -> [[Vector<S, T>; 1]; R] {
        let lanes = T::lanes::<S>();
        let a = self.coefficients::<R>(row);
        let mut acc = self.start::<S, R, 1>(row);
        for (k, &offset) in self.offsets.iter().enumerate() {
            let p = &self.p[self.base + offset..];
            let x = if p.len() >= lanes { load::<S, T>(&p[..lanes]) } else { load_part(&p[..self.len]) };
            for r in 0..R {
                acc[r][0] = x.mul_add(a[r][k].splat(), acc[r][0]);
            }
        }
        acc
    }

    #[inline(always)]
    fn store<S: Simd, const R: usize, const V: usize>(
        &mut self,
        row: usize,
        n: usize,
        count: usize,
        tile: &[[Vector<S, T>; V]; R],
    ) {
        let rows = self.bias.len();
        for (r, tile) in tile.iter().enumerate() {
            if row + r < rows {
                let values: &[T] = bytemuck::cast_slice(tile);
                self.out[(row + r) * self.len + n..][..count].copy_from_slice(&values[..count]);
            }
        }
    }
}

#[inline(always)]
fn load<S: Simd, T: Real>(values: &[T]) -> Vector<S, T> {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(values))
}

/// A vector that starts with `values` and goes on with zeros.
#[inline(always)]
fn load_part<S: Simd, T: Real>(values: &[T]) -> Vector<S, T> {
    let mut vector: Vector<S, T> = T::ZERO.splat();
    bytemuck::cast_slice_mut::<_, T>(core::slice::from_mut(&mut vector))[..values.len()]
        .copy_from_slice(values);
    vector
}

/// What [`dots`] multiplies: `images` pairs of `rows` rows of `g` and windows of `p`, all of `len` elements.
#[derive(Clone, Copy)]
pub(super) struct Pairs<'a, T> {
    /// Row `r` of image `i` starts at `i * g_image + r * g_row`.
    pub g: &'a [T],
    pub g_row: usize,
    pub g_image: usize,
    /// Window `j` of image `i` starts at `i * p_image + offsets[j]`.
    pub p: &'a [T],
    pub p_image: usize,
    pub offsets: &'a [usize],
    pub rows: usize,
    pub images: usize,
    pub len: usize,
}

/// `out[r * J + j] += sum over i and t of g[i * g_image + r * g_row + t] * p[i * p_image + offsets[j] + t]`, where `J`
/// is the number of offsets.
///
/// # Panics
/// When a slice is too short.
pub(super) fn dots<T: Real>(pairs: Pairs<'_, T>, out: &mut [T]) {
    dispatch(Dots { pairs, out });
}

struct Dots<'a, T> {
    pairs: Pairs<'a, T>,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for Dots<'_, T> {
    type Output = ();

    /// 4 x 6 accumulators in 32 registers, 2 x 4 in 16; a single row (depthwise) gets a kernel of its own.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let wide = size_of::<Vector<S, T>>() == 64;
        let mut row = 0;
        while row < self.pairs.rows {
            row += match self.pairs.rows - row {
                1 => self.rows::<S, 1, 6>(row),
                _ if wide => self.rows::<S, 4, 6>(row),
                _ => self.rows::<S, 2, 4>(row),
            };
        }
    }
}

impl<T: Real> Dots<'_, T> {
    #[inline(always)]
    fn rows<S: Simd, const R: usize, const J: usize>(&mut self, row: usize) -> usize {
        let columns = self.pairs.offsets.len();
        let mut column = 0;
        while column < columns {
            // The accumulators pass through memory: summed where they are, they would be spilled in the hot loop.
            let mut sums = [T::ZERO; 4 * 6 * 16];
            let lanes = T::lanes::<S>();
            self.tile::<S, R, J>(row, column, &mut sums);
            for (k, sums) in sums.chunks_exact(lanes).take(R * J).enumerate() {
                let (r, j) = (row + k / J, column + k % J);
                if r < self.pairs.rows && j < columns {
                    let rest = self.rest(lanes, r, j);
                    self.out[r * columns + j] += sum_lanes(sums) + rest;
                }
            }
            column += J;
        }
        R
    }

    /// The sum over the positions past the last whole vector.
    #[inline(always)]
    fn rest(&self, lanes: usize, row: usize, column: usize) -> T {
        let Pairs { g, g_row, g_image, p, p_image, offsets, images, len, .. } = self.pairs;
        let mut sum = T::ZERO;
        if !len.is_multiple_of(lanes) {
            for image in 0..images {
                let a = &g[image * g_image + row * g_row..][..len];
                let b = &p[image * p_image + offsets[column]..][..len];
                for t in len - len % lanes..len {
                    sum += a[t] * b[t];
                }
            }
        }
        sum
    }

    /// `R` rows times `J` windows, over whole vectors of positions; those past the end repeat the last.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const J: usize>(&self, row: usize, column: usize, sums: &mut [T]) {
        let Pairs { g, g_row, g_image, p, p_image, offsets, rows, images, len } = self.pairs;
        let lanes = T::lanes::<S>();
        let whole = len - len % lanes;
        let mut acc = [[T::ZERO.splat(); J]; R];
        for image in 0..images {
            let mut a = [&g[..0]; R];
            for (r, a) in a.iter_mut().enumerate() {
                *a = &g[image * g_image + (row + r).min(rows - 1) * g_row..][..whole];
            }
            let mut b = [&p[..0]; J];
            for (j, b) in b.iter_mut().enumerate() {
                *b = &p[image * p_image + offsets[(column + j).min(offsets.len() - 1)]..][..whole];
            }
            acc = multiply_add::<S, T, R, J>(acc, a, b, whole);
        }
        for r in 0..R {
            for j in 0..J {
                let values: &[T] = bytemuck::cast_slice(core::slice::from_ref(&acc[r][j]));
                sums[(r * J + j) * lanes..][..lanes].copy_from_slice(values);
            }
        }
    }
}

/// `acc[r][j] + a[r] * b[j]`, summed over `len` elements, whole vectors.
#[inline(always)]
fn multiply_add<S: Simd, T: Real, const R: usize, const J: usize>(
    mut acc: [[Vector<S, T>; J]; R],
    a: [&[T]; R],
    b: [&[T]; J],
    len: usize,
) -> [[Vector<S, T>; J]; R] {
    let lanes = T::lanes::<S>();
    let mut t = 0;
    while t < len {
        let mut x = [T::ZERO.splat(); R];
        for r in 0..R {
            x[r] = load::<S, T>(&a[r][t..t + lanes]);
        }
        for j in 0..J {
            let y = load::<S, T>(&b[j][t..t + lanes]);
            for r in 0..R {
                acc[r][j] = x[r].mul_add(y, acc[r][j]);
            }
        }
        t += lanes;
    }
    acc
}

#[inline(always)]
fn sum_lanes<T: Real>(lanes: &[T]) -> T {
    // Arrays of a known size stay in registers.
    match lanes.len() {
        16 => halve::<T, 8>(lanes),
        8 => halve::<T, 4>(lanes),
        4 => halve::<T, 2>(lanes),
        _ => lanes.iter().fold(T::ZERO, |sum, &v| sum + v),
    }
}

/// The sum of `2 * H` values, by halves.
#[inline(always)]
fn halve<T: Real, const H: usize>(values: &[T]) -> T {
    let mut sums = [T::ZERO; H];
    for i in 0..H {
        sums[i] = values[i] + values[i + H];
    }
    let mut width = H;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            sums[i] += sums[i + width];
        }
    }
    sums[0]
}
