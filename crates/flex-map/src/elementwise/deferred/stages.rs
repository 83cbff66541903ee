//! The stages of a program and the buffers of its leaves, which all its tiles share, found once.
//!
//! A tile takes about a microsecond, and a kernel may hand over pieces of a few dozen elements. So the only
//! work left for each tile is to look up slices and numbers; where a pass reads leaves alone, there is none.

use super::MAX_LEAVES;
use super::pass::{FusedPass, Link, LinkOperand, PassRows};
use super::program::{ChainProgram, Leaf, LeafForm, Place, RowPlace, Step, Target};
use super::tiles::{LeafTile, RowNumbers, RowTile};
use crate::Tensor;
use crate::elementwise::light::LightFn;
use crate::parallel::thresholds::TASK_CHAIN_ELEMENTS;
use crate::small::collected;
use alloc::vec::Vec;
use core::ops::Range;
use flex_math::simd::WIDEST;
use smallvec::SmallVec;

/// Least bytes of leaves and outputs of a chain whose tiles are fetched ahead: more than a second-level cache
/// holds.
///
/// While a stage computes in registers, memory is idle, and the hardware's prefetchers start again with each
/// tile. So a pass fetches for the next tile the memory that it writes or is the first to read, and each of
/// the other stages a part of the rest. ns per element without and with it, one thread of Zen 4: three steps
/// on two tensors of 1 Mi f32 take 0.98 and 0.73 if these come from memory, 0.32 and 0.30 if they come from
/// the third-level cache; on 256 Ki 0.99 and 0.77, 0.275 and 0.29; on 64 Ki, which the second-level cache
/// holds, 0.28 and 0.31. A training step of ResNet-18 takes 163 ms without and 150 with it.
const LEAST_OF_TILES: usize = 1024 * 1024;

/// [`LEAST_OF_TILES`] of a chain that is one pass, whose tiles are as long as a task. The hardware fetches
/// ahead there too, and prefetches only cost time if a cache holds the operands. An addition and relu of two
/// tensors of 1 Mi f32 take 0.48 ns per element without and 0.40 with prefetches if these come from memory,
/// 0.161 and 0.185 if they come from the third-level cache; of 2 Mi 0.52 and 0.44, 0.29 and 0.27; on two
/// threads 0.48 and 0.35, 0.22 and 0.14.
const LEAST_OF_PASS: usize = if cfg!(test) { 256 * 1024 } else { 12 * 1024 * 1024 };

/// How far such a pass fetches ahead, in elements. With 128 and 512 it takes as long or longer; with 1,024,
/// additions of tensors in memory take longer than without prefetches.
const PASS_AHEAD: usize = 256;

/// A program, ready to run.
pub(super) struct Plan<'p> {
    pub program: &'p ChainProgram,
    /// The bytes of each leaf.
    pub buffers: SmallVec<[&'p [u8]; 8]>,
    pub stages: SmallVec<[Stage<'p>; 8]>,
    /// A tile that lies within one stretch of this many elements needs no register: each row of a leaf is a
    /// slice or one number there, and results go from function to function or to an output.
    pub free_of_registers: usize,
    /// Elements per tile: the program's number, or a task's if no tile needs a register. A tile costs
    /// some 0.1 us, and memory is read best from one end to the other: two additions of 1 Mi f32 take 121 us
    /// instead of 250.
    pub tile: usize,
    /// How far ahead memory is fetched, in elements; `None` if it is not.
    pub ahead: Option<usize>,
    /// The leaves and the outputs that passes fetch. Other stages leave them to the passes.
    pub fetched: Fetched,
    /// Whether the last stage writes its result past the caches.
    pub streams: bool,
    /// Whether all stages are passes with [links that are the same for all tiles](Route::links).
    pub is_fixed: bool,
}

/// Leaves and outputs that passes fetch.
#[derive(Default)]
pub(super) struct Fetched {
    pub leaves: SmallVec<[usize; MAX_LEAVES]>,
    pub outputs: SmallVec<[usize; MAX_LEAVES]>,
}

/// A part of a program that goes over a tile.
pub(super) enum Stage<'p> {
    Step(&'p Step),
    /// Several steps, of which each but the first continues the one before.
    Pass(Route<'p>),
}

impl Stage<'_> {
    /// Whether the stage reads and writes leaves and outputs alone.
    fn needs_no_register(&self) -> bool {
        match self {
            Self::Step(step) => {
                let reads = step.src.iter().any(|place| matches!(place, Place::Register(..) | Place::Row(_)));
                step.target.output().is_some() && !reads
            }
            Self::Pass(route) => {
                let mut operands = route.waypoints.iter().flat_map(|waypoint| waypoint.operands);
                let in_register = |origin| matches!(origin, Origin::Register(_) | Origin::Row(_));
                route.targets.iter().all(|target| target.output().is_some()) && !operands.any(in_register)
            }
        }
    }
}

impl<'p> Plan<'p> {
    /// The plan of a program whose leaves have their final forms.
    pub(super) fn new(program: &'p ChainProgram) -> Self {
        let bytes = |tensor: &'p Tensor| tensor.storage_bytes();
        let buffers =
            collected(program.leaves.iter().map(|leaf| leaf.tensor.as_ref().map_or(&[][..], bytes)));
        let mut stages: SmallVec<[Stage<'_>; 8]> = SmallVec::new();
        let mut steps = &program.steps[..];
        while !steps.is_empty() {
            let end = 1 + steps[1..].iter().take_while(|step| step.continues).count();
            let (stage, rest) = steps.split_at(end);
            let streams = program.streams && rest.is_empty();
            let is_pass = |step: &Step| {
                streams || program.completes || begins_with_number(step) || program.reads_by_row(step)
            };
            stages.push(match stage {
                [step] if step.light().is_none() || !is_pass(step) => Stage::Step(step),
                steps => Stage::Pass(Route::new(steps)),
            });
            steps = rest;
        }
        let streams =
            program.streams && matches!(stages.last(), Some(Stage::Pass(route)) if route.may_stream());
        let mut plan = Self {
            program,
            buffers,
            stages,
            free_of_registers: 0,
            tile: program.tile,
            ahead: None,
            fetched: Fetched::default(),
            streams,
            is_fixed: false,
        };
        plan.free_of_registers = plan.row_without_registers();
        if plan.free_of_registers == usize::MAX && program.unit == 1 {
            plan.tile = TASK_CHAIN_ELEMENTS;
        }
        plan.fetch();
        let leaf = |k: usize, fetches| program.leaves[k].operand(plan.buffers[k], program.count, fetches);
        for stage in &mut plan.stages {
            if let Stage::Pass(route) = stage {
                route.links = route.waypoints.iter().map(|waypoint| waypoint.fixed(&leaf)).collect();
            }
        }
        plan.is_fixed =
            plan.stages.iter().all(|stage| matches!(stage, Stage::Pass(Route { links: Some(_), .. })));
        plan
    }

    /// Decides whether and how far memory is fetched ahead, and which of it passes fetch.
    fn fetch(&mut self) {
        let (least, ahead) = match &self.stages[..] {
            [Stage::Pass(_)] if self.tile == TASK_CHAIN_ELEMENTS => (LEAST_OF_PASS, PASS_AHEAD),
            // Its kernel fetches.
            [Stage::Step(_)] if self.tile == TASK_CHAIN_ELEMENTS => return,
            _ => (LEAST_OF_TILES, self.tile),
        };
        if self.streams || self.program.bytes(|form| matches!(form, LeafForm::Flat)) < least {
            return;
        }
        self.ahead = Some(ahead);
        for stage in &mut self.stages {
            if let Stage::Pass(route) = stage {
                route.fetch(&self.program.leaves, &mut self.fetched);
            }
        }
    }

    /// The end of the tile that starts at `start`, in a task that ends at `end`.
    pub(super) fn tile_end(&self, start: usize, end: usize) -> usize {
        let row = self.program.row;
        let row_end = (start / row).saturating_add(1).saturating_mul(row);
        (start + self.tile).min(row_end).min(end)
    }

    /// See [`free_of_registers`](Self::free_of_registers).
    fn row_without_registers(&self) -> usize {
        if !self.stages.iter().all(Stage::needs_no_register) {
            return 0;
        }
        let mut rows = self.program.leaves.iter().filter_map(|leaf| match &leaf.form {
            LeafForm::Rows { walk, .. } => Some(walk.inner().size),
            LeafForm::Copied { .. } => Some(0),
            LeafForm::Flat
            | LeafForm::One
            | LeafForm::Moved
            | LeafForm::PerRow { .. }
            | LeafForm::SameRow => None,
        });
        let row = rows.next().unwrap_or(usize::MAX);
        if rows.all(|other| other == row) { row } else { 0 }
    }

    /// Whether the elements `range` are computed without registers.
    pub(super) fn needs_no_registers(&self, range: &Range<usize>) -> bool {
        match self.free_of_registers {
            0 => false,
            usize::MAX => true,
            row => range.start / row == (range.end - 1) / row,
        }
    }
}

/// Whether the first operand is a number. A kernel takes it by way of a block that is filled with it.
fn begins_with_number(step: &Step) -> bool {
    matches!(step.src.first(), Some(Place::Scalar(_)))
}

/// Where a function of a pass finds an operand in each tile.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Value,
    Target(usize),
    Same(f32),
    Leaf(usize),
    Register(usize),
    Output(usize),
    Row(RowPlace),
}

/// A [`Link`] before the tile is known.
struct Waypoint {
    light: LightFn,
    operands: [Origin; 2],
    third: f32,
    target: Option<usize>,
    /// Whether the memory of the operands and of the target is fetched ahead.
    fetches: [bool; 3],
}

impl Waypoint {
    /// The function, given what its operands are.
    fn link<'a>(&self, operands: [LinkOperand<'a>; 2]) -> Link<'a> {
        let &Self { light, third, target, fetches, .. } = self;
        let continues = self.operands[0] == Origin::Value;
        Link { light, continues, operands, third, target, fetches: fetches[2] }
    }

    /// The function, if it is the same for all tiles. `leaf` gives operands that are leaves.
    fn fixed<'a>(&self, leaf: &impl Fn(usize, bool) -> Option<LinkOperand<'a>>) -> Option<Link<'a>> {
        let operand = |n: usize| match self.operands[n] {
            Origin::Value => Some(LinkOperand::Value),
            Origin::Target(number) => Some(LinkOperand::Target(number)),
            Origin::Same(number) => Some(LinkOperand::Same(number)),
            Origin::Leaf(k) => leaf(k, self.fetches[n]),
            Origin::Register(_) | Origin::Output(_) | Origin::Row(_) => None,
        };
        Some(self.link([operand(0)?, operand(1)?]))
    }
}

impl Leaf {
    /// The leaf, with all its elements in `buffer`, as an operand of a pass, if the operand is the same for
    /// all tiles of the `count` elements of a chain.
    fn operand<'a>(&self, buffer: &'a [u8], count: usize, fetches: bool) -> Option<LinkOperand<'a>> {
        let elements = |count: usize| bytemuck::cast_slice(&buffer[self.start()..][..count * self.size]);
        match self.form {
            LeafForm::Flat if fetches => Some(LinkOperand::Fetched(elements(count))),
            LeafForm::Flat => Some(LinkOperand::Each(elements(count))),
            LeafForm::One => Some(LinkOperand::Same(elements(1)[0])),
            LeafForm::PerRow { numbers, ref apart } => {
                debug_assert!(apart.is_none(), "copied before the chain runs");
                Some(LinkOperand::PerRow(elements(numbers)))
            }
            LeafForm::SameRow | LeafForm::Rows { .. } | LeafForm::Copied { .. } | LeafForm::Moved => None,
        }
    }
}

/// Where a pass goes over a tile.
pub(super) struct PassPlace {
    /// The elements of the chain.
    pub range: Range<usize>,
    /// Their bytes in outputs.
    pub here: Range<usize>,
    pub rows: RowTile,
}

/// Several steps as functions of one pass.
pub(super) struct Route<'p> {
    waypoints: Vec<Waypoint>,
    /// The functions, if they are the same for all tiles: they read leaves and the pass's own results. So
    /// little is left to do for a tile, and a kernel may hand over rows of a few hundred elements.
    links: Option<Vec<Link<'p>>>,
    /// Where results are stored: outputs, the last result, and results that other steps than the next one
    /// read.
    targets: SmallVec<[Target; 4]>,
}

impl<'p> Route<'p> {
    /// Lets the pass fetch the leaves that no pass before it fetches, and the outputs that it writes; adds
    /// them to `fetched`.
    fn fetch(&mut self, leaves: &[Leaf], fetched: &mut Fetched) {
        for Waypoint { operands, target, fetches, .. } in &mut self.waypoints {
            for (operand, fetches) in operands.iter().zip(&mut *fetches) {
                if let Origin::Leaf(leaf) = *operand
                    && matches!(leaves[leaf].form, LeafForm::Flat)
                    && !fetched.leaves.contains(&leaf)
                {
                    *fetches = true;
                    fetched.leaves.push(leaf);
                }
            }
            fetches[2] = target.is_some_and(|target| self.targets[target].output().is_some());
        }
        let outputs = self.targets.iter().filter_map(|target| target.output());
        outputs.for_each(|output| fetched.outputs.push(output));
    }

    /// Whether the last result may be written past the caches: it is an output that no function reads.
    fn may_stream(&self) -> bool {
        let Some((last, before)) = self.targets.split_last() else { return false };
        let mut operands = self.waypoints.iter().flat_map(|waypoint| waypoint.operands);
        last.output().is_some() && operands.all(|operand| operand != Origin::Target(before.len()))
    }

    fn new(steps: &[Step]) -> Self {
        let last = steps.len() - 1;
        let is_stored = |k: usize| steps[k].is_stored(k == last);
        let mut targets: SmallVec<[Target; 4]> = SmallVec::new();
        for k in (0..=last).filter(|&k| is_stored(k)) {
            if !targets.contains(&steps[k].target) {
                targets.push(steps[k].target);
            }
        }
        let number_of = |target: Target| targets.iter().position(|&other| other == target);
        let waypoint = |(k, step): (usize, &Step)| {
            let value = (k > 0).then(|| steps[k - 1].target);
            let located = |target: Target| match (target, number_of(target)) {
                _ if value == Some(target) => Origin::Value,
                (_, Some(number)) => Origin::Target(number),
                (Target::Register(register), _) => Origin::Register(register),
                (Target::Output(output), _) => Origin::Output(output),
            };
            let origin = |n: usize| match step.src.get(n) {
                None => Origin::Same(0.0),
                Some(Place::Target) => located(step.target),
                Some(Place::Register(register, _)) => located(Target::Register(*register)),
                Some(Place::Output(output, _)) => located(Target::Output(*output)),
                Some(Place::Scalar(value)) => Origin::Same(bytemuck::pod_read_unaligned(value.as_slice())),
                Some(Place::Leaf(leaf)) => Origin::Leaf(*leaf),
                Some(Place::Row(row)) => Origin::Row(*row),
            };
            let Origin::Same(third) = origin(2) else { unreachable!("third operands are constants") };
            Waypoint {
                light: step.light().expect("the functions of a pass are light"),
                operands: [origin(0), origin(1)],
                third,
                target: number_of(step.target).filter(|_| is_stored(k)),
                fetches: [false; 3],
            }
        };
        let waypoints = steps.iter().enumerate().map(waypoint).collect();
        Self { waypoints, links: None, targets }
    }

    /// The functions, if they are the same for all tiles and the first output is the only target.
    pub(super) fn links_to_output(&self) -> Option<&[Link<'p>]> {
        self.links.as_deref().filter(|_| self.targets[..] == [Target::Output(0)])
    }

    /// Computes a tile. `ahead` is the plan's; `streams` if the last result, which is an output, is written
    /// past the caches. The tiles of leaves are not read if the links are the same for all tiles.
    pub(super) fn run(
        &self,
        place: PassPlace,
        ahead: usize,
        streams: bool,
        leaves: &[LeafTile<'_>],
        outs: &mut [&mut [u8]],
        registers: &mut [&mut [u8]],
    ) {
        let PassPlace { range, here, rows } = place;
        let tile = 0..range.len() * size_of::<f32>();
        // Targets are taken out of their lists while the steps run, since the operands are in these lists.
        let mut to_outs: SmallVec<[&mut [u8]; 8]> = SmallVec::new();
        let mut to_registers: SmallVec<[&mut [u8]; 8]> = SmallVec::new();
        for target in &self.targets {
            match *target {
                Target::Output(k) => to_outs.push(core::mem::take(&mut outs[k])),
                Target::Register(k) => to_registers.push(core::mem::take(&mut registers[k])),
            }
        }
        {
            let mut targets: SmallVec<[&mut [f32]; 4]> = SmallVec::new();
            let (mut next_out, mut next_register) = (to_outs.iter_mut(), to_registers.iter_mut());
            for target in &self.targets {
                let bytes = match target {
                    Target::Output(_) => &mut next_out.next().expect("one for each")[here.clone()],
                    Target::Register(_) => &mut next_register.next().expect("one for each")[tile.clone()],
                };
                targets.push(bytemuck::cast_slice_mut(bytes));
            }
            let streams = streams && range.len().is_multiple_of(WIDEST);
            let streamed = if streams { targets.pop() } else { None };
            let targets = &mut targets[..];
            match &self.links {
                Some(links) => {
                    let rows = rows.by_row.unwrap_or(PassRows::ONE);
                    FusedPass { links, first: range.start, rows, ahead, targets, streamed }.run();
                }
                None => {
                    let links = self.links(tile, here, leaves, rows, outs, registers);
                    // Operands begin with the tile.
                    let rows = rows.by_row.map_or(PassRows::ONE, |rows| PassRows { first: 0, ..rows });
                    FusedPass { links: &links, first: 0, rows, ahead, targets, streamed }.run();
                }
            }
        }
        let outputs = self.targets.iter().filter_map(|target| target.output());
        outputs.zip(to_outs).for_each(|(k, bytes)| outs[k] = bytes);
        let stores = self.targets.iter().filter_map(|target| target.register());
        stores.zip(to_registers).for_each(|(k, bytes)| registers[k] = bytes);
    }

    /// The functions for a tile, which lies at `tile` in registers and at `here` in outputs.
    fn links<'a>(
        &self,
        tile: Range<usize>,
        here: Range<usize>,
        leaves: &[LeafTile<'a>],
        rows: RowTile,
        outs: &'a [&mut [u8]],
        registers: &'a [&mut [u8]],
    ) -> SmallVec<[Link<'a>; 8]> {
        let register = |n: usize| LinkOperand::Each(bytemuck::cast_slice(&registers[n][tile.clone()]));
        let resolve = |origin, fetches| match origin {
            Origin::Value => LinkOperand::Value,
            Origin::Target(number) => LinkOperand::Target(number),
            Origin::Same(number) => LinkOperand::Same(number),
            Origin::Register(n) => register(n),
            Origin::Row(place) => match rows.numbers(place, outs, registers) {
                RowNumbers::One(number) => LinkOperand::Same(bytemuck::pod_read_unaligned(number)),
                RowNumbers::Each(numbers) => LinkOperand::PerRow(bytemuck::cast_slice(numbers)),
                RowNumbers::Spread => register(place.spread),
            },
            Origin::Output(output) => LinkOperand::Each(bytemuck::cast_slice(&outs[output][here.clone()])),
            Origin::Leaf(leaf) => match leaves[leaf] {
                LeafTile::Each(bytes) if fetches => LinkOperand::Fetched(bytemuck::cast_slice(bytes)),
                LeafTile::Each(bytes) => LinkOperand::Each(bytemuck::cast_slice(bytes)),
                LeafTile::Same(bytes) => LinkOperand::Same(bytemuck::pod_read_unaligned(bytes)),
                LeafTile::PerRow(bytes) => LinkOperand::PerRow(bytemuck::cast_slice(bytes)),
                LeafTile::SameRow(bytes) => LinkOperand::SameRow(bytemuck::cast_slice(bytes)),
                LeafTile::Register(n, _) => register(n),
            },
        };
        let link = |waypoint: &Waypoint| {
            let [first, second] = waypoint.operands;
            waypoint.link([resolve(first, waypoint.fetches[0]), resolve(second, waypoint.fetches[1])])
        };
        collected(self.waypoints.iter().map(link))
    }
}
