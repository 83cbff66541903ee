//! Operations that wait, and the thread that computes them.
//!
//! A thread that reads bytes which are not there claims the chain below them: it takes the calls out of the
//! nodes. Claims happen under one lock, so a thread that finds a node without its call knows that the node
//! was claimed before; it waits for the node as for any operand. Threads wait for earlier claims alone, so
//! they never wait for each other. Nothing is computed under the lock.

use super::outcome::{FOLDED, Outcome, no_result};
use super::pending::Pending;
use super::program::{ChainProgram, LARGE};
use super::{AnyOp, Extent, MAX_LEAVES, MAX_NODES, Operands, bytes_apart, rows};
use crate::error::{Error, Result};
use crate::small::collected;
use crate::storage::{Cut, Deferred, Lock, PieceReduction, Producer, RowReduction, process};
use crate::{Bytes, DType, Shape, Tensor};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The work that a node has to do.
pub(super) enum Todo {
    /// An elementwise operation. In a box, because it goes through several hands: its operands are some 500
    /// bytes.
    Call(Box<Call>),
    /// A kernel that operations may follow, and the dtype of its result.
    Produce(Box<dyn Producer>, DType),
}

impl Todo {
    /// The tensors that a chain may compute on the way.
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let operands = match self {
            Self::Call(call) => &call.operands[..],
            Self::Produce(..) => &[],
        };
        operands.iter().filter_map(super::Input::tensor)
    }

    /// The dtype of the result.
    fn dtype(&self) -> DType {
        match self {
            Self::Call(call) => call.op.dtype(),
            Self::Produce(_, dtype) => *dtype,
        }
    }
}

/// An operation and its operands.
pub(super) struct Call {
    pub op: Arc<dyn AnyOp>,
    pub operands: Operands,
    /// The shape of the output, or of the rows that are reduced.
    pub shape: Shape,
    /// How often the result was [postponed](super::postpone).
    pub times_postponed: u8,
}

/// A result that waits, or has been computed.
pub(super) struct Node {
    /// Until a thread claims it.
    todo: Lock<Option<Todo>>,
    outcome: Outcome,
    /// Number of elements.
    count: usize,
    /// The chain at the call.
    extent: Extent,
    /// The chain since the result was first [postponed](super::postpone).
    postponed: OnceLock<Extent>,
    this: Weak<Node>,
}

/// How many nodes the chains have that these tensors wait for, and how many tensors the chains read, each
/// counted once. Stops counting beyond the bounds of a chain.
pub(super) fn count_once<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> (usize, usize) {
    let mut count = CountOnce::default();
    tensors.for_each(|tensor| count.add(tensor));
    (count.nodes.len(), count.leaves.len())
}

#[derive(Default)]
struct CountOnce {
    nodes: SmallVec<[*const Node; MAX_NODES]>,
    leaves: SmallVec<[Tensor; MAX_LEAVES]>,
}

impl CountOnce {
    fn add(&mut self, tensor: &Tensor) {
        if self.nodes.len() > MAX_NODES || self.leaves.len() > MAX_LEAVES {
            return;
        }
        if let Some(node) = tensor.computation::<Node>()
            && let Some(todo) = node.todo.lock()
            && let Some(todo) = &*todo
        {
            let address = core::ptr::from_ref(node);
            if !self.nodes.contains(&address) {
                self.nodes.push(address);
                todo.tensors().for_each(|tensor| self.add(tensor));
                if matches!(todo, Todo::Produce(..)) {
                    self.leaves.push(tensor.clone());
                }
            }
            return;
        }
        let is_same = |leaf: &Tensor| leaf.shares_storage(tensor) && leaf.layout() == tensor.layout();
        if !self.leaves.iter().any(is_same) {
            self.leaves.push(tensor.clone());
        }
    }
}

/// Held while a thread claims nodes.
static CLAIMS: Lock<()> = Lock::new(());

static NODES: Pending<Node> = Pending::new();

/// Reductions that may wait, the latest last, and how many of them wait at most.
pub(super) struct Reductions {
    most: usize,
    nodes: Lock<VecDeque<Weak<Node>>>,
}

impl Node {
    pub(super) fn new(todo: Todo, count: usize, extent: Extent) -> Arc<Self> {
        let node = Arc::new_cyclic(|this| Self {
            todo: Lock::new(Some(todo)),
            outcome: Outcome::new(),
            count,
            extent,
            postponed: OnceLock::new(),
            this: this.clone(),
        });
        NODES.add(&node);
        node
    }

    /// The number of passes of the chain below, which is not computed afterwards.
    #[cfg(test)]
    pub(super) fn passes(&self) -> usize {
        let mut chain = self.claim(true).expect("nobody else claims it");
        ChainProgram::new(&mut chain.nodes).steps.iter().filter(|step| !step.continues).count()
    }

    /// The results of the chain below that are held, computed one by one. The nodes do not get them.
    #[cfg(test)]
    pub(super) fn computed_singly(&self) -> Vec<Bytes> {
        let mut chain = self.claim(true).expect("nobody else claims it");
        ChainProgram::new(&mut chain.nodes).run_singly().into_iter().map(|result| result.unwrap()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn extent(&self) -> Extent {
        self.postponed.get().copied().unwrap_or(self.extent)
    }

    /// Whether the result was [postponed](super::postpone).
    pub(super) fn is_postponed(&self) -> bool {
        self.postponed.get().is_some()
    }

    /// Takes the node's work. `None` if a thread has taken it before. `process` is the
    /// [current](process::current) one, which the thread asks the system for once per chain.
    fn take(&self, process: u32) -> Option<Todo> {
        let mut todo = self.todo.lock()?;
        if todo.is_some() {
            self.outcome.begin(process);
        }
        todo.take()
    }

    /// Lets a node that was claimed wait again, for the same call, as a chain of this extent. For a thread
    /// that holds `CLAIMS`.
    fn put_back(&self, call: &Call, extent: Extent) {
        let operands = collected(call.operands.iter().cloned());
        let (op, shape, times_postponed) = (call.op.clone(), call.shape.clone(), call.times_postponed + 1);
        let call = Box::new(Call { op, operands, shape, times_postponed });
        // Later it may only have become smaller: operands are computed meanwhile.
        let _ = self.postponed.set(extent);
        if let Some(mut todo) = self.todo.lock() {
            *todo = Some(Todo::Call(call));
        }
    }

    /// Claims the node's chain, which may [postpone](super::postpone) results. `None` if another thread did
    /// so before.
    fn claim(&self, may_postpone: bool) -> Option<Chain> {
        // In a forked process there may be no lock. Then nothing is postponed: a thread that found no call
        // would wait for a result, and the call would come back.
        let claims = CLAIMS.lock();
        let process = process::current();
        let todo = self.take(process)?;
        let mut chain = Chain::of(Vec::with_capacity(self.extent().nodes));
        chain.claim(self.this.upgrade()?, todo, process);
        chain.find_holders(may_postpone && claims.is_some());
        Some(chain)
    }
}

impl Reductions {
    pub(super) const fn at_most(most: usize) -> Self {
        Self { most, nodes: Lock::new(VecDeque::new()) }
    }

    /// Adds a reduction that waits. If that makes too many, computes the oldest.
    pub(super) fn add(&self, node: &Arc<Node>) {
        let mut waiting = {
            let Some(mut nodes) = self.nodes.lock() else { return };
            // Mostly the oldest are gone.
            while nodes.front().is_some_and(|node| node.strong_count() == 0) {
                nodes.pop_front();
            }
            nodes.push_back(Arc::downgrade(node));
            if nodes.len() <= self.most {
                return;
            }
            core::mem::take(&mut *nodes)
        };
        // Not under the lock, for the reason that `Pending::add` gives.
        waiting.retain(|node| node.upgrade().is_some_and(|node| node.waits()));
        let oldest = if waiting.len() <= self.most { None } else { waiting.pop_front() };
        if let Some(mut nodes) = self.nodes.lock() {
            waiting.append(&mut nodes);
            *nodes = waiting;
        }
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            // Its reader gets the error, and learns of a panic. This caller has no part in either, nor in
            // what dropping the panic's payload might do.
            let computed = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(oldest.bytes())));
            computed.unwrap_or_else(core::mem::forget);
        }
    }
}

impl Deferred for Node {
    fn waits(&self) -> bool {
        self.outcome.is_awaited()
    }

    fn bytes(&self) -> Result<&[u8]> {
        if self.waits()
            && let Some(chain) = self.claim(true)
        {
            // The error is in the result.
            let _ = chain.compute();
        }
        self.outcome.wait().map(|bytes| &bytes[..])
    }

    fn into_bytes(self: Arc<Self>) -> Result<Bytes> {
        bytes_apart(self, |node| node.outcome.into_bytes())
    }

    fn reduce(&self, operand: &Tensor, reduction: RowReduction) -> Option<Tensor> {
        rows::reduce(self, operand, reduction)
    }

    fn fold_pieces(&self, held: bool, reduction: PieceReduction<'_>) -> Result<bool> {
        let extent = self.extent();
        let Extent { producers, row, .. } = extent;
        let whole_rows = match reduction.cut {
            Cut::Even(len) => len.is_multiple_of(row.max(1)),
            Cut::Runs { .. } => row == 0,
        };
        let fits = producers == 0 && !extent.is_by_row(self.count) && whole_rows;
        match fits.then(|| self.claim(true)).flatten() {
            Some(chain) => chain.fold_pieces(held, reduction),
            None => Ok(false),
        }
    }
}

/// A node that this thread computes.
pub(super) struct Claimed {
    node: Arc<Node>,
    /// Until the program is made of it.
    todo: Option<Todo>,
    /// Whether the result is stored, since a tensor outside of the chain holds it.
    pub is_held: bool,
    /// Whether a tensor outside of the chain holds the result, which is [postponed](super::postpone).
    is_postponed: bool,
}

impl Claimed {
    pub(super) fn count(&self) -> usize {
        self.node.count
    }

    pub(super) fn extent(&self) -> Extent {
        self.node.extent()
    }

    /// The node's work, until the program is made of it.
    pub(super) fn todo(&self) -> Option<&Todo> {
        self.todo.as_ref()
    }

    /// Takes the operation of a node that waits for one.
    pub(super) fn take_call(&mut self) -> Box<Call> {
        match self.todo.take() {
            Some(Todo::Call(call)) => call,
            _ => unreachable!("claimed with its operation; kernels are no steps"),
        }
    }

    /// Whether the operation computes its result without a program if it is the only one. A program is needed
    /// to write a result past the caches, and to write a result that is larger than all operands that are
    /// tensors: numbers may have taken the place of the other operands.
    fn runs_alone(&self) -> bool {
        let Some(Todo::Call(call)) = &self.todo else { return false };
        if call.op.reduces() {
            return true;
        }
        let streams = call.op.light().is_some() && self.node.count * call.op.dtype().size() >= LARGE;
        let mut tensors = call.operands.iter().filter_map(super::Input::tensor);
        !streams && tensors.any(|tensor| tensor.num_elements() == self.node.count)
    }

    fn is_producer(&self) -> bool {
        matches!(self.todo, Some(Todo::Produce(..)))
    }
}

/// The number of the node that provides the tensor's bytes, if it is one of these.
pub(super) fn provider(claimed: &[Claimed], tensor: &Tensor) -> Option<usize> {
    let node = tensor.computation::<Node>()?;
    claimed.iter().position(|claimed| core::ptr::eq(&*claimed.node, node))
}

/// The nodes that a thread computes, operands before their users; the last node is the one being read. Every
/// node has a result afterwards, also after a panic, since other threads may wait for it, or has its call
/// back and waits for its next reader.
pub(super) struct Chain {
    pub(super) nodes: Vec<Claimed>,
    /// What computes the nodes. It holds their operands, which are dropped when all nodes have ended: memory
    /// that a user lends may have a destructor that computes what waits.
    program: Option<ChainProgram>,
}

impl Chain {
    fn of(nodes: Vec<Claimed>) -> Self {
        Self { nodes, program: None }
    }

    /// Claims a node, whose work was taken, after the nodes below it. Operands that still wait are all part
    /// of the chain: the others were computed when the operation was called.
    fn claim(&mut self, node: Arc<Node>, todo: Todo, process: u32) {
        for tensor in todo.tensors() {
            if let Some(below) = tensor.computation::<Node>()
                && let Some(todo) = below.take(process)
                && let Some(below) = below.this.upgrade()
            {
                self.claim(below, todo, process);
            }
        }
        self.nodes.push(Claimed { node, todo: Some(todo), is_held: false, is_postponed: false });
    }

    /// Finds the nodes whose results are held by tensors outside of the chain. No result gets its first such
    /// holder meanwhile, since only a holder can pass a result on. If the last holder of a result is dropped
    /// meanwhile, the result is stored although nobody will read it.
    ///
    /// Results that [cost little](super::postpone) are not stored if the chain `may_postpone` them: their
    /// nodes wait again.
    fn find_holders(&mut self, may_postpone: bool) {
        // How many operands of the chain each result is, and how many tensors hold it.
        let mut counts = alloc::vec![(0, 0); self.nodes.len()];
        for k in (0..self.nodes.len()).rev() {
            let (uses, holders) = counts[k];
            // The result that is being read is no operand.
            let is_read = k + 1 == self.nodes.len();
            let is_held = is_read || holders > uses;
            let postponed =
                (is_held && !is_read && may_postpone).then(|| self.extent_if_postponed(k)).flatten();
            self.nodes[k].is_held = is_held && postponed.is_none();
            let Some(todo) = &self.nodes[k].todo else { continue };
            for tensor in todo.tensors() {
                if let Some(below) = provider(&self.nodes, tensor) {
                    // The call of a postponed result goes on holding its operands.
                    let uses = counts[below].0 + usize::from(postponed.is_none());
                    counts[below] = (uses, tensor.holders());
                }
            }
            if let (Some(extent), Todo::Call(call)) = (postponed, todo) {
                self.nodes[k].node.put_back(call, extent);
                self.nodes[k].is_postponed = true;
            }
        }
    }

    /// Computes the chain.
    fn compute(mut self) -> Result<()> {
        if let Some(k) = self.nodes.iter().position(Claimed::is_producer) {
            // A chain of its own, which leaves nobody waiting either if the kernel panics.
            let mut kernel = Chain::of(alloc::vec![self.nodes.remove(k)]);
            let [Claimed { node, todo, is_held, .. }] = &mut kernel.nodes[..] else {
                unreachable!("one node")
            };
            let Some(Todo::Produce(producer, dtype)) = todo.take() else {
                unreachable!("found for its kernel")
            };
            if !*is_held && self.completes(dtype) {
                let program = self.program.insert(ChainProgram::new(&mut self.nodes));
                let reads = |tensor: &Tensor| provider(&kernel.nodes, tensor).is_some();
                let leaf = program.leaves.iter().position(|leaf| leaf.tensor.as_ref().is_some_and(reads));
                let result = program.run_after(leaf.expect("an operand of the chain"), &*producer);
                return self.finish(result.map(|bytes| alloc::vec![Ok(bytes)]));
            }
            match producer.produce(None).and_then(Tensor::into_bytes) {
                Ok(bytes) => node.outcome.set(Ok(bytes)),
                Err(error) => {
                    node.outcome.set(Err(error.clone()));
                    return self.finish(Err(error));
                }
            }
        }
        let results = match &mut self.nodes[..] {
            [] => return Ok(()),
            [only] if only.runs_alone() => {
                let call = only.take_call();
                let mut operands = call.operands.iter().filter_map(super::Input::tensor);
                let result = operands.try_for_each(Tensor::evaluate);
                let result = result.and_then(|()| call.op.run_alone(call.operands)?.into_bytes());
                result.map(|bytes| alloc::vec![Ok(bytes)])
            }
            claimed => self.program.insert(ChainProgram::new(claimed)).run(),
        };
        self.finish(results)
    }

    /// Computes the chain, and folds pieces of the result that is being read, which is stored if it is
    /// `held`. Returns whether they were folded: where there is too little memory for all results, the
    /// results are computed singly.
    fn fold_pieces(mut self, held: bool, reduction: PieceReduction<'_>) -> Result<bool> {
        let is_stored = |claimed: &Claimed| claimed.is_held;
        let stores = held || self.nodes.split_last().is_some_and(|(_, before)| before.iter().any(is_stored));
        if stores && matches!(reduction.cut, Cut::Runs { .. }) {
            self.compute()?;
            return Ok(false);
        }
        let program = self.program.insert(ChainProgram::new(&mut self.nodes));
        let (results, folded) = match program.fold_pieces(held, reduction) {
            Ok((results, folded)) => (Ok(results), folded),
            Err(error) => (Err(error), false),
        };
        if folded
            && !held
            && let Some(Claimed { node, is_held, .. }) = self.nodes.last_mut()
        {
            *is_held = false;
            node.outcome.set(Err(no_result(FOLDED)));
        }
        self.finish(results)?;
        Ok(folded)
    }

    /// Whether the chain is operations that turn a result of this dtype into one other result, which may take
    /// its place.
    fn completes(&self, dtype: DType) -> bool {
        let fits = |todo: &Todo| todo.dtype().size() == dtype.size();
        let Some((last, before)) = self.nodes.split_last() else { return false };
        last.is_held && last.todo.as_ref().is_some_and(fits) && before.iter().all(|claimed| !claimed.is_held)
    }

    /// Hands the results of the nodes that are held to them, or an error to all nodes. Returns the error of
    /// the node that is being read.
    fn finish(&self, results: Result<Vec<Result<Bytes>>>) -> Result<()> {
        let results = results.inspect_err(|error| {
            for claimed in self.nodes.iter().filter(|claimed| !claimed.is_postponed) {
                claimed.node.outcome.set(Err(error.clone()));
            }
        })?;
        let mut outcome = Ok(());
        for (claimed, result) in self.nodes.iter().filter(|claimed| claimed.is_held).zip(results) {
            outcome = result.as_ref().map(|_| ()).map_err(Error::clone);
            claimed.node.outcome.set(result);
        }
        outcome
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for claimed in &self.nodes {
            // Nobody holds a result that was not stored, unless its computation panicked, or `evaluate_all`
            // of another thread found the node meanwhile and waits for it.
            if !claimed.is_postponed {
                claimed.node.outcome.end();
            }
        }
    }
}

/// Computes the results that wait.
///
/// # Errors
/// The first error of a computation; its readers get it too.
pub(super) fn evaluate_all() -> Result<()> {
    NODES.compute_all(|node| match node.claim(false) {
        Some(chain) => chain.compute(),
        None => {
            // Its error belongs to the thread that computes it.
            let _ = node.outcome.wait();
            Ok(())
        }
    })
}
