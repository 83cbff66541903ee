//! Clamping, and activations that take parameters.

use super::driver::{Cost, Input, Op, ScalarBytes, number, run};
use super::element::integers3;
use super::float::{light2, light3, selecting3};
use super::functions::{Clamp, HardSigmoid, Prelu};
use super::kernel::Kernels;
use super::light::LightFn;
use crate::error::{Error, Result, check_same_dtype};
use crate::layout::broadcast_shapes;
use crate::{Element, Scalar, Tensor};

/// Clamps each element between two bounds, either of which may be left out. As in PyTorch, the result is
/// `max` where `min` exceeds it, NaN elements stay NaN, and a bound of NaN makes every float NaN. Bounds
/// outside the range of an integer dtype are clamped to that range first.
///
/// # Errors
/// A tensor of booleans, or a bound of NaN for integers.
pub fn clamp(tensor: Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let name = "clamp";
    let dtype = tensor.dtype();
    let has_nan = [min, max].iter().flatten().any(|bound| bound.to_f64().is_nan());
    if has_nan && !dtype.is_float() {
        return Err(Error::argument(name, "bound", "NaN", "a number, since the tensor holds integers"));
    }
    // A missing bound becomes the least or greatest value of the dtype.
    let [low, high] = dispatch!(number name, dtype, T => {
        let (least, greatest) = T::bounds();
        let (open_low, open_high) = if T::IS_FLOAT {
            (T::from_f64(f64::NEG_INFINITY), T::from_f64(f64::INFINITY))
        } else {
            (least, greatest)
        };
        let low = min.map_or(open_low, Scalar::saturate::<T>);
        let high = max.map_or(open_high, Scalar::saturate::<T>);
        Ok([low, high].map(ScalarBytes::new))
    })?;
    if has_nan {
        return Tensor::full(tensor.shape().clone(), f64::NAN, dtype);
    }
    let kernel = CLAMP.get(name, dtype)?;
    let op = Op {
        name,
        kernel,
        dtype,
        cost: Cost::Memory,
        reuse: [true, false, false],
        light: Some(LightFn::Clamp),
    };
    run(op, [Input::Tensor(tensor), Input::Scalar(low), Input::Scalar(high)])
}

/// `x` where it is not negative, `slope * x` elsewhere. NaN stays.
///
/// # Errors
/// A tensor that is not of floats.
pub fn leaky_relu(tensor: Tensor, slope: f64) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let kernel = PRELU.get("leaky_relu", dtype)?;
    let slope = number("leaky_relu", dtype, slope.into())?;
    let light = Some(LightFn::Prelu);
    let op = Op { name: "leaky_relu", kernel, dtype, cost: Cost::Memory, reuse: [true, false], light };
    run(op, [Input::Tensor(tensor), Input::Scalar(slope)])
}

/// [`leaky_relu`] with a slope per element. `alpha` broadcasts to the tensor's shape: one slope has shape
/// `[1]`, and slopes per channel of `[N, C, ...]` have shape `[1, C, 1, ...]`.
///
/// # Errors
/// Tensors that are not of one float dtype, or an `alpha` that does not broadcast to the tensor's shape.
pub fn prelu(tensor: Tensor, alpha: Tensor) -> Result<Tensor> {
    let dtype = tensor.dtype();
    check_same_dtype("prelu", dtype, alpha.dtype())?;
    let kernel = PRELU.get("prelu", dtype)?;
    if broadcast_shapes("prelu", tensor.shape(), alpha.shape())? != *tensor.shape() {
        let expected = "a slope that broadcasts to the shape of the input";
        return Err(Error::shapes("prelu", tensor.shape(), alpha.shape(), expected));
    }
    let light = Some(LightFn::Prelu);
    let op = Op { name: "prelu", kernel, dtype, cost: Cost::Memory, reuse: [true; 2], light };
    run(op, [Input::Tensor(tensor), Input::Tensor(alpha)])
}

/// `alpha * x + beta`, clamped between 0 and 1. NaN stays.
///
/// # Errors
/// A tensor that is not of floats.
pub fn hard_sigmoid(tensor: Tensor, alpha: f64, beta: f64) -> Result<Tensor> {
    let name = "hard_sigmoid";
    let dtype = tensor.dtype();
    let kernel = HARD_SIGMOID.get(name, dtype)?;
    let (alpha, beta) = (number(name, dtype, alpha.into())?, number(name, dtype, beta.into())?);
    let light = Some(LightFn::HardSigmoid);
    let op = Op { name, kernel, dtype, cost: Cost::Memory, reuse: [true, false, false], light };
    run(op, [Input::Tensor(tensor), Input::Scalar(alpha), Input::Scalar(beta)])
}

static CLAMP: Kernels<3> = Kernels::numbers(selecting3::<Clamp>(), integers3::<Clamp>());
static HARD_SIGMOID: Kernels<3> = Kernels::floats(light3::<HardSigmoid>());
static PRELU: Kernels<2> = Kernels::floats(light2::<Prelu>());
