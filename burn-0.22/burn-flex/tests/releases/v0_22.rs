//! Burn 0.22.

use ::{burn_autodiff, burn_backend};
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive, ScaleDtype};
use burn_backend::tensor::IndexingUpdateOp::Add;
use burn_flex_adapter::v0_22 as adapter;
use burn_flex_adapter::v0_22::{Flex, FlexTensor};

pub fn seed(seed: u64) {
    <Flex as burn_backend::Backend>::seed(&adapter::FlexDevice, seed)
}

fn scatter(dim: usize, tensor: FlexTensor, indices: FlexTensor, value: FlexTensor) -> FlexTensor {
    <Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_scatter(dim, tensor, indices, value, Add)
}

fn select_update(tensor: FlexTensor, dim: usize, indices: FlexTensor, value: FlexTensor) -> FlexTensor {
    <Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_select_assign(tensor, dim, indices, value, Add)
}

/// Indices have the dtype that Burn 0.21's trait leaves to the device.
const INDICES: burn_backend::IntDType = burn_backend::IntDType::I32;

fn max_pool1d_with_indices(x: FlexTensor) -> (FlexTensor, FlexTensor) {
    let got =
        <Flex as burn_backend::ops::ModuleOps<Flex>>::max_pool1d_with_indices(x, 3, 2, 1, 1, false, INDICES);
    (got.output, got.indices)
}

fn max_pool2d_with_indices(x: FlexTensor) -> (FlexTensor, FlexTensor) {
    let got = <Flex as burn_backend::ops::ModuleOps<Flex>>::max_pool2d_with_indices(
        x,
        [3, 2],
        [2, 2],
        [1, 0],
        [1, 1],
        false,
        INDICES,
    );
    (got.output, got.indices)
}

fn parameters(scales: FlexTensor) -> QuantizationParametersPrimitive<Flex> {
    QuantizationParametersPrimitive { scales, global: None }
}

/// The scheme with blocks of this size along the last axis.
fn blocks(scheme: QuantScheme, size: u8) -> QuantScheme {
    scheme.per_block([size], ScaleDtype::F32)
}

#[path = "calls.rs"]
pub mod calls;
