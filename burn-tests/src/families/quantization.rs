//! Quantization and dequantization, for every scheme that the backend offers: value type, level, store and
//! precision of scales.

use crate::array::Array;
use crate::kind::{Float, Kind};
use crate::release::{self, Backend, QuantLevel, QuantParam, dtype_of, param_of, shape_of};
use crate::row::{Context, Row};
use crate::support::{floats, over_layouts, read_float, upload};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue};
use burn_backend::tensor::{FloatTensor, QuantizedTensor};
use burn_backend::{DType, TensorMetadata};
use futures_lite::future::block_on;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["quantize_dynamic", "dequantize"], dynamic),
        Row::new(&["quantize"], given),
        Row::new(&["q_from_data", "q_into_data"], data),
        Row::new(&["q_device", "q_to_device", "q_detach", "q_set_require_grad", "q_is_require_grad"], device),
    ]
}

const VALUES: [QuantValue; 9] = [
    QuantValue::Q8F,
    QuantValue::Q8S,
    QuantValue::Q4F,
    QuantValue::Q4S,
    QuantValue::Q2F,
    QuantValue::Q2S,
    QuantValue::E4M3,
    QuantValue::E5M2,
    QuantValue::E2M1,
];

/// The schemes that the backend reports as supported; with blocks of size `blocks` if given.
fn schemes<B: Backend>(context: &Context<'_, B>, blocks: Option<&[u8]>) -> Vec<QuantScheme> {
    let params = [QuantParam::F32, QuantParam::F16, QuantParam::BF16, QuantParam::UE8M0, QuantParam::UE4M3];
    let stores = [QuantStore::Native, QuantStore::PackedU32(0), QuantStore::PackedNative(0)];
    let level = blocks.map_or(QuantLevel::Tensor, QuantLevel::block);
    let all = VALUES.into_iter().flat_map(|value| params.map(|param| (value, param)));
    let all = all.flat_map(|(value, param)| stores.map(|store| (value, param, store)));
    all.map(|(value, param, store)| release::scheme(value, param, store, level))
        .filter(|&scheme| offered(context, scheme))
        .collect()
}

/// Whether the backend reports a scheme as supported. A panic counts as not supported: Burn's GPU backends
/// panic about schemes that no dtype can store.
pub(crate) fn offered<B: Backend>(context: &Context<'_, B>, scheme: QuantScheme) -> bool {
    let usage = || B::dtype_usage(&context.device, DType::QFloat(scheme));
    catch_unwind(AssertUnwindSafe(usage)).is_ok_and(|usage| !usage.is_empty())
}

/// Shapes, and block sizes that divide them.
const CASES: [(&[usize], Option<&[u8]>); 8] = [
    (&[1], None),
    (&[5, 7], None),
    (&[2, 3, 33], None),
    (&[32], Some(&[16])),
    (&[4, 64], Some(&[32])),
    (&[2, 3, 16], Some(&[8])),
    (&[4, 32], Some(&[2, 16])),
    (&[3, 5], Some(&[1, 5])),
];

/// Distance between the numbers that codes stand for, near `x` (which is already divided by the scale).
pub(crate) fn spacing(value: QuantValue, x: f64) -> f64 {
    let (mantissa, least) = match value {
        QuantValue::E4M3 => (3, -6),
        QuantValue::E5M2 => (2, -14),
        QuantValue::E2M1 => (1, 0),
        _ => return 1.0,
    };
    let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
    2f64.powi(exponent - mantissa)
}

/// Relative precision of a scale: one unit in the last place, since Burn 0.22 rounds scales up, so that no
/// number is clipped.
pub(crate) fn scale_precision(param: QuantParam, scale: f64) -> f64 {
    match param {
        QuantParam::F32 => 2f64.powi(-22),
        // Small scales, such as those of E5M2, are subnormal.
        QuantParam::F16 => 2f64.powi(-10).max(2f64.powi(-24) / scale),
        QuantParam::BF16 => 2f64.powi(-7),
        QuantParam::UE4M3 => 2f64.powi(-3).max(2f64.powi(-9) / scale),
        QuantParam::UE8M0 => 1.0,
    }
}

/// The block that an element belongs to; elements of the same block share a scale.
fn block_of(index: &[usize], blocks: Option<&[u8]>) -> Vec<usize> {
    let Some(blocks) = blocks else { return vec![0] };
    let lead = index.len() - blocks.len();
    let size = |k: usize| if k < lead { 1 } else { blocks[k - lead] as usize };
    index.iter().enumerate().map(|(k, &i)| i / size(k)).collect()
}

/// The largest magnitude in each element's block.
fn block_maxima(x: &Array<f64>, blocks: Option<&[u8]>) -> Array<f64> {
    let mut largest = std::collections::HashMap::new();
    crate::array::for_each_index(x.shape(), |index| {
        let max = largest.entry(block_of(index, blocks)).or_insert(0.0f64);
        *max = max.max(x.at(index).abs());
    });
    Array::from_fn(x.shape(), |index| largest[&block_of(index, blocks)])
}

/// Checks that each number is the nearest one that a code stands for, with scales known up to their
/// precision.
fn check_nearest(
    scheme: &QuantScheme,
    dtype: DType,
    x: &Array<f64>,
    got: &Array<f64>,
    scales: &Array<f64>,
    precision: impl Fn(f64) -> f64,
) -> Result<(), String> {
    if got.shape() != x.shape() {
        return Err(format!("got shape {:?}, expected {:?}", got.shape(), x.shape()));
    }
    let (low, high) = (scheme.value.range().0 as f64, scheme.value.range().1 as f64);
    let rounding = match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 2f64.powi(-23),
    };
    for i in 0..x.len() {
        let (x, got, scale) = (x.data()[i], got.data()[i], scales.data()[i]);
        let precision = precision(scale);
        let (code, exact) = (got / scale, (x / scale).clamp(low, high));
        // Error of scales and results, in units of codes.
        let slip = code.abs() * (precision + rounding) + exact.abs() * precision + 1e-6;
        let step = spacing(scheme.value, exact);
        // False for NaN.
        let nearest = (code - exact).abs() <= step / 2.0 + slip;
        if !nearest {
            return Err(format!("element {i}: {x} came back as {got}, {code} steps of {scale} for {exact}"));
        }
        let near = spacing(scheme.value, code);
        let off = (code / near - (code / near).round()).abs() * near;
        if off > slip || code < low - slip || code > high + slip {
            return Err(format!("element {i}: {x} came back as {got}, and {code} is no code of {scheme:?}"));
        }
    }
    Ok(())
}

/// The numbers that a quantized tensor stands for.
pub(crate) fn numbers<B: Backend>(tensor: QuantizedTensor<B>, dtype: DType) -> Result<Array<f64>, String> {
    read_float::<B>(B::dequantize(tensor, dtype.into()), dtype)
}

fn dynamic<B: Backend>(context: &Context<'_, B>) {
    for (shape, blocks) in CASES {
        for scheme in schemes(context, blocks) {
            for dtype in context.floats(&["quantize_dynamic", "dequantize"]) {
                // Values of mixed signs, values of one sign (whose range still has to be treated as
                // symmetric), and only zeros.
                for range in [(-3.0, 2.0), (0.5, 0.75), (0.0, 0.0)] {
                    over_layouts::<B, Float>(context, dtype, &floats(dtype, shape, range, 1), |t, x| {
                        let q = B::quantize_dynamic(t, &scheme);
                        expect_metadata::<B>(&q, &scheme, x.shape())?;
                        let (low, high) = scheme.value.range();
                        let half_range = (high as f64 - low as f64) / 2.0;
                        let scales =
                            block_maxima(x, blocks).map(|max| if max > 0.0 { max / half_range } else { 1.0 });
                        let got = numbers::<B>(q, dtype)?;
                        check_nearest(&scheme, dtype, x, &got, &scales, |scale| {
                            scale_precision(param_of(&scheme), scale)
                        })
                        .map_err(|e| format!("{scheme:?}: {e}"))
                    });
                }
            }
        }
    }
}

fn expect_metadata<B: Backend>(
    q: &QuantizedTensor<B>,
    scheme: &QuantScheme,
    shape: &[usize],
) -> Result<(), String> {
    let dtype = DType::QFloat(*scheme);
    if release::scheme_of::<B>(q) != *scheme || q.dtype() != dtype || q.shape().to_vec() != shape {
        return Err(format!(
            "got {:?} {:?} {:?}, expected {dtype:?} {shape:?}",
            release::scheme_of::<B>(q),
            q.dtype(),
            q.shape()
        ));
    }
    Ok(())
}

/// Given scales, one per block, powers of two that every precision represents; some numbers are beyond the
/// codes.
fn given<B: Backend>(context: &Context<'_, B>) {
    for (shape, blocks) in CASES {
        for scheme in schemes(context, blocks).into_iter().filter(|s| param_of(s) != QuantParam::UE4M3) {
            for dtype in context.floats(&["quantize", "dequantize"]) {
                let x = floats(dtype, shape, (-3.0, 3.0), 1);
                let mut grid = vec![1];
                if let Some(blocks) = blocks {
                    let lead = shape.len() - blocks.len();
                    grid = shape.to_vec();
                    grid[lead..].iter_mut().zip(blocks).for_each(|(size, &b)| *size /= b as usize);
                }
                let largest = scheme.value.range().1 as f64;
                let mut k = 0;
                let exponent = (2.0 / largest).log2().floor() as i32;
                let grid = Array::from_fn(grid, |_| {
                    k += 1;
                    2f64.powi(exponent + k % 3)
                });
                let scales = Array::from_fn(shape, |index| match blocks {
                    None => grid.data()[0],
                    Some(_) => grid.at(&block_of(index, blocks)),
                });
                over_layouts::<B, Float>(context, dtype, &x, |t, x| {
                    let scales_tensor: FloatTensor<B> = upload::<B, Float>(context, &grid, DType::F32);
                    let q = B::quantize(t, &scheme, release::parameters::<B>(scales_tensor));
                    expect_metadata::<B>(&q, &scheme, x.shape())?;
                    check_nearest(&scheme, dtype, x, &numbers::<B>(q, dtype)?, &scales, |_| 0.0)
                        .map_err(|e| format!("{scheme:?}: {e}"))
                });
            }
        }
    }
}

/// A tensor made from the bytes of another equals it.
fn data<B: Backend>(context: &Context<'_, B>) {
    for (shape, blocks) in CASES {
        for scheme in schemes(context, blocks) {
            context.attempt(
                || format!("{scheme:?} {shape:?}"),
                || {
                    let x =
                        upload::<B, Float>(context, &floats(DType::F32, shape, (-3.0, 2.0), 1), DType::F32);
                    let q = B::quantize_dynamic(x, &scheme);
                    let before = numbers::<B>(q.clone(), DType::F32)?;
                    let bytes = block_on(B::q_into_data(q)).map_err(|e| format!("{e:?}"))?;
                    let (dtype, sizes) = (dtype_of(&bytes), shape_of(&bytes));
                    if sizes.to_vec() != shape || dtype != DType::QFloat(scheme) {
                        return Err(format!("bytes of {dtype:?} {sizes:?}"));
                    }
                    let q = B::q_from_data(bytes, &context.device);
                    expect_metadata::<B>(&q, &scheme, shape)?;
                    crate::compare::compare_exact(&numbers::<B>(q, DType::F32)?, &before)
                },
            );
        }
    }
}

fn device<B: Backend>(context: &Context<'_, B>) {
    for scheme in schemes(context, None) {
        context.attempt(
            || format!("{scheme:?}"),
            || {
                let x = floats(DType::F32, &[3, 16], (-3.0, 2.0), 1);
                let x = <Float as Kind<B>>::from_data(
                    <Float as Kind<B>>::encode(&x, DType::F32),
                    &context.device,
                );
                let q = B::quantize_dynamic(x, &scheme);
                let before = numbers::<B>(q.clone(), DType::F32)?;
                if B::q_device(&q) != context.device {
                    return Err("the tensor is on another device".into());
                }
                let q = B::q_detach(B::q_to_device(q, &context.device));
                // Backends without automatic differentiation return false; backends with it return the value
                // that was set.
                let wants = B::q_is_require_grad(&B::q_set_require_grad(q.clone(), true));
                if B::q_is_require_grad(&q) || (wants && !B::ad_enabled(&context.device)) {
                    return Err("a gradient is required of what requires none".into());
                }
                crate::compare::compare_exact(&numbers::<B>(q, DType::F32)?, &before)
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_between_codes_are_refused() {
        let scheme = QuantScheme::default().with_value(QuantValue::Q4S);
        let scales = Array::new([1], vec![0.5]);
        let check = |x: f64, got: f64| {
            let (x, got) = (Array::new([1], vec![x]), Array::new([1], vec![got]));
            check_nearest(&scheme, DType::F32, &x, &got, &scales, |_| 0.0)
        };
        assert!(check(1.2, 1.0).is_ok());
        assert!(check(1.2, 1.2).is_err(), "no code");
        assert!(check(1.2, 1.5).is_err(), "not the nearest");
        assert!(check(9.0, 3.5).is_ok(), "held to the range");
        assert!(check(9.0, 4.0).is_err(), "out of range");
        assert!(check(1.0, f64::NAN).is_err());
    }

    #[test]
    fn tiny_floats_are_finer_near_zero() {
        assert_eq!([0.1, 1.0, 3.0, 6.0].map(|x| spacing(QuantValue::E2M1, x)), [0.5, 0.5, 1.0, 2.0]);
        assert_eq!(spacing(QuantValue::E4M3, 448.0), 32.0);
    }
}
