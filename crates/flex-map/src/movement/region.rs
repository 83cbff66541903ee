//! Copies between strided regions.

use crate::layout::Layout;
use crate::parallel::{self, Work};
use crate::walk::{Walk, gather_row};

/// The positions of two layouts of one shape index by index, on axes whose strides are not negative in the
/// first one. Not a part of [`copy_into_view`], which is compiled for each width of elements.
#[inline(never)]
fn forward(dst: &Layout, src: &Layout) -> Walk<2> {
    let mut backward = alloc::vec::Vec::new();
    for (axis, &stride) in dst.strides().iter().enumerate() {
        if stride < 0 {
            backward.push(axis);
        }
    }
    let flip = |layout: &Layout| layout.clone().flip(&backward).expect("axes of the layout, each once");
    Walk::new([&flip(dst), &flip(src)])
}

/// Copies the elements of `src_layout` over `src` to the positions of `dst_layout` over `dst`, index by
/// index.
///
/// `dst_layout` must address each position at most once; otherwise it is unspecified which element a position
/// gets. Elements of `dst` that the layout does not address are unchanged.
///
/// # Panics
/// If the shapes differ or a layout exceeds its slice.
pub(crate) fn copy_into_view<T: bytemuck::Pod + Send + Sync>(
    dst: &mut [T],
    dst_layout: &Layout,
    src: &[T],
    src_layout: &Layout,
) {
    assert_eq!(dst_layout.shape(), src_layout.shape(), "copy: different shapes");
    if dst_layout.num_elements() == 0 {
        return;
    }
    // The order of the copies does not matter, so negative strides of the destination are flipped.
    let walk = forward(dst_layout, src_layout);

    let axes = walk.axes();
    let inner = walk.inner();
    let [first, _] = walk.offsets();
    let outermost = axes[0];
    let outer_step = outermost.strides[0] as usize;
    let rows = walk.rows();
    let rows_per_step = if axes.len() == 1 { 0 } else { rows / outermost.size };
    // How far the inner axes reach beyond the start of a step of the outermost axis.
    let reach: usize = axes[1..].iter().map(|a| (a.size - 1) * a.strides[0] as usize).sum();
    let end = first + (outermost.size - 1) * outer_step + reach + 1;

    // Copies the rows that start in `steps` of the outermost axis; `piece` begins at position `base`.
    let copy = |steps: core::ops::Range<usize>, base: usize, piece: &mut [T]| {
        if axes.len() == 1 {
            let [d, s] = walk.offsets();
            let d = d + steps.start * outer_step - base;
            let s = s.wrapping_add_signed(steps.start as isize * inner.strides[1]);
            copy_row(piece, d, outer_step, src, s, inner.strides[1], steps.len());
        } else {
            walk.for_each_row(steps.start * rows_per_step..steps.end * rows_per_step, |[d, s]| {
                copy_row(piece, d - base, inner.strides[0] as usize, src, s, inner.strides[1], inner.size);
            });
        }
    };

    let bytes = 2 * dst_layout.num_elements() * size_of::<T>();
    if outer_step <= reach {
        // Steps of the outermost axis overlap in memory: one thread copies them all.
        copy(0..outermost.size, 0, dst);
        return;
    }
    let steps = parallel::rows_per_task(bytes / outermost.size);
    // The steps may exceed the address space where few of their elements are written.
    let chunk = steps.saturating_mul(outer_step);
    parallel::for_each_chunk(&mut dst[first..end], chunk, Work::Bytes(bytes), |k, piece| {
        let from = k * steps;
        copy(from..(from + steps).min(outermost.size), first + from * outer_step, piece);
    });
}

/// Copies `len` elements from `src` (from `s` on, stride `src_stride`) to `dst` (from `d` on, stride
/// `dst_stride`).
fn copy_row<T: bytemuck::Pod>(
    dst: &mut [T],
    d: usize,
    dst_stride: usize,
    src: &[T],
    s: usize,
    src_stride: isize,
    len: usize,
) {
    if len == 1 {
        dst[d] = src[s];
    } else if dst_stride == 1 {
        gather_row(src, s, src_stride, &mut dst[d..d + len]);
    } else {
        let mut at = s;
        for o in dst[d..=d + (len - 1) * dst_stride].iter_mut().step_by(dst_stride) {
            *o = src[at];
            at = at.wrapping_add_signed(src_stride);
        }
    }
}
