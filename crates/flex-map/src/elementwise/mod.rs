//! Elementwise operations: unary, binary, comparison, logic, mask, cast and activation.
//!
//! An operation picks a kernel by dtype (`kernel.rs`) and passes it to the one driver (`driver.rs`), which
//! decides where the output is written and cuts the operands into runs (`runs.rs`). Kernels are made of
//! functions of whole vectors of floats (`float.rs`) or of single elements (`element.rs`). A new function is
//! one expression in `functions.rs`, and one row of the table in `unary.rs` or `binary.rs`.
//!
//! Operands broadcast together. The output takes over the buffer of an operand of the output's shape that
//! nothing else shares. A dense operand's order of axes is kept, so a transposed tensor costs as much as a
//! contiguous one. Results do not depend on layouts or on the number of threads.

mod activation;
mod binary;
mod cast;
mod compare;
#[cfg(feature = "std")]
pub mod deferred;
mod driver;
mod element;
mod float;
mod full;
mod functions;
mod integer;
mod kernel;
mod light;
mod mask;
mod number;
mod remainder;
mod runs;
mod unary;

#[cfg(test)]
mod tests;

pub use activation::{clamp, hard_sigmoid, leaky_relu, prelu};
pub use binary::{Binary, binary, binary_scalar, scalar_binary};
pub use cast::cast;
pub use compare::{compare, compare_scalar, is_inf, is_nan, logical, logical_not};
pub use full::full;
pub use mask::{mask_fill, mask_where};
pub use unary::{Unary, unary};

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
