//! Loops over elements and their scales.

use super::codec::{Codec, encode_int};
use crate::parallel::{self, Work};
use crate::{Result, storage};
use alloc::vec;
use alloc::vec::Vec;
use flex_math::simd::vectorize_lean;

/// How scales are assigned to the elements of a tensor in row-major order.
pub(super) enum ScaleLayout {
    /// One scale for all elements.
    One,
    /// One scale for each run of `run` elements, in order.
    Each { run: usize },
    /// Blocks that span several rows. A row has `per_row` runs of `run` elements; its scales start at
    /// `first[row]`. There are `count` scales.
    Rows { run: usize, per_row: usize, first: Vec<usize>, count: usize },
}

/// Elements per piece of a tensor with one scale.
const PIECE: usize = 4096;

impl ScaleLayout {
    /// Number of elements in a row of consecutive scales, and the length of its runs.
    fn row(&self) -> (usize, usize) {
        match self {
            ScaleLayout::One => (PIECE, PIECE),
            ScaleLayout::Each { run } => (*run, *run),
            ScaleLayout::Rows { run, per_row, .. } => (run * per_row, *run),
        }
    }

    /// Position of the first scale of row `row`.
    #[inline(always)]
    fn first(&self, row: usize) -> usize {
        match self {
            ScaleLayout::One => 0,
            ScaleLayout::Each { .. } => row,
            ScaleLayout::Rows { first, .. } => first[row],
        }
    }
}

/// Bytes per element that `encode` and `decode` move: a code and an `f32`.
const BYTES: usize = 5;

/// Calls `f(output run, input run, scale)` for all runs, compiled for the machine's vector units.
#[inline(always)]
fn for_each_run<A: Sync, B: Send>(
    input: &[A],
    scales: &[f32],
    layout: &ScaleLayout,
    out: &mut [B],
    f: impl Fn(&mut [B], &[A], f32) + Sync,
) {
    let (row, run) = layout.row();
    if out.is_empty() {
        return;
    }
    let rows = parallel::rows_per_task(BYTES * row);
    let work = Work::Bytes(BYTES * out.len());
    parallel::for_each_chunk(out, rows * row, work, |k, out| {
        let input = &input[k * rows * row..][..out.len()];
        vectorize_lean(
            #[inline(always)]
            || {
                for (i, (out, input)) in out.chunks_mut(row).zip(input.chunks(row)).enumerate() {
                    let first = layout.first(k * rows + i);
                    for (c, (out, input)) in out.chunks_mut(run).zip(input.chunks(run)).enumerate() {
                        f(out, input, scales[first + c]);
                    }
                }
            },
        );
    });
}

/// `out[i] = f(input[i])`, in groups of constant length: runs are often as short as 32 elements, for which
/// the entry and exit of a loop of variable length cost more than the loop.
#[inline(always)]
fn each<A: Copy, B>(out: &mut [B], input: &[A], f: impl Fn(A) -> B) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let (input_groups, input_rest) = input.as_chunks::<LANES>();
    for (out, input) in groups.iter_mut().zip(input_groups) {
        out.iter_mut().zip(input).for_each(|(o, &v)| *o = f(v));
    }
    rest.iter_mut().zip(input_rest).for_each(|(o, &v)| *o = f(v));
}

/// Encodes `numbers`, divided by their scales, to codes.
pub(super) fn encode(codec: Codec, numbers: &[f32], scales: &[f32], layout: &ScaleLayout, out: &mut [i8]) {
    match codec {
        Codec::Int { low, high } => for_each_run(
            numbers,
            scales,
            layout,
            out,
            #[inline(always)]
            |out, numbers, scale| {
                each(
                    out,
                    numbers,
                    #[inline(always)]
                    |x| encode_int(x / scale, low, high),
                )
            },
        ),
        Codec::Mini(mini) => for_each_run(
            numbers,
            scales,
            layout,
            out,
            #[inline(always)]
            |out, numbers, scale| {
                each(
                    out,
                    numbers,
                    #[inline(always)]
                    |x| mini.encode(x / scale) as i8,
                )
            },
        ),
    }
}

/// Decodes `codes` to numbers and multiplies them with their scales. The loops are plain: groups as in
/// [`encode`] made this four times slower, because the compiler unrolls the groups before it vectorises them.
pub(super) fn decode(codec: Codec, codes: &[i8], scales: &[f32], layout: &ScaleLayout, out: &mut [f32]) {
    match codec {
        Codec::Int { .. } => for_each_run(
            codes,
            scales,
            layout,
            out,
            #[inline(always)]
            |out, codes, scale| {
                for (o, &code) in out.iter_mut().zip(codes) {
                    *o = code as f32 * scale;
                }
            },
        ),
        Codec::Mini(mini) => {
            let table = mini.table();
            for_each_run(
                codes,
                scales,
                layout,
                out,
                #[inline(always)]
                |out, codes, scale| {
                    for (o, &code) in out.iter_mut().zip(codes) {
                        *o = table[code as u8 as usize] * scale;
                    }
                },
            );
        }
    }
}

/// The largest magnitude in each block, in the order of the scales. NaN is skipped.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory) when the system has no room for the magnitudes.
pub(super) fn largest_magnitudes(
    op: &'static str,
    numbers: &[f32],
    layout: &ScaleLayout,
) -> Result<Vec<f32>> {
    let work = Work::Bytes(size_of_val(numbers));
    match layout {
        ScaleLayout::One => {
            let block = parallel::rows_per_task(size_of::<f32>());
            let parts =
                parallel::map_blocks(numbers.len(), block, work, |range| vectorized_largest(&numbers[range]));
            Ok(vec![parts.into_iter().fold(0.0, larger)])
        }
        ScaleLayout::Each { run } => {
            let mut largest = storage::try_room(op, numbers.len() / run, 0f32)?;
            let runs = parallel::rows_per_task(run * size_of::<f32>());
            parallel::for_each_chunk(&mut largest, runs, work, |k, out| {
                let numbers = numbers[k * runs * run..].chunks_exact(*run);
                vectorize_lean(
                    #[inline(always)]
                    || out.iter_mut().zip(numbers).for_each(|(o, run)| *o = largest_of(run)),
                );
            });
            Ok(largest)
        }
        // Rows share blocks, so a single thread reads all rows.
        ScaleLayout::Rows { run, per_row, first, count } => {
            let mut largest = storage::try_room(op, *count, 0f32)?;
            vectorize_lean(
                #[inline(always)]
                || {
                    for (row, &first) in numbers.chunks_exact(run * per_row).zip(first) {
                        let blocks = largest[first..].iter_mut().zip(row.chunks_exact(*run));
                        blocks.for_each(|(o, run)| *o = larger(*o, largest_of(run)));
                    }
                },
            );
            Ok(largest)
        }
    }
}

fn vectorized_largest(numbers: &[f32]) -> f32 {
    vectorize_lean(
        #[inline(always)]
        || largest_of(numbers),
    )
}

/// The larger of `a` and `b`; `a` if `b` is NaN.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Elements that are processed together: two registers of the widest vector unit.
const LANES: usize = 32;

#[inline(always)]
fn largest_of(numbers: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (groups, rest) = numbers.as_chunks::<LANES>();
    for group in groups {
        lanes.iter_mut().zip(group).for_each(|(lane, x)| *lane = larger(*lane, x.abs()));
    }
    // Halving uses whole vectors; a fold would go lane by lane.
    let mut half = LANES / 2;
    while half > 0 {
        let (front, back) = lanes.split_at_mut(half);
        front.iter_mut().zip(back).for_each(|(a, b)| *a = larger(*a, *b));
        half /= 2;
    }
    rest.iter().fold(lanes[0], |largest, x| larger(largest, x.abs()))
}
