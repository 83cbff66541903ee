//! The suite on `Autodiff<Flex>`: the graph's forward pass, for tensors that track gradients.
//!
//! One dtype of each kind, because the graph handles all dtypes with the same code, and `flex/suite` runs all
//! of them. All dtypes are slow and ignored by default (`cargo test -p burn-tests --test autodiff --
//! --ignored`).
#![allow(missing_docs)]

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn_backend::{BoolStore, FloatDType, IntDType};
use burn_flex::Flex;
use burn_tests::{Capabilities, pass_all};

/// Methods that `Autodiff` lacks or implements in its own way on every backend, by name or by a prefix and a
/// star. Rows that name such a method are left out. Pools and interpolation share a row with their backward
/// pass and are therefore left out here; the gradient tests run them.
const LIMITS: [(&str, &str); 21] = [
    ("float_prod", "exp(sum(log)), which is NaN for negative numbers"),
    ("float_topk", "panics"),
    ("float_grid_sample_2d", "the trait's default, which interpolates in one mode"),
    ("int_gather_nd", "not forwarded: the trait's default panics"),
    ("int_scatter_nd", "not forwarded: the trait's default panics"),
    ("tr_execute", "reads quantized tensors, which it cannot make"),
    ("gelu_backward", "the trait's approximation; gradients come from the backend below"),
    ("log_sigmoid_backward", "the trait's formula; gradients come from the backend below"),
    ("linear_x_backward", "a derivative of a derivative: panics"),
    ("embedding_backward", "a derivative of a derivative: panics"),
    ("avg_pool1d_backward", "a derivative of a derivative: panics"),
    ("avg_pool2d_backward", "a derivative of a derivative: panics"),
    ("adaptive_avg_pool1d_backward", "a derivative of a derivative: panics"),
    ("adaptive_avg_pool2d_backward", "a derivative of a derivative: panics"),
    ("max_pool2d_with_indices_backward", "a derivative of a derivative: panics"),
    ("deform_conv2d_backward", "a derivative of a derivative: panics"),
    ("interpolate_backward", "a derivative of a derivative: panics"),
    ("rfft", "panics"),
    ("irfft", "panics"),
    ("q_*", "not implemented"),
    ("quantize*", "not implemented"),
];

/// The reason to leave out a row, if there is one.
fn limit(methods: &[&str]) -> Option<&'static str> {
    let names = |pattern: &str, method: &str| match pattern.strip_suffix('*') {
        Some(prefix) => method.starts_with(prefix),
        None => method == pattern,
    };
    let limit = LIMITS.iter().find(|(pattern, _)| methods.iter().any(|method| names(pattern, method)));
    limit.map(|(_, reason)| *reason)
}

fn run<C: CheckpointStrategy>(capabilities: Capabilities) {
    pass_all::<Autodiff<Flex, C>>(&capabilities, |family, row| match family {
        "golden" => Some("values that the backend below is held to"),
        _ => limit(&row.methods),
    });
}

fn one_of_each_kind() -> Capabilities {
    let mut capabilities = Capabilities::full();
    capabilities.floats = vec![FloatDType::F32];
    capabilities.ints = vec![IntDType::I32];
    capabilities.bools = vec![BoolStore::Native];
    capabilities
}

#[test]
fn all_kept() {
    run::<NoCheckpointing>(one_of_each_kind());
}

#[test]
fn checkpointed() {
    run::<BalancedCheckpointing>(one_of_each_kind());
}

#[test]
#[ignore = "slow: all dtypes"]
fn all_kept_every_dtype() {
    run::<NoCheckpointing>(Capabilities::full());
}

#[test]
#[ignore = "slow: all dtypes"]
fn checkpointed_every_dtype() {
    run::<BalancedCheckpointing>(Capabilities::full());
}
