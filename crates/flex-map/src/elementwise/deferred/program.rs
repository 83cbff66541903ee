//! From a chain of operations to a list of steps over registers.
//!
//! A register holds one tile of an intermediate result. A step is an operation whose operands are registers,
//! tiles of the tensors that the chain reads (its leaves), tiles of outputs, and scalars.
//!
//! Where rows are reduced, a tile is whole rows. A row result has an element for each row of the tile. A step
//! on all elements reads it as one number if the tile is one row, else from a register in which each element
//! is repeated along its row.

use super::constant::is_one_element;
use super::node::{Claimed, provider};
use super::pass::{LEAST_ROW, LEAST_SAME_ROW};
use super::stages::Plan;
use super::{AnyOp, Extent, MAX_LEAVES, Operands, is_in_order, walk};
use crate::elementwise::driver::{Input, ScalarBytes};
use crate::elementwise::light::LightFn;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::parallel::Work;
use crate::small::{collected, sort_by_key};
use crate::storage::{PieceReduction, Producer};
use crate::walk::Walk;
use crate::{Bytes, Shape, Tensor, storage};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use flex_math::simd::WIDEST;
use smallvec::SmallVec;

/// Elements per tile, about. Two registers of 2,048 f32 are half of a first-level cache of 32 KiB; in half as
/// many elements, the calls of the kernels would take as long as their work.
const TILE: usize = 2048;

/// A row gets its own tiles if it has at least this many elements divided by the number of row operands. Each
/// extra tile costs some 100 ns; filling a register with the element of a row costs 10 ns per 256 elements.
const LONG_ROWS: usize = 2048;

/// Bytes of the registers of a tile that passes read by row. A tile costs some 0.3 us beside the work on it.
/// Of layer norm's forward and backward pass over 1,024 rows of 1,024, the fastest of 300 runs takes 1.49 ms
/// with 24 KiB, 1.40 with 40 and 1.33 with 64 and 96 on one thread, and 0.78, 0.74, 0.71 and 0.75 on two
/// (Zen 5, with a first-level cache of 48 KiB).
const ROWS_BYTES: usize = 48 * 1024;

/// Most elements of a row that is reduced while it is computed: a register of 64 KiB of f32.
pub(super) const MAX_ROW: usize = 16 * 1024;

/// Bytes of an output that is too large for the caches: a third-level cache of 32 MiB does not keep it beside
/// an operand. Light functions write such an output past the caches, unless they write to the memory of an
/// operand.
///
/// Zen 4, in ns per element through the caches and past them. An addition of 16 Mi f32 takes 0.48 and 0.39
/// on one thread and 0.34 and 0.28 on two, of 6.1 Mi 0.46 and 0.34, 0.35 and 0.23; relu of 16 Mi 0.35 and
/// 0.27, 0.26 and 0.19. A reader gains too, though it finds nothing in the caches: an addition of 6.1 Mi and
/// `exp` of its result take 0.75 and 0.59 on one thread, and 0.56 and 0.53 on two.
pub(super) const LARGE: usize = if cfg!(test) { 256 * 1024 } else { 20 * 1024 * 1024 };

/// Shortest rows whose numbers are copied next to each other. One thread copies them before the chain runs,
/// so with short rows, the other threads would wait for it.
const LEAST_APART: usize = 256;

/// Where a step finds an operand.
#[derive(Clone)]
pub(super) enum Place {
    /// A leaf, by number.
    Leaf(usize),
    /// A register, and the size of an element in it.
    Register(usize, usize),
    /// An output, and the size of its elements.
    Output(usize, usize),
    /// A row result that stands for all elements of its row.
    Row(RowPlace),
    /// Where the result goes.
    Target,
    Scalar(ScalarBytes),
}

/// Where a row result lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RowPlace {
    /// One element for each row.
    pub values: Target,
    /// The register with an element for each element of the row.
    pub spread: usize,
    /// The size of an element.
    pub size: usize,
}

impl Place {
    /// Whether this is a leaf of this number.
    fn is_leaf(&self, k: usize) -> bool {
        matches!(self, Self::Leaf(leaf) if *leaf == k)
    }

    /// The place of the same operand after results were moved: `target` maps the old target of a result to
    /// the new one.
    fn moved(&self, target: impl Fn(Target) -> Target) -> Self {
        let at = |was: Target, size: usize| match target(was) {
            Target::Register(register) => Self::Register(register, size),
            Target::Output(output) => Self::Output(output, size),
        };
        match *self {
            Self::Register(register, size) => at(Target::Register(register), size),
            Self::Output(output, size) => at(Target::Output(output), size),
            Self::Row(place) => Self::Row(RowPlace { values: target(place.values), ..place }),
            Self::Leaf(_) | Self::Target | Self::Scalar(_) => self.clone(),
        }
    }
}

/// Where a step puts its result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Register(usize),
    Output(usize),
}

impl Target {
    /// The number of the output.
    pub(super) fn output(self) -> Option<usize> {
        match self {
            Self::Output(output) => Some(output),
            Self::Register(_) => None,
        }
    }

    /// The number of the register.
    pub(super) fn register(self) -> Option<usize> {
        match self {
            Self::Register(register) => Some(register),
            Self::Output(_) => None,
        }
    }
}

pub(super) struct Step {
    pub op: Arc<dyn AnyOp>,
    pub src: SmallVec<[Place; 3]>,
    pub target: Target,
    /// The size of an element of the result.
    pub size: usize,
    /// Elements of the chain for each element of the result: 1, or the length of a row.
    pub scale: usize,
    /// The register in which a row result is repeated along its rows, if a step reads it so.
    pub spread: Option<usize>,
    /// Whether a step after the next one reads the result.
    pub is_kept: bool,
    /// Whether the step belongs to the pass of the step before: both functions are light. It need not read
    /// that step's result: Adam's update of 11.5 M parameters takes 24 to 29 ms in this way, and 37 to 40
    /// where only steps that read it were joined (one thread of Zen 4).
    pub continues: bool,
}

impl Step {
    /// The function, if it is a light one, over all elements.
    pub(super) fn light(&self) -> Option<LightFn> {
        self.op.light().filter(|_| self.scale == 1)
    }

    /// Whether the result is stored, where the step may be the last of its pass: others may hand it on in
    /// vector registers.
    pub(super) fn is_stored(&self, is_last: bool) -> bool {
        is_last || self.is_kept || self.target.output().is_some()
    }

    /// Elements of the chain for each element of an operand.
    pub(super) fn operand_scale(&self) -> usize {
        operand_scale(&*self.op, self.scale)
    }

    /// Where the step's row result lies for a step on all elements.
    pub(super) fn row_place(&self) -> Option<RowPlace> {
        let Step { target: values, spread, size, .. } = *self;
        spread.map(|spread| RowPlace { values, spread, size })
    }
}

/// Elements of the chain for each element of an operand, given the number for each element of the result.
fn operand_scale(op: &dyn AnyOp, scale: usize) -> usize {
    if op.reduces() { 1 } else { scale }
}

/// A tensor that the chain reads.
pub(super) struct Leaf {
    /// `None` once an output has taken over its buffer.
    pub tensor: Option<Tensor>,
    /// The size of an element.
    pub size: usize,
    /// Elements of the chain for each element: 1, or the length of a row.
    pub scale: usize,
    pub form: LeafForm,
}

/// A result that is stored.
#[derive(Clone, Copy)]
pub(super) struct OutputForm {
    /// The size of an element.
    pub size: usize,
    /// Elements of the chain for each element: 1, or the length of a row.
    pub scale: usize,
}

/// How the elements of a leaf lie.
pub(super) enum LeafForm {
    /// One after the other.
    Flat,
    /// One stands for all.
    One,
    /// In rows, each of which is a slice or one element that stands for all. Rows that are shorter than a
    /// tile are gathered in a register, and once per task if they are the same for each tile.
    Rows { walk: Walk<1>, register: usize, repeats: bool },
    /// One element for each row that [passes read by row](ChainProgram::by_row): this many neighbours, over
    /// and over. If they are `apart`, or one of them serves several rows, they are copied next to each other
    /// before the chain runs.
    PerRow { numbers: usize, apart: Option<Walk<1>> },
    /// One row for all rows that [passes read by row](ChainProgram::by_row).
    SameRow,
    /// In an output that overwrites them too early: each tile is copied to a register first.
    Copied { output: usize, register: usize },
    /// In an output, where the steps read them before they are overwritten.
    Moved,
}

/// A chain as a list of steps, with the operands.
pub(super) struct ChainProgram {
    /// Number of elements of every result that is no row result.
    pub count: usize,
    /// Elements per tile: a multiple of `unit`.
    pub tile: usize,
    /// Tiles end where rows of this length end, too.
    pub row: usize,
    /// Elements of the rows that are reduced, which tiles do not split; 1 without reductions.
    pub unit: usize,
    /// Elements of the rows of which passes take one number each, of a leaf or of a row result. `None` if a
    /// tile is one row, or registers repeat the numbers along the rows.
    pub by_row: Option<usize>,
    pub leaves: Vec<Leaf>,
    /// Operands that other tensors stand for among the leaves.
    replaced: Vec<Tensor>,
    pub steps: Vec<Step>,
    pub outputs: Vec<OutputForm>,
    pub registers: usize,
    /// The size of the largest element in a register.
    pub widest: usize,
    /// Whether the last result goes to new memory of [`LARGE`] bytes.
    pub streams: bool,
    /// Whether the only output is computed in pieces, which a kernel hands over.
    pub completes: bool,
}

/// How pieces of the last output are folded while they are in the cache.
pub(super) struct Folding<'a> {
    pub reduction: PieceReduction<'a>,
    /// Whether the output is stored.
    pub held: bool,
}

/// The operand of a step, before registers are assigned.
enum StepOperand {
    Leaf(usize),
    /// The result of another step.
    Step(usize),
    Scalar(ScalarBytes),
}

impl ChainProgram {
    /// The program of claimed nodes, operands before their users. Takes their calls.
    pub(super) fn new(claimed: &mut [Claimed]) -> Self {
        let Extent { whole, row, .. } = claimed.last().expect("at least one node").extent();
        let mut leaves = Vec::new();
        let mut operands: Vec<SmallVec<[StepOperand; 3]>> = Vec::new();
        let mut ops = Vec::new();
        for k in 0..claimed.len() {
            let call = claimed[k].take_call();
            let scale = operand_scale(&*call.op, whole / claimed[k].count());
            operands.push(operands_of(call.operands, &call.shape, scale, &claimed[..k], &mut leaves));
            ops.push(call.op);
        }
        let mut last_use = vec![0; ops.len()];
        for (k, operands) in operands.iter().enumerate() {
            for operand in operands {
                if let StepOperand::Step(step) = *operand {
                    last_use[step] = k;
                }
            }
        }
        let mut program = Self {
            count: whole,
            tile: TILE,
            row: usize::MAX,
            unit: row.max(1),
            by_row: None,
            leaves,
            replaced: Vec::new(),
            steps: Vec::new(),
            outputs: Vec::new(),
            registers: 0,
            widest: 1,
            streams: false,
            completes: false,
        };
        let mut free = Vec::new();
        for (k, (op, operands)) in ops.into_iter().zip(&operands).enumerate() {
            let size = op.dtype().size();
            let scale = whole / claimed[k].count();
            let operand_scale = operand_scale(&*op, scale);
            let mut src: SmallVec<[Place; 3]> =
                collected(operands.iter().map(|operand| program.place(operand, operand_scale)));
            // Row results that are read along rows keep their registers: the last result of a pass, which may
            // overwrite what its steps read, has another order.
            let dying = (0..k).filter(|&step| last_use[step] == k && program.steps[step].spread.is_none());
            let mut dying: SmallVec<[usize; MAX_LEAVES]> =
                collected(dying.filter_map(|step| program.steps[step].target.register()));
            let target = if claimed[k].is_held {
                program.outputs.push(OutputForm { size, scale });
                Target::Output(program.outputs.len() - 1)
            } else if let Some(at) =
                dying.iter().position(|&register| overwrites(&*op, &mut src, register, size))
            {
                Target::Register(dying.swap_remove(at))
            } else {
                Target::Register(free.pop().unwrap_or_else(|| program.new_register(size)))
            };
            // After the target is chosen: a kernel reads its other operands while it writes.
            free.extend(dying);
            program.widest = program.widest.max(size);
            let is_kept = last_use[k] > k + 1;
            let mut step = Step { op, src, target, size, scale, spread: None, is_kept, continues: false };
            step.continues = k > 0 && step.light().is_some() && program.steps[k - 1].light().is_some();
            program.steps.push(step);
        }
        for leaf in &mut program.leaves {
            if let LeafForm::Rows { register, .. } = &mut leaf.form {
                *register = program.registers;
                program.registers += 1;
                program.widest = program.widest.max(leaf.size);
            }
        }
        program.cut();
        program
    }

    /// Where an operand lies for a step that reads an element for each `scale` elements of the chain.
    fn place(&mut self, operand: &StepOperand, scale: usize) -> Place {
        let step = match *operand {
            StepOperand::Leaf(leaf) => return Place::Leaf(leaf),
            StepOperand::Scalar(value) => return Place::Scalar(value),
            StepOperand::Step(step) => step,
        };
        let Step { target, size, .. } = self.steps[step];
        if self.steps[step].scale != scale {
            if self.steps[step].spread.is_none() {
                self.steps[step].spread = Some(self.new_register(size));
            }
            return Place::Row(self.steps[step].row_place().expect("its register was chosen"));
        }
        match target {
            Target::Register(register) => Place::Register(register, size),
            Target::Output(output) => Place::Output(output, size),
        }
    }

    /// A register for elements of `size` bytes.
    fn new_register(&mut self, size: usize) -> usize {
        self.widest = self.widest.max(size);
        self.registers += 1;
        self.registers - 1
    }

    /// Chooses the length of tiles. Rows that are reduced are not split. Long rows of leaves end where tiles
    /// end, so that a row's tile is a slice or one element; short rows are not split.
    fn cut(&mut self) {
        let tile = TILE.min(TILE * size_of::<f32>() / self.widest);
        let period = self.read_by_row();
        let row = self.leaves.iter().find_map(|leaf| match &leaf.form {
            LeafForm::Rows { walk, .. } => Some(walk.inner().size),
            _ => None,
        });
        let in_rows = self.leaves.iter().filter(|leaf| matches!(leaf.form, LeafForm::Rows { .. })).count()
            + self.steps.iter().filter(|step| step.spread.is_some()).count();
        let long = (LONG_ROWS / in_rows.max(1)).min(tile);
        (self.tile, self.row) = match row {
            _ if self.by_row == Some(self.unit) => (self.rows_of_tile() * self.unit, usize::MAX),
            _ if self.by_row.is_some() => (tile, period),
            _ if self.unit >= long => (self.unit, usize::MAX),
            _ if self.unit > 1 => (tile / self.unit * self.unit, usize::MAX),
            Some(row) if row < long => (tile / row * row, usize::MAX),
            // One tile a little longer costs less than two.
            Some(row) if row <= 2 * tile => (row, usize::MAX),
            Some(row) => (tile, row),
            None => (tile, usize::MAX),
        };
        for leaf in &mut self.leaves {
            if let LeafForm::Rows { walk, repeats, .. } = &mut leaf.form {
                let inner = walk.inner();
                let outer = &walk.axes()[..walk.axes().len() - 1];
                // Tiles that end with long rows begin anywhere in a short one, and the first may be the
                // shortest.
                *repeats = self.row == usize::MAX
                    && inner.strides[0] == 1
                    && outer.iter().all(|axis| axis.strides[0] == 0)
                    && self.tile.is_multiple_of(inner.size);
            }
        }
    }

    /// Decides whether passes read row results by row, and which leaves they read by row. Returns the number
    /// of elements after which the numbers of leaves begin again: a tile ends there.
    fn read_by_row(&mut self) -> usize {
        if self.unit == 1 {
            return self.read_leaves_by_row();
        }
        self.read_reduced_by_row();
        usize::MAX
    }

    /// Whether light functions alone read the places that `reads` is true of.
    fn passes_read(&self, reads: impl Fn(&Place) -> bool) -> bool {
        self.steps.iter().all(|step| step.light().is_some() || !step.src.iter().any(&reads))
    }

    /// [`read_by_row`](Self::read_by_row) where rows are reduced.
    fn read_reduced_by_row(&mut self) {
        let (unit, rows) = (self.unit, self.count / self.unit);
        if unit < LEAST_ROW || !self.passes_read(|place| matches!(place, Place::Row(_))) {
            return;
        }
        self.by_row = Some(unit);
        let is_line_long = unit >= LEAST_SAME_ROW && unit.is_multiple_of(WIDEST);
        for k in 0..self.leaves.len() {
            let Leaf { size, form: LeafForm::Rows { walk, .. }, .. } = &self.leaves[k] else { continue };
            if *size != size_of::<f32>() || walk.inner().size != unit || !self.passes_read_leaf(k) {
                continue;
            }
            let outer = &walk.axes()[..walk.axes().len() - 1];
            let is_line = walk.inner().strides[0] == 1 && outer.iter().all(|axis| axis.strides[0] == 0);
            if row_and_numbers(walk) == Some((unit, rows)) {
                self.leaves[k].form = LeafForm::PerRow { numbers: rows, apart: None };
            } else if is_line && is_line_long {
                self.leaves[k].form = LeafForm::SameRow;
            }
        }
    }

    fn passes_read_leaf(&self, k: usize) -> bool {
        self.passes_read(|place| place.is_leaf(k))
    }

    /// [`read_by_row`](Self::read_by_row) where no rows are reduced: if all leaves in rows have one number
    /// for each row, as the leaves of a batch norm, which has one for each channel. If their rows differ, as
    /// in a group norm, whose groups are several channels, the shortest are the rows, if they are long
    /// enough.
    fn read_leaves_by_row(&mut self) -> usize {
        let mut rows: SmallVec<[(usize, usize); MAX_LEAVES]> = SmallVec::new();
        for (k, leaf) in self.leaves.iter().enumerate() {
            let LeafForm::Rows { walk, .. } = &leaf.form else { continue };
            let inner = walk.inner();
            let fits = inner.size >= LEAST_ROW && inner.strides[0] == 0;
            if !fits || leaf.size != size_of::<f32>() || !self.passes_read_leaf(k) {
                return usize::MAX;
            }
            // No numbers: they are apart.
            rows.push(row_and_numbers(walk).unwrap_or((inner.size, 0)));
        }
        let Some(&(row, numbers)) = rows.iter().min() else { return usize::MAX };
        let agree = numbers > 0 && rows.iter().all(|&other| other == (row, numbers));
        let numbers = if agree { numbers } else { self.count / row };
        if !agree && (row < LEAST_APART || !rows.iter().all(|other| other.0.is_multiple_of(row))) {
            return usize::MAX;
        }
        self.by_row = Some(row);
        for leaf in &mut self.leaves {
            if let LeafForm::Rows { walk, .. } = &leaf.form {
                let are_neighbours = row_and_numbers(walk) == Some((row, numbers));
                let apart = (!are_neighbours).then(|| walk.clone());
                leaf.form = LeafForm::PerRow { numbers, apart };
            }
        }
        row * numbers
    }

    /// Whether a step reads operands [by row](Self::by_row).
    pub(super) fn reads_by_row(&self, step: &Step) -> bool {
        let is_by_row = |place: &Place| match place {
            Place::Row(_) => true,
            Place::Leaf(k) => matches!(self.leaves[*k].form, LeafForm::PerRow { .. } | LeafForm::SameRow),
            _ => false,
        };
        self.by_row.is_some() && step.src.iter().any(is_by_row)
    }

    /// How many rows a tile has that passes read by row: as many as leave room in the first-level cache for
    /// the registers that are stored.
    fn rows_of_tile(&self) -> usize {
        let is_stored = |k: &usize| {
            let is_last = self.steps.get(k + 1).is_none_or(|next| !next.continues);
            self.steps[*k].scale == 1 && self.steps[*k].is_stored(is_last)
        };
        let stored = (0..self.steps.len()).filter(is_stored);
        let mut registers: SmallVec<[usize; MAX_LEAVES]> =
            collected(stored.filter_map(|k| self.steps[k].target.register()));
        sort_by_key(&mut registers, |&register| register);
        registers.dedup();
        let gathered = self.leaves.iter().filter(|leaf| matches!(leaf.form, LeafForm::Rows { .. })).count();
        let registers = (registers.len() + gathered).max(1);
        (ROWS_BYTES / (registers * self.widest * self.unit)).max(1)
    }

    /// Computes the outputs, in the order of their nodes.
    ///
    /// # Errors
    /// An operand that could not be computed, or too little memory for the work on a tile. Where memory is
    /// missing for some outputs alone, these have the error.
    pub(super) fn run(&mut self) -> Result<Vec<Result<Bytes>>> {
        match self.run_together(None)? {
            Some(results) => Ok(results.into_iter().map(Ok).collect()),
            None => Ok(self.run_singly()),
        }
    }

    /// [`run`](Self::run), where pieces of the last output are folded meanwhile. That output is stored if it
    /// is `held`; otherwise only the outputs before it have results. Also returns whether pieces were folded:
    /// without memory for the results all of them are computed singly.
    ///
    /// # Errors
    /// As `run`.
    pub(super) fn fold_pieces(
        &mut self,
        held: bool,
        reduction: PieceReduction<'_>,
    ) -> Result<(Vec<Result<Bytes>>, bool)> {
        match self.run_together(Some(Folding { reduction, held }))? {
            Some(results) => Ok((results.into_iter().map(Ok).collect(), true)),
            None => Ok((self.run_singly(), false)),
        }
    }

    /// Computes the outputs that are stored, all by the same pass. `None` if there is no room for all of
    /// them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn run_together(&mut self, folding: Option<Folding<'_>>) -> Result<Option<Vec<Bytes>>> {
        self.evaluate_leaves()?;
        self.ensure_working_memory(folding.as_ref())?;
        let lost = usize::from(folding.as_ref().is_some_and(|folding| !folding.held));
        let mut taken = Vec::new();
        for output in 0..self.outputs.len() - lost {
            let leaf = self.leaf_to_take_over(output, &taken);
            taken.push(leaf);
        }
        let room = |(output, leaf): (usize, &Option<usize>)| {
            leaf.is_none().then(|| self.try_alloc(output)).transpose()
        };
        // Before any buffer is taken over, so that no operand is lost where memory is missing.
        let Ok(room) = taken.iter().enumerate().map(room).collect::<Result<Vec<Option<Bytes>>>>() else {
            return Ok(None);
        };
        let mut results = Vec::with_capacity(room.len());
        for (output, (leaf, room)) in taken.into_iter().zip(room).enumerate() {
            let is_last = self.steps.last().is_some_and(|step| step.target == Target::Output(output));
            let is_large = room.as_ref().is_some_and(|room| room.len() >= LARGE);
            let is_read = folding.is_some();
            self.streams |= is_last && is_large && !is_read && self.outputs[output].scale == 1;
            results.push(match (room, leaf.and_then(|leaf| self.move_leaf(leaf, output))) {
                (Some(room), _) => room,
                (None, Some(leaf)) => leaf.into_bytes()?,
                (None, None) => unreachable!("a leaf is taken over once"),
            });
        }
        Plan::new(self).run_tiles(&mut results, folding);
        Ok(Some(results))
    }

    /// Computes the outputs one by one, where there is no room for all of them: each as if nobody held the
    /// other results.
    pub(super) fn run_singly(&mut self) -> Vec<Result<Bytes>> {
        let forms = core::mem::take(&mut self.outputs);
        let first = self.registers;
        self.registers += forms.len();
        let places: Vec<_> = self.steps.iter().map(|step| (step.src.clone(), step.target)).collect();
        let single = |output: usize| {
            // Another output is a register.
            let target = |target: Target| match target {
                Target::Output(other) if other == output => Target::Output(0),
                Target::Output(other) => Target::Register(first + other),
                Target::Register(_) => target,
            };
            for (step, (src, was)) in self.steps.iter_mut().zip(&places) {
                step.target = target(*was);
                step.src = collected(src.iter().map(|place| place.moved(target)));
            }
            self.outputs = vec![forms[output]];
            let mut result = [self.try_alloc(0)?];
            Plan::new(self).run_tiles(&mut result, None);
            let [result] = result;
            Ok(result)
        };
        (0..forms.len()).map(single).collect()
    }

    /// New memory for an output.
    ///
    /// # Errors
    /// [`Error::Memory`] under the name of the operation whose result it is.
    fn try_alloc(&self, output: usize) -> Result<Bytes> {
        let OutputForm { size, scale } = self.outputs[output];
        let (count, op) = (self.count / scale, self.steps[self.writer(output)].op.name());
        let bytes = count * size;
        storage::try_alloc(bytes).ok_or_else(|| Error::Memory { op, shape: vec![count], bytes })
    }

    /// Finds out whether there is memory for the registers of all threads, with those that outputs may need,
    /// and for pieces that are not stored.
    ///
    /// # Errors
    /// [`Error::Memory`] under the name of the last operation.
    fn ensure_working_memory(&self, folding: Option<&Folding<'_>>) -> Result<()> {
        let step = self.steps.last().expect("at least one step");
        let registers = self.registers + self.outputs.len();
        let piece = folding.map_or(0, |folding| folding.reduction.cut.longest(self.count) * step.size);
        storage::ensure_for_tasks(
            step.op.name(),
            registers * self.register_bytes(self.tile) + piece,
            self.count.div_ceil(self.tile),
        )
    }

    /// The distance of two registers of `tile` elements, in bytes: whole cache lines, and no power of two, so
    /// that equal elements of them do not lie at the same place of a page. Where they do, a chain of 14 steps
    /// takes 1.04 to 1.1 times as long.
    pub(super) fn register_bytes(&self, tile: usize) -> usize {
        (tile * self.widest).next_multiple_of(storage::ALIGN) + 5 * storage::ALIGN
    }

    /// Computes the leaves that wait, and copies numbers of rows that are apart.
    ///
    /// # Errors
    /// A leaf that could not be computed; no room for the numbers.
    fn evaluate_leaves(&mut self) -> Result<()> {
        let (count, row) = (self.count, self.by_row);
        let op = self.steps.last().expect("at least one step").op.name();
        for leaf in &mut self.leaves {
            let Some(tensor) = &mut leaf.tensor else { continue };
            tensor.evaluate()?;
            if let LeafForm::PerRow { apart, .. } = &mut leaf.form
                && let (Some(walk), Some(row)) = (apart.take(), row)
            {
                let numbers = numbers_of_rows(op, tensor, &walk, row, count)?;
                self.replaced.push(core::mem::replace(tensor, numbers));
            }
        }
        Ok(())
    }

    /// Computes the only output where a kernel's result lies, piece by piece: the result is leaf `k`.
    ///
    /// # Errors
    /// The errors of the kernel; an operand that could not be computed.
    pub(super) fn run_after(&mut self, k: usize, producer: &dyn Producer) -> Result<Bytes> {
        self.ensure_working_memory(None)?;
        drop(self.move_leaf(k, 0));
        self.completes = true;
        self.evaluate_leaves()?;
        let plan = Plan::new(self);
        let finish = |first: usize, piece: &mut [u8]| plan.complete(first, piece);
        producer.produce(Some(&finish))?.into_bytes()
    }

    /// A leaf that nothing else holds, not even an output by `taken`, whose buffer an output may take over:
    /// its elements have the same size. A leaf that no step reads after the output is written is preferred.
    fn leaf_to_take_over(&self, output: usize, taken: &[Option<usize>]) -> Option<usize> {
        let OutputForm { size, scale } = self.outputs[output];
        let len = self.count / scale * size;
        let fits = |k: &usize| {
            let leaf = &self.leaves[*k];
            matches!(leaf.form, LeafForm::Flat)
                && (leaf.size, leaf.scale) == (size, scale)
                && leaf.tensor.as_ref().is_some_and(|t| t.is_unique() && t.storage_len() == len)
                && !taken.contains(&Some(*k))
        };
        let fitting = || (0..self.leaves.len()).filter(fits);
        fitting().find(|&k| self.is_in_time(k, output)).or_else(|| fitting().next())
    }

    /// The step that writes an output.
    fn writer(&self, output: usize) -> usize {
        let writes = |step: &Step| step.target == Target::Output(output);
        self.steps.iter().position(writes).expect("a step for each output")
    }

    /// Whether no step reads leaf `k` after the output is written.
    fn is_in_time(&self, k: usize, output: usize) -> bool {
        let (writer, after) = self.steps[self.writer(output)..].split_first().expect("the writer");
        let reads = |step: &Step| step.src.iter().any(|place| place.is_leaf(k));
        let replaced = overwritten(&*writer.op, &writer.src, |place| place.is_leaf(k));
        (!reads(writer) || replaced.is_some()) && !after.iter().any(reads)
    }

    /// Lets the steps find leaf `k` in an output, which is its buffer; returns the leaf's tensor.
    fn move_leaf(&mut self, k: usize, output: usize) -> Option<Tensor> {
        let OutputForm { size, .. } = self.outputs[output];
        self.leaves[k].form = if self.is_in_time(k, output) {
            let writer = self.writer(output);
            for (number, step) in self.steps.iter_mut().enumerate() {
                for place in step.src.iter_mut().filter(|place| place.is_leaf(k)) {
                    *place = if number == writer { Place::Target } else { Place::Output(output, size) };
                }
            }
            LeafForm::Moved
        } else {
            LeafForm::Copied { output, register: self.new_register(size) }
        };
        self.leaves[k].tensor.take()
    }

    /// Bytes of the outputs and of the leaves whose form is `counted`.
    pub(super) fn bytes(&self, counted: impl Fn(&LeafForm) -> bool) -> usize {
        let leaves =
            self.leaves.iter().filter(|leaf| counted(&leaf.form)).map(|leaf| (leaf.size, leaf.scale));
        let outputs = self.outputs.iter().map(|output| (output.size, output.scale));
        let bytes = leaves.chain(outputs).map(|(size, scale)| (self.count / scale).saturating_mul(size));
        bytes.fold(0, usize::saturating_add)
    }

    /// What all steps cost.
    pub(super) fn work(&self) -> Work {
        let bytes = self.bytes(|form| !matches!(form, LeafForm::One));
        let flops = |step: &Step| (self.count / step.operand_scale()).saturating_mul(step.op.flops());
        let flops = self.steps.iter().map(flops).fold(0, usize::saturating_add);
        if flops > bytes { Work::Flops(flops) } else { Work::Bytes(bytes) }
    }
}

/// The length of an operand's rows and how many numbers it has, if these are one for each row, neighbours,
/// and the same again for all further rows, and if passes can read them by row.
fn row_and_numbers(walk: &Walk<1>) -> Option<(usize, usize)> {
    let (inner, outer) = walk.axes().split_last()?;
    let (numbers, outer) = outer.split_last()?;
    let fits = inner.size >= LEAST_ROW && inner.strides[0] == 0 && numbers.strides[0] == 1;
    (fits && outer.iter().all(|axis| axis.strides[0] == 0)).then_some((inner.size, numbers.size))
}

/// The numbers of an operand, one for each row of `row` elements of a chain's `count`. The operand's own rows
/// are as long, or several times.
///
/// # Errors
/// [`Error::Memory`] under the name `op`.
fn numbers_of_rows(
    op: &'static str,
    operand: &Tensor,
    walk: &Walk<1>,
    row: usize,
    count: usize,
) -> Result<Tensor> {
    let from: &[f32] = bytemuck::cast_slice(operand.storage_bytes());
    let (numbers, times) = (count / row, walk.inner().size / row);
    let layout = Layout::contiguous(Shape::from([numbers]));
    Tensor::try_build_bytes(op, layout, numbers, operand.dtype(), |out| {
        let out: &mut [f32] = bytemuck::cast_slice_mut(out);
        for (at, rows) in out.chunks_exact_mut(times).enumerate() {
            let [at] = walk.row(at);
            rows.fill(from[at]);
        }
        Ok(())
    })
}

/// The operand that a step may overwrite: the only one that `lies` where the result would go, unless the
/// operation still reads it there.
fn overwritten(op: &dyn AnyOp, src: &[Place], lies: impl Fn(&Place) -> bool) -> Option<usize> {
    let mut found = (0..src.len()).filter(|&n| lies(&src[n]));
    let n = found.next()?;
    (found.next().is_none() && op.reuses(n)).then_some(n)
}

/// Whether a step may write its result, of elements of `size` bytes, to `register`, which one of its operands
/// is the last to need. Then that operand is where the result goes.
fn overwrites(op: &dyn AnyOp, src: &mut [Place], register: usize, size: usize) -> bool {
    let lies = |place: &Place| matches!(place, Place::Register(number, _) if *number == register);
    let fits = |n: &usize| matches!(src[*n], Place::Register(_, each) if each == size);
    let Some(n) = overwritten(op, src, lies).filter(fits) else { return false };
    src[n] = Place::Target;
    true
}

/// Where the operands of a call come from; adds those that are not results of `below` to the leaves. The call
/// reads an element for each `scale` elements of the chain.
fn operands_of(
    operands: Operands,
    shape: &Shape,
    scale: usize,
    below: &[Claimed],
    leaves: &mut Vec<Leaf>,
) -> SmallVec<[StepOperand; 3]> {
    let operand = |input| match input {
        Input::Scalar(value) => StepOperand::Scalar(value),
        Input::Output => unreachable!("an operation that waits has no output yet"),
        Input::Tensor(tensor) => match provider(below, &tensor) {
            Some(step) => StepOperand::Step(step),
            None => StepOperand::Leaf(leaf(tensor, shape, scale, leaves)),
        },
    };
    collected(operands.into_iter().map(operand))
}

/// The number of the leaf that reads `tensor` as an operand of an output of this shape, or of a reduction.
fn leaf(tensor: Tensor, shape: &Shape, scale: usize, leaves: &mut Vec<Leaf>) -> usize {
    let size = tensor.dtype().size();
    let count: usize = shape.iter().product();
    let form = if is_one_element(&tensor) {
        LeafForm::One
    } else if is_in_order(&tensor, count) {
        LeafForm::Flat
    } else {
        LeafForm::Rows { walk: walk(tensor.layout(), shape), register: 0, repeats: false }
    };
    let same = |leaf: &Leaf| {
        let same_form = match (&leaf.form, &form) {
            (LeafForm::One, LeafForm::One) | (LeafForm::Flat, LeafForm::Flat) => true,
            (LeafForm::Rows { walk: a, .. }, LeafForm::Rows { walk: b, .. }) => a.axes() == b.axes(),
            _ => false,
        };
        same_form
            && (leaf.size, leaf.scale) == (size, scale)
            && leaf.tensor.as_ref().is_some_and(|other| {
                other.shares_storage(&tensor) && other.layout().offset() == tensor.layout().offset()
            })
    };
    // A second handle of a leaf is dropped here, so that its buffer may still be taken over.
    leaves.iter().position(same).unwrap_or_else(|| {
        leaves.push(Leaf { tensor: Some(tensor), size, scale, form });
        leaves.len() - 1
    })
}
