//! Every f32 function against f64, on every instruction set of the machine.

mod common;

use common::*;
use flex_math::*;

/// The largest error over the bit patterns `first, first + stride, ...`, and where it is, for each instruction set.
fn worst<F: UnaryFn<f32>>(f: F, reference: fn(f64) -> f64, first: u32, stride: u32) -> Vec<(&'static str, f64, f32)> {
    let mut worst: Vec<(&'static str, f64, f32)> = Vec::new();
    let mut next = Some(first);
    while let Some(start) = next {
        let mut x = Vec::with_capacity(4096);
        let mut bits = Some(start);
        while let Some(b) = bits.filter(|_| x.len() < 4096) {
            x.push(f32::from_bits(b));
            bits = b.checked_add(stride);
        }
        next = bits;
        let want: Vec<f64> = x.iter().map(|&x| reference(x as f64)).collect();
        on_each_isa(f, &x, |isa, y| {
            let slot = match worst.iter_mut().find(|w| w.0 == isa) {
                Some(slot) => slot,
                None => {
                    worst.push((isa, 0.0, 0.0));
                    worst.last_mut().unwrap()
                }
            };
            for i in 0..x.len() {
                let error = ulp_error_f32(y[i], want[i]);
                if error > slot.1 {
                    *slot = (isa, error, x[i]);
                }
            }
        });
    }
    worst
}

/// Checks every function; `stride` is the distance between the bit patterns that are tried.
fn check(stride: u32) {
    let only = std::env::var("ONLY").ok();
    let mut failures = Vec::new();
    macro_rules! one {
        ($name:literal, $f:expr, $reference:expr, $bound:literal, $bound64:literal) => {
            if only.as_ref().is_none_or(|only| only == $name) {
                let reference: fn(f64) -> f64 = $reference;
                for (isa, error, at) in worst($f, reference, 0, stride) {
                    println!("{:12} {isa:8} {error:.3} ULP at {at:e}", $name);
                    if error > $bound {
                        failures.push(format!("{} on {isa}: {error} ULP at {at:e}, bound {}", $name, $bound));
                    }
                }
            }
        };
    }
    for_each_unary!(one);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// About 430,000 bit patterns per function, over all exponents and both signs.
#[test]
fn sample() {
    check(9973);
}

/// All 2^32 bit patterns, or every STRIDE-th; `ONLY=name` picks one function.
#[test]
#[ignore = "hours"]
fn exhaustive() {
    check(std::env::var("STRIDE").map_or(1, |s| s.parse().unwrap()));
}
