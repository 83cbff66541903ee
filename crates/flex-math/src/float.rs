//! The requirements of the kernels on an element type, and vector operations that macerator lacks.
//!
//! Kernels are written once for `f32` and `f64`. The parts that differ (polynomial coefficients, split
//! constants) are associated constants of one private trait per file; [`Float`] combines these traits.

use crate::simd::*;

/// `f32` or `f64`, with the vector operations and the coefficient tables that the kernels need.
///
/// The trait is sealed: its private supertraits carry the coefficients.
pub trait Float:
    Scalar
    + PartialOrd
    + core::fmt::Debug
    + core::fmt::Display
    + num_traits::Float
    + VAdd
    + VSub
    + VMul
    + VDiv
    + VMulAdd
    + VFma
    + VEq
    + VOrd
    + VSelect
    + VAbs
    + VSqrt
    + VRoundTiesEven
    + VFloor
    + VTrunc
    + VMaskReduce
    + Format
    + crate::StoredFloat<Compute = Self>
    + crate::erf::ErfConsts
    + crate::exp::ExpConsts
    + crate::gauss::GaussConsts
    + crate::hyperbolic::HyperbolicConsts
    + crate::inverse::InverseConsts
    + crate::log::LnConsts
    + crate::pow::PowConsts
    + crate::trig::TrigConsts
    + Send
    + Sync
    + 'static
{
}

impl Float for f32 {}
impl Float for f64 {}

/// The bit layout of an element type.
pub trait Format: Scalar {
    /// The signed integer of the same width.
    type Int: Scalar
        + VAdd
        + VSub
        + VShl
        + VShr
        + VBitAnd
        + VBitOr
        + VBitXor
        + VBitNot
        + VEq
        + VOrd
        + VSelect
        + core::fmt::Debug;

    /// The unsigned integer of the same width. Its right shift is logical, which is one instruction
    /// everywhere.
    type Uint: Scalar + VShr;

    /// Number of stored bits of the significand.
    const MANTISSA: u32;
    /// The mask of the sign bit.
    const SIGN: Self::Int;
    /// The mask of all bits except the sign.
    const MAGNITUDE: Self::Int;
    /// The mask of the significand.
    const MANTISSA_MASK: Self::Int;
    /// The mask of the sign, the exponent and the high half of the significand, for Dekker's split.
    const UPPER_HALF: Self::Int;
    /// The bits of 1.
    const ONE_BITS: Self::Int;
    /// The bits of sqrt(1/2).
    const SQRT_HALF_BITS: Self::Int;
    /// `1.5 * 2^MANTISSA`. Adding it to a number leaves the number, rounded to an integer, in the low bits.
    const MAGIC: Self;
    /// The bits of `MAGIC`.
    const MAGIC_BITS: Self::Int;
    /// `2^(MANTISSA + 1)`. Multiplying by it makes every subnormal normal.
    const NORMALISE: Self;
    /// The base-2 exponent of `NORMALISE`, as a float.
    const NORMALISE_EXPONENT: Self;
    /// The smallest normal number.
    const MIN_NORMAL: Self;
    /// Positive infinity.
    const INF: Self;
    /// A quiet NaN.
    const NAN: Self;
}

impl Format for f32 {
    type Int = i32;
    type Uint = u32;
    const MANTISSA: u32 = 23;
    const SIGN: i32 = i32::MIN;
    const MAGNITUDE: i32 = i32::MAX;
    const MANTISSA_MASK: i32 = (1 << 23) - 1;
    const UPPER_HALF: i32 = !((1 << 12) - 1);
    const ONE_BITS: i32 = 1f32.to_bits() as i32;
    const SQRT_HALF_BITS: i32 = 0x3f35_04f3;
    const MAGIC: f32 = 12582912.0;
    const MAGIC_BITS: i32 = 12582912f32.to_bits() as i32;
    const NORMALISE: f32 = 16777216.0;
    const NORMALISE_EXPONENT: f32 = 24.0;
    const MIN_NORMAL: f32 = f32::MIN_POSITIVE;
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
}

impl Format for f64 {
    type Int = i64;
    type Uint = u64;
    const MANTISSA: u32 = 52;
    const SIGN: i64 = i64::MIN;
    const MAGNITUDE: i64 = i64::MAX;
    const MANTISSA_MASK: i64 = (1 << 52) - 1;
    const UPPER_HALF: i64 = !((1 << 27) - 1);
    const ONE_BITS: i64 = 1f64.to_bits() as i64;
    const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;
    const MAGIC: f64 = 6755399441055744.0;
    const MAGIC_BITS: i64 = 6755399441055744f64.to_bits() as i64;
    const NORMALISE: f64 = 9007199254740992.0;
    const NORMALISE_EXPONENT: f64 = 53.0;
    const MIN_NORMAL: f64 = f64::MIN_POSITIVE;
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
}

/// A small exact constant as an element.
#[inline(always)]
pub(crate) fn num<T: Float>(value: f32) -> T {
    // Every constant passed here is exact in f32, and the cast is evaluated at compile time.
    <T as num_traits::NumCast>::from(value).unwrap()
}

/// A small exact constant in every lane.
#[inline(always)]
pub(crate) fn splat<S: Simd, T: Float>(value: f32) -> Vector<S, T> {
    num::<T>(value).splat()
}

/// The lanes reinterpreted as integers of the same width.
#[inline(always)]
pub(crate) fn bits<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T::Int> {
    x.reinterpret()
}

/// Integer lanes reinterpreted as floats.
#[inline(always)]
pub(crate) fn float<S: Simd, T: Float>(x: Vector<S, T::Int>) -> Vector<S, T> {
    x.reinterpret()
}

/// Whether this backend computes `a * b + c` with one rounding in one instruction. Elsewhere `fma` is a call
/// per lane, so kernels use another method.
#[inline(always)]
pub(crate) fn fused<S: Simd, T: Float>() -> bool {
    <T as VFma>::is_accelerated::<S>()
}

/// `a * b + c`, rounded once where that is fast and twice elsewhere. For steps whose error bound allows both.
#[inline(always)]
pub fn madd<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>, c: Vector<S, T>) -> Vector<S, T> {
    // Not `mul_add` alone: on the scalar backend `mul_add` is an exact, slow, fused call per lane.
    if fused::<S, T>() { a.fma(b, c) } else { a * b + c }
}

/// A polynomial; `coefficients` from the lowest power up. A long one is [computed in halves](poly_of_halves):
/// erf of f64 takes 0.85 of the time on Zen 3, tanh, asin, atan and exp 0.91 to 0.94.
#[inline(always)]
pub(crate) fn poly<S: Simd, T: Float>(x: Vector<S, T>, coefficients: &'static [T]) -> Vector<S, T> {
    let degree = coefficients.len() - 1;
    if degree >= 9 { poly_of_halves(x, coefficients) } else { horner(x, coefficients, degree, 0, 1) }
}

/// A polynomial of degree 2 or more as `c + x (O(x^2) + x E(x^2))`, where O has the odd powers' coefficients
/// and E those of the even powers from 2 on, each by Horner's scheme. The chain of dependent steps is half as
/// long as that of one scheme, with half as many roundings; `c` is still added last. `x^2` is one
/// multiplication more.
#[inline(always)]
pub(crate) fn poly_of_halves<S: Simd, T: Float>(x: Vector<S, T>, coefficients: &'static [T]) -> Vector<S, T> {
    let degree = coefficients.len() - 1;
    debug_assert!(degree >= 2, "both halves have coefficients");
    let square = x * x;
    // From the largest odd power and the largest even power down.
    let odd = horner(square, coefficients, (degree - 1) | 1, 1, 2);
    let even = horner(square, coefficients, degree & !1, 2, 2);
    madd(x, madd(x, even, odd), coefficients[0].splat())
}

/// The coefficients `first`, `first + step`, ... `last` as a polynomial, by Horner's scheme.
#[inline(always)]
fn horner<S: Simd, T: Float>(
    x: Vector<S, T>,
    coefficients: &'static [T],
    last: usize,
    first: usize,
    step: usize,
) -> Vector<S, T> {
    let mut i = last;
    let mut r: Vector<S, T> = coefficients[i].splat();
    while i > first {
        i -= step;
        r = madd(r, x, coefficients[i].splat());
    }
    r
}

/// Whether `min` and `max` of this backend return their second operand, or NaN, when that operand is NaN.
/// The scalar backend and LoongArch return the operand that is a number instead.
#[inline(always)]
fn min_max_keeps_nan<S: Simd, T: Float>() -> bool {
    T::is_min_max_accelerated::<S>() && !cfg!(target_arch = "loongarch64")
}

/// `x` where it is below `limit`, else `limit`; NaN stays NaN. Of two zeros it may be either.
#[inline(always)]
pub(crate) fn at_most<S: Simd, T: Float>(x: Vector<S, T>, limit: T) -> Vector<S, T> {
    let limit: Vector<S, T> = limit.splat();
    if min_max_keeps_nan::<S, T>() { limit.min(x) } else { less_or_second(limit, x) }
}

/// `x` where it is above `limit`, else `limit`; NaN stays NaN. Of two zeros it may be either.
#[inline(always)]
pub(crate) fn at_least<S: Simd, T: Float>(x: Vector<S, T>, limit: T) -> Vector<S, T> {
    let limit: Vector<S, T> = limit.splat();
    if min_max_keeps_nan::<S, T>() { limit.max(x) } else { greater_or_second(limit, x) }
}

/// The sign bit of each lane and zeros; [`with_sign`] puts it on an odd function's value.
#[inline(always)]
pub(crate) fn sign_of<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T::Int> {
    bits(x) & T::SIGN.splat()
}

/// `x` with its sign flipped where `sign` has the sign bit set.
#[inline(always)]
pub(crate) fn with_sign<S: Simd, T: Float>(x: Vector<S, T>, sign: Vector<S, T::Int>) -> Vector<S, T> {
    float(bits(x) ^ sign)
}

/// `-x`, for zeros and NaN too.
#[inline(always)]
pub fn neg<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    with_sign(x, T::SIGN.splat())
}

/// `a` where it is greater than `b`, and `b` elsewhere, also where one of them is NaN. One instruction on
/// x86, whose maximum instruction is defined in this way.
#[inline(always)]
pub fn greater_or_second<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>) -> Vector<S, T> {
    if const { maximum_takes_second::<S>() } { a.max(b) } else { a.gt(b).select(a, b) }
}

/// `a` where it is less than `b`, and `b` elsewhere, also where one of them is NaN. See
/// [`greater_or_second`].
#[inline(always)]
pub fn less_or_second<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>) -> Vector<S, T> {
    if const { maximum_takes_second::<S>() } { a.min(b) } else { a.lt(b).select(a, b) }
}

/// Whether the maximum and the minimum of `S` are the second operand if neither is the larger one.
const fn maximum_takes_second<S: Simd>() -> bool {
    cfg!(any(target_arch = "x86", target_arch = "x86_64")) && has_vectors::<S>()
}

/// `|x|`.
#[inline(always)]
pub fn abs<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    float(bits(x) & T::MAGNITUDE.splat())
}

/// `x` with the lower half of its significand cleared; products of two such numbers are exact.
#[inline(always)]
pub(crate) fn upper<S: Simd, T: Float>(x: Vector<S, T>) -> Vector<S, T> {
    float(bits(x) & T::UPPER_HALF.splat())
}

/// The rounded product `a * b` and its rounding error (Dekker 1971, or one fused multiply-add where the
/// machine has it). Exact unless the product leaves the normal range.
#[inline(always)]
pub(crate) fn two_prod<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let hi = a * b;
    let lo = if fused::<S, T>() {
        a.fma(b, neg(hi))
    } else {
        let (ah, bh) = (upper(a), upper(b));
        let (al, bl) = (a - ah, b - bh);
        ((ah * bh - hi) + ah * bl + al * bh) + al * bl
    };
    (hi, lo)
}

/// The rounded sum `a + b` and its rounding error (Knuth's TwoSum).
#[inline(always)]
pub(crate) fn two_sum<S: Simd, T: Float>(a: Vector<S, T>, b: Vector<S, T>) -> (Vector<S, T>, Vector<S, T>) {
    let hi = a + b;
    let v = hi - a;
    (hi, (a - (hi - v)) + (b - v))
}

/// The rounded sum `a + b` and its rounding error, where `|a| >= |b|`.
#[inline(always)]
pub(crate) fn fast_two_sum<S: Simd, T: Float>(
    a: Vector<S, T>,
    b: Vector<S, T>,
) -> (Vector<S, T>, Vector<S, T>) {
    let hi = a + b;
    (hi, b - (hi - a))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Both choices between all pairs of some numbers, as bits.
    #[derive(Clone)]
    struct Choices;

    const SPECIAL: [f32; 8] = [0.0, -0.0, f32::NAN, -f32::NAN, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY];

    impl WithSimd for Choices {
        type Output = Vec<[u32; 2]>;
        fn with_simd<S: Simd>(self) -> Vec<[u32; 2]> {
            let pairs = SPECIAL.iter().flat_map(|a| SPECIAL.map(|b| (*a, b)));
            let choose = |(a, b): (f32, f32)| {
                let (a, b): (Vector<S, f32>, Vector<S, f32>) = (a.splat(), b.splat());
                [greater_or_second(a, b), less_or_second(a, b)].map(|chosen| {
                    let mut lanes = [0.0f32; WIDEST];
                    store(chosen, &mut lanes);
                    lanes[0].to_bits()
                })
            };
            pairs.map(choose).collect()
        }
    }

    #[test]
    fn of_equal_zeros_and_nan_the_second_is_chosen() {
        for_each_isa(Choices, |isa, found| {
            let pairs = SPECIAL.iter().flat_map(|a| SPECIAL.map(|b| (*a, b)));
            for ((a, b), found) in pairs.zip(found) {
                let want = [if a > b { a } else { b }, if a < b { a } else { b }].map(f32::to_bits);
                assert_eq!(found, want, "{isa}: {a} and {b}");
            }
        });
    }
}
