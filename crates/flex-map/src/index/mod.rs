//! Indexing: reading and updating elements whose positions come from an integer tensor.
//!
//! | reads | updates | the index tensor holds |
//! | --- | --- | --- |
//! | [`gather`] | [`scatter`] | one index per element, along one axis |
//! | [`select`], [`embedding`] | [`select_update`], [`embedding_backward`] | one index per slice of an axis |
//! | [`gather_nd`] | [`scatter_nd`] | the indices of the leading axes, in its last axis |
//!
//! [`nonzero`] does the opposite: it makes indices from a mask. [`mask_select`] reads by a mask without them.
//!
//! Indices may have any integer dtype. They are checked before anything is written: an index out of range
//! (every negative one is) returns an [`Error::Index`](crate::Error::Index), and nothing changes. Updates of
//! one element are applied in the row-major order of the index tensor for any number of threads, since
//! threads divide the written elements among them, never the updates.

mod each_row;
mod indices;
mod mask_select;
mod nd;
mod nonzero;
mod rows;
mod scatter;
mod take;
#[cfg(test)]
mod tests;
mod update;

pub use indices::check_indices;
pub use mask_select::mask_select;
pub use nd::{gather_nd, scatter_nd};
pub use nonzero::nonzero;
pub use rows::{embedding_backward, select_update};
pub use scatter::scatter;
pub use take::{embedding, gather, select};

/// How an update combines with the element that is there. For booleans, [`Add`](Self::Add) and
/// [`Max`](Self::Max) mean "or", [`Mul`](Self::Mul) and [`Min`](Self::Min) mean "and".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The last update wins.
    Assign,
    /// Sum. Integers wrap; half precision sums in `f32` and rounds once.
    Add,
    /// Product, with the rules of [`Add`](Self::Add).
    Mul,
    /// Smaller of the two; NaN when either is NaN.
    Min,
    /// Larger of the two; NaN when either is NaN.
    Max,
    /// Bitwise "or", of booleans and integers.
    Or,
}
