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

/// The sizes of `x` with the extra zeros; `None` if there are none, or if the rank is one that the engine
/// refuses.
///
/// # Errors
/// An axis that cannot be addressed.
fn wide_sizes<const N: usize>(op: &'static str, x: &Tensor, extra: &Extra<N>) -> Result<Option<Vec<usize>>> {
    if x.rank() != N + 2 || extra.iter().all(|&ends| ends == (0, 0)) {
        return Ok(None);
    }
    let mut sizes: Vec<usize> = x.shape().to_vec();
    for (size, (before, after)) in sizes[2..].iter_mut().zip(extra) {
        let wide = size.checked_add(*before).and_then(|size| size.checked_add(*after));
        *size = wide.ok_or_else(|| Error::shape(op, x.shape(), "a padded axis that can be addressed"))?;
    }
    Ok(Some(sizes))
}

/// `x` between the extra zeros.
fn widened<const N: usize>(op: &'static str, x: Tensor, extra: &Extra<N>) -> Result<Tensor> {
    let Some(sizes) = wide_sizes(op, &x, extra)? else { return Ok(x) };
    let inside = inside(x.shape(), extra);
    let zeros = Tensor::full(&sizes[..], 0.0, x.dtype());
    let wide = zeros.and_then(|zeros| movement::slice_assign(zeros, &inside, x));
    wide.map_err(|error| error.named(op))
}

pub(super) fn conv<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    let (options, extra) = split(options);
    engine::conv(widened("conv", x, &extra)?, weight, bias, &options)
}

pub(super) fn conv_x_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    let (options, extra) = split(options);
    const OP: &str = "conv_x_backward";
    let Some(sizes) = wide_sizes(OP, &x, &extra)? else {
        return engine::conv_x_backward(x, weight, grad, &options);
    };
    let inside = inside(x.shape(), &extra);
    // Of the padded tensor only the shape is used.
    let wide = Tensor::full(alloc::vec![1; N + 2], 0.0, x.dtype()).and_then(|zero| zero.expand(&sizes));
    let wide = wide.map_err(|error| error.named(OP))?;
    engine::conv_x_backward(wide, weight, grad, &options)?.slice(&inside)
}

pub(super) fn conv_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    let (options, extra) = split(options);
    engine::conv_weight_backward(widened("conv_weight_backward", x, &extra)?, weight, grad, &options)
}
