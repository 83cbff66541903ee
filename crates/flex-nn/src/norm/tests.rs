//! Every function, dtype, axis and layout against the definition in f64.

use super::*;
use crate::{DType, Element, Tensor, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

fn sample<T: Element>(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    // In 64 bits on every machine.
    let value = |i: usize| ((i as u64 * 7919 + seed as u64 * 104729) % 2003) as f64 / 200.0 - 5.0;
    let values: Vec<T> = (0..count).map(|i| T::from_f64(value(i))).collect();
    Tensor::from_slice(&values, shape.to_vec()).unwrap()
}

/// Relative error of one rounding to the dtype and a few roundings in the computed type.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 4e-15,
        DType::F32 => 2e-6,
        DType::F16 => 6e-4,
        _ => 5e-3,
    }
}

/// Applies `f` along an axis, in f64; `f` maps a line to a line by the definition.
fn oracle(data: &[f64], shape: &[usize], axis: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let mut out = vec![0.0; data.len()];
    for start in (0..data.len()).filter(|i| i / inner % size == 0) {
        let line: Vec<f64> = (0..size).map(|j| data[start + j * inner]).collect();
        for (j, y) in f(&line).into_iter().enumerate() {
            out[start + j * inner] = y;
        }
    }
    out
}

fn line_softmax(line: &[f64]) -> Vec<f64> {
    let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = line.iter().map(|x| (x - max).exp()).sum();
    line.iter().map(|x| (x - max).exp() / sum).collect()
}

fn line_log_softmax(line: &[f64]) -> Vec<f64> {
    let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = line.iter().map(|x| (x - max).exp()).sum();
    line.iter().map(|x| x - max - sum.ln()).collect()
}

fn line_softmin(line: &[f64]) -> Vec<f64> {
    line_softmax(&line.iter().map(|x| -x).collect::<Vec<_>>())
}

fn wide<T: Element>(t: &Tensor) -> Vec<f64> {
    t.to_vec::<T>().into_iter().map(|v| v.to_f64()).collect()
}

/// Checks that each error is at most `tolerance * (|want| + scale)`.
fn close(got: &[f64], want: &[f64], tolerance: f64, scale: f64, what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let bound = tolerance * (w.abs() + scale);
        assert!((g - w).abs() <= bound, "{what} [{i}]: {g} for {w}");
    }
}

fn check<T: Element>(tensor: Tensor, axis: usize) {
    type Op = fn(Tensor, usize) -> crate::Result<Tensor>;
    type Line = fn(&[f64]) -> Vec<f64>;
    let functions: [(&str, Op, Line); 3] = [
        ("softmax", softmax, line_softmax),
        ("log_softmax", log_softmax, line_log_softmax),
        ("softmin", softmin, line_softmin),
    ];
    let shape = tensor.shape().to_vec();
    let data = wide::<T>(&tensor);
    for (name, op, line) in functions {
        let what = alloc::format!("{name} {:?} {:?} axis {axis}", T::DTYPE, tensor.layout());
        let want = oracle(&data, &shape, axis, line);
        let got = op(tensor.clone(), axis).unwrap();
        assert_eq!(got.shape().to_vec(), shape);
        // The logarithm of a sum near one has the absolute error of the sum.
        let scale = if name == "log_softmax" { 0.1 } else { 1e-3 };
        close(&wide::<T>(&got), &want, tolerance(T::DTYPE), scale, &what);
        // A shared tensor is left unchanged; the buffer of an unshared tensor is reused, with the same bits
        // as result.
        assert_eq!(wide::<T>(&tensor), data, "{what}");
        let owned = Tensor::from_slice(&tensor.to_vec::<T>(), shape.clone()).unwrap();
        let address = owned.storage::<T>().as_ptr();
        let again = op(owned, axis).unwrap();
        assert_eq!(again.storage::<T>().as_ptr(), address, "{what}");
        assert_eq!(again.to_vec::<T>(), got.to_vec::<T>(), "{what}");
    }
}

fn check_all<T: Element>() {
    for size in [1usize, 2, 7, 16, 31, 33, 65, 300] {
        check::<T>(sample::<T>(&[3, size], size), 1);
        check::<T>(sample::<T>(&[70, size], size), 1);
        check::<T>(sample::<T>(&[size, 5], size), 0);
        check::<T>(sample::<T>(&[size, 33], size), 0);
        check::<T>(sample::<T>(&[2, size, 70], size), 1);
        check::<T>(sample::<T>(&[3, size, 4], size), 1);
    }
    let t = sample::<T>(&[4, 6, 5], 1);
    for axis in 0..3 {
        check::<T>(t.clone().swap_axes(0, 2).unwrap(), axis);
        check::<T>(t.clone().flip(&[0, 2]).unwrap(), axis);
        check::<T>(t.clone().narrow(1, 2, 3).unwrap(), axis);
        check::<T>(t.clone().narrow(1, 2, 1).unwrap().expand(&[4, 3, 5]).unwrap(), axis);
        check::<T>(t.clone().unfold(2, 3, 1).unwrap(), axis);
    }
}

#[test]
fn softmax_of_f32_matches_the_definition() {
    check_all::<f32>();
    check::<f32>(sample::<f32>(&[3, 10_000], 1), 1);
    check::<f32>(sample::<f32>(&[600, 700], 1), 1);
    check::<f32>(sample::<f32>(&[700, 600], 1), 0);
    check::<f32>(sample::<f32>(&[5000, 40], 1), 0);
}

#[test]
fn softmax_of_f64_matches_the_definition() {
    check_all::<f64>();
    check::<f64>(sample::<f64>(&[2, 9001], 1), 1);
}

#[test]
fn softmax_of_halves_matches_the_definition() {
    check_all::<f16>();
    check_all::<bf16>();
}

/// Rows that are computed side by side (up to 40 elements), in loops along them, and by themselves (from 64).
#[test]
fn the_bits_of_a_row_do_not_depend_on_the_rows_beside_it() {
    for width in [1usize, 2, 3, 10, 16, 31, 32, 33, 40, 41, 63, 64] {
        let all = sample::<f32>(&[70, width], width);
        for op in [softmax, log_softmax, softmin] {
            let whole = op(all.clone(), 1).unwrap().to_vec::<f32>();
            for row in [0, 31, 32, 69] {
                let alone = op(all.clone().narrow(0, row, 1).unwrap(), 1).unwrap().to_vec::<f32>();
                assert_eq!(alone, whole[row * width..][..width], "row {row} of {width} elements");
            }
        }
    }
}

#[test]
fn nan_and_infinities_follow_pytorch() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let rows = [[1.0, nan, 2.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [-inf, 0.0, 0.0], [nan, nan, nan]];
    // Short rows, computed side by side.
    let short: Vec<f32> = rows.into_iter().flatten().cycle().take(35 * 3).collect();
    let got = softmax(Tensor::from_slice(&short, [35, 3]).unwrap(), 1).unwrap().to_vec::<f32>();
    for (r, row) in got.chunks(3).enumerate() {
        let is_right = if r % 5 == 3 { row == [0.0, 0.5, 0.5] } else { row.iter().all(|v| v.is_nan()) };
        assert!(is_right, "row {r}: {row:?}");
    }
    // Rows wide enough for whole vectors.
    let row = |r: [f32; 3]| (0..90).map(move |i| r[i % 3]);
    let data: Vec<f32> = rows.into_iter().flat_map(row).collect();
    let by_row = Tensor::from_slice(&data, [5, 90]).unwrap();
    for (tensor, axis) in [(by_row.clone(), 1), (by_row.swap_axes(0, 1).unwrap(), 0)] {
        let tensor = tensor.into_contiguous().unwrap();
        let read = |t: Tensor| if axis == 1 { t } else { t.swap_axes(0, 1).unwrap() }.to_vec::<f32>();
        let got = read(softmax(tensor.clone(), axis).unwrap());
        for (r, row) in got.chunks(90).enumerate() {
            if r == 3 {
                assert_eq!(row[0], 0.0);
                assert!((row[1] - 1.0 / 60.0).abs() < 1e-7);
            } else {
                assert!(row.iter().all(|v| v.is_nan()), "row {r}: {row:?}");
            }
        }
        let log = read(log_softmax(tensor, axis).unwrap());
        assert!(log[..270].iter().all(|v| v.is_nan()));
        assert_eq!(log[270], -inf);
        assert!((log[271] + 60f32.ln()).abs() < 1e-6);
    }
    // Far from zero nothing overflows.
    let far = Tensor::from_slice(&[1e30f32, 1e30, -1e30], [3]).unwrap();
    assert_eq!(softmax(far.clone(), 0).unwrap().to_vec::<f32>(), [0.5, 0.5, 0.0]);
    assert_eq!(softmin(far, 0).unwrap().to_vec::<f32>(), [0.0, 0.0, 1.0]);
}

#[test]
fn empty_and_bad_arguments() {
    for shape in [[0usize, 3], [3, 0]] {
        for axis in 0..2 {
            let empty = Tensor::empty(shape, DType::F32).unwrap();
            assert_eq!(softmax(empty, axis).unwrap().shape().to_vec(), shape);
        }
    }
    let t = sample::<f32>(&[2, 3], 1);
    assert!(softmax(t.clone(), 2).unwrap_err().to_string().starts_with("softmax: axis 2"));
    assert!(log_softmax(t.clone(), 2).unwrap_err().to_string().starts_with("log_softmax: "));
    assert!(softmin(t, 2).unwrap_err().to_string().starts_with("softmin: "));
    let ints = Tensor::from_slice(&[1i32], [1]).unwrap();
    assert!(softmax(ints, 0).unwrap_err().to_string().starts_with("softmax: dtype i32"));
}

fn check_layer_norm<T: Element>(x: Tensor, epsilon: f64) {
    let width = *x.shape().last().unwrap();
    let (gamma, beta) = (sample::<T>(&[width], 3), sample::<T>(&[width], 4));
    let (g, b) = (wide::<T>(&gamma), wide::<T>(&beta));
    let data = wide::<T>(&x);
    for beta in [None, Some(beta)] {
        let got = layer_norm(x.clone(), gamma.clone(), beta.clone(), epsilon).unwrap();
        let want = oracle(&data, x.shape(), x.rank() - 1, |row| {
            let mean = row.iter().sum::<f64>() / width as f64;
            let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / width as f64;
            let shift = |j: usize| if beta.is_some() { b[j] } else { 0.0 };
            let y = |(j, v): (usize, &f64)| (v - mean) / (variance + epsilon).sqrt() * g[j] + shift(j);
            row.iter().enumerate().map(y).collect()
        });
        for (g, w) in wide::<T>(&got).iter().zip(&want) {
            let bound = tolerance(T::DTYPE) * (w.abs() + 5.0);
            assert!((g - w).abs() <= bound, "layer_norm {:?}: {g} for {w}", x.layout());
        }
        assert_eq!(wide::<T>(&x), data);
    }
}

#[test]
fn layer_norm_matches_the_definition() {
    for width in [1usize, 2, 7, 16, 31, 33, 65, 768, 5000] {
        check_layer_norm::<f32>(sample::<f32>(&[2, 3, width], 1), 1e-5);
        check_layer_norm::<f64>(sample::<f64>(&[3, width], 1), 1e-5);
        check_layer_norm::<f16>(sample::<f16>(&[3, width], 1), 1e-5);
        check_layer_norm::<bf16>(sample::<bf16>(&[3, width], 1), 1e-5);
    }
    check_layer_norm::<f32>(sample::<f32>(&[7, 9], 1).swap_axes(0, 1).unwrap(), 1e-3);
    check_layer_norm::<f32>(sample::<f32>(&[9], 1), 1e-3);
    check_layer_norm::<f32>(sample::<f32>(&[400, 300], 1), 1e-3);
}

#[test]
fn layer_norm_survives_a_large_mean() {
    let values: Vec<f32> = (0..64).map(|i| 1e6 + (i % 2) as f32).collect();
    let x = Tensor::from_slice(&values, [1, 64]).unwrap();
    let gamma = Tensor::full([64], 1.0, DType::F32).unwrap();
    let got = layer_norm(x, gamma, None, 0.0).unwrap().to_vec::<f32>();
    assert!(
        got.iter().enumerate().all(|(i, v)| (v - if i % 2 == 0 { -1.0 } else { 1.0 }).abs() < 0.2),
        "{got:?}"
    );
    let x = Tensor::from_slice(&[1.0f32, f32::NAN, 2.0, 3.0, 1.0, 2.0], [2, 3]).unwrap();
    let gamma = Tensor::full([3], 1.0, DType::F32).unwrap();
    let got = layer_norm(x, gamma, None, 1e-5).unwrap().to_vec::<f32>();
    assert!(got[..3].iter().all(|v| v.is_nan()) && got[3..].iter().all(|v| v.is_finite()));
}

#[test]
fn layer_norm_refuses_bad_arguments() {
    let f = |shape: &[usize]| Tensor::empty(shape.to_vec(), DType::F32).unwrap();
    let bad = [
        layer_norm(f(&[]), f(&[1]), None, 1e-5),
        layer_norm(f(&[2, 3]), f(&[2]), None, 1e-5),
        layer_norm(f(&[2, 3]), f(&[3]), Some(f(&[3, 1])), 1e-5),
        layer_norm(f(&[2, 3]), Tensor::empty([3], DType::F64).unwrap(), None, 1e-5),
        layer_norm(
            Tensor::empty([2], DType::I32).unwrap(),
            Tensor::empty([2], DType::I32).unwrap(),
            None,
            1e-5,
        ),
    ];
    for result in bad {
        assert!(result.unwrap_err().to_string().starts_with("layer_norm: "));
    }
    assert_eq!(layer_norm(f(&[2, 0]), f(&[0]), None, 1e-5).unwrap().shape().to_vec(), vec![2, 0]);
}

/// Compares the gradients along an axis with their formulas in f64, which take the output and the gradient of
/// the output.
fn check_backward<T: Element>(output: Tensor, axis: usize) {
    type Op = fn(Tensor, Tensor, usize) -> crate::Result<Tensor>;
    type Line = fn(&[f64], &[f64]) -> Vec<f64>;
    let functions: [(&str, Op, Line); 2] = [
        ("softmax_backward", softmax_backward, |y, g| {
            let sum: f64 = y.iter().zip(g).map(|(y, g)| y * g).sum();
            y.iter().zip(g).map(|(y, g)| y * (g - sum)).collect()
        }),
        ("log_softmax_backward", log_softmax_backward, |y, g| {
            let sum: f64 = g.iter().sum();
            y.iter().zip(g).map(|(y, g)| g - y.exp() * sum).collect()
        }),
    ];
    let shape = output.shape().to_vec();
    let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let grad = sample::<T>(&shape, 8);
    let (y, g) = (wide::<T>(&output), wide::<T>(&grad));
    for (name, op, line) in functions {
        let what = alloc::format!("{name} {:?} {:?} axis {axis}", T::DTYPE, output.layout());
        let mut want = vec![0.0; y.len()];
        for start in (0..y.len()).filter(|i| i / inner % size == 0) {
            let of = |from: &[f64]| (0..size).map(|j| from[start + j * inner]).collect::<Vec<_>>();
            for (j, slope) in line(&of(&y), &of(&g)).into_iter().enumerate() {
                want[start + j * inner] = slope;
            }
        }
        // The summed numbers are of magnitude up to 5.
        let scale = 10.0 * (size as f64).sqrt() * y.iter().fold(1.0, |m, y| y.exp().max(m));
        let got = op(output.clone(), grad.clone(), axis).unwrap();
        assert_eq!(got.shape().to_vec(), shape);
        close(&wide::<T>(&got), &want, tolerance(T::DTYPE), scale, &what);
        assert_eq!((wide::<T>(&output), wide::<T>(&grad)), (y.clone(), g.clone()), "{what}");
        let owned = Tensor::from_slice(&grad.to_vec::<T>(), shape.clone()).unwrap();
        let again = op(output.clone(), owned, axis).unwrap();
        assert_eq!(again.to_vec::<T>(), got.to_vec::<T>(), "{what}: in place");
    }
}

#[test]
fn softmax_gradients_match_their_formulas() {
    fn all<T: Element>() {
        for size in [1usize, 2, 31, 63, 64, 65, 300] {
            check_backward::<T>(softmax(sample::<T>(&[3, size], size), 1).unwrap(), 1);
            check_backward::<T>(softmax(sample::<T>(&[size, 5], size), 0).unwrap(), 0);
            check_backward::<T>(softmax(sample::<T>(&[2, size, 3], size), 1).unwrap(), 1);
        }
        let y = softmax(sample::<T>(&[4, 6, 5], 1), 1).unwrap();
        for axis in 0..3 {
            check_backward::<T>(y.clone().swap_axes(0, 2).unwrap(), axis);
            check_backward::<T>(y.clone().flip(&[0, 2]).unwrap(), axis);
            check_backward::<T>(y.clone().narrow(1, 2, 3).unwrap(), axis);
        }
    }
    all::<f64>();
    all::<f32>();
    all::<f16>();
    all::<bf16>();
    check_backward::<f32>(softmax(sample::<f32>(&[600, 700], 1), 1).unwrap(), 1);
    check_backward::<f32>(log_softmax(sample::<f32>(&[3, 10_000], 1), 1).unwrap(), 1);
}

#[test]
fn layer_norm_gradients_match_their_formulas() {
    fn check<T: Element>(x: Tensor) {
        let width = *x.shape().last().unwrap();
        let epsilon = 1e-3;
        let (gamma, grad) = (sample::<T>(&[width], 3), sample::<T>(x.shape(), 4));
        let got = layer_norm_backward(x.clone(), gamma.clone(), grad.clone(), epsilon).unwrap();
        let (data, c, g) = (wide::<T>(&x), wide::<T>(&gamma), wide::<T>(&grad));
        let n = width as f64;
        let mut want = [Vec::new(), vec![0.0; width], vec![0.0; width]];
        for (x, g) in data.chunks(width).zip(g.chunks(width)) {
            let mean = x.iter().sum::<f64>() / n;
            let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
            let scale = 1.0 / (variance + epsilon).sqrt();
            let h: Vec<f64> = x.iter().map(|x| (x - mean) * scale).collect();
            let mean_c = (0..width).map(|j| g[j] * c[j]).sum::<f64>() / n;
            let mean_ch = (0..width).map(|j| g[j] * c[j] * h[j]).sum::<f64>() / n;
            for j in 0..width {
                want[0].push(scale * (g[j] * c[j] - mean_c - h[j] * mean_ch));
                want[1][j] += g[j] * h[j];
                want[2][j] += g[j];
            }
        }
        let rows = (data.len() / width) as f64;
        for (got, want) in [&got.input, &got.gamma, &got.beta].into_iter().zip(&want) {
            close(
                &wide::<T>(got),
                want,
                tolerance(T::DTYPE),
                50.0 + 10.0 * rows.sqrt(),
                "layer_norm_backward",
            );
        }
        assert_eq!(got.input.shape().to_vec(), x.shape().to_vec());
        // The buffer of an unshared gradient is reused, with the same bits as result.
        let owned = Tensor::from_slice(&grad.to_vec::<T>(), grad.shape().to_vec()).unwrap();
        let address = owned.storage::<T>().as_ptr();
        let again = layer_norm_backward(x.clone(), gamma, owned, epsilon).unwrap();
        assert_eq!(again.input.storage::<T>().as_ptr(), address);
        assert_eq!(again.input.to_vec::<T>(), got.input.to_vec::<T>());
        assert_eq!(again.gamma.to_vec::<T>(), got.gamma.to_vec::<T>());
        assert_eq!((wide::<T>(&x), wide::<T>(&grad)), (data, g));
    }
    for width in [2usize, 7, 31, 33, 65, 768, 5000] {
        check::<f32>(sample::<f32>(&[2, 3, width], 1));
        check::<f64>(sample::<f64>(&[3, width], 1));
        check::<f16>(sample::<f16>(&[3, width], 1));
        check::<bf16>(sample::<bf16>(&[3, width], 1));
    }
    check::<f32>(sample::<f32>(&[7, 9], 1).swap_axes(0, 1).unwrap());
    // Several tasks, each with more rows than are summed at once.
    check::<f32>(sample::<f32>(&[4001, 33], 1));
}

#[test]
fn gradients_refuse_bad_arguments() {
    let f = |shape: &[usize]| Tensor::empty(shape.to_vec(), DType::F32).unwrap();
    let message = |result: crate::Result<Tensor>| result.unwrap_err().to_string();
    for (name, op) in [
        ("softmax_backward", softmax_backward as fn(Tensor, Tensor, usize) -> crate::Result<Tensor>),
        ("log_softmax_backward", log_softmax_backward),
    ] {
        assert!(message(op(f(&[2, 3]), f(&[3, 2]), 1)).starts_with(&alloc::format!("{name}: shapes [2, 3]")));
        assert!(message(op(f(&[2, 3]), f(&[2, 3]), 2)).starts_with(&alloc::format!("{name}: axis 2")));
        let wide = Tensor::empty([2, 3], DType::F64).unwrap();
        assert!(
            message(op(f(&[2, 3]), wide, 1)).starts_with(&alloc::format!("{name}: operands have dtypes"))
        );
        let ints = || Tensor::empty([2], DType::I32).unwrap();
        assert!(message(op(ints(), ints(), 0)).starts_with(&alloc::format!("{name}: dtype i32")));
        assert!(message(op(f(&[]), f(&[]), 0)).starts_with(&alloc::format!("{name}: axis 0")));
        assert_eq!(op(f(&[2, 0]), f(&[2, 0]), 0).unwrap().shape().to_vec(), [2, 0]);
    }
    let layer =
        |x: &[usize], gamma: &[usize], grad: &[usize]| layer_norm_backward(f(x), f(gamma), f(grad), 1e-5);
    let bad: [[&[usize]; 3]; 3] = [[&[], &[1], &[]], [&[2, 3], &[2], &[2, 3]], [&[2, 3], &[3], &[3, 3]]];
    for [x, gamma, grad] in bad {
        assert!(layer(x, gamma, grad).unwrap_err().to_string().starts_with("layer_norm_backward: "));
    }
    for shape in [[2usize, 0], [0, 2]] {
        let got = layer(&shape, &shape[1..], &shape).unwrap();
        assert_eq!(got.input.shape().to_vec(), shape);
        assert_eq!(got.gamma.to_vec::<f32>(), vec![0.0; shape[1]]);
    }
}

mod batch_norm;
