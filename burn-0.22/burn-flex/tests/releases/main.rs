//! The adapters of both releases return the same bits, and refuse malformed calls with the same words.
//!
//! `calls.rs` is compiled for each release. It calls the methods of the backend traits in every dtype, and
//! lists what they return.

// `calls.rs` is a module of every release.
#![allow(clippy::duplicate_mod)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call returned: bytes and dtypes of its tensors, or the message of its panic.
type Returned = Result<String, String>;

/// What a call returned under its name.
type Log = Vec<(String, Returned)>;

fn record(log: &mut Log, name: String, call: impl FnOnce() -> String) {
    let returned = catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).expect("a message")
    });
    log.push((name, returned));
}

mod v0_21;
mod v0_22;

/// Methods of both releases that the calls leave out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("ad_enabled", "returns no tensor"),
    ("device_count", "returns no tensor"),
    ("dtype_usage", "returns no tensor"),
    ("supports_dtype", "returns no tensor"),
    ("memory_cleanup", "returns no tensor"),
    ("memory_persistent_allocations", "calls its argument"),
    ("staging", "returns no tensor"),
    ("sync", "returns no tensor"),
    ("float_is_require_grad", "returns no tensor"),
];

#[test]
fn each_method_of_both_releases_is_called() {
    let methods = |text: &'static str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(' ').nth(1).expect("a name")).collect::<BTreeSet<_>>()
    };
    let old = methods(include_str!("../../../../crates/burn-flex-adapter/tests/trait_methods_0_21.txt"));
    let new = methods(include_str!("../../../../crates/burn-flex-adapter/tests/trait_methods_0_22.txt"));
    let code = [
        include_str!("calls.rs"),
        include_str!("codes.rs"),
        include_str!("layers.rs"),
        include_str!("v0_22.rs"),
    ];
    let words = code.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let called: BTreeSet<&str> = words.collect();
    let missing: BTreeSet<&str> =
        old.intersection(&new).filter(|name| !called.contains(*name)).copied().collect();
    assert_eq!(missing, LEFT_OUT.iter().map(|(name, _)| *name).collect());
}

#[test]
fn both_releases_return_the_same_bits() {
    std::panic::set_hook(Box::new(|_| {}));
    // They draw from one stream, so one after the other.
    v0_21::seed(7);
    let old = v0_21::calls::log();
    v0_22::seed(7);
    let new = v0_22::calls::log();
    let _ = std::panic::take_hook();
    assert_eq!(old.len(), new.len());
    let mut refused = 0;
    for ((name, old), (other, new)) in old.iter().zip(&new) {
        assert_eq!(name, other);
        assert_eq!(old, new, "{name}");
        refused += old.is_err() as usize;
        assert_eq!(old.is_err(), name.starts_with("malformed"), "{name}: {old:?}");
    }
    println!("{} calls, of which {refused} are refused", old.len());
    assert!(old.len() > 1000 && refused >= 20, "{} calls, {refused} refused", old.len());
}
