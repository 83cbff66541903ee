//! Shape arithmetic of pooling: the input positions that each window covers, and how the output is cut into
//! tasks.

use crate::error::{Error, Result};
use crate::parallel::{self, Work};
use crate::{Shape, Tensor};
use core::ops::Range;

/// Input positions that a window covers: `count` positions `start`, `start + step`, ..., all inside of the
/// axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowTaps {
    pub start: usize,
    pub count: usize,
    pub step: usize,
}

impl WindowTaps {
    /// The positions.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |k| self.start + k * self.step)
    }
}

/// The arrangement of the windows of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// Window `i` starts at `i * stride - padding` and has `kernel` taps that are `dilation` apart.
    Regular { kernel: usize, stride: usize, padding: usize, dilation: usize },
    /// Window `i` of `n` covers `floor(i*len/n) .. ceil((i+1)*len/n)`.
    Adaptive,
}

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolAxis {
    pub input: usize,
    pub output: usize,
    pub windows: Windows,
}

/// Values above this are refused, so that sums and products of a few of them do not overflow.
const LIMIT: usize = isize::MAX as usize / 16;

impl PoolAxis {
    /// An axis with one window per element.
    pub fn identity(input: usize) -> Self {
        let windows = Windows::Regular { kernel: 1, stride: 1, padding: 0, dilation: 1 };
        Self { input, output: input, windows }
    }

    /// Windows of a fixed size.
    pub fn regular(
        op: &'static str,
        input: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
    ) -> Result<Self> {
        for (name, value) in [("kernel", kernel), ("stride", stride), ("dilation", dilation)] {
            if value == 0 || value > LIMIT {
                return Err(Error::argument(op, name, value, alloc::format!("1 to {LIMIT}")));
            }
        }
        if padding > LIMIT {
            return Err(Error::argument(op, "padding", padding, alloc::format!("at most {LIMIT}")));
        }
        let extent = (kernel - 1).checked_mul(dilation).filter(|&e| e < LIMIT);
        let extent = extent.ok_or_else(|| {
            Error::argument(
                op,
                "extent of the dilated kernel",
                "too large",
                alloc::format!("at most {LIMIT}"),
            )
        })? + 1;
        let padded = input + 2 * padding;
        let slack = if ceil_mode { stride - 1 } else { 0 };
        if padded + slack < extent {
            let expected = alloc::format!("at most the padded input's {padded}");
            return Err(Error::argument(op, "extent of the dilated kernel", extent, expected));
        }
        let mut output = (padded + slack - extent) / stride + 1;
        // As in Burn: ceil mode drops the last window if the window starts in the trailing padding, where it
        // would contain no element.
        if ceil_mode && (output - 1) * stride >= input + padding {
            output -= 1;
        }
        Ok(Self { input, output, windows: Windows::Regular { kernel, stride, padding, dilation } })
    }

    /// An axis with `output` windows of (nearly) equal size that cover the input.
    pub fn adaptive(input: usize, output: usize) -> Self {
        if output > 0 && input.is_multiple_of(output) {
            let size = input / output;
            let windows = Windows::Regular { kernel: size, stride: size, padding: 0, dilation: 1 };
            return Self { input, output, windows };
        }
        Self { input, output, windows: Windows::Adaptive }
    }

    /// The input positions that window `i` covers.
    #[inline]
    pub fn taps(&self, i: usize) -> WindowTaps {
        match self.windows {
            Windows::Regular { kernel, stride, padding, dilation } => {
                let (start, input) = (i * stride, self.input);
                // Taps `first..last` lie inside: `padding <= start + k * dilation < padding + input`.
                let first = padding.saturating_sub(start).div_ceil(dilation).min(kernel);
                let last = (padding + input).saturating_sub(start).div_ceil(dilation).clamp(first, kernel);
                // A window without elements points to the nearest element: the first one, if all of it lies
                // in the padding before that.
                let position = if first == kernel {
                    0
                } else {
                    (start + first * dilation).saturating_sub(padding).min(input - 1)
                };
                WindowTaps { start: position, count: last - first, step: dilation }
            }
            Windows::Adaptive => {
                let (i, input, output) = (i as u128, self.input as u128, self.output as u128);
                let start = i * input / output;
                let end = ((i + 1) * input).div_ceil(output);
                WindowTaps { start: start as usize, count: (end - start) as usize, step: 1 }
            }
        }
    }

    /// The number of elements that an average over window `i` divides by.
    pub fn divisor(&self, i: usize, count_include_pad: bool) -> usize {
        match self.windows {
            Windows::Regular { kernel, stride, padding, .. } if count_include_pad => {
                kernel.min(self.input + 2 * padding - i * stride)
            }
            _ => self.taps(i).count,
        }
    }

    /// A non-empty range of input positions that contains all taps of windows `i`.
    pub fn reach(&self, i: Range<usize>) -> Range<usize> {
        let last = i.end.max(i.start + 1) - 1;
        match self.windows {
            // With dilation, inner windows may reach further into the input than the first and the last
            // window.
            Windows::Regular { kernel, stride, padding, dilation } => {
                let low = (i.start * stride).saturating_sub(padding).min(self.input - 1);
                let high = (last * stride + (kernel - 1) * dilation + 1).saturating_sub(padding);
                low..high.clamp(low + 1, self.input)
            }
            Windows::Adaptive => {
                let (first, last) = (self.taps(i.start), self.taps(last));
                first.start..last.start + last.count
            }
        }
    }
}

/// Pooling of `planes` planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolPlan {
    pub planes: usize,
    pub rows: PoolAxis,
    pub cols: PoolAxis,
    pub out_shape: Shape,
}

/// The values of both axes; 1-D pooling has `missing` on the first axis.
pub(super) fn per_axis<const N: usize>(values: [usize; N], missing: usize) -> [usize; 2] {
    if N == 1 { [missing, values[0]] } else { [values[0], values[1]] }
}

impl PoolPlan {
    /// Plan for `x` of rank `N + 2`; `axis(k, input)` returns spatial axis `k` (0: rows, 1: columns) for its
    /// input size.
    pub fn new<const N: usize>(
        op: &'static str,
        x: &Tensor,
        mut axis: impl FnMut(usize, usize) -> Result<PoolAxis>,
    ) -> Result<Self> {
        const { assert!(N == 1 || N == 2, "pooling has one or two spatial axes") };
        if !x.dtype().is_float() {
            return Err(Error::dtype(op, x.dtype(), "a float dtype (f64, f32, f16, bf16)"));
        }
        let shape = x.shape();
        if shape.len() != N + 2 {
            let expected =
                if N == 1 { "[batch, channels, length]" } else { "[batch, channels, height, width]" };
            return Err(Error::shape(op, shape, expected));
        }
        if shape[2..].contains(&0) {
            return Err(Error::shape(op, shape, "spatial axes of at least one element"));
        }
        let cols = axis(1, shape[N + 1])?;
        let rows = if N == 1 { PoolAxis::identity(1) } else { axis(0, shape[2])? };
        let mut out_shape = shape.clone();
        out_shape[N + 1] = cols.output;
        if N == 2 {
            out_shape[2] = rows.output;
        }
        crate::layout::checked_num_elements(op, &out_shape)?;
        Ok(Self { planes: shape[0] * shape[1], rows, cols, out_shape })
    }

    /// `Ok` if `grad` has the shape of the output and the dtype of `x`.
    pub fn check_grad(&self, op: &'static str, x: &Tensor, grad: &Tensor) -> Result<()> {
        crate::error::check_same_dtype(op, x.dtype(), grad.dtype())?;
        if grad.shape() != &self.out_shape {
            let expected = alloc::format!("an output gradient of shape {:?}", self.out_shape.as_slice());
            return Err(Error::shapes(op, x.shape(), grad.shape(), expected));
        }
        Ok(())
    }

    /// Elements of an input plane.
    pub fn input_plane(&self) -> usize {
        self.rows.input * self.cols.input
    }

    /// Elements of an output plane.
    pub fn output_plane(&self) -> usize {
        self.rows.output * self.cols.output
    }

    /// The work of a pass that reads the input and writes the output once. Windows overlap, so each element
    /// costs about 0.2 ns, several times the cost of moving it.
    pub fn work(&self, element: usize) -> Work {
        const FLOPS_PER_BYTE: usize = 4;
        let elements = self.planes * (self.input_plane() + self.output_plane());
        Work::Flops(elements.saturating_mul(element * FLOPS_PER_BYTE))
    }

    /// Output elements per task: whole rows, or a part of a row if rows are longer than [`TILE`].
    pub fn chunk(&self, element: usize) -> usize {
        let width = self.cols.output.max(1);
        if width > TILE {
            return TILE;
        }
        let row_bytes = (self.input_plane() / self.rows.output.max(1) + width).saturating_mul(element);
        width * parallel::rows_per_task(row_bytes)
    }

    /// Cuts a range of the flat output into rectangles, each within one plane.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece> {
        let (rows, width) = (self.rows.output, self.cols.output);
        let mut position = range.start;
        core::iter::from_fn(move || {
            if position >= range.end {
                return None;
            }
            let (row, col) = (position / width, position % width);
            let (plane, i) = (row / rows, row % rows);
            let rest = range.end - position;
            let piece = if col > 0 || rest < width {
                Piece { plane, rows: i..i + 1, cols: col..(col + rest).min(width) }
            } else {
                Piece { plane, rows: i..(i + rest / width).min(rows), cols: 0..width }
            };
            position += piece.len();
            Some(piece)
        })
    }
}

/// Longest run of output elements that is computed at a time. Row buffers of a few times this length fit into
/// the first-level cache.
pub(super) const TILE: usize = 1024;

/// A rectangle of an output plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub plane: usize,
    pub rows: Range<usize>,
    pub cols: Range<usize>,
}

impl Piece {
    /// Number of output elements.
    pub fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
}

/// A piece of the output, and the rows of its input plane from `first_row` on.
pub(super) struct PoolPart<'a, A> {
    pub piece: Piece,
    pub src: &'a [A],
    pub first_row: usize,
}

impl<A> PoolPart<'_, A> {
    /// A range of columns of row `r` of the input plane.
    #[inline(always)]
    pub fn row(&self, plan: &PoolPlan, r: usize, cols: Range<usize>) -> &[A] {
        &self.src[(r - self.first_row) * plan.cols.input..][cols]
    }
}
