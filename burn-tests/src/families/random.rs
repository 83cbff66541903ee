//! Random tensors: ranges, moments, independence of neighbours, and seeds.

use crate::array::Array;
use crate::kind::{Float, Int, Kind};
use crate::row::{Context, Row};
use crate::support::{check_dtype, int_range, random_lock};
use burn_backend::tensor::Device;
use burn_backend::{Backend, DType, Distribution, Shape, TensorMetadata};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["float_random", "seed"], |context| {
            let cases = [
                (
                    Distribution::Default,
                    Some(Moments { mean: 0.5, variance: 1.0 / 12.0, low: 0.0, high: 1.0 }),
                ),
                (Distribution::Uniform(-3.0, 5.0), Some(uniform(-3.0, 5.0))),
                (Distribution::Uniform(0.25, 0.375), Some(uniform(0.25, 0.375))),
                (Distribution::Normal(2.0, 3.0), Some(normal(2.0, 3.0))),
                (Distribution::Normal(0.0, 1.0), Some(normal(0.0, 1.0))),
                (Distribution::Bernoulli(0.3), Some(bernoulli(0.3))),
            ];
            check::<B, Float, _>(context, "float_random", B::float_random, |x| x, |_| cases.to_vec())
        }),
        Row::new(&["int_random", "seed"], |context| {
            let cases = |dtype| {
                let mut cases = vec![
                    // Burn does not specify the range.
                    (Distribution::Default, None),
                    (Distribution::Uniform(3.0, 103.0), Some(whole(3.0, 103.0))),
                    (Distribution::Bernoulli(0.3), Some(bernoulli(0.3))),
                    (Distribution::Normal(60.0, 10.0), Some(Moments { mean: 59.5, ..normal(60.0, 10.0) })),
                ];
                if int_range(dtype).0 < 0 {
                    cases.push((Distribution::Uniform(-100.0, 100.0), Some(whole(-100.0, 100.0))));
                }
                cases
            };
            check::<B, Int, _>(context, "int_random", B::int_random, |x| x as f64, cases)
        }),
    ]
}

/// The expected moments and range of a sample.
#[derive(Clone, Copy)]
struct Moments {
    mean: f64,
    variance: f64,
    low: f64,
    /// Exclusive upper end of the range.
    high: f64,
}

fn uniform(low: f64, high: f64) -> Moments {
    Moments { mean: (low + high) / 2.0, variance: (high - low).powi(2) / 12.0, low, high }
}

/// Uniform integers in `low..high`.
fn whole(low: f64, high: f64) -> Moments {
    Moments { mean: (low + high - 1.0) / 2.0, variance: ((high - low).powi(2) - 1.0) / 12.0, low, high }
}

fn normal(mean: f64, deviation: f64) -> Moments {
    Moments { mean, variance: deviation.powi(2), low: f64::NEG_INFINITY, high: f64::INFINITY }
}

fn bernoulli(p: f64) -> Moments {
    // The exclusive end is above one, so that the value one is in range.
    Moments { mean: p, variance: p * (1.0 - p), low: 0.0, high: 1.5 }
}

/// Elements of a sample. A correct generator fails a bound of five standard errors once in two million times.
const N: usize = 20_000;

fn check<B: Backend, K: Kind<B>, D: From<DType>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(Shape, Distribution, &Device<B>, D) -> K::Tensor,
    value: fn(K::Value) -> f64,
    cases: impl Fn(DType) -> Vec<(Distribution, Option<Moments>)>,
) {
    for dtype in K::dtypes(context, &[method]) {
        for (distribution, moments) in cases(dtype) {
            let draw = |shape: &[usize]| -> Result<Array<f64>, String> {
                let tensor = run(shape.to_vec().into(), distribution, &context.device, dtype.into());
                check_dtype(tensor.dtype(), dtype)?;
                Ok(K::decode(&K::into_data(tensor)).map(value))
            };
            for shape in [&[][..], &[1], &[7], &[3, 5], &[2, 0, 3]] {
                context.attempt(
                    || format!("{dtype:?} {shape:?} {distribution:?}"),
                    || {
                        let _alone = random_lock();
                        let got = draw(shape)?;
                        match got.shape() == shape {
                            true => Ok(()),
                            false => Err(format!("got shape {:?}", got.shape())),
                        }
                    },
                );
            }
            context.attempt(
                || format!("{dtype:?} {distribution:?}"),
                || {
                    let _alone = random_lock();
                    B::seed(&context.device, 42);
                    let (first, second) = (draw(&[4, N / 4])?, draw(&[4, N / 4])?);
                    B::seed(&context.device, 42);
                    let (again, other) = (draw(&[4, N / 4])?, draw(&[4, N / 4])?);
                    B::seed(&context.device, 43);
                    let reseeded = draw(&[4, N / 4])?;
                    if first != again || second != other {
                        return Err("the same seed gave other numbers".into());
                    }
                    if first == second || first == reseeded {
                        return Err("the same numbers came again".into());
                    }
                    moments.map_or(Ok(()), |moments| judge(dtype, first.data(), moments))
                },
            );
        }
    }
}

/// Range, mean, variance, and the correlation of neighbours.
fn judge(dtype: DType, values: &[f64], moments: Moments) -> Result<(), String> {
    let Moments { mean, variance, low, high } = moments;
    if let Some(x) = values.iter().find(|x| !(low..high).contains(x)) {
        return Err(format!("{x} is not in {low}..{high}"));
    }
    let n = values.len() as f64;
    let average = |f: &dyn Fn(usize) -> f64, count: usize| (0..count).map(f).sum::<f64>() / count as f64;
    let got_mean = average(&|i| values[i], values.len());
    // Rounding to a dtype of few digits moves values equally to both sides; truncation to integers does not.
    let slack = if dtype.is_float() { 0.0 } else { 0.02 * variance.sqrt() };
    let standard_error = (variance / n).sqrt();
    if (got_mean - mean).abs() > 5.0 * standard_error + slack {
        return Err(format!("mean {got_mean}, expected {mean}"));
    }
    let got_variance = average(&|i| (values[i] - got_mean).powi(2), values.len());
    // Of all these distributions, the squared deviation varies most for the normal one, by 2 variance^2.
    if (got_variance - variance).abs() > 5.0 * variance * (2.0 / n).sqrt() + slack {
        return Err(format!("variance {got_variance}, expected {variance}"));
    }
    let neighbours =
        average(&|i| (values[i] - got_mean) * (values[i + 1] - got_mean), values.len() - 1) / got_variance;
    if neighbours.abs() > 5.0 / n.sqrt() {
        return Err(format!("neighbours correlate by {neighbours}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Stream;

    #[test]
    fn judges_tell_samples_apart() {
        let mut stream = Stream::new(1);
        let even: Vec<f64> = (0..N).map(|_| stream.unit()).collect();
        assert_eq!(judge(DType::F64, &even, uniform(0.0, 1.0)), Ok(()));
        let mapped = |f: &dyn Fn(usize) -> f64| (0..N).map(f).collect::<Vec<f64>>();
        for (bad, complaint) in [
            (mapped(&|i| even[i] + 0.01), "not in"),
            (mapped(&|i| even[i] * 0.95), "mean"),
            (mapped(&|i| 0.5 + (even[i] - 0.5) * 0.9), "variance"),
            (mapped(&|i| even[i / 2 * 2]), "neighbours"),
            (mapped(&|i| if i == 77 { f64::NAN } else { even[i] }), "not in"),
        ] {
            let error = judge(DType::F64, &bad, uniform(0.0, 1.0)).expect_err(complaint);
            assert!(error.contains(complaint), "{error}");
        }
    }
}
