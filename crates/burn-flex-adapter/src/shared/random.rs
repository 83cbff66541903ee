//! Random tensors of Burn's distributions.

use super::FlexTensor;
use super::burn_backend::{Distribution, FloatDType, IntDType, Shape};
use super::convert::{OrPanic, dtype};
use crate::stream;
use flex_core::DType;
use flex_core::layout::checked_num_elements;
use flex_core::random;

pub(super) fn float(shape: Shape, distribution: Distribution, dtype: FloatDType) -> FlexTensor {
    let dtype = match distribution {
        Distribution::Bernoulli(_) => dtype::created("random", dtype),
        _ => dtype::float("random", dtype),
    };
    draw(shape, convert(distribution, random::Distribution::Standard), dtype)
}

/// The default distribution of integers is `[0, 255)`, as in burn-ndarray and Burn's GPU backends, or the
/// part of it that the dtype holds. Upstream's burn-flex draws from all values of the dtype.
pub(super) fn int(shape: Shape, distribution: Distribution, dtype: IntDType) -> FlexTensor {
    let default = random::Distribution::Uniform { low: 0.0, high: 255.0 };
    draw(shape, convert(distribution, default), dtype::int(dtype))
}

fn draw(shape: Shape, distribution: random::Distribution, dtype: DType) -> FlexTensor {
    checked_num_elements("random", &shape)
        .and_then(|elements| random::random(&mut stream::take(elements), shape.into(), distribution, dtype))
        .or_panic()
}

fn convert(distribution: Distribution, default: random::Distribution) -> random::Distribution {
    match distribution {
        Distribution::Default => default,
        Distribution::Uniform(low, high) => random::Distribution::Uniform { low, high },
        Distribution::Normal(mean, std) => random::Distribution::Normal { mean, std },
        Distribution::Bernoulli(probability) => random::Distribution::Bernoulli { probability },
    }
}
