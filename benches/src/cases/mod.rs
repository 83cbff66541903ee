//! The cases, generic over the backend. A case's name describes it completely: `op[.dtype][.layout]_size`;
//! without a dtype it is f32, without a layout contiguous. Peers that are not Burn backends find their call
//! by the name.

mod chains;
mod elementwise;
mod index;
mod layers;
mod matmul;
mod modules;
mod order;
mod parts;
mod reduce;
mod rows;
mod training;

pub use parts::{Conv, Part, Pass, part_cases};

use crate::call::{Call, Numbers};
use burn::backend::Autodiff;
use burn_autodiff::grads::Gradients;
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// The kind of a case, by what limits its speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Transcendental functions.
    Maths,
    /// Additions, comparisons, masks, casts: bound by memory.
    Simple,
    /// 4,096 elements and fewer: bound by the cost of a call.
    Small,
    /// Transposed, broadcast and sliced operands.
    Layout,
    /// Reductions.
    Reduce,
    /// Cumulative sums, products and maxima.
    Scan,
    /// Softmax, norms and their gradients.
    Norm,
    /// Sorting and top-k.
    Order,
    /// Random numbers.
    Random,
    /// Gathers, scatters, concatenations.
    Index,
    /// Matrix products.
    Matmul,
    /// Convolution, pooling, attention, Fourier transforms.
    Module,
    /// Chains of elementwise operations.
    Chains,
    /// Training of a model.
    Training,
    /// Layers of models that are not among the benched ones.
    Layers,
    /// Whole models, and their parts.
    Models,
}

impl Family {
    /// Text for headings.
    pub fn label(self) -> &'static str {
        match self {
            Self::Maths => "maths functions",
            Self::Simple => "arithmetic, masks, casts",
            Self::Small => "up to 4,096 elements",
            Self::Layout => "transposed, broadcast, sliced",
            Self::Reduce => "reductions",
            Self::Scan => "cumulative operations",
            Self::Norm => "softmax, norms",
            Self::Order => "sort, top-k",
            Self::Random => "random numbers",
            Self::Index => "gather, scatter, concatenate",
            Self::Matmul => "matrix products",
            Self::Module => "convolution, pooling, attention, FFT",
            Self::Chains => "chains of elementwise operations",
            Self::Training => "training",
            Self::Layers => "layers",
            Self::Models => "models",
        }
    }
}

/// A case, and how to set it up on one backend.
pub struct Case {
    /// Name, shared by all peers.
    pub name: String,
    /// Family.
    pub family: Family,
    /// Least number of bytes that the call has to read and write; 0 if arithmetic limits the call.
    pub bytes: usize,
    /// Floating-point operations of the call; 0 if memory limits the call.
    pub flops: usize,
    /// Whether the short set includes the case.
    pub short: bool,
    /// Makes the inputs and returns the call over them.
    pub setup: Box<dyn Fn() -> Call>,
}

struct Cases<B: Backend> {
    list: Vec<Case>,
    device: B::Device,
    family: Family,
    short: bool,
    /// Called after each call, before the call's result is dropped.
    finish: fn(),
}

/// Values in [0.1, 1), the same on every backend.
pub(crate) fn values(n: usize) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| 0.1 + 0.9 * next()).collect()
}

/// Elements of a first operand: [`values`], or integers in `1..1000`.
pub(crate) fn first_operand(n: usize, is_float: bool) -> Vec<f32> {
    let whole = |x: f32| ((x * 1000.0) as i64 % 999 + 1) as f32;
    values(n).into_iter().map(|x| if is_float { x } else { whole(x) }).collect()
}

/// Elements of a second operand: the first operand's elements in another order, or negated integers.
pub(crate) fn second_operand(n: usize, is_float: bool) -> Vec<f32> {
    let mut elements = first_operand(n, is_float);
    if is_float {
        elements.reverse();
    } else {
        elements.iter_mut().for_each(|x| *x = -*x);
    }
    elements
}

fn tensor<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    tensor_of(shape, DType::F32, device)
}

fn tensor_of<B: Backend, const D: usize>(
    shape: [usize; D],
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, D> {
    computed(values(shape.iter().product()), shape, dtype, device)
}

/// A tensor with these values that is the result of an operation, like most operands in a model: its buffer
/// starts where the backend allocated it. The buffer of uploaded data may start anywhere in a cache line, and
/// a backend that adopts that buffer without a copy would be timed on vectors that straddle two cache lines.
fn computed<B: Backend, const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, D> {
    let tensor =
        Tensor::<B, D>::from_data(TensorData::new(values, shape).convert_dtype(dtype), (device, dtype));
    // The tensor is still held, so the operation cannot write in place.
    tensor.clone().mul_scalar(1.0)
}

/// [`tensor_of`] with the values in another order, so that two operands differ.
fn other<B: Backend, const D: usize>(shape: [usize; D], dtype: DType, device: &B::Device) -> Tensor<B, D> {
    computed(second_operand(shape.iter().product(), true), shape, dtype, device)
}

/// Integers in `1..1000`.
fn integers<B: Backend, const D: usize>(
    shape: [usize; D],
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, D, Int> {
    let elements = first_operand(shape.iter().product(), false);
    Tensor::from_data(TensorData::new(elements, shape).convert_dtype(dtype), (device, dtype))
}

/// The numbers below `n`, each once, in an order that accesses memory non-sequentially.
pub(crate) fn order(n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |i| (i * 389) % n)
}

/// [`order`] as a tensor.
fn permutation<B: Backend>(n: usize, device: &B::Device) -> Tensor<B, 1, Int> {
    let order: Vec<i32> = order(n).map(|i| i as i32).collect();
    Tensor::from_data(TensorData::new(order, [n]).convert::<B::IntElem>(), device)
}

/// The sum of a result as the loss, and the gradients of the loss. A case returns both: Flex would not
/// compute the loss if nobody held it.
fn backward<B: Backend, const D: usize>(
    result: Tensor<Autodiff<B>, D>,
) -> (Tensor<Autodiff<B>, 1>, Gradients) {
    let loss = result.sum();
    let gradients = loss.backward();
    (loss, gradients)
}

/// The dtype's part of a case's name, such as `.f64`; empty for f32.
fn suffix(dtype: DType) -> String {
    if dtype == DType::F32 { String::new() } else { format!(".{dtype:?}").to_lowercase() }
}

impl<B: Backend> Cases<B> {
    fn new(finish: fn()) -> Self {
        let device = Default::default();
        Self { list: Vec::new(), device, family: Family::Maths, short: true, finish }
    }

    /// Adds a case. The result of `call` is dropped within the measured time, as a user's result would be.
    fn add<I: 'static, R: Numbers + 'static>(
        &mut self,
        name: impl Into<String>,
        bytes: usize,
        inputs: impl Fn(&B::Device) -> I + 'static,
        call: impl Fn(&I) -> R + Copy + 'static,
    ) {
        let (device, finish) = (self.device.clone(), self.finish);
        let setup = move || Call::new(inputs(&device), call, finish);
        let (family, short) = (self.family, self.short);
        self.list.push(Case { name: name.into(), family, bytes, flops: 0, short, setup: Box::new(setup) });
    }

    /// States the floating-point operations of the case added last, which arithmetic limits.
    fn flops(&mut self, flops: usize) {
        self.list.last_mut().expect("a case was added").flops = flops;
    }
}

/// All cases on backend `B`. The list has the same names in the same order for every backend.
pub fn cases<B: Backend>() -> Vec<Case> {
    finished_cases::<B>(|| ())
}

/// [`cases`] with `finish` called at the end of each call, before the call's result is dropped: for backends
/// that never compute a result that is dropped early.
pub fn finished_cases<B: Backend>(finish: fn()) -> Vec<Case> {
    let mut cases = Cases::<B>::new(finish);
    cases.elementwise();
    cases.layouts();
    cases.reduce();
    cases.rows();
    cases.order();
    cases.index();
    cases.matmul();
    cases.modules();
    cases.chains();
    cases.training();
    cases.layers();
    cases.list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loss that a case drops is no work for Flex, and for other peers it is.
    #[test]
    fn gradients_come_with_their_loss() {
        let cases = cases::<burn_flex::Flex>();
        let gradients =
            cases.iter().filter(|case| case.name.contains("_grad") && case.family != Family::Chains);
        let mut count = 0;
        for case in gradients {
            let loss = ((case.setup)().numbers)();
            assert!(matches!(loss.as_deref(), Some([loss]) if loss.is_finite()), "{}: {loss:?}", case.name);
            count += 1;
        }
        assert_eq!(count, 14);
    }
}
