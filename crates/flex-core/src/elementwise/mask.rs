//! Selection by a boolean mask.

use super::binary::Bits;
use super::compare::check_bool;
use super::driver::{Cost, Input, Op, ScalarBytes, run};
use super::kernel::{Kernel, Src, Typed};
use super::number::Number;
use crate::error::{Error, Result, check_same_dtype};
use crate::{Scalar, Tensor};
use core::marker::PhantomData;
use flex_math::simd::{Simd, WithSimd, dispatch};

/// The elements of `value` where `mask` is true, and of `tensor` elsewhere. All three broadcast together.
///
/// # Errors
/// A mask that is not boolean, a value of another dtype than the tensor, or shapes that do not broadcast.
pub fn mask_where(tensor: Tensor, mask: Tensor, value: Tensor) -> Result<Tensor> {
    check_same_dtype("mask_where", tensor.dtype(), value.dtype())?;
    select("mask_where", tensor, mask, Input::Tensor(value))
}

/// `value` (cast to the tensor's dtype) where `mask` is true, and the elements of `tensor` elsewhere. The two
/// broadcast together.
///
/// # Errors
/// A mask that is not boolean, or shapes that do not broadcast.
pub fn mask_fill(tensor: Tensor, mask: Tensor, value: Scalar) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let value = if dtype.is_bool() {
        ScalarBytes::new((value.to_f64() != 0.0) as u8)
    } else {
        dispatch!(number "mask_fill", dtype, T => Ok(ScalarBytes::new(value.cast::<T>())))?
    };
    select("mask_fill", tensor, mask, Input::Scalar(value))
}

fn select(name: &'static str, tensor: Tensor, mask: Tensor, value: Input) -> Result<Tensor> {
    if check_bool(name, mask.dtype()).is_err() {
        return Err(Error::dtype(name, mask.dtype(), "a mask of a bool dtype of one byte (native, u8)"));
    }
    let dtype = tensor.dtype();
    let kernel: &'static dyn Kernel<3> = dispatch!(bits name, dtype, T => Ok(Select::<T>::KERNEL))?;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true, false, true] };
    run(op, [Input::Tensor(tensor), Input::Tensor(mask), value])
}

/// `(tensor, mask, value)`, by the bits of the elements.
struct Select<T>(PhantomData<T>);

impl<T: Bits + Number> Select<T> {
    const KERNEL: &'static dyn Kernel<3> = &Self(PhantomData);
}

impl<T: Bits + Number> Kernel<3> for Select<T> {
    fn run(&self, out: &mut [u8], [tensor, mask, value]: [Src<'_>; 3]) {
        dispatch(Loop::<T> {
            out: bytemuck::cast_slice_mut(out),
            tensor: tensor.typed(),
            mask: mask.typed(),
            value: value.typed(),
        });
    }
}

struct Loop<'a, T> {
    out: &'a mut [T],
    tensor: Typed<'a, T>,
    mask: Typed<'a, u8>,
    value: Typed<'a, T>,
}

impl<T: Bits + Number> WithSimd for Loop<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Self { out, tensor, mask, value } = self;
        let mask = match mask {
            Typed::Each(mask) => mask,
            Typed::Same(mask) => return copy(out, if mask != 0 { value } else { tensor }),
            Typed::Out => unreachable!("the mask is not reused"),
        };
        assert!(out.len() == mask.len(), "kernel: mask length");
        match (tensor, value) {
            (Typed::Each(tensor), Typed::Each(value)) => {
                assert!(out.len() == tensor.len() && out.len() == value.len(), "kernel: operand length");
                for (((o, m), t), v) in out.iter_mut().zip(mask).zip(tensor).zip(value) {
                    *o = blend(*m != 0, *v, *t);
                }
            }
            (Typed::Each(tensor), Typed::Same(value)) => {
                assert!(out.len() == tensor.len(), "kernel: operand length");
                for ((o, m), t) in out.iter_mut().zip(mask).zip(tensor) {
                    *o = blend(*m != 0, value, *t);
                }
            }
            (Typed::Same(tensor), Typed::Each(value)) => {
                assert!(out.len() == value.len(), "kernel: operand length");
                for ((o, m), v) in out.iter_mut().zip(mask).zip(value) {
                    *o = blend(*m != 0, *v, tensor);
                }
            }
            (Typed::Same(tensor), Typed::Same(value)) => {
                for (o, m) in out.iter_mut().zip(mask) {
                    *o = blend(*m != 0, value, tensor);
                }
            }
            (Typed::Out, value) => overwrite::<T, true>(out, mask, value),
            (tensor, Typed::Out) => overwrite::<T, false>(out, mask, tensor),
        }
    }
}

/// `yes` or `no` by bits. A choice between two loaded elements would become a branch, twice as slow.
#[inline(always)]
fn blend<T: Bits + Number>(condition: bool, yes: T, no: T) -> T {
    let all = T::from_u64(condition as u64).neg();
    no ^ ((yes ^ no) & all)
}

#[inline(always)]
fn copy<T: Copy>(out: &mut [T], from: Typed<'_, T>) {
    match from {
        Typed::Each(values) => out.copy_from_slice(values),
        Typed::Same(value) => out.fill(value),
        Typed::Out => {}
    }
}

/// Replaces the elements where the mask is `WHEN`.
#[inline(always)]
fn overwrite<T: Bits + Number, const WHEN: bool>(out: &mut [T], mask: &[u8], from: Typed<'_, T>) {
    match from {
        Typed::Each(values) => {
            assert!(out.len() == values.len(), "kernel: operand length");
            for ((o, m), v) in out.iter_mut().zip(mask).zip(values) {
                *o = blend((*m != 0) == WHEN, *v, *o);
            }
        }
        Typed::Same(value) => {
            for (o, m) in out.iter_mut().zip(mask) {
                *o = blend((*m != 0) == WHEN, value, *o);
            }
        }
        Typed::Out => {}
    }
}
