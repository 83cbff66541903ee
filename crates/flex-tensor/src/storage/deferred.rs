//! Bytes that are computed when somebody first reads them.

use super::Bytes;
use crate::error::Result;
use crate::{DType, Shape, Tensor};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::ops::Range;

/// A computation whose result is the bytes of a tensor. It runs when somebody first reads the bytes, and
/// never if nobody does. [`Tensor::deferred`](crate::Tensor::deferred) makes a tensor of it.
pub trait Deferred: Any + Send + Sync {
    /// Whether the bytes are not computed yet.
    fn waits(&self) -> bool;

    /// The bytes. The first call computes them; calls of other threads wait meanwhile.
    ///
    /// # Errors
    /// The error of the computation, at each call.
    fn bytes(&self) -> Result<&[u8]>;

    /// The bytes, apart from the computation.
    ///
    /// # Errors
    /// The error of the computation, or [`Error::Memory`](crate::Error::Memory) when another thread holds
    /// the computation and the system has no room for a copy.
    fn into_bytes(self: Arc<Self>) -> Result<Bytes>;

    /// The reduction of each row of `operand`, a contiguous tensor of these bytes, as a tensor that waits for
    /// its reader too. Rows are reduced while they are computed, and stored only if a tensor still holds them
    /// then.
    ///
    /// `None`, as by default, if the bytes have to be computed first.
    fn reduce(&self, operand: &Tensor, reduction: RowReduction) -> Option<Tensor> {
        let _ = (operand, reduction);
        None
    }

    /// Computes the bytes and folds each [piece](PieceReduction) of them while it is in the cache. The bytes
    /// are stored if they are `held` by somebody who will read them later; otherwise they are lost.
    ///
    /// `false`, as by default, if nothing was folded: the bytes have to be read.
    ///
    /// # Errors
    /// The error of the computation.
    fn fold_pieces(&self, held: bool, pieces: PieceReduction<'_>) -> Result<bool> {
        let _ = (held, pieces);
        Ok(false)
    }
}

/// A reduction of pieces of a tensor, each to a partial result.
pub struct PieceReduction<'a> {
    /// How the elements are cut into pieces.
    pub cut: Cut<'a>,
    /// The partial results of the pieces, one after the other.
    pub partials: &'a mut [u8],
    /// Bytes of a partial result.
    pub partial: usize,
    /// Writes the partial result of a piece.
    pub fold: &'a (dyn Fn(&[u8], &mut [u8]) + Sync),
}

/// How the elements of a tensor are cut into pieces. Each element belongs to one piece.
#[derive(Clone, Copy)]
pub enum Cut<'a> {
    /// Pieces of this many consecutive elements; the last may have fewer.
    Even(usize),
    /// Pieces that consist of several runs, such as a few columns of a matrix.
    Runs {
        /// The runs of a piece, given its number.
        of: &'a RunsOfPiece<'a>,
        /// Elements of the longest piece.
        longest: usize,
    },
}

/// Hands over the runs of consecutive elements of a piece, given its number.
pub type RunsOfPiece<'a> = dyn Fn(usize, &mut dyn FnMut(Range<usize>)) + Sync + 'a;

impl Cut<'_> {
    /// Elements of the longest piece of `count` elements.
    pub fn longest(&self, count: usize) -> usize {
        match *self {
            Self::Even(len) => len.min(count),
            Self::Runs { longest, .. } => longest,
        }
    }
}

/// A reduction of rows, each to one element.
pub struct RowReduction {
    /// The operation's name in errors.
    pub name: &'static str,
    /// Elements of a row: at least two. They divide the elements of the operand; otherwise nothing waits.
    pub row: usize,
    /// The shape of the result, which has an element for each row.
    pub shape: Shape,
    /// The dtype of the result.
    pub dtype: DType,
    /// How rows are reduced.
    pub reducer: Box<dyn RowReducer>,
}

/// How rows are reduced: while they are computed, or when their tensor has been computed. The results of both
/// have the same bits.
pub trait RowReducer: Send + Sync {
    /// Reduces consecutive rows to one element each; both are given as bytes.
    fn fold(&self, rows: &[u8], out: &mut [u8]);

    /// The reduction of all rows of a tensor.
    ///
    /// # Errors
    /// Too little memory. All other errors are found before the reduction waits.
    fn reduce(&self, tensor: Tensor) -> Result<Tensor>;
}

/// A kernel whose result waits for the operations that follow it, which then complete each piece of the
/// result while it is in the cache.
pub trait Producer: Send + Sync {
    /// The result: a contiguous tensor that nothing else shares. Each of its elements is passed to `finish`
    /// once, when the kernel needs it no more.
    ///
    /// # Errors
    /// Too little memory. All other errors are found before the result waits.
    fn produce(&self, finish: Option<Finish<'_>>) -> Result<Tensor>;
}

/// Completes consecutive elements of a result in place, given the number of the first one. Tasks of a kernel
/// may call it at the same time, each for elements of its own.
pub type Finish<'a> = &'a (dyn Fn(usize, &mut [u8]) + Sync);
