//! sin, cos, tan.

use crate::simd::*;
use crate::slice::{lanes, lanes_mut};
use crate::{Float, UnaryFn};

/// Constants of the trigonometric functions.
pub trait TrigConsts: Scalar {}
impl TrigConsts for f32 {}
impl TrigConsts for f64 {}

/// One lane at a time.
#[inline(always)]
pub(crate) fn per_lane<S: Simd, T: Float>(mut x: Vector<S, T>, f: impl Fn(T) -> T) -> Vector<S, T> {
    for i in 0..T::lanes::<S>() {
        let y = f(lanes(&x)[i]);
        lanes_mut(&mut x)[i] = y;
    }
    x
}
macro_rules! stub {
    ($($(#[$m:meta])* $name:ident $f:ident)*) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl<T: Float> UnaryFn<T> for $name {
            #[inline(always)]
            fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
                per_lane(x, num_traits::Float::$f)
            }
        }
    )*}
}
pub(crate) use stub;
stub! {
    /// sin
    Sin sin
    /// cos
    Cos cos
    /// tan
    Tan tan
}
