//! Reductions of rows as operations of a chain.

use super::node::{Call, Node, Todo};
use super::program::MAX_ROW;
use super::{AnyOp, Extent, Operands, is_in_order, least_bytes};
use crate::elementwise::driver::Input;
use crate::elementwise::kernel::Src;
use crate::elementwise::light::LightFn;
use crate::error::Result;
use crate::storage::{Deferred, RowFold, RowReduction};
use crate::{DType, Tensor};
use alloc::boxed::Box;
use smallvec::smallvec;

/// A reduction of rows.
struct ReduceRows {
    name: &'static str,
    dtype: DType,
    fold: Box<RowFold>,
}

impl AnyOp for ReduceRows {
    fn run(&self, out: &mut [u8], src: &[Src<'_>]) {
        let Some(Src::Each(rows)) = src.first() else { unreachable!("rows are read element for element") };
        (self.fold)(rows, out);
    }

    fn run_alone(&self, _: Operands) -> Result<Tensor> {
        unreachable!("rows are reduced tile by tile")
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
    let RowReduction { name, row, shape, dtype, fold } = reduction;
    let (count, below) = (node.count(), node.extent());
    let whole_rows = row > 1 && count.is_multiple_of(row);
    let fits = node.waits() && is_in_order(operand, count) && !below.is_by_row(count) && whole_rows;
    let mut extent = Extent { row, ..Extent::alone(0, count) };
    // With `usize::MAX`, all operations compute at once.
    if !fits
        || least_bytes() == usize::MAX
        || row > MAX_ROW
        || !extent.add(below)
        || !extent.is_within_bounds()
    {
        return None;
    }
    let operands: Operands = smallvec![Input::Tensor(operand.clone())];
    let op = Box::new(ReduceRows { name, dtype, fold });
    let call = Call { op, operands, shape: operand.shape().clone() };
    let rows = count / row;
    let node = Node::new(Todo::Call(Box::new(call)), rows, extent);
    Node::bound_reductions(&node);
    Some(Tensor::deferred(shape, rows, dtype, node))
}
