//! What Burn 0.22's traits have beyond Burn 0.21's, against loops written from the definitions; and that no
//! method of 0.22's traits is forgotten.
#![allow(missing_docs)]

use burn_backend::ops::{
    BoolTensorOps, ConvOptions, FloatTensorOps, IntTensorOps, ModuleOps, QTensorOps, UnfoldOptions,
};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{Backend, BoolDType, DType, FloatDType, IntDType, Shape, TensorData, TensorMetadata};
use burn_flex::{Flex, FlexDevice, FlexTensor};
use burn_std::PadMode;
use burn_tests::array::{Array, for_each_index};
use burn_tests::compare::{Tolerance, compare_exact, compare_floats};
use burn_tests::kind::{Float, Int, Kind};
use burn_tests::support::{floats, ints, wrap};
use futures_lite::future::block_on;
use std::collections::BTreeSet;

type T = FlexTensor;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const INTS: [DType; 8] =
    [DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8];

/// Names of methods of which the tests below call at least one, beside those of the suite's rows.
const TESTED: [&str; 22] = [
    "flush",
    "float_mask_select",
    "int_mask_select",
    "bool_mask_select",
    "float_hypot",
    "float_pad",
    "int_pad",
    "float_sum_dims",
    "float_topk_with_indices",
    "int_topk_with_indices",
    "q_topk_with_indices",
    "int_square",
    "adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward",
    "batch_norm",
    "batch_norm_train",
    "batch_norm_train_backward",
    "fold4d",
    "float_scatter",
    "int_scatter",
    "float_select_assign",
    "int_select_assign",
];

fn up(array: &Array<f64>, dtype: DType) -> T {
    <Float as Kind<Flex>>::from_data(<Float as Kind<Flex>>::encode(array, dtype), &FlexDevice)
}

fn up_ints(array: &Array<i128>, dtype: DType) -> T {
    <Int as Kind<Flex>>::from_data(<Int as Kind<Flex>>::encode(array, dtype), &FlexDevice)
}

fn down(tensor: T) -> Array<f64> {
    <Float as Kind<Flex>>::decode(&<Float as Kind<Flex>>::into_data(tensor))
}

fn down_ints(tensor: T) -> Array<i128> {
    <Int as Kind<Flex>>::decode(&<Int as Kind<Flex>>::into_data(tensor))
}

/// The tensor as a view of permuted memory.
fn permuted(array: &Array<f64>, dtype: DType) -> T {
    let rank = array.shape().len();
    let axes: Vec<usize> = (0..rank).rev().collect();
    Flex::float_permute(up(&array.permute(&axes), dtype), &axes)
}

/// Compares with `terms` terms of at most `scale` in each sum.
fn close(got: T, dtype: DType, want: &Array<f64>, terms: usize, scale: f64, what: &str) {
    assert_eq!(TensorMetadata::dtype(&got), dtype, "{what}");
    let tolerance = Tolerance { ulps: 8.0, ..Tolerance::accumulated(dtype, terms) };
    compare_floats(dtype, &down(got), want, tolerance, scale)
        .unwrap_or_else(|e| panic!("{what}, {dtype:?}: {e}"));
}

#[test]
fn no_method_is_forgotten() {
    let renamed = |name: &'static str| match name {
        "float_scatter_add" => "float_scatter",
        "int_scatter_add" => "int_scatter",
        "float_select_add" => "float_select_assign",
        "int_select_add" => "int_select_assign",
        other => other,
    };
    let rows = burn_tests::all_rows::<Flex>().into_iter().flat_map(|(_, rows)| rows);
    let mut covered: BTreeSet<&str> = rows.flat_map(|row| row.methods).map(renamed).collect();
    covered.extend(TESTED);
    let lines = |text: &'static str| text.lines().filter(|line| !line.starts_with('#'));
    let methods = include_str!("../../../crates/burn-flex-adapter/tests/trait_methods_0_22.txt");
    let methods: BTreeSet<&str> =
        lines(methods).map(|line| line.split(' ').nth(1).expect("a name")).collect();
    let excused = lines(include_str!("not_covered.txt"));
    let excused: BTreeSet<&str> = excused.map(|line| line.split(' ').next().expect("a name")).collect();
    let missing: BTreeSet<&str> = methods.difference(&covered).copied().collect();
    assert_eq!(missing, excused, "the methods without a test, and those with a reason in not_covered.txt");
    let unknown: Vec<_> = TESTED.into_iter().filter(|name| !methods.contains(name)).collect();
    assert!(unknown.is_empty(), "no methods of Burn: {unknown:?}");
}

#[test]
fn flush_returns() {
    assert!(Flex::flush(&FlexDevice).is_ok());
}

#[test]
fn mask_select() {
    let shape = [5, 67];
    let mask = Array::from_fn(shape, |i| (i[0] * 67 + i[1]) % 3 == 1);
    let mask_tensor = |dtype: BoolDType| {
        let data = TensorData::new(mask.data().to_vec(), shape.to_vec());
        Flex::bool_from_data(data.convert_dtype(DType::Bool(dtype)), &FlexDevice)
    };
    let chosen = |count: usize| (0..count).filter(|&k| mask.data()[k]);
    for dtype in FLOATS {
        let x = floats(dtype, &shape, (-2.0, 2.0), 1);
        let want: Vec<f64> = chosen(x.len()).map(|k| x.data()[k]).collect();
        for t in [up(&x, dtype), permuted(&x, dtype)] {
            let got = block_on(Flex::float_mask_select(t, mask_tensor(BoolDType::Native)));
            compare_exact(&down(got), &Array::new([want.len()], want.clone())).expect("the elements");
        }
    }
    for dtype in INTS {
        let x = ints(dtype, &shape, (0, 100), 1);
        let want: Vec<i128> = chosen(x.len()).map(|k| x.data()[k]).collect();
        let got = block_on(Flex::int_mask_select(up_ints(&x, dtype), mask_tensor(BoolDType::U8)));
        compare_exact(&down_ints(got), &Array::new([want.len()], want)).expect("the elements");
    }
    let got =
        block_on(Flex::bool_mask_select(mask_tensor(BoolDType::Native), mask_tensor(BoolDType::Native)));
    let data = block_on(Flex::bool_into_data(got)).expect("data");
    assert_eq!(data.iter::<bool>().collect::<Vec<_>>(), vec![true; chosen(mask.len()).count()]);
}

#[test]
fn hypot() {
    let pairs = [(3.0, 4.0), (-5.0, 12.0), (0.0, 0.0), (0.0, -2.0), (1e-3, 1e-3), (-7.0, 0.0)];
    for dtype in FLOATS {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let round = |v: Vec<f64>| v.into_iter().map(|x| burn_tests::compare::round_to(dtype, x)).collect();
        let (a, b) = (Array::new([6], round(a)), Array::new([6], round(b)));
        let want = a.zip(&b, |x: f64, y: f64| x.hypot(y));
        close(Flex::float_hypot(up(&a, dtype), up(&b, dtype)), dtype, &want, 1, 0.0, "hypot");
    }
    // Squares that overflow f32, a difference that loses the smaller number, and special values.
    let a = Array::new([5], vec![3e30, 1e20, f64::INFINITY, f64::NAN, f64::NEG_INFINITY]);
    let b = Array::new([5], vec![4e30, 1.0, 1.0, 1.0, f64::INFINITY]);
    let want = Array::new([5], vec![5e30, 1e20, f64::INFINITY, f64::NAN, f64::INFINITY]);
    let (a, b) = (a.map(|x| x as f32 as f64), b.map(|x| x as f32 as f64));
    close(Flex::float_hypot(up(&a, DType::F32), up(&b, DType::F32)), DType::F32, &want, 1, 0.0, "hypot");
}

#[test]
fn pad() {
    let shape = [3, 4];
    let padding = [(1, 2), (3, 0)];
    /// The index of the element at a padded position, if it has one.
    fn source(at: usize, before: usize, size: usize, mode: PadMode) -> Option<usize> {
        let k = at as isize - before as isize;
        let last = size as isize - 1;
        match mode {
            PadMode::Edge => Some(k.clamp(0, last) as usize),
            PadMode::Reflect => Some((last - (last - k.abs()).abs()) as usize),
            PadMode::Constant(_) => (0..=last).contains(&k).then_some(k as usize),
        }
    }
    for mode in [PadMode::Constant(1.5), PadMode::Edge, PadMode::Reflect] {
        let place =
            |i: &[usize]| Some([source(i[0], padding[0].0, 3, mode)?, source(i[1], padding[1].0, 4, mode)?]);
        for dtype in FLOATS {
            let x = floats(dtype, &shape, (-2.0, 2.0), 1);
            let want = Array::from_fn([6, 7], |i| place(i).map_or(1.5, |i| x.at(&i)));
            for t in [up(&x, dtype), permuted(&x, dtype)] {
                compare_exact(&down(Flex::float_pad(t, &padding, mode)), &want).expect("the padded tensor");
            }
        }
        let mode = if matches!(mode, PadMode::Constant(_)) { PadMode::Constant(7.0) } else { mode };
        for dtype in INTS {
            let x = ints(dtype, &shape, (0, 100), 1);
            let want = Array::from_fn([6, 7], |i| place(i).map_or(7, |i| x.at(&i)));
            let got = down_ints(Flex::int_pad(up_ints(&x, dtype), &padding, mode));
            compare_exact(&got, &want).expect("the padded tensor");
        }
    }
}

#[test]
fn sums_over_several_axes() {
    let sizes = [3, 5, 2, 7];
    for dtype in FLOATS {
        let x = floats(dtype, &sizes, (-2.0, 2.0), 1);
        for subset in 0..16 {
            let axes: Vec<usize> = (0..4).filter(|k| subset >> k & 1 == 1).collect();
            let shape: Vec<usize> = (0..4).map(|k| if axes.contains(&k) { 1 } else { sizes[k] }).collect();
            let mut sums = std::collections::HashMap::new();
            for_each_index(x.shape(), |i| {
                let to: Vec<usize> = (0..4).map(|k| if axes.contains(&k) { 0 } else { i[k] }).collect();
                *sums.entry(to).or_insert(0.0) += x.at(i);
            });
            let want = Array::from_fn(shape, |i| sums[i]);
            for t in [up(&x, dtype), permuted(&x, dtype)] {
                close(Flex::float_sum_dims(t, &axes), dtype, &want, 210, 2.0, "sum_dims");
            }
        }
    }
    // Halves are rounded once, not once per axis.
    for (dtype, values, want) in [
        (DType::F16, [40000.0, -40000.0, 40000.0, -40000.0], 0.0),
        (DType::F16, [2048.0, -2048.0, 1.0, 0.0], 1.0),
        (DType::BF16, [256.0, -256.0, 1.0, 0.0], 1.0),
    ] {
        let x = Array::new([2, 2], values.to_vec());
        for axes in [[0, 1], [1, 0]] {
            let got = down(Flex::float_sum_dims(up(&x, dtype), &axes));
            compare_exact(&got, &Array::new([1, 1], vec![want])).expect("one rounding");
        }
    }
    // An axis that is named again has size one by then.
    let x = floats(DType::F32, &[3, 4], (-2.0, 2.0), 1);
    let [once, twice] = [&[1][..], &[1, 1]].map(|axes| down(Flex::float_sum_dims(up(&x, DType::F32), axes)));
    compare_exact(&twice, &once).expect("the same sums");
    let got = message(|| Flex::float_sum_dims(up(&x, DType::F32), &[0, 2]));
    assert_eq!(got, "sum_dims: axis 2 is out of range for a tensor of rank 2");
}

#[test]
fn topk_with_indices() {
    // All different, so that the indices are known.
    let order = |k: usize| ((k * 37) % 101) as i128;
    let array = Array::from_fn([3, 33], |i| order(i[0] * 33 + i[1]));
    for (axis, k) in [(1, 5), (0, 2), (1, 33)] {
        let ranked = array.map_axis(axis, k, |line| {
            let mut at: Vec<usize> = (0..line.len()).collect();
            at.sort_by_key(|&i| -line[i]);
            at[..k].iter().map(|&i| i as i128).collect()
        });
        let largest = array.map_axis(axis, k, |line| {
            let mut line = line.to_vec();
            line.sort_by_key(|&x| -x);
            line[..k].to_vec()
        });
        for dtype in FLOATS {
            for out in [IntDType::I64, IntDType::U8] {
                let x = up(&array.map(|x| x as f64), dtype);
                let (values, indices) = Flex::float_topk_with_indices(x, axis, k, out);
                compare_exact(&down(values), &largest.map(|x| x as f64)).expect("the largest");
                compare_exact(&down_ints(indices), &ranked).expect("their places");
            }
        }
        for dtype in INTS {
            let (values, indices) = Flex::int_topk_with_indices(up_ints(&array, dtype), axis, k);
            compare_exact(&down_ints(values), &largest).expect("the largest");
            compare_exact(&down_ints(indices), &ranked).expect("their places");
        }
    }
    let scheme = QuantScheme::default().with_value(QuantValue::Q8S).with_store(QuantStore::Native);
    let q = Flex::quantize_dynamic(up(&array.map(|x| x as f64), DType::F32), &scheme);
    let numbers = down(Flex::dequantize(q.clone(), FloatDType::F32));
    let (values, indices) = Flex::q_topk_with_indices(q, 1, 4, IntDType::I32);
    let (values, indices) = (down(Flex::dequantize(values, FloatDType::F32)), down_ints(indices));
    for row in 0..3 {
        let mut line: Vec<f64> = (0..33).map(|c| numbers.at(&[row, c])).collect();
        for k in 0..4 {
            assert_eq!(values.at(&[row, k]), line[indices.at(&[row, k]) as usize]);
        }
        line.sort_by(|a, b| b.total_cmp(a));
        assert!((0..4).all(|k| values.at(&[row, k]) == line[k]));
    }
}

#[test]
fn squares_wrap() {
    for dtype in INTS {
        let x = ints(dtype, &[40], (0, 128), 1);
        compare_exact(&down_ints(Flex::int_square(up_ints(&x, dtype))), &x.map(|v| wrap(dtype, v * v)))
            .expect("squares");
    }
}

/// The window of an output position of adaptive pooling.
fn window(o: usize, input: usize, output: usize) -> std::ops::Range<usize> {
    o * input / output..((o + 1) * input).div_ceil(output)
}

#[test]
fn adaptive_average_pooling_of_volumes() {
    for (input, output) in [([4, 6, 5], [2, 3, 5]), ([5, 3, 7], [2, 1, 3]), ([1, 2, 3], [2, 2, 4])] {
        let shape = [2, 3, input[0], input[1], input[2]];
        let out_shape = [2, 3, output[0], output[1], output[2]];
        for dtype in FLOATS {
            let (x, grad) =
                (floats(dtype, &shape, (-2.0, 2.0), 1), floats(dtype, &out_shape, (-2.0, 2.0), 2));
            let ranges = |o: &[usize]| [0, 1, 2].map(|k| window(o[k + 2], input[k], output[k]));
            let size = |o: &[usize]| ranges(o).iter().map(|r| r.len()).product::<usize>() as f64;
            let inside = |o: &[usize], i: &[usize]| {
                o[..2] == i[..2] && ranges(o).iter().zip(&i[2..]).all(|(range, i)| range.contains(i))
            };
            let mut want = vec![0.0; grad.len()];
            let mut back = vec![0.0; x.len()];
            let mut o_at = 0;
            for_each_index(&out_shape, |o| {
                let mut i_at = 0;
                for_each_index(&shape, |i| {
                    if inside(o, i) {
                        want[o_at] += x.at(i) / size(o);
                        back[i_at] += grad.at(o) / size(o);
                    }
                    i_at += 1;
                });
                o_at += 1;
            });
            for t in [up(&x, dtype), permuted(&x, dtype)] {
                let got = Flex::adaptive_avg_pool3d(t.clone(), output);
                close(got, dtype, &Array::new(out_shape, want.clone()), 64, 2.0, "adaptive_avg_pool3d");
                let got = Flex::adaptive_avg_pool3d_backward(t, permuted(&grad, dtype));
                close(got, dtype, &Array::new(shape, back.clone()), 64, 2.0, "its gradient");
            }
        }
    }
}

#[test]
fn batch_norm() {
    const EPSILON: f64 = 1e-3;
    for (shape, dtype) in [&[4, 3, 5, 7][..], &[6, 3], &[70, 3], &[2, 3, 9], &[2, 3, 700], &[2, 3, 4, 1, 5]]
        .into_iter()
        .flat_map(|s| FLOATS.map(|d| (s, d)))
    {
        let x = floats(dtype, shape, (-2.0, 3.0), 1);
        let grad = floats(dtype, shape, (-1.0, 1.0), 2);
        let of_channel = |seed| floats(dtype, &[3], (0.5, 1.5), seed);
        let (gamma, beta) = (of_channel(3), of_channel(4));
        let channels = |f: &dyn Fn(&[usize]) -> f64| {
            let mut sums = vec![0.0; 3];
            for_each_index(shape, |i| sums[i[1]] += f(i));
            Array::new([3], sums)
        };
        let count = (x.len() / 3) as f64;
        let mean = channels(&|i| x.at(i) / count);
        let variance = channels(&|i| (x.at(i) - mean.at(&i[1..2])).powi(2) / count);
        let normal = Array::from_fn(shape, |i| {
            (x.at(i) - mean.at(&i[1..2])) / (variance.at(&i[1..2]) + EPSILON).sqrt()
        });
        let want = Array::from_fn(shape, |i| normal.at(i) * gamma.at(&i[1..2]) + beta.at(&i[1..2]));
        // Halves are computed in f32, but the statistics that are given are rounded.
        let bound = |got: T, want: &Array<f64>, scale: f64, what: &str| {
            let tolerance = match dtype {
                DType::F32 | DType::F64 => Tolerance::accumulated(dtype, x.len()),
                DType::F16 => Tolerance { absolute: 2f64.powi(-10), ..Tolerance::ulps(16.0) },
                _ => Tolerance { absolute: 2f64.powi(-7), ..Tolerance::ulps(16.0) },
            };
            compare_floats(dtype, &down(got), want, tolerance, scale)
                .unwrap_or_else(|e| panic!("{what} {shape:?}, {dtype:?}: {e}"));
        };
        let t = |array: &Array<f64>| up(array, dtype);
        let got = Flex::batch_norm_train(permuted(&x, dtype), t(&gamma), t(&beta), EPSILON);
        bound(got.output, &want, 4.0, "the output");
        bound(got.mean, &mean, 4.0, "the mean");
        bound(got.variance, &variance, 8.0, "the variance");
        let round = |array: &Array<f64>| array.map(|v| burn_tests::compare::round_to(dtype, v));
        let got =
            Flex::batch_norm(t(&x), t(&gamma), t(&beta), t(&round(&mean)), t(&round(&variance)), EPSILON);
        bound(got, &want, 4.0, "the output for given statistics");
        let got = Flex::batch_norm_train_backward(
            t(&x),
            t(&gamma),
            t(&round(&mean)),
            t(&round(&variance)),
            EPSILON,
            permuted(&grad, dtype),
        );
        let beta_grad = channels(&|i| grad.at(i));
        let gamma_grad = channels(&|i| grad.at(i) * normal.at(i));
        let x_grad = Array::from_fn(shape, |i| {
            let c = &i[1..2];
            gamma.at(c) / (variance.at(c) + EPSILON).sqrt()
                * (grad.at(i) - beta_grad.at(c) / count - normal.at(i) * gamma_grad.at(c) / count)
        });
        bound(got.x_grad, &x_grad, 4.0, "the input's gradient");
        bound(got.gamma_grad, &gamma_grad, 8.0, "gamma's gradient");
        bound(got.beta_grad, &beta_grad, 8.0, "beta's gradient");
    }
}

/// The message of the panic that a call ends in.
fn message<R>(call: impl FnOnce() -> R) -> String {
    let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) else {
        return "no panic".into();
    };
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn malformed_masks_say_what_is_wrong() {
    let x = || up(&floats(DType::F32, &[2, 3], (0.5, 1.5), 1), DType::F32);
    let mask = || Flex::bool_zeros(Shape::new([3, 2]), &FlexDevice, BoolDType::Native);
    let ints = || Flex::int_zeros(Shape::new([2, 3]), &FlexDevice, IntDType::I32);
    for (got, part) in [
        (message(|| block_on(Flex::float_mask_select(x(), mask()))), "[3, 2]"),
        (message(|| block_on(Flex::float_mask_select(x(), ints()))), "i32"),
        (message(|| block_on(Flex::int_mask_select(ints(), mask()))), "[3, 2]"),
        (message(|| block_on(Flex::bool_mask_select(mask(), x()))), "f32"),
    ] {
        assert!(got.starts_with("mask_select: ") && got.contains(part), "{got}: {part}");
    }
}

#[test]
fn malformed_batch_norms_say_what_is_wrong() {
    let t = |shape: &[usize], dtype| up(&floats(dtype, shape, (0.5, 1.5), 1), dtype);
    let f = |shape: &[usize]| t(shape, DType::F32);
    let (x, c): (&[usize], &[usize]) = (&[2, 3, 4], &[3]);
    let given = |x: T, variance: T| message(|| Flex::batch_norm(x, f(c), f(c), f(c), variance, 1e-5));
    let train = |x: T, beta: T| message(|| Flex::batch_norm_train(x, f(c), beta, 1e-5));
    let backward =
        |mean: T, grad: T| message(|| Flex::batch_norm_train_backward(f(x), f(c), mean, f(c), 1e-5, grad));
    for (got, name, part) in [
        (given(f(&[3]), f(c)), "batch_norm: ", "at least two axes"),
        (given(f(x), f(&[4])), "batch_norm: ", "variance of shape [3]"),
        (given(f(x), t(c, DType::F64)), "batch_norm: ", "f64"),
        (train(f(&[3]), f(c)), "batch_norm_train: ", "at least two axes"),
        (train(f(x), f(&[3, 1])), "batch_norm_train: ", "beta of shape [3]"),
        (train(f(x), t(c, DType::F16)), "batch_norm_train: ", "f16"),
        (backward(f(&[2]), f(x)), "batch_norm_train_backward: ", "mean of shape [3]"),
        (backward(f(c), f(&[2, 3, 5])), "batch_norm_train_backward: ", "[2, 3, 5]"),
        (backward(f(c), t(x, DType::BF16)), "batch_norm_train_backward: ", "bf16"),
    ] {
        assert!(got.starts_with(name) && got.contains(part), "{got}: {name} {part}");
    }
}

#[test]
fn fold_is_the_adjoint_of_unfold() {
    for (kernel, stride, padding, dilation) in
        [([2, 3], [1, 1], [0, 0], [1, 1]), ([3, 2], [2, 1], [1, 0], [1, 2]), ([2, 2], [2, 2], [1, 1], [1, 1])]
    {
        let options = || UnfoldOptions::new(stride, padding, dilation);
        let x = floats(DType::F64, &[2, 3, 6, 7], (-2.0, 2.0), 1);
        let unfolded = down(Flex::unfold4d(up(&x, DType::F64), kernel, options()));
        let y = floats(DType::F64, unfolded.shape(), (-2.0, 2.0), 2);
        let folded = down(Flex::fold4d(up(&y, DType::F64), [6, 7], kernel, options()));
        assert_eq!(folded.shape(), x.shape());
        let dot =
            |a: &Array<f64>, b: &Array<f64>| a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum::<f64>();
        let (left, right) = (dot(&unfolded, &y), dot(&x, &folded));
        assert!((left - right).abs() < 1e-9 * left.abs().max(1.0), "{left} {right}");
    }
}

#[test]
fn fold_adds_what_overlaps() {
    let output = [5, 6];
    for (kernel, stride, padding, dilation) in [
        ([2, 3], [1, 1], [0, 0], [1, 1]),
        ([3, 2], [2, 1], [1, 0], [1, 2]),
        ([2, 2], [2, 3], [1, 1], [1, 2]),
        ([5, 6], [1, 1], [0, 0], [1, 1]),
        ([1, 1], [3, 4], [2, 3], [1, 1]),
    ] {
        let blocks =
            [0, 1].map(|k| (output[k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) / stride[k] + 1);
        let taps = kernel[0] * kernel[1];
        for dtype in FLOATS {
            let x = floats(dtype, &[2, 3 * taps, blocks[0] * blocks[1]], (-2.0, 2.0), 1);
            let mut sums = vec![0.0; 2 * 3 * 30];
            for_each_index(x.shape(), |i| {
                let (tap, block) = (i[1] % taps, i[2]);
                let place = [(block / blocks[1], tap / kernel[1]), (block % blocks[1], tap % kernel[1])];
                let at = |k: usize| {
                    let (block, tap) = place[k];
                    (block * stride[k] + tap * dilation[k]).checked_sub(padding[k]).filter(|&y| y < output[k])
                };
                if let (Some(y), Some(x_at)) = (at(0), at(1)) {
                    sums[((i[0] * 3 + i[1] / taps) * 5 + y) * 6 + x_at] += x.at(i);
                }
            });
            let want = Array::new([2, 3, 5, 6], sums);
            for t in [up(&x, dtype), permuted(&x, dtype)] {
                let options = UnfoldOptions::new(stride, padding, dilation);
                close(Flex::fold4d(t, output, kernel, options), dtype, &want, taps, 2.0, "fold4d");
            }
        }
    }
    // What does not overlap does not mix: a product by zero would make NaN of infinity.
    let x = Array::new([1, 4, 1], vec![f64::INFINITY, 1.0, 2.0, 3.0]);
    for dtype in FLOATS {
        let got =
            down(Flex::fold4d(up(&x, dtype), [2, 2], [2, 2], UnfoldOptions::new([1, 1], [0, 0], [1, 1])));
        compare_exact(&got, &Array::new([1, 1, 2, 2], x.data().to_vec())).expect("the elements");
    }
}

#[test]
fn malformed_folds_say_what_is_wrong() {
    let fold = |shape: &[usize], kernel| {
        let x = up(&floats(DType::F32, shape, (-2.0, 2.0), 1), DType::F32);
        message(|| Flex::fold4d(x, [3, 3], kernel, UnfoldOptions::new([1, 1], [0, 0], [1, 1])))
    };
    for (got, part) in [
        (fold(&[4, 4], [2, 2]), "blocks"),
        (fold(&[1, 6, 4], [2, 2]), "multiple of 4"),
        (fold(&[1, 4, 5], [2, 2]), "4 blocks"),
        (fold(&[1, 4, 4], [2, 0]), "kernel size"),
        (fold(&[1, 16, 4], [4, 4]), "fits"),
    ] {
        assert!(got.starts_with("fold4d: ") && got.contains(part), "{got}: {part}");
    }
}

#[test]
fn updates_by_every_operation() {
    use IndexingUpdateOp as Op;
    let combine = |op: Op, old: i128, new: i128| match op {
        Op::Assign => new,
        Op::Add => old + new,
        Op::Mul => old * new,
        Op::Min => old.min(new),
        Op::Max => old.max(new),
    };
    // A place is named twice only where the order does not matter.
    for op in [Op::Assign, Op::Add, Op::Mul, Op::Min, Op::Max] {
        let twice = !matches!(op, Op::Assign);
        let x = Array::from_fn([4, 5], |i| (i[0] * 5 + i[1]) as i128 % 7);
        let row = |k: usize| if twice { [2, 0, 2][k] } else { [2, 0, 3][k] };
        let values = Array::from_fn([3, 5], |i| (i[0] * 2 + i[1]) as i128 % 5);
        let mut want = x.data().to_vec();
        for_each_index(&[3, 5], |i| {
            let at = row(i[0]) * 5 + i[1];
            want[at] = combine(op, want[at], values.at(i));
        });
        let want = Array::new([4, 5], want);
        let rows = || up_ints(&Array::from_fn([3], |i| row(i[0]) as i128), DType::I32);
        let each = || up_ints(&Array::from_fn([3, 5], |i| row(i[0]) as i128), DType::I64);
        for dtype in FLOATS {
            let (x, v, want) = (x.map(|v| v as f64), values.map(|v| v as f64), want.map(|v| v as f64));
            let got = down(Flex::float_scatter(0, permuted(&x, dtype), each(), up(&v, dtype), op));
            compare_exact(&got, &want).unwrap_or_else(|e| panic!("scatter {op:?} {dtype:?}: {e}"));
            let got = down(Flex::float_select_assign(up(&x, dtype), 0, rows(), permuted(&v, dtype), op));
            compare_exact(&got, &want).unwrap_or_else(|e| panic!("select {op:?} {dtype:?}: {e}"));
        }
        for dtype in INTS {
            let want = want.map(|v| wrap(dtype, v));
            let (x, v) = (|| up_ints(&x, dtype), || up_ints(&values, dtype));
            compare_exact(&down_ints(Flex::int_scatter(0, x(), each(), v(), op)), &want)
                .unwrap_or_else(|e| panic!("scatter {op:?} {dtype:?}: {e}"));
            compare_exact(&down_ints(Flex::int_select_assign(x(), 0, rows(), v(), op)), &want)
                .unwrap_or_else(|e| panic!("select {op:?} {dtype:?}: {e}"));
        }
    }
}

/// The shape of a convolution's result.
fn output_shape(x: &[usize; 4], weight: &[usize; 4], options: &ConvOptions<2>) -> [usize; 4] {
    let size = |k: usize| {
        let wide = x[k + 2] + options.padding[k].0 + options.padding[k].1;
        (wide - options.dilation[k] * (weight[k + 2] - 1) - 1) / options.stride[k] + 1
    };
    [x[0], weight[0], size(0), size(1)]
}

/// Visits the terms of a convolution with a padding for each end, from the definition: the places of the
/// result, the input and the weight.
fn padded_conv(
    x: &[usize; 4],
    weight: &[usize; 4],
    options: &ConvOptions<2>,
    mut visit: impl FnMut([usize; 4], [usize; 4], [usize; 4]),
) {
    let ConvOptions { stride, padding, dilation, groups } = options;
    let out = output_shape(x, weight, options);
    for_each_index(&out, |o| {
        for_each_index(&weight[1..], |w| {
            let place = |k: usize| (o[k + 2] * stride[k] + w[k + 1] * dilation[k]).checked_sub(padding[k].0);
            let (Some(h), Some(v)) = (place(0), place(1)) else { return };
            if h < x[2] && v < x[3] {
                let channel = o[1] / (weight[0] / groups) * weight[1] + w[0];
                visit([o[0], o[1], o[2], o[3]], [o[0], channel, h, v], [o[1], w[0], w[1], w[2]]);
            }
        });
    });
}

#[test]
fn convolutions_with_a_padding_for_each_end() {
    for (padding, stride, dilation, groups) in [
        ([(1, 0), (0, 2)], [1, 1], [1, 1], 1),
        ([(0, 3), (2, 1)], [2, 1], [1, 2], 2),
        ([(2, 1), (1, 1)], [1, 2], [2, 1], 1),
    ] {
        let options = || ConvOptions::new_with_padding(stride, padding, dilation, groups);
        let (x_shape, w_shape) = ([2, 4, 6, 5], [6, 4 / groups, 2, 3]);
        let out_shape = output_shape(&x_shape, &w_shape, &options());
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let [x, weight, grad] = [(&x_shape, 1), (&w_shape, 2), (&out_shape, 3)]
                .map(|(s, seed)| floats(dtype, s, (-1.0, 1.0), seed));
            let at = |shape: &[usize], i: [usize; 4]| {
                ((i[0] * shape[1] + i[1]) * shape[2] + i[2]) * shape[3] + i[3]
            };
            let [mut want, mut x_grad, mut w_grad] =
                [grad.len(), x.len(), weight.len()].map(|n| vec![0.0; n]);
            padded_conv(&x_shape, &w_shape, &options(), |o, i, w| {
                want[at(&out_shape, o)] += x.at(&i) * weight.at(&w);
                x_grad[at(&x_shape, i)] += grad.at(&o) * weight.at(&w);
                w_grad[at(&w_shape, w)] += grad.at(&o) * x.at(&i);
            });
            let t = || permuted(&x, dtype);
            let w = || up(&weight, dtype);
            let got = Flex::conv2d(t(), w(), None, options());
            close(got, dtype, &Array::new(out_shape, want), 64, 1.0, "conv2d");
            let got = Flex::conv2d_x_backward(t(), w(), up(&grad, dtype), options());
            close(got, dtype, &Array::new(x_shape, x_grad), 64, 1.0, "the input's gradient");
            let got = Flex::conv2d_weight_backward(t(), w(), up(&grad, dtype), options());
            close(got, dtype, &Array::new(w_shape, w_grad), 128, 1.0, "the weight's gradient");
        }
    }
    // One axis and three: zeros that stand in the input give the same.
    let x = floats(DType::F64, &[1, 2, 7], (-1.0, 1.0), 1);
    let weight = || up(&floats(DType::F64, &[3, 2, 3], (-1.0, 1.0), 2), DType::F64);
    let wide = Array::from_fn([1, 2, 10], |i| {
        i[2].checked_sub(2).filter(|&k| k < 7).map_or(0.0, |k| x.at(&[0, i[1], k]))
    });
    let options = |padding| ConvOptions::new_with_padding([1], [padding], [1], 1);
    let want = down(Flex::conv1d(up(&wide, DType::F64), weight(), None, options((0, 0))));
    close(
        Flex::conv1d(up(&x, DType::F64), weight(), None, options((2, 1))),
        DType::F64,
        &want,
        16,
        1.0,
        "conv1d",
    );
    let x = floats(DType::F64, &[1, 1, 3, 4, 5], (-1.0, 1.0), 1);
    let weight = || up(&floats(DType::F64, &[2, 1, 2, 2, 2], (-1.0, 1.0), 2), DType::F64);
    let wide = Array::from_fn([1, 1, 4, 4, 7], |i| {
        let k = i[4].checked_sub(2).filter(|&k| k < 5);
        k.filter(|_| i[2] < 3).map_or(0.0, |k| x.at(&[0, 0, i[2], i[3], k]))
    });
    let options = |padding| ConvOptions::new_with_padding([1; 3], padding, [1; 3], 1);
    let want = down(Flex::conv3d(up(&wide, DType::F64), weight(), None, options([(0, 0); 3])));
    let got = Flex::conv3d(up(&x, DType::F64), weight(), None, options([(0, 1), (0, 0), (2, 0)]));
    close(got, DType::F64, &want, 16, 1.0, "conv3d");
}

#[test]
fn pooling_returns_the_dtype_of_indices_that_is_asked_for() {
    let x = Array::from_fn([1, 1, 4, 5], |i| ((i[2] * 5 + i[3]) * 7 % 20) as f64);
    for (out, dtype) in [(IntDType::I64, DType::I64), (IntDType::U8, DType::U8), (IntDType::I16, DType::I16)]
    {
        let got =
            Flex::max_pool2d_with_indices(up(&x, DType::F32), [2, 2], [2, 2], [0, 0], [1, 1], false, out);
        assert_eq!(TensorMetadata::dtype(&got.indices), dtype);
        let (values, places) = (down(got.output), down_ints(got.indices));
        for_each_index(values.shape(), |o| {
            let window = (0..4).map(|k| (2 * o[2] + k / 2) * 5 + 2 * o[3] + k % 2);
            let largest = window.max_by(|&a, &b| x.data()[a].total_cmp(&x.data()[b])).expect("a window");
            assert_eq!((values.at(o), places.at(o)), (x.data()[largest], largest as i128));
        });
        let line = Flex::float_reshape(up(&x, DType::F32), Shape::new([1, 1, 20]));
        let got = Flex::max_pool1d_with_indices(line, 4, 4, 0, 1, false, out);
        assert_eq!(TensorMetadata::dtype(&got.indices), dtype);
    }
}
