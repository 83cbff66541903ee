//! Runs the steps of a program, tile by tile.

use super::MAX_LEAVES;
use super::pass::{FusedPass, PassRows};
use super::program::{Folding, Leaf, LeafForm, Place, RowPlace, Step, Target};
use super::stages::{PassPlace, Plan, Stage};
use crate::elementwise::kernel::Src;
use crate::movement::double;
use crate::parallel::thresholds::TASK_CHAIN_ELEMENTS;
use crate::small::collected;
use crate::storage::{Cut, PieceReduction, RunsOfPiece};
use crate::walk::Walk;
use crate::{Bytes, parallel, storage};
use core::ops::Range;
use flex_math::simd::prefetch_far;
use smallvec::SmallVec;

/// A tile of a leaf.
#[derive(Clone, Copy)]
pub(super) enum LeafTile<'a> {
    Each(&'a [u8]),
    Same(&'a [u8]),
    /// One element for each row of the tile.
    PerRow(&'a [u8]),
    /// One row for each row of the tile.
    SameRow(&'a [u8]),
    /// In this register, with elements of this size.
    Register(usize, usize),
}

/// The row results of a tile.
#[derive(Clone, Copy)]
pub(super) struct RowTile {
    /// The first row, counted from where outputs begin.
    first: usize,
    /// Number of rows.
    count: usize,
    /// Elements of a row.
    unit: usize,
    /// The rows of which passes [take one number each](ChainProgram::by_row).
    pub by_row: Option<PassRows>,
}

/// A row result as an operand of a step on all elements.
pub(super) enum RowNumbers<'a> {
    /// The result of the tile's only row.
    One(&'a [u8]),
    /// One number for each row.
    Each(&'a [u8]),
    /// In the register in which they are repeated along the rows.
    Spread,
}

impl RowTile {
    /// The bytes of row results, for each row of the tile.
    fn values<'a>(self, place: RowPlace, outs: &'a [&mut [u8]], registers: &'a [&mut [u8]]) -> &'a [u8] {
        let RowPlace { values, size, .. } = place;
        match values {
            Target::Register(register) => &registers[register][..self.count * size],
            Target::Output(output) => &outs[output][self.first * size..][..self.count * size],
        }
    }

    /// The row results of a tile for a step on all elements.
    pub(super) fn numbers<'a>(
        self,
        place: RowPlace,
        outs: &'a [&mut [u8]],
        registers: &'a [&mut [u8]],
    ) -> RowNumbers<'a> {
        match self.count {
            1 => RowNumbers::One(self.values(place, outs, registers)),
            _ if self.by_row.is_some() => RowNumbers::Each(self.values(place, outs, registers)),
            _ => RowNumbers::Spread,
        }
    }

    /// Repeats each row result along its row, where a step reads them so.
    fn spread(self, place: RowPlace, outs: &[&mut [u8]], registers: &mut [&mut [u8]]) {
        if self.count == 1 || self.by_row.is_some() {
            return;
        }
        let unit = self.unit;
        let spread = core::mem::take(&mut registers[place.spread]);
        let values = self.values(place, outs, registers);
        for (row, value) in spread.chunks_exact_mut(unit * place.size).zip(values.chunks_exact(place.size)) {
            fill_bytes(row, value);
        }
        registers[place.spread] = spread;
    }
}

impl Plan<'_> {
    /// Writes every element of the outputs, and folds pieces of the last output. If it is not stored, it has
    /// no place in `outputs`.
    pub(super) fn run_tiles(&self, outputs: &mut [Bytes], folding: Option<Folding<'_>>) {
        let program = self.program;
        let chunk = match &folding {
            Some(Folding { reduction, .. }) => match reduction.cut {
                Cut::Even(len) => len,
                Cut::Runs { of, longest } => {
                    return self.run_runs(folding.expect("it folds").reduction, of, longest);
                }
            },
            None => TASK_CHAIN_ELEMENTS.div_ceil(self.tile) * self.tile,
        };
        let outs = outputs.iter_mut().zip(&program.outputs);
        let mut outs: SmallVec<[(&mut [u8], usize); 4]> =
            collected(outs.map(|(out, form)| (&mut out[..], chunk / form.scale * form.size)));
        let range = |k: usize| k * chunk..((k + 1) * chunk).min(program.count);
        let Some(Folding { reduction: PieceReduction { partials, partial, fold, .. }, held }) = folding
        else {
            return parallel::for_each_chunks(&mut outs, program.work(), |k, outs| {
                self.run_range(range(k), outs);
            });
        };
        let size = program.outputs.last().expect("what is read").size;
        outs.push((partials, partial));
        parallel::for_each_chunks(&mut outs, program.work(), |k, outs| {
            let (partial, outs) = outs.split_last_mut().expect("the partial result");
            if held {
                self.run_range(range(k), outs);
                return fold(outs.last().expect("what is read"), partial);
            }
            let mut piece = storage::alloc(range(k).len() * size);
            let mut all: SmallVec<[&mut [u8]; 8]> = collected(outs.iter_mut().map(|out| &mut **out));
            all.push(&mut piece);
            self.run_range(range(k), &mut all);
            drop(all);
            fold(&piece, partial);
        });
    }

    /// [`run_tiles`](Self::run_tiles) for pieces that consist of several runs, of the only output, which is
    /// not stored.
    fn run_runs(&self, reduction: PieceReduction<'_>, of: &RunsOfPiece<'_>, longest: usize) {
        let PieceReduction { partials, partial, fold, .. } = reduction;
        let size = self.program.outputs[0].size;
        parallel::for_each_chunk(partials, partial, self.program.work(), |k, partial| {
            let mut piece = storage::alloc(longest * size);
            let mut end = 0;
            of(k, &mut |run| {
                let start = end;
                end += run.len() * size;
                self.run_range(run, &mut [&mut piece[start..end]]);
            });
            fold(&piece[..end], partial);
        });
    }

    /// Completes a piece of the only output, from element `first` on. A product of matrices hands over the
    /// rows of its parts, some hundred elements each, so a pass that needs nothing but leaves and the piece
    /// is run at once: ResNet-50's first convolution, of one image, and an addition to its 64 channels of
    /// 112x112 take 2.48 ms in place of 2.67 (one thread of Zen 4).
    pub(super) fn complete(&self, first: usize, piece: &mut [u8]) {
        let range = first..first + piece.len() / self.program.outputs[0].size;
        if let [Stage::Pass(route)] = &self.stages[..]
            && let Some(links) = route.links_to_output()
            && self.tile_end(range.start, range.end) == range.end
        {
            let rows = self.pass_rows(range.start).unwrap_or(PassRows::ONE);
            let (ahead, targets) = (self.ahead.unwrap_or(0), &mut [bytemuck::cast_slice_mut(piece)]);
            return FusedPass { links, first, rows, ahead, targets, streamed: None }.run();
        }
        self.run_range(range, &mut [piece]);
    }

    /// The rows of a tile that begins at `start`, if passes take one number for each.
    fn pass_rows(&self, start: usize) -> Option<PassRows> {
        let row = self.program.by_row?;
        let start = start % self.program.row;
        Some(PassRows { len: row, first: start / row, before: start % row })
    }

    /// Computes the elements `range` of the outputs, which are `outs`.
    fn run_range(&self, range: Range<usize>, outs: &mut [&mut [u8]]) {
        let program = self.program;
        let register = program.register_bytes(self.tile);
        let mut block =
            (!self.needs_no_registers(&range)).then(|| storage::alloc(register * program.registers));
        // A step that reads what was not written for its tile shows in the tests: pooled memory often holds
        // the same chain's registers.
        if cfg!(test) {
            block.iter_mut().for_each(|block| block.fill(0xA5));
        }
        let mut registers: SmallVec<[&mut [u8]; 8]> =
            collected(block.iter_mut().flat_map(|block| block.chunks_exact_mut(register)));
        let mut next = range.start;
        while next < range.end {
            let tile = next..self.tile_end(next, range.end);
            next = tile.end;
            self.run_tile(tile, range.start, outs, &mut registers);
        }
    }

    /// Computes the elements `range` of the outputs, of which `outs` holds those from `start` on.
    fn run_tile(
        &self,
        range: Range<usize>,
        start: usize,
        outs: &mut [&mut [u8]],
        registers: &mut [&mut [u8]],
    ) {
        let len = range.len();
        // Where the tile lies in the outputs of this task, of elements of a size, each for `scale` of the
        // chain.
        let here = |size: usize, scale: usize| {
            (range.start - start) / scale * size..(range.end - start) / scale * size
        };
        let (unit, by_row) = (self.program.unit, self.pass_rows(range.start));
        let rows = RowTile { first: (range.start - start) / unit, count: len / unit, unit, by_row };
        // A result that was computed since the chain was made is a leaf, so there may be more than at first.
        let mut leaves: SmallVec<[LeafTile<'_>; MAX_LEAVES]> = SmallVec::new();
        for (leaf, &buffer) in self.program.leaves.iter().zip(&self.buffers).filter(|_| !self.is_fixed) {
            leaves.push(match &leaf.form {
                LeafForm::Copied { output, register } => {
                    let from = &outs[*output][here(leaf.size, leaf.scale)];
                    registers[*register][..from.len()].copy_from_slice(from);
                    LeafTile::Register(*register, leaf.size)
                }
                _ => leaf.tile(buffer, range.clone(), rows, range.start == start, registers),
            });
        }
        let mut next_tile = None;
        for (k, stage) in self.stages.iter().enumerate() {
            let step = match stage {
                Stage::Pass(route) => {
                    let streams = self.streams && k + 1 == self.stages.len();
                    let ahead = self.ahead.unwrap_or(0);
                    let place = PassPlace { range: range.clone(), here: here(size_of::<f32>(), 1), rows };
                    route.run(place, ahead, streams, &leaves, outs, registers);
                    continue;
                }
                Stage::Step(step) => step,
            };
            if self.ahead.is_some() {
                let next_tile = next_tile.get_or_insert_with(|| self.next_tile(&range, start, outs));
                next_tile.prefetch(k, self.stages.len());
            }
            // The target is taken out of its list while the step runs, since the operands are in these lists.
            match step.target {
                Target::Register(register) => {
                    let target = core::mem::take(&mut registers[register]);
                    let out = &mut target[..len / step.scale * step.size];
                    step.run(out, &leaves, rows, here, outs, registers);
                    registers[register] = target;
                }
                Target::Output(output) => {
                    let target = core::mem::take(&mut outs[output]);
                    let out = &mut target[here(step.size, step.scale)];
                    step.run(out, &leaves, rows, here, outs, registers);
                    outs[output] = target;
                }
            }
            if let Some(place) = step.row_place() {
                rows.spread(place, outs, registers);
            }
        }
    }

    /// The memory of the tile after `range`, as long as that one, but for what passes fetch.
    fn next_tile(&self, range: &Range<usize>, start: usize, outs: &[&mut [u8]]) -> NextTile {
        let mut spans = [(core::ptr::null(), 0); 2 * MAX_LEAVES];
        let leaves = self.program.leaves.iter().zip(&self.buffers).enumerate();
        let flat = leaves
            .filter(|(k, (leaf, _))| matches!(leaf.form, LeafForm::Flat) && !self.fetched.leaves.contains(k));
        let flat = flat.map(|(_, (leaf, buffer))| {
            (buffer.as_ptr().wrapping_add(leaf.start()), leaf.size, leaf.scale, range.end)
        });
        let outputs = outs.iter().zip(&self.program.outputs).enumerate();
        let outputs = outputs.filter(|(k, _)| !self.fetched.outputs.contains(k));
        let outputs =
            outputs.map(|(_, (out, form))| (out.as_ptr(), form.size, form.scale, range.end - start));
        for (span, (at, size, scale, first)) in spans.iter_mut().zip(flat.chain(outputs)) {
            *span = (at.wrapping_add(first / scale * size), range.len() / scale * size);
        }
        NextTile(spans)
    }
}

/// Memory that the next tile reads or writes. It is prefetched while the steps of a tile run, a part per
/// step: most steps read registers, and memory would be idle meanwhile.
struct NextTile([(*const u8, usize); 2 * MAX_LEAVES]);

impl NextTile {
    /// Prefetches part `k` of `parts`.
    fn prefetch(&self, k: usize, parts: usize) {
        for &(at, len) in self.0.iter().take_while(|(_, len)| *len > 0) {
            let (first, end) = (len * k / parts, len * (k + 1) / parts);
            prefetch_far(at.wrapping_add(first), end - first);
        }
    }
}

impl Step {
    /// Computes one tile. `here` says where the tile lies in an output of elements of a given size, each for
    /// a given number of the chain's elements.
    fn run(
        &self,
        out: &mut [u8],
        leaves: &[LeafTile<'_>],
        rows: RowTile,
        here: impl Fn(usize, usize) -> Range<usize>,
        outs: &[&mut [u8]],
        registers: &[&mut [u8]],
    ) {
        let scale = self.operand_scale();
        let count = out.len() / self.size * (self.scale / scale);
        let tile = |register: usize, size: usize| Src::Each(&registers[register][..count * size]);
        let mut src = [Src::Out; 3];
        for (src, place) in src.iter_mut().zip(&self.src) {
            *src = match place {
                Place::Target => Src::Out,
                Place::Scalar(value) => Src::Same(value.as_slice()),
                Place::Register(register, size) => tile(*register, *size),
                Place::Output(output, size) => Src::Each(&outs[*output][here(*size, scale)]),
                Place::Row(place) => match rows.numbers(*place, outs, registers) {
                    RowNumbers::One(number) => Src::Same(number),
                    RowNumbers::Spread => tile(place.spread, place.size),
                    RowNumbers::Each(_) => unreachable!("passes alone read by row"),
                },
                Place::Leaf(leaf) => match leaves[*leaf] {
                    LeafTile::Each(bytes) => Src::Each(bytes),
                    LeafTile::Same(bytes) => Src::Same(bytes),
                    LeafTile::Register(register, size) => tile(register, size),
                    LeafTile::PerRow(_) | LeafTile::SameRow(_) => unreachable!("passes alone read by row"),
                },
            };
        }
        self.op.run(out, &src);
    }
}

impl Leaf {
    /// The position of the first byte in the buffer.
    pub(super) fn start(&self) -> usize {
        self.tensor.as_ref().map_or(0, |tensor| tensor.layout().offset()) * self.size
    }

    /// A tile of a leaf with a buffer: the elements that the elements `range` of the chain read, which
    /// consist of `rows`. `is_first` says whether it is the first of its task.
    fn tile<'a>(
        &self,
        buffer: &'a [u8],
        range: Range<usize>,
        rows: RowTile,
        is_first: bool,
        registers: &mut [&mut [u8]],
    ) -> LeafTile<'a> {
        let (size, range) = (self.size, range.start / self.scale..range.end / self.scale);
        let start = self.start();
        match &self.form {
            LeafForm::Flat => LeafTile::Each(&buffer[start + range.start * size..start + range.end * size]),
            LeafForm::One => LeafTile::Same(&buffer[start..start + size]),
            LeafForm::PerRow { .. } => {
                let PassRows { len, first, before } = rows.by_row.expect("passes read it by row");
                let count = (before + range.len()).div_ceil(len);
                LeafTile::PerRow(&buffer[start + first * size..][..count * size])
            }
            LeafForm::SameRow => LeafTile::SameRow(&buffer[start..start + rows.unit * size]),
            // No step reads it here.
            LeafForm::Moved | LeafForm::Copied { .. } => LeafTile::Each(&[]),
            LeafForm::Rows { walk, register, repeats } => {
                let inner = walk.inner();
                let rows = range.start / inner.size..range.end.div_ceil(inner.size);
                if rows.len() == 1 {
                    let [first] = walk.row(rows.start);
                    if inner.strides[0] == 0 {
                        return LeafTile::Same(&buffer[first * size..][..size]);
                    }
                    let from = (first + range.start - rows.start * inner.size) * size;
                    return LeafTile::Each(&buffer[from..][..range.len() * size]);
                }
                if is_first || !repeats {
                    let out = &mut registers[*register][..range.len() * size];
                    gather(buffer, size, walk, range, out);
                }
                LeafTile::Register(*register, size)
            }
        }
    }
}

/// Copies the elements `range` of an operand in rows, of `size` bytes each.
fn gather(buffer: &[u8], size: usize, walk: &Walk<1>, range: Range<usize>, mut out: &mut [u8]) {
    let inner = walk.inner();
    let mut row = range.start / inner.size;
    walk.for_each_row(row..range.end.div_ceil(inner.size), |[at]| {
        // The tile may begin and end inside of a row.
        let skip = range.start.saturating_sub(row * inner.size);
        let len = ((inner.size - skip) * size).min(out.len());
        let (piece, rest) = core::mem::take(&mut out).split_at_mut(len);
        if inner.strides[0] == 0 {
            fill_bytes(piece, &buffer[at * size..][..size]);
        } else {
            piece.copy_from_slice(&buffer[(at + skip) * size..][..len]);
        }
        out = rest;
        row += 1;
    });
}

/// Fills a row with an element. Elements of other sizes than four bytes are rare, and have one loop.
fn fill_bytes(row: &mut [u8], element: &[u8]) {
    if let Ok(element) = element.try_into() {
        return fill(bytemuck::cast_slice_mut(row), u32::from_ne_bytes(element));
    }
    double(row, element);
}

/// Fills a row, short or long, by chunks of a constant length. A loop for any length takes 10 ns for 49 f32
/// and 30 for 196; this takes 3 and 8.
fn fill(row: &mut [u32], value: u32) {
    let (chunks, rest) = row.as_chunks_mut::<16>();
    chunks.fill([value; 16]);
    rest.fill(value);
}
