//! Probes a device on separate handles to its adapter.

use crate::devices::{open, resolve, select};
use crate::{DTypeTable, DeviceError, Wgpu, WgpuDevice};
use burn_flex_gpu::{Cache, Scratch, probe};
use cubecl::wgpu::{RuntimeOptions, WgpuSetup, init_device};
use std::sync::{Arc, Mutex, PoisonError};

/// What a device computes correctly, dtype by dtype, found by running kernels. The answer is remembered for
/// later calls.
///
/// The kernels run on a second handle to the same adapter, so that a failing kernel does not harm the tensors
/// of `device`. cubecl keeps each handle, its memory and the thread that serves it until the process ends:
/// one for each adapter that is asked about, and one for each dtype that its runtime claims and computes
/// wrong.
///
/// # Errors
/// When the device cannot be opened, as [`check`](crate::check) says. [`check`](crate::check) accepts
/// [`WgpuDevice::Existing`] untested; this function refuses it, since its adapter is not known.
pub fn supported(device: &WgpuDevice) -> Result<DTypeTable, DeviceError> {
    static TABLES: Cache<WgpuDevice, DTypeTable> = Cache::new();
    if matches!(device, WgpuDevice::Existing(_)) {
        let reason =
            "its adapter is not known, so no second handle can be opened for probes; ask for it by its kind";
        return Err(DeviceError::Failed { device: format!("{device:?}"), reason: reason.into() });
    }
    let device = &resolve(device)?;
    TABLES.get_or_find(device, || probe::<Wgpu>(&format!("{device:?}"), || scratch(device)))
}

/// A new handle to a device's adapter. Errors that would panic on the runtime's thread are collected.
fn scratch(device: &WgpuDevice) -> Result<Scratch<Wgpu>, DeviceError> {
    let (instance, adapter, _) = select(device)?;
    let backend = adapter.get_info().backend;
    let (opened, queue) = open(device, &adapter)?;
    let complaints = Arc::new(Mutex::new(None));
    let sink = complaints.clone();
    opened.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        sink.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
    }));
    let setup = WgpuSetup { instance, adapter, device: opened, queue, backend };
    let device = init_device(setup, RuntimeOptions::default());
    let take = move || complaints.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(Scratch { device, complaints: Box::new(take) })
}
