//! The names of memory layouts that a backend can be handed; [`layout`](crate::layout) makes tensors in them.

/// The operation that made a tensor; a backend with views has a different memory layout for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Row-major from the start of its buffer.
    Contiguous,
    /// The last two axes swapped.
    Transposed,
    /// All axes rotated.
    Permuted,
    /// All axes reversed (negative strides).
    Flipped,
    /// Every second element along each axis.
    Stepped,
    /// A window inside of a larger tensor.
    Offset,
    /// The first axis repeated without data (stride zero).
    Expanded,
    /// Overlapping windows along the last axis (`unfold`).
    Overlapping,
}

/// All layouts.
pub const LAYOUTS: [Layout; 8] = [
    Layout::Contiguous,
    Layout::Transposed,
    Layout::Permuted,
    Layout::Flipped,
    Layout::Stepped,
    Layout::Offset,
    Layout::Expanded,
    Layout::Overlapping,
];
