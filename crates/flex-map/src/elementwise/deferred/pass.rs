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
    /// One number for each [row](FusedPass::row).
    PerRow(&'a [f32]),
    /// The same row for each [row](FusedPass::row).
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
    /// Elements of a row: whole [widest](WIDEST) vectors, or as many as targets have. Targets are whole rows.
    pub row: usize,
    /// How far ahead memory is fetched, in elements.
    pub ahead: usize,
    /// Of equal length.
    pub targets: &'p mut [&'a mut [f32]],
    /// Where the last result is written past the caches: whole [widest](WIDEST) vectors, as many elements as
    /// targets have. The last function has no target then.
    pub streamed: Option<&'p mut [f32]>,
}

impl FusedPass<'_, '_> {
    /// Computes every element of the targets.
    pub(super) fn run(self) {
        let Self { links, row, ahead, targets, streamed } = self;
        let whole = Whole { links, row, ahead, targets: &mut *targets, streamed: None, len: 0 };
        if let Some(to) = streamed {
            let len = to.len();
            debug_assert!(len.is_multiple_of(WIDEST));
            return simd::streamed(to, |to| {
                dispatch(Whole { streamed: Some(to), len, ..whole });
            });
        }
        let len = whole.targets.first().map_or(0, |target| target.len());
        let done = dispatch(Whole { len, ..whole });
        if done < len {
            run_end(links, targets, done);
        }
    }
}

/// Computes the elements of the targets from `done` on, fewer than a vector, in blocks of whole vectors.
#[inline(never)]
fn run_end(links: &[Link<'_>], targets: &mut [&mut [f32]], done: usize) {
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
    let mut place = |operand| match operand {
        LinkOperand::Each(_) | LinkOperand::Fetched(_) => {
            LinkOperand::Each(next.next().expect("a block for each slice"))
        }
        other => other,
    };
    let links: SmallVec<[Link<'_>; 8]> = links
        .iter()
        .map(|link| Link {
            operands: [place(link.operands[0]), place(link.operands[1])],
            fetches: false,
            ..*link
        })
        .collect();
    let mut ends: PaddedEnds = targets.iter().map(|target| block(target)).collect();
    {
        let mut blocks: SmallVec<[&mut [f32]; 4]> = ends.iter_mut().map(|end| &mut end[..]).collect();
        let (row, len) = (WIDEST, WIDEST);
        dispatch(Whole { links: &links, row, ahead: 0, targets: &mut blocks, streamed: None, len });
    }
    for (target, end) in targets.iter_mut().zip(&ends) {
        let target = &mut target[done..];
        target.copy_from_slice(&end[..target.len()]);
    }
}

/// The ends of slices, each completed to whole vectors.
type PaddedEnds = SmallVec<[[f32; WIDEST]; 4]>;

/// The part of a pass that consists of whole vectors. Returns its length.
struct Whole<'p, 'a, 't, 's> {
    links: &'p [Link<'a>],
    row: usize,
    ahead: usize,
    targets: &'p mut [&'t mut [f32]],
    streamed: Option<&'p mut Streamed<'s, f32>>,
    len: usize,
}

impl WithSimd for Whole<'_, '_, '_, '_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) -> usize {
        let mut done = 0;
        for row in 0..self.len.div_ceil(self.row.max(1)) {
            let end = (done + self.row).min(self.len);
            // Without vectors, longer groups would only be more code.
            if const { has_vectors::<S>() } {
                done = self.run::<S, VECTORS>(row, done, end);
            }
            done = self.run::<S, FEW>(row, done, end);
            done = self.run::<S, 1>(row, done, end);
        }
        done
    }
}

impl Whole<'_, '_, '_, '_> {
    /// Computes the elements of row `row` from `at` on and before `end`, as far as there are groups of `N`
    /// vectors; returns where they end.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(&mut self, row: usize, mut at: usize, end: usize) -> usize {
        let Self { links, row: len, ahead, targets, streamed, .. } = self;
        let step = N * f32::lanes::<S>();
        while at + step <= end {
            let place = InRow { row, at, in_row: at - row * *len, ahead: *ahead };
            let mut value = [0f32.splat(); N];
            for link in *links {
                let second = load::<S, N>(&link.operands[1], place, &value, targets);
                let mut first = load::<S, N>(&link.operands[0], place, &value, targets);
                link.light.eval::<S, N>(&mut first, &second, link.third.splat());
                value = first;
                if let Some(target) = link.target {
                    let target = &mut *targets[target];
                    if link.fetches {
                        let next = target.as_ptr().wrapping_add(at + *ahead);
                        prefetch_far(next.cast(), step * size_of::<f32>());
                    }
                    store::<S, N>(&value, &mut target[at..at + step]);
                }
            }
            if let Some(streamed) = streamed {
                streamed.put::<S, N>(at, &value);
            }
            at += step;
        }
        at
    }
}

/// Where a group of vectors begins.
#[derive(Clone, Copy)]
struct InRow {
    row: usize,
    /// In the targets.
    at: usize,
    /// In the row.
    in_row: usize,
    /// How far ahead memory is fetched.
    ahead: usize,
}

/// A group of vectors of an operand.
#[inline(always)]
fn load<S: Simd, const N: usize>(
    operand: &LinkOperand<'_>,
    place: InRow,
    value: &[Vector<S, f32>; N],
    targets: &[&mut [f32]],
) -> [Vector<S, f32>; N] {
    let InRow { row, mut at, in_row, ahead } = place;
    let from = match *operand {
        LinkOperand::Value => return *value,
        LinkOperand::Same(number) => return [number.splat(); N],
        LinkOperand::PerRow(numbers) => return [numbers[row].splat(); N],
        LinkOperand::SameRow(from) => {
            at = in_row;
            from
        }
        LinkOperand::Each(from) => from,
        LinkOperand::Fetched(from) => {
            let next = from.as_ptr().wrapping_add(at + ahead);
            prefetch_far(next.cast(), N * size_of::<Vector<S, f32>>());
            from
        }
        LinkOperand::Target(target) => &*targets[target],
    };
    let lanes = f32::lanes::<S>();
    let from = &from[at..at + N * lanes];
    let mut vectors = [0f32.splat(); N];
    for (n, vector) in vectors.iter_mut().enumerate() {
        *vector = simd::load(&from[n * lanes..]);
    }
    vectors
}

/// Writes all vectors.
#[inline(always)]
fn store<S: Simd, const N: usize>(vectors: &[Vector<S, f32>; N], to: &mut [f32]) {
    let lanes = f32::lanes::<S>();
    for (n, vector) in vectors.iter().enumerate() {
        simd::store(*vector, &mut to[n * lanes..]);
    }
}
