//! The conformance suite on software Vulkan: the families whose limits there are known.
//!
//! Without an adapter the tests pass, and say in one line that they were skipped and why. The other families run on an adapter
//! too (`burn_tests::testgen_all!`), but take minutes on a software one, and their limits are not written down yet.
#![allow(missing_docs)]

mod common;

use burn_backend::{BoolStore, FloatDType, IntDType};
use burn_tests::Capabilities;
use common::present;

/// What is asked of an adapter, and what burn-cubecl 0.21 over cubecl 0.10 is known not to do.
fn capabilities() -> Capabilities {
    const RANK_0: &str = "a tensor without axes: cubecl's strides are counted from one axis less than there are, which overflows";
    const EMPTY: &str =
        "an empty tensor: the test for overlap counts from the last element, the reduction refuses the axis";
    let all = Capabilities {
        floats: vec![FloatDType::F32],
        ints: vec![IntDType::I32, IntDType::U32],
        bools: vec![BoolStore::U32],
        ..Capabilities::full()
    };
    all.except("*", " []", RANK_0)
        .except("*", "[2, 0, 3]", EMPTY)
        .except("tr_execute", "no tensor at all", "takes the device from the first tensor")
        .without("float_into_int", &[], "WGSL leaves open what NaN and numbers out of range become")
}

mod plain {
    use super::{capabilities, present};

    burn_tests::testgen!(burn_flex_wgpu::Wgpu, capabilities(), present(); backend, boolean, cast, create, ctc);
}

mod fused {
    use super::{capabilities, present};

    // Not `boolean`, `create` and `ctc`: a panic on the queue's thread, as tensors without axes cause, leaves those who wait for
    // it waiting for more than a minute.
    burn_tests::testgen!(burn_flex_wgpu::WgpuFused, capabilities(), present(); backend, cast);
}
