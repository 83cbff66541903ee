//! Several steps in one pass over a tile, with the value in vector registers.
//!
//! A step by itself loads and stores a tile in the first cache, which takes longer than a light function. So
//! steps of light functions that follow each other are joined: a few vectors at a time go through all of
//! them.

use super::super::light::Light;
use alloc::vec::Vec;
use flex_math::simd::{Scalar, Simd, Vector, WIDEST, WithSimd, dispatch, prefetch_far};

/// Vectors that go through the steps together.
const VECTORS: usize = 4;

/// Most elements of so many vectors.
const MOST: usize = VECTORS * WIDEST;

/// Where a function of a pass finds an operand.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    /// The result of the function before.
    Value,
    /// Element for element.
    Each(&'a [f32]),
    /// Element for element, in memory that continues after the slice.
    Streamed(&'a [f32]),
    /// One number for all elements.
    Same(f32),
    /// The elements of a target, before or after a function stores its result there.
    Target(usize),
}

/// A function of a pass.
#[derive(Clone, Copy)]
pub(super) struct Link<'a> {
    pub light: Light,
    /// As many as the function has, in order.
    pub operands: [Operand<'a>; 2],
    /// The third operand of a function that has three.
    pub third: f32,
    /// The number of the target that the result is stored to.
    pub target: Option<usize>,
}

/// Functions, each of the result of the one before.
pub(super) struct Pass<'p, 'a> {
    pub links: &'p [Link<'a>],
    /// Of equal length.
    pub targets: &'p mut [&'a mut [f32]],
}

impl Pass<'_, '_> {
    /// Computes every element of the targets.
    pub(super) fn run(self) {
        let Self { links, targets } = self;
        let len = targets.first().map_or(0, |target| target.len());
        let done = dispatch(Whole { links, targets: &mut *targets });
        if done == len {
            return;
        }
        // The rest goes through blocks of whole vectors.
        let block = |from: &[f32]| {
            let mut block = [1.0; MOST];
            block[..len - done].copy_from_slice(&from[done..]);
            block
        };
        let mut sources = Vec::new();
        for operand in links.iter().flat_map(|link| link.operands) {
            if let Operand::Each(from) | Operand::Streamed(from) = operand {
                sources.push(block(from));
            }
        }
        let mut next = sources.iter();
        let mut place = |operand| match operand {
            Operand::Each(_) | Operand::Streamed(_) => {
                Operand::Each(next.next().expect("a block for each slice"))
            }
            other => other,
        };
        let links: Vec<Link<'_>> = links
            .iter()
            .map(|link| Link { operands: [place(link.operands[0]), place(link.operands[1])], ..*link })
            .collect();
        let mut ends: Vec<[f32; MOST]> = targets.iter().map(|target| block(target)).collect();
        {
            let mut blocks: Vec<&mut [f32]> = ends.iter_mut().map(|end| &mut end[..]).collect();
            dispatch(Whole { links: &links, targets: &mut blocks });
        }
        for (target, end) in targets.iter_mut().zip(&ends) {
            target[done..].copy_from_slice(&end[..len - done]);
        }
    }
}

/// The part of a pass that consists of whole groups of vectors. Returns its length.
struct Whole<'p, 'a, 't> {
    links: &'p [Link<'a>],
    targets: &'p mut [&'t mut [f32]],
}

impl WithSimd for Whole<'_, '_, '_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> usize {
        let Self { links, targets } = self;
        let len = targets.first().map_or(0, |target| target.len());
        let step = VECTORS * f32::lanes::<S>();
        let mut at = 0;
        while at + step <= len {
            let mut value = [0f32.splat(); VECTORS];
            for link in links {
                let second = load::<S>(&link.operands[1], at, &value, targets);
                let mut first = load::<S>(&link.operands[0], at, &value, targets);
                link.light.eval::<S, VECTORS>(&mut first, &second, link.third.splat());
                value = first;
                if let Some(target) = link.target {
                    let target = &mut *targets[target];
                    prefetch_far(target.as_ptr().wrapping_add(at + len).cast(), step * size_of::<f32>());
                    store::<S>(&value, &mut target[at..at + step]);
                }
            }
            at += step;
        }
        at
    }
}

/// The vectors of an operand from element `at` on.
#[inline(always)]
fn load<S: Simd>(
    operand: &Operand<'_>,
    at: usize,
    value: &[Vector<S, f32>; VECTORS],
    targets: &[&mut [f32]],
) -> [Vector<S, f32>; VECTORS] {
    let from = match *operand {
        Operand::Value => return *value,
        Operand::Same(number) => return [number.splat(); VECTORS],
        Operand::Each(from) => from,
        Operand::Streamed(from) => {
            // What the next tile begins with.
            let next = from.as_ptr().wrapping_add(at + from.len());
            prefetch_far(next.cast(), VECTORS * size_of::<Vector<S, f32>>());
            from
        }
        Operand::Target(target) => &*targets[target],
    };
    let lanes = f32::lanes::<S>();
    let from = &from[at..at + VECTORS * lanes];
    let mut vectors = [0f32.splat(); VECTORS];
    for (n, vector) in vectors.iter_mut().enumerate() {
        *vector = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&from[n * lanes..(n + 1) * lanes]));
    }
    vectors
}

/// Writes all vectors.
#[inline(always)]
fn store<S: Simd>(vectors: &[Vector<S, f32>; VECTORS], to: &mut [f32]) {
    let lanes = f32::lanes::<S>();
    for (n, vector) in vectors.iter().enumerate() {
        let to: &mut [u8] = bytemuck::cast_slice_mut(&mut to[n * lanes..(n + 1) * lanes]);
        to.copy_from_slice(bytemuck::bytes_of(vector));
    }
}
