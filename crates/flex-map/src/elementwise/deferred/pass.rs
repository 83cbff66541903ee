//! Several steps in one pass over a tile, with the value in vector registers.
//!
//! A step by itself loads and stores a tile in the first cache, which takes longer than a light function. So
//! steps of light functions that follow each other are joined: a few vectors at a time go through all of
//! them. A result that another step than the next one reads is stored on the way.

use super::super::light::LightFn;
use flex_math::simd::{
    self, Scalar, Simd, Streamed, Vector, WIDEST, WithSimd, dispatch, has_vectors, prefetch_far,
};
use smallvec::SmallVec;

/// Vectors that go through the steps together: as many as keep the choice of a function, which takes some 8
/// cycles, small beside it. Four additions of 65,536 f32 take 0.15 ns per element, and with four vectors 0.19
/// (Zen 4; with AVX2 0.23 and 0.39).
const VECTORS: usize = 8;

/// Vectors that go through the steps together where fewer than [`VECTORS`] are left.
const FEW: usize = 4;

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
    pub rows: PassRows,
    /// How far ahead memory is fetched, in elements.
    pub ahead: usize,
    /// Of equal length.
    pub targets: &'p mut [&'a mut [f32]],
    /// Where the last result is written past the caches: whole [widest](WIDEST) vectors, as many elements as
    /// targets have. The last function has no target then.
    pub streamed: Option<&'p mut [f32]>,
}

/// The rows of a pass, of which an operand may have one number each.
#[derive(Clone, Copy)]
pub(super) struct PassRows {
    /// Elements of a row: at least [`LEAST_ROW`].
    pub len: usize,
    /// Elements of the first row that lie before the targets: fewer than a row. Rows that are the same in an
    /// operand begin with the targets.
    pub before: usize,
}

/// Shortest rows of a pass, in elements: a group of vectors lies in one row, or in two.
pub(super) const LEAST_ROW: usize = WIDEST;

impl FusedPass<'_, '_> {
    /// Computes every element of the targets.
    pub(super) fn run(self) {
        let Self { links, rows, ahead, targets, streamed } = self;
        let place = Position { at: 0, row: 0, in_row: rows.before };
        let whole =
            Whole { links, row: rows.len, place, ahead, targets: &mut *targets, streamed: None, len: 0 };
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
            run_end(links, targets, rows.len, end);
        }
    }
}

/// Computes the elements of the targets from `place` on, fewer than a vector, in blocks of whole vectors.
/// Rows have `row` elements.
#[inline(never)]
fn run_end(links: &[Link<'_>], targets: &mut [&mut [f32]], row: usize, place: Position) {
    let done = place.at;
    let block = |from: &[f32]| {
        let mut block = [1.0; WIDEST];
        block[..from.len() - done].copy_from_slice(&from[done..]);
        block
    };
    let slices = links.iter().flat_map(|link| link.operands).filter_map(|operand| match operand {
        LinkOperand::Each(from) | LinkOperand::Fetched(from) => Some(from),
        _ => None,
    });
    let sources: PaddedEnds = slices.map(block).collect();
    let mut next = sources.iter();
    let mut padded = |operand| match operand {
        LinkOperand::Each(_) | LinkOperand::Fetched(_) => {
            LinkOperand::Each(next.next().expect("a block for each slice"))
        }
        other => other,
    };
    let links: SmallVec<[Link<'_>; 8]> = links
        .iter()
        .map(|link| Link {
            operands: [padded(link.operands[0]), padded(link.operands[1])],
            fetches: false,
            ..*link
        })
        .collect();
    let mut ends: PaddedEnds = targets.iter().map(|target| block(target)).collect();
    {
        let mut blocks: SmallVec<[&mut [f32]; 4]> = ends.iter_mut().map(|end| &mut end[..]).collect();
        let (place, len) = (Position { at: 0, ..place }, WIDEST);
        dispatch(Whole { links: &links, row, place, ahead: 0, targets: &mut blocks, streamed: None, len });
    }
    for (target, end) in targets.iter_mut().zip(&ends) {
        let target = &mut target[done..];
        target.copy_from_slice(&end[..target.len()]);
    }
}

/// The ends of slices, each completed to whole vectors.
type PaddedEnds = SmallVec<[[f32; WIDEST]; 4]>;

/// The part of a pass that consists of whole vectors. Returns where it ends.
struct Whole<'p, 'a, 't, 's> {
    links: &'p [Link<'a>],
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
        let mut end = 0;
        while end < self.len {
            end = (end + stretch).min(self.len);
            // Without vectors, longer groups would only be more code.
            if const { has_vectors::<S>() } {
                self.run::<S, VECTORS>(end);
            }
            self.run::<S, FEW>(end);
            self.run::<S, 1>(end);
        }
        self.place
    }
}

impl Whole<'_, '_, '_, '_> {
    /// Computes the elements before `end`, as far as there are groups of `N` vectors.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(&mut self, end: usize) {
        let step = N * f32::lanes::<S>();
        while self.place.at + step <= end {
            let mut value = [0f32.splat(); N];
            for link in self.links {
                let second = self.load::<S, N>(&link.operands[1], &value);
                let mut first = self.load::<S, N>(&link.operands[0], &value);
                link.light.eval::<S, N>(&mut first, &second, link.third.splat());
                value = first;
                if let Some(target) = link.target {
                    let (at, target) = (self.place.at, &mut *self.targets[target]);
                    if link.fetches {
                        let next = target.as_ptr().wrapping_add(at + self.ahead);
                        prefetch_far(next.cast(), step * size_of::<f32>());
                    }
                    store::<S, N>(&value, &mut target[at..at + step]);
                }
            }
            if let Some(streamed) = &mut self.streamed {
                streamed.put::<S, N>(self.place.at, &value);
            }
            self.place.at += step;
            self.place.in_row += step;
            while self.place.in_row >= self.row {
                self.place.in_row -= self.row;
                self.place.row += 1;
            }
        }
    }

    /// A group of vectors of an operand. `value` is the result of the function before.
    #[inline(always)]
    fn load<S: Simd, const N: usize>(
        &self,
        operand: &LinkOperand<'_>,
        value: &[Vector<S, f32>; N],
    ) -> [Vector<S, f32>; N] {
        let lanes = f32::lanes::<S>();
        let Position { mut at, row, in_row } = self.place;
        let from = match *operand {
            LinkOperand::Value => return *value,
            LinkOperand::Same(number) => return [number.splat(); N],
            LinkOperand::PerRow(numbers) => {
                let mut vectors = [numbers[row].splat(); N];
                // Where the next row begins in the group. After the targets there may be none.
                let (mut row, mut end) = (row + 1, self.row - in_row);
                while end < N * lanes && row < numbers.len() {
                    let (next, before) = (numbers[row].splat(), (end as f32).splat());
                    for (n, vector) in vectors.iter_mut().enumerate() {
                        let place: Vector<S, f32> = simd::load(&COUNTED[n * lanes..]);
                        *vector = place.lt(before).select(*vector, next);
                    }
                    (row, end) = (row + 1, end + self.row);
                }
                return vectors;
            }
            LinkOperand::SameRow(from) => {
                at = in_row;
                from
            }
            LinkOperand::Each(from) => from,
            LinkOperand::Fetched(from) => {
                let next = from.as_ptr().wrapping_add(at + self.ahead);
                prefetch_far(next.cast(), N * size_of::<Vector<S, f32>>());
                from
            }
            LinkOperand::Target(target) => &*self.targets[target],
        };
        let from = &from[at..at + N * lanes];
        let mut vectors = [0f32.splat(); N];
        for (n, vector) in vectors.iter_mut().enumerate() {
            *vector = simd::load(&from[n * lanes..]);
        }
        vectors
    }
}

/// The numbers of the elements of a group.
static COUNTED: [f32; VECTORS * WIDEST] = {
    let mut counted = [0.0; VECTORS * WIDEST];
    let mut k = 0;
    while k < counted.len() {
        counted[k] = k as f32;
        k += 1;
    }
    counted
};

/// Writes all vectors.
#[inline(always)]
fn store<S: Simd, const N: usize>(vectors: &[Vector<S, f32>; N], to: &mut [f32]) {
    let lanes = f32::lanes::<S>();
    for (n, vector) in vectors.iter().enumerate() {
        simd::store(*vector, &mut to[n * lanes..]);
    }
}
