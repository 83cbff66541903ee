//! Loops over elements and the scales that go with them.

use super::codec::{Codec, encode_int};
use crate::parallel::{self, Work};
use alloc::vec;
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// How scales go with the elements of a tensor in row-major order.
pub(super) enum Scales {
    /// One for all.
    One,
    /// One for each `run` elements, in order.
    Each { run: usize },
    /// Blocks of several rows: the scales of a row of `per_row` runs of `run` elements start at `first[row]`.
    Rows { run: usize, per_row: usize, first: Vec<usize>, count: usize },
}

/// Elements of a tensor with one scale that are handled in one go.
const PIECE: usize = 4096;

impl Scales {
    /// Elements in a row of consecutive scales, and the length of their runs.
    fn row(&self) -> (usize, usize) {
        match self {
            Scales::One => (PIECE, PIECE),
            Scales::Each { run } => (*run, *run),
            Scales::Rows { run, per_row, .. } => (run * per_row, *run),
        }
    }

    /// Position of the first scale of row `row`, and of each row that follows.
    #[inline(always)]
    fn first(&self, row: usize) -> usize {
        match self {
            Scales::One => 0,
            Scales::Each { .. } => row,
            Scales::Rows { first, .. } => first[row],
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
    layout: &Scales,
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
        vectorize(
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

/// Codes of `numbers` divided by their scales.
pub(super) fn encode(codec: Codec, numbers: &[f32], scales: &[f32], layout: &Scales, out: &mut [i8]) {
    match codec {
        Codec::Int { low, high } => for_each_run(
            numbers,
            scales,
            layout,
            out,
            #[inline(always)]
            |out, numbers, scale| {
                for (o, &x) in out.iter_mut().zip(numbers) {
                    *o = encode_int(x / scale, low, high);
                }
            },
        ),
        Codec::Mini(mini) => for_each_run(
            numbers,
            scales,
            layout,
            out,
            #[inline(always)]
            |out, numbers, scale| {
                for (o, &x) in out.iter_mut().zip(numbers) {
                    *o = mini.encode(x / scale) as i8;
                }
            },
        ),
    }
}

/// Numbers of `codes` times their scales.
pub(super) fn decode(codec: Codec, codes: &[i8], scales: &[f32], layout: &Scales, out: &mut [f32]) {
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

/// The largest magnitude in each block, in the order of the scales. NaN does not count.
pub(super) fn largest_magnitudes(numbers: &[f32], layout: &Scales) -> Vec<f32> {
    let work = Work::Bytes(size_of_val(numbers));
    match layout {
        Scales::One => {
            let block = parallel::rows_per_task(size_of::<f32>());
            let parts =
                parallel::map_blocks(numbers.len(), block, work, |range| vectorized_largest(&numbers[range]));
            vec![parts.into_iter().fold(0.0, larger)]
        }
        Scales::Each { run } => {
            let mut largest = vec![0f32; numbers.len() / run];
            let runs = parallel::rows_per_task(run * size_of::<f32>());
            parallel::for_each_chunk(&mut largest, runs, work, |k, out| {
                let numbers = numbers[k * runs * run..].chunks_exact(*run);
                vectorize(
                    #[inline(always)]
                    || out.iter_mut().zip(numbers).for_each(|(o, run)| *o = largest_of(run)),
                );
            });
            largest
        }
        // Rows share blocks, so one thread reads them all.
        Scales::Rows { run, per_row, first, count } => {
            let mut largest = vec![0f32; *count];
            if numbers.is_empty() {
                return largest;
            }
            vectorize(
                #[inline(always)]
                || {
                    for (row, &first) in numbers.chunks_exact(run * per_row).zip(first) {
                        let blocks = largest[first..].iter_mut().zip(row.chunks_exact(*run));
                        blocks.for_each(|(o, run)| *o = larger(*o, largest_of(run)));
                    }
                },
            );
            largest
        }
    }
}

fn vectorized_largest(numbers: &[f32]) -> f32 {
    vectorize(
        #[inline(always)]
        || largest_of(numbers),
    )
}

/// The larger of a number and one that may be NaN.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Lanes of the search for the largest magnitude: enough for two registers of the widest vector unit in flight.
const LANES: usize = 32;

#[inline(always)]
fn largest_of(numbers: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let groups = numbers.chunks_exact(LANES);
    let rest = groups.remainder().iter().fold(0.0, |largest, x| larger(largest, x.abs()));
    for group in groups {
        for i in 0..LANES {
            lanes[i] = larger(lanes[i], group[i].abs());
        }
    }
    lanes.into_iter().fold(rest, larger)
}
