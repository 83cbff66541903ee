//! Comparison of results with expectations: by identity for NaN and infinities, otherwise relative plus ULP.

use crate::array::Array;
use burn_backend::{DType, bf16, f16};

/// How far a result may be from its expectation:
/// `ulps * ulp(want) + relative * |want| + scale * absolute + floor`.
///
/// `absolute` counts only through a `scale` that the case states, such as the sum of absolute values that
/// were added up; without one, an expected zero has to be zero to within ULPs of the smallest normal number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Units in the last place of the expected value, in the dtype of the result.
    pub ulps: f64,
    /// Fraction of the expected value.
    pub relative: f64,
    /// Fraction of the problem's scale.
    pub absolute: f64,
    /// An absolute error, independent of the value, for functions that a device approximates with such an
    /// error.
    pub floor: f64,
    /// Whether a zero is accepted where a subnormal number is expected.
    pub flushes: bool,
}

impl Tolerance {
    /// No tolerance: only the exact value passes.
    pub const EXACT: Self = Self { ulps: 0.0, relative: 0.0, absolute: 0.0, floor: 0.0, flushes: false };

    /// This many units in the last place.
    pub const fn ulps(ulps: f64) -> Self {
        Self { ulps, ..Self::EXACT }
    }

    /// Tolerance of a sum of `n` terms whose absolute values sum up to the scale: blocked summation in the
    /// dtype's accumulator, then one rounding to the dtype.
    pub fn accumulated(dtype: DType, n: usize) -> Self {
        let accumulator = match dtype {
            DType::F64 => f64::EPSILON,
            _ => f32::EPSILON as f64,
        };
        let growth = (n as f64).sqrt().max(4.0);
        Self { ulps: 1.0, absolute: growth * accumulator, ..Self::EXACT }
    }
}

/// Distance between neighbouring numbers at `x` in a float dtype; for zero, the distance at the smallest
/// normal number.
#[inline]
pub fn ulp(dtype: DType, x: f64) -> f64 {
    let (digits, min_exponent) = format(dtype);
    power_of_two(exponent(x).max(min_exponent) - (digits - 1))
}

/// The exponent of a finite number, as its bits have it: below that of all normal numbers for 0 and for
/// subnormal numbers.
#[inline]
fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// `2^k` for the exponents of `f64`, subnormal ones included.
#[inline]
fn power_of_two(k: i32) -> f64 {
    f64::from_bits(if k < -1022 { 1 << (k + 1074) } else { ((k + 1023) as u64) << 52 })
}

/// Significant bits (with the implicit one) and the exponent of the smallest normal number.
fn format(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F64 => (53, -1022),
        DType::F32 => (24, -126),
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        other => panic!("{other:?} is not a float dtype"),
    }
}

/// Whether a number is closer to zero than the smallest normal one of a float dtype, and not zero.
pub fn is_subnormal(dtype: DType, x: f64) -> bool {
    let (_, min_exponent) = format(dtype);
    x != 0.0 && x.abs() < power_of_two(min_exponent)
}

/// Rounds to the nearest value of a float dtype, ties to even.
///
/// Computed from the definition, because the `half` crate rounds an `f64` by way of its upper 32 bits.
#[inline]
pub fn round_to(dtype: DType, x: f64) -> f64 {
    if dtype == DType::F64 || x == 0.0 || !x.is_finite() {
        return x;
    }
    let (digits, min_exponent) = format(dtype);
    let unit = power_of_two(exponent(x).max(min_exponent) - (digits - 1));
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() > max_finite(dtype) { f64::INFINITY.copysign(x) } else { rounded }
}

/// Whether one result is close enough.
#[inline]
pub fn is_close(dtype: DType, got: f64, want: f64, tolerance: Tolerance, scale: f64) -> bool {
    let want = if round_to(dtype, want).is_infinite() { round_to(dtype, want) } else { want };
    if want.is_nan() || got.is_nan() {
        return want.is_nan() && got.is_nan();
    }
    if want.is_infinite() || got.is_infinite() {
        // A finite value within the tolerance of overflow may round either way.
        let limit = max_finite(dtype);
        let near = |finite: f64, infinite: f64| {
            finite.signum() == infinite.signum() && limit - finite.abs() <= tolerance.ulps * ulp(dtype, limit)
        };
        return want == got
            || (tolerance.ulps > 0.0 && got.is_finite() && near(got, want))
            || (tolerance.ulps > 0.0 && want.is_finite() && near(want, got));
    }
    if tolerance.flushes && got == 0.0 && is_subnormal(dtype, want) {
        return true;
    }
    // Half a unit for the expectation itself, which is not rounded to the dtype.
    let rounding = if tolerance.ulps > 0.0 { 0.5 } else { 0.0 };
    let bound = (tolerance.ulps + rounding) * ulp(dtype, want)
        + tolerance.relative * want.abs()
        + tolerance.absolute * scale
        + tolerance.floor;
    (got - want).abs() <= bound
}

fn max_finite(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f32::MAX as f64,
        DType::F16 => f16::MAX.to_f64(),
        _ => bf16::MAX.to_f64(),
    }
}

/// Compares whole arrays of floats.
///
/// # Errors
/// A description of the first mismatch, and the number of mismatches.
pub fn compare_floats(
    dtype: DType,
    got: &Array<f64>,
    want: &Array<f64>,
    tolerance: Tolerance,
    scale: f64,
) -> Result<(), String> {
    compare(got, want, |got, want| is_close(dtype, got, want, tolerance, scale))
}

/// Compares whole arrays of integers or booleans, exactly.
///
/// # Errors
/// A description of the first mismatch, and the number of mismatches.
pub fn compare_exact<T: Copy + PartialEq + std::fmt::Debug>(
    got: &Array<T>,
    want: &Array<T>,
) -> Result<(), String> {
    compare(got, want, |got, want| got == want)
}

/// Compares whole arrays element by element with `close`.
///
/// # Errors
/// A description of the first mismatch, and the number of mismatches.
pub fn compare<T: Copy + std::fmt::Debug, U: Copy + std::fmt::Debug>(
    got: &Array<T>,
    want: &Array<U>,
    close: impl Fn(T, U) -> bool,
) -> Result<(), String> {
    if got.shape() != want.shape() {
        return Err(format!("got shape {:?}, expected {:?}", got.shape(), want.shape()));
    }
    let wrong: Vec<usize> = (0..got.len()).filter(|&i| !close(got.data()[i], want.data()[i])).collect();
    match wrong.first() {
        None => Ok(()),
        Some(&i) => Err(format!(
            "element {i} of shape {:?} is {:?}, expected {:?} ({} of {} are wrong)",
            got.shape(),
            got.data()[i],
            want.data()[i],
            wrong.len(),
            got.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, ulps: f64) -> bool {
        is_close(DType::F32, got, want, Tolerance::ulps(ulps), 0.0)
    }

    #[test]
    fn nan_is_close_to_nan_alone() {
        assert!(close(f64::NAN, f64::NAN, 1.0));
        assert!(!close(f64::NAN, 1.0, 1e30));
        assert!(!close(1.0, f64::NAN, 1e30));
        assert!(!close(f64::NAN, f64::INFINITY, 1e30));
    }

    #[test]
    fn infinities_have_a_sign_and_are_far_from_numbers() {
        assert!(close(f64::INFINITY, f64::INFINITY, 0.0));
        assert!(!close(f64::INFINITY, f64::NEG_INFINITY, 1.0));
        assert!(!close(1e30, f64::INFINITY, 4.0));
        assert!(close(f64::INFINITY, 1e300, 1.0), "an f32 result overflows");
        assert!(is_close(DType::F16, f64::INFINITY, 65504.0, Tolerance::ulps(2.0), 0.0));
        assert!(!is_close(DType::F16, f64::INFINITY, 65504.0, Tolerance::EXACT, 0.0));
    }

    #[test]
    fn an_expected_zero_is_no_free_pass() {
        assert!(close(0.0, 0.0, 1.0));
        assert!(!close(1e-20, 0.0, 4.0));
        assert!(is_close(DType::F32, 1e-7, 0.0, Tolerance::accumulated(DType::F32, 16), 1.0));
        assert!(!is_close(DType::F32, 1e-5, 0.0, Tolerance::accumulated(DType::F32, 16), 1.0));
    }

    #[test]
    fn flushing_makes_zeros_of_subnormals_alone() {
        let flushes = Tolerance { flushes: true, ..Tolerance::ulps(1.0) };
        let close = |got, want, tolerance| is_close(DType::F32, got, want, tolerance, 0.0);
        assert!(close(0.0, 1e-40, flushes));
        assert!(!close(0.0, 1e-40, Tolerance::ulps(1.0)));
        assert!(!close(0.0, 2e-38, flushes), "a normal number");
        assert!(!close(5e-39, 1e-39, flushes), "another subnormal");
        assert!(!close(0.0, f64::NAN, flushes));
    }

    #[test]
    fn a_floor_counts_at_every_value() {
        let floor = Tolerance { floor: 1e-6, ..Tolerance::EXACT };
        for want in [0.0, 1e-30, 3.0] {
            assert!(is_close(DType::F32, want + 9e-7, want, floor, 0.0));
            assert!(!is_close(DType::F32, want + 2e-6, want, floor, 0.0));
        }
    }

    #[test]
    fn ulps_are_those_of_the_dtype() {
        assert_eq!(ulp(DType::F32, 1.0), f32::EPSILON as f64);
        assert_eq!(ulp(DType::BF16, 1.5), 2f64.powi(-7));
        assert_eq!(ulp(DType::F16, 0.0), 2f64.powi(-24));
        assert!(close(1.0 + 1.2e-7, 1.0, 1.0));
        assert!(!close(1.0 + 3.6e-7, 1.0, 1.0));
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        let power = |k| 2f64.powi(k);
        for x in [0.1, -1.0 / 3.0, 1e-40, -1e-46, 3e38, 3.5e38, f32::MAX as f64, 16777217.0, 16777219.0] {
            assert_eq!(round_to(DType::F32, x).to_bits(), (x as f32 as f64).to_bits(), "{x}");
        }
        for (dtype, x, want) in [
            (DType::F16, 1.0 + power(-11), 1.0),
            (DType::F16, 1.0 + power(-11) + power(-40), 1.0 + power(-10)),
            (DType::F16, 65519.9, 65504.0),
            (DType::F16, -65520.0, f64::NEG_INFINITY),
            (DType::F16, power(-25), 0.0),
            (DType::F16, 1.1 * power(-25), power(-24)),
            (DType::BF16, 1.0 + power(-8) + power(-40), 1.0 + power(-7)),
            (DType::BF16, 1.0 + 3.0 * power(-8), 1.0 + power(-6)),
        ] {
            assert_eq!(round_to(dtype, x), want, "{dtype:?} {x}");
        }
        assert!(round_to(DType::F32, -1e-60).is_sign_negative());
    }

    #[test]
    fn shapes_count() {
        let a = Array::new([2], vec![1, 2]);
        assert!(compare_exact(&a, &a.reshape([1, 2])).is_err());
        assert!(compare_exact(&a, &Array::new([2], vec![1, 3])).unwrap_err().contains("element 1"));
    }
}
