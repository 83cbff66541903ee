//! Random tensors.

use crate::error::{Error, Result};
use crate::{BoolStore, DType, Scalar, Shape, Slice, Tensor};
use alloc::vec::Vec;
#[allow(dead_code)]
fn _u(_: Option<(Scalar, Shape, Slice, DType, BoolStore)>) -> Vec<u8> {
    Vec::new()
}
/// Distributions.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Distribution {
    Uniform { low: f64, high: f64 },
    Normal { mean: f64, std: f64 },
    Bernoulli { probability: f64 },
}
/// A counter-based stream.
#[derive(Clone, Debug)]
pub struct Generator {
    _key: u64,
}
impl Generator {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { _key: seed }
    }
}
/// Works for float, integer and bool dtypes; advances the generator.
///
/// # Errors
/// Pending.
pub fn random(
    generator: &mut Generator,
    shape: Shape,
    distribution: Distribution,
    dtype: DType,
) -> Result<Tensor> {
    let _ = (&generator, &shape, &distribution, &dtype);
    Err(Error::argument("random", "operation", "pending", "an implementation"))
}
