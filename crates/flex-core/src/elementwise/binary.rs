//! Functions of two elements.

use super::cast::cast;
use super::compare::compare_scalar;
use super::driver::{Cost, Input, Op, ScalarBytes, run};
use super::float::{Family, Float, Plain, Vectors, plain_fn};
use super::kernel::{Fn1, Fn2, Kernel, Map2};
use super::number::{Integer, Number};
use super::remainder::Remainder;
use super::unary::unary;
use super::{Binary, Compare, Unary};
use crate::error::{Error, Result, check_same_dtype};
use crate::{BoolStore, DType, Element, Scalar, Tensor};
use flex_math::simd::{Simd, Vector};
use flex_math::{BinaryFn, Float as MathFloat, UnaryFn};

/// Applies `op` to each pair of elements of two tensors of one dtype, which broadcast together.
///
/// `Add`, `Sub`, `Mul`, `Div`, `Rem`, `Pow`, `Max` and `Min` take floats and integers; the bitwise ones integers;
/// `Atan2` and the gradients floats. Every outcome is defined:
///
/// * Integers wrap. `x / 0` and `x % 0` are 0, `MIN / -1` is `MIN`. `Div` of integers truncates.
/// * `Rem` has the sign of the divisor.
/// * `Pow` of integers is exact and wraps; a negative exponent gives 0, except for bases 1 and -1.
/// * `Shl` and `Shr` by a negative count or one not below the width leave 0, or the sign for `Shr`.
/// * `Max` and `Min` are NaN when either operand is.
///
/// # Errors
/// Different dtypes, one that `op` does not take, or shapes that do not broadcast.
pub fn binary(op: Binary, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    let name = op.name();
    check_same_dtype(name, lhs.dtype(), rhs.dtype())?;
    run_op(op, lhs.dtype(), [Input::Tensor(lhs), Input::Tensor(rhs)])
}

/// [`binary`] with a number on the right, cast to the tensor's dtype. Half precision computes in f32 and keeps the
/// number in f32.
///
/// # Errors
/// A dtype that `op` does not take.
pub fn binary_scalar(op: Binary, lhs: Tensor, rhs: Scalar) -> Result<Tensor> {
    let dtype = lhs.dtype();
    if op == Binary::Pow && dtype.is_float() {
        return power(lhs, rhs);
    }
    if let (Binary::Pow, Scalar::Int(exponent)) = (op, rhs)
        && exponent < 0
        && dtype.is_uint()
    {
        // The reciprocal, truncated: 1 for 1, 0 for all others.
        let is_one = compare_scalar(Compare::Eq, lhs, Scalar::Int(1), BoolStore::Native)?;
        return cast(is_one, dtype);
    }
    let rhs = if op == Binary::Pow {
        number(op.name(), dtype, representable_exponent(rhs, dtype))?
    } else {
        number(op.name(), dtype, rhs)?
    };
    run_op(op, dtype, [Input::Tensor(lhs), Input::Scalar(rhs)])
}

/// [`binary`] with a number on the left; see [`binary_scalar`].
///
/// # Errors
/// A dtype that `op` does not take.
pub fn scalar_binary(op: Binary, lhs: Scalar, rhs: Tensor) -> Result<Tensor> {
    let dtype = rhs.dtype();
    let lhs = number(op.name(), dtype, lhs)?;
    run_op(op, dtype, [Input::Scalar(lhs), Input::Tensor(rhs)])
}

// Always: a call would move both inputs once more, 8 of 170 ns of a product with a number.
#[inline(always)]
fn run_op(op: Binary, dtype: DType, inputs: [Input; 2]) -> Result<Tensor> {
    let (kernel, cost) = kernel(op, dtype)?;
    run(Op { name: op.name(), kernel, dtype, cost, reuse: [true; 2] }, inputs)
}

/// Powers of floats with one exponent: the common ones by arithmetic.
fn power(base: Tensor, exponent: Scalar) -> Result<Tensor> {
    let (name, dtype) = (Binary::Pow.name(), base.dtype());
    let kernel = match exponent.to_f64() {
        1.0 => return dispatch!(float name, dtype, _T => Ok(base)),
        -1.0 => return unary(Unary::Recip, base),
        2.0 => dispatch!(float name, dtype, T => Ok(T::kernel::<1, Plain<Square>>()))?,
        3.0 => dispatch!(float name, dtype, T => Ok(T::kernel::<1, Plain<Cube>>()))?,
        _ => {
            let exponent = number(name, dtype, exponent)?;
            return run_op(Binary::Pow, dtype, [Input::Tensor(base), Input::Scalar(exponent)]);
        }
    };
    run(Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true] }, [Input::Tensor(base)])
}

/// An exponent that an integer dtype can hold and that gives the same powers.
///
/// Modulo `2^bits`, powers of odd numbers repeat with a period that divides `2^(bits-2)`, and those of even numbers are
/// zero from the exponent `bits` on. Negative exponents count by their parity alone.
fn representable_exponent(exponent: Scalar, dtype: DType) -> Scalar {
    let (period, signed) = (1u64 << (8 * dtype.size() - 2), dtype.is_int());
    match exponent {
        Scalar::Int(e) if e < 0 && signed => Scalar::Int(-1 - (e % 2 == 0) as i64),
        Scalar::Int(e) if e >= 0 => representable_exponent(Scalar::UInt(e as u64), dtype),
        Scalar::UInt(e) if e >= 2 * period => Scalar::UInt(period + e % period),
        other => other,
    }
}

/// A scalar as an operand of tensors of `dtype`; for halves it stays f32.
#[inline]
pub(super) fn number(name: &'static str, dtype: DType, value: Scalar) -> Result<ScalarBytes> {
    let dtype = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    match number_bits(name, dtype, value) {
        Some(bits) => Ok(ScalarBytes::from_bits(bits, dtype.size())),
        None => Err(Error::dtype(name, dtype, "a float or integer dtype")),
    }
}

/// The bytes of a number, in a register: one that comes in a [`Result`], with room for an error, is waited for in memory.
fn number_bits(name: &'static str, dtype: DType, value: Scalar) -> Option<u64> {
    dispatch!(number name, dtype, T => Ok(ScalarBytes::new(value.cast::<T>()).bits)).ok()
}

impl Binary {
    /// The name that errors use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Rem => "remainder",
            Binary::Pow => "pow",
            Binary::Atan2 => "atan2",
            Binary::Max => "max_pair",
            Binary::Min => "min_pair",
            Binary::BitAnd => "bitwise_and",
            Binary::BitOr => "bitwise_or",
            Binary::BitXor => "bitwise_xor",
            Binary::Shl => "bitwise_left_shift",
            Binary::Shr => "bitwise_right_shift",
            Binary::ReluGrad => "relu_backward",
            Binary::SigmoidGrad => "sigmoid_backward",
            Binary::GeluGrad => "gelu_backward",
            Binary::LogSigmoidGrad => "log_sigmoid_backward",
        }
    }
}

/// The kernel of `op` over `dtype`, and its cost.
fn kernel(op: Binary, dtype: DType) -> Result<(&'static dyn Kernel<2>, Cost)> {
    let name = op.name();
    Ok(match op {
        Binary::Add => (wrapping::<Add>(name, dtype)?, Cost::Memory),
        Binary::Sub => (wrapping::<Sub>(name, dtype)?, Cost::Memory),
        Binary::Mul => (wrapping::<Mul>(name, dtype)?, Cost::Memory),
        Binary::Max => (ordered::<Max>(name, dtype)?, Cost::Memory),
        Binary::Min => (ordered::<Min>(name, dtype)?, Cost::Memory),
        Binary::Div if dtype.is_float() => (float::<Plain<Div>>(name, dtype)?, Cost::Memory),
        Binary::Div => (integer::<Div>(name, dtype, "a float or integer dtype")?, Cost::SCALAR),
        Binary::Rem if dtype.is_float() => (float::<Remainder>(name, dtype)?, Cost::SCALAR),
        Binary::Rem => (integer::<Rem>(name, dtype, "a float or integer dtype")?, Cost::SCALAR),
        Binary::Pow if dtype.is_float() => (float::<Vectors<flex_math::Pow>>(name, dtype)?, Cost::Flops(110)),
        Binary::Pow => (integer::<Pow>(name, dtype, "a float or integer dtype")?, Cost::MATH),
        Binary::Atan2 => (float::<Vectors<flex_math::Atan2>>(name, dtype)?, Cost::MATH),
        Binary::BitAnd => (bitwise::<BitAnd>(name, dtype)?, Cost::Memory),
        Binary::BitOr => (bitwise::<BitOr>(name, dtype)?, Cost::Memory),
        Binary::BitXor => (bitwise::<BitXor>(name, dtype)?, Cost::Memory),
        // A negative count, read as unsigned, is out of range too.
        Binary::Shl => (bitwise::<Shl>(name, dtype)?, Cost::Memory),
        Binary::Shr => (integer::<Shr>(name, dtype, "an integer dtype")?, Cost::Memory),
        Binary::ReluGrad => (float::<Plain<ReluGrad>>(name, dtype)?, Cost::Memory),
        Binary::SigmoidGrad => (float::<Plain<SigmoidGrad>>(name, dtype)?, Cost::Memory),
        Binary::GeluGrad => (float::<Vectors<flex_math::GeluGrad>>(name, dtype)?, Cost::Flops(48)),
        Binary::LogSigmoidGrad => (float::<Vectors<LogSigmoidGrad>>(name, dtype)?, Cost::MATH),
    })
}

pub(super) fn float<K: Family<2>>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<2>> {
    dispatch!(float name, dtype, T => Ok(T::kernel::<2, K>()))
}

/// A function of floats, and of integers in which signed and unsigned give the same bits.
fn wrapping<F>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<2>>
where
    F: Fn2<f32, Out = f32> + Fn2<f64, Out = f64> + BinaryFn<f32> + Default + 'static,
    F: Fn2<u8> + Fn2<u16> + Fn2<u32> + Fn2<u64>,
{
    if dtype.is_float() {
        return float::<Plain<F>>(name, dtype);
    }
    if dtype.is_bool() {
        return Err(Error::dtype(name, dtype, "a float or integer dtype"));
    }
    dispatch!(bits name, dtype, T => Ok(Map2::<T, F>::KERNEL))
}

/// A function of integers in which signed and unsigned give the same bits.
pub(super) fn bitwise<F>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<2>>
where
    F: Fn2<u8> + Fn2<u16> + Fn2<u32> + Fn2<u64> + 'static,
{
    if !(dtype.is_int() || dtype.is_uint()) {
        return Err(Error::dtype(name, dtype, "an integer dtype"));
    }
    dispatch!(bits name, dtype, T => Ok(Map2::<T, F>::KERNEL))
}

/// A function of floats and of each integer type.
fn ordered<F>(name: &'static str, dtype: DType) -> Result<&'static dyn Kernel<2>>
where
    F: Fn2<f32, Out = f32> + Fn2<f64, Out = f64> + BinaryFn<f32> + Default + 'static,
    F: Fn2<i8> + Fn2<i16> + Fn2<i32> + Fn2<i64> + Fn2<u8> + Fn2<u16> + Fn2<u32> + Fn2<u64>,
{
    if dtype.is_float() {
        return float::<Plain<F>>(name, dtype);
    }
    integer::<F>(name, dtype, "a float or integer dtype")
}

/// A function of each integer type.
fn integer<F>(name: &'static str, dtype: DType, expected: &'static str) -> Result<&'static dyn Kernel<2>>
where
    F: Fn2<i8> + Fn2<i16> + Fn2<i32> + Fn2<i64> + Fn2<u8> + Fn2<u16> + Fn2<u32> + Fn2<u64> + 'static,
{
    if !(dtype.is_int() || dtype.is_uint()) {
        return Err(Error::dtype(name, dtype, expected));
    }
    dispatch!(int name, dtype, T => Ok(Map2::<T, F>::KERNEL))
}

plain_fn! {
    Add<Number>: |a, b| a.add(b);
    Sub<Number>: |a, b| a.sub(b);
    Mul<Number>: |a, b| a.mul(b);
    Div<Number>: |a, b| a.div(b);
    Max<Number>: |a, b| a.max(b);
    Min<Number>: |a, b| a.min(b);
    // Burn masks the gradient where the output is not above zero, so NaN outputs let it pass.
    ReluGrad<Number>: |output, grad| output.if_at_most(T::zero(), T::zero(), grad);
    SigmoidGrad<Number>: |output, grad| output.mul(T::one().sub(output)).mul(grad);
    // Not a maximum: NaN stays.
    Prelu<Number>: |x, slope| x.if_less(T::zero(), x.mul(slope), x);
}

plain_fn! {
    Square<Number>: |a| a.mul(a);
    Cube<Number>: |a| a.mul(a).mul(a);
}

/// Functions of two integers as kernels.
macro_rules! integer_fn {
    ($($bound:ident $name:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        pub(super) struct $name;
        impl<T: $bound> Fn2<T> for $name {
            type Out = T;
            const IS_LIGHT: bool = false;
            #[inline(always)]
            fn at($a: T, $b: T) -> T {
                $value
            }
        }
    )*};
}

// Slower than memory, or rare.
integer_fn! {
    Integer Rem: |a, b| a.rem(b);
    Integer Pow: |a, b| a.pow(b);
    Integer Shl: |a, b| a.shl(b);
    Integer Shr: |a, b| a.shr(b);
    Bits BitAnd: |a, b| a & b;
    Bits BitOr: |a, b| a | b;
    Bits BitXor: |a, b| a ^ b;
}

pub(super) trait Bits:
    Element
    + core::ops::BitAnd<Output = Self>
    + core::ops::BitOr<Output = Self>
    + core::ops::BitXor<Output = Self>
{
}
impl<T> Bits for T where
    T: Element
        + core::ops::BitAnd<Output = Self>
        + core::ops::BitOr<Output = Self>
        + core::ops::BitXor<Output = Self>
{
}

/// `(x, grad) -> grad * sigmoid(-x)`.
#[derive(Clone, Copy, Default)]
struct LogSigmoidGrad;
impl<T: MathFloat> BinaryFn<T> for LogSigmoidGrad {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>, grad: Vector<S, T>) -> Vector<S, T> {
        flex_math::Sigmoid.eval(x * (-T::one()).splat()) * grad
    }
}
