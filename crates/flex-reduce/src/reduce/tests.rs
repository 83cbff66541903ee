//! Compares with definitions written as plain loops in f64 (i128 for integers), over every dtype and kind of
//! layout.

use super::*;
use crate::dtype::Element;
use crate::{Slice, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

/// Values of the elements along `axis`, one list per output in row-major order.
fn lanes<T: Element>(t: &Tensor, axis: usize) -> Vec<Vec<T>> {
    let shape = t.shape().to_vec();
    let mut outer = shape.clone();
    outer[axis] = 1;
    let count: usize = outer.iter().product();
    (0..count)
        .map(|flat| {
            let (mut rest, mut index) = (flat, vec![0; shape.len()]);
            for k in (0..shape.len()).rev() {
                index[k] = rest % outer[k];
                rest /= outer[k];
            }
            (0..shape[axis])
                .map(|i| {
                    index[axis] = i;
                    t.storage::<T>()[t.layout().position(&index)]
                })
                .collect()
        })
        .collect()
}

/// One tensor of each kind of layout; `value` maps the number of an element to its value.
fn layouts<T: Element>(value: impl Fn(usize) -> T) -> Vec<Tensor> {
    let make = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        Tensor::from_slice(&(0..count).map(&value).collect::<Vec<T>>(), shape).unwrap()
    };
    let mut list = vec![];
    for n in [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200] {
        list.push(make(&[3, n]));
        list.push(make(&[n, 3]));
        list.push(make(&[n, 20]));
    }
    let base = make(&[5, 6, 7, 8]);
    list.push(base.clone());
    list.push(base.clone().permute(&[3, 1, 0, 2]).unwrap());
    list.push(base.clone().permute(&[1, 2, 3, 0]).unwrap());
    list.push(base.clone().flip(&[0, 3]).unwrap());
    list.push(base.clone().flip(&[1, 2]).unwrap().swap_axes(1, 3).unwrap());
    list.push(
        base.clone()
            .slice(&[Slice::new(1, None, 1), Slice::new(0, None, 2), Slice::new(0, None, -3)])
            .unwrap(),
    );
    list.push(
        base.clone().slice(&[Slice::full(), Slice::full(), Slice::full(), Slice::new(0, None, 3)]).unwrap(),
    );
    list.push(base.clone().narrow(0, 2, 1).unwrap().expand(&[4, 6, 7, 8]).unwrap());
    list.push(base.unfold(3, 3, 1).unwrap());
    let wide = make(&[9, 100]);
    list.push(wide.clone().unfold(1, 5, 1).unwrap());
    list.push(wide.clone().narrow(1, 3, 90).unwrap());
    list.push(wide.clone().narrow(1, 3, 90).unwrap().swap_axes(0, 1).unwrap());
    list.push(wide.narrow(0, 0, 1).unwrap().expand(&[300, 100]).unwrap());
    list.push(make(&[300, 40]));
    // Row lengths around the limit of the small buffer of scans.
    list.extend([127, 135, 136].map(|n| make(&[2, n])));
    list.push(make(&[2, 2047]));
    list.push(make(&[2, 2048 + 133]));
    list.push(make(&[5000]));
    list.push(make(&[2, 300, 5]));
    list
}

/// Pseudo-random, with ties, both signs and a small range.
fn digit(i: usize) -> i64 {
    ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64 % 23 - 11
}

fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    if want.is_nan() {
        assert!(got.is_nan(), "{what}: got {got}, want NaN");
        return;
    }
    let fine = got == want || (got - want).abs() <= tolerance * want.abs().max(1.0);
    assert!(fine, "{what}: got {got}, want {want}");
}

/// Checks an operation along every axis of every layout.
fn check_dim<T: Element, O: Element>(
    name: &str,
    value: impl Fn(usize) -> T,
    run: impl Fn(Tensor, usize) -> Result<Tensor>,
    want: impl Fn(&[T]) -> f64,
    tolerance: f64,
) {
    for t in layouts(value) {
        for axis in 0..t.rank() {
            let got = run(t.clone(), axis).unwrap();
            let mut shape = t.shape().clone();
            shape[axis] = 1;
            assert_eq!(got.shape(), &shape, "{name}");
            let got = got.to_vec::<O>();
            for (g, lane) in got.iter().zip(lanes::<T>(&t, axis)) {
                let what = alloc::format!("{name} of {:?} along {axis} of {:?}", T::DTYPE, t.layout());
                close(g.to_f64(), O::from_f64(want(&lane)).to_f64(), tolerance, &what);
            }
        }
    }
}

/// Checks an operation over all elements of every layout.
fn check_all<T: Element, O: Element>(
    name: &str,
    value: impl Fn(usize) -> T,
    run: impl Fn(Tensor) -> Result<Tensor>,
    want: impl Fn(&[T]) -> f64,
    tolerance: f64,
) {
    for t in layouts(value) {
        let got = run(t.clone()).unwrap();
        assert_eq!(got.shape().to_vec(), [1]);
        let elements: Vec<T> = lanes::<T>(&t, 0).concat();
        let what = alloc::format!("{name} of {:?} over {:?}", T::DTYPE, t.layout());
        close(got.item::<O>().to_f64(), O::from_f64(want(&elements)).to_f64(), tolerance, &what);
    }
}

fn floats<T: Element>(tolerance: f64) {
    let value = |i: usize| T::from_f64(digit(i) as f64 / 8.0);
    let sum = |x: &[T]| x.iter().map(|v| v.to_f64()).sum::<f64>();
    let max = |x: &[T]| x.iter().map(|v| v.to_f64()).fold(f64::NEG_INFINITY, f64::max);
    let min = |x: &[T]| x.iter().map(|v| v.to_f64()).fold(f64::INFINITY, f64::min);
    check_dim::<T, T>("sum_dim", value, sum_dim, sum, tolerance);
    check_dim::<T, T>("mean_dim", value, mean_dim, |x| sum(x) / x.len() as f64, tolerance);
    check_dim::<T, T>("max_dim", value, max_dim, max, 0.0);
    check_dim::<T, T>("min_dim", value, min_dim, min, 0.0);
    check_all::<T, T>("sum", value, super::sum, sum, tolerance);
    check_all::<T, T>("mean", value, mean, |x| sum(x) / x.len() as f64, tolerance);
    check_all::<T, T>("max", value, super::max, max, 0.0);
    check_all::<T, T>("min", value, super::min, min, 0.0);
    // Powers of two, mostly one, keep products in the range of f16.
    let factor = |i: usize| T::from_f64([0.5, 1.0, 1.0, -2.0, 1.0, -1.0, 1.0][i % 7]);
    let prod = |x: &[T]| x.iter().map(|v| v.to_f64()).product::<f64>();
    check_dim::<T, T>("prod_dim", factor, prod_dim, prod, tolerance);
    check_all::<T, T>("prod", factor, super::prod, prod, tolerance);
}

#[test]
fn reductions_of_f32() {
    floats::<f32>(1e-6);
}

#[test]
fn reductions_of_f64() {
    floats::<f64>(1e-14);
}

#[test]
fn running_sums_of_halves_are_rounded_once() {
    // Just above the middle between two halves, and rounded to f32 first exactly there.
    fn last<T: Element>(x: [f64; 3]) -> f64 {
        let x = Tensor::from_slice(&x.map(T::from_f64), [3]).unwrap();
        cumsum(x, 0).unwrap().to_vec::<T>()[2].to_f64()
    }
    assert_eq!(last::<f16>([1.0, 2f64.powi(-11), 2f64.powi(-24)]), 1.0 + 2f64.powi(-10));
    assert_eq!(last::<bf16>([1.0, 2f64.powi(-8), 2f64.powi(-30)]), 1.0 + 2f64.powi(-7));
}

#[test]
fn reductions_of_halves() {
    floats::<f16>(1e-3);
    floats::<bf16>(8e-3);
}

/// `from_i128` wraps, which is what the definitions need.
macro_rules! check_ints {
    ($($ty:ty),*) => {$({
        let value = |i: usize| (digit(i) * 11) as $ty;
        let sum = |x: &[$ty]| x.iter().fold(0 as $ty, |a, &v| a.wrapping_add(v)) as f64;
        let prod = |x: &[$ty]| x.iter().fold(1 as $ty, |a, &v| a.wrapping_mul(v)) as f64;
        let mean_of = |x: &[$ty]| (x.iter().map(|&v| v as i128).sum::<i128>() / x.len() as i128) as $ty as f64;
        check_dim::<$ty, $ty>("sum_dim", value, sum_dim, sum, 0.0);
        check_dim::<$ty, $ty>("prod_dim", value, prod_dim, prod, 0.0);
        check_dim::<$ty, $ty>("mean_dim", value, mean_dim, mean_of, 0.0);
        check_dim::<$ty, $ty>("max_dim", value, max_dim, |x| *x.iter().max().unwrap() as f64, 0.0);
        check_dim::<$ty, $ty>("min_dim", value, min_dim, |x| *x.iter().min().unwrap() as f64, 0.0);
        check_all::<$ty, $ty>("sum", value, super::sum, sum, 0.0);
        check_all::<$ty, $ty>("prod", value, super::prod, prod, 0.0);
        check_all::<$ty, $ty>("mean", value, mean, mean_of, 0.0);
        check_all::<$ty, $ty>("max", value, super::max, |x| *x.iter().max().unwrap() as f64, 0.0);
        check_all::<$ty, $ty>("min", value, super::min, |x| *x.iter().min().unwrap() as f64, 0.0);
    })*};
}

#[test]
fn reductions_of_integers() {
    check_ints!(i8, i16, i32, i64);
    check_ints!(u8, u16, u32, u64);
}

#[test]
fn integer_extremes_and_means_do_not_wrap() {
    let t = Tensor::from_slice(&[i64::MAX, i64::MAX, i64::MAX - 3], [3]).unwrap();
    assert_eq!(mean(t).unwrap().item::<i64>(), i64::MAX - 1);
    let t = Tensor::from_slice(&[u64::MAX, u64::MAX - 2], [2]).unwrap();
    assert_eq!(mean(t).unwrap().item::<u64>(), u64::MAX - 1);
    let t = Tensor::from_slice(&[-128i8, -127, 0], [3]).unwrap();
    assert_eq!(mean(t).unwrap().item::<i8>(), -85);
    let t = Tensor::from_slice(&[-7i32, 5], [2]).unwrap();
    assert_eq!(mean(t).unwrap().item::<i32>(), -1);
    let t = Tensor::from_slice(&vec![200u8; 1000], [10, 100]).unwrap();
    assert_eq!(mean_dim(t.clone(), 0).unwrap().to_vec::<u8>(), [200; 100]);
    assert_eq!(mean_dim(t, 1).unwrap().to_vec::<u8>(), [200; 10]);
}

#[test]
fn long_sums_keep_their_digits() {
    // A running sum of 30 M x 1e-3 would be 32768; scaled down to keep the debug build fast, and over every
    // kernel.
    let n = 3_000_000;
    let ones = Tensor::from_slice(&vec![1e-3f32; n], [n]).unwrap();
    let want = 1e-3f32 as f64 * n as f64;
    for shape in [vec![n], vec![n, 1]] {
        let t = ones.clone().reshape(shape).unwrap();
        close(sum_dim(t, 0).unwrap().item::<f32>() as f64 / want, 1.0, 1e-6, "sum_dim");
    }
    close(sum(ones.clone()).unwrap().item::<f32>() as f64 / want, 1.0, 1e-6, "sum");
    close(mean(ones.clone()).unwrap().item::<f32>() as f64 / 1e-3, 1.0, 1e-6, "mean");
    for width in [3, 40, 2000] {
        let t = ones.clone().reshape([n / width, width]).unwrap();
        for x in sum_dim(t, 0).unwrap().to_vec::<f32>() {
            close(x as f64 / (want / width as f64), 1.0, 1e-6, "sum_dim over the outer axis");
        }
    }
    let expanded = Tensor::full([1], 1e-3, DType::F32).unwrap().expand(&[30_000_000]).unwrap();
    close(
        sum(expanded.clone()).unwrap().item::<f32>() as f64 / 30_000.0,
        1.0,
        1e-6,
        "sum of an expanded tensor",
    );
    close(
        sum_dim(expanded, 0).unwrap().item::<f32>() as f64 / 30_000.0,
        1.0,
        1e-6,
        "sum_dim of an expanded tensor",
    );
}

#[test]
fn half_means_do_not_overflow() {
    let t = Tensor::from_slice(&vec![f16::from_f32(65504.0); 640], [20, 32]).unwrap();
    assert_eq!(mean(t.clone()).unwrap().item::<f16>(), f16::from_f32(65504.0));
    assert_eq!(mean_dim(t.clone(), 0).unwrap().to_vec::<f16>(), [f16::from_f32(65504.0); 32]);
    assert_eq!(mean_dim(t.clone(), 1).unwrap().to_vec::<f16>(), [f16::from_f32(65504.0); 20]);
    assert_eq!(sum(t).unwrap().item::<f16>(), f16::INFINITY);
}

#[test]
fn large_reductions_split_over_tasks() {
    let n = 400_000;
    let values: Vec<f64> = (0..n).map(|i| digit(i) as f64).collect();
    let t = Tensor::from_slice(&values, [n]).unwrap();
    let total: f64 = values.iter().sum();
    assert_eq!(sum(t.clone()).unwrap().item::<f64>(), total);
    for shape in [[2, n / 2], [n / 2, 2], [400, 1000], [1000, 400], [4, 100_000], [40, 10_000]] {
        let t = t.clone().reshape(shape).unwrap();
        for t in [t.clone(), t.clone().swap_axes(0, 1).unwrap(), t.narrow(1, 0, shape[1] - 1).unwrap()] {
            let want: f64 = lanes::<f64>(&t, 0).concat().iter().sum();
            assert_eq!(sum(t.clone()).unwrap().item::<f64>(), want);
            for axis in 0..2 {
                let lanes = lanes::<f64>(&t, axis);
                let want: Vec<f64> = lanes.iter().map(|l| l.iter().sum()).collect();
                assert_eq!(sum_dim(t.clone(), axis).unwrap().to_vec::<f64>(), want, "{:?}", t.layout());
                let want: Vec<i64> = lanes.iter().map(|l| first_extreme(l, false)).collect();
                assert_eq!(
                    argmax(t.clone(), axis, DType::I64).unwrap().to_vec::<i64>(),
                    want,
                    "{:?}",
                    t.layout()
                );
            }
        }
    }
}

/// Index by the definition: the first NaN, otherwise the first of the largest (smallest).
fn first_extreme<T: Element>(x: &[T], min: bool) -> i64 {
    let x: Vec<f64> = x.iter().map(|v| if min { -v.to_f64() } else { v.to_f64() }).collect();
    let best = match x.iter().position(|v| v.is_nan()) {
        Some(nan) => nan,
        None => (0..x.len()).rev().max_by(|&a, &b| x[a].partial_cmp(&x[b]).unwrap()).unwrap(),
    };
    best as i64
}

fn check_arg<T: Element>(value: impl Fn(usize) -> T + Copy) {
    check_dim::<T, i64>(
        "argmax",
        value,
        |t, a| argmax(t, a, DType::I64),
        |x| first_extreme(x, false) as f64,
        0.0,
    );
    check_dim::<T, i32>(
        "argmin",
        value,
        |t, a| argmin(t, a, DType::I32),
        |x| first_extreme(x, true) as f64,
        0.0,
    );
    let at = |x: &[T], min| x[first_extreme(x, min) as usize].to_f64();
    for index_dtype in [DType::I64, DType::U16] {
        let values = |t, a| Ok(max_dim_with_indices(t, a, index_dtype)?.0);
        check_dim::<T, T>("max_dim_with_indices", value, values, |x| at(x, false), 0.0);
    }
    let indices = |t, a| Ok(min_dim_with_indices(t, a, DType::U16)?.1);
    check_dim::<T, u16>("min_dim_with_indices", value, indices, |x| first_extreme(x, true) as f64, 0.0);
}

#[test]
fn indices_are_those_of_the_first() {
    check_arg::<f32>(|i| digit(i) as f32);
    check_arg::<f64>(|i| digit(i) as f64);
    check_arg::<f16>(|i| f16::from_f64(digit(i) as f64));
    check_arg::<i8>(|i| digit(i) as i8);
    check_arg::<u64>(|i| (digit(i) + 11) as u64);
}

#[test]
fn nan_wins() {
    let value = |i: usize| if digit(i) == 5 { f32::NAN } else { digit(i) as f32 };
    check_arg::<f32>(value);
    check_arg::<bf16>(|i| bf16::from_f32(value(i)));
    let propagate = |x: &[f32], best: fn(f64, f64) -> f64, from: f64| {
        let any = x.iter().any(|v| v.is_nan());
        if any { f64::NAN } else { x.iter().fold(from, |a, &v| best(a, v as f64)) }
    };
    check_dim::<f32, f32>("max_dim", value, max_dim, |x| propagate(x, f64::max, f64::NEG_INFINITY), 0.0);
    check_dim::<f32, f32>("min_dim", value, min_dim, |x| propagate(x, f64::min, f64::INFINITY), 0.0);
    check_all::<f32, f32>("max", value, super::max, |x| propagate(x, f64::max, f64::NEG_INFINITY), 0.0);
    for position in [0, 1, 63, 64, 4095, 4096, 9999] {
        let mut x = vec![f32::INFINITY; 10_000];
        x[position] = f32::NAN;
        let t = Tensor::from_slice(&x, [10_000]).unwrap();
        assert!(super::max(t.clone()).unwrap().item::<f32>().is_nan());
        assert!(super::min(t.clone()).unwrap().item::<f32>().is_nan());
        assert_eq!(argmax(t.clone(), 0, DType::I64).unwrap().item::<i64>(), position as i64);
        assert_eq!(argmin(t, 0, DType::I64).unwrap().item::<i64>(), position as i64);
    }
    for n in [5, 20, 64, 200] {
        for position in 0..n {
            let mut x = vec![1.0f64; n];
            x[position] = -f64::NAN;
            let t = Tensor::from_slice(&x, [1, n]).unwrap();
            assert!(max_dim(t.clone(), 1).unwrap().item::<f64>().is_nan(), "{position} of {n}");
            assert!(min_dim(t.clone(), 1).unwrap().item::<f64>().is_nan(), "{position} of {n}");
            assert_eq!(argmin(t, 1, DType::I64).unwrap().item::<i64>(), position as i64);
        }
    }
    let infinite = Tensor::full([3, 70], f64::NEG_INFINITY, DType::F32).unwrap();
    assert_eq!(super::max(infinite.clone()).unwrap().item::<f32>(), f32::NEG_INFINITY);
    assert_eq!(argmax(infinite, 1, DType::I64).unwrap().to_vec::<i64>(), [0; 3]);
}

/// The first of equal zeros is found, whatever their signs.
fn zeros_are_equal<T: Element>() {
    for n in [5, 30, 600, 5_000] {
        for (first, second) in [(-0.0, 0.0), (0.0, -0.0)] {
            let mut row = vec![T::from_f64(-1.0); n];
            (row[n / 2], row[n - 1]) = (T::from_f64(first), T::from_f64(second));
            let t = Tensor::from_slice(&row, [1, n]).unwrap();
            assert_eq!(argmax(t.clone(), 1, DType::I64).unwrap().item::<i64>(), n as i64 / 2, "{n} {first}");
            let down = t.reshape([n, 1]).unwrap().expand(&[n, 3]).unwrap();
            assert_eq!(
                argmax(down, 0, DType::I64).unwrap().to_vec::<i64>(),
                [n as i64 / 2; 3],
                "{n} {first}"
            );
            let row: Vec<T> = row.into_iter().map(|x| T::from_f64(-x.to_f64())).collect();
            let t = Tensor::from_slice(&row, [1, n]).unwrap();
            assert_eq!(argmin(t, 1, DType::I64).unwrap().item::<i64>(), n as i64 / 2, "{n} {first}");
        }
    }
}

#[test]
fn positions_of_zeros() {
    zeros_are_equal::<f32>();
    zeros_are_equal::<f64>();
    zeros_are_equal::<f16>();
    zeros_are_equal::<bf16>();
}

#[test]
fn any_and_all_are_about_zero() {
    let truth = |b: bool| b as u8 as f64;
    let sparse = |i: usize| f32::from_bits(if i % 37 == 5 { 1 } else { 0x8000_0000 * (i as u32 & 1) });
    check_dim::<f32, u8>(
        "any",
        sparse,
        |t, a| any_dim(t, a, BoolStore::Native),
        |x| truth(x.iter().any(|&v| v != 0.0)),
        0.0,
    );
    check_all::<f32, u8>(
        "any",
        sparse,
        |t| any(t, BoolStore::U8),
        |x| truth(x.iter().any(|&v| v != 0.0)),
        0.0,
    );
    let dense = |i: usize| f16::from_f32(if i % 37 == 5 { -0.0 } else { f32::NAN });
    let all_nonzero = |x: &[f16]| truth(x.iter().all(|&v| v != f16::ZERO));
    check_dim::<f16, u8>("all", dense, |t, a| all_dim(t, a, BoolStore::Native), all_nonzero, 0.0);
    check_all::<f16, u8>("all", dense, |t| all(t, BoolStore::Native), all_nonzero, 0.0);
    let ints = |i: usize| if i % 41 == 3 { i64::MIN } else { 0 };
    check_dim::<i64, u8>(
        "any",
        ints,
        |t, a| any_dim(t, a, BoolStore::Native),
        |x| truth(x.iter().any(|&v| v != 0)),
        0.0,
    );
    let bools = Tensor::from_bools(&[true, false, true, true], [2, 2]).unwrap();
    assert_eq!(all_dim(bools.clone(), 1, BoolStore::Native).unwrap().to_vec::<u8>(), [0, 1]);
    assert_eq!(any(bools, BoolStore::U8).unwrap().dtype(), DType::Bool(BoolStore::U8));
}

#[test]
fn empty_reductions() {
    let t = Tensor::empty([2, 0, 3], DType::F32).unwrap();
    assert_eq!(sum(t.clone()).unwrap().item::<f32>(), 0.0);
    assert_eq!(prod(t.clone()).unwrap().item::<f32>(), 1.0);
    assert!(mean(t.clone()).unwrap().item::<f32>().is_nan());
    assert_eq!(sum_dim(t.clone(), 1).unwrap().to_vec::<f32>(), [0.0; 6]);
    assert_eq!(prod_dim(t.clone(), 1).unwrap().to_vec::<f32>(), [1.0; 6]);
    assert!(mean_dim(t.clone(), 1).unwrap().to_vec::<f32>().iter().all(|x| x.is_nan()));
    assert_eq!(sum_dim(t.clone(), 0).unwrap().shape().to_vec(), [1, 0, 3]);
    assert_eq!(max_dim(t.clone(), 2).unwrap().shape().to_vec(), [2, 0, 1]);
    assert_eq!(argmax(t.clone(), 2, DType::I64).unwrap().shape().to_vec(), [2, 0, 1]);
    assert_eq!(any(t.clone(), BoolStore::Native).unwrap().item::<u8>(), 0);
    assert_eq!(all_dim(t.clone(), 1, BoolStore::Native).unwrap().to_vec::<u8>(), [1; 6]);
    assert_eq!(cumsum(t.clone(), 1).unwrap().shape().to_vec(), [2, 0, 3]);
    assert_eq!(mean(Tensor::empty([0], DType::I32).unwrap()).unwrap().item::<i32>(), 0);
    let message = |r: Result<Tensor>| r.unwrap_err().to_string();
    assert!(message(super::max(t.clone())).starts_with("max:"));
    assert!(message(super::min_dim(t.clone(), 1)).starts_with("min_dim:"));
    assert!(message(argmax(t.clone(), 1, DType::I64)).starts_with("argmax:"));
    assert!(message(argmin(t, 1, DType::I64)).starts_with("argmin:"));
}

#[test]
fn indices_come_in_every_integer_dtype() {
    // Short and long rows, and columns.
    for (shape, axis) in [([3, 5], 1), ([3, 100], 1), ([60, 40], 0)] {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|i| digit(i) as f32).collect();
        let t = Tensor::from_slice(&values, shape).unwrap();
        let want = argmax(t.clone(), axis, DType::I64).unwrap().to_vec::<i64>();
        for dtype in [DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8] {
            for got in [
                argmax(t.clone(), axis, dtype).unwrap(),
                max_dim_with_indices(t.clone(), axis, dtype).unwrap().1,
            ] {
                assert_eq!(got.dtype(), dtype);
                let got = flex_map::elementwise::cast(got, DType::I64).unwrap();
                assert_eq!(got.to_vec::<i64>(), want, "{dtype:?} along {axis} of {shape:?}");
            }
        }
    }
}

#[test]
fn bad_arguments_are_refused_in_the_name_of_the_operation() {
    let t = Tensor::from_slice(&vec![1.0f32; 600], [2, 300]).unwrap();
    let message = |r: Result<Tensor>| r.unwrap_err().to_string();
    assert_eq!(message(sum_dim(t.clone(), 2)), "sum_dim: axis 2 is out of range for a tensor of rank 2");
    assert!(message(any_dim(t.clone(), 2, BoolStore::Native)).starts_with("any_dim: axis 2"));
    assert!(message(cummax(t.clone(), 5)).starts_with("cummax: axis 5"));
    assert!(message(argmax(t.clone(), 1, DType::I8)).starts_with("argmax: index dtype is i8"));
    assert!(message(argmax(t.clone(), 1, DType::F32)).starts_with("argmax: dtype f32"));
    assert!(argmax(t.clone(), 1, DType::I16).is_ok() && argmax(t.clone(), 0, DType::I8).is_ok());
    assert!(argmax(t.clone().narrow(1, 0, 256).unwrap(), 1, DType::U8).is_ok());
    assert!(message(argmax(t.narrow(1, 0, 257).unwrap(), 1, DType::U8)).starts_with("argmax:"));
    let b = Tensor::from_bools(&[true], [1]).unwrap();
    assert!(message(sum(b.clone())).starts_with("sum: dtype"));
    assert!(message(mean(b.clone())).starts_with("mean: dtype"));
    assert!(message(argmin(b.clone(), 0, DType::I64)).starts_with("argmin: dtype"));
    assert!(message(cumsum(b, 0)).starts_with("cumsum: dtype"));
    let scalar = Tensor::full(crate::Shape::from(Vec::<usize>::new()), 3.0, DType::F32).unwrap();
    assert!(message(sum_dim(scalar.clone(), 0)).starts_with("sum_dim: axis 0"));
    assert_eq!(sum(scalar).unwrap().to_vec::<f32>(), [3.0]);
}

/// Checks a scan along every axis of every layout, on shared and on unique buffers.
fn check_scan<T: Element>(
    name: &str,
    value: impl Fn(usize) -> T,
    run: impl Fn(Tensor, usize) -> Result<Tensor>,
    step: impl Fn(f64, f64) -> f64,
    tolerance: f64,
) {
    for t in layouts(value) {
        let before = t.to_vec::<T>();
        for axis in 0..t.rank() {
            let own = Tensor::from_slice(&before, t.shape().clone()).unwrap();
            for (got, from) in [(run(t.clone(), axis).unwrap(), &t), (run(own, axis).unwrap(), &t)] {
                assert_eq!(got.shape(), t.shape());
                for (got, from) in lanes::<T>(&got, axis).iter().zip(lanes::<T>(from, axis)) {
                    let mut acc = None;
                    for (g, x) in got.iter().zip(from) {
                        let want = acc.map_or(x.to_f64(), |a| step(a, x.to_f64()));
                        acc = Some(want);
                        let what =
                            alloc::format!("{name} of {:?} along {axis} of {:?}", T::DTYPE, t.layout());
                        close(g.to_f64(), T::from_f64(want).to_f64(), tolerance, &what);
                    }
                }
            }
        }
        assert!(t.to_vec::<T>() == before, "{name}: a shared buffer was written");
    }
}

#[test]
fn scans_of_floats() {
    check_scan::<f32>("cumsum", |i| digit(i) as f32 / 8.0, cumsum, |a, b| a + b, 1e-6);
    check_scan::<f64>("cumsum", |i| digit(i) as f64 / 10.0, cumsum, |a, b| a + b, 1e-13);
    check_scan::<f16>("cumsum", |i| f16::from_f64(digit(i) as f64), cumsum, |a, b| a + b, 1e-3);
    check_scan::<bf16>("cumsum", |i| bf16::from_f64(digit(i) as f64), cumsum, |a, b| a + b, 8e-3);
    let factor = |i: usize| [0.5, 1.0, 1.0, -2.0, 1.0, -1.0, 1.0][i % 7];
    check_scan::<f32>("cumprod", |i| factor(i) as f32, cumprod, |a, b| a * b, 1e-6);
    check_scan::<f16>("cumprod", |i| f16::from_f64(factor(i)), cumprod, |a, b| a * b, 1e-3);
}

#[test]
fn scans_of_extremes() {
    let value = |i: usize| if digit(i * 7) == 5 && i % 3 == 0 { f64::NAN } else { digit(i) as f64 };
    let max = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    let min = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
    let same = |x: f64| bf16::from_f64(x);
    check_scan::<i16>("cummax", |i| digit(i) as i16, cummax, f64::max, 0.0);
    check_scan::<u8>("cummin", |i| (digit(i) + 11) as u8, cummin, f64::min, 0.0);
    for t in layouts(|i| value(i) as f32) {
        // NaN is not equal to itself, so the shared-buffer check of `check_scan` does not apply.
        for axis in 0..t.rank() {
            let (low, high) = (cummin(t.clone(), axis).unwrap(), cummax(t.clone(), axis).unwrap());
            let lists = lanes::<f32>(&low, axis).into_iter().zip(lanes::<f32>(&high, axis));
            for ((low, high), from) in lists.zip(lanes::<f32>(&t, axis)) {
                let (mut a, mut b) = (from[0] as f64, from[0] as f64);
                for ((l, h), x) in low.iter().zip(&high).zip(from) {
                    (a, b) = (min(a, x as f64), max(b, x as f64));
                    close(*l as f64, a, 0.0, "cummin");
                    close(*h as f64, b, 0.0, "cummax");
                }
            }
        }
    }
    check_scan::<bf16>("cummin", |i| same(digit(i) as f64), cummin, f64::min, 0.0);
}

#[test]
fn integer_scans_wrap() {
    let wrap = |x: f64| x as i64 as i8 as f64;
    check_scan::<i8>("cumsum", |i| (digit(i) * 9) as i8, cumsum, |a, b| wrap(a + b), 0.0);
    check_scan::<i8>("cumprod", |i| (digit(i) | 1) as i8, cumprod, |a, b| wrap(a * b), 0.0);
    check_scan::<u32>("cumsum", |i| (digit(i) + 11) as u32, cumsum, |a, b| a + b, 0.0);
    check_scan::<i64>("cumsum", digit, cumsum, |a, b| a + b, 0.0);
}

#[test]
fn long_scans_are_accurate_and_monotone() {
    let n = 300_001;
    let t = Tensor::from_slice(&vec![1e-3f32; n], [n]).unwrap();
    for t in [t.clone(), t.clone().reshape([n, 1]).unwrap()] {
        let got = cumsum(t, 0).unwrap().to_vec::<f32>();
        for (i, &x) in got.iter().enumerate() {
            close(x as f64 / ((i + 1) as f64 * 1e-3f32 as f64), 1.0, 1e-7, "cumsum");
        }
    }
    let steps: Vec<f64> = (0..n).map(|i| (digit(i) + 12) as f64 * 0.1).collect();
    let t = Tensor::from_slice(&steps, [n]).unwrap();
    let got = cumsum(t.clone(), 0).unwrap().to_vec::<f64>();
    assert!(got.is_sorted());
    close(got[n - 1] / steps.iter().sum::<f64>(), 1.0, 1e-12, "cumsum");
    let got = cummax(t, 0).unwrap().to_vec::<f64>();
    assert!(got.is_sorted() && got[n - 1] == 23.0 * 0.1);
    let ints: Vec<i64> = (0..n).map(digit).collect();
    let mut sum = 0;
    let want: Vec<i64> = ints
        .iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect();
    assert_eq!(cumsum(Tensor::from_slice(&ints, [n]).unwrap(), 0).unwrap().to_vec::<i64>(), want);
    // A zero stays zero whatever comes later, which blocked products would turn into NaN.
    let mut x = vec![1e38f32; 2000];
    x[0] = 0.0;
    assert!(
        cumprod(Tensor::from_slice(&x, [2000]).unwrap(), 0)
            .unwrap()
            .to_vec::<f32>()
            .iter()
            .all(|&p| p == 0.0)
    );
    // Out of the range of f32 and back, within groups of elements and across them.
    let x = [1e30f32, 1e30, 1e-30, 1e-30, 2.0, 1e-38, 1e-20, 1e30, 1e28, 3.0, f32::INFINITY, 0.0, 1.0];
    let mut product = 1.0;
    let want = x.map(|x| {
        product *= x as f64;
        product as f32
    });
    for n in 1..=x.len() {
        let got = cumprod(Tensor::from_slice(&x[..n], [n]).unwrap(), 0).unwrap().to_vec::<f32>();
        let same = |a: f32, b: f32| a == b || (a - b).abs() <= 1e-6 * b || a.is_nan() && b.is_nan();
        assert!(got.iter().zip(&want).all(|(a, b)| same(*a, *b)), "{got:?}, want {want:?}");
    }
    let wide: Vec<f32> = (0..3 * 2000).map(|i| digit(i) as f32).collect();
    let got = cumsum(Tensor::from_slice(&wide, [3, 2000]).unwrap(), 0).unwrap().to_vec::<f32>();
    assert!((0..2000).all(|j| got[4000 + j] == wide[j] + wide[2000 + j] + wide[4000 + j]));
}

/// The sums over `axes`, in row-major order, and the largest sum of magnitudes.
fn sums<T: Element>(t: &Tensor, axes: &[usize]) -> (Vec<f64>, f64) {
    let kept = |k: usize| if axes.contains(&k) { 1 } else { t.shape()[k] };
    let shape: Vec<usize> = (0..t.rank()).map(kept).collect();
    let mut sums = vec![(0.0, 0.0); shape.iter().product()];
    for index in crate::layout::coordinates(t.shape()) {
        let at = (0..t.rank()).fold(0, |at, k| at * shape[k] + if axes.contains(&k) { 0 } else { index[k] });
        let value = t.storage::<T>()[t.layout().position(&index)].to_f64();
        sums[at] = (sums[at].0 + value, f64::max(sums[at].1, value.abs()) + value.abs());
    }
    let most = sums.iter().fold(0.0, |most, sum| f64::max(most, sum.1));
    (sums.into_iter().map(|sum| sum.0).collect(), most)
}

/// Sums over every subset of the axes of every layout of four axes, and more.
fn check_sum_dims<T: Element>(value: impl Fn(usize) -> T, wrap: impl Fn(f64) -> f64, tolerance: f64) {
    let flat = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        Tensor::from_slice(&(0..count).map(&value).collect::<Vec<T>>(), shape).unwrap()
    };
    let mut list = layouts(&value);
    list.retain(|t| t.rank() > 2);
    // Expanded axes beside others, an axis without elements, and sizes at which tasks are split.
    let row = flat(&[3, 1, 4, 1]);
    list.push(row.clone().expand(&[3, 5, 4, 6]).unwrap());
    list.push(row.permute(&[1, 2, 0, 3]).unwrap().expand(&[7, 4, 3, 2]).unwrap());
    list.push(flat(&[3, 0, 2, 4]));
    list.push(flat(&[2, 3, 4, 0]).permute(&[3, 1, 0, 2]).unwrap());
    list.push(flat(&[4, 3, 20, 130]));
    list.push(flat(&[1, 1, 5, 1]));
    for t in list {
        for subset in 0..1usize << t.rank() {
            let axes: Vec<usize> = (0..t.rank()).rev().filter(|k| subset >> k & 1 == 1).collect();
            let got = sum_dims(t.clone(), &axes).unwrap();
            let shape: Vec<usize> =
                (0..t.rank()).map(|k| if axes.contains(&k) { 1 } else { t.shape()[k] }).collect();
            assert_eq!((got.shape().to_vec(), got.dtype()), (shape, T::DTYPE));
            let (want, most) = sums::<T>(&t, &axes);
            for (got, want) in got.to_vec::<T>().into_iter().zip(want) {
                let (want, error) = (T::from_f64(wrap(want)).to_f64(), most * f64::powi(2.0, -22));
                let error = if T::IS_FLOAT { error } else { 0.0 };
                let fine = (got.to_f64() - want).abs() <= error + tolerance * want.abs();
                assert!(fine, "{:?} over {axes:?} of {:?}: {got:?}, not {want}", T::DTYPE, t.layout());
            }
        }
    }
}

#[test]
fn sums_over_several_axes() {
    check_sum_dims(|i| digit(i) as f32 / 8.0, |sum| sum, 0.0);
    check_sum_dims(|i| digit(i) as f64 / 8.0, |sum| sum, 0.0);
    check_sum_dims(|i| f16::from_f64(digit(i) as f64 / 8.0), |sum| sum, 1e-3);
    check_sum_dims(|i| bf16::from_f64(digit(i) as f64 / 8.0), |sum| sum, 8e-3);
    check_sum_dims(|i| digit(i) as i32, |sum| sum, 0.0);
    check_sum_dims(|i| (digit(i) * 11) as i8, |sum| sum as i64 as i8 as f64, 0.0);
    check_sum_dims(|i| (digit(i) + 11) as u16, |sum| sum as i64 as u16 as f64, 0.0);
}

#[test]
fn halves_are_rounded_once_over_all_axes() {
    fn check<T: Element>(values: &[f64], want: f64) {
        let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
        // Alone, and beside an axis that is kept.
        let t = Tensor::from_slice(&values, [2, 2]).unwrap();
        for axes in [[0, 1], [1, 0]] {
            assert_eq!(sum_dims(t.clone(), &axes).unwrap().to_vec::<T>(), [T::from_f64(want)]);
        }
        let beside = t.reshape([2, 1, 2]).unwrap().expand(&[2, 3, 2]).unwrap();
        for t in [beside.clone(), beside.into_contiguous().unwrap()] {
            assert_eq!(sum_dims(t.clone(), &[0, 2]).unwrap().to_vec::<T>(), [T::from_f64(want); 3]);
            // Repeated, which the last of the sums multiplies.
            let twice = t.reshape([2, 3, 2, 1]).unwrap().expand(&[2, 3, 2, 2]).unwrap();
            assert_eq!(sum_dims(twice, &[0, 2, 3]).unwrap().to_vec::<T>(), [T::from_f64(2.0 * want); 3]);
        }
    }
    check::<f16>(&[40000.0, -40000.0, 40000.0, -40000.0], 0.0);
    check::<f16>(&[40000.0, 40000.0, -40000.0, -39968.0], 32.0);
    check::<f16>(&[2048.0, -2048.0, 1.0, 0.0], 1.0);
    check::<f16>(&[2048.0, 1.0, 0.0, -2048.0], 1.0);
    check::<bf16>(&[256.0, 1.0, 0.0, -256.0], 1.0);
}

#[test]
fn sums_over_axes_that_there_are_not() {
    let t = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
    assert_eq!(sum_dims(t.clone(), &[1, 1]).unwrap().to_vec::<f32>(), [3.0, 7.0]);
    assert_eq!(sum_dims(t.clone(), &[]).unwrap().to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    let scalar = Tensor::from_slice(&[5f32], Vec::<usize>::new()).unwrap();
    assert_eq!(sum_dims(scalar, &[]).unwrap().to_vec::<f32>(), [5.0]);
    let message = |t: &Tensor, axes: &[usize]| sum_dims(t.clone(), axes).unwrap_err().to_string();
    assert_eq!(message(&t, &[0, 2]), "sum_dims: axis 2 is out of range for a tensor of rank 2");
    let bools = Tensor::from_bools(&[true, false], [1, 2]).unwrap();
    for axes in [&[][..], &[0], &[0, 1]] {
        assert!(message(&bools, axes).starts_with("sum_dims: dtype bool"), "{}", message(&bools, axes));
    }
}
