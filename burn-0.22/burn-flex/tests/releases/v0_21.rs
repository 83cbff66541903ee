//! Burn 0.21.

use burn_autodiff_21 as burn_autodiff;
use burn_backend::quantization::{QuantLevel, QuantScheme, QuantizationParametersPrimitive};
use burn_backend_21 as burn_backend;
use burn_flex_adapter::v0_21 as adapter;
use burn_flex_adapter::v0_21::FlexTensor;

// The defaults of the type's parameters count in types only.
type Flex = adapter::Flex;

pub fn seed(seed: u64) {
    <Flex as burn_backend::Backend>::seed(&adapter::FlexDevice, seed)
}

fn scatter(dim: usize, tensor: FlexTensor, indices: FlexTensor, value: FlexTensor) -> FlexTensor {
    <Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_scatter_add(dim, tensor, indices, value)
}

fn select_update(tensor: FlexTensor, dim: usize, indices: FlexTensor, value: FlexTensor) -> FlexTensor {
    <Flex as burn_backend::ops::FloatTensorOps<Flex>>::float_select_add(tensor, dim, indices, value)
}

fn max_pool1d_with_indices(x: FlexTensor) -> (FlexTensor, FlexTensor) {
    let got = <Flex as burn_backend::ops::ModuleOps<Flex>>::max_pool1d_with_indices(x, 3, 2, 1, 1, false);
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
    );
    (got.output, got.indices)
}

fn parameters(scales: FlexTensor) -> QuantizationParametersPrimitive<Flex> {
    QuantizationParametersPrimitive { scales }
}

/// The scheme with blocks of this size along the last axis.
fn blocks(scheme: QuantScheme, size: u8) -> QuantScheme {
    scheme.with_level(QuantLevel::block([size]))
}

#[path = "calls.rs"]
pub mod calls;
