//! Handles for the layers that pass tensors by id: remote, router, fusion.

use super::backend::{Flex, FlexFloat, FlexInt};
use super::{FlexQTensor, FlexTensor};
use burn_ir::{BackendIr, HandleKind, TensorHandle};

/// A handle is the tensor itself, so passing a handle moves no data. The kind of the tensor is checked when
/// the handle comes back.
macro_rules! handles {
    ($($kind:ident, $tensor:ty, $from:ident, $into:ident;)*) => {$(
        fn $from(handle: TensorHandle<Self::Handle>) -> $tensor {
            match handle.handle {
                HandleKind::$kind(tensor) => tensor,
                other => panic!("{}: the handle holds a {} tensor", stringify!($from), other.name()),
            }
        }

        fn $into(tensor: $tensor) -> Self::Handle {
            HandleKind::$kind(tensor)
        }
    )*};
}

impl<F: FlexFloat, I: FlexInt> BackendIr for Flex<F, I> {
    type Handle = HandleKind<Self>;

    handles! {
        Float, FlexTensor, float_tensor, float_tensor_handle;
        Int, FlexTensor, int_tensor, int_tensor_handle;
        Bool, FlexTensor, bool_tensor, bool_tensor_handle;
        Quantized, FlexQTensor, quantized_tensor, quantized_tensor_handle;
    }
}
