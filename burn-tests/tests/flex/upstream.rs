//! The suite can fail: it reports each known wrong result of upstream's CPU backend, and none of them for
//! this project's backend.

use burn_flex::Flex;
use burn_tests::defects::{defects, mismatched_batches};
use upstream_flex::Flex as Upstream;

#[test]
fn flex_has_none_of_the_defects() {
    let cases = defects::<Flex>().into_iter().chain([mismatched_batches::<Flex>()]);
    let found: Vec<String> =
        cases.filter_map(|d| Some(format!("{}: {}", d.name, d.check().err()?))).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn upstream_has_all_of_them() {
    let mut missed = Vec::new();
    for defect in defects::<Upstream>() {
        match defect.check() {
            Err(reason) => println!("{}: {reason}", defect.name),
            Ok(()) => missed.push(defect.name),
        }
    }
    assert!(missed.is_empty(), "the suite does not see: {missed:?}");
}

/// Upstream checks the batches of matrix products by a debug assertion alone: builds with debug assertions
/// refuse the call, and other builds accept it.
#[test]
fn upstream_refuses_mismatched_batches_in_debug_builds_only() {
    let outcome = mismatched_batches::<Upstream>().check();
    if cfg!(debug_assertions) {
        assert_eq!(outcome, Ok(()));
    } else {
        assert_eq!(outcome, Err("was accepted".into()));
    }
}
