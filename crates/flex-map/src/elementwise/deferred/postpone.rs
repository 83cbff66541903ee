//! Results that go on waiting after a chain has computed them.
//!
//! A chain stores its results that tensors outside of it hold. Gradients and norms hold many that are a
//! subtraction or a quotient away from a tensor that is in memory anyway, such as `x - mean`. To compute such
//! a result again costs less than to write it once and read it. So it is *postponed*: the chain that meets it
//! on the way computes it in its registers, and its node gets the call back. The next reader may be a chain
//! too.

use super::node::{Chain, Todo, provider};
use super::pass::LEAST_ROW;
use super::{Extent, is_in_order, pays};
use crate::Tensor;

/// A result is stored by a chain after others postponed it this many times. Readers that are no chains store
/// it at once.
const MOST_TIMES: u8 = 3;

/// Most operations that compute a postponed result from tensors that are in memory.
const MOST_STEPS: usize = 3;

/// Whether a result has enough elements: as many as a light operation has to move bytes to wait, 512 Ki. That
/// is 2 MiB. In unit tests every result is large enough, since their chains are small.
///
/// Times with postponed results, divided by times without, on one and two threads of Zen 3 (medians of nine
/// runs): a layer norm with its gradients 1.03 and 1.04 with 2 MiB, 0.99 and 0.98 with 16 MiB; a softmax 1.01
/// and 1.04, 0.89 and 0.90; a batch norm 0.96 and 1.03 with 1.6 MB, 0.91 and 0.93 with 2.4 MB; a group norm's
/// forward pass 0.6 and 0.7 with 5 MB.
fn is_large(count: usize) -> bool {
    cfg!(test) || pays(count, 1)
}

impl Chain {
    /// The extent of the chain that computes the result of node `k` again, if the result should be postponed:
    /// if light functions compute it from one tensor of its size, and from numbers of rows and the like.
    pub(super) fn extent_if_postponed(&self, k: usize) -> Option<Extent> {
        let claimed = &self.nodes[k];
        let Some(Todo::Call(call)) = claimed.todo() else { return None };
        let (count, whole) = (claimed.count(), claimed.extent().whole);
        let is_done = call.times_postponed >= MOST_TIMES;
        if call.op.light().is_none() || count != whole || !is_large(count) || is_done {
            return None;
        }
        let mut extent = Extent::alone(0, whole);
        let mut source: Option<&Tensor> = None;
        for tensor in call.operands.iter().filter_map(super::Input::tensor) {
            if !is_in_order(tensor, count) {
                extent.leaves += 1;
                // Small, and stored with the chain.
                if tensor.storage_len() > count * size_of::<f32>() / LEAST_ROW {
                    return None;
                }
            } else if !tensor.fills_buffer() {
                // A part of a buffer would keep all of it in memory.
                return None;
            } else if source.is_none() {
                source = Some(tensor);
                match provider(&self.nodes, tensor) {
                    Some(below) => {
                        let below = self.extent_if_postponed(below)?;
                        extent.nodes += below.nodes;
                        extent.leaves += below.leaves;
                    }
                    None => extent.leaves += 1,
                }
            } else if source.is_some_and(|source| !source.shares_storage(tensor)) {
                return None;
            }
        }
        (source.is_some() && extent.nodes <= MOST_STEPS).then_some(extent)
    }
}
