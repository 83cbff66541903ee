//! Sliding windows as columns, the `im2col` of `torch.nn.Unfold`.

use super::UnfoldOptions;
use super::plan::{check_options, window_grid};
use crate::error::{Error, Result, check_rank};
use crate::layout::checked_num_elements;
use crate::parallel::{Work, for_each_chunk, rows_per_task};
use crate::stored::Source;
use crate::{Blank, Tensor};

/// The windows of an input `[batch, channels, height, width]` as columns of a tensor `[batch, channels *
/// kernel_h * kernel_w, windows]`. Windows are in row-major order of their position. Padding is zero.
///
/// # Errors
/// Fails if the input's rank is not 4; a stride, dilation or kernel size is zero; the kernel does not fit
/// into the padded input; or the engine does not store the dtype.
pub fn unfold4d(x: Tensor, kernel: [usize; 2], options: &UnfoldOptions) -> Result<Tensor> {
    const OP: &str = "unfold4d";
    let UnfoldOptions { stride, padding, dilation } = *options;
    check_rank(OP, x.shape(), 4, "a tensor of shape [batch, channels, height, width]")?;
    check_options(OP, &stride, &dilation, 1)?;
    let shape = x.shape().to_vec();
    let (batch, channels, height, width) = (shape[0], shape[1], shape[2], shape[3]);
    let [out_h, out_w] = window_grid(OP, [height, width], kernel, stride, padding, dilation)?;
    let overflow = || Error::Overflow { op: OP, shape: shape.clone() };
    let taps = kernel[0].checked_mul(kernel[1]).ok_or_else(overflow)?;
    let columns = channels.checked_mul(taps).ok_or_else(overflow)?;
    let windows = checked_num_elements(OP, &[out_h, out_w])?;
    let x = x.into_contiguous()?;
    let (dtype, size) = (x.dtype(), x.dtype().size());
    let src = Source::of(&x);
    let mut blank = Blank::new(OP, [batch, columns, windows].into(), dtype)?;
    let out = blank.bytes();
    let work = Work::Bytes(2 * out.len());
    let per_task = rows_per_task(2 * windows * size);
    for_each_chunk(out, per_task * windows * size, work, |task, out| {
        for (k, out) in out.chunks_exact_mut(windows * size).enumerate() {
            // A row holds one tap of one channel of one image.
            let row = task * per_task + k;
            let (tap_h, tap_w) = (row % taps / kernel[1], row % kernel[1]);
            let plane = row / taps * height * width;
            let first = tap_w * dilation[1];
            // Range of the windows whose tap lies inside of the row.
            let start = padding[1].saturating_sub(first).div_ceil(stride[1]).min(out_w);
            let end = (width + padding[1]).saturating_sub(first).div_ceil(stride[1]).clamp(start, out_w);
            for (h, out) in out.chunks_exact_mut(out_w * size).enumerate() {
                let y = (h * stride[0] + tap_h * dilation[0]).wrapping_sub(padding[0]);
                if y >= height || start == end {
                    out.fill(0);
                    continue;
                }
                out[..start * size].fill(0);
                out[end * size..].fill(0);
                let x = start * stride[1] + first - padding[1];
                let row = src.slice(plane + y * width..plane + (y + 1) * width);
                row.gather(x, stride[1] as isize, &mut out[start * size..end * size]);
            }
        }
    });
    Ok(blank.finish())
}
