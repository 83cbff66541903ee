//! Functions of one element against libm in f64.

use super::super::*;
use super::*;
use crate::{Error, Scalar, bf16, f16};
use num_traits::Float as _;

/// The operations that take floats.
fn float_functions() -> impl Iterator<Item = Unary> {
    Unary::ALL.iter().copied().filter(|&op| op != Unary::BitNot)
}

fn check<T: Element>(op: Unary, values: &[f64]) {
    let input: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
    let tensor = Tensor::from_slice(&input, [input.len()]).unwrap();
    let (epsilon, tiny) = precision(T::DTYPE);
    // The reference rounds the argument of erfc, and erfc magnifies the error: for f64, the reference is the
    // less accurate one.
    let magnified = op == Unary::Gelu && T::DTYPE == DType::F64;
    let shared = tensor.clone();
    let fresh = unary(op, shared).unwrap();
    let bits = |values: &[T]| bytemuck::cast_slice::<T, u8>(values).to_vec();
    assert_eq!(bits(&elements::<T>(&tensor)), bits(&input), "the shared input was written");
    let at = tensor.storage::<T>().as_ptr();
    let reused = unary(op, tensor).unwrap();
    assert!(input.is_empty() || reused.storage::<T>().as_ptr() == at);
    assert_eq!(reused.dtype(), T::DTYPE);
    for ((x, got), again) in input.iter().zip(elements::<T>(&fresh)).zip(elements::<T>(&reused)) {
        let (x, got, again) = (x.to_f64(), got.to_f64(), again.to_f64());
        // The reference is rounded to the dtype, so that overflow to infinity is expected where it is right.
        let want = op.reference()(x);
        let ulps = if magnified { 5.0 + x * x } else { 5.0 };
        let want = if T::from_f64(want).to_f64().is_infinite() { T::from_f64(want).to_f64() } else { want };
        assert!(
            close(got, want, epsilon, ulps, 2.0 * tiny),
            "{op:?}({x}) of {:?} is {got}, not {want}",
            T::DTYPE
        );
        assert!(got == again || got.is_nan() && again.is_nan(), "{op:?}({x}): in place {again}, fresh {got}");
        if want == 0.0
            && got == 0.0
            && matches!(op, Unary::Neg | Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round)
        {
            assert_eq!(got.is_sign_negative(), want.is_sign_negative(), "{op:?}({x}): the sign of zero");
        }
    }
}

#[test]
fn float_functions_of_every_dtype_and_length() {
    for op in float_functions() {
        for &n in LENGTHS {
            let values: Vec<f64> = (0..n).map(|i| (i as f64 * 0.618).fract() * 8.0 - 4.0).collect();
            check::<f32>(op, &values);
            if n < 100 || n == 1025 {
                check::<f64>(op, &values);
                check::<f16>(op, &values);
                check::<bf16>(op, &values);
            }
        }
    }
}

#[test]
fn special_values() {
    let values = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        1.5,
        -1.5,
        2.5,
        -2.5,
        1e-7,
        -1e-7,
        1e-3,
        30.0,
        -30.0,
        100.0,
        -100.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for op in float_functions() {
        let values: Vec<f64> =
            values.iter().copied().filter(|&v| !(op == Unary::Gelu && v == f64::NEG_INFINITY)).collect();
        check::<f32>(op, &values);
        check::<f64>(op, &values);
    }
    // The limit at infinity, where the formula gives infinity times zero.
    let t = Tensor::from_slice(&[f32::NEG_INFINITY], [1]).unwrap();
    assert_eq!(unary(Unary::Gelu, t).unwrap().item::<f32>(), 0.0);
}

#[test]
fn integers_wrap() {
    fn ints<T: Element>() {
        let (min, max) = T::bounds();
        let values = [min, T::ZERO, T::ONE, max, T::from_i64(5), T::from_i64(-5)];
        let t = Tensor::from_slice(&values, [6]).unwrap();
        let unsigned = min == T::ZERO;
        // Results wrap to the width: they are the low bits of the exact results.
        for (op, f) in [
            (Unary::Abs, (|x| if x < 0 { -x } else { x }) as fn(i128) -> i128),
            (Unary::Neg, |x| -x),
            (Unary::Sign, i128::signum),
            (Unary::BitNot, |x| !x),
        ] {
            let got = elements::<T>(&unary(op, t.clone()).unwrap());
            for (x, got) in values.iter().zip(got) {
                let exact = if unsigned { x.to_i64() as u64 as i128 } else { x.to_i64() as i128 };
                assert_eq!(got, T::from_i64(f(exact) as i64), "{op:?}({x:?}) of {:?}", T::DTYPE);
            }
        }
    }
    ints::<i8>();
    ints::<i16>();
    ints::<i32>();
    ints::<i64>();
    ints::<u8>();
    ints::<u16>();
    ints::<u32>();
    ints::<u64>();
}

/// Functions that compute on the bits of halves: every pattern against the same function in f64, and the sign
/// of zeros and of NaN where the function defines it.
#[test]
fn every_half_is_selected() {
    fn against<T: Element + num_traits::Float>(from: fn(u16) -> T) {
        let all: Vec<T> = (0..=u16::MAX).map(from).collect();
        let t = Tensor::from_slice(&all, [256, 256]).unwrap();
        let check = |what: &str, got: Tensor, want: &dyn Fn(f64) -> f64| {
            for (x, got) in all.iter().zip(elements::<T>(&got)) {
                let (x, got) = (Element::to_f64(*x), Element::to_f64(got));
                let want = want(x);
                assert!(got == want || got.is_nan() && want.is_nan(), "{what}({x}) = {got}, not {want}");
                if what == "abs" || what == "neg" {
                    assert_eq!(got.is_sign_negative(), want.is_sign_negative(), "the sign of {what}({x})");
                }
            }
        };
        check("abs", unary(Unary::Abs, t.clone()).unwrap(), &|x| x.abs());
        check("neg", unary(Unary::Neg, t.clone()).unwrap(), &|x| -x);
        check("relu", unary(Unary::Relu, t.clone()).unwrap(), &|x| if x < 0.0 { 0.0 } else { x });
        for [low, high] in [[-2.5, 96.0], [0.0, 0.0], [3.0, -1.0], [f64::NEG_INFINITY, -0.125]] {
            let got = clamp(t.clone(), Some(Scalar::Float(low)), Some(Scalar::Float(high))).unwrap();
            // The upper bound wins, and NaN stays.
            check("clamp", got, &|x| if x.is_nan() { x } else { x.max(low).min(high) });
        }
    }
    against::<f16>(f16::from_bits);
    against::<bf16>(bf16::from_bits);
}

#[test]
fn every_layout() {
    for (what, t) in views(small::<f32>) {
        for op in [Unary::Exp, Unary::Abs, Unary::Floor] {
            let want: Vec<f32> =
                elements::<f32>(&t).iter().map(|&x| op.reference()(x as f64) as f32).collect();
            let got = unary(op, t.clone()).unwrap();
            assert_eq!(got.shape(), t.shape());
            for (got, want) in elements::<f32>(&got).iter().zip(want) {
                assert!((got - want).abs() <= 1e-6 * want.abs(), "{op:?} {what}: {got} {want}");
            }
        }
    }
    for (what, t) in views(small::<i64>) {
        let want: Vec<i64> = elements::<i64>(&t).iter().map(|x| -x).collect();
        assert_eq!(elements::<i64>(&unary(Unary::Neg, t).unwrap()), want, "{what}");
    }
    for (what, t) in views(small::<f16>) {
        let want: Vec<f16> = elements::<f16>(&t).iter().map(|x| x.exp()).collect();
        let got = elements::<f16>(&unary(Unary::Exp, t).unwrap());
        for (got, want) in got.iter().zip(want) {
            assert!(close(got.to_f64(), want.to_f64(), 2f64.powi(-10), 1.0, 0.0), "{what}: {got} {want}");
        }
    }
}

#[test]
fn the_wrong_dtype_is_refused_by_name() {
    let ints = Tensor::from_slice(&[1i32], [1]).unwrap();
    let bools = Tensor::from_bools(&[true], [1]).unwrap();
    let floats = Tensor::from_slice(&[1f32], [1]).unwrap();
    let is = |r: crate::Result<Tensor>, op: &str| {
        let e = r.unwrap_err();
        assert!(matches!(e, Error::DType { .. }) && e.to_string().starts_with(op), "{e}");
    };
    is(unary(Unary::Exp, ints.clone()), "exp: dtype i32");
    is(unary(Unary::Relu, ints), "relu");
    is(unary(Unary::Abs, bools.clone()), "abs");
    is(unary(Unary::Neg, bools.clone()), "neg");
    is(unary(Unary::BitNot, bools), "bitwise_not");
    is(unary(Unary::BitNot, floats), "bitwise_not");
}

#[test]
fn parametrised_activations() {
    let values = [-3.0f32, -0.5, -0.0, 0.0, 0.25, 4.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let t = Tensor::from_slice(&values, [9]).unwrap();
    let same = |got: Tensor, f: fn(f32) -> f32| {
        for (x, got) in values.iter().zip(elements::<f32>(&got)) {
            assert!(got == f(*x) || got.is_nan() && x.is_nan(), "f({x}) = {got}");
        }
    };
    same(leaky_relu(t.clone(), 0.1).unwrap(), |x| if x < 0.0 { x * 0.1 } else { x });
    same(hard_sigmoid(t.clone(), 0.2, 0.5).unwrap(), |x| (x * 0.2 + 0.5).clamp(0.0, 1.0));
    let slope = Tensor::from_slice(&[0.5f32], [1]).unwrap();
    same(prelu(t.clone(), slope.clone()).unwrap(), |x| if x < 0.0 { x * 0.5 } else { x });
    let image = small::<f32>(24).reshape([2, 3, 4]).unwrap();
    let slopes = Tensor::from_slice(&[1.0f32, 10.0, 100.0], [1, 3, 1]).unwrap();
    let got = elements::<f32>(&prelu(image.clone(), slopes).unwrap());
    for (i, (x, got)) in elements::<f32>(&image).iter().zip(got).enumerate() {
        assert_eq!(got, if *x < 0.0 { x * [1.0, 10.0, 100.0][i / 4 % 3] } else { *x });
    }
    let err = prelu(slope, image).unwrap_err().to_string();
    assert!(err.starts_with("prelu: shapes [1] and [2, 3, 4]"), "{err}");
    let halves = Tensor::from_slice(&[f16::from_f64(-1.0), f16::from_f64(8.0)], [2]).unwrap();
    assert_eq!(
        elements::<f16>(&leaky_relu(halves, 0.25).unwrap()),
        [f16::from_f64(-0.25), f16::from_f64(8.0)]
    );
    assert!(leaky_relu(Tensor::from_slice(&[1i32], [1]).unwrap(), 0.1).is_err());
}
