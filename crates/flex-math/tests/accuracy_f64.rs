//! Every f64 function on every instruction set of the machine, against golden values from mpmath
//! (`tools/golden.py`).

mod common;

use common::*;
use flex_math::*;

fn splitmix64(seed: u64, k: u64) -> u64 {
    let mut z = seed.wrapping_add((k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A file of golden values: the arguments, one vector per operand, the results, and the remainder lost by
/// rounding each result.
struct Golden {
    x: Vec<Vec<f64>>,
    want: Vec<f64>,
    rest: Vec<f64>,
}

fn golden(name: &str, operands: usize) -> Golden {
    let path = format!("{}/tests/golden/{name}.bin", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut at = 0;
    let mut take = |n: usize| {
        at += n;
        &bytes[at - n..at]
    };
    let mut left = bytes.len();
    let mut golden = Golden { x: vec![Vec::new(); operands], want: Vec::new(), rest: Vec::new() };
    while left > 0 {
        let count = u32::from_le_bytes(take(4).try_into().unwrap()) as u64;
        let seed = u32::from_le_bytes(take(4).try_into().unwrap()) as u64;
        for (i, x) in golden.x.iter_mut().enumerate() {
            let lo = u64::from_le_bytes(take(8).try_into().unwrap());
            let hi = u64::from_le_bytes(take(8).try_into().unwrap());
            let bits = |k| lo + splitmix64(seed + i as u64, k) % (hi - lo + 1);
            x.extend((0..count).map(|k| f64::from_bits(bits(k))));
        }
        for _ in 0..count {
            golden.want.push(f64::from_le_bytes(take(8).try_into().unwrap()));
            golden.rest.push(take(1)[0] as i8 as f64 / 200.0);
        }
        left -= 8 + 16 * operands + 9 * count as usize;
    }
    golden
}

/// Prints the largest error and notes it if it is above the bound.
fn check(name: &str, isa: &str, golden: &Golden, got: &[f64], bound: f64, failures: &mut Vec<String>) {
    let mut worst = (0.0, 0);
    for (i, y) in got.iter().enumerate() {
        let error = ulp_error_f64(*y, golden.want[i], golden.rest[i]);
        if error > worst.0 {
            worst = (error, i);
        }
    }
    let at: Vec<f64> = golden.x.iter().map(|x| x[worst.1]).collect();
    println!("{name:12} {isa:8} {:.3} ULP at {at:?}", worst.0);
    // The remainder in the file is itself rounded to 1/200 ULP.
    if worst.0 > bound + 0.005 {
        failures.push(format!(
            "{name} on {isa}: {} ULP at {at:?}, bound {bound}, want {:e}",
            worst.0, golden.want[worst.1]
        ));
    }
}

#[test]
fn unary() {
    let mut failures = Vec::new();
    macro_rules! one {
        ($name:literal, $f:expr, $reference:expr, $bound32:literal, $bound:literal) => {
            let golden = golden($name, 1);
            on_each_isa($f, &golden.x[0], |isa, got| check($name, isa, &golden, &got, $bound, &mut failures));
        };
    }
    for_each_unary!(one);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn binary() {
    let mut failures = Vec::new();
    let values = golden("pow", 2);
    on_each_isa2(Pow, &values.x[0], &values.x[1], |isa, got| {
        check("pow", isa, &values, &got, 1.0, &mut failures)
    });
    let values = golden("atan2", 2);
    on_each_isa2(Atan2, &values.x[0], &values.x[1], |isa, got| {
        check("atan2", isa, &values, &got, 2.5, &mut failures)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// There are too few golden values to test every seam between the pieces of a function. Here libm is the
/// reference; its own error is below one ULP for these functions.
#[test]
fn pieces_meet() {
    let mut failures = Vec::new();
    macro_rules! one {
        ($name:literal, $f:expr, $reference:expr, $bound:literal, $lo:literal, $hi:literal) => {
            let count = 1 << 18;
            let x: Vec<f64> = (0..=count).map(|i| $lo + ($hi - $lo) * i as f64 / count as f64).collect();
            let want = x.iter().map(|&x| $reference(x)).collect();
            let reference = Golden { rest: vec![0.0; x.len()], x: vec![x], want };
            on_each_isa($f, &reference.x[0], |isa, got| {
                check($name, isa, &reference, &got, $bound + 1.0, &mut failures)
            });
        };
    }
    one!("erf", Erf, libm::erf, 2.0, 0.0, 7.0);
    one!("tanh", Tanh, libm::tanh, 1.6, 0.0, 24.0);
    one!("ln", Ln, libm::log, 1.0, 0.5, 4.0);
    one!("log1p", Log1p, libm::log1p, 1.5, -0.5, 3.0);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
