//! Burn 0.22.

use ::burn_backend;
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

#[path = "calls.rs"]
pub mod calls;
