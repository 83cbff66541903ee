//! Burn 0.21.

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

#[path = "calls.rs"]
pub mod calls;
