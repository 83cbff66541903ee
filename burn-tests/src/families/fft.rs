//! Real Fourier transforms of any length along any axis, against the sum that defines them.

use crate::array::Array;
use crate::compare::{Tolerance, compare, is_close};
use crate::operands::{over_operands, take};
use crate::release::Backend;
use crate::row::{Context, Row};
use crate::support::{floats, read_float};
use burn_backend::DType;
use burn_backend::tensor::FloatTensor;

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![Row::new(&["rfft"], forward), Row::new(&["irfft"], inverse)]
}

/// Powers, primes, products of small and of large primes, and neighbours of these.
const LENGTHS: [usize; 30] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 25, 27, 31, 32, 49, 64, 97, 100, 127, 128, 251, 256, 289,
    360, 1021, 1024,
];

/// Shape, axis and length of the transform.
fn cases() -> Vec<(Vec<usize>, usize, Option<usize>)> {
    let mut all: Vec<_> = LENGTHS.iter().map(|&n| (vec![2, n], 1, None)).collect();
    all.extend([
        (vec![16], 0, None),
        (vec![7], 0, None),
        (vec![12, 5], 0, None),
        (vec![3, 8, 2], 1, None),
        (vec![2, 3, 4, 5], 2, None),
        // Lengths above and below the signal's, even and odd.
        (vec![2, 5], 1, Some(8)),
        (vec![2, 5], 1, Some(13)),
        (vec![2, 9], 1, Some(4)),
        (vec![2, 16], 1, Some(7)),
        (vec![17, 3], 0, Some(16)),
        (vec![2, 3], 1, Some(1)),
        (vec![3, 6, 2], 1, Some(10)),
        (vec![0, 8], 1, None),
    ]);
    all
}

/// An element, and the norm of the line that it is a sum over.
#[derive(Clone, Copy, Debug)]
struct Bin {
    value: f64,
    norm: f64,
}

/// Cosines and sines of the angles `2 pi k / n`.
fn circle(n: usize) -> Vec<(f64, f64)> {
    (0..n)
        .map(|k| {
            let angle = 2.0 * std::f64::consts::PI * k as f64 / n as f64;
            (angle.cos(), angle.sin())
        })
        .collect()
}

fn norm(line: &[f64]) -> f64 {
    line.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Compares with bins. The allowed error is that of a transform of `n` samples: a few roundings per level.
fn expect<B: Backend>(
    context: &Context<'_, B>,
    got: FloatTensor<B>,
    dtype: DType,
    n: usize,
    want: &Array<Bin>,
) -> Result<(), String> {
    let accuracy = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let absolute = accuracy * (4.0 + 2.0 * (n as f64).log2());
    let tolerance = context.tolerance(Tolerance { absolute, ..Tolerance::ulps(1.0) });
    compare(&read_float::<B>(got, dtype)?, want, |got, want: Bin| {
        is_close(dtype, got, want.value, tolerance, want.norm)
    })
}

fn forward<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["rfft"]) {
        for (shape, axis, length) in cases() {
            let n = length.unwrap_or(shape[axis]);
            let signal = floats(dtype, &shape, (-1.0, 1.0), 1);
            let circle = circle(n);
            let want = |of: &[Array<f64>]| {
                let bins = |part: &dyn Fn(f64, (f64, f64)) -> f64| {
                    of[0].map_axis(axis, n / 2 + 1, |line| {
                        let line = &line[..line.len().min(n)];
                        let term = |j: usize, k: usize| part(line[j], circle[j * k % n]);
                        let bin =
                            |k| Bin { value: (0..line.len()).map(|j| term(j, k)).sum(), norm: norm(line) };
                        (0..=n / 2).map(bin).collect()
                    })
                };
                (bins(&|x, (cos, _)| x * cos), bins(&|x, (_, sin)| -x * sin))
            };
            let case = format!("{shape:?} axis {axis} to {length:?}");
            over_operands(context, dtype, &case, &[&signal], want, |t, want| {
                let [signal] = take(t);
                let (re, im) = B::rfft(signal, axis, length);
                expect(context, re, dtype, n, &want.0).map_err(|e| format!("real: {e}"))?;
                expect(context, im, dtype, n, &want.1).map_err(|e| format!("imaginary: {e}"))
            });
        }
    }
}

fn inverse<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["irfft"]) {
        let lengths = LENGTHS.iter().filter(|&&n| n > 1).map(|&n| (vec![2, n / 2 + 1], 1, Some(n)));
        let others = [
            (vec![2, 9], 1, None),
            (vec![5], 0, None),
            (vec![7, 3], 0, None),
            (vec![2, 4, 3], 1, Some(7)),
            // Too few bins, and too many.
            (vec![2, 3], 1, Some(12)),
            (vec![2, 9], 1, Some(6)),
            (vec![2, 9], 1, Some(5)),
            (vec![2, 1], 1, Some(1)),
            (vec![2, 1], 1, Some(4)),
        ];
        for (shape, axis, length) in lengths.chain(others) {
            let n = length.unwrap_or(2 * (shape[axis] - 1));
            let (re, im) = (floats(dtype, &shape, (-1.0, 1.0), 1), floats(dtype, &shape, (-1.0, 1.0), 2));
            let circle = circle(n);
            let mut out = shape.clone();
            out[axis] = n;
            let want = |of: &[Array<f64>]| {
                Array::from_fn(out.clone(), |index| {
                    let (re, im) = (of[0].line(axis, index), of[1].line(axis, index));
                    let bins = re.len().min(n / 2 + 1);
                    // Each bin also stands for its conjugate, except the first bin and, for even lengths, the
                    // middle bin, which are real.
                    let term = |k: usize| {
                        let (cos, sin) = circle[index[axis] * k % n];
                        if k == 0 || 2 * k == n { re[k] * cos } else { 2.0 * (re[k] * cos - im[k] * sin) }
                    };
                    let norm = norm(&re[..bins]).hypot(norm(&im[..bins])) * 1.5;
                    Bin { value: (0..bins).map(term).sum::<f64>() / n as f64, norm: norm / n as f64 }
                })
            };
            let case = format!("{shape:?} axis {axis} to {length:?}");
            over_operands(context, dtype, &case, &[&re, &im], want, |t, want| {
                let [re, im] = take(t);
                expect(context, B::irfft(re, im, axis, length), dtype, n, want)
            });
        }
    }
}
