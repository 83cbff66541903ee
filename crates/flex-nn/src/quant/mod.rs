//! Quantized tensors: small codes, and scales that map the codes to numbers.
//!
//! `x = scale * value(code)`. There is one scale for the whole tensor or one per block of it
//! ([`QuantScheme::level`]); the code is an integer or a tiny float ([`QuantScheme::value`], see `codec.rs`).
//! The scales of blocks may be relative to a scale of the whole tensor ([`QuantScheme::tensor_scale`]), which
//! lets them have few bits.
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
use crate::{DType, Shape, Tensor, storage};
use alloc::vec::Vec;
use codec::Codec;
use kernels::ScaleLayout;

/// A quantized tensor.
#[derive(Clone, Debug)]
pub struct QTensor {
    /// The codes: one `i8` each, in any layout. Codes of tiny floats are bit patterns.
    pub values: Tensor,
    /// The scales, `f32`: of shape `[1]` for the whole tensor, otherwise one per block.
    pub scales: Tensor,
    /// The number that the scales of blocks are to be multiplied by, if the scheme has two levels of scales.
    pub global: Option<f32>,
    /// The meaning of the codes, and their byte layout.
    pub scheme: QuantScheme,
}

impl QTensor {
    /// A quantized tensor from its parts.
    ///
    /// # Errors
    /// Fails if the values are not `i8`, the scales are not `f32` or not one per block, there is a scale of
    /// the tensor and the scheme has no second level or the reverse, or the engine does not support the
    /// scheme.
    pub fn new(values: Tensor, scales: Tensor, global: Option<f32>, scheme: QuantScheme) -> Result<Self> {
        const OP: &str = "quantized tensor";
        if values.dtype() != DType::I8 {
            return Err(Error::dtype(OP, values.dtype(), "values of dtype i8"));
        }
        if scales.dtype() != DType::F32 {
            return Err(Error::dtype(OP, scales.dtype(), "scales of dtype f32"));
        }
        let grid = BlockGrid::new(OP, &scheme, values.shape())?;
        let scales = grid.check_scales(OP, scales)?;
        check_global(OP, global, &scheme)?;
        Ok(Self { values, scales, global, scheme })
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
/// Scales are rounded up to the scheme's precision. A scale that is zero or too small to divide by becomes
/// the smallest normal number (of that precision), so that a tensor of zeros stays zero.
///
/// In a scheme of two levels, `scales` are relative to `global`.
///
/// # Errors
/// Fails if an operand is not a float tensor, the scales are not one per block, there is a `global` and the
/// scheme has no second level or the reverse, the blocks do not divide the shape, or the engine does not
/// support the scheme.
pub fn quantize(tensor: Tensor, scales: Tensor, global: Option<f32>, scheme: QuantScheme) -> Result<QTensor> {
    const OP: &str = "quantize";
    let grid = BlockGrid::new(OP, &scheme, tensor.shape())?;
    let scales = grid.check_scales(OP, into_f32(OP, scales)?)?;
    check_global(OP, global, &scheme)?;
    let scales = scales.into_contiguous()?;
    let scales = scales.as_slice::<f32>().expect("contiguous").iter();
    let usable = storage::try_collect(OP, scales.map(|&s| usable_scale(s, scheme.param)))?;
    let global = global.map(|global| usable_scale(global, QuantParam::F32));
    let scale_layout = grid.scales(OP)?;
    encode(OP, into_f32(OP, tensor)?, usable, global, &grid, &scale_layout, scheme)
}

/// [`quantize`] with the smallest scales whose codes reach every element of their block: the block's largest
/// magnitude (NaN is skipped) divided by half the range of the codes. In a scheme of two levels, the scale of
/// the tensor makes the largest scale of a block the largest number of its precision.
///
/// # Errors
/// The errors of [`quantize`].
pub fn quantize_dynamic(tensor: Tensor, scheme: QuantScheme) -> Result<QTensor> {
    const OP: &str = "quantize_dynamic";
    let grid = BlockGrid::new(OP, &scheme, tensor.shape())?;
    let tensor = into_f32(OP, tensor)?.into_contiguous()?;
    let (low, high) = scheme.value.range();
    let numbers = tensor.as_slice::<f32>().expect("contiguous");
    let scale_layout = grid.scales(OP)?;
    let mut scales = kernels::largest_magnitudes(OP, numbers, &scale_layout)?;
    scales.iter_mut().for_each(|s| *s /= (high - low) / 2.0);
    let global = two_levels(&scheme).then(|| {
        let peak = scales.iter().copied().fold(0.0, f32::max);
        usable_scale(peak / scheme.param.largest(), QuantParam::F32)
    });
    scales.iter_mut().for_each(|s| *s = usable_scale(*s / global.unwrap_or(1.0), scheme.param));
    encode(OP, tensor, scales, global, &grid, &scale_layout, scheme)
}

/// The numbers that a quantized tensor stands for, as a tensor of the float type `dtype`.
///
/// # Errors
/// Fails if `dtype` is not a float type.
pub fn dequantize(tensor: QTensor, dtype: DType) -> Result<Tensor> {
    const OP: &str = "dequantize";
    let QTensor { values, scales, global, scheme } = tensor;
    let grid = BlockGrid::new(OP, &scheme, values.shape())?;
    let codec = Codec::new(scheme.value);
    let scales = scales.into_contiguous()?;
    let mut scales = scales.as_slice::<f32>().expect("contiguous");
    // Not by an operation on tensors, which programs with floats alone would link for it: every product of
    // Burn's tensors can be one of quantized tensors.
    let products;
    if let Some(global) = global {
        products = storage::try_collect(OP, scales.iter().map(|scale| scale * global))?;
        scales = &products;
    }
    // With one scale, elements keep their order in memory and their layout.
    let keep = scheme.level == QuantLevel::Tensor && values.layout().is_dense();
    let values = if keep { values } else { values.into_contiguous()? };
    let layout = values.layout();
    let codes = &values.storage::<i8>()[layout.span()];
    let shape = if keep { Shape::from([codes.len()]) } else { values.shape().clone() };
    let scale_layout = grid.scales(OP)?;
    let numbers = Tensor::build::<f32>(OP, shape, DType::F32, |out| {
        kernels::decode(codec, codes, scales, &scale_layout, out);
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
    mut scales: Vec<f32>,
    global: Option<f32>,
    grid: &BlockGrid,
    scale_layout: &ScaleLayout,
    scheme: QuantScheme,
) -> Result<QTensor> {
    let tensor = tensor.into_contiguous()?;
    let numbers = tensor.as_slice::<f32>().expect("contiguous");
    let codec = Codec::new(scheme.value);
    let stored = Tensor::from_slice(&scales, grid.scales_shape())?;
    if let Some(global) = global {
        // The product may be too small to divide by.
        scales.iter_mut().for_each(|s| *s = (*s * global).max(f32::MIN_POSITIVE));
    }
    let values = Tensor::build::<i8>(op, tensor.shape().clone(), DType::I8, |out| {
        kernels::encode(codec, numbers, &scales, scale_layout, out);
    })?;
    Ok(QTensor { values, scales: stored, global, scheme })
}

/// The scale, rounded up to a precision and made safe to divide by. A scale that is negative, zero or NaN
/// becomes the smallest.
fn usable_scale(scale: f32, precision: QuantParam) -> f32 {
    let scale = if scale >= f32::MIN_POSITIVE { scale } else { f32::MIN_POSITIVE };
    precision.round_up(scale.min(f32::MAX))
}

/// Whether the scales of blocks are relative to a scale of the tensor.
fn two_levels(scheme: &QuantScheme) -> bool {
    scheme.tensor_scale && scheme.level != QuantLevel::Tensor
}

/// # Errors
/// Fails if there is a scale of the tensor and the scheme has no second level, or the reverse.
fn check_global(op: &'static str, global: Option<f32>, scheme: &QuantScheme) -> Result<()> {
    match (global, two_levels(scheme)) {
        (Some(_), true) | (None, false) => Ok(()),
        (got, wanted) => {
            let expected = if wanted { "a number" } else { "none, as the scheme has one level of scales" };
            Err(Error::argument(op, "scale of the tensor", format_args!("{got:?}"), expected))
        }
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
        // Other precisions reach the range of `f32`, so the scale of the tensor would be subnormal.
        QuantParam::F16 | QuantParam::UE4M3 => Ok(()),
        _ if !two_levels(scheme) => Ok(()),
        param => {
            let expected = "F16 or UE4M3, relative to a scale of the tensor";
            refuse("parameter precision of the scheme", &param, expected)
        }
    }
}

/// The blocks of a tensor of a given shape.
struct BlockGrid {
    shape: Shape,
    /// Block size along each axis; `None` if one scale holds for all elements.
    blocks: Option<Vec<usize>>,
}

impl BlockGrid {
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
    ///
    /// # Errors
    /// [`Error::Memory`] when the system has no room for the positions of the rows' scales.
    fn scales(&self, op: &'static str) -> Result<ScaleLayout> {
        let Some(blocks) = &self.blocks else {
            return Ok(ScaleLayout::One);
        };
        let (Some((&run, outer_blocks)), Some(&width)) = (blocks.split_last(), self.shape.last()) else {
            return Ok(ScaleLayout::One);
        };
        let per_row = width / run;
        let count = self.scales_shape().num_elements();
        // An empty tensor may have any number of rows, and reads no scale.
        if count == 0 || outer_blocks.iter().all(|&b| b == 1) {
            return Ok(ScaleLayout::Each { run });
        }
        // The first scale of each row, in row-major order of the rows.
        let outer = &self.shape[..self.shape.len() - 1];
        let mut rows = alloc::vec![0usize];
        for (&size, &b) in outer.iter().zip(outer_blocks) {
            let mut longer = storage::try_list(op, rows.len() * size)?;
            longer.extend(rows.iter().flat_map(|&at| (0..size).map(move |i| at * (size / b) + i / b)));
            rows = longer;
        }
        rows.iter_mut().for_each(|row| *row *= per_row);
        Ok(ScaleLayout::Rows { run, per_row, first: rows, count })
    }
}
