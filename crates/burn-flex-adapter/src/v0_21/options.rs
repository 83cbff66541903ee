//! Options of operations that differ between releases.

use super::burn_backend::ops::{ConvOptions, InterpolateMode};
use flex_core::vision::Interpolation;
use flex_core::{Result, Tensor, conv as engine};

pub(super) fn interpolation(mode: InterpolateMode) -> Interpolation {
    match mode {
        InterpolateMode::Nearest => Interpolation::Nearest,
        InterpolateMode::Bilinear => Interpolation::Bilinear,
        InterpolateMode::Bicubic => Interpolation::Bicubic,
        InterpolateMode::Lanczos3 => Interpolation::Lanczos3,
    }
}

fn conv_options<const N: usize>(options: ConvOptions<N>) -> engine::ConvOptions<N> {
    let ConvOptions { stride, padding, dilation, groups } = options;
    engine::ConvOptions { stride, padding, dilation, groups }
}

pub(super) fn conv<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    engine::conv(x, weight, bias, &conv_options(options))
}

pub(super) fn conv_x_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    engine::conv_x_backward(x, weight, grad, &conv_options(options))
}

pub(super) fn conv_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: ConvOptions<N>,
) -> Result<Tensor> {
    engine::conv_weight_backward(x, weight, grad, &conv_options(options))
}
