//! Moving the elements of quantized tensors.
//!
//! With one scale for the whole tensor, an operation that moves elements moves codes. With blocks, the scales
//! are a smaller tensor of the same rank, and an operation that keeps blocks whole is applied to codes and
//! scales. No element changes its value, and reordered axes take their block sizes with them. An operation
//! that would split blocks goes through floats: its result is quantized anew, with new scales.

use super::{BlockGrid, BlockSize, QTensor, QuantLevel, QuantScheme, dequantize, quantize_dynamic};
use crate::divisor::gcd;
use crate::error::{Error, Result};
use crate::{DType, Shape, Slice, Tensor, index, movement};
use alloc::vec::Vec;

impl QTensor {
    /// Applies `f`, which only moves elements, to the codes of a tensor with one scale, or to the numbers of
    /// a tensor with blocks ([`map_numbers`](Self::map_numbers)).
    ///
    /// # Errors
    /// The errors of `f` and of the quantization of its result.
    pub fn map_values(self, f: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Self> {
        if self.is_per_tensor() {
            return Ok(Self { values: f(self.values)?, ..self });
        }
        self.map_numbers(f)
    }

    /// Applies `f` to the numbers, and quantizes the result in the same scheme. Block sizes that do not
    /// divide the new shape are reduced until they do.
    ///
    /// # Errors
    /// The errors of `f` and of the quantization of its result.
    pub fn map_numbers(self, f: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Self> {
        let scheme = self.scheme;
        f(dequantize(self, DType::F32)?).and_then(|numbers| Self::anew(numbers, scheme))
    }

    /// The second half of [`map_numbers`](Self::map_numbers).
    fn anew(numbers: Tensor, mut scheme: QuantScheme) -> Result<Self> {
        if let QuantLevel::Block(sizes) = &scheme.level {
            scheme.level = QuantLevel::Block(fitting_blocks(sizes, numbers.shape()));
        }
        quantize_dynamic(numbers, scheme)
    }

    /// [`map_values`](Self::map_values), compiled once for all operations here.
    fn move_values(self, f: &dyn Fn(Tensor) -> Result<Tensor>) -> Result<Self> {
        self.map_values(f)
    }

    /// Applies one function to the codes and one to the scales; `blocks` are new block sizes, if they change.
    fn map_both(
        self,
        blocks: Option<Vec<usize>>,
        values: &dyn Fn(Tensor) -> Result<Tensor>,
        scales: &dyn Fn(Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut scheme = self.scheme;
        if let Some(blocks) = blocks {
            let sizes: Vec<u8> = blocks.into_iter().map(|b| b as u8).collect();
            scheme.level = QuantLevel::Block(BlockSize::new_trim(sizes));
        }
        Ok(Self { values: values(self.values)?, scales: scales(self.scales)?, global: self.global, scheme })
    }

    /// Block size along each axis; `None` if one scale holds for all elements.
    fn blocks(&self) -> Result<Option<Vec<usize>>> {
        Ok(BlockGrid::new("quantized tensor", &self.scheme, self.shape())?.blocks)
    }

    /// The same elements, in the same row-major order, in another shape.
    ///
    /// # Errors
    /// Fails if the numbers of elements differ.
    pub fn reshape(self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        let Some(blocks) = self.blocks()? else {
            return self.move_values(&|t| t.reshape(shape.clone()));
        };
        // If only the last axis has blocks, a block is a run of the row-major order.
        let runs = blocks.split_last().filter(|(_, outer)| outer.iter().all(|&b| b == 1));
        match (runs, shape.last()) {
            (Some((&run, _)), Some(&width)) if width % run == 0 => {
                let mut grid = shape.clone();
                *grid.as_mut_slice().last_mut().expect("an axis") = width / run;
                // Sizes of 1 are kept in a scheme if all are, but the shape may have fewer axes now.
                let (values, scales) =
                    (|t: Tensor| t.reshape(shape.clone()), |s: Tensor| s.reshape(grid.clone()));
                self.map_both(Some(alloc::vec![run]), &values, &scales)
            }
            _ => self.move_values(&|t| t.reshape(shape.clone())),
        }
    }

    /// Reorders the axes and their block sizes.
    ///
    /// # Errors
    /// Fails if `axes` is not a permutation.
    pub fn permute(self, axes: &[usize]) -> Result<Self> {
        // Checks the axes before blocks are looked up by them.
        self.values.clone().permute(axes)?;
        match self.blocks()? {
            Some(blocks) if axes.len() <= BlockSize::MAX_DIMS => {
                let reordered = axes.iter().map(|&a| blocks[a]).collect();
                self.map_both(Some(reordered), &|t| t.permute(axes), &|s| s.permute(axes))
            }
            _ => self.move_values(&|t| t.permute(axes)),
        }
    }

    /// Swaps two axes and their block sizes.
    ///
    /// # Errors
    /// Fails if an axis is out of range.
    pub fn swap_axes(self, a: usize, b: usize) -> Result<Self> {
        crate::error::check_axis("swap_dims", a, self.rank())?;
        crate::error::check_axis("swap_dims", b, self.rank())?;
        let mut axes: Vec<usize> = (0..self.rank()).collect();
        axes.swap(a, b);
        self.permute(&axes)
    }

    /// Reverses axes; the scales are reversed with the elements.
    ///
    /// # Errors
    /// Fails if an axis is out of range or named twice.
    pub fn flip(self, axes: &[usize]) -> Result<Self> {
        if self.is_per_tensor() {
            return self.move_values(&|t| t.flip(axes));
        }
        self.map_both(None, &|t| t.flip(axes), &|s| s.flip(axes))
    }

    /// Broadcasts to `shape`: repeats axes of size one, and adds leading axes.
    ///
    /// # Errors
    /// Fails if the tensor does not broadcast to `shape`.
    pub fn expand(self, shape: &[usize]) -> Result<Self> {
        let Some(blocks) = self.blocks()? else {
            return self.move_values(&|t| t.expand(shape));
        };
        let lead = shape.len().saturating_sub(blocks.len());
        let grid: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(axis, &size)| size / axis.checked_sub(lead).map_or(1, |axis| blocks[axis]))
            .collect();
        self.map_both(None, &|t| t.expand(shape), &|s| s.expand(&grid))
    }

    /// Slices the leading axes. The result is exact if all slices begin and end between blocks; otherwise it
    /// is quantized anew.
    ///
    /// # Errors
    /// Fails if there are more slices than axes, or a step is zero.
    pub fn slice(self, slices: &[Slice]) -> Result<Self> {
        let Some(blocks) = self.blocks()? else {
            return self.move_values(&|t| t.slice(slices));
        };
        let sizes = self.shape().clone();
        let coarse: Option<Vec<Slice>> = slices
            .iter()
            .zip(&blocks)
            .zip(sizes.iter())
            .map(|((slice, &b), &size)| {
                let range = slice.to_range(size);
                let whole = range.start % b == 0 && range.end % b == 0;
                // With blocks of size one, a step over elements is a step over blocks; larger blocks allow
                // only steps of 1 and -1.
                let whole = whole && (b == 1 || slice.step.unsigned_abs() == 1);
                let (start, end) = ((range.start / b) as isize, (range.end / b) as isize);
                whole.then_some(Slice { start, end: Some(end), step: slice.step })
            })
            .collect();
        match coarse {
            Some(coarse) if slices.len() <= blocks.len() => {
                self.map_both(None, &|t| t.slice(slices), &|s| s.slice(&coarse))
            }
            _ => self.move_values(&|t| t.slice(slices)),
        }
    }

    /// The slices along `axis` that a 1-D index tensor names. The result is exact if the block size along the
    /// axis is one.
    ///
    /// # Errors
    /// The errors of [`index::select`].
    pub fn select(self, axis: usize, indices: Tensor) -> Result<Self> {
        let blocks = self.blocks()?;
        match blocks.as_ref().and_then(|blocks| blocks.get(axis)) {
            Some(1) => {
                let select = |t| index::select(t, axis, indices.clone());
                self.map_both(None, &select, &select)
            }
            _ => self.move_values(&|t| index::select(t, axis, indices.clone())),
        }
    }

    /// Elements by index along `axis`, like [`index::gather`].
    ///
    /// # Errors
    /// The errors of [`index::gather`].
    pub fn gather(self, axis: usize, indices: Tensor) -> Result<Self> {
        self.move_values(&|t| index::gather(axis, t, indices.clone()))
    }

    /// Repeats the tensor `times` times along `axis`.
    ///
    /// # Errors
    /// The errors of [`movement::repeat`].
    pub fn repeat(self, axis: usize, times: usize) -> Result<Self> {
        if self.is_per_tensor() {
            return self.move_values(&|t| movement::repeat(t, axis, times));
        }
        let repeat = |t| movement::repeat(t, axis, times);
        self.map_both(None, &repeat, &repeat)
    }
}

/// Along each axis, the largest block size that divides both the given size and the shape, so that no block
/// extends past the end.
fn fitting_blocks(sizes: &BlockSize, shape: &Shape) -> BlockSize {
    let sizes = sizes.as_slice();
    let sizes = &sizes[sizes.len().saturating_sub(shape.len())..];
    let axes = &shape[shape.len() - sizes.len()..];
    BlockSize::new(sizes.iter().zip(axes).map(|(&b, &size)| gcd(b.into(), size) as u8).collect::<Vec<u8>>())
}

/// Concatenates tensors along `axis`, in the scheme of the first one. The result is exact if all tensors have
/// the same scheme with blocks and the same scale of the tensor, or share the same single scale.
///
/// # Errors
/// The errors of [`movement::cat`].
pub fn cat(tensors: Vec<QTensor>, axis: usize) -> Result<QTensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::argument("cat", "number of tensors", 0, "at least 1"));
    };
    let (scheme, global) = (first.scheme, first.global);
    let one_scheme = tensors.iter().all(|t| t.scheme == scheme && t.global == global);
    let scale = |t: &QTensor| t.scales.to_vec::<f32>()[0].to_bits();
    if first.is_per_tensor() && one_scheme && tensors.iter().all(|t| scale(t) == scale(first)) {
        let scales = first.scales.clone();
        let values = movement::cat(tensors.into_iter().map(|t| t.values).collect(), axis)?;
        return Ok(QTensor { values, scales, global, scheme });
    }
    if !first.is_per_tensor() && one_scheme {
        let (values, scales): (Vec<_>, Vec<_>) = tensors.into_iter().map(|t| (t.values, t.scales)).unzip();
        return Ok(QTensor {
            values: movement::cat(values, axis)?,
            scales: movement::cat(scales, axis)?,
            global,
            scheme,
        });
    }
    let floats = tensors.into_iter().map(|t| dequantize(t, DType::F32)).collect::<Result<Vec<_>>>()?;
    quantize_dynamic(movement::cat(floats, axis)?, scheme)
}
