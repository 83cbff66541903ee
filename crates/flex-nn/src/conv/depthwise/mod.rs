//! Depthwise convolutions: each channel of the output has a kernel and a channel of the input of its own.
//!
//! There is nothing to sum over channels, so a multiply-add costs little beside the load of its window. A
//! tile of several rows of outputs reads each row of the planes once for three rows of the kernel: tiles of
//! seven rows and a kernel of 3x3 load 27 vectors for 63 multiply-adds. A task computes channel after
//! channel: it copies some rows of the input between zeros, into the first-level cache, and computes their
//! outputs.

mod gradient;
mod padded;

use super::element::Scratch;
use super::product::{Tap, max_lanes};
use super::program::Program;
use super::run::{ConvOperands, product_work};
use crate::dtype::DType;
use crate::error::Result;
use crate::float::Real;
use crate::parallel::for_each_chunk;
use crate::parallel::thresholds::{CONV_TASKS, TASK_CONV_FLOPS, WHOLE_CONV_UNITS};
use crate::storage::{self, Finish};
use crate::stored::{Computing, Source};
use core::ops::Range;
use flex_math::simd::{HasVectors, Simd, Vector, WIDEST, WithSimd, load, store};
use padded::{PaddedRows, WritePlanes};
use smallvec::SmallVec;

/// Most rows of a [block of taps](TapBlock). Their coefficients are in registers, and larger kernels are cut
/// into blocks, since each number of rows is a loop of its own.
const TALL: usize = 3;

/// Rows of a tile, where there are registers for them. Most images of networks have a multiple of 7 rows.
const HIGH: usize = 7;
/// Rows of other tiles.
const LOW: usize = 4;
/// Elements of the largest tile.
const TILE: usize = LOW * 4 * WIDEST;

/// Elements of the planes that a task holds at a time, about: half of a first-level cache of f32. With half
/// as many, and with half as many again, convolutions at 14x14, 28x28 and 56x56 take the same time within
/// 5 %.
const BAND: usize = 4 * 1024;

/// Least bytes of an input that is [fetched ahead](WritePlanes::fetches). An input of 5 MB, in the
/// third-level cache, takes 0.33 ms with it and 0.31 without.
const LEAST_FETCHED: usize = 8 * 1024 * 1024;

/// The most taps, which are listed in memory that nobody is asked for, and the most elements of a channel's
/// planes, so that no product of sizes overflows.
const MOST_TAPS: usize = 1024;
const MOST_ELEMENTS: usize = 1 << 24;

/// Elements that are completed at a time by the operations that follow, while they are in the cache.
const FINISHED: usize = 4 * 1024;

/// A depthwise convolution.
pub(super) struct Depthwise<'a> {
    program: &'a Program,
    vectors: HasVectors,
    blocks: SmallVec<[TapBlock; 4]>,
    /// Where the coefficients are, from the start of a channel's: block by block, column by column.
    coefficients: SmallVec<[usize; 32]>,
    /// Elements of a row of the planes.
    pitch: usize,
    /// Rows of each plane that a task holds at a time.
    height: usize,
    /// Rows and columns of the output.
    out: [usize; 2],
    /// Rows of outputs that are computed at a time.
    band: usize,
    /// Channels that are computed at a time. Vectors that were just written cannot be read at other places at
    /// once, so small planes are written several at a time.
    channels: usize,
    /// How rows of the planes are written; `None` if [`Planes::pack`] writes all planes of a channel.
    rows: Option<PaddedRows>,
}

/// Taps in neighbouring rows of the planes, with the same columns in each.
struct TapBlock {
    /// Position of the first tap's window.
    at: usize,
    /// At most [`TALL`].
    rows: usize,
    /// Distances of the taps of a row from its first tap.
    columns: SmallVec<[usize; 8]>,
}

impl Program {
    /// Whether this is a depthwise convolution with a window, over one or two axes.
    pub fn is_depthwise(&self) -> bool {
        self.planes.channels == 1
            && self.rows == 1
            && self.out[0] == 1
            && self.turned.is_none()
            && self.is_in_order()
            && self.passes[0].taps.len() > 1
    }
}

impl<'a> Depthwise<'a> {
    /// The convolution, if `units` images times channels of the program are one, and the level has vectors.
    /// `converts` tells that elements have to be converted to the computed type.
    pub fn of(program: &'a Program, units: usize, converts: bool) -> Option<Self> {
        let vectors = Self::pays(program, units)?;
        let rows = if converts { None } else { PaddedRows::of(&program.planes) };
        let high = program.out[1];
        let band = match &rows {
            // Whole tiles of either height.
            Some(rows) => {
                let phases = program.planes.channel_len() / program.planes.plane_len();
                ((BAND / (rows.pitch * phases * HIGH * LOW)).max(1) * HIGH * LOW).min(high)
            }
            None => high,
        };
        Some(Self::new(program, vectors, rows, band))
    }

    /// The proof that the level has vectors, if the program is a depthwise convolution that this module
    /// computes.
    fn pays(program: &Program, units: usize) -> Option<HasVectors> {
        let fits = units >= WHOLE_CONV_UNITS && program.is_depthwise() && program.out_len() > 0;
        let small =
            || program.passes[0].taps.len() <= MOST_TAPS && program.planes.channel_len() <= MOST_ELEMENTS;
        HasVectors::here().filter(|_| fits && small())
    }

    /// The convolution whose planes are written by `rows`, for `band` rows of outputs at a time.
    fn new(program: &'a Program, vectors: HasVectors, rows: Option<PaddedRows>, band: usize) -> Self {
        let planes = &program.planes;
        let [_, high, wide] = program.out;
        let [_, full, row_len] = [0, 1, 2].map(|k| planes.axes[k].len);
        let pitch = rows.as_ref().map_or(row_len, |rows| rows.pitch);
        let phases = planes.channel_len() / planes.plane_len();
        let height = full - (high - band);
        let mut taps: SmallVec<[Tap; 32]> = program.passes[0].taps.iter().copied().collect();
        taps.sort_unstable_by_key(|tap| tap.p);
        // Rows of the planes with their taps, at their places in the planes that a task holds.
        let mut lines: SmallVec<[SmallVec<[Tap; 8]>; 8]> = SmallVec::new();
        for line in taps.chunk_by(|a, b| a.p / row_len == b.p / row_len) {
            let (plane, row) = (line[0].p / planes.plane_len(), line[0].p % planes.plane_len() / row_len);
            let start = rows.as_ref().map_or(0, |rows| rows.start(plane));
            let at = start + (plane * height + row) * pitch;
            lines.push(line.iter().map(|tap| Tap { p: at + tap.p % row_len, ..*tap }).collect());
        }
        let follows = |above: &SmallVec<[Tap; 8]>, below: &SmallVec<[Tap; 8]>| {
            above.len() == below.len() && above.iter().zip(below).all(|(a, b)| a.p + pitch == b.p)
        };
        let (mut blocks, mut coefficients) = (SmallVec::new(), SmallVec::new());
        for lines in lines.chunk_by(follows).flat_map(split) {
            let at = lines[0][0].p;
            let columns = lines[0].iter().map(|tap| tap.p - at).collect();
            blocks.push(TapBlock { at, rows: lines.len(), columns });
            for column in 0..lines[0].len() {
                coefficients.extend(lines.iter().map(|line| line[column].a));
            }
        }
        let channels = if band == high { (BAND / (phases * height * pitch)).max(1) } else { 1 };
        let out = [high, wide];
        Self { program, vectors, blocks, coefficients, pitch, height, out, band, channels, rows }
    }

    /// Computes all units of `src` to `out`, in elements of the dtype. Passes the elements to `finish`.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn run<A: Computing>(
        &self,
        op: &'static str,
        operands: &ConvOperands<'_, A>,
        src: Source<'_>,
        (out, dtype): (&mut [u8], DType),
        finish: Option<Finish<'_>>,
    ) -> Result<()> {
        let (flops, unit) = (self.program.flops(), self.program.out_len());
        let bytes = unit * dtype.size();
        let units = out.len() / bytes;
        let per_task = TASK_CONV_FLOPS.div_ceil(flops.max(1)).min(units.div_ceil(CONV_TASKS)).max(1);
        let room = self.room::<A>().saturating_add(self.program.planes.room::<A>(src));
        let room = room.saturating_add(self.channels * unit + self.coefficients.len() + 5 * WIDEST);
        storage::ensure_for_tasks(op, room.saturating_mul(size_of::<A>()), units.div_ceil(per_task))?;
        let work = product_work(flops.saturating_mul(units), 1);
        let fetches = src.bytes().len() >= LEAST_FETCHED;
        let channels = ChannelSource { depthwise: self, operands, src, dtype, fetches };
        for_each_chunk(out, per_task * bytes, work, |task, out| {
            channels.compute(task * per_task, out, finish);
        });
        Ok(())
    }

    /// Elements that the planes of a channel take, in whole vectors.
    fn planes_len(&self) -> usize {
        let planes = &self.program.planes;
        let phases = planes.channel_len() / planes.plane_len();
        let lead = self.rows.as_ref().map_or(0, |rows| rows.lead);
        (lead + phases * self.height * self.pitch).next_multiple_of(WIDEST)
    }

    /// Elements of the planes that a task holds, with those that the last tile reads after them.
    fn room<A>(&self) -> usize {
        self.planes_len().saturating_mul(self.channels) + HIGH * self.pitch + 5 * max_lanes::<A>()
    }
}

/// Cuts rows of taps into blocks of almost equal heights.
fn split<T>(lines: &[T]) -> impl Iterator<Item = &[T]> {
    let blocks = lines.len().div_ceil(TALL);
    let cut = move |k: usize| lines.len() * k / blocks;
    (0..blocks).map(move |k| &lines[cut(k)..cut(k + 1)])
}

/// What a task computes channels from.
struct ChannelSource<'a, A> {
    depthwise: &'a Depthwise<'a>,
    operands: &'a ConvOperands<'a, A>,
    /// The channels of all images.
    src: Source<'a>,
    dtype: DType,
    /// Whether the input is fetched ahead: it comes from memory.
    fetches: bool,
}

impl<A: Computing> ChannelSource<'_, A> {
    /// Computes the channels whose outputs are `out`, from number `first` on.
    fn compute(&self, first: usize, out: &mut [u8], finish: Option<Finish<'_>>) {
        let &Self { depthwise, dtype, .. } = self;
        let &Depthwise { out: [high, wide], band, channels: held, vectors, .. } = depthwise;
        let (unit, len) = (high * wide, depthwise.planes_len());
        let mut planes = Scratch::<A>::for_task(depthwise.room::<A>());
        let mut weight = Scratch::<A>::for_task(depthwise.coefficients.len());
        let size = unit * dtype.size();
        let units = out.len() / size;
        // Halves are rounded from here. Vectors may reach over the end of a channel: the next one is computed
        // later, or there is room.
        let converts = dtype != A::DTYPE;
        let mut rounded = Scratch::<A>::for_task(if converts { held * unit + 4 * WIDEST } else { 0 });
        let (mut at, mut finished) = (0, 0);
        while at < units {
            let end = units.min(at + held);
            let mut row = 0;
            while row < high {
                let rows = row..high.min(row + band);
                self.pack(first + at, rows.clone(), &mut planes[..(end - at) * len]);
                let out = &mut out[at * size..];
                let out: &mut [A] = if converts { &mut rounded } else { bytemuck::cast_slice_mut(out) };
                vectors.dispatch(ChannelSums {
                    depthwise,
                    operands: self.operands,
                    numbers: first + at..first + end,
                    planes: &planes,
                    weight: &mut weight,
                    rows: rows.clone(),
                    out,
                });
                row = rows.end;
            }
            if converts {
                A::narrow(dtype, &rounded[..(end - at) * unit], &mut out[at * size..end * size]);
            }
            at = end;
            if let Some(finish) = finish
                && ((end - finished) * unit >= FINISHED || end == units)
            {
                finish((first + finished) * unit, &mut out[finished * size..end * size]);
                finished = end;
            }
        }
    }

    /// Writes the planes of channels, from number `first` on, that the `rows` of outputs read.
    fn pack(&self, first: usize, rows: Range<usize>, to: &mut [A]) {
        let &Depthwise { program, rows: ref padded, height, band, vectors, .. } = self.depthwise;
        let (source, len) = (program.planes.source_len(), self.depthwise.planes_len());
        let src = self.src.slice(first * source..self.src.len());
        if let (Some(src), Some(padded)) = (src.values::<A>(), padded) {
            let rows = rows.start..rows.end + (height - band);
            return vectors.dispatch(WritePlanes {
                padded,
                src,
                rows,
                height,
                fetches: self.fetches,
                to,
                len,
            });
        }
        for (k, to) in to.chunks_exact_mut(len).enumerate() {
            let src = src.slice(k * source..(k + 1) * source);
            program.planes.pack(src, &mut to[..program.planes.channel_len()]);
        }
    }
}

/// The sums of some rows of outputs of neighbouring channels.
struct ChannelSums<'a, A> {
    depthwise: &'a Depthwise<'a>,
    operands: &'a ConvOperands<'a, A>,
    /// The channels, of those of all images.
    numbers: Range<usize>,
    /// The planes of the channels, for these rows.
    planes: &'a [A],
    /// Room for the coefficients of a channel.
    weight: &'a mut [A],
    rows: Range<usize>,
    /// The outputs from the first channel on. The elements after them may be overwritten.
    out: &'a mut [A],
}

impl<A: Computing> WithSimd for ChannelSums<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { depthwise, operands, numbers, planes, weight, rows, out } = self;
        let Depthwise { program, coefficients, out: [high, wide], .. } = depthwise;
        let len = depthwise.planes_len();
        for (k, number) in numbers.enumerate() {
            let group = number % operands.groups;
            let from = &operands.weight[group * program.coefficients.group..];
            for (to, &at) in weight.iter_mut().zip(coefficients) {
                *to = from[at];
            }
            let (planes, bias) = (&planes[k * len..], operands.bias[group]);
            let sums = BandSums { depthwise, planes, weight, bias, rows: rows.len() };
            sums.write::<S>(&mut out[(k * high + rows.start) * wide..]);
        }
    }
}

/// The sums of some rows of outputs of a channel.
struct BandSums<'a, T> {
    depthwise: &'a Depthwise<'a>,
    /// Windows of the first row lie where the program says.
    planes: &'a [T],
    weight: &'a [T],
    bias: T,
    rows: usize,
}

impl<T: Real> BandSums<'_, T> {
    /// Writes the rows to the start of `out`.
    #[inline(always)]
    fn write<S: Simd>(&self, out: &mut [T]) {
        let many_registers = const { size_of::<S::Register>() >= 64 };
        let [_, wide] = self.depthwise.out;
        let mut col = 0;
        while col < wide {
            col += match (wide - col).div_ceil(T::lanes::<S>()) {
                1 => self.column::<S, HIGH, 1>(col, out),
                2..=3 if many_registers => self.column::<S, HIGH, 2>(col, out),
                _ if many_registers => self.column::<S, LOW, 4>(col, out),
                _ => self.column::<S, LOW, 2>(col, out),
            };
        }
    }

    /// Writes `V` vectors of each row, from column `col` on, in tiles of `R` rows; returns the number of
    /// columns.
    #[inline(always)]
    fn column<S: Simd, const R: usize, const V: usize>(&self, col: usize, out: &mut [T]) -> usize {
        let &Depthwise { pitch, out: [_, wide], .. } = self.depthwise;
        let width = V * T::lanes::<S>();
        // Tiles end with the row, unless they are longer.
        let col = col.min(wide.saturating_sub(width));
        let mut row = 0;
        while row < self.rows {
            let sums = self.tile::<S, R, V>(row * pitch + col);
            let out = &mut out[row * wide + col..];
            if row + R <= self.rows && (R - 1) * wide + width <= out.len() {
                // What lies after a row is written later.
                for r in 0..R {
                    write_row(sums[r], &mut out[r * wide..]);
                }
            } else {
                let mut apart = [T::ZERO; TILE];
                for r in 0..R {
                    write_row(sums[r], &mut apart[r * width..]);
                }
                for (r, sums) in apart.chunks_exact(width).take(self.rows - row).enumerate() {
                    let len = width.min(wide);
                    out[r * wide..][..len].copy_from_slice(&sums[..len]);
                }
            }
            row += R;
        }
        width
    }

    /// The sums of `R` rows of `V` vectors, whose windows begin `first` after those of the first output.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&self, first: usize) -> [[Vector<S, T>; V]; R] {
        let mut sums = [[self.bias.splat(); V]; R];
        let mut weight = self.weight;
        for block in &self.depthwise.blocks {
            let (these, rest) = weight.split_at(block.rows * block.columns.len());
            let planes = &self.planes[first + block.at..];
            sums = match block.rows {
                1 => self.add::<S, R, V, 1>(sums, block, planes, these),
                2 => self.add::<S, R, V, 2>(sums, block, planes, these),
                _ => self.add::<S, R, V, TALL>(sums, block, planes, these),
            };
            weight = rest;
        }
        sums
    }

    /// The sums with the terms of a block of `K` rows, whose windows begin at the start of `planes`.
    #[inline(always)]
    fn add<S: Simd, const R: usize, const V: usize, const K: usize>(
        &self,
        mut sums: [[Vector<S, T>; V]; R],
        block: &TapBlock,
        planes: &[T],
        weight: &[T],
    ) -> [[Vector<S, T>; V]; R] {
        let lanes = T::lanes::<S>();
        let pitch = self.depthwise.pitch;
        for (&column, weight) in block.columns.iter().zip(weight.as_chunks::<K>().0) {
            let mut factors = [T::ZERO.splat(); K];
            for k in 0..K {
                factors[k] = weight[k].splat();
            }
            for row in 0..R + K - 1 {
                let window = &planes[row * pitch + column..][..V * lanes];
                let mut vectors = [T::ZERO.splat(); V];
                for v in 0..V {
                    vectors[v] = load::<S, T>(&window[v * lanes..]);
                }
                for k in 0..K {
                    if (k..k + R).contains(&row) {
                        for v in 0..V {
                            sums[row - k][v] = vectors[v].mul_add(factors[k], sums[row - k][v]);
                        }
                    }
                }
            }
        }
        sums
    }
}

/// Writes vectors to the start of `to`.
#[inline(always)]
fn write_row<S: Simd, T: Real, const V: usize>(vectors: [Vector<S, T>; V], to: &mut [T]) {
    for v in 0..V {
        store(vectors[v], &mut to[v * T::lanes::<S>()..]);
    }
}
