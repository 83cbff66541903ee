//! The two matrix products of windows that convolutions are made of, where they are not
//! [products of matrices](super::lowering).
//!
//! Both multiply a matrix with *windows* of one flat buffer `p`: row `k` of the other factor is not stored,
//! it begins at some position of `p`. In an image that carries its zero padding, the tap at `(dy, dx)` of
//! channel `c` reads the image shifted by a constant. So the column matrix of the classic im2col lowering is
//! a set of shifted windows of the image itself, and never has to be written out.
//!
//! * [`windows`] accumulates over `k`, with one vector of window positions per register: outputs and input
//!   gradients;
//! * [`dots`] accumulates over the window positions: weight gradients.
//!
//! Both keep a tile of accumulators in registers. Each output is summed in an order that depends on the
//! shapes alone.

use crate::float::Real;
use alloc::vec::Vec;
use flex_math::fold_halves;
use flex_math::simd::{Simd, Vector, WithSimd, dispatch, load, madd, prefetch_far};
use smallvec::SmallVec;

/// The most rows that [`windows`] processes together; callers split rows at multiples of it.
pub(super) const BLOCK_ROWS: usize = 8;

/// Extra elements at the end of `p` that let [`windows`] use its widest tiles up to the end. Their values do
/// not matter.
pub(super) const fn slack<T>() -> usize {
    8 * max_lanes::<T>()
}

/// Elements in the widest vector (64 bytes).
pub(super) const fn max_lanes<T>() -> usize {
    64 / size_of::<T>()
}

/// The rows that [`windows`] writes.
pub(super) type OutRows<'a, T> = SmallVec<[&'a mut [T]; BLOCK_ROWS]>;

/// The first `count` rows of a matrix with `pitch` elements from one row to the next.
pub(super) fn rows_of<T>(matrix: &mut [T], pitch: usize, count: usize) -> OutRows<'_, T> {
    matrix.chunks_exact_mut(pitch).take(count).collect()
}

/// One term of a sum: a coefficient and a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tap {
    /// Position of the coefficient, from the start of its row and block.
    pub a: usize,
    /// Position of the window in `p`, from the start of its block.
    pub p: usize,
}

/// The terms of a sum, in blocks: all blocks have the same taps, at other places. The last block may have
/// fewer taps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    taps: Vec<Tap>,
    /// Number of terms of all blocks.
    count: usize,
    /// Distance between the coefficients of neighbouring blocks.
    a_step: usize,
    /// Distance between the windows of neighbouring blocks.
    p_step: usize,
    /// Elements from the first to the last coefficient of a row in a block.
    width: usize,
    /// No window begins after this position.
    reach: usize,
}

impl Terms {
    /// Terms that a block should have: enough for the start of a block not to count, and few enough for their
    /// list, of 4 KiB, to stay in the first-level cache.
    pub const BLOCK: usize = 256;

    /// `count` terms: one block per repetition of `taps`. From one block to the next, the coefficients move
    /// on by `a_step` and the windows by `p_step`.
    pub fn new(taps: Vec<Tap>, count: usize, a_step: usize, p_step: usize) -> Self {
        let last = taps.iter().map(|tap| tap.p).max().unwrap_or(0);
        let blocks = count.div_ceil(taps.len().max(1));
        let reach = last + blocks.saturating_sub(1) * p_step;
        Self { width: width(&taps), taps, count, a_step, p_step, reach }
    }

    /// The taps of each block.
    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = &[Tap]> {
        let mut left = self.count;
        core::iter::from_fn(move || {
            let taps = &self.taps[..self.taps.len().min(left)];
            left -= taps.len();
            (!taps.is_empty()).then_some(taps)
        })
    }
}

/// Elements from the start of a row to the last coefficient of the taps.
#[inline(always)]
fn width(taps: &[Tap]) -> usize {
    taps.iter().fold(0, |width, tap| width.max(tap.a + 1))
}

/// `out[i][n]` is `bias[i]` plus the sum over all terms of `a[i * a_row + term.a] * p[base + term.p + n]`,
/// for `n` in `0..len`, where `out` has one row of at least `len` elements per bias. The elements of a row
/// after the first `len` may be overwritten.
///
/// # Panics
/// Panics if a slice is too short.
pub(super) fn windows<T: Real>(
    a: &[T],
    a_row: usize,
    bias: &[T],
    p: &[T],
    terms: &Terms,
    base: usize,
    len: usize,
    out: &mut [&mut [T]],
) {
    let room = out.iter().map(|row| row.len()).min().unwrap_or(0);
    dispatch(WindowSums { a, a_row, bias, p, terms, base, len, out, room });
}

struct WindowSums<'a, 'b, T> {
    a: &'a [T],
    a_row: usize,
    bias: &'a [T],
    p: &'a [T],
    terms: &'a Terms,
    base: usize,
    len: usize,
    out: &'a mut [&'b mut [T]],
    /// Elements that every row of `out` has.
    room: usize,
}

impl<T: Real> WithSimd for WindowSums<'_, '_, T> {
    type Output = ();

    /// 8 x 3 accumulators, 3 windows and a coefficient take 28 of the 32 registers of AVX-512. The other
    /// instruction sets have 16, of which 4 x 2 accumulators take half: as many as two units with a latency
    /// of four cycles keep busy. With 4 x 3 the compiler spills one accumulator, whose way through memory
    /// doubles the time of the loop: conv2d_b1_c64_h56_o64_k3_s1 took 4,988 us with AVX2 (Zen 4), and takes
    /// 2,671. An incomplete block of rows is padded with copies of its last row, whose results are dropped.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let rows = self.bias.len();
        let wide = size_of::<Vector<S, T>>() == 64;
        let mut row = 0;
        while row < rows {
            row += match rows - row {
                1 => self.rows::<S, 1, 8>(row),
                2..=4 if wide => self.rows::<S, 4, 3>(row),
                _ if wide => self.rows::<S, 8, 3>(row),
                _ => self.rows::<S, 4, 2>(row),
            };
        }
    }
}

impl<T: Real> WindowSums<'_, '_, T> {
    /// Computes `R` rows from `row` on over their whole length; returns `R`.
    #[inline(always)]
    fn rows<S: Simd, const R: usize, const V: usize>(&mut self, row: usize) -> usize {
        let lanes = T::lanes::<S>();
        let mut n = 0;
        while n < self.len {
            if let Some(at) = self.fit(n, V * lanes, if V == 3 { 2 * lanes } else { lanes }) {
                let tile = self.tile::<S, R, V>(row, at);
                self.store(row, at, V * lanes, &tile);
                n = at + V * lanes;
            } else if const { V == 3 }
                && let Some(at) = self.fit(n, 2 * lanes, lanes)
            {
                let tile = self.tile::<S, R, 2>(row, at);
                self.store(row, at, 2 * lanes, &tile);
                n = at + 2 * lanes;
            } else if let Some(at) = self.fit(n, lanes, 0) {
                let tile = self.tile::<S, R, 1>(row, at);
                self.store(row, at, lanes, &tile);
                n = at + lanes;
            } else {
                let tile = self.edge::<S, R>(row);
                self.store(row, 0, self.len, &tile);
                n = self.len;
            }
        }
        R
    }

    /// Start of a tile of `width` elements that covers position `n`; `None` if at most `more` elements are
    /// left and `width` does not fit. The tile starts at `n` if it ends within the row, or ends past it but
    /// within the memory; otherwise it starts before `n` and ends with the row.
    #[inline(always)]
    fn fit(&self, n: usize, width: usize, more: usize) -> Option<usize> {
        let rest = self.len - n;
        let room = n + width <= self.room && self.base + self.terms.reach + n + width <= self.p.len();
        if rest >= width || rest > more && room {
            Some(n)
        } else if rest > more && self.len >= width {
            Some(self.len - width)
        } else {
            None
        }
    }

    /// The coefficients of `R` rows for the taps of a block; indices past the last row repeat the last row.
    #[inline(always)]
    fn coefficients<const R: usize>(&self, row: usize, block: usize, taps: &[Tap]) -> [&[T]; R] {
        // All slices have one length, so an index is checked once.
        let width = if taps.len() == self.terms.taps.len() { self.terms.width } else { width(taps) };
        let mut a = [&self.a[..0]; R];
        for (r, a) in a.iter_mut().enumerate() {
            let r = (row + r).min(self.bias.len() - 1);
            *a = &self.a[r * self.a_row + block * self.terms.a_step..][..width];
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

    /// A tile of results: `R` rows of `V` vectors from position `n` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&self, row: usize, n: usize) -> [[Vector<S, T>; V]; R] {
        let lanes = T::lanes::<S>();
        let mut acc = self.start::<S, R, V>(row);
        for (block, taps) in self.terms.blocks().enumerate() {
            let a = self.coefficients::<R>(row, block, taps);
            let p = &self.p[self.base + n + block * self.terms.p_step..];
            for tap in taps {
                let window = &p[tap.p..tap.p + V * lanes];
                // The windows of the next tile or run: the processor's own prefetchers do not follow a walk
                // over planes. The pointwise convolution of eight images from 256 to 64 channels at 56x56
                // took 10.0 ms on one thread, and takes 7.8.
                if const { V == 3 } {
                    prefetch_far(window.as_ptr().wrapping_add(V * lanes).cast(), size_of_val(window));
                }
                let mut x = [T::ZERO.splat(); V];
                for (v, x) in x.iter_mut().enumerate() {
                    *x = load::<S, T>(&window[v * lanes..(v + 1) * lanes]);
                }
                for r in 0..R {
                    let w = a[r][tap.a].splat();
                    for v in 0..V {
                        acc[r][v] = madd(x[v], w, acc[r][v]);
                    }
                }
            }
        }
        acc
    }

    /// The results of rows shorter than a vector: reads past the row's end if `p` extends that far, else a
    /// zero-padded copy.
    #[inline(always)]
    fn edge<S: Simd, const R: usize>(&self, row: usize) -> [[Vector<S, T>; 1]; R] {
        let lanes = T::lanes::<S>();
        let mut acc = self.start::<S, R, 1>(row);
        for (block, taps) in self.terms.blocks().enumerate() {
            let a = self.coefficients::<R>(row, block, taps);
            for tap in taps {
                let p = &self.p[self.base + block * self.terms.p_step + tap.p..];
                let x = if p.len() >= lanes { load::<S, T>(&p[..lanes]) } else { load_part(&p[..self.len]) };
                for r in 0..R {
                    acc[r][0] = madd(x, a[r][tap.a].splat(), acc[r][0]);
                }
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
                self.out[row + r][n..][..count].copy_from_slice(&values[..count]);
            }
        }
    }
}

/// Loads `values` into the first lanes of a vector; the other lanes are zero.
#[inline(always)]
fn load_part<S: Simd, T: Real>(values: &[T]) -> Vector<S, T> {
    let mut vector: Vector<S, T> = T::ZERO.splat();
    bytemuck::cast_slice_mut::<_, T>(core::slice::from_mut(&mut vector))[..values.len()]
        .copy_from_slice(values);
    vector
}

/// The operands of [`dots`]: `rows` rows of `g` and the windows of `p` for each of `images` images, all of
/// `len` elements.
#[derive(Clone, Copy)]
pub(super) struct DotOperands<'a, T> {
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

/// `out[r * J + j] += sum over i and t of g[i * g_image + r * g_row + t] * p[i * p_image + offsets[j] + t]`,
/// where `J` is the number of offsets.
///
/// # Panics
/// Panics if a slice is too short.
pub(super) fn dots<T: Real>(operands: DotOperands<'_, T>, out: &mut [T]) {
    dispatch(Dots { operands, out });
}

struct Dots<'a, T> {
    operands: DotOperands<'a, T>,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for Dots<'_, T> {
    type Output = ();

    /// 4 x 6 accumulators with 32 registers, 2 x 4 with 16; a single row (depthwise) has a kernel of its own.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let wide = size_of::<Vector<S, T>>() == 64;
        let mut row = 0;
        while row < self.operands.rows {
            row += match self.operands.rows - row {
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
        let columns = self.operands.offsets.len();
        let mut column = 0;
        while column < columns {
            // The accumulators are copied to memory before they are summed: summed in place, they would be
            // spilled in the hot loop.
            let mut sums = [T::ZERO; 4 * 6 * 16];
            let lanes = T::lanes::<S>();
            self.tile::<S, R, J>(row, column, &mut sums);
            for (k, sums) in sums.chunks_exact(lanes).take(R * J).enumerate() {
                let (r, j) = (row + k / J, column + k % J);
                if r < self.operands.rows && j < columns {
                    let rest = self.rest(lanes, r, j);
                    self.out[r * columns + j] += sum_lanes(sums) + rest;
                }
            }
            column += J;
        }
        R
    }

    /// The part of one sum over the positions after the last whole vector.
    #[inline(always)]
    fn rest(&self, lanes: usize, row: usize, column: usize) -> T {
        let DotOperands { g, g_row, g_image, p, p_image, offsets, images, len, .. } = self.operands;
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

    /// Sums of `R` rows times `J` windows over whole vectors of positions; indices past the last row or
    /// window repeat the last.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const J: usize>(&self, row: usize, column: usize, sums: &mut [T]) {
        let DotOperands { g, g_row, g_image, p, p_image, offsets, rows, images, len } = self.operands;
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

/// `acc[r][j] + a[r] * b[j]`, summed over `len` elements; `len` is a multiple of the vector length.
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
                acc[r][j] = madd(x[r], y, acc[r][j]);
            }
        }
        t += lanes;
    }
    acc
}

#[inline(always)]
fn sum_lanes<T: Real>(lanes: &[T]) -> T {
    // Arrays of a constant length stay in registers.
    match lanes.len() {
        16 => halve::<T, 8>(lanes),
        8 => halve::<T, 4>(lanes),
        4 => halve::<T, 2>(lanes),
        _ => lanes.iter().fold(T::ZERO, |sum, &v| sum + v),
    }
}

/// The sum of `2 * H` values: the halves are added to each other repeatedly.
#[inline(always)]
fn halve<T: Real, const H: usize>(values: &[T]) -> T {
    let mut sums = [T::ZERO; H];
    for i in 0..H {
        sums[i] = values[i] + values[i + H];
    }
    fold_halves(&mut sums, |a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Element;
    use alloc::vec;
    use flex_math::simd::for_each_isa;

    fn values<T: Real>(len: usize, seed: usize) -> Vec<T> {
        (0..len).map(|i| T::from_f64(((i * 7919 + seed * 104_729) % 127) as f64 / 64.0 - 1.0)).collect()
    }

    fn check<T: Real>(name: &str, got: &[T], want: &[f64], magnitude: f64) {
        let eps = if size_of::<T>() == 4 { 1e-6 } else { 1e-15 };
        assert_eq!(got.len(), want.len());
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let error = (Element::to_f64(*got) - want).abs();
            assert!(error <= eps * magnitude, "{name} [{i}]: {got} for {want}");
        }
    }

    #[derive(Clone)]
    struct WindowsCase<T> {
        a: Vec<T>,
        bias: Vec<T>,
        p: Vec<T>,
        taps: Vec<Tap>,
        len: usize,
        pitch: usize,
    }

    /// Terms, distances between coefficients of blocks, and between windows of blocks, of the test's sums.
    const TERMS: usize = 8;
    const A_STEP: usize = 7;
    const P_STEP: usize = 3;

    impl<T: Real> WithSimd for WindowsCase<T> {
        type Output = Vec<T>;

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<T> {
            let Self { a, bias, p, taps, len, pitch } = &self;
            let mut out = vec![T::from_f64(99.0); bias.len() * pitch];
            let (len, room) = (*len, *pitch);
            let terms = &Terms::new(taps.clone(), TERMS, A_STEP, P_STEP);
            let rows = &mut out.chunks_mut(room).collect::<Vec<_>>();
            WindowSums { a, a_row: 5, bias, p, terms, base: 2, len, out: rows, room }.with_simd::<S>();
            out.chunks(room).flat_map(|row| row[..len].to_vec()).collect()
        }
    }

    fn windows_on_every_isa<T: Real>() {
        // Two blocks, the second of which has three terms.
        let taps: Vec<Tap> =
            [(3, 0), (1, 5), (0, 1), (4, 40), (2, 17)].into_iter().map(|(a, p)| Tap { a, p }).collect();
        let place = |k: usize| {
            let Tap { a, p } = taps[k % 5];
            (a + k / 5 * A_STEP, p + k / 5 * P_STEP)
        };
        for rows in [1, 2, 3, 4, 5, 8, 9, 13] {
            for len in [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 47, 48, 49, 63, 65, 100, 128, 150] {
                for (pitch, slack) in [(len, 0), (len + slack::<T>(), slack::<T>()), (len, slack::<T>())] {
                    let (a, bias) = (values::<T>(rows * 5 + A_STEP, 1), values::<T>(rows, 2));
                    let p = values::<T>(2 + 40 + len + slack, 3);
                    let mut want = vec![];
                    for r in 0..rows {
                        for n in 0..len {
                            let term = |k: usize| {
                                let (at, window) = place(k);
                                Element::to_f64(a[r * 5 + at]) * Element::to_f64(p[2 + window + n])
                            };
                            want.push(Element::to_f64(bias[r]) + (0..TERMS).map(term).sum::<f64>());
                        }
                    }
                    let case = WindowsCase { a, bias, p, taps: taps.clone(), len, pitch };
                    for_each_isa(case, |isa, got| check(isa, &got, &want, 9.0));
                }
            }
        }
    }

    #[test]
    fn windows_agree_with_the_definition_on_every_isa() {
        windows_on_every_isa::<f32>();
        windows_on_every_isa::<f64>();
    }

    #[derive(Clone)]
    struct DotsCase<'a, T>(DotOperands<'a, T>);

    impl<T: Real> WithSimd for DotsCase<'_, T> {
        type Output = Vec<T>;

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Vec<T> {
            let mut out = vec![T::ONE; self.0.rows * self.0.offsets.len()];
            Dots { operands: self.0, out: &mut out }.with_simd::<S>();
            out
        }
    }

    fn dots_on_every_isa<T: Real>() {
        let all = [0, 3, 1, 20, 11, 7, 2, 8, 30, 4, 5, 6, 9];
        for rows in [1, 2, 3, 4, 5, 9] {
            for columns in [1, 4, 6, 7, 13] {
                for len in [1, 3, 8, 15, 16, 17, 48, 50] {
                    let images = 2;
                    let (g_row, p_image) = (len + 1, len + 33);
                    let g_image = rows * g_row;
                    let (g, p) = (values::<T>(images * g_image, 1), values::<T>(images * p_image, 2));
                    let offsets = &all[..columns];
                    let mut want = vec![1.0; rows * columns];
                    for i in 0..images {
                        for (r, want) in want.chunks_mut(columns).enumerate() {
                            for (want, offset) in want.iter_mut().zip(offsets) {
                                for t in 0..len {
                                    *want += Element::to_f64(g[i * g_image + r * g_row + t])
                                        * Element::to_f64(p[i * p_image + offset + t]);
                                }
                            }
                        }
                    }
                    let operands =
                        DotOperands { g: &g, g_row, g_image, p: &p, p_image, offsets, rows, images, len };
                    for_each_isa(DotsCase(operands), |isa, got| check(isa, &got, &want, 100.0));
                }
            }
        }
    }

    #[test]
    fn dots_agree_with_the_definition_on_every_isa() {
        dots_on_every_isa::<f32>();
        dots_on_every_isa::<f64>();
    }
}
