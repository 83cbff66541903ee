//! Convolutions with kernels of 3x3, or of 3 or 5 along one axis, and stride 1 by Winograd's method, in f32.
//!
//! The output is cut into tiles of 4x4. A tile depends on 6x6 inputs, and is a sum over the channels of 36
//! products instead of 144: both the inputs and the kernel are transformed to 36 *points*, which are
//! multiplied one by one, and the sums are transformed back (Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks", 2015). Along one axis the method evaluates polynomials at 0, 1, -1, 2,
//! -1/2 and infinity, multiplies, and interpolates. With these points errors are smaller than with the usual
//! 2 and -2 (Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep
//! Neural Networks", 2020). For 3 to 512 channels of uniform random values they are 2 to 5 times the errors
//! of the direct sum (root mean square), and at most 1.4e-6, 5.5e-7 and 2.6e-7 of the sum of the magnitudes
//! for 3, 64 and 512 channels; with 2 and -2 at most 4.1e-6, 1.1e-6 and 3.8e-7.
//!
//! Along one axis six points also serve for two outputs of a kernel of 5, with 6 products instead of 10.
//! Small images are cut into tiles of 2x2, which depend on 4x4 inputs and have 16 points (0, 1, -1 and
//! infinity along an axis) instead of 36 products: more tiles fill the vectors, and fewer points of kernels
//! are read.
//!
//! The sums over the channels are products with one matrix of tiles for each point ([`sums`]). The inputs of
//! a channel are copied to planes (see [`planes`](super::planes)), one for each column of a tile, in which
//! neighbouring tiles, and interleaved images, are neighbours. So vectors lie along tiles in all steps.
//!
//! The points of kernels that are used again are [prepared](storage::prepared) at their second use.
//!
//! A transform combines the inputs of a tile, so rounding errors are relative to the largest of them. A value
//! far above the others, or an infinity, would destroy the other sums of its tile. Operands with such values
//! are left to the direct method ([`is_even`], [`is_tame`]).

mod sums;
mod transform;

use super::images::interleaving_cost;
use super::plan::Geometry;
use super::planes::{PlaneAxis, Planes};
use super::product::max_lanes;
use super::program::Coefficients;
use super::run::{is_by_unit, product_work};
use crate::error::Result;
use crate::parallel::thresholds::{CONV_TASKS, TASK_FINITE_ELEMENTS};
use crate::parallel::{Work, for_each_chunk, map_blocks};
use crate::storage::{Finish, Scratch};
use crate::stored::Source;
use crate::{Blank, Shape, Tensor, storage};
use flex_math::simd::{HasVectors, Scalar, Simd, WithSimd, vectorize_lean};
use sums::{FEW, Factors, MANY_ROWS, add_up};
use transform::{
    Inputs, Inputs4, Kernel3, Kernel3At4, Kernel5, Outputs2, Outputs4, OutputsOf5, SIDE, along_axes, room,
};

/// Tiles that are transformed at a time: a vector of AVX-512.
const LANES: usize = max_lanes::<f32>();
/// Output channels that a task computes at a time, unless they are [`MANY_ROWS`], and tiles whose sums are
/// kept: 36 x 8 x 192 sums take 221 KB of the second-level cache.
const ROWS: usize = 8;
const KEPT: usize = 192;
/// The most tiles of a unit with which the points of kernels are prepared. A kernel's transform costs as much
/// as the products of 27 tiles.
const TILES: usize = 512;
/// Bytes of transformed inputs that are kept at a time, if a row of tiles has no more, and the most of
/// transformed kernels.
const POINT_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of inputs that are laid out for the transform at a time, in the first-level cache, unless one
/// channel has more.
const INPUT_BYTES: usize = 16 * 1024;

/// Costs for each of the points, in multiply-adds of a vector: transforming a kernel, and the inputs and the
/// sums of a vector of tiles. A kernel's cost is its writes: one image of 512 channels at 7x7, which are four
/// tiles, takes 7.3 ms for 512 outputs, and 2.7 ms without tiles.
const KERNEL: f64 = 1.7;
const INPUTS: f64 = 8.3;
const SUMS: f64 = 13.9;
/// Costs of laying out the inputs, in multiply-adds of a vector: a row of an image for all its planes, and a
/// pixel of interleaved images for a plane. 27 and 4 ns on one core of Zen 4.
const INPUT_ROW: f64 = 100.0;
const INPUT_PIXEL: f64 = 16.0;
/// Vectors of tiles that cost as much as the [few](FEW) tiles after the last one.
const FEW_COST: f64 = 0.25;

/// A value for each tile of a block.
type TileValues = [f32; LANES];

/// A kernel that the method is for, with the tiles of its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tiling {
    Square3,
    /// Tiles of 2x2.
    Square3By2,
    Row3,
    Row5,
}

impl Tiling {
    /// The tilings of a convolution with stride 1, if there are any. Its axes are
    /// [merged](Geometry::merged).
    pub fn all(g: &Geometry) -> &'static [Self] {
        let all: &[Self] = match g.kernel {
            [1, 3, 3] => &[Self::Square3, Self::Square3By2],
            [1, 1, 3] => &[Self::Row3],
            [1, 1, 5] => &[Self::Row5],
            _ => &[],
        };
        // Merged axes have a dilation, which an axis of one tap does not use.
        let close = g.dilation.iter().zip(g.kernel).all(|(&dilation, taps)| dilation == 1 || taps == 1);
        let plain = close && g.stride == [1; 3] && g.image[0] == 1 && !g.image.contains(&0);
        let padded = g.padding.iter().zip(g.kernel).all(|(&padding, taps)| padding < taps);
        if plain && padded { all } else { &[] }
    }

    /// Whether kernels have columns.
    fn is_square(self) -> bool {
        matches!(self, Self::Square3 | Self::Square3By2)
    }

    /// Outputs of a tile along both axes.
    fn tile(self) -> [usize; 2] {
        match self {
            Self::Square3 => [4, 4],
            Self::Square3By2 => [2, 2],
            Self::Row3 => [1, 4],
            Self::Row5 => [1, 2],
        }
    }

    /// Points of a tile along both axes: as many as it has inputs.
    fn side(self) -> [usize; 2] {
        match self {
            Self::Square3 => [SIDE, SIDE],
            Self::Square3By2 => [4, 4],
            Self::Row3 | Self::Row5 => [1, SIDE],
        }
    }

    fn points(self) -> usize {
        self.side().iter().product()
    }

    /// Rows of tiles below a tile into which its inputs reach.
    fn rows_below(self) -> usize {
        (self.side()[0] - 1) / self.tile()[0]
    }

    fn taps(self) -> usize {
        match self {
            Self::Square3 | Self::Square3By2 => 9,
            Self::Row3 => 3,
            Self::Row5 => 5,
        }
    }
}

/// The kernels of a convolution.
#[derive(Clone, Copy)]
pub(super) enum ConvKernels<'a> {
    /// As the weight has them.
    Values(&'a [f32]),
    /// Their points, for each group and the rows of each task as it reads them.
    Points(&'a [f32]),
}

/// Which points of which values are prepared: the key of [`Tensor::prepare`].
#[derive(PartialEq, Eq)]
struct PointsKey {
    tiling: Tiling,
    reversed: bool,
    /// Groups, rows and channels.
    sizes: [usize; 3],
    coefficients: Coefficients,
    /// Where the weight begins in its buffer.
    offset: usize,
    task_rows: usize,
}

/// A convolution that is computed by tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Winograd {
    /// The proof by which the transforms are dispatched.
    vectors: HasVectors,
    tiling: Tiling,
    /// The inputs of the tiles. There is a plane for each column of a tile and for each row above the next
    /// tile; it holds the elements of all tiles one after the other.
    planes: Planes,
    /// Output channels of a group.
    rows: usize,
    /// Interleaved images.
    pub images: usize,
    /// Height and width of the output.
    out: [usize; 2],
    /// Rows of tiles of a unit (a group of an image, or of interleaved images), and tiles of a row.
    grid: [usize; 2],
    coefficients: Coefficients,
    /// Whether the taps are in reverse order: input gradients.
    reversed: bool,
    /// Output channels that a task computes at a time.
    task_rows: usize,
}

/// Cost of a tiling of the merged geometry with `images` interleaved images, in multiply-adds of a vector;
/// infinite if the number of images does not divide the batch.
pub(super) fn cost(g: &Geometry, tiling: Tiling, images: usize, reversed: bool) -> f64 {
    if !g.batch.is_multiple_of(images) {
        return f64::INFINITY;
    }
    let (tile, points) = (tiling.tile(), tiling.points());
    let (channels, rows) =
        if reversed { (g.grid_channels, g.image_channels) } else { (g.image_channels, g.grid_channels) };
    let out = if reversed { g.image } else { g.grid };
    let tiles = out[1].div_ceil(tile[0]) * out[2].div_ceil(tile[1]) * images;
    let units = (g.batch / images * g.groups) as f64;
    let vectors = tiles.div_ceil(LANES) as f64;
    let products = if ends_with_few(tiles, rows) { vectors - 1.0 + FEW_COST } else { vectors };
    let elements = g.batch * g.groups * (channels + rows) * out[1] * out[2];
    let (channels, rows, points) = (channels as f64, rows as f64, points as f64);
    let once = rows * channels * points * size_of::<f32>() as f64 <= POINT_BYTES as f64;
    let kernel = if g.batch == 1 {
        // The weight of a model that computes single images is prepared once, and not changed by training.
        KERNEL / 2.0
    } else if once {
        KERNEL * g.groups as f64 / units
    } else {
        KERNEL
    };
    let planes = tiling.side()[1] as f64 / tile[1] as f64;
    let inputs =
        if images > 1 { (out[1] * out[2]) as f64 * planes * INPUT_PIXEL } else { out[1] as f64 * INPUT_ROW };
    let transforms = rows * channels * kernel + channels * vectors * INPUTS + rows * vectors * SUMS;
    let unit = points * (rows * channels * products + transforms) + channels * inputs;
    units * unit + if images > 1 { interleaving_cost(elements) } else { 0.0 }
}

/// Whether the tiles after the last whole vector of tiles are multiplied with vectors along the kernels. Each
/// task then needs [`MANY_ROWS`] kernels, so there are fewer tasks.
fn ends_with_few(tiles: usize, rows: usize) -> bool {
    (LANES..KEPT).contains(&tiles)
        && (1..=FEW).contains(&(tiles % LANES))
        && rows >= MANY_ROWS * CONV_TASKS / 2
}

impl Winograd {
    /// The tiles of the merged geometry of `images` interleaved images, which divide the batch; `reversed`
    /// for a spread.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn new(
        op: &'static str,
        vectors: HasVectors,
        g: &Geometry,
        tiling: Tiling,
        images: usize,
        reversed: bool,
    ) -> Result<Self> {
        let (tile, side) = (tiling.tile(), tiling.side());
        let coefficients = if reversed { Coefficients::spread(g) } else { Coefficients::gather(g) };
        let (image, out) = if reversed { (g.grid, g.image) } else { (g.image, g.grid) };
        let (channels, rows) =
            if reversed { (g.grid_channels, g.image_channels) } else { (g.image_channels, g.grid_channels) };
        let tiles = [out[1].div_ceil(tile[0]), out[2].div_ceil(tile[1])];
        // The planes begin at the inputs `0..count` of the first tile.
        let axis = |k: usize, count: usize, len: usize| {
            let padding = if reversed { g.kernel[k] - 1 - g.padding[k] } else { g.padding[k] };
            let starts = (0..count).map(|input| input as isize - padding as isize).collect();
            PlaneAxis { starts, step: tile[k - 1], len }
        };
        let height = axis(1, tile[0], tiles[0] + tiling.rows_below());
        let width = axis(2, side[1], tiles[1]);
        let whole = |len| PlaneAxis { starts: alloc::vec![0], step: 1, len };
        let (axes, source) = if images > 1 {
            ([height, width, whole(images)], [image[1], image[2], images])
        } else {
            ([whole(1), height, width], image)
        };
        let planes = Planes { axes, source, channels };
        planes.check(op)?;
        let grid = [tiles[0], tiles[1] * images];
        let count = grid[0] * grid[1];
        let small = count <= LANES && rows >= MANY_ROWS * CONV_TASKS;
        let many = small || ends_with_few(count, rows);
        let task_rows = if many { MANY_ROWS } else { ROWS };
        Ok(Self {
            vectors,
            tiling,
            planes,
            rows,
            images,
            out: [out[1], out[2]],
            grid,
            coefficients,
            reversed,
            task_rows,
        })
    }

    /// The kernels of a contiguous weight. They are points if the points are prepared, from the second use of
    /// the weight on; before that they are values. `None` if a value is not [tame](is_tame).
    pub fn kernels<'a>(&self, groups: usize, weight: &'a Tensor) -> Option<ConvKernels<'a>> {
        if let Some(points) = self.prepared(groups, weight) {
            return Some(points);
        }
        let values = Source::of(weight).values().filter(|values| is_tame(values))?;
        let rows = self.rows;
        // Rows of tasks are filled up, which would take much memory for few rows.
        if rows < ROWS || self.grid.iter().product::<usize>() > TILES {
            return Some(ConvKernels::Values(values));
        }
        let len = groups * rows.div_ceil(self.task_rows) * self.points_of_task() * size_of::<f32>();
        let points = weight.prepare(self.points_key(groups, weight), len, |points| {
            self.transform_all(values, bytemuck::cast_slice_mut(points));
        });
        Some(
            points.map_or(ConvKernels::Values(values), |points| {
                ConvKernels::Points(bytemuck::cast_slice(points))
            }),
        )
    }

    /// The points of a weight's kernels, if they are prepared.
    pub fn prepared<'a>(&self, groups: usize, weight: &'a Tensor) -> Option<ConvKernels<'a>> {
        let points = weight.form(&self.points_key(groups, weight))?;
        Some(ConvKernels::Points(bytemuck::cast_slice(points)))
    }

    fn points_key(&self, groups: usize, weight: &Tensor) -> PointsKey {
        PointsKey {
            tiling: self.tiling,
            reversed: self.reversed,
            sizes: [groups, self.rows, self.planes.channels],
            coefficients: self.coefficients,
            offset: weight.layout().offset(),
            task_rows: self.task_rows,
        }
    }

    /// Number of points of the kernels of a task.
    fn points_of_task(&self) -> usize {
        self.tiling.points() * kernel_pitch(self.task_rows, self.planes.channels)
    }

    /// Writes the points of all kernels of a weight, as [`ConvKernels::Points`] has them.
    fn transform_all(&self, weight: &[f32], points: &mut [f32]) {
        let blocks = self.rows.div_ceil(self.task_rows);
        let work = Work::Bytes(size_of_val(points));
        for_each_chunk(points, self.points_of_task(), work, |number, points| {
            let (group, row) = (number / blocks, number % blocks * self.task_rows);
            self.transform(weight, group, row, points);
        });
    }

    /// Writes the points of the kernels of up to `task_rows` rows of a group from `row` on: for each point
    /// and channel a coefficient per row. Coefficients of rows that do not exist are arbitrary.
    fn transform(&self, weight: &[f32], group: usize, row: usize, points: &mut [f32]) {
        let weight = &weight[group * self.coefficients.group + row * self.coefficients.row..];
        self.vectors.dispatch_lean(KernelTransform {
            winograd: self,
            weight,
            rows: self.task_rows.min(self.rows - row),
            points,
        });
    }

    /// Computes the output `[units, rows, height, width, images]` from the source of the planes. `bias` holds
    /// a value per output channel of all groups. Passes elements that are computed to `finish`.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn run(
        &self,
        op: &'static str,
        groups: usize,
        src: Source<'_>,
        kernels: ConvKernels<'_>,
        bias: &[f32],
        shape: Shape,
        finish: Option<Finish<'_>>,
    ) -> Result<Tensor> {
        let all_points = self.tiling.points();
        let (channels, rows, [tile_rows, row]) = (self.planes.channels, self.rows, self.grid);
        let [height, width] = self.out;
        let (source, unit_len) = (self.planes.source_len(), rows * height * width * self.images);
        let mut blank = Blank::new(op, shape, crate::DType::F32)?;
        let out: &mut [f32] = bytemuck::cast_slice_mut(blank.bytes());
        // Rows of tiles whose points are kept.
        let band = (POINT_BYTES / (size_of::<f32>() * all_points * channels * row)).clamp(1, tile_rows);
        let channel = channel_points(all_points, band * row);
        let inputs = self.band(0, band).channel_len();
        let together = (INPUT_BYTES / (size_of::<f32>() * inputs)).clamp(1, channels.div_ceil(CONV_TASKS));
        let room = together * inputs + LANES + self.planes.room::<f32>(src);
        storage::ensure_for_tasks(op, room * size_of::<f32>(), channels.div_ceil(together))?;
        let block_points = self.points_of_task();
        // Points that are not prepared are computed once for many images, or by each task.
        let all = groups * rows.div_ceil(self.task_rows) * block_points;
        let values = matches!(kernels, ConvKernels::Values(_));
        let once = values && out.len() / unit_len > groups && all * size_of::<f32>() <= POINT_BYTES;
        let mut all = Scratch::<f32>::new(op, if once { all } else { 0 })?;
        let kernels = match kernels {
            ConvKernels::Values(weight) if once => {
                self.transform_all(weight, &mut all);
                ConvKernels::Points(&all)
            }
            kernels => kernels,
        };
        let kernel = if let ConvKernels::Values(_) = kernels { block_points } else { 0 };
        let task_rows = self.task_rows;
        let sums = all_points * sums_pitch(task_rows, KEPT.min(band * row));
        storage::ensure_for_tasks(op, (kernel + sums) * size_of::<f32>(), rows.div_ceil(task_rows))?;
        let multiply = |unit: usize, out: &mut [f32], points: &mut [f32], alone: bool| {
            let group = unit % groups;
            let bias = &bias[group * rows..][..rows];
            let src = src.slice(unit * source..(unit + 1) * source);
            for first in (0..tile_rows).step_by(band) {
                let here = band.min(tile_rows - first);
                let planes = self.band(first, here);
                let (image, inputs) = (source / channels, planes.channel_len());
                let work = Work::Flops(if alone { 0 } else { 8 * channels * here * row * all_points });
                for_each_chunk(points, together * channel, work, |task, points| {
                    let first = task * together;
                    let count = together.min(channels - first);
                    let mut room = Scratch::<f32>::for_task(count * inputs + LANES);
                    room[count * inputs..].fill(0.0);
                    let src = src.slice(first * image..(first + count) * image);
                    planes.pack(src, &mut room[..count * inputs]);
                    for (k, points) in points.chunks_exact_mut(channel).enumerate() {
                        self.transform_inputs(&planes, &room[k * inputs..], points);
                    }
                });
                let flops = if alone { 0 } else { 2 * all_points * channels * rows * here * row };
                let work = product_work(flops, rows);
                let row_len = height * width * self.images;
                for_each_chunk(out, task_rows * row_len, work, |block, out| {
                    let start = block * task_rows;
                    let bias = &bias[start..rows.min(start + task_rows)];
                    let mut kernel = Scratch::<f32>::for_task(kernel);
                    let mut sums = Scratch::<f32>::for_task(sums);
                    let kernel = match kernels {
                        ConvKernels::Values(weight) => {
                            self.transform(weight, group, start, &mut kernel);
                            &kernel[..]
                        }
                        ConvKernels::Points(points) => {
                            &points[(group * rows.div_ceil(task_rows) + block) * block_points..]
                                [..block_points]
                        }
                    };
                    for tile in (0..here * row).step_by(KEPT) {
                        let count = KEPT.min(here * row - tile);
                        let factors = Factors {
                            kernels: kernel,
                            tiles: points,
                            points: all_points,
                            channels,
                            rows: task_rows,
                            first: tile,
                            count,
                            kernel_pitch: kernel_pitch(task_rows, channels),
                            tile_pitch: points_pitch(here * row),
                            channel_pitch: channel,
                            sum_pitch: sums_pitch(task_rows, count),
                        };
                        add_up(self.vectors, factors, &mut sums);
                        for (r, (out, &bias)) in out.chunks_exact_mut(row_len).zip(bias).enumerate() {
                            let (sums, first) = (&sums[r * points_pitch(count)..], first * row + tile);
                            self.transform_sums(sums, bias, first, count, out);
                        }
                    }
                    if let Some(finish) = finish
                        && first + here == tile_rows
                    {
                        finish(unit * unit_len + start * row_len, bytemuck::cast_slice_mut(out));
                    }
                });
            }
        };
        let (units, points) = (out.len() / unit_len, channels * channel);
        // Rows of very many tiles would take much memory in each thread.
        if is_by_unit(units) && points * size_of::<f32>() <= 2 * POINT_BYTES {
            storage::ensure_for_tasks(op, points * size_of::<f32>(), units)?;
            let factors = [all_points, channels, rows, tile_rows, row, units];
            let flops = factors.iter().fold(2usize, |flops, &factor| flops.saturating_mul(factor));
            for_each_chunk(out, unit_len, product_work(flops, rows), |unit, out| {
                multiply(unit, out, &mut Scratch::for_task(points), true);
            });
        } else {
            let mut points = Scratch::new(op, points)?;
            out.chunks_exact_mut(unit_len)
                .enumerate()
                .for_each(|(unit, out)| multiply(unit, out, &mut points, false));
        }
        Ok(blank.finish())
    }

    /// The planes of `count` rows of tiles from row `first` on.
    fn band(&self, first: usize, count: usize) -> Planes {
        let [tile, _] = self.tiling.tile();
        let mut planes = self.planes.clone();
        let rows = &mut planes.axes[if self.images > 1 { 0 } else { 1 }];
        rows.len = count + self.tiling.rows_below();
        rows.starts.iter_mut().for_each(|start| *start += (first * tile) as isize);
        planes
    }

    /// Writes the points of the tiles of a channel: for each point a value per tile. `inputs` has the
    /// channel's planes of a [band](Self::band) of tiles.
    fn transform_inputs(&self, planes: &Planes, inputs: &[f32], points: &mut [f32]) {
        let ([tile, _], [side, columns]) = (self.tiling.tile(), self.tiling.side());
        let (plane, row) = (planes.plane_len(), self.grid[1]);
        let mut rows = [0; SIDE];
        for (y, at) in rows.iter_mut().enumerate().take(side) {
            *at = y % tile * columns * plane + y / tile * row;
        }
        let tiles = plane - self.tiling.rows_below() * row;
        let transform = InputTransform { tiling: self.tiling, inputs, rows, plane, tiles, points };
        self.vectors.dispatch(transform);
    }

    /// Writes the outputs of `count` tiles from number `first` on of one output channel.
    fn transform_sums(&self, sums: &[f32], bias: f32, first: usize, count: usize, out: &mut [f32]) {
        self.vectors.dispatch(SumTransform { winograd: self, sums, bias, first, count, out });
    }
}

/// See [`Winograd::transform`].
struct KernelTransform<'a> {
    winograd: &'a Winograd,
    weight: &'a [f32],
    rows: usize,
    points: &'a mut [f32],
}

impl WithSimd for KernelTransform<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { winograd, weight, rows, points } = self;
        let Coefficients { row: of_row, channel: of_channel, .. } = winograd.coefficients;
        let (channels, taps) = (winograd.planes.channels, winograd.tiling.taps());
        let task_rows = winograd.task_rows;
        let (pitch, [_, side]) = (kernel_pitch(task_rows, channels), winograd.tiling.side());
        let mut kernel = [[0.0; LANES]; 9];
        let (mut between, mut between_4) = (room::<S, 3, SIDE>(), room::<S, 3, 4>());
        let mut between_5 = room::<S, 5, SIDE>();
        // Lanes hold the rows of some channels.
        for c in (0..channels).step_by(LANES / task_rows) {
            for lane in 0..LANES {
                let (r, c) = (lane % task_rows, c + lane / task_rows);
                if r < rows && c < channels {
                    let from = &weight[r * of_row + c * of_channel..][..taps];
                    for (tap, &value) in from.iter().enumerate() {
                        let at = if winograd.reversed { taps - 1 - tap } else { tap };
                        kernel[at][lane] = value;
                    }
                }
            }
            for part in (0..LANES).step_by(f32::lanes::<S>()) {
                let from = (&kernel.as_flattened()[part..], [0, 3 * LANES, 6 * LANES], LANES);
                // Lanes after the last channel are in the distance between points.
                let to = (&mut points[c * task_rows + part..], [side * pitch, pitch]);
                match winograd.tiling {
                    Tiling::Row5 => {
                        along_axes::<S, Kernel5, _, _>(false, (from.0, [0; 5], LANES), &mut between_5, to)
                    }
                    Tiling::Square3By2 => along_axes::<S, Kernel3At4, _, _>(true, from, &mut between_4, to),
                    tiling => along_axes::<S, Kernel3, _, _>(tiling.is_square(), from, &mut between, to),
                }
            }
        }
    }
}

/// See [`Winograd::transform_inputs`].
struct InputTransform<'a> {
    tiling: Tiling,
    inputs: &'a [f32],
    /// Where the rows of the first tile's inputs begin, and the distance between its columns.
    rows: [usize; SIDE],
    plane: usize,
    tiles: usize,
    points: &'a mut [f32],
}

impl WithSimd for InputTransform<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { tiling, inputs, rows, plane, tiles, points } = self;
        let (pitch, [_, side]) = (points_pitch(tiles), tiling.side());
        let (mut between, mut between_4) = (room::<S, SIDE, SIDE>(), room::<S, 4, 4>());
        for tile in (0..pitch).step_by(f32::lanes::<S>()) {
            // After the last tile come elements of other planes.
            let inputs = &inputs[tile..];
            let to = (&mut points[tile..], [side * pitch, pitch]);
            match tiling {
                Tiling::Square3By2 => {
                    let from = (inputs, [rows[0], rows[1], rows[2], rows[3]], plane);
                    along_axes::<S, Inputs4, _, _>(true, from, &mut between_4, to);
                }
                tiling => {
                    let from = (inputs, rows, plane);
                    along_axes::<S, Inputs, _, _>(tiling.is_square(), from, &mut between, to);
                }
            }
        }
    }
}

/// See [`Winograd::transform_sums`].
struct SumTransform<'a> {
    winograd: &'a Winograd,
    sums: &'a [f32],
    bias: f32,
    first: usize,
    count: usize,
    out: &'a mut [f32],
}

impl WithSimd for SumTransform<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { winograd, sums, bias, first, count, out } = self;
        let (tiling, pitch) = (winograd.tiling, sums_pitch(winograd.task_rows, count));
        let [_, side] = tiling.side();
        let mut tile = [[[0.0; LANES]; 4]; 4];
        let (mut between, mut between_2) = (room::<S, SIDE, 4>(), room::<S, 4, 2>());
        let mut between_5 = room::<S, SIDE, 2>();
        for block in (0..count).step_by(LANES) {
            for part in (0..LANES).step_by(f32::lanes::<S>()) {
                let (from, row) = (&sums[block + part..], side * pitch);
                let six = (from, core::array::from_fn(|y| y * row), pitch);
                let four = (from, core::array::from_fn(|y| y * row), pitch);
                let to = (&mut tile.as_flattened_mut().as_flattened_mut()[part..], [4 * LANES, LANES]);
                match tiling {
                    Tiling::Row5 => along_axes::<S, OutputsOf5, _, _>(false, six, &mut between_5, to),
                    Tiling::Square3By2 => along_axes::<S, Outputs2, _, _>(true, four, &mut between_2, to),
                    tiling => along_axes::<S, Outputs4, _, _>(tiling.is_square(), six, &mut between, to),
                }
            }
            winograd.write_tiles(&tile, bias, first + block, LANES.min(count - block), out);
        }
    }
}

impl Winograd {
    /// Writes the outputs `tile` of `count` tiles from number `first` on.
    #[inline(always)]
    fn write_tiles(
        &self,
        tile: &[[TileValues; 4]; 4],
        bias: f32,
        first: usize,
        count: usize,
        out: &mut [f32],
    ) {
        let ([_, row], images) = (self.grid, self.images);
        let ([height, width], [tile_height, tile_width]) = (self.out, self.tiling.tile());
        let mut lane = 0;
        while lane < count {
            let at = first + lane;
            let (y, x) = (at / row * tile_height, at % row / images * tile_width);
            if images == 1 {
                // Neighbouring tiles of a row.
                let run = (count - lane).min(row - at % row);
                let columns = x..width.min(x + run * tile_width);
                for (lanes, y) in tile.iter().zip(y..height.min(y + tile_height)) {
                    let to = &mut out[y * width..][columns.clone()];
                    if tile_width == 4 {
                        side_by_side(lanes, lane, bias, to);
                    } else {
                        side_by_side(&[lanes[0], lanes[1]], lane, bias, to);
                    }
                }
                lane += run;
                continue;
            }
            // Neighbouring images of one tile.
            let image = at % row % images;
            let run = (count - lane).min(images - image);
            for (i, y) in (y..height.min(y + tile_height)).enumerate() {
                for (j, x) in (x..width.min(x + tile_width)).enumerate() {
                    let to = &mut out[(y * width + x) * images + image..];
                    let from = &tile[i][j][lane..];
                    match run {
                        8 => add::<8>(from, bias, to),
                        16 => add::<16>(from, bias, to),
                        _ => to.iter_mut().zip(&from[..run]).for_each(|(to, from)| *to = from + bias),
                    }
                }
            }
            lane += run;
        }
    }
}

/// `to = from + bias` for the first `N` elements.
#[inline(always)]
fn add<const N: usize>(from: &[f32], bias: f32, to: &mut [f32]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = from.map(|from| from + bias);
    }
}

/// Distance between the points of a channel for `tiles` tiles: whole vectors, which lie in cache lines.
fn points_pitch(tiles: usize) -> usize {
    tiles.next_multiple_of(LANES)
}

/// Distance between the points of channels: an odd number of cache lines, so that the channels of a point lie
/// in all sets of the caches.
fn channel_points(points: usize, tiles: usize) -> usize {
    points * points_pitch(tiles) + LANES
}

/// Distances between the points of `rows` rows of transformed kernels, and between the points of their sums
/// for `tiles` tiles. They are no multiples of a power of two, so points do not share sets of the caches.
fn kernel_pitch(rows: usize, channels: usize) -> usize {
    rows * channels + LANES
}

/// See [`kernel_pitch`].
fn sums_pitch(rows: usize, tiles: usize) -> usize {
    rows * points_pitch(tiles) + LANES
}

/// `to = from + bias` for the tiles of a row from number `lane` on, whose elements are in `from`.
#[inline(always)]
fn side_by_side<const N: usize>(from: &[TileValues; N], lane: usize, bias: f32, to: &mut [f32]) {
    let (whole, rest) = to.as_chunks_mut::<N>();
    let next = lane + whole.len();
    for (k, to) in whole.iter_mut().enumerate() {
        *to = core::array::from_fn(|n| from[n][lane + k] + bias);
    }
    for (to, from) in rest.iter_mut().zip(from) {
        *to = from[next] + bias;
    }
}

/// 2^48. Transforms multiply inputs by at most 7^2, kernels by less than 4 and sums by less than 2^7. So
/// results of 2^16 channels stay below 2^128.
const LARGE: f32 = (1u64 << 48) as f32;

/// How many times the mean magnitude an input may have. Beside an input of `h`, the sums of a tile that do
/// not read it have errors of up to some `1e-6 h`, where all others are below 1: with this limit 5e-4.
const MOST_UNEVEN: f64 = 1024.0;

/// Whether no value of a kernel is NaN, infinite or so large that its transform might be. Each output reads
/// all values of its kernel, so a large one is no worse for the others than in the direct sum.
pub(super) fn is_tame(values: &[f32]) -> bool {
    let (largest, sum) = magnitudes(values);
    largest < LARGE && !sum.is_nan()
}

/// Whether no input is NaN, infinite or far above the others.
pub(super) fn is_even(values: &[f32]) -> bool {
    let (largest, sum) = magnitudes(values);
    largest < LARGE && f64::from(largest) * values.len() as f64 <= MOST_UNEVEN * sum
}

/// The largest magnitude that is no NaN, and the sum of magnitudes, which is NaN where a value is.
fn magnitudes(values: &[f32]) -> (f32, f64) {
    let blocks = map_blocks(values.len(), TASK_FINITE_ELEMENTS, Work::Bytes(size_of_val(values)), |range| {
        vectorize_lean(
            #[inline(always)]
            || largest_and_sum(&values[range]),
        )
    });
    let join = |(a, sum): (f32, f64), (b, more): (f32, f32)| (a.max(b), sum + f64::from(more));
    blocks.into_iter().fold((0.0, 0.0), join)
}

/// [`magnitudes`] of a block. The loops count: arrays that an iterator borrows are kept in memory, and
/// 200,704 values took 87 us in place of 12 (Zen 4).
#[inline(always)]
fn largest_and_sum(values: &[f32]) -> (f32, f32) {
    const WIDTH: usize = 2 * LANES;
    let (mut largest, mut sums) = ([0.0f32; WIDTH], [0.0f32; WIDTH]);
    let (blocks, rest) = values.as_chunks::<WIDTH>();
    for block in blocks {
        for i in 0..WIDTH {
            let value = block[i].abs();
            largest[i] = if value > largest[i] { value } else { largest[i] };
            sums[i] += value;
        }
    }
    let (mut most, mut sum) = (0.0f32, 0.0f32);
    for value in rest {
        (most, sum) = (most.max(value.abs()), sum + value.abs());
    }
    for i in 0..WIDTH {
        (most, sum) = (most.max(largest[i]), sum + sums[i]);
    }
    (most, sum)
}
