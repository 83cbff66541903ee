//! The conformance suite on an adapter. Without one each test passes, and says in one line that it was
//! skipped and why.
//!
//! Known wrong results are listed with their causes: causes in WGSL below, causes in the kernels in
//! `limits.rs`. On a software adapter most of the time goes into compiling kernels (for matrix products, four
//! fifths of that time in LLVM). So the default run takes some layouts and one integer dtype. It leaves
//! `matmul`, most families of the fused form, and the other layouts and dtypes to
//!
//! ```console
//! cargo test -p burn-flex-wgpu --test conformance -- --ignored --test-threads 1
//! ```
//!
//! Of these tests, `plain_whole::float_unary` and `float_binary` were run with this list on llvmpipe, and
//! pass. The list was made from runs of every family in all layouts, in which `matmul` and `index` reached
//! their last rows. The other families still have to be run against the list, and so have the families of
//! `fused_whole`, whose `reduction` is known to fail (see `MEAN`).
//!
//! On an NVIDIA H200 every family of `plain` ran, and six of `fused`. `nvidia` adds what failed there, in
//! five families of `plain`, which passed with it on an H100. Five of the eight rows of `plain_whole::matmul`
//! ran on the H100, too, and a sixth of the rows of the families of `fused_whole` that `fused` leaves out.
//! Some of these were stopped (`docs/gpu.md`); `conv1d`, listed since, was not run again.
#![allow(missing_docs)]

#[path = "../../burn-flex-gpu/tests/common/limits.rs"]
mod limits;

use burn_backend::{BoolStore, FloatDType, IntDType};
use burn_flex_wgpu::{WgpuDevice, check, info};
use burn_tests::Capabilities;
use burn_tests::layout::Layout;

fn present() -> bool {
    burn_tests::present(check(&WgpuDevice::DefaultDevice))
}

/// The capabilities tested on every adapter: the dtypes that WGSL has kernels for, in all layouts.
fn everything() -> Capabilities {
    const ERROR: &str = "WGSL allows it: 3 + 2 |x| ULP of exp, and what inherits from it";
    const ANGLES: &str =
        "WGSL allows 4,096 ULP of atan and of what inherits from it; llvmpipe takes polynomials";
    const CANCELS: &str = "cubecl's formula cancels near zero";
    const SPECIAL: &str = "WGSL need not keep NaN and infinities: llvmpipe's polynomials and pow drop them";
    const NEGATIVE: &str =
        "negative numbers to negative odd powers: cubecl's WGSL takes the modulo for 1 where it is -1";
    const REMAINDER: &str = "cubecl's WGSL divides integers as f32, which has no room for 32 bits";
    const AFTER_PANIC: &str = "cubecl collects a launch's arguments in a thread-local buffer; a panic meanwhile (here of a mask_fill \
                               that was refused before) leaves its own to the thread's next kernel, which computes with them";
    const TINY: &str = "codes of tiny floats are packed into u32 as integers";
    const SCALES: &str = "WGSL has no kernels for scales in bf16 or in one byte";
    const UNROLLED: &str = "kernels of top-k have a variable for each of the k: translating one for 1,500 takes minutes. Not run";
    let asked = Capabilities {
        floats: vec![FloatDType::F32],
        ints: vec![IntDType::I32, IntDType::U32],
        bools: vec![BoolStore::U32],
        // WGSL allows a device to flush subnormal numbers, and llvmpipe does.
        subnormals: false,
        ..Capabilities::full()
    };
    let all = limits::kernels(asked)
        .without("float_into_int", &[], "WGSL leaves open what NaN and numbers out of range become")
        .without("float_topk", &[], UNROLLED)
        .without("int_topk", &[], UNROLLED)
        .within("float_exp", 43.0, ERROR)
        .within("float_sinh", 21.0, ERROR)
        .within("float_cosh", 21.0, ERROR)
        .within("float_powf", 16.0, ERROR)
        .within("float_powf_scalar_impl", 16.0, ERROR)
        .within("float_powi", 16.0, ERROR)
        .within("float_powi_scalar", 16.0, ERROR)
        .within("softmax", 16.0, ERROR)
        .within("float_asin", 4096.0, ANGLES)
        .within("float_acos", 4096.0, ANGLES)
        .within("float_atan", 4096.0, ANGLES)
        .within("float_atan2", 4096.0, ANGLES)
        .within_absolute("float_erf", 1e-6, CANCELS)
        .within_absolute("float_atanh", 1e-6, CANCELS)
        .within_absolute("float_tanh", 1e-7, CANCELS)
        .within_absolute("float_sinh", 1e-7, CANCELS)
        .except("float_atan", "special values", SPECIAL)
        .except("float_atan", "expected NaN", SPECIAL)
        .except("float_atan2", "special values", SPECIAL)
        .except("float_atan2", "expected NaN", SPECIAL)
        .except("float_powf", "special values", SPECIAL)
        .except("float_powf", "expected NaN", SPECIAL)
        .except("float_remainder", "is NaN, expected 0.0", SPECIAL)
        .except("float_powi", "is NaN", NEGATIVE)
        .except("float_powi_scalar", "is NaN", NEGATIVE)
        .except("int_remainder", "wrong)", REMAINDER)
        .except("int_mask_fill", "[1] Contiguous and Bool(U32) [1]", AFTER_PANIC)
        .except("int_mask_where", "[1] Contiguous and Bool(U32) [1]", AFTER_PANIC)
        .except("bool_argwhere", "[7] Expanded", AFTER_PANIC)
        .except("*", "value: E", TINY)
        .except("*", "param: BF16", SCALES)
        .except("*", "param: UE", SCALES);
    let by_nvidia =
        info(&WgpuDevice::DefaultDevice).is_ok_and(|adapter| adapter.driver.starts_with("NVIDIA"));
    if by_nvidia { nvidia(all) } else { all }
}

/// What NVIDIA's Vulkan driver adds, as seen with version 580.159 on an H200; an H100 passes with it.
/// The driver's sines and logarithms have absolute errors, where the suite asks for relative ones, and its
/// powers are made of such logarithms.
fn nvidia(all: Capabilities) -> Capabilities {
    const ANGLES: &str = "WGSL allows an absolute error of 2^-11 between -pi and pi; errors grow with the angle, as if it were multiplied \
                          by a rounded 1 / (2 pi), and samples go to 20";
    const FAR: &str = "65504 as an angle: WGSL states no accuracy beyond pi";
    const TANGENT: &str =
        "WGSL allows what the quotient of sin and cos has: near a pole an error of cos counts many times";
    const LOGARITHM: &str =
        "WGSL allows an absolute error of 2^-21 of the logarithms of numbers from 0.5 to 2";
    const POWER: &str =
        "WGSL allows 3 + 2 |y| ULP of 2^y, where y is 7 log2(x) for a seventh power, and 3 ULP of log2";
    const NEGATIVE: &str = "negative numbers to infinite powers, and minus infinity to fractions: cubecl's WGSL passes them to pow, \
                            which WGSL leaves open, and the driver returns NaN";
    const SINC: &str = "the weights are sines divided by their arguments: where rounding moves a position off an element by 1e-7, the \
                        absolute error of the sine is divided by as little";
    all.within_absolute("float_sin", 2f64.powi(-17), ANGLES)
        .within_absolute("float_cos", 2f64.powi(-17), ANGLES)
        .within_absolute("float_tan", 2f64.powi(-20), TANGENT)
        .within("float_tan", 128.0, TANGENT)
        .within("q_tan", 128.0, TANGENT)
        .within_absolute("float_log1p", 2f64.powi(-21), LOGARITHM)
        .within("float_powi_scalar", 72.0, POWER)
        // The last of the special values.
        .except("float_sin", "element 7 of shape [8]", FAR)
        .except("float_cos", "element 7 of shape [8]", FAR)
        .except("float_tan", "element 7 of shape [8]", FAR)
        .except("float_powf", "is NaN, expected inf", NEGATIVE)
        .except("interpolate", "[2, 9] to [7, 33] Lanczos3 align false", SINC)
}

/// The capabilities tested by the default run: views are transposed or expanded. Besides windows, these two
/// are the only views that this backend does not copy.
fn some() -> Capabilities {
    Capabilities {
        ints: vec![IntDType::I32],
        layouts: vec![Layout::Contiguous, Layout::Transposed, Layout::Expanded],
        ..everything()
    }
}

/// The capabilities for fused operations.
fn isolated(asked: Capabilities) -> Capabilities {
    const SIGMOID: &str = "as if exp(a log x) within one kernel were pow(x, a), which drops NaN on llvmpipe";
    const MEAN: &str = "seen in runs of all families, other elements in each, and not alone: it fits what a panic leaves to the next \
                        kernel of its thread, which here is the queue's";
    limits::fused(asked).except("sigmoid", "expected NaN", SIGMOID).except("int_mean", "wrong)", MEAN)
}

mod plain {
    use super::{present, some};

    burn_tests::testgen!(
        burn_flex_wgpu::Wgpu, some(), present();
        activation, attention, backend, boolean, cast, comparison, conv, conv_transpose, create, ctc, deform_conv, fft,
        float_binary, float_unary, golden, index, integer, mask, movement, norm, pool, quantization, quantized,
        random, reduction, sort, vision
    );
}

mod fused {
    use super::{isolated, present, some};

    burn_tests::testgen!(
        burn_flex_wgpu::WgpuFused, isolated(some()), present();
        activation, backend, boolean, cast, comparison, create, float_binary, float_unary
    );
}

/// All layouts and dtypes.
mod plain_whole {
    use super::{everything, present};

    burn_tests::testgen_all!(
        #[ignore = "slow on a software adapter, which compiles every kernel"]
        burn_flex_wgpu::Wgpu,
        everything(),
        present()
    );
}

/// All layouts and dtypes.
mod fused_whole {
    use super::{everything, isolated, present};

    burn_tests::testgen_all!(
        #[ignore = "slow on a software adapter, which compiles every kernel"]
        burn_flex_wgpu::WgpuFused,
        isolated(everything()),
        present()
    );
}
