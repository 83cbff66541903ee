//! Validation and geometry: the parameters of a convolution as plain numbers over three spatial axes.
//!
//! Convolutions over one and two axes are convolutions over three axes whose leading axes have size one. A
//! transposed convolution is the gradient of a convolution with respect to its input, so one [`Geometry`]
//! describes both. The windows slide over the *image* (the input of a convolution, the output of a transposed
//! one); the *grid* has one position per window (the output of a convolution, the input of a transposed one).

use super::{ConvOptions, ConvTransposeOptions};
use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::layout::checked_num_elements;
use crate::{DType, Shape, Tensor};
use alloc::vec::Vec;

/// A validated convolution between an image and a grid of window positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub batch: usize,
    pub groups: usize,
    /// Channels of the image per group.
    pub image_channels: usize,
    /// Channels of the grid per group.
    pub grid_channels: usize,
    pub image: [usize; 3],
    pub grid: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

/// Window parameters along one spatial axis.
#[derive(Clone, Copy)]
struct ConvAxis {
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl ConvAxis {
    /// Elements from the first to the last tap of a window, both included.
    fn extent(self) -> Option<usize> {
        small((self.kernel - 1).checked_mul(self.dilation)?.checked_add(1)?)
    }

    /// Number of window positions in an image of this size; `None` if the kernel does not fit or a number
    /// overflows.
    fn grid(self, image: usize) -> Option<usize> {
        let padded = small(self.padding.checked_mul(2)?.checked_add(image)?)?;
        Some(padded.checked_sub(self.extent()?)? / self.stride + 1)
    }

    /// Size of the image that a transposed convolution computes from a grid of this size.
    fn image(self, grid: usize, padding_out: usize) -> Option<usize> {
        let reach = grid.checked_sub(1)?.checked_mul(self.stride)?.checked_add(self.extent()?)?;
        let size = reach.checked_add(padding_out)?.checked_sub(self.padding.checked_mul(2)?)?;
        small(size).filter(|&size| size > 0)
    }

    /// Inverse of [`image`](Self::image): the size of the grid that leads to an image of this size.
    fn grid_of_transposed(self, image: usize, padding_out: usize) -> Option<usize> {
        let padded = small(self.padding.checked_mul(2)?.checked_add(image)?)?;
        Some(padded.checked_sub(self.extent()?)?.checked_sub(padding_out)? / self.stride + 1)
    }
}

/// Returns `size` if signed arithmetic can add and subtract a few such sizes without overflow.
fn small(size: usize) -> Option<usize> {
    (size <= isize::MAX as usize / 16).then_some(size)
}

/// Refuses a zero stride, dilation or group count. Errors name the options' fields.
pub(super) fn check_options(
    op: &'static str,
    stride: &[usize],
    dilation: &[usize],
    groups: usize,
) -> Result<()> {
    if stride.contains(&0) {
        return Err(Error::argument(
            op,
            "stride",
            alloc::format!("{stride:?}"),
            "at least 1 along each axis",
        ));
    }
    if dilation.contains(&0) {
        return Err(Error::argument(
            op,
            "dilation",
            alloc::format!("{dilation:?}"),
            "at least 1 along each axis",
        ));
    }
    if groups == 0 {
        return Err(Error::argument(op, "groups", groups, "at least 1"));
    }
    Ok(())
}

/// Number of window positions along each axis; an error if the kernel does not fit into the padded image.
pub(super) fn window_grid<const N: usize>(
    op: &'static str,
    image: [usize; N],
    kernel: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
    dilation: [usize; N],
) -> Result<[usize; N]> {
    if kernel.contains(&0) {
        return Err(Error::argument(
            op,
            "kernel size",
            alloc::format!("{kernel:?}"),
            "at least 1 along each axis",
        ));
    }
    let mut grid = [0; N];
    for k in 0..N {
        let axis =
            ConvAxis { kernel: kernel[k], stride: stride[k], padding: padding[k], dilation: dilation[k] };
        grid[k] = axis.grid(image[k]).ok_or_else(|| {
            let expected = alloc::format!(
                "a dilated kernel that fits into the padded input (dilation {dilation:?}, padding {padding:?})"
            );
            Error::shapes(op, &image, &kernel, expected)
        })?;
    }
    Ok(grid)
}

impl Geometry {
    /// The geometry of checked arguments: the shape of the weight, the sizes of the image and the grid, and
    /// the options. A stride of an axis with one window, and a dilation of an axis with one tap, reach
    /// nothing, and may be any number: they become numbers that positions, which are signed, can hold.
    fn of_checked<const N: usize>(
        batch: usize,
        groups: usize,
        weight: &[usize],
        [image, grid]: [[usize; N]; 2],
        [stride, padding, dilation]: [[usize; N]; 3],
    ) -> Self {
        let kernel: [usize; N] = spatial(weight);
        let dilation: [usize; N] = core::array::from_fn(|k| if kernel[k] == 1 { 1 } else { dilation[k] });
        Self {
            batch,
            groups,
            image_channels: weight[1],
            grid_channels: weight[0] / groups,
            image: lift(image, 1),
            grid: lift(grid, 1),
            kernel: lift(kernel, 1),
            // Along an axis with more windows every stride is less than the size of the axis.
            stride: lift(stride.map(|stride| stride.min(isize::MAX as usize)), 1),
            padding: lift(padding, 0),
            dilation: lift(dilation, 1),
        }
    }

    /// Geometry of the convolution of an input with a weight of these shapes. The grid is the output.
    pub fn conv<const N: usize>(
        op: &'static str,
        x: &[usize],
        weight: &[usize],
        options: &ConvOptions<N>,
    ) -> Result<Self> {
        let ConvOptions { stride, padding, dilation, groups } = *options;
        check_options(op, &stride, &dilation, groups)?;
        check_rank(op, x, N + 2, "an input of shape [batch, channels, spatial...]")?;
        check_rank(op, weight, N + 2, "a weight of shape [channels_out, channels_in / groups, kernel...]")?;
        if weight[1].checked_mul(groups) != Some(x[1]) {
            let expected = alloc::format!("channels_in = {groups} groups x weight.shape[1]");
            return Err(Error::shapes(op, x, weight, expected));
        }
        if !weight[0].is_multiple_of(groups) {
            let expected = alloc::format!("a weight whose first axis is a multiple of {groups} groups");
            return Err(Error::shape(op, weight, expected));
        }
        let (image, kernel): ([usize; N], [usize; N]) = (spatial(x), spatial(weight));
        let grid = window_grid(op, image, kernel, stride, padding, dilation)?;
        Ok(Self::of_checked(x[0], groups, weight, [image, grid], [stride, padding, dilation]))
    }

    /// Geometry of the transposed convolution of an input with a weight of these shapes. The image is the
    /// output.
    pub fn conv_transpose<const N: usize>(
        op: &'static str,
        x: &[usize],
        weight: &[usize],
        options: &ConvTransposeOptions<N>,
    ) -> Result<Self> {
        check_rank(op, x, N + 2, "an input of shape [batch, channels, spatial...]")?;
        let grid: [usize; N] = spatial(x);
        Self::transposed(op, x, weight, options, |k, axis| {
            let image = axis.image(grid[k], options.padding_out[k])?;
            Some((image, grid[k]))
        })
    }

    /// Geometry of a transposed convolution from the shape of its output, for the gradient with respect to
    /// the input.
    pub fn conv_transpose_of_grad<const N: usize>(
        op: &'static str,
        weight: &[usize],
        grad: &[usize],
        options: &ConvTransposeOptions<N>,
    ) -> Result<Self> {
        check_rank(op, grad, N + 2, "a gradient of shape [batch, channels, spatial...]")?;
        check_rank(op, weight, N + 2, "a weight of shape [channels_in, channels_out / groups, kernel...]")?;
        let image: [usize; N] = spatial(grad);
        let x = [grad[0], weight[0]];
        let geometry = Self::transposed(op, &x, weight, options, |k, axis| {
            let (image, padding_out) = (image[k], options.padding_out[k]);
            let grid = axis.grid_of_transposed(image, padding_out)?;
            // Several images have the same grid, and the check below tells whether this is its output.
            Some((axis.image(grid, padding_out)?, grid))
        })?;
        geometry.check_image(op, grad)?;
        Ok(geometry)
    }

    fn transposed<const N: usize>(
        op: &'static str,
        x: &[usize],
        weight: &[usize],
        options: &ConvTransposeOptions<N>,
        sizes: impl Fn(usize, ConvAxis) -> Option<(usize, usize)>,
    ) -> Result<Self> {
        let ConvTransposeOptions { stride, padding, padding_out, dilation, groups } = *options;
        check_options(op, &stride, &dilation, groups)?;
        check_rank(op, weight, N + 2, "a weight of shape [channels_in, channels_out / groups, kernel...]")?;
        if weight[0] != x[1] {
            return Err(Error::shapes(op, x, weight, "channels_in = weight.shape[0]"));
        }
        if !weight[0].is_multiple_of(groups) {
            let expected = alloc::format!("a weight whose first axis is a multiple of {groups} groups");
            return Err(Error::shape(op, weight, expected));
        }
        weight[1].checked_mul(groups).ok_or_else(|| Error::Overflow { op, shape: weight.to_vec() })?;
        let kernel: [usize; N] = spatial(weight);
        if kernel.contains(&0) {
            return Err(Error::shape(op, weight, "a kernel of at least 1 along each axis"));
        }
        let (mut image, mut grid) = ([0; N], [0; N]);
        for k in 0..N {
            let axis =
                ConvAxis { kernel: kernel[k], stride: stride[k], padding: padding[k], dilation: dilation[k] };
            (image[k], grid[k]) = sizes(k, axis).ok_or_else(|| {
                let expected = alloc::format!(
                    "an output of at least 1 along each axis \
                     (stride {stride:?}, padding {padding:?}, padding_out {padding_out:?}, dilation {dilation:?})"
                );
                Error::shapes(op, x, weight, expected)
            })?;
        }
        Ok(Self::of_checked(x[0], groups, weight, [image, grid], [stride, padding, dilation]))
    }

    /// Refuses a tensor (of any number of spatial axes) that does not have the shape of the image.
    pub fn check_image(&self, op: &'static str, shape: &[usize]) -> Result<()> {
        self.check(op, shape, self.image_channels, self.image)
    }

    /// Refuses a tensor that does not have the shape of the grid.
    pub fn check_grid(&self, op: &'static str, shape: &[usize]) -> Result<()> {
        self.check(op, shape, self.grid_channels, self.grid)
    }

    fn check(&self, op: &'static str, shape: &[usize], channels: usize, size: [usize; 3]) -> Result<()> {
        let n = shape.len().saturating_sub(2).min(3);
        let mut expected: Vec<usize> = alloc::vec![self.batch, channels * self.groups];
        expected.extend(&size[3 - n..]);
        if shape == expected {
            Ok(())
        } else {
            Err(Error::shape(op, shape, alloc::format!("shape {expected:?}")))
        }
    }

    /// Shape of the image with `N` spatial axes.
    pub fn image_shape<const N: usize>(&self) -> Shape {
        shape(self.batch, self.image_channels * self.groups, &self.image[3 - N..])
    }

    /// Shape of the grid with `N` spatial axes.
    pub fn grid_shape<const N: usize>(&self) -> Shape {
        shape(self.batch, self.grid_channels * self.groups, &self.grid[3 - N..])
    }

    /// Whether each channel has a kernel of its own.
    pub fn is_depthwise(&self) -> bool {
        self.image_channels == 1 && self.grid_channels == 1
    }

    /// Number of taps of a window.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Floating-point operations: two per product that the convolution sums. Saturates.
    pub fn flops(&self) -> usize {
        let factors = [self.batch, self.groups, self.image_channels, self.grid_channels, self.taps()];
        factors.iter().chain(&self.grid).fold(2usize, |n, &f| n.saturating_mul(f))
    }

    /// The geometry of images of which `images` each are interleaved: they become the innermost axis. For
    /// geometries over two axes at most; unchanged for a single image.
    pub fn with_images_inside(mut self, images: usize) -> Self {
        if images > 1 {
            self.batch /= images;
            self.move_inside(images);
        }
        self
    }

    /// Puts an axis of `len` elements, along which nothing slides, inside of the other axes. The outermost
    /// axis, which must be trivial, goes.
    pub fn move_inside(&mut self, len: usize) {
        for (values, inner) in [
            (&mut self.image, len),
            (&mut self.grid, len),
            (&mut self.padding, 0),
            (&mut self.dilation, 1),
            (&mut self.kernel, 1),
            (&mut self.stride, 1),
        ] {
            *values = [values[1], values[2], inner];
        }
    }

    /// Merges spatial axes where that leaves the result unchanged, so that a 1x1 convolution, for example,
    /// sees one long row. An axis along which the windows do not slide (kernel and stride 1, no padding) is
    /// merged into the preceding axis if that axis has stride 1; the preceding axis's steps, taps and padding
    /// then count whole inner rows.
    pub fn merged(mut self) -> Self {
        for inner in [2, 1, 2] {
            let outer = inner - 1;
            let still = self.kernel[inner] == 1
                && self.stride[inner] == 1
                && self.padding[inner] == 0
                && self.image[inner] == self.grid[inner];
            let len = self.image[inner];
            let sizes =
                [self.image, self.grid, self.padding, self.dilation].map(|v| v[outer].checked_mul(len));
            let [Some(image), Some(grid), Some(padding), Some(dilation)] = sizes else { continue };
            let reach = dilation.checked_mul(self.kernel[outer]).and_then(|n| n.checked_add(padding));
            if !still || self.stride[outer] != 1 || reach.and_then(small).is_none() {
                continue;
            }
            let kernel = self.kernel[outer];
            for (values, merged, none) in [
                (&mut self.image, image, 1),
                (&mut self.grid, grid, 1),
                (&mut self.padding, padding, 0),
                (&mut self.dilation, dilation, 1),
                (&mut self.kernel, kernel, 1),
                (&mut self.stride, 1, 1),
            ] {
                values[inner] = merged;
                values.copy_within(..outer, 1);
                values[0] = none;
            }
        }
        self
    }
}

/// Refuses a bias of another dtype, or a bias without exactly one element per output channel.
pub(super) fn check_bias(
    op: &'static str,
    bias: Option<&Tensor>,
    dtype: DType,
    channels: usize,
) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    check_same_dtype(op, dtype, bias.dtype())?;
    if bias.shape().to_vec() == [channels] {
        return Ok(());
    }
    Err(Error::shape(op, bias.shape(), alloc::format!("a bias of shape [{channels}]")))
}

/// Refuses shapes whose scratch memory has a size that overflows.
pub(super) fn check_scratch(op: &'static str, factors: &[usize]) -> Result<usize> {
    checked_num_elements(op, factors)
}

fn spatial<const N: usize>(shape: &[usize]) -> [usize; N] {
    core::array::from_fn(|k| shape[2 + k])
}

fn lift<const N: usize>(values: [usize; N], fill: usize) -> [usize; 3] {
    core::array::from_fn(|k| if k + N >= 3 { values[k + N - 3] } else { fill })
}

fn shape(batch: usize, channels: usize, spatial: &[usize]) -> Shape {
    let mut dims: Vec<usize> = alloc::vec![batch, channels];
    dims.extend(spatial);
    Shape::from(dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn options<const N: usize>(
        stride: usize,
        padding: usize,
        dilation: usize,
        groups: usize,
    ) -> ConvOptions<N> {
        ConvOptions { stride: [stride; N], padding: [padding; N], dilation: [dilation; N], groups }
    }

    #[test]
    fn output_sizes() {
        let g = Geometry::conv("conv", &[2, 3, 224, 224], &[64, 3, 7, 7], &options::<2>(2, 3, 1, 1)).unwrap();
        assert_eq!(g.grid_shape::<2>().to_vec(), [2, 64, 112, 112]);
        let g = Geometry::conv("conv", &[1, 4, 9], &[6, 2, 3], &options::<1>(1, 0, 4, 2)).unwrap();
        assert_eq!((g.grid, g.grid_channels), ([1, 1, 1], 3));
        let t =
            ConvTransposeOptions { stride: [3], padding: [1], padding_out: [2], dilation: [2], groups: 2 };
        let g = Geometry::conv_transpose("conv_transpose", &[1, 4, 5], &[4, 3, 3], &t).unwrap();
        assert_eq!(g.image_shape::<1>().to_vec(), [1, 6, 12 + 5 + 2 - 2]);
        let back = Geometry::conv_transpose_of_grad("b", &[4, 3, 3], &[1, 6, 17], &t).unwrap();
        assert_eq!(back, g);
    }

    #[test]
    fn bad_arguments_are_refused_by_name() {
        let conv = |x: &[usize], w: &[usize], o: ConvOptions<2>| {
            Geometry::conv("conv", x, w, &o).unwrap_err().to_string()
        };
        let (x, w) = ([1, 4, 5, 5], [6, 2, 3, 3]);
        for (message, part) in [
            (conv(&x, &w, options(0, 0, 1, 2)), "stride"),
            (conv(&x, &w, options(1, 0, 0, 2)), "dilation"),
            (conv(&x, &w, options(1, 0, 1, 0)), "groups"),
            (conv(&x, &w, options(1, 0, 1, 1)), "channels_in"),
            (conv(&[1, 8, 5, 5], &w, options(1, 0, 1, 4)), "multiple of 4 groups"),
            (conv(&x, &[6, 2, 0, 3], options(1, 0, 1, 2)), "kernel size"),
            (conv(&x, &[6, 2, 7, 7], options(1, 0, 1, 2)), "fits into the padded input"),
            (conv(&x, &w, options(1, 0, 3, 2)), "fits into the padded input"),
            (conv(&x, &w, options(1, usize::MAX / 2, 1, 2)), "fits into the padded input"),
            (conv(&x, &w, options(1, 0, usize::MAX, 2)), "fits into the padded input"),
            (conv(&x[..3], &w, options(1, 0, 1, 2)), "[batch, channels, spatial...]"),
            (conv(&x, &w[..3], options(1, 0, 1, 2)), "kernel..."),
        ] {
            assert!(message.starts_with("conv: ") && message.contains(part), "{message}");
        }
    }

    #[test]
    fn bad_transposed_arguments_are_refused_by_name() {
        let good =
            ConvTransposeOptions { stride: [1], padding: [0], padding_out: [0], dilation: [1], groups: 2 };
        let check = |x: &[usize], w: &[usize], o: &ConvTransposeOptions<1>, part: &str| {
            let message = Geometry::conv_transpose("ct", x, w, o).unwrap_err().to_string();
            assert!(message.starts_with("ct: ") && message.contains(part), "{message}");
        };
        check(&[1, 4, 5], &[6, 2, 3], &good, "channels_in");
        check(&[1, 3, 5], &[3, 2, 3], &good, "multiple of 2");
        check(&[1, 4, 5], &[4, 2, 0], &good, "kernel");
        check(&[1, 4, 0], &[4, 2, 3], &good, "at least 1");
        check(&[1, 4, 5], &[4, 2, 3], &ConvTransposeOptions { padding: [4], ..good.clone() }, "at least 1");
        check(&[1, 4, 5], &[4, 2, 3], &ConvTransposeOptions { stride: [0], ..good.clone() }, "stride");
        check(
            &[1, 4, 5],
            &[4, 2, 3],
            &ConvTransposeOptions { stride: [usize::MAX], ..good.clone() },
            "at least 1",
        );
        check(&[1, 4], &[4, 2, 3], &good, "batch");
        check(&[1, 4, 5], &[4, 2], &good, "kernel");
    }

    #[test]
    fn axes_without_windows_merge() {
        let g =
            Geometry::conv("conv", &[1, 8, 5, 7], &[4, 8, 1, 1], &options::<2>(1, 0, 1, 1)).unwrap().merged();
        assert_eq!((g.image, g.grid, g.kernel), ([1, 1, 35], [1, 1, 35], [1, 1, 1]));
        let o = ConvOptions { stride: [1, 1], padding: [1, 0], dilation: [2, 1], groups: 1 };
        let g = Geometry::conv("conv", &[1, 8, 9, 7], &[4, 8, 3, 1], &o).unwrap().merged();
        assert_eq!((g.image, g.grid), ([1, 1, 63], [1, 1, 49]));
        assert_eq!((g.kernel, g.padding, g.dilation), ([1, 1, 3], [0, 0, 7], [1, 1, 14]));
        let g = Geometry::conv("conv", &[1, 8, 5, 7], &[4, 8, 1, 1], &options::<2>(2, 0, 1, 1)).unwrap();
        assert_eq!(g.clone().merged(), g);
        let g =
            Geometry::conv("conv", &[1, 8, 2, 3, 4], &[4, 8, 1, 1, 1], &options::<3>(1, 0, 1, 1)).unwrap();
        assert_eq!(g.merged().image, [1, 1, 24]);
    }
}
