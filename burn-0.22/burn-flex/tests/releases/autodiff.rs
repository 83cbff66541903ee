//! Gradients of a small network through Burn's autodiff of the release, kept and recomputed.

use super::super::burn_autodiff::Autodiff;
use super::super::burn_autodiff::checkpoint::strategy::BalancedCheckpointing;
use super::super::burn_backend::AutodiffBackend;
use super::super::burn_backend::ops::{AttentionModuleOptions, ConvOptions};
use super::*;
use crate::Returned;

/// Calls of the network, whose gradients are computed with and without recomputation.
pub fn log(log: &mut Log) {
    for (dtype, _) in FLOATS {
        record(log, format!("autodiff, {}", dtype.name()), || network::<Autodiff<Flex>>(dtype));
        record(log, format!("autodiff with checkpoints, {}", dtype.name()), || {
            network::<Autodiff<Flex, BalancedCheckpointing>>(dtype)
        });
    }
    let of = |method: &str| -> Vec<Returned> {
        log.iter()
            .filter(|(name, _)| name.starts_with(method))
            .map(|(_, returned)| returned.clone())
            .collect()
    };
    let (kept, again) = (of("autodiff, "), of("autodiff with"));
    assert!(!kept.is_empty() && kept == again, "recomputed gradients differ");
}

/// The loss of a convolution, pooling, attention, a norm and a linear layer, and the gradients of their
/// operands.
fn network<A>(dtype: DType) -> String
where
    A: AutodiffBackend<InnerBackend = Flex>,
{
    let leaf = |shape: &[usize]| A::float_set_require_grad(A::from_inner(tensor(shape, dtype)), true);
    let leaves =
        [leaf(&[2, 3, 8, 8]), leaf(&[4, 3, 3, 3]), leaf(&[4]), leaf(&[16, 16]), leaf(&[16]), leaf(&[16, 5])];
    let [x, weight, bias, square, gamma, last] = leaves.clone();
    let y = A::conv2d(x, weight, Some(bias), ConvOptions::new([1; 2], [1; 2], [1; 2], 1));
    let y = A::max_pool2d(A::relu(y), [2, 2], [2, 2], [0, 0], [1, 1], false);
    let y = A::float_reshape(y, Shape::new([2, 1, 4, 16]));
    let heads = A::float_matmul(A::float_reshape(y, Shape::new([8, 16])), square);
    let heads = A::float_reshape(heads, Shape::new([2, 1, 4, 16]));
    let y = A::attention(heads.clone(), heads.clone(), heads, None, None, AttentionModuleOptions::default());
    let y = A::layer_norm(A::float_reshape(y, Shape::new([8, 16])), gamma, None, 1e-5);
    let scores = A::log_softmax(A::float_matmul(A::gelu(y), last), 1);
    let loss = A::float_neg(A::float_mean(scores));
    let gradients = A::backward(loss.clone());
    let of_leaves = leaves.iter().map(|leaf| A::grad(leaf, &gradients).expect("a gradient"));
    texts(std::iter::once(A::inner(loss)).chain(of_leaves))
}
