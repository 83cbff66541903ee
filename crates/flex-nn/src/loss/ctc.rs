//! Connectionist temporal classification.
//!
//! A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber: Connectionist Temporal Classification: Labelling
//! Unsegmented Sequence Data with Recurrent Neural Networks, ICML 2006.
//!
//! The probability of a target is the sum of the probabilities of all its alignments: each time step emits a
//! label or a blank; repeated labels in a row count once, then blanks are dropped. With a blank before,
//! between and after the `n` labels there are `2n + 1` states. `alpha[t][s]` is the log-probability of all
//! paths that are in state `s` after step `t`:
//!
//! ```text
//! alpha[t][s] = log_prob[t][label s]
//!             + logsumexp(alpha[t-1][s], alpha[t-1][s-1], alpha[t-1][s-2] if a jump to s is allowed)
//! ```
//!
//! where a path may jump to a label from the preceding label if the two differ. `beta` is the same recursion
//! from the end. Everything is computed in f64 and in log space, for every dtype, because sequences are long
//! and probabilities tiny.

use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::parallel::{self, Work};
use crate::storage::Scratch;
use crate::stored::{Computing, Sink, Source};
use crate::{Blank, DType, Element, Tensor, storage};
use alloc::vec::Vec;
use flex_math::simd::vectorize;
use flex_math::{Exp, Ln, map, map_in_place};

/// Negative log-likelihood of each sample's target, `[batch]`.
///
/// * `log_probs`: log-probabilities `[time, batch, classes]`
/// * `targets`: labels `[batch, labels]`, of any integer dtype; labels beyond a target's length are ignored
/// * `input_lengths`, `target_lengths`: the number of time steps and labels of each sample, `[batch]`
/// * `blank`: the class that means "no label"
///
/// The loss is infinite if no alignment of the sample's length gives the target, and 0 for an empty target in
/// zero steps.
///
/// # Errors
/// Fails if shapes do not fit together, dtypes are not float and integer, a length exceeds its axis, or a
/// label or the blank is not a class.
pub fn ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: usize,
) -> Result<Tensor> {
    const OP: &str = "ctc_loss";
    let problem = Problem::new(OP, &log_probs, &targets, &input_lengths, &target_lengths, blank)?;
    let log_probs = log_probs.into_contiguous()?;
    let (dtype, src) = (log_probs.dtype(), Source::of(&log_probs));
    let mut blank = Blank::new(OP, [problem.samples.len()].into(), dtype)?;
    storage::ensure_for_tasks(OP, problem.states().saturating_mul(STATE_BYTES), problem.samples.len())?;
    parallel::for_each_chunk(blank.bytes(), dtype.size(), problem.work(), |n, out| {
        let sample = &problem.samples[n];
        let mut states = States::new(sample, problem.blank);
        let (mut alpha, mut next) = (states.nothing(), states.nothing());
        for t in 0..sample.time {
            states.load(src.slice(problem.row(t, n)));
            states.step(t == 0, &alpha, &mut next);
            core::mem::swap(&mut alpha, &mut next);
        }
        Sink::new(out, dtype).set(states.loss(sample.time, &alpha));
    });
    Ok(blank.finish())
}

/// Gradient of [`ctc_loss`] with respect to `log_probs`, weighted by `grad` (`[batch]`), in the form that
/// PyTorch and Burn use:
///
/// ```text
/// (exp(log_probs) - posterior) * grad
/// ```
///
/// where `posterior` is the posterior probability of each class at each step. If the log-probabilities come
/// from a log-softmax, its backward pass maps this form and the plain derivative `-posterior * grad` to the
/// same gradient. The gradient is zero at time steps beyond a sample's length and for samples of infinite
/// loss.
///
/// # Errors
/// The errors of [`ctc_loss`], and a `grad` that is not `[batch]` or not of the dtype of `log_probs`.
pub fn ctc_loss_backward(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    grad: Tensor,
    blank: usize,
) -> Result<Tensor> {
    const OP: &str = "ctc_loss_backward";
    let problem = Problem::new(OP, &log_probs, &targets, &input_lengths, &target_lengths, blank)?;
    check_same_dtype(OP, log_probs.dtype(), grad.dtype())?;
    if grad.shape().as_slice() != [problem.samples.len()] {
        return Err(Error::shapes(OP, log_probs.shape(), grad.shape(), "a gradient of shape [batch]"));
    }
    let (log_probs, grad) = (log_probs.into_contiguous()?, grad.into_contiguous()?);
    let (dtype, src, grad) = (log_probs.dtype(), Source::of(&log_probs), Source::of(&grad));
    let mut out = Blank::new(OP, log_probs.shape().clone(), dtype)?;
    // The rows of one sample are not adjacent in memory; each task gets the list of its rows.
    let batch = problem.samples.len();
    let lists = batch.saturating_mul(size_of::<Vec<Sink<'_>>>() + LIST);
    storage::ensure(OP, (batch * problem.time).saturating_mul(size_of::<Sink<'_>>()).saturating_add(lists))?;
    let mut rows: Vec<Vec<Sink<'_>>> =
        storage::try_collect(OP, (0..batch).map(|_| storage::list(problem.time)))?;
    for (k, row) in out.bytes().chunks_exact_mut(problem.classes * dtype.size()).enumerate() {
        rows[k % batch].push(Sink::new(row, dtype));
    }
    // The alphas of every step, twice the buffers of a step, and a row of classes in and out.
    let alphas = problem.samples.iter().map(|s| (2 * s.labels.len() + 8).saturating_mul(s.time)).max();
    let numbers = alphas.unwrap_or(0).saturating_add(problem.states() * 2 * (STATE_BYTES / 8));
    let bytes = numbers.saturating_add(2 * problem.classes).saturating_mul(size_of::<f64>());
    storage::ensure_for_tasks(OP, bytes, batch)?;
    parallel::for_each_chunk(&mut rows, 1, problem.work(), |n, rows| match dtype {
        DType::F64 => gradient::<f64>(&problem, n, src, grad.get(n), &mut rows[0]),
        _ => gradient::<f32>(&problem, n, src, grad.get(n), &mut rows[0]),
    });
    drop(rows);
    Ok(out.finish())
}

/// Writes the gradient of sample `n` to its rows. Only the last step of each row is computed in `A`.
fn gradient<A: Computing>(problem: &Problem, n: usize, src: Source<'_>, grad: f64, rows: &mut [Sink<'_>]) {
    let sample = &problem.samples[n];
    let mut states = States::new(sample, problem.blank);
    let mut alphas: Vec<Vec<f64>> = storage::list(sample.time);
    for t in 0..sample.time {
        states.load(src.slice(problem.row(t, n)));
        let mut alpha = states.nothing();
        match alphas.last() {
            Some(last) => states.step(false, last, &mut alpha),
            None => states.step(true, &states.nothing(), &mut alpha),
        }
        alphas.push(alpha);
    }
    let empty = states.nothing();
    let loss = states.loss(sample.time, alphas.last().unwrap_or(&empty));
    let counted = if loss == f64::INFINITY { 0 } else { sample.time };
    let (counted_rows, zero_rows) = rows.split_at_mut(counted);
    zero_rows.iter_mut().for_each(|row| row.bytes().fill(0));

    // Beta runs over the states in reverse order, where it is the alpha of the reversed target.
    let mut reversed = states.reversed();
    let (mut beta, mut next) = (reversed.nothing(), reversed.nothing());
    let mut posterior = storage::room(states.labels.len(), 0.0);
    let (mut wide, mut narrow) = (Scratch::<A>::default(), Scratch::default());
    for (t, row) in counted_rows.iter_mut().enumerate().rev() {
        let log_probs = src.slice(problem.row(t, n));
        // Without this step's own log-probability, which alpha already contains.
        reversed.log_probs.fill(0.0);
        reversed.step(t + 1 == sample.time, &beta, &mut next);
        for ((p, a), b) in posterior.iter_mut().zip(&alphas[t][PAD..]).zip(next[PAD..].iter().rev()) {
            *p = a + b + loss;
        }
        map_in_place(Exp, &mut posterior);
        reversed.load(log_probs);
        for (b, log_prob) in next[PAD..].iter_mut().zip(&reversed.log_probs) {
            *b += log_prob;
        }
        core::mem::swap(&mut beta, &mut next);

        let log_probs = log_probs.load::<A>(&mut wide);
        row.through(&mut narrow, |row: &mut [A]| {
            map(Exp, log_probs, row);
            let scale = A::from_f64(grad);
            row.iter_mut().for_each(|v| *v = *v * scale);
            let blanks: f64 = posterior.iter().step_by(2).sum();
            let blank = (problem.blank, &blanks);
            let labels = states.labels.iter().copied().zip(&posterior).skip(1).step_by(2);
            for (class, p) in labels.chain([blank]) {
                row[class] = row[class] - A::from_f64(p * grad);
            }
        });
    }
}

/// One sample: its number of time steps and its labels.
struct Sample {
    time: usize,
    labels: Vec<usize>,
}

/// The checked arguments.
struct Problem {
    time: usize,
    classes: usize,
    blank: usize,
    samples: Vec<Sample>,
}

impl Problem {
    fn new(
        op: &'static str,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        blank: usize,
    ) -> Result<Self> {
        if !log_probs.dtype().is_float() {
            return Err(Error::dtype(op, log_probs.dtype(), "a float dtype (f64, f32, f16, bf16)"));
        }
        check_rank(op, log_probs.shape(), 3, "log-probabilities [time, batch, classes]")?;
        check_rank(op, targets.shape(), 2, "targets [batch, labels]")?;
        let [time, batch, classes] = core::array::from_fn(|k| log_probs.shape()[k]);
        let columns = targets.shape()[1];
        if targets.shape()[0] != batch {
            return Err(Error::shapes(op, log_probs.shape(), targets.shape(), "targets [batch, labels]"));
        }
        for lengths in [input_lengths, target_lengths] {
            if lengths.shape().as_slice() != [batch] {
                return Err(Error::shapes(op, log_probs.shape(), lengths.shape(), "lengths [batch]"));
            }
        }
        if blank >= classes {
            return Err(Error::argument(op, "blank", blank, alloc::format!("a class, below {classes}")));
        }
        let targets = integers(op, targets)?;
        let input_lengths = lengths(op, "input length", input_lengths, time)?;
        let target_lengths = lengths(op, "target length", target_lengths, columns)?;
        let labels = target_lengths.iter().fold(0usize, |sum, &len| sum.saturating_add(len));
        let lists = batch.saturating_mul(size_of::<Sample>() + LIST);
        storage::ensure(op, labels.saturating_mul(size_of::<usize>()).saturating_add(lists))?;
        let mut samples = storage::try_list(op, batch)?;
        for (n, (&time, &len)) in input_lengths.iter().zip(&target_lengths).enumerate() {
            let mut labels = storage::try_list(op, len)?;
            for &label in &targets[n * columns..n * columns + len] {
                let class = usize::try_from(label).ok().filter(|&class| class < classes);
                labels.push(class.ok_or_else(|| Error::index(op, label, 2, classes))?);
            }
            samples.push(Sample { time, labels });
        }
        Ok(Self { time, classes, blank, samples })
    }

    /// Range of the log-probabilities of sample `n` at step `t`.
    fn row(&self, t: usize, n: usize) -> core::ops::Range<usize> {
        let start = (t * self.samples.len() + n) * self.classes;
        start..start + self.classes
    }

    /// The largest number of states of a sample.
    fn states(&self) -> usize {
        self.samples.iter().map(|sample| 2 * sample.labels.len() + 1).max().unwrap_or(0)
    }

    /// Four transcendental functions per step and state.
    fn work(&self) -> Work {
        let states: usize = self.samples.iter().map(|s| (2 * s.labels.len() + 1) * s.time).sum();
        Work::Flops(states.saturating_mul(64))
    }
}

/// The elements as signed integers.
fn integers(op: &'static str, tensor: &Tensor) -> Result<Vec<i64>> {
    let tensor = tensor.to_contiguous()?;
    // A `u64` above `i64::MAX` becomes negative, which is equally invalid.
    dispatch!(int op, tensor.dtype(), I => {
        storage::try_collect(op, tensor.as_slice::<I>().expect("contiguous").iter().map(|v| v.to_i64()))
    })
}

/// The elements as lengths; an error if one is negative or above `limit`.
fn lengths(op: &'static str, name: &'static str, tensor: &Tensor, limit: usize) -> Result<Vec<usize>> {
    let valid = |&v: &i64| usize::try_from(v).ok().filter(|&v| v <= limit);
    let refuse = |v: &i64| Error::argument(op, name, v, alloc::format!("0 to {limit}"));
    let values = integers(op, tensor)?;
    let mut lengths = storage::try_list(op, values.len())?;
    for v in &values {
        lengths.push(valid(v).ok_or_else(|| refuse(v))?);
    }
    Ok(lengths)
}

/// More bytes than an allocator takes for itself and for rounding per list.
const LIST: usize = 32;

/// Bytes per state of [`States`] and of two lists of log-probabilities.
const STATE_BYTES: usize = 10 * size_of::<f64>();

/// Elements before state 0, always -inf, so that a step reads `s - 1` and `s - 2` without a bounds check.
const PAD: usize = 2;

/// The states of a target and the buffers of a step.
struct States {
    /// The class of each state: blank, label, blank, ..., blank.
    labels: Vec<usize>,
    /// 0 if a path may reach the state from two states before, -inf otherwise.
    jump: Vec<f64>,
    /// Log-probability of each state at the current step.
    log_probs: Vec<f64>,
    /// Buffer for the three ways into each state: staying, advancing by one state, jumping by two states.
    ways: Vec<f64>,
    largest: Vec<f64>,
}

impl States {
    fn new(sample: &Sample, blank: usize) -> Self {
        let mut labels = storage::room(2 * sample.labels.len() + 1, blank);
        for (state, label) in labels[1..].iter_mut().step_by(2).zip(&sample.labels) {
            *state = *label;
        }
        Self::of(labels, blank)
    }

    fn of(labels: Vec<usize>, blank: usize) -> Self {
        let n = labels.len();
        let jumps = |s: usize| s >= 2 && labels[s] != blank && labels[s] != labels[s - 2];
        let mut jump = storage::room(n, 0.0);
        jump.iter_mut().enumerate().filter(|(s, _)| !jumps(*s)).for_each(|(_, j)| *j = f64::NEG_INFINITY);
        let [log_probs, largest] = [(); 2].map(|()| storage::room(n, 0.0));
        Self { labels, jump, log_probs, ways: storage::room(3 * n, 0.0), largest }
    }

    /// The states of the reversed target.
    fn reversed(&self) -> Self {
        let mut labels = storage::list(self.labels.len());
        labels.extend(self.labels.iter().rev());
        Self::of(labels, self.labels[0])
    }

    /// Log-probabilities of a set of paths that is in no state: all -inf.
    fn nothing(&self) -> Vec<f64> {
        storage::room(PAD + self.labels.len(), f64::NEG_INFINITY)
    }

    /// Loads the log-probabilities of a time step.
    fn load(&mut self, row: Source<'_>) {
        for (to, label) in self.log_probs.iter_mut().zip(&self.labels) {
            *to = row.get(*label);
        }
    }

    /// One step of the recursion.
    fn step(&mut self, first: bool, last: &[f64], next: &mut [f64]) {
        if first {
            // A path starts with the blank or with the first label.
            next[PAD..].fill(f64::NEG_INFINITY);
            for (next, log_prob) in next[PAD..].iter_mut().zip(&self.log_probs).take(2) {
                *next = *log_prob;
            }
            return;
        }
        let n = self.labels.len();
        let Self { jump, log_probs, ways, largest, .. } = self;
        let (stay, rest) = ways.split_at_mut(n);
        let (advance, leap) = rest.split_at_mut(n);
        vectorize(
            #[inline(always)]
            || {
                let (same, before, two_before) = (&last[2..n + 2], &last[1..n + 1], &last[..n]);
                let (stay, advance, leap) = (&mut stay[..n], &mut advance[..n], &mut leap[..n]);
                let (jump, largest) = (&jump[..n], &mut largest[..n]);
                for s in 0..n {
                    let (a, b, c) = (same[s], before[s], two_before[s] + jump[s]);
                    let max = if b > a { b } else { a };
                    let max = if c > max { c } else { max };
                    // Replaces -inf, since `-inf - -inf` would be NaN.
                    let max = if max == f64::NEG_INFINITY { 0.0 } else { max };
                    largest[s] = max;
                    (stay[s], advance[s], leap[s]) = (a - max, b - max, c - max);
                }
            },
        );
        map_in_place(Exp, ways);
        let (sum, rest) = ways.split_at_mut(n);
        let (advance, leap) = rest.split_at_mut(n);
        for ((s, a), l) in sum.iter_mut().zip(advance).zip(leap) {
            *s += *a + *l;
        }
        map_in_place(Ln, sum);
        let known = sum.iter().zip(&*largest).zip(&*log_probs);
        for (next, ((sum, max), log_prob)) in next[PAD..].iter_mut().zip(known) {
            *next = sum + max + log_prob;
        }
    }

    /// The loss after `time` steps: paths end in the last blank or the last label.
    fn loss(&self, time: usize, alpha: &[f64]) -> f64 {
        if time == 0 {
            return if self.labels.len() == 1 { 0.0 } else { f64::INFINITY };
        }
        // The padding before state 0 is -inf, so an empty target needs no special case.
        let end = alpha.len();
        let (a, b) = (alpha[end - 1], alpha[end - 2]);
        let max = if b > a { b } else { a };
        if max == f64::NEG_INFINITY {
            return if a.is_nan() || b.is_nan() { f64::NAN } else { f64::INFINITY };
        }
        -(max + num_traits::Float::ln(num_traits::Float::exp(a - max) + num_traits::Float::exp(b - max)))
    }
}
