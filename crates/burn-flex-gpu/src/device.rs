//! What a device reports about itself.

use crate::DeviceError;
use burn_backend::DType;
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
    /// The largest tensor that kernels can read and write.
    ///
    /// No call refuses a larger tensor: the driver does not run the kernel, and zeros are read back. Call
    /// [`check`](Self::check) first.
    pub largest_tensor: u64,
}

impl MemoryLimits {
    /// Checks whether kernels can work on a tensor of this shape and dtype.
    ///
    /// # Errors
    /// [`DeviceError::TooLarge`] when they cannot.
    pub fn check(&self, shape: &[usize], dtype: DType) -> Result<(), DeviceError> {
        let bytes = shape.iter().fold(dtype.size() as u64, |bytes, &n| bytes.saturating_mul(n as u64));
        if bytes > self.largest_tensor {
            return Err(DeviceError::TooLarge { bytes, limit: self.largest_tensor });
        }
        Ok(())
    }
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

    #[test]
    fn the_largest_tensor_fits_and_one_element_more_does_not() {
        let limits = MemoryLimits { total: None, largest_tensor: 64 };
        assert_eq!(limits.check(&[4, 4], DType::F32), Ok(()));
        assert_eq!(limits.check(&[17], DType::F32), Err(DeviceError::TooLarge { bytes: 68, limit: 64 }));
        assert_eq!(limits.check(&[17], DType::F16), Ok(()));
        assert_eq!(limits.check(&[], DType::F64), Ok(()));
    }

    #[test]
    fn sizes_that_overflow_are_too_large() {
        let limits = MemoryLimits { total: Some(1 << 30), largest_tensor: 1 << 30 };
        assert!(limits.check(&[usize::MAX, usize::MAX], DType::U8).is_err());
        assert_eq!(limits.check(&[usize::MAX, 0], DType::U8), Ok(()), "an empty tensor takes no memory");
    }
}
