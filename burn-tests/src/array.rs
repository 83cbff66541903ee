//! The oracle's tensor: a row-major array with naive indexing.

/// A row-major array of `f64` (float tensors), `i128` (integer tensors) or `bool`.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    shape: Vec<usize>,
    data: Vec<T>,
}

impl<T: Copy> Array<T> {
    /// An array from its row-major elements.
    ///
    /// # Panics
    /// Panics if the number of elements does not fit the shape.
    pub fn new(shape: impl Into<Vec<usize>>, data: Vec<T>) -> Self {
        let shape = shape.into();
        assert_eq!(data.len(), shape.iter().product::<usize>(), "Array: elements of shape {shape:?}");
        Self { shape, data }
    }

    /// An array whose elements `f` computes from their indices.
    pub fn from_fn(shape: impl Into<Vec<usize>>, mut f: impl FnMut(&[usize]) -> T) -> Self {
        let shape = shape.into();
        let mut data = Vec::with_capacity(shape.iter().product());
        for_each_index(&shape, |index| data.push(f(index)));
        Self { shape, data }
    }

    /// Size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements in row-major order.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The element at an index.
    ///
    /// # Panics
    /// Panics if the index is outside of the shape.
    #[inline]
    pub fn at(&self, index: &[usize]) -> T {
        self.data[self.flat(index)]
    }

    /// The element at an index whose position on `axis` is `i` instead.
    ///
    /// # Panics
    /// Panics if the index is outside of the shape.
    #[inline]
    pub fn at_on_axis(&self, index: &[usize], axis: usize, i: usize) -> T {
        self.data[self.flat_on_axis(index, axis, i)]
    }

    /// The element whose position on each axis `position` computes from the axis and its size. Oracles ask
    /// for the position of each element, where a list for its index would take longer than the rest.
    ///
    /// # Panics
    /// Panics if a position is outside of the shape.
    #[inline]
    pub fn at_positions(&self, position: impl Fn(usize, usize) -> usize) -> T {
        self.data[self.place(position)]
    }

    /// Replaces the element at an index.
    ///
    /// # Panics
    /// Panics if the index is outside of the shape.
    #[inline]
    pub fn set(&mut self, index: &[usize], value: T) {
        let flat = self.flat(index);
        self.data[flat] = value;
    }

    #[inline]
    fn flat(&self, index: &[usize]) -> usize {
        assert_eq!(index.len(), self.shape.len());
        self.place(|k, _| index[k])
    }

    #[inline]
    fn flat_on_axis(&self, index: &[usize], axis: usize, i: usize) -> usize {
        assert!(index.len() == self.shape.len() && axis < index.len());
        self.place(|k, _| if k == axis { i } else { index[k] })
    }

    /// The place among the elements of an index that `at` computes for each axis and its size.
    #[inline]
    fn place(&self, at: impl Fn(usize, usize) -> usize) -> usize {
        // A plain loop, because tests are built without inlining the parts of iterators, and this is what
        // oracles do most.
        let mut place = 0;
        for k in 0..self.shape.len() {
            let size = self.shape[k];
            let i = at(k, size);
            assert!(i < size, "Array: index {i} on axis {k} of shape {:?}", self.shape);
            place = place * size + i;
        }
        place
    }

    /// Applies `f` to every element.
    pub fn map<U>(&self, f: impl FnMut(T) -> U) -> Array<U> {
        Array { shape: self.shape.clone(), data: self.data.iter().copied().map(f).collect() }
    }

    /// Applies `f` to the elements of two arrays, broadcast as NumPy does.
    ///
    /// # Panics
    /// Panics if the shapes cannot be broadcast.
    pub fn zip<U: Copy, V: Copy>(&self, other: &Array<U>, mut f: impl FnMut(T, U) -> V) -> Array<V> {
        let rank = self.shape.len().max(other.shape.len());
        let dim = |shape: &[usize], k: usize| (k + shape.len()).checked_sub(rank).map_or(1, |k| shape[k]);
        let shape: Vec<usize> = (0..rank)
            .map(|k| match (dim(&self.shape, k), dim(&other.shape, k)) {
                (a, b) if a == b || b == 1 => a,
                (1, b) => b,
                (a, b) => panic!("Array: cannot broadcast sizes {a} and {b}"),
            })
            .collect();
        fn pick<T: Copy>(array: &Array<T>, index: &[usize]) -> T {
            let index = &index[index.len() - array.shape.len()..];
            array.data[array.place(|k, size| if size == 1 { 0 } else { index[k] })]
        }
        Array::from_fn(shape, |index| f(pick(self, index), pick(other, index)))
    }

    /// Folds each line along `axis` to one value; the axis is kept with size 1.
    pub fn fold_axis<U: Copy>(&self, axis: usize, mut f: impl FnMut(&[T]) -> U) -> Array<U> {
        let mut shape = self.shape.clone();
        shape[axis] = 1;
        Array::from_fn(shape, |index| f(&self.line(axis, index)))
    }

    /// Replaces each line along `axis` by a line that `f` computes from it; all results have the same length.
    pub fn map_axis<U: Copy>(&self, axis: usize, len: usize, mut f: impl FnMut(&[T]) -> Vec<U>) -> Array<U> {
        let mut outer = self.shape.clone();
        outer[axis] = 1;
        let lines: Array<usize> = {
            let mut count = 0;
            Array::from_fn(outer.clone(), |_| {
                count += 1;
                count - 1
            })
        };
        let mut results = Vec::new();
        for_each_index(&outer, |index| {
            let line = f(&self.line(axis, index));
            assert_eq!(line.len(), len);
            results.push(line);
        });
        let mut shape = self.shape.clone();
        shape[axis] = len;
        Array::from_fn(shape, |index| results[lines.at_on_axis(index, axis, 0)][index[axis]])
    }

    /// The elements along `axis` through an index.
    pub fn line(&self, axis: usize, index: &[usize]) -> Vec<T> {
        let size = self.shape[axis];
        if size == 0 {
            return Vec::new();
        }
        let distance: usize = self.shape[axis + 1..].iter().product();
        let first = self.flat_on_axis(index, axis, 0);
        self.data[first..].iter().step_by(distance).take(size).copied().collect()
    }

    /// The same elements, in the same order, in another shape.
    pub fn reshape(&self, shape: impl Into<Vec<usize>>) -> Self {
        Self::new(shape, self.data.clone())
    }

    /// Axis `k` of the result is axis `axes[k]` of this array; `axes` has each axis once.
    pub fn permute(&self, axes: &[usize]) -> Self {
        let shape: Vec<usize> = axes.iter().map(|&a| self.shape[a]).collect();
        let distances: Vec<usize> = axes.iter().map(|&a| self.shape[a + 1..].iter().product()).collect();
        Self::from_fn(shape, |index| {
            let mut place = 0;
            for k in 0..index.len() {
                place += index[k] * distances[k];
            }
            self.data[place]
        })
    }
}

/// Calls `f` with every index of a shape, in row-major order.
pub fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        f(&index);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexing_is_row_major() {
        let a = Array::new([2, 3], vec![0, 1, 2, 3, 4, 5]);
        assert_eq!(a.at(&[1, 0]), 3);
        assert_eq!((a.at_on_axis(&[1, 9], 1, 2), a.at_on_axis(&[9, 1], 0, 0)), (5, 1));
        assert_eq!((a.line(0, &[9, 1]), a.line(1, &[1, 9])), (vec![1, 4], vec![3, 4, 5]));
        assert!(Array::<i32>::new([2, 0], vec![]).line(1, &[1, 0]).is_empty());
        assert_eq!(a.permute(&[1, 0]).data(), [0, 3, 1, 4, 2, 5]);
        let b = Array::new([1, 2, 3], vec![0, 1, 2, 3, 4, 5]);
        assert_eq!(
            (b.permute(&[2, 0, 1]).shape(), b.permute(&[2, 0, 1]).data()),
            (&[3, 1, 2][..], &[0, 3, 1, 4, 2, 5][..])
        );
        assert_eq!(a.fold_axis(0, |l| l.iter().sum::<i32>()).data(), [3, 5, 7]);
        assert_eq!(a.zip(&Array::new([2, 1], vec![10, 20]), |x, y| x + y).data(), [10, 11, 12, 23, 24, 25]);
        assert_eq!(a.map_axis(1, 2, |l| vec![l[0], l[2]]).data(), [0, 2, 3, 5]);
        assert_eq!(Array::<i32>::new([], vec![7]).at(&[]), 7);
        assert!(Array::<i32>::from_fn([2, 0], |_| 1).is_empty());
    }
}
