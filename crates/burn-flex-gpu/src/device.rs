//! What a device reports about itself.

use crate::DeviceError;
use burn_backend::quantization::{QuantParam, QuantScheme, QuantStore, QuantValue, params_shape};
use burn_backend::{DType, Shape};
use std::fmt;

/// The kind of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A card with memory of its own.
    DiscreteGpu,
    /// A GPU that shares the memory of the CPU.
    IntegratedGpu,
    /// A GPU that a host lends to a virtual machine.
    VirtualGpu,
    /// A driver that computes on the CPU.
    Cpu,
    /// The driver does not say.
    Other,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiscreteGpu => "discrete GPU",
            Self::IntegratedGpu => "integrated GPU",
            Self::VirtualGpu => "virtual GPU",
            Self::Cpu => "software on the CPU",
            Self::Other => "device of unknown kind",
        })
    }
}

/// A device, and the value that selects it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo<D> {
    /// The value to pass to Burn.
    pub device: D,
    /// The device's name, as the driver reports it.
    pub name: String,
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The interface to the device.
    pub api: String,
    /// Driver and version.
    pub driver: String,
    /// Bounds on memory.
    pub memory: MemoryLimits,
    /// Bounds on kernels.
    pub kernels: KernelLimits,
}

impl<D: fmt::Debug> fmt::Display for DeviceInfo<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, name, kind, api, driver, memory, .. } = self;
        write!(f, "{device:?}: {name}, {kind}, {api}, driver {driver}, {memory}")
    }
}

/// Bounds on memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// The device's memory, if the driver reports it.
    pub total: Option<u64>,
    /// The largest tensor that kernels can read and write, a multiple of [`granule`](Self::granule).
    ///
    /// A larger tensor is not refused where it is made: its memory is never reserved, and no kernel runs on
    /// it. A read of it fails, by an error or by a panic. A read of what was computed from it may return
    /// whatever the memory of the result held. Call [`check`](Self::check) first.
    pub largest_tensor: u64,
    /// Memory is reserved in multiples of this many bytes.
    pub granule: u64,
    /// Whether the rows of a tensor (its last axis) are padded, so that loads are aligned. Rows of several
    /// elements then take a multiple of 16 bytes or more.
    pub padded_rows: bool,
}

impl MemoryLimits {
    /// Checks whether kernels can work on a tensor of this shape and dtype, with its padding. The memory of a
    /// quantized tensor holds its scales too.
    ///
    /// # Errors
    /// [`DeviceError::TooLarge`] when they cannot; [`DeviceError::DType`] for a quantization scheme that
    /// tensors of this shape cannot be stored in.
    pub fn check(&self, shape: &[usize], dtype: DType) -> Result<(), DeviceError> {
        let bytes = match dtype {
            DType::QFloat(scheme) => self.quantized(shape, scheme)?,
            _ => self.plain(shape, dtype.size()),
        };
        if bytes > self.largest_tensor {
            return Err(DeviceError::TooLarge { bytes, limit: self.largest_tensor });
        }
        Ok(())
    }

    /// The bytes that a tensor of elements of `size` bytes takes; `u64::MAX` if a `u64` cannot hold them.
    ///
    /// cubecl's layouts compute the same numbers (`PitchedMemoryLayoutPolicy` for padded rows, and
    /// `ContiguousMemoryLayoutPolicy`), but are not accessible without a client of a device.
    fn plain(&self, shape: &[usize], size: usize) -> u64 {
        let (&columns, rows) = shape.split_last().unwrap_or((&1, &[]));
        let row = (columns as u64).saturating_mul(size as u64);
        let pitch = if self.padded_rows { self.pitch(row, columns) } else { row };
        let bytes = match rows.contains(&0) {
            true => 0,
            false => rows.iter().fold(pitch, |bytes, &n| bytes.saturating_mul(n as u64)),
        };
        round_up(bytes, self.granule)
    }

    /// The distance in bytes between rows that are padded.
    fn pitch(&self, row: u64, columns: usize) -> u64 {
        match columns {
            1 => row,
            _ => {
                let aligned = row.checked_next_power_of_two().unwrap_or(self.granule);
                round_up(row, aligned.clamp(16, self.granule.max(16)))
            }
        }
    }

    /// The bytes that a quantized tensor takes, for its values and then for its scales.
    fn quantized(&self, shape: &[usize], scheme: QuantScheme) -> Result<u64, DeviceError> {
        let refused = |problem: &str| {
            Err(DeviceError::DType { dtype: DType::QFloat(scheme), problem: problem.to_string() })
        };
        let Some(&columns) = shape.last() else {
            return refused("a quantized tensor has at least one axis");
        };
        let packed = match (scheme.store, scheme.value) {
            (QuantStore::PackedU32(_), _) => scheme.num_quants(),
            (QuantStore::PackedNative(_), QuantValue::E2M1) => 2,
            (QuantStore::Native, value) if value.size_bits() == 8 => 1,
            _ => return refused("values of less than a byte are stored packed only"),
        };
        if columns % packed != 0 {
            return refused(&format!("{packed} values are stored together, and the rows have {columns}"));
        }
        let mut stored = shape.to_vec();
        stored[shape.len() - 1] = columns / packed;
        let scale = match scheme.param {
            QuantParam::F32 => 4,
            QuantParam::F16 | QuantParam::BF16 => 2,
            QuantParam::UE8M0 | QuantParam::UE4M3 => 1,
        };
        let scales = params_shape(&Shape::from(shape.to_vec()), scheme.level);
        let values = self.plain(&stored, scheme.size_bits_stored() / 8);
        Ok(values.saturating_add(self.plain(&scales, scale)))
    }
}

/// The next multiple of `unit`, or `u64::MAX` if a `u64` cannot hold it.
fn round_up(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

impl fmt::Display for MemoryLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        if let Some(total) = self.total {
            write!(f, "{} MiB of memory, ", total / MIB)?;
        }
        write!(f, "tensors of up to {} MiB", self.largest_tensor / MIB)
    }
}

/// Bounds on kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLimits {
    /// Most invocations that share memory (a workgroup, a block).
    pub workgroup: u32,
    /// Bytes of memory that these invocations share.
    pub shared_memory: u32,
    /// Fewest and most invocations that run in lockstep (a subgroup, a warp).
    pub subgroup: (u32, u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_backend::quantization::{QuantLevel, QuantMode};

    /// Rows one after the other, as on Vulkan and Metal.
    fn contiguous(largest_tensor: u64) -> MemoryLimits {
        MemoryLimits { total: None, largest_tensor, granule: 16, padded_rows: false }
    }

    /// Rows padded, as on CUDA.
    fn padded(largest_tensor: u64) -> MemoryLimits {
        MemoryLimits { total: None, largest_tensor, granule: 512, padded_rows: true }
    }

    /// The bytes that a tensor takes.
    fn bytes(limits: fn(u64) -> MemoryLimits, shape: &[usize], dtype: DType) -> u64 {
        match limits(0).check(shape, dtype) {
            Err(DeviceError::TooLarge { bytes, limit: 0 }) => {
                assert_eq!(limits(bytes).check(shape, dtype), Ok(()), "a tensor of the largest size fits");
                bytes
            }
            Ok(()) => 0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_largest_tensor_fits_and_one_element_more_does_not() {
        let limits = contiguous(64);
        assert_eq!(limits.check(&[4, 4], DType::F32), Ok(()));
        assert_eq!(limits.check(&[17], DType::F32), Err(DeviceError::TooLarge { bytes: 80, limit: 64 }));
        assert_eq!(limits.check(&[17], DType::F16), Ok(()));
        assert_eq!(limits.check(&[], DType::F64), Ok(()));
    }

    #[test]
    fn sizes_that_overflow_are_too_large() {
        for limits in [contiguous(1 << 30), padded(1 << 30)] {
            assert!(limits.check(&[usize::MAX, usize::MAX], DType::U8).is_err());
            assert!(limits.check(&[usize::MAX], DType::U8).is_err());
            assert!(limits.check(&[usize::MAX / 2, 1], DType::F64).is_err());
            assert_eq!(limits.check(&[usize::MAX, 0], DType::U8), Ok(()), "an empty tensor takes no memory");
            assert_eq!(limits.check(&[usize::MAX, 0, 3], DType::U8), Ok(()), "nor does one without rows");
        }
    }

    #[test]
    fn padded_rows_are_counted_with_their_padding() {
        assert_eq!(bytes(contiguous, &[200_000_000, 2], DType::U8), 400_000_000);
        assert_eq!(bytes(padded, &[200_000_000, 2], DType::U8), 3_200_000_000);
        assert_eq!(bytes(padded, &[1024, 3, 5], DType::F32), 1024 * 3 * 32, "the next power of two");
        assert_eq!(bytes(padded, &[1024, 200], DType::F32), 1024 * 1024, "a granule at most");
        assert_eq!(bytes(padded, &[1024, 1], DType::U8), 1024, "columns of one are not padded");
        assert_eq!(bytes(padded, &[3], DType::U8), 512);
    }

    #[test]
    fn quantized_tensors_take_the_bytes_of_their_packed_values_and_scales() {
        let scheme = |value, store, level| {
            DType::QFloat(QuantScheme {
                value,
                param: QuantParam::F32,
                store,
                level,
                mode: QuantMode::Symmetric,
            })
        };
        let words = QuantStore::PackedU32(0);
        // Four values fill a word; the scale takes a granule.
        let q8 = scheme(QuantValue::Q8S, words, QuantLevel::Tensor);
        assert_eq!(bytes(contiguous, &[64, 64], q8), 64 * 64 + 16);
        let q2 = scheme(QuantValue::Q2S, words, QuantLevel::Tensor);
        assert_eq!(bytes(contiguous, &[64, 64], q2), 64 * 64 / 4 + 16);
        let blocks = scheme(QuantValue::Q8S, QuantStore::Native, QuantLevel::block([32]));
        assert_eq!(bytes(contiguous, &[64, 64], blocks), 64 * 64 + 64 * 2 * 4);
        assert_eq!(bytes(padded, &[64, 64], blocks), 64 * 64 + 64 * 16);
        let refused = |shape: &[usize], dtype| {
            assert!(matches!(contiguous(1 << 20).check(shape, dtype), Err(DeviceError::DType { .. })));
        };
        refused(&[64, 63], q8);
        refused(&[], q8);
        refused(&[64, 64], scheme(QuantValue::Q4S, QuantStore::Native, QuantLevel::Tensor));
    }
}
