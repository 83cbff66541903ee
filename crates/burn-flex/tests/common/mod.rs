//! Shared by the tests: deterministic inputs, and comparison with the oracle `burn-ndarray`.
#![allow(dead_code, unused_macros, unused_imports, missing_docs)]

use burn_tensor::backend::Backend;
use burn_tensor::{Bool, Int, Shape, Tensor, TensorData};

/// Evaluates an expression once per backend and checks that the values agree, up to `tolerance` relative to
/// the largest.
macro_rules! agree {
    ($tolerance:expr, $B:ident => $body:expr) => {{
        let flex: burn_tensor::TensorData = {
            type $B = burn_flex::Flex;
            $body.into_data()
        };
        let oracle: burn_tensor::TensorData = {
            type $B = burn_ndarray::NdArray<f32, i32>;
            $body.into_data()
        };
        $crate::common::assert_same(&flex, &oracle, $tolerance, stringify!($body));
    }};
}
pub(crate) use agree;

/// `count` values in `[-2, 2)`, all different for any count below 2^20.
pub fn values(count: usize, seed: u64) -> Vec<f32> {
    let start = seed.wrapping_mul(0x9E37_79B9).wrapping_add(12_345);
    (0..count as u64)
        .map(|i| ((i.wrapping_add(start).wrapping_mul(387_420_489) & 0xF_FFFF) as f32) / 262_144.0 - 2.0)
        .collect()
}

pub fn float<B: Backend, const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D> {
    Tensor::from_data(TensorData::new(values(shape.iter().product(), seed), shape), &Default::default())
}

/// Integers in `0..bound`.
pub fn int<B: Backend, const D: usize>(shape: [usize; D], bound: i32, seed: u64) -> Tensor<B, D, Int> {
    let count = shape.iter().product();
    let data: Vec<i32> = values(count, seed).iter().map(|v| ((v + 2.0) * 262_144.0) as i32 % bound).collect();
    Tensor::from_data(TensorData::new(data, shape), &Default::default())
}

pub fn bool<B: Backend, const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D, Bool> {
    float::<B, D>(shape, seed).greater_elem(0.0)
}

/// Checks that shapes and values agree. NaN equals only NaN, an infinity only itself. Finite values may
/// differ by `tolerance` of their own size, plus a thousandth of `tolerance` of the largest value, for values
/// that cancel to almost nothing.
pub fn assert_same(got: &TensorData, expected: &TensorData, tolerance: f64, what: &str) {
    assert_eq!(got.shape, expected.shape, "{what}: shapes");
    let (got, expected): (Vec<f64>, Vec<f64>) =
        (got.iter::<f64>().collect(), expected.iter::<f64>().collect());
    let largest = expected.iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
    for (i, (&a, &b)) in got.iter().zip(&expected).enumerate() {
        let same =
            (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= tolerance * (b.abs() + 1e-3 * largest);
        assert!(same, "{what}: element {i} is {a}, expected {b}");
    }
}

/// The message of the panic that `f` has to cause.
pub fn panic_message(f: impl FnOnce()) -> String {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    std::panic::set_hook(hook);
    let payload = result.expect_err("a panic");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(other) => other.downcast_ref::<&str>().expect("a message").to_string(),
    }
}
