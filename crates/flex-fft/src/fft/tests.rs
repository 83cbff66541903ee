use super::*;
use crate::{DType, Element, Error, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::f64::consts::TAU;

fn signal(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
        })
        .collect()
}

/// Bins of a real signal, from the definition.
fn dft(x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = x.len();
    (0..n / 2 + 1)
        .map(|k| {
            let term = |j: usize| (TAU * (j * k % n) as f64 / n as f64).sin_cos();
            let parts = x.iter().enumerate().map(|(j, x)| (x * term(j).1, -x * term(j).0));
            parts.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
        })
        .unzip()
}

/// A real signal of `n` samples from bins, from the definition.
fn idft(re: &[f64], im: &[f64], n: usize) -> Vec<f64> {
    let bin = |v: &[f64], k: usize| v.get(k).copied().unwrap_or(0.0);
    (0..n)
        .map(|j| {
            let mut sum = bin(re, 0);
            for k in 1..n / 2 + 1 {
                let (sin, cos) = (TAU * (j * k % n) as f64 / n as f64).sin_cos();
                let (a, b) = (bin(re, k), bin(im, k));
                sum += if 2 * k == n { a * cos } else { 2.0 * (a * cos - b * sin) };
            }
            sum / n as f64
        })
        .collect()
}

fn tensor<T: Element>(v: &[f64], shape: impl Into<Shape>) -> Tensor {
    Tensor::from_slice(&v.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>(), shape).unwrap()
}

fn to_f64(t: &Tensor) -> Vec<f64> {
    dispatch!(float "test", t.dtype(), T => Ok(t.to_vec::<T>().into_iter().map(Element::to_f64).collect::<Vec<f64>>()))
        .unwrap()
}

#[track_caller]
fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (k, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance, "element {k}: {g}, expected {e}");
    }
}

fn check<T: Element>(n: usize, epsilon: f64) {
    let rows: Vec<f64> = signal(3 * n, n as u64).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let x = tensor::<T>(&rows, [3, n]);
    let (re, im) = rfft(x, 1, None).unwrap();
    assert_eq!(re.shape().as_slice(), [3, n / 2 + 1]);
    let (mut expected_re, mut expected_im) = (vec![], vec![]);
    for row in rows.chunks(n) {
        let (re, im) = dft(row);
        expected_re.extend(re);
        expected_im.extend(im);
    }
    let tolerance = epsilon * (n as f64).sqrt();
    assert_close(&to_f64(&re), &expected_re, tolerance);
    assert_close(&to_f64(&im), &expected_im, tolerance);
    // Parseval: each inner bin stands for two.
    for (row, (re, im)) in rows.chunks(n).zip(
        to_f64(&re)
            .chunks(n / 2 + 1)
            .map(<[f64]>::to_vec)
            .zip(to_f64(&im).chunks(n / 2 + 1).map(<[f64]>::to_vec)),
    ) {
        let energy: f64 = row.iter().map(|v| v * v).sum();
        let weight = |k: usize| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
        let bins: f64 = (0..re.len()).map(|k| weight(k) * (re[k] * re[k] + im[k] * im[k])).sum();
        assert!((bins / n as f64 - energy).abs() <= epsilon * energy.max(1.0) * 4.0);
    }
    let back = irfft(re, im, 1, Some(n)).unwrap();
    assert_close(&to_f64(&back), &rows, epsilon * 2.0);
}

#[test]
fn any_length_matches_the_definition_and_comes_back() {
    let lengths = (1..=67).chain([96, 97, 100, 127, 128, 129, 251, 256, 300, 343, 509, 512, 1000, 1024]);
    for n in lengths {
        check::<f64>(n, 1e-13);
        check::<f32>(n, 3e-6);
    }
    for n in [1, 2, 15, 16, 31, 64, 100] {
        check::<f16>(n, 4e-3);
        check::<bf16>(n, 4e-2);
    }
}

#[test]
fn many_long_rows_in_parallel() {
    // Enough rows and samples for several tasks.
    let (rows, n) = (40, 4096);
    let data = signal(rows * n, 5);
    let (re, im) = rfft(tensor::<f64>(&data, [rows, n]), 1, None).unwrap();
    for row in [0, 17, rows - 1] {
        let (expected_re, expected_im) = dft(&data[row * n..(row + 1) * n]);
        let pick = |t: &Tensor| to_f64(&t.clone().narrow(0, row, 1).unwrap());
        assert_close(&pick(&re), &expected_re, 1e-10);
        assert_close(&pick(&im), &expected_im, 1e-10);
    }
    assert_close(&to_f64(&irfft(re, im, 1, None).unwrap()), &data, 1e-13);
}

#[test]
fn f64_is_f64_throughout() {
    // A spectral line next to one that is 1e12 times larger: lost with f32 twiddles.
    let n = 1024;
    let x: Vec<f64> = (0..n)
        .map(|j| {
            let angle = TAU * j as f64 / n as f64;
            (5.0 * angle).cos() + 1e-12 * (100.0 * angle).cos()
        })
        .collect();
    let (re, _) = rfft(tensor::<f64>(&x, [n]), 0, None).unwrap();
    let re = to_f64(&re);
    assert!((re[5] - 512.0).abs() < 1e-9);
    assert!((re[100] / 512e-12 - 1.0).abs() < 1e-2, "{}", re[100]);
}

#[test]
fn every_axis_and_layout() {
    let data = signal(4 * 6 * 5, 9);
    let x = tensor::<f64>(&data, [4, 6, 5]);
    let views = [
        x.clone(),
        x.clone().swap_axes(0, 2).unwrap(),
        x.clone().flip(&[0, 1, 2]).unwrap(),
        x.clone().narrow(1, 2, 3).unwrap(),
        x.clone().narrow(0, 1, 1).unwrap().expand(&[3, 6, 5]).unwrap(),
        x.clone().unfold(1, 4, 2).unwrap(),
    ];
    for view in views {
        for axis in 0..view.rank() {
            let n = view.shape()[axis];
            let (re, im) = rfft(view.clone(), axis, None).unwrap();
            assert_eq!(re.shape()[axis], n / 2 + 1);
            let back = irfft(re.clone(), im.clone(), axis, Some(n)).unwrap();
            assert_eq!(back.shape(), view.shape());
            assert_close(&to_f64(&back), &to_f64(&view), 1e-13);
            // Compared with the transform along the last axis.
            let last = view.rank() - 1;
            let turned = view.clone().swap_axes(axis, last).unwrap();
            let rows = to_f64(&turned);
            let expected: Vec<f64> = rows.chunks(n).flat_map(|row| dft(row).1).collect();
            assert_close(&to_f64(&im.swap_axes(axis, last).unwrap()), &expected, 1e-12);
        }
    }
    assert_eq!(to_f64(&x), data);
}

#[test]
fn a_given_length_cuts_or_continues_with_zeros() {
    let data = signal(20, 3);
    for n in [1, 2, 5, 7, 10, 11, 16, 33] {
        let (re, im) = rfft(tensor::<f32>(&data, [2, 10]), 1, Some(n)).unwrap();
        let mut expected = (vec![], vec![]);
        for row in data.chunks(10) {
            let mut row = row.to_vec();
            row.resize(n, 0.0);
            let (re, im) = dft(&row);
            expected.0.extend(re);
            expected.1.extend(im);
        }
        assert_close(&to_f64(&re), &expected.0, 1e-5);
        assert_close(&to_f64(&im), &expected.1, 1e-5);

        let other = signal(20, 4);
        let back = irfft(tensor::<f64>(&data, [2, 10]), tensor::<f64>(&other, [2, 10]), 1, Some(n)).unwrap();
        let expected: Vec<f64> =
            data.chunks(10).zip(other.chunks(10)).flat_map(|(re, im)| idft(re, im, n)).collect();
        assert_close(&to_f64(&back), &expected, 1e-13);
    }
    // Without a length: 2 * (bins - 1). Imaginary parts of the first and the last bin are ignored.
    let back = irfft(tensor::<f32>(&[1.0, 0.5], [2]), tensor::<f32>(&[7.0, 9.0], [2]), 0, None).unwrap();
    assert_eq!(back.to_vec::<f32>(), [0.75, 0.25]);
}

#[test]
fn empty_batches() {
    let (re, im) = rfft(Tensor::empty([0, 8], DType::F32).unwrap(), 1, None).unwrap();
    assert_eq!((re.shape().as_slice(), im.shape().as_slice()), (&[0, 5][..], &[0, 5][..]));
    assert_eq!(irfft(re, im, 1, None).unwrap().shape().as_slice(), [0, 8]);
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let x = tensor::<f32>(&signal(8, 1), [2, 4]);
    let int = Tensor::full([2, 4], 1, DType::I32).unwrap();
    let empty = Tensor::empty([2, 0], DType::F32).unwrap();
    let scalar = Tensor::from_slice(&[1.0f32], Vec::<usize>::new()).unwrap();
    for e in [
        rfft(x.clone(), 2, None),
        rfft(x.clone(), 1, Some(0)),
        rfft(x.clone(), 1, Some(usize::MAX / 2)),
        rfft(int.clone(), 1, None),
        rfft(empty.clone(), 1, None),
        rfft(empty.clone(), 1, Some(4)),
        rfft(scalar, 0, None),
    ] {
        let e = e.unwrap_err().to_string();
        assert!(e.starts_with("rfft: "), "{e}");
    }
    let double = tensor::<f64>(&signal(8, 1), [2, 4]);
    for e in [
        irfft(x.clone(), x.clone(), 2, None),
        irfft(x.clone(), x.clone(), 1, Some(0)),
        irfft(x.clone().narrow(1, 0, 1).unwrap(), x.clone().narrow(1, 0, 1).unwrap(), 1, None),
        irfft(x.clone(), x.clone().narrow(1, 0, 3).unwrap(), 1, None),
        irfft(x.clone(), double, 1, None),
        irfft(int.clone(), int, 1, None),
        irfft(empty.clone(), empty, 1, None),
    ] {
        let e = e.unwrap_err().to_string();
        assert!(e.starts_with("irfft: "), "{e}");
    }
}

#[test]
fn lengths_that_no_machine_has_memory_for_are_errors() {
    // With a large prime factor, so that 40 elements per sample are needed: beyond any address space.
    let n = (1usize << if usize::BITS == 64 { 50 } else { 25 }) - 1;
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = Tensor::full([2, 5], 1.0, dtype).unwrap();
        let forward = rfft(x.clone(), 1, Some(n)).unwrap_err();
        assert!(matches!(forward, Error::Memory { op: "rfft", .. }), "{forward}");
        let inverse = irfft(x.clone(), x, 1, Some(n)).unwrap_err();
        assert!(matches!(inverse, Error::Memory { op: "irfft", .. }), "{inverse}");
    }
}
