//! Conversions between dtypes. Float to float rounds to nearest; float to integer truncates and saturates
//! (NaN gives 0); integer to integer wraps, like Rust's `as`.

use crate::array::Array;
use crate::compare::round_to;
use crate::kind::{Float, Int, Kind};
use crate::row::{Context, Row};
use crate::support::{SHAPES, int_range, over_layouts, upload, wrap};
use burn_backend::{Backend, DType};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["float_cast"], |context| {
            let to = context.floats(&["float_cast"]);
            let run = |t, dtype: DType| B::float_cast(t, dtype.into());
            check::<B, Float, Float>(context, "float_cast", &to, run, floats_of, |_, to, x| round_to(to, x))
        }),
        Row::new(&["float_into_int"], |context| {
            let to = context.ints(&["float_into_int"]);
            let run = |t, dtype: DType| B::float_into_int(t, dtype.into());
            check::<B, Float, Int>(context, "float_into_int", &to, run, floats_of, |_, to, x| {
                truncated(to, x)
            })
        }),
        Row::new(&["int_cast"], |context| {
            let to = context.ints(&["int_cast"]);
            let run = |t, dtype: DType| B::int_cast(t, dtype.into());
            check::<B, Int, Int>(context, "int_cast", &to, run, ints_of, |_, to, x| wrap(to, x))
        }),
        Row::new(&["int_into_float"], |context| {
            let to = context.floats(&["int_into_float"]);
            let run = |t, dtype: DType| B::int_into_float(t, dtype.into());
            check::<B, Int, Float>(context, "int_into_float", &to, run, ints_of, |_, to, x| nearest(to, x))
        }),
    ]
}

/// Runs every pair of dtypes on special values, and on samples in every layout.
fn check<B: Backend, K: Kind<B>, L: Kind<B>>(
    context: &Context<'_, B>,
    method: &'static str,
    to: &[DType],
    run: impl Fn(K::Tensor, DType) -> L::Tensor,
    special: fn(DType) -> Vec<K::Value>,
    want: fn(DType, DType, K::Value) -> L::Value,
) {
    for from in K::dtypes(context, &[method]) {
        for &to in to {
            let values = special(from);
            let special = Array::new([values.len()], values);
            context.attempt(
                || format!("{from:?} to {to:?}: special values"),
                || {
                    L::expect(
                        run(upload::<B, K>(context, &special, from), to),
                        to,
                        &special.map(|x| want(from, to, x)),
                    )
                },
            );
            for shape in SHAPES {
                over_layouts::<B, K>(context, from, &K::sample(from, shape, 1), |t, a| {
                    L::expect(run(t, to), to, &a.map(|x| want(from, to, x)))
                        .map_err(|e| format!("to {to:?}: {e}"))
                });
            }
        }
    }
}

/// Values at the limits of dtypes, ties, and values next to ties, which double rounding would get wrong.
fn floats_of(dtype: DType) -> Vec<f64> {
    let power = |k: i32| 2f64.powi(k);
    let mut values =
        vec![f64::NAN, f64::INFINITY, 0.0, 0.5, 0.999, 1.5, 2.5, 3.5, 127.5, 255.5, 300.0, 1e300];
    for k in [7, 8, 15, 16, 31, 32, 53, 63, 64, 127] {
        values.extend([power(k), power(k) - 1.0, power(k) + 1.0, power(k) - 0.5]);
    }
    // The largest finite values, values that round to them and values that do not; and the smallest values.
    values.extend([65504.0, 65519.0, 65520.0, f32::MAX as f64, 3.39e38, 3.3961775e38]);
    values.extend([
        1e-40,
        1e-8,
        power(-14),
        power(-24),
        power(-25),
        1.5 * power(-24),
        power(-126),
        power(-133),
    ]);
    for digits in [8, 11, 24] {
        let tie = 1.0 + power(-digits);
        values.extend([tie, tie + power(-40), tie - power(-40), 1.0 + 3.0 * power(-digits)]);
    }
    values.iter().flat_map(|&x| [x, -x]).map(|x| round_to(dtype, x)).collect()
}

/// Integers at the limits of dtypes and around powers of two.
fn ints_of(dtype: DType) -> Vec<i128> {
    let (min, max) = int_range(dtype);
    let mut values = vec![min, min + 1, max - 1, max];
    for k in 0..64 {
        let power = 1i128 << k;
        values.extend([power - 1, power, power + 1, power + (power >> 8), power + 3 * (power >> 8)]);
        values.extend([8, 11, 24, 53].map(|digits| power + (power >> digits) + 1));
    }
    values.iter().flat_map(|&x| [x, -x]).filter(|x| (min..=max).contains(x)).collect()
}

/// The integer that `as` converts a float to.
fn truncated(dtype: DType, x: f64) -> i128 {
    let (min, max) = int_range(dtype);
    if x.is_nan() { 0 } else { (x.trunc() as i128).clamp(min, max) }
}

/// An integer rounded to the nearest float of a dtype, ties to even.
fn nearest(dtype: DType, x: i128) -> f64 {
    let digits = match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        _ => 8,
    };
    let magnitude = x.unsigned_abs();
    let dropped = (128 - magnitude.leading_zeros()).saturating_sub(digits);
    let (kept, rest) = (magnitude >> dropped, magnitude & ((1 << dropped) - 1));
    let half = (1u128 << dropped) >> 1;
    let up = dropped > 0 && (rest > half || (rest == half && kept % 2 == 1));
    // So few digits are exact in f64; numbers beyond the range of f16 become infinite.
    round_to(dtype, ((kept + up as u128) << dropped) as f64 * x.signum() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_once() {
        assert_eq!(nearest(DType::F32, (1 << 24) + 1), 16777216.0);
        assert_eq!(nearest(DType::F32, (1 << 24) + 3), 16777220.0);
        assert_eq!(nearest(DType::BF16, (1 << 62) + (1 << 54) + 1), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(nearest(DType::F16, 65519), 65504.0);
        assert_eq!(nearest(DType::F16, -65520), f64::NEG_INFINITY);
        assert_eq!(nearest(DType::F64, 0).to_bits(), 0);
    }

    #[test]
    fn floats_truncate_and_saturate() {
        assert_eq!(truncated(DType::I8, -128.9), -128);
        assert_eq!(truncated(DType::U8, -0.5), 0);
        assert_eq!(truncated(DType::U64, 1e300), u64::MAX as i128);
        assert_eq!(truncated(DType::I64, f64::NAN), 0);
    }
}
