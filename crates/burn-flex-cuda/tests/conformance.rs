//! The conformance suite on an NVIDIA GPU: all of it, in every dtype that cubecl has kernels for. Without a
//! GPU each test passes, and says in one line that it was skipped and why.
//!
//! Known wrong results are listed with their causes: causes in CUDA below, causes in the kernels in
//! `limits.rs`. `docs/gpu.md` tells which families ran on a GPU, and what was not run against this list.
//!
//! Run each family in a process of its own: an access beyond a buffer makes every later call of its process
//! fail.
#![allow(missing_docs)]

#[path = "../../burn-flex-gpu/tests/common/limits.rs"]
mod limits;

use burn_backend::{BoolStore, DType, FloatDType};
use burn_flex_cuda::{CudaDevice, check};
use burn_tests::Capabilities;

fn present() -> bool {
    burn_tests::present(check(&CudaDevice::default()))
}

/// The capabilities tested. What makes an access beyond a buffer is not run, because every later call of the
/// process fails.
fn capabilities() -> Capabilities {
    use FloatDType::{BF16, F16, F32};
    const RANK_0: &str = "reading a tensor without axes panics on the thread that serves the device, which may end the process";
    const EMPTY: &str = "a launch for no element is refused by the driver as an invalid argument";
    const STRIDES: &str = "an axis before an empty one has stride 0, which copies refuse";
    const TF32: &str = "as accurate as TF32, the format of tensor cores: operands rounded to 11 bits";
    const HALVES: &str = "halves are rounded after each step of a composed operation, and added up in halves";
    const UP: &str = "a number just below the upper bound is rounded up to it";
    const C: &str =
        "C++ leaves open what NaN and numbers out of range become; 8 and 16 bits keep the lowest ones";
    const NULL: &str =
        "the bytes of an empty tensor begin at address 0, which no slice of larger numbers may";
    const REMAINDER: &str = "the remainder by an infinity is NaN, as in C++'s formula x - y floor(x / y)";
    const TRANSFORMS: &str = "transforms have no kernels for halves";
    const PINNED: &str =
        "debug builds of cubecl refuse buffers that are no multiple of their alignment, as a few bytes are";
    const SUMS: &str = "means and tests for any and all add up in the dtype itself, where a sum wraps";
    const INDICES: &str =
        "the trait's default keeps positions in the dtype of the numbers, which may be too small for them";
    const BLOCKS: &str =
        "quantized again by the scheme of the operand, whose blocks do not divide the result";
    const CODES: &str = "codes of tiny floats are rounded by way of halves";
    const ABS: &str = "does not compile: C++ has no absolute value or remainder of 64-bit and unsigned numbers under the name that cubecl calls";
    const UNWRITTEN: &str =
        "a kernel that does not compile (see above) leaves its output as it was, whose memory is then read";
    const VECTORS: &str = "does not compile: vectors of scales in bf16 have no type";
    const AFTER_PANIC: &str = "a slice counted from the end panics while its launch collects arguments, and leaves them to its thread's \
                               next kernel, which writes where they say";
    let asked =
        Capabilities { floats: vec![F32, F16, BF16], bools: vec![BoolStore::U8], ..Capabilities::full() };
    let all = limits::kernels(asked)
        .without_case("*", " []", RANK_0)
        .except("*", "[0]", EMPTY)
        .except("*", "[0, 3]", EMPTY)
        .except("*", "CUDA_ERROR_INVALID_VALUE", EMPTY)
        .except("*", "the provided strides are not supported", STRIDES)
        .within_scaled("float_matmul", 2f64.powi(-10), TF32)
        .within_scaled("attention", 2f64.powi(-9), TF32)
        .within_scaled("deform_conv2d", 2f64.powi(-10), TF32)
        .within_scaled("deform_conv2d_backward", 2f64.powi(-10), TF32)
        .except("float_random", " is not in ", UP)
        .except("float_into_int", "wrong)", C)
        .except("*", "TargetAlignmentGreaterAndInputNotAligned", NULL)
        .except("float_remainder", "is NaN, expected 0.0", REMAINDER)
        .except("rfft", "Unsupported type", TRANSFORMS)
        .except("irfft", "Unsupported type", TRANSFORMS)
        .except("*", "capacity must be a multiple of alignment", PINNED)
        .except("int_mean", "wrong)", SUMS)
        .except("int_any", "wrong)", SUMS)
        .except("int_sort", "cannot be represented in the target type", INDICES)
        .except("q_topk", "must be evenly divisible by block size", BLOCKS)
        .except("q_cat", "value: E", CODES)
        .except("*", "more than one instance of overloaded function", ABS)
        .except("int_remainder", "wrong)", UNWRITTEN)
        .except("*", "identifier \"__nv_bfloat16", VECTORS)
        .except("*", "param: BF16", VECTORS)
        // Seen of booleans, and of floats in the fused form. All three call one kernel.
        .without("float_slice_assign", &[], AFTER_PANIC)
        .without("int_slice_assign", &[], AFTER_PANIC)
        .without("bool_slice_assign", &[], AFTER_PANIC);
    // The text is part of the names of both halves.
    let halves = [
        "gelu",
        "gelu_backward",
        "log_sigmoid",
        "log_sigmoid_backward",
        "softmax",
        "log_softmax",
        "layer_norm",
        "ctc_loss",
        "ctc_loss_backward",
        "avg_pool1d",
        "avg_pool2d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "max_pool1d_with_indices_backward",
        "max_pool2d_with_indices_backward",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "float_grid_sample_2d",
        "interpolate",
        "float_cross",
        "float_cumsum",
        "float_prod",
    ];
    halves.into_iter().fold(all, |all, method| all.except(method, "F16", HALVES))
}

/// The capabilities for fused operations.
fn queued() -> Capabilities {
    const UNEXPLAINED: &str = "an access beyond a buffer, once, with positions in I8; the cause is not known";
    const POSITIONS: &str =
        "wrong elements of a permuted operand in BF16 for positions in U8; the cause is not known";
    limits::fused(capabilities()).without("float_gather", &[DType::I8], UNEXPLAINED).except(
        "float_gather",
        "Permuted and U8 ",
        POSITIONS,
    )
}

mod plain {
    use super::{capabilities, present};

    burn_tests::testgen_all!(burn_flex_cuda::Cuda, capabilities(), present());
}

mod fused {
    use super::{present, queued};

    burn_tests::testgen_all!(burn_flex_cuda::CudaFused, queued(), present());
}
