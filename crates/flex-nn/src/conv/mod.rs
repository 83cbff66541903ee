//! Convolutions over one, two and three spatial axes, transposed and deformable ones, and their gradients.
//!
//! Inputs are `[batch, channels, spatial...]`. Convolutions slide windows over their input without flipping the
//! kernel (they are cross-correlations), with zeros for padding, as PyTorch does.
//!
//! From the outside in:
//!
//! * `plan` validates and turns every kind into one geometry over three spatial axes;
//! * `program` turns a geometry into passes: which shifted windows of which planes are summed with which
//!   coefficients. Convolutions, transposed ones and both kinds of input gradients are such programs;
//! * `planes` lays out the padded input that the passes read;
//! * `run` cuts a program into tasks and runs, `weight` does the same for weight gradients;
//! * `product` holds the two kernels in which all the arithmetic happens.
//!
//! No column matrix (im2col) is written: since a window's tap is a constant shift in the planes, the kernels
//! read the windows from the planes themselves. Pointwise convolutions read their input in place; depthwise ones are
//! products with one row. The half types are computed in f32 and rounded once.

mod bias;
mod deform;
mod element;
mod plan;
mod planes;
mod product;
mod program;
mod run;
#[cfg(test)]
mod tests;
mod unfold;
mod weight;

pub use bias::conv_bias_backward;
pub use deform::{deform_conv2d, deform_conv2d_backward};
pub use unfold::unfold4d;

use crate::Tensor;
use crate::dtype::Element;
use crate::error::{Result, check_same_dtype};
use element::{Scratch, Store, Values, compute_into};
use plan::{Geometry, check_bias, check_scratch};
use program::Program;
use run::Operands;

/// Options of a convolution over N spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions<const N: usize> {
    /// Distance between neighbouring windows.
    pub stride: [usize; N],
    /// Zeros added to both ends of each axis.
    pub padding: [usize; N],
    /// Distance between neighbouring taps of a window.
    pub dilation: [usize; N],
    /// Groups of channels that are convolved independently.
    pub groups: usize,
}

/// Options of a transposed convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions<const N: usize> {
    /// Distance between neighbouring windows in the output.
    pub stride: [usize; N],
    /// Elements cut off both ends of each axis of the output.
    pub padding: [usize; N],
    /// Elements added to the end of each axis of the output.
    pub padding_out: [usize; N],
    /// Distance between neighbouring taps of a window.
    pub dilation: [usize; N],
    /// Groups of channels that are convolved independently.
    pub groups: usize,
}

/// Options of [`deform_conv2d`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeformConvOptions {
    /// Distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Zeros added to both ends of each axis.
    pub padding: [usize; 2],
    /// Distance between neighbouring taps of a window.
    pub dilation: [usize; 2],
    /// Groups of channels that are convolved independently.
    pub weight_groups: usize,
    /// Groups of input channels that share their offsets and mask.
    pub offset_groups: usize,
}

/// Options of [`unfold4d`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldOptions {
    /// Distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Zeros added to both ends of each axis.
    pub padding: [usize; 2],
    /// Distance between neighbouring taps of a window.
    pub dilation: [usize; 2],
}

/// Gradients of [`deform_conv2d`], in the shapes of its arguments.
#[derive(Clone, Debug)]
pub struct DeformConvGradients {
    /// With respect to the input.
    pub x: Tensor,
    /// With respect to the offsets.
    pub offset: Tensor,
    /// With respect to the weight.
    pub weight: Tensor,
    /// With respect to the mask, if there is one.
    pub mask: Option<Tensor>,
    /// With respect to the bias, if there is one.
    pub bias: Option<Tensor>,
}

/// Convolution of `x`, `[batch, channels_in, spatial...]`, with `weight`, `[channels_out, channels_in / groups,
/// kernel...]`, and an optional bias `[channels_out]`, to `[batch, channels_out, out...]`, where
/// `out = (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1`, rounded down.
///
/// # Errors
/// Ranks, channels, groups or a bias that do not fit together; a stride, dilation, group count or kernel size of
/// zero; a kernel that does not fit into the padded input; different dtypes, or one that is not a float.
pub fn conv<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv";
    check_same_dtype(OP, x.dtype(), weight.dtype())?;
    let geometry = Geometry::conv(OP, x.shape(), weight.shape(), options)?;
    gather(OP, x, weight, bias, &geometry, geometry.grid_shape::<N>())
}

/// Gradient of [`conv`] with respect to `x`, of which only the shape matters.
///
/// # Errors
/// Those of [`conv`], and a gradient that does not have the shape of its output.
pub fn conv_x_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv_x_backward";
    check_same_dtype(OP, weight.dtype(), grad.dtype())?;
    let geometry = Geometry::conv(OP, x.shape(), weight.shape(), options)?;
    geometry.check_grid(OP, grad.shape())?;
    spread(OP, grad, weight, None, &geometry, geometry.image_shape::<N>())
}

/// Gradient of [`conv`] with respect to `weight`, of which only the shape matters.
///
/// # Errors
/// Those of [`conv`], and a gradient that does not have the shape of its output.
pub fn conv_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv_weight_backward";
    check_same_dtype(OP, x.dtype(), grad.dtype())?;
    let geometry = Geometry::conv(OP, x.shape(), weight.shape(), options)?;
    geometry.check_grid(OP, grad.shape())?;
    weight_gradient(OP, x, grad, &weight, &geometry)
}

/// Transposed convolution of `x`, `[batch, channels_in, spatial...]`, with `weight`, `[channels_in, channels_out /
/// groups, kernel...]`, and an optional bias `[channels_out]`, to `[batch, channels_out, out...]`, where
/// `out = (size - 1) * stride + dilation * (kernel - 1) + 1 + padding_out - 2 * padding`.
///
/// # Errors
/// Ranks, channels, groups or a bias that do not fit together; a stride, dilation, group count or kernel size of
/// zero; an output of less than one element along a spatial axis; different dtypes, or one that is not a float.
pub fn conv_transpose<const N: usize>(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv_transpose";
    check_same_dtype(OP, x.dtype(), weight.dtype())?;
    let geometry = Geometry::conv_transpose(OP, x.shape(), weight.shape(), options)?;
    spread(OP, x, weight, bias, &geometry, geometry.image_shape::<N>())
}

/// Gradient of [`conv_transpose`] with respect to `x`, whose shape follows from that of the gradient.
///
/// # Errors
/// Those of [`conv_transpose`], and a gradient that no input leads to.
pub fn conv_transpose_x_backward<const N: usize>(
    weight: Tensor,
    grad: Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv_transpose_x_backward";
    check_same_dtype(OP, weight.dtype(), grad.dtype())?;
    let geometry = Geometry::conv_transpose_of_grad(OP, weight.shape(), grad.shape(), options)?;
    gather(OP, grad, weight, None, &geometry, geometry.grid_shape::<N>())
}

/// Gradient of [`conv_transpose`] with respect to `weight`, of which only the shape matters.
///
/// # Errors
/// Those of [`conv_transpose`], and a gradient that does not have the shape of its output.
pub fn conv_transpose_weight_backward<const N: usize>(
    x: Tensor,
    weight: Tensor,
    grad: Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv_transpose_weight_backward";
    check_same_dtype(OP, x.dtype(), grad.dtype())?;
    let geometry = Geometry::conv_transpose(OP, x.shape(), weight.shape(), options)?;
    geometry.check_image(OP, grad.shape())?;
    weight_gradient(OP, grad, x, &weight, &geometry)
}

/// Image to grid.
fn gather(
    op: &'static str,
    image: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: &Geometry,
    shape: crate::Shape,
) -> Result<Tensor> {
    check_bias(op, bias.as_ref(), weight.dtype(), geometry.grid_channels * geometry.groups)?;
    let (dtype, geometry) = (image.dtype(), geometry.clone().merged());
    check_scratch(op, &shape)?;
    let program = Program::gather(op, &geometry)?;
    let (image, weight) = (image.into_contiguous()?, weight.into_contiguous()?);
    dispatch!(float op, dtype, T => {
        let bias = start_values::<T>(bias, geometry.grid_channels * geometry.groups)?;
        let weight = Values::of(weight.as_slice::<T>().expect("contiguous"));
        let operands = Operands {
            src: image.as_slice::<T>().expect("contiguous"),
            weight: &weight,
            bias: &bias,
            batch: geometry.batch,
            groups: geometry.groups,
        };
        Tensor::build::<T>(op, shape, dtype, |out| run::run(&program, &operands, out))
    })
}

/// Grid to image.
fn spread(
    op: &'static str,
    grid: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: &Geometry,
    shape: crate::Shape,
) -> Result<Tensor> {
    check_bias(op, bias.as_ref(), weight.dtype(), geometry.image_channels * geometry.groups)?;
    let (dtype, geometry) = (grid.dtype(), geometry.clone().merged());
    check_scratch(op, &shape)?;
    let program = Program::spread(op, &geometry)?;
    let (grid, weight) = (grid.into_contiguous()?, weight.into_contiguous()?);
    dispatch!(float op, dtype, T => {
        let bias = start_values::<T>(bias, geometry.image_channels * geometry.groups)?;
        let per_group = program.passes.iter().map(|pass| pass.offsets.len() * program.rows).sum::<usize>();
        let stored = Values::of(weight.as_slice::<T>().expect("contiguous"));
        let mut weight = Scratch::new(per_group * geometry.groups);
        run::transpose_weight(&program, &geometry, &stored, &mut weight);
        let operands = Operands {
            src: grid.as_slice::<T>().expect("contiguous"),
            weight: &weight,
            bias: &bias,
            batch: geometry.batch,
            groups: geometry.groups,
        };
        Tensor::build::<T>(op, shape, dtype, |out| run::run(&program, &operands, out))
    })
}

/// Image and grid to a tensor of the weight's shape.
fn weight_gradient(
    op: &'static str,
    image: Tensor,
    grid: Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Result<Tensor> {
    let (dtype, geometry) = (image.dtype(), geometry.clone().merged());
    let (image, grid) = (image.into_contiguous()?, grid.into_contiguous()?);
    dispatch!(float op, dtype, T => {
        let image = image.as_slice::<T>().expect("contiguous");
        let grid = grid.as_slice::<T>().expect("contiguous");
        Tensor::try_build::<T>(op, weight.shape().clone(), dtype, |out| {
            compute_into(out, |sums| {
                sums.fill(Element::ZERO);
                weight::weight_gradient(op, &geometry, image, grid, sums)
            })
        })
    })
}

/// The bias in the type that is computed in, or zeros.
fn start_values<S: Store>(bias: Option<Tensor>, channels: usize) -> Result<Scratch<S::Acc>> {
    let mut values = Scratch::new(channels);
    match bias {
        Some(bias) => {
            let bias = bias.into_contiguous()?;
            S::widen_slice(bias.as_slice::<S>().expect("contiguous"), &mut values);
        }
        None => values.fill(Element::ZERO),
    }
    Ok(values)
}
