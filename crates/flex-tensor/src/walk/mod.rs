//! The strided walker: turns n operands of one shape into a loop over inner rows.
//!
//! Axes of size one are dropped. The others are ordered by the strides of the first operand (the output), and
//! neighbouring axes that can be merged in all operands are merged. The result is a short loop nest whose
//! innermost axis is as long as the layouts allow. Kernels see rows and never index arithmetic.

/// Defines a function over elements of any dtype that calls a generic one over unsigned integers of the same
/// width. Its four instances are functions without parameters, compiled in this crate, so that they serve all
/// crates.
macro_rules! by_width {
    ($(#[$doc:meta])* pub fn $name:ident(src; $($argument:ident: $ty:ty),*; out) = $by_bits:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $name<T: bytemuck::Pod>(src: &[T], $($argument: $ty,)* out: &mut [T]) {
            use bytemuck::{cast_slice, cast_slice_mut};
            fn bits8(src: &[u8], $($argument: $ty,)* out: &mut [u8]) {
                $by_bits(src, $($argument,)* out)
            }
            fn bits16(src: &[u16], $($argument: $ty,)* out: &mut [u16]) {
                $by_bits(src, $($argument,)* out)
            }
            fn bits32(src: &[u32], $($argument: $ty,)* out: &mut [u32]) {
                $by_bits(src, $($argument,)* out)
            }
            fn bits64(src: &[u64], $($argument: $ty,)* out: &mut [u64]) {
                $by_bits(src, $($argument,)* out)
            }
            match size_of::<T>() {
                1 => bits8(cast_slice(src), $($argument,)* cast_slice_mut(out)),
                2 => bits16(cast_slice(src), $($argument,)* cast_slice_mut(out)),
                4 => bits32(cast_slice(src), $($argument,)* cast_slice_mut(out)),
                8 => bits64(cast_slice(src), $($argument,)* cast_slice_mut(out)),
                size => unreachable!("{}: elements of {size} bytes", stringify!($name)),
            }
        }
    };
}

mod transpose;

pub use transpose::copy_to_contiguous;

use crate::layout::Layout;
use core::ops::Range;
use flex_math::simd::vectorize_lean;
use smallvec::SmallVec;

/// One axis of the loop nest: its size and each operand's stride.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis<const N: usize> {
    /// Number of steps.
    pub size: usize,
    /// Stride of each operand, in elements.
    pub strides: [isize; N],
}

/// A loop nest of merged axes over `N` operands.
#[derive(Clone, Debug)]
pub struct Walk<const N: usize> {
    /// Outermost first; never empty: the nest of a scalar has one axis of size one.
    axes: SmallVec<[Axis<N>; 6]>,
    offsets: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// The nest over layouts of the same shape.
    ///
    /// # Panics
    /// When the shapes differ; the caller has to broadcast the operands first.
    pub fn new(layouts: [&Layout; N]) -> Self {
        Self::in_order(layouts, &layouts[0].axes_by_stride())
    }

    /// [`new`](Self::new) in an order of all axes, the outermost first, which the caller knows already.
    ///
    /// # Panics
    /// As `new`; when the order has more or fewer axes.
    pub fn in_order(layouts: [&Layout; N], order: &[usize]) -> Self {
        let shape = layouts[0].shape();
        assert_eq!(order.len(), shape.len(), "walk: an order of some axes");
        for layout in &layouts {
            assert_eq!(layout.shape(), shape, "walk: operands of different shapes");
        }
        let axes = order.iter().filter(|&&k| shape[k] != 1);
        let axes = axes.map(|&k| Axis { size: shape[k], strides: layouts.map(|l| l.strides()[k]) });
        Self { axes: Self::merged(axes), offsets: layouts.map(Layout::offset) }
    }

    /// Joins each axis to the axis before it where all operands step over both as over one.
    fn merged(axes: impl Iterator<Item = Axis<N>>) -> SmallVec<[Axis<N>; 6]> {
        let mut merged: SmallVec<[Axis<N>; 6]> = SmallVec::new();
        for axis in axes {
            match merged.last_mut() {
                Some(outer) if (0..N).all(|n| outer.strides[n] == axis.strides[n] * axis.size as isize) => {
                    *outer = Axis { size: outer.size * axis.size, strides: axis.strides };
                }
                _ => merged.push(axis),
            }
        }
        if merged.is_empty() {
            merged.push(Axis { size: 1, strides: [1; N] });
        }
        merged
    }

    /// The nest over operands that broadcast to a dense output, in the order in which the output's elements
    /// lie in memory: step `i` of the nest, counted row by row, is element `i` of the output's flat run. The
    /// output itself is not an operand. `stride(n, axis)` is operand `n`'s stride along an axis of the
    /// output, zero where the operand is stretched; `offsets` are the positions of the operands' first
    /// elements.
    pub fn following(
        output: &Layout,
        mut offsets: [usize; N],
        stride: impl Fn(usize, usize) -> isize,
    ) -> Self {
        let shape = output.shape();
        let axes = output.axes_by_stride().into_iter().filter(|&k| shape[k] != 1).map(|k| {
            let mut axis = Axis { size: shape[k], strides: core::array::from_fn(|n| stride(n, k)) };
            if output.strides()[k] < 0 && axis.size > 0 {
                // Walked from the other end, so that positions in the output increase.
                for (offset, stride) in offsets.iter_mut().zip(&mut axis.strides) {
                    *offset = offset.wrapping_add_signed((axis.size as isize - 1) * *stride);
                    *stride = -*stride;
                }
            }
            axis
        });
        let axes = Self::merged(axes);
        Self { axes, offsets }
    }

    /// The axes, outermost first.
    pub fn axes(&self) -> &[Axis<N>] {
        &self.axes
    }

    /// Start position of each operand.
    pub fn offsets(&self) -> [usize; N] {
        self.offsets
    }

    /// The innermost axis.
    pub fn inner(&self) -> Axis<N> {
        self.axes[self.axes.len() - 1]
    }

    /// Number of rows: the product of the sizes of all axes but the innermost.
    pub fn rows(&self) -> usize {
        self.axes[..self.axes.len() - 1].iter().map(|axis| axis.size).product()
    }

    /// The position at which each operand's row number `row` starts.
    #[inline]
    pub fn row(&self, row: usize) -> [usize; N] {
        let (_, outer) = self.axes.split_last().expect("at least one axis");
        let mut position = self.offsets;
        indices(outer, row, |k, index| advance(&mut position, &outer[k], index));
        position
    }

    /// Calls `f` for each row in `range`, in order, with the position at which each operand's row starts.
    #[inline]
    pub fn for_each_row(&self, range: Range<usize>, mut f: impl FnMut([usize; N])) {
        let mut cursor = Cursor::new(self, range.start);
        for _ in range {
            f(cursor.position);
            cursor.step();
        }
    }
}

/// Calls `f` with the number of each axis and the index of a row along it.
#[inline]
fn indices<const N: usize>(outer: &[Axis<N>], row: usize, mut f: impl FnMut(usize, usize)) {
    let mut rest = row;
    for (k, axis) in outer.iter().enumerate().rev() {
        // The rows of the outermost axis are not divided any further; a division takes 4 ns.
        let (next, index) =
            if k == 0 { (0, rest) } else { (rest / axis.size.max(1), rest % axis.size.max(1)) };
        f(k, index);
        rest = next;
    }
}

/// Goes `steps` steps along an axis.
#[inline]
fn advance<const N: usize>(position: &mut [usize; N], axis: &Axis<N>, steps: usize) {
    for (position, stride) in position.iter_mut().zip(axis.strides) {
        *position = position.wrapping_add_signed(steps as isize * stride);
    }
}

/// A row of a walk. Compiled apart from the code that uses the rows, but for the steps along an axis.
struct Cursor<'a, const N: usize> {
    /// All axes but the innermost.
    outer: &'a [Axis<N>],
    index: SmallVec<[usize; 6]>,
    /// Where each operand's row starts.
    position: [usize; N],
    /// Steps that are left along the last of the outer axes, and what a step adds to the position.
    left: usize,
    stride: [isize; N],
}

impl<'a, const N: usize> Cursor<'a, N> {
    /// Row number `row`.
    #[inline(never)]
    fn new(walk: &'a Walk<N>, row: usize) -> Self {
        let outer = &walk.axes[..walk.axes.len() - 1];
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let mut position = walk.offsets;
        indices(outer, row, |k, i| {
            index[k] = i;
            advance(&mut position, &outer[k], i);
        });
        let (left, stride) = match (index.last(), outer.last()) {
            (Some(i), Some(axis)) => (axis.size.saturating_sub(i + 1), axis.strides),
            _ => (0, [0; N]),
        };
        Self { outer, index, position, left, stride }
    }

    /// Goes to the next row.
    #[inline(always)]
    fn step(&mut self) {
        if self.left == 0 {
            return self.carry();
        }
        self.left -= 1;
        for n in 0..N {
            self.position[n] = self.position[n].wrapping_add_signed(self.stride[n]);
        }
    }

    /// Goes to the next row where the last of the outer axes ends.
    #[inline(never)]
    fn carry(&mut self) {
        let Some((last, outer)) = self.outer.split_last() else { return };
        self.left = last.size.saturating_sub(1);
        self.back(last);
        for (k, axis) in outer.iter().enumerate().rev() {
            self.index[k] += 1;
            if self.index[k] < axis.size {
                for n in 0..N {
                    self.position[n] = self.position[n].wrapping_add_signed(axis.strides[n]);
                }
                return;
            }
            self.index[k] = 0;
            self.back(axis);
        }
    }

    /// Goes from the end of an axis to its begin.
    fn back(&mut self, axis: &Axis<N>) {
        for n in 0..N {
            let back = (axis.size as isize - 1) * axis.strides[n];
            self.position[n] = self.position[n].wrapping_add_signed(-back);
        }
    }
}

by_width! {
    /// Copies `out.len()` elements of `src`, `stride` apart and from `start` on, to `out`.
    ///
    /// # Panics
    /// When an element lies outside of `src`.
    pub fn gather_row(src; start: usize, stride: isize; out) = gather_elements
}

/// [`gather_row`] for one width.
#[inline(always)]
fn gather_elements<T: Copy>(src: &[T], start: usize, stride: isize, out: &mut [T]) {
    let len = out.len();
    if len == 0 {
        return;
    }
    match stride {
        1 => out.copy_from_slice(&src[start..start + len]),
        0 => out.fill(src[start]),
        // Constant steps, so that the compiler shuffles whole vectors.
        -1 => {
            let row = &src[start + 1 - len..=start];
            vectorize_lean(
                #[inline(always)]
                || out.iter_mut().zip(row.iter().rev()).for_each(|(o, v)| *o = *v),
            );
        }
        2 => {
            let row = &src[start..];
            vectorize_lean(
                #[inline(always)]
                || every::<T, 2>(row, out),
            );
        }
        s if s > 0 => {
            let row = &src[start..=start + (len - 1) * s as usize];
            for (o, v) in out.iter_mut().zip(row.iter().step_by(s as usize)) {
                *o = *v;
            }
        }
        s => {
            let step = s.unsigned_abs();
            let row = &src[start - (len - 1) * step..=start];
            for (o, v) in out.iter_mut().zip(row.iter().rev().step_by(step)) {
                *o = *v;
            }
        }
    }
}

/// The numbers of a range from its start on, `step` apart, which is not zero: the starts of blocks. `step_by`
/// counts them first, by a division: some 200 bytes of machine code in each loop.
#[inline(always)]
pub fn starts(range: Range<usize>, step: usize) -> impl Iterator<Item = usize> {
    let mut next = range.start;
    core::iter::from_fn(move || {
        let start = next;
        next = next.saturating_add(step);
        (start < range.end).then_some(start)
    })
}

/// Copies every `STEP`-th element of `src`, as many as `out` has: at least one. The step is a constant, so
/// that the compiler shuffles whole vectors.
///
/// # Panics
/// When `src` is too short, or `out` is empty.
#[inline(always)]
pub fn every<T: Copy, const STEP: usize>(src: &[T], out: &mut [T]) {
    let (last, most) = out.split_last_mut().expect("at least one element");
    let (blocks, _) = src[..most.len() * STEP].as_chunks::<STEP>();
    *last = src[most.len() * STEP];
    for (o, block) in most.iter_mut().zip(blocks) {
        *o = block[0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn starts_are_a_step_apart() {
        for (range, step) in [(0..0, 3), (5..5, 1), (0..1, 4), (2..14, 4), (2..15, 4), (3..9, 100)] {
            let want: Vec<usize> = range.clone().step_by(step).collect();
            assert_eq!(starts(range.clone(), step).collect::<Vec<_>>(), want, "{range:?} by {step}");
        }
        let end = usize::MAX;
        assert_eq!(starts(end - 5..end, 3).collect::<Vec<_>>(), [end - 5, end - 2]);
    }

    fn visited(layout: &Layout) -> Vec<usize> {
        let out = Layout::contiguous(layout.shape().clone());
        let walk = Walk::new([&out, layout]);
        let (inner, rows) = (walk.inner(), walk.rows());
        let mut list = vec![usize::MAX; layout.num_elements()];
        // Two halves, so that one walk starts in the middle.
        for range in [0..rows / 2, rows / 2..rows] {
            walk.for_each_row(range, |[o, s]| {
                for i in 0..inner.size {
                    list[o + i * inner.strides[0] as usize] =
                        s.wrapping_add_signed(i as isize * inner.strides[1]);
                }
            });
        }
        list
    }

    #[test]
    fn rows_visit_every_element_once_in_order() {
        let base = Layout::contiguous(Shape::from(vec![3, 1, 4, 5]));
        let cases = [
            base.clone(),
            base.clone().swap_axes(0, 3).unwrap(),
            base.clone().flip(&[0, 3]).unwrap(),
            base.permute(&[2, 0, 3, 1]).unwrap().expand(&[2, 4, 3, 5, 3]).unwrap(),
            base.clone().narrow(3, 1, 3).unwrap(),
            base.unfold(3, 2, 1).unwrap(),
            Layout::contiguous(Shape::from(Vec::<usize>::new())),
            Layout::contiguous(Shape::from(vec![2, 0, 3])),
        ];
        for layout in cases {
            let mut want = vec![];
            for flat in 0..layout.num_elements() {
                let mut rest = flat;
                let mut index = vec![0; layout.rank()];
                for k in (0..layout.rank()).rev() {
                    index[k] = rest % layout.shape()[k];
                    rest /= layout.shape()[k];
                }
                want.push(layout.position(&index));
            }
            assert_eq!(visited(&layout), want, "{layout:?}");
        }
    }

    #[test]
    fn contiguous_operands_merge_into_one_row() {
        let a = Layout::contiguous(Shape::from(vec![3, 4, 5]));
        let walk = Walk::new([&a, &a]);
        assert_eq!((walk.rows(), walk.inner().size), (1, 60));
        let t = a.clone().swap_axes(0, 2).unwrap();
        let walk = Walk::new([&t, &t]);
        assert_eq!((walk.rows(), walk.inner().size), (1, 60));
    }

    #[test]
    fn following_an_output_visits_operands_in_its_memory_order() {
        let shape = Shape::from(vec![2, 3, 4]);
        let operand = Layout::contiguous(Shape::from(vec![2, 1, 4])).flip(&[0]).unwrap();
        let operand = crate::layout::expand_like("test", &operand, &shape).unwrap();
        let plain = Layout::contiguous(shape.clone());
        let permuted = Layout::contiguous(Shape::from(vec![4, 2, 3])).permute(&[1, 2, 0]).unwrap();
        for output in
            [plain.clone(), permuted.clone(), permuted.flip(&[0, 2]).unwrap(), plain.flip(&[1]).unwrap()]
        {
            let walk = Walk::following(&output, [operand.offset()], |_, k| operand.strides()[k]);
            let inner = walk.inner();
            let mut got = vec![];
            walk.for_each_row(0..walk.rows(), |[at]| {
                got.extend((0..inner.size).map(|i| at.wrapping_add_signed(i as isize * inner.strides[0])));
            });
            let mut want = vec![usize::MAX; 24];
            for (i, j, k) in (0..24).map(|f| (f / 12, f / 4 % 3, f % 4)) {
                want[output.position(&[i, j, k])] = operand.position(&[i, j, k]);
            }
            assert_eq!(got, want, "{output:?}");
        }
    }

    #[test]
    fn gather_row_steps_both_ways() {
        let src: Vec<u32> = (0..200).collect();
        for stride in [-6isize, -2, -1, 0, 1, 2, 5] {
            for len in [0, 1, 2, 15, 33] {
                let start = if stride < 0 { 199 } else { 3 };
                let mut out = vec![u32::MAX; len];
                gather_row(&src, start, stride, &mut out);
                let want: Vec<u32> =
                    (0..len).map(|i| start.wrapping_add_signed(i as isize * stride) as u32).collect();
                assert_eq!(out, want, "{stride}");
            }
        }
    }
}
