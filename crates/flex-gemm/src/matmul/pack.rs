//! Packing of bf16 matrices into pairs of terms, the form that [`flex_math::dot`] reads.
//!
//! A packed term of the [blocked driver](super::blocked) is a pair. An odd last term is paired with zero.

use super::blocked::{Lines, Packing, Strips};
use super::gemm::MatRef;
use crate::bf16;
use crate::parallel::thresholds::TASK_PACKED_STRIPS;
use crate::walk::starts;
use flex_math::dot::{Bf16Dot, TILE_COLS};
use flex_math::simd::vectorize;

/// Side of the blocks transposed in registers.
const SIDE: usize = 16;

/// Smallest and largest magnitude among packed values, as bit patterns without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MagnitudeRange {
    /// The smallest magnitude other than zero; `u16::MAX` when there is none.
    pub least: u16,
    /// The largest magnitude; NaN counts as larger than infinity.
    pub most: u16,
}

impl MagnitudeRange {
    /// The range of no values.
    pub const NONE: Self = Self { least: u16::MAX, most: 0 };

    /// The range that was noted about a strip.
    pub fn noted(notes: &[u8]) -> Self {
        let [least, most] = bytemuck::pod_read_unaligned(notes);
        Self { least, most }
    }

    /// The range of the values in `pairs`.
    fn of(pairs: &[u32]) -> Self {
        let values: &[u16] = bytemuck::cast_slice(pairs);
        vectorize(
            #[inline(always)]
            || {
                // `0 - 1` wraps to the largest u16, so zeros never win the minimum.
                let (less_one, most) = values.iter().fold((u16::MAX, 0), |(least, most), bits| {
                    let magnitude = bits & 0x7fff;
                    (least.min(magnitude.wrapping_sub(1)), most.max(magnitude))
                });
                Self { least: less_one.saturating_add(1), most }
            },
        )
    }
}

/// The rows of a matrix, packed into pairs of terms. The range of magnitudes of a strip is noted with it.
pub(crate) struct Pairs<'a> {
    pub dot: Bf16Dot,
    pub lines: MatRef<'a, bf16>,
    /// Number of lines per strip.
    pub width: usize,
    /// Whether the last strip is filled up with lines of zeros.
    pub pad: bool,
}

impl Lines for Pairs<'_> {
    fn packing(&self) -> Packing {
        let layout = self.lines.layout();
        Packing {
            lines: layout.rows,
            terms: layout.cols.div_ceil(2),
            width: self.width,
            pad: self.pad,
            term: size_of::<u32>(),
            source: size_of::<u32>(),
            notes: size_of::<[u16; 2]>(),
            group: TASK_PACKED_STRIPS,
        }
    }

    fn pack(&self, strips: Strips<'_>) {
        if self.lines.layout().col_stride != 1 {
            let first = strips.first * self.width;
            let count = (TASK_PACKED_STRIPS * self.width).min(self.lines.layout().rows - first);
            let padded = if self.pad { count.next_multiple_of(self.width) } else { count };
            let stride = strips.stride / size_of::<u32>();
            let out = bytemuck::cast_slice_mut(&mut *strips.bytes);
            across_lines(out, stride, self.width, padded, self.lines.rows(first, count));
        }
        for strip in strips.each() {
            let out: &mut [u32] = bytemuck::cast_slice_mut(strip.terms);
            if self.lines.layout().col_stride == 1 {
                along_lines(self.dot, out, strip.width, self.lines.rows(strip.first, strip.lines));
            }
            let MagnitudeRange { least, most } = MagnitudeRange::of(out);
            strip.notes.copy_from_slice(bytemuck::bytes_of(&[least, most]));
        }
    }
}

/// Packs a strip in which the terms of a line are neighbours in memory: its pairs exist already, in
/// transposed order.
fn along_lines(dot: Bf16Dot, out: &mut [u32], width: usize, lines: MatRef<'_, bf16>) {
    let (count, terms) = (lines.layout().rows, lines.layout().cols);
    for first in starts(0..width, SIDE) {
        let columns = SIDE.min(width - first);
        for start in starts(0..terms, 2 * SIDE) {
            let len = (terms - start).min(2 * SIDE);
            let mut block = [[0u32; SIDE]; SIDE];
            for (i, to) in block.iter_mut().enumerate().take(count.saturating_sub(first)) {
                let run = lines.row_run(first + i, start, len).expect("the terms are neighbours");
                match <&[bf16; 2 * SIDE]>::try_from(run) {
                    // Machines that have the instruction are little-endian.
                    Ok(run) => *to = bytemuck::cast(*run),
                    Err(_) => {
                        for (to, run) in to.iter_mut().zip(run.chunks(2)) {
                            *to = pair(run[0], run.get(1).copied().unwrap_or(bf16::ZERO));
                        }
                    }
                }
            }
            dot.transpose(&mut block);
            for (p, from) in block[..len.div_ceil(2)].iter().enumerate() {
                copy_row(out, (start / 2 + p) * width + first, from, columns);
            }
        }
    }
}

/// Packs several strips in which the lines are neighbours in memory, or in which no elements are. The strips
/// advance together: one strip at a time would read one cache line per row, a whole row apart, which is slow.
///
/// The strips start `stride` pairs apart. They have `padded` lines, lines of zeros included.
fn across_lines(out: &mut [u32], stride: usize, width: usize, padded: usize, lines: MatRef<'_, bf16>) {
    let (count, terms) = (lines.layout().rows, lines.layout().cols);
    let pairs = terms.div_ceil(2);
    let across = lines.transposed();
    let mut row = [0u32; TASK_PACKED_STRIPS * TILE_COLS + SIDE];
    for p in 0..pairs {
        let (even, odd) = (2 * p, 2 * p + 1);
        if odd < terms {
            match (across.row_run(even, 0, count), across.row_run(odd, 0, count)) {
                (Some(low), Some(high)) => interleave(&mut row, low, high),
                _ => (0..count).for_each(|i| row[i] = pair(lines.at(i, even), lines.at(i, odd))),
            }
        } else {
            (0..count).for_each(|i| row[i] = pair(lines.at(i, even), bf16::ZERO));
        }
        for (out, first) in out.chunks_exact_mut(stride).zip(starts(0..padded, width)) {
            let width = width.min(padded - first);
            copy_row(&mut out[..width * pairs], p * width, &row[first..], width);
        }
    }
}

fn interleave(to: &mut [u32], low: &[bf16], high: &[bf16]) {
    vectorize(
        #[inline(always)]
        || to.iter_mut().zip(low).zip(high).for_each(|((to, low), high)| *to = pair(*low, *high)),
    );
}

/// Writes `width` pairs to `out[at..]`, in steps of a register. The last step may write too many; they belong
/// to the next row, which is written later.
#[inline(always)]
fn copy_row(out: &mut [u32], at: usize, from: &[u32], width: usize) {
    for i in starts(0..width, SIDE) {
        match (out[at + i..].first_chunk_mut::<SIDE>(), from[i..].first_chunk::<SIDE>()) {
            (Some(to), Some(from)) => *to = *from,
            _ => out[at + i..at + width].copy_from_slice(&from[i..width]),
        }
    }
}

#[inline(always)]
fn pair(low: bf16, high: bf16) -> u32 {
    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::blocked::Packed;
    use crate::matmul::gemm::{MatLayout, Threads};
    use crate::skipped::skipped;
    use alloc::vec::Vec;

    #[test]
    fn pairs_and_zeros_lie_where_they_should() {
        let Some(dot) = Bf16Dot::detect() else {
            skipped("this process has no AVX512-BF16");
            return;
        };
        let number = |i: usize, p: usize| bf16::from_f32((1 + (31 * i + 7 * p) % 120) as f32);
        for count in [1, 13, 14, 15, 16, 17, 33, 300] {
            for terms in [1, 2, 31, 32, 33, 70] {
                let by_lines: Vec<bf16> =
                    (0..count * terms).map(|at| number(at / terms, at % terms)).collect();
                let by_terms: Vec<bf16> =
                    (0..count * terms).map(|at| number(at % count, at / count)).collect();
                let stepped: Vec<bf16> = by_lines.iter().flat_map(|v| [*v, bf16::NAN]).collect();
                let gaps = MatLayout {
                    row_stride: 2 * terms as isize,
                    col_stride: 2,
                    ..MatLayout::row_major(count, terms)
                };
                for lines in [
                    MatRef::new(&by_lines, MatLayout::row_major(count, terms)),
                    MatRef::new(&by_terms, MatLayout::col_major(count, terms)),
                    MatRef::new(&stepped, gaps),
                ] {
                    for (width, pad) in [(1, false), (13, false), (14, false), (TILE_COLS, true)] {
                        let packed = Packed::new(&Pairs { dot, lines, width, pad }, Threads::Pool);
                        for strip in 0..count.div_ceil(width) {
                            let got = packed.strip(strip);
                            let (pairs, range) = (
                                bytemuck::cast_slice::<u8, u32>(got.terms),
                                MagnitudeRange::noted(got.notes),
                            );
                            let lines = width.min(count - strip * width);
                            let all = if pad { width } else { lines };
                            assert_eq!(pairs.len(), all * terms.div_ceil(2));
                            let value = |i: usize, p: usize| {
                                if i < lines && p < terms {
                                    number(strip * width + i, p).to_bits()
                                } else {
                                    0
                                }
                            };
                            for (at, got) in pairs.iter().enumerate() {
                                let (p, i) = (2 * (at / all), at % all);
                                let want = [value(i, p), value(i, p + 1)];
                                assert_eq!(
                                    [*got as u16, (*got >> 16) as u16],
                                    want,
                                    "{count} {terms} {width}"
                                );
                            }
                            let numbers = || (0..lines * terms).map(|at| value(at / terms, at % terms));
                            assert_eq!(range.least, numbers().min().unwrap());
                            assert_eq!(range.most, numbers().max().unwrap());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_ignore_signs_and_zeros() {
        let of = |values: &[f32]| {
            let pairs: Vec<u32> = values.iter().map(|v| pair(bf16::from_f32(*v), bf16::ZERO)).collect();
            let range = MagnitudeRange::of(&pairs);
            (range.least, range.most)
        };
        let bits = |v: f32| bf16::from_f32(v).to_bits();
        assert_eq!(of(&[0.0, -0.0]), (MagnitudeRange::NONE.least, MagnitudeRange::NONE.most));
        assert_eq!(of(&[0.0, -2.0, 0.5, 1.0]), (bits(0.5), bits(2.0)));
        assert_eq!(of(&[1e-39, -f32::INFINITY]), (bits(1e-39), bits(f32::INFINITY)));
        assert!(of(&[1.0, f32::NAN]).1 > bits(f32::INFINITY));
    }
}
