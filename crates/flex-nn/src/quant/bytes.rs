//! Byte layout of quantized tensors, the same as Burn's `QuantizedBytes`: the codes, then the scales, in
//! native byte order and without padding in between. A scale of the tensor comes last, as `f32`.
//!
//! Burn 0.21 writes all scales as `f32`, later releases in the precision of the scheme. So the callers say
//! how scales are stored.
//!
//! * 8-bit codes, and all codes of a scheme with native storage: one byte each. Readers that pack four 8-bit
//!   codes into a word may pad the last word; [`QTensor::from_bytes`] accepts that.
//! * 4-bit and 2-bit integers packed into `u32`: the first code is in the lowest bits, the last word is
//!   padded with zeros.

use super::codec::{Codec, MiniFloat};
use super::{BlockGrid, QTensor, QuantParam, QuantScheme, QuantStore, QuantValue, two_levels};
use crate::error::{Error, Result};
use crate::layout::checked_num_elements;
use crate::{Bytes, DType, Shape, Tensor, bf16, f16, storage};

/// Codes per `u32`; `None` if the scheme does not pack its codes.
fn codes_per_word(scheme: &QuantScheme) -> Option<usize> {
    match scheme.store {
        QuantStore::PackedU32(_) if scheme.value.size_bits() < 8 => Some(32 / scheme.value.size_bits()),
        _ => None,
    }
}

/// The format of [`QuantParam::UE4M3`], which has no negative numbers.
fn e4m3() -> MiniFloat {
    match Codec::new(QuantValue::E4M3) {
        Codec::Mini(format) => format,
        Codec::Int { .. } => unreachable!("a float"),
    }
}

/// Writes scales, rounded to the nearest number that `stored` has.
fn write_scales(out: &mut [u8], scales: &[f32], stored: QuantParam) {
    let format = e4m3();
    for (out, &scale) in out.chunks_exact_mut(stored.size()).zip(scales) {
        match stored {
            QuantParam::F32 => out.copy_from_slice(&scale.to_ne_bytes()),
            QuantParam::F16 => out.copy_from_slice(&f16::from_f32(scale).to_ne_bytes()),
            QuantParam::BF16 => out.copy_from_slice(&bf16::from_f32(scale).to_ne_bytes()),
            // The exponent, which is all that a power of two has.
            QuantParam::UE8M0 => out[0] = (scale.to_bits() >> 23) as u8,
            QuantParam::UE4M3 => out[0] = format.encode(scale),
        }
    }
}

/// Reads what [`write_scales`] writes.
fn read_scales(out: &mut [f32], bytes: &[u8], stored: QuantParam) {
    let format = e4m3();
    for (out, bytes) in out.iter_mut().zip(bytes.chunks_exact(stored.size())) {
        *out = match (stored, bytes) {
            (QuantParam::F32, _) => f32::from_ne_bytes(bytes.try_into().expect("four bytes")),
            (QuantParam::F16, _) => f16::from_ne_bytes(bytes.try_into().expect("two bytes")).to_f32(),
            (QuantParam::BF16, _) => bf16::from_ne_bytes(bytes.try_into().expect("two bytes")).to_f32(),
            // 2^-127 is subnormal.
            (QuantParam::UE8M0, [0]) => f32::MIN_POSITIVE / 2.0,
            (QuantParam::UE8M0, [0xFF]) => f32::NAN,
            (QuantParam::UE8M0, _) => f32::from_bits((bytes[0] as u32) << 23),
            (QuantParam::UE4M3, _) => format.decode(bytes[0]),
        };
    }
}

impl QTensor {
    /// The bytes of this tensor, with elements in row-major order and scales as `stored` says.
    ///
    /// # Errors
    /// Fails if the engine does not support the scheme.
    pub fn to_bytes(&self, stored: QuantParam) -> Result<Bytes> {
        BlockGrid::new("quantized into_data", &self.scheme, self.shape())?;
        let values = self.values.to_contiguous()?;
        let codes = values.as_slice::<i8>().expect("contiguous");
        let scales = self.scales.to_contiguous()?;
        let scales = scales.as_slice::<f32>().expect("contiguous");
        let len = match codes_per_word(&self.scheme) {
            Some(per_word) => 4 * codes.len().div_ceil(per_word),
            None => codes.len(),
        };
        let global: &[f32] = self.global.as_slice();
        let tail = stored.size() * scales.len();
        let mut bytes = storage::scratch("quantized into_data", len + tail + size_of_val(global))?;
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
        let (back, last) = back.split_at_mut(tail);
        write_scales(back, scales, stored);
        write_scales(last, global, QuantParam::F32);
        Ok(bytes)
    }

    /// The tensor with these [bytes](Self::to_bytes), shape and scheme, and scales as `stored` says.
    ///
    /// # Errors
    /// Fails if the engine does not support the scheme, the blocks do not divide the shape, or the number of
    /// bytes does not fit shape and scheme.
    pub fn from_bytes(
        bytes: &[u8],
        shape: impl Into<Shape>,
        scheme: QuantScheme,
        stored: QuantParam,
    ) -> Result<Self> {
        const OP: &str = "quantized from_data";
        let shape = shape.into();
        // Below an eighth of the address space, and there are not more scales than elements, but one if there
        // are none. So the sums and products of bytes below do not overflow.
        let count = checked_num_elements(OP, &shape)?;
        let grid = BlockGrid::new(OP, &scheme, &shape)?;
        let scales_shape = grid.scales_shape();
        let global = if two_levels(&scheme) { size_of::<f32>() } else { 0 };
        let tail = stored.size() * scales_shape.num_elements() + global;
        let packing = codes_per_word(&scheme);
        let len = packing.map_or(count, |per_word| 4 * count.div_ceil(per_word));
        let padded = len.next_multiple_of(4) + tail;
        if bytes.len() != len + tail && bytes.len() != padded {
            let expected =
                alloc::format!("{} bytes for shape {:?} and {scheme:?}", len + tail, shape.as_slice());
            return Err(Error::argument(OP, "number of bytes", bytes.len(), expected));
        }
        let (front, back) = bytes.split_at(bytes.len() - tail);
        let (back, last) = back.split_at(tail - global);
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
            read_scales(out, back, stored);
        })?;
        let global = last.first_chunk().map(|&bytes| f32::from_ne_bytes(bytes));
        Ok(Self { values, scales, global, scheme })
    }
}
