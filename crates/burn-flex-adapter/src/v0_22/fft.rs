//! Fourier transforms, which Burn calls by the name of the dtype.
//!
//! The transforms read the dtype from the tensor, so the functions of one direction do the same.

use super::FlexTensor;
use super::convert::OrPanic;
use flex_core::fft;

macro_rules! transforms {
    ($($rfft:ident, $irfft:ident;)*) => {$(
        /// The Fourier transform of real numbers along `dim`: the real and the imaginary parts of the first
        /// `n / 2 + 1` frequencies. The signal is cut or filled with zeros to `n` numbers, if `n` is given.
        ///
        /// # Panics
        /// If `dim` is out of range, the dtype is not a float, or the length is zero.
        pub fn $rfft(signal: FlexTensor, dim: usize, n: Option<usize>) -> (FlexTensor, FlexTensor) {
            fft::rfft(signal.0, dim, n).or_panic()
        }

        /// The inverse of the transform of this name: `n` real numbers along `dim`; if `n` is not given,
        /// twice the number of frequencies less two.
        ///
        /// # Panics
        /// If `dim` is out of range, the parts differ in shape or dtype, or the dtype is not a float.
        pub fn $irfft(re: FlexTensor, im: FlexTensor, dim: usize, n: Option<usize>) -> FlexTensor {
            fft::irfft(re.0, im.0, dim, n).or_panic()
        }
    )*};
}

transforms! {
    rfft_f64, irfft_f64;
    rfft_f32, irfft_f32;
    rfft_f16, irfft_f16;
    rfft_bf16, irfft_bf16;
}
