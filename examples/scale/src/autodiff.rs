//! The derivative of `x * alpha` is `alpha`: the gradient is scaled as well.

use crate::Scale;
use burn_autodiff::Autodiff;
use burn_autodiff::NodeId;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::retro_forward::RetroForward;
use burn_autodiff::checkpoint::state::BackwardStates;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn_backend::tensor::FloatTensor;
use std::marker::PhantomData;

/// The backward step.
#[derive(Debug)]
struct ScaleBackward;

impl<B: Scale> Backward<B, 1> for ScaleBackward {
    type State = f32;

    fn backward(self, ops: Ops<f32, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let alpha = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::scale(grad, alpha));
    }
}

/// Repeats the forward step for checkpointing, which is cheaper than keeping its result.
#[derive(Clone, Debug)]
struct ScaleAgain<B> {
    input: NodeId,
    alpha: f32,
    backend: PhantomData<B>,
}

impl<B: Scale> RetroForward for ScaleAgain<B> {
    fn forward(&self, states: &mut BackwardStates, output: NodeId) {
        let input = states.get_state::<B::FloatTensorPrimitive>(&self.input);
        states.save(output, B::scale(input, self.alpha));
    }
}

impl<B: Scale, C: CheckpointStrategy> Scale for Autodiff<B, C> {
    fn scale(tensor: FloatTensor<Self>, alpha: f32) -> FloatTensor<Self> {
        let again = ScaleAgain::<B> { input: tensor.node.id, alpha, backend: PhantomData };
        let step = ScaleBackward
            .prepare::<C>([tensor.node.clone()])
            .memory_bound()
            .retro_forward(again)
            .parents([&tensor])
            .stateful();
        let output = B::scale(tensor.primitive, alpha);
        match step {
            OpsKind::Tracked(step) => step.finish(alpha, output),
            OpsKind::UnTracked(step) => step.finish(output),
        }
    }
}
