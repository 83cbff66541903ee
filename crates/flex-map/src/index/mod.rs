//! Indexing: reading and updating elements whose positions come from an integer tensor.
//!
//! | reads | updates | the index tensor holds |
//! | --- | --- | --- |
//! | [`gather`] | [`scatter`] | one index along one axis for each element |
//! | [`select`], [`embedding`] | [`select_update`], [`embedding_backward`] | one index along one axis for each slice |
//! | [`gather_nd`] | [`scatter_nd`] | the indices of the leading axes, in its last axis |
//!
//! and [`nonzero`] goes the other way, from a mask to indices.
//!
//! Indices may have any integer dtype. They are checked before anything is written, so a bad one (negative ones
//! included) is an [`Error::Index`](crate::Error::Index) and leaves no trace. Updates that meet in one element are
//! applied in the row-major order of the index tensor, whatever the number of threads: threads share out the
//! elements that are written, never the updates.

mod indices;
mod nd;
mod nonzero;
mod rows;
mod scatter;
mod take;
#[cfg(test)]
mod tests;
mod update;

pub use nd::{gather_nd, scatter_nd};
pub use nonzero::nonzero;
pub use rows::{embedding_backward, select_update};
pub use scatter::scatter;
pub use take::{embedding, gather, select};

/// How an update combines with what is there. For booleans [`Add`](Self::Add) and [`Max`](Self::Max) mean "or",
/// [`Mul`](Self::Mul) and [`Min`](Self::Min) mean "and".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The last update wins.
    Assign,
    /// Sum. Integers wrap; half precision sums in `f32` and rounds once.
    Add,
    /// Product, with the same rules.
    Mul,
    /// Smaller of the two; NaN when either is NaN.
    Min,
    /// Larger of the two; NaN when either is NaN.
    Max,
    /// Bitwise "or", of booleans and integers.
    Or,
}
