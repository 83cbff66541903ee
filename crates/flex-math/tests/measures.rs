//! Tests that the error measures of the other tests can fail.

mod common;

use common::*;

#[test]
fn f32_counts_units() {
    assert_eq!(ulp_error_f32(1.0, 1.0), 0.0);
    assert_eq!(ulp_error_f32(f32::from_bits(1f32.to_bits() + 3), 1.0), 3.0);
    assert_eq!(ulp_error_f32(1.0, 1.0 + 2f64.powi(-24)), 0.5);
    // Below a power of two the ULP is half as large.
    assert_eq!(ulp_error_f32(1.0, 1.0 - 2f64.powi(-24)), 1.0);
    assert_eq!(ulp_error_f32(f32::from_bits(5), f32::from_bits(3) as f64), 2.0);
    assert_eq!(ulp_error_f32(0.0, f32::from_bits(2) as f64), 2.0);
    assert_eq!(ulp_error_f32(f32::MAX, f32::INFINITY as f64), 1.0);
    assert_eq!(ulp_error_f32(f32::INFINITY, f32::MAX as f64), 1.0);
    assert!(ulp_error_f32(1.0, f64::INFINITY) > 1e7);
    assert_eq!(ulp_error_f32(f32::INFINITY, 1e300), 0.0);
}

#[test]
fn f64_counts_units() {
    assert_eq!(ulp_error_f64(1.0, 1.0, 0.25), 0.25);
    assert_eq!(ulp_error_f64(1.0 + f64::EPSILON, 1.0, 0.25), 0.75);
    assert_eq!(ulp_error_f64(f64::from_bits(9), f64::from_bits(4), 0.0), 5.0);
    assert_eq!(ulp_error_f64(f64::MAX, f64::INFINITY, 0.0), 1.0);
    assert_eq!(ulp_error_f64(1.0, f64::INFINITY, 0.0), f64::INFINITY);
}

#[test]
fn special_values_match_only_themselves() {
    let values = [0.0f32, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    for (i, &a) in values.iter().enumerate() {
        for (j, &b) in values.iter().enumerate() {
            assert_eq!(same(a, b), i == j, "{a} {b}");
            assert_eq!(same(a as f64, b as f64), i == j, "{a} {b}");
            assert_eq!(ulp_error_f32(a, b as f64) < 1e6, i == j, "{a} {b}");
            assert_eq!(ulp_error_f64(a as f64, b as f64, 0.0) < 1e6, i == j, "{a} {b}");
        }
    }
}
