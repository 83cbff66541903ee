//! Compares Flex with `burn-ndarray` on random shapes that are too large for the naive oracles of the suite:
//! beyond the blocks, tiles and thresholds of the kernels. `burn-ndarray` shares no code with Flex
//! (`matrixmultiply` multiplies its matrices, its convolutions are direct loops) and computes in f64 here.
//! All operands are exact in every dtype, so its results are also valid for f32 and the half types.
//!
//! `ndarray/disagreements.txt` lists the known disagreements of the two backends; such cases are not drawn
//! here. A failure prints its seed. `BURN_TESTS_SEED` draws other cases, `BURN_TESTS_CASES` more of them.
#![allow(missing_docs)]

use burn_backend::ops::{ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, Shape, Slice, TensorMetadata};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_tests::array::Array;
use burn_tests::compare::{Tolerance, compare_floats, round_to};
use burn_tests::kind::{Bool, Float, Int, Kind};
use burn_tests::row::panic_text;
use burn_tests::support::Stream;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a call, in one backend and one dtype.
struct Outcome<B: Backend> {
    /// Results; the call may have several.
    tensors: Vec<FloatTensor<B>>,
    /// Number of terms, of magnitude at most one, that each element sums.
    terms: usize,
    /// Units in the last place that a result of Flex may be off by, for functions that are not exactly
    /// rounded.
    ulps: f64,
    /// Units in the last place that a result of `burn-ndarray` may be off by, in f64.
    oracle: f64,
}

/// Draws a case. Both backends draw the same case from the same seed.
struct Draw<B: Backend> {
    stream: Stream,
    dtype: DType,
    backend: PhantomData<B>,
}

impl<B: Backend> Draw<B> {
    fn new(seed: u64, dtype: DType) -> Self {
        Self { stream: Stream::new(seed), dtype, backend: PhantomData }
    }

    /// A size in `low..=high`, distributed uniformly on a logarithmic scale.
    fn size(&mut self, low: usize, high: usize) -> usize {
        let (from, to) = ((low as f64).ln(), (high as f64 + 1.0).ln());
        ((from + self.stream.unit() * (to - from)).exp() as usize).clamp(low, high)
    }

    fn sizes<const N: usize>(&mut self, low: usize, high: usize) -> [usize; N] {
        [(); N].map(|()| self.size(low, high))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.stream.int(0, bound as i128) as usize
    }

    /// A shape of some rank with at most `elements` elements.
    fn shape(&mut self, elements: usize) -> Vec<usize> {
        let rank = 1 + self.below(4);
        let mut left = elements;
        let mut shape: Vec<usize> = (0..rank)
            .map(|_| {
                let size = self.size(1, left);
                left /= size;
                size
            })
            .collect();
        let turn = self.below(rank);
        shape.rotate_left(turn);
        shape
    }

    fn array(&mut self, shape: &[usize], (low, high): (f64, f64)) -> Array<f64> {
        // f16 represents every bf16 number that is not much smaller than one; so does every wider dtype.
        let stream = &mut self.stream;
        Array::from_fn(shape, |_| {
            let x = round_to(DType::BF16, low + stream.unit() * (high - low));
            if x.abs() < 1e-3 { 0.0 } else { x }
        })
    }

    /// Numbers in a range, in a tensor that may be a view of another.
    fn float_in(&mut self, shape: &[usize], range: (f64, f64)) -> FloatTensor<B> {
        let device = Default::default();
        let rank = shape.len();
        let (axis, other) = (self.below(rank), self.below(rank));
        let up =
            |array: &Array<f64>, dtype| B::float_from_data(<Float as Kind<B>>::encode(array, dtype), &device);
        match self.below(4) {
            0 => {
                let mut swapped = shape.to_vec();
                swapped.swap(axis, other);
                B::float_swap_dims(up(&self.array(&swapped, range), self.dtype), axis, other)
            }
            1 => {
                let mut longer = shape.to_vec();
                longer[axis] += 3;
                let whole = up(&self.array(&longer, range), self.dtype);
                let mut slices = vec![Slice::new(0, None, 1); rank];
                slices[axis] = Slice::new(2, Some(shape[axis] as isize + 2), 1);
                B::float_slice(whole, &slices)
            }
            2 => B::float_flip(up(&self.array(shape, range), self.dtype), &[axis]),
            _ => up(&self.array(shape, range), self.dtype),
        }
    }

    /// Numbers in [-1, 1).
    fn float(&mut self, shape: &[usize]) -> FloatTensor<B> {
        self.float_in(shape, (-1.0, 1.0))
    }

    fn indices(&mut self, shape: &[usize], bound: usize) -> IntTensor<B> {
        let stream = &mut self.stream;
        let array = Array::from_fn(shape, |_| stream.int(0, bound as i128));
        B::int_from_data(<Int as Kind<B>>::encode(&array, DType::I64), &Default::default())
    }

    fn mask(&mut self, shape: &[usize]) -> BoolTensor<B> {
        let stream = &mut self.stream;
        let array = Array::from_fn(shape, |_| stream.unit() < 0.5);
        let dtype = DType::Bool(burn_backend::BoolStore::Native);
        B::bool_from_data(<Bool as Kind<B>>::encode(&array, dtype), &Default::default())
    }
}

/// Results that are sums.
fn sums<B: Backend>(terms: usize, tensors: impl Into<Vec<FloatTensor<B>>>) -> Outcome<B> {
    Outcome { tensors: tensors.into(), terms, ulps: 1.0, oracle: 0.0 }
}

/// Results of functions, each off by at most `ulps`.
fn values<B: Backend>(ulps: f64, tensors: impl Into<Vec<FloatTensor<B>>>) -> Outcome<B> {
    Outcome { tensors: tensors.into(), terms: 0, ulps, oracle: 0.0 }
}

fn matmul<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let [m, k, n] = d.sizes(1, 300);
    sums(k, [B::float_matmul(d.float(&[m, k]), d.float(&[k, n]))])
}

fn matmul_of_a_batch<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let [m, k, n] = d.sizes(1, 70);
    let [a, b] = d.sizes(1, 8);
    // One side of the batch may be broadcast.
    let (left, right) = [([a, b], [a, b]), ([1, b], [a, b]), ([a, b], [a, 1])][d.below(3)];
    let (x, y) = (d.float(&[left[0], left[1], m, k]), d.float(&[right[0], right[1], k, n]));
    sums(k, [B::float_matmul(x, y)])
}

/// Sizes of a convolution: batch, channels per group on both sides, groups, planes, kernel, stride, padding,
/// dilation.
struct Sizes<const N: usize> {
    x: Vec<usize>,
    weight: Vec<usize>,
    outs: usize,
    /// Most products that an output and an element of the weight's gradient sum.
    terms: [usize; 2],
    options: ConvOptions<N>,
}

fn sizes<B: Backend, const N: usize>(d: &mut Draw<B>, plane: usize) -> Sizes<N> {
    let groups = [1, 1, 1, 2, 4][d.below(5)];
    let batch = d.size(1, 3);
    let [ins, outs] = d.sizes(1, 40 / groups);
    let kernel: [usize; N] = d.sizes(1, 5);
    let dilation: [usize; N] = d.sizes(1, 3);
    let stride: [usize; N] = d.sizes(1, 3);
    let padding = kernel.map(|k| d.below(k));
    let planes: [usize; N] = std::array::from_fn(|k| {
        let size = dilation[k] * (kernel[k] - 1) + d.size(1, plane);
        let left = (size + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) % stride[k];
        // The trait's default gradient of a grouped weight (used by conv1d) panics if the last window leaves
        // elements over.
        if groups > 1 && left > 0 { size + stride[k] - left } else { size }
    });
    let volume: usize = kernel.iter().product();
    Sizes {
        x: [&[batch, ins * groups][..], &planes].concat(),
        weight: [&[outs * groups, ins][..], &kernel].concat(),
        outs: outs * groups,
        terms: [ins.max(outs) * volume, batch * planes.iter().product::<usize>()],
        options: ConvOptions::new(stride, padding, dilation, groups),
    }
}

macro_rules! conv {
    ($name:ident, $axes:literal, $plane:literal: $forward:ident, $x:ident, $weight:ident) => {
        fn $name<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
            let Sizes { x, weight, outs, terms, options } = sizes::<B, $axes>(d, $plane);
            let (x, weight, bias) = (d.float(&x), d.float(&weight), d.float(&[outs]));
            let out = B::$forward(x.clone(), weight.clone(), Some(bias), options.clone());
            let grad = d.float(&out.shape().to_vec());
            let x_grad = B::$x(x.clone(), weight.clone(), grad.clone(), options.clone());
            let weight_grad = B::$weight(x, weight, grad, options);
            sums(terms[0].max(terms[1]), [out, x_grad, weight_grad])
        }
    };
}

conv!(conv1d, 1, 300: conv1d, conv1d_x_backward, conv1d_weight_backward);
conv!(conv2d, 2, 40: conv2d, conv2d_x_backward, conv2d_weight_backward);
conv!(conv3d, 3, 9: conv3d, conv3d_x_backward, conv3d_weight_backward);

macro_rules! conv_transpose {
    ($name:ident, $axes:literal, $plane:literal) => {
        fn $name<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
            let Sizes { x, weight, terms, options, .. } = sizes::<B, $axes>(d, $plane);
            // From output channels to input channels, so the weight keeps its shape.
            let x = [&[x[0], weight[0]][..], &x[2..]].concat();
            let bias = d.float(&[weight[1] * options.groups]);
            let left = options.stride.map(|stride| d.below(stride));
            let options = ConvTransposeOptions::new(
                options.stride,
                options.padding,
                left,
                options.dilation,
                options.groups,
            );
            sums(terms[0], [B::$name(d.float(&x), d.float(&weight), Some(bias), options)])
        }
    };
}

conv_transpose!(conv_transpose1d, 1, 300);
conv_transpose!(conv_transpose2d, 2, 30);
conv_transpose!(conv_transpose3d, 3, 7);

/// A shape to pool over, and a kernel, a stride and a padding.
fn windows<B: Backend>(d: &mut Draw<B>) -> (Vec<usize>, [[usize; 2]; 3]) {
    let kernel = d.sizes(1, 5);
    let stride = d.sizes(1, 3);
    let padding = kernel.map(|k: usize| d.below(k / 2 + 1));
    let [batch, channels] = d.sizes(1, 20);
    let [height, width] = d.sizes(5, 90);
    (vec![batch, channels, height, width], [kernel, stride, padding])
}

fn max_pool2d<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let (shape, [kernel, stride, padding]) = windows(d);
    values(0.0, [B::max_pool2d(d.float(&shape), kernel, stride, padding, [1, 1], false)])
}

fn avg_pool2d<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let (shape, [kernel, stride, padding]) = windows(d);
    let x = d.float(&shape);
    let count_padding = d.below(2) == 0;
    let out = B::avg_pool2d(x.clone(), kernel, stride, padding, count_padding, false);
    let grad = d.float(&out.shape().to_vec());
    let x_grad = B::avg_pool2d_backward(x, grad, kernel, stride, padding, count_padding, false);
    sums(25, [out, x_grad])
}

fn adaptive_avg_pool2d<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let [batch, channels] = d.sizes(1, 20);
    let [height, width] = d.sizes(5, 70);
    let out = d.sizes(1, 70);
    let x = d.float(&[batch, channels, height, width]);
    sums(height * width, [B::adaptive_avg_pool2d(x, out)])
}

fn interpolate<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let [batch, channels] = d.sizes(1, 10);
    let [height, width] = d.sizes(2, 60);
    let out = d.sizes(2, 90);
    let mode = [InterpolateMode::Nearest, InterpolateMode::Bilinear][d.below(2)].clone();
    let x = d.float(&[batch, channels, height, width]);
    // The rounding error of a position grows with the image size, which counts as that many more terms.
    sums(16 * (height + width), [B::interpolate(x, out, InterpolateOptions::new(mode))])
}

fn reductions<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(300_000);
    let x = d.float(&shape);
    let axis = d.below(shape.len());
    let all = shape.iter().product();
    sums(
        all,
        [
            B::float_sum(x.clone()),
            B::float_mean(x.clone()),
            B::float_sum_dim(x.clone(), axis),
            B::float_mean_dim(x.clone(), axis),
            B::float_cumsum(x, axis),
        ],
    )
}

fn extremes<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(300_000);
    let x = d.float(&shape);
    let axis = d.below(shape.len());
    values(
        0.0,
        [
            B::float_max_dim(x.clone(), axis),
            B::float_min_dim(x.clone(), axis),
            B::float_cummax(x.clone(), axis),
            B::float_cummin(x.clone(), axis),
            B::float_sort(x, axis, d.below(2) == 0),
        ],
    )
}

fn products<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = [d.size(1, 60), d.size(1, 60), d.size(1, 60)];
    let x = d.float_in(&shape, (0.9, 1.1));
    let axis = d.below(3);
    // Each factor adds a rounding.
    values(64.0, [B::float_prod_dim(x.clone(), axis), B::float_cumprod(x, axis)])
}

fn softmax<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(200_000);
    let x = d.float_in(&shape, (-9.0, 9.0));
    let axis = d.below(shape.len());
    // The trait's default sums exponentials one by one, and subtracts the logarithm of the sum from the
    // argument.
    let oracle = 32.0 + (shape[axis] as f64).sqrt();
    Outcome { oracle, ..values(8.0, [B::softmax(x, axis)]) }
}

fn functions<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(100_000);
    let x = d.float_in(&shape, (-3.0, 3.0));
    let positive = d.float_in(&shape, (0.5, 50.0));
    values(
        4.0,
        [
            B::float_exp(x.clone()),
            B::float_log(positive.clone()),
            B::float_sqrt(positive.clone()),
            B::float_recip(positive),
            B::float_sin(x.clone()),
            B::float_cos(x.clone()),
            B::float_tanh(x.clone()),
            B::float_atan(x.clone()),
            B::float_abs(x.clone()),
            B::float_floor(x.clone()),
            B::float_neg(x),
        ],
    )
}

fn arithmetic<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(200_000);
    // Either side may be broadcast along an axis.
    let mut other = shape.clone();
    if d.below(2) == 0 {
        let axis = d.below(shape.len());
        other[axis] = 1;
    }
    let (a, b) = (d.float(&shape), d.float_in(&other, (1.0, 2.0)));
    values(
        1.0,
        [
            B::float_add(a.clone(), b.clone()),
            B::float_sub(b.clone(), a.clone()),
            B::float_mul(a.clone(), b.clone()),
            B::float_div(a, b),
        ],
    )
}

fn taking<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(100_000);
    let x = d.float(&shape);
    let axis = d.below(shape.len());
    let count = d.size(1, 300);
    let mut index_shape = shape.clone();
    index_shape[axis] = d.size(1, 2 * shape[axis]);
    let chosen = d.indices(&[count], shape[axis]);
    let gathered = d.indices(&index_shape, shape[axis]);
    let mask = d.mask(&shape);
    let y = d.float(&shape);
    values(
        0.0,
        [
            B::float_select(x.clone(), axis, chosen),
            B::float_gather(axis, x.clone(), gathered),
            B::float_mask_where(x.clone(), mask, y.clone()),
            B::float_cat(vec![x.clone(), y], axis),
            B::float_repeat_dim(x.clone(), axis, 2),
            B::float_reshape(x, Shape::new([shape.iter().product()])),
        ],
    )
}

fn adding<B: Backend>(d: &mut Draw<B>) -> Outcome<B> {
    let shape = d.shape(50_000);
    let x = d.float(&shape);
    let axis = d.below(shape.len());
    let updates = d.size(1, 300);
    let mut value_shape = shape.clone();
    value_shape[axis] = updates;
    let chosen = d.indices(&[updates], shape[axis]);
    let scattered = d.indices(&value_shape, shape[axis]);
    let values = d.float(&value_shape);
    sums(
        updates + 1,
        [
            B::float_select_add(x.clone(), axis, chosen, values.clone()),
            B::float_scatter_add(axis, x, scattered, values),
        ],
    )
}

/// A call in both backends.
struct Call {
    name: &'static str,
    flex: fn(&mut Draw<Flex>) -> Outcome<Flex>,
    ndarray: fn(&mut Draw<NdArray>) -> Outcome<NdArray>,
    cases: u64,
}

macro_rules! calls {
    ($($name:ident $cases:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let (flex, ndarray) = (super::$name::<super::Flex>, super::$name::<super::NdArray>);
                super::check(super::Call { name: stringify!($name), flex, ndarray, cases: $cases });
            }
        )*
    };
}

mod agrees {
    calls! {
        matmul 12, matmul_of_a_batch 12, conv1d 12, conv2d 12, conv3d 8, conv_transpose1d 12, conv_transpose2d 12,
        conv_transpose3d 8, max_pool2d 12, avg_pool2d 12, adaptive_avg_pool2d 12, interpolate 12, reductions 16,
        extremes 16, products 12, softmax 12, functions 8, arithmetic 12, taking 16, adding 12,
    }
}

fn check(call: Call) {
    let number = |variable| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BURN_TESTS_SEED").unwrap_or(1);
    let cases = number("BURN_TESTS_CASES").unwrap_or(call.cases);
    for seed in first..first + cases {
        let run = || -> Result<(), String> {
            let want = (call.ndarray)(&mut Draw::new(seed, DType::F64));
            let Outcome { terms, ulps, oracle, .. } = want;
            let want: Vec<Array<f64>> = want.tensors.into_iter().map(read::<NdArray>).collect();
            for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
                let got = (call.flex)(&mut Draw::new(seed, dtype));
                let ulps = if dtype == DType::F64 { ulps + oracle } else { ulps };
                let tolerance = Tolerance { ulps, ..Tolerance::accumulated(dtype, terms) };
                for (k, (got, want)) in got.tensors.into_iter().zip(&want).enumerate() {
                    if got.dtype() != dtype {
                        return Err(format!("{dtype:?}: result {k} has dtype {:?}", got.dtype()));
                    }
                    compare_floats(dtype, &read::<Flex>(got), want, tolerance, terms as f64)
                        .map_err(|e| format!("{dtype:?}: result {k}: {e}"))?;
                }
            }
            Ok(())
        };
        let outcome =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panic_text(&*payload)));
        if let Err(reason) = outcome {
            panic!("{} (BURN_TESTS_SEED={seed} BURN_TESTS_CASES=1): {reason}", call.name);
        }
    }
}

fn read<B: Backend>(tensor: FloatTensor<B>) -> Array<f64> {
    <Float as Kind<B>>::decode(&<Float as Kind<B>>::into_data(tensor))
}
