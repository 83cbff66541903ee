//! Vectorised elementwise mathematics for `f32`, `f64`, `f16` and `bf16` slices.
//!
//! The crate has three layers. A call passes through them in this order:
//!
//! 1. a slice driver ([`map`], [`map2`], [`apply`], ... in `slice.rs`) takes slices, picks the instruction
//!    set once per call ([`simd::dispatch`]) and walks over whole vectors;
//! 2. a function object ([`Exp`], [`Tanh`], [`Pow`], ...) computes the function of one vector; it is a unit
//!    struct that implements [`UnaryFn`] or [`BinaryFn`] for both element types;
//! 3. the vector type is `macerator`'s, re-exported from [`simd`].
//!
//! ```
//! let mut data = [0.0f32, 1.0, f32::NEG_INFINITY];
//! flex_math::map_in_place(flex_math::Exp, &mut data);
//! assert_eq!(data, [1.0, core::f32::consts::E, 0.0]);
//! ```
//!
//! Every function states its error bound in units in the last place (ULP), and the tests check the bound.
//! Special values (NaN, signed zeros, infinities, subnormals) follow C's `math.h`. A result depends on the
//! element alone, never on its position in the slice. It may differ in the last bits between instruction
//! sets, because only some of them have a fused multiply-add.
#![no_std]
// Coefficients are written as the tools print them, with one digit more than needed.
#![allow(clippy::excessive_precision)]

// Here, since all crates of the engine use this one, and so its errors come first.
#[cfg(not(target_has_atomic = "ptr"))]
compile_error!(
    "Flex does not run on this target, which has no atomic exchange of pointers: tensors share their memory by \
     `alloc::sync::Arc`. The feature `critical-section` does not change that."
);

mod activation;
mod avx512;
pub mod dot;
mod erf;
mod exp;
mod float;
mod fold;
mod gauss;
pub mod half;
mod hyperbolic;
mod inverse;
mod log;
mod pieces;
mod pow;
mod root;
pub mod simd;
#[cfg(test)]
mod skipped;
mod slice;
mod trig;

pub use activation::{Gelu, GeluGrad, GeluTanh, LogSigmoid, Sigmoid, Silu, Softplus};
pub use erf::{Erf, Erfc};
pub use exp::{Exp, Exp2, ExpNonPositive, Expm1};
pub use float::Float;
pub use fold::{fold_halves, max, product, sum, sum_in, sum_with, sum_with_in};
pub use half::Half;
pub use hyperbolic::{Acosh, Asinh, Atanh, Cosh, Sinh, Tanh};
pub use inverse::{Acos, Asin, Atan, Atan2};
pub use log::{Ln, Log1p, Log2, Log10};
pub use pow::Pow;
pub use root::{Hypot, Recip, Sqrt};
pub use slice::{
    Operand, Row2, StoredFloat, apply, apply2, apply2_rows, eval_scalar, eval2_scalar, map, map_in_place,
    map2, map2_in_place,
};
pub use trig::{Cos, Sin, Tan};

use simd::{Simd, Vector};

/// A function of one number, evaluated on whole vectors.
///
/// Implementations mark `eval` `#[inline(always)]`: `eval` has to be compiled inside the dispatched driver,
/// where the instruction set is known.
pub trait UnaryFn<T: Float>: Copy + Send + Sync {
    /// Whether the function is a few instructions, beside which the instructions of a driver's loop count.
    /// Then an iteration computes four vectors: relu of 4,096 f32 took 5,514 instructions of AVX2 with one.
    const IS_LIGHT: bool = false;
    /// The function of each lane of `x`.
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T>;
}

/// A function of two numbers, evaluated on whole vectors. See [`UnaryFn`].
pub trait BinaryFn<T: Float>: Copy + Send + Sync {
    /// See [`UnaryFn::IS_LIGHT`].
    const IS_LIGHT: bool = false;
    /// Whether the operands may be swapped.
    const COMMUTES: bool = false;
    /// The function of each pair of lanes of `a` and `b`.
    fn eval<S: Simd>(self, a: Vector<S, T>, b: Vector<S, T>) -> Vector<S, T>;
}
