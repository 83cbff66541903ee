//! Pooling over one or two spatial axes.
//!
//! Inputs are `[batch, channels, length]` or `[batch, channels, height, width]`; a 1-D input is a plane of
//! height one. `plan` turns options into two axes of windows. `fold` reduces windows along one axis after the
//! other (the maximum or sum over a rectangle is the maximum or sum of the results of its rows).
//! `drive` cuts tensors into tasks and converts halves. The operations choose the reduction and finish its
//! result.
//!
//! Sizes follow PyTorch: with `ceil_mode`, a last, partial window is kept if it starts inside of the input or
//! its leading padding. A window of only padding has the maximum `-inf` and the average 0. It needs a padding
//! of more than half the kernel, which PyTorch refuses and Burn accepts.

mod avg;
mod drive;
mod fold;
mod max;
mod max_indices;
mod plan;
#[cfg(test)]
mod tests;
mod volume;

pub use avg::{adaptive_avg_pool, adaptive_avg_pool_backward, avg_pool, avg_pool_backward};
pub use max::max_pool;
pub use max_indices::{max_pool_backward, max_pool_with_indices};
pub use volume::{adaptive_avg_pool3d, adaptive_avg_pool3d_backward};

/// Options of max pooling, one value per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxPoolOptions<const N: usize> {
    /// Number of taps of a window.
    pub kernel: [usize; N],
    /// Distance between neighbouring windows.
    pub stride: [usize; N],
    /// Elements of `-inf` on both ends of the axis.
    pub padding: [usize; N],
    /// Distance between neighbouring taps of a window.
    pub dilation: [usize; N],
    /// Whether a last window that extends past the padded input is kept.
    pub ceil_mode: bool,
}

/// Options of average pooling, one value per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvgPoolOptions<const N: usize> {
    /// Number of taps of a window.
    pub kernel: [usize; N],
    /// Distance between neighbouring windows.
    pub stride: [usize; N],
    /// Zeros on both ends of the axis.
    pub padding: [usize; N],
    /// Whether the divisor counts padding. It never counts positions beyond the padding.
    pub count_include_pad: bool,
    /// Whether a last window that extends past the padded input is kept.
    pub ceil_mode: bool,
}
