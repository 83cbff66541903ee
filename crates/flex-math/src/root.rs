//! Square root and reciprocal: single instructions, correctly rounded.

use crate::float::*;
use crate::simd::*;
use crate::{Float, UnaryFn};

/// The square root, correctly rounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sqrt;

impl<T: Float> UnaryFn<T> for Sqrt {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        x.sqrt()
    }
}

/// `1 / x`, correctly rounded: a true division, not the machine's estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recip;

impl<T: Float> UnaryFn<T> for Recip {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        splat::<S, T>(1.0) / x
    }
}
