//! Nearest-neighbour resizing: moves elements of any width without arithmetic.

use crate::error::Result;
use crate::parallel::{self, Work};
use crate::{Element, Tensor};
use alloc::vec::Vec;

/// Resizes `x` to `size`: output `i` of `n` is input `floor(i * len / n)`. `x` is contiguous and already
/// checked.
pub(super) fn resize(op: &'static str, x: &Tensor, size: [usize; 2]) -> Result<Tensor> {
    dispatch!(bits op, x.dtype(), T => run::<T>(op, x, size))
}

fn run<T: Element>(op: &'static str, x: &Tensor, size: [usize; 2]) -> Result<Tensor> {
    let [batch, channels, height, width] = core::array::from_fn(|k| x.shape()[k]);
    let [out_height, out_width] = size;
    let source =
        |i: usize, input: usize, output: usize| (i as u128 * input as u128 / output as u128) as usize;
    let columns: Vec<usize> = (0..out_width).map(|j| source(j, width, out_width)).collect();
    // Enlarging by an integer factor repeats elements; otherwise, elements are looked up in `columns`.
    let factor = out_width / width;
    let repeat = out_width.is_multiple_of(width);
    let src = x.as_slice::<T>().expect("contiguous");
    Tensor::build::<T>(op, [batch, channels, out_height, out_width], x.dtype(), |out| {
        let rows = parallel::rows_per_task(2 * out_width * size_of::<T>());
        let work = Work::Bytes(2 * size_of_val(out));
        parallel::for_each_chunk(out, rows * out_width, work, |k, out| {
            for r in 0..out.len() / out_width {
                let (plane, i) = ((k * rows + r) / out_height, (k * rows + r) % out_height);
                let row = plane * height + source(i, height, out_height);
                if r > 0 && i > 0 && source(i - 1, height, out_height) == source(i, height, out_height) {
                    let (done, rest) = out.split_at_mut(r * out_width);
                    rest[..out_width].copy_from_slice(&done[(r - 1) * out_width..]);
                    continue;
                }
                let src = &src[row * width..][..width];
                let out = &mut out[r * out_width..][..out_width];
                match factor {
                    1 if repeat => out.copy_from_slice(src),
                    2 if repeat => {
                        for (o, v) in out.as_chunks_mut::<2>().0.iter_mut().zip(src) {
                            *o = [*v; 2];
                        }
                    }
                    _ if repeat => {
                        for (o, v) in out.chunks_exact_mut(factor).zip(src) {
                            o.fill(*v);
                        }
                    }
                    _ => {
                        for (o, column) in out.iter_mut().zip(&columns) {
                            *o = src[*column];
                        }
                    }
                }
            }
        });
    })
}
