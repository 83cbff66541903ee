//! The transforms along the axes of tiles, for as many tiles at a time as a vector has lanes: values of
//! polynomials, and polynomials from values.

use flex_math::simd::{Scalar, Simd, Vector, load, store};

/// The most inputs that the outputs of a tile depend on along an axis.
pub(super) const SIDE: usize = 6;

/// A value of each tile.
type Lanes<S> = Vector<S, f32>;

/// A linear map along an axis.
pub(super) trait Transform<const N: usize, const M: usize> {
    fn apply<S: Simd>(values: [Lanes<S>; N]) -> [Lanes<S>; M];
}

/// Transforms each column of a square of values, if it has `columns`, and then each row. A square without
/// columns is one row. `from` has a start of each row and the distance between columns, `to` the distances
/// between rows and between columns. `between` is room for the transformed columns.
#[inline(always)]
pub(super) fn along_axes<S: Simd, T: Transform<N, M>, const N: usize, const M: usize>(
    columns: bool,
    (from, rows_from, column): (&[f32], [usize; N], usize),
    between: &mut [[Lanes<S>; N]; M],
    (to, [to_row, to_column]): (&mut [f32], [usize; 2]),
) {
    let mut rows = 1;
    if columns {
        rows = M;
        for x in 0..N {
            let mut values = [0f32.splat(); N];
            for (y, value) in values.iter_mut().enumerate() {
                *value = load(&from[rows_from[y] + x * column..]);
            }
            let values = T::apply(values);
            for (y, between) in between.iter_mut().enumerate() {
                between[x] = values[y];
            }
        }
    } else {
        for (x, value) in between[0].iter_mut().enumerate() {
            *value = load(&from[x * column..]);
        }
    }
    for (y, values) in between.iter().enumerate().take(rows) {
        let values = T::apply(*values);
        for (x, value) in values.iter().enumerate() {
            store(*value, &mut to[y * to_row + x * to_column..]);
        }
    }
}

/// Room for transformed columns.
#[inline(always)]
pub(super) fn room<S: Simd, const N: usize, const M: usize>() -> [[Lanes<S>; N]; M] {
    [[0f32.splat(); N]; M]
}

/// `a + factor * b`.
#[inline(always)]
fn plus<S: Simd>(a: Lanes<S>, factor: f32, b: Lanes<S>) -> Lanes<S> {
    b.mul_add(factor.splat(), a)
}

/// `factor * a`.
#[inline(always)]
fn scaled<S: Simd>(a: Lanes<S>, factor: f32) -> Lanes<S> {
    a * factor.splat()
}

/// Inputs to points: products with the coefficients of the polynomials that vanish at all other points.
pub(super) struct Inputs;

impl Transform<SIDE, SIDE> for Inputs {
    #[inline(always)]
    fn apply<S: Simd>([x0, x1, x2, x3, x4, x5]: [Lanes<S>; SIDE]) -> [Lanes<S>; SIDE] {
        let (even, odd) = (x4 - x2, x3 - x1);
        let (sum, difference) = (plus(even, -1.5, x3), plus(odd, -1.5, x2));
        [
            plus(even, -1.5, odd) + (x0 - x2),
            sum + difference,
            sum - difference,
            plus(even, 0.5, odd),
            plus(even, -2.0, odd),
            plus(x5 - x3 - odd, -1.5, even),
        ]
    }
}

/// The values of a kernel of 3 to points.
pub(super) struct Kernel3;

impl Transform<3, SIDE> for Kernel3 {
    #[inline(always)]
    fn apply<S: Simd>([w0, w1, w2]: [Lanes<S>; 3]) -> [Lanes<S>; SIDE] {
        let even = w0 + w2;
        [
            w0,
            scaled(even + w1, -1.0 / 3.0),
            scaled(even - w1, 1.0 / 3.0),
            scaled(plus(plus(w0, 2.0, w1), 4.0, w2), 1.0 / 15.0),
            scaled(plus(plus(w0, -0.5, w1), 0.25, w2), -16.0 / 15.0),
            w2,
        ]
    }
}

/// The values of a kernel of 5 to points.
pub(super) struct Kernel5;

impl Transform<5, SIDE> for Kernel5 {
    #[inline(always)]
    fn apply<S: Simd>([w0, w1, w2, w3, w4]: [Lanes<S>; 5]) -> [Lanes<S>; SIDE] {
        let (even, odd) = (w0 + w2 + w4, w1 + w3);
        [
            w0,
            scaled(even + odd, -1.0 / 3.0),
            scaled(even - odd, 1.0 / 3.0),
            scaled(plus(plus(plus(plus(w0, 2.0, w1), 4.0, w2), 8.0, w3), 16.0, w4), 1.0 / 15.0),
            scaled(plus(plus(plus(plus(w0, -0.5, w1), 0.25, w2), -0.125, w3), 0.0625, w4), -16.0 / 15.0),
            w4,
        ]
    }
}

/// Points to the four outputs of a kernel of 3.
pub(super) struct Outputs4;

impl Transform<SIDE, 4> for Outputs4 {
    #[inline(always)]
    fn apply<S: Simd>([m0, m1, m2, m3, m4, m5]: [Lanes<S>; SIDE]) -> [Lanes<S>; 4] {
        let (sum, difference) = (m1 + m2, m1 - m2);
        [
            m0 + sum + m3 + m4,
            plus(plus(difference, 2.0, m3), -0.5, m4),
            plus(plus(sum, 4.0, m3), 0.25, m4),
            plus(plus(difference, 8.0, m3), -0.125, m4) + m5,
        ]
    }
}

/// Points to the two outputs of a kernel of 5.
pub(super) struct OutputsOf5;

impl Transform<SIDE, 2> for OutputsOf5 {
    #[inline(always)]
    fn apply<S: Simd>([m0, m1, m2, m3, m4, m5]: [Lanes<S>; SIDE]) -> [Lanes<S>; 2] {
        [m0 + (m1 + m2) + m3 + m4, plus(plus(m1 - m2, 2.0, m3), -0.5, m4) + m5]
    }
}

/// [`Inputs`] for four points: 0, 1, -1 and infinity.
pub(super) struct Inputs4;

impl Transform<4, 4> for Inputs4 {
    #[inline(always)]
    fn apply<S: Simd>([x0, x1, x2, x3]: [Lanes<S>; 4]) -> [Lanes<S>; 4] {
        [x0 - x2, x1 + x2, x2 - x1, x1 - x3]
    }
}

/// The values of a kernel of 3 to four points.
pub(super) struct Kernel3At4;

impl Transform<3, 4> for Kernel3At4 {
    #[inline(always)]
    fn apply<S: Simd>([w0, w1, w2]: [Lanes<S>; 3]) -> [Lanes<S>; 4] {
        let even = w0 + w2;
        [w0, scaled(even + w1, 0.5), scaled(even - w1, 0.5), w2]
    }
}

/// Four points to the two outputs of a kernel of 3.
pub(super) struct Outputs2;

impl Transform<4, 2> for Outputs2 {
    #[inline(always)]
    fn apply<S: Simd>([m0, m1, m2, m3]: [Lanes<S>; 4]) -> [Lanes<S>; 2] {
        [m0 + (m1 + m2), m1 - m2 - m3]
    }
}
