//! From strided operands to the runs that kernels get.
//!
//! The output is one flat run, cut into chunks of fixed size. Within a chunk, an operand is a slice of the
//! same length or one element if its layout allows; otherwise the kernel runs row by row if its rows allow;
//! otherwise the operand is gathered into a contiguous block first, small enough to stay in the cache.

use super::kernel::{self, Kernel, RowBatch, RowSrc, Src};
use crate::layout::{Layout, Strides, stretched_stride};
use crate::parallel::thresholds::TASK_ELEMENTWISE_BYTES;
use crate::parallel::{self, Work};
use crate::small::collected;
use crate::storage;
use crate::walk::{Axis, Walk, copy_to_contiguous};
use crate::{Bytes, Element};
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::CACHE_LINE;
use smallvec::SmallVec;

/// Shortest row that a kernel gets; operands with shorter rows are gathered into blocks.
const MIN_ROW: usize = 16;

/// Rows up to this length are passed to the kernel many at a time. Adding a row to a matrix of 256 columns
/// took 8.0 us for 65,536 elements with a call per row, and takes 3.4.
const MAX_SHORT_ROW: usize = 4096;

/// Chunks may grow by this factor to use whole cache lines of a transposed operand. Four blocks of 256 KiB
/// still fit in a second-level cache of 1 MiB.
const MAX_GROWTH: usize = 4;

/// An operand of [`run`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RunOperand<'a> {
    bytes: &'a [u8],
    size: usize,
    kind: OperandLayout<'a>,
}

#[derive(Clone, Copy, Debug)]
enum OperandLayout<'a> {
    /// The operand lies in the output.
    Output,
    /// One element stands for all.
    Same,
    /// As many elements as the output, in the same order.
    Each,
    /// A layout over the bytes that broadcasts to the output's shape.
    Strided(&'a Layout),
}

impl<'a> RunOperand<'a> {
    pub(super) const OUTPUT: Self = RunOperand { bytes: &[], size: 0, kind: OperandLayout::Output };

    pub(super) fn same(bytes: &'a [u8]) -> Self {
        Self { bytes, size: bytes.len(), kind: OperandLayout::Same }
    }

    /// As many elements as the output, in the same order.
    pub(super) fn each(bytes: &'a [u8], size: usize) -> Self {
        Self { bytes, size, kind: OperandLayout::Each }
    }

    /// A layout over the bytes that broadcasts to the output's shape.
    pub(super) fn strided(bytes: &'a [u8], size: usize, layout: &'a Layout) -> Self {
        Self { bytes, size, kind: OperandLayout::Strided(layout) }
    }

    /// Elements `range` of an operand that is not strided.
    fn run(&self, range: Range<usize>) -> Src<'a> {
        match self.kind {
            OperandLayout::Output => Src::Out,
            OperandLayout::Same => Src::Same(self.bytes),
            _ => Src::Each(&self.bytes[range.start * self.size..range.end * self.size]),
        }
    }

    fn is_strided(&self) -> bool {
        matches!(self.kind, OperandLayout::Strided(_))
    }
}

/// Computes `out`, whose elements of `size` bytes have the layout `layout`, from operands that broadcast to
/// its shape.
pub(super) fn run<const N: usize>(
    kernel: &dyn Kernel<N>,
    out: &mut [u8],
    size: usize,
    layout: &Layout,
    operands: [RunOperand<'_>; N],
    work: Work,
) {
    if !operands.iter().any(RunOperand::is_strided) {
        return run_flat(kernel, out, size, &operands, work);
    }
    let offsets = operands.map(|o| match o.kind {
        OperandLayout::Strided(layout) => layout.offset(),
        _ => 0,
    });
    let walk = Walk::following(layout, offsets, |n, axis| match operands[n].kind {
        OperandLayout::Strided(from) => stretched_stride(from, layout.shape(), axis),
        OperandLayout::Same => 0,
        // These have the output's order in memory, whichever way its axes run.
        OperandLayout::Each | OperandLayout::Output => layout.strides()[axis],
    });
    let inner = walk.inner();
    let in_rows = (0..N).all(|n| !operands[n].is_strided() || matches!(inner.strides[n], 0 | 1));
    if in_rows && (inner.size >= MIN_ROW || walk.rows() == 1) {
        return if inner.size <= MAX_SHORT_ROW && walk.rows() > 1 {
            run_short_rows(kernel, out, size, &walk, &operands, work)
        } else {
            run_rows(kernel, out, size, &walk, &operands, work)
        };
    }
    run_gathered(kernel, out, size, &walk, &operands, work);
}

/// No operand is strided; there is at least one element.
pub(super) fn run_flat<const N: usize>(
    kernel: &dyn Kernel<N>,
    out: &mut [u8],
    size: usize,
    operands: &[RunOperand<'_>; N],
    work: Work,
) {
    let chunk = TASK_ELEMENTWISE_BYTES / size;
    parallel::for_each_chunk(out, chunk * size, work, |k, out| {
        let range = k * chunk..k * chunk + out.len() / size;
        kernel.run(out, core::array::from_fn(|n| operands[n].run(range.clone())));
    });
}

/// Within a row, every operand is a slice or one element, and the rows are short: the kernel gets many rows
/// at once.
fn run_short_rows<const N: usize>(
    kernel: &dyn Kernel<N>,
    out: &mut [u8],
    size: usize,
    walk: &Walk<N>,
    operands: &[RunOperand<'_>; N],
    work: Work,
) {
    let inner = walk.inner();
    let rows = (TASK_ELEMENTWISE_BYTES / size / inner.size).max(1);
    parallel::for_each_chunk(out, rows * inner.size * size, work, |k, out| {
        let range = k * rows..k * rows + out.len() / (inner.size * size);
        let mut starts = Vec::with_capacity(range.len());
        let flat = range.start * inner.size..range.end * inner.size;
        walk.for_each_row(range, |at| starts.push(at));
        let src = core::array::from_fn(|n| {
            let operand = &operands[n];
            match (operand.kind, inner.strides[n]) {
                (OperandLayout::Strided(_), 0) => RowSrc::Elements(operand.bytes, operand.size),
                (OperandLayout::Strided(_), _) => RowSrc::Slices(operand.bytes, operand.size),
                _ => match operand.run(flat.clone()) {
                    Src::Each(bytes) => RowSrc::Each(bytes, operand.size),
                    Src::Same(bytes) => RowSrc::Same(bytes),
                    Src::Out => RowSrc::Out,
                },
            }
        });
        kernel::run_rows(kernel, out, RowBatch { src, len: inner.size, starts: &starts });
    });
}

/// Within a row, every operand is a slice or one element.
fn run_rows<const N: usize>(
    kernel: &dyn Kernel<N>,
    out: &mut [u8],
    size: usize,
    walk: &Walk<N>,
    operands: &[RunOperand<'_>; N],
    work: Work,
) {
    let inner = walk.inner();
    let chunk = TASK_ELEMENTWISE_BYTES / size;
    parallel::for_each_chunk(out, chunk * size, work, |k, mut out| {
        let (start, end) = (k * chunk, k * chunk + out.len() / size);
        let mut row = start / inner.size;
        walk.for_each_row(row..end.div_ceil(inner.size), |at| {
            // The chunk may begin and end inside a row.
            let first = start.max(row * inner.size);
            let last = end.min((row + 1) * inner.size);
            let skip = first - row * inner.size;
            let (piece, rest) = core::mem::take(&mut out).split_at_mut((last - first) * size);
            out = rest;
            let src = core::array::from_fn(|n| {
                let operand = &operands[n];
                match (operand.kind, inner.strides[n]) {
                    (OperandLayout::Strided(_), 0) => {
                        Src::Same(&operand.bytes[at[n] * operand.size..][..operand.size])
                    }
                    (OperandLayout::Strided(_), _) => {
                        let from = (at[n] + skip) * operand.size;
                        Src::Each(&operand.bytes[from..from + (last - first) * operand.size])
                    }
                    _ => operand.run(first..last),
                }
            });
            kernel.run(piece, src);
            row += 1;
        });
    });
}

/// Gathers strided operands into contiguous blocks: per chunk, or at once if chunks would use only parts of
/// cache lines.
fn run_gathered<const N: usize>(
    kernel: &dyn Kernel<N>,
    out: &mut [u8],
    size: usize,
    walk: &Walk<N>,
    operands: &[RunOperand<'_>; N],
    work: Work,
) {
    let nests: [Nest; N] = core::array::from_fn(|n| Nest::of(walk, n));
    let is_local = |chunks: &GatherChunks, n: usize| {
        !operands[n].is_strided() || nests[n].is_local(chunks.len, CACHE_LINE / operands[n].size)
    };
    let mut chunks = GatherChunks::new(walk.axes(), TASK_ELEMENTWISE_BYTES / size);
    if !(0..N).all(|n| is_local(&chunks, n)) {
        let grown = GatherChunks::new(walk.axes(), MAX_GROWTH * TASK_ELEMENTWISE_BYTES / size);
        if (0..N).all(|n| is_local(&grown, n)) {
            chunks = grown;
        }
    }
    let whole: [Option<Bytes>; N] =
        core::array::from_fn(|n| (!is_local(&chunks, n)).then(|| nests[n].gather_all(&operands[n])));
    let operands: [RunOperand<'_>; N] = core::array::from_fn(|n| match &whole[n] {
        Some(block) => RunOperand::each(block, operands[n].size),
        None => operands[n],
    });
    // Operands whose elements are the same in every chunk are gathered once.
    let first = chunks.len.min(out.len() / size);
    let repeated: [Option<Bytes>; N] = core::array::from_fn(|n| {
        let repeats = operands[n].is_strided() && nests[n].repeats(chunks.axis);
        repeats.then(|| nests[n].gather(&operands[n], &chunks, 0, first))
    });
    parallel::for_each_chunk(out, chunks.len * size, work, |k, out| {
        let start = k * chunks.len;
        let range = start..start + out.len() / size;
        let blocks: [Option<Bytes>; N] = core::array::from_fn(|n| {
            let own = operands[n].is_strided() && repeated[n].is_none();
            own.then(|| nests[n].gather(&operands[n], &chunks, start, range.len()))
        });
        let src = core::array::from_fn(|n| match (&blocks[n], &repeated[n]) {
            (Some(block), _) => Src::Each(block),
            (_, Some(block)) => Src::Each(&block[..range.len() * operands[n].size]),
            _ => operands[n].run(range.clone()),
        });
        kernel.run(out, src);
    });
}

/// How the output is cut when operands are gathered: a chunk is several steps of one axis of the nest, or a
/// part of a row.
struct GatherChunks {
    len: usize,
    /// The axis whose steps make up a chunk.
    axis: usize,
    /// Elements per step of this axis.
    step: usize,
}

impl GatherChunks {
    fn new<const N: usize>(axes: &[Axis<N>], target: usize) -> Self {
        let (mut axis, mut step) = (axes.len() - 1, 1);
        while axis > 0 && step * axes[axis].size <= target {
            step *= axes[axis].size;
            axis -= 1;
        }
        Self { len: (target / step).max(1) * step, axis, step }
    }
}

/// One operand's axes, outermost first.
struct Nest {
    sizes: SmallVec<[usize; 6]>,
    strides: Strides,
    offset: usize,
}

impl Nest {
    fn of<const N: usize>(walk: &Walk<N>, n: usize) -> Self {
        Self {
            sizes: walk.axes().iter().map(|a| a.size).collect(),
            strides: collected(walk.axes().iter().map(|a| a.strides[n])),
            offset: walk.offsets()[n],
        }
    }

    /// Whether a chunk of `len` elements reads whole cache lines, of `neighbours` elements each: whether it
    /// spans enough steps of the axis with the smallest stride.
    fn is_local(&self, len: usize, neighbours: usize) -> bool {
        let moving = (0..self.sizes.len()).filter(|&k| self.strides[k] != 0 && self.sizes[k] > 1);
        let Some(unit) = moving.min_by_key(|&k| self.strides[k].unsigned_abs()) else {
            return true;
        };
        let step: usize = self.sizes[unit + 1..].iter().product();
        step * neighbours.min(self.sizes[unit]) <= len
    }

    /// Whether the operand is the same for all indices of the axes `0..=axis`.
    fn repeats(&self, axis: usize) -> bool {
        self.strides[..=axis].iter().zip(&self.sizes).all(|(&stride, &size)| stride == 0 || size == 1)
    }

    /// The whole operand, in the output's order.
    fn gather_all(&self, operand: &RunOperand<'_>) -> Bytes {
        let count: usize = self.sizes.iter().product();
        let mut block = storage::alloc(count * operand.size);
        let layout = Layout::new(self.sizes.iter().copied().collect(), self.strides.clone(), self.offset);
        copy(operand, &layout, &mut block);
        block
    }

    /// The `len` elements from `start` on; `start` is the start of a chunk.
    fn gather(&self, operand: &RunOperand<'_>, chunks: &GatherChunks, start: usize, len: usize) -> Bytes {
        let mut block = storage::alloc(len * operand.size);
        let GatherChunks { axis, step, .. } = *chunks;
        // Steps of the chunk's axis, split where that axis ends and the next outer axis advances.
        let (mut at, end) = (start / step, (start + len) / step);
        let mut rest: &mut [u8] = &mut block;
        while at < end {
            let here = at % self.sizes[axis];
            let steps = (self.sizes[axis] - here).min(end - at);
            let mut offset = self.offset.wrapping_add_signed(here as isize * self.strides[axis]);
            let mut outer = at / self.sizes[axis];
            for k in (0..axis).rev() {
                offset = offset.wrapping_add_signed((outer % self.sizes[k]) as isize * self.strides[k]);
                outer /= self.sizes[k];
            }
            let sizes = core::iter::once(steps).chain(self.sizes[axis + 1..].iter().copied()).collect();
            let layout = Layout::new(sizes, self.strides[axis..].into(), offset);
            let (piece, tail) = rest.split_at_mut(steps * step * operand.size);
            copy(operand, &layout, piece);
            rest = tail;
            at += steps;
        }
        block
    }
}

/// [`copy_to_contiguous`] by element size.
fn copy(operand: &RunOperand<'_>, layout: &Layout, out: &mut [u8]) {
    fn typed<T: Element>(src: &[u8], layout: &Layout, out: &mut [u8]) {
        let (src, out): (&[T], &mut [T]) = (bytemuck::cast_slice(src), bytemuck::cast_slice_mut(out));
        if let (&[rows, times], [1, 0]) = (layout.shape().as_slice(), layout.strides()) {
            // `[N, 1]` broadcast to `[N, 3]`: rows too short for a call each.
            let src = &src[layout.offset()..][..rows];
            return match times {
                2 => repeat::<T, 2>(src, out),
                3 => repeat::<T, 3>(src, out),
                4 => repeat::<T, 4>(src, out),
                _ => out.chunks_exact_mut(times).zip(src).for_each(|(row, &value)| row.fill(value)),
            };
        }
        copy_to_contiguous(src, layout, out);
    }
    fn repeat<T: Copy, const TIMES: usize>(src: &[T], out: &mut [T]) {
        for (row, &value) in out.as_chunks_mut::<TIMES>().0.iter_mut().zip(src) {
            *row = [value; TIMES];
        }
    }
    match operand.size {
        1 => typed::<u8>(operand.bytes, layout, out),
        2 => typed::<u16>(operand.bytes, layout, out),
        4 => typed::<u32>(operand.bytes, layout, out),
        8 => typed::<u64>(operand.bytes, layout, out),
        size => unreachable!("elements of {size} bytes"),
    }
}
