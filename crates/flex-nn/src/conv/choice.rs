//! The choice of the program that computes a convolution, from its geometry alone.
//!
//! A convolution has several programs, which differ in two ways:
//!
//! * Images are computed one by one, or *interleaved*: an axis of images becomes the innermost axis, along
//!   which vectors lie. Rows of few pixels fill few vectors, rows of as many pixels of each image fill many.
//!   The tensors are turned before and after.
//! * The padding of an axis is written into the planes, or skipped: outputs at the ends of the axis have
//!   passes of their own, with fewer taps.
//!
//! Depthwise convolutions of f32 have [a way of their own](super::depthwise), and are not compared.
//!
//! The gradient of a weight may be computed by such a program too ([`along_channels`]).

use super::depthwise::Depthwise;
use super::images::{Images, interleaving_cost};
use super::lowering::Lowered;
use super::plan::Geometry;
use super::product::max_lanes;
use super::program::{Coefficients, Program};
use super::weight;
use super::winograd::{self, Tiling, Winograd};
use crate::error::Result;
use flex_math::simd::{self, HasVectors, Level};

/// Which way a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The grid from the image.
    Gather,
    /// The image from the grid.
    Spread,
}

/// A program and the layout of the tensors that it reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub program: Program,
    pub images: Images,
    /// Winograd's method, if it costs less than the program.
    pub winograd: Option<Winograd>,
}

/// Programs are compared for convolutions of at least this many floating-point operations. Smaller ones take
/// up to some 40 us, and a comparison takes some 3 us.
const COMPARED: usize = 4 * 1024 * 1024;

/// Programs are compared for images and grids of at most this many positions: a comparison takes a step for
/// each run.
const MOST_COMPARED: usize = 1 << 24;

/// [`COMPARED`] for gradients of weights, which gain more: the gradient of a kernel of 3x3 from 64 to 64
/// channels at 7x7 takes 53 us instead of 150.
const GRADIENT: usize = 1024 * 1024;

/// Elements of the images that a gradient sums at a time: half of a second-level cache of 1 MiB. The gradient
/// of a kernel of 3x3 from 64 to 64 channels at 16x16, of 16 images, takes 2.7 ms instead of 2.9.
const SUMMED: usize = 128 * 1024;

/// The most images that are interleaved, if there is a choice: two vectors of f32.
const IMAGES: usize = 32;

/// The most taps along an axis whose padding is skipped.
const TAPS: usize = 16;

/// The most positions of the grid of a gradient with [vectors along channels](along_channels).
const POSITIONS: usize = 1024;

/// Costs, in multiply-adds of a vector (0.27 ns on one core of Zen 4): the call of a product, and copying an
/// element into the planes.
const CALL: f64 = 60.0;
const COPY: f64 = 0.2;

/// Cost of a coefficient that is sorted for products of matrices: 1.2 ns on Zen 3.
const SORT: f64 = 4.0;

/// Cost of a position that is computed apart from whole vectors, as a dot product for each output channel.
const APART: f64 = 0.1;

/// Extra cost of a tile of one vector, compared with a third of a tile of three vectors: its multiply-adds
/// wait for loads.
const NARROW: f64 = 0.2;

/// Cost of a [product of matrices](Lowered), compared with sums over windows: of images one by one, and of
/// interleaved images.
///
/// With vectors of 64 bytes, 1x1 from 256 to 64 channels at 56x56 takes 410 us instead of 512, 3x3 with a
/// stride of 2 from 128 to 128 channels at 28x28 1,150 instead of 1,230 (Zen 5, one thread). Interleaving
/// itself is not faster then: eight images of 512 channels at 7x7, to 2,048 channels, take 3.6 ms both ways
/// on one thread, and 2.0 instead of 1.8 on two.
const LOWERED: [f64; 2] = [0.8, 1.0];

/// [`LOWERED`] with shorter vectors, where products have larger tiles than sums over windows. On one thread
/// of Zen 3, eight images with 512 channels of 14x14, 3x3 with a stride of 2, take 105 ms as sums over
/// windows that skip the padding, 36 as a product for each image and 33 as one of interleaved images; but
/// with 256 channels of 28x28 32 and 43. Sixteen with 256 channels of 8x8, to 512 channels, take 19.8 ms as
/// sums and 10.7 interleaved as a product; with 512 channels of 2x2 and a stride of 1 4.5 and 5.4.
const LOWERED_SHORT: [f64; 2] = [0.5, 0.65];

impl Choice {
    /// The cheapest program. `tiles` tells that the elements are f32: then Winograd's method and the method
    /// of depthwise convolutions are considered too, if the level has vectors.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn new(op: &'static str, g: &Geometry, direction: Direction, tiles: bool) -> Result<Self> {
        let build = |g: &Geometry, skip| match direction {
            Direction::Gather => Program::gather(op, g, skip),
            Direction::Spread => Program::spread(op, g, skip),
        };
        let plain = g.clone().merged();
        let first = build(&plain, [false; 3])?;
        let large = |size: [usize; 3]| size.iter().fold(1usize, |n, &k| n.saturating_mul(k)) > MOST_COMPARED;
        let apart = || tiles && Depthwise::pays(&first, g.batch * g.groups).is_some();
        if g.flops() < COMPARED || large(g.image) || large(g.grid) || apart() {
            return Ok(Self { program: first.listed(op)?, images: Images(1), winograd: None });
        }
        let images = interleaved(g);
        let mixed = g.clone().with_images_inside(images).merged();
        let mut least = lowered_cost(g, &first, 1);
        let mut best = (first, 1);
        let both = [(&plain, 1), (&mixed, images)];
        for (geometry, images) in both.into_iter().take(images.min(2)) {
            for skip in skips(geometry, images) {
                let program = build(geometry, skip)?;
                let cost = lowered_cost(g, &program, images);
                if cost < least {
                    (least, best) = (cost, (program, images));
                }
            }
        }
        // Winograd's costs are compared with the costs of sums over windows, with which they were found.
        least = cost(g, &best.0, best.1);
        let mut tiled = None;
        let reversed = direction == Direction::Spread;
        if let Some(vectors) = HasVectors::here().filter(|_| tiles) {
            let tilings = Tiling::all(&plain).iter();
            for (&tiling, images) in tilings.flat_map(|tiling| [(tiling, 1), (tiling, images)]) {
                let cost = winograd::cost(&plain, tiling, images, reversed);
                if cost < least {
                    (least, tiled) = (cost, Some((vectors, tiling, images)));
                }
            }
        }
        let (program, images) = best;
        let images = tiled.map_or(images, |(.., images)| images);
        let winograd = tiled
            .map(|(vectors, tiling, images)| Winograd::new(op, vectors, &plain, tiling, images, reversed));
        Ok(Self { program: program.listed(op)?, images: Images(images), winograd: winograd.transpose()? })
    }
}

/// [`cost`] of a program that is computed as products of matrices where it can be.
fn lowered_cost(g: &Geometry, program: &Program, images: usize) -> f64 {
    let cost = cost(g, program, images);
    let factors = if simd::level() == Level::WideVectors { LOWERED } else { LOWERED_SHORT };
    match Lowered::of(program, g.batch / images) {
        Some(lowered) => cost * factors[usize::from(images > 1)] + SORT * lowered.sorted_len(g.groups) as f64,
        None => cost,
    }
}

/// Cost of computing a program of `images` interleaved images by sums over windows.
fn cost(g: &Geometry, program: &Program, images: usize) -> f64 {
    let units = g.batch / images * g.groups;
    let turned = program.planes.source_len() + program.rows * program.out_len();
    let turned = if images > 1 { interleaving_cost(units * turned) } else { 0.0 };
    units as f64 * program.cost() + turned
}

/// The sets of axes whose padding is skipped in the programs that are compared: the outermost axis with a
/// kernel, or all of them. Without interleaved images vectors lie along the last axis, which is not skipped,
/// and the program that skips nothing has been built already.
fn skips(g: &Geometry, images: usize) -> impl Iterator<Item = [bool; 3]> {
    let worth = [0, 1, 2].map(|k| (2..=TAPS).contains(&g.kernel[k]) && g.image[k] > 0);
    let outer = worth.iter().position(|&worth| worth);
    let first = [0, 1, 2].map(|k| Some(k) == outer);
    let first = if first == [false, false, true] && images == 1 { [false; 3] } else { first };
    let plain = (images > 1).then_some([false; 3]);
    let sets =
        [plain, (first != [false; 3]).then_some(first), (images > 1 && worth != first).then_some(worth)];
    sets.into_iter().flatten()
}

/// The program of a weight's gradient, which has vectors along the channels of the image: the convolution of
/// the image, whose images are the channels and whose channels lie inside, with the grid as its weight. Its
/// outputs are the taps. The source has its [channels inside](super::images::channels_inside). `None` where
/// sums along the positions of a row cost less.
///
/// # Errors
/// Fails if the planes are too large to address.
pub(super) fn along_channels(op: &'static str, g: &Geometry) -> Result<Option<Program>> {
    let positions = g.grid.iter().product::<usize>();
    let flat = g.image[0] == 1 && g.grid[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0;
    let fits = positions <= POSITIONS && g.taps() <= TAPS * TAPS && !g.image.contains(&0);
    if !flat || !fits || g.flops() < GRADIENT {
        return Ok(None);
    }
    let mut inside = Geometry {
        batch: 1,
        groups: g.groups,
        image_channels: g.batch,
        grid_channels: g.grid_channels,
        image: g.image,
        grid: g.kernel,
        kernel: g.grid,
        stride: g.dilation,
        padding: g.padding,
        dilation: g.stride,
    };
    inside.move_inside(g.image_channels);
    let inside = inside.merged();
    let coefficients = Coefficients {
        group: g.grid_channels * positions,
        row: positions,
        channel: g.groups * g.grid_channels * positions,
    };
    let mut program = Program::gather_by(op, &inside, [true; 3], coefficients)?;
    program.turned = Some(g.image_channels);
    let most = g.batch.min(SUMMED / (positions * g.image_channels).max(1)).max(1);
    // All images, if the batch cannot be cut into parts of a fair size.
    program.summed =
        (most.div_ceil(4)..=most).rev().find(|images| g.batch.is_multiple_of(*images)).unwrap_or(g.batch);
    let turned = program.planes.source_len() + program.rows * program.out_len();
    let cost = g.groups as f64 * program.cost() + interleaving_cost(g.groups * turned);
    if cost >= weight::cost(op, &g.clone().merged())? {
        return Ok(None);
    }
    program.listed(op).map(Some)
}

/// The number of images to interleave: all of them, or the most that the batch can be cut into equal parts
/// of; 1 for convolutions over three axes.
fn interleaved(g: &Geometry) -> usize {
    let flat = g.image[0] == 1 && g.grid[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0;
    let parts = (1..=IMAGES).rev().find(|images| g.batch.is_multiple_of(*images)).unwrap_or(1);
    match g.batch {
        _ if !flat => 1,
        0..=IMAGES => g.batch.max(1),
        _ => parts,
    }
}

/// Cost of tiles of three vectors, of which the last may have fewer.
fn tiles(vectors: usize) -> f64 {
    vectors as f64 + if vectors % 3 == 1 { NARROW } else { 0.0 }
}

impl Program {
    /// Cost for one group of one image, in multiply-adds of a vector.
    fn cost(&self) -> f64 {
        let lanes = max_lanes::<f32>();
        let (mut products, mut calls) = (0.0, 0);
        for pass in &self.passes {
            self.for_each_run(lanes, pass.count.map(|n| 0..n), &mut |run| {
                let len = (run.rows - 1) * self.planes.axes[2].len + run.cols;
                let apart = self.apart(pass, lanes, len);
                let vectors = tiles((len - apart).div_ceil(lanes)) + APART * apart as f64;
                products += pass.taps.len() as f64 * vectors;
                calls += 1;
            });
        }
        let copied = if self.planes.is_source() { 0 } else { self.planes.len() };
        self.rows as f64 * self.planes.channels as f64 * products
            + CALL * (self.rows.div_ceil(8) * calls) as f64
            + COPY * copied as f64
    }
}
