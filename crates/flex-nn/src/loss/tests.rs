use super::*;
use crate::{DType, Element, Tensor, bf16, f16};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

/// Normalised log-probabilities `[time, batch, classes]`.
fn log_probs(time: usize, batch: usize, classes: usize) -> Vec<f64> {
    let mut state = 77u64;
    let mut out: Vec<f64> = (0..time * batch * classes)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 31) as f64 * 4.0
        })
        .collect();
    for row in out.chunks_mut(classes) {
        let total = row.iter().map(|v| v.exp()).sum::<f64>().ln();
        row.iter_mut().for_each(|v| *v -= total);
    }
    out
}

/// The labels that a path of classes stands for: repeated classes in a row count once, blanks are dropped.
fn collapse(path: &[usize], blank: usize) -> Vec<usize> {
    let mut out = vec![];
    for (k, &c) in path.iter().enumerate() {
        if c != blank && (k == 0 || path[k - 1] != c) {
            out.push(c);
        }
    }
    out
}

/// Sums over all paths: the probability of the target and, per step and class, the probability of the paths
/// through it.
fn enumerate(probs: &[Vec<f64>], target: &[usize], blank: usize) -> (f64, Vec<Vec<f64>>) {
    let (time, classes) = (probs.len(), probs.first().map_or(1, Vec::len));
    let (mut total, mut through) = (0.0, vec![vec![0.0; classes]; time]);
    for code in 0..classes.pow(time as u32) {
        let path: Vec<usize> = (0..time).map(|t| code / classes.pow(t as u32) % classes).collect();
        if collapse(&path, blank) == target {
            let p: f64 = path.iter().zip(probs).map(|(&c, row)| row[c]).product();
            total += p;
            path.iter().zip(&mut through).for_each(|(&c, row)| row[c] += p);
        }
    }
    (total, through)
}

struct Sample {
    target: Vec<i64>,
    time: i64,
    len: i64,
}

fn samples() -> Vec<Sample> {
    let sample = |target: &[i64], time, len| Sample { target: target.to_vec(), time, len };
    vec![
        sample(&[2, 3, 1], 6, 3),
        sample(&[2, 2, 1], 6, 3),
        sample(&[1, 1, 1], 6, 3),
        sample(&[3, -7, 99], 6, 1),
        sample(&[-1, -1, -1], 5, 0),
        sample(&[1, 2, 0], 3, 2),
        sample(&[1, 1, 1], 4, 3),
        sample(&[2, 0, 0], 1, 1),
        sample(&[2, 0, 0], 0, 1),
        sample(&[0, 0, 0], 0, 0),
    ]
}

fn tensor<T: Element>(v: &[f64], shape: impl Into<crate::Shape>) -> Tensor {
    Tensor::from_slice(&v.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>(), shape).unwrap()
}

fn ints<I: Element>(v: impl IntoIterator<Item = i64>, shape: impl Into<crate::Shape>) -> Tensor {
    Tensor::from_slice(&v.into_iter().map(I::from_i64).collect::<Vec<I>>(), shape).unwrap()
}

fn close(g: f64, e: f64, tolerance: f64) -> bool {
    g == e || (g - e).abs() <= tolerance * e.abs().max(1.0)
}

fn check<T: Element, I: Element>(tolerance: f64) {
    let (time, classes, blank, samples) = (6, 4, 0, samples());
    let batch = samples.len();
    let data: Vec<f64> = log_probs(time, batch, classes).iter().map(|&v| T::from_f64(v).to_f64()).collect();
    let x = tensor::<T>(&data, [time, batch, classes]);
    let targets = ints::<I>(samples.iter().flat_map(|s| s.target.clone()), [batch, 3]);
    let times = ints::<I>(samples.iter().map(|s| s.time), [batch]);
    let lens = ints::<I>(samples.iter().map(|s| s.len), [batch]);
    let weights: Vec<f64> = (0..batch).map(|n| 0.5 + n as f64 * 0.25).collect();

    let loss = ctc_loss(x.clone(), targets.clone(), times.clone(), lens.clone(), blank).unwrap();
    assert_eq!((loss.shape().as_slice(), loss.dtype()), (&[batch][..], x.dtype()));
    let grad = ctc_loss_backward(x, targets, times, lens, tensor::<T>(&weights, [batch]), blank).unwrap();
    let loss: Vec<f64> = loss.to_vec::<T>().into_iter().map(T::to_f64).collect();
    let grad: Vec<f64> = grad.to_vec::<T>().into_iter().map(T::to_f64).collect();
    for (n, s) in samples.iter().enumerate() {
        let row = |t: usize| &data[(t * batch + n) * classes..][..classes];
        let probs: Vec<Vec<f64>> =
            (0..s.time as usize).map(|t| row(t).iter().map(|v| v.exp()).collect()).collect();
        let target: Vec<usize> = s.target[..s.len as usize].iter().map(|&c| c as usize).collect();
        let (p, through) = enumerate(&probs, &target, blank);
        assert!(close(loss[n], -p.ln(), tolerance), "sample {n}: {}, expected {}", loss[n], -p.ln());
        for t in 0..time {
            for c in 0..classes {
                let expected = if t < probs.len() && p > 0.0 {
                    (probs[t][c] - through[t][c] / p) * weights[n]
                } else {
                    0.0
                };
                let g = grad[(t * batch + n) * classes + c];
                assert!(close(g, expected, tolerance), "sample {n}, step {t}, class {c}: {g}, {expected}");
            }
        }
    }
}

#[test]
fn the_loss_is_that_of_all_paths_and_so_is_the_gradient() {
    check::<f64, i64>(1e-12);
    check::<f32, i32>(2e-6);
    check::<f16, i16>(3e-3);
    check::<bf16, i8>(3e-2);
}

#[test]
fn long_sequences_do_not_underflow() {
    // All classes have the same probability: the loss is `ln 10` per step, minus the logarithm of the number
    // of alignments.
    let (time, classes) = (2000, 10);
    let x = tensor::<f32>(&vec![-(classes as f64).ln(); time * 3 * classes], [time, 3, classes]);
    let targets = ints::<i64>((0..3 * 40).map(|k| 1 + k % 9), [3, 40]);
    let (times, lens) = (ints::<i64>([2000, 1500, 39], [3]), ints::<i64>([40, 40, 40], [3]));
    let args = (targets, times, lens);
    let loss = ctc_loss(x.clone(), args.0.clone(), args.1.clone(), args.2.clone(), 0).unwrap();
    let loss = loss.to_vec::<f32>();
    // The number of alignments of n labels, no two neighbours equal, in t steps is (t + n) choose (2 n).
    let choose = |n: u64, k: u64| (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum::<f64>();
    for (k, t) in [(0, 2000u64), (1, 1500)] {
        let expected = t as f64 * (classes as f64).ln() - choose(t + 40, 80);
        assert!(close(loss[k] as f64, expected, 1e-6), "{} {expected}", loss[k]);
    }
    assert_eq!(loss[2], f32::INFINITY);
    let weights = tensor::<f32>(&[1.0; 3], [3]);
    let grad = ctc_loss_backward(x, args.0, args.1, args.2, weights, 0).unwrap();
    // Probabilities and posteriors both sum to one.
    for (row, values) in grad.to_vec::<f32>().chunks(classes).enumerate() {
        assert!(values.iter().sum::<f32>().abs() < 1e-5, "row {row}: {values:?}");
        assert!(row % 3 < 2 || values.iter().all(|v| *v == 0.0));
    }
}

#[test]
fn impossible_classes_and_nan() {
    let inf = f64::NEG_INFINITY;
    let x = tensor::<f32>(&[inf, 0.0, inf, 0.0, 0.0, inf, inf, 0.0], [4, 1, 2]);
    let run = |x: &Tensor, label| {
        let targets = ints::<i32>([label, label], [1, 2]);
        let (times, lens) = (ints::<i32>([4], [1]), ints::<i32>([2], [1]));
        let weights = tensor::<f32>(&[1.0], [1]);
        let loss = ctc_loss(x.clone(), targets.clone(), times.clone(), lens.clone(), 0).unwrap();
        let grad = ctc_loss_backward(x.clone(), targets, times, lens, weights, 0).unwrap();
        (loss.item::<f32>(), grad.to_vec::<f32>())
    };
    // The only path of non-zero probability is 1 1 - 1.
    assert_eq!(run(&x, 1), (0.0, vec![0.0; 8]));
    let never = tensor::<f32>(&[0.0, inf, 0.0, inf, 0.0, inf, 0.0, inf], [4, 1, 2]);
    assert_eq!(run(&never, 1), (f32::INFINITY, vec![0.0; 8]));
    let nan = tensor::<f32>(&[f64::NAN; 8], [4, 1, 2]);
    let (loss, grad) = run(&nan, 1);
    assert!(loss.is_nan() && grad.iter().all(|v| v.is_nan()));
}

#[test]
fn another_blank_layouts_and_no_labels() {
    let data = log_probs(5, 3, 4);
    let x = tensor::<f64>(&data, [5, 3, 4]);
    let targets = ints::<u8>([0, 1, 1, 1, 2, 0], [3, 2]);
    let (times, lens) = (ints::<u8>([5, 4, 5], [3]), ints::<u8>([2, 2, 2], [3]));
    let loss = ctc_loss(x.clone(), targets.clone(), times.clone(), lens.clone(), 3).unwrap();
    let batch_first = tensor::<f64>(&x.clone().swap_axes(0, 1).unwrap().to_vec::<f64>(), [3, 5, 4]);
    let turned = batch_first.swap_axes(0, 1).unwrap();
    let again = ctc_loss(turned, targets.clone().flip(&[1]).unwrap().flip(&[1]).unwrap(), times, lens, 3);
    assert_eq!(loss.to_vec::<f64>(), again.unwrap().to_vec::<f64>());
    assert_eq!(x.to_vec::<f64>(), data);

    let none = Tensor::empty([3, 0], DType::I64).unwrap();
    let (times, lens) = (ints::<i64>([5, 0, 1], [3]), ints::<i64>([0, 0, 0], [3]));
    let loss = ctc_loss(x.clone(), none, times, lens, 3).unwrap().to_vec::<f64>();
    let blanks: f64 = (0..5).map(|t| data[t * 12 + 3]).sum();
    assert!((loss[0] + blanks).abs() < 1e-12 && loss[1] == 0.0 && loss[2] == -data[2 * 4 + 3]);

    let empty = Tensor::empty([5, 0, 4], DType::F32).unwrap();
    let (targets, lens) =
        (Tensor::empty([0, 2], DType::I64).unwrap(), Tensor::empty([0], DType::I64).unwrap());
    let weights = Tensor::empty([0], DType::F32).unwrap();
    let loss = ctc_loss(empty.clone(), targets.clone(), lens.clone(), lens.clone(), 0).unwrap();
    assert_eq!(loss.num_elements(), 0);
    let grad = ctc_loss_backward(empty, targets, lens.clone(), lens, weights, 0).unwrap();
    assert_eq!(grad.shape().as_slice(), [5, 0, 4]);
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let x = tensor::<f32>(&log_probs(5, 2, 4), [5, 2, 4]);
    let targets = ints::<i64>([1, 2, 3, 1], [2, 2]);
    let times = ints::<i64>([5, 5], [2]);
    let lens = ints::<i64>([2, 2], [2]);
    let one = ints::<i64>([1], [1]);
    let run = |x: &Tensor, targets: &Tensor, times: &Tensor, lens: &Tensor, blank| {
        ctc_loss(x.clone(), targets.clone(), times.clone(), lens.clone(), blank)
    };
    assert!(run(&x, &targets, &times, &lens, 0).is_ok());
    for bad in [
        run(&x, &targets, &times, &lens, 4),
        run(&x, &ints::<i64>([1, 2, 4, 1], [2, 2]), &times, &lens, 0),
        run(&x, &ints::<i64>([1, -1, 3, 1], [2, 2]), &times, &lens, 0),
        run(&x, &targets, &ints::<i64>([5, 6], [2]), &lens, 0),
        run(&x, &targets, &ints::<i64>([5, -1], [2]), &lens, 0),
        run(&x, &targets, &times, &ints::<i64>([2, 3], [2]), 0),
        run(&x, &targets, &one, &lens, 0),
        run(&x, &targets, &times, &one, 0),
        run(&x, &ints::<i64>([1, 2], [1, 2]), &times, &lens, 0),
        run(&x, &lens, &times, &lens, 0),
        run(&x, &x, &times, &lens, 0),
        run(&targets, &targets, &times, &lens, 0),
        run(&x.clone().reshape([10, 4]).unwrap(), &targets, &times, &lens, 0),
    ] {
        let e = bad.unwrap_err().to_string();
        assert!(e.starts_with("ctc_loss: "), "{e}");
    }
    for grad in [tensor::<f32>(&[1.0], [1]), tensor::<f64>(&[1.0, 1.0], [2])] {
        let e = ctc_loss_backward(x.clone(), targets.clone(), times.clone(), lens.clone(), grad, 0);
        assert!(e.unwrap_err().to_string().starts_with("ctc_loss_backward: "));
    }
}
