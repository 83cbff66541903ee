//! Deformable convolution: each tap of each window reads the image at its own position, shifted by an offset,
//! and scales the value by a mask (Dai et al. 2017, "Deformable Convolutional Networks"; Zhu et al. 2019 for
//! the mask), with the conventions of torchvision.
//!
//! A tap is no constant shift of the image here, so the column matrix is written out: one row of bilinear
//! samples per channel and tap. The products with the columns use the kernels of the other convolutions.

use super::bias::sum_channels;
use super::element::{Output, Values};
use super::plan::{Geometry, check_bias, check_scratch};
use super::product::{BLOCK_ROWS, DotOperands, Tap, Terms, dots, max_lanes, rows_of, windows};
use super::run::product_work;
use super::{ConvOptions, DeformConvGradients, DeformConvOptions, start_values};
use crate::error::{Error, Result, check_same_dtype};
use crate::float::Real;
use crate::parallel::thresholds::TASK_DEFORM_ROWS;
use crate::parallel::{Work, for_each_chunk, for_each_chunk2};
use crate::storage::Scratch;
use crate::stored::{Computing, Source};
use crate::{Tensor, storage};
use alloc::vec::Vec;
use core::ops::Range;

/// Column elements per tile of the forward pass: they fit into a 1 MiB second-level cache.
const TILE_ELEMENTS: usize = 128 * 1024;
/// Approximate cost of a bilinear sample in operations: four gathers.
const SAMPLE_FLOPS: usize = 32;
/// Positions that are summed in registers before they are added to the weight gradient.
const SEGMENT: usize = 2048;

/// Deformable convolution of `x`, `[batch, channels_in, height, width]`, with `weight`, `[channels_out,
/// channels_in / weight_groups, kernel_h, kernel_w]`, to `[batch, channels_out, out_h, out_w]`.
///
/// `offset`, `[batch, offset_groups * kernel_h * kernel_w * 2, out_h, out_w]`, holds a vertical and a
/// horizontal shift for each tap. `mask`, `[batch, offset_groups * kernel_h * kernel_w, out_h, out_w]`, holds
/// a factor for each tap. Samples are bilinear, with zeros outside of the image.
///
/// # Errors
/// The errors of [`conv`](super::conv); offsets or a mask of another shape; a number of offset groups that
/// does not divide the channels.
pub fn deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: &DeformConvOptions,
) -> Result<Tensor> {
    const OP: &str = "deform_conv2d";
    let plan = DeformPlan::new(OP, &x, &offset, &weight, mask.as_ref(), bias.as_ref(), options)?;
    let (x, offset, weight) = (x.into_contiguous()?, offset.into_contiguous()?, weight.into_contiguous()?);
    let mask = mask.map(Tensor::into_contiguous).transpose()?;
    let bias = bias.map(Tensor::into_contiguous).transpose()?;
    let shape = plan.g.grid_shape::<2>();
    check_scratch(OP, &shape)?;
    computing!(OP, x.dtype(), A => {
        let bias = start_values::<A>(OP, bias.as_ref(), plan.channels_out())?;
        let operands = DeformOperands::<A>::new(OP, &x, &offset, &weight, mask.as_ref())?;
        let mut out = Output::<A>::new(OP, shape, x.dtype())?;
        plan.forward(OP, &operands, &bias, out.values())?;
        Ok(out.finish())
    })
}

/// Gradients of [`deform_conv2d`] with respect to all its arguments. At a sample that lies on a grid point,
/// where the bilinear interpolation has a kink, the gradient of the offset is the one-sided derivative
/// towards larger coordinates.
///
/// # Errors
/// The errors of [`deform_conv2d`], and a `grad` whose shape is not the output shape.
pub fn deform_conv2d_backward(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    grad: Tensor,
    options: &DeformConvOptions,
) -> Result<DeformConvGradients> {
    const OP: &str = "deform_conv2d_backward";
    let plan = DeformPlan::new(OP, &x, &offset, &weight, mask.as_ref(), bias.as_ref(), options)?;
    check_same_dtype(OP, x.dtype(), grad.dtype())?;
    plan.g.check_grid(OP, grad.shape())?;
    let dtype = x.dtype();
    let (x, offset, weight) = (x.into_contiguous()?, offset.into_contiguous()?, weight.into_contiguous()?);
    let (mask, grad) = (mask.map(Tensor::into_contiguous).transpose()?, grad.into_contiguous()?);
    let mask_shape = crate::Shape::from([plan.g.batch, plan.rows(), plan.g.grid[1], plan.g.grid[2]]);
    computing!(OP, dtype, A => {
        let operands = DeformOperands::<A>::new(OP, &x, &offset, &weight, mask.as_ref())?;
        let output = |shape: &crate::Shape| Output::<A>::new(OP, shape.clone(), dtype);
        let (mut d_x, mut d_offset, mut d_weight) =
            (output(x.shape())?, output(offset.shape())?, output(weight.shape())?);
        // Without a mask, its gradient costs little; it is computed anyway and dropped.
        let mut d_mask = output(&mask_shape)?;
        plan.backward(
            OP,
            &operands,
            &Values::of(OP, Source::of(&grad))?,
            d_x.values(),
            d_offset.values(),
            d_weight.values(),
            d_mask.values(),
        )?;
        let d_bias = bias.map(|_| sum_channels::<A>(OP, &grad)).transpose()?;
        Ok(DeformConvGradients {
            x: d_x.finish(),
            offset: d_offset.finish(),
            weight: d_weight.finish(),
            mask: mask.map(|_| d_mask.finish()),
            bias: d_bias,
        })
    })
}

/// The operands in the type that the convolution is computed in.
struct DeformOperands<'a, T> {
    x: Values<'a, T>,
    offset: Values<'a, T>,
    weight: Values<'a, T>,
    mask: Option<Values<'a, T>>,
}

impl<'a, A: Computing> DeformOperands<'a, A> {
    fn new(
        op: &'static str,
        x: &'a Tensor,
        offset: &'a Tensor,
        weight: &'a Tensor,
        mask: Option<&'a Tensor>,
    ) -> Result<Self> {
        let values = |tensor: &'a Tensor| Values::of(op, Source::of(tensor));
        let (x, offset, weight) = (values(x)?, values(offset)?, values(weight)?);
        Ok(Self { x, offset, weight, mask: mask.map(values).transpose()? })
    }
}

/// The position at which a tap samples the image, the same for all channels of an offset group.
#[derive(Clone, Copy, Debug)]
struct SamplePoint<T> {
    /// Plane indices of the elements above left, above right, below left and below right; `usize::MAX`
    /// outside of the plane.
    corners: [usize; 4],
    /// Distance from the upper and from the left corners.
    fraction: [T; 2],
    /// Whether the sample is less than one element away from the image; otherwise its value is zero.
    inside: bool,
}

impl<T: Real> SamplePoint<T> {
    fn new(y: T, x: T, height: usize, width: usize) -> Self {
        let limit = |size: usize| T::from_f64(size as f64);
        let inside = !(y <= -T::ONE || x <= -T::ONE || y >= limit(height) || x >= limit(width));
        let (floor_y, floor_x) = (y.floor(), x.floor());
        // The conversion saturates and maps NaN to zero; a NaN coordinate survives in `fraction`.
        let (top, left) = (floor_y.to_i64(), floor_x.to_i64());
        let index = |y: i64, x: i64| {
            let valid = (0..height as i64).contains(&y) && (0..width as i64).contains(&x);
            if valid { y as usize * width + x as usize } else { usize::MAX }
        };
        let (bottom, right) = (top.saturating_add(1), left.saturating_add(1));
        Self {
            corners: [index(top, left), index(top, right), index(bottom, left), index(bottom, right)],
            fraction: [y - floor_y, x - floor_x],
            inside,
        }
    }

    /// Values at the corners; zero for corners outside of the plane.
    #[inline(always)]
    fn values(&self, plane: &[T]) -> [T; 4] {
        self.corners.map(|at| plane.get(at).copied().unwrap_or(T::ZERO))
    }

    /// Bilinear weights of the corners.
    #[inline(always)]
    fn shares(&self) -> [T; 4] {
        let [y, x] = self.fraction;
        [(T::ONE - y) * (T::ONE - x), (T::ONE - y) * x, y * (T::ONE - x), y * x]
    }

    /// The interpolated value of a plane.
    #[inline(always)]
    fn read(&self, plane: &[T]) -> T {
        if !self.inside {
            return T::ZERO;
        }
        let (v, s) = (self.values(plane), self.shares());
        v[0] * s[0] + v[1] * s[1] + v[2] * s[2] + v[3] * s[3]
    }
}

/// A validated deformable convolution.
struct DeformPlan {
    g: Geometry,
    offset_groups: usize,
}

impl DeformPlan {
    fn new(
        op: &'static str,
        x: &Tensor,
        offset: &Tensor,
        weight: &Tensor,
        mask: Option<&Tensor>,
        bias: Option<&Tensor>,
        options: &DeformConvOptions,
    ) -> Result<Self> {
        let &DeformConvOptions { stride, padding, dilation, weight_groups, offset_groups } = options;
        check_same_dtype(op, x.dtype(), weight.dtype())?;
        check_same_dtype(op, x.dtype(), offset.dtype())?;
        let options = ConvOptions { stride, padding, dilation, groups: weight_groups };
        let g = Geometry::conv(op, x.shape(), weight.shape(), &options)?;
        let channels = g.image_channels * g.groups;
        if offset_groups == 0 || !channels.is_multiple_of(offset_groups) {
            let expected = alloc::format!("a divisor of the {channels} input channels");
            return Err(Error::argument(op, "offset_groups", offset_groups, expected));
        }
        let plan = Self { g, offset_groups };
        let overflow = || Error::Overflow { op, shape: weight.shape().to_vec() };
        let rows =
            offset_groups.checked_mul(plan.g.taps()).filter(|&n| n <= usize::MAX / 2).ok_or_else(overflow)?;
        let [_, height, width] = plan.g.grid;
        let check = |tensor: &Tensor, rows: usize| {
            let expected = [plan.g.batch, rows, height, width];
            let fits = tensor.shape().to_vec() == expected;
            let error = || Error::shape(op, tensor.shape(), alloc::format!("shape {expected:?}"));
            if fits { Ok(()) } else { Err(error()) }
        };
        check(offset, 2 * rows)?;
        if let Some(mask) = mask {
            check_same_dtype(op, x.dtype(), mask.dtype())?;
            check(mask, rows)?;
        }
        check_bias(op, bias, x.dtype(), plan.channels_out())?;
        check_scratch(op, &[channels, plan.g.taps(), plan.positions().saturating_add(64)])?;
        Ok(plan)
    }

    fn channels_out(&self) -> usize {
        self.g.grid_channels * self.g.groups
    }

    fn channels_in(&self) -> usize {
        self.g.image_channels * self.g.groups
    }

    /// Number of window positions in an image.
    fn positions(&self) -> usize {
        self.g.grid[1] * self.g.grid[2]
    }

    /// Number of rows of the mask: one per tap and offset group.
    fn rows(&self) -> usize {
        self.offset_groups * self.g.taps()
    }

    fn plane(&self) -> usize {
        self.g.image[1] * self.g.image[2]
    }

    /// The samples of one row of the mask (one tap of one offset group) at a range of window positions.
    fn samples<T: Real>(
        &self,
        offset: &[T],
        row: usize,
        range: Range<usize>,
    ) -> impl Iterator<Item = SamplePoint<T>> {
        let Geometry { image, grid, kernel, stride, padding, dilation, .. } = &self.g;
        let tap = row % self.g.taps();
        let (tap_y, tap_x) = (tap / kernel[2] * dilation[1], tap % kernel[2] * dilation[2]);
        let n = self.positions();
        let (shift_y, shift_x) = (&offset[2 * row * n..][..n], &offset[(2 * row + 1) * n..][..n]);
        range.map(move |at| {
            let coordinate = |at: usize, tap: usize, axis: usize| {
                T::from_f64((at * stride[axis] + tap) as f64 - padding[axis] as f64)
            };
            let y = coordinate(at / grid[2], tap_y, 1) + shift_y[at];
            let x = coordinate(at % grid[2], tap_x, 2) + shift_x[at];
            SamplePoint::new(y, x, image[1], image[2])
        })
    }

    /// Writes rows `channel * taps + tap` of samples, times the mask, at a range of window positions of an
    /// image.
    fn columns<T: Real>(&self, f: &DeformOperands<'_, T>, image: usize, range: Range<usize>, out: &mut [T]) {
        let (taps, n, len) = (self.g.taps(), self.positions(), range.len());
        let x = &f.x[image * self.channels_in() * self.plane()..][..self.channels_in() * self.plane()];
        let offset = &f.offset[image * 2 * self.rows() * n..];
        let per_group = self.channels_in() / self.offset_groups;
        let mut samples: Vec<SamplePoint<T>> = storage::list(len);
        for row in 0..self.rows() {
            samples.clear();
            samples.extend(self.samples(offset, row, range.clone()));
            let mask = f.mask.as_ref().map(|mask| &mask[(image * self.rows() + row) * n..][range.clone()]);
            for channel in row / taps * per_group..(row / taps + 1) * per_group {
                let plane = &x[channel * self.plane()..][..self.plane()];
                let out = &mut out[(channel * taps + row % taps) * len..][..len];
                for (out, sample) in out.iter_mut().zip(&samples) {
                    *out = sample.read(plane);
                }
                if let Some(mask) = mask {
                    out.iter_mut().zip(mask).for_each(|(out, &m)| *out = *out * m);
                }
            }
        }
    }

    fn forward<T: Real>(
        &self,
        op: &'static str,
        f: &DeformOperands<'_, T>,
        bias: &[T],
        out: &mut [T],
    ) -> Result<()> {
        let (n, k) = (self.positions(), self.g.image_channels * self.g.taps());
        let tile = (TILE_ELEMENTS / (k * self.g.groups).max(1)).clamp(48, 1008) / 48 * 48;
        let tile = tile.min(n);
        let tiles = n.div_ceil(tile.max(1)).saturating_mul(self.g.batch);
        // Lists of outputs that double when they grow, and the buffers of each task.
        let list = self
            .channels_out()
            .saturating_mul(2 * size_of::<&mut [T]>())
            .saturating_add(4 * size_of::<usize>());
        storage::ensure(op, tiles.saturating_mul(list))?;
        let columns =
            k.saturating_mul(self.g.groups).saturating_add(BLOCK_ROWS).saturating_mul(size_of::<T>());
        let bytes = columns.saturating_add(size_of::<SamplePoint<T>>()).saturating_mul(tile);
        storage::ensure_for_tasks(op, bytes, tiles)?;
        // The outputs of one tile of one image: a range of positions in each channel.
        let mut tasks: Vec<(usize, Range<usize>, Vec<&mut [T]>)> = storage::try_list(op, tiles)?;
        for (image, out) in out.chunks_mut((self.channels_out() * n).max(1)).enumerate() {
            let base = tasks.len();
            tasks.extend((0..n).step_by(tile).map(|start| (image, start..(start + tile).min(n), Vec::new())));
            for channel in out.chunks_mut(n) {
                for (piece, task) in channel.chunks_mut(tile).zip(&mut tasks[base..]) {
                    task.2.push(piece);
                }
            }
        }
        let samples = self.channels_in() * self.g.taps() * n * self.g.batch;
        let work = Work::Flops(self.g.flops() / 8 + SAMPLE_FLOPS.saturating_mul(samples));
        for_each_chunk(&mut tasks, 1, work, |_, tasks| {
            for (image, range, pieces) in tasks {
                let len = range.len();
                let mut columns = Scratch::for_task(k * self.g.groups * len);
                self.columns(f, *image, range.clone(), &mut columns);
                let terms = row_terms(k, len);
                for (group, pieces) in pieces.chunks_mut(self.g.grid_channels).enumerate() {
                    for (block, pieces) in pieces.chunks_mut(BLOCK_ROWS).enumerate() {
                        let row = group * self.g.grid_channels + block * BLOCK_ROWS;
                        let bias = &bias[row..][..pieces.len()];
                        let (a, base) = (&f.weight[row * k..], group * k * len);
                        windows(a, k, bias, &columns, &terms, base, len, pieces);
                    }
                }
            }
        });
        Ok(())
    }

    fn backward<T: Real>(
        &self,
        op: &'static str,
        f: &DeformOperands<'_, T>,
        grad: &[T],
        d_x: &mut [T],
        d_offset: &mut [T],
        d_weight: &mut [T],
        d_mask: &mut [T],
    ) -> Result<()> {
        d_weight.fill(T::ZERO);
        let (taps, n, plane) = (self.g.taps(), self.positions(), self.plane());
        let (groups, rows_out, k) = (self.g.groups, self.g.grid_channels, self.g.image_channels * taps);
        if self.channels_out() == 0 || self.channels_in() == 0 {
            for out in [d_x, d_offset, d_mask] {
                out.fill(T::ZERO);
            }
            return Ok(());
        }
        // The transposed weight of each group: a row of coefficients per column.
        let mut transposed = Scratch::new(op, groups * k * rows_out)?;
        for (out, weight) in
            transposed.chunks_exact_mut(k * rows_out).zip(f.weight.chunks_exact(k * rows_out))
        {
            for (i, row) in weight.chunks_exact(k).enumerate() {
                out.iter_mut().skip(i).step_by(rows_out).zip(row).for_each(|(out, &w)| *out = w);
            }
        }
        // Rows are padded with zeros to a whole number of vectors.
        let pitch = n.next_multiple_of(max_lanes::<T>());
        let mut columns = Scratch::new(op, groups * k * pitch)?;
        let mut d_columns = Scratch::new(op, groups * k * pitch)?;
        let mut g = Scratch::new(op, self.channels_out() * pitch)?;
        let column_offsets = storage::try_collect(op, (0..k).map(|i| i * pitch))?;
        let row_terms = row_terms(rows_out, pitch);
        let zeros = [T::ZERO; BLOCK_ROWS];
        let nothing = SamplePoint { corners: [usize::MAX; 4], fraction: [T::ZERO; 2], inside: false };
        let mut samples = storage::try_room(op, self.rows() * n, nothing)?;
        let per_group = self.channels_in() / self.offset_groups;
        let sampling = Work::Flops(SAMPLE_FLOPS.saturating_mul(groups * k * n));
        let product = product_work(self.g.flops() / self.g.batch.max(1), rows_out);
        for image in 0..self.g.batch {
            let x = &f.x[image * self.channels_in() * plane..][..self.channels_in() * plane];
            let offset = &f.offset[image * 2 * self.rows() * n..];
            let mask = f.mask.as_ref().map(|mask| &mask[image * self.rows() * n..][..self.rows() * n]);
            let factor = |at: usize| mask.map_or(T::ONE, |mask| mask[at]);
            let sample_row = |channel: usize, tap: usize| (channel / per_group * taps + tap) * n;
            for (out, row) in
                g.chunks_exact_mut(pitch).zip(grad[image * self.channels_out() * n..].chunks_exact(n))
            {
                out[..n].copy_from_slice(row);
                out[n..].fill(T::ZERO);
            }
            for_each_chunk(&mut samples, n, sampling, |row, out| {
                out.iter_mut().zip(self.samples(offset, row, 0..n)).for_each(|(out, sample)| *out = sample);
            });
            for_each_chunk(&mut columns, taps * pitch, sampling, |channel, out| {
                let plane = &x[channel * plane..][..plane];
                for (tap, out) in out.chunks_exact_mut(pitch).enumerate() {
                    let row = sample_row(channel, tap);
                    for (at, out) in out[..n].iter_mut().enumerate() {
                        *out = samples[row + at].read(plane) * factor(row + at);
                    }
                    out[n..].fill(T::ZERO);
                }
            });
            for group in 0..groups {
                let g = &g[group * rows_out * pitch..][..rows_out * pitch];
                let block = &mut d_weight[group * rows_out * k..][..rows_out * k];
                for_each_chunk(block, TASK_DEFORM_ROWS * k, product, |task, out| {
                    for start in (0..pitch).step_by(SEGMENT) {
                        let operands = DotOperands {
                            g: &g[task * TASK_DEFORM_ROWS * pitch + start..],
                            g_row: pitch,
                            g_image: 0,
                            p: &columns[group * k * pitch + start..],
                            p_image: 0,
                            offsets: &column_offsets,
                            rows: out.len() / k,
                            images: 1,
                            len: SEGMENT.min(pitch - start),
                        };
                        dots(operands, out);
                    }
                });
                let transposed = &transposed[group * k * rows_out..][..k * rows_out];
                let block = &mut d_columns[group * k * pitch..][..k * pitch];
                for_each_chunk(block, BLOCK_ROWS * pitch, product, |task, out| {
                    let a = &transposed[task * BLOCK_ROWS * rows_out..];
                    let out = &mut rows_of(out, pitch, BLOCK_ROWS);
                    windows(a, rows_out, &zeros[..out.len()], g, &row_terms, 0, pitch, out);
                });
            }
            let d_x = &mut d_x[image * self.channels_in() * plane..][..self.channels_in() * plane];
            for_each_chunk(d_x, plane.max(1), sampling, |channel, out| {
                out.fill(T::ZERO);
                for tap in 0..taps {
                    let row = sample_row(channel, tap);
                    let d = &d_columns[(channel * taps + tap) * pitch..][..n];
                    for (at, &d) in d.iter().enumerate() {
                        let sample = &samples[row + at];
                        if sample.inside {
                            let d = d * factor(row + at);
                            for (corner, share) in sample.corners.into_iter().zip(sample.shares()) {
                                if let Some(out) = out.get_mut(corner) {
                                    *out += d * share;
                                }
                            }
                        }
                    }
                }
            });
            let d_offset = &mut d_offset[image * 2 * self.rows() * n..][..2 * self.rows() * n];
            let d_mask = &mut d_mask[image * self.rows() * n..][..self.rows() * n];
            for_each_chunk2(d_offset, 2 * n, d_mask, n, sampling, |row, d_offset, d_mask| {
                d_offset.fill(T::ZERO);
                d_mask.fill(T::ZERO);
                let (d_y, d_x) = d_offset.split_at_mut(n);
                for channel in row / taps * per_group..(row / taps + 1) * per_group {
                    let plane = &x[channel * plane..][..plane];
                    let d = &d_columns[(channel * taps + row % taps) * pitch..][..n];
                    for at in 0..n {
                        let sample = &samples[row * n + at];
                        let ([y, x], v) = (sample.fraction, sample.values(plane));
                        let (d, scaled) = (d[at], d[at] * factor(row * n + at));
                        d_mask[at] += d * sample.read(plane);
                        d_y[at] += scaled * (x * (v[3] - v[1]) + (T::ONE - x) * (v[2] - v[0]));
                        d_x[at] += scaled * (y * (v[3] - v[2]) + (T::ONE - y) * (v[1] - v[0]));
                    }
                }
            });
        }
        Ok(())
    }
}

/// The terms of a product with a matrix of `rows` rows, which are `pitch` elements apart.
fn row_terms(rows: usize, pitch: usize) -> Terms {
    let taps = (0..rows.min(Terms::BLOCK)).map(|k| Tap { a: k, p: k * pitch }).collect();
    Terms::new(taps, rows, Terms::BLOCK, Terms::BLOCK * pitch)
}
