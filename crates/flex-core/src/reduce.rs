//! Reductions over all elements or along an axis, running sums and products, and extremes with positions.

pub use flex_reduce::reduce::*;

use crate::elementwise::{Unary, unary};
use crate::{Result, Tensor};

/// Largest absolute value, shape `[1]`. The most negative integer is its own absolute value.
///
/// # Errors
/// A tensor without elements, or a dtype that is not a number.
pub fn max_abs(tensor: Tensor) -> Result<Tensor> {
    // Absolute values of a large tensor wait for their reader, so memory is read once.
    unary(Unary::Abs, tensor).and_then(max).map_err(|error| error.named("max_abs"))
}

/// Largest absolute values along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range or of size 0 (unless the result is empty too), or a dtype that is not a number.
pub fn max_abs_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let largest = unary(Unary::Abs, tensor).and_then(|magnitudes| max_dim(magnitudes, axis));
    largest.map_err(|error| error.named("max_abs_dim"))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_largest_magnitude_is_found_whatever_its_sign() {
        let t = Tensor::from_slice(&[3.0f32, -7.5, 0.0, -0.0, 2.0, 5.0], [2, 3]).unwrap();
        assert_eq!(max_abs(t.clone()).unwrap().to_vec::<f32>(), [7.5]);
        assert_eq!(max_abs_dim(t.clone(), 0).unwrap().to_vec::<f32>(), [3.0, 7.5, 5.0]);
        assert_eq!(max_abs_dim(t.narrow(1, 1, 1).unwrap(), 1).unwrap().to_vec::<f32>(), [7.5, 2.0]);
        let t = Tensor::from_slice(&[-127i8, 3, 126], [3]).unwrap();
        assert_eq!(max_abs(t).unwrap().item::<i8>(), 127);
        let t = Tensor::from_slice(&[1.0f64, -f64::INFINITY, f64::NAN], [3]).unwrap();
        assert!(max_abs(t).unwrap().item::<f64>().is_nan());
    }

    #[test]
    fn errors_name_the_operation() {
        let t = Tensor::from_slice(&[1.0f32; 6], [2, 3]).unwrap();
        let message = |result: Result<Tensor>| result.unwrap_err().to_string();
        assert!(message(max_abs_dim(t.clone(), 2)).starts_with("max_abs_dim: axis 2"));
        assert!(message(max_abs(t.narrow(0, 0, 0).unwrap())).starts_with("max_abs: "));
    }
}
