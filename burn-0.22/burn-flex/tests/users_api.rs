//! Burn's user API on `Device::flex()`, which reaches this crate through burn-dispatch.

use burn_backend::{Backend, TensorMetadata};
use burn_flex::{Flex, FlexDevice};
use burn_tensor::module::{adaptive_avg_pool3d, conv2d, interpolate, max_pool2d_with_indices};
use burn_tensor::ops::{ConvOptions, InterpolateMode, InterpolateOptions, MaxPoolOptions};
use burn_tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

fn vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[test]
fn the_device_computes() {
    let device = Device::flex();
    let x = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0]], &device);
    assert_eq!(vec(x.clone().matmul(x.transpose()).sum()), [52.0]);
}

#[test]
fn gradients() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_data([[1.0, -2.0], [3.0, 0.5]], &device).require_grad();
    let gradients = (x.clone() * x.clone()).sum().backward();
    assert_eq!(vec(x.grad(&gradients).expect("a gradient")), [2.0, -4.0, 6.0, 1.0]);
}

#[test]
fn convolutions_with_a_padding_for_each_end_and_their_gradients() {
    let device = Device::flex().autodiff();
    let x = Tensor::<1>::from_data([1.0, 2.0, 3.0, 4.0], &device).reshape([1, 1, 1, 4]).require_grad();
    let weight = Tensor::<1>::from_data([1.0, 10.0, 100.0], &device).reshape([1, 1, 1, 3]).require_grad();
    // Zeros: one before and two after the row.
    let options = ConvOptions::new_with_padding([1, 1], [(0, 0), (1, 2)], [1, 1], 1);
    let y = conv2d(x.clone(), weight.clone(), None, options);
    assert_eq!(vec(y.clone()), [210.0, 321.0, 432.0, 43.0, 4.0]);
    let scale = Tensor::<1>::from_data([1.0, 2.0, 3.0, 4.0, 5.0], &device).reshape([1, 1, 1, 5]);
    let gradients = (y * scale).sum().backward();
    // x[i] meets weight[k] in output i + 1 - k, which is scaled by one more than its number.
    let outputs = |i: usize, k: usize| (i + 1).checked_sub(k).map_or(0, |output| output + 1);
    let weights = [1, 10, 100];
    let by_x = (0..4).map(|i| (0..3).map(|k| weights[k] * outputs(i, k)).sum::<usize>() as f32);
    assert_eq!(vec(x.grad(&gradients).expect("a gradient")), by_x.collect::<Vec<_>>());
    let by_weight = (0..3).map(|k| (0..4).map(|i| (i + 1) * outputs(i, k)).sum::<usize>() as f32);
    assert_eq!(vec(weight.grad(&gradients).expect("a gradient")), by_weight.collect::<Vec<_>>());
}

#[test]
fn operations_that_are_new_in_this_release() {
    let device = Device::flex();
    let x = Tensor::<1>::from_data([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &device);
    let volume = x.clone().reshape([1, 1, 2, 2, 2]);
    assert_eq!(vec(adaptive_avg_pool3d(volume, [1, 2, 1])), [3.5, 5.5]);
    let picture = x.clone().reshape([1, 1, 1, 8]);
    let options = InterpolateOptions::new(InterpolateMode::NearestExact).with_output_size([1, 3]);
    assert_eq!(vec(interpolate(picture.clone(), options)), [2.0, 5.0, 7.0]);
    let indices = Tensor::<1, Int>::from_data([0, 2, 2], &device);
    let values = Tensor::<1>::from_data([10.0, 20.0, 30.0], &device);
    for (update, expected) in [
        (IndexingUpdateOp::Add, [11.0, 2.0, 53.0]),
        (IndexingUpdateOp::Mul, [10.0, 2.0, 1800.0]),
        (IndexingUpdateOp::Max, [10.0, 2.0, 30.0]),
        (IndexingUpdateOp::Min, [1.0, 2.0, 3.0]),
        (IndexingUpdateOp::Assign, [10.0, 2.0, 30.0]),
    ] {
        let x = Tensor::<1>::from_data([1.0, 2.0, 3.0], &device);
        let got = x.clone().scatter(0, indices.clone(), values.clone(), update);
        assert_eq!(vec(got), expected, "{update:?}");
        assert_eq!(vec(x.select_assign(0, indices.clone(), values.clone(), update)), expected, "{update:?}");
    }
    let picture = x.reshape([1, 1, 2, 4]);
    let (_, indices) = max_pool2d_with_indices(picture, MaxPoolOptions::new([2, 2]));
    assert_eq!(indices.into_data().iter::<i64>().collect::<Vec<_>>(), [5, 7]);
}

/// Data that came in as a vector goes out at the same address, and memory of the engine is handed out as it
/// is.
#[test]
fn data_is_not_copied() {
    let data = TensorData::new(vec![1.0f32; 5000], [50, 100]);
    let address = data.as_slice::<f32>().expect("f32").as_ptr();
    let tensor = <Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_from_data(data, &FlexDevice);
    assert!(tensor.can_mut());
    let shared = tensor.clone();
    assert!(!tensor.can_mut());
    drop(shared);
    let stored = tensor.as_core().storage::<f32>().as_ptr();
    let data =
        burn_backend::read_sync(<Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_into_data(tensor))
            .expect("data");
    assert_eq!((data.as_slice::<f32>().expect("f32").as_ptr(), stored), (address, address));

    let tensor = flex_core::Tensor::full([5000], 2.0, flex_core::DType::F32).expect("memory");
    let address = tensor.storage::<f32>().as_ptr();
    let data = burn_backend::read_sync(<Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_into_data(
        tensor.into(),
    ))
    .expect("data");
    assert_eq!(data.as_slice::<f32>().expect("f32").as_ptr(), address);
}

#[test]
fn what_the_backend_says_of_itself() {
    assert_eq!(Flex::name(&FlexDevice), "flex");
    assert_eq!((format!("{FlexDevice}"), format!("{FlexDevice:?}")), ("Cpu".into(), "Cpu".into()));
    assert!(Flex::flush(&FlexDevice).is_ok() && Flex::sync(&FlexDevice).is_ok());
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8] {
        assert!(Flex::supports_dtype(&FlexDevice, dtype), "{dtype:?}");
    }
    assert!(!Flex::supports_dtype(&FlexDevice, DType::Flex32));
}

#[cfg(feature = "fft")]
#[test]
fn transforms_by_name() {
    use burn_flex::ops::fft::{irfft_f32, rfft_f32};
    let signal = flex_core::Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [4]).expect("a tensor");
    let (re, im) = rfft_f32(signal.into(), 0, None);
    assert_eq!(
        (re.as_core().to_vec::<f32>(), im.as_core().to_vec::<f32>()),
        (vec![10.0, -2.0, -2.0], vec![0.0, 2.0, 0.0])
    );
    assert_eq!(irfft_f32(re, im, 0, None).as_core().to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
}
