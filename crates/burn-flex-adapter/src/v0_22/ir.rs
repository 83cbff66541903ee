//! Handles for the layers that pass tensors by id: remote, router, fusion.

use super::{Flex, FlexQTensor, FlexTensor};
use burn_ir_22::{BackendIr, HandleKind, TensorHandle};

impl BackendIr for Flex {
    type Handle = HandleKind<Self>;

    handles! {
        Float, FlexTensor, float_tensor, float_tensor_handle;
        Int, FlexTensor, int_tensor, int_tensor_handle;
        Bool, FlexTensor, bool_tensor, bool_tensor_handle;
        Quantized, FlexQTensor, quantized_tensor, quantized_tensor_handle;
    }
}
