//! Checks of devices, to be made before a device is used.

use crate::adapter::{Adapters, adapters, api, describe};
use crate::{DeviceError, DeviceInfo, WgpuDevice, supported};
use burn_backend::Backend;
use burn_flex_gpu::Cache;
use cubecl::future::block_on;

/// The devices that tensors can live on.
///
/// # Errors
/// If there is no device: what is missing, and what to install.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    Ok(adapters()?.all.into_iter().map(|(device, adapter)| describe(device, &adapter)).collect())
}

/// What a device reports about itself, also for [`WgpuDevice::DefaultDevice`]. The report's
/// [`memory`](DeviceInfo::memory) bounds the tensors that can be made.
///
/// # Errors
/// The errors of [`check`]; [`WgpuDevice::Existing`] is refused, since its adapter is not known.
pub fn info(device: &WgpuDevice) -> Result<DeviceInfo, DeviceError> {
    if matches!(device, WgpuDevice::Existing(_)) {
        let reason = "its adapter is not known; ask for it by its kind";
        return Err(DeviceError::Failed { device: format!("{device:?}"), reason: reason.into() });
    }
    Ok(describe(device.clone(), &select(device)?.1))
}

/// A device on which a backend type computes its default dtypes correctly: [`check`], then [`supported`] for
/// these dtypes.
///
/// Call this function to make a device. It is the last check: after it, Burn's own code runs, which this
/// crate cannot check.
///
/// # Errors
/// When the device cannot be used, or computes one of these dtypes wrong.
pub fn checked<B: Backend<Device = WgpuDevice>>(device: WgpuDevice) -> Result<WgpuDevice, DeviceError> {
    check(&device)?;
    supported(&device)?.require_defaults::<B>()?;
    Ok(device)
}

/// Checks whether tensors can be stored on a device. The first call opens the device; a success is
/// remembered.
///
/// A device made from a setup of wgpu ([`WgpuDevice::Existing`]) is open already.
///
/// # Errors
/// When tensors cannot live on the device: what is missing, which devices there are instead, or what the
/// driver said.
pub fn check(device: &WgpuDevice) -> Result<(), DeviceError> {
    static OPENED: Cache<WgpuDevice, ()> = Cache::new();
    if matches!(device, WgpuDevice::Existing(_)) {
        return Ok(());
    }
    OPENED.get_or_find(device, || open(device, &select(device)?.1).map(|_| ()))
}

/// The adapter that cubecl selects for a device, and the instance that the adapter belongs to.
pub(crate) fn select(device: &WgpuDevice) -> Result<(wgpu::Instance, wgpu::Adapter), DeviceError> {
    let Adapters { instance, all: mut present } = adapters()?;
    let names = present.iter().map(|(device, _)| format!("{device:?}")).collect();
    let found = match chosen(device) {
        Some(device) => present.iter().position(|(d, _)| *d == device),
        None => {
            present.iter().enumerate().min_by_key(|(_, (device, _))| preference(device)).map(|(at, _)| at)
        }
    };
    match found {
        Some(at) => Ok((instance, present.swap_remove(at).1)),
        None => Err(DeviceError::Absent {
            api: api(),
            device: format!("{:?}", chosen(device).as_ref().unwrap_or(device)),
            present: names,
        }),
    }
}

/// The device that the value stands for; `None` for the best device.
#[allow(deprecated)]
fn chosen(device: &WgpuDevice) -> Option<WgpuDevice> {
    match device {
        WgpuDevice::DefaultDevice | WgpuDevice::BestAvailable => {
            std::env::var("CUBECL_WGPU_DEFAULT_DEVICE").ok().and_then(|name| named(&name))
        }
        device => Some(device.clone()),
    }
}

/// The device for a name in `CUBECL_WGPU_DEFAULT_DEVICE`. Other names are ignored, as in cubecl.
fn named(name: &str) -> Option<WgpuDevice> {
    let number = |kind: &str| name.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')')?.parse().ok();
    match name {
        "Cpu" => Some(WgpuDevice::Cpu),
        _ => (number("DiscreteGpu").map(WgpuDevice::DiscreteGpu))
            .or_else(|| number("IntegratedGpu").map(WgpuDevice::IntegratedGpu))
            .or_else(|| number("VirtualGpu").map(WgpuDevice::VirtualGpu)),
    }
}

/// The order in which wgpu looks for a fast adapter.
fn preference(device: &WgpuDevice) -> u8 {
    match device {
        WgpuDevice::DiscreteGpu(_) => 0,
        WgpuDevice::IntegratedGpu(_) => 1,
        WgpuDevice::VirtualGpu(_) => 2,
        _ => 3,
    }
}

/// Opens an adapter with all its limits and features, as cubecl does.
pub(crate) fn open(
    device: &WgpuDevice,
    adapter: &wgpu::Adapter,
) -> Result<(wgpu::Device, wgpu::Queue), DeviceError> {
    #[cfg(feature = "spirv")]
    if adapter.get_info().backend == wgpu::Backend::Vulkan
        && let Some(opened) = block_on(cubecl::wgpu::vulkan::request_vulkan_device(adapter))
    {
        return Ok(opened);
    }
    let descriptor = wgpu::DeviceDescriptor {
        required_features: adapter.features().difference(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        // SAFETY: some of the adapter's features are experimental. Only cubecl uses them through this handle,
        // and cubecl asks for the same features.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
        ..Default::default()
    };
    let opened = block_on(adapter.request_device(&descriptor));
    opened.map_err(|e| DeviceError::Failed { device: format!("{device:?}"), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_they_are_printed() {
        for device in [
            WgpuDevice::Cpu,
            WgpuDevice::DiscreteGpu(2),
            WgpuDevice::IntegratedGpu(0),
            WgpuDevice::VirtualGpu(1),
        ] {
            assert_eq!(named(&format!("{device:?}")), Some(device));
        }
        for name in ["", "cpu", "DiscreteGpu", "DiscreteGpu(", "DiscreteGpu(x)", "Existing(0)"] {
            assert_eq!(named(name), None, "{name}");
        }
    }
}
