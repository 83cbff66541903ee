//! The adapters of both releases return the same bits, and refuse malformed calls with the same words.
//!
//! `calls.rs` is compiled for each release. It calls the methods of the backend traits in every dtype, and
//! lists what they return.

// `calls.rs` is a module of every release.
#![allow(clippy::duplicate_mod)]

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
