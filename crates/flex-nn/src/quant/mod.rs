//! Quantized tensors: small codes, and scales that map the codes to numbers.
//!
//! `x = scale * value(code)`. There is one scale for the whole tensor or one per block of it
//! ([`QuantScheme::level`]); the code is an integer or a tiny float ([`QuantScheme::value`], see `codec.rs`).
//! For every scheme, the engine holds one code per byte and `f32` scales in memory; codes are packed only in
//! the byte format ([`QTensor::to_bytes`]).
//!
//! Block sizes are given for the trailing axes; they are 1 for the other axes. A block size `b` has to divide
//! its axis, so that the scales form a tensor with one element per block: `scales.shape[k] = shape[k] /
//! b[k]`.

mod bytes;
mod codec;
mod kernels;
mod scheme;
#[cfg(test)]
mod tests;
mod views;

pub use scheme::{BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue};
pub use views::cat;

use crate::error::{Error, Result};
use crate::movement::convert::{from_f32, into_f32};
use crate::{DType, Shape, Tensor, bf16, f16, storage};
use alloc::vec::Vec;
use codec::Codec;
use kernels::Scales;

/// A quantized tensor.
#[derive(Clone, Debug)]
pub struct QTensor {
    /// The codes: one `i8` each, in any layout. Codes of tiny floats are bit patterns.
    pub values: Tensor,
    /// The scales, `f32`: of shape `[1]` for the whole tensor, otherwise one per block.
    pub scales: Tensor,
    /// The meaning of the codes, and their byte layout.
    pub scheme: QuantScheme,
}

impl QTensor {
    /// A quantized tensor from its parts.
    ///
    /// # Errors
    /// Fails if the values are not `i8`, the scales are not `f32` or not one per block, or the engine does
    /// not support the scheme.
    pub fn new(values: Tensor, scales: Tensor, scheme: QuantScheme) -> Result<Self> {
        const OP: &str = "quantized tensor";
        if values.dtype() != DType::I8 {
            return Err(Error::dtype(OP, values.dtype(), "values of dtype i8"));
        }
        if scales.dtype() != DType::F32 {
            return Err(Error::dtype(OP, scales.dtype(), "scales of dtype f32"));
        }
        let grid = Grid::new(OP, &scheme, values.shape())?;
        let scales = grid.check_scales(OP, scales)?;
        Ok(Self { values, scales, scheme })
    }

    /// Size of each axis.
    pub fn shape(&self) -> &Shape {
        self.values.shape()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.values.rank()
    }

    /// Whether one scale holds for the whole tensor, so that operations that only move or compare elements
    /// may work on the codes alone.
    pub fn is_per_tensor(&self) -> bool {
        self.scheme.level == QuantLevel::Tensor
    }
}

/// Quantizes a float tensor with given scales: the code of `x` is `x / scale`, rounded (integers half away
/// from zero, as in Burn; tiny floats half to even) and clamped to the range of the codes. NaN becomes zero
/// in integer codes.
///
/// Scales are rounded to the scheme's precision. A scale that is zero or too small to divide by becomes the
/// smallest normal number, so that a tensor of zeros stays zero.
///
/// # Errors
/// Fails if an operand is not a float tensor, the scales are not one per block, the blocks do not divide the
/// shape, or the engine does not support the scheme.
pub fn quantize(tensor: Tensor, scales: Tensor, scheme: QuantScheme) -> Result<QTensor> {
    const OP: &str = "quantize";
    let grid = Grid::new(OP, &scheme, tensor.shape())?;
    let scales = grid.check_scales(OP, into_f32(OP, scales)?)?;
    let usable: Vec<f32> = scales.to_vec::<f32>().into_iter().map(|s| usable_scale(s, &scheme)).collect();
    encode(OP, into_f32(OP, tensor)?, usable, grid, scheme)
}

/// [`quantize`] with the smallest scales whose codes reach every element of their block: the block's largest
/// magnitude (NaN is skipped) divided by half the range of the codes.
///
/// # Errors
/// The errors of [`quantize`].
pub fn quantize_dynamic(tensor: Tensor, scheme: QuantScheme) -> Result<QTensor> {
    const OP: &str = "quantize_dynamic";
    let grid = Grid::new(OP, &scheme, tensor.shape())?;
    let tensor = into_f32(OP, tensor)?.into_contiguous()?;
    let (low, high) = scheme.value.range();
    storage::ensure(OP, grid.scales_shape().num_elements().saturating_mul(size_of::<f32>()))?;
    let mut scales =
        kernels::largest_magnitudes(tensor.as_slice::<f32>().expect("contiguous"), &grid.scales());
    scales.iter_mut().for_each(|s| *s = usable_scale(*s / ((high - low) / 2.0), &scheme));
    encode(OP, tensor, scales, grid, scheme)
}

/// The numbers that a quantized tensor stands for, as a tensor of the float type `dtype`.
///
/// # Errors
/// Fails if `dtype` is not a float type.
pub fn dequantize(tensor: QTensor, dtype: DType) -> Result<Tensor> {
    const OP: &str = "dequantize";
    let QTensor { values, scales, scheme } = tensor;
    let grid = Grid::new(OP, &scheme, values.shape())?;
    let codec = Codec::new(scheme.value);
    let scales = scales.into_contiguous()?;
    let scales = scales.as_slice::<f32>().expect("contiguous");
    // With one scale, elements keep their order in memory and their layout.
    let keep = scheme.level == QuantLevel::Tensor && values.layout().is_dense();
    let values = if keep { values } else { values.into_contiguous()? };
    let layout = values.layout();
    let codes = &values.storage::<i8>()[layout.span()];
    let shape = if keep { Shape::from([codes.len()]) } else { values.shape().clone() };
    let numbers = Tensor::build::<f32>(OP, shape, DType::F32, |out| {
        kernels::decode(codec, codes, scales, &grid.scales(), out);
    })?;
    let numbers = from_f32(OP, numbers, dtype)?;
    if !keep {
        return Ok(numbers);
    }
    let first = layout.offset() - layout.span().start;
    Ok(numbers.with_layout(crate::Layout::new(layout.shape().clone(), layout.strides().into(), first)))
}

fn encode(
    op: &'static str,
    tensor: Tensor,
    scales: Vec<f32>,
    grid: Grid,
    scheme: QuantScheme,
) -> Result<QTensor> {
    let tensor = tensor.into_contiguous()?;
    let numbers = tensor.as_slice::<f32>().expect("contiguous");
    let codec = Codec::new(scheme.value);
    let values = Tensor::build::<i8>(op, tensor.shape().clone(), DType::I8, |out| {
        kernels::encode(codec, numbers, &scales, &grid.scales(), out);
    })?;
    Ok(QTensor { values, scales: Tensor::from_slice(&scales, grid.scales_shape())?, scheme })
}

/// The scale, rounded to the precision of the scheme and made safe to divide by.
fn usable_scale(scale: f32, scheme: &QuantScheme) -> f32 {
    let scale = match scheme.param {
        QuantParam::F16 => f16::from_f32(scale).to_f32(),
        QuantParam::BF16 => bf16::from_f32(scale).to_f32(),
        _ => scale,
    };
    if scale.is_normal() {
        scale
    } else if scale == f32::INFINITY {
        f32::MAX
    } else {
        f32::MIN_POSITIVE
    }
}

/// Whether the engine supports a scheme's value type, byte layout and precision of the scales.
pub fn is_supported(scheme: &QuantScheme) -> bool {
    check_scheme("quantize", scheme).is_ok()
}

/// # Errors
/// Fails if the engine does not support the byte layout or the precision of the scales.
fn check_scheme(op: &'static str, scheme: &QuantScheme) -> Result<()> {
    let refuse = |name, got: &dyn core::fmt::Debug, expected: &'static str| {
        Err(Error::argument(op, name, format_args!("{got:?}"), expected))
    };
    match scheme.store {
        QuantStore::PackedU32(0) if codec::is_int(scheme.value) => {}
        QuantStore::Native => {}
        _ => {
            let expected = "Native, or for integers PackedU32 along the innermost axis";
            return refuse("store of the scheme", &(scheme.store, scheme.value), expected);
        }
    }
    match scheme.param {
        QuantParam::F32 | QuantParam::F16 | QuantParam::BF16 => {}
        _ => return refuse("parameter precision of the scheme", &scheme.param, "F32, F16 or BF16"),
    }
    Ok(())
}

/// The blocks of a tensor of a given shape.
struct Grid {
    shape: Shape,
    /// Block size along each axis; `None` if one scale holds for all elements.
    blocks: Option<Vec<usize>>,
}

impl Grid {
    /// # Errors
    /// Fails if the engine does not support the scheme, or the blocks do not divide the shape.
    fn new(op: &'static str, scheme: &QuantScheme, shape: &Shape) -> Result<Self> {
        check_scheme(op, scheme)?;
        let blocks = match &scheme.level {
            QuantLevel::Tensor => None,
            QuantLevel::Block(size) => Some(Self::blocks(op, size, shape)?),
        };
        Ok(Self { shape: shape.clone(), blocks })
    }

    fn blocks(op: &'static str, size: &BlockSize, shape: &Shape) -> Result<Vec<usize>> {
        let sizes = BlockSize::new_trim(size.as_slice());
        let sizes = sizes.as_slice();
        let fits = sizes.len() <= shape.len();
        let blocks: Vec<usize> = if fits {
            let lead = shape.len() - sizes.len();
            core::iter::repeat_n(1, lead).chain(sizes.iter().map(|&b| b.into())).collect()
        } else {
            Vec::new()
        };
        if !fits || blocks.iter().zip(shape.iter()).any(|(&b, &size)| b == 0 || size % b != 0) {
            let expected = alloc::format!("axes that the block sizes {:?} divide", size.as_slice());
            return Err(Error::shape(op, shape, expected));
        }
        Ok(blocks)
    }

    fn scales_shape(&self) -> Shape {
        match &self.blocks {
            None => Shape::from([1]),
            Some(blocks) => self.shape.iter().zip(blocks).map(|(&size, &b)| size / b).collect(),
        }
    }

    /// Returns the scales, reshaped to one element per block; an error if their number differs.
    fn check_scales(&self, op: &'static str, scales: Tensor) -> Result<Tensor> {
        let shape = self.scales_shape();
        if scales.num_elements() != shape.num_elements() {
            let expected = alloc::format!("scales of shape {:?}", shape.as_slice());
            return Err(Error::shape(op, scales.shape(), expected));
        }
        scales.reshape(shape)
    }

    /// How the scales are assigned to the elements in row-major order.
    fn scales(&self) -> Scales {
        let Some(blocks) = &self.blocks else {
            return Scales::One;
        };
        let (Some((&run, outer_blocks)), Some(&width)) = (blocks.split_last(), self.shape.last()) else {
            return Scales::One;
        };
        let per_row = width / run;
        if outer_blocks.iter().all(|&b| b == 1) {
            return Scales::Each { run };
        }
        // The first scale of each row, in row-major order of the rows.
        let outer = &self.shape[..self.shape.len() - 1];
        let mut rows = alloc::vec![0usize];
        for (&size, &b) in outer.iter().zip(outer_blocks) {
            let mut longer = storage::list(rows.len() * size);
            longer.extend(rows.iter().flat_map(|&at| (0..size).map(move |i| at * (size / b) + i / b)));
            rows = longer;
        }
        rows.iter_mut().for_each(|row| *row *= per_row);
        let count = self.scales_shape().num_elements();
        Scales::Rows { run, per_row, first: rows, count }
    }
}
