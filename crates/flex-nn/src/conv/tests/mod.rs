//! Convolutions against their definition: a loop in f64 over all products that a convolution sums.

mod chains;
mod deform;
mod depthwise;
mod few_pixels;
mod lowering;
mod winograd;

use super::*;
use crate::{DType, Element, Error};
use crate::{bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Reproducible values in [-1, 1) with few enough digits to be exact in half precision.
fn values(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 57) as f64 / 64.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn tensor<T: Element>(values: &[f64], shape: &[usize]) -> Tensor {
    let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
    Tensor::from_slice(&values, shape.to_vec()).unwrap()
}

fn random<T: Element>(shape: &[usize], seed: u64) -> Tensor {
    tensor::<T>(&values(shape.iter().product(), seed), shape)
}

fn to_f64<T: Element>(t: &Tensor) -> Vec<f64> {
    t.to_vec::<T>().into_iter().map(T::to_f64).collect()
}

/// A result and the sum of the magnitudes of its terms, which bounds its rounding error.
struct Sums {
    value: Vec<f64>,
    magnitude: Vec<f64>,
}

impl Sums {
    fn new(len: usize) -> Self {
        Self { value: vec![0.0; len], magnitude: vec![0.0; len] }
    }

    fn add(&mut self, at: usize, value: f64) {
        self.value[at] += value;
        self.magnitude[at] += value.abs();
    }

    fn check<T: Element>(&self, name: &str, got: &Tensor, shape: &[usize]) {
        assert_eq!(got.shape().to_vec(), shape, "{name}");
        assert_eq!(got.dtype(), T::DTYPE, "{name}");
        // Storing rounds once; f32 sums of a few thousand terms lose some more bits.
        let (storage, sum) = match T::DTYPE {
            DType::F64 => (0.0, 1e-14),
            DType::F32 => (0.0, 2e-6),
            DType::F16 => (f64::powi(2.0, -11), 2e-6),
            _ => (f64::powi(2.0, -8), 2e-6),
        };
        let got = to_f64::<T>(got);
        assert_eq!(got.len(), self.value.len(), "{name}");
        for (i, ((&got, &want), &magnitude)) in got.iter().zip(&self.value).zip(&self.magnitude).enumerate() {
            let error = (got - want).abs();
            assert!(
                error <= storage * want.abs() * 1.01 + sum * magnitude + 1e-30,
                "{name}[{i}]: {got} for {want}"
            );
        }
    }
}

/// Calls `f(image element, weight element, grid element)` for every product of a convolution, straight from
/// the definition. Shapes have any number of spatial axes up to three; leading axes of size one are added.
fn products<const N: usize>(
    image: &[usize],
    weight: &[usize],
    grid: &[usize],
    options: &ConvOptions<N>,
    mut f: impl FnMut(usize, usize, usize),
) {
    let lift = |v: &[usize], fill| -> Vec<usize> {
        let mut all = vec![fill; 3 - v.len()];
        all.extend(v);
        all
    };
    let (x, w, y) = (lift(&image[2..], 1), lift(&weight[2..], 1), lift(&grid[2..], 1));
    let (stride, padding, dilation) =
        (lift(&options.stride, 1), lift(&options.padding, 0), lift(&options.dilation, 1));
    let (per_group_out, per_group_in) = (grid[1] / options.groups, weight[1]);
    for b in 0..grid[0] {
        for o in 0..grid[1] {
            for c in 0..per_group_in {
                let channel = o / per_group_out * per_group_in + c;
                for yi in 0..y.iter().product::<usize>() {
                    let ys = [yi / (y[1] * y[2]), yi / y[2] % y[1], yi % y[2]];
                    for wi in 0..w.iter().product::<usize>() {
                        let ws = [wi / (w[1] * w[2]), wi / w[2] % w[1], wi % w[2]];
                        let mut at = 0;
                        let mut inside = true;
                        for k in 0..3 {
                            let i = (ys[k] * stride[k] + ws[k] * dilation[k]).wrapping_sub(padding[k]);
                            inside &= i < x[k];
                            at = at * x[k] + i.min(x[k]);
                        }
                        if inside {
                            let plane: usize = x.iter().product();
                            f(
                                (b * image[1] + channel) * plane + at,
                                (o * per_group_in + c) * w.iter().product::<usize>() + wi,
                                (b * grid[1] + o) * y.iter().product::<usize>() + yi,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Checks a convolution and its gradients; `x`, `weight` and `grad` may be views.
fn check_conv_of<T: Element, const N: usize>(
    x: Tensor,
    weight: Tensor,
    options: &ConvOptions<N>,
    bias: bool,
) {
    let name = alloc::format!("{:?} {:?} {options:?}", x.shape().as_slice(), weight.shape().as_slice());
    let (xs, ws) = (x.shape().to_vec(), weight.shape().to_vec());
    let bias = bias.then(|| random::<T>(&[ws[0]], 7));
    let y = conv(x.clone(), weight.clone(), bias.clone(), options).expect(&name);
    let mut ys = vec![xs[0], ws[0]];
    for k in 0..N {
        let extent = options.dilation[k] * (ws[2 + k] - 1) + 1;
        ys.push((xs[2 + k] + 2 * options.padding[k] - extent) / options.stride[k] + 1);
    }
    let grad = random::<T>(&ys, 11);
    let (xv, wv, gv) = (to_f64::<T>(&x), to_f64::<T>(&weight), to_f64::<T>(&grad));
    let (mut out, mut dx, mut dw, mut db) =
        (Sums::new(gv.len()), Sums::new(xv.len()), Sums::new(wv.len()), Sums::new(ws[0]));
    if let Some(bias) = &bias {
        let bias = to_f64::<T>(bias);
        let plane: usize = ys[2..].iter().product();
        for (i, g) in gv.iter().enumerate() {
            out.add(i, bias[i / plane % ws[0]]);
            db.add(i / plane % ws[0], *g);
        }
    }
    products(&xs, &ws, &ys, options, |i, w, o| {
        out.add(o, xv[i] * wv[w]);
        dx.add(i, gv[o] * wv[w]);
        dw.add(w, gv[o] * xv[i]);
    });
    out.check::<T>(&name, &y, &ys);
    let got = conv_x_backward(x.clone(), weight.clone(), grad.clone(), options).unwrap();
    dx.check::<T>(&alloc::format!("dx {name}"), &got, &xs);
    let got = conv_weight_backward(x, weight, grad.clone(), options).unwrap();
    dw.check::<T>(&alloc::format!("dw {name}"), &got, &ws);
    if let Some(bias) = bias {
        let got = conv_bias_backward::<N>(bias, grad).unwrap();
        db.check::<T>(&alloc::format!("db {name}"), &got, &ws[..1]);
    }
}

fn check_conv<T: Element, const N: usize>(x: &[usize], weight: &[usize], options: &ConvOptions<N>) {
    check_conv_of::<T, N>(random::<T>(x, 3), random::<T>(weight, 5), options, true);
}

/// Checks a transposed convolution and its gradients.
fn check_transpose<T: Element, const N: usize>(x: &[usize], weight: &[usize], o: &ConvTransposeOptions<N>) {
    let name = alloc::format!("{x:?} {weight:?} {o:?}");
    let (xt, wt) = (random::<T>(x, 3), random::<T>(weight, 5));
    let bias = random::<T>(&[weight[1] * o.groups], 7);
    let y = conv_transpose(xt.clone(), wt.clone(), Some(bias.clone()), o).expect(&name);
    let mut ys = vec![x[0], weight[1] * o.groups];
    for k in 0..N {
        let extent = o.dilation[k] * (weight[2 + k] - 1) + 1;
        ys.push((x[2 + k] - 1) * o.stride[k] + extent + o.padding_out[k] - 2 * o.padding[k]);
    }
    let grad = random::<T>(&ys, 11);
    let (xv, wv, gv, bv) = (to_f64::<T>(&xt), to_f64::<T>(&wt), to_f64::<T>(&grad), to_f64::<T>(&bias));
    let (mut out, mut dx, mut dw) = (Sums::new(gv.len()), Sums::new(xv.len()), Sums::new(wv.len()));
    let plane: usize = ys[2..].iter().product();
    for i in 0..gv.len() {
        out.add(i, bv[i / plane % bv.len()]);
    }
    let options =
        ConvOptions { stride: o.stride, padding: o.padding, dilation: o.dilation, groups: o.groups };
    products(&ys, weight, x, &options, |i, w, g| {
        out.add(i, xv[g] * wv[w]);
        dx.add(g, gv[i] * wv[w]);
        dw.add(w, gv[i] * xv[g]);
    });
    out.check::<T>(&name, &y, &ys);
    let got = conv_transpose_x_backward(wt.clone(), grad.clone(), o).unwrap();
    dx.check::<T>(&alloc::format!("dx {name}"), &got, x);
    let got = conv_transpose_weight_backward(xt, wt, grad, o).unwrap();
    dw.check::<T>(&alloc::format!("dw {name}"), &got, weight);
}

fn options<const N: usize>(stride: usize, padding: usize, dilation: usize, groups: usize) -> ConvOptions<N> {
    ConvOptions { stride: [stride; N], padding: [padding; N], dilation: [dilation; N], groups }
}

fn transposed_options<const N: usize>(
    stride: usize,
    padding: usize,
    padding_out: usize,
    groups: usize,
) -> ConvTransposeOptions<N> {
    let (stride, padding, padding_out) = ([stride; N], [padding; N], [padding_out; N]);
    ConvTransposeOptions { stride, padding, padding_out, dilation: [1; N], groups }
}

#[test]
fn every_kind_of_conv2d() {
    for (x, w, o) in [
        ([2, 3, 9, 11], [5, 3, 3, 3], options(1, 1, 1, 1)),
        ([1, 3, 20, 21], [9, 3, 7, 7], options(2, 3, 1, 1)),
        ([2, 4, 12, 13], [6, 2, 3, 2], options(3, 2, 2, 2)),
        // Pointwise, with and without stride; more rows than a block; an odd number of rows.
        ([2, 8, 7, 7], [17, 8, 1, 1], options(1, 0, 1, 1)),
        ([1, 8, 9, 8], [3, 8, 1, 1], options(2, 0, 1, 1)),
        ([2, 8, 5, 5], [2, 8, 1, 1], options(1, 1, 1, 1)),
        // Depthwise, with multiplier, dilation and stride.
        ([2, 6, 10, 9], [6, 1, 3, 3], options(1, 1, 1, 6)),
        ([1, 6, 14, 15], [12, 1, 3, 3], options(2, 3, 3, 6)),
        ([9, 3, 33, 18], [3, 1, 5, 5], options(1, 2, 1, 3)),
        // Padding beyond the kernel; an output of one position; a stride beyond the kernel.
        ([1, 2, 3, 3], [2, 2, 2, 2], options(1, 4, 1, 1)),
        ([3, 2, 5, 5], [4, 2, 5, 5], options(1, 0, 1, 1)),
        ([2, 2, 17, 16], [3, 2, 2, 2], options(5, 1, 1, 1)),
        // Tiny planes, shorter than a vector.
        ([70, 3, 2, 2], [5, 3, 3, 3], options(1, 1, 1, 1)),
        ([2, 5, 1, 1], [11, 5, 1, 1], options(1, 0, 1, 1)),
        // Rows that need several runs, and many channels.
        ([1, 2, 3, 2100], [2, 2, 3, 3], options(1, 1, 1, 1)),
        ([1, 1, 2, 2200], [2, 1, 1, 2], options(2, 0, 1, 1)),
        ([1, 600, 4, 5], [3, 600, 3, 3], options(1, 1, 1, 1)),
        // Wide gaps between rows.
        ([1, 2, 9, 9], [2, 2, 3, 3], options(1, 8, 8, 1)),
    ] {
        check_conv::<f32, 2>(&x, &w, &o);
        check_conv::<f64, 2>(&x, &w, &o);
    }
}

/// A part of the output, or all of it, sees nothing but padding.
#[test]
fn kernels_whose_taps_all_lie_in_the_padding() {
    for (input, kernel, padding) in [(1, 1, 5), (1, 1, 101), (1, 2, 9), (2, 2, 12), (3, 1, 40), (5, 3, 64)] {
        for (stride, dilation) in [(1, 1), (2, 1), (3, 7), (7, 3), (9, 40), (64, 1)] {
            if input + 2 * padding > dilation * (kernel - 1) {
                let o = options(stride, padding, dilation, 1);
                check_conv::<f32, 1>(&[1, 1, input], &[2, 1, kernel], &o);
                // Rows of several vectors, whole rows of which see nothing.
                let rows = ConvOptions {
                    stride: [stride, 1],
                    padding: [padding, 0],
                    dilation: [dilation, 1],
                    groups: 1,
                };
                check_conv::<f32, 2>(&[1, 1, input, 70], &[2, 1, kernel, 2], &rows);
                check_conv::<f16, 2>(
                    &[1, 1, input, 1],
                    &[1, 1, kernel, 1],
                    &ConvOptions { padding: [padding, 0], ..options(stride, 0, dilation, 1) },
                );
                check_conv::<f64, 2>(
                    &[2, 1, 1, input],
                    &[1, 1, 1, kernel],
                    &ConvOptions { padding: [0, padding], ..options(stride, 0, dilation, 1) },
                );
            }
        }
    }
}

/// A stride along an axis with one window reaches nothing, however large it is.
#[test]
fn huge_strides_of_one_window() {
    let strides = [usize::MAX / 2, usize::MAX / 2 + 2, usize::MAX];
    for (axis, huge) in (0..3).flat_map(|axis| strides.map(|huge| (axis, huge))) {
        let mut stride = [1; 3];
        stride[axis] = huge;
        let o = ConvOptions { stride, padding: [0; 3], dilation: [1; 3], groups: 1 };
        for kernel in [1, 2] {
            check_conv::<f32, 3>(&[2, 2, 3, 4, 5], &[3, 2, kernel, kernel, kernel], &o);
            check_conv::<f16, 3>(&[2, 2, 3, 4, 5], &[3, 2, kernel, kernel, kernel], &o);
        }
    }
}

/// Along an axis with one tap, a dilation reaches nothing either.
#[test]
fn huge_dilations_of_one_tap() {
    let gradient = |dilation| {
        let o = ConvOptions { dilation: [dilation; 2], ..options(1, 0, 1, 1) };
        let (x, w, grad) = (&[16, 64, 7, 7], &[64, 64, 1, 1], &[16, 64, 7, 7]);
        let [x, w, grad] = [x, w, grad].map(|shape| random::<f32>(shape, 3));
        conv_weight_backward(x, w, grad, &o).unwrap().to_vec::<f32>()
    };
    assert_eq!(gradient(usize::MAX), gradient(1));
    let o = UnfoldOptions { stride: [usize::MAX; 2], padding: [0; 2], dilation: [1; 2] };
    let folded = fold4d(random::<f32>(&[1, 4, 1], 1), [4, 4], [2, 2], &o).unwrap();
    let taps = random::<f32>(&[1, 4, 1], 1).to_vec::<f32>();
    let folded = folded.to_vec::<f32>();
    assert_eq!([folded[0], folded[1], folded[4], folded[5]], taps[..]);
}

/// Each tap is the only one with its remainder. To look for it among all others takes minutes.
#[test]
fn many_taps_with_a_stride_as_long() {
    let n = 300_000;
    let (x, w) = (random::<f64>(&[1, 1, 2 * n], 1), random::<f64>(&[1, 1, n], 2));
    let got = conv(x.clone(), w.clone(), None, &options::<1>(n, 0, 1, 1)).unwrap().to_vec::<f64>();
    let (x, w) = (x.to_vec::<f64>(), w.to_vec::<f64>());
    for (got, x) in got.into_iter().zip(x.chunks(n)) {
        let expected: f64 = x.iter().zip(&w).map(|(a, b)| a * b).sum();
        assert!((got - expected).abs() < 1e-9, "{got} for {expected}");
    }
}

#[test]
fn one_and_three_axes() {
    for (x, w, o) in [
        ([2, 4, 40], [6, 4, 3], options::<1>(1, 1, 1, 1)),
        ([3, 4, 41], [4, 1, 5], options(2, 2, 3, 4)),
        ([1, 3, 5000], [2, 3, 9], options(1, 4, 1, 1)),
    ] {
        check_conv::<f32, 1>(&x, &w, &o);
    }
    for (x, w, o) in [
        ([2, 2, 5, 6, 7], [4, 2, 3, 3, 3], options::<3>(1, 1, 1, 1)),
        ([1, 4, 6, 7, 5], [4, 2, 2, 3, 1], options(2, 1, 2, 2)),
        ([2, 3, 3, 4, 5], [2, 3, 1, 1, 1], options(1, 0, 1, 1)),
        ([1, 3, 4, 1, 1], [2, 3, 2, 1, 1], options(1, 0, 1, 1)),
    ] {
        check_conv::<f32, 3>(&x, &w, &o);
        check_conv::<f64, 3>(&x, &w, &o);
    }
    let mixed = ConvOptions { stride: [1, 2, 3], padding: [0, 1, 2], dilation: [2, 1, 1], groups: 1 };
    check_conv::<f32, 3>(&[2, 2, 5, 6, 9], &[3, 2, 2, 3, 4], &mixed);
}

#[test]
fn halves_are_rounded_once() {
    for (x, w, o) in [
        ([2, 3, 9, 11], [5, 3, 3, 3], options(1, 1, 1, 1)),
        ([1, 4, 9, 11], [4, 1, 3, 3], options(2, 1, 1, 4)),
        ([2, 300, 3, 7], [9, 300, 1, 1], options(1, 0, 1, 1)),
    ] {
        check_conv::<f16, 2>(&x, &w, &o);
        check_conv::<bf16, 2>(&x, &w, &o);
    }
    let o = ConvTransposeOptions { stride: [2], padding: [1], padding_out: [1], dilation: [1], groups: 1 };
    check_transpose::<f16, 1>(&[2, 3, 9], &[3, 4, 3], &o);
    // 70000 ones overflow f16; an f16 accumulator would stop at 2048 anyway.
    let ones = |shape: &[usize], v: f64| tensor::<f16>(&vec![v; shape.iter().product()], shape);
    let y = conv(ones(&[1, 4096, 1, 1], 1.0), ones(&[1, 4096, 1, 1], 0.5), None, &options::<2>(1, 0, 1, 1));
    assert_eq!(to_f64::<f16>(&y.unwrap()), [2048.0]);
    let db = conv_bias_backward::<1>(ones(&[1], 0.0), ones(&[4, 1, 5000], 1.0)).unwrap();
    assert_eq!(to_f64::<f16>(&db), [20000.0]);
}

#[test]
fn transposed() {
    for stride in 1..4 {
        for padding in 0..3 {
            for (dilation, padding_out) in [(1, 0), (2, 1), (3, 0)] {
                let o = ConvTransposeOptions {
                    stride: [stride, 1],
                    padding: [padding, padding],
                    padding_out: [padding_out.min(stride - 1), 0],
                    dilation: [dilation, 1],
                    groups: 2,
                };
                check_transpose::<f32, 2>(&[2, 4, 5, 6], &[4, 3, 3, 4], &o);
            }
        }
    }
    let o = ConvTransposeOptions { stride: [2], padding: [0], padding_out: [1], dilation: [1], groups: 3 };
    check_transpose::<f64, 1>(&[1, 3, 30], &[3, 1, 2], &o);
    check_transpose::<f32, 1>(&[1, 3, 1], &[3, 1, 1], &o);
    let o = ConvTransposeOptions {
        stride: [2, 1, 3],
        padding: [1, 0, 1],
        padding_out: [1, 0, 2],
        dilation: [1, 2, 1],
        groups: 1,
    };
    check_transpose::<f32, 3>(&[2, 2, 3, 4, 3], &[2, 3, 3, 2, 2], &o);
    // More output padding than stride: the grid does not reach the end of the image.
    let o = ConvTransposeOptions { stride: [1], padding: [0], padding_out: [2], dilation: [3], groups: 1 };
    check_transpose::<f32, 1>(&[1, 2, 4], &[2, 2, 2], &o);
}

#[test]
fn views_as_operands() {
    let o = options::<2>(1, 1, 1, 1);
    let x = random::<f32>(&[2, 3, 8, 9], 1);
    let w = random::<f32>(&[4, 3, 3, 3], 2);
    let plain = x.clone().to_vec::<f32>();
    check_conv_of::<f32, 2>(x.clone().swap_axes(2, 3).unwrap(), w.clone().swap_axes(2, 3).unwrap(), &o, true);
    check_conv_of::<f32, 2>(x.clone().flip(&[1, 3]).unwrap(), w.clone().flip(&[0, 2]).unwrap(), &o, false);
    check_conv_of::<f32, 2>(
        x.clone().narrow(3, 2, 5).unwrap(),
        w.clone().narrow(0, 1, 2).unwrap(),
        &o,
        false,
    );
    let channels_last = random::<f32>(&[2, 8, 9, 3], 3).permute(&[0, 3, 1, 2]).unwrap();
    check_conv_of::<f32, 2>(channels_last, w.clone(), &o, true);
    let one = random::<f32>(&[1, 3, 8, 1], 4).expand(&[4, 3, 8, 7]).unwrap();
    check_conv_of::<f32, 2>(one, w.clone(), &o, true);
    let windows = random::<f32>(&[2, 3, 20], 5).unfold(2, 6, 2).unwrap();
    check_conv_of::<f32, 2>(windows, w, &options(1, 0, 1, 1), true);
    assert_eq!(x.to_vec::<f32>(), plain);
}

#[test]
fn empty_batches_and_channels() {
    let o = options::<2>(1, 1, 1, 1);
    let (x, w) = (random::<f32>(&[0, 3, 5, 5], 1), random::<f32>(&[4, 3, 3, 3], 2));
    let bias = random::<f32>(&[4], 3);
    let y = conv(x.clone(), w.clone(), Some(bias.clone()), &o).unwrap();
    assert_eq!(y.shape().to_vec(), [0, 4, 5, 5]);
    assert_eq!(conv_x_backward(x.clone(), w.clone(), y.clone(), &o).unwrap().shape().to_vec(), [0, 3, 5, 5]);
    assert_eq!(conv_weight_backward(x, w, y.clone(), &o).unwrap().to_vec::<f32>(), [0.0; 108]);
    assert_eq!(conv_bias_backward::<2>(bias.clone(), y).unwrap().to_vec::<f32>(), [0.0; 4]);
    let y = conv(random::<f32>(&[2, 0, 2, 2], 1), random::<f32>(&[4, 0, 3, 3], 1), Some(bias.clone()), &o);
    let y = y.unwrap().to_vec::<f32>();
    assert!(y.chunks(4).zip(bias.to_vec::<f32>().iter().cycle()).all(|(y, &b)| y == [b; 4]));
    let y = conv(random::<f32>(&[2, 3, 2, 2], 1), random::<f32>(&[0, 3, 3, 3], 1), None, &o).unwrap();
    assert_eq!(y.shape().to_vec(), [2, 0, 2, 2]);
    // An empty image, so that every tap reads padding.
    let y = conv(random::<f32>(&[1, 3, 0, 2], 1), random::<f32>(&[4, 3, 2, 2], 1), Some(bias), &o).unwrap();
    assert_eq!(y.shape().to_vec(), [1, 4, 1, 3]);
}

/// In several groups, with more output channels than a block has.
#[test]
fn sums_over_no_channels_are_the_bias() {
    let o = ConvTransposeOptions { stride: [1], padding: [0], padding_out: [0], dilation: [1], groups: 2 };
    let bias = random::<f32>(&[24], 1);
    let (x, weight) = (tensor::<f32>(&[], &[1, 0, 5]), tensor::<f32>(&[], &[0, 12, 3]));
    let y = conv_transpose(x, weight, Some(bias.clone()), &o).unwrap();
    let (y, bias) = (to_f64::<f32>(&y), to_f64::<f32>(&bias));
    assert!(y.len() == 24 * 7 && y.iter().enumerate().all(|(i, &y)| y == bias[i / 7]));
}

#[test]
fn large_problems_take_the_parallel_paths() {
    // Few images with much work: planes are packed first, then blocks of rows are multiplied, in bands where
    // there are few rows.
    check_conv::<f32, 2>(&[1, 8, 64, 66], &[24, 8, 3, 3], &options(1, 1, 1, 1));
    check_conv::<f32, 2>(&[1, 16, 96, 96], &[2, 16, 3, 3], &options(1, 1, 1, 1));
    check_conv::<f32, 2>(&[2, 16, 70, 70], &[4, 16, 3, 3], &options(2, 1, 1, 1));
    check_conv::<f32, 1>(&[1, 16, 40000], &[2, 16, 3], &options(1, 1, 1, 1));
    // Many images.
    check_conv::<f32, 2>(&[40, 3, 8, 8], &[8, 3, 3, 3], &options(1, 1, 1, 1));
    check_conv::<f32, 2>(&[2, 40, 20, 20], &[40, 1, 3, 3], &options(1, 1, 1, 40));
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (x, w) = (random::<f32>(&[3, 8, 48, 50], 1), random::<f32>(&[16, 8, 3, 3], 2));
            let o = options::<2>(1, 1, 1, 1);
            let y = conv(x.clone(), w.clone(), None, &o).unwrap();
            let dx = conv_x_backward(x.clone(), w.clone(), y.clone(), &o).unwrap();
            let dw = conv_weight_backward(x, w, y.clone(), &o).unwrap();
            let db = conv_bias_backward::<2>(random::<f32>(&[16], 1), y.clone()).unwrap();
            // Of passes that are products, whose last columns are not a whole vector.
            let o = transposed_options::<2>(2, 1, 0, 1);
            let (x, w) = (random::<f32>(&[3, 16, 33, 31], 3), random::<f32>(&[16, 50, 4, 4], 4));
            let wide = conv_transpose(x, w, None, &o).unwrap();
            [y, dx, dw, db, wide].map(|t| t.to_vec::<f32>())
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(5));
}

#[test]
fn non_finite_values_stay_where_they_belong() {
    let o = options::<2>(1, 1, 1, 1);
    let mut xv = values(2 * 49, 1);
    xv[0] = f64::INFINITY;
    xv[48] = f64::NAN;
    let (x, w) = (tensor::<f32>(&xv, &[1, 2, 7, 7]), random::<f32>(&[3, 2, 3, 3], 2));
    let mut gv = values(3 * 49, 3);
    let grad = tensor::<f32>(&gv, &[1, 3, 7, 7]);
    let dw = to_f64::<f32>(&conv_weight_backward(x.clone(), w.clone(), grad, &o).unwrap());
    let mut want = vec![0.0; 54];
    products(&[1, 2, 7, 7], &[3, 2, 3, 3], &[1, 3, 7, 7], &o, |i, w, g| want[w] += xv[i] * gv[g]);
    assert!(want.iter().any(|v| v.is_finite()) && want.iter().any(|v| v.is_nan()));
    for (got, want) in dw.iter().zip(&want) {
        assert!(
            got.is_nan() && want.is_nan() || got == want || (got - want).abs() < 1e-4,
            "{got} for {want}"
        );
    }
    // An input only reaches the outputs whose windows contain it.
    let y = to_f64::<f32>(&conv(x, w.clone(), None, &o).unwrap());
    let bad = |y: &[f64]| y.iter().filter(|v| !v.is_finite()).count();
    assert_eq!(bad(&y), 3 * (4 + 4));
    gv[24] = f64::NAN;
    let grad = tensor::<f32>(&gv, &[1, 3, 7, 7]);
    let dx = conv_x_backward(random::<f32>(&[1, 2, 7, 7], 1), w, grad, &o).unwrap();
    assert_eq!(bad(&to_f64::<f32>(&dx)), 2 * 9);
}

#[test]
fn gradients_agree_with_central_differences() {
    let o = options::<2>(2, 1, 2, 2);
    let (xs, ws) = ([2, 4, 7, 8], [6, 2, 3, 2]);
    let (xv, wv) = (values(2 * 4 * 56, 1), values(6 * 2 * 6, 2));
    let f = |x: &[f64], w: &[f64]| {
        let y = conv(tensor::<f64>(x, &xs), tensor::<f64>(w, &ws), None, &o).unwrap();
        y.to_vec::<f64>().iter().enumerate().map(|(i, y)| y * y * (1.0 + i as f64 * 0.01)).sum::<f64>()
    };
    let (x, w) = (tensor::<f64>(&xv, &xs), tensor::<f64>(&wv, &ws));
    let y = conv(x.clone(), w.clone(), None, &o).unwrap();
    let g: Vec<f64> =
        y.to_vec::<f64>().iter().enumerate().map(|(i, y)| 2.0 * y * (1.0 + i as f64 * 0.01)).collect();
    let g = tensor::<f64>(&g, y.shape());
    let dx = conv_x_backward(x.clone(), w.clone(), g.clone(), &o).unwrap().to_vec::<f64>();
    let dw = conv_weight_backward(x, w, g, &o).unwrap().to_vec::<f64>();
    let h = 1e-5;
    for i in (0..xv.len()).step_by(7) {
        let (mut up, mut down) = (xv.clone(), xv.clone());
        up[i] += h;
        down[i] -= h;
        let want = (f(&up, &wv) - f(&down, &wv)) / (2.0 * h);
        assert!((dx[i] - want).abs() <= 1e-7 * (1.0 + want.abs()), "dx[{i}]: {} for {want}", dx[i]);
    }
    for i in 0..wv.len() {
        let (mut up, mut down) = (wv.clone(), wv.clone());
        up[i] += h;
        down[i] -= h;
        let want = (f(&xv, &up) - f(&xv, &down)) / (2.0 * h);
        assert!((dw[i] - want).abs() <= 1e-7 * (1.0 + want.abs()), "dw[{i}]: {} for {want}", dw[i]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conv2d(
        (batch, groups, ci, co) in (0usize..4, 1usize..4, 1usize..5, 1usize..7),
        (height, width) in (1usize..14, 1usize..40),
        kernel in (1usize..5, 1usize..5),
        stride in (1usize..4, 1usize..4),
        padding in (0usize..4, 0usize..4),
        dilation in (1usize..4, 1usize..4),
    ) {
        let o = ConvOptions {
            stride: [stride.0, stride.1],
            padding: [padding.0, padding.1],
            dilation: [dilation.0, dilation.1],
            groups,
        };
        let (x, w) = ([batch, groups * ci, height, width], [groups * co, ci, kernel.0, kernel.1]);
        let fits = (kernel.0 - 1) * dilation.0 < height + 2 * padding.0
            && (kernel.1 - 1) * dilation.1 < width + 2 * padding.1;
        if fits {
            check_conv::<f32, 2>(&x, &w, &o);
        } else {
            let y = conv(random::<f32>(&x, 1), random::<f32>(&w, 1), None, &o);
            prop_assert!(y.unwrap_err().to_string().starts_with("conv: "));
        }
    }

    #[test]
    fn any_transposed(
        (batch, groups, ci, co) in (1usize..3, 1usize..3, 1usize..4, 1usize..4),
        (height, width) in (1usize..6, 1usize..20),
        kernel in (1usize..5, 1usize..5),
        stride in (1usize..5, 1usize..4),
        padding in (0usize..3, 0usize..3),
        (padding_out, dilation) in (0usize..3, 1usize..4),
    ) {
        let o = ConvTransposeOptions {
            stride: [stride.0, stride.1],
            padding: [padding.0, padding.1],
            padding_out: [padding_out.min(stride.0 - 1), padding_out.min(stride.1 - 1)],
            dilation: [dilation, 1],
            groups,
        };
        let reach = [
            (height - 1) * stride.0 + dilation * (kernel.0 - 1) + 1 + o.padding_out[0],
            (width - 1) * stride.1 + kernel.1 + o.padding_out[1],
        ];
        prop_assume!(reach[0] > 2 * padding.0 && reach[1] > 2 * padding.1);
        check_transpose::<f32, 2>(&[batch, groups * ci, height, width], &[groups * ci, co, kernel.0, kernel.1], &o);
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let o = options::<2>(1, 0, 1, 1);
    let (x, w) = (random::<f32>(&[1, 3, 5, 5], 1), random::<f32>(&[4, 3, 3, 3], 2));
    let starts = |result: Result<Tensor>, op: &str, part: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with(&alloc::format!("{op}: ")) && message.contains(part), "{message}");
    };
    starts(conv(x.clone(), w.clone(), Some(random::<f32>(&[3], 1)), &o), "conv", "bias");
    starts(conv(x.clone(), w.clone(), Some(random::<f64>(&[4], 1)), &o), "conv", "dtype");
    starts(conv(x.clone(), random::<f64>(&[4, 3, 3, 3], 1), None, &o), "conv", "dtype");
    // Of a small result and of one that would wait.
    for side in [5, 200] {
        let images = random::<i32>(&[1, 3, side, side], 1);
        starts(conv(images, random::<i32>(&[4, 3, 3, 3], 1), None, &o), "conv", "float");
    }
    starts(conv(x.clone(), random::<f32>(&[4, 2, 1, 1], 1), None, &o), "conv", "channels_in");
    let grad = random::<f32>(&[1, 4, 3, 4], 1);
    starts(conv_x_backward(x.clone(), w.clone(), grad.clone(), &o), "conv_x_backward", "[1, 4, 3, 3]");
    starts(conv_weight_backward(x.clone(), w.clone(), grad, &o), "conv_weight_backward", "[1, 4, 3, 3]");
    let bias = random::<f32>(&[2], 1);
    starts(conv_bias_backward::<2>(bias, x.clone()), "conv_bias_backward", "per channel");
    let t = transposed_options::<2>(2, 0, 0, 1);
    starts(conv_transpose(x.clone(), w.clone(), None, &t), "conv_transpose", "channels_in");
    let small = random::<f32>(&[1, 3, 2, 2], 1);
    starts(conv_transpose_x_backward(w.clone(), small, &t), "conv_transpose_x_backward", "at least 1");
    // An input of 2x2 gives 5x5, one of 3x3 gives 7x7.
    let between = random::<f32>(&[1, 3, 6, 6], 1);
    starts(conv_transpose_x_backward(w.clone(), between, &t), "conv_transpose_x_backward", "[1, 3, 5, 5]");
    // Zero strides make huge shapes cheap to create; their sizes must not overflow.
    let huge = random::<f32>(&[1, 1, 1, 1], 1).expand(&[1, 1, 1 << 10, 1 << 10]).unwrap();
    // 1 << 40, of 64 bits.
    let o = options::<2>(1, 1 << (usize::BITS * 5 / 8), 1, 1);
    assert!(matches!(
        conv(huge, random::<f32>(&[1, 1, 2, 2], 1), None, &o),
        Err(Error::Overflow { op: "conv", .. })
    ));
}

/// Output size, kernel, stride, padding and dilation of a fold.
type Fold = ([usize; 2], [usize; 2], [usize; 2], [usize; 2], [usize; 2]);

const FOLDS: [Fold; 8] = [
    ([6, 7], [2, 3], [1, 1], [0, 0], [1, 1]),
    ([5, 33], [3, 3], [2, 1], [1, 2], [1, 3]),
    ([7, 9], [3, 2], [1, 3], [2, 1], [2, 2]),
    ([4, 4], [4, 4], [4, 4], [0, 0], [1, 1]),
    // Windows that leave gaps, and some that lie in the padding.
    ([5, 6], [1, 1], [3, 4], [2, 3], [1, 1]),
    // Rows longer than a block, and than a task.
    ([1, 2100], [1, 4], [1, 3], [0, 2], [1, 1]),
    ([2, 70_000], [2, 2], [1, 2], [1, 1], [1, 1]),
    ([40, 200], [3, 3], [1, 1], [1, 1], [1, 1]),
];

/// The windows along each axis.
fn fold_grid((size, kernel, stride, padding, dilation): Fold) -> [usize; 2] {
    [0, 1].map(|k| (size[k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) / stride[k] + 1)
}

fn check_fold<T: Element>(fold: Fold, [batch, channels]: [usize; 2]) {
    let (size, kernel, stride, padding, dilation) = fold;
    let (grid, taps) = (fold_grid(fold), kernel[0] * kernel[1]);
    let windows = grid[0] * grid[1];
    let shape = [batch, channels, size[0], size[1]];
    let x = random::<T>(&[batch, channels * taps, windows], 3);
    let (values, mut want) = (to_f64::<T>(&x), Sums::new(shape.iter().product()));
    for (i, &value) in values.iter().enumerate() {
        let (plane, tap, window) = (i / windows / taps, i / windows % taps, i % windows);
        let at = |axis: usize, window: usize, tap: usize| {
            let at = (window * stride[axis] + tap * dilation[axis]).checked_sub(padding[axis]);
            at.filter(|&at| at < size[axis])
        };
        let row = at(0, window / grid[1], tap / kernel[1]);
        if let (Some(row), Some(column)) = (row, at(1, window % grid[1], tap % kernel[1])) {
            want.add((plane * size[0] + row) * size[1] + column, value);
        }
    }
    let options = UnfoldOptions { stride, padding, dilation };
    want.check::<T>("fold4d", &fold4d(x.clone(), size, kernel, &options).unwrap(), &shape);
    // The same elements in other layouts.
    let permuted = x.clone().permute(&[2, 0, 1]).unwrap().into_contiguous().unwrap().permute(&[1, 2, 0]);
    let flipped = x.flip(&[0, 2]).unwrap().into_contiguous().unwrap().flip(&[0, 2]);
    for view in [permuted, flipped] {
        want.check::<T>("fold4d", &fold4d(view.unwrap(), size, kernel, &options).unwrap(), &shape);
    }
}

#[test]
fn fold_adds_up_the_windows() {
    for fold in FOLDS {
        check_fold::<f32>(fold, [2, 3]);
        check_fold::<f64>(fold, [1, 2]);
        check_fold::<f16>(fold, [3, 1]);
        check_fold::<bf16>(fold, [0, 2]);
        check_fold::<bf16>(fold, [1, 2]);
    }
}

#[test]
fn fold_is_the_adjoint_of_unfold() {
    let dot = |a: &Tensor, b: &Tensor| {
        to_f64::<f64>(a).iter().zip(to_f64::<f64>(b)).map(|(a, b)| a * b).sum::<f64>()
    };
    for fold in FOLDS {
        let (size, kernel, stride, padding, dilation) = fold;
        let options = UnfoldOptions { stride, padding, dilation };
        let x = random::<f64>(&[2, 3, size[0], size[1]], 1);
        let columns = unfold4d(x.clone(), kernel, &options).unwrap();
        let y = random::<f64>(columns.shape(), 2);
        let folded = fold4d(y.clone(), size, kernel, &options).unwrap();
        let (left, right) = (dot(&columns, &y), dot(&x, &folded));
        assert!((left - right).abs() <= 1e-9 * left.abs().max(1.0), "{left} {right}");
    }
}

#[test]
fn fold_keeps_values_that_are_not_finite_in_their_places() {
    let options = UnfoldOptions { stride: [1; 2], padding: [0; 2], dilation: [1; 2] };
    let x = tensor::<f32>(&[f64::INFINITY, 1.0, 2.0, 3.0], &[1, 4, 1]);
    let got = fold4d(x, [2, 2], [2, 2], &options).unwrap();
    assert_eq!(got.to_vec::<f32>(), [f32::INFINITY, 1.0, 2.0, 3.0]);
    // Two windows side by side: of their 4 x 2 taps, two pairs overlap in the middle column.
    let x = tensor::<f16>(&[1.0, 60000.0, 60000.0, f64::NAN, 2.0, 3.0, -60000.0, 60000.0], &[1, 4, 2]);
    let got = to_f64::<f16>(&fold4d(x, [2, 3], [2, 2], &options).unwrap());
    assert_eq!(got[..2], [1.0, f64::INFINITY]);
    assert!(got[2].is_nan());
    assert_eq!(got[3..], [2.0, 3.0 - 60000.0f64.round(), 60000.0].map(|v| f16::from_f64(v).to_f64()));
    // Halves are rounded once: 2048 + 1 is no f16, and the third term makes it even.
    let x = tensor::<f16>(&[2048.0, 1.0, 1.0], &[1, 3, 1]);
    let options = UnfoldOptions { stride: [1; 2], padding: [0, 1], dilation: [1; 2] };
    let x = x.expand(&[1, 3, 3]).unwrap();
    let got = to_f64::<f16>(&fold4d(x, [1, 3], [1, 3], &options).unwrap());
    assert_eq!(got, [2048.0, 2050.0, 2.0]);
}

#[test]
fn folds_that_do_not_fit_are_refused() {
    let good = UnfoldOptions { stride: [1; 2], padding: [0; 2], dilation: [1; 2] };
    let f = |shape: &[usize]| random::<f32>(shape, 1);
    let huge = usize::MAX / 2;
    for (x, kernel, options, part) in [
        (f(&[4, 4]), [2, 2], good.clone(), "blocks]"),
        (f(&[1, 6, 4]), [2, 2], good.clone(), "multiple of 4"),
        (f(&[1, 4, 5]), [2, 2], good.clone(), "4 blocks (2 x 2)"),
        (f(&[1, 4, 4]), [2, 0], good.clone(), "kernel size"),
        (f(&[1, 16, 4]), [4, 4], good.clone(), "padded output"),
        (f(&[1, 4, 4]), [huge, huge], good.clone(), "padded output"),
        (f(&[1, 4, 4]), [2, 2], UnfoldOptions { stride: [0, 1], ..good.clone() }, "stride"),
        (f(&[1, 4, 4]), [2, 2], UnfoldOptions { dilation: [1, 0], ..good.clone() }, "dilation"),
        (f(&[1, 4, 4]), [2, 2], UnfoldOptions { padding: [huge, 0], ..good.clone() }, "padded output"),
        (random::<i32>(&[1, 4, 4], 1), [2, 2], good.clone(), "float"),
    ] {
        let message = fold4d(x, [3, 3], kernel, &options).unwrap_err().to_string();
        assert!(message.starts_with("fold4d: ") && message.contains(part), "{message}");
    }
    // Sizes that fit one by one, and not together.
    let half = 1 << (usize::BITS / 2 + 1);
    let overflow = Err(Error::Overflow { op: "fold4d", shape: vec![half, half] });
    assert_eq!(fold4d(f(&[1, 1, 1]), [half; 2], [half; 2], &good).map(drop), overflow);
    assert_eq!(fold4d(f(&[1, 1, 1]), [half; 2], [1; 2], &good).map(drop), overflow);
}

#[test]
fn unfold_is_a_convolution_with_unit_kernels() {
    for (shape, kernel, stride, padding, dilation) in [
        ([2, 3, 7, 8], [3, 2], [1, 1], [0, 0], [1, 1]),
        ([1, 2, 9, 33], [3, 3], [2, 1], [1, 2], [1, 3]),
        ([2, 2, 5, 5], [1, 4], [3, 4], [4, 6], [1, 1]),
        ([0, 2, 5, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
    ] {
        let x = random::<f64>(&shape, 1);
        let o = UnfoldOptions { stride, padding, dilation };
        let rows = shape[1] * kernel[0] * kernel[1];
        let mut unit = vec![0.0; rows * rows];
        (0..rows).for_each(|i| unit[i * rows + i] = 1.0);
        let unit = tensor::<f64>(&unit, &[rows, shape[1], kernel[0], kernel[1]]);
        let want =
            conv(x.clone(), unit, None, &ConvOptions { stride, padding, dilation, groups: 1 }).unwrap();
        let got = unfold4d(x.clone(), kernel, &o).unwrap();
        let windows: usize = want.shape()[2..].iter().product();
        assert_eq!(got.shape().to_vec(), [shape[0], rows, windows]);
        assert_eq!(got.to_vec::<f64>(), want.to_vec::<f64>());
        let flipped = unfold4d(x.clone().flip(&[0, 2]).unwrap(), kernel, &o).unwrap();
        let copied = unfold4d(x.flip(&[0, 2]).unwrap().into_contiguous().unwrap(), kernel, &o).unwrap();
        assert_eq!(flipped.to_vec::<f64>(), copied.to_vec::<f64>());
    }
    let x = random::<f16>(&[1, 1, 2, 3], 1);
    let o = UnfoldOptions { stride: [1; 2], padding: [0; 2], dilation: [1; 2] };
    assert_eq!(unfold4d(x.clone(), [1, 1], &o).unwrap().to_vec::<f16>(), x.to_vec::<f16>());
    for (kernel, o, part) in [
        ([0, 1], o.clone(), "kernel size"),
        ([3, 1], o.clone(), "fits"),
        ([1, 1], UnfoldOptions { stride: [0, 1], ..o.clone() }, "stride"),
        ([1, 1], UnfoldOptions { dilation: [1, 0], ..o }, "dilation"),
    ] {
        let message = unfold4d(x.clone(), kernel, &o).unwrap_err().to_string();
        assert!(message.starts_with("unfold4d: ") && message.contains(part), "{message}");
    }
}
