//! Other default element types. A test binary of its own: Burn fixes the defaults of a device once per
//! process.
#![allow(missing_docs)]

use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_tensor::backend::Backend;
use burn_tensor::{DType, Distribution, Int, Tensor};

#[test]
fn tensors_are_created_in_the_backends_element_types() {
    type B = Flex<f64, i16>;
    let device = Default::default();
    assert_eq!(Tensor::<B, 1>::zeros([3], &device).dtype(), DType::F64);
    assert_eq!(
        Tensor::<B, 1>::from_data([0.1, 0.2], &device).into_data().to_vec::<f64>().unwrap(),
        [0.1, 0.2]
    );
    assert_eq!(Tensor::<B, 1>::random([3], Distribution::Default, &device).dtype(), DType::F64);
    assert_eq!(Tensor::<B, 1, Int>::arange(0..3, &device).dtype(), DType::I16);
    assert_eq!(Tensor::<B, 1>::from_data([3.0, 9.0], &device).argmax(0).dtype(), DType::I16);
    let x = Tensor::<Autodiff<B>, 1>::from_data([0.1, 0.2], &device).require_grad();
    let grads = x.clone().exp().sum().backward();
    assert_eq!(x.grad(&grads).unwrap().dtype(), DType::F64);
    assert_eq!(B::name(&device), "flex");
    assert_eq!(B::device_count(0), 1);
}

#[test]
fn pooling_indices_outgrow_a_narrow_default() {
    type B = Flex<f64, i16>;
    let x = Tensor::<B, 4>::zeros([1, 1, 300, 300], &Default::default());
    let (_, indices) = burn_tensor::module::max_pool2d_with_indices(x, [2, 2], [2, 2], [0, 0], [1, 1], false);
    assert_eq!(indices.dtype(), DType::I64);
    assert_eq!(indices.max().into_data().to_vec::<i64>().unwrap(), [298 * 300 + 298]);
}
