//! Runs a [`Program`]: packs planes, multiplies, and writes the outputs.
//!
//! Outputs are computed in *runs*: stretches of consecutive positions in the planes, for [`BLOCK_ROWS`]
//! channels at a time. A run may span several output rows: the positions between them (the padding at the end
//! of a row of the planes) are computed and dropped if that takes fewer vectors than a new run for each row.
//! Every output is summed over channels and taps in an order that follows from the shapes, whatever the
//! number of threads.

use super::depthwise::Depthwise;
use super::lowering::Lowered;
use super::planes::Planes;
use super::product::{BLOCK_ROWS, DotOperands, OutRows, dots, max_lanes, rows_of, slack, windows};
use super::program::{Pass, Program};
use crate::dtype::DType;
use crate::error::Result;
use crate::matmul::gemm::Threads;
use crate::parallel::thresholds::{
    CONV_TASKS, MANY_CONV_UNITS, PRODUCTS_PER_THREAD, TASK_CONV_FLOPS, TASK_CONV_ROWS, WHOLE_CONV_FLOPS,
    WHOLE_CONV_UNITS,
};
use crate::parallel::{self, Work, for_each_chunk};
use crate::storage::{Finish, Scratch};
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor, storage};
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::vectorize_lean;

/// Most positions of a run: eight rows of results take 32 KiB of f32.
const MAX_RUN: usize = 1008;
/// Elements of the planes that a run should touch: they fit into half of a 1 MiB second-level cache.
const RUN_ELEMENTS: usize = 96 * 1024;
/// Bytes of planes that are kept at a time. A convolution of four images of 3 MB each takes 8.3 ms of
/// processor time with 16 MiB and 6.2 ms with 4 MiB.
pub(super) const PLANES_BYTES: usize = 4 * 1024 * 1024;

/// Rows of outputs of at least this many bytes are completed by the operations that follow in parts of at
/// least [`FINISHED`] outputs, while these are in the first-level cache; shorter ones when their task ends.
const LONG_PIECE: usize = 8 * 1024;
const FINISHED: usize = 1024;

/// The most positions of a pointwise convolution that are computed apart from whole vectors. An image of 7x7
/// is three vectors and one position: from 512 to 2,048 channels it takes 0.96 ms instead of 1.24.
const MOST_APART: usize = 2;

/// The operands of a program.
#[derive(Clone, Copy)]
pub(super) struct ConvOperands<'a, A> {
    /// The coefficients, which lie as the program says.
    pub weight: &'a [A],
    /// One initial value per output channel of all groups.
    pub bias: &'a [A],
    pub groups: usize,
    /// The products of matrices that compute the passes; their coefficients are [sorted](Lowered::sorted).
    pub products: Option<Lowered<'a>>,
}

/// Computes the whole output, `[batch, groups, rows, spatial]`, from `src`, the source of the planes,
/// `[batch, groups, channels, spatial]`. Passes elements that are computed to `finish`.
pub(super) fn run<A: Computing>(
    op: &'static str,
    program: &Program,
    groups: usize,
    src: Source<'_>,
    weight: &[A],
    bias: &[A],
    shape: crate::Shape,
    dtype: DType,
    finish: Option<Finish<'_>>,
) -> Result<Tensor> {
    let unit_out = program.rows * program.out_len();
    let units = shape.num_elements() / unit_out.max(1);
    let mut blank = Blank::new(op, shape, dtype)?;
    let out = blank.bytes();
    if program.turned.is_some() {
        let rows = (2 * BLOCK_ROWS + 1).saturating_mul(program.out_len());
        storage::ensure_for_tasks(op, rows.saturating_mul(size_of::<A>()), usize::MAX)?;
    }
    if units == 0 || unit_out == 0 {
        return Ok(blank.finish());
    }
    if A::DTYPE == DType::F32
        && !weight.is_empty()
        && let Some(depthwise) = Depthwise::of(program, units, dtype != DType::F32)
    {
        let (weight, bias) = (bytemuck::cast_slice(weight), bytemuck::cast_slice(bias));
        let operands = ConvOperands { weight, bias, groups, products: None };
        depthwise.run(op, &operands, src, (out, dtype), finish)?;
        return Ok(blank.finish());
    }
    let flops = program.flops();
    let work = product_work(flops.saturating_mul(units), program.rows);
    let source = program.planes.source_len();
    let planes = program.planes.len();
    let direct = program.planes.is_source().then(|| src.values::<A>()).flatten();
    let unit_bytes = unit_out * dtype.size();
    // A product that writes outputs where they belong writes elements of the computing type alone.
    let lowered = Lowered::of(program, units / groups).filter(|_| !weight.is_empty());
    let lowered = lowered.filter(|lowered| A::DTYPE == dtype || !lowered.is_in_order());
    let sorted = lowered.map_or(Ok(None), |lowered| lowered.sorted(op, groups, weight))?;
    let weight = sorted.as_deref().unwrap_or(weight);
    let products = lowered.filter(|lowered| !lowered.is_in_order());
    if let Some(products) = products {
        storage::ensure_for_tasks(op, products.working_memory::<A>(), usize::MAX)?;
    }
    let operands = ConvOperands { weight, bias, groups, products };
    let lowered = lowered.filter(Lowered::is_in_order);
    let small = flops <= WHOLE_CONV_FLOPS && units >= WHOLE_CONV_UNITS || units >= MANY_CONV_UNITS;
    let kept = if direct.is_some() { 0 } else { planes * size_of::<A>() };
    if small || lowered.is_some() && is_by_unit(units) && kept <= PLANES_BYTES {
        let sinks = program.rows.saturating_mul(size_of::<Sink<'_>>());
        let copies = if direct.is_some() { 0 } else { planes.saturating_add(program.planes.room::<A>(src)) };
        let bytes = sinks.saturating_add(copies.saturating_mul(size_of::<A>()));
        storage::ensure_for_tasks(op, bytes, units)?;
        let per_task = TASK_CONV_FLOPS.div_ceil(flops.max(1)).min(units.div_ceil(CONV_TASKS)).max(1);
        for_each_chunk(out, per_task * unit_bytes, work, |task, out| {
            let mut scratch = Scratch::for_task(if direct.is_some() { 0 } else { planes + slack::<A>() });
            let mut temp = Scratch::for_task(BLOCK_ROWS * (MAX_RUN + slack::<A>()));
            if direct.is_none() {
                scratch[planes..].fill(A::ZERO);
            }
            for (k, out) in out.chunks_mut(unit_bytes).enumerate() {
                let unit = task * per_task + k;
                let p = match direct {
                    Some(src) => &src[unit * source..][..source],
                    None => {
                        program
                            .planes
                            .pack(src.slice(unit * source..(unit + 1) * source), &mut scratch[..planes]);
                        &scratch
                    }
                };
                if let Some(lowered) = lowered {
                    let out = bytemuck::cast_slice_mut(out);
                    lowered.multiply(&operands, unit, p, out, Threads::One, finish);
                    continue;
                }
                let part = ConvPart { unit, row: 0, band: 0..program.out[program.band_axis()] };
                program.multiply(&operands, p, &part, &mut [out], dtype, &mut temp, finish);
            }
        });
        return Ok(blank.finish());
    }
    let at_once = match direct {
        Some(_) => units,
        None => (PLANES_BYTES / (planes * size_of::<A>()).max(1)).clamp(1, units),
    };
    let mut scratch = Scratch::new(op, if direct.is_some() { 0 } else { at_once * planes + slack::<A>() })?;
    check_packing::<A>(op, &program.planes, src)?;
    // The lists of `split`: at most one band per row for each task that there is too few.
    let more = CONV_TASKS.saturating_mul(program.rows.max(TASK_CONV_ROWS));
    let pieces = at_once.saturating_mul(program.rows).saturating_add(more);
    storage::ensure(op, pieces.saturating_mul(2 * size_of::<&[u8]>()))?;
    for first in (0..units).step_by(at_once) {
        let count = at_once.min(units - first);
        if direct.is_none() {
            scratch[count * planes..].fill(A::ZERO);
            let src = src.slice(first * source..(first + count) * source);
            pack_all(&program.planes, src, &mut scratch[..count * planes]);
        }
        let out = &mut out[first * unit_bytes..][..count * unit_bytes];
        if let Some(lowered) = lowered {
            // Units one after the other, each on all threads.
            let p = direct.map_or(&scratch[..], |src| &src[first * source..]);
            let out: &mut [A] = bytemuck::cast_slice_mut(out);
            parallel::decide(work, |pays| {
                let threads = if pays { Threads::Pool } else { Threads::One };
                for (k, out) in out.chunks_exact_mut(unit_out).enumerate() {
                    lowered.multiply(&operands, first + k, &p[k * planes..], out, threads, finish);
                }
            });
            continue;
        }
        let mut tasks = split(program, first, out, dtype.size(), flops, products);
        for_each_chunk(&mut tasks, 1, work, |_, task| {
            let mut temp = Scratch::for_task(BLOCK_ROWS * (MAX_RUN + slack::<A>()));
            for (part, pieces) in task {
                let p = match direct {
                    Some(src) => &src[part.unit * source..][..source],
                    None => &scratch[(part.unit - first) * planes..],
                };
                program.multiply(&operands, p, part, pieces, dtype, &mut temp, finish);
            }
        });
    }
    Ok(blank.finish())
}

/// Whether there are so many images (times groups) that each is computed by one thread, and few threads idle
/// at the end. Threads that share an image read what the others wrote: eight images with 64 channels of
/// 56x56 and kernels of 3x3 took 3.7 ms on two threads (4.5 on one), and take 2.5; with 128 channels and a
/// stride of 2 they took 6.3 (9.3 on one), and take 4.7 (Zen 5).
pub(super) fn is_by_unit(units: usize) -> bool {
    units >= PRODUCTS_PER_THREAD * parallel::threads()
}

/// The [`Work`] of `flops` floating-point operations in one of the [products](super::product), of `rows` rows
/// in each group. Products run about 8 times as fast as the operations that [`Work`] is calibrated for: 280
/// GFLOP/s on one core with AVX-512. A product with one row, as in depthwise convolutions, loads much of what
/// it multiplies: 128 channels of 56x56 run at 50 GFLOP/s.
pub(super) fn product_work(flops: usize, rows: usize) -> Work {
    Work::Flops(if rows == 1 { flops } else { flops / 8 })
}

/// `Ok` if there is memory for [`pack_all`]: a row for each task, where rows are taken apart.
pub(super) fn check_packing<A: Computing>(op: &'static str, planes: &Planes, src: Source<'_>) -> Result<()> {
    storage::ensure_for_tasks(op, planes.room::<A>(src).saturating_mul(size_of::<A>()), usize::MAX)
}

/// Packs the planes of many images, with the channels in parallel.
pub(super) fn pack_all<A: Computing>(planes: &Planes, src: Source<'_>, dst: &mut [A]) {
    let source = planes.source.iter().product::<usize>();
    let channel = planes.channel_len();
    if dst.is_empty() {
        return;
    }
    let bytes = (source + channel) * size_of::<A>();
    let per_task = crate::parallel::rows_per_task(bytes);
    let work = Work::Bytes(bytes.saturating_mul(dst.len() / channel));
    for_each_chunk(dst, per_task * channel, work, |task, dst| {
        let (first, count) = (task * per_task, dst.len() / channel);
        planes.pack(src.slice(first * source..(first + count) * source), dst);
    });
}

/// Some rows (output channels) of one unit (a group of an image), limited to a band of the axis of
/// [`Program::band_axis`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConvPart {
    unit: usize,
    row: usize,
    band: Range<usize>,
}

/// A part and the memory of its outputs: one slice for all rows if the band is the whole axis, else one for
/// each row.
type Task<'a> = (ConvPart, Vec<&'a mut [u8]>);

/// Cuts the output of consecutive units, with elements of `element` bytes, into tasks.
fn split<'a>(
    program: &Program,
    first: usize,
    out: &'a mut [u8],
    element: usize,
    flops: usize,
    products: Option<Lowered<'_>>,
) -> Vec<Task<'a>> {
    let rows = program.rows;
    let axis = program.band_axis();
    let (out_bytes, size) = (program.out_len() * element, program.out[axis]);
    let units = out.len() / (rows * out_bytes);
    // Blocks of rows first: they share only the planes.
    let few = rows.div_ceil(CONV_TASKS).next_multiple_of(BLOCK_ROWS).min(TASK_CONV_ROWS);
    let most = |tasks: usize| CONV_TASKS.div_ceil(tasks).min(flops / tasks / TASK_CONV_FLOPS).max(1);
    let (block, band) = match products {
        // Bands first: windows are packed for all rows. A band has outputs of all passes.
        Some(products) => {
            let bands = most(units).min(products.most_bands());
            let blocks = most(units * bands).min(rows / TASK_CONV_ROWS).max(1);
            let steps = program.passes.iter().map(|pass| pass.step[axis]).max().unwrap_or(1);
            (rows.div_ceil(blocks), size.div_ceil(bands).next_multiple_of(steps))
        }
        None => (few, size.div_ceil(most(units * rows.div_ceil(few)).min(size))),
    };
    let band = if program.turned.is_some() { size } else { band };
    let (bands, tasks) = (size.div_ceil(band), units * rows.div_ceil(block));
    let inner = out_bytes / size;
    let mut list: Vec<Task<'a>> = storage::list(tasks * bands);
    for (k, unit) in out.chunks_mut(rows * out_bytes).enumerate() {
        for (b, channels) in unit.chunks_mut(block * out_bytes).enumerate() {
            let base = list.len();
            for start in (0..size).step_by(band) {
                let part =
                    ConvPart { unit: first + k, row: b * block, band: start..(start + band).min(size) };
                list.push((part, storage::list(if bands == 1 { 1 } else { block })));
            }
            if bands == 1 {
                list[base].1.push(channels);
                continue;
            }
            for channel in channels.chunks_mut(out_bytes) {
                for (piece, (_, pieces)) in channel.chunks_mut(band * inner).zip(&mut list[base..]) {
                    pieces.push(piece);
                }
            }
        }
    }
    list
}

/// A stretch of positions in the planes: `rows` rows of `cols` outputs, from output `(d, h, w)` of a pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    d: usize,
    h: usize,
    w: usize,
    pub rows: usize,
    pub cols: usize,
}

impl Program {
    /// The outermost axis with more than one output, which is cut into bands; the last axis if there is none.
    fn band_axis(&self) -> usize {
        self.out.iter().position(|&size| size > 1).unwrap_or(2)
    }

    /// Computes a part, and passes its outputs to `finish`. `p` holds the planes of the part's unit, `out`
    /// the memory of the outputs, as in a [`Task`].
    fn multiply<A: Computing>(
        &self,
        operands: &ConvOperands<'_, A>,
        p: &[A],
        part: &ConvPart,
        out: &mut [&mut [u8]],
        dtype: DType,
        temp: &mut [A],
        finish: Option<Finish<'_>>,
    ) {
        let size = self.out[self.band_axis()];
        let (len, inner) = (self.out_len(), self.out_len() / size);
        let piece = part.band.len() * inner * dtype.size();
        let rows = out.iter().map(|out| out.len()).sum::<usize>() / piece;
        let mut pieces: Vec<Sink<'_>> = storage::list(rows);
        for out in out.iter_mut() {
            pieces.extend(out.chunks_mut(piece).map(|out| Sink::new(out, dtype)));
        }
        let mut first = (part.unit * self.rows + part.row) * len + part.band.start * inner;
        let early = finish.filter(|_| {
            piece >= LONG_PIECE && self.turned.is_none() && self.is_in_order() && !operands.weight.is_empty()
        });
        match (self.turned, operands.products) {
            (Some(lanes), _) => self.multiply_turned(operands, p, part, &mut pieces, temp, lanes),
            (None, Some(products)) => {
                let band = (self.band_axis(), &part.band);
                products.multiply_passes(operands, (part.unit, part.row), p, band, &mut pieces);
            }
            (None, None) => {
                // Planes that stay in the cache are read again for each block of rows, so that the
                // coefficients of a block are read once for all passes. Otherwise a run stays in the cache.
                let by_rows = self.passes.len() > 1 && self.planes.len() <= RUN_ELEMENTS;
                let rows = if by_rows { BLOCK_ROWS } else { pieces.len().max(1) };
                for (k, pieces) in pieces.chunks_mut(rows).enumerate() {
                    let early = early.map(|finish| (finish, first + k * rows * len));
                    self.multiply_rows(operands, p, part, part.row + k * rows, pieces, temp, early);
                }
            }
        }
        if let (Some(finish), None) = (finish, early) {
            for out in out {
                finish(first, out);
                first += out.len() / piece * len;
            }
        }
    }

    /// Whether one pass computes all outputs in the order in which they lie.
    pub(super) fn is_in_order(&self) -> bool {
        self.is_complete() && self.passes.len() == 1 && self.passes[0].step == [1; 3]
    }

    /// Computes a part whose rows are turned.
    fn multiply_turned<A: Computing>(
        &self,
        operands: &ConvOperands<'_, A>,
        p: &[A],
        part: &ConvPart,
        pieces: &mut [Sink<'_>],
        temp: &mut [A],
        lanes: usize,
    ) {
        let len = self.out_len();
        let mut rows = Scratch::<A>::for_task(BLOCK_ROWS * len);
        let mut turned = Scratch::<A>::for_task(if pieces[0].values::<A>().is_some() { 0 } else { len });
        let parts = self.planes.channels / self.summed.max(1);
        let mut part_rows = Scratch::<A>::for_task(if parts > 1 { BLOCK_ROWS * len } else { 0 });
        for (k, pieces) in pieces.chunks_mut(BLOCK_ROWS).enumerate() {
            let row = part.row + k * BLOCK_ROWS;
            for summed in 0..parts {
                let target: &mut [A] = if summed == 0 { &mut rows } else { &mut part_rows };
                let channels = target.chunks_exact_mut(len).take(pieces.len());
                let mut sinks: Vec<Sink<'_>> = storage::list(pieces.len());
                sinks.extend(channels.map(|row| Sink::new(bytemuck::cast_slice_mut(row), A::DTYPE)));
                let first = summed * self.summed;
                let p = &p[first * self.planes.channel_len()..];
                let weight = &operands.weight[first * self.coefficients.channel..];
                self.multiply_rows(
                    &ConvOperands { weight, ..*operands },
                    p,
                    part,
                    row,
                    &mut sinks,
                    temp,
                    None,
                );
                if summed > 0 {
                    let used = pieces.len() * len;
                    add(&part_rows[..used], &mut rows[..used]);
                }
            }
            for (piece, row) in pieces.iter_mut().zip(rows.chunks_exact(len)) {
                match piece.values::<A>() {
                    Some(piece) => turn(row, lanes, piece),
                    None => {
                        turn(row, lanes, &mut turned);
                        piece.write(&turned);
                    }
                }
            }
        }
    }

    /// Computes the rows from `first` on of a part. `early` completes outputs while the others are computed,
    /// if the program [is in order](Self::is_in_order); it comes with the number of the first output.
    fn multiply_rows<A: Computing>(
        &self,
        operands: &ConvOperands<'_, A>,
        p: &[A],
        part: &ConvPart,
        first: usize,
        pieces: &mut [Sink<'_>],
        temp: &mut [A],
        early: Option<(Finish<'_>, usize)>,
    ) {
        let group = part.unit % operands.groups;
        let at_row = self.coefficients.row;
        let bias = &operands.bias[group * self.rows + first..][..pieces.len()];
        let empty = operands.weight.is_empty();
        if empty || !self.is_complete() {
            for (piece, &bias) in pieces.iter_mut().zip(bias) {
                piece.fill(bias);
            }
        }
        if empty {
            // Sums over no channels.
            return;
        }
        let weight = &operands.weight[group * self.coefficients.group..];
        let axis = self.band_axis();
        let band_start = part.band.start * self.out[axis + 1..].iter().product::<usize>();
        let ordered = self.is_in_order();
        let mut finished = 0;
        for pass in &self.passes {
            let mut ranges = pass.count.map(|n| 0..n);
            ranges[axis] = pass.within(axis, &part.band);
            self.for_each_run(max_lanes::<A>(), ranges, &mut |run| {
                let [_, pitch_h, pitch_w] = [0, 1, 2].map(|k| self.planes.axes[k].len);
                let base = (run.d * pitch_h + run.h) * pitch_w + run.w;
                let len = (run.rows - 1) * pitch_w + run.cols;
                let at = self.output(pass, [run.d, run.h, run.w]) - band_start;
                // Outputs that lie like the positions of the run are written where they belong.
                let in_place =
                    ordered && (run.rows == 1 || run.cols == pitch_w) && pieces[0].values::<A>().is_some();
                let apart = if in_place { self.apart(pass, max_lanes::<A>(), len) } else { 0 };
                for (k, pieces) in pieces.chunks_mut(BLOCK_ROWS).enumerate() {
                    let row = k * BLOCK_ROWS;
                    let (a, bias) = (&weight[(first + row) * at_row..], &bias[row..row + pieces.len()]);
                    if in_place {
                        let rows = pieces.iter_mut().filter_map(Sink::values::<A>);
                        let out = &mut rows.map(|row| &mut row[at..]).collect::<OutRows<'_, A>>();
                        windows(a, at_row, bias, p, &pass.terms, base, len - apart, out);
                        continue;
                    }
                    let pitch = len + slack::<A>();
                    let out = &mut rows_of(temp, pitch, pieces.len());
                    windows(a, at_row, bias, p, &pass.terms, base, len, out);
                    for (piece, values) in pieces.iter_mut().zip(out) {
                        let next = pass.step[1] * self.out[2];
                        let Some(piece) = piece.values::<A>() else {
                            for (r, values) in values.chunks(pitch_w).take(run.rows).enumerate() {
                                write_rounded(&values[..run.cols], piece, at + r * next, pass.step[2]);
                            }
                            continue;
                        };
                        for r in 0..run.rows {
                            let (values, out) = (&values[r * pitch_w..], &mut piece[at + r * next..]);
                            // If one pass writes all outputs in order, a short row may overwrite the
                            // following outputs.
                            if !(ordered && run.cols <= SHORT_ROW && write_short(values, out)) {
                                write(&values[..run.cols], out, pass.step[2]);
                            }
                        }
                    }
                }
                for n in len - apart..len {
                    let (p, a) = (&p[pass.taps[0].p + base + n..], &weight[first * at_row..]);
                    self.multiply_position(a, bias, p, at + n, pieces);
                }
                let Some((finish, first)) = early else { return };
                let end = at + (run.rows - 1) * self.out[2] + run.cols;
                if end - finished >= FINISHED || end == pieces[0].len() {
                    for (k, piece) in pieces.iter_mut().enumerate() {
                        let from = first + k * self.out_len() + finished;
                        finish(from, piece.part(finished..end).bytes());
                    }
                    finished = end;
                }
            });
        }
    }

    /// How many positions at the end of a run of `len` are computed by
    /// [`multiply_position`](Self::multiply_position): few, so that the others fill their vectors.
    pub(super) fn apart(&self, pass: &Pass, lanes: usize, len: usize) -> usize {
        // The coefficients of a row lie one after the other.
        let pointwise = pass.taps.len() == 1 && self.coefficients.channel == 1;
        let rest = len % lanes;
        if pointwise && rest <= MOST_APART && len > lanes && self.summed >= 2 * lanes { rest } else { 0 }
    }

    /// Computes output `at` of all pieces, for which the channels that are summed together are read at the
    /// first position of `p`, as dot products along the channels.
    fn multiply_position<A: Computing>(
        &self,
        a: &[A],
        bias: &[A],
        p: &[A],
        at: usize,
        pieces: &mut [Sink<'_>],
    ) {
        let channels = self.summed;
        let mut column = Scratch::<A>::for_task(channels);
        let values = p.iter().step_by(self.planes.channel_len());
        column.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
        const ROWS: usize = 64;
        for (k, pieces) in pieces.chunks_mut(ROWS).enumerate() {
            let (mut sums, mut offsets) = ([A::ZERO; ROWS], [0; ROWS]);
            let rows = pieces.len();
            offsets.iter_mut().enumerate().for_each(|(r, at)| *at = r * self.coefficients.row);
            sums[..rows].copy_from_slice(&bias[k * ROWS..][..rows]);
            let p = &a[k * ROWS * self.coefficients.row..];
            let (g, offsets) = (&column[..], &offsets[..rows]);
            let operands = DotOperands {
                g,
                g_row: 0,
                g_image: 0,
                p,
                p_image: 0,
                offsets,
                rows: 1,
                images: 1,
                len: channels,
            };
            dots(operands, &mut sums[..rows]);
            for (piece, sum) in pieces.iter_mut().filter_map(Sink::values::<A>).zip(sums) {
                piece[at] = sum;
            }
        }
    }

    /// Position in the output of the pass's output `at`.
    pub(super) fn output(&self, pass: &Pass, at: [usize; 3]) -> usize {
        let index = |k: usize| pass.first[k] + at[k] * pass.step[k];
        (index(0) * self.out[1] + index(1)) * self.out[2] + index(2)
    }

    /// Cuts a box of outputs into runs, for vectors of at most `lanes` elements.
    pub(super) fn for_each_run(&self, lanes: usize, [d, h, w]: [Range<usize>; 3], f: &mut dyn FnMut(Run)) {
        let max = (RUN_ELEMENTS / self.planes.channels.max(1)).clamp(192, MAX_RUN) / 48 * 48;
        let pitch = self.planes.axes[2].len;
        if w.is_empty() {
            return;
        }
        let rows = if w.len() < max { (1 + (max - w.len()) / pitch).min(h.len()).max(1) } else { 1 };
        let flat = ((rows - 1) * pitch + w.len()).div_ceil(lanes) <= rows * w.len().div_ceil(lanes);
        let rows = if flat { rows } else { 1 };
        for d in d {
            for h_start in h.clone().step_by(rows) {
                let rows = rows.min(h.end - h_start);
                let mut start = w.start;
                while start < w.end {
                    let rest = w.end - start;
                    // Two halves, the first of whole vectors, instead of a long run and a short rest.
                    let cols = match rest {
                        _ if rest <= max => rest,
                        _ if rest < 2 * max => (rest / 2).next_multiple_of(lanes),
                        _ => max,
                    };
                    f(Run { d, h: h_start, w: start, rows, cols });
                    start += cols;
                }
            }
        }
    }
}

impl Pass {
    /// Whether the outputs of the next pass lie one after the outputs of this one.
    pub(super) fn alternates_with(&self, next: &Self) -> bool {
        let after = [self.first[0], self.first[1], self.first[2] + 1];
        next.first == after && next.step == self.step && next.count == self.count && self.step[2] > 1
    }

    /// The range of the pass's outputs along `axis` that lie in a band.
    pub(super) fn within(&self, axis: usize, band: &Range<usize>) -> Range<usize> {
        let below =
            |end: usize| end.saturating_sub(self.first[axis]).div_ceil(self.step[axis]).min(self.count[axis]);
        below(band.start)..below(band.end)
    }
}

/// `to += from`.
fn add<A: Computing>(from: &[A], to: &mut [A]) {
    vectorize_lean(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, &from)| *to += from),
    );
}

/// Writes `src`, positions of `lanes` elements each, with the positions of an element as neighbours.
fn turn<A: Copy>(src: &[A], lanes: usize, dst: &mut [A]) {
    let positions = src.len() / lanes;
    match positions {
        1 => dst.copy_from_slice(src),
        // The usual kernels: loops of a constant length.
        9 => turn_all::<A, 9>(src, lanes, dst),
        25 => turn_all::<A, 25>(src, lanes, dst),
        _ => {
            for (lane, dst) in dst.chunks_exact_mut(positions).enumerate() {
                dst.iter_mut().zip(src[lane..].iter().step_by(lanes)).for_each(|(d, s)| *d = *s);
            }
        }
    }
}

/// [`turn`] for `N` positions.
fn turn_all<A: Copy, const N: usize>(src: &[A], lanes: usize, dst: &mut [A]) {
    let rows: [&[A]; N] = core::array::from_fn(|position| &src[position * lanes..][..lanes]);
    for (lane, dst) in dst.as_chunks_mut::<N>().0[..lanes].iter_mut().enumerate() {
        *dst = core::array::from_fn(|position| rows[position][lane]);
    }
}

/// Rows of at most this many elements are written by a copy of this constant length instead of a call: most
/// output rows of small images are that short.
const SHORT_ROW: usize = 16;

/// Copies the first [`SHORT_ROW`] elements of `values`; returns false if a slice is shorter.
#[inline(always)]
fn write_short<A: Copy>(values: &[A], dst: &mut [A]) -> bool {
    let (Some(dst), Some(values)) = (dst.first_chunk_mut::<SHORT_ROW>(), values.first_chunk()) else {
        return false;
    };
    *dst = *values;
    true
}

/// `dst[i * step] = values[i]`.
fn write<A: Copy>(values: &[A], dst: &mut [A], step: usize) {
    if step == 1 {
        dst[..values.len()].copy_from_slice(values);
    } else {
        for (d, v) in dst.iter_mut().step_by(step).zip(values) {
            *d = *v;
        }
    }
}

/// [`write`] from element `at` of `dst` on. Elements of 16 bits are rounded.
pub(super) fn write_at<A: Computing>(values: &[A], dst: &mut Sink<'_>, at: usize, step: usize) {
    match dst.values::<A>() {
        Some(dst) => write(values, &mut dst[at..], step),
        None => write_rounded(values, dst, at, step),
    }
}

/// [`write_at`] for elements of 16 bits.
fn write_rounded<A: Computing>(values: &[A], dst: &mut Sink<'_>, at: usize, step: usize) {
    if step == 1 {
        return dst.part(at..at + values.len()).write(values);
    }
    let mut room = [0u16; 64];
    for (k, values) in values.chunks(room.len()).enumerate() {
        let rounded = &mut room[..values.len()];
        dst.round(values, rounded);
        let all: &mut [u16] = bytemuck::cast_slice_mut(dst.bytes());
        write(rounded, &mut all[at + k * 64 * step..], step);
    }
}
