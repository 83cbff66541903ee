//! Functions of one element: their table.
//!
//! A new function is one row of [`unary_table`]. The row names the kernels: [`light1`] or [`heavy1`] of a
//! function of flex-math, of `functions.rs` or of `integer.rs`.

use super::driver::{Cost, Input, Op, run};
use super::element::{integers1, wrapping1};
use super::float::{heavy1, light1, selecting1, signs1};
use super::functions::{Abs, Ceil, Floor, Neg, Relu, Round, Sign, Trunc};
use super::integer::BitNot;
use super::kernel::Kernels;
use super::light::LightFn;
use crate::error::Result;
use crate::{DType, Tensor};
use flex_math as m;

/// The name, the kernels and the costs of an operation.
struct UnaryDefinition {
    /// The operation's name in errors.
    name: &'static str,
    kernels: Kernels<1>,
    /// The cost per element.
    cost: Cost,
    /// The cost per element of f64.
    cost_f64: Cost,
    /// The function, if it is light.
    light: Option<LightFn>,
}

/// The operations. A row has the variant, the name in errors, the kernels, the cost per element (and per
/// element of f64 if it differs), the name of a function that is light, and the function in f64 that the
/// tests compare with.
macro_rules! unary_table {
    ($($(#[$doc:meta])* $op:ident = $name:literal, $kernels:expr, $cost:expr $(, f64 $cost_f64:expr)? $(, light $light:ident)? => $reference:expr;)*) => {
        /// One-operand operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Unary {
            $($(#[$doc])* $op,)*
        }

        impl Unary {
            // Inlined, so that a program links only the kernels of the operations that it names.
            #[inline(always)]
            fn definition(self) -> &'static UnaryDefinition {
                match self {
                    $(Self::$op => {
                        static DEFINITION: UnaryDefinition = UnaryDefinition {
                            name: $name,
                            kernels: $kernels,
                            cost: $cost,
                            cost_f64: unary_table!(@first $($cost_f64,)? $cost),
                            light: unary_table!(@first $(Some(LightFn::$light),)? None),
                        };
                        &DEFINITION
                    })*
                }
            }

            /// Every operation.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$op),*];

            /// The function in f64.
            #[cfg(test)]
            pub(super) fn reference(self) -> fn(f64) -> f64 {
                match self {
                    $(Self::$op => $reference,)*
                }
            }
        }
    };
    (@first $first:expr $(, $rest:expr)?) => {
        $first
    };
}

/// No processor fully pipelines division and square roots of f64: a root takes 1.04 ns on Zen 4 (of f32: 0.19
/// ns, and 0.26 on a Xeon).
const DIVIDER: Cost = Cost::Flops(64);

unary_table! {
    /// Absolute value; wraps for the smallest integer.
    Abs = "abs", Kernels::numbers(signs1::<Abs>(), integers1::<Abs>()), Cost::Memory, light Abs => |x| x.abs();
    /// Negation; wraps for integers.
    Neg = "neg", Kernels::numbers(signs1::<Neg>(), wrapping1::<Neg>()), Cost::Memory, light Neg => |x| -x;
    /// -1, 0 or 1; 0 for NaN.
    Sign = "sign", Kernels::numbers(light1::<Sign>(), integers1::<Sign>()), Cost::Memory => |x| (x > 0.0) as i8 as f64 - (x < 0.0) as i8 as f64;
    /// `1 / x`.
    Recip = "recip", Kernels::floats(light1::<m::Recip>()), Cost::Memory, f64 DIVIDER, light Recip => |x| 1.0 / x;
    /// Square root.
    Sqrt = "sqrt", Kernels::floats(light1::<m::Sqrt>()), Cost::Flops(16), f64 DIVIDER, light Sqrt => libm::sqrt;
    /// `e^x`.
    Exp = "exp", Kernels::floats(heavy1::<m::Exp>()), Cost::MATH => libm::exp;
    /// Natural logarithm.
    Ln = "log", Kernels::floats(heavy1::<m::Ln>()), Cost::Flops(22) => libm::log;
    /// `ln(1 + x)`, accurate near zero.
    Log1p = "log1p", Kernels::floats(heavy1::<m::Log1p>()), Cost::Flops(22) => libm::log1p;
    /// Sine.
    Sin = "sin", Kernels::floats(heavy1::<m::Sin>()), Cost::MATH => libm::sin;
    /// Cosine.
    Cos = "cos", Kernels::floats(heavy1::<m::Cos>()), Cost::MATH => libm::cos;
    /// Tangent.
    Tan = "tan", Kernels::floats(heavy1::<m::Tan>()), Cost::MATH => libm::tan;
    /// Hyperbolic sine.
    Sinh = "sinh", Kernels::floats(heavy1::<m::Sinh>()), Cost::MATH => libm::sinh;
    /// Hyperbolic cosine.
    Cosh = "cosh", Kernels::floats(heavy1::<m::Cosh>()), Cost::MATH => libm::cosh;
    /// Hyperbolic tangent.
    Tanh = "tanh", Kernels::floats(heavy1::<m::Tanh>()), Cost::MATH => libm::tanh;
    /// Inverse sine.
    Asin = "asin", Kernels::floats(heavy1::<m::Asin>()), Cost::MATH => libm::asin;
    /// Inverse cosine.
    Acos = "acos", Kernels::floats(heavy1::<m::Acos>()), Cost::MATH => libm::acos;
    /// Inverse tangent.
    Atan = "atan", Kernels::floats(heavy1::<m::Atan>()), Cost::MATH => libm::atan;
    /// Inverse hyperbolic sine.
    Asinh = "asinh", Kernels::floats(heavy1::<m::Asinh>()), Cost::MATH => libm::asinh;
    /// Inverse hyperbolic cosine.
    Acosh = "acosh", Kernels::floats(heavy1::<m::Acosh>()), Cost::MATH => libm::acosh;
    /// Inverse hyperbolic tangent.
    Atanh = "atanh", Kernels::floats(heavy1::<m::Atanh>()), Cost::MATH => libm::atanh;
    /// Error function.
    Erf = "erf", Kernels::floats(heavy1::<m::Erf>()), Cost::Flops(30) => libm::erf;
    /// Largest integer not above `x`.
    Floor = "floor", Kernels::floats(light1::<Floor>()), Cost::Memory => libm::floor;
    /// Smallest integer not below `x`.
    Ceil = "ceil", Kernels::floats(light1::<Ceil>()), Cost::Memory => libm::ceil;
    /// Integer part, towards zero.
    Trunc = "trunc", Kernels::floats(light1::<Trunc>()), Cost::Memory => libm::trunc;
    /// Nearest integer, ties to even.
    Round = "round", Kernels::floats(light1::<Round>()), Cost::Memory => libm::rint;
    /// `max(x, 0)`; NaN stays.
    Relu = "relu", Kernels::floats(selecting1::<Relu>()), Cost::Memory, light Relu => |x| if x < 0.0 { 0.0 } else { x };
    /// `1 / (1 + e^-x)`.
    Sigmoid = "sigmoid", Kernels::floats(heavy1::<m::Sigmoid>()), Cost::Flops(22) => |x| 1.0 / (1.0 + libm::exp(-x));
    /// `ln(sigmoid(x))`, without overflow.
    LogSigmoid = "log_sigmoid", Kernels::floats(heavy1::<m::LogSigmoid>()), Cost::Flops(30) => |x| if x < 0.0 { x - libm::log1p(libm::exp(x)) } else { -libm::log1p(libm::exp(-x)) };
    /// `x/2 * (1 + erf(x / sqrt 2))`.
    Gelu = "gelu", Kernels::floats(heavy1::<m::Gelu>()), Cost::Flops(64) => |x| 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
    /// Every bit flipped; integers only.
    BitNot = "bitwise_not", Kernels::integers(wrapping1::<BitNot>()), Cost::Memory => |_| unreachable!("integers only");
}

/// Applies `op` to each element.
///
/// `Abs`, `Neg` and `Sign` take floats and integers (which wrap: `-MIN` is `MIN`), `BitNot` takes integers,
/// the others take floats. `Round` rounds ties to even. `Sign` of NaN is 0, as in PyTorch; all others
/// propagate NaN. The output has the dtype and the shape of the input; a dense input keeps its order in
/// memory.
///
/// # Errors
/// A dtype that `op` does not take.
#[inline(always)]
pub fn unary(op: Unary, tensor: Tensor) -> Result<Tensor> {
    if op == Unary::Abs && tensor.dtype().is_uint() {
        return Ok(tensor);
    }
    apply(op.definition(), tensor)
}

fn apply(op: &'static UnaryDefinition, tensor: Tensor) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let kernel = op.kernels.get(op.name, dtype)?;
    let cost = if dtype == DType::F64 { op.cost_f64 } else { op.cost };
    run(Op { name: op.name, kernel, dtype, cost, reuse: [true], light: op.light }, [Input::Tensor(tensor)])
}
