//! Helpers of all families: [sampled inputs](crate::samples), expectations, and calls over layouts on shared
//! and unique buffers.

use crate::array::Array;
use crate::compare::{Tolerance, compare_exact, compare_floats};
use crate::kind::{Bool, Float, Int, Kind};
use crate::layout::{Laid, Layout, Operand};
use crate::row::Context;
pub use crate::samples::{SHAPES, Stream, bools, floats, int_range, ints, wrap};
pub use crate::trace::check_dtype;
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, TensorMetadata};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock that a test holds while it seeds the backend and relies on the numbers that follow: the generator
/// belongs to the process, and tests run at the same time.
pub fn random_lock() -> MutexGuard<'static, ()> {
    static RANDOM: Mutex<()> = Mutex::new(());
    // The lock protects no data that a panic could leave inconsistent.
    RANDOM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The elements of a float tensor, as the oracle's array.
///
/// # Errors
/// Fails if the tensor does not have this dtype.
pub fn read_float<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> Result<Array<f64>, String> {
    check_dtype(tensor.dtype(), dtype)?;
    Ok(<Float as Kind<B>>::decode(&<Float as Kind<B>>::into_data(tensor)))
}

/// The elements of an integer tensor, as the oracle's array.
///
/// # Errors
/// Fails if the tensor does not have this dtype.
pub fn read_int<B: Backend>(tensor: IntTensor<B>, dtype: DType) -> Result<Array<i128>, String> {
    check_dtype(tensor.dtype(), dtype)?;
    Ok(<Int as Kind<B>>::decode(&<Int as Kind<B>>::into_data(tensor)))
}

/// The elements of a boolean tensor, as the oracle's array.
///
/// # Errors
/// Fails if the tensor does not have this dtype.
pub fn read_bool<B: Backend>(tensor: BoolTensor<B>, dtype: DType) -> Result<Array<bool>, String> {
    check_dtype(tensor.dtype(), dtype)?;
    Ok(<Bool as Kind<B>>::decode(&<Bool as Kind<B>>::into_data(tensor)))
}

/// Compares a float tensor with its expectation; `scale` is explained at [`Tolerance`].
///
/// # Errors
/// The first mismatch.
pub fn expect_float<B: Backend>(
    tensor: FloatTensor<B>,
    dtype: DType,
    want: &Array<f64>,
    tolerance: Tolerance,
    scale: f64,
) -> Result<(), String> {
    compare_floats(dtype, &read_float::<B>(tensor, dtype)?, want, tolerance, scale)
}

/// Compares an integer tensor with its expectation.
///
/// # Errors
/// The first mismatch.
pub fn expect_int<B: Backend>(tensor: IntTensor<B>, dtype: DType, want: &Array<i128>) -> Result<(), String> {
    compare_exact(&read_int::<B>(tensor, dtype)?, want)
}

/// Compares a boolean tensor with its expectation.
///
/// # Errors
/// The first mismatch.
pub fn expect_bool<B: Backend>(
    tensor: BoolTensor<B>,
    dtype: DType,
    want: &Array<bool>,
) -> Result<(), String> {
    compare_exact(&read_bool::<B>(tensor, dtype)?, want)
}

/// Uploads an array, contiguous and unique.
pub fn upload<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    array: &Array<K::Value>,
    dtype: DType,
) -> K::Tensor {
    crate::trace::operand(dtype, Layout::Contiguous);
    K::from_data(K::encode(array, dtype), &context.device)
}

/// Runs a call on an array in every layout: once with the original held elsewhere (and checked to be
/// unchanged afterwards) and once as the only owner. The call gets the tensor and its contents.
pub fn over_layouts<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    dtype: DType,
    array: &Array<K::Value>,
    run: impl Fn(K::Tensor, &Array<K::Value>) -> Result<(), String>,
) {
    over_layouts_dyn::<B, K>(context, dtype, array, &run);
}

/// [`over_layouts`], compiled once for all calls.
fn over_layouts_dyn<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    dtype: DType,
    array: &Array<K::Value>,
    run: &dyn Fn(K::Tensor, &Array<K::Value>) -> Result<(), String>,
) {
    let operand = Operand::<B, K>::new(array, dtype);
    for &layout in &context.capabilities.layouts {
        let laid = || operand.lay_out(layout, &context.device);
        let what = |owner| move || format!("{dtype:?} {:?} {layout:?} {owner}", array.shape());
        let mut present = false;
        context.attempt_if(what("shared"), || {
            let Some(laid) = laid() else { return Ok(false) };
            present = true;
            let (tensor, content, witness) = laid.share();
            run(tensor, &content)?;
            witness.verify().map(|()| true)
        });
        if present {
            context.attempt(what("unique"), || {
                let (tensor, content) = laid().expect("the layout exists, as above").unique();
                run(tensor, &content)
            });
        }
    }
}

/// [`over_layouts`] for two operands: every layout of one operand with the other contiguous, and both in the
/// same layout.
pub fn over_layouts2<B: Backend, K: Kind<B>, L: Kind<B>>(
    context: &Context<'_, B>,
    a: (DType, &Array<K::Value>),
    b: (DType, &Array<L::Value>),
    run: impl Fn(K::Tensor, L::Tensor, &Array<K::Value>, &Array<L::Value>) -> Result<(), String>,
) {
    over_layouts2_dyn::<B, K, L>(context, a, b, &run);
}

/// A call on two tensors with these contents.
type Call2<'a, B, K, L> = &'a dyn Fn(
    <K as Kind<B>>::Tensor,
    <L as Kind<B>>::Tensor,
    &Array<<K as Kind<B>>::Value>,
    &Array<<L as Kind<B>>::Value>,
) -> Result<(), String>;

/// [`over_layouts2`], compiled once for all calls.
fn over_layouts2_dyn<B: Backend, K: Kind<B>, L: Kind<B>>(
    context: &Context<'_, B>,
    (a_dtype, a): (DType, &Array<K::Value>),
    (b_dtype, b): (DType, &Array<L::Value>),
    run: Call2<'_, B, K, L>,
) {
    let pairs = context.capabilities.layouts.iter().flat_map(|&l| {
        let contiguous = Layout::Contiguous;
        [(l, contiguous), (contiguous, l), (l, l)].into_iter().take(if l == contiguous { 1 } else { 3 })
    });
    let operands = (Operand::<B, K>::new(a, a_dtype), Operand::<B, L>::new(b, b_dtype));
    for (a_layout, b_layout) in pairs {
        let laid = || -> Option<(Laid<B, K>, Laid<B, L>)> {
            let a = operands.0.lay_out(a_layout, &context.device)?;
            Some((a, operands.1.lay_out(b_layout, &context.device)?))
        };
        let what = |owner| {
            move || {
                format!(
                    "{a_dtype:?} {:?} {a_layout:?} and {b_dtype:?} {:?} {b_layout:?} {owner}",
                    a.shape(),
                    b.shape()
                )
            }
        };
        let mut present = false;
        context.attempt_if(what("shared"), || {
            let Some((a, b)) = laid() else { return Ok(false) };
            present = true;
            let (a, a_content, a_witness) = a.share();
            let (b, b_content, b_witness) = b.share();
            run(a, b, &a_content, &b_content)?;
            a_witness.verify()?;
            b_witness.verify().map(|()| true)
        });
        if present {
            context.attempt(what("unique"), || {
                let (a, b) = laid().expect("the layouts exist, as above");
                let ((a, a_content), (b, b_content)) = (a.unique(), b.unique());
                run(a, b, &a_content, &b_content)
            });
        }
    }
}
