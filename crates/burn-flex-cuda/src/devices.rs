//! Checks of devices, to be made before a device is used.

use crate::driver::{API, Driver};
use crate::{Cuda, CudaDevice, DTypeTable, DeviceError, DeviceInfo};
use burn_backend::Backend;
use burn_flex_gpu::{Cache, Scratch, probe};

/// The devices that tensors can live on.
///
/// # Errors
/// If there is no device: what is missing, and what to install.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    Driver::start()?.devices()
}

/// Checks whether tensors can be stored on a device, and kernels compiled for it. The first call opens the
/// device; a success is remembered.
///
/// # Errors
/// When the device cannot be used: what is missing, which devices there are instead, or what the driver said.
pub fn check(device: &CudaDevice) -> Result<(), DeviceError> {
    static CHECKED: Cache<CudaDevice, ()> = Cache::new();
    CHECKED.get_or_find(device, || {
        info(device)?;
        let driver = Driver::start()?;
        driver.check_compiler()?;
        driver.check_context(device.index)
    })
}

/// What a device reports about itself; its [`memory`](DeviceInfo::memory) bounds the tensors that can be
/// made.
///
/// # Errors
/// When there is no such device.
pub fn info(device: &CudaDevice) -> Result<DeviceInfo, DeviceError> {
    let present = Driver::start()?.devices()?;
    let names = present.iter().map(|info| format!("{:?}", info.device)).collect();
    let found = present.into_iter().find(|info| info.device == *device);
    found.ok_or_else(|| DeviceError::Absent { api: API, device: format!("{device:?}"), present: names })
}

/// A device on which a backend type computes its default dtypes correctly: [`check`], then [`supported`] for
/// these dtypes.
///
/// Call this function to make a device. It is the last check: after it, Burn's own code runs, which this
/// crate cannot check.
///
/// # Errors
/// When the device cannot be used, or computes one of these dtypes wrong.
pub fn checked<B: Backend<Device = CudaDevice>>(device: CudaDevice) -> Result<CudaDevice, DeviceError> {
    check(&device)?;
    supported(&device)?.require_defaults::<B>()?;
    Ok(device)
}

/// What a device computes correctly, dtype by dtype, found by running kernels. The answer is remembered for
/// later calls.
///
/// The kernels run on the device itself, on a thread of their own. A device has 128 streams, which threads
/// take in turn, so in a process of many threads the probes may share a stream with other work. If that work
/// has failed by the time the probes start, this function returns an error, and that work's own
/// `Backend::sync` does not report the failure again; a failure meanwhile counts against the dtype that is
/// being probed. Call this function before other work.
///
/// # Errors
/// The errors of [`check`]; [`DeviceError::Failed`] if other work failed before the probes. Errors are not
/// remembered.
pub fn supported(device: &CudaDevice) -> Result<DTypeTable, DeviceError> {
    static TABLES: Cache<CudaDevice, DTypeTable> = Cache::new();
    check(device)?;
    TABLES.get_or_find(device, || {
        let scratch = || Ok(Scratch { device: device.clone(), complaints: Box::new(|| None) });
        let probing = || probe::<Cuda>(&format!("{device:?}"), scratch);
        // The thread of the caller has a stream that may have work in it.
        std::thread::scope(|scope| scope.spawn(probing).join()).expect("`probe` returns panics as errors")
    })
}
