//! Overlapping windows added up, the `col2im` of `torch.nn.Fold`.
//!
//! Each element of the result is computed by itself: the sum of the taps that lie on it, in the order of the
//! taps. So no two threads write one element, and no sum depends on how the result is cut.

use super::UnfoldOptions;
use super::plan::{check_options, window_grid};
use crate::error::{Error, Result, check_rank};
use crate::parallel::{Work, for_each_chunk, rows_per_task};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor};
use core::ops::Range;
use flex_math::simd::vectorize;

/// Elements of a part of a row that are summed together: in f32, they and the taps that are added to them
/// stay in the first-level cache.
const BLOCK: usize = 1024;
/// Elements of short rows that are summed together, which spares calls. With more, memory is read in longer
/// turns from one tap and the next, which its prefetchers follow less well.
const ROWS: usize = 256;

/// The adjoint of [`unfold4d`](super::unfold4d): `x`, `[batch, channels * kernel_h * kernel_w, windows]`,
/// holds windows as columns, which are added up where they lie in a result `[batch, channels, height, width]`
/// of `output_size`. What lies in the padding is dropped. Elements that no window covers are zero. Halves are
/// summed in f32 and rounded once.
///
/// # Errors
/// Fails if the rank of `x` is not 3; a stride, dilation or kernel size is zero; the kernel does not fit into
/// the padded output; the channels or windows of `x` do not match such windows; or the dtype is not a float.
pub fn fold4d(
    x: Tensor,
    output_size: [usize; 2],
    kernel: [usize; 2],
    options: &UnfoldOptions,
) -> Result<Tensor> {
    const OP: &str = "fold4d";
    let UnfoldOptions { stride, padding, dilation } = *options;
    check_rank(OP, x.shape(), 3, "a tensor of shape [batch, channels * kernel_h * kernel_w, blocks]")?;
    check_options(OP, &stride, &dilation, 1)?;
    let grid = window_grid(OP, output_size, kernel, stride, padding, dilation).map_err(|error| match error {
        // The image that the windows lie in is the output here.
        Error::ShapeMismatch { lhs, rhs, .. } => {
            let expected = alloc::format!(
                "a dilated kernel that fits into the padded output (dilation {dilation:?}, padding {padding:?})"
            );
            Error::shapes(OP, &lhs, &rhs, expected)
        }
        other => other,
    })?;
    let overflow = |shape: &[usize]| Error::Overflow { op: OP, shape: shape.to_vec() };
    let taps = kernel[0].checked_mul(kernel[1]).ok_or_else(|| overflow(&kernel))?;
    let windows = grid[0].checked_mul(grid[1]).ok_or_else(|| overflow(&grid))?;
    if !x.shape()[1].is_multiple_of(taps) || x.shape()[2] != windows {
        let expected = alloc::format!(
            "channels that are a multiple of {taps} (kernel {kernel:?}), and {windows} blocks ({} x {})",
            grid[0],
            grid[1]
        );
        return Err(Error::shape(OP, x.shape(), expected));
    }
    let shape = [x.shape()[0], x.shape()[1] / taps, output_size[0], output_size[1]];
    let x = x.into_contiguous()?;
    // A single window has no next one, however large the step is.
    let stride = [0, 1].map(|k| if grid[k] == 1 { 1 } else { stride[k] });
    let windows = FoldWindows { output_size, kernel, stride, padding, dilation, grid };
    computing!(OP, x.dtype(), A => windows.add_up::<A>(OP, &x, shape))
}

/// The checked arguments.
struct FoldWindows {
    output_size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    /// Windows along each axis.
    grid: [usize; 2],
}

impl FoldWindows {
    fn add_up<A: Computing>(&self, op: &'static str, x: &Tensor, shape: [usize; 4]) -> Result<Tensor> {
        let (dtype, size) = (x.dtype(), x.dtype().size());
        let [height, width] = self.output_size;
        let src = Source::of(x);
        let mut blank = Blank::new(op, shape.into(), dtype)?;
        let out = blank.bytes();
        let bytes = src.bytes().len() + out.len();
        // Whole rows, where they are short.
        let per_task = rows_per_task(bytes / (out.len() / size).max(1));
        let per_task = if width < per_task { per_task.next_multiple_of(width.max(1)) } else { per_task };
        for_each_chunk(out, per_task.saturating_mul(size), Work::Bytes(bytes), |task, out| {
            let mut out = Sink::new(out, dtype);
            let (mut sums, mut taps) = (Scratch::default(), Scratch::default());
            let (mut done, first) = (0, task * per_task);
            while done < out.len() {
                let (row, column, left) = ((first + done) / width, (first + done) % width, out.len() - done);
                let (plane, y) = (row / height, row % height);
                // As many rows at once as their windows fit the block too, none of which is cut.
                let rows = (ROWS / width.max(self.grid[1])).min(height - y).min(left / width);
                let len = match rows {
                    _ if column > 0 => (width - column).min(BLOCK).min(left),
                    0 | 1 => width.min(BLOCK).min(left),
                    _ => rows * width,
                };
                out.part(done..done + len).through(&mut sums, |sums: &mut [A]| {
                    sums.fill(A::ZERO);
                    self.add_to(src, plane, [y, column], &mut taps, sums);
                });
                done += len;
            }
        });
        Ok(blank.finish())
    }

    /// Adds all taps that lie on `sums`, the elements of a plane from row `y` and column `x` on: whole rows,
    /// or a part of one.
    fn add_to<A: Computing>(
        &self,
        src: Source<'_>,
        plane: usize,
        [y, x]: [usize; 2],
        scratch: &mut Scratch<A>,
        sums: &mut [A],
    ) {
        let Self { kernel, stride, grid, .. } = *self;
        let columns = sums.len().min(self.output_size[1] - x);
        let rows = sums.len() / columns;
        for tap_h in 0..kernel[0] {
            let (down, first_row) = self.windows_on(0, tap_h, y, rows);
            if down.is_empty() {
                continue;
            }
            for tap_w in 0..kernel[1] {
                let (across, first) = self.windows_on(1, tap_w, x, columns);
                if across.is_empty() {
                    continue;
                }
                let tap = (plane * kernel[0] + tap_h) * kernel[1] + tap_w;
                let at = |h: usize, w: usize| (tap * grid[0] + h) * grid[1] + w;
                let span = at(down.start, across.start)..at(down.end - 1, across.end - 1) + 1;
                let taps = src.slice(span).load(scratch);
                add_rows(
                    &mut sums[first_row * columns + first..],
                    [stride[0] * columns, stride[1]],
                    taps,
                    [down.len(), across.len()],
                    grid[1],
                );
            }
        }
    }

    /// The numbers, along an axis, of the windows whose tap number `tap` lies on one of `len` elements from
    /// `start` on; and the position, among these elements, of the first window's tap.
    fn windows_on(&self, axis: usize, tap: usize, start: usize, len: usize) -> (Range<usize>, usize) {
        let (stride, first) = (self.stride[axis], tap * self.dilation[axis]);
        // The elements, counted from where this tap of window 0 lies.
        let start = start + self.padding[axis];
        let [from, end] = [start, start + len].map(|at| at.saturating_sub(first));
        // A division takes longer than a short row of additions.
        let steps = |n: usize| if stride == 1 { n } else { n.div_ceil(stride) };
        let from = steps(from).min(self.grid[axis]);
        let end = steps(end).clamp(from, self.grid[axis]);
        (from..end, (from * stride + first).saturating_sub(start))
    }
}

/// Adds rows of `taps`, `pitch` apart, to elements of `sums` that are `steps` apart. There are `count` taps
/// along each axis.
fn add_rows<A: Computing>(
    sums: &mut [A],
    steps: [usize; 2],
    taps: &[A],
    [rows, columns]: [usize; 2],
    pitch: usize,
) {
    vectorize(
        #[inline(always)]
        || {
            for row in 0..rows {
                let taps = &taps[row * pitch..][..columns];
                let sums = &mut sums[row * steps[0]..];
                if steps[1] == 1 {
                    sums.iter_mut().zip(taps).for_each(|(sum, tap)| *sum += *tap);
                } else {
                    sums.iter_mut().step_by(steps[1]).zip(taps).for_each(|(sum, tap)| *sum += *tap);
                }
            }
        },
    );
}
