//! Functions of two elements: their table.
//!
//! A new function is one row of [`binary_table`]. The row names the kernels: [`light2`] or [`heavy2`] of a
//! function of flex-math or of `functions.rs`, and [`integers2`] or [`wrapping2`] if the operation takes
//! integers.

use super::Compare;
use super::activation::clamp;
use super::cast::cast;
use super::compare::compare_scalar;
use super::driver::{Cost, Input, Op, number, run};
use super::element::{integers2, wrapping2};
use super::float::{heavy2, light1, light2};
use super::functions::{Add, Cube, Div, LogSigmoidGrad, Max, Min, Mul, ReluGrad, SigmoidGrad, Square, Sub};
use super::integer::{BitAnd, BitOr, BitXor, IntPow, IntRem, Quotient, Shl, Shr};
use super::kernel::Kernels;
use super::light::LightFn;
use super::remainder::REMAINDER;
use super::unary::{Unary, unary};
use crate::error::{Result, check_same_dtype};
use crate::{BoolStore, DType, Scalar, Tensor};

/// The name, the kernels and the costs of an operation.
struct BinaryDefinition {
    /// The operation's name in errors.
    name: &'static str,
    kernels: Kernels<2>,
    /// The cost per float.
    cost: Cost,
    /// The cost per integer.
    integer_cost: Cost,
    /// The function, if it is light.
    light: Option<LightFn>,
}

/// The operations. A row has the variant, the name in errors, the kernels, the cost per element (and per
/// integer if it differs), and the name of a function that is light.
macro_rules! binary_table {
    ($($(#[$doc:meta])* $op:ident = $name:literal, $kernels:expr, $cost:expr $(, integers $integer_cost:expr)? $(, light $light:ident)?;)*) => {
        /// Two-operand operations. See [`binary()`] for the results in edge cases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Binary {
            $($(#[$doc])* $op,)*
        }

        impl Binary {
            // Inlined, so that a program links only the kernels of the operations that it names.
            #[inline(always)]
            fn definition(self) -> &'static BinaryDefinition {
                match self {
                    $(Self::$op => {
                        static DEFINITION: BinaryDefinition = BinaryDefinition {
                            name: $name,
                            kernels: $kernels,
                            cost: $cost,
                            integer_cost: binary_table!(@first $($integer_cost,)? $cost),
                            light: binary_table!(@first $(Some(LightFn::$light),)? None),
                        };
                        &DEFINITION
                    })*
                }
            }
        }
    };
    (@first $first:expr $(, $rest:expr)?) => {
        $first
    };
}

binary_table! {
    /// Sum.
    Add = "add", Kernels::numbers(light2::<Add>(), wrapping2::<Add>()), Cost::Memory, light Add;
    /// Difference.
    Sub = "sub", Kernels::numbers(light2::<Sub>(), wrapping2::<Sub>()), Cost::Memory, light Sub;
    /// Product.
    Mul = "mul", Kernels::numbers(light2::<Mul>(), wrapping2::<Mul>()), Cost::Memory, light Mul;
    /// Quotient, truncated for integers.
    Div = "div", Kernels::numbers(light2::<Div>(), integers2::<Quotient>()), Cost::Memory, integers Cost::SCALAR, light Div;
    /// Remainder, with the sign of the divisor as in Python.
    Rem = "remainder", Kernels::numbers(REMAINDER, integers2::<IntRem>()), Cost::SCALAR;
    /// `lhs` to the power `rhs`.
    Pow = "pow", Kernels::numbers(heavy2::<flex_math::Pow>(), integers2::<IntPow>()), Cost::Flops(110), integers Cost::MATH;
    /// Angle of the point `(rhs, lhs)`: the operands are y, x.
    Atan2 = "atan2", Kernels::floats(heavy2::<flex_math::Atan2>()), Cost::MATH;
    /// Length of the vector `(lhs, rhs)`.
    Hypot = "hypot", Kernels::floats(heavy2::<flex_math::Hypot>()), Cost::MATH;
    /// The larger one; NaN if either is NaN.
    Max = "max_pair", Kernels::numbers(light2::<Max>(), integers2::<Max>()), Cost::Memory, light Max;
    /// The smaller one; NaN if either is NaN.
    Min = "min_pair", Kernels::numbers(light2::<Min>(), integers2::<Min>()), Cost::Memory, light Min;
    /// Bitwise and.
    BitAnd = "bitwise_and", Kernels::integers(wrapping2::<BitAnd>()), Cost::Memory;
    /// Bitwise or.
    BitOr = "bitwise_or", Kernels::integers(wrapping2::<BitOr>()), Cost::Memory;
    /// Bitwise exclusive or.
    BitXor = "bitwise_xor", Kernels::integers(wrapping2::<BitXor>()), Cost::Memory;
    /// Left shift.
    Shl = "bitwise_left_shift", Kernels::integers(wrapping2::<Shl>()), Cost::Memory;
    /// Right shift; arithmetic for signed integers.
    Shr = "bitwise_right_shift", Kernels::integers(integers2::<Shr>()), Cost::Memory;
    /// `(output of relu, gradient)`: the gradient where the output is above zero.
    ReluGrad = "relu_backward", Kernels::floats(light2::<ReluGrad>()), Cost::Memory, light ReluGrad;
    /// `(output of sigmoid, gradient)`: `output * (1 - output) * gradient`.
    SigmoidGrad = "sigmoid_backward", Kernels::floats(light2::<SigmoidGrad>()), Cost::Memory;
    /// `(input of gelu, gradient)`: the exact derivative times the gradient.
    GeluGrad = "gelu_backward", Kernels::floats(heavy2::<flex_math::GeluGrad>()), Cost::Flops(48);
    /// `(input of log_sigmoid, gradient)`: `sigmoid(-x) * gradient`.
    LogSigmoidGrad = "log_sigmoid_backward", Kernels::floats(heavy2::<LogSigmoidGrad>()), Cost::MATH;
}

/// Applies `op` to each pair of elements of two tensors of one dtype, which broadcast together.
///
/// `Add`, `Sub`, `Mul`, `Div`, `Rem`, `Pow`, `Max` and `Min` take floats and integers; bitwise operations
/// take integers; `Atan2`, `Hypot` and the gradients take floats. Every result is defined:
///
/// * Integers wrap. `x / 0` and `x % 0` are 0, `MIN / -1` is `MIN`. `Div` of integers truncates.
/// * `Rem` has the sign of the divisor.
/// * `Pow` of integers is exact and wraps; a negative exponent gives 0, except for bases 1 and -1.
/// * `Shl` and `Shr` by a negative count, or by at least the width, give 0; `Shr` of a negative number gives
///   -1.
/// * `Max` and `Min` are NaN if either operand is NaN.
///
/// # Errors
/// Different dtypes, a dtype that `op` does not take, or shapes that do not broadcast.
#[inline(always)]
pub fn binary(op: Binary, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    binary_by(op.definition(), lhs, rhs)
}

fn binary_by(op: &'static BinaryDefinition, lhs: Tensor, rhs: Tensor) -> Result<Tensor> {
    check_same_dtype(op.name, lhs.dtype(), rhs.dtype())?;
    run_op(op, lhs.dtype(), [Input::Tensor(lhs), Input::Tensor(rhs)])
}

/// [`binary`] with a number on the right. For half precision, the number is kept in f32, in which the
/// operation computes. An integer that the tensor's dtype cannot hold keeps its value if the 64-bit dtype of
/// the same signedness can: only the result wraps.
///
/// # Errors
/// A dtype that `op` does not take.
#[inline(always)]
pub fn binary_scalar(op: Binary, lhs: Tensor, rhs: Scalar) -> Result<Tensor> {
    match op {
        Binary::Pow => power(lhs, rhs),
        Binary::Div | Binary::Rem | Binary::Max | Binary::Min | Binary::Shl | Binary::Shr
            if !holds(lhs.dtype(), rhs) =>
        {
            binary_large(op, lhs, rhs)
        }
        _ => binary_scalar_by(op.definition(), lhs, rhs),
    }
}

/// Whether an integer dtype has the number. Other dtypes and numbers count as if they did.
#[inline]
fn holds(dtype: DType, number: Scalar) -> bool {
    let number: i128 = match number {
        Scalar::Int(number) => number.into(),
        Scalar::UInt(number) => number.into(),
        Scalar::Float(_) | Scalar::Bool(_) => return true,
    };
    dtype.integer_range().is_none_or(|range| range.contains(&number))
}

/// [`binary_scalar`] with an integer that the tensor's dtype does not hold, for operations whose results
/// depend on more than its lowest bits: `x % 256` is `x` for each `x` of 8 bits, and not `x % 0`.
#[cold]
fn binary_large(op: Binary, lhs: Tensor, rhs: Scalar) -> Result<Tensor> {
    let (dtype, definition) = (lhs.dtype(), op.definition());
    let bits = 8 * dtype.size() as u64;
    match op {
        // All bits are shifted out.
        Binary::Shl | Binary::Shr => binary_scalar_by(definition, lhs, Scalar::UInt(bits)),
        Binary::Max => clamp(lhs, Some(rhs), None).map_err(|error| error.named(definition.name)),
        Binary::Min => clamp(lhs, None, Some(rhs)).map_err(|error| error.named(definition.name)),
        _ if bits == 64 => binary_scalar_by(definition, lhs, rhs),
        _ => {
            let wide = if dtype.is_uint() { DType::U64 } else { DType::I64 };
            cast(binary_scalar_by(definition, cast(lhs, wide)?, rhs)?, dtype)
        }
    }
}

fn binary_scalar_by(op: &'static BinaryDefinition, lhs: Tensor, rhs: Scalar) -> Result<Tensor> {
    let dtype = lhs.dtype();
    let rhs = number(op.name, dtype, rhs)?;
    run_op(op, dtype, [Input::Tensor(lhs), Input::Scalar(rhs)])
}

/// [`binary`] with a number on the left; see [`binary_scalar`].
///
/// # Errors
/// A dtype that `op` does not take.
#[inline(always)]
pub fn scalar_binary(op: Binary, lhs: Scalar, rhs: Tensor) -> Result<Tensor> {
    scalar_binary_by(op.definition(), lhs, rhs)
}

fn scalar_binary_by(op: &'static BinaryDefinition, lhs: Scalar, rhs: Tensor) -> Result<Tensor> {
    let dtype = rhs.dtype();
    let lhs = number(op.name, dtype, lhs)?;
    run_op(op, dtype, [Input::Scalar(lhs), Input::Tensor(rhs)])
}

// Always inlined: a call would move both inputs once more, 8 of 170 ns of a product with a number.
#[inline(always)]
fn run_op(op: &'static BinaryDefinition, dtype: DType, inputs: [Input; 2]) -> Result<Tensor> {
    let kernel = op.kernels.get(op.name, dtype)?;
    let cost = if dtype.is_float() { op.cost } else { op.integer_cost };
    run(Op { name: op.name, kernel, dtype, cost, reuse: [true; 2], light: op.light }, inputs)
}

/// Powers with one exponent; of floats to -1, 1, 2 and 3 by arithmetic.
fn power(base: Tensor, exponent: Scalar) -> Result<Tensor> {
    static SQUARE: Kernels<1> = Kernels::floats(light1::<Square>());
    static CUBE: Kernels<1> = Kernels::floats(light1::<Cube>());
    let (op, dtype) = (Binary::Pow.definition(), base.dtype());
    if !dtype.is_float() {
        if let Scalar::Int(..0) = exponent
            && dtype.is_uint()
        {
            // The reciprocal, truncated: 1 for 1, 0 for all others.
            let is_one = compare_scalar(Compare::Eq, base, Scalar::Int(1), BoolStore::Native)?;
            return cast(is_one, dtype);
        }
        return binary_scalar_by(op, base, representable_exponent(exponent, dtype));
    }
    let (kernels, light) = match exponent.to_f64() {
        1.0 => return Ok(base),
        -1.0 => return unary(Unary::Recip, base),
        2.0 => (&SQUARE, Some(LightFn::Square)),
        3.0 => (&CUBE, None),
        _ => return binary_scalar_by(op, base, exponent),
    };
    let kernel = kernels.get(op.name, dtype)?;
    let op = Op { name: op.name, kernel, dtype, cost: Cost::Memory, reuse: [true], light };
    run(op, [Input::Tensor(base)])
}

/// An exponent that an integer dtype can hold and that gives the same powers.
///
/// Modulo `2^bits`, powers of odd numbers repeat with a period that divides `2^(bits-2)`, and powers of even
/// numbers are zero from the exponent `bits` on. Only the parity of a negative exponent matters.
fn representable_exponent(exponent: Scalar, dtype: DType) -> Scalar {
    let (period, signed) = (1u64 << (8 * dtype.size() - 2), dtype.is_int());
    match exponent {
        Scalar::Int(e) if e < 0 && signed => Scalar::Int(-1 - (e % 2 == 0) as i64),
        Scalar::Int(e) if e >= 0 => representable_exponent(Scalar::UInt(e as u64), dtype),
        Scalar::UInt(e) if e >= 2 * period => Scalar::UInt(period + e % period),
        other => other,
    }
}
