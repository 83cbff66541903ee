//! Overlapping windows added up, the `col2im` of `torch.nn.Fold`.
//!
//! Each element of the result is computed by itself: the sum of the taps that lie on it, in the order of the
//! taps. So no two threads write one element, and no sum depends on how the result is cut.

use super::UnfoldOptions;
use super::plan::{check_options, window_grid};
use crate::error::{Error, Result, check_rank};
use crate::parallel::{Work, for_each_chunk, rows_per_task};
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, Tensor};
use alloc::vec::Vec;
use flex_math::simd::vectorize;

/// Elements of a row that are summed together: in f32, they and the taps that are added to them stay in the
/// first-level cache.
const BLOCK: usize = 1024;

/// The adjoint of [`unfold4d`](super::unfold4d): `x`, `[batch, channels * kernel_h * kernel_w, windows]`,
/// holds windows as columns, which are added up where they lie in a result `[batch, channels, height, width]`
/// of `output_size`. What lies in the padding is dropped. Elements that no window covers are zero. Halves are
/// summed in f32 and rounded once.
///
/// # Errors
/// Fails if the rank of `x` is not 3; a stride, dilation or kernel size is zero; the kernel does not fit into
/// the padded output; the channels or windows of `x` are not those of such windows; or the dtype is not a
/// float.
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
    let windows = Windows { output_size, kernel, stride, padding, dilation, grid };
    computing!(OP, x.dtype(), A => windows.add_up::<A>(OP, &x, shape))
}

/// The checked arguments.
struct Windows {
    output_size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    /// Windows along each axis.
    grid: [usize; 2],
}

impl Windows {
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
            let (mut sums, mut taps) = (Vec::new(), Vec::new());
            let (mut done, first) = (0, task * per_task);
            while done < out.len() {
                let (row, column) = ((first + done) / width, (first + done) % width);
                let len = (width - column).min(BLOCK).min(out.len() - done);
                out.part(done..done + len).through(&mut sums, |sums: &mut [A]| {
                    sums.fill(A::ZERO);
                    self.add_to(src, row / height, row % height, column, &mut taps, sums);
                });
                done += len;
            }
        });
        Ok(blank.finish())
    }

    /// Adds all taps that lie on row `y` of a plane to `sums`, the elements of that row from `column` on.
    fn add_to<A: Computing>(
        &self,
        src: Source<'_>,
        plane: usize,
        y: usize,
        column: usize,
        scratch: &mut Vec<A>,
        sums: &mut [A],
    ) {
        let Self { kernel, stride, padding, dilation, grid, .. } = *self;
        let windows = grid[0] * grid[1];
        for tap_h in 0..kernel[0] {
            // The row of windows whose tap lies on row `y`.
            let Some(h) = (y + padding[0]).checked_sub(tap_h * dilation[0]) else { break };
            if !h.is_multiple_of(stride[0]) || h / stride[0] >= grid[0] {
                continue;
            }
            for tap_w in 0..kernel[1] {
                // Column of the padded row that the tap of the first window lies on.
                let first = tap_w * dilation[1];
                let from = (column + padding[1]).saturating_sub(first).div_ceil(stride[1]).min(grid[1]);
                let end = (column + sums.len() + padding[1]).saturating_sub(first);
                let end = end.div_ceil(stride[1]).clamp(from, grid[1]);
                if from == end {
                    continue;
                }
                let tap = (plane * kernel[0] + tap_h) * kernel[1] + tap_w;
                let start = tap * windows + h / stride[0] * grid[1];
                let taps = src.slice(start + from..start + end).load(scratch);
                add_strided(&mut sums[from * stride[1] + first - padding[1] - column..], stride[1], taps);
            }
        }
    }
}

/// Adds each of `taps` to an element of `sums`: the first to the first, and the others `stride` apart.
fn add_strided<A: Computing>(sums: &mut [A], stride: usize, taps: &[A]) {
    if stride == 1 {
        return vectorize(
            #[inline(always)]
            || sums.iter_mut().zip(taps).for_each(|(sum, tap)| *sum += *tap),
        );
    }
    sums.iter_mut().step_by(stride).zip(taps).for_each(|(sum, tap)| *sum += *tap);
}
