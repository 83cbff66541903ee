//! The suite on `Autodiff<Flex>`: what the graph's code computes on the way forward, for tensors that track gradients.
//!
//! One dtype of each kind: the graph hands every dtype to the same code, and `flex.rs` runs all of them. Slow and ignored
//! by default: all dtypes (`cargo test -p burn-tests --test autodiff -- --ignored`).
#![allow(missing_docs)]

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn_backend::{BoolStore, FloatDType, IntDType};
use burn_flex::Flex;
use burn_tests::{Capabilities, all_rows, row, run_rows};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Methods that `Autodiff` does not have or does its own way, whatever the backend below.
const LIMITS: [(&str, &str); 3] = [
    ("float_topk", "Burn 0.21's Autodiff panics"),
    ("rfft", "Burn 0.21's Autodiff panics"),
    ("irfft", "Burn 0.21's Autodiff panics"),
];

fn run<C: CheckpointStrategy>(mut capabilities: Capabilities) {
    for (method, reason) in LIMITS {
        capabilities = capabilities.without(method, &[], reason);
    }
    let mut report = Vec::new();
    for (family, rows) in all_rows::<Autodiff<Flex, C>>() {
        let outcome = catch_unwind(AssertUnwindSafe(|| run_rows(&capabilities, rows)));
        if let Err(payload) = outcome {
            report.push(format!("{family}: {}", row::panic_text(&*payload)));
        }
    }
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
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
