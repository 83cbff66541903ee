//! Padded planes: the source of a convolution, laid out so that every tap of a window is a constant shift.
//!
//! Each channel becomes a few planes with their zero padding written out. With a stride of `s` along an axis,
//! the windows at consecutive positions read every `s`-th element. So the axis is split into its `s` phases
//! (elements `f`, `f + s`, `f + 2s`, ...): within a phase, consecutive windows read consecutive elements, and
//! a tap is a phase and a shift. Phases that no tap reads are left out, so a 1x1 convolution of stride 2
//! copies a quarter of its input, and a dilated convolution copies only what it reads.
//!
//! The planes of [Winograd's tiles](super::winograd) begin at every column that a tile reads. Neighbouring
//! tiles overlap, so some elements are in two planes.

use super::plan::check_scratch;
use crate::error::Result;
use crate::stored::{Computing, Source};
use crate::walk::every;
use alloc::vec::Vec;
use flex_math::simd::{HasVectors, SQUARE, prefetch_far, transposed, vectorize_lean_with};

/// One spatial axis of the planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlaneAxis {
    /// Per phase, the source index of the plane's first element. Indices outside of the source are padding.
    pub starts: Vec<isize>,
    /// Distance in the source between neighbouring elements of a plane.
    pub step: usize,
    /// Elements of a plane.
    pub len: usize,
}

impl PlaneAxis {
    /// Source index of the plane's element `at`; `None` if the element is padding.
    #[inline(always)]
    fn source(&self, start: isize, at: usize, size: usize) -> Option<usize> {
        // Cannot overflow: the plan has checked that sizes leave room in `isize`.
        let index = start + (at * self.step) as isize;
        (0..size as isize).contains(&index).then_some(index as usize)
    }

    /// Range of the plane's elements that come from a source of this size; the elements outside of it are
    /// padding.
    pub fn inside(&self, start: isize, size: usize) -> core::ops::Range<usize> {
        let first = (-start).max(0) as usize;
        let end = (size as isize - start).max(0) as usize;
        let end = end.div_ceil(self.step).min(self.len);
        first.div_ceil(self.step).min(end)..end
    }
}

/// The planes of all channels of one group of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planes {
    pub axes: [PlaneAxis; 3],
    pub source: [usize; 3],
    pub channels: usize,
}

impl Planes {
    /// # Errors
    /// Planes that memory cannot address.
    pub fn check(&self, op: &'static str) -> Result<()> {
        let [d, h, w] = &self.axes;
        let phases = [d.starts.len(), h.starts.len(), w.starts.len()];
        check_scratch(op, &[self.channels, phases[0], phases[1], phases[2], d.len, h.len, w.len]).map(|_| ())
    }

    /// Elements of one plane.
    pub fn plane_len(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// Planes of a channel.
    pub fn phases(&self) -> usize {
        self.axes.iter().map(|axis| axis.starts.len()).product()
    }

    /// Elements of all planes of a channel.
    pub fn channel_len(&self) -> usize {
        self.plane_len() * self.phases()
    }

    /// Elements of all planes.
    pub fn len(&self) -> usize {
        self.channels * self.channel_len()
    }

    /// Elements of the source that the planes are copied from.
    pub fn source_len(&self) -> usize {
        self.channels * self.source.iter().product::<usize>()
    }

    /// Whether the planes equal the source, so that no copy is needed.
    pub fn is_source(&self) -> bool {
        self.axes
            .iter()
            .zip(self.source)
            .all(|(axis, size)| axis.starts == [0] && (axis.step == 1 || axis.len == 1) && axis.len == size)
    }

    /// Position, from the start of a channel, of element `(d, h, w)` of the plane with phases `phase`.
    pub fn position(&self, phase: [usize; 3], at: [usize; 3]) -> usize {
        let [_, h, w] = &self.axes;
        let plane = (phase[0] * h.starts.len() + phase[1]) * w.starts.len() + phase[2];
        plane * self.plane_len() + (at[0] * h.len + at[1]) * w.len + at[2]
    }

    /// Writes the planes `dst` of consecutive channels of `src`.
    ///
    /// # Panics
    /// Panics if the slices do not hold the same number of whole channels.
    pub fn pack<A: Computing>(&self, src: Source<'_>, dst: &mut [A]) {
        let size: usize = self.source.iter().product();
        if size == 0 {
            return dst.fill(A::ZERO);
        }
        let channel = self.channel_len().max(1);
        assert_eq!(src.len() / size, dst.len() / channel, "conv: planes of another number of channels");
        let row = self.row();
        let mut room = Vec::new();
        crate::storage::grow(&mut room, self.room::<A>(src), A::ZERO);
        vectorize_lean_with(
            #[inline(always)]
            |vectors| {
                for (k, dst) in dst.chunks_exact_mut(channel).enumerate() {
                    if let Some(values) = src.values::<A>()
                        && size_of_val(&values[..size]) <= FETCHED
                    {
                        let next = values.as_ptr().wrapping_add((k + 1) * size);
                        prefetch_far(next.cast(), size * size_of::<A>());
                    }
                    match (&row, self.axes[2].step) {
                        (Some(row), 2) if vectors => {
                            self.part_channel::<A, 2>(src, k * size, dst, row, &mut room)
                        }
                        (Some(row), _) if vectors => {
                            self.part_channel::<A, 4>(src, k * size, dst, row, &mut room)
                        }
                        _ => self.pack_channel(src, k * size, dst, &mut room, vectors),
                    }
                }
            },
        );
    }

    /// Elements of the rows that [`pack`](Self::pack) works with.
    pub fn room<A: Computing>(&self, src: Source<'_>) -> usize {
        match self.row() {
            Some(row) => (self.axes[1].starts.len() * row.len).max(self.source[2]),
            None if src.values::<A>().is_none() && self.axes[2].step > 1 => self.source[2],
            None => 0,
        }
    }

    /// The row that holds the elements that all phases of the last axis read from a row of the source, if the
    /// phases begin at neighbouring elements. Only where there are vectors, which take it apart.
    fn row(&self) -> Option<PaddedRow> {
        HasVectors::here()?;
        let w = &self.axes[2];
        let &[first, .., last] = &w.starts[..] else { return None };
        let neighbours = w.starts.windows(2).all(|pair| pair[1] == pair[0] + 1);
        // Where each element is in one plane at most, it is faster to read long rows from the source.
        if !neighbours || !matches!(w.step, 2 | 4) || w.starts.len() <= w.step {
            return None;
        }
        let len = w.step * w.len.next_multiple_of(BLOCK) + w.starts.len();
        // Cannot overflow: the plan has checked that sizes leave room in `isize`.
        let (from, to) = (first.max(0), (last + (w.len * w.step) as isize).min(self.source[2] as isize));
        Some(if from < to {
            PaddedRow { len, at: (from - first) as usize, source: from as usize..to as usize }
        } else {
            PaddedRow { len, at: 0, source: 0..0 }
        })
    }

    /// Writes the planes of the channel whose first element is number `base` of `src`.
    #[inline(always)]
    fn pack_channel<A: Computing>(
        &self,
        src: Source<'_>,
        base: usize,
        dst: &mut [A],
        room: &mut [A],
        vectors: bool,
    ) {
        let [d, h, w] = &self.axes;
        let [size_d, size_h, size_w] = self.source;
        let values = src.values::<A>();
        let mut rows = dst.chunks_exact_mut(w.len);
        for &start_d in &d.starts {
            for &start_h in &h.starts {
                for &start_w in &w.starts {
                    let inside = w.inside(start_w, size_w);
                    let first = if inside.is_empty() {
                        0
                    } else {
                        (start_w + (inside.start * w.step) as isize) as usize
                    };
                    for at_d in 0..d.len {
                        for at_h in 0..h.len {
                            let Some(row) = rows.next() else { return };
                            let index = (d.source(start_d, at_d, size_d), h.source(start_h, at_h, size_h));
                            let (Some(index_d), Some(index_h)) = index else {
                                row.fill(A::ZERO);
                                continue;
                            };
                            let at = base + (index_d * size_h + index_h) * size_w;
                            row[..inside.start].fill(A::ZERO);
                            row[inside.end..].fill(A::ZERO);
                            let src = match values {
                                Some(values) => &values[at..][..size_w],
                                None if w.step == 1 => {
                                    let at = at + first;
                                    src.slice(at..at + inside.len()).read(&mut row[inside.clone()]);
                                    continue;
                                }
                                None => {
                                    let room = &mut room[..size_w];
                                    src.slice(at..at + size_w).read(room);
                                    &*room
                                }
                            };
                            gather(&src[first..], w.step, &mut row[inside.clone()], vectors);
                        }
                    }
                }
            }
        }
    }

    /// [`pack_channel`](Self::pack_channel) for phases that begin at neighbouring elements. The rows of a row
    /// of windows are copied between zeros, in the order of the source, and then taken apart: vectors that
    /// were just written cannot be read at another place at once.
    #[inline(always)]
    fn part_channel<A: Computing, const STEP: usize>(
        &self,
        src: Source<'_>,
        base: usize,
        dst: &mut [A],
        row: &PaddedRow,
        room: &mut [A],
    ) {
        let [d, h, w] = &self.axes;
        let [size_d, size_h, size_w] = self.source;
        let (values, plane_len) = (src.values::<A>(), self.plane_len());
        let group = plane_len * w.starts.len();
        for (&start_d, dst) in d.starts.iter().zip(dst.chunks_exact_mut(group * h.starts.len())) {
            for at_d in 0..d.len {
                let index_d = d.source(start_d, at_d, size_d);
                for at_h in 0..h.len {
                    let at =
                        |start| Some(base + (index_d? * size_h + h.source(start, at_h, size_h)?) * size_w);
                    for (&start, room) in h.starts.iter().zip(room.chunks_exact_mut(row.len)) {
                        let Some(at) = at(start) else { continue };
                        let inside = &mut room[row.at..][..row.source.len()];
                        let (from, end) = (at + row.source.start, at + row.source.end);
                        match values {
                            Some(values) => inside.copy_from_slice(&values[from..end]),
                            None => src.slice(from..end).read(inside),
                        }
                    }
                    let to = (at_d * h.len + at_h) * w.len;
                    let rooms = h.starts.iter().zip(room.chunks_exact(row.len));
                    for ((&start, room), planes) in rooms.zip(dst.chunks_exact_mut(group)) {
                        if at(start).is_some() {
                            self.part::<A, STEP>(room, planes, to);
                        } else {
                            planes.chunks_exact_mut(plane_len).for_each(|p| p[to..][..w.len].fill(A::ZERO));
                        }
                    }
                }
            }
        }
    }

    /// Writes the elements that the planes read of a row of the source, from element `to` of each plane on:
    /// every `STEP`-th element of `row`, which begins one element further for each plane. Later rows of the
    /// planes may be overwritten: blocks have a constant length, so that the compiler permutes whole vectors.
    #[inline(always)]
    fn part<A: Computing, const STEP: usize>(&self, row: &[A], planes: &mut [A], to: usize) {
        if const { STEP == SQUARE } {
            return self.part_squares(row, planes, to);
        }
        let w = &self.axes[2];
        let planes = planes.chunks_exact_mut(self.plane_len()).take(w.starts.len());
        for (phase, plane) in planes.enumerate() {
            let plane = &mut plane[to..];
            for at in (0..w.len).step_by(BLOCK) {
                let from = &row[phase + at * STEP..][..BLOCK * STEP];
                let block: [A; BLOCK] = core::array::from_fn(|i| from[i * STEP]);
                let to = &mut plane[at..];
                if let Some(to) = to.first_chunk_mut() {
                    *to = block;
                    continue;
                }
                for (to, from) in to.iter_mut().zip(from.iter().step_by(STEP)) {
                    *to = *from;
                }
            }
        }
    }

    /// [`part`](Self::part) for a step of [`SQUARE`]: four elements of four planes at a time. The planes of
    /// 256 channels at 14x14 take 80 us, and element by element 110 (one thread of Zen 4).
    #[inline(always)]
    fn part_squares<A: Computing>(&self, row: &[A], planes: &mut [A], to: usize) {
        let (w, len) = (&self.axes[2], self.plane_len());
        for first in (0..w.starts.len()).step_by(SQUARE) {
            for at in (0..w.len).step_by(SQUARE) {
                let from = row[first + at * SQUARE..].as_chunks().0.first_chunk().expect("whole squares");
                let columns: [[A; SQUARE]; SQUARE] = transposed(*from);
                for (k, column) in columns.iter().enumerate().take(w.starts.len() - first) {
                    let to = &mut planes[(first + k) * len..][..len][to + at..];
                    match to.first_chunk_mut() {
                        Some(to) => *to = *column,
                        None => to.copy_from_slice(&column[..to.len()]),
                    }
                }
            }
        }
    }
}

/// Elements that [`part`](Planes::part) writes at a time. Planes of tiles of 14x14 and 28x28 have rows of 4
/// and 7 elements.
const BLOCK: usize = 8;

/// The most bytes of a channel for which the next one is fetched: processors foresee long runs of memory
/// only. A layer of 256 channels at 14x14 takes 0.90 ms instead of 0.98 (Zen 4, one image).
const FETCHED: usize = 32 * 1024;

/// A row of the source with its padding: the elements that come from the source, and their place among zeros.
struct PaddedRow {
    len: usize,
    at: usize,
    source: core::ops::Range<usize>,
}

/// `dst[i] = src[i * step]`.
#[inline(always)]
fn gather<A: Copy>(src: &[A], step: usize, dst: &mut [A], vectors: bool) {
    let len = dst.len();
    match step {
        _ if len == 0 => {}
        // Rows of interleaved images: copies of constant lengths, without calls.
        1 if len == 8 => *dst.first_chunk_mut::<8>().expect("8") = *src.first_chunk().expect("8"),
        1 if len == 16 => *dst.first_chunk_mut::<16>().expect("16") = *src.first_chunk().expect("16"),
        1 => dst.copy_from_slice(&src[..len]),
        2 if vectors => every::<A, 2>(src, dst),
        4 if vectors => every::<A, 4>(src, dst),
        _ => {
            for (d, s) in dst.iter_mut().zip(src.iter().step_by(step)) {
                *d = *s;
            }
        }
    }
}
