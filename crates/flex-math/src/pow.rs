//! powf.
use crate::simd::*;
use crate::slice::{lanes, lanes_mut};
use crate::{BinaryFn, Float};
/// Constants of the power function.
pub trait PowConsts: Scalar {}
impl PowConsts for f32 {}
impl PowConsts for f64 {}
/// `a^b`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pow;
impl<T: Float> BinaryFn<T> for Pow {
    #[inline(always)]
    fn eval<S: Simd>(self, mut y: Vector<S, T>, x: Vector<S, T>) -> Vector<S, T> {
        for i in 0..T::lanes::<S>() {
            let v = lanes(&y)[i].powf(lanes(&x)[i]);
            lanes_mut(&mut y)[i] = v;
        }
        y
    }
}
