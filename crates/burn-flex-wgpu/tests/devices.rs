//! Devices are found, described or refused with a reason, and tensors come back bit by bit.
//!
//! Without an adapter the tests pass, and say in one line that they were skipped and why.
#![allow(missing_docs)]

use burn_backend::{BoolStore, DType};
use burn_flex_wgpu::{DeviceError, Wgpu, WgpuDevice, WgpuFused, check, checked, devices, info, supported};
use burn_tests::{Capabilities, transfer};

fn present() -> bool {
    burn_tests::present(check(&WgpuDevice::DefaultDevice))
}

#[test]
fn each_device_that_is_listed_can_be_used() {
    if !present() {
        return;
    }
    let all = devices().expect("there is an adapter, as was just found");
    assert!(!all.is_empty());
    for info in all {
        println!("{info}");
        assert_eq!(check(&info.device), Ok(()), "{info}");
        assert!(info.memory.largest_tensor >= 128 << 20, "what WebGPU promises: {info}");
        assert!(info.kernels.workgroup >= 256, "what WebGPU promises: {info}");
        assert!(!info.name.is_empty());
    }
}

#[test]
fn a_device_that_is_not_there_is_refused_by_name() {
    if !present() {
        return;
    }
    match check(&WgpuDevice::DiscreteGpu(99)) {
        Err(DeviceError::Absent { device, present, .. }) => {
            assert_eq!(device, "DiscreteGpu(99)");
            assert!(!present.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn probes_vouch_for_what_every_adapter_computes() {
    if !present() {
        return;
    }
    let table = supported(&WgpuDevice::DefaultDevice).expect("there is an adapter");
    println!("{table}");
    for dtype in [DType::F32, DType::I32, DType::U32] {
        assert!(table.supports(dtype), "{dtype:?}: {:?}", table.get(dtype));
    }
    // WGSL has no kernels for these dtypes, and a runtime that is asked for one returns zeros.
    for dtype in [DType::BF16, DType::I8, DType::U8, DType::I16, DType::U16] {
        let vouched = table.supports(dtype);
        assert!(!vouched || cfg!(feature = "spirv"), "{dtype:?}: {:?}", table.get(dtype));
    }
    assert_eq!(supported(&WgpuDevice::DefaultDevice).as_ref(), Ok(&table), "it is remembered");
}

#[test]
fn a_checked_device_computes_the_defaults_of_its_type() {
    if !present() {
        return;
    }
    let device = WgpuDevice::DefaultDevice;
    assert_eq!(checked::<Wgpu>(device.clone()), Ok(device.clone()));
    assert_eq!(checked::<WgpuFused>(device.clone()), Ok(device.clone()));
    let table = supported(&device).expect("there is an adapter");
    match checked::<Wgpu<f64, i32>>(device.clone()) {
        Ok(_) => assert!(table.supports(DType::F64)),
        Err(DeviceError::DType { dtype, .. }) => assert!(dtype == DType::F64 && !table.supports(dtype)),
        other => panic!("{other:?}"),
    }
    let refused = checked::<Wgpu<f32, i8>>(device);
    assert!(
        refused.is_ok() || matches!(refused, Err(DeviceError::DType { dtype: DType::I8, .. })),
        "{refused:?}"
    );
    assert_eq!(refused.is_ok(), table.supports(DType::I8));
}

#[test]
fn a_tensor_that_no_kernel_can_be_given_is_refused() {
    if present() {
        let info = info(&WgpuDevice::DefaultDevice).expect("there is an adapter");
        let most = (info.memory.largest_tensor / 4) as usize;
        assert_eq!(info.memory.check(&[most], DType::F32), Ok(()));
        let refused = info.memory.check(&[2, most], DType::F32);
        assert!(matches!(refused, Err(DeviceError::TooLarge { .. })), "{refused:?}");
    }
}

/// In every dtype that has kernels, since views are made by kernels.
#[test]
fn tensors_come_back_as_they_were_sent() {
    if present() {
        let device = WgpuDevice::DefaultDevice;
        let table = supported(&device).expect("there is an adapter");
        let mut all = Capabilities { bools: vec![BoolStore::U32], ..Capabilities::full() };
        all.floats.retain(|&dtype| table.supports(dtype.into()));
        all.ints.retain(|&dtype| table.supports(dtype.into()));
        assert!(transfer::check::<Wgpu>(&all, &device) > 0);
        assert!(transfer::check::<WgpuFused>(&all, &device) > 0);
    }
}
