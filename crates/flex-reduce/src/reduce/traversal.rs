//! Decides from the strides of a layout how a reduction along an axis reads it.
//!
//! Whatever the order of the axes in memory, the kept axes are walked from the largest stride to the
//! smallest, and the result is laid out in that order: a reduction of a permuted tensor reads memory in
//! sequence, and its result is a permuted view. Expanded axes are not walked at all. A kept expanded axis is
//! expanded again in the result; a reduced one repeats the partial result.

use crate::error::Result;
use crate::layout::Layout;
use crate::walk::Walk;
use crate::{Shape, Tensor};
use smallvec::SmallVec;

/// Kept rows narrower than this are not worth a vector loop of their own.
pub(super) const MIN_COLUMNS: usize = 16;

/// If both the reduced axis and a kept axis have unit stride (overlapping windows), columns are faster from
/// this width on.
const MIN_COLUMNS_OVER_ROWS: usize = 64;

/// The kernels that fit a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AccessPath {
    /// The reduced axis has unit stride: each contiguous row is reduced to one value.
    AlongRows,
    /// A kept axis has unit stride: rows along it are combined element by element.
    DownColumns,
    /// As `DownColumns`, with rows that are too short for vectors and contiguous in memory.
    DownNarrowColumns,
}

/// A reduction of `tensor` along one axis.
pub(super) struct Traversal {
    /// The elements to read; a copy if no axis had unit stride.
    pub tensor: Tensor,
    /// The walk over the kept axes, in the order of the output.
    pub walk: Walk<1>,
    /// Number of elements that are reduced to one.
    pub n: usize,
    /// Distance between these elements.
    pub stride: isize,
    /// How often each of these elements counts.
    pub copies: usize,
    pub path: AccessPath,
    /// Axes of the tensor in the order of the output.
    order: Axes,
    /// Shape of the output in that order.
    shape: Axes,
    /// Shape of the result.
    result: Axes,
}

pub(super) type Axes = SmallVec<[usize; 6]>;

impl Traversal {
    /// The traversal of a reduction in which the order of the elements does not matter. No axis may be of
    /// size zero.
    pub fn unordered(tensor: Tensor, axis: usize) -> Result<Self> {
        let tensor = match tensor.layout().strides()[axis] < 0 {
            true => tensor.flip(&[axis])?,
            false => tensor,
        };
        Self::new(tensor, axis, false)
    }

    /// The traversal of a reduction that counts positions along the axis; its path is never
    /// [`AccessPath::DownNarrowColumns`]. No axis may be of size zero.
    pub fn ordered(tensor: Tensor, axis: usize) -> Result<Self> {
        Self::new(tensor, axis, true)
    }

    fn new(tensor: Tensor, axis: usize, ordered: bool) -> Result<Self> {
        let mut result = Axes::from_slice(tensor.shape());
        result[axis] = 1;
        let mut tensor = tensor;
        let mut copies = 1;
        for k in 0..tensor.rank() {
            let size = tensor.shape()[k];
            if size > 1 && tensor.layout().strides()[k] == 0 {
                tensor = tensor.narrow(k, 0, 1)?;
                if k == axis {
                    copies = size;
                }
            }
        }
        let layout = tensor.layout();
        let n = layout.shape()[axis];
        let stride = if n == 1 { 1 } else { layout.strides()[axis] };
        let kept = layout.clone().narrow(axis, 0, 1)?;
        let order: Axes = kept.axes_by_stride();
        let walk = Walk::in_order([&kept], &order);
        let mut shape = order.clone();
        shape.iter_mut().for_each(|size| *size = kept.shape()[*size]);
        let Some(path) = choose(&walk, n, stride, ordered) else {
            let copy = match ordered {
                false => tensor.into_contiguous()?,
                true => {
                    let last = tensor.rank() - 1;
                    tensor.swap_axes(axis, last)?.into_contiguous()?.swap_axes(axis, last)?
                }
            };
            return Ok(Self { result, copies, ..Self::new(copy, axis, ordered)? });
        };
        Ok(Self { tensor, walk, n, stride, copies, path, order, shape, result })
    }

    /// Shape of the output, whose axes are in memory order.
    pub fn output_shape(&self) -> Shape {
        Shape::from(self.shape.as_slice())
    }

    /// Turns an output of shape [`output_shape`](Self::output_shape) into the result.
    pub fn restore(&self, output: Tensor) -> Result<Tensor> {
        let in_order = self.order.iter().is_sorted();
        if in_order && output.shape().as_slice() == self.result.as_slice() {
            return Ok(output);
        }
        output.permute(&inverse(&self.order))?.expand(&self.result)
    }
}

/// The permutation that undoes `order`.
pub(super) fn inverse(order: &[usize]) -> Axes {
    let mut back = Axes::from_elem(0, order.len());
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    back
}

/// The path for these strides; `None` if the elements have to be copied first.
fn choose(walk: &Walk<1>, n: usize, stride: isize, ordered: bool) -> Option<AccessPath> {
    let inner = walk.inner();
    let columns = if inner.strides[0] == 1 { inner.size } else { 0 };
    if stride == 1 && columns < MIN_COLUMNS_OVER_ROWS {
        Some(AccessPath::AlongRows)
    } else if columns >= MIN_COLUMNS || (n == 1 && columns > 1) {
        Some(AccessPath::DownColumns)
    } else if !ordered && columns > 0 && stride == columns as isize {
        Some(AccessPath::DownNarrowColumns)
    } else {
        None
    }
}

/// The layout of all elements for a reduction in which their order does not matter: without expanded axes,
/// and with positive strides. Also returns how often each remaining element counts.
pub(super) fn unordered_elements(layout: &Layout) -> Result<(Layout, usize)> {
    let mut layout = layout.clone();
    let mut copies = 1;
    for k in 0..layout.rank() {
        let (size, stride) = (layout.shape()[k], layout.strides()[k]);
        if size > 1 && stride == 0 {
            copies *= size;
            layout = layout.narrow(k, 0, 1)?;
        } else if stride < 0 {
            layout = layout.flip(&[k])?;
        }
    }
    Ok((layout, copies))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn plan(shape: &[usize], permutation: &[usize], axis: usize, ordered: bool) -> Traversal {
        let t = Tensor::full(shape, 0.0, DType::F32).unwrap().permute(permutation).unwrap();
        if ordered { Traversal::ordered(t, axis).unwrap() } else { Traversal::unordered(t, axis).unwrap() }
    }

    #[test]
    fn the_unit_stride_decides() {
        assert_eq!(plan(&[20, 30], &[0, 1], 1, false).path, AccessPath::AlongRows);
        assert_eq!(plan(&[20, 30], &[0, 1], 0, false).path, AccessPath::DownColumns);
        assert_eq!(plan(&[20, 30], &[1, 0], 0, false).path, AccessPath::AlongRows);
        assert_eq!(plan(&[20, 30], &[1, 0], 1, false).path, AccessPath::DownColumns);
        assert_eq!(plan(&[20, 30, 3], &[0, 1, 2], 1, false).path, AccessPath::DownNarrowColumns);
        assert_eq!(plan(&[20, 30, 3], &[0, 1, 2], 1, true).path, AccessPath::AlongRows);
        assert_eq!(plan(&[20, 30, 3], &[0, 1, 2], 0, false).path, AccessPath::DownColumns);
    }

    #[test]
    fn kept_axes_merge_in_memory_order() {
        let p = plan(&[4, 5, 6, 7], &[2, 0, 3, 1], 3, false);
        assert_eq!((p.walk.rows(), p.walk.inner().size, p.n, p.stride), (4, 42, 5, 42));
        let out = Tensor::full(p.output_shape(), 0.0, DType::F32).unwrap();
        assert_eq!(p.restore(out).unwrap().shape().to_vec(), [6, 4, 7, 1]);
    }

    #[test]
    fn stepped_elements_are_copied_and_expanded_axes_are_not_walked() {
        let t = Tensor::full([8, 40], 0.0, DType::F32).unwrap();
        let stepped =
            t.clone().slice(&[crate::Slice::new(0, None, 1), crate::Slice::new(0, None, 2)]).unwrap();
        let p = Traversal::unordered(stepped, 1).unwrap();
        assert!(p.path == AccessPath::AlongRows && !p.tensor.shares_storage(&t));
        let p = Traversal::unordered(t.clone().expand(&[9, 8, 40]).unwrap(), 0).unwrap();
        assert_eq!((p.copies, p.n, p.path), (9, 1, AccessPath::DownColumns));
        assert!(p.tensor.shares_storage(&t));
    }
}
