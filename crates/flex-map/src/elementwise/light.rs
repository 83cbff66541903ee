//! Light functions by name: functions of f32 that take a few instructions. A chain of operations applies them
//! to values in vector registers.

#[cfg(feature = "std")]
use super::float::FloatFn3;
#[cfg(feature = "std")]
use super::functions::{
    Abs, Add, Clamp, Div, HardSigmoid, Max, Min, Mul, Neg, Prelu, Relu, ReluGrad, Square, Sub,
};
#[cfg(feature = "std")]
use flex_math::simd::{Simd, Vector};
#[cfg(feature = "std")]
use flex_math::{BinaryFn, Recip, Sqrt, UnaryFn};

/// A light function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LightFn {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    ReluGrad,
    Prelu,
    Abs,
    Neg,
    Recip,
    Sqrt,
    Relu,
    Square,
    /// The bounds are constants.
    Clamp,
    /// The factor and the addend are constants.
    HardSigmoid,
}

#[cfg(feature = "std")]
impl LightFn {
    /// Replaces vector `n` of `a` by the function of this vector, of `b(n)`, and of `c`. Functions of one or
    /// two operands ignore the others. The result has the bits that the function's kernel computes.
    #[inline(always)]
    pub(super) fn eval<S: Simd, const N: usize>(
        self,
        a: &mut [Vector<S, f32>; N],
        b: impl Fn(usize) -> Vector<S, f32>,
        c: Vector<S, f32>,
    ) {
        macro_rules! each {
            (|$n:ident| $value:expr) => {
                for $n in 0..N {
                    a[$n] = $value;
                }
            };
        }
        match self {
            Self::Add => each!(|n| BinaryFn::eval(Add, a[n], b(n))),
            Self::Sub => each!(|n| BinaryFn::eval(Sub, a[n], b(n))),
            Self::Mul => each!(|n| BinaryFn::eval(Mul, a[n], b(n))),
            Self::Div => each!(|n| BinaryFn::eval(Div, a[n], b(n))),
            Self::Max => each!(|n| BinaryFn::eval(Max, a[n], b(n))),
            Self::Min => each!(|n| BinaryFn::eval(Min, a[n], b(n))),
            Self::ReluGrad => each!(|n| BinaryFn::eval(ReluGrad, a[n], b(n))),
            Self::Prelu => each!(|n| BinaryFn::eval(Prelu, a[n], b(n))),
            Self::Abs => each!(|n| UnaryFn::eval(Abs, a[n])),
            Self::Neg => each!(|n| UnaryFn::eval(Neg, a[n])),
            Self::Recip => each!(|n| UnaryFn::eval(Recip, a[n])),
            Self::Sqrt => each!(|n| UnaryFn::eval(Sqrt, a[n])),
            Self::Relu => each!(|n| UnaryFn::eval(Relu, a[n])),
            Self::Square => each!(|n| UnaryFn::eval(Square, a[n])),
            Self::Clamp => each!(|n| FloatFn3::eval(Clamp, a[n], b(n), c)),
            Self::HardSigmoid => each!(|n| FloatFn3::eval(HardSigmoid, a[n], b(n), c)),
        }
    }
}
