//! Several steps in one pass over a tile, with the value in vector registers.
//!
//! A step by itself loads and stores a tile in the first-level cache, which takes longer than a light
//! function. So steps of light functions that follow each other are joined: a few vectors at a time go
//! through all of them. A result that another step than the next one reads is stored on the way.

use super::super::light::LightFn;
use crate::small::collected;
use flex_math::simd::{
    self, Scalar, Simd, Streamed, Vector, WIDEST, WithSimd, dispatch, has_vectors, prefetch_far,
};
use smallvec::SmallVec;

/// Vectors that go through the steps together, a *group*: as many as keep the choice of a function, which
/// takes some 8 cycles, small beside it. Four additions of 65,536 f32 take 0.15 ns per element, and with four
/// vectors 0.19 (Zen 4).
const WIDE_VECTORS: usize = 8;

/// [`WIDE_VECTORS`] where vectors are shorter than 64 bytes: as many as 16 registers hold beside a number.
/// Eight functions of 1 Mi f32 take 503 us, and with 8 vectors 561; a norm and relu of 802,816 f32 in rows of
/// 784 227 and 260 (one thread of Zen 3).
const VECTORS: usize = 12;

/// Vectors that go through the steps together where fewer are left.
const FEW: usize = 4;

/// Elements of the largest group. Vectors that are shorter than the [widest](WIDEST) are at most half as
/// long.
const ROOM: usize = WIDE_VECTORS * WIDEST;
const _: () = assert!(VECTORS * WIDEST / 2 <= ROOM, "a group of short vectors has room");

/// Where a function of a pass finds an operand.
#[derive(Clone, Copy)]
pub(super) enum LinkOperand<'a> {
    /// The result of the function just before.
    Value,
    /// Element for element.
    Each(&'a [f32]),
    /// Element for element, in memory that continues after the slice, and is
    /// [fetched ahead](FusedPass::ahead).
    Fetched(&'a [f32]),
    /// One number for all elements.
    Same(f32),
    /// One number for each [row](FusedPass::rows).
    PerRow(&'a [f32]),
    /// The same row for each [row](FusedPass::rows): whole [widest](WIDEST) vectors.
    SameRow(&'a [f32]),
    /// The elements of a target, before or after a function stores its result there.
    Target(usize),
}

/// A function of a pass.
#[derive(Clone, Copy)]
pub(super) struct Link<'a> {
    pub light: LightFn,
    /// Whether the first operand is the result of the function just before. Told apart from the operand, for
    /// whose kind the compiler makes a jump table.
    pub continues: bool,
    /// As many as the function has, in order.
    pub operands: [LinkOperand<'a>; 2],
    /// The third operand of a function that has three.
    pub third: f32,
    /// The number of the target that the result is stored to.
    pub target: Option<usize>,
    /// Whether the target's memory continues after the slice, and is [fetched ahead](FusedPass::ahead).
    pub fetches: bool,
}

/// Functions, each of which may read the results of those before.
pub(super) struct FusedPass<'p, 'a> {
    pub links: &'p [Link<'a>],
    /// Where the targets begin in operands that are read element for element.
    pub first: usize,
    pub rows: PassRows,
    /// How far ahead memory is fetched, in elements.
    pub ahead: usize,
    /// Of equal length.
    pub targets: &'p mut [&'a mut [f32]],
    /// Where the last result is written past the caches: whole [widest](WIDEST) vectors, as many elements as
    /// targets have. The target of the last function is not among `targets` then.
    pub streamed: Option<&'p mut [f32]>,
}

/// The rows of a pass, of which an operand may have one number each.
#[derive(Clone, Copy)]
pub(super) struct PassRows {
    /// Elements of a row: at least [`LEAST_ROW`].
    pub len: usize,
    /// The number of the first row in operands that have one number for each.
    pub first: usize,
    /// Elements of the first row that lie before the targets: fewer than a row. A row that is the same for
    /// all rows begins with the targets.
    pub before: usize,
}

impl PassRows {
    /// One row, for a pass without operands that are read by row.
    pub(super) const ONE: Self = Self { len: usize::MAX, first: 0, before: 0 };
}

/// Shortest rows of a pass, in elements. Each row costs a few instructions for each vector of its group. Norm
/// and relu of rows of 16, 49 and 81 f32 take 0.48, 0.22 and 0.16 ns per element, and 0.76, 0.73 and 0.62 if
/// registers repeat the numbers along the rows (Zen 5; with AVX2 0.55, 0.36 and 0.30 instead of 0.92, 0.82
/// and 0.70).
pub(super) const LEAST_ROW: usize = WIDEST;

/// Shortest row that passes read again for each row, in elements. Groups end with such rows, so that shorter
/// ones leave small groups: with rows of 16, 32 and 48, a norm takes a fifth longer than where registers
/// repeat the row.
pub(super) const LEAST_SAME_ROW: usize = FEW * WIDEST;

impl FusedPass<'_, '_> {
    /// Computes every element of the targets.
    pub(super) fn run(self) {
        let Self { links, first, rows, ahead, targets, streamed } = self;
        let place = Position { at: 0, row: rows.first, in_row: rows.before };
        let row = rows.len;
        let whole = Whole { links, first, row, place, ahead, targets: &mut *targets, streamed: None, len: 0 };
        if let Some(to) = streamed {
            let len = to.len();
            debug_assert!(len.is_multiple_of(WIDEST));
            return simd::streamed(to, |to| {
                dispatch(Whole { streamed: Some(to), len, ..whole });
            });
        }
        let len = whole.targets.first().map_or(0, |target| target.len());
        let end = dispatch(Whole { len, ..whole });
        if end.at < len {
            run_end(links, first, targets, row, end);
        }
    }
}

/// Computes the elements of the targets from `place` on, fewer than [`WIDEST`], in blocks of whole vectors.
/// `first` is the pass's; rows have `row` elements.
#[inline(never)]
fn run_end(links: &[Link<'_>], first: usize, targets: &mut [&mut [f32]], row: usize, place: Position) {
    let done = place.at;
    let left = targets.first().map_or(0, |target| target.len() - done);
    let block = |from: &[f32]| {
        let mut block = [1.0; WIDEST];
        block[..left].copy_from_slice(&from[..left]);
        block
    };
    let slices = links.iter().flat_map(|link| link.operands).filter_map(|operand| match operand {
        LinkOperand::Each(from) | LinkOperand::Fetched(from) => Some(from),
        _ => None,
    });
    let sources: PaddedEnds = collected(slices.map(|from| block(&from[first + done..])));
    let mut next = sources.iter();
    let mut padded = |operand| match operand {
        LinkOperand::Each(_) | LinkOperand::Fetched(_) => {
            LinkOperand::Each(next.next().expect("a block for each slice"))
        }
        other => other,
    };
    let links: SmallVec<[Link<'_>; 8]> = collected(links.iter().map(|link| Link {
        operands: [padded(link.operands[0]), padded(link.operands[1])],
        fetches: false,
        ..*link
    }));
    let mut ends: PaddedEnds = collected(targets.iter().map(|target| block(&target[done..])));
    {
        let mut blocks: SmallVec<[&mut [f32]; 4]> = collected(ends.iter_mut().map(|end| &mut end[..]));
        let (place, len) = (Position { at: 0, ..place }, WIDEST);
        let (links, targets) = (&links, &mut blocks);
        dispatch(Whole { links, first: 0, row, place, ahead: 0, targets, streamed: None, len });
    }
    for (target, end) in targets.iter_mut().zip(&ends) {
        let target = &mut target[done..];
        target.copy_from_slice(&end[..target.len()]);
    }
}

/// The ends of slices, each completed to whole vectors.
type PaddedEnds = SmallVec<[[f32; WIDEST]; 4]>;

/// The part of a pass that consists of whole vectors, and at the baseline of groups. Returns where it ends.
struct Whole<'p, 'a, 't, 's> {
    links: &'p [Link<'a>],
    /// Where the targets begin in operands that are read element for element.
    first: usize,
    /// Elements of a row.
    row: usize,
    /// Where the pass begins.
    place: Position,
    ahead: usize,
    targets: &'p mut [&'t mut [f32]],
    streamed: Option<&'p mut Streamed<'s, f32>>,
    len: usize,
}

/// Where a group of vectors begins.
#[derive(Clone, Copy)]
struct Position {
    /// In the targets.
    at: usize,
    /// The number of the row.
    row: usize,
    /// In the row.
    in_row: usize,
}

impl WithSimd for Whole<'_, '_, '_, '_> {
    type Output = Position;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) -> Position {
        // A group reads consecutive elements of a row that is the same for all rows.
        let is_same = |operand: &LinkOperand<'_>| matches!(operand, LinkOperand::SameRow(_));
        let end_with_rows = self.links.iter().any(|link| link.operands.iter().any(is_same));
        let stretch = if end_with_rows { self.row } else { self.len };
        let (mut end, rooms) = (0, &mut [[0.0; ROOM]; 2]);
        while end < self.len {
            end = (end + stretch).min(self.len);
            if const { has_vectors::<S>() } {
                if const { size_of::<S::Register>() == 64 } {
                    self.run::<S, WIDE_VECTORS>(end, rooms);
                } else {
                    self.run::<S, VECTORS>(end, rooms);
                }
                self.run::<S, FEW>(end, rooms);
                self.run::<S, 1>(end, rooms);
            } else {
                // Other groups would only be more code. One has 8 elements, and `WIDEST` is a multiple of it.
                self.run::<S, FEW>(end, rooms);
            }
        }
        self.place
    }
}

impl Whole<'_, '_, '_, '_> {
    /// Computes the elements before `end`, as far as there are groups of `N` vectors. `rooms` take operands
    /// that are not in memory.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(&mut self, end: usize, rooms: &mut [[f32; ROOM]; 2]) {
        let lanes = f32::lanes::<S>();
        let step = N * lanes;
        let mut place = self.place;
        let [room, other_room] = rooms;
        while place.at + step <= end {
            let mut value = [0f32.splat(); N];
            for link in self.links {
                let [first, second] = &link.operands;
                let third = link.third.splat();
                // Only the function is found by a jump table. With one for each operand too, and a vector of
                // each group for a number, five functions take 8.7 cycles for a vector instead of 5.8.
                match self.number::<S, N>(second, place) {
                    Some(number) => {
                        if !link.continues {
                            value = self.load::<S, N>(first, place, other_room);
                        }
                        let number = number.splat();
                        link.light.eval::<S, N>(&mut value, |_| number, third);
                    }
                    None => {
                        let second = if let LinkOperand::Value = second {
                            store::<S, N>(&value, room);
                            &room[..step]
                        } else {
                            self.elements::<S, N>(second, place, room)
                        };
                        if !link.continues {
                            value = self.load::<S, N>(first, place, other_room);
                        }
                        link.light.eval::<S, N>(&mut value, |n| simd::load(&second[n * lanes..]), third);
                    }
                }
                if let Some(target) = link.target.and_then(|target| self.targets.get_mut(target)) {
                    if link.fetches {
                        let next = target.as_ptr().wrapping_add(place.at + self.ahead);
                        prefetch_far(next.cast(), step * size_of::<f32>());
                    }
                    store::<S, N>(&value, &mut target[place.at..place.at + step]);
                }
            }
            if let Some(streamed) = &mut self.streamed {
                streamed.put::<S, N>(place.at, &value);
            }
            place.at += step;
            place.in_row += step;
            while place.in_row >= self.row {
                place.in_row -= self.row;
                place.row += 1;
            }
        }
        self.place = place;
    }

    /// The number that an operand is for the group of `N` vectors at `place`, if it is one.
    #[inline(always)]
    fn number<S: Simd, const N: usize>(&self, operand: &LinkOperand<'_>, place: Position) -> Option<f32> {
        match operand {
            LinkOperand::Same(number) => Some(*number),
            LinkOperand::PerRow(numbers) if self.row - place.in_row >= N * f32::lanes::<S>() => {
                Some(number_of(numbers, place.row))
            }
            _ => None,
        }
    }

    /// The group of vectors at `place` of an operand that is not the result of the function before.
    #[inline(always)]
    fn load<S: Simd, const N: usize>(
        &self,
        operand: &LinkOperand<'_>,
        place: Position,
        room: &mut [f32; ROOM],
    ) -> [Vector<S, f32>; N] {
        if let LinkOperand::Same(number) = operand {
            return [number.splat(); N];
        }
        let from = self.elements::<S, N>(operand, place, room);
        let mut vectors = [0f32.splat(); N];
        for (n, vector) in vectors.iter_mut().enumerate() {
            *vector = simd::load(&from[n * f32::lanes::<S>()..]);
        }
        vectors
    }

    /// The elements of an operand for the group of `N` vectors at `place`: where they are, or, if the operand
    /// has a number for each row, in `room`. Functions read them from there. Loaded first, they would take
    /// the registers of the values: eight functions of 1 Mi f32 took 663 us in place of 551, with 8 vectors
    /// in a group (one thread of Zen 3).
    #[inline(always)]
    fn elements<'m, S: Simd, const N: usize>(
        &'m self,
        operand: &LinkOperand<'m>,
        place: Position,
        room: &'m mut [f32; ROOM],
    ) -> &'m [f32] {
        let lanes = f32::lanes::<S>();
        let (len, counted) = (N * lanes, simd::load::<S, f32>(&COUNTED));
        let Position { at, row, in_row } = place;
        let (from, at) = match *operand {
            LinkOperand::Value | LinkOperand::Same(_) => unreachable!("it has no elements in memory"),
            LinkOperand::PerRow(numbers) => {
                let room = &mut room[..len];
                fill::<S>(number_of(numbers, row), room);
                // Where the next row begins in the group. A row is at least as long as a vector.
                let (mut row, mut end) = (row + 1, self.row - in_row);
                while end < len {
                    let next = number_of(numbers, row);
                    let (first, rest) = room[end / lanes * lanes..].split_at_mut(lanes);
                    let is_before = counted.lt(((end % lanes) as f32).splat());
                    simd::store(is_before.select(simd::load(first), next.splat()), first);
                    fill::<S>(next, rest);
                    (row, end) = (row + 1, end + self.row);
                }
                return room;
            }
            LinkOperand::SameRow(from) => (from, in_row),
            LinkOperand::Each(from) => (from, self.first + at),
            LinkOperand::Fetched(from) => {
                let at = self.first + at;
                let next = from.as_ptr().wrapping_add(at + self.ahead);
                prefetch_far(next.cast(), len * size_of::<f32>());
                (from, at)
            }
            LinkOperand::Target(target) => (&*self.targets[target], at),
        };
        &from[at..at + len]
    }
}

/// The number of a row. The [end](run_end) of a pass may have rows after the last one, which nobody reads.
#[inline(always)]
fn number_of(numbers: &[f32], row: usize) -> f32 {
    numbers[row.min(numbers.len() - 1)]
}

/// The numbers of the elements of a vector.
static COUNTED: [f32; WIDEST] = {
    let mut counted = [0.0; WIDEST];
    let mut k = 0;
    while k < counted.len() {
        counted[k] = k as f32;
        k += 1;
    }
    counted
};

/// Writes a number to whole vectors.
#[inline(always)]
fn fill<S: Simd>(number: f32, to: &mut [f32]) {
    let number = number.splat();
    for to in to.chunks_exact_mut(f32::lanes::<S>()) {
        simd::store::<S, f32>(number, to);
    }
}

/// Writes all vectors.
#[inline(always)]
fn store<S: Simd, const N: usize>(vectors: &[Vector<S, f32>; N], to: &mut [f32]) {
    let lanes = f32::lanes::<S>();
    for (n, vector) in vectors.iter().enumerate() {
        simd::store(*vector, &mut to[n * lanes..]);
    }
}
