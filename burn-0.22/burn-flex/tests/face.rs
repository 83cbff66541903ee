//! Upstream's public face as Burn's crates and users' kernels call it: by methods, without Burn's traits in
//! scope.

use burn_flex::{FlexTensor, Layout};
use burn_tensor::{DType, Shape, TensorData};

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

#[test]
fn kernels_of_users_read_write_and_view() {
    let data = TensorData::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let mut tensor = FlexTensor::from_data(data);
    assert_eq!(tensor.storage::<f32>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!((tensor.bytes().len(), tensor.as_slice::<f64>()), (24, None));
    tensor.try_storage_mut::<f32>().expect("no other owner")[0] = 7.0;
    let rows = |tensor: &FlexTensor| tensor.to_contiguous().as_slice::<f32>().expect("f32").to_vec();
    let turned = tensor.transpose(0, 1);
    assert!(turned.as_slice::<f32>().is_none() && tensor.try_storage_mut::<f32>().is_none());
    assert_eq!(rows(&turned), [7.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(rows(&tensor.permute(&[1, 0])), rows(&turned));
    assert_eq!(rows(&tensor.narrow(1, 1, 2)), [2.0, 3.0, 5.0, 6.0]);
    assert_eq!(tensor.reshape(Shape::new([6])).layout().shape().as_slice(), [6]);
    for zeros in
        [FlexTensor::zeros(Shape::new([3]), DType::I16), FlexTensor::empty(Shape::new([3]), DType::I16)]
    {
        assert_eq!(zeros.as_slice::<i16>(), Some(&[0i16; 3][..]));
    }
}

/// Kernels read `storage` and `bytes` by length after `to_contiguous`.
#[test]
fn a_contiguous_tensor_is_alone_in_its_buffer() {
    let numbers: Vec<f32> = (0..10).map(|i| i as f32).collect();
    let tensor = FlexTensor::from_data(TensorData::new(numbers.clone(), [10]));
    let table = tensor.reshape(Shape::new([5, 2]));
    let views = [
        (tensor.narrow(0, 5, 5), &numbers[5..]),
        (tensor.narrow(0, 0, 4), &numbers[..4]),
        (tensor.narrow(0, 3, 0), &[]),
        (table.narrow(0, 1, 2), &numbers[2..6]),
        (table.narrow(0, 0, 3), &numbers[..6]),
    ];
    for (view, want) in views {
        assert!(view.is_contiguous());
        let alone = view.to_contiguous();
        assert_eq!(alone.layout().shape(), view.layout().shape());
        assert_eq!((alone.layout().offset(), alone.storage::<f32>()), (0, want));
        assert_eq!(alone.bytes().len(), size_of_val(want));
    }
    // What fills its buffer is not copied.
    assert_eq!(table.to_contiguous().bytes().as_ptr(), tensor.bytes().as_ptr());
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
