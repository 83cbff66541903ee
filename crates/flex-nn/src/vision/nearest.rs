//! Nearest-neighbour resizing: moves elements of any width without arithmetic.

use crate::error::Result;
use crate::parallel::{self, Work};
use crate::stored::Source;
use crate::{Blank, Element, Tensor, storage};
use bytemuck::{cast_slice, cast_slice_mut};

/// The input that output `i` of `output` is: `floor(i * input / output)`, or with `exact` the input at the
/// centre of the output, `floor((i + 1/2) * input / output)`.
pub(super) fn source(i: usize, input: usize, output: usize, exact: bool) -> usize {
    let (i, input, output) = (i as u128, input as u128, output as u128);
    let index = if exact { (2 * i + 1) * input / (2 * output) } else { i * input / output };
    index as usize
}

/// Resizes `x` to `size`, see [`source`]. `x` is contiguous and already checked.
pub(super) fn resize(op: &'static str, x: &Tensor, size: [usize; 2], exact: bool) -> Result<Tensor> {
    let [batch, channels, height, width] = core::array::from_fn(|k| x.shape()[k]);
    let [out_height, out_width] = size;
    let source = |i, input, output| source(i, input, output, exact);
    // Enlarging by an integer factor repeats elements; otherwise, elements are looked up in `columns`.
    let factor = out_width.is_multiple_of(width).then_some(out_width / width);
    let listed = if factor.is_some() { 0 } else { out_width };
    let columns = storage::try_collect(op, (0..listed).map(|j| source(j, width, out_width)))?;
    let (dtype, src) = (x.dtype(), Source::of(x).bytes());
    let (row_bytes, out_row_bytes) = (width * dtype.size(), out_width * dtype.size());
    let mut blank = Blank::new(op, [batch, channels, out_height, out_width].into(), dtype)?;
    let out = blank.bytes();
    let rows = parallel::rows_per_task(2 * out_row_bytes);
    let work = Work::Bytes(2 * out.len());
    parallel::for_each_chunk(out, rows * out_row_bytes, work, |k, out| {
        for r in 0..out.len() / out_row_bytes {
            let (plane, i) = ((k * rows + r) / out_height, (k * rows + r) % out_height);
            let row = plane * height + source(i, height, out_height);
            if r > 0 && i > 0 && source(i - 1, height, out_height) == source(i, height, out_height) {
                let (done, rest) = out.split_at_mut(r * out_row_bytes);
                rest[..out_row_bytes].copy_from_slice(&done[(r - 1) * out_row_bytes..]);
                continue;
            }
            let src = &src[row * row_bytes..][..row_bytes];
            let out = &mut out[r * out_row_bytes..][..out_row_bytes];
            match (factor, dtype.size()) {
                (Some(1), _) => out.copy_from_slice(src),
                (_, 1) => enlarge::<u8>(src, factor, &columns, out),
                (_, 2) => enlarge::<u16>(src, factor, &columns, out),
                (_, 4) => enlarge::<u32>(src, factor, &columns, out),
                _ => enlarge::<u64>(src, factor, &columns, out),
            }
        }
    });
    Ok(blank.finish())
}

/// Writes one row of elements of the width of `T`.
fn enlarge<T: Element>(src: &[u8], factor: Option<usize>, columns: &[usize], out: &mut [u8]) {
    let (src, out): (&[T], &mut [T]) = (cast_slice(src), cast_slice_mut(out));
    match factor {
        Some(2) => {
            for (o, v) in out.as_chunks_mut::<2>().0.iter_mut().zip(src) {
                *o = [*v; 2];
            }
        }
        Some(factor) => {
            for (o, v) in out.chunks_exact_mut(factor).zip(src) {
                o.fill(*v);
            }
        }
        None => {
            for (o, column) in out.iter_mut().zip(columns) {
                *o = src[*column];
            }
        }
    }
}
