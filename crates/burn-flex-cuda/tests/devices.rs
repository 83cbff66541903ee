//! Devices are found, described or refused with a reason, and tensors come back bit by bit.
//!
//! Without a GPU the tests pass, and say in one line that they were skipped and why.
#![allow(missing_docs)]

use burn_backend::{BoolStore, DType};
use burn_flex_cuda::{Cuda, CudaDevice, CudaFused, DeviceError, check, devices, supported};
use burn_tests::{Capabilities, transfer};

fn present() -> bool {
    burn_tests::present(check(&CudaDevice::default()))
}

#[test]
fn each_device_that_is_listed_can_be_used() {
    if !present() {
        return;
    }
    for info in devices().expect("there is a device, as was just found") {
        println!("{info}");
        assert_eq!(check(&info.device), Ok(()), "{info}");
        assert!(info.memory.total > Some(info.memory.largest_tensor), "{info}");
    }
}

#[test]
fn a_device_that_is_not_there_is_refused_by_name() {
    if present() {
        let refused = check(&CudaDevice::new(99));
        assert!(
            matches!(refused, Err(DeviceError::Absent { ref device, .. }) if device == "Cuda(99)"),
            "{refused:?}"
        );
    }
}

#[test]
fn probes_vouch_for_what_every_gpu_computes() {
    if !present() {
        return;
    }
    let table = supported(&CudaDevice::default()).expect("there is a device");
    println!("{table}");
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U32] {
        assert!(table.supports(dtype), "{dtype:?}: {:?}", table.get(dtype));
    }
}

#[test]
fn tensors_come_back_as_they_were_sent() {
    if present() {
        let all = Capabilities { bools: vec![BoolStore::U8], ..Capabilities::full() }.without_case(
            "transfer",
            "0 elements",
            "a launch for no element is refused, and an error of the next call",
        );
        let device = CudaDevice::default();
        assert!(transfer::check::<Cuda>(&all, &device) > 0);
        assert!(transfer::check::<CudaFused>(&all, &device) > 0);
    }
}
