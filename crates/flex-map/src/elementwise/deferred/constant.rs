//! Tensors of one number. They need no memory until somebody reads their bytes, and an operation that waits
//! takes the number instead. Burn's gradients are full of them: the gradient of a sum is a tensor of ones,
//! times a number.

use super::{MOST_PRODUCED, bytes_apart, pays};
use crate::elementwise::driver::{Input, Op, ScalarBytes, run_now};
use crate::elementwise::light::LightFn;
use crate::error::Result;
use crate::layout::checked_num_elements;
use crate::storage::Deferred;
use crate::{Bytes, DType, Scalar, Shape, Tensor};
use alloc::sync::Arc;
use std::sync::OnceLock;

/// A number that stands for every element.
pub(super) struct Constant {
    element: ScalarBytes,
    count: usize,
    dtype: DType,
    bytes: OnceLock<Result<Bytes>>,
}

impl Constant {
    /// A tensor of `element`, which waits.
    fn tensor(shape: Shape, element: &[u8], count: usize, dtype: DType) -> Tensor {
        let element = ScalarBytes::of(element);
        let constant = Self { element, count, dtype, bytes: OnceLock::new() };
        Tensor::deferred(shape, count, dtype, Arc::new(constant))
    }
}

impl Deferred for Constant {
    fn waits(&self) -> bool {
        self.bytes.get().is_none()
    }

    fn bytes(&self) -> Result<&[u8]> {
        if self.waits() {
            // Nothing is computed within the lock, so nobody waits for it: of threads that come at the same
            // time, each fills memory of its own, and one of them keeps it.
            let shape = Shape::from([self.count]);
            let bytes = Tensor::full_of_bytes(shape, self.element.as_slice(), self.dtype);
            let _ = self.bytes.set(bytes.and_then(Tensor::into_bytes));
        }
        self.bytes.wait().as_ref().map(|bytes| &bytes[..]).map_err(Clone::clone)
    }

    fn into_bytes(self: Arc<Self>) -> Result<Bytes> {
        bytes_apart(self, |constant| constant.bytes.into_inner())
    }
}

/// A tensor of `value` that takes no memory until its bytes are read; `None` if it would be smaller than the
/// results that [wait](super::least_bytes), or exceed 1 GiB.
///
/// # Errors
/// A dtype that the engine does not hold, or more elements than a number can count.
pub(in super::super) fn constant(shape: &Shape, value: Scalar, dtype: DType) -> Result<Option<Tensor>> {
    let count = checked_num_elements("full", shape)?;
    if !pays(count, 2 * dtype.size()) || count.saturating_mul(dtype.size()) > MOST_PRODUCED {
        return Ok(None);
    }
    let one = Tensor::full([1], value, dtype)?;
    Ok(Some(Constant::tensor(shape.clone(), one.storage_bytes(), count, dtype)))
}

/// The number of which all elements of a tensor consist, if it is known; also if the tensor is a view. It is
/// known too if one element that is computed stands for all, as in the gradient of a sum of all elements.
fn number(tensor: &Tensor) -> Option<ScalarBytes> {
    if tensor.computation::<Constant>().is_some() {
        return number_of_constant(tensor);
    }
    // A failed computation has no number; the operation reports it.
    if !is_one_element(tensor) || tensor.waits() || tensor.evaluate().is_err() {
        return None;
    }
    let size = tensor.dtype().size();
    let start = tensor.layout().offset() * size;
    Some(ScalarBytes::of(&tensor.storage_bytes()[start..start + size]))
}

/// The number that a tensor, or the tensor that it is a view of, was [made](constant) of. Unlike the number
/// of other tensors, it never changes from unknown to known.
pub(in super::super) fn number_of_constant(tensor: &Tensor) -> Option<ScalarBytes> {
    let constant = tensor.computation::<Constant>()?;
    (constant.dtype.size() == tensor.dtype().size()).then_some(constant.element)
}

/// Whether one element of the buffer stands for all elements of a tensor that has some.
pub(super) fn is_one_element(tensor: &Tensor) -> bool {
    let layout = tensor.layout();
    let mut axes = layout.shape().iter().zip(layout.strides());
    axes.all(|(&size, &stride)| size == 1 || stride == 0 && size > 0)
}

/// Whether an operand is a tensor whose elements are known to be one number.
pub(super) fn is_constant(input: &Input) -> bool {
    input.tensor().is_some_and(|tensor| number(tensor).is_some())
}

/// Replaces tensors of one number by the number.
pub(super) fn as_numbers(inputs: &mut [Input]) {
    for input in inputs {
        if let Some(number) = input.tensor().and_then(number) {
            *input = Input::Scalar(number);
        }
    }
}

/// Which operand of a product, of elements of `dtype`, is a tensor of ones. `None` for other operations.
pub(in super::super) fn ones_of_product(
    light: Option<LightFn>,
    dtype: DType,
    inputs: &[Input],
) -> Option<usize> {
    if light != Some(LightFn::Mul) {
        return None;
    }
    let one = Tensor::full([1], Scalar::Int(1), dtype).ok()?;
    inputs.iter().position(|input| {
        let tensor = input.tensor().filter(|tensor| tensor.dtype() == dtype);
        tensor.and_then(number).is_some_and(|number| number.as_slice() == one.storage_bytes())
    })
}

/// The result of a product with a tensor of ones: the other operand, in the shape of the result. `None` for
/// other operations. Takes the operands.
///
/// In the gradient of a sum, Burn multiplies a tensor of ones by the gradient of each row's sum. Then the
/// result takes no memory of its own, and a chain reads one number for each row.
pub(super) fn product_with_ones<const N: usize>(
    op: &Op<N>,
    inputs: &mut [Input; N],
    shape: &Shape,
) -> Option<Tensor> {
    let other = 1 - ones_of_product(op.light, op.dtype, inputs)?;
    let product = inputs[other].tensor()?.clone().expand(shape).ok()?;
    inputs[other] = Input::Output;
    Some(product)
}

/// The operation's result, a tensor of one number, if all its operands are. Takes the operands then.
pub(super) fn fold<const N: usize>(
    op: &Op<N>,
    inputs: &mut [Input; N],
    shape: &Shape,
    count: usize,
) -> Option<Tensor> {
    if !inputs.iter().all(|input| matches!(input, Input::Scalar(_)) || is_constant(input)) {
        return None;
    }
    let one = inputs.each_mut().map(|input| match input.tensor() {
        Some(tensor) => {
            let number = number(tensor).expect("a tensor of one number");
            Input::Tensor(Tensor::single_of_bytes(number.as_slice(), tensor.dtype()))
        }
        None => core::mem::replace(input, Input::Output),
    });
    let one = run_now(*op, one).expect("operands of one element");
    Some(Constant::tensor(shape.clone(), one.storage_bytes(), count, op.dtype))
}
