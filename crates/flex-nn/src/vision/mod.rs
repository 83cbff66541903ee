//! Image resampling: to another size, and at given points.
//!
//! Images are `[batch, channels, height, width]`. [`interpolate`] samples a regular grid and is therefore
//! separable: `taps` computes, once per axis, the elements and weights of each output, and `interpolate`
//! processes rows and columns one after the other. [`grid_sample`] samples at the points of a given grid.

mod grid_sample;
mod interpolate;
mod nearest;
mod taps;
#[cfg(test)]
mod tests;

pub use grid_sample::grid_sample;
pub use interpolate::{interpolate, interpolate_backward};

use crate::error::{Error, Result};
use crate::{DType, Tensor};

/// Interpolation kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The element at the position, rounded down.
    Nearest,
    /// The element whose centre is next to the position; in resampling at points, the same as
    /// [`Nearest`](Self::Nearest).
    NearestExact,
    /// Two elements per axis, weighted by distance.
    Bilinear,
    /// Cubic convolution over four elements per axis (R. G. Keys, 1981) with `a = -0.75`, as in PyTorch.
    Bicubic,
    /// A sinc windowed by a wider sinc, over six elements per axis.
    Lanczos3,
}

/// The values outside of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The input mirrored repeatedly: at the centres of the border elements with `align_corners`, at their
    /// outer edges without it.
    Reflection,
}

/// `Ok` for a float image of rank 4 whose spatial axes are not empty.
fn check_image(op: &'static str, x: &Tensor) -> Result<()> {
    if !matches!(x.dtype(), DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::dtype(op, x.dtype(), "a float dtype (f64, f32, f16, bf16)"));
    }
    crate::error::check_rank(op, x.shape(), 4, "an image [batch, channels, height, width]")?;
    if x.shape()[2..].contains(&0) {
        return Err(Error::shape(op, x.shape(), "spatial axes of at least one element"));
    }
    Ok(())
}

/// Cubic convolution: the weights of the elements at -1, 0, 1 and 2 for a position `t` in `0..1`.
#[inline(always)]
fn cubic_weights<A: crate::float::Real>(t: A) -> [A; 4] {
    let c = <A as crate::Element>::from_f64;
    let a = c(-0.75);
    let near = |x: A| ((a + c(2.0)) * x - (a + c(3.0))) * x * x + c(1.0);
    let far = |x: A| ((a * x - c(5.0) * a) * x + c(8.0) * a) * x - c(4.0) * a;
    [far(t + c(1.0)), near(t), near(c(1.0) - t), far(c(2.0) - t)]
}
