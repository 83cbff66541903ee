//! Every f32 function against f64, on every instruction set of the machine.

mod common;

use common::*;
use flex_math::*;

/// For each instruction set, the largest error over the bit patterns `first, first + stride, ...`, and its
/// argument.
fn worst<F: UnaryFn<f32>>(
    f: F,
    reference: fn(f64) -> f64,
    first: u32,
    stride: u32,
) -> Vec<(&'static str, f64, f32)> {
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

/// Checks every function at bit patterns that are `stride` apart.
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

/// A random number generator for operands: splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Checks the largest error of a binary function over 300,000 pairs drawn by `draw`, measured by `error`.
fn check2<F: BinaryFn<f32>>(
    name: &str,
    f: F,
    reference: fn(f64, f64) -> f64,
    error: fn(f32, f64, f32, f32) -> f64,
    bound: f64,
    draw: impl Fn(u64) -> (f32, f32),
) {
    let mut state = 1;
    let (a, b): (Vec<f32>, Vec<f32>) = (0..300_000).map(|_| draw(random(&mut state))).unzip();
    let want: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| reference(a as f64, b as f64)).collect();
    on_each_isa2(f, &a, &b, |isa, got| {
        let mut worst = (0.0, 0);
        for (i, y) in got.iter().enumerate() {
            let e = error(*y, want[i], a[i], b[i]);
            if e > worst.0 {
                worst = (e, i);
            }
        }
        let (e, i) = worst;
        println!("{name:12} {isa:8} {e:.3} ULP at {:e}, {:e}", a[i], b[i]);
        assert!(e <= bound, "{name} on {isa}: {e} ULP at {:e}, {:e}, bound {bound}", a[i], b[i]);
    });
}

fn uniform(bits: u32, lo: f32, hi: f32) -> f32 {
    lo + (hi - lo) * (bits as f32 / u32::MAX as f32)
}

fn plain(got: f32, want: f64, _: f32, _: f32) -> f64 {
    ulp_error_f32(got, want)
}

#[test]
fn binary() {
    let patterns = |r: u64| (f32::from_bits(r as u32), f32::from_bits((r >> 32) as u32));
    // Any base, with exponents that keep the result in range or take it a little beyond.
    let in_range = |r: u64| {
        let x = f32::from_bits(r as u32 & 0x7fff_ffff);
        (x, uniform((r >> 32) as u32, -106.0, 91.0) / x.ln())
    };
    let near_one = |r: u64| (uniform(r as u32, 0.9, 1.1), uniform((r >> 32) as u32, -900.0, 900.0));
    check2("pow", Pow, libm::pow, plain, 1.0, patterns);
    check2("pow", Pow, libm::pow, plain, 1.0, in_range);
    check2("pow", Pow, libm::pow, plain, 1.0, near_one);
    let square = |r: u64| (uniform(r as u32, -5.0, 5.0), uniform((r >> 32) as u32, -5.0, 5.0));
    check2("atan2", Atan2, libm::atan2, plain, 2.5, patterns);
    check2("atan2", Atan2, libm::atan2, plain, 2.5, square);

    // Phi(x) and x phi(x) cancel near -0.75, so the error is measured in units of the larger one.
    fn cdf(x: f64) -> f64 {
        0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    }
    fn slope(x: f64) -> f64 {
        x * libm::exp(-0.5 * x * x) * 0.398_942_280_401_432_7
    }
    let error = |got: f32, want: f64, x: f32, g: f32| {
        let size = (cdf(x as f64).max(slope(x as f64).abs()) * g as f64).abs().max(2f64.powi(-126));
        let unit = 2f64.powi(size.log2().floor() as i32 - 23);
        (got as f64 - want).abs() / unit
    };
    let near = |r: u64| (uniform(r as u32, -14.0, 6.0), uniform((r >> 32) as u32, 0.5, 2.0));
    check2("gelu_grad", GeluGrad, |x, g| g * (cdf(x) + slope(x)), error, 5.0, near);
}
