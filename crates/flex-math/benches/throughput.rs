//! Prints the time per element of every function on one thread, or of those that are named. Usage:
//! `cargo bench -p flex-math --bench throughput [-- NAME...]`.
//!
//! Arrays of 16 Ki elements stay in the second-level cache; 1 Mi elements would measure memory.

use flex_math::Operand::Each;
use flex_math::simd::EveryLevel;
use flex_math::*;
use std::hint::black_box;
use std::time::Instant;

const LEN: usize = 16 * 1024;

/// Whether the arguments name the function, or none. Cargo adds `--bench` to them.
fn wanted(name: &str) -> bool {
    let mut names = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    names.peek().is_none() || names.any(|wanted| wanted == name)
}

/// Nanoseconds per element, the best of several runs.
fn time(mut f: impl FnMut()) -> f64 {
    f();
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..4 {
            f();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (4 * LEN) as f64);
    }
    best
}

/// Evenly spaced arguments.
fn ramp(lo: f64, hi: f64) -> Vec<f64> {
    (0..LEN).map(|i| lo + (hi - lo) * i as f64 / LEN as f64).collect()
}

fn unary<F>(name: &str, f: F, lo: f64, hi: f64)
where
    F: UnaryFn<f32> + UnaryFn<f64>,
{
    if !wanted(name) {
        return;
    }
    let x64 = ramp(lo, hi);
    let x32: Vec<f32> = x64.iter().map(|&x| x as f32).collect();
    let x16: Vec<half::f16> = x32.iter().map(|&x| half::f16::from_f32(x)).collect();
    let xb16: Vec<half::bf16> = x32.iter().map(|&x| half::bf16::from_f32(x)).collect();
    let mut y32 = vec![0f32; LEN];
    let mut y64 = vec![0f64; LEN];
    let mut y16 = vec![half::f16::ZERO; LEN];
    let mut yb16 = vec![half::bf16::ZERO; LEN];
    println!(
        "{name:12} {:8.3} {:8.3} {:8.3} {:8.3}",
        time(|| map(f, black_box(&x32), &mut y32)),
        time(|| map(f, black_box(&x64), &mut y64)),
        time(|| apply(EveryLevel, f, Each(black_box(&x16)), &mut y16)),
        time(|| apply(EveryLevel, f, Each(black_box(&xb16)), &mut yb16)),
    );
}

fn binary<F>(name: &str, f: F, lo: f64, hi: f64)
where
    F: BinaryFn<f32> + BinaryFn<f64>,
{
    if !wanted(name) {
        return;
    }
    let (a64, b64) = (ramp(lo, hi), ramp(hi, lo / 2.0));
    let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
    let (a32, b32) = (narrow(&a64), narrow(&b64));
    let mut y32 = vec![0f32; LEN];
    let mut y64 = vec![0f64; LEN];
    println!(
        "{name:12} {:8.3} {:8.3}",
        time(|| map2(f, black_box(&a32), &b32, &mut y32)),
        time(|| map2(f, black_box(&a64), &b64, &mut y64)),
    );
}

fn conversions() {
    let x32: Vec<f32> = ramp(-10.0, 10.0).iter().map(|&x| x as f32).collect();
    let mut y32 = vec![0f32; LEN];
    let mut y16 = vec![half::f16::ZERO; LEN];
    let mut yb16 = vec![half::bf16::ZERO; LEN];
    let narrow16 = time(|| half::from_f32(black_box(&x32), &mut y16));
    let narrowb16 = time(|| half::from_f32(black_box(&x32), &mut yb16));
    let widen16 = time(|| half::to_f32(black_box(&y16), &mut y32));
    let widenb16 = time(|| half::to_f32(black_box(&yb16), &mut y32));
    println!("{:12} {:8} {:8} {widen16:8.3} {widenb16:8.3}", "to f32", "", "");
    println!("{:12} {:8} {:8} {narrow16:8.3} {narrowb16:8.3}", "from f32", "", "");
}

fn main() {
    println!("{}, ns per element", simd::isa_name());
    println!("{:12} {:>8} {:>8} {:>8} {:>8}", "", "f32", "f64", "f16", "bf16");
    unary("sqrt", Sqrt, 0.1, 10.0);
    unary("recip", Recip, 0.1, 10.0);
    unary("exp", Exp, -10.0, 10.0);
    unary("exp2", Exp2, -10.0, 10.0);
    unary("expm1", Expm1, -10.0, 10.0);
    unary("ln", Ln, 0.1, 10.0);
    unary("log1p", Log1p, -0.9, 10.0);
    unary("log2", Log2, 0.1, 10.0);
    unary("log10", Log10, 0.1, 10.0);
    unary("sin", Sin, -10.0, 10.0);
    unary("cos", Cos, -10.0, 10.0);
    unary("tan", Tan, -10.0, 10.0);
    unary("sin huge", Sin, -1e9, 1e9);
    unary("sinh", Sinh, -10.0, 10.0);
    unary("cosh", Cosh, -10.0, 10.0);
    unary("tanh", Tanh, -10.0, 10.0);
    unary("asin", Asin, -1.0, 1.0);
    unary("acos", Acos, -1.0, 1.0);
    unary("atan", Atan, -10.0, 10.0);
    unary("asinh", Asinh, -10.0, 10.0);
    unary("acosh", Acosh, 1.0, 10.0);
    unary("atanh", Atanh, -1.0, 1.0);
    unary("erf", Erf, -4.0, 4.0);
    unary("erfc", Erfc, -4.0, 4.0);
    unary("sigmoid", Sigmoid, -10.0, 10.0);
    unary("logsigmoid", LogSigmoid, -10.0, 10.0);
    unary("softplus", Softplus, -10.0, 10.0);
    unary("silu", Silu, -10.0, 10.0);
    unary("gelu", Gelu, -5.0, 5.0);
    unary("gelu_tanh", GeluTanh, -10.0, 10.0);
    binary("pow", Pow, 0.1, 10.0);
    binary("atan2", Atan2, -10.0, 10.0);
    binary("gelu_grad", GeluGrad, -10.0, 10.0);
    conversions();
}
