//! `scale` on every backend, compared with products computed here.
#![allow(missing_docs)]

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn_flex::Flex;
use burn_flex_cuda::{Cuda, CudaFused};
use burn_flex_wgpu::{Wgpu, WgpuFused};
use burn_tensor::{Tensor, TensorData};
use flex_scale::{Scale, scale};
use std::io::Write;

/// Multiples of a quarter: exact in every float dtype, and so are their products with a power of two.
fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.25 - 3.0).collect()
}

fn times(values: &[f32], alpha: f32) -> Vec<f32> {
    values.iter().map(|x| x * alpha).collect()
}

fn same<B: Scale, const D: usize>(tensor: Tensor<B, D>, want: Vec<f32>) {
    let shape: [usize; D] = tensor.dims();
    tensor.into_data().assert_eq(&TensorData::new(want, shape), true);
}

/// Contiguous, transposed and sliced inputs, lengths that no vector length divides, and empty inputs if
/// `least` is 0.
fn forward<B: Scale>(least: usize) {
    let device = Default::default();
    for n in [0, 1, 4, 7, 1000].into_iter().filter(|&n| n >= least) {
        let x = Tensor::<B, 1>::from_data(TensorData::new(values(n), [n]), &device);
        same(scale(x, -0.5), times(&values(n), -0.5));
    }
    let x = || Tensor::<B, 2>::from_data(TensorData::new(values(24), [4, 6]), &device);
    let rows =
        |list: &[(usize, usize)]| list.iter().map(|(r, c)| values(24)[r * 6 + c] * 2.0).collect::<Vec<_>>();
    let transposed: Vec<(usize, usize)> = (0..6).flat_map(|c| (0..4).map(move |r| (r, c))).collect();
    same(scale(x().transpose(), 2.0), rows(&transposed));
    let window: Vec<(usize, usize)> = (1..3).flat_map(|r| (1..6).map(move |c| (r, c))).collect();
    same(scale(x().slice([1..3, 1..6]), 2.0), rows(&window));
    let shared = x();
    same(scale(shared.clone(), 2.0), times(&values(24), 2.0));
    same(shared, values(24));
}

/// d(sum(scale(xᵀ, a)²))/dx = 2 a² x.
fn backward<B: Scale, C: burn_autodiff::checkpoint::strategy::CheckpointStrategy>() {
    let device = Default::default();
    let data = TensorData::new(values(24), [4, 6]);
    let x = Tensor::<Autodiff<B, C>, 2>::from_data(data, &device).require_grad();
    let y = scale(x.clone().transpose(), 0.5);
    let gradients = (y.clone() * y).sum().backward();
    same(x.grad(&gradients).expect("x is tracked"), times(&values(24), 2.0 * 0.25));
}

/// Inputs of at least `least` elements.
fn all<B: Scale>(least: usize) {
    forward::<B>(least);
    forward::<Autodiff<B>>(least);
    backward::<B, burn_autodiff::checkpoint::strategy::NoCheckpointing>();
    backward::<B, BalancedCheckpointing>();
}

/// Runs a test if its device is present. Otherwise prints, past the test harness, why the test is skipped.
fn where_present<E: std::fmt::Display>(name: &str, device: Result<(), E>, test: impl FnOnce()) {
    match device {
        Ok(()) => test(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{name} skipped: {error}");
        }
    }
}

#[test]
fn flex() {
    all::<Flex>(0);
}

#[test]
fn wgpu() {
    where_present("scale on Wgpu", burn_flex_wgpu::check(&Default::default()), || {
        all::<Wgpu>(0);
        all::<WgpuFused>(0);
    });
}

#[test]
fn cuda() {
    where_present("scale on Cuda", burn_flex_cuda::check(&Default::default()), || {
        // cubecl's CUDA runtime hands the bytes of an empty tensor back at address 0, which `into_data`
        // refuses.
        all::<Cuda>(1);
        all::<CudaFused>(1);
    });
}
