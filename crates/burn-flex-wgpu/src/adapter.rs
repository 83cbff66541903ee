//! Maps wgpu's adapters to the devices that cubecl selects by kind and number.

use crate::{DeviceError, DeviceInfo, WgpuDevice};
use burn_flex_gpu::{DeviceKind, KernelLimits, MemoryLimits};
use cubecl::future::block_on;
use cubecl::wgpu::{AutoGraphicsApi, GraphicsApi};

/// The interface that cubecl opens devices with on this system.
pub(crate) fn api() -> &'static str {
    match AutoGraphicsApi::backend() {
        wgpu::Backend::Metal => "Metal",
        _ => "Vulkan",
    }
}

/// The adapters of the interface [`api`].
pub(crate) struct Adapters {
    pub(crate) instance: wgpu::Instance,
    /// Each adapter with the device value that selects it, except adapters that no device value selects.
    pub(crate) all: Vec<(WgpuDevice, wgpu::Adapter)>,
}

/// All adapters of the interface [`api`].
pub(crate) fn adapters() -> Result<Adapters, DeviceError> {
    library()?;
    let backends = AutoGraphicsApi::backend().into();
    let descriptor =
        wgpu::InstanceDescriptor { backends, ..wgpu::InstanceDescriptor::new_without_display_handle() };
    let instance = wgpu::Instance::new(descriptor);
    let found = block_on(instance.enumerate_adapters(backends));
    if found.is_empty() {
        let remedy = "Install the driver of the GPU, or a software one (Debian: apt install mesa-vulkan-drivers), and see \
                      that VK_DRIVER_FILES, if set, names one";
        return Err(DeviceError::NoDevice { api: api(), remedy });
    }
    let kinds: Vec<DeviceKind> = found.iter().map(|adapter| kind(adapter.get_info().device_type)).collect();
    let selected = selectors(&kinds).into_iter().zip(found);
    let all = selected.filter_map(|(device, adapter)| Some((device?, adapter))).collect();
    Ok(Adapters { instance, all })
}

/// Checks that the library that loads the drivers is installed, on systems where it is a separate library.
fn library() -> Result<(), DeviceError> {
    let (library, remedy) = match std::env::consts::OS {
        "linux" => (
            "libvulkan.so.1",
            "Install the Vulkan loader (Debian: apt install libvulkan1 mesa-vulkan-drivers)",
        ),
        "windows" => ("vulkan-1.dll", "Install the driver of the GPU, which brings it"),
        _ => return Ok(()),
    };
    // SAFETY: loading runs the initialisers of the library. It is the system's Vulkan loader, by the name
    // under which wgpu loads it right afterwards.
    match unsafe { libloading::Library::new(library) } {
        Ok(_) => Ok(()),
        Err(_) => Err(DeviceError::Library { api: api(), library, remedy }),
    }
}

/// For each adapter, the device value by which cubecl selects it: the adapter's number among the adapters of
/// its kind. Of software adapters, cubecl takes the first. It takes an adapter of unknown kind only when no
/// adapters of other kinds are left.
fn selectors(kinds: &[DeviceKind]) -> Vec<Option<WgpuDevice>> {
    let count = |kind| kinds.iter().filter(|&&k| k == kind).count();
    let before = |at: usize| kinds[..at].iter().filter(|&&k| k == kinds[at]).count();
    let select = |(at, kind): (usize, &DeviceKind)| {
        let number = before(at);
        match kind {
            DeviceKind::DiscreteGpu => Some(WgpuDevice::DiscreteGpu(number)),
            DeviceKind::IntegratedGpu => Some(WgpuDevice::IntegratedGpu(number)),
            DeviceKind::VirtualGpu => Some(WgpuDevice::VirtualGpu(number)),
            DeviceKind::Cpu => (number == 0).then_some(WgpuDevice::Cpu),
            DeviceKind::Other if count(DeviceKind::DiscreteGpu) <= number => {
                Some(WgpuDevice::DiscreteGpu(number))
            }
            DeviceKind::Other if count(DeviceKind::IntegratedGpu) <= number => {
                Some(WgpuDevice::IntegratedGpu(number))
            }
            DeviceKind::Other if count(DeviceKind::VirtualGpu) <= number => {
                Some(WgpuDevice::VirtualGpu(number))
            }
            DeviceKind::Other => None,
        }
    };
    kinds.iter().enumerate().map(select).collect()
}

pub(crate) fn kind(device_type: wgpu::DeviceType) -> DeviceKind {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        wgpu::DeviceType::VirtualGpu => DeviceKind::VirtualGpu,
        wgpu::DeviceType::Cpu => DeviceKind::Cpu,
        wgpu::DeviceType::Other => DeviceKind::Other,
    }
}

/// What an adapter reports about itself.
pub(crate) fn describe(device: WgpuDevice, adapter: &wgpu::Adapter) -> DeviceInfo {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    DeviceInfo {
        device,
        kind: kind(info.device_type),
        api: format!("{:?}", info.backend),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        memory: bounds(memory(adapter), &limits),
        kernels: KernelLimits {
            workgroup: limits.max_compute_invocations_per_workgroup,
            shared_memory: limits.max_compute_workgroup_storage_size,
            subgroup: (info.subgroup_min_size, info.subgroup_max_size),
        },
        name: info.name,
    }
}

/// The bounds on memory, from the memory of the device in bytes and wgpu's limits. cubecl reserves multiples
/// of the alignment of uniform buffers, and rounds its largest page down to one.
fn bounds(total: Option<u64>, limits: &wgpu::Limits) -> MemoryLimits {
    let granule = u64::from(limits.min_uniform_buffer_offset_alignment).max(1);
    let most = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
    MemoryLimits { total, largest_tensor: most / granule * granule, granule, padded_rows: false }
}

/// The device's memory in bytes, which Vulkan reports and wgpu does not.
#[cfg(any(target_os = "linux", target_os = "windows"))]
fn memory(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the handle is only used to query properties of the adapter, which outlives the handle.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device was made by this instance, which the adapter keeps alive.
    let memory = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = &memory.memory_heaps[..memory.memory_heap_count as usize];
    // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT is the lowest bit.
    Some(heaps.iter().filter(|heap| heap.flags.as_raw() & 1 == 1).map(|heap| heap.size).sum())
}

#[cfg(not(any(target_os = "linux", target_os = "windows")))]
fn memory(_: &wgpu::Adapter) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceKind::{Cpu, DiscreteGpu, IntegratedGpu, Other};
    use burn_backend::DType;

    #[test]
    fn the_largest_tensor_is_a_multiple_of_what_is_reserved() {
        // The bindings of most GPUs end four bytes short of a power of two.
        let limits = wgpu::Limits {
            max_storage_buffer_binding_size: (1 << 31) - 4,
            max_buffer_size: 1 << 52,
            min_uniform_buffer_offset_alignment: 64,
            ..wgpu::Limits::default()
        };
        let bounds = bounds(None, &limits);
        assert_eq!(bounds.largest_tensor, (1 << 31) - 64);
        assert_eq!(bounds.check(&[(1 << 29) - 16], DType::F32), Ok(()));
        assert!(bounds.check(&[(1 << 29) - 15], DType::F32).is_err(), "it is rounded up to 2 GiB");
    }

    #[test]
    fn adapters_are_counted_by_kind() {
        let devices = selectors(&[DiscreteGpu, Cpu, IntegratedGpu, DiscreteGpu, Cpu]);
        let want = [
            Some(WgpuDevice::DiscreteGpu(0)),
            Some(WgpuDevice::Cpu),
            Some(WgpuDevice::IntegratedGpu(0)),
            Some(WgpuDevice::DiscreteGpu(1)),
            None,
        ];
        assert_eq!(devices, want);
    }

    #[test]
    fn one_of_unknown_kind_stands_in_for_a_kind_that_is_missing() {
        assert_eq!(selectors(&[Other]), [Some(WgpuDevice::DiscreteGpu(0))]);
        let devices = selectors(&[DiscreteGpu, Other, Other]);
        let want = [WgpuDevice::DiscreteGpu(0), WgpuDevice::IntegratedGpu(0), WgpuDevice::DiscreteGpu(1)];
        assert_eq!(devices, want.map(Some));
    }
}
