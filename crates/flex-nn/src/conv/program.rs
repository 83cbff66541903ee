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
use super::product::Offsets;
use crate::error::Result;
use crate::storage;
use alloc::vec::Vec;

/// One pass: the outputs `first + i * step` for `i` in `0..count`, along each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// For each channel and tap, the position in the planes of the window of output 0.
    pub offsets: Offsets,
    /// The taps, as indices into the kernel.
    pub taps: Vec<usize>,
    pub first: [usize; 3],
    pub step: [usize; 3],
    pub count: [usize; 3],
}

/// The planes of one source and all passes over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub planes: Planes,
    pub passes: Vec<Pass>,
    /// Spatial size of the output.
    pub out: [usize; 3],
    /// Output channels per group.
    pub rows: usize,
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
    /// Program that computes the grid from the image.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn gather(op: &'static str, g: &Geometry) -> Result<Self> {
        check_lists(op, g, g.image_channels)?;
        let axes = [0, 1, 2].map(|k| gather_axis(g, k));
        Self::build(op, axes, g.image, g.image_channels, g.grid, g.grid_channels, g.kernel)
    }

    /// Program that computes the image from the grid.
    ///
    /// # Errors
    /// Fails if the planes are too large to address.
    pub fn spread(op: &'static str, g: &Geometry) -> Result<Self> {
        check_lists(op, g, g.grid_channels)?;
        let axes = [0, 1, 2].map(|k| spread_axis(g, k));
        Self::build(op, axes, g.grid, g.grid_channels, g.image, g.image_channels, g.kernel)
    }

    fn build(
        op: &'static str,
        axes: [(PlaneAxis, Vec<AxisPass>); 3],
        source: [usize; 3],
        channels: usize,
        out: [usize; 3],
        rows: usize,
        kernel: [usize; 3],
    ) -> Result<Self> {
        let [(d, passes_d), (h, passes_h), (w, passes_w)] = axes;
        let planes = Planes { axes: [d, h, w], source, channels };
        planes.check(op)?;
        let mut passes = Vec::new();
        for d in &passes_d {
            for h in &passes_h {
                for w in &passes_w {
                    let (mut within, mut taps) = (Vec::new(), Vec::new());
                    for &(tap_d, phase_d, shift_d) in &d.taps {
                        for &(tap_h, phase_h, shift_h) in &h.taps {
                            for &(tap_w, phase_w, shift_w) in &w.taps {
                                let phase = [phase_d, phase_h, phase_w];
                                within.push(planes.position(phase, [shift_d, shift_h, shift_w]));
                                taps.push((tap_d * kernel[1] + tap_h) * kernel[2] + tap_w);
                            }
                        }
                    }
                    let stride = planes.channel_len();
                    let mut offsets = storage::try_list(op, channels.saturating_mul(within.len()))?;
                    (0..channels).for_each(|c| offsets.extend(within.iter().map(|at| c * stride + at)));
                    passes.push(Pass {
                        offsets: Offsets::new(offsets),
                        taps,
                        first: [d.first, h.first, w.first],
                        step: [d.step, h.step, w.step],
                        count: [d.count, h.count, w.count],
                    });
                }
            }
        }
        Ok(Self { planes, passes, out, rows })
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
            let factors = [self.rows, pass.offsets.len()];
            factors.iter().chain(&pass.count).fold(2usize, |n, &f| n.saturating_mul(f))
        };
        self.passes.iter().map(pass).fold(0, usize::saturating_add)
    }
}

/// `Ok` if there is memory for the lists of taps: the offsets of each channel's taps, and while they are
/// made, the taps of each axis and pass, in lists that double when they grow.
fn check_lists(op: &'static str, g: &Geometry, channels: usize) -> Result<()> {
    let word = size_of::<usize>();
    let taps = g.kernel.iter().fold(1usize, |taps, &size| taps.saturating_mul(size));
    let of_taps = taps.saturating_mul(word).saturating_mul(channels.saturating_add(6));
    let of_axes =
        g.kernel.iter().fold(0usize, |sum, &size| sum.saturating_add(size)).saturating_mul(16 * word);
    storage::ensure(op, of_taps.saturating_add(of_axes))
}

/// One pass. The distance of a tap from the window's start determines the phase and shift that the tap reads.
fn gather_axis(g: &Geometry, k: usize) -> (PlaneAxis, Vec<AxisPass>) {
    let (stride, dilation) = (g.stride[k], g.dilation[k]);
    let mut phases: Vec<usize> = Vec::new();
    let mut taps = Vec::new();
    for tap in 0..g.kernel[k] {
        let phase = tap * dilation % stride;
        let index = phases.iter().position(|&p| p == phase).unwrap_or_else(|| {
            phases.push(phase);
            phases.len() - 1
        });
        taps.push((tap, index, tap * dilation / stride));
    }
    let reach = taps.iter().map(|&(_, _, shift)| shift).max().unwrap_or(0);
    let starts = phases.iter().map(|&phase| phase as isize - g.padding[k] as isize).collect();
    let axis = PlaneAxis { starts, step: stride, len: g.grid[k] + reach };
    (axis, alloc::vec![AxisPass { taps, first: 0, step: 1, count: g.grid[k] }])
}

/// One pass per residue of `y + padding` that has a tap. With `y + padding = i * stride + residue`, the taps
/// with `t * dilation = j * stride + residue` read grid position `i - j`. All passes share one plane per
/// channel.
fn spread_axis(g: &Geometry, k: usize) -> (PlaneAxis, Vec<AxisPass>) {
    let (stride, dilation, padding) = (g.stride[k], g.dilation[k], g.padding[k]);
    let mut passes: Vec<(AxisPass, usize)> = Vec::new();
    for tap in 0..g.kernel[k] {
        let (residue, shift) = (tap * dilation % stride, tap * dilation / stride);
        if let Some((pass, _)) = passes.iter_mut().find(|(_, r)| *r == residue) {
            pass.taps.push((tap, 0, shift));
            continue;
        }
        let start = padding.saturating_sub(residue).div_ceil(stride);
        let end = (g.image[k] + padding).saturating_sub(residue).div_ceil(stride);
        if end > start {
            let first = start * stride + residue - padding;
            let taps = alloc::vec![(tap, 0, shift)];
            passes.push((AxisPass { taps, first, step: stride, count: end - start }, residue));
        }
    }
    // Grid positions that a tap reads for a pass's first and last output.
    let ends = |pass: &AxisPass, residue: usize, shift: usize| {
        let start = padding.saturating_sub(residue).div_ceil(stride) as isize - shift as isize;
        (start, start + pass.count as isize - 1)
    };
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
                for (&tap, &offset) in pass.taps.iter().zip(pass.offsets.iter()) {
                    let at = offset + i;
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
                            assert_eq!(reads(&Program::gather("t", &g).unwrap()), forth, "{g:?}");
                            assert_eq!(reads(&Program::spread("t", &g).unwrap()), back, "{g:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn planes_are_the_source_when_nothing_is_padded() {
        let plain = Program::gather("t", &geometry(9, 7, 3, 1, 0, 1)).unwrap();
        assert!(plain.planes.is_source() && plain.is_complete());
        assert!(!Program::gather("t", &geometry(9, 9, 3, 1, 1, 1)).unwrap().planes.is_source());
        let strided = Program::gather("t", &geometry(9, 5, 1, 2, 0, 1)).unwrap();
        assert_eq!((strided.planes.axes[2].starts.len(), strided.planes.axes[2].len), (1, 5));
    }

    #[test]
    fn residues_without_taps_have_no_pass() {
        let program = Program::spread("t", &geometry(9, 5, 1, 2, 0, 1)).unwrap();
        assert_eq!(program.passes.len(), 1);
        assert!(!program.is_complete());
        assert!(Program::spread("t", &geometry(9, 4, 3, 2, 0, 1)).unwrap().is_complete());
    }
}
