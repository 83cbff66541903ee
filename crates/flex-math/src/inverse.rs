//! asin, acos, atan, atan2.
use crate::simd::*;
use crate::slice::{lanes, lanes_mut};
use crate::trig::{per_lane, stub};
use crate::{BinaryFn, Float, UnaryFn};
/// Constants of the inverse trigonometric functions.
pub trait InverseConsts: Scalar {}
impl InverseConsts for f32 {}
impl InverseConsts for f64 {}
stub! {
    /// asin
    Asin asin
    /// acos
    Acos acos
    /// atan
    Atan atan
}
/// `atan2(y, x)`: the first operand is y.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atan2;
impl<T: Float> BinaryFn<T> for Atan2 {
    #[inline(always)]
    fn eval<S: Simd>(self, mut y: Vector<S, T>, x: Vector<S, T>) -> Vector<S, T> {
        for i in 0..T::lanes::<S>() {
            let v = lanes(&y)[i].atan2(lanes(&x)[i]);
            lanes_mut(&mut y)[i] = v;
        }
        y
    }
}
