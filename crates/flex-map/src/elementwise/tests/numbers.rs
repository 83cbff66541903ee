//! Functions of two elements against exact arithmetic, for every dtype and in edge cases.

use super::super::*;
use super::*;
use crate::{Scalar, bf16, f16};

const ARITHMETIC: &[Binary] =
    &[Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Rem, Binary::Max, Binary::Min];
const BITWISE: &[Binary] = &[Binary::BitAnd, Binary::BitOr, Binary::BitXor, Binary::Shl, Binary::Shr];

/// The exact result; an integer dtype keeps its low bits.
fn exact(op: Binary, a: i128, b: i128, bits: u32) -> i128 {
    let inside = (0..bits as i128).contains(&b);
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => a.checked_div(b).unwrap_or(0),
        Binary::Rem if b == 0 => 0,
        Binary::Rem => a - (a as f64 / b as f64).floor() as i128 * b,
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::Shl => {
            if inside {
                a << b
            } else {
                0
            }
        }
        Binary::Shr => {
            if inside {
                a >> b
            } else if a < 0 {
                -1
            } else {
                0
            }
        }
        other => unreachable!("{other:?}"),
    }
}

fn as_i128<T: Element>(x: T) -> i128 {
    if T::bounds().0 == T::ZERO { x.to_i64() as u64 as i128 } else { x.to_i64() as i128 }
}

fn integers<T: Element>() {
    let (min, max) = T::bounds();
    let mut values: Vec<T> = (-9..10).map(T::from_i64).collect();
    values.extend([min, max, T::from_i64(63), T::from_i64(64), T::from_i64(31), T::from_i64(100)]);
    let half = T::from_i64(as_i128(max) as i64 / 2);
    values.push(half);
    let n = values.len();
    let column = Tensor::from_slice(&values, [n, 1]).unwrap();
    let row = Tensor::from_slice(&values, [n]).unwrap();
    let bits = 8 * size_of::<T>() as u32;
    for &op in ARITHMETIC.iter().chain(BITWISE) {
        let table = elements::<T>(&binary(op, column.clone(), row.clone()).unwrap());
        for (i, &a) in values.iter().enumerate() {
            let by_left = elements::<T>(&scalar_binary(op, scalar(a), row.clone()).unwrap());
            for (j, &b) in values.iter().enumerate() {
                let (x, y) = (as_i128(a), as_i128(b));
                // The floor of a quotient in f64 is not exact at the far end of 64 bits.
                let want = match op {
                    Binary::Rem if y != 0 => {
                        x - x.div_euclid(y) * y + if x.rem_euclid(y) != 0 && y < 0 { y } else { 0 }
                    }
                    _ => exact(op, x, y, bits),
                };
                let want = T::from_i64(want as i64);
                assert_eq!(table[i * n + j], want, "{op:?}({x}, {y}) of {:?}", T::DTYPE);
                assert_eq!(by_left[j], want, "{op:?}({x}, {y}) of {:?}, scalar on the left", T::DTYPE);
            }
        }
        for (j, &b) in values.iter().enumerate() {
            let by_right = elements::<T>(&binary_scalar(op, row.clone(), scalar(b)).unwrap());
            let want: Vec<T> = (0..n).map(|i| table[i * n + j]).collect();
            assert_eq!(by_right, want, "{op:?} by {b:?} of {:?}", T::DTYPE);
        }
    }
}

fn scalar<T: Element>(x: T) -> Scalar {
    if T::bounds().0 == T::ZERO { Scalar::UInt(x.to_i64() as u64) } else { Scalar::Int(x.to_i64()) }
}

#[test]
fn integers_of_every_width_wrap_and_never_trap() {
    integers::<i8>();
    integers::<i16>();
    integers::<i32>();
    integers::<i64>();
    integers::<u8>();
    integers::<u16>();
    integers::<u32>();
    integers::<u64>();
}

#[test]
fn narrow_quotients_are_exact_for_all_pairs() {
    let all: Vec<i8> = (-128..=127).collect();
    let column = Tensor::from_slice(&all, [256, 1]).unwrap();
    let row = Tensor::from_slice(&all, [256]).unwrap();
    let quotients = elements::<i8>(&binary(Binary::Div, column, row).unwrap());
    for (k, q) in quotients.into_iter().enumerate() {
        let (a, b) = (all[k / 256], all[k % 256]);
        assert_eq!(q, if b == 0 { 0 } else { a.wrapping_div(b) }, "{a} / {b}");
    }
    // Quotients so near an integer that a rounded division would reach it.
    let divisors: Vec<u32> =
        (1..2000u32).flat_map(|d| [d, d * 7919, u32::MAX / d, u32::MAX / d - 1]).collect();
    let divisors: Vec<u32> = divisors.into_iter().filter(|&d| d != 0).collect();
    for less in [0, 1, 2] {
        let values: Vec<u32> = divisors.iter().map(|&d| (u32::MAX / d * d).wrapping_sub(less)).collect();
        let (a, b) =
            (Tensor::from_slice(&values, [values.len()]), Tensor::from_slice(&divisors, [divisors.len()]));
        let (a, b) = (a.unwrap(), b.unwrap());
        let want: Vec<u32> = values.iter().zip(&divisors).map(|(a, b)| a / b).collect();
        assert_eq!(elements::<u32>(&binary(Binary::Div, a.clone(), b.clone()).unwrap()), want);
        let (a, b) = (cast(a, DType::I32).unwrap(), cast(b, DType::I32).unwrap());
        let want: Vec<i32> = values
            .iter()
            .zip(&divisors)
            .map(|(&a, &b)| (a as i32).checked_div(b as i32).unwrap_or(i32::MIN))
            .collect();
        assert_eq!(elements::<i32>(&binary(Binary::Div, a, b).unwrap()), want);
    }
}

#[test]
fn integer_powers_are_exact_and_wrap() {
    let bases = [-3i64, -2, -1, 0, 1, 2, 3, 10, i64::MIN, i64::MAX];
    let exponents = [0i64, 1, 2, 3, 5, 31, 62, 63, 64, 1000, -1, -2, -3, i64::MIN];
    for &e in &exponents {
        let t = Tensor::from_slice(&bases, [bases.len()]).unwrap();
        let got = elements::<i64>(&binary_scalar(Binary::Pow, t, Scalar::Int(e)).unwrap());
        for (&b, got) in bases.iter().zip(got) {
            let want = match e {
                0.. => (0..e).fold(1i64, |p, _| p.wrapping_mul(b)),
                _ if b == 1 => 1,
                _ if b == -1 => 1 - 2 * (e & 1),
                _ => 0,
            };
            assert_eq!(got, want, "{b} ^ {e}");
        }
    }
    let t = Tensor::from_slice(&[3u8, 255, 2], [3]).unwrap();
    let e = Tensor::from_slice(&[5u8, 2, 200], [3]).unwrap();
    assert_eq!(elements::<u8>(&binary(Binary::Pow, t, e).unwrap()), [243, 1, 0]);
}

#[test]
fn integer_exponents_may_exceed_the_range_of_the_dtype() {
    let power = |b: u8, e: u64| (0..e).fold(1u8, |p, _| p.wrapping_mul(b));
    let bases: Vec<u8> = (0..=255).collect();
    for e in [127u64, 128, 129, 200, 255, 256, 300, 1001] {
        let want: Vec<u8> = bases.iter().map(|&b| power(b, e)).collect();
        for exponent in [Scalar::Int(e as i64), Scalar::UInt(e)] {
            let unsigned = Tensor::from_slice(&bases, [256]).unwrap();
            let signed = Tensor::from_slice(bytemuck::cast_slice::<u8, i8>(&bases), [256]).unwrap();
            assert_eq!(elements::<u8>(&binary_scalar(Binary::Pow, unsigned, exponent).unwrap()), want, "{e}");
            let got = elements::<i8>(&binary_scalar(Binary::Pow, signed, exponent).unwrap());
            assert_eq!(bytemuck::cast_slice::<i8, u8>(&got), want, "{e}");
        }
    }
    let t = || Tensor::from_slice(&[0u8, 1, 2, 255], [4]).unwrap();
    assert_eq!(elements::<u8>(&binary_scalar(Binary::Pow, t(), Scalar::Int(-1)).unwrap()), [0, 1, 0, 0]);
    let t = || Tensor::from_slice(&[-2i8, -1, 1, 2], [4]).unwrap();
    assert_eq!(elements::<i8>(&binary_scalar(Binary::Pow, t(), Scalar::Int(-300)).unwrap()), [0, 1, 1, 0]);
    assert_eq!(elements::<i8>(&binary_scalar(Binary::Pow, t(), Scalar::Int(-301)).unwrap()), [0, -1, 1, 0]);
}

/// A number that the dtype does not hold is not one that has the same lowest bits.
#[test]
fn large_numbers_keep_their_value() {
    fn check<T: Element + PartialEq>(op: Binary, x: [T; 3], number: impl Into<Scalar>, want: [T; 3]) {
        let number = number.into();
        let got = binary_scalar(op, Tensor::from_slice(&x, [3]).unwrap(), number).unwrap();
        assert_eq!(elements::<T>(&got), want, "{op:?} {number:?}");
    }
    check(Binary::Rem, [200u8, 0, 255], Scalar::UInt(256), [200, 0, 255]);
    check(Binary::Div, [200u8, 0, 255], Scalar::UInt(300), [0, 0, 0]);
    check(Binary::Div, [-128i8, 127, 5], Scalar::Int(128), [-1, 0, 0]);
    check(Binary::Rem, [i32::MIN, 5, i32::MAX], Scalar::Int(1 << 32), [i32::MIN, 5, i32::MAX]);
    check(Binary::Div, [2_000_000_000i32, -7, 1], Scalar::Int(3_000_000_000), [0, 0, 0]);
    check(Binary::Max, [-3i16, 4, 5], Scalar::Int(-70_000), [-3, 4, 5]);
    check(Binary::Min, [3u16, 4, 5], Scalar::UInt(70_000), [3, 4, 5]);
    check(Binary::Max, [3u64, 4, u64::MAX], Scalar::Int(-1), [3, 4, u64::MAX]);
    check(Binary::Shl, [7i32, 1, -1], Scalar::Int(1 << 32), [0, 0, 0]);
    check(Binary::Shr, [7i8, 1, -1], Scalar::Int(256), [0, 0, -1]);
    check(Binary::Shr, [7u64, 1, u64::MAX], Scalar::Int(-1), [0, 0, 0]);
}

fn floats<T: Element>() {
    let (epsilon, tiny) = precision(T::DTYPE);
    let tiny = 2.0 * tiny;
    let n = 1025;
    let a: Vec<T> = (0..n).map(|i| T::from_f64((i as f64 * 0.618).fract() * 20.0 - 10.0)).collect();
    let b: Vec<T> = (0..n).map(|i| T::from_f64((i as f64 * 0.414).fract() * 6.0 - 3.0)).collect();
    let oracle: &[(Binary, fn(f64, f64) -> f64, f64)] = &[
        (Binary::Add, |a, b| a + b, 1.0),
        (Binary::Sub, |a, b| a - b, 1.0),
        (Binary::Mul, |a, b| a * b, 1.0),
        (Binary::Div, |a, b| a / b, 1.0),
        (Binary::Rem, |a, b| a - (a / b).floor() * b, 1.0),
        (Binary::Max, f64::max, 0.0),
        (Binary::Min, f64::min, 0.0),
        (Binary::Pow, libm::pow, 4.0),
        (Binary::Atan2, libm::atan2, 4.0),
        (Binary::Hypot, libm::hypot, 2.0),
        (Binary::ReluGrad, |a, b| if a <= 0.0 { 0.0 } else { b }, 0.0),
        (Binary::SigmoidGrad, |a, b| a * (1.0 - a) * b, 4.0),
        (Binary::LogSigmoidGrad, |a, b| b / (1.0 + libm::exp(a)), 4.0),
        (Binary::GeluGrad, gelu_grad, 4.0),
    ];
    for &(op, f, ulps) in oracle {
        for &len in LENGTHS {
            let (a, b) = (&a[..len], &b[..len]);
            let (x, y) = (Tensor::from_slice(a, [len]).unwrap(), Tensor::from_slice(b, [len]).unwrap());
            let check = |got: Tensor, a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64, what: &str| {
                for (i, got) in elements::<T>(&got).into_iter().enumerate() {
                    let want = f(a(i), b(i));
                    let got = got.to_f64();
                    let slack = tiny + if op == Binary::GeluGrad { 4.0 * epsilon * b(i).abs() } else { 0.0 };
                    // Remainders are exact where representable, but may wrap around by one divisor.
                    let fine = close(got, want, epsilon, ulps, slack)
                        || op == Binary::Rem && close((got - want).abs(), b(i).abs(), epsilon, 2.0, slack);
                    assert!(fine, "{op:?}({}, {}) of {:?} {what} is {got}, not {want}", a(i), b(i), T::DTYPE);
                }
            };
            let at = |v: &[T]| {
                let v = v.to_vec();
                move |i: usize| v[i].to_f64()
            };
            let (fa, fb) = (at(a), at(b));
            check(binary(op, x.clone(), y.clone()).unwrap(), &fa, &fb, "fresh");
            let left = binary(op, Tensor::from_slice(a, [len]).unwrap(), y.clone()).unwrap();
            check(left, &fa, &fb, "in place on the left");
            let right = binary(op, x.clone(), Tensor::from_slice(b, [len]).unwrap()).unwrap();
            check(right, &fa, &fb, "in place on the right");
            let s = 0.75;
            let c = move |_: usize| s;
            check(binary_scalar(op, x.clone(), s.into()).unwrap(), &fa, &c, "scalar right");
            check(scalar_binary(op, s.into(), y.clone()).unwrap(), &c, &fb, "scalar left");
            check(
                binary_scalar(op, Tensor::from_slice(a, [len]).unwrap(), s.into()).unwrap(),
                &fa,
                &c,
                "scalar right, in place",
            );
            check(
                scalar_binary(op, s.into(), Tensor::from_slice(b, [len]).unwrap()).unwrap(),
                &c,
                &fb,
                "scalar left, in place",
            );
        }
    }
}

fn gelu_grad(x: f64, grad: f64) -> f64 {
    let density = libm::exp(-0.5 * x * x) * 0.398_942_280_401_432_7;
    grad * (0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2) + x * density)
}

#[test]
fn float_functions_of_every_dtype_form_and_length() {
    floats::<f32>();
    floats::<f64>();
    floats::<f16>();
    floats::<bf16>();
}

fn remainders<T: Element + num_traits::Float>() {
    let big = T::from_f64(1e30);
    let values: Vec<T> =
        [0.0, -0.0, 1.0, -1.0, 5.5, -5.5, 3.0, -3.0, 0.1, -0.1, 1e-30, -1e-30, 1e9, 123456789.0]
            .iter()
            .map(|&v| T::from_f64(v))
            .chain([big, T::infinity(), T::neg_infinity(), T::nan()])
            .collect();
    let n = values.len();
    let (c, r) = (Tensor::from_slice(&values, [n, 1]).unwrap(), Tensor::from_slice(&values, [n]).unwrap());
    let got = elements::<T>(&binary(Binary::Rem, c, r).unwrap());
    for (k, got) in got.into_iter().enumerate() {
        let (a, b) = (values[k / n], values[k % n]);
        let f = a % b;
        let want = if f != T::ZERO && (f < T::ZERO) != (b < T::ZERO) { f + b } else { f };
        assert!(got == want || got.is_nan() && want.is_nan(), "{a:?} % {b:?} is {got:?}, not {want:?}");
        if want == T::ZERO {
            assert_eq!(got.is_sign_negative(), want.is_sign_negative(), "{a:?} % {b:?}: the sign of zero");
        }
    }
}

#[test]
fn remainders_at_the_edges_are_those_of_fmod() {
    remainders::<f32>();
    remainders::<f64>();
    // Quotients next to integers, large ones included.
    let n = 40_000;
    let b: Vec<f64> = (0..n).map(|i| 0.1 + (i as f64 * 0.754_877).fract()).collect();
    let a: Vec<f64> =
        (0..n).map(|i| b[i] * (1u64 << (i % 52)) as f64 * if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
    let step = |v: f64, by: i64| f64::from_bits((v.to_bits() as i64 + by) as u64);
    for by in [-1, 0, 1] {
        let a: Vec<f64> = a.iter().map(|&v| step(v, by)).collect();
        let got =
            binary(Binary::Rem, Tensor::from_slice(&a, [n]).unwrap(), Tensor::from_slice(&b, [n]).unwrap());
        for (i, got) in elements::<f64>(&got.unwrap()).into_iter().enumerate() {
            let f = a[i] % b[i];
            let want = if f < 0.0 { f + b[i] } else { f };
            assert_eq!(got, want, "{} % {}", a[i], b[i]);
        }
        let (a32, b32): (Vec<f32>, Vec<f32>) = a.iter().zip(&b).map(|(&a, &b)| (a as f32, b as f32)).unzip();
        let got = binary(
            Binary::Rem,
            Tensor::from_slice(&a32, [n]).unwrap(),
            Tensor::from_slice(&b32, [n]).unwrap(),
        );
        for (i, got) in elements::<f32>(&got.unwrap()).into_iter().enumerate() {
            let f = a32[i] % b32[i];
            let want = if f < 0.0 { f + b32[i] } else { f };
            assert_eq!(got, want, "{} % {}", a32[i], b32[i]);
        }
    }
}

#[test]
fn nan_propagates_and_infinities_follow_ieee() {
    let nan = f32::NAN;
    let t = |v: &[f32]| Tensor::from_slice(v, [v.len()]).unwrap();
    for op in [Binary::Max, Binary::Min] {
        for n in [4, 40] {
            let (mut a, mut b) = (vec![1.0; n], vec![2.0; n]);
            (a[0], b[1], a[2], b[2]) = (nan, nan, nan, nan);
            let got = elements::<f32>(&binary(op, t(&a), t(&b)).unwrap());
            assert!(got[..3].iter().all(|x| x.is_nan()) && !got[3].is_nan(), "{op:?} {got:?}");
            let got = elements::<f32>(&binary_scalar(op, t(&a), Scalar::Float(f64::NAN)).unwrap());
            assert!(got.iter().all(|x| x.is_nan()));
        }
    }
    let got = binary(Binary::ReluGrad, t(&[nan, 0.0, 1.0, 0.0]), t(&[5.0, nan, nan, 7.0])).unwrap();
    let got = elements::<f32>(&got);
    assert!(got[0] == 5.0 && got[1] == 0.0 && got[2].is_nan() && got[3] == 0.0);
    let got = elements::<f32>(&binary(Binary::Div, t(&[1.0, -1.0, 0.0]), t(&[0.0; 3])).unwrap());
    assert!(got[0] == f32::INFINITY && got[1] == f32::NEG_INFINITY && got[2].is_nan());
}

#[test]
fn scalars_keep_their_precision() {
    // f16 cannot hold 1e5, and rounds 0.1 by 2.4e-5; f32 can.
    let t = Tensor::from_slice(&[f16::from_f64(2.0), f16::from_f64(1000.0)], [2]).unwrap();
    let got = elements::<f16>(&binary_scalar(Binary::Div, t.clone(), Scalar::Float(1e5)).unwrap());
    assert_eq!(got, [f16::from_f64(2e-5), f16::from_f64(0.01)]);
    let got = elements::<f16>(&binary_scalar(Binary::Mul, t, Scalar::Float(0.1)).unwrap());
    assert_eq!(got, [f16::from_f64(0.2), f16::from_f64(100.0)]);
    let t = Tensor::from_slice(&[1u64, 0], [2]).unwrap();
    let got = binary_scalar(Binary::Sub, t.clone(), Scalar::UInt(u64::MAX)).unwrap();
    assert_eq!(elements::<u64>(&got), [2, 1]);
    let got = binary_scalar(Binary::Max, t, Scalar::UInt(u64::MAX - 1)).unwrap();
    assert_eq!(elements::<u64>(&got), [u64::MAX - 1; 2]);
    let t = Tensor::from_slice(&[2f64, -3.0], [2]).unwrap();
    for (e, want) in [(1.0, [2.0, -3.0]), (2.0, [4.0, 9.0]), (3.0, [8.0, -27.0]), (-1.0, [0.5, 1.0 / -3.0])] {
        let got = elements::<f64>(&binary_scalar(Binary::Pow, t.clone(), Scalar::Float(e)).unwrap());
        assert_eq!(got, want, "to the power {e}");
    }
    let got = elements::<f64>(&binary_scalar(Binary::Pow, t, Scalar::Int(0)).unwrap());
    assert_eq!(got, [1.0, 1.0]);
}

#[test]
fn clamps_saturate_their_bounds() {
    let (int, float) = (Scalar::Int, Scalar::Float);
    let t = Tensor::from_slice(&[-128i8, -1, 0, 127], [4]).unwrap();
    let run = |lo: Option<Scalar>, hi: Option<Scalar>| elements::<i8>(&clamp(t.clone(), lo, hi).unwrap());
    assert_eq!(run(Some(int(300)), None), [127; 4]);
    assert_eq!(run(Some(int(-300)), Some(int(300))), [-128, -1, 0, 127]);
    assert_eq!(run(None, Some(int(-1))), [-128, -1, -1, -1]);
    assert_eq!(run(Some(int(5)), Some(int(2))), [2; 4]);
    assert_eq!(run(None, None), [-128, -1, 0, 127]);
    let t = Tensor::from_slice(&[0u64, u64::MAX], [2]).unwrap();
    let got = clamp(t.clone(), Some(int(-5)), Some(Scalar::UInt(u64::MAX - 1))).unwrap();
    assert_eq!(elements::<u64>(&got), [0, u64::MAX - 1]);
    assert!(clamp(t, Some(float(f64::NAN)), None).unwrap_err().to_string().starts_with("clamp: bound"));
    fn of<T: Element>() {
        let t: Vec<T> = [-9.0, 0.5, f64::NAN, f64::INFINITY, 9.0].iter().map(|&v| T::from_f64(v)).collect();
        let t = Tensor::from_slice(&t, [5]).unwrap();
        let got: Vec<f64> =
            elements::<T>(&clamp(t.clone(), Some(Scalar::Float(-1.0)), Some(Scalar::Float(2.0))).unwrap())
                .iter()
                .map(|x| x.to_f64())
                .collect();
        assert!(
            got[0] == -1.0 && got[1] == 0.5 && got[2].is_nan() && got[3] == 2.0 && got[4] == 2.0,
            "{got:?}"
        );
        let got = elements::<T>(&clamp(t.clone(), None, Some(Scalar::Float(2.0))).unwrap());
        assert!(got[0].to_f64() == -9.0 && got[2].to_f64().is_nan() && got[3].to_f64() == 2.0);
        let got = elements::<T>(&clamp(t, Some(Scalar::Float(f64::NAN)), None).unwrap());
        assert!(got.iter().all(|x| x.to_f64().is_nan()));
    }
    of::<f32>();
    of::<f64>();
    of::<f16>();
    of::<bf16>();
    let bools = Tensor::from_bools(&[true], [1]).unwrap();
    assert!(clamp(bools, None, None).unwrap_err().to_string().starts_with("clamp: dtype"));
}

#[test]
fn bad_operands_are_refused_by_name() {
    let f = Tensor::from_slice(&[1f32, 2.0], [2]).unwrap();
    let i = Tensor::from_slice(&[1i32, 2], [2]).unwrap();
    let b = Tensor::from_bools(&[true, false], [2]).unwrap();
    let three = Tensor::from_slice(&[1f32; 3], [3]).unwrap();
    let starts = |r: crate::Result<Tensor>, want: &str| {
        let e = r.unwrap_err().to_string();
        assert!(e.starts_with(want), "{e}");
    };
    starts(binary(Binary::Add, f.clone(), i.clone()), "add: operands have dtypes f32 and i32");
    starts(binary(Binary::Mul, f.clone(), three), "mul: shapes [2] and [3]");
    starts(binary(Binary::BitAnd, f.clone(), f.clone()), "bitwise_and: dtype f32");
    starts(binary(Binary::Shr, f.clone(), f.clone()), "bitwise_right_shift: dtype f32");
    starts(binary(Binary::Atan2, i.clone(), i.clone()), "atan2: dtype i32");
    starts(binary(Binary::Add, b.clone(), b.clone()), "add: dtype bool");
    starts(binary(Binary::BitXor, b.clone(), b.clone()), "bitwise_xor: dtype bool");
    starts(binary_scalar(Binary::Add, b.clone(), Scalar::Int(1)), "add: dtype bool");
    starts(binary_scalar(Binary::Pow, b.clone(), Scalar::Int(1)), "pow: dtype bool");
    starts(scalar_binary(Binary::GeluGrad, Scalar::Int(1), i), "gelu_backward: dtype i32");
    starts(mask_where(f.clone(), f.clone(), f.clone()), "mask_where: dtype f32");
    starts(
        mask_fill(
            f,
            b.clone().reshape([1, 2]).unwrap().expand(&[2, 2]).unwrap().narrow(1, 0, 1).unwrap(),
            Scalar::Int(0),
        )
        .map(|_| b)
        .and_then(|b| binary(Binary::Max, b.clone(), b)),
        "max_pair: dtype bool",
    );
}
