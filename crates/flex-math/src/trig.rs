//! sin, cos, tan, over the whole range.
//!
//! `|x| = n pi/2 + r` with `r` in `[-pi/4, pi/4]`; pi/2 is subtracted in several parts (Cody and Waite 1980).
//! With a fused multiply-add, three full-precision parts suffice. Without one, the parts are so short that
//! their products with `n` are exact. Lanes beyond `TRIG_MAX_FUSED` or `TRIG_MAX_SHORT` are recomputed one by
//! one with libm, which reduces them by Payne and Hanek's method. The minimax polynomials come from
//! `tools/coefficients.py`: `sin r = r + r^3 P(r^2)`, `cos r = 1 - r^2/2 + r^4 Q(r^2)`,
//! `tan r = r + r^3 R(r^2)`.

use crate::float::*;
use crate::simd::*;
use crate::slice::{lanes, lanes_mut};
use crate::{Float, UnaryFn};

/// Constants of the trigonometric functions.
pub trait TrigConsts: Format {
    /// The largest argument that the parts in `PIO2_FUSED` reduce to full accuracy.
    const TRIG_MAX_FUSED: Self;
    /// The largest argument that the parts in `PIO2_SHORT` reduce to full accuracy.
    const TRIG_MAX_SHORT: Self;
    const FRAC_2_PI: Self;
    /// Parts of -pi/2 with full significands.
    const PIO2_FUSED: &'static [Self];
    /// Parts of -pi/2 with half significands.
    const PIO2_SHORT: &'static [Self];
    /// The left shift that moves bit 1 to the sign bit.
    const BIT_1_TO_SIGN: u32;
    const SIN_POLY: &'static [Self];
    const COS_POLY: &'static [Self];
    const TAN_POLY: &'static [Self];
    const ONE_BIT: Self::Int;
    const TWO_BIT: Self::Int;
    fn sin_libm(self) -> Self;
    fn cos_libm(self) -> Self;
    fn tan_libm(self) -> Self;
}

impl TrigConsts for f32 {
    const TRIG_MAX_FUSED: f32 = 1e5;
    const TRIG_MAX_SHORT: f32 = 6e3;
    const FRAC_2_PI: f32 = core::f32::consts::FRAC_2_PI;
    const PIO2_FUSED: &'static [f32] = &[-1.570_796_4, 4.371_139e-8, 1.715_124_5e-15];
    /// 12 bits each.
    const PIO2_SHORT: &'static [f32] =
        &[-1.570_800_8, 4.453_584_6e-6, 8.706_138e-10, -6.222_8e-14, -5.720_860_5e-18, -3.282_003_7e-22];
    const BIT_1_TO_SIGN: u32 = 30;
    /// Degree 2, error of sin 2^-28.1.
    const SIN_POLY: &'static [f32] = &[-1.666665494e-1, 8.332177847e-3, -1.951725282e-4];
    /// Degree 2, error of cos 2^-33.3.
    const COS_POLY: &'static [f32] = &[4.166664686e-2, -1.388736694e-3, 2.443838336e-5];
    /// Degree 6, error of tan 2^-29.4.
    const TAN_POLY: &'static [f32] = &[
        3.333335146e-1,
        1.333260915e-1,
        5.4065637e-2,
        2.125444511e-2,
        1.090379261e-2,
        7.632254524e-6,
        4.414844999e-3,
    ];
    const ONE_BIT: i32 = 1;
    const TWO_BIT: i32 = 2;
    fn sin_libm(self) -> f32 {
        libm::sinf(self)
    }
    fn cos_libm(self) -> f32 {
        libm::cosf(self)
    }
    fn tan_libm(self) -> f32 {
        libm::tanf(self)
    }
}

impl TrigConsts for f64 {
    const TRIG_MAX_FUSED: f64 = 1e6;
    const TRIG_MAX_SHORT: f64 = 1e6;
    const FRAC_2_PI: f64 = core::f64::consts::FRAC_2_PI;
    const PIO2_FUSED: &'static [f64] =
        &[-core::f64::consts::FRAC_PI_2, -6.123_233_995_736_766e-17, 1.497_384_904_859_169_8e-33];
    /// 33 bits each, except the last.
    const PIO2_SHORT: &'static [f64] = &[
        -1.5707963267341256,
        -6.077_100_506_303_966e-11,
        -2.022_266_248_711_166_5e-21,
        -8.478_427_660_368_9e-32,
    ];
    const BIT_1_TO_SIGN: u32 = 62;
    /// Degree 5, error of sin 2^-58.0.
    const SIN_POLY: &'static [f64] = &[
        -1.666666666666663203e-1,
        8.333333333322414353e-3,
        -1.984126982980838418e-4,
        2.755731369211127537e-6,
        -2.505075814427027125e-8,
        1.58967972710597299e-10,
    ];
    /// Degree 5, error of cos 2^-64.2.
    const COS_POLY: &'static [f64] = &[
        4.166666666666659949e-2,
        -1.388888888887412559e-3,
        2.480158728948314862e-5,
        -2.755731435259914507e-7,
        2.087572330849639375e-9,
        -1.135964959933343931e-11,
    ];
    /// Degree 13, error of tan 2^-56.0.
    const TAN_POLY: &'static [f64] = &[
        3.333333333333271399e-1,
        1.3333333333422812e-1,
        5.39682539229938232e-2,
        2.186948969202893649e-2,
        8.863218057649901991e-3,
        3.592298554790352213e-3,
        1.454703166175875951e-3,
        5.952848534078049406e-4,
        2.217585785169572208e-4,
        1.377535010265068904e-4,
        -2.80506069034552739e-5,
        9.092607111142847148e-5,
        -4.564428584941518921e-5,
        2.104169503585737949e-5,
    ];
    const ONE_BIT: i64 = 1;
    const TWO_BIT: i64 = 2;
    fn sin_libm(self) -> f64 {
        libm::sin(self)
    }
    fn cos_libm(self) -> f64 {
        libm::cos(self)
    }
    fn tan_libm(self) -> f64 {
        libm::tan(self)
    }
}

/// The largest argument that the reduction of this backend handles.
#[inline(always)]
fn limit<S: Simd, T: Float>() -> T {
    if fused::<S, T>() { T::TRIG_MAX_FUSED } else { T::TRIG_MAX_SHORT }
}

/// `(j, r)` with `x = n pi/2 + r` and `n mod 4` in the low bits of `j`, for `0 <= x <= limit`.
#[inline(always)]
fn reduce<S: Simd, T: Float>(x: Vector<S, T>) -> (Vector<S, T::Int>, Vector<S, T>) {
    let t = madd(x, T::FRAC_2_PI.splat(), T::MAGIC.splat());
    let n = t - T::MAGIC.splat();
    if fused::<S, T>() {
        let mut r = x;
        for part in T::PIO2_FUSED {
            r = n.fma(part.splat(), r);
        }
        return (bits(t), r);
    }
    // The products are exact. The rounding error of every sum is collected and added at the end.
    let (mut r, mut rest) = (x, splat(0.0));
    for part in T::PIO2_SHORT {
        let (sum, err) = two_sum(r, n * part.splat());
        r = sum;
        rest += err;
    }
    (bits(t), r + rest)
}

/// `sin(r)` in the quadrants `j mod 4` = 0 and 2, `cos(r)` in 1 and 3, with the quadrant's sign.
#[inline(always)]
fn quadrant_sin<S: Simd, T: Float>(j: Vector<S, T::Int>, r: Vector<S, T>) -> Vector<S, T> {
    let z = r * r;
    let sin = madd(r * z, poly(z, T::SIN_POLY), r);
    let half = z * splat(0.5);
    let one = splat::<S, T>(1.0);
    let w = one - half;
    // `1 - half` is rounded; its rounding error is added with the small terms.
    let cos = w + madd(z * z, poly(z, T::COS_POLY), (one - w) - half);
    let even = (j & T::ONE_BIT.splat()).eq(T::Int::default().splat());
    let y = even.select(bits(sin), bits(cos));
    float(y ^ ((j & T::TWO_BIT.splat()) << T::BIT_1_TO_SIGN))
}

/// Recomputes with `f` the lanes with `x` too large for the reduction.
#[inline(always)]
fn patch<S: Simd, T: Float>(x: Vector<S, T>, y: Vector<S, T>, f: fn(T) -> T) -> Vector<S, T> {
    let limit = limit::<S, T>();
    if !abs(x).gt(limit.splat()).any() {
        return y;
    }
    let mut patched = y;
    patch_lanes(lanes(&x), lanes_mut(&mut patched), limit, f);
    patched
}

#[cold]
#[inline(never)]
fn patch_lanes<T: Float>(x: &[T], y: &mut [T], limit: T, f: fn(T) -> T) {
    for (x, y) in x.iter().zip(y) {
        if num_traits::Float::abs(*x) > limit {
            *y = f(*x);
        }
    }
}

/// The sine.
///
/// Error below 1.6 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sin;

impl<T: Float> UnaryFn<T> for Sin {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let (j, r) = reduce(abs(x));
        let y = with_sign(quadrant_sin(j, r), sign_of(x));
        patch(x, y, T::sin_libm)
    }
}

/// The cosine.
///
/// Error below 1.6 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cos;

impl<T: Float> UnaryFn<T> for Cos {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let (j, r) = reduce(abs(x));
        // cos(x) = sin(x + pi/2)
        let y = quadrant_sin(j + T::ONE_BIT.splat(), r);
        patch(x, y, T::cos_libm)
    }
}

/// The tangent.
///
/// Error below 3 ULP for f32 and f64 over the whole range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tan;

impl<T: Float> UnaryFn<T> for Tan {
    #[inline(always)]
    fn eval<S: Simd>(self, x: Vector<S, T>) -> Vector<S, T> {
        let (j, r) = reduce(abs(x));
        let z = r * r;
        let t = madd(r * z, poly(z, T::TAN_POLY), r);
        let even = (j & T::ONE_BIT.splat()).eq(T::Int::default().splat());
        let y = float(even.select(bits(t), bits(splat::<S, T>(-1.0) / t)));
        patch(x, with_sign(y, sign_of(x)), T::tan_libm)
    }
}
