//! Linear layers, forward and backward.

use super::gemm::Threads;
use super::gemv::{Elements, Matrix, gemv};
use super::kernels::float_kernels;
use super::plan::RightOperand;
use super::product;
use crate::error::{Error, Result, check_rank, check_same_dtype};
use crate::{Blank, Tensor, storage};

/// `x @ weight + bias`: `[.., d_in]` times `[d_in, d_out]`, plus `[d_out]`, gives `[.., d_out]`.
///
/// In f32 and f64 the bias is added where the sums of two and more rows are stored, without a pass of its
/// own.
///
/// # Errors
/// Different dtypes, a dtype that is not a float, a weight without exactly two axes, sizes that do not fit
/// together.
pub fn linear(x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Result<Tensor> {
    let op = "linear";
    check_rank(op, weight.shape(), 2, "a weight of shape [d_in, d_out]")?;
    rows_times(op, x, (weight, RightOperand::Weight), bias)
}

/// Gradient of [`linear`] with respect to `x`: `grad @ weight^T`, `[.., d_out]` to `[.., d_in]`.
///
/// # Errors
/// Different dtypes, a dtype that is not a float, a weight without exactly two axes, sizes that do not fit
/// together.
pub fn linear_x_backward(weight: Tensor, grad: Tensor) -> Result<Tensor> {
    let op = "linear_x_backward";
    check_rank(op, weight.shape(), 2, "a weight of shape [d_in, d_out]")?;
    rows_times(op, grad, (weight.swap_axes(0, 1)?, RightOperand::Any), None)
}

/// `x @ matrix + bias` for `x` of rank one or more.
fn rows_times(
    op: &'static str,
    x: Tensor,
    matrix: (Tensor, RightOperand),
    bias: Option<Tensor>,
) -> Result<Tensor> {
    match x.rank() {
        0 => Err(Error::shape(op, x.shape(), "at least one axis")),
        1 => {
            let d = x.shape()[0];
            let out = product(op, float_kernels, x.reshape([1, d])?, matrix, bias)?;
            let d = out.shape()[1];
            out.reshape([d])
        }
        _ => product(op, float_kernels, x, matrix, bias),
    }
}

/// Gradient of [`linear`] with respect to the weight: `x^T @ grad` summed over the leading axes, `[.., d_in]`
/// and `[.., d_out]` to `[d_in, d_out]`.
///
/// The leading axes form one long sum of a single product, instead of one product per batch element.
///
/// # Errors
/// Different dtypes, a dtype that is not a float, different leading axes, no axes.
pub fn linear_weight_backward(x: Tensor, grad: Tensor) -> Result<Tensor> {
    let op = "linear_weight_backward";
    check_same_dtype(op, x.dtype(), grad.dtype())?;
    let (xs, gs) = (x.shape().to_vec(), grad.shape().to_vec());
    let (Some((&d_in, x_lead)), Some((&d_out, g_lead))) = (xs.split_last(), gs.split_last()) else {
        return Err(Error::shapes(op, &xs, &gs, "[.., d_in] and [.., d_out]"));
    };
    if x_lead != g_lead {
        return Err(Error::shapes(op, &xs, &gs, "equal leading axes"));
    }
    let rows: usize = x_lead.iter().product();
    let x = x.reshape([rows, d_in])?.swap_axes(0, 1)?;
    product(op, float_kernels, x, (grad.reshape([rows, d_out])?, RightOperand::Any), None)
}

/// Gradient of [`linear`] with respect to the bias: the sum over all axes except the last, `[.., d_out]` to
/// `[d_out]`.
///
/// Summed in blocks; f16 and bf16 in f32.
///
/// # Errors
/// No axes, a dtype that is not a float.
pub fn linear_bias_backward(grad: Tensor) -> Result<Tensor> {
    let op = "linear_bias_backward";
    let Some(&d_out) = grad.shape().last() else {
        return Err(Error::shape(op, grad.shape(), "at least one axis"));
    };
    let rows: usize = grad.shape()[..grad.rank() - 1].iter().product();
    let mut grad = grad.reshape([rows, d_out])?;
    let strides = grad.layout().strides();
    if strides[0] != 1 && strides[1] != 1 {
        grad = grad.into_contiguous()?;
    }
    let dtype = grad.dtype();
    let kernels = float_kernels(op, dtype)?;
    let one = kernels.vectors.one();
    // The sum of the rows is their product with a vector of ones.
    let layout = grad.layout();
    let w = Matrix {
        data: grad.storage_bytes(),
        offset: layout.offset(),
        row: layout.strides()[1],
        col: layout.strides()[0],
    };
    let ones = Elements { data: bytemuck::bytes_of(&one), offset: 0, stride: 0, len: rows };
    // The ones are gathered as accumulators.
    storage::ensure(op, rows.saturating_mul(dtype.size().max(size_of::<f32>())))?;
    let mut blank = Blank::new(op, [d_out].into(), dtype)?;
    if rows == 0 {
        blank.bytes().fill(0);
    } else if d_out != 0 {
        gemv(kernels.vectors, blank.bytes(), w, ones, false, Threads::Pool);
    }
    Ok(blank.finish())
}
