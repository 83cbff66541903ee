//! The CUDA driver, called in an order that avoids panics.

use crate::{CudaDevice, DeviceError, DeviceInfo};
use burn_flex_gpu::{DeviceKind, KernelLimits, MemoryLimits};
use cubecl::cuda::install::cuda_path;
use cudarc::driver::DriverError;
use cudarc::driver::result::{device, init, primary_ctx};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::path::Path;

/// The name of the interface in errors.
pub(crate) const API: &str = "CUDA";

/// A driver that has started.
pub(crate) struct Driver {
    version: i32,
    count: i32,
}

impl Driver {
    /// Starts the driver and counts its devices.
    pub(crate) fn start() -> Result<Self, DeviceError> {
        // SAFETY: loading runs the initialisers of the library, which is the driver that cubecl loads right
        // afterwards.
        if !unsafe { sys::is_culib_present() } {
            return Err(DeviceError::Library {
                api: API,
                library: if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" },
                remedy: "Install the NVIDIA driver (Debian: apt install nvidia-driver; in a container: run it with --gpus all)",
            });
        }
        let failed = |e: DriverError| DeviceError::Driver {
            api: API,
            reason: reason(e),
            remedy: "See that nvidia-smi works, that /dev/nvidia* can be opened, and that the driver fits the kernel module",
        };
        match init() {
            Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Err(no_device()),
            outcome => outcome.map_err(failed)?,
        }
        let count = device::get_count().map_err(failed)?;
        if count <= 0 {
            return Err(no_device());
        }
        let mut version = 0;
        // SAFETY: the driver is initialised, and writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
        Ok(Self { version, count })
    }

    /// Checks that the device with this number can be opened: a device in exclusive mode that another process
    /// uses, or one in prohibited mode, is listed but cannot be opened.
    ///
    /// The context is created here and released again, unless this process uses the device already.
    pub(crate) fn check_context(&self, index: usize) -> Result<(), DeviceError> {
        let name = format!("Cuda({index})");
        let failed = |e: DriverError| DeviceError::Failed { device: name.clone(), reason: reason(e) };
        let handle = device::get(index as i32).map_err(failed)?;
        // SAFETY: the handle comes from `device::get`.
        unsafe { primary_ctx::retain(handle) }.map_err(failed)?;
        // SAFETY: the handle comes from `device::get`, and the context was retained above. Its handle is not
        // kept, so nothing uses the context after it is released here.
        unsafe { primary_ctx::release(handle) }.map_err(failed)
    }

    /// Checks that NVRTC and the headers are installed; no kernel compiles without them.
    pub(crate) fn check_compiler(&self) -> Result<(), DeviceError> {
        // SAFETY: loading runs the initialisers of the library, which is the NVRTC that cubecl loads right
        // afterwards.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            return Err(DeviceError::Library {
                api: API,
                library: if cfg!(windows) { "nvrtc64_*.dll" } else { "libnvrtc.so" },
                remedy: "Install the CUDA toolkit (Debian: apt install nvidia-cuda-toolkit), or add its folder lib64 to \
                         LD_LIBRARY_PATH",
            });
        }
        check_headers(cuda_path().as_deref())
    }

    /// The devices.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        (0..self.count).map(|index| self.describe(index)).collect()
    }

    fn describe(&self, index: i32) -> Result<DeviceInfo, DeviceError> {
        let failed =
            |e: DriverError| DeviceError::Failed { device: format!("Cuda({index})"), reason: reason(e) };
        let handle = device::get(index).map_err(failed)?;
        // SAFETY: the handle comes from `device::get`.
        let attribute = |which| unsafe { device::get_attribute(handle, which) }.map_err(failed);
        // SAFETY: the handle comes from `device::get`.
        let total = unsafe { device::total_mem(handle) }.map_err(failed)? as u64;
        let (major, minor) = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let warp = attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)? as u32;
        let integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0;
        Ok(DeviceInfo {
            device: CudaDevice::new(index as usize),
            name: device::get_name(handle).map_err(failed)?,
            kind: if integrated { DeviceKind::IntegratedGpu } else { DeviceKind::DiscreteGpu },
            api: format!("{API}, compute capability {major}.{minor}"),
            driver: format!("for CUDA {}.{}", self.version / 1000, self.version % 1000 / 10),
            memory: limits(total),
            kernels: KernelLimits {
                workgroup: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as u32,
                shared_memory: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                    as u32,
                subgroup: (warp, warp),
            },
        })
    }
}

/// The bounds on memory, from the memory of the device in bytes. The largest page of cubecl's allocator is a
/// quarter of it; cubecl reserves multiples of 512 bytes, and pads rows.
fn limits(total: u64) -> MemoryLimits {
    const GRANULE: u64 = 512;
    let largest_tensor = total / 4 / GRANULE * GRANULE;
    MemoryLimits { total: Some(total), largest_tensor, granule: GRANULE, padded_rows: true }
}

fn no_device() -> DeviceError {
    DeviceError::NoDevice {
        api: API,
        remedy: "See that nvidia-smi lists one, and that CUDA_VISIBLE_DEVICES does not hide it",
    }
}

/// Checks that a CUDA installation has the headers that kernels include.
fn check_headers(installation: Option<&Path>) -> Result<(), DeviceError> {
    if installation.is_some_and(|path| path.join("include/cuda_fp16.h").exists()) {
        return Ok(());
    }
    let remedy = "Install the headers of the CUDA toolkit (Debian: apt install nvidia-cuda-toolkit), and set CUDA_PATH to the \
                  folder above their `include`";
    Err(DeviceError::Library { api: API, library: "include/cuda_fp16.h", remedy })
}

/// The driver's description of an error, or else its code.
fn reason(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_else(|_| format!("{:?}", error.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_backend::DType;

    #[test]
    fn the_largest_tensor_is_a_multiple_of_what_is_reserved() {
        let limits = limits((80 << 30) - 12);
        assert_eq!(limits.largest_tensor, (20 << 30) - 512);
        assert_eq!(limits.check(&[limits.largest_tensor as usize], DType::U8), Ok(()));
        // 0.4 GB of bytes, which take 3.2 GB.
        let small = super::limits(8 << 30);
        assert!(small.check(&[400_000_000], DType::U8).is_ok());
        assert!(small.check(&[200_000_000, 2], DType::U8).is_err());
    }

    #[test]
    fn headers_are_looked_for_where_kernels_include_them_from() {
        let folder = std::env::temp_dir().join(format!("burn-flex-cuda-{}", std::process::id()));
        let missing =
            |outcome: Result<(), DeviceError>| outcome.unwrap_err().to_string().contains("CUDA_PATH");
        assert!(missing(check_headers(None)));
        assert!(missing(check_headers(Some(&folder))));
        std::fs::create_dir_all(folder.join("include")).expect("a temporary folder");
        std::fs::write(folder.join("include/cuda_fp16.h"), "").expect("a temporary file");
        let outcome = check_headers(Some(&folder));
        std::fs::remove_dir_all(&folder).expect("the folder above");
        assert_eq!(outcome, Ok(()));
    }
}
