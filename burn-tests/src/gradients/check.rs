//! Analytic gradients compared with finite differences.
//!
//! The loss of a case is the sum of its outputs times fixed random weights `w`. Its slope along one input
//! element is taken from the five-point formula
//!
//! ```text
//! (f(x - 2h) - 8 f(x - h) + 8 f(x + h) - f(x + 2h)) / 12h,    h = 2^-10
//! ```
//!
//! and may differ from the analytic one by [`TOLERANCE`]` * (1 + sum |w y|)`:
//!
//! * The formula itself is off by `h^4 / 30 = 3.0e-14` times the fifth derivative, which the ranges of the
//!   cases keep below 1e4 (3e-10).
//! * Rounding of the outputs by `k` ULP gives `1.5 k 2^-53 / h = 1.7e-13 k` times `sum |w y|`; sums and
//!   functions of a few ULP are well below `k = 1000` (2e-10).
//!
//! Inputs are multiples of 2^-20, so that `x + h` is exact, and keep a distance of `2h` from every kink or
//! jump of a function.

use crate::array::Array;
use crate::kind::{Float, Kind};
use crate::layout::{Layout, Operand};
use crate::release::WRONG_DERIVATIVES;
use crate::row::panic_text;
use crate::support::Stream;
use burn_backend::backend::AutodiffBackend;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Derived in the module's documentation; a wrong factor of `1 + 1e-7` exceeds it.
pub const TOLERANCE: f64 = 1e-9;

const H: f64 = 1.0 / 1024.0;

/// A differentiable computation and the inputs at which to differentiate it.
pub struct Case<B: Backend> {
    /// Trait methods whose derivative the case checks.
    pub methods: Vec<&'static str>,
    /// Options, for the report.
    pub name: String,
    /// The inputs that have gradients.
    pub inputs: Vec<Array<f64>>,
    /// The computation.
    pub run: Box<dyn Fn(Vec<FloatTensor<B>>) -> FloatTensor<B>>,
    /// The reason if the framework's derivative is known to be wrong.
    pub wrong: Option<&'static str>,
}

/// Cases of one family.
pub struct Cases<B: Backend>(pub Vec<Case<B>>);

impl<B: Backend> Cases<B> {
    /// Adds a case.
    pub fn add<const N: usize>(
        &mut self,
        methods: &[&'static str],
        name: impl Into<String>,
        inputs: [Array<f64>; N],
        run: impl Fn([FloatTensor<B>; N]) -> FloatTensor<B> + 'static,
    ) {
        self.0.push(Case {
            methods: methods.to_vec(),
            name: name.into(),
            inputs: inputs.to_vec(),
            run: Box::new(move |tensors| {
                run(tensors.try_into().unwrap_or_else(|_| unreachable!("as many as there are inputs")))
            }),
            wrong: None,
        });
    }

    /// Marks the framework's derivative of the last case as wrong, if the release is known for it: the case
    /// has to fail until the framework is fixed.
    pub fn known_wrong(&mut self, reason: &'static str) {
        let case = self.0.last_mut().expect("a case");
        case.wrong = case.methods.iter().any(|m| WRONG_DERIVATIVES.contains(m)).then_some(reason);
    }
}

/// Checks all cases of a family.
///
/// # Panics
/// Panics with a report if a gradient is wrong, or if a gradient marked as wrong is right.
pub fn check_all<B: AutodiffBackend>(cases: Cases<B>) {
    let mut report = Vec::new();
    for case in &cases.0 {
        let outcome = catch_unwind(AssertUnwindSafe(|| check(case)))
            .unwrap_or_else(|payload| Err(panic_text(&*payload)));
        let label = format!("{} ({})", case.methods.join(", "), case.name);
        match (outcome, case.wrong) {
            (Ok(()), None) => {}
            (Ok(()), Some(reason)) => report.push(format!("{label}: right, but noted as wrong: {reason}")),
            (Err(_), Some(reason)) => println!("{label}: wrong in the framework: {reason}"),
            (Err(error), None) => report.push(format!("{label}: {error}")),
        }
    }
    assert!(report.is_empty(), "{} of {} gradients\n{}\n", report.len(), cases.0.len(), report.join("\n"));
}

/// How to differentiate.
struct Variant {
    name: &'static str,
    /// The input that tracks gradients; `None` for all inputs.
    only: Option<usize>,
    /// `y + y^2 / 4` in place of `y`, so that the backward pass needs the values of `y`; with checkpointing,
    /// they are computed again.
    curved: bool,
    /// Memory layout of the inputs, if their shapes allow it.
    layout: Layout,
}

/// Checks a case: with all inputs tracked and with each input alone, with a loss that needs the values of the
/// outputs, and with inputs and output gradients that are views.
///
/// # Errors
/// The first wrong gradient.
pub fn check<B: AutodiffBackend>(case: &Case<B>) -> Result<(), String> {
    let output = case.forward(&case.inputs);
    let mut stream = Stream::new(99);
    let weights = Array::from_fn(output.shape().to_vec(), |_| {
        let magnitude = 0.5 + stream.unit();
        if stream.unit() < 0.5 { magnitude } else { -magnitude }
    });
    if let Some(y) = output.data().iter().find(|y| !y.is_finite()) {
        return Err(format!("the output holds {y}"));
    }
    let curved = weights.zip(&output, |w, y| w * (1.0 + 0.5 * y));
    let scale: f64 = curved.zip(&output, |w, y| (w * y).abs()).data().iter().sum::<f64>()
        + weights.zip(&output, |w, y| (w * y).abs()).data().iter().sum::<f64>();
    let tolerance = TOLERANCE * (1.0 + scale);
    let slopes = case.slopes(&weights, &curved);

    let plain = Variant { name: "all tracked", only: None, curved: false, layout: Layout::Contiguous };
    let mut variants = vec![Variant { name: "curved loss", curved: true, ..plain }];
    let alone = (0..case.inputs.len()).filter(|_| case.inputs.len() > 1);
    variants.extend(alone.map(|k| Variant { name: "one tracked", only: Some(k), ..plain }));
    let layouts = [Layout::Transposed, Layout::Permuted, Layout::Flipped, Layout::Stepped, Layout::Offset];
    variants.extend(layouts.map(|layout| Variant { name: "views", layout, ..plain }));
    variants.insert(0, plain);

    for variant in variants {
        let (value, gradients) = case.gradients(&variant, &weights);
        let describe = |what: String| match variant.only {
            Some(k) => format!("{} {k}: {what}", variant.name),
            None => format!("{} {:?}: {what}", variant.name, variant.layout),
        };
        // In another layout the same computation may sum in another order.
        let slack = if variant.layout == Layout::Contiguous { 0.0 } else { 64.0 * f64::EPSILON };
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= slack * (1.0 + b.abs());
        if value.shape() != output.shape() || !value.data().iter().zip(output.data()).all(near) {
            return Err(describe("the tracked output differs from the untracked one".into()));
        }
        for (k, gradient) in gradients.iter().enumerate() {
            let slopes = if variant.curved { &slopes.1[k] } else { &slopes.0[k] };
            let tracked = variant.only.is_none_or(|only| only == k);
            match gradient {
                None if tracked => return Err(describe(format!("no gradient for input {k}"))),
                Some(_) if !tracked => return Err(describe(format!("a gradient for untracked input {k}"))),
                None => {}
                Some(got) if got.shape() != slopes.shape() => {
                    let (got, want) = (got.shape(), slopes.shape());
                    return Err(describe(format!(
                        "the gradient of input {k} has shape {got:?}, not {want:?}"
                    )));
                }
                Some(got) => {
                    for (i, (got, want)) in got.data().iter().zip(slopes.data()).enumerate() {
                        // Written so that NaN does not pass.
                        let close = (got - want).abs() <= tolerance;
                        if !close {
                            return Err(describe(format!(
                                "input {k} of shape {:?}, element {i}: gradient {got}, slope {want}",
                                slopes.shape()
                            )));
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

impl<B: AutodiffBackend> Case<B> {
    /// The outputs, without tracking.
    fn forward(&self, inputs: &[Array<f64>]) -> Array<f64> {
        read::<B>((self.run)(inputs.iter().map(upload::<B>).collect()))
    }

    /// Slopes of the loss for two sets of weights; each result has the shapes of the inputs.
    fn slopes(&self, a: &Array<f64>, b: &Array<f64>) -> (Vec<Array<f64>>, Vec<Array<f64>>) {
        let mut slopes = (Vec::new(), Vec::new());
        for k in 0..self.inputs.len() {
            let shape = self.inputs[k].shape().to_vec();
            let mut inputs = self.inputs.clone();
            let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
            for i in 0..self.inputs[k].len() {
                let mut at = |steps: f64| {
                    let mut element = 0;
                    inputs[k] = self.inputs[k].map(|x| {
                        element += 1;
                        if element == i + 1 { x + steps * H } else { x }
                    });
                    self.forward(&inputs)
                };
                let points = [at(-2.0), at(-1.0), at(1.0), at(2.0)];
                let slope = |weights: &Array<f64>| {
                    let terms = weights.data().iter().enumerate().map(|(j, w)| {
                        let [a, b, c, d] = points.each_ref().map(|p| p.data()[j]);
                        w * ((a - d) - 8.0 * (b - c))
                    });
                    terms.sum::<f64>() / (12.0 * H)
                };
                of_a.push(slope(a));
                of_b.push(slope(b));
            }
            slopes.0.push(Array::new(shape.clone(), of_a));
            slopes.1.push(Array::new(shape, of_b));
        }
        slopes
    }

    /// Output and gradients.
    fn gradients(&self, variant: &Variant, weights: &Array<f64>) -> (Array<f64>, Vec<Option<Array<f64>>>) {
        let device = Default::default();
        let leaves: Vec<FloatTensor<B>> = (self.inputs.iter().enumerate())
            .map(|(k, input)| {
                let operand = Operand::<B::InnerBackend, Float>::new(input, DType::F64);
                let leaf = match operand.lay_out(variant.layout, &device) {
                    Some(laid) => B::from_inner(laid.unique().0),
                    None => upload::<B>(input),
                };
                B::float_set_require_grad(leaf, variant.only.is_none_or(|only| only == k))
            })
            .collect();
        let output = (self.run)(leaves.clone());
        let value = read::<B>(output.clone());
        let output = if variant.curved {
            let factor = B::float_add_scalar(B::float_mul_scalar(output.clone(), 0.25.into()), 1.0.into());
            B::float_mul(output, factor)
        } else {
            output
        };
        // The gradient that reaches the output is a view as well.
        let rank = weights.shape().len();
        let (output, weights) = match variant.layout {
            Layout::Contiguous => (output, weights.clone()),
            Layout::Transposed | Layout::Permuted if rank >= 2 => {
                let axes: Vec<usize> = (0..rank).map(|k| (k + 1) % rank).collect();
                (B::float_permute(output, &axes), weights.permute(&axes))
            }
            _ => {
                let axes: Vec<usize> = (0..rank).collect();
                let flipped = Array::new(weights.shape(), weights.data().iter().rev().copied().collect());
                (B::float_flip(output, &axes), flipped)
            }
        };
        let loss = B::float_sum(B::float_mul(output, upload::<B>(&weights)));
        let gradients = B::backward(loss);
        let read = |leaf| B::grad(leaf, &gradients).map(read::<B::InnerBackend>);
        (value, leaves.iter().map(read).collect())
    }
}

fn upload<B: Backend>(array: &Array<f64>) -> FloatTensor<B> {
    // Not with `Kind::from_data`, which tracks gradients.
    B::float_from_data(<Float as Kind<B>>::encode(array, DType::F64), &Default::default())
}

fn read<B: Backend>(tensor: FloatTensor<B>) -> Array<f64> {
    let data = <Float as Kind<B>>::into_data(tensor);
    assert_eq!(crate::release::dtype_of(&data), DType::F64, "computed in another dtype");
    <Float as Kind<B>>::decode(&data)
}
