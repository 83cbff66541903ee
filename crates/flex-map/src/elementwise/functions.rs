//! Functions of numbers that the tables of operations name, each of one expression.

use super::element::{Constants, Fn1, Fn2, Fn3};
use super::float::FloatFn3;
use super::number::{Arithmetic, Selection};
use crate::Element;
use flex_math::simd::{Levels, Simd, Vector};
use flex_math::{BinaryFn, Float, UnaryFn};

/// Functions of numbers: over vectors of floats, and over single integers or halves.
///
/// `Arithmetic` functions take whatever has arithmetic; `Selection` functions only choose among numbers or
/// change signs, so they take halves by their bits.
macro_rules! number_fn {
    ($($(#[$doc:meta])* $name:ident<$bound:ident> $(with $constants:ident)?: |$($x:ident),+| $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;

        impl $name {
            #[inline(always)]
            fn of<T: $bound>($($x: T),+) -> T {
                $value
            }
        }

        number_fn!(@impls $bound [$($constants)?] $name $($x)+);
    )*};
    (@impls $bound:ident [] $name:ident $a:ident) => {
        impl<T: $bound + Element> Fn1<T> for $name {
            type Out = T;
            #[inline(always)]
            fn at($a: T) -> T {
                Self::of($a)
            }
        }
        number_fn!(@vectors UnaryFn [] $name $a);
    };
    (@impls $bound:ident [$($constants:ident)?] $name:ident $a:ident $b:ident) => {
        impl<T: $bound + Element> Fn2<T> for $name {
            type Out = T;
            /// Products, maxima and minima of integers of 64 bits are single instructions of AVX-512 alone.
            const LEVELS: Levels = if size_of::<T>() == 8 { Levels::All } else { Levels::Lean };
            $(const CONSTANTS: Constants = Constants::$constants;)?
            #[inline(always)]
            fn at($a: T, $b: T) -> T {
                Self::of($a, $b)
            }
        }
        number_fn!(@vectors BinaryFn [$($constants)?] $name $a $b);
    };
    (@impls $bound:ident [] $name:ident $a:ident $b:ident $c:ident) => {
        impl<T: $bound + Element> Fn3<T> for $name {
            type Out = T;
            /// Halves take a dozen operations on bits: clamping 65,536 of them takes 5 us with AVX-512, and
            /// 6.7 with AVX2 (one thread of Zen 5).
            const LEVELS: Levels = if T::IS_FLOAT { Levels::All } else { Levels::Lean };
            const FIXED: [bool; 3] = [false, true, true];
            #[inline(always)]
            fn at($a: T, $b: T, $c: T) -> T {
                Self::of($a, $b, $c)
            }
        }
        impl FloatFn3 for $name {
            #[inline(always)]
            fn eval<S: Simd, T: Float>(
                self,
                $a: Vector<S, T>,
                $b: Vector<S, T>,
                $c: Vector<S, T>,
            ) -> Vector<S, T> {
                Self::of($a, $b, $c)
            }
        }
    };
    (@vectors $math:ident [$($constants:ident)?] $name:ident $($x:ident)+) => {
        impl<T: Float> flex_math::$math<T> for $name {
            const IS_LIGHT: bool = true;
            $(const COMMUTES: bool = matches!(Constants::$constants, Constants::Commuting);)?
            #[inline(always)]
            fn eval<S: Simd>(self, $($x: Vector<S, T>),+) -> Vector<S, T> {
                Self::of($($x),+)
            }
        }
    };
}

number_fn! {
    Abs<Selection>: |a| a.abs();
    Neg<Selection>: |a| a.neg();
    Sign<Arithmetic>: |a| a.sign();
    Relu<Selection>: |a| a.at_least(T::zero());
}

number_fn! {
    Add<Arithmetic> with Commuting: |a, b| a.add(b);
    Sub<Arithmetic> with Right: |a, b| a.sub(b);
    Mul<Arithmetic> with Commuting: |a, b| a.mul(b);
    Div<Arithmetic>: |a, b| a.div(b);
    Max<Arithmetic>: |a, b| a.max(b);
    Min<Arithmetic>: |a, b| a.min(b);
    /// Burn zeroes the gradient where the output is at most zero, so a gradient passes where the output is
    /// NaN.
    ReluGrad<Selection>: |output, grad| output.if_at_most(T::zero(), T::zero(), grad);
    /// The gradient of sigmoid, from its output.
    SigmoidGrad<Arithmetic>: |output, grad| output.mul(T::one().sub(output)).mul(grad);
}

number_fn! {
    Square<Arithmetic>: |a| a.mul(a);
    Cube<Arithmetic>: |a| a.mul(a).mul(a);
}

number_fn! {
    Clamp<Selection>: |x, low, high| x.at_least(low).no_more_than(high);
    /// `alpha * x + beta`, clamped between 0 and 1.
    HardSigmoid<Arithmetic>: |x, alpha, beta| Clamp::of(x.mul(alpha).add(beta), T::zero(), T::one());
}

number_fn! {
    /// Not a maximum, so that NaN stays.
    Prelu<Arithmetic>: |x, slope| x.if_less(T::zero(), x.mul(slope), x);
}

/// `(x, grad) -> grad * sigmoid(-x)`.
#[derive(Clone, Copy, Default)]
pub(super) struct LogSigmoidGrad;
impl<T: Float> BinaryFn<T> for LogSigmoidGrad {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>, grad: Vector<S, T>) -> Vector<S, T> {
        UnaryFn::eval(flex_math::Sigmoid, x * (-T::one()).splat()) * grad
    }
}

/// Rounding as a vector function: one instruction, which plain loops compile to only with `std`.
macro_rules! rounding {
    ($($name:ident: |$x:ident| $value:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;
        impl<T: Float> UnaryFn<T> for $name {
            const IS_LIGHT: bool = true;
            #[inline(always)]
            fn eval<S: Simd>(self, $x: Vector<S, T>) -> Vector<S, T> {
                $value
            }
        }
    )*};
}

rounding! {
    Floor: |x| x.floor();
    // Computed by floor, with the sign of zero kept: -0.5 rounds up to -0.
    Ceil: |x| negate(negate(x).floor());
    Trunc: |x| x.trunc();
    Round: |x| x.round_ties_even();
}

#[inline(always)]
fn negate<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    // A product, since 0 - x turns 0 into 0 instead of -0.
    x * (-T::one()).splat()
}
