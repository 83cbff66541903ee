//! Helpers of all families: sampled inputs, and calls over layouts on shared and unique buffers.

use crate::array::Array;
use crate::compare::{Tolerance, compare_exact, compare_floats, round_to};
use crate::kind::{Bool, Float, Int, Kind};
use crate::layout::{Laid, Layout, lay_out};
use crate::row::Context;
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, TensorMetadata};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Lock that a test holds while it seeds the backend and relies on the numbers that follow: the generator
/// belongs to the process, and tests run at the same time.
pub fn random_lock() -> MutexGuard<'static, ()> {
    static RANDOM: Mutex<()> = Mutex::new(());
    // The lock protects no data that a panic could leave inconsistent.
    RANDOM.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The elements of a float tensor, as the oracle's array.
///
/// # Errors
/// Fails if the tensor does not have this dtype.
pub fn read_float<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> Result<Array<f64>, String> {
    check_dtype(tensor.dtype(), dtype)?;
    Ok(<Float as Kind<B>>::decode(&<Float as Kind<B>>::into_data(tensor)))
}

/// The elements of an integer tensor, as the oracle's array.
///
/// # Errors
/// Fails if the tensor does not have this dtype.
pub fn read_int<B: Backend>(tensor: IntTensor<B>, dtype: DType) -> Result<Array<i128>, String> {
    check_dtype(tensor.dtype(), dtype)?;
    Ok(<Int as Kind<B>>::decode(&<Int as Kind<B>>::into_data(tensor)))
}

/// The elements of a boolean tensor, as the oracle's array.
///
/// # Errors
/// Fails if the tensor does not have this dtype.
pub fn read_bool<B: Backend>(tensor: BoolTensor<B>, dtype: DType) -> Result<Array<bool>, String> {
    check_dtype(tensor.dtype(), dtype)?;
    Ok(<Bool as Kind<B>>::decode(&<Bool as Kind<B>>::into_data(tensor)))
}

/// Records the dtype of a result and compares it with the expected one.
///
/// # Errors
/// Fails if the dtypes differ.
pub fn check_dtype(got: DType, want: DType) -> Result<(), String> {
    crate::trace::result(got);
    if got == want { Ok(()) } else { Err(format!("got dtype {got:?}, expected {want:?}")) }
}

/// Compares a float tensor with its expectation; `scale` is explained at [`Tolerance`].
///
/// # Errors
/// The first mismatch.
pub fn expect_float<B: Backend>(
    tensor: FloatTensor<B>,
    dtype: DType,
    want: &Array<f64>,
    tolerance: Tolerance,
    scale: f64,
) -> Result<(), String> {
    compare_floats(dtype, &read_float::<B>(tensor, dtype)?, want, tolerance, scale)
}

/// Compares an integer tensor with its expectation.
///
/// # Errors
/// The first mismatch.
pub fn expect_int<B: Backend>(tensor: IntTensor<B>, dtype: DType, want: &Array<i128>) -> Result<(), String> {
    compare_exact(&read_int::<B>(tensor, dtype)?, want)
}

/// Compares a boolean tensor with its expectation.
///
/// # Errors
/// The first mismatch.
pub fn expect_bool<B: Backend>(
    tensor: BoolTensor<B>,
    dtype: DType,
    want: &Array<bool>,
) -> Result<(), String> {
    compare_exact(&read_bool::<B>(tensor, dtype)?, want)
}

/// Uploads an array, contiguous and unique.
pub fn upload<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    array: &Array<K::Value>,
    dtype: DType,
) -> K::Tensor {
    crate::trace::operand(dtype, Layout::Contiguous);
    K::from_data(K::encode(array, dtype), &context.device)
}

/// Runs a call on an array in every layout: once with the original held elsewhere (and checked to be
/// unchanged afterwards) and once as the only owner. The call gets the tensor and its contents.
pub fn over_layouts<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    dtype: DType,
    array: &Array<K::Value>,
    run: impl Fn(K::Tensor, &Array<K::Value>) -> Result<(), String>,
) {
    for &layout in &context.capabilities.layouts {
        let laid = || lay_out::<B, K>(array, dtype, layout, &context.device);
        let what = |owner| move || format!("{dtype:?} {:?} {layout:?} {owner}", array.shape());
        let mut present = false;
        context.attempt_if(what("shared"), || {
            let Some(laid) = laid() else { return Ok(false) };
            present = true;
            let (tensor, content, witness) = laid.share();
            run(tensor, &content)?;
            witness.verify().map(|()| true)
        });
        if present {
            context.attempt(what("unique"), || {
                let (tensor, content) = laid().expect("the layout exists, as above").unique();
                run(tensor, &content)
            });
        }
    }
}

/// [`over_layouts`] for two operands: every layout of one operand with the other contiguous, and both in the
/// same layout.
pub fn over_layouts2<B: Backend, K: Kind<B>, L: Kind<B>>(
    context: &Context<'_, B>,
    (a_dtype, a): (DType, &Array<K::Value>),
    (b_dtype, b): (DType, &Array<L::Value>),
    run: impl Fn(K::Tensor, L::Tensor, &Array<K::Value>, &Array<L::Value>) -> Result<(), String>,
) {
    let pairs = context.capabilities.layouts.iter().flat_map(|&l| {
        let contiguous = Layout::Contiguous;
        [(l, contiguous), (contiguous, l), (l, l)].into_iter().take(if l == contiguous { 1 } else { 3 })
    });
    for (a_layout, b_layout) in pairs {
        let laid = || -> Option<(Laid<B, K>, Laid<B, L>)> {
            Some((
                lay_out(a, a_dtype, a_layout, &context.device)?,
                lay_out(b, b_dtype, b_layout, &context.device)?,
            ))
        };
        let what = |owner| {
            move || {
                format!(
                    "{a_dtype:?} {:?} {a_layout:?} and {b_dtype:?} {:?} {b_layout:?} {owner}",
                    a.shape(),
                    b.shape()
                )
            }
        };
        let mut present = false;
        context.attempt_if(what("shared"), || {
            let Some((a, b)) = laid() else { return Ok(false) };
            present = true;
            let (a, a_content, a_witness) = a.share();
            let (b, b_content, b_witness) = b.share();
            run(a, b, &a_content, &b_content)?;
            a_witness.verify()?;
            b_witness.verify().map(|()| true)
        });
        if present {
            context.attempt(what("unique"), || {
                let (a, b) = laid().expect("the layouts exist, as above");
                let ((a, a_content), (b, b_content)) = (a.unique(), b.unique());
                run(a, b, &a_content, &b_content)
            });
        }
    }
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
