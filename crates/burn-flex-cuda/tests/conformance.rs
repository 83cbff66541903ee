//! The conformance suite on an NVIDIA GPU: all of it, in every dtype. Without a GPU each test passes, and
//! says in one line that it was skipped and why.
//!
//! **It was never run on a GPU.** The known limits are the limits of the kernels, which were found on another
//! runtime (`limits.rs`). The limits that CUDA adds are not known, so a first run may well report more.
#![allow(missing_docs)]

#[path = "../../burn-flex-gpu/tests/common/limits.rs"]
mod limits;

use burn_backend::BoolStore;
use burn_flex_cuda::{CudaDevice, check};
use burn_tests::Capabilities;

fn present() -> bool {
    burn_tests::present(check(&CudaDevice::default()))
}

fn capabilities() -> Capabilities {
    limits::kernels(Capabilities { bools: vec![BoolStore::U8], ..Capabilities::full() })
}

mod plain {
    use super::{capabilities, present};

    burn_tests::testgen_all!(burn_flex_cuda::Cuda, capabilities(), present());
}

mod fused {
    use super::{capabilities, present};

    burn_tests::testgen_all!(burn_flex_cuda::CudaFused, capabilities(), present());
}
