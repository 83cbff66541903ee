//! Wrong results that CPU backends have been seen to give, one case per defect.
//!
//! The families of the suite cover all of these defects among many others. The separate cases show that the
//! oracle distinguishes a backend with the defect from a backend without it.

use crate::array::Array;
use crate::bad_input::refused;
use crate::compare::{Tolerance, round_to};
use crate::kind::{Float, Int, Kind};
use crate::release::{self, QuantLevel, QuantParam};
use crate::row::panic_text;
use crate::support::{Stream, expect_float, expect_int, int_range, wrap};
use burn_backend::ops::{AttentionModuleOptions, ConvOptions};
use burn_backend::quantization::{QuantStore, QuantValue};
use burn_backend::tensor::{FloatTensor, IndexingUpdateOp, IntTensor};
use burn_backend::{Backend, DType, IntDType, Scalar, Shape, Slice};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A defect.
pub struct Defect {
    /// Description of the wrong behaviour.
    pub name: &'static str,
    case: fn() -> Result<(), String>,
}

impl Defect {
    /// `Ok` for a backend without the defect.
    ///
    /// # Errors
    /// How the result differs from the oracle's; a panic counts as a difference.
    pub fn check(&self) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(self.case)).unwrap_or_else(|payload| Err(panic_text(&*payload)))
    }
}

/// All defects that every build of a backend can be checked for without risk to the process.
pub fn defects<B: Backend>() -> Vec<Defect> {
    let defect = |name, case| Defect { name, case };
    vec![
        defect("half-precision matrix-vector products accumulate in half precision", half_gemv::<B>),
        defect("integer means wrap before they divide", int_mean_wraps::<B>),
        defect("integer means along an axis wrap before they divide", int_mean_dim_wraps::<B>),
        defect("means of unsigned integers panic", unsigned_mean::<B>),
        defect("scalars above i64::MAX panic", large_scalar::<B>),
        defect("clamp_min of i8 by 300 wraps", narrow_clamp::<B>),
        defect("long sums accumulate one by one", long_sum::<B>),
        defect("long cumulative sums accumulate one by one", long_cumsum::<B>),
        defect("attention turns rows of NaN into zeros", attention_nan::<B>),
        defect("scatter by minimum drops NaN", scatter_min_nan::<B>),
        defect("scatter by maximum drops NaN", scatter_max_nan::<B>),
        defect("argmax of a block-quantized tensor ignores the scales", quantized_argmax::<B>),
        defect("a pointwise convolution takes a weight for other channels", pointwise_channels::<B>),
        defect("integer powers of halves round the exponent", half_powers::<B>),
        defect("unfolding panics where an axis is shorter than a window", no_window::<B>),
    ]
}

/// Matrix products whose batches do not fit. The operands are windows of larger tensors, so a backend that
/// reads too far reads elements of these tensors and no foreign memory.
pub fn mismatched_batches<B: Backend>() -> Defect {
    Defect { name: "matrix products take batches that do not fit", case: batches::<B> }
}

fn float<B: Backend>(array: &Array<f64>, dtype: DType) -> FloatTensor<B> {
    B::float_from_data(<Float as Kind<B>>::encode(array, dtype), &Default::default())
}

fn int<B: Backend>(array: &Array<i128>, dtype: DType) -> IntTensor<B> {
    B::int_from_data(<Int as Kind<B>>::encode(array, dtype), &Default::default())
}

fn half_gemv<B: Backend>() -> Result<(), String> {
    const K: usize = 11008;
    const N: usize = 4;
    let mut stream = Stream::new(1);
    let mut sample =
        |shape: [usize; 2]| Array::from_fn(shape, |_| round_to(DType::F16, 0.05 + 0.1 * stream.unit()));
    let (row, matrix) = (sample([1, K]), sample([K, N]));
    let want =
        Array::from_fn([1, N], |i| (0..K).map(|k| row.at(&[0, k]) * matrix.at(&[k, i[1]])).sum::<f64>());
    let got = B::float_matmul(float::<B>(&row, DType::F16), float::<B>(&matrix, DType::F16));
    // All terms are positive, so the result is its own scale.
    let tolerance = Tolerance::accumulated(DType::F16, K);
    expect_float::<B>(got, DType::F16, &want, tolerance, want.at(&[0, 0]))
}

/// Values near both ends of a dtype, with a mean that fits and a sum that does not.
fn wide(dtype: DType, len: usize) -> Array<i128> {
    let (_, max) = int_range(dtype);
    Array::from_fn([2, len], |index| max - (index[0] * len + index[1]) as i128)
}

fn int_mean_wraps<B: Backend>() -> Result<(), String> {
    for dtype in [DType::I8, DType::I16, DType::I32, DType::I64] {
        let array = wide(dtype, 5);
        let mean = array.data().iter().sum::<i128>() / 10;
        expect_int::<B>(B::int_mean(int::<B>(&array, dtype)), dtype, &Array::new([1], vec![mean]))
            .map_err(|reason| format!("{dtype:?}: {reason}"))?;
    }
    Ok(())
}

fn int_mean_dim_wraps<B: Backend>() -> Result<(), String> {
    for dtype in [DType::I8, DType::I16, DType::I32, DType::I64] {
        let array = wide(dtype, 5);
        let mean = array.fold_axis(1, |line| line.iter().sum::<i128>() / 5);
        expect_int::<B>(B::int_mean_dim(int::<B>(&array, dtype), 1), dtype, &mean)
            .map_err(|reason| format!("{dtype:?}: {reason}"))?;
    }
    Ok(())
}

fn unsigned_mean<B: Backend>() -> Result<(), String> {
    for dtype in [DType::U8, DType::U16, DType::U32, DType::U64] {
        let array = Array::new([4], vec![1, 2, 3, 6]);
        expect_int::<B>(B::int_mean(int::<B>(&array, dtype)), dtype, &Array::new([1], vec![3]))
            .map_err(|reason| format!("{dtype:?}: {reason}"))?;
    }
    Ok(())
}

fn large_scalar<B: Backend>() -> Result<(), String> {
    let scalar = u64::MAX - 1;
    let full = B::int_full(Shape::new([3]), Scalar::UInt(scalar), &Default::default(), IntDType::U64);
    expect_int::<B>(full, DType::U64, &Array::new([3], vec![scalar.into(); 3]))?;
    let array = Array::new([3], vec![0, 1, 1 << 63]);
    let sum = B::int_add_scalar(int::<B>(&array, DType::U64), Scalar::UInt(scalar));
    expect_int::<B>(sum, DType::U64, &array.map(|x| wrap(DType::U64, x + i128::from(scalar))))
}

fn narrow_clamp<B: Backend>() -> Result<(), String> {
    // No i8 reaches the bound; the nearest i8 is the largest.
    let array = Array::new([4], vec![-128, -1, 5, 127]);
    let got = B::int_clamp_min(int::<B>(&array, DType::I8), 300.into());
    expect_int::<B>(got, DType::I8, &array.map(|_| 127))
}

/// So many terms that adding them one by one in f32 loses 2 % by the end.
const MANY: usize = 1 << 22;

fn long_sum<B: Backend>() -> Result<(), String> {
    let array = Array::new([MANY, 1], vec![round_to(DType::F32, 1e-3); MANY]);
    let want: f64 = array.data().iter().sum();
    let got = B::float_sum_dim(float::<B>(&array, DType::F32), 0);
    let tolerance = Tolerance::accumulated(DType::F32, MANY);
    expect_float::<B>(got, DType::F32, &Array::new([1, 1], vec![want]), tolerance, want)
}

fn long_cumsum<B: Backend>() -> Result<(), String> {
    let step = round_to(DType::F32, 1e-3);
    let array = Array::new([MANY], vec![step; MANY]);
    let got = B::float_cumsum(float::<B>(&array, DType::F32), 0);
    let last = B::float_slice(got, &[Slice::new(MANY as isize - 1, None, 1)]);
    let want = step * MANY as f64;
    let tolerance = Tolerance::accumulated(DType::F32, MANY);
    expect_float::<B>(last, DType::F32, &Array::new([1], vec![want]), tolerance, want)
}

fn attention_nan<B: Backend>() -> Result<(), String> {
    // A NaN in the second query makes all its scores NaN, and so its whole row.
    let query =
        Array::from_fn([1, 1, 3, 4], |i| if i[2] == 1 { f64::NAN } else { (i[2] + i[3]) as f64 * 0.1 });
    let key = Array::from_fn([1, 1, 3, 4], |i| (i[2] * 4 + i[3]) as f64 * 0.1);
    let dot = |i: usize, j: usize| {
        (0..4).map(|d| query.at(&[0, 0, i, d]) * key.at(&[0, 0, j, d]) / 2.0).sum::<f64>()
    };
    let want = Array::from_fn([1, 1, 3, 4], |index| {
        let scores: Vec<f64> = (0..3).map(|j| dot(index[2], j).exp()).collect();
        let total: f64 = scores.iter().sum();
        (0..3).map(|j| scores[j] / total * key.at(&[0, 0, j, index[3]])).sum()
    });
    let upload = |array| float::<B>(array, DType::F32);
    let options = AttentionModuleOptions::default();
    let got = B::attention(upload(&query), upload(&key), upload(&key), None, None, options);
    expect_float::<B>(got, DType::F32, &want, Tolerance::ulps(16.0), 0.0)
}

fn scatter_min_nan<B: Backend>() -> Result<(), String> {
    scatter_nan::<B>(IndexingUpdateOp::Min)
}

fn scatter_max_nan<B: Backend>() -> Result<(), String> {
    scatter_nan::<B>(IndexingUpdateOp::Max)
}

fn scatter_nan<B: Backend>(update: IndexingUpdateOp) -> Result<(), String> {
    // A NaN on either side of the comparison stays NaN.
    let data = Array::new([3], vec![1.0, f64::NAN, 5.0]);
    let values = Array::new([3], vec![f64::NAN, 2.0, 5.0]);
    let indices = Array::new([3, 1], vec![0, 1, 2]);
    let got = B::float_scatter_nd(
        float::<B>(&data, DType::F32),
        int::<B>(&indices, DType::I64),
        float::<B>(&values, DType::F32),
        update,
    );
    let want = Array::new([3], vec![f64::NAN, f64::NAN, 5.0]);
    expect_float::<B>(got, DType::F32, &want, Tolerance::EXACT, 0.0)
}

fn quantized_argmax<B: Backend>() -> Result<(), String> {
    // The first block holds the larger code, the second the larger number.
    let array = Array::new([1, 8], vec![0.1, 0.3, 1.0, -0.2, 100.0, 10.0, 90.0, -128.0]);
    let level = QuantLevel::block([4]);
    let scheme = release::scheme(QuantValue::Q8F, QuantParam::F32, QuantStore::Native, level);
    let quantized = B::quantize_dynamic(float::<B>(&array, DType::F32), &scheme);
    let got = B::q_argmax(quantized, 1, IntDType::I32);
    expect_int::<B>(got, DType::I32, &Array::new([1, 1], vec![4]))
}

fn pointwise_channels<B: Backend>() -> Result<(), String> {
    // Fewer channels than the input has, so that a backend without the check reads too little, not too much.
    let upload = |shape: &[usize]| float::<B>(&Array::from_fn(shape, |_| 1.0), DType::F32);
    let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
    refused("conv", || drop(B::conv2d(upload(&[1, 4, 3, 3]), upload(&[2, 3, 1, 1]), None, options)))
}

fn half_powers<B: Backend>() -> Result<(), String> {
    // bf16 has no 257, f16 no 2,049; their neighbours are even, and so are the powers of -1.
    for (dtype, exponent) in
        [(DType::BF16, 257), (DType::F16, 2049), (DType::BF16, -1001), (DType::F16, 4095)]
    {
        let base = Array::new([2, 1], vec![-1.0, 1.0]);
        let got = B::float_powi(
            float::<B>(&base, dtype),
            int::<B>(&Array::new([3], vec![exponent, 2, 3]), DType::I32),
        );
        let want = Array::new([2, 3], vec![-1.0, 1.0, -1.0, 1.0, 1.0, 1.0]);
        expect_float::<B>(got, dtype, &want, Tolerance::EXACT, 0.0)
            .map_err(|reason| format!("{dtype:?} to {exponent}: {reason}"))?;
    }
    Ok(())
}

fn no_window<B: Backend>() -> Result<(), String> {
    let zeros = float::<B>(&Array::from_fn([2, 5], |_| 0.0), DType::F32);
    let want = Array::new([2, 0, 6], Vec::new());
    expect_float::<B>(B::float_unfold(zeros, 1, 6, 1), DType::F32, &want, Tolerance::EXACT, 0.0)
}

fn batches<B: Backend>() -> Result<(), String> {
    let window = |shape: &[usize], batch: isize| {
        let whole = float::<B>(&Array::from_fn(shape, |_| 1.0), DType::F32);
        B::float_slice(whole, &[Slice::new(0, Some(batch), 1)])
    };
    refused("matmul", || drop(B::float_matmul(window(&[8, 3, 4], 2), window(&[8, 4, 5], 3))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_counts_as_a_difference() {
        let defect = Defect { name: "panics", case: || panic!("oh") };
        assert_eq!(defect.check(), Err("panicked: oh".into()));
    }
}
