//! Byte layout of quantized tensors, the same as Burn's `QuantizedBytes`: the codes, then the scales as
//! `f32`, in native byte order and without padding in between.
//!
//! * 8-bit codes, and all codes of a scheme with native storage: one byte each. Readers that pack four 8-bit
//!   codes into a word may pad the last word; [`QTensor::from_bytes`] accepts that.
//! * 4-bit and 2-bit integers packed into `u32`: the first code is in the lowest bits, the last word is
//!   padded with zeros.

use super::{Grid, QTensor, QuantScheme, QuantStore};
use crate::error::{Error, Result};
use crate::layout::checked_num_elements;
use crate::{Bytes, DType, Shape, Tensor, storage};

/// Codes per `u32`; `None` if the scheme does not pack its codes.
fn codes_per_word(scheme: &QuantScheme) -> Option<usize> {
    match scheme.store {
        QuantStore::PackedU32(_) if scheme.value.size_bits() < 8 => Some(32 / scheme.value.size_bits()),
        _ => None,
    }
}

impl QTensor {
    /// The bytes of this tensor, with elements in row-major order.
    ///
    /// # Errors
    /// Fails if the engine does not support the scheme.
    pub fn to_bytes(&self) -> Result<Bytes> {
        Grid::new("quantized into_data", &self.scheme, self.shape())?;
        let values = self.values.to_contiguous()?;
        let codes = values.as_slice::<i8>().expect("contiguous");
        let scales = self.scales.to_contiguous()?;
        let scales = scales.as_slice::<f32>().expect("contiguous");
        let len = match codes_per_word(&self.scheme) {
            Some(per_word) => 4 * codes.len().div_ceil(per_word),
            None => codes.len(),
        };
        let mut bytes = storage::scratch("quantized into_data", len + 4 * scales.len())?;
        let (front, back) = bytes.split_at_mut(len);
        match codes_per_word(&self.scheme) {
            Some(per_word) => {
                let bits = self.scheme.value.size_bits();
                for (word, codes) in front.chunks_exact_mut(4).zip(codes.chunks(per_word)) {
                    let mask = (1u32 << bits) - 1;
                    let packed =
                        codes.iter().rev().fold(0u32, |word, &code| word << bits | (code as u32 & mask));
                    word.copy_from_slice(&packed.to_ne_bytes());
                }
            }
            None => front.copy_from_slice(bytemuck::cast_slice(codes)),
        }
        back.copy_from_slice(bytemuck::cast_slice(scales));
        Ok(bytes)
    }

    /// The tensor with these [bytes](Self::to_bytes), shape and scheme.
    ///
    /// # Errors
    /// Fails if the engine does not support the scheme, the blocks do not divide the shape, or the number of
    /// bytes does not fit shape and scheme.
    pub fn from_bytes(bytes: &[u8], shape: impl Into<Shape>, scheme: QuantScheme) -> Result<Self> {
        const OP: &str = "quantized from_data";
        let shape = shape.into();
        // Below an eighth of the address space, and there are not more scales than elements, but one if there
        // are none. So the sums and products of bytes below do not overflow.
        let count = checked_num_elements(OP, &shape)?;
        let grid = Grid::new(OP, &scheme, &shape)?;
        let scales_shape = grid.scales_shape();
        let tail = 4 * scales_shape.num_elements();
        let packing = codes_per_word(&scheme);
        let len = packing.map_or(count, |per_word| 4 * count.div_ceil(per_word));
        let padded = len.next_multiple_of(4) + tail;
        if bytes.len() != len + tail && bytes.len() != padded {
            let expected =
                alloc::format!("{} bytes for shape {:?} and {scheme:?}", len + tail, shape.as_slice());
            return Err(Error::argument(OP, "number of bytes", bytes.len(), expected));
        }
        let (front, back) = bytes.split_at(bytes.len() - tail);
        let values = Tensor::build::<i8>(OP, shape, DType::I8, |out| match packing {
            Some(per_word) => {
                // Shifting a code to the top of the byte and back extends its sign.
                let shift = 8 - scheme.value.size_bits() as u32;
                let bits = scheme.value.size_bits() as u32;
                for (out, word) in out.chunks_mut(per_word).zip(front.chunks_exact(4)) {
                    let word = u32::from_ne_bytes(word.try_into().expect("four bytes"));
                    for (i, o) in out.iter_mut().enumerate() {
                        *o = ((word >> (i as u32 * bits)) << shift) as i8 >> shift;
                    }
                }
            }
            None => out.copy_from_slice(bytemuck::cast_slice(&front[..count])),
        })?;
        let scales = Tensor::build::<f32>(OP, scales_shape, DType::F32, |out| {
            // Copied as bytes, because the scales need not be aligned.
            bytemuck::cast_slice_mut::<f32, u8>(out).copy_from_slice(back);
        })?;
        Ok(Self { values, scales, scheme })
    }
}
