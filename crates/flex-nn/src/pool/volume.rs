//! Adaptive average pooling of volumes.
//!
//! The mean over a box is the mean over its layers of the means over their rectangles. So a volume is
//! pooled as planes, twice: layer by layer, and then with each layer as one row.

use super::{adaptive_avg_pool, adaptive_avg_pool_backward};
use crate::error::{Error, Result};
use crate::{DType, Tensor};
use flex_map::elementwise::cast;

/// The averages of [`adaptive_avg_pool`] over the three spatial axes of `[batch, channels, depth, height,
/// width]`, whose sizes become `size`.
///
/// # Errors
/// Fails if the dtype is not a float, the rank is not 5, or a spatial axis is empty.
pub fn adaptive_avg_pool3d(x: Tensor, size: [usize; 3]) -> Result<Tensor> {
    const OP: &str = "adaptive_avg_pool3d";
    let [batch, channels, depth, height, width] = sizes(OP, &x)?;
    let dtype = x.dtype();
    let layers = wide(OP, x)?.reshape([batch, layers(OP, channels, depth)?, height, width])?;
    let layers = adaptive_avg_pool(layers, [size[1], size[2]]).map_err(|error| error.named(OP))?;
    let row = size[1] * size[2];
    let pooled = match row {
        // There is no row to pool.
        0 => Tensor::empty([batch, channels, size[0], size[1], size[2]], layers.dtype())?,
        _ => adaptive_avg_pool(layers.reshape([batch, channels, depth, row])?, [size[0], row])
            .map_err(|error| error.named(OP))?
            .reshape([batch, channels, size[0], size[1], size[2]])?,
    };
    narrow(OP, pooled, dtype)
}

/// Gradient of [`adaptive_avg_pool3d`] with respect to `x`; the spatial shape of `grad` is the `size` of the
/// forward pass.
///
/// # Errors
/// The errors of [`adaptive_avg_pool3d`], and a `grad` of another rank, batch, channel count or dtype than
/// `x`.
pub fn adaptive_avg_pool3d_backward(x: Tensor, grad: Tensor) -> Result<Tensor> {
    const OP: &str = "adaptive_avg_pool3d_backward";
    let [batch, channels, depth, height, width] = sizes(OP, &x)?;
    let [grad_batch, grad_channels, out_depth, out_height, out_width] = sizes(OP, &grad)?;
    if (grad_batch, grad_channels) != (batch, channels) {
        return Err(Error::shapes(
            OP,
            x.shape(),
            grad.shape(),
            "a gradient with the batch and channels of x",
        ));
    }
    if grad.dtype() != x.dtype() {
        return Err(Error::dtype(OP, grad.dtype(), "the dtype of x"));
    }
    let dtype = x.dtype();
    if grad.num_elements() == 0 {
        return Tensor::full(x.shape().clone(), 0.0, dtype);
    }
    let grad = wide(OP, grad)?;
    let row = out_height * out_width;
    let layers = layers(OP, channels, depth)?;
    // Only shapes matter of the tensors that were pooled, so they are one zero that is repeated.
    let zero = Tensor::full([1, 1, 1, 1], 0.0, grad.dtype())?;
    let rows = zero.clone().expand(&[batch, channels, depth, row])?;
    let grad = adaptive_avg_pool_backward::<2>(rows, grad.reshape([batch, channels, out_depth, row])?)
        .map_err(|error| error.named(OP))?;
    let planes = zero.expand(&[batch, layers, height, width])?;
    let grad = grad.reshape([batch, layers, out_height, out_width])?;
    let grad = adaptive_avg_pool_backward::<2>(planes, grad).map_err(|error| error.named(OP))?;
    narrow(OP, grad.reshape([batch, channels, depth, height, width])?, dtype)
}

fn sizes(op: &'static str, x: &Tensor) -> Result<[usize; 5]> {
    if !x.dtype().is_float() {
        return Err(Error::dtype(op, x.dtype(), "a float dtype (f64, f32, f16, bf16)"));
    }
    match *x.shape().as_slice() {
        [batch, channels, depth, height, width] if depth * height * width > 0 => {
            Ok([batch, channels, depth, height, width])
        }
        _ => {
            Err(Error::shape(op, x.shape(), "[batch, channels, depth, height, width] with spatial elements"))
        }
    }
}

fn layers(op: &'static str, channels: usize, depth: usize) -> Result<usize> {
    channels
        .checked_mul(depth)
        .ok_or_else(|| Error::argument(op, "number of layers", channels, "a number that can be addressed"))
}

/// Halves as `f32`, so that the result is rounded once.
fn wide(op: &'static str, x: Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F16 | DType::BF16 => cast(x, DType::F32).map_err(|error| error.named(op)),
        _ => Ok(x),
    }
}

fn narrow(op: &'static str, x: Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype { Ok(x) } else { cast(x, dtype).map_err(|error| error.named(op)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The elements that window `i` of `out` covers.
    fn window(i: usize, input: usize, out: usize) -> core::ops::Range<usize> {
        i * input / out..((i + 1) * input).div_ceil(out)
    }

    #[test]
    fn every_output_is_the_mean_of_its_box_and_the_gradient_is_the_adjoint() {
        for (size, out) in [([3, 5, 4], [2, 2, 3]), ([1, 7, 2], [3, 1, 2]), ([6, 2, 9], [6, 2, 9])] {
            let [d, h, w] = size;
            let (planes, volume) = (2 * 3, d * h * w);
            let outputs: usize = out.iter().product();
            let x: Vec<f64> = (0..planes * volume).map(|i| ((i * 37) % 101) as f64 / 8.0).collect();
            let g: Vec<f64> = (0..planes * outputs).map(|i| ((i * 29) % 53) as f64 / 4.0 - 5.0).collect();
            let (mut expected, mut gradient) = (vec![0.0; g.len()], vec![0.0; x.len()]);
            for (o, (mean, g)) in expected.iter_mut().zip(&g).enumerate() {
                let (plane, o) = (o / outputs, o % outputs);
                let (i, j, k) = (o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]);
                let taps: Vec<usize> = window(i, d, out[0])
                    .flat_map(|a| window(j, h, out[1]).map(move |b| (a, b)))
                    .flat_map(|(a, b)| window(k, w, out[2]).map(move |c| (a * h + b) * w + c))
                    .map(|at| plane * volume + at)
                    .collect();
                for &at in &taps {
                    *mean += x[at] / taps.len() as f64;
                    gradient[at] += g / taps.len() as f64;
                }
            }
            let close = |got: &Tensor, expected: &[f64]| {
                let got = got.to_vec::<f64>();
                assert_eq!(got.len(), expected.len());
                assert!(got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-12), "{got:?} {expected:?}");
            };
            let x = Tensor::from_slice(&x, [2, 3, d, h, w]).unwrap();
            let g = Tensor::from_slice(&g, [2, 3, out[0], out[1], out[2]]).unwrap();
            let pooled = adaptive_avg_pool3d(x.clone(), out).unwrap();
            assert_eq!(pooled.shape().as_slice(), g.shape().as_slice());
            close(&pooled, &expected);
            let back = adaptive_avg_pool3d_backward(x.clone(), g).unwrap();
            assert_eq!(back.shape(), x.shape());
            close(&back, &gradient);
        }
    }

    #[test]
    fn halves_are_rounded_once() {
        // The sum of the layers' means needs more bits than f16 has.
        let x = Tensor::full([1, 1, 3, 5, 7], 2049.0 / 3.0, DType::F16).unwrap();
        let pooled = adaptive_avg_pool3d(x.clone(), [1, 1, 1]).unwrap();
        assert_eq!(pooled.dtype(), DType::F16);
        assert_eq!(pooled.to_vec::<crate::f16>()[0], x.to_vec::<crate::f16>()[0]);
    }

    #[test]
    fn bad_arguments_are_refused_by_name() {
        // 2^40, of 64 bits.
        const HUGE: usize = 1 << (usize::BITS * 5 / 8);
        let x = Tensor::full([1, 2, 3, 4], 0.0, DType::F32).unwrap();
        let error = adaptive_avg_pool3d(x, [1, 1, 1]).unwrap_err().to_string();
        assert!(error.starts_with("adaptive_avg_pool3d: "), "{error}");
        let x = Tensor::full([1, 2, 3, 4, 5], 0.0, DType::F32).unwrap();
        let error = adaptive_avg_pool3d(x.clone(), [1, HUGE, HUGE]).unwrap_err().to_string();
        assert!(error.starts_with("adaptive_avg_pool3d: "), "{error}");
        let grad = Tensor::full([1, 3, 1, 1, 1], 0.0, DType::F32).unwrap();
        let error = adaptive_avg_pool3d_backward(x.clone(), grad).unwrap_err().to_string();
        assert!(error.starts_with("adaptive_avg_pool3d_backward: "), "{error}");
        let grad = Tensor::full([1, 2, 1, 1, 1], 0.0, DType::F64).unwrap();
        assert!(adaptive_avg_pool3d_backward(x, grad).is_err());
    }
}
