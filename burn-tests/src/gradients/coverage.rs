//! Checks that no method is forgotten: each method of the float, activation and module traits has a gradient
//! case, or is listed here with the reason why it has none.

use super::check::Cases;
use super::{families, smooth};
use crate::array::Array;
use crate::kind::{Float, Kind};
use crate::release::Backend;
use burn_backend::DType;
use burn_backend::backend::AutodiffBackend;
use burn_backend::tensor::FloatTensor;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Methods of Burn 0.21's traits: trait, method, and whether the method has a default.
const METHODS: &str = include_str!("../../../crates/burn-flex-adapter/tests/trait_methods_0_21.txt");

/// Methods without a derivative, by name or by a prefix and a star.
const NO_DERIVATIVE: &[(&str, &str)] = &[
    ("float_from_data", "makes a tensor"),
    ("float_random", "makes a tensor"),
    ("float_zeros", "makes a tensor"),
    ("float_ones", "makes a tensor"),
    ("float_full", "makes a tensor"),
    ("float_empty", "makes a tensor"),
    ("float_into_data", "leaves the graph"),
    ("float_device", "returns no tensor"),
    ("float_into_int", "returns integers"),
    ("float_arg*", "returns integers"),
    ("float_equal*", "returns booleans"),
    ("float_not_equal*", "returns booleans"),
    ("float_greater*", "returns booleans"),
    ("float_lower*", "returns booleans"),
    ("float_any*", "returns booleans"),
    ("float_all*", "returns booleans"),
    ("float_is_*", "returns booleans"),
    ("float_detach", "cuts the graph"),
    ("float_set_require_grad", "marks a leaf"),
    ("*_backward", "computes a derivative: Burn differentiates only once"),
];

/// Methods with a derivative that the framework does not implement, and a call that shows it.
fn unsupported<B: Backend>() -> Vec<(&'static str, &'static str, fn(FloatTensor<B>) -> FloatTensor<B>)> {
    vec![
        ("float_topk", "Burn 0.21's Autodiff panics: use float_argtopk and float_gather", |x| {
            B::float_topk(x, 1, 2)
        }),
        ("rfft", "Burn 0.21's Autodiff panics", |x| B::rfft(x, 1, None).0),
        ("irfft", "Burn 0.21's Autodiff panics", |x| B::irfft(x.clone(), x, 1, None)),
    ]
}

/// Compares the list of methods with the cases, and prints the methods without gradients and their reasons.
///
/// # Panics
/// Panics if a method has neither, if a reason names no method, or if a method listed as unsupported works.
pub fn check<B: AutodiffBackend>() {
    let mut cases = Cases::<B>(Vec::new());
    families().into_iter().for_each(|(_, add)| add(&mut cases));
    let covered: BTreeSet<&str> = cases.0.iter().flat_map(|case| case.methods.iter().copied()).collect();
    let unsupported = unsupported::<B>();
    let (mut report, mut used) = (Vec::new(), BTreeSet::new());
    let owners = ["FloatTensorOps", "ActivationOps", "ModuleOps"];
    let lines = METHODS.lines().filter(|line| !line.starts_with('#'));
    let methods: Vec<&str> = (lines.map(|line| line.split(' ').collect::<Vec<_>>()))
        .filter(|words| owners.contains(&words[0]))
        .map(|words| words[1])
        .collect();
    println!("{} methods, {} of them with gradient cases ({})", methods.len(), covered.len(), cases.0.len());
    for &method in &methods {
        let none = NO_DERIVATIVE.iter().find(|(pattern, _)| matches(pattern, method));
        let missing = unsupported.iter().find(|(name, ..)| *name == method);
        used.extend(none.map(|(pattern, _)| *pattern));
        match (covered.contains(method), none.map(|n| n.1).or(missing.map(|m| m.1))) {
            (true, None) => {}
            (false, Some(reason)) => println!("| {method} | {reason} |"),
            (true, Some(reason)) => {
                report.push(format!("{method}: has cases, and a reason for none: {reason}"))
            }
            (false, None) => report.push(format!("{method}: no case, and no reason for it")),
        }
    }
    for case in cases.0.iter().filter(|case| case.wrong.is_some()) {
        println!(
            "| {} ({}) | wrong: {} |",
            case.methods.join(", "),
            case.name,
            case.wrong.unwrap_or_default()
        );
    }
    let unknown = covered.iter().filter(|name| !methods.contains(name));
    report.extend(unknown.map(|name| format!("{name}: a case for no method")));
    let idle = NO_DERIVATIVE.iter().filter(|(pattern, _)| !used.contains(pattern));
    report.extend(idle.map(|(pattern, _)| format!("{pattern}: a reason for no method")));
    for (method, _, run) in unsupported {
        if catch_unwind(AssertUnwindSafe(|| run(leaf::<B>(&smooth(&[2, 4], (-1.0, 1.0), 1))))).is_ok() {
            report.push(format!("{method}: works, but is listed as unsupported"));
        }
    }
    assert!(report.is_empty(), "\n{}\n", report.join("\n"));
}

fn leaf<B: AutodiffBackend>(array: &Array<f64>) -> FloatTensor<B> {
    let data = <Float as Kind<B>>::encode(array, DType::F64);
    B::float_set_require_grad(B::float_from_data(data, &Default::default()), true)
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == pattern,
    }
}
