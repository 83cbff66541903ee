//! Linear maps, softmax and Fourier transforms.

use super::ordering::adjoint;
use super::{download, extent, holds, same, small, upload};
use crate::array::Array;
use crate::kind::Float;
use crate::release::Backend;
use burn_backend::DType;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use proptest::prelude::*;

/// `(2 x - 3 y) w = 2 x w - 3 y w`, and each product equals its definition. Values are small integers, so all
/// results are exact.
pub fn matmul_is_linear<B: Backend>() {
    let inputs = (
        (extent(), extent(), extent()),
        prop::collection::vec(1usize..4, 0..3),
        any::<[bool; 3]>(),
        any::<u32>(),
    );
    holds("matmul_is_linear", 150, inputs, |((m, k, n), batch, [left_one, right_one, turned], seed)| {
        let one = |one: bool| if one { vec![1; batch.len()] } else { batch.clone() };
        let left = [&one(left_one)[..], &[m, k]].concat();
        let right = [&one(right_one)[..], &[k, n]].concat();
        let (x, y, w) =
            (small(&left, seed as u64), small(&left, seed as u64 + 1), small(&right, seed as u64 + 2));
        let f = |a: &Array<f64>| upload::<B, Float>(a, DType::F32);
        let weight = || {
            if turned {
                let mut axes: Vec<usize> = (0..right.len()).collect();
                axes.swap(right.len() - 2, right.len() - 1);
                B::float_permute(f(&w.permute(&axes)), &axes)
            } else {
                f(&w)
            }
        };
        let product = |a| download::<B, Float>(B::float_matmul(a, weight()));
        let mixed = x.zip(&y, |x, y| 2.0 * x - 3.0 * y);
        let (of_x, of_y) = (product(f(&x)), product(f(&y)));
        same("linearity", &product(f(&mixed)), &of_x.zip(&of_y, |x, y| 2.0 * x - 3.0 * y))?;
        let (rank, mut out) = (left.len(), left.clone());
        for axis in 0..rank - 2 {
            out[axis] = left[axis].max(right[axis]);
        }
        out[rank - 1] = n;
        let want = Array::from_fn(out, |index| {
            let (mut a, mut b) = (index.to_vec(), index.to_vec());
            for axis in 0..rank - 2 {
                a[axis] = index[axis] % left[axis];
                b[axis] = index[axis] % right[axis];
            }
            let term = |p| {
                (a[rank - 1], b[rank - 2]) = (p, p);
                x.at(&a) * w.at(&b)
            };
            (0..k).map(term).sum()
        });
        same("definition", &of_x, &want)
    });
}

/// A two-dimensional convolution.
#[derive(Clone, Copy, Debug)]
struct Conv {
    batch: usize,
    groups: usize,
    /// Channels of each group.
    channels_in: usize,
    channels_out: usize,
    /// Size of the output, kernel, stride, padding and dilation of both axes.
    axes: [[usize; 5]; 2],
}

impl Conv {
    fn strategy() -> impl Strategy<Value = Self> {
        let axis = || {
            let size = prop_oneof![3 => 1usize..6, 1 => 7usize..10, 1 => 15usize..18];
            (size, 1usize..5, 1usize..4, 0usize..3, 1usize..3).prop_map(
                |(size, kernel, stride, padding, dilation)| {
                    // Less padding than the window's width, and an input that is not only padding.
                    let window = dilation * (kernel - 1) + 1;
                    let room = ((size - 1) * stride + window - 1) / 2;
                    [size, kernel, stride, padding.min(room), dilation]
                },
            )
        };
        let channels = || prop_oneof![3 => 1usize..4, 1 => 7usize..10, 1 => 15usize..18];
        (1usize..3, 1usize..4, channels(), channels(), [axis(), axis()]).prop_map(
            |(batch, groups, channels_in, channels_out, axes)| Self {
                batch,
                groups,
                channels_in,
                channels_out,
                axes,
            },
        )
    }

    fn per_axis(&self, k: usize) -> [usize; 2] {
        self.axes.map(|axis| axis[k])
    }

    /// The smallest input that leads to the output's size.
    fn input(&self) -> [usize; 4] {
        let [h, w] = self.axes.map(|[size, kernel, stride, padding, dilation]| {
            (size - 1) * stride + dilation * (kernel - 1) + 1 - 2 * padding
        });
        [self.batch, self.groups * self.channels_in, h, w]
    }

    fn output(&self) -> [usize; 4] {
        let [h, w] = self.per_axis(0);
        [self.batch, self.groups * self.channels_out, h, w]
    }

    fn weight(&self) -> [usize; 4] {
        let [h, w] = self.per_axis(1);
        [self.groups * self.channels_out, self.channels_in, h, w]
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new(self.per_axis(2), self.per_axis(3), self.per_axis(4), self.groups)
    }

    fn transposed(&self) -> ConvTransposeOptions<2> {
        ConvTransposeOptions::new(self.per_axis(2), self.per_axis(3), [0, 0], self.per_axis(4), self.groups)
    }
}

/// A convolution is linear in its input and in its weight.
pub fn conv_is_linear<B: Backend>() {
    holds("conv_is_linear", 150, (Conv::strategy(), any::<u32>()), |(conv, seed)| {
        let seed = seed as u64;
        let run = |x: &Array<f64>, w: &Array<f64>| {
            let (x, w) = (upload::<B, Float>(x, DType::F32), upload::<B, Float>(w, DType::F32));
            download::<B, Float>(B::conv2d(x, w, None, conv.options()))
        };
        let mix = |a: &Array<f64>, b: &Array<f64>| a.zip(b, |a, b| 2.0 * a - 3.0 * b);
        let [x, y] = [seed, seed + 1].map(|seed| small(&conv.input(), seed));
        let [v, w] = [seed + 2, seed + 3].map(|seed| small(&conv.weight(), seed));
        same("input", &run(&mix(&x, &y), &w), &mix(&run(&x, &w), &run(&y, &w)))?;
        same("weight", &run(&x, &mix(&v, &w)), &mix(&run(&x, &v), &run(&x, &w)))
    });
}

/// `<conv(x), y> = <x, conv_transpose(y)>`, and the gradients with respect to input and weight are adjoints
/// too.
pub fn conv_has_an_adjoint<B: Backend>() {
    holds("conv_has_an_adjoint", 150, (Conv::strategy(), any::<u32>()), |(conv, seed)| {
        let seed = seed as u64;
        let x = small(&conv.input(), seed);
        let y = small(&conv.output(), seed + 1);
        let w = small(&conv.weight(), seed + 2);
        let f = |a: &Array<f64>| upload::<B, Float>(a, DType::F32);
        let forward = download::<B, Float>(B::conv2d(f(&x), f(&w), None, conv.options()));
        let back = download::<B, Float>(B::conv_transpose2d(f(&y), f(&w), None, conv.transposed()));
        adjoint("transposed", (&forward, &y), (&x, &back))?;
        let gradient = download::<B, Float>(B::conv2d_x_backward(f(&x), f(&w), f(&y), conv.options()));
        same("gradient of the input", &gradient, &back)?;
        let gradient = download::<B, Float>(B::conv2d_weight_backward(f(&x), f(&w), f(&y), conv.options()));
        adjoint("weight", (&forward, &y), (&w, &gradient))
    });
}

/// A tensor with lines of any length, and the axis of the lines.
fn line() -> impl Strategy<Value = ([usize; 3], usize, u64)> {
    let long = prop_oneof![2 => extent(), 1 => 127usize..131, 1 => Just(1000usize)];
    (long, 1usize..4, 1usize..6, 0usize..3, any::<u32>()).prop_map(|(n, a, b, axis, seed)| {
        let mut shape = [a, b, b];
        shape[axis] = n;
        (shape, axis, seed as u64)
    })
}

/// Probabilities are between zero and one and sum up to one, even for scores that overflow `exp`.
pub fn softmax_rows_sum_to_one<B: Backend>() {
    holds(
        "softmax_rows_sum_to_one",
        200,
        (line(), prop_oneof![Just(1.0), Just(30.0), Just(1e4)]),
        |((shape, axis, seed), range)| {
            for (dtype, ulp) in [(DType::F32, f32::EPSILON as f64), (DType::F64, f64::EPSILON)] {
                let scores = crate::support::floats(dtype, &shape, (-range, range), seed);
                let got = download::<B, Float>(B::softmax(upload::<B, Float>(&scores, dtype), axis));
                if let Some(p) = got.data().iter().find(|p| !(0.0..=1.0).contains(*p)) {
                    return Err(format!("a probability of {p}"));
                }
                // Each term is rounded once, relative to its own size, after a division by a sum that is off
                // by a few ULP.
                let sums = got.fold_axis(axis, exact_sum);
                if let Some(sum) = sums.data().iter().find(|sum| (*sum - 1.0).abs() > 8.0 * ulp) {
                    return Err(format!("{dtype:?} probabilities that sum up to {sum}"));
                }
            }
            Ok(())
        },
    );
}

/// A compensated sum (Kahan), whose rounding error is negligible.
fn exact_sum(terms: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for term in terms {
        let term = term - lost;
        let next: f64 = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    sum
}

/// `irfft(rfft(x)) = x`, for any length.
pub fn rfft_inverts<B: Backend>() {
    holds("rfft_inverts", 200, line(), |(shape, axis, seed)| {
        let n = shape[axis];
        for (dtype, ulp) in [(DType::F32, f32::EPSILON as f64), (DType::F64, f64::EPSILON)] {
            let signal = crate::support::floats(dtype, &shape, (-1.0, 1.0), seed);
            let tensor = || upload::<B, Float>(&signal, dtype);
            // The error of a transform grows as log n, relative to the root mean square of its input.
            let bound = 4.0 * ulp * (2.0 + (n as f64).log2());
            for length in [Some(n), None] {
                // Without a length, the inverse gives a signal of even length.
                if length.is_none() && n % 2 == 1 {
                    continue;
                }
                let (re, im) = B::rfft(tensor(), axis, length);
                let back = download::<B, Float>(B::irfft(re, im, axis, length));
                if back.shape() != signal.shape() {
                    return Err(format!("length {length:?}: shape {:?}", back.shape()));
                }
                let error = back.zip(&signal, |a, b| (a - b).abs());
                let worst = error
                    .data()
                    .iter()
                    .copied()
                    .fold(0.0, |a: f64, b| if b > a || b.is_nan() { b } else { a });
                // Written so that NaN does not pass.
                if worst.is_nan() || worst > bound {
                    return Err(format!("{dtype:?} length {length:?}: off by {worst:e}, {bound:e} allowed"));
                }
            }
        }
        Ok(())
    });
}
