//! Sampled inputs: shapes, and contents that depend on a seed alone.

use crate::array::Array;
use crate::compare::round_to;
use burn_backend::DType;

/// Scalars, single elements, lengths around vector widths, empty tensors, ranks up to four.
pub const SHAPES: [&[usize]; 9] =
    [&[], &[1], &[7], &[33], &[65], &[3, 5], &[2, 3, 17], &[2, 0, 3], &[2, 3, 2, 9]];

/// A deterministic stream of numbers in [0, 1).
#[derive(Clone, Debug)]
pub struct Stream(u64);

impl Stream {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// The next number.
    pub fn unit(&mut self) -> f64 {
        // Knuth's MMIX generator; the upper bits are good enough for test data.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next integer in `low..high`.
    pub fn int(&mut self, low: i128, high: i128) -> i128 {
        low + (self.unit() * (high - low) as f64) as i128
    }
}

/// Floats in `low..high` that the dtype represents exactly.
pub fn floats(dtype: DType, shape: &[usize], (low, high): (f64, f64), seed: u64) -> Array<f64> {
    let mut stream = Stream::new(seed);
    Array::from_fn(shape.to_vec(), |_| round_to(dtype, low + stream.unit() * (high - low)))
}

/// Integers in `low..high`, cut to the range of the dtype.
pub fn ints(dtype: DType, shape: &[usize], (low, high): (i128, i128), seed: u64) -> Array<i128> {
    let (min, max) = int_range(dtype);
    let mut stream = Stream::new(seed);
    Array::from_fn(shape.to_vec(), |_| stream.int(low.max(min), high.min(max + 1)))
}

/// Booleans, about half of them true.
pub fn bools(shape: &[usize], seed: u64) -> Array<bool> {
    let mut stream = Stream::new(seed);
    Array::from_fn(shape.to_vec(), |_| stream.unit() < 0.5)
}

/// Smallest and largest value of an integer dtype.
pub fn int_range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    if dtype.is_int() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The value that an integer of this dtype has after wrapping around.
pub fn wrap(dtype: DType, value: i128) -> i128 {
    let (min, max) = int_range(dtype);
    (value - min).rem_euclid(max - min + 1) + min
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_as_two_s_complement() {
        assert_eq!(wrap(DType::I8, 128), -128);
        assert_eq!(wrap(DType::U8, -1), 255);
        assert_eq!(wrap(DType::U64, 1 << 64), 0);
        assert_eq!(int_range(DType::I64), (i64::MIN as i128, i64::MAX as i128));
    }

    #[test]
    fn samples_stay_in_their_range() {
        let a = ints(DType::U8, &[1000], (-50, 1000), 3);
        assert!(a.data().iter().all(|x| (0..256).contains(x)));
        assert!(a.data().iter().any(|&x| x > 200));
        let f = floats(DType::F16, &[1000], (-2.0, 2.0), 3);
        assert!(f.data().iter().all(|x| (-2.0..=2.0).contains(x) && round_to(DType::F16, *x) == *x));
    }
}
