//! Devices are found, described or refused with a reason, and tensors come back bit by bit.
//!
//! Without an adapter the tests pass, and say in one line that they were skipped and why.
#![allow(missing_docs)]

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Backend, BoolStore, DType, FloatDType, Slice, read_sync};
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
    // WGSL has no kernels for these dtypes, and a runtime that is asked for one returns what was in memory.
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
    assert_eq!(
        checked::<Wgpu<f32, i32, u8>>(device.clone()),
        Ok(device.clone()),
        "Burn stores booleans as u32"
    );
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
        let memory = info(&WgpuDevice::DefaultDevice).expect("there is an adapter").memory;
        let most = (memory.largest_tensor / 4) as usize;
        assert_eq!(memory.check(&[most], DType::F32), Ok(()));
        for shape in [vec![most + 1], vec![2, most]] {
            let refused = memory.check(&shape, DType::F32);
            assert!(matches!(refused, Err(DeviceError::TooLarge { .. })), "{refused:?}");
        }
    }
}

/// The last elements of a tensor of `n` ones, and what `sync` says then.
fn ones(n: usize) -> (Result<Vec<f32>, String>, Result<(), String>) {
    let device = WgpuDevice::DefaultDevice;
    let ones = Wgpu::<f32>::float_ones([n].into(), &device, FloatDType::F32);
    let last = Wgpu::<f32>::float_slice(ones, &[Slice::from(n - 2..n)]);
    let read = read_sync(Wgpu::<f32>::float_into_data(last)).map_err(|e| e.to_string());
    (
        read.and_then(|data| data.to_vec().map_err(|e| format!("{e:?}"))),
        Wgpu::<f32>::sync(&device).map_err(|e| e.to_string()),
    )
}

/// What is computed from a tensor that is too large is wrong, and only the thread that computed hears of it.
#[test]
fn the_largest_tensor_is_computed_and_a_larger_one_is_not() {
    // With SPIR-V a device may take more than wgpu's limits say.
    if !present() || cfg!(feature = "spirv") {
        return;
    }
    let memory = info(&WgpuDevice::DefaultDevice).expect("there is an adapter").memory;
    let most = (memory.largest_tensor / 4) as usize;
    assert_eq!(ones(most), (Ok(vec![1.0; 2]), Ok(())));
    let thread = std::thread::spawn(move || ones(most + 1));
    if let Ok((read, sync)) = thread.join() {
        assert!(read != Ok(vec![1.0; 2]) && sync.is_err(), "{read:?}, {sync:?}");
    }
    assert_eq!(Wgpu::<f32>::sync(&WgpuDevice::DefaultDevice).map_err(|e| e.to_string()), Ok(()));
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
