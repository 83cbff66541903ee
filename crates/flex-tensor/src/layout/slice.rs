//! A part of an axis.

use core::ops::Range;

/// A selection of indices of an axis: a range, with a step, forwards or backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The first index of the range. A negative index counts from the end of the axis: -1 is the last index.
    pub start: isize,
    /// The end of the range (exclusive), negative as for `start`; `None` for the end of the axis.
    pub end: Option<isize>,
    /// Distance between selected indices. A negative step walks the same range backwards, from its last index
    /// on. A step of zero is an error when the slice is used.
    pub step: isize,
}

impl Slice {
    /// The indices from `start` to before `end`, `step` apart.
    ///
    /// # Panics
    /// When `step` is zero.
    pub const fn new(start: isize, end: Option<isize>, step: isize) -> Self {
        assert!(step != 0, "Slice: the step is 0, expected any other");
        Self { start, end, step }
    }

    /// All indices.
    pub const fn full() -> Self {
        Self::new(0, None, 1)
    }

    /// The range on an axis of `size` indices; bounds beyond the axis are clamped to its ends. A range whose
    /// start lies behind its end holds no index.
    pub fn to_range(&self, size: usize) -> Range<usize> {
        let bound = |index: isize| {
            if index < 0 { size.saturating_sub(index.unsigned_abs()) } else { (index as usize).min(size) }
        };
        bound(self.start)..self.end.map_or(size, bound)
    }

    /// The number of selected indices on an axis of `size`.
    pub fn output_size(&self, size: usize) -> usize {
        let range = self.to_range(size);
        let len = range.end.saturating_sub(range.start);
        // Avoids a division, which takes tens of cycles.
        if self.step.unsigned_abs() == 1 { len } else { len.div_ceil(self.step.unsigned_abs()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_count_from_either_end_and_are_held_to_the_axis() {
        let case = |start, end, step, size| {
            let slice = Slice::new(start, end, step);
            (slice.to_range(size), slice.output_size(size))
        };
        assert_eq!(case(0, None, 1, 5), (0..5, 5));
        assert_eq!(case(-2, None, 1, 5), (3..5, 2));
        assert_eq!(case(1, Some(-1), 2, 6), (1..5, 2));
        assert_eq!(case(-9, Some(9), -3, 7), (0..7, 3));
        assert_eq!(case(3, Some(1), 1, 5).1, 0);
        assert_eq!(case(0, None, 1, 0), (0..0, 0));
        assert_eq!(case(isize::MIN, Some(isize::MAX), isize::MIN, 4), (0..4, 1));
    }
}
