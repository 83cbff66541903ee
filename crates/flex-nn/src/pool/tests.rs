use super::*;
use crate::{DType, Element, Slice, Tensor, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Options of max and average pooling, 2-D.
#[derive(Clone, Debug)]
struct Case {
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil: bool,
}

impl Case {
    fn max(&self) -> MaxPoolOptions<2> {
        MaxPoolOptions {
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
            ceil_mode: self.ceil,
        }
    }

    fn avg(&self, count_include_pad: bool) -> AvgPoolOptions<2> {
        AvgPoolOptions {
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            count_include_pad,
            ceil_mode: self.ceil,
        }
    }

    /// Number of windows along axis `k`, counted from the definition: windows start at multiples of the
    /// stride and end inside of the padded axis. Ceil mode adds one window, and drops the last one if it
    /// starts in the trailing padding.
    fn windows(&self, k: usize, dilation: usize) -> usize {
        let end = (self.size[k] + 2 * self.padding[k]) as isize;
        let extent = ((self.kernel[k] - 1) * dilation + 1) as isize;
        let slack = if self.ceil { self.stride[k] as isize - 1 } else { 0 };
        let trailing = (self.size[k] + self.padding[k]) as isize;
        let starts = (0..end + slack).step_by(self.stride[k]).filter(|&s| s + extent <= end + slack);
        let (count, last) = starts.fold((0, 0), |(count, _), s| (count + 1, s));
        if self.ceil && last >= trailing { count - 1 } else { count }
    }

    /// Position of tap `t` of window `i`; `None` if it is padding.
    fn position(&self, k: usize, dilation: usize, i: usize, t: usize) -> Option<usize> {
        let p = (i * self.stride[k] + t * dilation) as isize - self.padding[k] as isize;
        (p >= 0 && p < self.size[k] as isize).then_some(p as usize)
    }

    /// The input positions of window `(i, j)`.
    fn taps(&self, dilation: [usize; 2], i: usize, j: usize) -> Vec<usize> {
        let mut taps = vec![];
        for y in 0..self.kernel[0] {
            for x in 0..self.kernel[1] {
                let row = self.position(0, dilation[0], i, y);
                if let (Some(r), Some(c)) = (row, self.position(1, dilation[1], j, x)) {
                    taps.push(r * self.size[1] + c);
                }
            }
        }
        taps
    }

    fn divisor(&self, i: usize, j: usize, count_include_pad: bool) -> f64 {
        let count = |k: usize, i: usize| {
            let start = i * self.stride[k];
            (start + self.kernel[k]).min(self.size[k] + 2 * self.padding[k]) - start
        };
        if count_include_pad {
            (count(0, i) * count(1, j)) as f64
        } else {
            self.taps([1, 1], i, j).len().max(1) as f64
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let pair = |r: core::ops::Range<usize>| [r.clone(), r];
    (pair(1..40), pair(1..6), pair(1..6), pair(0..4), pair(1..4), any::<bool>())
        .prop_map(|(size, kernel, stride, padding, dilation, ceil)| Case {
            size,
            kernel,
            stride,
            padding,
            dilation,
            ceil,
        })
        .prop_filter("the kernel fits", |c| (0..2).all(|k| c.windows(k, c.dilation[k]) > 0))
}

/// Pseudo-random values with ties, both signs, and a few infinities and zeros of both signs.
fn values(n: usize) -> Vec<f64> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let v = (state >> 40) % 97;
            if v == 0 { f64::NEG_INFINITY } else { v as f64 / 8.0 - 6.0 }
        })
        .collect()
}

fn finite(n: usize) -> Vec<f64> {
    values(n).into_iter().map(|v| v.max(-7.0)).collect()
}

fn tensor<T: Element>(values: &[f64], shape: impl Into<crate::Shape>) -> Tensor {
    let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
    Tensor::from_slice(&values, shape).unwrap()
}

fn to_f64(t: &Tensor) -> Vec<f64> {
    dispatch!(number "test", t.dtype(), T => Ok(t.to_vec::<T>().into_iter().map(Element::to_f64).collect::<Vec<f64>>()))
        .unwrap()
}

#[track_caller]
fn assert_close(got: &Tensor, expected: &[f64], epsilon: f64) {
    let got = to_f64(got);
    assert_eq!(got.len(), expected.len());
    for (k, (&g, &e)) in got.iter().zip(expected).enumerate() {
        let same = g == e || (g.is_nan() && e.is_nan());
        assert!(same || (g - e).abs() <= epsilon * e.abs().max(1.0), "element {k}: {g}, expected {e}");
    }
}

/// Values and indices from the definition.
fn naive_max(c: &Case, x: &[f64], plane: usize) -> (Vec<f64>, Vec<usize>, usize) {
    let (oh, ow) = (c.windows(0, c.dilation[0]), c.windows(1, c.dilation[1]));
    let (mut out, mut at) = (vec![], vec![]);
    for x in x.chunks(plane) {
        for i in 0..oh {
            for j in 0..ow {
                let taps = c.taps(c.dilation, i, j);
                let mut best = (f64::NEG_INFINITY, taps.first().copied());
                for t in taps {
                    if x[t] > best.0 || x[t].is_nan() {
                        best = (x[t], Some(t));
                    }
                }
                out.push(best.0);
                at.push(best.1.unwrap_or(usize::MAX));
            }
        }
    }
    (out, at, oh * ow)
}

fn check_max<T: Element>(c: &Case) {
    let plane = c.size[0] * c.size[1];
    let mut data: Vec<f64> = values(6 * plane).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    data[plane / 2] = f64::NAN;
    let x = tensor::<T>(&data, [2, 3, c.size[0], c.size[1]]);
    let (expected, at, out_plane) = naive_max(c, &data, plane);
    let got = max_pool(x.clone(), &c.max()).unwrap();
    assert_eq!(&got.shape()[2..], &[c.windows(0, c.dilation[0]), c.windows(1, c.dilation[1])]);
    assert_close(&got, &expected, 0.0);

    let (got, indices) = max_pool_with_indices(x.clone(), &c.max(), DType::I32).unwrap();
    assert_close(&got, &expected, 0.0);
    let indices = indices.to_vec::<i32>();
    for (k, (&g, &e)) in indices.iter().zip(&at).enumerate() {
        assert!((g as usize) < plane, "index {g} of window {k}");
        assert!(e == usize::MAX || g as usize == e, "index {k}: {g}, expected {e}");
    }

    let grads = finite(expected.len());
    let grads: Vec<f64> = grads.iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let mut dx = vec![0.0; data.len()];
    for (k, g) in grads.iter().enumerate().filter(|(k, _)| at[*k] != usize::MAX) {
        dx[k / out_plane * plane + at[k]] += g;
    }
    let grad = tensor::<T>(&grads, got.shape().clone());
    let indices = Tensor::from_slice(&indices, got.shape().clone()).unwrap();
    let got = max_pool_backward(x, grad, indices, &c.max()).unwrap();
    // Sums of multiples of 1/8 are exact, except for the final rounding to half precision.
    assert_close(&got, &dx, if size_of::<T>() == 2 { 0.01 } else { 0.0 });
}

fn check_avg<T: Element>(c: &Case, count_include_pad: bool, epsilon: f64) {
    let plane = c.size[0] * c.size[1];
    let data: Vec<f64> = finite(6 * plane).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let x = tensor::<T>(&data, [2, 3, c.size[0], c.size[1]]);
    let (oh, ow) = (c.windows(0, 1), c.windows(1, 1));
    let grads: Vec<f64> = finite(6 * oh * ow).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let (mut expected, mut dx) = (vec![], vec![0.0; data.len()]);
    for (p, x) in data.chunks(plane).enumerate() {
        for i in 0..oh {
            for j in 0..ow {
                let (taps, divisor) = (c.taps([1, 1], i, j), c.divisor(i, j, count_include_pad));
                expected.push(taps.iter().map(|&t| x[t]).sum::<f64>() / divisor);
                for t in taps {
                    dx[p * plane + t] += grads[(p * oh + i) * ow + j] / divisor;
                }
            }
        }
    }
    let got = avg_pool(x.clone(), &c.avg(count_include_pad)).unwrap();
    assert_eq!(&got.shape()[2..], &[oh, ow]);
    assert_close(&got, &expected, epsilon);
    let grad = tensor::<T>(&grads, got.shape().clone());
    assert_close(&avg_pool_backward(x, grad, &c.avg(count_include_pad)).unwrap(), &dx, epsilon);
}

fn check_adaptive<T: Element>(size: [usize; 2], out: [usize; 2], epsilon: f64) {
    let plane = size[0] * size[1];
    let data: Vec<f64> = finite(4 * plane).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let x = tensor::<T>(&data, [4, 1, size[0], size[1]]);
    let n = out[0] * out[1];
    let grads: Vec<f64> = finite(4 * n).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let window = |k: usize, i: usize| (i * size[k]) / out[k]..((i + 1) * size[k]).div_ceil(out[k]);
    let (mut expected, mut dx) = (vec![], vec![0.0; data.len()]);
    for p in 0..4 {
        for i in 0..out[0] {
            for j in 0..out[1] {
                let (rows, cols) = (window(0, i), window(1, j));
                let count = (rows.len() * cols.len()) as f64;
                let mut sum = 0.0;
                for r in rows {
                    for c in cols.clone() {
                        sum += data[p * plane + r * size[1] + c];
                        dx[p * plane + r * size[1] + c] += grads[p * n + i * out[1] + j] / count;
                    }
                }
                expected.push(sum / count);
            }
        }
    }
    assert_close(&adaptive_avg_pool(x.clone(), out).unwrap(), &expected, epsilon);
    let grad = tensor::<T>(&grads, [4, 1, out[0], out[1]]);
    assert_close(&adaptive_avg_pool_backward::<2>(x, grad).unwrap(), &dx, epsilon);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn max_pooling_is_the_maximum_of_each_window(c in case()) {
        check_max::<f32>(&c);
        check_max::<f64>(&c);
    }

    #[test]
    fn average_pooling_is_the_mean_of_each_window(c in case(), include in any::<bool>()) {
        if (0..2).all(|k| c.windows(k, 1) > 0) {
            check_avg::<f32>(&c, include, 1e-5);
            check_avg::<f64>(&c, include, 1e-13);
        }
    }

    #[test]
    fn adaptive_windows_cover_their_share(size in [1usize..40, 1..40], out in [1usize..12, 1..12]) {
        check_adaptive::<f32>(size, out, 1e-5);
        check_adaptive::<f64>(size, out, 1e-13);
    }
}

const RESNET: Case =
    Case { size: [17, 70], kernel: [3, 3], stride: [2, 2], padding: [1, 1], dilation: [1, 1], ceil: false };

#[test]
fn half_precision_is_computed_in_f32() {
    check_max::<f16>(&RESNET);
    check_max::<bf16>(&RESNET);
    check_avg::<f16>(&RESNET, true, 2e-3);
    check_avg::<bf16>(&RESNET, false, 2e-2);
    check_adaptive::<f16>([17, 33], [5, 7], 2e-3);
    check_adaptive::<bf16>([16, 32], [1, 1], 2e-2);
    // More than 2048 ones: an f16 sum would stop at 2048.
    let x = Tensor::full([1, 1, 64, 128], 1.0, DType::F16).unwrap();
    let mean = adaptive_avg_pool(x, [1, 1]).unwrap();
    assert_eq!(mean.to_vec::<f16>(), [f16::ONE]);
}

#[test]
fn sizes_around_vectors_large_kernels_and_long_rows() {
    for width in [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130] {
        for (kernel, stride) in [(1, 1), (2, 2), (3, 1), (3, 2), (5, 3), (5, 4), (7, 5), (40, 1), (33, 7)] {
            if kernel > width + 2 {
                continue;
            }
            let c = Case {
                size: [3, width],
                kernel: [2, kernel],
                stride: [1, stride],
                padding: [0, 1],
                ..RESNET.clone()
            };
            check_max::<f32>(&c);
            check_avg::<f32>(&c, true, 1e-5);
        }
    }
    // Several tiles per row, several rows per task.
    for stride in [1, 2, 6] {
        let c =
            Case { size: [2, 5000], kernel: [1, 3], stride: [1, stride], padding: [0, 1], ..RESNET.clone() };
        check_max::<f32>(&c);
        check_avg::<f32>(&c, false, 1e-5);
    }
}

#[test]
fn one_spatial_axis_is_a_plane_of_height_one() {
    let x: Vec<f32> = vec![1.0, 5.0, 2.0, 4.0, 3.0, -1.0, -2.0, -3.0, -4.0, -5.0];
    let x = Tensor::from_slice(&x, [1, 2, 5]).unwrap();
    let options = MaxPoolOptions { kernel: [3], stride: [2], padding: [1], dilation: [1], ceil_mode: false };
    let (out, at) = max_pool_with_indices(x.clone(), &options, DType::I64).unwrap();
    assert_eq!(out.shape().as_slice(), [1, 2, 3]);
    assert_eq!(out.to_vec::<f32>(), [5.0, 5.0, 4.0, -1.0, -2.0, -4.0]);
    assert_eq!(at.to_vec::<i64>(), [1, 1, 3, 0, 1, 3]);
    assert_eq!(max_pool(x.clone(), &options).unwrap().to_vec::<f32>(), out.to_vec::<f32>());
    let grad = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 8.0, 16.0, 32.0], [1, 2, 3]).unwrap();
    let dx = max_pool_backward(x.clone(), grad.clone(), at, &options).unwrap();
    assert_eq!(dx.to_vec::<f32>(), [0.0, 3.0, 0.0, 4.0, 0.0, 8.0, 16.0, 0.0, 32.0, 0.0]);
    let options =
        AvgPoolOptions { kernel: [2], stride: [2], padding: [1], count_include_pad: false, ceil_mode: false };
    let out = avg_pool(x.clone(), &options).unwrap();
    assert_eq!(out.to_vec::<f32>(), [1.0, 3.5, 3.5, -1.0, -2.5, -4.5]);
    assert_eq!(avg_pool_backward(x.clone(), grad, &options).unwrap().to_vec::<f32>()[..3], [1.0, 1.0, 1.0]);
    assert_eq!(adaptive_avg_pool(x, [1]).unwrap().to_vec::<f32>(), [3.0, -3.0]);
}

#[test]
fn a_partial_window_must_start_before_the_trailing_padding() {
    // PyTorch: MaxPool1d(kernel 2, stride 3, padding 1, ceil) of 4 elements has 2 windows, not 3.
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [1, 1, 4]).unwrap();
    let options = MaxPoolOptions { kernel: [2], stride: [3], padding: [1], dilation: [1], ceil_mode: true };
    assert_eq!(max_pool(x.clone(), &options).unwrap().to_vec::<f32>(), [1.0, 4.0]);
    // A whole window of padding is dropped too, in ceil mode alone.
    let options = MaxPoolOptions { kernel: [2], stride: [2], padding: [2], dilation: [1], ceil_mode: true };
    assert_eq!(max_pool(x.clone(), &options).unwrap().to_vec::<f32>(), [f32::NEG_INFINITY, 2.0, 4.0]);
    let options = MaxPoolOptions { ceil_mode: false, ..options };
    assert_eq!(max_pool(x.clone(), &options).unwrap().shape().as_slice(), [1, 1, 4]);
    let options =
        AvgPoolOptions { kernel: [3], stride: [2], padding: [0], count_include_pad: true, ceil_mode: true };
    // The second window extends past the input; positions beyond the padding do not count.
    assert_eq!(avg_pool(x, &options).unwrap().to_vec::<f32>(), [2.0, 3.5]);
}

/// The roundings of equal numbers do not cancel: one chain per lane is off by 7e-4.
#[test]
fn the_mean_of_a_long_window_is_exact() {
    let n = 1 << 20;
    let x = Tensor::full([1, 1, n], 1.1, DType::F32).unwrap();
    let mean = adaptive_avg_pool(x, [1]).unwrap().item::<f32>();
    assert!((mean - 1.1).abs() < 2e-5, "{mean}");
}

#[test]
fn windows_of_padding_alone() {
    let x = Tensor::from_slice(&[-1.0f32, -2.0], [1, 1, 2]).unwrap();
    let options = MaxPoolOptions { kernel: [1], stride: [1], padding: [2], dilation: [1], ceil_mode: false };
    let (out, at) = max_pool_with_indices(x.clone(), &options, DType::U8).unwrap();
    let inf = f32::NEG_INFINITY;
    assert_eq!(out.to_vec::<f32>(), [inf, inf, -1.0, -2.0, inf, inf]);
    assert_eq!(at.to_vec::<u8>(), [0, 0, 0, 1, 1, 1]);
    let grad = Tensor::full([1, 1, 6], 1.0, DType::F32).unwrap();
    assert_eq!(max_pool_backward(x.clone(), grad, at, &options).unwrap().to_vec::<f32>(), [1.0, 1.0]);
    let options =
        AvgPoolOptions { kernel: [1], stride: [1], padding: [1], count_include_pad: false, ceil_mode: false };
    assert_eq!(avg_pool(x, &options).unwrap().to_vec::<f32>(), [0.0, -1.0, -2.0, 0.0]);
}

#[test]
fn a_dilated_window_before_the_input_points_to_its_first_element() {
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], [1, 1, 5]).unwrap();
    let options = MaxPoolOptions { kernel: [2], stride: [1], padding: [4], dilation: [3], ceil_mode: false };
    let (out, at) = max_pool_with_indices(x, &options, DType::U8).unwrap();
    assert_eq!((out.to_vec::<f32>()[0], at.to_vec::<u8>()[0]), (f32::NEG_INFINITY, 0));
}

#[test]
fn minus_infinity_everywhere_still_has_an_index() {
    let x = Tensor::full([1, 1, 4, 40], f64::NEG_INFINITY, DType::F32).unwrap();
    let options = MaxPoolOptions {
        kernel: [2, 2],
        stride: [2, 2],
        padding: [1, 1],
        dilation: [1, 1],
        ceil_mode: false,
    };
    let (out, at) = max_pool_with_indices(x, &options, DType::I32).unwrap();
    assert!(out.to_vec::<f32>().iter().all(|v| *v == f32::NEG_INFINITY));
    assert_eq!(at.to_vec::<i32>()[..3], [0, 1, 3]);
    assert_eq!(at.to_vec::<i32>()[21..24], [40, 41, 43]);
}

#[test]
fn layouts_do_not_matter_and_shared_inputs_stay() {
    let data = finite(2 * 3 * 20 * 24);
    let base = tensor::<f32>(&data, [2, 3, 20, 24]);
    let views = [
        base.clone().swap_axes(2, 3).unwrap(),
        base.clone().permute(&[1, 0, 2, 3]).unwrap(),
        base.clone().flip(&[2, 3]).unwrap(),
        base.clone().slice(&[Slice::full(), Slice::full(), Slice::new(1, None, 2)]).unwrap(),
        base.clone().narrow(1, 0, 1).unwrap().expand(&[2, 5, 20, 24]).unwrap(),
        base.clone().narrow(0, 0, 1).unwrap().reshape([3, 20, 24]).unwrap().unfold(1, 6, 3).unwrap(),
    ];
    let c = RESNET;
    for view in views {
        let copy = Tensor::from_slice(&view.to_vec::<f32>(), view.shape().clone()).unwrap();
        let run = |x: &Tensor| {
            let out = max_pool(x.clone(), &c.max()).unwrap();
            let mean = avg_pool(x.clone(), &c.avg(true)).unwrap();
            let (_, at) = max_pool_with_indices(x.clone(), &c.max(), DType::I64).unwrap();
            (out.to_vec::<f32>(), mean.to_vec::<f32>(), at.to_vec::<i64>())
        };
        assert_eq!(run(&view), run(&copy));
    }
    assert_eq!(to_f64(&base), data);
}

#[test]
fn empty_batches_and_empty_outputs() {
    let x = Tensor::empty([0, 3, 8, 8], DType::F32).unwrap();
    assert_eq!(max_pool(x.clone(), &RESNET.max()).unwrap().shape().as_slice(), [0, 3, 4, 4]);
    assert_eq!(avg_pool(x.clone(), &RESNET.avg(true)).unwrap().num_elements(), 0);
    let (_, at) = max_pool_with_indices(x.clone(), &RESNET.max(), DType::I64).unwrap();
    let grad = Tensor::empty([0, 3, 4, 4], DType::F32).unwrap();
    assert_eq!(max_pool_backward(x, grad, at, &RESNET.max()).unwrap().num_elements(), 0);
    let x = Tensor::full([1, 2, 8, 8], 1.0, DType::F32).unwrap();
    let out = adaptive_avg_pool(x.clone(), [0, 3]).unwrap();
    assert_eq!(out.shape().as_slice(), [1, 2, 0, 3]);
    let dx = adaptive_avg_pool_backward::<2>(x, out).unwrap();
    assert!(dx.to_vec::<f32>().iter().all(|v| *v == 0.0));
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let x = Tensor::full([1, 1, 4, 4], 1.0, DType::F32).unwrap();
    let with = |f: &dyn Fn(&mut MaxPoolOptions<2>)| {
        let mut options = RESNET.max();
        f(&mut options);
        max_pool(x.clone(), &options).unwrap_err().to_string()
    };
    let errors = [
        with(&|o| o.kernel[0] = 0),
        with(&|o| o.stride[1] = 0),
        with(&|o| o.dilation[1] = 0),
        with(&|o| o.kernel[0] = 7),
        with(&|o| o.padding[0] = usize::MAX / 2),
        with(&|o| (o.kernel[0], o.dilation[0]) = (usize::MAX / 32, 40)),
        max_pool(x.clone().reshape([4, 4]).unwrap(), &RESNET.max()).unwrap_err().to_string(),
        max_pool(x.clone().narrow(2, 0, 0).unwrap(), &RESNET.max()).unwrap_err().to_string(),
        max_pool(Tensor::full([1, 1, 4, 4], 1, DType::I32).unwrap(), &RESNET.max()).unwrap_err().to_string(),
    ];
    for e in errors {
        assert!(e.starts_with("max_pool: "), "{e}");
    }
    // Padding too large to address.
    let huge = AvgPoolOptions { padding: [isize::MAX as usize / 8; 2], ..RESNET.avg(true) };
    assert!(avg_pool(x.clone(), &huge).unwrap_err().to_string().starts_with("avg_pool: "));

    let wide = Tensor::full([1, 1, 16, 16], 1.0, DType::F32).unwrap();
    assert!(max_pool_with_indices(wide.clone(), &RESNET.max(), DType::U8).is_ok());
    for dtype in [DType::I8, DType::F32] {
        let e = max_pool_with_indices(wide.clone(), &RESNET.max(), dtype).unwrap_err().to_string();
        assert!(e.starts_with("max_pool_with_indices: "), "{e}");
    }

    let grad = Tensor::full([1, 1, 2, 2], 1.0, DType::F32).unwrap();
    let back = |grad: Tensor, indices: Tensor| {
        max_pool_backward(x.clone(), grad, indices, &RESNET.max()).unwrap_err().to_string()
    };
    for bad in [-1i64, 16, i64::MAX, i64::MIN] {
        let indices = Tensor::from_slice(&[0, 1, 2, bad], [1, 1, 2, 2]).unwrap();
        let e = back(grad.clone(), indices);
        assert!(e.starts_with(&alloc::format!("max_pool_backward: index {bad}")), "{e}");
    }
    let indices = Tensor::from_slice(&[0u64, 1, 2, u64::MAX], [1, 1, 2, 2]).unwrap();
    assert!(back(grad.clone(), indices.clone()).contains("18446744073709551615"));
    for (grad, indices) in [
        (grad.clone(), indices.clone().reshape([1, 2, 2, 1]).unwrap()),
        (Tensor::full([1, 1, 2, 3], 1.0, DType::F32).unwrap(), indices.clone()),
        (Tensor::full([1, 1, 2, 2], 1.0, DType::F64).unwrap(), indices.clone()),
        (grad.clone(), grad.clone()),
    ] {
        assert!(back(grad, indices).starts_with("max_pool_backward: "));
    }
    let e = adaptive_avg_pool_backward::<2>(x.clone(), Tensor::full([2, 1, 2, 2], 1.0, DType::F32).unwrap());
    assert!(e.unwrap_err().to_string().starts_with("adaptive_avg_pool_backward: "));
}
