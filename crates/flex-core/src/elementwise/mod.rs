//! Elementwise operations: unary, binary, comparison, logic, mask, cast and activation.
//!
//! An operation names a kernel (what happens to elements, `kernel.rs`, `float.rs` and
//! `half.rs`) and hands it to the one driver
//! (`driver.rs`), which decides where the output lies and cuts the operands into runs (`runs.rs`). So a new function
//! is one small type with one expression, plus its line in the table of its operation.
//!
//! What all operations share: operands broadcast together; the output takes over the buffer of an operand that
//! nobody else holds, if it has the output's shape; and a dense operand's order of axes in memory is kept, so that a
//! transposed tensor costs what a contiguous one does. Results do not depend on layouts or on the number of threads.

mod activation;
mod binary;
mod cast;
mod compare;
mod driver;
mod float;
mod half;
mod kernel;
mod mask;
mod number;
mod remainder;
mod runs;
mod unary;

#[cfg(test)]
mod tests;

pub use activation::{clamp, hard_sigmoid, leaky_relu, prelu};
pub use binary::{binary, binary_scalar, scalar_binary};
pub use cast::cast;
pub use compare::{compare, compare_scalar, is_inf, is_nan, logical, logical_not};
pub use mask::{mask_fill, mask_where};
pub use unary::unary;

/// One-operand operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Absolute value; wraps for the smallest integer.
    Abs,
    /// Negation; wraps for integers.
    Neg,
    /// -1, 0 or 1; 0 for NaN.
    Sign,
    /// `1 / x`.
    Recip,
    /// Square root.
    Sqrt,
    /// `e^x`.
    Exp,
    /// `e^x - 1`, accurate near zero.
    Expm1,
    /// Natural logarithm.
    Ln,
    /// `ln(1 + x)`, accurate near zero.
    Log1p,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Inverse sine.
    Asin,
    /// Inverse cosine.
    Acos,
    /// Inverse tangent.
    Atan,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
    /// Error function.
    Erf,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Integer part, towards zero.
    Trunc,
    /// Nearest integer, halves to even.
    Round,
    /// `max(x, 0)`; NaN stays.
    Relu,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `ln(sigmoid(x))`, without overflow.
    LogSigmoid,
    /// `x/2 * (1 + erf(x / sqrt 2))`.
    Gelu,
    /// `x * sigmoid(x)`.
    Silu,
    /// Every bit flipped; integers only.
    BitNot,
}

/// Two-operand operations. See [`binary()`] for the outcomes at the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient, truncated for integers.
    Div,
    /// Remainder, with the sign of the divisor as in Python.
    Rem,
    /// `lhs` to the power `rhs`.
    Pow,
    /// Angle of the point `(rhs, lhs)`: the operands are y, x.
    Atan2,
    /// The larger one, NaN when either is.
    Max,
    /// The smaller one, NaN when either is.
    Min,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// Left shift.
    Shl,
    /// Right shift; arithmetic for signed integers.
    Shr,
    /// `(output of relu, gradient)`: the gradient where the output is above zero.
    ReluGrad,
    /// `(output of sigmoid, gradient)`: `output * (1 - output) * gradient`.
    SigmoidGrad,
    /// `(input of gelu, gradient)`: the exact derivative times the gradient.
    GeluGrad,
    /// `(input of log_sigmoid, gradient)`: `sigmoid(-x) * gradient`.
    LogSigmoidGrad,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`.
    Eq,
    /// `!=`, true for NaN.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
}

/// Boolean connectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logical {
    /// Both.
    And,
    /// At least one.
    Or,
    /// Exactly one.
    Xor,
}
