//! Selection by a boolean mask.

use super::driver::{Cost, Input, Op, ScalarBytes, run};
use super::element::{Fixed, Fn3, LoopsByConstants, Map3};
use super::integer::BitLogic;
use super::kernel::{Kernel, Src, Typed};
use super::number::Selection;
use crate::error::{Error, Result, check_same_dtype};
use crate::{DType, Scalar, Tensor};
use core::marker::PhantomData;
use flex_math::simd::{Levels, vectorize};

/// The elements of `value` where `mask` is true, and of `tensor` elsewhere. All three broadcast together.
///
/// # Errors
/// A mask that is not boolean, a value of another dtype than the tensor, or shapes that do not broadcast.
pub fn mask_where(tensor: Tensor, mask: Tensor, value: Tensor) -> Result<Tensor> {
    check_same_dtype("mask_where", tensor.dtype(), value.dtype())?;
    let dtype = tensor.dtype();
    check_mask("mask_where", &mask)?;
    select("mask_where", dtype, [Input::Tensor(tensor), Input::Tensor(mask), Input::Tensor(value)])
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
    check_mask("mask_fill", &mask)?;
    select("mask_fill", dtype, [Input::Tensor(tensor), Input::Tensor(mask), Input::Scalar(value)])
}

fn check_mask(name: &'static str, mask: &Tensor) -> Result<()> {
    let is_mask = mask.dtype().is_bool();
    is_mask.then_some(()).ok_or_else(|| Error::dtype(name, mask.dtype(), "a mask of a bool dtype"))
}

/// Selects from a tensor of `dtype` by a mask. The operands come as [`run`] takes them, since each move of
/// three tensors costs some 50 instructions.
fn select(name: &'static str, dtype: DType, operands: [Input; 3]) -> Result<Tensor> {
    let kernel: &'static dyn Kernel<3> = dispatch!(bits name, dtype, T => Ok(Blend::<T>::KERNEL))?;
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true, false, true], light: None };
    run(op, operands)
}

/// `(tensor, mask, value)`, by the bits of the elements.
struct Blend<T>(PhantomData<T>);

impl<T: BitLogic + Selection> Blend<T> {
    const KERNEL: &'static dyn Kernel<3> = &Self(PhantomData);
    const LOOPS: &'static LoopsByConstants<3> = &LoopsByConstants {
        slices: Map3::<u8, T, T, Chosen>::LOOP,
        left: Some(Map3::<u8, T, T, Chosen>::VECTOR_LOOP),
        right: Map3::<u8, T, T, Fixed<Chosen, false, true>>::VECTOR_LOOP,
    };
}

impl<T: BitLogic + Selection> Kernel<3> for Blend<T> {
    fn run(&self, out: &mut [u8], [tensor, mask, value]: [Src<'_>; 3]) {
        if !matches!((tensor, value), (Src::Out, _) | (_, Src::Out)) {
            return Self::LOOPS.run(out, [mask, value], |mask, value| [mask, value, tensor]);
        }
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let mask = match mask.typed::<u8>() {
            Typed::Each(mask) => mask,
            Typed::Same(mask) => return copy(out, if mask != 0 { value } else { tensor }.typed()),
            Typed::Out => unreachable!("the mask is not reused"),
        };
        match (tensor.typed::<T>(), value.typed::<T>()) {
            (Typed::Out, value) => overwrite(out, mask, true, value),
            (tensor, _) => overwrite(out, mask, false, tensor),
        }
    }
}

/// `yes` where the mask is true, `no` elsewhere.
struct Chosen;

impl<T: BitLogic + Selection> Fn3<u8, T, T> for Chosen {
    type Out = T;
    const LEVELS: Levels = Levels::All;
    /// Prefetches would be half of the loads: 1 Mi f16 take 56 us, and took 68 with them; 16 Mi f32 take the
    /// same time (one thread of Zen 4).
    const PREFETCHES: bool = false;
    #[inline(always)]
    fn at(mask: u8, yes: T, no: T) -> T {
        choose(mask != 0, yes, no)
    }
}

/// Replaces the elements where the mask is `when`.
fn overwrite<T: BitLogic + Selection>(out: &mut [T], mask: &[u8], when: bool, from: Typed<'_, T>) {
    assert!(out.len() == mask.len(), "kernel: mask length");
    vectorize(
        #[inline(always)]
        move || match from {
            Typed::Each(values) => {
                assert!(out.len() == values.len(), "kernel: operand length");
                for ((o, m), v) in out.iter_mut().zip(mask).zip(values) {
                    *o = choose((*m != 0) == when, *v, *o);
                }
            }
            Typed::Same(value) => {
                for (o, m) in out.iter_mut().zip(mask) {
                    *o = choose((*m != 0) == when, value, *o);
                }
            }
            Typed::Out => {}
        },
    );
}

/// `yes` or `no` by bits. A choice between two loaded elements would become a branch, twice as slow.
#[inline(always)]
fn choose<T: BitLogic + Selection>(condition: bool, yes: T, no: T) -> T {
    let all = T::from_u64(condition as u64).neg();
    no ^ ((yes ^ no) & all)
}

fn copy<T: Copy>(out: &mut [T], from: Typed<'_, T>) {
    match from {
        Typed::Each(values) => out.copy_from_slice(values),
        Typed::Same(value) => out.fill(value),
        Typed::Out => {}
    }
}
