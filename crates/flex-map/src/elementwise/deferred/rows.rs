//! Reductions of rows as operations of a chain.

use super::copy::is_waiting_copy;
use super::node::{Call, Node, Reductions, Todo};
use super::program::MAX_ROW;
use super::{AnyOp, Extent, MOST_KEPT, Operands, is_in_order, least_bytes, pays};
use crate::elementwise::driver::Input;
use crate::elementwise::kernel::Src;
use crate::elementwise::light::LightFn;
use crate::error::Result;
use crate::storage::{Deferred, RowReducer, RowReduction, copy_of};
use crate::{Bytes, DType, Tensor};
use alloc::boxed::Box;
use alloc::sync::Arc;
use smallvec::smallvec;

/// Most reductions of rows that wait at a time, of all threads. Each keeps the tensors that its chain reads
/// in memory, which may be a thousand times larger than its result.
pub(super) const MAX_REDUCTIONS: usize = 64;

/// Most of these reductions that read a tensor whose bytes are already computed. The operations that such a
/// reduction waits for mostly follow at once. Where they do not, the tensor would often be dropped meanwhile.
pub(super) const MAX_REDUCTIONS_OF_READY: usize = 4;

/// A reduction of a larger tensor that is computed does not wait: with the number above, the reductions that
/// wait keep at most 1 GiB in memory.
const MOST_READY: usize = 256 * 1024 * 1024;

/// Such a reduction waits from this many times the bytes on that a light operation does: 1 MiB. If its result
/// is read alone, it takes some 1.3 us longer than at once, of 42 us for 4 MiB. If it is the first step of a
/// softmax, the forward and backward pass takes 7 to 12 % less time, at 512 KiB to 8 MiB (one and two threads
/// of Zen 5).
const LARGER: usize = 2;

static REDUCTIONS: Reductions = Reductions::at_most(MAX_REDUCTIONS);
static REDUCTIONS_OF_READY: Reductions = Reductions::at_most(MAX_REDUCTIONS_OF_READY);

/// A reduction of rows.
struct ReduceRows {
    name: &'static str,
    dtype: DType,
    reducer: Box<dyn RowReducer>,
}

impl AnyOp for ReduceRows {
    fn run(&self, out: &mut [u8], src: &[Src<'_>]) {
        let Some(Src::Each(rows)) = src.first() else { unreachable!("rows are read element for element") };
        self.reducer.fold(rows, out);
    }

    fn run_alone(&self, mut operands: Operands) -> Result<Tensor> {
        let Some(Input::Tensor(rows)) = operands.pop() else { unreachable!("rows are a tensor's") };
        self.reducer.reduce(rows)
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn flops(&self) -> usize {
        1
    }

    fn reuses(&self, _: usize) -> bool {
        false
    }

    fn light(&self) -> Option<LightFn> {
        None
    }

    fn reduces(&self) -> bool {
        true
    }
}

/// The reduction of the rows of `operand`, which waits for `node`, as a tensor that waits too. `None` if the
/// two cannot be one chain.
pub(super) fn reduce(node: &Node, operand: &Tensor, reduction: RowReduction) -> Option<Tensor> {
    let below = node.extent();
    let fits = node.waits() && is_in_order(operand, node.count()) && !below.is_by_row(node.count());
    fits.then(|| reduce_each(operand, below, reduction, &REDUCTIONS)).flatten()
}

/// The reduction of the rows of `operand`, a contiguous tensor, as a tensor that waits: one of `reductions`.
/// `below` is the chain that provides the operand. `None` if the two cannot be one chain.
fn reduce_each(
    operand: &Tensor,
    below: Extent,
    reduction: RowReduction,
    reductions: &Reductions,
) -> Option<Tensor> {
    let RowReduction { name, row, shape, dtype, reducer } = reduction;
    let count = operand.num_elements();
    let mut extent = Extent { row, ..Extent::alone(0, count) };
    // With `usize::MAX`, all operations compute at once.
    if row <= 1
        || !count.is_multiple_of(row)
        || least_bytes() == usize::MAX
        || row > MAX_ROW
        || !extent.add(below)
        || !extent.is_within_bounds()
    {
        return None;
    }
    let operands: Operands = smallvec![Input::Tensor(operand.clone())];
    let op = Arc::new(ReduceRows { name, dtype, reducer });
    let call = Call { op, operands, shape: operand.shape().clone(), times_postponed: 0 };
    let rows = count / row;
    let node = Node::new(Todo::Call(Box::new(call)), rows, extent);
    reductions.add(&node);
    Some(Tensor::deferred(shape, rows, dtype, node))
}

/// A tensor whose bytes are there, in a form that lets reductions of its rows wait.
struct ReadyRows {
    tensor: Tensor,
}

impl Deferred for ReadyRows {
    fn waits(&self) -> bool {
        true
    }

    fn bytes(&self) -> Result<&[u8]> {
        self.tensor.evaluate()?;
        let size = self.tensor.dtype().size();
        let first = self.tensor.layout().offset() * size;
        Ok(&self.tensor.storage_bytes()[first..][..self.tensor.num_elements() * size])
    }

    fn into_bytes(self: Arc<Self>) -> Result<Bytes> {
        copy_of("into_data", self.bytes()?)
    }

    fn reduce(&self, operand: &Tensor, reduction: RowReduction) -> Option<Tensor> {
        // Not `operand`, which would hold the tensor once more.
        let below = Extent { nodes: 0, ..Extent::alone(1, operand.num_elements()) };
        reduce_each(&self.tensor, below, reduction, &REDUCTIONS_OF_READY)
    }
}

/// The operand of a reduction along `axis`: a tensor of the same elements, or the tensor itself. A reduction
/// of the returned tensor waits if the operations that follow it are likely to read the operand too, and to
/// be one pass with it: if it is large, somebody else holds it, and the axis is the last. So a softmax that
/// is made of single operations, or a norm, reads its operand from memory once.
///
/// The result of the reduction has the same bits.
pub fn operand_of_reduction(tensor: Tensor, axis: usize) -> Tensor {
    let (count, size) = (tensor.num_elements(), tensor.dtype().size());
    let Some([row, within @ ..]) = tensor.shape().get(axis..) else { return tensor };
    let in_rows = (2..=MAX_ROW).contains(row) && within.iter().all(|&size| size == 1);
    let is_large = in_rows && pays(count, size.div_ceil(LARGER)) && count.saturating_mul(size) <= MOST_READY;
    if is_large && tensor.holders() > 1 && is_waiting_copy(&tensor) {
        // The reduction's reader gets the error, if there is one.
        let _ = tensor.evaluate();
    }
    // Without another holder nobody can read the operand but the reduction.
    let will_be_read = is_large && !tensor.waits() && tensor.holders() > 1;
    if will_be_read && tensor.is_contiguous() && tensor.storage_len() / MOST_KEPT <= count * size {
        let (shape, dtype) = (tensor.shape().clone(), tensor.dtype());
        return Tensor::deferred(shape, count, dtype, Arc::new(ReadyRows { tensor }));
    }
    tensor
}
