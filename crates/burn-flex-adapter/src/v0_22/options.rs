//! Options of operations that differ between releases.
//!
//! Burn 0.22 pads each end of an axis of a convolution by a number of its own. The engine pads both ends by
//! the same number, so the ends that need more are padded with zeros before it runs.

use super::burn_backend::ops::{ConvOptions, InterpolateMode};
use alloc::vec::Vec;
use flex_core::vision::Interpolation;
use flex_core::{Error, Result, Slice, Tensor, conv as engine, movement};

pub(super) fn interpolation(mode: InterpolateMode) -> Interpolation {
    match mode {
        InterpolateMode::Nearest => Interpolation::Nearest,
        InterpolateMode::NearestExact => Interpolation::NearestExact,
        InterpolateMode::Bilinear => Interpolation::Bilinear,
        InterpolateMode::Bicubic => Interpolation::Bicubic,
        InterpolateMode::Lanczos3 => Interpolation::Lanczos3,
    }
}

/// Zeros that an axis needs beyond its even padding, before and after its elements.
type Extra<const N: usize> = [(usize, usize); N];

/// The engine's options with the padding that both ends of each axis have in common, and the rest.
fn split<const N: usize>(options: ConvOptions<N>) -> (engine::ConvOptions<N>, Extra<N>) {
    let ConvOptions { stride, padding, dilation, groups } = options;
    let even = padding.map(|(before, after)| before.min(after));
    let extra = core::array::from_fn(|k| (padding[k].0 - even[k], padding[k].1 - even[k]));
    (engine::ConvOptions { stride, padding: even, dilation, groups }, extra)
}

/// Where the elements of a tensor of `sizes` lie between the extra zeros.
fn inside<const N: usize>(sizes: &[usize], extra: &Extra<N>) -> Vec<Slice> {
    let axes = sizes.iter().enumerate().map(|(axis, &size)| {
        let before = if axis < 2 { 0 } else { extra[axis - 2].0 };
        Slice { start: before as isize, end: Some((before + size) as isize), step: 1 }
    });
    axes.collect()
}

/// `x` between the extra zeros.
fn widened<const N: usize>(x: Tensor, extra: &Extra<N>) -> Result<Tensor> {
    // The engine refuses a tensor of another rank.
    if x.rank() != N + 2 || extra.iter().all(|&ends| ends == (0, 0)) {
        return Ok(x);
    }
    let mut sizes: Vec<usize> = x.shape().to_vec();
    for (size, (before, after)) in sizes[2..].iter_mut().zip(extra) {
        let wide = size.checked_add(*before).and_then(|size| size.checked_add(*after));
        *size = wide.ok_or_else(|| Error::shape("conv", x.shape(), "a padded axis that can be addressed"))?;
    }
    let zeros = Tensor::full(&sizes[..], 0.0, x.dtype())?;
    let inside = inside(x.shape(), extra);
    movement::slice_assign(zeros, &inside, x)
}

pub(super) fn conv<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    let (options, extra) = split(options);
    engine::conv(widened(x, &extra)?, weight, bias, &options)
}

pub(super) fn conv_x_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    let (options, extra) = split(options);
    let padded = x.rank() == N + 2 && extra.iter().any(|&ends| ends != (0, 0));
    let inside = padded.then(|| inside(x.shape(), &extra));
    let grad = engine::conv_x_backward(widened(x, &extra)?, weight, grad, &options)?;
    match inside {
        Some(inside) => grad.slice(&inside),
        None => Ok(grad),
    }
}

pub(super) fn conv_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    let (options, extra) = split(options);
    engine::conv_weight_backward(widened(x, &extra)?, weight, grad, &options)
}
