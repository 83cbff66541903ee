//! Checks of devices, to be made before a device is used.

use crate::adapter::{Adapters, adapters, api, describe, kind};
use crate::{DeviceError, DeviceInfo, DeviceKind, WgpuDevice, supported};
use burn_backend::Backend;
use burn_flex_gpu::Cache;
#[cfg(feature = "spirv")]
use burn_flex_gpu::panic_message;
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
    let device = &resolve(device)?;
    OPENED.get_or_find(device, || open(device, &select(device)?.1).map(|_| ()))
}

/// The device that cubecl opens for a value: the same for all values that stand for one adapter, so that
/// answers are found once for each adapter.
pub(crate) fn resolve(device: &WgpuDevice) -> Result<WgpuDevice, DeviceError> {
    static RESOLVED: Cache<WgpuDevice, WgpuDevice> = Cache::new();
    let value = chosen(device).unwrap_or_default();
    RESOLVED.get_or_find(&value, || Ok(select(&value)?.2))
}

/// The adapter that cubecl selects for a device, with the instance that the adapter belongs to, and the value
/// that selects the adapter by its kind and number.
pub(crate) fn select(
    device: &WgpuDevice,
) -> Result<(wgpu::Instance, wgpu::Adapter, WgpuDevice), DeviceError> {
    let Adapters { instance, all: mut present } = adapters()?;
    let names = present.iter().map(|(device, _)| format!("{device:?}")).collect();
    let found = match chosen(device) {
        Some(device) => present.iter().position(|(d, _)| *d == device),
        None => preferred(present.iter().map(|(_, adapter)| kind(adapter.get_info().device_type))),
    };
    match found {
        Some(at) => {
            let (device, adapter) = present.swap_remove(at);
            Ok((instance, adapter, device))
        }
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

/// The position of the adapter that wgpu returns for high performance, as cubecl asks it to: the first of
/// the kind that comes first in wgpu's order. An adapter of unknown kind ranks by its kind, not by the value
/// that selects it.
fn preferred(kinds: impl Iterator<Item = DeviceKind>) -> Option<usize> {
    let rank = |kind| match kind {
        DeviceKind::DiscreteGpu => 0,
        DeviceKind::IntegratedGpu => 1,
        DeviceKind::Other => 2,
        DeviceKind::VirtualGpu => 3,
        DeviceKind::Cpu => 4,
    };
    kinds.enumerate().min_by_key(|&(_, kind)| rank(kind)).map(|(at, _)| at)
}

/// Opens an adapter with all its limits and features, as cubecl does.
pub(crate) fn open(
    device: &WgpuDevice,
    adapter: &wgpu::Adapter,
) -> Result<(wgpu::Device, wgpu::Queue), DeviceError> {
    let failed = |reason: String| DeviceError::Failed { device: format!("{device:?}"), reason };
    #[cfg(feature = "spirv")]
    if adapter.get_info().backend == wgpu::Backend::Vulkan {
        // cubecl panics where the driver refuses the device.
        let request = || block_on(cubecl::wgpu::vulkan::request_vulkan_device(adapter));
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(request)) {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) => {}
            Err(panic) => return Err(failed(panic_message(&*panic))),
        }
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
    block_on(adapter.request_device(&descriptor)).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_adapter_that_wgpu_prefers() {
        use DeviceKind::{Cpu, DiscreteGpu, IntegratedGpu, Other, VirtualGpu};
        let preferred = |kinds: &[DeviceKind]| preferred(kinds.iter().copied());
        assert_eq!(preferred(&[Cpu, IntegratedGpu, DiscreteGpu, DiscreteGpu]), Some(2));
        assert_eq!(
            preferred(&[Other, IntegratedGpu]),
            Some(1),
            "though `Other` is selected as a discrete one"
        );
        assert_eq!(preferred(&[VirtualGpu, Other, Cpu]), Some(1));
        assert_eq!(preferred(&[Cpu, VirtualGpu]), Some(1));
        assert_eq!(preferred(&[]), None);
    }

    #[test]
    fn the_values_of_one_adapter_are_resolved_to_one_device() {
        // Without an adapter there is nothing to resolve.
        let Ok(device) = resolve(&WgpuDevice::DefaultDevice) else { return };
        assert_ne!(device, WgpuDevice::DefaultDevice);
        assert_eq!(resolve(&device), Ok(device.clone()));
        assert_eq!(select(&device).map(|found| found.2), Ok(device));
    }

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
