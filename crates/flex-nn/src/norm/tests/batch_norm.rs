//! Batch normalisation against its definition in f64.

use super::*;

const EPSILON: f64 = 1e-3;

/// Shapes that are cut in every way: all channels in a line, some of them, one; lines of whole channels and
/// of parts; channels in one tile, in several by images, and in several within an image; last groups, lines
/// and tiles that are smaller.
const SHAPES: &[&[usize]] = &[
    &[1, 1],
    &[5, 1],
    &[4, 3],
    &[37, 16],
    &[3, 700],
    &[200, 600],
    &[1500, 520],
    &[40_000, 3],
    &[70_000, 1],
    &[1, 5, 1],
    &[5, 3, 2],
    &[5, 1, 33],
    &[2, 3, 1000],
    &[2, 2, 70_001],
    &[1, 1, 140_003],
    &[301, 2, 300],
    &[3, 3, 4, 4],
    &[8, 20, 7, 7],
    &[3, 5, 14, 14],
    &[2, 3, 56, 56],
    &[2, 3, 5, 7, 11],
];

/// Shapes for the dtypes whose kernels were tested with all of [`SHAPES`].
const FEW: &[&[usize]] = &[&[4, 3], &[200, 600], &[301, 2, 300], &[8, 20, 7, 7], &[2, 3, 5, 7, 11]];

/// The channel of each element.
fn channels(shape: &[usize]) -> impl Iterator<Item = usize> + use<> {
    let (count, channels) = (shape.iter().product::<usize>(), shape[1]);
    let pixels = shape[2..].iter().product::<usize>();
    (0..count).map(move |i| i / pixels % channels)
}

/// For each channel, the sum of the numbers, with what each addition rounds off (Knuth's two-sum), so that it
/// is more exact than what is tested.
fn sums(shape: &[usize], numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); shape[1]];
    for (c, number) in channels(shape).zip(numbers) {
        let (sum, rest) = sums[c];
        let next: f64 = sum + number;
        let part = next - sum;
        sums[c] = (next, rest + ((sum - (next - part)) + (number - part)));
    }
    sums.into_iter().map(|(sum, rest)| sum + rest).collect()
}

/// Mean and biased variance of each channel.
fn moments(shape: &[usize], x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let count = (x.len() / shape[1]) as f64;
    let over = |sums: Vec<f64>| sums.into_iter().map(|sum| sum / count).collect::<Vec<_>>();
    let mean = over(sums(shape, x.iter().copied()));
    let apart = channels(shape).zip(x).map(|(c, x)| (x - mean[c]).powi(2));
    let variance = over(sums(shape, apart));
    (mean, variance)
}

/// `(x - mean) / sqrt(variance + epsilon)`.
fn normal(shape: &[usize], x: &[f64], mean: &[f64], variance: &[f64]) -> Vec<f64> {
    channels(shape).zip(x).map(|(c, x)| (x - mean[c]) / (variance[c] + EPSILON).sqrt()).collect()
}

/// Numbers above 0.5, for variances.
fn positive<T: Element>(count: usize) -> Tensor {
    let values = wide::<T>(&sample::<T>(&[count], 6)).into_iter().map(|v| T::from_f64(v.abs() + 0.5));
    Tensor::from_slice(&values.collect::<Vec<_>>(), [count]).unwrap()
}

/// The same elements in a contiguous tensor that nothing else shares.
fn owned<T: Element>(tensor: &Tensor) -> Tensor {
    Tensor::from_slice(&tensor.to_vec::<T>(), tensor.shape().to_vec()).unwrap()
}

fn check_forward<T: Element>(x: Tensor) {
    let shape = x.shape().to_vec();
    let what = alloc::format!("{:?} {:?}", T::DTYPE, x.layout());
    let (gamma, beta) = (sample::<T>(&[shape[1]], 3), sample::<T>(&[shape[1]], 4));
    let (data, g, b) = (wide::<T>(&x), wide::<T>(&gamma), wide::<T>(&beta));
    let apply = |normal: Vec<f64>| -> Vec<f64> {
        channels(&shape).zip(normal).map(|(c, h)| h * g[c] + b[c]).collect()
    };
    let bound = tolerance(T::DTYPE);

    let (mean, variance) = moments(&shape, &data);
    let want = apply(normal(&shape, &data, &mean, &variance));
    let got = batch_norm_train(x.clone(), gamma.clone(), beta.clone(), EPSILON).unwrap();
    assert_eq!(got.0.shape().to_vec(), shape, "{what}");
    close(&wide::<T>(&got.0), &want, bound, 5.0, &what);
    close(&wide::<T>(&got.1), &mean, bound, 2.0, &what);
    close(&wide::<T>(&got.2), &variance, bound, 2.0, &what);
    assert_eq!(wide::<T>(&x), data, "{what}");
    // Another layout gives the same bits.
    let again = batch_norm_train(owned::<T>(&x), gamma.clone(), beta.clone(), EPSILON).unwrap();
    assert_eq!(bits(&again.0), bits(&got.0), "{what}");
    assert_eq!((bits(&again.1), bits(&again.2)), (bits(&got.1), bits(&got.2)), "{what}");

    let (mean, variance) = (sample::<T>(&[shape[1]], 5), positive::<T>(shape[1]));
    let want = apply(normal(&shape, &data, &wide::<T>(&mean), &wide::<T>(&variance)));
    let got = batch_norm(x.clone(), gamma, beta, mean, variance, EPSILON).unwrap();
    assert_eq!(got.shape().to_vec(), shape, "{what}");
    // Products of up to 10 / 0.7 * 5 cancel; in half precision they are not rounded.
    close(&wide::<T>(&got), &want, bound, if T::DTYPE.size() == 2 { 0.01 } else { 40.0 }, &what);
    assert_eq!(wide::<T>(&x), data, "{what}");
}

/// Numbers near a mean that is far from zero: with `x * scale + shift`, the rounding of the shift alone would
/// be an error of 0.03 here.
#[test]
fn a_large_mean_does_not_cancel() {
    let line = |v: f32| Tensor::from_slice(&[v, 1.0], [2]).unwrap();
    let x: Vec<f32> = (0..20).map(|k| if k < 10 { 1000.0 + (k as f32 - 3.0) / 512.0 } else { 1.0 }).collect();
    let tensor = Tensor::from_slice(&x, [1, 2, 10]).unwrap();
    let got = batch_norm(tensor, line(2.0), line(0.5), line(1000.0), line(0.0), EPSILON).unwrap();
    for (k, (x, got)) in x.iter().zip(got.to_vec::<f32>()).enumerate() {
        let want = match k {
            0..10 => (f64::from(*x) - 1000.0) / EPSILON.sqrt() * 2.0 + 0.5,
            _ => 1.0,
        };
        assert!((f64::from(got) - want).abs() <= 4.0 * f64::from(f32::EPSILON), "{k}: {got}, wanted {want}");
    }
}

fn bits(tensor: &Tensor) -> Vec<u8> {
    let tensor = tensor.clone().into_contiguous().unwrap();
    let size = tensor.dtype().size();
    let start = tensor.layout().offset() * size;
    tensor.storage_bytes()[start..start + tensor.num_elements() * size].to_vec()
}

fn check_backward<T: Element>(x: Tensor) {
    let shape = x.shape().to_vec();
    let what = alloc::format!("{:?} {:?}", T::DTYPE, x.layout());
    let gamma = sample::<T>(&[shape[1]], 3);
    // Small, so that no sum exceeds f16.
    let grad = wide::<T>(&sample::<T>(&shape, 8)).into_iter().map(|v| T::from_f64(v / 64.0));
    let grad = Tensor::from_slice(&grad.collect::<Vec<_>>(), shape.clone()).unwrap();
    let (mean, variance) = (sample::<T>(&[shape[1]], 5), positive::<T>(shape[1]));
    let (data, g, dy) = (wide::<T>(&x), wide::<T>(&gamma), wide::<T>(&grad));
    let h = normal(&shape, &data, &wide::<T>(&mean), &wide::<T>(&variance));
    let count = (data.len() / shape[1]) as f64;
    let for_beta = sums(&shape, dy.iter().copied());
    let for_gamma = sums(&shape, dy.iter().zip(&h).map(|(dy, h)| dy * h));
    let v = wide::<T>(&variance);
    let want: Vec<f64> = (channels(&shape).zip(dy.iter().zip(&h)))
        .map(|(c, (dy, h))| {
            g[c] / (v[c] + EPSILON).sqrt() * (dy - for_beta[c] / count - h * for_gamma[c] / count)
        })
        .collect();
    let run = |x: &Tensor, grad: Tensor| {
        batch_norm_train_backward(x.clone(), gamma.clone(), mean.clone(), variance.clone(), EPSILON, grad)
            .unwrap()
    };
    let got = run(&x, grad.clone());
    let bound = tolerance(T::DTYPE);
    assert_eq!(got.0.shape().to_vec(), shape, "{what}");
    // The summed numbers are of magnitude up to 5 / 64 and 70 / 64; halves round each result once.
    let scale = |magnitude: f64| if T::DTYPE.size() == 2 { 0.01 } else { magnitude / 64.0 };
    close(&wide::<T>(&got.0), &want, bound, scale(50.0), &what);
    close(&wide::<T>(&got.1), &for_gamma, bound, scale(70.0 * count.sqrt()), &what);
    close(&wide::<T>(&got.2), &for_beta, bound, scale(5.0 * count.sqrt()), &what);
    assert_eq!((wide::<T>(&x), wide::<T>(&grad)), (data, dy), "{what}");
    // The buffer of an unshared gradient is reused, with the same bits as result.
    let own = owned::<T>(&grad);
    let address = own.storage_bytes().as_ptr();
    let again = run(&owned::<T>(&x), own);
    assert_eq!(again.0.storage_bytes().as_ptr(), address, "{what}");
    assert_eq!(bits(&again.0), bits(&got.0), "{what}");
    assert_eq!((bits(&again.1), bits(&again.2)), (bits(&got.1), bits(&got.2)), "{what}");
}

fn check_all<T: Element>(shapes: &[&[usize]]) {
    for shape in shapes {
        check_forward::<T>(sample::<T>(shape, 1));
        check_backward::<T>(sample::<T>(shape, 1));
    }
    let views = [
        sample::<T>(&[7, 5, 6, 4], 1).permute(&[3, 1, 0, 2]).unwrap(),
        sample::<T>(&[4, 6, 6, 5], 1).permute(&[0, 3, 1, 2]).unwrap(),
        sample::<T>(&[30, 40], 1).swap_axes(0, 1).unwrap(),
        sample::<T>(&[4, 6, 5], 1).flip(&[0, 1, 2]).unwrap(),
        sample::<T>(&[4, 9, 5], 1).narrow(1, 2, 3).unwrap(),
        sample::<T>(&[1, 3, 5], 1).expand(&[4, 3, 5]).unwrap(),
    ];
    for view in views {
        check_forward::<T>(view.clone());
        check_backward::<T>(view);
    }
}

#[test]
fn f32_follows_the_definition() {
    check_all::<f32>(SHAPES);
}

#[test]
fn f64_follows_the_definition() {
    check_all::<f64>(FEW);
}

#[test]
fn halves_follow_the_definition_and_are_rounded_once() {
    check_all::<f16>(FEW);
    check_all::<bf16>(FEW);
}

#[test]
fn a_large_mean_cancels_nothing() {
    // Channels in one tile, in several by images, and in several within an image.
    for shape in [&[8, 2, 64][..], &[64, 2], &[40_000, 3], &[600, 2, 300], &[2, 2, 80_000]] {
        let count: usize = shape.iter().product();
        let pixels: usize = shape[2..].iter().product();
        // In each channel, as many of either number.
        let odd = |i: usize| (i / pixels / shape[1] + i % pixels) % 2;
        let values: Vec<f32> = (0..count).map(|i| 1e6 + odd(i) as f32).collect();
        let x = Tensor::from_slice(&values, shape.to_vec()).unwrap();
        let line = |value| Tensor::full([shape[1]], value, DType::F32).unwrap();
        let (output, mean, variance) = batch_norm_train(x, line(1.0), line(0.0), 0.0).unwrap();
        assert!(mean.to_vec::<f32>().iter().all(|mean| (mean - 1_000_000.5).abs() <= 0.1), "{mean:?}");
        assert!(variance.to_vec::<f32>().iter().all(|v| (v - 0.25).abs() < 0.01), "{variance:?}");
        for (i, y) in output.to_vec::<f32>().into_iter().enumerate() {
            assert!((y - (2 * odd(i)) as f32 + 1.0).abs() < 0.2, "{shape:?} [{i}]: {y}");
        }
    }
}

#[test]
fn nan_and_infinity_stay_in_their_channel() {
    for shape in [&[6, 4][..], &[2, 4, 3], &[3, 4, 40], &[2, 4, 600], &[600, 4, 120], &[30_000, 4]] {
        let (pixels, count): (usize, usize) = (shape[2..].iter().product(), shape.iter().product());
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let mut values = sample::<f32>(shape, 1).to_vec::<f32>();
        // The last element of each of the first channels.
        for (c, special) in special.into_iter().enumerate() {
            values[count - (3 - c) * pixels - 1] = special;
        }
        let x = Tensor::from_slice(&values, shape.to_vec()).unwrap();
        let line = |value| Tensor::full([4], value, DType::F32).unwrap();
        let (output, mean, variance) = batch_norm_train(x.clone(), line(1.0), line(0.0), EPSILON).unwrap();
        let mean = mean.to_vec::<f32>();
        assert!(mean[0].is_nan() && mean[1..3] == special[1..] && mean[3].is_finite(), "{mean:?}");
        let variance = variance.to_vec::<f32>();
        assert!(variance[..3].iter().all(|v| v.is_nan()) && variance[3].is_finite(), "{variance:?}");
        let channel = |c| channels(shape).map(move |at| at == c);
        let all = |tensor: &Tensor, c, f: fn(f32) -> bool| {
            channel(c).zip(tensor.to_vec::<f32>()).all(|(inside, y)| !inside || f(y))
        };
        assert!((0..3).all(|c| all(&output, c, f32::is_nan)) && all(&output, 3, f32::is_finite));

        // With given statistics, an element touches no other.
        let got = batch_norm(x.clone(), line(2.0), line(1.0), line(0.0), line(1.0), 0.0).unwrap();
        for (x, y) in values.iter().zip(got.to_vec::<f32>()) {
            let want = 2.0 * x + 1.0;
            assert!(y == want || y.is_nan() && want.is_nan(), "{y} for {want}");
        }

        // A special number of the output's gradient.
        let backward = |x: Tensor, grad: Tensor| {
            batch_norm_train_backward(x, line(1.0), line(0.0), line(1.0), EPSILON, grad).unwrap()
        };
        let plain = sample::<f32>(shape, 2);
        for (got, infinite) in [(backward(plain.clone(), x.clone()), true), (backward(x, plain), false)] {
            let beta = got.2.to_vec::<f32>();
            let finite = beta.iter().map(|v| v.is_finite()).collect::<Vec<_>>();
            assert_eq!(finite, [!infinite, !infinite, !infinite, true]);
            assert!(got.1.to_vec::<f32>()[..3].iter().all(|v| !v.is_finite()));
            assert!((0..3).all(|c| all(&got.0, c, |v| !v.is_finite())) && all(&got.0, 3, f32::is_finite));
        }
    }
}

#[test]
fn one_element_per_channel_becomes_beta() {
    let x = sample::<f32>(&[1, 5], 1);
    let (gamma, beta) = (sample::<f32>(&[5], 2), sample::<f32>(&[5], 3));
    let (output, mean, variance) = batch_norm_train(x.clone(), gamma, beta.clone(), EPSILON).unwrap();
    assert_eq!(output.to_vec::<f32>(), beta.to_vec::<f32>());
    assert_eq!(mean.to_vec::<f32>(), x.to_vec::<f32>());
    assert_eq!(variance.to_vec::<f32>(), [0.0; 5]);
}

#[test]
fn empty_tensors() {
    for (shape, channels) in [(&[0, 3][..], 3), (&[2, 0], 0), (&[2, 0, 4], 0), (&[2, 3, 0, 5], 3)] {
        let line = || Tensor::full([channels], 1.0, DType::F32).unwrap();
        let x = || Tensor::empty(shape.to_vec(), DType::F32).unwrap();
        let (output, mean, variance) = batch_norm_train(x(), line(), line(), EPSILON).unwrap();
        assert_eq!(output.shape().to_vec(), shape);
        for numbers in [mean, variance] {
            assert_eq!(numbers.shape().to_vec(), [channels]);
            assert!(numbers.to_vec::<f32>().iter().all(|v| v.is_nan()));
        }
        let output = batch_norm(x(), line(), line(), line(), line(), EPSILON).unwrap();
        assert_eq!(output.shape().to_vec(), shape);
        let (input, gamma, beta) =
            batch_norm_train_backward(x(), line(), line(), line(), EPSILON, x()).unwrap();
        assert_eq!(input.shape().to_vec(), shape);
        assert_eq!(
            [gamma, beta].map(|sums| sums.to_vec::<f32>()),
            [vec![0.0; channels], vec![0.0; channels]]
        );
    }
}

#[test]
fn bad_arguments_are_refused() {
    let f = |shape: &[usize]| Tensor::empty(shape.to_vec(), DType::F32).unwrap();
    let of = |dtype| move |shape: &[usize]| Tensor::empty(shape.to_vec(), dtype).unwrap();
    let message = |error: crate::Error| error.to_string();
    // Calls each operation with the k-th argument replaced; argument 0 is the tensor.
    let calls = |k: usize, bad: Tensor| {
        let pick = |at: usize, good: &[usize]| if at == k { bad.clone() } else { f(good) };
        let (x, c): (&[usize], &[usize]) = (&[2, 3, 4], &[3]);
        [
            batch_norm(pick(0, x), pick(1, c), pick(2, c), pick(3, c), pick(4, c), EPSILON).map_err(message),
            batch_norm_train(pick(0, x), pick(1, c), pick(2, c), EPSILON).map(|out| out.0).map_err(message),
            batch_norm_train_backward(pick(0, x), pick(1, c), pick(3, c), pick(4, c), EPSILON, pick(5, x))
                .map(|out| out.0)
                .map_err(message),
        ]
    };
    let names = ["batch_norm: ", "batch_norm_train: ", "batch_norm_train_backward: "];
    let check = |k: usize, bad: Tensor, parts: [&[&str]; 3]| {
        for ((got, name), parts) in calls(k, bad).into_iter().zip(names).zip(parts) {
            match (got, parts) {
                (Ok(_), []) => {}
                (Err(error), [_, ..]) => {
                    assert!(error.starts_with(name), "{error}");
                    assert!(parts.iter().all(|part| error.contains(part)), "{error}: {parts:?}");
                }
                (got, _) => panic!("{name}argument {k}: {got:?}"),
            }
        }
    };
    check(0, f(&[3]), [&["[3]", "at least two axes"]; 3]);
    check(0, f(&[]), [&["at least two axes"]; 3]);
    check(0, f(&[2, 4, 3]), [&["[3]", "gamma of shape [4]"]; 3]);
    check(0, of(DType::I32)(&[2, 3, 4]), [&["i32", "a float dtype"]; 3]);
    check(0, of(DType::F64)(&[2, 3, 4]), [&["f64", "f32"]; 3]);
    check(1, f(&[3, 1]), [&["[3, 1]", "gamma of shape [3]"]; 3]);
    check(1, of(DType::F16)(&[3]), [&["f32", "f16"]; 3]);
    check(2, f(&[2]), [&["[2]", "beta of shape [3]"], &["[2]", "beta of shape [3]"], &[]]);
    check(3, f(&[]), [&["mean of shape [3]"], &[], &["mean of shape [3]"]]);
    check(4, f(&[1]), [&["[1]", "variance of shape [3]"], &[], &["[1]", "variance of shape [3]"]]);
    check(4, of(DType::F64)(&[3]), [&["f32", "f64"], &[], &["f32", "f64"]]);
    check(5, f(&[3, 2, 4]), [&[], &[], &["[2, 3, 4]", "[3, 2, 4]", "equal shapes"]]);
    check(5, of(DType::BF16)(&[2, 3, 4]), [&[], &[], &["f32", "bf16"]]);
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(target_family = "wasm", ignore = "starts threads")]
fn the_same_bits_on_any_number_of_threads() {
    // Enough work for threads, cut in every way.
    let shapes: [&[usize]; 7] = [
        &[8, 64, 28, 28],
        &[16, 200, 14, 7],
        &[1500, 520],
        &[100_000, 3],
        &[301, 2, 900],
        &[2, 2, 140_001],
        &[3, 1, 140_001],
    ];
    for shape in shapes {
        for tensor in [sample::<f32> as fn(&[usize], usize) -> Tensor, sample::<bf16>] {
            let [x, grad, line, variance] = [(shape, 1), (shape, 2), (&shape[1..2], 3), (&shape[1..2], 4)]
                .map(|(shape, seed)| tensor(shape, seed));
            let line = || line.clone();
            let variance = flex_map::elementwise::unary(flex_map::elementwise::Unary::Abs, variance).unwrap();
            let run = || {
                let (y, mean, spread) = batch_norm_train(x.clone(), line(), line(), EPSILON).unwrap();
                let (x_grad, gamma, beta) = batch_norm_train_backward(
                    x.clone(),
                    line(),
                    line(),
                    variance.clone(),
                    EPSILON,
                    grad.clone(),
                )
                .unwrap();
                let plain = batch_norm(x.clone(), line(), line(), line(), variance.clone(), EPSILON).unwrap();
                [y, mean, spread, x_grad, gamma, beta, plain].map(|tensor| bits(&tensor))
            };
            let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let want = pool(1).install(run);
            for threads in [2, 3, 8] {
                assert!(pool(threads).install(run) == want, "{shape:?}, {threads} threads");
            }
        }
    }
}
