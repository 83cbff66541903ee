//! Reductions and scans.
//!
//! A reduction is a [`Reducer`](reducer::Reducer): an identity, a lift of one element and an associative
//! combination. A new reduction adds a reducer and its functions in this file, and no driver. The modules
//! from the bottom up, each using only those before it:
//!
//! * [`sizes`]: the sizes that work is cut to; [`scratch`]: memory for accumulators of any type
//! * [`lift`]: the types that reductions compute in; [`order`]: how extremes compare
//! * [`reducer`]: the trait, and the loops along a row; [`operations`]: the reducers
//! * [`kernel`]: a reducer's loops over bytes, behind `dyn`: all that is compiled per type and instruction
//!   set
//! * [`traversal`]: picks, from the strides, reduction along rows or down columns; [`columns`] and
//!   [`drivers`]: cut the work into tasks of fixed size and combine the tasks' results in a fixed order, so
//!   that results are bit-identical for any number of threads. They are compiled once, and call a kernel once
//!   per batch of rows or block of columns
//! * [`several`]: sums over several axes, which are merged where they lie evenly in memory
//!
//! Positions of extremes ([`arg`] over [`arg_kernel`]) and scans ([`scan`] over [`scan_kernel`] and
//! [`scanner`]) have the same structure. A reduction in two passes, such as a variance, is a reducer too: see
//! [`Reducer`](reducer::Reducer).
//!
//! Common rules:
//! * Along an axis, the axis is kept with size 1; over all elements, the result has shape `[1]`. A result
//!   along an axis may be a permuted or expanded view, with the memory order of the input.
//! * Sums and products of integers wrap in their dtype. Float sums are pairwise; halves are computed in f32
//!   and rounded once. Integer means accumulate in a wider type and truncate toward zero.
//! * Maxima and minima propagate NaN. Their index is the index of the first NaN or, without NaN, of the first
//!   of equal elements.
//! * Without elements, the sum is 0, the product 1, the mean NaN (0 for integers), `any` false and `all`
//!   true; maxima, minima and their indices are errors.

/// Binds `$T` to the type that elements of `$dtype` are read as: floats as themselves, integers as unsigned
/// integers.
macro_rules! dispatch_ring {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        if $dtype.is_int() || $dtype.is_uint() {
            dispatch!(bits $op, $dtype, $T => $body)
        } else {
            dispatch!(@arms $op, $dtype, "a float or integer dtype", $T => $body;
                DType::F64 => f64, DType::F32 => f32, DType::F16 => crate::f16, DType::BF16 => crate::bf16)
        }
    };
}

/// Binds `$T` to a float type or to unsigned bits, and `$order` to the [`Order`](order::Order) for an extreme
/// of them. `$equal_zeros` is the parameter of [`order::HalfOrder`].
macro_rules! dispatch_order {
    ($op:expr, $dtype:expr, $want:expr, $equal_zeros:literal, $T:ident, $order:ident => $body:expr) => {
        match $dtype {
            DType::F64 => dispatch_order!(@float f64, $want, $T, $order => $body),
            DType::F32 => dispatch_order!(@float f32, $want, $T, $order => $body),
            DType::F16 | DType::BF16 => {
                type $T = u16;
                let infinity = if $dtype == DType::F16 { f16::INFINITY.to_bits() } else { bf16::INFINITY.to_bits() };
                dispatch_order!(@wanted $want, W => {
                    let $order = HalfOrder::<W, $equal_zeros>::new(infinity);
                    $body
                })
            }
            DType::Bool(_) => Err(Error::dtype($op, $dtype, "a float or integer dtype")),
            _ => dispatch!(bits $op, $dtype, $T => {
                let $order = IntOrder::<$T>::new($want, $dtype.is_int());
                $body
            }),
        }
    };
    (@float $F:ty, $want:expr, $T:ident, $order:ident => $body:expr) => {{
        type $T = $F;
        dispatch_order!(@wanted $want, W => {
            let $order = FloatOrder::<W>::NEW;
            $body
        })
    }};
    (@wanted $want:expr, $W:ident => $body:expr) => {
        match $want {
            Want::Max => { type $W = order::Max; $body }
            Want::Min => { type $W = order::Min; $body }
        }
    };
}

mod arg;
mod arg_kernel;
mod columns;
mod drivers;
pub(crate) mod indices;
mod kernel;
mod lift;
mod operations;
mod order;
mod reducer;
mod scan;
mod scan_kernel;
mod scanner;
mod scratch;
mod several;
mod sizes;
#[cfg(test)]
mod tests;
mod traversal;

use crate::error::{Error, Result, check_axis};
use crate::{BoolStore, DType, Element, Tensor, bf16, f16};
use kernel::{ReduceKernel, TypedReduce};
use lift::magnitude_mask;
use operations::{Extreme, IntMean, Prod, Sum, Truth};
use order::{FloatOrder, HalfOrder, IntOrder, Want};
use scan_kernel::TypedScan;
use scanner::{CumExtreme, CumProd, CumSum};

pub use several::sum_dims;

/// What is reduced: all elements, or the elements along an axis.
#[derive(Clone, Copy)]
enum Over {
    All,
    Axis(usize),
}

impl Over {
    /// Number of elements that are reduced to one.
    fn count(self, op: &'static str, tensor: &Tensor) -> Result<usize> {
        match self {
            Over::All => Ok(tensor.num_elements()),
            Over::Axis(axis) => {
                check_axis(op, axis, tensor.rank())?;
                Ok(tensor.shape()[axis])
            }
        }
    }

    /// Whether each element of the result is a sum, product, mean or extreme of one element: the element
    /// itself. Burn's gradients sum along axes of size 1 wherever an operand might have been broadcast.
    fn is_identity(self, tensor: &Tensor) -> bool {
        match self {
            Over::All => false,
            Over::Axis(axis) => tensor.shape()[axis] == 1 && !tensor.dtype().is_bool(),
        }
    }

    /// Runs the reduction; the result has dtype `dtype`.
    fn reduce(
        self,
        op: &'static str,
        tensor: Tensor,
        kernel: &dyn ReduceKernel,
        dtype: DType,
    ) -> Result<Tensor> {
        match self {
            Over::All => drivers::reduce_all(tensor, kernel, dtype),
            Over::Axis(axis) => drivers::reduce_axis(op, tensor, axis, kernel, dtype),
        }
    }
}

fn sum_over(op: &'static str, tensor: Tensor, over: Over) -> Result<Tensor> {
    over.count(op, &tensor)?;
    let dtype = tensor.dtype();
    if over.is_identity(&tensor) {
        return Ok(tensor);
    }
    dispatch_ring!(op, dtype, T => {
        over.reduce(op, tensor, &TypedReduce::<T, _>::new(Sum { mean: false }), dtype)
    })
}

fn prod_over(op: &'static str, tensor: Tensor, over: Over) -> Result<Tensor> {
    over.count(op, &tensor)?;
    let dtype = tensor.dtype();
    if over.is_identity(&tensor) {
        return Ok(tensor);
    }
    dispatch_ring!(op, dtype, T => over.reduce(op, tensor, &TypedReduce::<T, _>::new(Prod), dtype))
}

fn mean_over(op: &'static str, tensor: Tensor, over: Over) -> Result<Tensor> {
    let n = over.count(op, &tensor)?;
    let dtype = tensor.dtype();
    if over.is_identity(&tensor) {
        return Ok(tensor);
    }
    if dtype.is_float() {
        return dispatch!(float op, dtype, T => {
            over.reduce(op, tensor, &TypedReduce::<T, _>::new(Sum { mean: true }), dtype)
        });
    }
    if dtype.is_bool() {
        return Err(Error::dtype(op, dtype, "a float or integer dtype"));
    }
    if dtype.size() == 4 && n as u64 > 1 << 32 {
        return Err(Error::argument(
            op,
            "number of 32-bit integers",
            n,
            "at most 2^32, for their sum to fit 64 bits",
        ));
    }
    let signed = dtype.is_int();
    dispatch!(bits op, dtype, T => {
        over.reduce(op, tensor, &TypedReduce::<T, _>::new(IntMean { signed }), dtype)
    })
}

/// Refuses a reduction of no elements, which has no extreme, unless its result is empty.
fn check_extreme(op: &'static str, tensor: &Tensor, over: Over) -> Result<()> {
    let empty_result = match over {
        Over::All => false,
        Over::Axis(axis) => tensor.shape().iter().enumerate().any(|(k, &size)| k != axis && size == 0),
    };
    if over.count(op, tensor)? == 0 && !empty_result {
        return Err(Error::shape(op, tensor.shape(), "at least one element to reduce"));
    }
    Ok(())
}

fn extreme_over(op: &'static str, tensor: Tensor, over: Over, want: Want) -> Result<Tensor> {
    check_extreme(op, &tensor, over)?;
    let dtype = tensor.dtype();
    if over.is_identity(&tensor) {
        return Ok(tensor);
    }
    dispatch_order!(op, dtype, want, false, T, order => {
        over.reduce(op, tensor, &TypedReduce::<T, _>::new(Extreme { order }), dtype)
    })
}

fn truth_over(op: &'static str, tensor: Tensor, over: Over, store: BoolStore, all: bool) -> Result<Tensor> {
    over.count(op, &tensor)?;
    let (from, to) = (tensor.dtype(), DType::Bool(store));
    let mask = if from.is_float() { magnitude_mask(from.size()) } else { u64::MAX };
    dispatch!(bits op, from, B => {
        over.reduce(op, tensor, &TypedReduce::<B, _>::new(Truth::new(B::from_u64(mask), all)), to)
    })
}

/// Sum of all elements, shape `[1]`.
///
/// # Errors
/// A dtype that is not a number.
pub fn sum(tensor: Tensor) -> Result<Tensor> {
    sum_over("sum", tensor, Over::All)
}

/// Mean of all elements, shape `[1]`.
///
/// # Errors
/// A dtype that is not a number, or more than 2^32 integers of 32 bits.
pub fn mean(tensor: Tensor) -> Result<Tensor> {
    mean_over("mean", tensor, Over::All)
}

/// Product of all elements, shape `[1]`.
///
/// # Errors
/// A dtype that is not a number.
pub fn prod(tensor: Tensor) -> Result<Tensor> {
    prod_over("prod", tensor, Over::All)
}

/// Largest element, shape `[1]`.
///
/// # Errors
/// A tensor without elements, or a dtype that is not a number.
pub fn max(tensor: Tensor) -> Result<Tensor> {
    extreme_over("max", tensor, Over::All, Want::Max)
}

/// Smallest element, shape `[1]`.
///
/// # Errors
/// A tensor without elements, or a dtype that is not a number.
pub fn min(tensor: Tensor) -> Result<Tensor> {
    extreme_over("min", tensor, Over::All, Want::Min)
}

/// Sum along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn sum_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    sum_over("sum_dim", tensor, Over::Axis(axis))
}

/// Mean along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range, a dtype that is not a number, or more than 2^32 integers of 32 bits along the axis.
pub fn mean_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    mean_over("mean_dim", tensor, Over::Axis(axis))
}

/// Product along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn prod_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    prod_over("prod_dim", tensor, Over::Axis(axis))
}

/// Largest elements along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range or of size 0 (unless the result is empty too), or a dtype that is not a number.
pub fn max_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    extreme_over("max_dim", tensor, Over::Axis(axis), Want::Max)
}

/// Smallest elements along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range or of size 0 (unless the result is empty too), or a dtype that is not a number.
pub fn min_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    extreme_over("min_dim", tensor, Over::Axis(axis), Want::Min)
}

/// Indices of the largest elements along an axis, which is kept with size 1: of equal elements the first; the
/// first NaN if there is one.
///
/// # Errors
/// An axis out of range or of size 0 (unless the result is empty too), a dtype that is not a number, or an
/// index dtype that is not an integer or too small for the axis.
pub fn argmax(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<Tensor> {
    Ok(arg::extreme("argmax", tensor, axis, Want::Max, index_dtype, false)?.0)
}

/// Indices of the smallest elements along an axis; see [`argmax`].
///
/// # Errors
/// The errors of [`argmax`].
pub fn argmin(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<Tensor> {
    Ok(arg::extreme("argmin", tensor, axis, Want::Min, index_dtype, false)?.0)
}

fn with_indices(
    op: &'static str,
    tensor: Tensor,
    axis: usize,
    want: Want,
    index_dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let (indices, values) = arg::extreme(op, tensor, axis, want, index_dtype, true)?;
    let values =
        values.ok_or_else(|| Error::argument(op, "values", "missing", "values next to the indices"))?;
    Ok((values, indices))
}

/// The largest elements along an axis, which is kept with size 1, and their [indices](argmax).
///
/// # Errors
/// The errors of [`argmax`].
pub fn max_dim_with_indices(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<(Tensor, Tensor)> {
    with_indices("max_dim_with_indices", tensor, axis, Want::Max, index_dtype)
}

/// The smallest elements along an axis, which is kept with size 1, and their [indices](argmin).
///
/// # Errors
/// The errors of [`argmax`].
pub fn min_dim_with_indices(tensor: Tensor, axis: usize, index_dtype: DType) -> Result<(Tensor, Tensor)> {
    with_indices("min_dim_with_indices", tensor, axis, Want::Min, index_dtype)
}

/// Whether any element is true (not zero; NaN is not zero), shape `[1]`, stored as `store`.
///
/// # Errors
/// A dtype or bool store that the engine does not hold.
pub fn any(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    truth_over("any", tensor, Over::All, store, false)
}

/// Whether every element is true (not zero; NaN is not zero), shape `[1]`, stored as `store`.
///
/// # Errors
/// A dtype or bool store that the engine does not hold.
pub fn all(tensor: Tensor, store: BoolStore) -> Result<Tensor> {
    truth_over("all", tensor, Over::All, store, true)
}

/// [`any`] along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range, or a dtype or bool store that the engine does not hold.
pub fn any_dim(tensor: Tensor, axis: usize, store: BoolStore) -> Result<Tensor> {
    truth_over("any_dim", tensor, Over::Axis(axis), store, false)
}

/// [`all`] along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range, or a dtype or bool store that the engine does not hold.
pub fn all_dim(tensor: Tensor, axis: usize, store: BoolStore) -> Result<Tensor> {
    truth_over("all_dim", tensor, Over::Axis(axis), store, true)
}

/// Running sum along an axis, in the dtype and shape of the tensor. Floats accumulate in f64, integers wrap.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn cumsum(tensor: Tensor, axis: usize) -> Result<Tensor> {
    dispatch_ring!("cumsum", tensor.dtype(), T => scan::scan("cumsum", tensor, axis, &TypedScan::<T, _>::new(CumSum)))
}

/// Running product along an axis, in the dtype and shape of the tensor. Floats accumulate in f64, integers
/// wrap.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn cumprod(tensor: Tensor, axis: usize) -> Result<Tensor> {
    dispatch_ring!("cumprod", tensor.dtype(), T => scan::scan("cumprod", tensor, axis, &TypedScan::<T, _>::new(CumProd)))
}

fn cumulative_extreme(op: &'static str, tensor: Tensor, axis: usize, want: Want) -> Result<Tensor> {
    let dtype = tensor.dtype();
    dispatch_order!(op, dtype, want, false, T, order => {
        scan::scan(op, tensor, axis, &TypedScan::<T, _>::new(CumExtreme { order }))
    })
}

/// Running minimum along an axis; NaN from the first NaN on.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn cummin(tensor: Tensor, axis: usize) -> Result<Tensor> {
    cumulative_extreme("cummin", tensor, axis, Want::Min)
}

/// Running maximum along an axis; NaN from the first NaN on.
///
/// # Errors
/// An axis out of range, or a dtype that is not a number.
pub fn cummax(tensor: Tensor, axis: usize) -> Result<Tensor> {
    cumulative_extreme("cummax", tensor, axis, Want::Max)
}
