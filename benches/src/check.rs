//! Checks that peers compute the same: the time of a peer that computes something else means nothing.
//!
//! The benches compare times, and the engine's tests check accuracy, so the tolerance here is wide.

use crate::cases::{Case, Family};
use crate::peers::Peer;

/// A case in which a peer's result differs from Flex's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the case.
    pub case: String,
    /// Description of the difference.
    pub what: String,
}

/// Results of one peer over all cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Cases with the same result as Flex.
    pub same: usize,
    /// Cases that the peer does not have, or whose result cannot be read.
    pub unknown: usize,
    /// Cases with another result.
    pub different: Vec<Difference>,
}

/// Compares the numbers that `peer` computes in `case` with `expected`, and adds the outcome to `tally`.
pub fn check(case: &Case, expected: Option<&[f64]>, peer: &dyn Peer, tally: &mut Tally) {
    // Each peer draws its own random numbers.
    let got = if is_random(&case.name) { None } else { peer.numbers(&case.name) };
    let (Some(expected), Some(got)) = (expected, got) else {
        tally.unknown += 1;
        return;
    };
    match difference(expected, &got, tolerance(&case.name)) {
        None => tally.same += 1,
        Some(what) => tally.different.push(Difference { case: case.name.clone(), what }),
    }
}

/// Whether the results of the case can be read. Trained weights cannot be compared.
pub fn is_readable(case: &Case) -> bool {
    case.family != Family::Training
}

/// An error if a peer's result differs, or Flex has no result in a case that has to have one.
///
/// # Errors
/// The message counts the results, and names the cases without one.
pub fn verdict(tallies: &[Tally], missing: &[String]) -> Result<(), String> {
    let different: usize = tallies.iter().map(|tally| tally.different.len()).sum();
    match (missing, different) {
        ([], 0) => Ok(()),
        ([], _) => Err(format!("results that differ from Flex's: {different}")),
        _ => Err(format!(
            "results that differ from Flex's: {different}; without a result of Flex: {missing:?}"
        )),
    }
}

/// Decided by the name, because small cases belong to another family.
fn is_random(name: &str) -> bool {
    ["rand_", "uniform_", "bernoulli_"].iter().any(|op| name.starts_with(op))
}

/// Allowed difference by rounding, relative to the largest element; for the half types, a few of their
/// rounding steps.
fn tolerance(name: &str) -> f64 {
    if name.contains("f16") { 2e-2 } else { 1e-4 }
}

/// The largest finite element.
fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()))
}

/// The largest difference of an element, relative to the largest element that is expected; infinite where an
/// element is missing or a single one of two is no number.
pub fn relative_difference(expected: &[f64], got: &[f64]) -> f64 {
    if expected.len() != got.len() {
        return f64::INFINITY;
    }
    let distance = |(&a, &b): (&f64, &f64)| match a == b || a.is_nan() && b.is_nan() {
        true => 0.0,
        false if (a - b).is_nan() => f64::INFINITY,
        false => (a - b).abs(),
    };
    match expected.iter().zip(got).map(distance).fold(0.0, f64::max) {
        0.0 => 0.0,
        distance => distance / largest(expected),
    }
}

/// The largest [`relative_difference`] of several results, one after the other, from the same expected one.
pub fn largest_difference(expected: &[f64], got: &[f64]) -> f64 {
    let results = got.chunks(expected.len().max(1)).map(|result| relative_difference(expected, result));
    results.reduce(f64::max).unwrap_or(f64::INFINITY)
}

/// A description of the difference, if there is one.
fn difference(expected: &[f64], got: &[f64], tolerance: f64) -> Option<String> {
    if expected.len() != got.len() {
        return Some(format!("{} elements, expected {}", got.len(), expected.len()));
    }
    let largest = largest(expected);
    let same = |a: f64, b: f64| (a - b).abs() <= tolerance * largest || a == b || a.is_nan() && b.is_nan();
    let wrong = || expected.iter().zip(got).enumerate().filter(|(_, (a, b))| !same(**a, **b));
    let (first, (a, b)) = wrong().next()?;
    Some(format!("{} of {} elements, first at {first}: {b}, expected {a}", wrong().count(), got.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_no_difference_and_numbers_are() {
        assert_eq!(
            difference(&[1.0, f64::NAN, f64::INFINITY], &[1.00001, f64::NAN, f64::INFINITY], 1e-4),
            None
        );
        assert!(difference(&[1.0], &[1.0, 1.0], 1e-4).unwrap().contains("expected 1"));
        assert!(difference(&[1.0, 2.0], &[1.0, 2.1], 1e-4).unwrap().contains("first at 1: 2.1, expected 2"));
        assert!(difference(&[1.0], &[f64::NAN], 1e-4).is_some());
        assert!(difference(&[1.0], &[f64::INFINITY], 1e-4).is_some());
    }

    #[test]
    fn differences_and_missing_results_are_errors() {
        let different = vec![Difference { case: "exp_1".into(), what: "1 element".into() }];
        let (good, bad) =
            (Tally { same: 1, unknown: 1, ..Tally::default() }, Tally { different, ..Tally::default() });
        assert_eq!(verdict(&[good.clone(), good.clone()], &[]), Ok(()));
        assert!(verdict(&[good.clone(), bad], &[]).unwrap_err().ends_with("differ from Flex's: 1"));
        assert!(verdict(&[good], &["exp_1".into()]).unwrap_err().contains("of Flex: [\"exp_1\"]"));
    }

    #[test]
    fn differences_are_relative_to_the_largest_element() {
        assert_eq!(relative_difference(&[4.0, -2.0, f64::NAN], &[4.0, -1.0, f64::NAN]), 0.25);
        assert_eq!(relative_difference(&[0.0, 0.0], &[0.0, 0.0]), 0.0);
        for (expected, got) in [(&[1.0][..], &[1.0, 1.0][..]), (&[1.0], &[f64::NAN]), (&[0.0], &[1.0])] {
            assert_eq!(relative_difference(expected, got), f64::INFINITY, "{expected:?} {got:?}");
        }
        assert_eq!(largest_difference(&[4.0, -2.0], &[4.0, -2.0, 4.0, -1.0, 4.0, -2.0]), 0.25);
        for got in [&[][..], &[4.0], &[4.0, -2.0, 4.0]] {
            assert_eq!(largest_difference(&[4.0, -2.0], got), f64::INFINITY, "{got:?}");
        }
    }
}
