//! Upstream's public face as Burn's crates and users' kernels call it: by methods, without Burn's traits in
//! scope.

use burn_flex::{FlexTensor, Layout};
use burn_tensor::{DType, TensorData};

#[test]
fn tensors_answer_without_traits_in_scope() {
    let data = TensorData::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let tensor = FlexTensor::from_data(data.clone());
    assert_eq!(tensor.dtype(), DType::F32);
    let layout: &Layout = tensor.layout();
    assert_eq!(layout.shape().as_slice(), [2, 3]);
    assert!(tensor.is_contiguous() && tensor.is_unique());
    let shared = tensor.clone();
    assert!(!tensor.is_unique());
    assert_eq!(tensor.into_data(), data);
    assert_eq!(shared.into_data(), data);
}

#[cfg(feature = "fft")]
#[test]
fn transforms_are_functions_of_each_dtype() {
    use burn_flex::ops::fft::{irfft_bf16, irfft_f16, irfft_f32, irfft_f64};
    use burn_flex::ops::fft::{rfft_bf16, rfft_f16, rfft_f32, rfft_f64};

    type Forward = fn(FlexTensor, usize, Option<usize>) -> (FlexTensor, FlexTensor);
    type Back = fn(FlexTensor, FlexTensor, usize, Option<usize>) -> FlexTensor;
    let rows: [(DType, Forward, Back); 4] = [
        (DType::F32, rfft_f32, irfft_f32),
        (DType::F64, rfft_f64, irfft_f64),
        (DType::F16, rfft_f16, irfft_f16),
        (DType::BF16, rfft_bf16, irfft_bf16),
    ];
    for (dtype, forward, back) in rows {
        let data = TensorData::from([1.0f32, 0.0, -1.0, 0.0]).convert_dtype(dtype);
        let (re, im) = forward(FlexTensor::from_data(data.clone()), 0, None);
        assert_eq!((re.dtype(), im.dtype()), (dtype, dtype));
        assert_eq!(re.clone().into_data().iter::<f32>().collect::<Vec<_>>(), [0.0, 2.0, 0.0], "{dtype:?}");
        assert_eq!(back(re, im, 0, Some(4)).into_data(), data, "{dtype:?}");
    }
}
