//! Handles for the layers that pass tensors by id: remote, router, fusion.

use super::backend::{Flex, FlexFloat, FlexInt};
use super::{FlexQTensor, FlexTensor};
use burn_ir_21::{BackendIr, HandleKind, TensorHandle};

impl<F: FlexFloat, I: FlexInt> BackendIr for Flex<F, I> {
    type Handle = HandleKind<Self>;

    handles! {
        Float, FlexTensor, float_tensor, float_tensor_handle;
        Int, FlexTensor, int_tensor, int_tensor_handle;
        Bool, FlexTensor, bool_tensor, bool_tensor_handle;
        Quantized, FlexQTensor, quantized_tensor, quantized_tensor_handle;
    }
}
