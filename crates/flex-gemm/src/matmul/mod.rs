//! Matrix products.
//!
//! A product passes three stages. [`plan`] uses shapes and strides alone: it broadcasts the leading axes,
//! turns a batch whose right operand is shared into rows of one larger product, and chooses the algorithm.
//! [`run`] executes the plan. [`kernels`] lists the kernels of each dtype.
//!
//! The drivers know bytes and no element types, so each is compiled once: [`run`] for batches, [`gemv`] for
//! products with a vector, [`blocked`] for operands that a kernel packs. They call the code that knows types
//! once per product, task or tile:
//!
//! * [`gemm`]: f32 and f64;
//! * [`half`]: f16, by way of blocks of f32, and bf16 where the machine does not multiply bf16;
//! * [`bf16`], a kernel of [`blocked`]: pairs of bf16, packed by [`pack`];
//! * [`int`], a kernel of [`blocked`]: integers, which wrap;
//! * [`loops`]: products with a vector, for every type.
//!
//! The order of the sums depends on shapes and strides, and on whether the right operand is the weight of a
//! layer ([`plan::RightOperand`]): results have the same bits for any number of threads. [`matrix`] has the
//! views of slices that the kernels for floats take.

mod bf16;
mod blocked;
mod cross;
pub mod gemm;
mod gemv;
mod half;
mod int;
mod kernels;
mod lane;
mod linear;
mod loops;
mod matrix;
mod pack;
mod plan;
mod run;

pub use cross::cross;
pub use linear::{linear, linear_bias_backward, linear_weight_backward, linear_x_backward};

use crate::error::{Error, Result, check_same_dtype};
use crate::{Blank, Shape, Tensor, parallel, storage};
use kernels::{KernelsOf, float_kernels, int_kernels, number_kernels};
use plan::{ProductPlan, RightOperand};

/// `lhs @ rhs`: `[.., m, k]` times `[.., k, n]` gives `[.., m, n]`. The leading axes broadcast.
///
/// An operand in which one of the last two axes is contiguous is read in place. A sum over `k = 0` terms is
/// zero.
/// f16 and bf16 accumulate in f32 and round once; integers are exact modulo `2^bits`.
///
/// # Errors
/// Different dtypes, booleans, a rank below two, different inner sizes, leading axes that do not broadcast,
/// not enough memory.
pub fn matmul(lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    product("matmul", number_kernels, lhs, (rhs, RightOperand::Any), None)
}

/// [`matmul`] of floats: a program that calls no other product links no product of integers.
///
/// # Errors
/// The errors of [`matmul`], and a dtype that is not a float.
pub fn float_matmul(lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    product("matmul", float_kernels, lhs, (rhs, RightOperand::Any), None)
}

/// [`matmul`] of integers; see [`float_matmul`].
///
/// # Errors
/// The errors of [`matmul`], and a dtype that is not an integer.
pub fn int_matmul(lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    product("matmul", int_kernels, lhs, (rhs, RightOperand::Any), None)
}

/// `lhs @ rhs`, plus `bias` on every row; `bias` has the length of the output's last axis.
fn product(
    op: &'static str,
    kernels: KernelsOf,
    mut lhs: Tensor,
    (mut rhs, operand): (Tensor, RightOperand),
    bias: Option<Tensor>,
) -> Result<Tensor> {
    let dtype = lhs.dtype();
    check_same_dtype(op, dtype, rhs.dtype())?;
    let mut plan = ProductPlan::new(op, lhs.layout(), rhs.layout())?;
    let bias = match bias {
        Some(bias) => {
            check_same_dtype(op, dtype, bias.dtype())?;
            if bias.shape().as_slice() != [plan.n] {
                return Err(Error::shape(op, bias.shape(), alloc::format!("a bias of shape [{}]", plan.n)));
            }
            Some(bias.into_contiguous()?)
        }
        None => None,
    };
    if plan.copy_lhs || plan.copy_rhs {
        if plan.copy_lhs {
            lhs = lhs.into_contiguous()?;
        }
        if plan.copy_rhs {
            rhs = rhs.into_contiguous()?;
        }
        plan = ProductPlan::new(op, lhs.layout(), rhs.layout())?;
    }
    plan.operand = operand;
    let kernels = kernels(op, dtype)?;
    let bytes = bias.as_ref().map(|bias| {
        let (start, size) = (bias.layout().offset() * dtype.size(), plan.n * dtype.size());
        &bias.storage_bytes()[start..start + size]
    });
    storage::ensure(op, plan.working_memory(dtype, parallel::threads()))?;
    // The kernels need the sizes of the matrices alone.
    let shape = core::mem::replace(&mut plan.shape, Shape::new([]));
    let mut blank = Blank::new(op, shape, dtype)?;
    run::run(&kernels, &plan, lhs.storage_bytes(), &rhs, blank.bytes(), bytes);
    Ok(blank.finish())
}

#[cfg(test)]
mod tests;
