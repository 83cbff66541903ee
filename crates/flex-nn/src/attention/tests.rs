//! Attention against its definition, composed step by step in f64.

use super::*;
use crate::{DType, Element, bf16, f16};
use alloc::vec;

fn sample<T: Element>(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 500.0 - 2.0;
    let values: Vec<T> = (0..count).map(|i| T::from_f64(value(i))).collect();
    Tensor::from_slice(&values, shape.to_vec()).unwrap()
}

fn wide<T: Element>(t: &Tensor) -> Vec<f64> {
    t.to_vec::<T>().into_iter().map(|v| v.to_f64()).collect()
}

#[derive(Clone, Default)]
struct Case {
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: AttentionOptions,
}

fn oracle<T: Element>(q: &Tensor, k: &Tensor, v: &Tensor, case: &Case) -> Vec<f64> {
    let [b, h, sq, d] = *q.shape().as_slice() else { panic!() };
    let (sk, dv) = (k.shape()[2], v.shape()[3]);
    let (q, k, v) = (wide::<T>(q), wide::<T>(k), wide::<T>(v));
    let scores = [b, h, sq, sk];
    let mask = case.mask.as_ref().map(|m| m.clone().expand(&scores).unwrap().to_vec::<u8>());
    let bias = case.bias.as_ref().map(|m| wide::<T>(&m.clone().expand(&scores).unwrap()));
    let scale = case.options.scale.unwrap_or(1.0 / (d as f64).sqrt());
    let mut out = vec![];
    for row in 0..b * h * sq {
        let (head, i) = (row / sq, row % sq);
        let s: Vec<f64> = (0..sk)
            .map(|j| {
                let dot: f64 = (0..d).map(|p| q[row * d + p] * k[(head * sk + j) * d + p]).sum();
                let mut s = dot * scale;
                if let Some(cap) = case.options.softcap {
                    s = cap * (s / cap).tanh();
                }
                if mask.as_ref().is_some_and(|m| m[row * sk + j] != 0) {
                    s = f64::NEG_INFINITY;
                }
                if case.options.is_causal && j as i64 > i as i64 + sk as i64 - sq as i64 {
                    s = f64::NEG_INFINITY;
                }
                s + bias.as_ref().map_or(0.0, |m| m[row * sk + j])
            })
            .collect();
        let max = s.iter().copied().fold(f64::MIN, f64::max);
        let e: Vec<f64> = s.iter().map(|s| (s - max).exp()).collect();
        let sum = e.iter().sum::<f64>();
        let sum = if sum < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { sum };
        out.extend((0..dv).map(|p| (0..sk).map(|j| e[j] / sum * v[(head * sk + j) * dv + p]).sum::<f64>()));
    }
    out
}

/// Keys or values of which several heads of queries share one, repeated.
fn repeated(t: &Tensor, heads: usize) -> Tensor {
    let [b, own, rows, cols] = *t.shape().as_slice() else { panic!() };
    let times = heads / own;
    let each = t.clone().reshape([b, own, 1, rows, cols]).unwrap().expand(&[b, own, times, rows, cols]);
    each.unwrap().to_contiguous().unwrap().reshape([b, heads, rows, cols]).unwrap()
}

#[test]
fn heads_of_queries_share_heads_of_keys() {
    for (heads, shared) in [(6, 2), (6, 3), (4, 1), (3, 3)] {
        for (queries, keys) in [(1, 9), (5, 7), (130, 40)] {
            let q = sample::<f32>(&[2, heads, queries, 16], 1);
            let (k, v) = (sample::<f32>(&[2, shared, keys, 16], 2), sample::<f32>(&[2, shared, keys, 5], 3));
            let mask = Tensor::from_bools(&[false, true, false, false, true, false], [2, 3, 1, 1]).unwrap();
            let mask = (heads == 3).then_some(mask);
            let options = AttentionOptions { is_causal: true, ..Default::default() };
            let got = attention(q.clone(), k.clone(), v.clone(), mask.clone(), None, options).unwrap();
            let (k, v) = (repeated(&k, heads), repeated(&v, heads));
            let want = attention(q, k, v, mask, None, options).unwrap();
            assert_eq!(got.to_vec::<f32>(), want.to_vec::<f32>(), "{heads} {shared} {queries} {keys}");
        }
    }
}

fn check<T: Element>(q: Tensor, k: Tensor, v: Tensor, case: Case) {
    let want = oracle::<T>(&q, &k, &v, &case);
    let got = attention(q.clone(), k.clone(), v.clone(), case.mask.clone(), case.bias.clone(), case.options)
        .unwrap();
    assert_eq!(got.shape().to_vec(), [&q.shape()[..3], &v.shape()[3..]].concat());
    let tolerance = match T::DTYPE {
        DType::F64 => 1e-14,
        DType::F32 => 4e-6,
        DType::F16 => 2e-3,
        _ => 1.6e-2,
    };
    for (i, (g, w)) in wide::<T>(&got).iter().zip(&want).enumerate() {
        assert!(
            (g - w).abs() <= tolerance,
            "{:?} {:?} {:?} [{i}]: {g} for {w}",
            q.layout(),
            k.layout(),
            case.options
        );
    }
}

fn mask(shape: [usize; 4]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<bool> = (0..count as u64).map(|i| i * 2654435761 % 7 < 2).collect();
    Tensor::from_bools(&values, shape).unwrap()
}

fn check_all<T: Element>() {
    // (batch, heads, queries, keys, depth, value depth): sizes that fit into one tile, and sizes that need
    // several.
    for (b, h, sq, sk, d, dv) in [
        (1, 1, 1, 1, 1, 1),
        (2, 3, 5, 7, 8, 4),
        (1, 2, 33, 65, 17, 9),
        (1, 2, 130, 300, 16, 16),
        (1, 1, 3, 600, 8, 8),
    ] {
        let (q, k, v) =
            (sample::<T>(&[b, h, sq, d], 1), sample::<T>(&[b, h, sk, d], 2), sample::<T>(&[b, h, sk, dv], 3));
        let mut cases = vec![Case::default(); 7];
        cases[1].options.is_causal = true;
        cases[2].mask = Some(mask([b, h, sq, sk]));
        cases[3].bias = Some(sample::<T>(&[1, h, sq, sk], 4));
        cases[4].options = AttentionOptions { scale: Some(0.3), softcap: Some(1.5), is_causal: false };
        // Broadcast masks and biases, together with every option.
        cases[5].mask = Some(mask([1, h, 1, sk]));
        cases[5].bias = Some(sample::<T>(&[b, 1, sq, 1], 5));
        cases[5].options = AttentionOptions { scale: Some(-0.7), softcap: Some(2.0), is_causal: true };
        cases[6].mask = Some(mask([b, h, sk, sq]).swap_axes(2, 3).unwrap());
        for case in cases {
            check::<T>(q.clone(), k.clone(), v.clone(), case);
        }
    }
}

#[test]
fn soft_caps_beyond_the_dtype_and_queries_without_keys() {
    let [q, k, v] = [1, 2, 3].map(|seed| sample::<f32>(&[1, 2, 5, 4], seed));
    let run = |softcap, mask: Option<Tensor>, v: &Tensor| {
        let options = AttentionOptions { scale: None, softcap, is_causal: false };
        attention(q.clone(), k.clone(), v.clone(), mask, None, options).unwrap().to_vec::<f32>()
    };
    let plain = run(None, None, &v);
    for cap in [f64::INFINITY, 1e39] {
        assert_eq!(run(Some(cap), None, &v), plain, "{cap}");
    }
    // All scores are capped to zero, so all values have the same weight.
    let [equal, tiny] = [1e-30, 1e-50].map(|cap| run(Some(cap), None, &v));
    assert!(tiny.iter().zip(&equal).all(|(a, b)| (a - b).abs() < 1e-6), "{tiny:?} {equal:?}");
    let hidden = Tensor::from_bools(&[true; 50], [1, 2, 5, 5]).unwrap();
    let infinite = Tensor::full([1, 2, 5, 4], f64::INFINITY, DType::F32).unwrap();
    assert_eq!(run(None, Some(hidden), &infinite), [0.0; 40]);
}

#[test]
fn every_option_matches_the_definition() {
    check_all::<f32>();
    check_all::<f64>();
    check_all::<f16>();
    check_all::<bf16>();
}

#[test]
fn causal_masks_of_any_proportion() {
    for (sq, sk) in [(7, 3), (3, 7), (300, 300), (40, 530), (600, 280)] {
        let options = AttentionOptions { is_causal: true, ..Default::default() };
        let case = Case { options, ..Default::default() };
        let of = |s, seed| sample::<f32>(&[1, 1, s, 4], seed);
        check::<f32>(of(sq, 1), of(sk, 2), of(sk, 3), case);
    }
}

#[test]
fn operands_in_any_layout() {
    // [batch, sequence, heads, depth], the layout that projections produce; then transposed, flipped and
    // expanded operands.
    let of = |s: usize, seed| sample::<f32>(&[2, s, 3, 8], seed).swap_axes(1, 2).unwrap();
    check::<f32>(of(9, 1), of(11, 2), of(11, 3), Case::default());
    let of = |s: usize, seed| sample::<f32>(&[2, 3, 8, s], seed).swap_axes(2, 3).unwrap();
    check::<f32>(of(9, 1), of(11, 2), of(11, 3), Case::default());
    let of = |s: usize, seed| sample::<f16>(&[2, 3, s, 8], seed).flip(&[1, 3]).unwrap();
    check::<f16>(of(9, 1), of(11, 2), of(11, 3), Case::default());
    let of = |s: usize, seed| sample::<bf16>(&[1, 1, s, 8], seed).expand(&[2, 3, s, 8]).unwrap();
    check::<bf16>(of(9, 1), of(11, 2), of(11, 3), Case::default());
}

#[test]
fn many_heads_use_threads_and_stay_right() {
    let of = |seed| sample::<f32>(&[2, 12, 96, 16], seed);
    check::<f32>(of(1), of(2), of(3), Case::default());
    let options = AttentionOptions { is_causal: true, ..Default::default() };
    check::<f32>(of(1), of(2), of(3), Case { options, ..Default::default() });
}

#[test]
fn queries_that_see_nothing_get_zeros() {
    let (q, k, v) = (
        sample::<f32>(&[1, 1, 3, 4], 1),
        sample::<f32>(&[1, 1, 300, 4], 2),
        sample::<f32>(&[1, 1, 300, 2], 3),
    );
    let all = Tensor::full([1, 1, 3, 1], true as i64, DType::U8).unwrap();
    let all = all.with_dtype(DType::Bool(crate::BoolStore::Native));
    let got =
        attention(q.clone(), k.clone(), v.clone(), Some(all), None, AttentionOptions::default()).unwrap();
    assert_eq!(got.to_vec::<f32>(), [0.0; 6]);
    // The first tile is hidden, the second is not.
    let first: Vec<bool> = (0..300).map(|j| j < 280).collect();
    let first = Tensor::from_bools(&first, [1, 1, 1, 300]).unwrap();
    check::<f32>(q.clone(), k.clone(), v, Case { mask: Some(first), ..Default::default() });
    let none = |d| Tensor::empty([1, 1, 0, d], DType::F32).unwrap();
    let got = attention(q, none(4), none(2), None, None, AttentionOptions::default()).unwrap();
    assert_eq!(got.to_vec::<f32>(), [0.0; 6]);
    let got = attention(none(4), k.clone(), k, None, None, AttentionOptions::default()).unwrap();
    assert_eq!(got.shape().to_vec(), [1, 1, 0, 4]);
}

#[test]
fn nan_and_infinity_propagate() {
    let poisoned = |at: usize, value: f32, seed| {
        let mut values = sample::<f32>(&[1, 1, 400, 4], seed).to_vec::<f32>();
        values[at] = value;
        Tensor::from_slice(&values, [1, 1, 400, 4]).unwrap()
    };
    let ok = |seed| sample::<f32>(&[1, 1, 400, 4], seed);
    let run = |q, k, v| attention(q, k, v, None, None, AttentionOptions::default()).unwrap().to_vec::<f32>();
    let nan_rows = |y: Vec<f32>| y.chunks(4).map(|row| row.iter().all(|v| v.is_nan())).collect::<Vec<_>>();
    let only_third = nan_rows(run(poisoned(12, f32::NAN, 1), ok(2), ok(3)));
    assert!(only_third.iter().enumerate().all(|(i, &nan)| nan == (i == 3)));
    // A key in the first or the last tile reaches every query.
    for at in [0, 1599] {
        assert!(nan_rows(run(ok(1), poisoned(at, f32::NAN, 2), ok(3))).iter().all(|&nan| nan));
    }
    let y = run(ok(1), ok(2), poisoned(1598, f32::NAN, 3));
    assert!(y.chunks(4).all(|row| row[2].is_nan() && row[1].is_finite()));
    // An infinite bias makes the largest score infinite, and `inf - inf` is NaN.
    let bias = Tensor::full([1, 1, 1, 1], f64::INFINITY, DType::F32).unwrap();
    let y = attention(ok(1), ok(2), ok(3), None, Some(bias), AttentionOptions::default()).unwrap();
    assert!(y.to_vec::<f32>().iter().all(|v| v.is_nan()));
}

#[test]
fn integers_are_refused() {
    let t = Tensor::empty([1, 1, 2, 2], DType::I32).unwrap();
    let message = attention(t.clone(), t.clone(), t, None, None, AttentionOptions::default()).unwrap_err();
    assert!(alloc::string::ToString::to_string(&message).starts_with("attention: dtype i32"));
}

#[test]
fn a_depth_of_one_may_have_any_stride() {
    fn check<T: Element>(tolerance: f64) {
        // Keys, queries and values whose neighbours lie apart, and whose only column has any stride.
        let apart = |len: usize, seed| sample::<T>(&[2, 3, len, 5], seed).narrow(3, 2, 1).unwrap();
        for queries in [1, 3, 20] {
            let (q, k, v) = (apart(queries, 1), apart(4, 2), apart(4, 3));
            let got =
                attention(q.clone(), k.clone(), v.clone(), None, None, AttentionOptions::default()).unwrap();
            let want = oracle::<T>(&q, &k, &v, &Case::default());
            for (got, want) in wide::<T>(&got).iter().zip(&want) {
                assert!((got - want).abs() <= tolerance, "{got}, expected {want}");
            }
        }
    }
    check::<f32>(1e-5);
    check::<f64>(1e-9);
    check::<f16>(1e-2);
    check::<bf16>(4e-2);
}
