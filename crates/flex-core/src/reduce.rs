//! Reductions over all elements or along an axis, running sums and products, and extremes with positions.

pub use flex_reduce::reduce::*;

#[cfg(feature = "std")]
use crate::elementwise::deferred::operand_of_reduction;
use crate::elementwise::{Binary, Unary, binary, unary};
use crate::{Result, Tensor};

/// Without `std` nothing waits.
#[cfg(not(feature = "std"))]
fn operand_of_reduction(tensor: Tensor, _: usize) -> Tensor {
    tensor
}

/// Defines reductions along an axis by the functions of `flex-reduce`. Where the operations that follow are
/// likely to read the operand too, the reduction waits for them (`elementwise::deferred`).
macro_rules! along_an_axis {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        pub fn $name(tensor: Tensor, axis: usize) -> Result<Tensor> {
            flex_reduce::reduce::$name(operand_of_reduction(tensor, axis), axis)
        }
    )*};
}

along_an_axis! {
    /// Sum along an axis, which is kept with size 1.
    ///
    /// # Errors
    /// An axis out of range, or a dtype that is not a number.
    sum_dim

    /// Mean along an axis, which is kept with size 1.
    ///
    /// # Errors
    /// An axis out of range, a dtype that is not a number, or more than 2^32 integers of 32 bits along the
    /// axis.
    mean_dim

    /// Largest elements along an axis, which is kept with size 1.
    ///
    /// # Errors
    /// An axis out of range or of size 0 (unless the result is empty too), or a dtype that is not a number.
    max_dim

    /// Smallest elements along an axis, which is kept with size 1.
    ///
    /// # Errors
    /// An axis out of range or of size 0 (unless the result is empty too), or a dtype that is not a number.
    min_dim
}

/// Largest absolute value, shape `[1]`. The most negative integer is its own absolute value.
///
/// # Errors
/// A tensor without elements, or a dtype that is not a number.
pub fn max_abs(tensor: Tensor) -> Result<Tensor> {
    larger_magnitude(tensor, max, min).map_err(|error| error.named("max_abs"))
}

/// Largest absolute values along an axis, which is kept with size 1.
///
/// # Errors
/// An axis out of range or of size 0 (unless the result is empty too), or a dtype that is not a number.
pub fn max_abs_dim(tensor: Tensor, axis: usize) -> Result<Tensor> {
    let (largest, smallest) = (|t| max_dim(t, axis), |t| min_dim(t, axis));
    larger_magnitude(tensor, largest, smallest).map_err(|error| error.named("max_abs_dim"))
}

/// The largest magnitude: for floats, of the largest and of the smallest element. Loops that compare
/// magnitudes would be a third copy of the loops for maxima and minima.
fn larger_magnitude(
    tensor: Tensor,
    largest: impl FnOnce(Tensor) -> Result<Tensor>,
    smallest: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if !tensor.dtype().is_float() {
        // The smallest integer may have no magnitude in its dtype, and hide the next one.
        return unary(Unary::Abs, tensor).and_then(largest);
    }
    let (high, low) = (largest(tensor.clone())?, smallest(tensor)?);
    binary(Binary::Max, unary(Unary::Abs, high)?, unary(Unary::Abs, low)?)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{BoolStore, DType, Element, bf16, f16};
    use std::string::ToString;
    use std::vec::Vec;

    fn tensor<T: Element>(values: &[f64]) -> Tensor {
        let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
        Tensor::from_slice(&values, [2, values.len() / 2]).unwrap()
    }

    fn of_floats<T: Element>() {
        let t = tensor::<T>(&[3.0, -7.5, 0.0, -0.0, 2.0, 5.0]);
        let numbers =
            |t: Result<Tensor>| t.unwrap().to_vec::<T>().into_iter().map(T::to_f64).collect::<Vec<_>>();
        assert_eq!(numbers(max_abs(t.clone())), [7.5]);
        assert_eq!(numbers(max_abs_dim(t.clone(), 0)), [3.0, 7.5, 5.0]);
        assert_eq!(numbers(max_abs_dim(t.narrow(1, 1, 1).unwrap(), 1)), [7.5, 2.0]);
        let zero = max_abs(tensor::<T>(&[-0.0, -0.0])).unwrap().item::<T>().to_f64();
        assert!(zero == 0.0 && zero.is_sign_positive());
        for nan in [[1.0, f64::NAN], [f64::NAN, -f64::INFINITY]] {
            assert!(max_abs(tensor::<T>(&nan)).unwrap().item::<T>().to_f64().is_nan());
        }
    }

    #[test]
    fn the_largest_magnitude_is_found_whatever_its_sign() {
        of_floats::<f32>();
        of_floats::<f64>();
        of_floats::<f16>();
        of_floats::<bf16>();
        let t = Tensor::from_slice(&[-128i8, -127, 3, 126], [4]).unwrap();
        assert_eq!(max_abs(t).unwrap().item::<i8>(), 127);
        let t = Tensor::from_slice(&[200u8, 3], [2]).unwrap();
        assert_eq!(max_abs_dim(t, 0).unwrap().item::<u8>(), 200);
    }

    /// Large enough to wait for its reader.
    #[test]
    fn of_a_tensor_that_waits() {
        let values: Vec<f32> = (0..1 << 19).map(|i| (i % 1009) as f32 - 900.0).collect();
        let t = Tensor::from_slice(&values, [512, 1024]).unwrap();
        let doubled = || binary(Binary::Add, t.clone(), t.clone()).unwrap();
        assert_eq!(max_abs(doubled()).unwrap().item::<f32>(), 1800.0);
        for axis in 0..2 {
            let largest = max(max_abs_dim(doubled(), axis).unwrap()).unwrap();
            assert_eq!(largest.item::<f32>(), 1800.0);
        }
    }

    #[test]
    fn errors_name_the_operation() {
        let t = tensor::<f32>(&[1.0; 6]);
        let message = |result: Result<Tensor>| result.unwrap_err().to_string();
        assert!(message(max_abs_dim(t.clone(), 2)).starts_with("max_abs_dim: axis 2"));
        assert!(message(max_abs(t.narrow(0, 0, 0).unwrap())).starts_with("max_abs: "));
        let bools = Tensor::full([2], 1.0, DType::Bool(BoolStore::Native)).unwrap();
        assert!(message(max_abs(bools)).starts_with("max_abs: "));
    }
}
