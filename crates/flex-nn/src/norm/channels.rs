//! Cuts a tensor `[images, channels, pixels]` into tiles for reductions over its images and pixels, and runs
//! passes over the tiles.
//!
//! A tile holds the elements of neighbouring channels in some or all images, as runs of consecutive elements,
//! one per image. A run is processed in lines of equal length. A line holds whole rows of pixels, so a column
//! of the lines belongs to one channel. Hence lines are summed element by element (`columns.rs`), whether a
//! channel has 3,136 pixels in a row, 49 or one. The columns of a channel are added up at the end.
//!
//! If all elements of a channel are in one tile, the tile is summed and written by one task, while it is in
//! the second-level cache. Otherwise all tiles are summed first, the sums of each channel are joined in order,
//! and all tiles are written.

use super::columns::{CHUNK, LINES};
use super::rows::FLOPS_PER_ELEMENT;
use crate::error::Result;
use crate::float::Real;
use crate::stored::Sink;
use crate::{DType, Element, parallel, storage};
use alloc::vec::Vec;
use core::ops::Range;
use smallvec::{SmallVec, smallvec};

/// Most elements of a line: four rows of sums and constants of a line are 16 KiB of f32 and stay in the
/// first-level cache.
const LINE: usize = 1024;
/// Fewest elements of a line if a tile has fewer channels than a line has room for.
const SHORT_LINE: usize = 256;
/// Elements of a tile: 256 KiB of f32 in two tensors stay in the second-level cache.
const TILE: usize = 64 * 1024;
/// Lines that are summed before the sums are added to those of the channels, to reduce rounding errors. As
/// many as [`flex_math::sum`] adds.
const SUM_LINES: usize = 64;

/// Two numbers of a channel, such as mean and variance.
pub(super) type Pair = [f64; 2];

/// A tensor `[images, channels, pixels]` cut into tiles, which depend on the shape alone.
pub(super) struct Channels {
    /// Number of channels.
    count: usize,
    /// Number of images, or 1 if tiles have all channels: then all elements are one image.
    images: usize,
    /// Elements of an image.
    image: usize,
    /// Channels of a tile.
    group: usize,
    /// Elements of a group's channels in an image.
    slab: usize,
    /// Most elements of a run: a slab, or less.
    run: usize,
    /// Images of a tile.
    span: usize,
    /// Most elements of a line.
    line: usize,
    /// Consecutive columns of a channel.
    width: usize,
    /// Elements of a channel.
    samples: usize,
}

/// The length of the longest equal parts of whole vectors, or else of unequal ones, that a run is cut into.
fn equal_parts(run: usize) -> usize {
    let fewest = run.div_ceil(LINE);
    let equal = (fewest..=2 * fewest).find(|parts| run.is_multiple_of(parts * CHUNK));
    equal.map_or(run.div_ceil(fewest).next_multiple_of(CHUNK), |parts| run / parts)
}

/// Where a line is.
pub(super) struct Line {
    /// The number of its run in the tile.
    pub run: usize,
    /// Its elements in the run.
    pub inside: Range<usize>,
    /// Its elements in the tensor.
    pub place: Range<usize>,
}

/// What is computed of tiles. The output of a tile is one [`Sink`] per run.
pub(super) trait Pass: Sync {
    /// Computes the numbers of the channels of tile `k`. Without `tile`, the output is not there yet.
    fn sum(&self, k: usize, tile: Option<&[Sink<'_>]>, sums: &mut [Pair]);
    /// Combines the numbers `total` of `before` elements of a channel with those of `count` more.
    fn join(&self, total: &mut Pair, before: f64, sums: Pair, count: f64);
    /// Writes tile `k`, from the numbers of its channels.
    fn write(&self, k: usize, tile: &mut [Sink<'_>], totals: &[Pair]);
}

impl Channels {
    /// Cuts a tensor, which has elements and at least two axes.
    pub fn new(shape: &[usize]) -> Self {
        let (images, count) = (shape[0], shape[1]);
        let pixels: usize = shape[2..].iter().product();
        let samples = images * pixels;
        // Lines of whole vectors have no remainders.
        let step = CHUNK >> pixels.trailing_zeros().min(CHUNK.trailing_zeros());
        let whole = |channels: usize| if channels > step { channels / step * step } else { channels };
        let wide = whole(LINE / pixels).clamp(1, count);
        // As many channels as fill a tile, if that makes lines that are not too short.
        let narrow = wide.min(whole(TILE / samples));
        let group = if narrow * pixels >= SHORT_LINE { narrow } else { wide };
        let slab = group * pixels;
        if group == count {
            let image = images * slab;
            let unit = if count == 1 { 1 } else { slab };
            let [run, line] = [TILE, LINE].map(|most| (most / unit).max(1) * unit).map(|n| n.min(image));
            let width = if count == 1 { line } else { pixels };
            return Self { count, images: 1, image, group, slab: image, run, span: 1, line, width, samples };
        }
        let run = slab.min(TILE);
        let blocks = images.div_ceil((TILE / slab).max(1));
        let span = images.div_ceil(blocks);
        let line = if group == 1 { equal_parts(run) } else { slab };
        let width = if group == 1 { line } else { pixels };
        Self { count, images, image: count * pixels, group, slab, run, span, line, width, samples }
    }

    /// Number of elements of a channel.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The channels of tile `k`.
    pub fn of_tile(&self, k: usize) -> Range<usize> {
        let first = k / self.parts() % self.groups() * self.group;
        first..self.count.min(first + self.group)
    }

    /// Whether a tile has all elements of its channels.
    pub fn is_whole(&self) -> bool {
        self.span == self.images && self.run == self.slab
    }

    /// Number of runs that an image has of a group.
    fn parts(&self) -> usize {
        self.slab.div_ceil(self.run)
    }

    fn groups(&self) -> usize {
        self.count.div_ceil(self.group)
    }

    fn tiles(&self) -> usize {
        self.images.div_ceil(self.span) * self.groups() * self.parts()
    }

    /// The elements of the runs of tile `k`.
    fn runs(&self, k: usize) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let (parts, groups) = (self.parts(), self.groups());
        let (part, group, block) = (k % parts, k / parts % groups, k / parts / groups);
        let images = block * self.span..self.images.min((block + 1) * self.span);
        let end = self.image.min((group + 1) * self.slab);
        let start = group * self.slab + part * self.run;
        images.map(move |i| i * self.image + start..i * self.image + end.min(start + self.run))
    }

    /// Number of elements that each channel of tile `k` has in the tile.
    pub fn samples_of_tile(&self, k: usize) -> usize {
        self.runs(k).map(|run| run.len()).sum::<usize>() / self.of_tile(k).len()
    }

    /// The length of the lines of tile `k`, of which the last of a run may be shorter.
    pub fn line(&self, k: usize) -> usize {
        self.line.min(self.runs(k).next().map_or(0, |run| run.len()))
    }

    /// The lines of tile `k`.
    pub fn lines(&self, k: usize) -> impl Iterator<Item = Line> + use<'_> {
        self.runs(k).enumerate().flat_map(move |(run, range)| {
            (0..range.len()).step_by(self.line).map(move |start| {
                let inside = start..range.len().min(start + self.line);
                Line { run, place: range.start + inside.start..range.start + inside.end, inside }
            })
        })
    }

    /// Rows of columns, one row for each of the first `count` numbers of the channels of tile `k`.
    pub fn spread<F: Real>(&self, k: usize, numbers: &[[f64; 4]], count: usize) -> Vec<F> {
        let line = self.line(k);
        let mut rows = storage::room(count * line, F::ZERO);
        let period = line.min(numbers.len() * self.width);
        for (which, row) in rows.chunks_mut(line).enumerate() {
            for (columns, numbers) in row[..period].chunks_mut(self.width).zip(numbers) {
                columns.fill(F::from_f64(numbers[which]));
            }
            for start in (period..line).step_by(period) {
                row.copy_within(..period.min(line - start), start);
            }
        }
        rows
    }

    /// Lets `add` add lines of tile `k` to columns, [`LINES`] of equal length at a time or less, and adds the
    /// columns to the numbers `which` of the channels. There are as many rows of columns as numbers.
    pub fn sum<F: Real>(
        &self,
        k: usize,
        which: Range<usize>,
        sums: &mut [Pair],
        add: &mut dyn FnMut(&[Line], &mut [F]),
    ) {
        let mut columns = storage::room(which.len() * self.line(k), F::ZERO);
        let mut added = 0;
        let mut lines = self.lines(k).peekable();
        while let Some(first) = lines.next() {
            let len = first.place.len();
            let mut block: SmallVec<[Line; LINES]> = smallvec![first];
            while block.len() < LINES
                && let Some(line) = lines.next_if(|line| line.place.len() == len)
            {
                block.push(line);
            }
            add(&block, &mut columns);
            added += block.len();
            if added >= SUM_LINES || lines.peek().is_none() {
                self.fold(&mut columns, which.clone(), sums);
                added = 0;
            }
        }
    }

    /// Adds columns to the numbers of the channels, and sets them to zero.
    fn fold<F: Real>(&self, columns: &mut [F], which: Range<usize>, sums: &mut [Pair]) {
        let line = columns.len() / which.len();
        for (columns, which) in columns.chunks_mut(line).zip(which) {
            for columns in columns.chunks(sums.len() * self.width) {
                for (columns, sums) in columns.chunks(self.width).zip(sums.iter_mut()) {
                    sums[which] += match columns.len() {
                        ..32 => columns.iter().map(|x| Element::to_f64(*x)).sum::<f64>(),
                        _ => Element::to_f64(flex_math::sum(columns)),
                    };
                }
            }
            columns.fill(F::ZERO);
        }
    }

    /// The cost of a pass.
    fn work(&self) -> parallel::Work {
        parallel::Work::Flops(FLOPS_PER_ELEMENT * self.samples * self.count)
    }

    /// Computes the numbers of all channels where [`write`](Self::write) cannot, because a tile does not have
    /// all elements of its channels. `totals` are zeros at first.
    pub fn sum_parts(&self, op: &'static str, pass: &dyn Pass, totals: &mut [Pair]) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let mut sums = storage::try_room(op, self.tiles() * self.group, Pair::default())?;
        parallel::for_each_chunk(&mut sums, self.group, self.work(), |k, sums| {
            pass.sum(k, None, &mut sums[..self.of_tile(k).len()]);
        });
        let mut before = storage::try_room(op, self.groups(), 0.0)?;
        for (k, sums) in sums.chunks(self.group).enumerate() {
            let (channels, count) = (self.of_tile(k), self.samples_of_tile(k) as f64);
            let before = &mut before[channels.start / self.group];
            for (total, sums) in totals[channels].iter_mut().zip(sums) {
                pass.join(total, *before, *sums, count);
            }
            *before += count;
        }
        Ok(())
    }

    /// Writes all of the output `bytes`. If a tile has all elements of its channels, computes their numbers
    /// `totals` first.
    pub fn write(
        &self,
        op: &'static str,
        pass: &dyn Pass,
        bytes: &mut [u8],
        dtype: DType,
        totals: &mut [Pair],
    ) -> Result<()> {
        let mut runs = self.cut(op, bytes, dtype)?;
        if self.is_whole() {
            let work = self.work();
            parallel::for_each_chunk2(&mut runs, self.span, totals, self.group, work, |k, tile, totals| {
                pass.sum(k, Some(tile), totals);
                pass.write(k, tile, totals);
            });
        } else {
            parallel::for_each_chunk(&mut runs, self.span, self.work(), |k, tile| {
                pass.write(k, tile, &totals[self.of_tile(k)]);
            });
        }
        Ok(())
    }

    /// The runs of all tiles, tile by tile; a tile of fewer images has empty ones too.
    fn cut<'a>(&self, op: &'static str, bytes: &'a mut [u8], dtype: DType) -> Result<Vec<Sink<'a>>> {
        let (parts, groups) = (self.parts(), self.groups());
        let count = self.tiles() * self.span;
        let mut runs = storage::try_list(op, count)?;
        runs.extend((0..count).map(|_| Sink::new(&mut [], dtype)));
        for (i, image) in bytes.chunks_mut(self.image * dtype.size()).enumerate() {
            for (group, slab) in image.chunks_mut(self.slab * dtype.size()).enumerate() {
                for (part, run) in slab.chunks_mut(self.run * dtype.size()).enumerate() {
                    let k = (i / self.span * groups + group) * parts + part;
                    runs[k * self.span + i % self.span] = Sink::new(run, dtype);
                }
            }
        }
        Ok(runs)
    }
}
