//! Convolutions, transposed and deformable convolutions over one, two and three spatial axes, and their
//! gradients.
//!
//! Inputs are `[batch, channels, spatial...]`. As in PyTorch, convolutions slide windows over their input
//! without flipping the kernel (they are cross-correlations), and padding is zero.
//!
//! From the outside in:
//!
//! * `plan` validates the arguments and describes every kind of convolution by one geometry over three
//!   spatial axes;
//! * `choice` compares the programs of a geometry; `images` turns tensors for those with interleaved images;
//! * `program` turns a geometry into passes: which shifted windows of which planes are summed with which
//!   coefficients. Convolutions, transposed convolutions and the input gradients of both are such programs,
//!   and so are weight gradients with vectors along channels;
//! * `planes` lays out the padded input that the passes read;
//! * `run` cuts a program into tasks and runs it; `weight` does the same for weight gradients that are sums
//!   along rows; `winograd` computes some kernels with fewer multiplications;
//! * `product` holds the two kernels of windows; `lowering` computes passes with many output channels by
//!   products of matrices, and `depthwise` computes convolutions of single channels.
//!
//! No column matrix (im2col) is written as a whole: each tap of a window is a constant shift in the planes,
//! so the kernels read the windows from the planes, or pack a block of them. Pointwise convolutions read
//! their input in place. The half types are computed in f32 and rounded once.

mod bias;
mod choice;
mod deform;
mod depthwise;
mod element;
mod fold;
mod images;
mod lowering;
mod plan;
mod planes;
mod product;
mod program;
mod run;
#[cfg(test)]
mod tests;
mod unfold;
mod weight;
mod winograd;

pub use bias::conv_bias_backward;
pub use deform::{deform_conv2d, deform_conv2d_backward};
pub use fold::fold4d;
pub use unfold::unfold4d;

use crate::error::{Error, Result, check_same_dtype};
use crate::storage::{Finish, Producer, Scratch};
use crate::stored::{Computing, Source};
use crate::{DType, Shape, Tensor};
use choice::{Choice, Direction};
use depthwise::Depthwise;
use element::{Output, Values};
use plan::{Geometry, check_bias, check_scratch};
use program::Program;

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

/// Options of [`unfold4d`] and [`fold4d`].
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
    /// Gradient with respect to the input.
    pub x: Tensor,
    /// Gradient with respect to the offsets.
    pub offset: Tensor,
    /// Gradient with respect to the weight.
    pub weight: Tensor,
    /// Gradient with respect to the mask, if there is one.
    pub mask: Option<Tensor>,
    /// Gradient with respect to the bias, if there is one.
    pub bias: Option<Tensor>,
}

/// Convolution of `x`, `[batch, channels_in, spatial...]`, with `weight`, `[channels_out, channels_in /
/// groups, kernel...]`, and an optional bias `[channels_out]`. The result is `[batch, channels_out, out...]`
/// with `out = floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1`. Padding counts as
/// zeros, which an infinity in the weight makes NaN.
///
/// # Errors
/// Fails if ranks, channels, groups or the bias do not fit together; a stride, dilation, group count or
/// kernel size is zero; the kernel does not fit into the padded input; dtypes differ or are not floats.
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

/// Gradient of [`conv`] with respect to `x`. Of `x` itself only the shape is used. An infinity in the weight
/// may give NaN near the borders, as in [`conv_transpose`].
///
/// # Errors
/// The errors of [`conv`], and a `grad` whose shape is not the output shape of [`conv`].
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

/// Gradient of [`conv`] with respect to `weight`. Of `weight` itself only the shape is used.
///
/// # Errors
/// The errors of [`conv`], and a `grad` whose shape is not the output shape of [`conv`].
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

/// Transposed convolution of `x`, `[batch, channels_in, spatial...]`, with `weight`, `[channels_in,
/// channels_out / groups, kernel...]`, and an optional bias `[channels_out]`. The result is `[batch,
/// channels_out, out...]` with `out = (size - 1) * stride + dilation * (kernel - 1) + 1 + padding_out - 2 *
/// padding`. Near the borders windows reach beyond `x`, where zeros are multiplied: an infinity in the weight
/// may give NaN there.
///
/// # Errors
/// Fails if ranks, channels, groups or the bias do not fit together; a stride, dilation, group count or
/// kernel size is zero; the output would have no element along a spatial axis; dtypes differ or are not
/// floats.
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

/// Gradient of [`conv_transpose`] with respect to `x`, whose shape follows from the shape of `grad`.
///
/// # Errors
/// The errors of [`conv_transpose`], and a `grad` of a shape that no input produces.
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

/// Gradient of [`conv_transpose`] with respect to `weight`. Of `weight` itself only the shape is used.
///
/// # Errors
/// The errors of [`conv_transpose`], and a `grad` whose shape is not the output shape of [`conv_transpose`].
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

/// Computes the grid from the image (see [`Geometry`]): a convolution, or the input gradient of a transposed
/// one.
fn gather(
    op: &'static str,
    image: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: &Geometry,
    shape: Shape,
) -> Result<Tensor> {
    pass(op, Direction::Gather, image, weight, bias, geometry, geometry.grid_channels, shape)
}

/// Computes the image from the grid: a transposed convolution, or the input gradient of a convolution.
fn spread(
    op: &'static str,
    grid: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: &Geometry,
    shape: Shape,
) -> Result<Tensor> {
    pass(op, Direction::Spread, grid, weight, bias, geometry, geometry.image_channels, shape)
}

/// Computes one side of a convolution, with `channels` per group, from the other.
fn pass(
    op: &'static str,
    direction: Direction,
    source: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: &Geometry,
    channels: usize,
    shape: Shape,
) -> Result<Tensor> {
    let (dtype, channels) = (source.dtype(), channels * geometry.groups);
    // The kernel would find out, but a convolution may wait.
    if !dtype.is_float() {
        return Err(Error::dtype(op, dtype, "a float dtype (f64, f32, f16, bf16)"));
    }
    check_bias(op, bias.as_ref(), weight.dtype(), channels)?;
    check_scratch(op, &shape)?;
    let (source, weight) = (source.into_contiguous()?, weight.into_contiguous()?);
    let bias = bias.map(Tensor::into_contiguous).transpose()?;
    // A convolution that waits is computed within a chain, which may hold the very nodes that its operands
    // wait for. So the operands are computed now.
    for operand in [&source, &weight].into_iter().chain(&bias) {
        operand.evaluate()?;
    }
    let (geometry, choice) = (geometry.clone(), Choice::new(op, geometry, direction, dtype == DType::F32)?);
    let convolution = Convolution { op, direction, source, weight, bias, geometry, choice, channels, shape };
    #[cfg(feature = "std")]
    {
        let shape = convolution.shape.clone();
        flex_map::elementwise::deferred::produce(convolution, shape, dtype)
    }
    #[cfg(not(feature = "std"))]
    convolution.produce(None)
}

/// One side of a convolution, to be computed from the other. The operands are contiguous.
struct Convolution {
    op: &'static str,
    direction: Direction,
    source: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: Geometry,
    choice: Choice,
    /// Channels of the result.
    channels: usize,
    shape: Shape,
}

impl Producer for Convolution {
    fn produce(&self, finish: Option<Finish<'_>>) -> Result<Tensor> {
        let Self { op, source, weight, bias, geometry, shape, channels, .. } = self;
        let (op, bias, groups) = (*op, bias.as_ref(), geometry.groups);
        if let Some(winograd) = &self.choice.winograd
            && Source::of(source).values().is_some_and(winograd::is_even)
            && let Some(kernels) = winograd.kernels(groups, weight)
        {
            let bias = start_values::<f32>(op, bias, *channels)?;
            return self.choice.images.through(source, shape, finish, |source, shape, finish| {
                winograd.run(op, groups, source, kernels, &bias, shape, finish)
            });
        }
        let direct;
        let choice = match &self.choice.winograd {
            Some(_) => {
                direct = Choice::new(op, geometry, self.direction, false)?;
                &direct
            }
            None => &self.choice,
        };
        let dtype = source.dtype();
        choice.images.through(source, shape, finish, |source, shape, finish| {
            computing!(op, dtype, A => {
                let bias = start_values::<A>(op, bias, *channels)?;
                let weight = Values::<A>::of(op, Source::of(weight))?;
                run::run(op, &choice.program, groups, source, &weight, &bias, shape, dtype, finish)
            })
        })
    }
}

/// Computes the gradient of the weight, in the weight's shape, from image and grid.
fn weight_gradient(
    op: &'static str,
    image: Tensor,
    grid: Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Result<Tensor> {
    let (dtype, shape, groups) = (image.dtype(), weight.shape().clone(), geometry.groups);
    if geometry.is_depthwise() && dtype == DType::F32 {
        let program = Program::gather(op, &geometry.clone().merged(), [false; 3])?;
        if let Some(depthwise) = Depthwise::of_gradient(&program, groups) {
            let (image, grid) = (image.into_contiguous()?, grid.into_contiguous()?);
            let mut out = Output::<f32>::new(op, shape, dtype)?;
            out.values().fill(0.0);
            let (image, grid) = (Source::of(&image).values(), Source::of(&grid).values());
            let (image, grid) = image.zip(grid).expect("elements of f32");
            depthwise.add_gradient(op, [geometry.batch, groups], image, grid, out.values())?;
            return Ok(out.finish());
        }
    }
    if let Some(program) = choice::along_channels(op, geometry)? {
        let (image, grid) = (images::channels_inside(image, groups)?, grid.into_contiguous()?);
        return computing!(op, dtype, A => {
            let start = start_values::<A>(op, None, geometry.grid_channels * groups)?;
            let grid = Values::<A>::of(op, Source::of(&grid))?;
            run::run(op, &program, groups, Source::of(&image), &grid, &start, shape, dtype, None)
        });
    }
    let (image, grid, geometry) =
        (image.into_contiguous()?, grid.into_contiguous()?, geometry.clone().merged());
    computing!(op, dtype, A => {
        let mut out = Output::<A>::new(op, shape, dtype)?;
        out.values().fill(0.0);
        weight::weight_gradient(op, &geometry, Source::of(&image), Source::of(&grid), out.values())?;
        Ok(out.finish())
    })
}

/// The initial values of the accumulators: the bias, which is contiguous, in the computed type, or zeros.
fn start_values<A: Computing>(
    op: &'static str,
    bias: Option<&Tensor>,
    channels: usize,
) -> Result<Scratch<A>> {
    let mut values = Scratch::new(op, channels)?;
    match bias {
        Some(bias) => Source::of(bias).read(&mut values),
        None => values.fill(A::ZERO),
    }
    Ok(values)
}
