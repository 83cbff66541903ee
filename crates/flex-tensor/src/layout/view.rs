//! Views: new layouts over the same elements. None of these moves data.

use super::{Layout, Shape, Slice, Strides, checked_num_elements, contiguous_strides};
use crate::error::{Error, Result, check_axis};
use crate::small::collected;
use alloc::vec;

impl Layout {
    /// Exchanges two axes.
    pub fn swap_axes(mut self, a: usize, b: usize) -> Result<Self> {
        check_axis("swap_dims", a, self.rank())?;
        check_axis("swap_dims", b, self.rank())?;
        self.shape.as_mut_slice().swap(a, b);
        self.strides.swap(a, b);
        Ok(self)
    }

    /// Reorders the axes: axis `k` of the result is axis `axes[k]` of this layout.
    pub fn permute(&self, axes: &[usize]) -> Result<Self> {
        let rank = self.rank();
        let mut seen = vec![false; rank];
        let is_permutation =
            axes.len() == rank && axes.iter().all(|&a| a < rank && !core::mem::replace(&mut seen[a], true));
        if !is_permutation {
            return Err(Error::argument(
                "permute",
                "axes",
                format_args!("{axes:?}"),
                alloc::format!("a permutation of 0..{rank}"),
            ));
        }
        Ok(Self {
            shape: axes.iter().map(|&a| self.shape[a]).collect(),
            strides: collected(axes.iter().map(|&a| self.strides[a])),
            offset: self.offset,
        })
    }

    /// Reverses the direction of the given axes. Naming an axis twice is an error, as in NumPy.
    pub fn flip(mut self, axes: &[usize]) -> Result<Self> {
        let is_empty = self.shape.contains(&0);
        for (k, &axis) in axes.iter().enumerate() {
            check_axis("flip", axis, self.rank())?;
            if axes[..k].contains(&axis) {
                let got = format_args!("{axes:?}");
                return Err(Error::argument("flip", "axes", got, "each axis at most once"));
            }
            if !is_empty {
                let reach = (self.shape[axis] as isize - 1) * self.strides[axis];
                self.offset = self.offset.wrapping_add_signed(reach);
            }
            self.strides[axis] = -self.strides[axis];
        }
        Ok(self)
    }

    /// Keeps `len` indices of `axis` from `start` on.
    pub fn narrow(mut self, axis: usize, start: usize, len: usize) -> Result<Self> {
        check_axis("narrow", axis, self.rank())?;
        let size = self.shape[axis];
        if start.checked_add(len).is_none_or(|end| end > size) {
            return Err(Error::argument(
                "narrow",
                "range",
                format_args!("{len} elements from {start}"),
                alloc::format!("a range inside axis {axis} of size {size}"),
            ));
        }
        if len > 0 && !self.shape.contains(&0) {
            self.offset = self.offset.wrapping_add_signed(start as isize * self.strides[axis]);
        }
        self.shape.as_mut_slice()[axis] = len;
        Ok(self)
    }

    /// Slices the leading axes; axes without a slice are kept whole.
    ///
    /// Each [`Slice`] clamps its range to the axis (negative bounds count from the back, a range past the end
    /// is cut); a negative step walks the same range from its last element backwards.
    pub fn slice(mut self, slices: &[Slice]) -> Result<Self> {
        if slices.len() > self.rank() {
            return Err(Error::argument(
                "slice",
                "number of slices",
                slices.len(),
                alloc::format!("at most the rank {}", self.rank()),
            ));
        }
        let mut start = self.offset as isize;
        let mut is_empty = self.shape.contains(&0);
        let axes = self.shape.as_mut_slice().iter_mut().zip(self.strides.as_mut_slice());
        for ((size, stride), slice) in axes.zip(slices) {
            if slice.step == 0 {
                return Err(Error::argument("slice", "step", 0, "a step other than zero"));
            }
            let (range, len) = (slice.to_range(*size), slice.output_size(*size));
            let first = if slice.step < 0 { range.end.wrapping_sub(1) } else { range.start };
            is_empty |= len == 0;
            if !is_empty {
                start += first as isize * *stride;
            }
            *size = len;
            // An axis of at most one index takes no step: multiplying its stride by the step could overflow.
            *stride = if len > 1 { *stride * slice.step } else { (*stride).max(0) };
        }
        if !is_empty {
            self.offset = start as usize;
        }
        Ok(self)
    }

    /// Stretches axes of size one, and adds leading axes, to reach `shape`.
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        super::expand_like("expand", self, shape)
    }

    /// Sliding windows of `size` along `axis`, `step` apart. `axis` then counts the windows, none if it is
    /// shorter than a window, and a new last axis runs inside a window. Windows overlap in memory when
    /// `step < size`.
    pub fn unfold(mut self, axis: usize, size: usize, step: usize) -> Result<Self> {
        check_axis("unfold", axis, self.rank())?;
        if step == 0 {
            return Err(Error::argument("unfold", "step", 0, "a step of at least 1"));
        }
        let len = self.shape[axis];
        let inner = self.strides[axis];
        let windows = if size > len { 0 } else { (len - size) / step + 1 };
        self.shape.as_mut_slice()[axis] = windows;
        self.strides[axis] = if windows > 1 { inner * step as isize } else { inner.max(0) };
        self.shape.push(size);
        self.strides.push(inner);
        checked_num_elements("unfold", &self.shape)?;
        Ok(self)
    }

    /// The layout of the same elements, in the same row-major order, under another shape; `None` when no
    /// strides can express it, so that the elements have to be copied.
    ///
    /// # Errors
    /// When the element counts differ.
    pub fn reshape(&self, shape: &Shape) -> Result<Option<Self>> {
        let count = checked_num_elements("reshape", shape)?;
        if count != self.num_elements() {
            return Err(self.cannot_reshape(shape));
        }
        let strides = if count == 0 || self.is_contiguous() {
            Some(contiguous_strides(shape))
        } else {
            self.reshape_strides(shape)
        };
        Ok(strides.map(|strides| Self { shape: shape.clone(), strides, offset: self.offset }))
    }

    /// The error of [`reshape`](Self::reshape) to a shape of another number of elements. Not inlined into the
    /// function that small operations wait for.
    #[cold]
    #[inline(never)]
    fn cannot_reshape(&self, shape: &Shape) -> Error {
        let expected = alloc::format!("shapes of the same number of elements, {}", self.num_elements());
        Error::shapes("reshape", &self.shape, shape, expected)
    }

    /// Strides for `shape` over this non-empty layout. Old axes (except those of size one) are merged into
    /// runs of constant stride. Each run must be a product of consecutive new axes, which then split the run.
    fn reshape_strides(&self, shape: &[usize]) -> Option<Strides> {
        // Runs from the innermost axis outwards: (number of elements, stride of the innermost step).
        let mut runs: smallvec::SmallVec<[(usize, isize); 5]> = smallvec::SmallVec::new();
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev().filter(|&(&size, _)| size != 1) {
            match runs.last_mut() {
                Some((len, step)) if stride == *step * *len as isize => *len *= size,
                _ => runs.push((size, stride)),
            }
        }
        let mut runs = runs.into_iter();
        let (mut left, mut step) = runs.next().unwrap_or((1, 1));
        let mut strides = Strides::from_elem(0, shape.len());
        for (stride, &size) in strides.iter_mut().zip(shape).rev() {
            if size == 1 {
                *stride = step.max(0);
                continue;
            }
            if left == 1 {
                (left, step) = runs.next()?;
            }
            if left % size != 0 {
                return None;
            }
            *stride = step;
            step *= size as isize;
            left /= size;
        }
        Some(strides)
    }
}
