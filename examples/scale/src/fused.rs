//! The operation under fusion: it is queued, and runs when its result is needed.

use crate::Scale;
use burn_backend::TensorMetadata;
use burn_backend::tensor::FloatTensor;
use burn_fusion::stream::{Operation, OperationStreams};
use burn_fusion::{Fusion, FusionBackend};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};
use std::marker::PhantomData;

/// The operation in the queue.
#[derive(Debug)]
struct Queued<B> {
    ir: CustomOpIr,
    alpha: f32,
    backend: PhantomData<B>,
}

impl<B: FusionBackend + Scale> Operation<B::FusionRuntime> for Queued<B> {
    fn execute(&self, handles: &mut HandleContainer<B::Handle>) {
        let ([input], [output]) = self.ir.as_fixed();
        let scaled = B::scale(handles.get_float_tensor::<B>(input), self.alpha);
        handles.register_float_tensor::<B>(&output.id, scaled);
    }
}

impl<B: FusionBackend + Scale> Scale for Fusion<B> {
    fn scale(tensor: FloatTensor<Self>, alpha: f32) -> FloatTensor<Self> {
        let client = tensor.client.clone();
        let streams = OperationStreams::with_inputs([&tensor]);
        let output = TensorIr::uninit(client.create_empty_handle(), tensor.shape(), tensor.dtype());
        let ir = CustomOpIr::new("scale", &[tensor.into_ir()], &[output]);
        let queued = Queued::<B> { ir: ir.clone(), alpha, backend: PhantomData };
        let mut outputs = client.register(streams, OperationIr::Custom(ir), queued);
        outputs.pop().expect("one output was declared")
    }
}
