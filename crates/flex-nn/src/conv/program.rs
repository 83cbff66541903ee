//! The two directions of a convolution, image to grid and grid to image, as sums over windows of planes.
//!
//! * **Gather** (output of a convolution, input gradient of a transposed one): output position `o` sums the
//!   taps of its window of the image. There is one pass, whose coefficients are the weight as it is stored.
//! * **Spread** (input gradient of a convolution, output of a transposed one): image position `y` sums the
//!   grid positions `o` and taps `t` with `o * stride + t * dilation - padding = y`. All positions `y` with
//!   the same remainder modulo the stride see the same taps, each at a constant shift of the grid. So there
//!   is one pass per residue, and each pass is a plain stride-1 convolution of the grid with some of the
//!   taps. No output is scattered to or written by two passes, so there are no races and no zero stuffing.

use super::plan::Geometry;
use super::planes::{PlaneAxis, Planes};
use super::product::{Tap, Terms};
use crate::divisor::gcd;
use crate::error::Result;
use crate::small::sort_by_key;
use crate::storage;
use alloc::vec::Vec;
use core::ops::Range;

/// One pass: the outputs `first + i * step` for `i` in `0..count`, along each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// The taps of the first channel: the coefficient of each, from the start of its row, and the position in
    /// the planes of the window of output 0.
    pub taps: Vec<Tap>,
    /// The taps of all channels, or of [`Program::summed`] ones.
    pub terms: Terms,
    pub first: [usize; 3],
    pub step: [usize; 3],
    pub count: [usize; 3],
}

/// Where the coefficient of a tap is: the distances between groups, rows of the output and channels of the
/// planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coefficients {
    pub group: usize,
    pub row: usize,
    pub channel: usize,
}

impl Coefficients {
    /// The distances in a weight `[groups * grid_channels, image_channels, taps]`, for the grid's channels as
    /// rows.
    pub fn gather(g: &Geometry) -> Self {
        let row = g.image_channels * g.taps();
        Self { group: g.grid_channels * row, row, channel: g.taps() }
    }

    /// The distances in the same weight, for the image's channels as rows.
    pub fn spread(g: &Geometry) -> Self {
        let channel = g.image_channels * g.taps();
        Self { group: g.grid_channels * channel, row: g.taps(), channel }
    }
}

/// The planes of one source and all passes over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub planes: Planes,
    pub passes: Vec<Pass>,
    pub coefficients: Coefficients,
    /// Spatial size of the output.
    pub out: [usize; 3],
    /// Output channels per group.
    pub rows: usize,
    /// Channels that are summed at a time: all, or a divisor of their number.
    pub summed: usize,
    /// Number of elements on the innermost axis, where it becomes the outermost axis of the output's rows.
    pub turned: Option<usize>,
}

/// A pass along one axis.
struct AxisPass {
    /// Tap, phase of the planes, shift within the phase.
    taps: Vec<(usize, usize, usize)>,
    first: usize,
    step: usize,
    count: usize,
}

impl Program {
    /// Program that computes the grid from the image, without the padding of the axes that `skip` names.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn gather(op: &'static str, g: &Geometry, skip: [bool; 3]) -> Result<Self> {
        Self::gather_by(op, g, skip, Coefficients::gather(g))
    }

    /// [`gather`](Self::gather) with coefficients in another order than a convolution's weight.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn gather_by(
        op: &'static str,
        g: &Geometry,
        skip: [bool; 3],
        coefficients: Coefficients,
    ) -> Result<Self> {
        check_lists(op, g)?;
        let axes = [0, 1, 2].map(|k| if skip[k] { gather_inside(g, k) } else { gather_axis(g, k) });
        Self::build(op, axes, g.image, g.image_channels, g.grid, g.grid_channels, g.kernel, coefficients)
    }

    /// Program that computes the image from the grid, without the padding of the axes that `skip` names.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn spread(op: &'static str, g: &Geometry, skip: [bool; 3]) -> Result<Self> {
        check_lists(op, g)?;
        let axes = [0, 1, 2].map(|k| spread_axis(g, k, skip[k]));
        let coefficients = Coefficients::spread(g);
        Self::build(op, axes, g.grid, g.grid_channels, g.image, g.image_channels, g.kernel, coefficients)
    }

    fn build(
        op: &'static str,
        axes: [(PlaneAxis, Vec<AxisPass>); 3],
        source: [usize; 3],
        channels: usize,
        out: [usize; 3],
        rows: usize,
        kernel: [usize; 3],
        coefficients: Coefficients,
    ) -> Result<Self> {
        let [(d, passes_d), (h, passes_h), (w, passes_w)] = axes;
        let planes = Planes { axes: [d, h, w], source, channels };
        planes.check(op)?;
        let mut passes = storage::try_list(op, passes_d.len() * passes_h.len() * passes_w.len())?;
        for d in &passes_d {
            for h in &passes_h {
                for w in &passes_w {
                    let per_channel = d.taps.len() * h.taps.len() * w.taps.len();
                    let mut taps = storage::try_list(op, per_channel)?;
                    for &(tap_d, phase_d, shift_d) in &d.taps {
                        for &(tap_h, phase_h, shift_h) in &h.taps {
                            for &(tap_w, phase_w, shift_w) in &w.taps {
                                let phase = [phase_d, phase_h, phase_w];
                                let p = planes.position(phase, [shift_d, shift_h, shift_w]);
                                taps.push(Tap { a: (tap_d * kernel[1] + tap_h) * kernel[2] + tap_w, p });
                            }
                        }
                    }
                    passes.push(Pass {
                        taps,
                        terms: Terms::default(),
                        first: [d.first, h.first, w.first],
                        step: [d.step, h.step, w.step],
                        count: [d.count, h.count, w.count],
                    });
                }
            }
        }
        Ok(Self { planes, passes, coefficients, out, rows, summed: channels, turned: None })
    }

    /// Lists the terms of all passes, which are not needed to compare programs.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn listed(mut self, op: &'static str) -> Result<Self> {
        let (a_step, p_step) = (self.coefficients.channel, self.planes.channel_len());
        for pass in &mut self.passes {
            let per_channel = pass.taps.len();
            // Channels of a block of terms.
            let block = (Terms::BLOCK / per_channel.max(1)).clamp(1, self.summed.max(1));
            let mut taps = storage::try_list(op, block * per_channel)?;
            for channel in 0..block {
                let moved = |tap: &Tap| Tap { a: tap.a + channel * a_step, p: tap.p + channel * p_step };
                taps.extend(pass.taps.iter().map(moved));
            }
            pass.terms = Terms::new(taps, self.summed * per_channel, block * a_step, block * p_step);
        }
        Ok(self)
    }

    /// Coefficients of an output channel for a channel of the planes: the taps of the kernel.
    pub fn taps(&self) -> usize {
        self.coefficients.row.min(self.coefficients.channel)
    }

    /// Number of spatial elements of the output.
    pub fn out_len(&self) -> usize {
        self.out.iter().product()
    }

    /// Whether the passes write every output.
    pub fn is_complete(&self) -> bool {
        self.passes.iter().map(|pass| pass.count.iter().product::<usize>()).sum::<usize>() == self.out_len()
    }

    /// Floating-point operations for one group of one image; saturates.
    pub fn flops(&self) -> usize {
        let pass = |pass: &Pass| {
            let factors = [self.rows, self.planes.channels, pass.taps.len()];
            factors.iter().chain(&pass.count).fold(2usize, |n, &f| n.saturating_mul(f))
        };
        self.passes.iter().map(pass).fold(0, usize::saturating_add)
    }
}

/// `Ok` if there is memory for the lists of taps of a channel, and while they are made, of each axis and
/// pass, in lists that double when they grow.
fn check_lists(op: &'static str, g: &Geometry) -> Result<()> {
    let word = size_of::<usize>();
    let taps = g.kernel.iter().fold(1usize, |taps, &size| taps.saturating_mul(size));
    let of_taps = taps.saturating_mul(size_of::<Tap>());
    let of_axes =
        g.kernel.iter().fold(0usize, |sum, &size| sum.saturating_add(size)).saturating_mul(16 * word);
    storage::ensure(op, of_taps.saturating_add(of_axes))
}

/// Number of distinct remainders, modulo the stride, of the distances of an axis's taps from the window's
/// start. Taps with the same number modulo this one have the same remainder.
fn residues(g: &Geometry, k: usize) -> usize {
    (g.stride[k] / gcd(g.stride[k], g.dilation[k])).min(g.kernel[k])
}

/// One pass. The distance of a tap from the window's start determines the phase and shift that the tap reads.
fn gather_axis(g: &Geometry, k: usize) -> (PlaneAxis, Vec<AxisPass>) {
    let (stride, dilation) = (g.stride[k], g.dilation[k]);
    let period = residues(g, k);
    let taps = (0..g.kernel[k]).map(|tap| (tap, tap % period, tap * dilation / stride));
    let taps: Vec<_> = taps.collect();
    let reach = taps.iter().map(|&(_, _, shift)| shift).max().unwrap_or(0);
    let starts = (0..period).map(|tap| (tap * dilation % stride) as isize - g.padding[k] as isize).collect();
    let axis = PlaneAxis { starts, step: stride, len: g.grid[k] + reach };
    (axis, alloc::vec![AxisPass { taps, first: 0, step: 1, count: g.grid[k] }])
}

/// [`gather_axis`] without padding: one pass for each range of outputs whose windows have the same taps
/// inside of the image. Outputs whose windows lie in the padding are in no pass.
fn gather_inside(g: &Geometry, k: usize) -> (PlaneAxis, Vec<AxisPass>) {
    let (stride, dilation, padding) = (g.stride[k], g.dilation[k], g.padding[k]);
    let (size, grid) = (g.image[k], g.grid[k]);
    let period = residues(g, k);
    let position = |tap: usize| (tap * dilation) as isize - padding as isize;
    // Phase, window index in the phase at output 0, and the outputs whose tap is inside.
    let taps = (0..g.kernel[k]).map(|tap| {
        let at = position(tap);
        let start = padding.saturating_sub(tap * dilation).div_ceil(stride).min(grid);
        let end = (size + padding).saturating_sub(tap * dilation).div_ceil(stride).clamp(start, grid);
        (tap, tap % period, at.div_euclid(stride as isize), start..end)
    });
    let taps: Vec<_> = taps.collect();
    let starts = (0..period).map(|tap| position(tap).rem_euclid(stride as isize)).collect();
    let axis = PlaneAxis { starts, step: stride, len: size.div_ceil(stride) };
    let mut passes = Vec::new();
    for range in pieces(grid, taps.iter().map(|(.., outputs)| outputs)) {
        let inside =
            taps.iter().filter(|(.., outputs)| outputs.start <= range.start && range.end <= outputs.end);
        let taps: Vec<_> = inside
            .map(|&(tap, phase, shift, _)| (tap, phase, (range.start as isize + shift) as usize))
            .collect();
        if !taps.is_empty() {
            passes.push(AxisPass { taps, first: range.start, step: 1, count: range.len() });
        }
    }
    (axis, passes)
}

/// The parts that the ends of some ranges cut `0..len` into.
fn pieces<'a>(len: usize, ranges: impl Iterator<Item = &'a Range<usize>>) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = ranges.flat_map(|range| [range.start, range.end]).collect();
    ends.extend([0, len]);
    ends.sort_unstable();
    ends.dedup();
    ends.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

/// One pass per residue of `y + padding` that has a tap. With `y + padding = i * stride + residue`, the taps
/// with `t * dilation = j * stride + residue` read grid position `i - j`. All passes share one plane per
/// channel. It holds the positions that they read or, to `skip` padding, the positions of the grid; a pass is
/// then cut into ranges of outputs whose taps are the same.
fn spread_axis(g: &Geometry, k: usize, skip: bool) -> (PlaneAxis, Vec<AxisPass>) {
    let (stride, dilation, padding) = (g.stride[k], g.dilation[k], g.padding[k]);
    let mut passes: Vec<(AxisPass, usize)> = Vec::new();
    let period = residues(g, k);
    for first_tap in 0..period {
        let residue = first_tap * dilation % stride;
        let start = padding.saturating_sub(residue).div_ceil(stride);
        let end = (g.image[k] + padding).saturating_sub(residue).div_ceil(stride);
        if end > start {
            let first = start * stride + residue - padding;
            let taps = (first_tap..g.kernel[k]).step_by(period);
            let taps = taps.map(|tap| (tap, 0, tap * dilation / stride)).collect();
            let count = end - start;
            // Nothing lies a step from a single output, and a stride of any size must not overflow.
            let step = if count == 1 { 1 } else { stride };
            passes.push((AxisPass { taps, first, step, count }, residue));
        }
    }
    // Passes whose outputs alternate follow each other.
    sort_by_key(&mut passes, |(pass, _)| pass.first);
    // Grid positions that a tap reads for a pass's first and last output.
    let ends = |pass: &AxisPass, residue: usize, shift: usize| {
        let start = padding.saturating_sub(residue).div_ceil(stride) as isize - shift as isize;
        (start, start + pass.count as isize - 1)
    };
    if skip {
        let mut inside = Vec::new();
        for (pass, residue) in &passes {
            let taps = pass.taps.iter().map(|&(tap, phase, shift)| {
                let (start, last) = ends(pass, *residue, shift);
                let outputs = (-start).clamp(0, pass.count as isize) as usize;
                let until = (g.grid[k] as isize - start).clamp(outputs as isize, last - start + 1) as usize;
                (tap, phase, start, outputs..until)
            });
            let taps: Vec<_> = taps.collect();
            for range in pieces(pass.count, taps.iter().map(|(.., outputs)| outputs)) {
                let here = taps.iter().filter(|(.., o)| o.start <= range.start && range.end <= o.end);
                let taps: Vec<_> = here
                    .map(|&(tap, phase, start, _)| (tap, phase, (start + range.start as isize) as usize))
                    .collect();
                if !taps.is_empty() {
                    let first = pass.first + range.start * pass.step;
                    inside.push(AxisPass { taps, first, step: pass.step, count: range.len() });
                }
            }
        }
        return (PlaneAxis { starts: alloc::vec![0], step: 1, len: g.grid[k] }, inside);
    }
    let all = || passes.iter().flat_map(|(p, r)| p.taps.iter().map(move |&(_, _, shift)| ends(p, *r, shift)));
    let origin = all().map(|(start, _)| start).min().unwrap_or(0);
    let last = all().map(|(_, last)| last).max().unwrap_or(0);
    let axis = PlaneAxis { starts: alloc::vec![origin], step: 1, len: (last - origin) as usize + 1 };
    let passes = passes.into_iter().map(|(mut pass, residue)| {
        let shifts: Vec<usize> = pass
            .taps
            .iter()
            .map(|&(_, _, shift)| (ends(&pass, residue, shift).0 - origin) as usize)
            .collect();
        for (tap, shift) in pass.taps.iter_mut().zip(shifts) {
            tap.2 = shift;
        }
        pass
    });
    let passes = passes.collect();
    (axis, passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(
        image: usize,
        grid: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> Geometry {
        Geometry {
            batch: 1,
            groups: 1,
            image_channels: 2,
            grid_channels: 3,
            image: [1, 1, image],
            grid: [1, 1, grid],
            kernel: [1, 1, kernel],
            stride: [1, 1, stride],
            padding: [0, 0, padding],
            dilation: [1, 1, dilation],
        }
    }

    /// For each output of each pass, the source index that each tap reads; padding is left out.
    fn reads(program: &Program) -> Vec<Vec<(usize, usize)>> {
        let axis = &program.planes.axes[2];
        let mut table = alloc::vec![Vec::new(); program.out[2]];
        for pass in &program.passes {
            for i in 0..pass.count[2] {
                let reads = &mut table[pass.first[2] + i * pass.step[2]];
                for &Tap { a: tap, p } in &pass.taps {
                    let at = p + i;
                    let index = axis.starts[at / axis.len] + ((at % axis.len) * axis.step) as isize;
                    if (0..program.planes.source[2] as isize).contains(&index) {
                        reads.push((tap, index as usize));
                    }
                }
                reads.sort_unstable();
            }
        }
        table
    }

    /// Number of products of a channel, also those with padding.
    fn products(program: &Program) -> usize {
        program.passes.iter().map(|pass| pass.taps.len() * pass.count[2]).sum()
    }

    fn products_of(reads: &[Vec<(usize, usize)>]) -> usize {
        reads.iter().map(Vec::len).sum()
    }

    #[test]
    fn both_directions_connect_the_same_positions() {
        for kernel in 1..5 {
            for stride in 1..5 {
                for padding in 0..4 {
                    for dilation in 1..4 {
                        for image in 1..12 {
                            let extent = (kernel - 1) * dilation + 1;
                            if image + 2 * padding < extent {
                                continue;
                            }
                            let grid = (image + 2 * padding - extent) / stride + 1;
                            let g = geometry(image, grid, kernel, stride, padding, dilation);
                            let (mut forth, mut back) = (Vec::new(), Vec::new());
                            for o in 0..grid {
                                let mut list = Vec::new();
                                for t in 0..kernel {
                                    let y = (o * stride + t * dilation) as isize - padding as isize;
                                    if (0..image as isize).contains(&y) {
                                        list.push((t, y as usize));
                                    }
                                }
                                forth.push(list);
                            }
                            for y in 0..image {
                                let mut list: Vec<(usize, usize)> = Vec::new();
                                for (o, reads) in forth.iter().enumerate() {
                                    list.extend(reads.iter().filter(|r| r.1 == y).map(|r| (r.0, o)));
                                }
                                list.sort_unstable();
                                back.push(list);
                            }
                            for skip in [[false; 3], [true; 3]] {
                                let program = Program::gather("t", &g, skip).unwrap();
                                assert_eq!(reads(&program), forth, "{g:?}");
                                assert!(!skip[2] || products(&program) == products_of(&forth), "{g:?}");
                                let program = Program::spread("t", &g, skip).unwrap();
                                assert_eq!(reads(&program), back, "{g:?}");
                                assert!(!skip[2] || products(&program) == products_of(&back), "{g:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn planes_are_the_source_when_nothing_is_padded() {
        let plain = Program::gather("t", &geometry(9, 7, 3, 1, 0, 1), [false; 3]).unwrap();
        assert!(plain.planes.is_source() && plain.is_complete());
        let padded = geometry(9, 9, 3, 1, 1, 1);
        assert!(!Program::gather("t", &padded, [false; 3]).unwrap().planes.is_source());
        assert!(Program::gather("t", &padded, [true; 3]).unwrap().planes.is_source());
        let strided = Program::gather("t", &geometry(9, 5, 1, 2, 0, 1), [false; 3]).unwrap();
        assert_eq!((strided.planes.axes[2].starts.len(), strided.planes.axes[2].len), (1, 5));
    }

    #[test]
    fn residues_without_taps_have_no_pass() {
        let program = Program::spread("t", &geometry(9, 5, 1, 2, 0, 1), [false; 3]).unwrap();
        assert_eq!(program.passes.len(), 1);
        assert!(!program.is_complete());
        let program = Program::spread("t", &geometry(9, 4, 3, 2, 0, 1), [false; 3]).unwrap();
        assert!(program.is_complete());
    }
}
