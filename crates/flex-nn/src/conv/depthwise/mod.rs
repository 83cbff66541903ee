//! Depthwise convolutions: each channel of the output has a kernel and a channel of the input of its own.
//!
//! There is nothing to sum over channels, so a multiply-add costs little beside the load of its window. A
//! tile of several rows of outputs reads each row of the planes once for three rows of the kernel: tiles of
//! seven rows and a kernel of 3x3 load 27 vectors for 63 multiply-adds. A task computes channel after
//! channel: it copies some rows of the input between zeros, into the first-level cache, and computes their
//! outputs. A transposed convolution, or the gradient of the input, with a stride has several passes, whose
//! outputs are put together for each channel.
//!
//! In f32 alone, and for halves, which are computed in f32: each type would be 110 KB more of machine code.

mod gradient;
mod padded;

use super::product::{Tap, max_lanes};
use super::program::{Pass, Program};
use super::run::{ConvOperands, product_work};
use crate::dtype::DType;
use crate::error::Result;
use crate::parallel::for_each_chunk;
use crate::parallel::thresholds::{CONV_TASKS, TASK_CONV_FLOPS, WHOLE_CONV_UNITS};
use crate::small::{collected, sort_by_key};
use crate::storage::{self, Finish, Scratch};
use crate::stored::{Computing, Source};
use core::ops::Range;
use flex_math::simd::{HasVectors, Scalar, Simd, Vector, WIDEST, WithSimd, load, store};
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

/// The most taps of a pass and the most passes, whose lists take memory that is not asked for in advance, and
/// the most elements of a channel's planes, so that no product of sizes overflows.
const MOST_TAPS: usize = 1024;
const MOST_PASSES: usize = 16;
const MOST_ELEMENTS: usize = 1 << 24;

/// Elements that are completed at a time by the operations that follow, while they are in the cache.
const FINISHED: usize = 4 * 1024;

/// A depthwise convolution.
pub(super) struct Depthwise<'a> {
    program: &'a Program,
    vectors: HasVectors,
    passes: SmallVec<[DepthwisePass; 1]>,
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

/// A pass: outputs of which each is computed from its window of the same taps.
struct DepthwisePass {
    blocks: SmallVec<[TapBlock; 4]>,
    /// Where the coefficients are, from the start of a channel's: block by block, column by column.
    coefficients: SmallVec<[usize; 32]>,
    /// Rows and columns.
    count: [usize; 2],
    /// The row and the column of the first output.
    first: [usize; 2],
    /// Distances of neighbouring rows and columns.
    step: [usize; 2],
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
    /// Whether this is a depthwise convolution with a window, over one or two axes. Over three axes, an
    /// output of depth 1 may have windows that are deeper than one plane.
    fn is_depthwise(&self) -> bool {
        self.planes.channels == 1
            && self.planes.axes[0].len == 1
            && self.rows == 1
            && self.out[0] == 1
            && self.turned.is_none()
            && self.is_complete()
            && self.passes.iter().map(|pass| pass.taps.len()).sum::<usize>() > 1
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
            Some(rows) if program.is_in_order() => {
                let phases = program.planes.phases();
                ((BAND / (rows.pitch * phases * HIGH * LOW)).max(1) * HIGH * LOW).min(high)
            }
            _ => high,
        };
        Some(Self::new(program, vectors, rows, band))
    }

    /// The proof that the level has vectors, if the program is a depthwise convolution that this module
    /// computes: what [`of`](Self::of) asks.
    pub fn pays(program: &Program, units: usize) -> Option<HasVectors> {
        let fits = units >= WHOLE_CONV_UNITS && program.is_depthwise() && program.out_len() > 0;
        let small = || {
            program.passes.iter().all(|pass| pass.taps.len() <= MOST_TAPS)
                && program.passes.len() <= MOST_PASSES
                && program.planes.channel_len() <= MOST_ELEMENTS
        };
        HasVectors::here().filter(|_| fits && small())
    }

    /// The convolution whose planes are written by `rows`, for `band` rows of outputs at a time.
    fn new(program: &'a Program, vectors: HasVectors, rows: Option<PaddedRows>, band: usize) -> Self {
        let planes = &program.planes;
        let [_, high, wide] = program.out;
        let [_, full, row_len] = [0, 1, 2].map(|k| planes.axes[k].len);
        let pitch = rows.as_ref().map_or(row_len, |rows| rows.pitch);
        let height = full - (high - band);
        // The place of a tap's window in the planes that a task holds.
        let place = |tap: &Tap| {
            let (plane, row) = (tap.p / planes.plane_len(), tap.p % planes.plane_len() / row_len);
            let start = rows.as_ref().map_or(0, |rows| rows.start(plane));
            Tap { p: start + (plane * height + row) * pitch + tap.p % row_len, ..*tap }
        };
        let pass = |pass: &Pass| {
            let mut taps: SmallVec<[Tap; 32]> = collected(pass.taps.iter().copied());
            sort_by_key(&mut taps, |tap| tap.p);
            let lines = taps.chunk_by(|a, b| a.p / row_len == b.p / row_len);
            let lines: SmallVec<[SmallVec<[Tap; 8]>; 8]> =
                collected(lines.map(|line| collected(line.iter().map(place))));
            let follows = |above: &SmallVec<[Tap; 8]>, below: &SmallVec<[Tap; 8]>| {
                above.len() == below.len() && above.iter().zip(below).all(|(a, b)| a.p + pitch == b.p)
            };
            let (mut blocks, mut coefficients) = (SmallVec::new(), SmallVec::new());
            for lines in lines.chunk_by(follows).flat_map(split) {
                let at = lines[0][0].p;
                let columns = collected(lines[0].iter().map(|tap| tap.p - at));
                blocks.push(TapBlock { at, rows: lines.len(), columns });
                for column in 0..lines[0].len() {
                    lines.iter().for_each(|line| coefficients.push(line[column].a));
                }
            }
            let [[_, count @ ..], [_, first @ ..], [_, step @ ..]] = [pass.count, pass.first, pass.step];
            DepthwisePass { blocks, coefficients, count, first, step }
        };
        let passes = collected(program.passes.iter().map(pass));
        let channels = if band == high { (BAND / (planes.phases() * height * pitch)).max(1) } else { 1 };
        Self { program, vectors, passes, pitch, height, out: [high, wide], band, channels, rows }
    }

    /// Elements that the outputs of all passes take apart from the output, if they are not in its order.
    fn apart(&self) -> usize {
        if self.program.is_in_order() { 0 } else { self.program.out_len() + 4 * WIDEST }
    }

    /// The most coefficients of a pass.
    fn most_coefficients(&self) -> usize {
        self.passes.iter().map(|pass| pass.coefficients.len()).max().unwrap_or(0)
    }

    /// Computes all units of `src` to `out`, in elements of the dtype. Passes the elements to `finish`.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn run(
        &self,
        op: &'static str,
        operands: &ConvOperands<'_, f32>,
        src: Source<'_>,
        (out, dtype): (&mut [u8], DType),
        finish: Option<Finish<'_>>,
    ) -> Result<()> {
        let (flops, unit) = (self.program.flops(), self.program.out_len());
        let bytes = unit * dtype.size();
        let units = out.len() / bytes;
        let per_task = TASK_CONV_FLOPS.div_ceil(flops.max(1)).min(units.div_ceil(CONV_TASKS)).max(1);
        let room = self.room().saturating_add(self.program.planes.room::<f32>(src));
        let room = room.saturating_add(self.channels * unit + self.most_coefficients() + 5 * WIDEST);
        let room = room.saturating_add(self.apart());
        storage::ensure_for_tasks(op, room.saturating_mul(size_of::<f32>()), units.div_ceil(per_task))?;
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
        let lead = self.rows.as_ref().map_or(0, |rows| rows.lead);
        (lead + self.program.planes.phases() * self.height * self.pitch).next_multiple_of(WIDEST)
    }

    /// Elements of the planes that a task holds, with those that the last tile reads after them.
    fn room(&self) -> usize {
        self.planes_len().saturating_mul(self.channels) + HIGH * self.pitch + 5 * max_lanes::<f32>()
    }
}

/// Cuts rows of taps into blocks of almost equal heights.
fn split<T>(lines: &[T]) -> impl Iterator<Item = &[T]> {
    let blocks = lines.len().div_ceil(TALL);
    let cut = move |k: usize| lines.len() * k / blocks;
    (0..blocks).map(move |k| &lines[cut(k)..cut(k + 1)])
}

/// The operands from which a task computes channels.
struct ChannelSource<'a> {
    depthwise: &'a Depthwise<'a>,
    operands: &'a ConvOperands<'a, f32>,
    /// The channels of all images.
    src: Source<'a>,
    dtype: DType,
    /// Whether the input is fetched ahead: it comes from memory.
    fetches: bool,
}

impl ChannelSource<'_> {
    /// Computes the channels whose outputs are `out`, from number `first` on.
    fn compute(&self, first: usize, out: &mut [u8], finish: Option<Finish<'_>>) {
        let &Self { depthwise, dtype, .. } = self;
        let &Depthwise { out: [high, wide], band, channels: held, vectors, .. } = depthwise;
        let (unit, len) = (high * wide, depthwise.planes_len());
        let mut planes = Scratch::<f32>::for_task(depthwise.room());
        let mut weight = Scratch::<f32>::for_task(depthwise.most_coefficients());
        let mut apart = Scratch::<f32>::for_task(depthwise.apart());
        let size = unit * dtype.size();
        let units = out.len() / size;
        // Halves are rounded from here. Vectors may reach over the end of a channel: the next one is computed
        // later, or there is room.
        let converts = dtype != DType::F32;
        let mut rounded = Scratch::<f32>::for_task(if converts { held * unit + 4 * WIDEST } else { 0 });
        let (mut at, mut finished) = (0, 0);
        while at < units {
            let end = units.min(at + held);
            let mut row = 0;
            while row < high {
                let rows = row..high.min(row + band);
                self.pack(first + at, rows.clone(), &mut planes[..(end - at) * len]);
                let out = &mut out[at * size..];
                let out: &mut [f32] = if converts { &mut rounded } else { bytemuck::cast_slice_mut(out) };
                vectors.dispatch(ChannelSums {
                    depthwise,
                    operands: self.operands,
                    numbers: first + at..first + end,
                    planes: &planes,
                    weight: &mut weight,
                    apart: &mut apart,
                    rows: rows.clone(),
                    out,
                });
                row = rows.end;
            }
            if converts {
                f32::narrow(dtype, &rounded[..(end - at) * unit], &mut out[at * size..end * size]);
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
    fn pack(&self, first: usize, rows: Range<usize>, to: &mut [f32]) {
        let &Depthwise { program, rows: ref padded, height, out: [high, _], band, vectors, .. } =
            self.depthwise;
        let (source, len) = (program.planes.source_len(), self.depthwise.planes_len());
        let src = self.src.slice(first * source..self.src.len());
        if let (Some(src), Some(padded)) = (src.values::<f32>(), padded) {
            let rows = if band < high { rows.start..rows.end + (height - band) } else { 0..height };
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
struct ChannelSums<'a> {
    depthwise: &'a Depthwise<'a>,
    operands: &'a ConvOperands<'a, f32>,
    /// The numbers of the channels, among the channels of all images.
    numbers: Range<usize>,
    /// The planes of the channels, for these rows.
    planes: &'a [f32],
    /// Room for the coefficients of a channel.
    weight: &'a mut [f32],
    /// Room for the outputs of all passes of a channel, if they are not in the order of the output.
    apart: &'a mut [f32],
    rows: Range<usize>,
    /// The outputs from the first channel on. The elements after them may be overwritten.
    out: &'a mut [f32],
}

impl WithSimd for ChannelSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { depthwise, operands, numbers, planes, weight, apart, rows, out } = self;
        let Depthwise { program, passes, out: [high, wide], .. } = depthwise;
        let len = depthwise.planes_len();
        for (k, number) in numbers.enumerate() {
            let group = number % operands.groups;
            let from = &operands.weight[group * program.coefficients.group..];
            let (planes, bias) = (&planes[k * len..], operands.bias[group]);
            let out = &mut out[(k * high + rows.start) * wide..];
            let mut start = 0;
            for pass in passes {
                for (to, &at) in weight.iter_mut().zip(&pass.coefficients) {
                    *to = from[at];
                }
                let (to, rows) = if apart.is_empty() {
                    (&mut *out, rows.len())
                } else {
                    (&mut apart[start..], pass.count[0])
                };
                let [high, wide] = pass.count;
                let sums = BandSums { pass, pitch: depthwise.pitch, planes, weight, bias, rows, wide };
                sums.write::<S>(to);
                start += high * wide;
            }
            if !apart.is_empty() {
                depthwise.gather(apart, out);
            }
        }
    }
}

impl Depthwise<'_> {
    /// Writes the outputs of all passes to their places.
    #[inline(always)]
    fn gather(&self, mut from: &[f32], out: &mut [f32]) {
        let [_, wide] = self.out;
        let mut passes = &self.passes[..];
        while let Some((pass, rest)) = passes.split_first() {
            passes = rest;
            let (values, left) = from.split_at(pass.count[0] * pass.count[1]);
            from = left;
            let rows = values.chunks_exact(pass.count[1]).enumerate();
            let at = |row: usize| (pass.first[0] + row * pass.step[0]) * wide;
            // Two passes that write every second column are written together.
            if let Some(other) = rest.first()
                && (pass.first[1], other.first[1], pass.step[1], other.step[1]) == (0, 1, 2, 2)
                && (pass.first[0], pass.step[0], pass.count[0])
                    == (other.first[0], other.step[0], other.count[0])
            {
                let (others, left) = from.split_at(other.count[0] * other.count[1]);
                (from, passes) = (left, &rest[1..]);
                for ((row, even), odd) in rows.zip(others.chunks_exact(other.count[1])) {
                    let (pairs, last) = out[at(row)..][..wide].as_chunks_mut::<2>();
                    pairs.iter_mut().zip(even.iter().zip(odd)).for_each(|(to, (a, b))| *to = [*a, *b]);
                    last.iter_mut().zip(even.last()).for_each(|(to, from)| *to = *from);
                }
                continue;
            }
            for (row, values) in rows {
                let to = out[at(row)..][..wide].iter_mut().skip(pass.first[1]).step_by(pass.step[1]);
                to.zip(values).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

/// The sums of some rows of outputs of a channel.
struct BandSums<'a> {
    pass: &'a DepthwisePass,
    /// Distance in the planes between the windows of neighbouring rows.
    pitch: usize,
    /// Windows of the first row lie where the pass says.
    planes: &'a [f32],
    weight: &'a [f32],
    bias: f32,
    /// Rows of outputs.
    rows: usize,
    /// Columns of outputs.
    wide: usize,
}

impl BandSums<'_> {
    /// Writes the rows to the start of `out`.
    #[inline(always)]
    fn write<S: Simd>(mut self, mut out: &mut [f32]) {
        let many_registers = const { size_of::<S::Register>() >= 64 };
        let width = if many_registers { 4 } else { 2 } * f32::lanes::<S>();
        // A single row would leave the other rows of a tile without use. It is cut into rows that are as wide
        // as a tile and follow each other in the planes, too. Taps of a block in several rows are a pitch
        // apart.
        let (mut left, pitch) = (self.rows * self.wide, self.pitch);
        if self.rows == 1 && self.wide > width && self.pass.blocks.iter().all(|block| block.rows == 1) {
            (self.rows, self.pitch, self.wide) = (self.wide / width, width, width);
        }
        loop {
            let mut col = 0;
            while col < self.wide {
                col += match (self.wide - col).div_ceil(f32::lanes::<S>()) {
                    1 => self.column::<S, HIGH, 1>(col, out),
                    2..=3 if many_registers => self.column::<S, HIGH, 2>(col, out),
                    _ if many_registers => self.column::<S, LOW, 4>(col, out),
                    _ => self.column::<S, LOW, 2>(col, out),
                };
            }
            let done = self.rows * self.wide;
            left -= done;
            if left == 0 {
                return;
            }
            // The rest of a row that was cut.
            (self.planes, out) = (&self.planes[done..], &mut out[done..]);
            (self.rows, self.pitch, self.wide) = (1, pitch, left);
        }
    }

    /// Writes `V` vectors of each row, from column `col` on, in tiles of `R` rows; returns the number of
    /// columns.
    #[inline(always)]
    fn column<S: Simd, const R: usize, const V: usize>(&self, col: usize, out: &mut [f32]) -> usize {
        let &Self { pitch, wide, .. } = self;
        let width = V * f32::lanes::<S>();
        // Tiles end with the row, unless they are longer.
        let col = col.min(wide.saturating_sub(width));
        let mut row = 0;
        while row < self.rows {
            let sums = self.tile::<S, R, V>(row * pitch + col);
            let out = &mut out[row * wide + col..];
            if row + R <= self.rows && (R - 1) * wide + width <= out.len() {
                // Elements after the end of a row are written later.
                for r in 0..R {
                    write_row(sums[r], &mut out[r * wide..]);
                }
            } else {
                let mut apart = [0.0; TILE];
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

    /// The sums of `R` rows of `V` vectors, whose windows begin `first` elements after the window of the
    /// first output.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&self, first: usize) -> [[Vector<S, f32>; V]; R] {
        let mut sums = [[self.bias.splat(); V]; R];
        let mut weight = self.weight;
        for block in &self.pass.blocks {
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
        mut sums: [[Vector<S, f32>; V]; R],
        block: &TapBlock,
        planes: &[f32],
        weight: &[f32],
    ) -> [[Vector<S, f32>; V]; R] {
        let lanes = f32::lanes::<S>();
        let pitch = self.pitch;
        for (&column, weight) in block.columns.iter().zip(weight.as_chunks::<K>().0) {
            let mut factors = [0f32.splat(); K];
            for k in 0..K {
                factors[k] = weight[k].splat();
            }
            for row in 0..R + K - 1 {
                let window = &planes[row * pitch + column..][..V * lanes];
                let mut vectors = [0f32.splat(); V];
                for v in 0..V {
                    vectors[v] = load::<S, f32>(&window[v * lanes..]);
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
fn write_row<S: Simd, const V: usize>(vectors: [Vector<S, f32>; V], to: &mut [f32]) {
    for v in 0..V {
        store(vectors[v], &mut to[v * f32::lanes::<S>()..]);
    }
}
