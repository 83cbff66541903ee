//! A case that is ready to run: the call to time, and the numbers that the call returns.

use burn_tensor::backend::Backend;
use burn_tensor::{BasicOps, Tensor};
use std::hint::black_box;
use std::rc::Rc;

/// A call over some inputs.
pub struct Call {
    /// Computes the result and drops it, as a user would sooner or later.
    pub run: Box<dyn FnMut()>,
    /// Computes and returns the result as numbers.
    pub numbers: Box<dyn Fn() -> Option<Vec<f64>>>,
}

impl Call {
    /// The call of `f` with `inputs`. Each call is followed by `finish` before its result is dropped.
    pub fn new<I: 'static, R: Numbers + 'static>(
        inputs: I,
        f: impl Fn(&I) -> R + 'static,
        finish: impl Fn() + 'static,
    ) -> Self {
        let shared = Rc::new((inputs, f));
        let timed = shared.clone();
        let run = move || {
            let (inputs, f) = &*timed;
            let result = black_box(f(black_box(inputs)));
            finish();
            drop(result);
        };
        Self { run: Box::new(run), numbers: Box::new(move || shared.1(&shared.0).numbers()) }
    }
}

/// Results of calls that can be read as numbers.
pub trait Numbers {
    /// The elements in row-major order; `None` if the result cannot be read as numbers.
    fn numbers(&self) -> Option<Vec<f64>>;
}

impl<B: Backend, const D: usize, K: BasicOps<B>> Numbers for Tensor<B, D, K> {
    fn numbers(&self) -> Option<Vec<f64>> {
        Some(self.to_data().iter::<f64>().collect())
    }
}

/// The numbers of the first result: of a loss and its gradients, which belong to tensors that the call has
/// dropped.
impl<A: Numbers, B> Numbers for (A, B) {
    fn numbers(&self) -> Option<Vec<f64>> {
        self.0.numbers()
    }
}

/// The numbers of all results.
impl<A: Numbers, B: Numbers, C: Numbers> Numbers for (A, B, C) {
    fn numbers(&self) -> Option<Vec<f64>> {
        Some([self.0.numbers()?, self.1.numbers()?, self.2.numbers()?].concat())
    }
}
