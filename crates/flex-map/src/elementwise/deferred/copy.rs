//! Row-major copies that wait. A reduction that folds pieces of a copy gathers them from the tensor, or lets
//! a chain compute them in the order of the copy, so that no copy is stored: batch norm's means over images
//! whose channels were moved to the front.

use super::outcome::{FOLDED, Outcome, no_result};
use super::pending::Pending;
use super::{MOST_PRODUCED, bytes_apart, pays, walk};
use crate::error::Result;
use crate::storage::{self, Cut, Deferred, Lock, PieceReduction};
use crate::walk::Walk;
use crate::{Bytes, Layout, Shape, Tensor, parallel};
use alloc::sync::Arc;
use core::ops::Range;
use parallel::Work;

/// Shortest runs of a view that are gathered one by one, in elements.
const LEAST_RUN: usize = 64;

/// Shortest runs that a chain computes one by one: each costs some 0.3 us. Otherwise the tensor is computed
/// first.
const LEAST_COMPUTED: usize = 512;

static COPIES: Pending<RowMajor> = Pending::new();

/// The row-major copy of a tensor.
struct RowMajor {
    /// The tensor; `None` once the copy is made or folded.
    source: Lock<Option<Tensor>>,
    /// The tensor's elements in row-major order.
    walk: Walk<1>,
    outcome: Outcome,
}

/// The row-major copy of a tensor that is not contiguous, as a tensor of this shape, which waits for its
/// reader. `None` if the copy is small or exceeds 1 GiB, or if its elements are not long runs of the whole
/// buffer.
pub(crate) fn row_major(tensor: &Tensor, shape: &Shape) -> Option<Tensor> {
    let (count, dtype) = (tensor.num_elements(), tensor.dtype());
    // Of a view that repeats its elements, more than a number can count.
    let bytes = count.saturating_mul(dtype.size());
    let is_whole = || tensor.layout().is_dense() && tensor.storage_len() == bytes && bytes <= MOST_PRODUCED;
    if !pays(count, dtype.size()) || !is_whole() {
        return None;
    }
    let walk = walk(tensor.layout(), tensor.shape());
    let inner = walk.inner();
    if inner.strides[0] != 1 || inner.size < LEAST_RUN {
        return None;
    }
    // A copy of a copy that waits would be made, and dropped, by recursion, as deep as a program likes. A
    // copy that cannot be made is reported by the copy at once.
    if is_waiting_copy(tensor) {
        tensor.evaluate().ok()?;
    }
    let source = Lock::new(Some(tensor.clone()));
    let copy = Arc::new(RowMajor { source, walk, outcome: Outcome::new() });
    COPIES.add(&copy);
    Some(Tensor::deferred(shape.clone(), count, dtype, copy))
}

/// Whether the tensor is a copy that waits.
pub(super) fn is_waiting_copy(tensor: &Tensor) -> bool {
    tensor.computation::<RowMajor>().is_some_and(RowMajor::waits)
}

/// Makes the copies that wait.
///
/// # Errors
/// The first error of a copy; its readers get it too.
pub(super) fn evaluate_all() -> Result<()> {
    COPIES.compute_all(|copy| {
        copy.make().unwrap_or_else(|| {
            // Its error belongs to the thread that makes or folds it.
            let _ = copy.outcome.wait();
            Ok(())
        })
    })
}

impl RowMajor {
    /// Makes the copy. `None` if another thread makes or folds it, or did.
    ///
    /// Threads that wait for a copy cannot keep its maker waiting: the maker waits for operations alone.
    /// Copies among the operands of an operation, or that this one is a copy of, were made at the call.
    fn make(&self) -> Option<Result<()>> {
        // Every read of the copy comes by here.
        if !self.outcome.is_awaited() {
            return None;
        }
        // Nothing is copied under the lock. The tensor stays for a process that is forked meanwhile, which
        // makes a copy of its own.
        let source = self.source.lock().and_then(|source| source.clone());
        // Computed before the claim: afterwards its operands are dropped, and a user's destructor may compute
        // what waits, which includes this copy. The error is found again below.
        let _ = source.as_ref().map(Tensor::evaluate);
        let claim = self.outcome.claim()?;
        let Some(source) = source else { return Some(claim.finish(Err(no_result("lost in a fork")))) };
        let made = claim.finish(source.materialise().and_then(Tensor::into_bytes));
        let held = self.source.lock().and_then(|mut source| source.take());
        drop(held);
        Some(made)
    }

    /// Folds pieces of the copy, which is not stored. `source` is the tensor in the order of its buffer.
    fn fold(&self, source: &mut Tensor, reduction: PieceReduction<'_>) -> Result<()> {
        let PieceReduction { cut, partials, partial, fold } = reduction;
        let (count, size) = (source.num_elements(), source.dtype().size());
        let of = |k: usize, run: &mut dyn FnMut(Range<usize>)| match cut {
            Cut::Even(len) => self.runs(k * len..((k + 1) * len).min(count), run),
            Cut::Runs { of, .. } => of(k, &mut |range| self.runs(range, run)),
        };
        let longest = cut.longest(count);
        if source.waits() && self.walk.inner().size >= LEAST_COMPUTED {
            let cut = Cut::Runs { of: &of, longest };
            let reduction = PieceReduction { cut, partials: &mut *partials, partial, fold };
            if source.fold_when_computed(reduction)? {
                return Ok(());
            }
        }
        source.evaluate()?;
        storage::ensure_for_tasks("reshape", longest * size, partials.len() / partial)?;
        let from = source.storage_bytes();
        parallel::for_each_chunk(partials, partial, Work::Bytes(count * size), |k, partial| {
            let mut piece = storage::alloc(longest * size);
            let mut len = 0;
            of(k, &mut |run| {
                let run = &from[run.start * size..run.end * size];
                piece[len..len + run.len()].copy_from_slice(run);
                len += run.len();
            });
            fold(&piece[..len], partial);
        });
        Ok(())
    }

    /// Hands over where the elements `range` of the copy lie in the tensor's buffer.
    fn runs(&self, range: Range<usize>, run: &mut dyn FnMut(Range<usize>)) {
        let width = self.walk.inner().size;
        let mut at = range.start;
        while at < range.end {
            let row = at / width;
            let end = ((row + 1) * width).min(range.end);
            let [start] = self.walk.row(row);
            let first = start + (at - row * width);
            run(first..first + (end - at));
            at = end;
        }
    }
}

impl Deferred for RowMajor {
    fn waits(&self) -> bool {
        self.outcome.is_awaited()
    }

    fn bytes(&self) -> Result<&[u8]> {
        // The error is in the outcome.
        let _ = self.make();
        self.outcome.wait().map(|bytes| &bytes[..])
    }

    fn into_bytes(self: Arc<Self>) -> Result<Bytes> {
        bytes_apart(self, |copy| copy.outcome.into_bytes())
    }

    fn fold_pieces(&self, held: bool, reduction: PieceReduction<'_>) -> Result<bool> {
        // Somebody reads the copy later.
        if held {
            return Ok(false);
        }
        let Some(claim) = self.outcome.claim() else { return Ok(false) };
        let source = self.source.lock().and_then(|mut source| source.take());
        let in_order = |source: Tensor| {
            let all = Shape::from([source.num_elements()]);
            source.with_layout(Layout::contiguous(all))
        };
        // Nobody else reads the copy. Its outcome comes before anything is dropped: a user's destructor may
        // compute what waits.
        let _ = claim.finish(Err(no_result(FOLDED)));
        let mut source = source.map(in_order).ok_or_else(|| no_result("lost in a fork"))?;
        self.fold(&mut source, reduction).map(|()| true)
    }
}
