//! Connectionist temporal classification, against the enumeration of all paths.

use crate::array::{Array, for_each_index};
use crate::compare::{Tolerance, round_to};
use crate::kind::{Float, Int};
use crate::operands::{over_operands, take};
use crate::row::{Context, Row};
use crate::support::{expect_float, floats, over_layouts, upload};
use burn_backend::{Backend, DType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["ctc_loss"], loss),
        Row::new(&["has_ctc_loss_backward", "ctc_loss_backward"], backward),
        Row::new(&["ctc_loss"], long),
    ]
}

/// A batch: log-probabilities `[time, batch, classes]`, and for each sample its length and its labels.
struct Batch {
    log_probs: Array<f64>,
    lengths: Vec<usize>,
    targets: Vec<Vec<usize>>,
    blank: usize,
}

impl Batch {
    fn new(dtype: DType, time: usize, classes: usize, blank: usize, samples: &[(usize, &[usize])]) -> Self {
        let scores = floats(dtype, &[time, samples.len(), classes], (-2.0, 2.0), 1);
        let log_probs = scores.map_axis(2, classes, |line| {
            let sum: f64 = line.iter().map(|x| x.exp()).sum();
            line.iter().map(|x| round_to(dtype, x - sum.ln())).collect()
        });
        Self {
            log_probs,
            lengths: samples.iter().map(|s| s.0).collect(),
            targets: samples.iter().map(|s| s.1.to_vec()).collect(),
            blank,
        }
    }

    /// Targets as a matrix, filled up with labels that are ignored.
    fn targets(&self) -> Array<i128> {
        let longest = self.targets.iter().map(Vec::len).max().unwrap_or(0).max(1);
        Array::from_fn([self.targets.len(), longest], |index| {
            self.targets[index[0]].get(index[1]).map_or(0, |&label| label as i128)
        })
    }

    fn counts(&self, count: impl Fn(usize) -> usize) -> Array<i128> {
        let n = self.targets.len();
        Array::new([n], (0..n).map(|k| count(k) as i128).collect())
    }

    /// The loss of each sample, and the probability of each class at each step given the target.
    fn enumerate(&self, log_probs: &Array<f64>) -> (Array<f64>, Array<f64>) {
        let [_, batch, classes] = log_probs.shape().try_into().expect("three axes");
        let mut posterior = log_probs.map(|_| 0.0);
        let mut losses = Vec::new();
        for n in 0..batch {
            let (mut total, mut by_class) = (0.0, vec![0.0; self.lengths[n] * classes]);
            for_each_index(&vec![classes; self.lengths[n]], |path| {
                // Repeated labels in a row count once, then blanks are dropped.
                let mut labels = path.to_vec();
                labels.dedup();
                labels.retain(|&label| label != self.blank);
                if labels == self.targets[n] {
                    let steps = path.iter().enumerate();
                    let probability: f64 = steps.map(|(t, &c)| log_probs.at(&[t, n, c])).sum::<f64>().exp();
                    total += probability;
                    path.iter().enumerate().for_each(|(t, c)| by_class[t * classes + c] += probability);
                }
            });
            losses.push(-total.ln());
            posterior = Array::from_fn(posterior.shape(), |index| match *index {
                [t, k, c] if k == n && t < self.lengths[n] => by_class[t * classes + c] / total,
                _ => posterior.at(index),
            });
        }
        (Array::new([batch], losses), posterior)
    }
}

fn batches(dtype: DType) -> Vec<Batch> {
    vec![
        Batch::new(dtype, 1, 2, 0, &[(1, &[1])]),
        // Repeated labels, an empty target, samples of different lengths.
        Batch::new(dtype, 6, 3, 0, &[(6, &[1, 2]), (5, &[1, 1]), (4, &[]), (6, &[2, 1, 2]), (2, &[1])]),
        Batch::new(dtype, 5, 4, 3, &[(5, &[0, 2, 1]), (3, &[0, 1, 2]), (5, &[2, 2])]),
        Batch::new(dtype, 4, 4, 1, &[(4, &[0]), (4, &[3, 3])]),
    ]
}

/// Targets that do not fit into their time have no path.
fn unreachable(dtype: DType) -> Batch {
    Batch::new(dtype, 3, 3, 0, &[(3, &[1, 1]), (2, &[1, 1]), (3, &[2, 1, 1])])
}

fn tolerance<B: Backend>(context: &Context<'_, B>, dtype: DType) -> Tolerance {
    let accuracy = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    context.tolerance(Tolerance { absolute: 16.0 * accuracy, ..Tolerance::ulps(1.0) })
}

fn loss<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["ctc_loss"]) {
        for int in context.ints(&["ctc_loss"]) {
            for batch in batches(dtype).into_iter().chain([unreachable(dtype)]) {
                let up = |array: &Array<i128>| upload::<B, Int>(context, array, int);
                let targets = batch.targets();
                let lengths = || {
                    (up(&batch.counts(|n| batch.lengths[n])), up(&batch.counts(|n| batch.targets[n].len())))
                };
                let want = |of: &[Array<f64>]| batch.enumerate(&of[0]).0;
                let case = format!("{int:?} {:?} {:?}", batch.lengths, batch.targets);
                over_operands(context, dtype, &case, &[&batch.log_probs], want, |t, want| {
                    let [log_probs] = take(t);
                    let (time, labels) = lengths();
                    let got = B::ctc_loss(log_probs, up(&targets), time, labels, batch.blank);
                    expect_float::<B>(got, dtype, want, tolerance(context, dtype), 16.0)
                });
                // Some layouts change the contents, so the targets are read back from the laid-out tensor.
                over_layouts::<B, Int>(context, int, &targets, |t, content| {
                    let label = |n: usize| (0..batch.targets[n].len()).map(move |k| (n, k));
                    let targets = (0..batch.targets.len())
                        .map(|n| label(n).map(|(n, k)| content.at(&[n, k]) as usize).collect::<Vec<_>>());
                    let targets: Vec<Vec<usize>> = targets.collect();
                    if targets.iter().flatten().any(|&label| label == batch.blank) {
                        return Ok(());
                    }
                    let moved = Batch {
                        log_probs: batch.log_probs.clone(),
                        lengths: batch.lengths.clone(),
                        targets,
                        blank: batch.blank,
                    };
                    let (time, labels) = lengths();
                    let log_probs = upload::<B, Float>(context, &batch.log_probs, dtype);
                    let got = B::ctc_loss(log_probs, t, time, labels, batch.blank);
                    let want = moved.enumerate(&moved.log_probs).0;
                    expect_float::<B>(got, dtype, &want, tolerance(context, dtype), 16.0)
                        .map_err(|e| format!("{dtype:?} probabilities: {e}"))
                });
            }
        }
    }
}

fn backward<B: Backend>(context: &Context<'_, B>) {
    if !B::has_ctc_loss_backward() {
        // Backends that return false leave the gradient to automatic differentiation.
        return context.check(|| "has_ctc_loss_backward".into(), Ok(()));
    }
    for dtype in context.floats(&["ctc_loss_backward"]) {
        for int in context.ints(&["ctc_loss_backward"]) {
            for batch in batches(dtype).into_iter().chain([unreachable(dtype)]) {
                let up = |array: &Array<i128>| upload::<B, Int>(context, array, int);
                let n = batch.targets.len();
                let grad = floats(dtype, &[n], (-2.0, 2.0), 3);
                // The form that PyTorch and Burn's default use: probabilities minus posteriors. Behind the
                // gradient of a log-softmax this form equals the plain gradient. A target without a path has
                // gradient zero.
                let want = |of: &[Array<f64>]| {
                    let (losses, posterior) = batch.enumerate(&of[0]);
                    Array::from_fn(posterior.shape(), |index| {
                        let n = index[1];
                        if index[0] >= batch.lengths[n] || losses.at(&[n]).is_infinite() {
                            return 0.0;
                        }
                        (of[0].at(index).exp() - posterior.at(index)) * of[1].at(&[n])
                    })
                };
                let case = format!("{int:?} {:?} {:?}", batch.lengths, batch.targets);
                over_operands(context, dtype, &case, &[&batch.log_probs, &grad], want, |t, want| {
                    let [log_probs, grad] = take(t);
                    let got = B::ctc_loss_backward(
                        log_probs,
                        up(&batch.targets()),
                        up(&batch.counts(|n| batch.lengths[n])),
                        up(&batch.counts(|n| batch.targets[n].len())),
                        grad,
                        batch.blank,
                    );
                    expect_float::<B>(got, dtype, want, tolerance(context, dtype), 8.0)
                });
            }
        }
    }
}

/// Sequences whose probability underflows every float. With equal probabilities of all classes every path is
/// equally likely, and the number of paths of `t` steps to `n` labels without equal neighbours is `t + n`
/// choose `2 n`.
fn long<B: Backend>(context: &Context<'_, B>) {
    const TIME: usize = 400;
    const CLASSES: usize = 32;
    const LABELS: usize = 20;
    for dtype in context.floats(&["ctc_loss"]) {
        let each = round_to(dtype, -(CLASSES as f64).ln());
        let log_probs = Array::new([TIME, 1, CLASSES], vec![each; TIME * CLASSES]);
        let targets = Array::from_fn([1, LABELS], |index| 1 + index[1] as i128);
        let ways: f64 = (0..2 * LABELS).map(|k| ((TIME + LABELS - k) as f64 / (k + 1) as f64).ln()).sum();
        let want = Array::new([1], vec![-(ways + TIME as f64 * each)]);
        context.attempt(
            || format!("{dtype:?}: {TIME} steps"),
            || {
                let up = |array: &Array<i128>| upload::<B, Int>(context, array, DType::I32);
                let got = B::ctc_loss(
                    upload::<B, Float>(context, &log_probs, dtype),
                    up(&targets),
                    up(&Array::new([1], vec![TIME as i128])),
                    up(&Array::new([1], vec![LABELS as i128])),
                    0,
                );
                // Each step rounds a logarithm of about the size of the loss.
                let steps = Tolerance {
                    absolute: tolerance(context, dtype).absolute / 16.0,
                    ..tolerance(context, dtype)
                };
                expect_float::<B>(got, dtype, &want, steps, TIME as f64 * want.data()[0])
            },
        );
    }
}
