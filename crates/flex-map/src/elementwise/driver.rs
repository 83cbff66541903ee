//! The one path from tensors to kernels: decides where the output is written, and which runs of elements a
//! kernel gets.
//!
//! Operands broadcast together. The output takes, in this order of preference, the buffer of an operand that
//! nothing else shares; the dense layout that all full-sized operands share, so that `x.T + 1` costs as much
//! as `x + 1`; or a fresh buffer whose axes are ordered by the operands' strides, as in PyTorch's
//! `TensorIterator`. In each case the output is written from its first to its last element in memory, in
//! chunks that are distributed over threads.

#[cfg(feature = "std")]
use super::deferred;
use super::kernel::Kernel;
use super::light::LightFn;
use super::runs::{self, RunOperand};
use crate::error::{Error, Result};
use crate::layout::{
    Layout, Strides, broadcast_shapes, checked_num_elements, contiguous_strides, stretched_stride,
};
use crate::parallel::Work;
use crate::small::collected;
use crate::{DType, Element, Scalar, Shape, Tensor};
use smallvec::SmallVec;

/// An operation on elements: its kernel, the dtype of its output, and its cost.
#[derive(Clone, Copy)]
pub(crate) struct Op<const N: usize> {
    /// The name in errors.
    pub name: &'static str,
    /// The loops.
    pub kernel: &'static dyn Kernel<N>,
    pub dtype: DType,
    pub cost: Cost,
    /// Operands whose buffer the output may take over, if the element sizes are equal.
    pub reuse: [bool; N],
    /// The function, if it is light.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "read where operations wait"))]
    pub light: Option<LightFn>,
}

/// Bytes that an element counts as in [`Cost::Memory`]. Halves are converted, which takes about as long as
/// moving f32: adding 65,536 f16 takes 7 us on one thread of Zen 4, as many f32 8.
fn moved(dtype: DType) -> usize {
    if matches!(dtype, DType::F16 | DType::BF16) { size_of::<f32>() } else { dtype.size() }
}

/// The cost of one element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    /// Less than the cost of moving the element.
    Memory,
    /// About this many floating-point operations.
    Flops(usize),
}

impl Cost {
    /// A transcendental function.
    pub(crate) const MATH: Self = Cost::Flops(16);
    /// Arithmetic that does not vectorise, such as 64-bit integer division.
    pub(crate) const SCALAR: Self = Cost::Flops(8);

    /// Operations per element, besides moving it.
    #[cfg(feature = "std")]
    pub(super) fn flops(self) -> usize {
        match self {
            Cost::Memory => 1,
            Cost::Flops(flops) => flops,
        }
    }

    /// The work on `n` elements, each of which moves `bytes` bytes.
    pub(crate) fn work(self, n: usize, bytes: usize) -> Work {
        match self {
            Cost::Memory => Work::Bytes(n.saturating_mul(bytes)),
            Cost::Flops(flops) => Work::Flops(n.saturating_mul(flops)),
        }
    }
}

/// An operand of [`run`].
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Tensor(Tensor),
    /// A number that stands for every element.
    Scalar(ScalarBytes),
    /// The operand was moved to the output, whose buffer holds it.
    Output,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarBytes {
    /// The bytes in memory order, followed by zeros.
    pub(super) bits: u64,
    len: usize,
}

impl ScalarBytes {
    #[inline]
    pub(crate) fn new<T: Element>(value: T) -> Self {
        Self::of(bytemuck::bytes_of(&value))
    }

    /// An element given as bytes.
    #[inline]
    pub(super) fn of(element: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes[..element.len()].copy_from_slice(element);
        Self::from_bits(u64::from_ne_bytes(bytes), element.len())
    }

    #[inline]
    pub(super) fn from_bits(bits: u64, len: usize) -> Self {
        Self { bits, len }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &bytemuck::bytes_of(&self.bits)[..self.len]
    }
}

/// A scalar as an operand of tensors of `dtype`; f32 for halves.
#[inline]
pub(super) fn number(name: &'static str, dtype: DType, value: Scalar) -> Result<ScalarBytes> {
    let dtype = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    match number_bits(name, dtype, value) {
        Some(bits) => Ok(ScalarBytes::from_bits(bits, dtype.size())),
        None => Err(Error::dtype(name, dtype, "a float or integer dtype")),
    }
}

/// The bits of a number, returned in a register: a [`Result`], with room for an error, would be returned
/// through memory and waited for.
fn number_bits(name: &'static str, dtype: DType, value: Scalar) -> Option<u64> {
    dispatch!(number name, dtype, T => Ok(ScalarBytes::new(value.cast::<T>()).bits)).ok()
}

impl Input {
    pub(super) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Input::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// Runs a kernel over operands that broadcast together; at least one is a tensor. Returns the output, whose
/// bytes may be [deferred].
///
/// # Errors
/// Shapes that do not broadcast.
pub(crate) fn run<const N: usize>(op: Op<N>, mut inputs: [Input; N]) -> Result<Tensor> {
    run_when(op, &mut inputs, true)
}

/// [`run`], now.
#[cfg(feature = "std")]
pub(super) fn run_now<const N: usize>(op: Op<N>, mut inputs: [Input; N]) -> Result<Tensor> {
    run_when(op, &mut inputs, false)
}

/// [`run`]; `may_wait` says whether the output may be deferred. The operands come by reference, since moving
/// several tensors costs as much as a small operation.
fn run_when<const N: usize>(op: Op<N>, inputs: &mut [Input; N], may_wait: bool) -> Result<Tensor> {
    if is_flat(inputs) { run_flat(op, inputs, may_wait) } else { run_general(op, inputs, may_wait) }
}

/// Computes the operands that wait: to read their bytes would panic where they fail.
#[cold]
fn evaluate(inputs: &[Input]) -> Result<()> {
    inputs.iter().filter_map(Input::tensor).try_for_each(Tensor::evaluate)
}

/// Whether all tensors have one shape and are contiguous.
fn is_flat<const N: usize>(inputs: &[Input; N]) -> bool {
    let mut tensors = inputs.iter().filter_map(Input::tensor);
    let Some(first) = tensors.next() else { return false };
    let shape = first.shape().as_slice();
    first.is_contiguous() && tensors.all(|t| t.shape().as_slice() == shape && t.is_contiguous())
}

/// [`run`] for tensors that need no look at their layouts; its overhead dominates the cost of small tensors.
fn run_flat<const N: usize>(op: Op<N>, inputs: &mut [Input; N], may_wait: bool) -> Result<Tensor> {
    let count = first_tensor(inputs).num_elements();
    let (mut bytes, mut is_deferred) = (moved(op.dtype), false);
    for tensor in inputs.iter().filter_map(Input::tensor) {
        bytes += moved(tensor.dtype());
        is_deferred |= tensor.is_deferred();
    }
    #[cfg(feature = "std")]
    if may_wait
        && deferred::should_wait(&op, inputs, is_deferred, count, bytes)
        && let Some(output) = deferred::wait(&op, inputs, None, count)
    {
        return Ok(output);
    }
    // Nothing waits without it.
    #[cfg(not(feature = "std"))]
    let _ = may_wait;
    if is_deferred {
        evaluate(inputs)?;
    }
    let work = op.cost.work(count, bytes);
    let fill = |out: &mut [u8], inputs: &[Input; N]| {
        let mut operands = [const { RunOperand::OUTPUT }; N];
        for (operand, input) in operands.iter_mut().zip(inputs) {
            *operand = match input {
                Input::Output => RunOperand::OUTPUT,
                Input::Scalar(value) => RunOperand::same(value.as_slice()),
                Input::Tensor(tensor) => {
                    let size = tensor.dtype().size();
                    let start = tensor.layout().offset() * size;
                    RunOperand::each(&tensor.storage_bytes()[start..start + count * size], size)
                }
            };
        }
        if count > 0 {
            runs::run_flat(op.kernel, out, op.dtype.size(), &operands, work);
        }
    };
    let reusable =
        |input: &Input| input.tensor().is_some_and(|t| t.dtype().size() == op.dtype.size() && t.is_unique());
    if let Some(n) = (0..N).find(|&n| op.reuse[n] && reusable(&inputs[n])) {
        let Input::Tensor(target) = core::mem::replace(&mut inputs[n], Input::Output) else {
            unreachable!("only tensors are reusable");
        };
        let mut target = target.with_dtype(op.dtype);
        fill(target.dense_bytes_mut().expect("unique and contiguous"), inputs);
        return Ok(target);
    }
    let layout = Layout::contiguous_like(first_tensor(inputs).shape());
    Tensor::try_build_bytes(op.name, layout, count, op.dtype, |out| {
        fill(out, inputs);
        Ok(())
    })
}

/// The first tensor of the operands, of which at least one is a tensor.
fn first_tensor(inputs: &[Input]) -> &Tensor {
    inputs.iter().find_map(Input::tensor).expect("at least one tensor")
}

/// [`run`] for any layouts.
fn run_general<const N: usize>(op: Op<N>, inputs: &mut [Input; N], may_wait: bool) -> Result<Tensor> {
    let shape = common_shape(op.name, inputs)?;
    let count = checked_num_elements(op.name, &shape)?;
    if count == 0 {
        return Tensor::try_build_bytes(op.name, Layout::contiguous(shape), 0, op.dtype, |_| Ok(()));
    }
    if count < LEAST_REPEATED || !narrow_repeated(op.light, op.dtype, inputs, &shape) {
        return run_of_shape(op, inputs, shape, count, may_wait);
    }
    let distinct = common_shape(op.name, inputs)?;
    let count = distinct.num_elements();
    let output = run_of_shape(op, inputs, distinct, count, may_wait)?;
    // Not `expand`: its errors, which cannot occur here, would be 2 KB more of each program.
    let (rank, from) = (shape.len(), output.layout());
    let strides = collected((0..rank).map(|axis| stretched_stride(from, &shape, axis)));
    let layout = Layout::new(shape, strides, from.offset());
    Ok(output.with_layout(layout))
}

/// [`run_general`] for an output of this shape, which has `count` elements.
fn run_of_shape<const N: usize>(
    op: Op<N>,
    inputs: &mut [Input; N],
    shape: Shape,
    count: usize,
    may_wait: bool,
) -> Result<Tensor> {
    let (mut bytes, mut is_deferred) = (moved(op.dtype), false);
    for tensor in inputs.iter().filter_map(Input::tensor) {
        bytes += moved(tensor.dtype());
        is_deferred |= tensor.is_deferred();
    }
    #[cfg(feature = "std")]
    if may_wait
        && deferred::should_wait(&op, inputs, is_deferred, count, bytes)
        && let Some(output) = deferred::wait(&op, inputs, Some(&shape), count)
    {
        return Ok(output);
    }
    // Nothing waits without it.
    #[cfg(not(feature = "std"))]
    let _ = may_wait;
    if is_deferred {
        evaluate(inputs)?;
    }
    let work = op.cost.work(count, bytes);

    let reusable = |input: &Input| {
        input.tensor().is_some_and(|t| {
            t.dtype().size() == op.dtype.size()
                && *t.shape() == shape
                && t.is_unique()
                && t.layout().is_dense()
        })
    };
    if let Some(n) = (0..N).find(|&n| op.reuse[n] && reusable(&inputs[n])) {
        let Input::Tensor(target) = core::mem::replace(&mut inputs[n], Input::Output) else {
            unreachable!("only tensors are reusable");
        };
        let layout = target.layout().clone();
        let mut target = target.with_dtype(op.dtype);
        fill(op, target.dense_bytes_mut().expect("unique and dense"), &layout, inputs, work);
        return Ok(target);
    }

    let layout = output_layout(shape, inputs);
    let flat = Layout::contiguous(Shape::from([count]));
    let out = Tensor::try_build_bytes(op.name, flat, count, op.dtype, |out| {
        fill(op, out, &layout, inputs, work);
        Ok(())
    })?;
    Ok(out.with_layout(layout))
}

/// Least number of elements of an output of which repeated ones are computed once. Looking for them takes as
/// long as a few dozen elements.
const LEAST_REPEATED: usize = 1024;

/// Narrows the operands to their distinct elements along the axes of `shape`, their common shape, along which
/// all of them repeat theirs; returns whether there are any. The output then has size 1 along these axes, and
/// may be expanded.
///
/// In Burn's gradient of a mean along an axis, a number is multiplied by an element of each row, expanded.
/// The gradient of a batch norm wrote and read two such products.
#[cold]
#[inline(never)]
fn narrow_repeated(light: Option<LightFn>, dtype: DType, inputs: &mut [Input], shape: &Shape) -> bool {
    // The answer must be the same at each question, also while another thread computes a tensor.
    #[cfg(feature = "std")]
    let constant = |input: &Input| input.tensor().and_then(deferred::number_of_constant);
    #[cfg(not(feature = "std"))]
    let constant = |_: &Input| -> Option<ScalarBytes> { None };
    let varying = || inputs.iter().filter(|input| constant(input).is_none()).filter_map(Input::tensor);
    let is_repeated = |axis: usize| {
        shape[axis] > 1 && varying().all(|tensor| stretched_stride(tensor.layout(), shape, axis) == 0)
    };
    // One bit for each axis. Nothing is repeated along further axes.
    let axes = shape.len().min(u64::BITS as usize);
    let repeated = (0..axes).fold(0u64, |bits, axis| bits | u64::from(is_repeated(axis)) << axis);
    if repeated == 0 || varying().next().is_none() {
        return false;
    }
    // The result is the other operand, as a view.
    #[cfg(feature = "std")]
    if deferred::ones_of_product(light, dtype, inputs).is_some() {
        return false;
    }
    #[cfg(not(feature = "std"))]
    let _ = (light, dtype);
    for input in inputs {
        if let Some(number) = constant(input) {
            *input = Input::Scalar(number);
        }
        let Input::Tensor(tensor) = input else { continue };
        let (from, lead) = (tensor.layout(), shape.len() - tensor.shape().len());
        let is_repeated = |own: usize| lead + own < axes && repeated >> (lead + own) & 1 == 1;
        let once = |(own, &size): (usize, &usize)| if is_repeated(own) { 1 } else { size };
        let own = from.shape().iter().enumerate().map(once).collect();
        let layout = Layout::new(own, from.strides().into(), from.offset());
        *tensor = tensor.clone().with_layout(layout);
    }
    true
}

/// Computes the output `out`, whose layout is `layout`, in memory order.
fn fill<const N: usize>(op: Op<N>, out: &mut [u8], layout: &Layout, inputs: &[Input; N], work: Work) {
    let size = op.dtype.size();
    let mut operands: [RunOperand<'_>; N] = [const { RunOperand::OUTPUT }; N];
    for (operand, input) in operands.iter_mut().zip(inputs) {
        *operand = match input {
            Input::Output => RunOperand::OUTPUT,
            Input::Scalar(value) => RunOperand::same(value.as_slice()),
            Input::Tensor(tensor) => {
                let bytes = tensor.storage_bytes();
                let size = tensor.dtype().size();
                let from = tensor.layout();
                if from.num_elements() == 1 {
                    RunOperand::same(&bytes[from.offset() * size..][..size])
                } else if same_order(from, layout) {
                    let span = from.span();
                    RunOperand::each(&bytes[span.start * size..span.end * size], size)
                } else {
                    RunOperand::strided(bytes, size, from)
                }
            }
        };
    }
    runs::run(op.kernel, out, size, layout, operands, work);
}

/// The shape that all tensors broadcast to.
fn common_shape(op: &'static str, inputs: &[Input]) -> Result<Shape> {
    let mut tensors = inputs.iter().filter_map(Input::tensor);
    let Some(first) = tensors.next() else {
        return Err(Error::argument(op, "operands", "no tensor", "at least one tensor"));
    };
    let mut shape = first.shape().clone();
    for tensor in tensors {
        if *tensor.shape() != shape {
            shape = broadcast_shapes(op, &shape, tensor.shape())?;
        }
    }
    Ok(shape)
}

/// Whether `operand` is dense, has the shape of the dense layout `output`, and has its elements in the same
/// order in memory.
fn same_order(operand: &Layout, output: &Layout) -> bool {
    operand.shape() == output.shape() && {
        let axes = operand.shape().iter().zip(operand.strides()).zip(output.strides());
        // There are no steps along axes of size one. Equal strides imply that the operand is dense, as the
        // output is.
        axes.into_iter().all(|((&size, a), b)| size == 1 || a == b)
    }
}

fn output_layout(shape: Shape, inputs: &[Input]) -> Layout {
    let full = || inputs.iter().filter_map(Input::tensor).map(Tensor::layout).filter(|l| *l.shape() == shape);
    if full().all(Layout::is_contiguous) && full().next().is_some() {
        return Layout::contiguous(shape);
    }
    if let Some(first) = full().next()
        && first.is_dense()
        && full().all(|l| same_order(l, first))
    {
        let offset = first.offset() - first.span().start;
        return Layout::new(shape, first.strides().into(), offset);
    }
    // Axes from the fastest to the slowest.
    let rank = shape.len();
    let tensors = inputs.iter().filter_map(Input::tensor);
    let stretched = |t: &Tensor| collected((0..rank).map(|axis| stretched_stride(t.layout(), &shape, axis)));
    let strides: SmallVec<[Strides; 3]> = collected(tensors.map(stretched));
    let mut order: SmallVec<[usize; 6]> = collected((0..rank).rev());
    for i in 1..rank {
        let mut at = i;
        for k in (0..i).rev() {
            match faster(&strides, &shape, order[at], order[k]) {
                Some(true) => {
                    order.swap(at, k);
                    at = k;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    let mut output = contiguous_strides(&shape);
    let mut step = 1isize;
    for axis in order {
        output[axis] = step;
        step *= shape[axis] as isize;
    }
    Layout::new(shape, output, 0)
}

/// Whether axis `a` should vary faster than axis `b`: decided by the first operand with different, non-zero
/// strides along the two. `None` without such an operand.
fn faster(strides: &[Strides], shape: &[usize], a: usize, b: usize) -> Option<bool> {
    if shape[a] == 1 || shape[b] == 1 {
        return None;
    }
    strides
        .iter()
        .map(|s| (s[a].unsigned_abs(), s[b].unsigned_abs()))
        .find(|&(a, b)| a != 0 && b != 0 && a != b)
        .map(|(a, b)| a < b)
}
