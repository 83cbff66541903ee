//! Conversions between all pairs of dtypes.

use super::super::*;
use super::*;
use crate::{BoolStore, bf16, f16};

/// Converts by way of the widest type that holds the source exactly, with the rules of `as`.
fn check<S: Element, D: Element>(values: &[S]) {
    let unsigned = !S::IS_FLOAT && S::bounds().0 == S::ZERO;
    for &len in &[values.len(), 1, 600] {
        let input: Vec<S> = (0..len).map(|i| values[i % values.len()]).collect();
        let t = Tensor::from_slice(&input, [len]).unwrap();
        let got = cast(t.clone(), D::DTYPE).unwrap();
        let reused = cast(t, D::DTYPE).unwrap();
        assert_eq!(got.dtype(), D::DTYPE);
        for ((x, got), reused) in input.iter().zip(elements::<D>(&got)).zip(elements::<D>(&reused)) {
            let want = if S::IS_FLOAT {
                D::from_f64(x.to_f64())
            } else if D::DTYPE.size() == 2 && D::IS_FLOAT {
                continue; // Rounded once; see below.
            } else if unsigned {
                D::from_u64(x.to_i64() as u64)
            } else {
                D::from_i64(x.to_i64())
            };
            let same = |a: D, b: D| a == b || a.to_f64().is_nan() && b.to_f64().is_nan();
            assert!(same(got, want), "{x:?} as {:?} is {got:?}, not {want:?}", D::DTYPE);
            assert!(same(got, reused));
        }
    }
}

fn to_all<S: Element>(values: &[S]) {
    check::<S, f64>(values);
    check::<S, f32>(values);
    check::<S, f16>(values);
    check::<S, bf16>(values);
    check::<S, i64>(values);
    check::<S, i32>(values);
    check::<S, i16>(values);
    check::<S, i8>(values);
    check::<S, u64>(values);
    check::<S, u32>(values);
    check::<S, u16>(values);
    check::<S, u8>(values);
    let t = Tensor::from_slice(values, [values.len()]).unwrap();
    for store in [BoolStore::Native, BoolStore::U8] {
        let got = cast(t.clone(), DType::Bool(store)).unwrap();
        let want: Vec<u8> = values.iter().map(|v| (*v != S::ZERO) as u8).collect();
        assert_eq!((got.dtype(), elements::<u8>(&got)), (DType::Bool(store), want));
    }
}

#[test]
fn every_pair() {
    let floats = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.9,
        127.5,
        128.0,
        255.9,
        256.0,
        -129.0,
        65504.0,
        65519.9,
        65520.0,
        1e5,
        3e9,
        -3e9,
        1e19,
        -1e19,
        1e30,
        1e300,
        1e-7,
        3e-8,
        1e-300,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1.0 / 3.0,
    ];
    to_all::<f64>(&floats);
    to_all::<f32>(&floats.map(|v| v as f32));
    to_all::<f16>(&floats.map(f16::from_f64));
    to_all::<bf16>(&floats.map(bf16::from_f64));
    to_all::<i8>(&[0, 1, -1, 100, i8::MIN, i8::MAX]);
    to_all::<i16>(&[0, 1, -1, 1000, i16::MIN, i16::MAX]);
    to_all::<i32>(&[0, 1, -1, 100_000, (1 << 24) + 1, i32::MIN, i32::MAX]);
    to_all::<i64>(&[0, 1, -1, 1 << 40, (1 << 53) + 1, i64::MIN, i64::MAX]);
    to_all::<u8>(&[0, 1, 200, u8::MAX]);
    to_all::<u16>(&[0, 1, 40_000, u16::MAX]);
    to_all::<u32>(&[0, 1, 3_000_000_000, u32::MAX]);
    to_all::<u64>(&[0, 1, 1 << 63, u64::MAX]);
}

/// The nearest half, ties to even, found by trying all of them.
fn nearest<H: Element>(x: i128, all: impl Iterator<Item = H>) -> H {
    // Halves are multiples of 2^-133, but integers up to 2^127 are enough for the values tested here.
    let mut best: Option<(i128, u16, H)> = None;
    for h in all {
        let v = h.to_f64();
        if !v.is_finite() || v.abs() > 1e37 || v.fract() != 0.0 {
            continue;
        }
        let distance = (v as i128 - x).abs();
        let bits: u16 = bytemuck::cast_slice(core::slice::from_ref(&h))[0];
        let closer = best
            .as_ref()
            .is_none_or(|(d, b, _)| distance < *d || distance == *d && bits.is_multiple_of(2) && b % 2 == 1);
        if closer {
            best = Some((distance, bits, h));
        }
    }
    best.unwrap().2
}

#[test]
fn integers_round_to_halves_once() {
    // Next to ties of bf16 and f16: rounding to f32 or f64 first would reach the tie.
    let mut values = vec![];
    for base in
        [257i64, 1025, 4097, (1 << 24) + (1 << 16), (1 << 30) + (1 << 22), (1 << 60) + (1 << 52), (257 << 53)]
    {
        values.extend([base - 1, base, base + 1]);
    }
    values.extend([(1 << 61) + (1 << 53) + 1, (1 << 61) + (1 << 53) - 1, (1 << 61) + (1 << 53)]);
    let t = Tensor::from_slice(&values, [values.len()]).unwrap();
    let got = elements::<bf16>(&cast(t.clone(), DType::BF16).unwrap());
    for (x, got) in values.iter().zip(got) {
        assert_eq!(got, nearest(*x as i128, (0..=u16::MAX).map(bf16::from_bits)), "{x}");
    }
    let small: Vec<i64> = values.iter().copied().filter(|v| v.abs() < 60_000).collect();
    let t = Tensor::from_slice(&small, [small.len()]).unwrap();
    let got = elements::<f16>(&cast(t, DType::F16).unwrap());
    for (x, got) in small.iter().zip(got) {
        assert_eq!(got, nearest(*x as i128, (0..=u16::MAX).map(f16::from_bits)), "{x}");
    }
    let unsigned: Vec<u64> = values.iter().map(|&v| v as u64).collect();
    let t = Tensor::from_slice(&unsigned, [unsigned.len()]).unwrap();
    let got = elements::<bf16>(&cast(t, DType::BF16).unwrap());
    for (x, got) in values.iter().zip(got) {
        assert_eq!(got, nearest(*x as i128, (0..=u16::MAX).map(bf16::from_bits)), "{x}");
    }
    let huge = Tensor::from_slice(&[i64::MIN, i64::MAX, 65519, 65520], [4]).unwrap();
    let got = elements::<f16>(&cast(huge, DType::F16).unwrap());
    assert_eq!(got, [f16::NEG_INFINITY, f16::INFINITY, f16::MAX, f16::INFINITY]);
}

#[test]
fn f64_rounds_to_halves_once() {
    // 1 + 2^-11 is a tie of f16; a small difference, which f32 loses, decides the rounding.
    let tie = 1.0 + 2f64.powi(-11);
    let values =
        [tie, tie + 2f64.powi(-40), tie - 2f64.powi(-40), -tie - 2f64.powi(-40), tie + 2f64.powi(-52)];
    let t = Tensor::from_slice(&values, [5]).unwrap();
    let got = elements::<f16>(&cast(t, DType::F16).unwrap());
    let up = f16::from_bits(f16::ONE.to_bits() + 1);
    assert_eq!(got, [f16::ONE, up, f16::ONE, -up, up]);
    let tie = 1.0 + 2f64.powi(-8);
    let values = [tie, tie + 2f64.powi(-40), tie - 2f64.powi(-40)];
    let t = Tensor::from_slice(&values, [3]).unwrap();
    let got = elements::<bf16>(&cast(t, DType::BF16).unwrap());
    assert_eq!(got, [bf16::ONE, bf16::from_bits(bf16::ONE.to_bits() + 1), bf16::ONE]);
}

#[test]
fn the_same_bits_are_not_copied() {
    let t = Tensor::from_slice(&[1i32, -1], [2]).unwrap();
    let at = t.storage::<u32>().as_ptr();
    let t = cast(cast(t, DType::I32).unwrap(), DType::U32).unwrap();
    assert_eq!((t.storage::<u32>().as_ptr(), t.to_vec::<u32>()), (at, vec![1, u32::MAX]));
    // The same width, so in place.
    let t = cast(t, DType::F32).unwrap();
    assert_eq!((t.storage::<u32>().as_ptr(), t.to_vec::<f32>()), (at, vec![1.0, 4294967295.0]));
    let flags = Tensor::from_bools(&[true, false], [2]).unwrap();
    let shared = flags.clone();
    for dtype in [DType::Bool(BoolStore::U8), DType::U8, DType::I8] {
        let got = cast(flags.clone(), dtype).unwrap();
        assert!(got.shares_storage(&shared) && got.dtype() == dtype);
    }
    assert_eq!(cast(flags.clone(), DType::F16).unwrap().to_vec::<f16>(), [f16::ONE, f16::ZERO]);
    assert_eq!(cast(flags.clone(), DType::I64).unwrap().to_vec::<i64>(), [1, 0]);
    // Bytes that are not booleans yet have to be converted.
    let bytes = Tensor::from_slice(&[0u8, 7], [2]).unwrap();
    assert_eq!(cast(bytes, DType::Bool(BoolStore::Native)).unwrap().to_vec::<u8>(), [0, 1]);
}

#[test]
fn every_layout() {
    for (what, t) in views(small::<f32>) {
        let want: Vec<i64> = elements::<f32>(&t).iter().map(|&x| x as i64).collect();
        let got = cast(t.clone(), DType::I64).unwrap();
        assert_eq!(elements::<i64>(&got), want, "{what}");
        if t.layout().is_dense() {
            assert_eq!(got.layout().strides(), t.layout().strides(), "{what}");
        }
    }
}
