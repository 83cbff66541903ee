//! Comparisons, connectives and predicates.

use super::super::*;
use super::*;
use crate::{BoolStore, Scalar, bf16, f16};

const ALL: &[Compare] = &[Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

fn holds<T: PartialOrd>(op: Compare, a: &T, b: &T) -> bool {
    match op {
        Compare::Eq => a == b,
        Compare::Ne => a != b,
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        Compare::Ge => a >= b,
    }
}

fn pairs<T: Element>(values: &[T]) {
    let n = values.len();
    let (c, r) = (Tensor::from_slice(values, [n, 1]).unwrap(), Tensor::from_slice(values, [n]).unwrap());
    for &op in ALL {
        let got = compare(op, c.clone(), r.clone(), BoolStore::Native).unwrap();
        assert_eq!(got.dtype(), DType::Bool(BoolStore::Native));
        for (k, got) in elements::<u8>(&got).into_iter().enumerate() {
            let (a, b) = (&values[k / n], &values[k % n]);
            assert_eq!(got, holds(op, a, b) as u8, "{a:?} {op:?} {b:?}");
        }
        // Long runs, equal layouts, unique operands.
        for &len in LENGTHS {
            let a: Vec<T> = (0..len).map(|i| values[i % n]).collect();
            let b: Vec<T> = (0..len).map(|i| values[i * 5 % n]).collect();
            let want: Vec<u8> = a.iter().zip(&b).map(|(a, b)| holds(op, a, b) as u8).collect();
            let (a, b) = (Tensor::from_slice(&a, [len]).unwrap(), Tensor::from_slice(&b, [len]).unwrap());
            assert_eq!(elements::<u8>(&compare(op, a, b, BoolStore::U8).unwrap()), want);
        }
    }
}

#[test]
fn every_dtype() {
    let floats = [0.0, -0.0, 1.0, -1.0, 2.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    pairs::<f64>(&floats);
    pairs::<f32>(&floats.map(|v| v as f32));
    pairs::<f16>(&floats.map(f16::from_f64));
    pairs::<bf16>(&floats.map(bf16::from_f64));
    pairs::<i8>(&[0, 1, -1, i8::MIN, i8::MAX]);
    pairs::<i16>(&[0, 1, -1, i16::MIN, i16::MAX]);
    pairs::<i32>(&[0, 1, -1, i32::MIN, i32::MAX]);
    pairs::<i64>(&[0, 1, -1, i64::MIN, i64::MAX]);
    pairs::<u8>(&[0, 1, 128, u8::MAX]);
    pairs::<u16>(&[0, 1, 1 << 15, u16::MAX]);
    pairs::<u32>(&[0, 1, 1 << 31, u32::MAX]);
    pairs::<u64>(&[0, 1, 1 << 63, u64::MAX]);
}

/// Halves compare by their bits: every bit pattern against the patterns where results change, compared with
/// the `half` crate.
#[test]
fn every_half() {
    fn against<T: Element + num_traits::Float>(from: fn(u16) -> T, infinity: u16) {
        let all: Vec<T> = (0..=u16::MAX).map(from).collect();
        let t = Tensor::from_slice(&all, [256, 256]).unwrap();
        let magnitudes =
            [0, 1, 2, 0x3ff, 0x400, 0x3c00, infinity - 1, infinity, infinity + 1, 0x7e00, 0x7fff];
        for other in magnitudes.iter().flat_map(|bits| [from(*bits), from(bits | 0x8000)]) {
            for &op in ALL {
                let want: Vec<u8> = all.iter().map(|a| holds(op, a, &other) as u8).collect();
                let o = Tensor::from_slice(&[other], [1]).unwrap();
                assert_eq!(elements::<u8>(&compare(op, t.clone(), o, BoolStore::Native).unwrap()), want);
                let number = Scalar::Float(Element::to_f64(other));
                assert_eq!(
                    elements::<u8>(&compare_scalar(op, t.clone(), number, BoolStore::Native).unwrap()),
                    want
                );
            }
        }
        let nan: Vec<u8> = all.iter().map(|x| x.is_nan() as u8).collect();
        assert_eq!(elements::<u8>(&is_nan(t.clone(), BoolStore::Native).unwrap()), nan);
        let infinite: Vec<u8> = all.iter().map(|x| x.is_infinite() as u8).collect();
        assert_eq!(elements::<u8>(&is_inf(t, BoolStore::Native).unwrap()), infinite);
    }
    against::<f16>(f16::from_bits, 0x7c00);
    against::<bf16>(bf16::from_bits, 0x7f80);
}

#[test]
fn booleans_compare_however_they_are_stored() {
    let stored = |values: &[u8], store: BoolStore| {
        Tensor::from_slice(values, [4]).unwrap().with_dtype(DType::Bool(store))
    };
    for (left, right) in [(BoolStore::Native, BoolStore::U8), (BoolStore::U8, BoolStore::Native)] {
        let (a, b) = (stored(&[0, 0, 1, 1], left), stored(&[0, 1, 0, 1], right));
        let equal = compare(Compare::Eq, a.clone(), b.clone(), left).unwrap();
        assert_eq!(elements::<u8>(&equal), [1, 0, 0, 1]);
        assert_eq!(elements::<u8>(&compare(Compare::Ne, a.clone(), b, left).unwrap()), [0, 1, 1, 0]);
        let bytes = Tensor::from_slice(&[0u8, 1, 0, 1], [4]).unwrap();
        assert!(compare(Compare::Eq, a, bytes, left).is_err(), "bytes are not booleans");
    }
}

#[test]
fn scalars_compare_as_numbers() {
    fn against<T: Element>(values: &[T], number: fn(T) -> f64) {
        let t = Tensor::from_slice(values, [values.len()]).unwrap();
        let scalars = [
            -1e30,
            -300.0,
            -129.0,
            -128.5,
            -128.0,
            -1.5,
            -1.0,
            -0.5,
            0.0,
            0.5,
            1.0,
            2.5,
            127.0,
            127.5,
            128.0,
            255.0,
            255.5,
            256.0,
            300.0,
            1e30,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        for s in scalars {
            for &op in ALL {
                let got =
                    elements::<u8>(&compare_scalar(op, t.clone(), s.into(), BoolStore::Native).unwrap());
                for (x, got) in values.iter().zip(got) {
                    assert_eq!(got, holds(op, &number(*x), &s) as u8, "{x:?} {op:?} {s}");
                }
                if s.fract() == 0.0 && s.abs() < 1e18 {
                    let whole = Scalar::Int(s as i64);
                    let got =
                        elements::<u8>(&compare_scalar(op, t.clone(), whole, BoolStore::Native).unwrap());
                    for (x, got) in values.iter().zip(got) {
                        assert_eq!(got, holds(op, &number(*x), &s) as u8, "{x:?} {op:?} {s} as integer");
                    }
                }
            }
        }
    }
    against::<i8>(&[-128, -2, -1, 0, 1, 2, 3, 127], |x| x as f64);
    against::<u8>(&[0, 1, 2, 3, 127, 128, 255], |x| x as f64);
    against::<i32>(&[-129, -128, -1, 0, 1, 2, 3, 300, i32::MIN, i32::MAX], |x| x as f64);
    against::<u64>(&[0, 1, 2, 3, 300, 1 << 40], |x| x as f64);
    against::<f32>(&[-1.5, 0.0, 2.5, 128.0, f32::MAX, f32::INFINITY, f32::NAN], |x| x as f64);
    let halves = [f64::NEG_INFINITY, -1.5, 0.0, 2.5, 65504.0, f64::INFINITY, f64::NAN].map(f16::from_f64);
    against::<f16>(&halves, |x| x.to_f64());
    let big = Tensor::from_slice(&[i64::MAX as u64, u64::MAX, 0], [3]).unwrap();
    let run = |op, s| elements::<u8>(&compare_scalar(op, big.clone(), s, BoolStore::Native).unwrap());
    assert_eq!(run(Compare::Eq, Scalar::UInt(u64::MAX)), [0, 1, 0]);
    assert_eq!(run(Compare::Gt, Scalar::Int(i64::MAX)), [0, 1, 0]);
    assert_eq!(run(Compare::Gt, Scalar::Int(-1)), [1, 1, 1]);
    assert_eq!(run(Compare::Lt, Scalar::Float(18446744073709551616.0)), [1, 1, 1]);
    // 2^53 + 1 is no f64, yet integers compare exactly.
    let odd = Tensor::from_slice(&[(1i64 << 53) + 1], [1]).unwrap();
    let got =
        compare_scalar(Compare::Gt, odd, Scalar::Float((1u64 << 53) as f64), BoolStore::Native).unwrap();
    assert_eq!(elements::<u8>(&got), [1]);
    // A tensor's 0.1 equals the number 0.1.
    for t in [Tensor::full([1], 0.1, DType::F32), Tensor::full([1], 0.1, DType::F16)] {
        let got = compare_scalar(Compare::Eq, t.unwrap(), Scalar::Float(0.1), BoolStore::Native).unwrap();
        assert_eq!(elements::<u8>(&got), [1]);
    }
    let flags = Tensor::from_bools(&[true, false], [2]).unwrap();
    let got = compare_scalar(Compare::Eq, flags, Scalar::Bool(true), BoolStore::Native).unwrap();
    assert_eq!(elements::<u8>(&got), [1, 0]);
}

#[test]
fn every_layout() {
    for (what, t) in views(small::<f32>) {
        let row = small::<f32>(5);
        let want: Vec<u8> = elements::<f32>(&t)
            .iter()
            .zip(broadcast::<f32>(&row, &[3, 4, 5]))
            .map(|(a, b)| (*a >= b) as u8)
            .collect();
        assert_eq!(elements::<u8>(&compare(Compare::Ge, t, row, BoolStore::Native).unwrap()), want, "{what}");
    }
}

#[test]
fn connectives() {
    let (a, b) = ([0u8, 0, 1, 1], [0u8, 1, 0, 1]);
    let of = |v: [u8; 4], dtype| cast(Tensor::from_slice(&v, [4]).unwrap(), dtype).unwrap();
    let (native, bytes) = (DType::Bool(BoolStore::Native), DType::Bool(BoolStore::U8));
    for (op, f) in [
        (Logical::And, (|a, b| a & b) as fn(u8, u8) -> u8),
        (Logical::Or, |a, b| a | b),
        (Logical::Xor, |a, b| a ^ b),
    ] {
        let got = logical(op, of(a, native), of(b, bytes)).unwrap();
        assert_eq!(got.dtype(), native);
        let want: Vec<u8> = a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect();
        assert_eq!(elements::<u8>(&got), want);
    }
    assert_eq!(elements::<u8>(&logical_not(of(a, bytes)).unwrap()), [1, 1, 0, 0]);
    let err = logical(Logical::And, of(a, native), of(b, DType::U8)).unwrap_err().to_string();
    assert!(err.starts_with("logical_and: dtype u8"), "{err}");
    assert!(logical_not(of(a, DType::U8)).unwrap_err().to_string().starts_with("logical_not"));
}

#[test]
fn predicates() {
    fn of<T: Element>() {
        let v = [0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0].map(T::from_f64);
        let t = Tensor::from_slice(&v, [2, 3]).unwrap();
        assert_eq!(elements::<u8>(&is_nan(t.clone(), BoolStore::Native).unwrap()), [0, 0, 1, 0, 0, 0]);
        assert_eq!(elements::<u8>(&is_inf(t.clone(), BoolStore::U8).unwrap()), [0, 0, 0, 1, 1, 0]);
        let turned = t.swap_axes(0, 1).unwrap();
        assert_eq!(elements::<u8>(&is_nan(turned, BoolStore::Native).unwrap()), [0, 0, 0, 0, 1, 0]);
    }
    of::<f32>();
    of::<f64>();
    of::<f16>();
    of::<bf16>();
    let ints = Tensor::from_slice(&[1i32], [1]).unwrap();
    assert!(is_nan(ints, BoolStore::Native).unwrap_err().to_string().starts_with("is_nan: dtype i32"));
    let floats = Tensor::from_slice(&[1f32], [1]).unwrap();
    let half = Tensor::from_slice(&[f16::ONE], [1]).unwrap();
    let err = compare(Compare::Lt, floats, half, BoolStore::Native).unwrap_err().to_string();
    assert!(err.starts_with("lower: operands have dtypes"), "{err}");
}
