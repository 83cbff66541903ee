//! Functions of one element.

use super::Unary;
use super::driver::{Cost, Input, Op, run};
use super::float::{Family, Float, LightVectors, Plain, Selected, Vectors, plain_fn};
use super::kernel::{Fn1, Kernel, Map1};
use super::number::{Number, Select};
use crate::error::{Error, Result};
use crate::{DType, Element, Tensor};
use flex_math::simd::{Simd, Vector};
use flex_math::{Float as MathFloat, UnaryFn};

/// Applies `op` to each element.
///
/// `Abs`, `Neg` and `Sign` take floats and integers (which wrap: `-MIN` is `MIN`), `BitNot` integers, the rest
/// floats. `Round` rounds half to even. `Sign` of NaN is 0, as in PyTorch; all others propagate NaN. The output has
/// the dtype and the shape of the input; a dense input keeps its order in memory.
///
/// # Errors
/// A dtype that `op` does not take.
pub fn unary(op: Unary, tensor: Tensor) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let name = op.name();
    if dtype.is_uint() && op == Unary::Abs {
        return Ok(tensor);
    }
    let (kernel, cost) = match op {
        Unary::Abs => (number::<Selected<Abs>, Abs>(name, dtype)?, Cost::Memory),
        Unary::Sign => (number::<Plain<Sign>, Sign>(name, dtype)?, Cost::Memory),
        Unary::Neg if dtype.is_float() => (number::<Selected<Neg>, Neg>(name, dtype)?, Cost::Memory),
        Unary::Neg => (wrapping_neg(name, dtype)?, Cost::Memory),
        Unary::BitNot => (bit_not(name, dtype)?, Cost::Memory),
        _ => float(op, dtype)?,
    };
    run(Op { name, kernel, dtype, cost, reuse: [true] }, [Input::Tensor(tensor)])
}

impl Unary {
    /// The name that errors use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unary::Abs => "abs",
            Unary::Neg => "neg",
            Unary::Sign => "sign",
            Unary::Recip => "recip",
            Unary::Sqrt => "sqrt",
            Unary::Exp => "exp",
            Unary::Expm1 => "expm1",
            Unary::Ln => "log",
            Unary::Log1p => "log1p",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Tan => "tan",
            Unary::Sinh => "sinh",
            Unary::Cosh => "cosh",
            Unary::Tanh => "tanh",
            Unary::Asin => "asin",
            Unary::Acos => "acos",
            Unary::Atan => "atan",
            Unary::Asinh => "asinh",
            Unary::Acosh => "acosh",
            Unary::Atanh => "atanh",
            Unary::Erf => "erf",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Trunc => "trunc",
            Unary::Round => "round",
            Unary::Relu => "relu",
            Unary::Sigmoid => "sigmoid",
            Unary::LogSigmoid => "log_sigmoid",
            Unary::Gelu => "gelu",
            Unary::Silu => "silu",
            Unary::BitNot => "bitwise_not",
        }
    }
}

/// The kernel of a function of floats, and its cost.
fn float(op: Unary, dtype: DType) -> Result<(&'static dyn Kernel<1>, Cost)> {
    use flex_math as m;
    let cost = match op {
        // No processor pipelines these fully: a square root takes 0.19 ns on Zen 4 and 0.26 on a Xeon, and of f64 1.04.
        Unary::Recip | Unary::Sqrt if dtype == DType::F64 => Cost::Flops(64),
        Unary::Sqrt => Cost::Flops(16),
        Unary::Recip | Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round | Unary::Relu => Cost::Memory,
        Unary::Ln | Unary::Log1p | Unary::Sigmoid | Unary::Silu => Cost::Flops(22),
        Unary::Erf | Unary::LogSigmoid => Cost::Flops(30),
        Unary::Gelu => Cost::Flops(64),
        _ => Cost::MATH,
    };
    let kernel = dispatch!(float op.name(), dtype, T => Ok(match op {
        Unary::Recip => T::kernel::<1, LightVectors<m::Recip>>(),
        Unary::Sqrt => T::kernel::<1, LightVectors<m::Sqrt>>(),
        Unary::Exp => T::kernel::<1, Vectors<m::Exp>>(),
        Unary::Expm1 => T::kernel::<1, Vectors<m::Expm1>>(),
        Unary::Ln => T::kernel::<1, Vectors<m::Ln>>(),
        Unary::Log1p => T::kernel::<1, Vectors<m::Log1p>>(),
        Unary::Sin => T::kernel::<1, Vectors<m::Sin>>(),
        Unary::Cos => T::kernel::<1, Vectors<m::Cos>>(),
        Unary::Tan => T::kernel::<1, Vectors<m::Tan>>(),
        Unary::Sinh => T::kernel::<1, Vectors<m::Sinh>>(),
        Unary::Cosh => T::kernel::<1, Vectors<m::Cosh>>(),
        Unary::Tanh => T::kernel::<1, Vectors<m::Tanh>>(),
        Unary::Asin => T::kernel::<1, Vectors<m::Asin>>(),
        Unary::Acos => T::kernel::<1, Vectors<m::Acos>>(),
        Unary::Atan => T::kernel::<1, Vectors<m::Atan>>(),
        Unary::Asinh => T::kernel::<1, Vectors<m::Asinh>>(),
        Unary::Acosh => T::kernel::<1, Vectors<m::Acosh>>(),
        Unary::Atanh => T::kernel::<1, Vectors<m::Atanh>>(),
        Unary::Erf => T::kernel::<1, Vectors<m::Erf>>(),
        Unary::Floor => T::kernel::<1, LightVectors<Floor>>(),
        Unary::Ceil => T::kernel::<1, LightVectors<Ceil>>(),
        Unary::Trunc => T::kernel::<1, LightVectors<Trunc>>(),
        Unary::Round => T::kernel::<1, LightVectors<Round>>(),
        Unary::Relu => T::kernel::<1, Selected<Relu>>(),
        Unary::Sigmoid => T::kernel::<1, Vectors<m::Sigmoid>>(),
        Unary::LogSigmoid => T::kernel::<1, Vectors<m::LogSigmoid>>(),
        Unary::Gelu => T::kernel::<1, Vectors<m::Gelu>>(),
        Unary::Silu => T::kernel::<1, Vectors<m::Silu>>(),
        Unary::Abs | Unary::Neg | Unary::Sign | Unary::BitNot => unreachable!("not float functions alone"),
    }))?;
    Ok((kernel, cost))
}

/// The kernel of a function of floats, by a family, and integers.
fn number<K: Family<1>, F>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<1>>
where
    F: Fn1<i8> + Fn1<i16> + Fn1<i32> + Fn1<i64> + Fn1<u8> + Fn1<u16> + Fn1<u32> + Fn1<u64> + 'static,
{
    if dtype.is_float() {
        return dispatch!(float name, dtype, T => Ok(T::kernel::<1, K>()));
    }
    match dispatch!(int name, dtype, T => Ok(Map1::<T, F>::KERNEL)) {
        Err(Error::DType { .. }) => Err(Error::dtype(name, dtype, "a float or integer dtype")),
        other => other,
    }
}

fn wrapping_neg(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<1>> {
    if !(dtype.is_int() || dtype.is_uint()) {
        return Err(Error::dtype(name, dtype, "a float or integer dtype"));
    }
    // The same bits for signed and unsigned.
    dispatch!(bits name, dtype, T => Ok(Map1::<T, Neg>::KERNEL))
}

fn bit_not(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<1>> {
    if !(dtype.is_int() || dtype.is_uint()) {
        return Err(Error::dtype(name, dtype, "an integer dtype"));
    }
    dispatch!(bits name, dtype, T => Ok(Map1::<T, BitNot>::KERNEL))
}

plain_fn! {
    Abs<Select>: |a| a.abs();
    Neg<Select>: |a| a.neg();
    Sign<Number>: |a| a.sign();
    // Not a maximum with zero: NaN stays.
    Relu<Select>: |a| a.if_less(T::zero(), T::zero(), a);
}

struct BitNot;
impl<T: Element + core::ops::Not<Output = T>> Fn1<T> for BitNot {
    type Out = T;
    #[inline(always)]
    fn at(a: T) -> T {
        !a
    }
}

/// A rounding as a vector function: one instruction, which plain loops reach only with `std`.
macro_rules! rounding {
    ($($name:ident: |$x:ident| $value:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        struct $name;
        impl<T: MathFloat> UnaryFn<T> for $name {
            #[inline(always)]
            fn eval<S: Simd>(self, $x: Vector<S, T>) -> Vector<S, T> {
                $value
            }
        }
    )*};
}

rounding! {
    Floor: |x| x.floor();
    // By way of floor, with the sign of zero kept: -0.5 rounds up to -0.
    Ceil: |x| negate(negate(x).floor());
    Trunc: |x| x.trunc();
    Round: |x| x.round_ties_even();
}

#[inline(always)]
fn negate<S: Simd, T: MathFloat>(x: Vector<S, T>) -> Vector<S, T> {
    // A product, since 0 - x turns 0 into 0 instead of -0.
    x * (-T::one()).splat()
}
