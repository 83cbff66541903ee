//! Burn's other crates on the Flex device, each by a result that is known: the Fourier transform of a sine
//! (burn-signal), factors of matrices and a least-squares problem (burn-linalg), and Einstein's sums
//! (burn-einsum).
//!
//! `cargo run --release -p flex-examples-22 --example crates` in the folder `burn-0.22` prints each result
//! beside what it has to be, and fails if one of them differs.

use burn::linalg;
use burn::signal::{irfft, rfft};
use burn::tensor::{Device, Tensor, TensorData, einsum};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    println!("on {device:?}");
    signal(&device)?;
    factors(&device)?;
    linear_algebra(&device)?;
    sums(&device)?;
    Ok(())
}

/// Prints a result, which may differ from the expected one by 1e-4.
fn report(what: &str, got: &[f32], expected: &[f32]) -> Result<(), Box<dyn Error>> {
    println!("{what}: {got:.4?}, expected {expected:.4?}");
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
    if same { Ok(()) } else { Err(format!("{what} differs").into()) }
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// A sine of 5 periods has all of its power in bin 5, and comes back from its spectrum.
fn signal(device: &Device) -> Result<(), Box<dyn Error>> {
    const N: usize = 64;
    let sine = |i: usize| (2.0 * std::f32::consts::PI * 5.0 * i as f32 / N as f32).sin();
    let samples: Vec<f32> = (0..N).map(sine).collect();
    let x = Tensor::<1>::from_data(TensorData::new(samples, [N]), device);
    let (re, im) = rfft(x.clone(), 0, None);
    let power = re.clone() * re.clone() + im.clone() * im.clone();
    let peak = power.clone().argmax(0).into_scalar::<i64>();
    report("burn-signal: the bin of a sine of 5 periods", &[peak as f32], &[5.0])?;
    report("burn-signal: its power", &numbers(power.max()), &[(N * N / 4) as f32])?;
    let back = irfft(re, im, 0, Some(N));
    report("burn-signal: the largest error of the inverse", &numbers((back - x).abs().max()), &[0.0])
}

/// The matrices that burn-linalg's documents factor, with the factors that they name.
fn factors(device: &Device) -> Result<(), Box<dyn Error>> {
    // The second row begins with the larger number, so it comes first.
    let a = Tensor::<2>::from_data([[4.0, 3.0], [6.0, 3.0]], device);
    let (p, l, u) = linalg::lu::<2, 1>(a.clone());
    report("burn-linalg: the rows' order in LU", &numbers(p.clone()), &[0.0, 1.0, 1.0, 0.0])?;
    report("burn-linalg: the lower factor", &numbers(l.clone()), &[1.0, 0.0, 2.0 / 3.0, 1.0])?;
    report("burn-linalg: the upper factor", &numbers(u.clone()), &[6.0, 3.0, 0.0, 1.0])?;
    report("burn-linalg: their product", &numbers(p.matmul(l).matmul(u)), &numbers(a))?;

    let a = Tensor::<2>::from_data([[3.0, 2.0], [4.0, 6.0]], device);
    let (q, r) = linalg::qr(a.clone(), false);
    report("burn-linalg: the orthogonal factor in QR", &numbers(q.clone()), &[-0.6, 0.8, -0.8, -0.6])?;
    report("burn-linalg: the triangular factor", &numbers(r.clone()), &[-5.0, -6.0, 0.0, -2.0])?;
    report("burn-linalg: their product", &numbers(q.matmul(r)), &numbers(a))?;

    // The squares of the singular values are the eigenvalues of [[35, 44], [44, 56]]: their sum is 91, their
    // product 24.
    let a = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device);
    let (u, s, vt) = linalg::svd::<2, 1>(a.clone(), 10);
    let root = (91.0f32 * 91.0 - 4.0 * 24.0).sqrt();
    let values = [((91.0 + root) / 2.0).sqrt(), (48.0 / (91.0 + root)).sqrt()];
    report("burn-linalg: singular values", &numbers(s.clone()), &values)?;
    let product = (u * s.unsqueeze_dim(0)).matmul(vt);
    report("burn-linalg: the product of SVD's factors", &numbers(product), &numbers(a))
}

/// A line through points, by the factors of QR; determinants.
fn linear_algebra(device: &Device) -> Result<(), Box<dyn Error>> {
    // y = 2 + 3 x at x = 0, 1, 2.
    let a = Tensor::<2>::from_data([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], device);
    let y = Tensor::<2>::from_data([[2.0], [5.0], [8.0]], device);
    let (q, r) = linalg::qr(a, true);
    let z = numbers(q.transpose().matmul(y));
    let r = numbers(r);
    let slope = z[1] / r[3];
    report(
        "burn-linalg: the line through three points",
        &[(z[0] - r[1] * slope) / r[0], slope],
        &[2.0, 3.0],
    )?;
    let matrices = Tensor::<3>::from_data([[[0.0, 2.0], [3.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]], device);
    report("burn-linalg: two determinants", &numbers(linalg::det::<3, 2, 1>(matrices)), &[-6.0, -2.0])
}

/// A matrix product and a transposition.
fn sums(device: &Device) -> Result<(), Box<dyn Error>> {
    let a = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0]], device);
    report("burn-einsum: ij,jk->ik", &numbers(einsum!("ij,jk->ik", &a, &a)), &[7.0, 10.0, 15.0, 22.0])?;
    report("burn-einsum: ij->ji", &numbers(einsum!("ij->ji", &a)), &[1.0, 3.0, 2.0, 4.0])
}
