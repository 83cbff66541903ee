//! Operations that wait for a reader, so that a chain of them is one pass through memory.
//!
//! An operation on large tensors returns a tensor without bytes: a [`Node`] with the operation
//! and its operands. Whoever reads the bytes runs the chain of operations below: tile by tile, so that
//! intermediate results stay in the first-level cache. Each operand is read once. An intermediate result is
//! written if a tensor outside of the chain still holds it.
//!
//! A reduction of the rows of a tensor that waits is an operation of the chain too. Its result has an element
//! for each row, and so have the results of operations on it ("row results"). An operation on all elements
//! may read a row result as an operand that broadcasts along the row: the gradient of softmax is one pass.
//! A chain may also begin with such a reduction of a tensor that is computed ([`operand_of_reduction`]). A
//! reduction of all elements, or of columns, folds pieces of a result while they are computed
//! ([`Deferred::fold_pieces`]).
//!
//! A kernel that computes its result piece by piece, such as a convolution, may wait too ([`produce`]). The
//! operations that follow it then run on each piece when it is computed.
//!
//! Kernels are the same as without waiting, and are called once per tile, so results have the same bits. An
//! operation checks its arguments at its call; only memory can turn out to be missing later.
//!
//! * `constant.rs`: tensors of one number;
//! * `copy.rs`: row-major copies of views;
//! * `node.rs`: operations that wait, and the thread that computes them;
//! * `outcome.rs`: bytes that one thread computes and others wait for;
//! * `pending.rs`: lists of computations that may wait;
//! * `postpone.rs`: results that go on waiting after a chain has computed them;
//! * `program.rs`: from a chain to a list of steps over registers;
//! * `stages.rs`: the stages and buffers that all tiles of a program share, found once;
//! * `tiles.rs`: runs the stages, tile by tile;
//! * `pass.rs`: runs several steps of light functions in one pass over a tile;
//! * `rows.rs`: reductions of rows.

mod constant;
mod copy;
mod node;
mod outcome;
mod pass;
mod pending;
mod postpone;
mod program;
mod rows;
mod stages;
mod tiles;

#[cfg(test)]
mod tests;

use super::driver::{Input, Op};
use super::kernel::Src;
use super::light::LightFn;
use crate::error::Result;
use crate::layout::{Layout, stretched_stride};
use crate::small::collected;
use crate::storage::{Deferred, Producer, copy_of, environment};
use crate::walk::Walk;
use crate::{Bytes, DType, Shape, Tensor};
use alloc::boxed::Box;
use alloc::sync::Arc;
pub(super) use constant::{constant, number_of_constant, ones_of_product};
pub(crate) use copy::row_major;
use core::sync::atomic::{AtomicUsize, Ordering};
use node::{Call, Node, Todo};
pub use rows::operand_of_reduction;
use smallvec::SmallVec;

/// A light f32 operation waits if it reads and writes at least this many bytes; [`set_least_bytes`] sets
/// another number.
///
/// At this size, an addition whose result is read alone takes 6.2 us if it waits, 4.8 us if it does not (Zen
/// 4, one thread). A chain of two takes as long as two that do not wait, a chain of four 10 us instead of 13.
/// Chains of smaller tensors stay in the second-level cache anyway. With 1, 2 and 4 MiB here the training
/// step of an MLP takes 1.02, 1.03 and 1.04 times as long; the times of MiniLM, ResNet-50, and the steps of
/// ResNet-18 and a transformer change by less than they vary from run to run.
pub const LEAST_BYTES: usize = 512 * 1024;

/// Other operations wait if they move at least 128 times as many bytes: 64 MiB, which no cache holds.
///
/// Each of them is a step over every tile of a chain, and each tile costs 0.1 us per step beside its work. A
/// sigmoid and a product of 65,536 f32 take 0.42 ns per element in a chain and 0.34 without, of 1 Mi f16 0.53
/// and 0.45 (Zen 4, one thread); of 16 Mi f32 on two threads 0.43 and 0.51. In unit tests every operation
/// waits, since their chains are small.
const HEAVY: usize = if cfg!(test) { 1 } else { 128 };

/// Most operations of a chain.
const MAX_NODES: usize = 32;

/// Most tensors that a chain reads when it is made: more if results of its operations are computed before it,
/// for other readers. A waiting chain keeps these tensors in memory. Adam's update reads four.
const MAX_LEAVES: usize = 8;

/// A convolution waits from a quarter of these bytes on: each operation that follows it saves a pass through
/// memory.
const SOONER: usize = 4;

/// A convolution with a larger result does not wait. Memory may well be missing then, and the call should
/// report it.
const MOST_PRODUCED: usize = 1 << 30;

/// A view does not wait to be read if its buffer has more than this many times the bytes of the view and of
/// the result: the buffer stays in memory meanwhile, and might be freed otherwise. Chunks of a tensor wait, a
/// batch of a data set is read at once, which costs one pass over the batch.
const MOST_KEPT: usize = 4;

/// The extent of a chain: its operations, the tensors that it reads, and its elements.
#[derive(Clone, Copy, Debug)]
struct Extent {
    nodes: usize,
    leaves: usize,
    /// Kernels, at most one, whose results the chain completes.
    producers: usize,
    /// Elements of the chain's largest results.
    whole: usize,
    /// Elements of the rows that are reduced; 0 without reductions. Row results have `whole / row` elements.
    row: usize,
}

impl Extent {
    /// The chain of an operation without operands that wait.
    fn alone(leaves: usize, whole: usize) -> Self {
        Self { nodes: 1, leaves, producers: 0, whole, row: 0 }
    }

    /// Whether results of `count` elements have one for each row.
    fn is_by_row(&self, count: usize) -> bool {
        count != self.whole
    }

    fn is_within_bounds(&self) -> bool {
        self.nodes <= MAX_NODES && self.leaves <= MAX_LEAVES
    }

    /// Adds a chain that provides an operand; `false` if the two cannot be one chain.
    fn add(&mut self, below: Self) -> bool {
        let producers = self.producers + below.producers;
        let row = self.row.max(below.row);
        let rows_agree = self.row == 0 || below.row == 0 || self.row == below.row;
        // A kernel's pieces need not be whole rows.
        if below.whole != self.whole || !rows_agree || producers > usize::from(row == 0) {
            return false;
        }
        let (nodes, leaves) = (self.nodes + below.nodes, self.leaves + below.leaves);
        *self = Self { nodes, leaves, producers, row, ..*self };
        true
    }
}

/// Bytes from which on operations wait; 0 until the environment was read.
static LEAST: AtomicUsize = AtomicUsize::new(0);

/// A light operation on f32 (a few instructions, such as an addition) waits for a reader of its result if it
/// reads and writes at least this many bytes: [`LEAST_BYTES`], unless the environment variable `FLEX_DEFER`
/// or [`set_least_bytes`] sets another number. `FLEX_DEFER` is a number of bytes, or `off`; an empty value
/// counts as unset.
///
/// # Panics
/// When `FLEX_DEFER` is something else.
pub fn least_bytes() -> usize {
    match LEAST.load(Ordering::Relaxed) {
        0 => {
            let wanted = environment::bytes("FLEX_DEFER", usize::MAX);
            let least = wanted.unwrap_or(LEAST_BYTES).max(1);
            // Another thread may have set a number meanwhile.
            LEAST.compare_exchange(0, least, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(least)
        }
        least => least,
    }
}

/// Sets the number of bytes from which on operations wait for a reader of their results. A light operation on
/// f32 waits if it reads and writes at least `bytes` bytes, another elementwise operation if it moves 128
/// times as many. With 1 all operations wait, with `usize::MAX` all compute at once, including reductions of
/// results that wait. For measurements and for finding faults; results have the same bits, apart from sums of
/// elements that repeat, such as sums of tensors of one number. Operations that already wait go on waiting.
pub fn set_least_bytes(bytes: usize) {
    LEAST.store(bytes.max(1), Ordering::Relaxed);
}

/// Computes every result that waits and that a tensor still holds, of all threads.
///
/// # Errors
/// The error of the first computation that fails; its readers get it too.
pub fn evaluate_all() -> Result<()> {
    // Before the results of operations, which copies may be made of.
    copy::evaluate_all().and(node::evaluate_all())
}

/// The bytes of a computation, apart from it: its own where nothing else holds it, otherwise a copy. `result`
/// takes the computation apart.
///
/// # Errors
/// As [`Deferred::into_bytes`].
fn bytes_apart<D: Deferred>(
    computation: Arc<D>,
    result: impl FnOnce(D) -> Option<Result<Bytes>>,
) -> Result<Bytes> {
    computation.bytes()?;
    match Arc::try_unwrap(computation) {
        Ok(own) => result(own).expect("computed"),
        Err(shared) => copy_of("into_data", shared.bytes()?),
    }
}

/// An operation on any number of operands.
trait AnyOp: Send + Sync {
    /// Computes a run of the output.
    fn run(&self, out: &mut [u8], src: &[Src<'_>]);
    /// Computes the whole output.
    fn run_alone(&self, operands: Operands) -> Result<Tensor>;
    fn name(&self) -> &'static str;
    fn dtype(&self) -> DType;
    /// Operations that an element costs, besides moving it.
    fn flops(&self) -> usize;
    /// Whether a result may be written where operand `n` lies, if their elements have the same size.
    fn reuses(&self, n: usize) -> bool;
    /// The function, if it is a light one of f32.
    fn light(&self) -> Option<LightFn>;
    /// Whether this is a reduction of rows.
    fn reduces(&self) -> bool {
        false
    }
}

type Operands = SmallVec<[Input; 3]>;

impl<const N: usize> AnyOp for Op<N> {
    fn run(&self, out: &mut [u8], src: &[Src<'_>]) {
        self.kernel.run(out, core::array::from_fn(|n| src[n]));
    }

    fn run_alone(&self, operands: Operands) -> Result<Tensor> {
        let mut operands = operands.into_iter();
        let inputs = core::array::from_fn(|_| operands.next().expect("as many operands as at the call"));
        super::driver::run_now(*self, inputs)
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn flops(&self) -> usize {
        self.cost.flops()
    }

    fn reuses(&self, n: usize) -> bool {
        self.reuse[n]
    }

    fn light(&self) -> Option<LightFn> {
        self.light.filter(|_| self.dtype == DType::F32)
    }
}

/// Whether an operation on `count` elements, each of which moves `bytes` bytes, should wait: it moves enough,
/// or joins an operand that waits already. `is_deferred` says whether an operand
/// [is deferred](Tensor::is_deferred), so that operands are looked at once.
#[inline]
pub(super) fn should_wait<const N: usize>(
    op: &Op<N>,
    inputs: &[Input; N],
    is_deferred: bool,
    count: usize,
    bytes: usize,
) -> bool {
    // One comparison for small operations: the first operation of a process reads the environment.
    let bytes = count.saturating_mul(bytes);
    let is_large = bytes >= LEAST.load(Ordering::Relaxed);
    (is_large || is_deferred) && pays_or_joins(op.light().is_some(), inputs, bytes)
}

/// [`should_wait`] for operations that are large, or have an operand that is deferred.
#[cold]
#[inline(never)]
fn pays_or_joins(is_light: bool, inputs: &[Input], bytes: usize) -> bool {
    let least = least_bytes();
    // With 1, all operations wait, whatever they cost.
    let like_light = is_light || least == 1;
    let enough = if like_light { least } else { least.saturating_mul(HEAVY) };
    // Operations of any size follow a kernel, whose result they complete, a reduction, with which they read
    // their operands from the first-level cache, and a postponed result, which would have to be stored for
    // them; light ones follow any operation.
    let joins = |node: &Node| {
        let Extent { producers, row, .. } = node.extent();
        node.waits() && (like_light || producers > 0 || row > 0 || node.is_postponed())
    };
    let mut nodes = inputs.iter().filter_map(Input::tensor).filter_map(|t| t.computation::<Node>());
    bytes >= enough || least != usize::MAX && nodes.any(joins)
}

/// Whether moving `bytes` bytes for each of `count` elements is enough for a kernel to wait.
fn pays(count: usize, bytes: usize) -> bool {
    count.saturating_mul(bytes) >= least_bytes()
}

/// The operation's result as a tensor that waits, if its operands allow it; then the operands are taken. The
/// output is contiguous and has `count` elements of `shape`, or of the shape of all tensors.
#[inline(never)]
pub(super) fn wait<const N: usize>(
    op: &Op<N>,
    inputs: &mut [Input; N],
    shape: Option<&Shape>,
    count: usize,
) -> Option<Tensor> {
    if count == 0 {
        return None;
    }
    let shape = match shape {
        Some(shape) => shape.clone(),
        None => inputs.iter().find_map(Input::tensor)?.shape().clone(),
    };
    if let Some(constant) = constant::fold(op, inputs, &shape, count) {
        return Some(constant);
    }
    if let Some(product) = constant::product_with_ones(op, inputs, &shape) {
        return Some(product);
    }
    if !fit(inputs, op.dtype, &shape, count) {
        return None;
    }
    constant::as_numbers(inputs);
    let extent = extent(inputs, &shape, count);
    let operands = collected(inputs.iter_mut().map(|input| core::mem::replace(input, Input::Output)));
    let call = Box::new(Call { op: Arc::new(*op), operands, shape: shape.clone(), times_postponed: 0 });
    Some(Tensor::deferred(shape, count, op.dtype, Node::new(Todo::Call(call), count, extent)))
}

/// The result of a kernel, contiguous and of this shape and dtype, as a tensor that waits. If the result is
/// small, or larger than [`MOST_PRODUCED`], the kernel computes it at once.
///
/// # Errors
/// The errors of the kernel, if it computes at once.
pub fn produce(producer: impl Producer + 'static, shape: Shape, dtype: DType) -> Result<Tensor> {
    let count = shape.num_elements();
    if !pays(count, 2 * dtype.size() * SOONER) || count.saturating_mul(dtype.size()) > MOST_PRODUCED {
        return producer.produce(None);
    }
    let extent = Extent { producers: 1, ..Extent::alone(1, count) };
    let node = Node::new(Todo::Produce(Box::new(producer), dtype), count, extent);
    Ok(Tensor::deferred(shape, count, dtype, node))
}

/// Whether the operands can be read tile by tile, in the order of a contiguous output.
fn fit(inputs: &[Input], dtype: DType, shape: &Shape, count: usize) -> bool {
    let mut full = false;
    for input in inputs {
        let Input::Tensor(tensor) = input else { continue };
        let in_order = is_in_order(tensor, count);
        full |= in_order;
        if constant::is_constant(input) {
            continue;
        }
        // Without waiting, a part of a buffer that nothing else shares is overwritten. A result that waits
        // has a buffer of its own.
        let size = tensor.dtype().size();
        let (kept, bytes) = (tensor.storage_len(), tensor.num_elements() * size);
        if size == dtype.size() && kept != bytes && tensor.is_unique() && tensor.layout().is_dense() {
            return false;
        }
        if kept / MOST_KEPT > bytes.max(count.saturating_mul(dtype.size())) {
            return false;
        }
        if !in_order && tensor.num_elements() != 1 {
            let inner = walk(tensor.layout(), shape).inner();
            if !matches!(inner.strides[0], 0 | 1) {
                return false;
            }
        }
    }
    full
}

/// Whether a tensor has `count` elements, which lie in row-major order without gaps.
fn is_in_order(tensor: &Tensor, count: usize) -> bool {
    tensor.is_contiguous() && tensor.num_elements() == count
}

/// The rows of an operand that broadcasts to `shape`, in the order of a contiguous output.
fn walk(operand: &Layout, shape: &Shape) -> Walk<1> {
    let output = Layout::contiguous_like(shape);
    Walk::following(&output, [operand.offset()], |_, axis| stretched_stride(operand, shape, axis))
}

/// The chain of the node that a tensor waits for, if the tensor may be an operand of an operation whose
/// output has this shape and `count` elements.
fn waiting(tensor: &Tensor, shape: &Shape, count: usize) -> Option<Extent> {
    let node = tensor.computation::<Node>().filter(|node| node.waits())?;
    let extent = node.extent();
    let each = || node.count() == count && is_in_order(tensor, count);
    let by_row = || extent.is_by_row(node.count()) && is_by_row(tensor, shape, extent.row, node.count());
    (each() || by_row()).then_some(extent)
}

/// Whether a tensor has an element for each row of `row` elements of a contiguous output, in order.
fn is_by_row(tensor: &Tensor, shape: &Shape, row: usize, rows: usize) -> bool {
    if tensor.layout().offset() != 0 || tensor.storage_len() != rows * tensor.dtype().size() {
        return false;
    }
    let walk = walk(tensor.layout(), shape);
    let Some((inner, outer)) = walk.axes().split_last() else { return false };
    let whole = match outer {
        [] => rows == 1,
        [axis] => axis.size == rows && axis.strides[0] == 1,
        _ => false,
    };
    whole && inner.size == row && inner.strides[0] == 0
}

/// The extent of the chain of an operation with these operands. Operands that wait and do not fit into the
/// chain are computed.
fn extent(inputs: &[Input], shape: &Shape, count: usize) -> Extent {
    let tensors = || inputs.iter().filter_map(Input::tensor);
    let below = || tensors().filter_map(|tensor| waiting(tensor, shape, count));
    // An operation on row results, unless it has an operand that is read in another order.
    let plain = || tensors().all(|tensor| is_in_order(tensor, count) || tensor.num_elements() == 1);
    let by_row = below().find(|extent| extent.is_by_row(count) && extent.whole / extent.row == count);
    let alone = match by_row.filter(|_| plain()) {
        Some(Extent { whole, row, .. }) => Extent { row, ..Extent::alone(0, whole) },
        None => Extent::alone(0, count),
    };
    let mut extent = alone;
    for tensor in tensors() {
        if !waiting(tensor, shape, count).is_some_and(|below| extent.add(below)) {
            evaluate(tensor);
            extent.leaves += 1;
        }
    }
    if !extent.is_within_bounds() {
        // Nodes and leaves that several operands need were added more than once.
        let (nodes, leaves) = node::count_once(tensors());
        extent = Extent { nodes: nodes + 1, leaves, ..extent };
    }
    if extent.is_within_bounds() {
        return extent;
    }
    tensors().for_each(evaluate);
    Extent::alone(tensors().count(), count)
}

/// Computes the bytes that a tensor waits for; the tensor's reader gets the error.
fn evaluate(tensor: &Tensor) {
    let _ = tensor.evaluate();
}
