//! The interface of complex transforms.

use num_complex::Complex;

/// A complex transform of a fixed length, not scaled: `X[k] = sum_j x[j] exp(-2 pi i j k / n)`, `+2 pi` for
/// the inverse.
pub(super) trait ComplexFft<A>: Send + Sync {
    /// Length of the working memory for both methods, in complex elements.
    fn scratch_len(&self) -> usize;
    /// Transforms `input` to `output`.
    fn out_of_place(&self, input: &[Complex<A>], output: &mut [Complex<A>], scratch: &mut [Complex<A>]);
    /// Transforms `data` in place.
    fn in_place(&self, data: &mut [Complex<A>], scratch: &mut [Complex<A>]);
}
