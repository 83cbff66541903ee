//! Quantization schemes: the engine has all fields of Burn's, but for tables of values. Burn names a mode for
//! them, and no call passes a table.

use super::Flex;
use burn_backend_22::quantization as burn;
use flex_core::quant::{
    BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue, is_supported,
};
use flex_core::{DType, Error, Result, Tensor};

/// Burn's scheme as the engine's.
///
/// # Errors
/// A scheme whose codes are places in a table, or whose blocks are relative to a scale that is not `f32`;
/// the error names `op`.
pub fn to_engine(op: &'static str, scheme: &burn::QuantScheme) -> Result<QuantScheme> {
    let refuse = |expected| Err(Error::argument(op, "scheme", alloc::format!("{scheme:?}"), expected));
    if burn::global_scale_dtype(scheme).is_some_and(|dtype| dtype != burn::ScaleDtype::F32) {
        return refuse("a scale of the tensor of dtype F32");
    }
    let mode = match scheme.mode {
        burn::QuantMode::Symmetric => QuantMode::Symmetric,
        burn::QuantMode::Lookup => return refuse("a symmetric mode"),
    };
    // Burn reads a scheme that names no scale as one with a scale of the tensor, yet the two are not equal.
    let tensor_scale = scheme.tensor_scale().is_some_and(|dtype| scheme.per_tensor(dtype) == *scheme);
    Ok(QuantScheme {
        value: match scheme.value {
            burn::QuantValue::Q8F => QuantValue::Q8F,
            burn::QuantValue::E5M2 => QuantValue::E5M2,
            burn::QuantValue::E4M3 => QuantValue::E4M3,
            burn::QuantValue::Q4F => QuantValue::Q4F,
            burn::QuantValue::E2M1 => QuantValue::E2M1,
            burn::QuantValue::Q2F => QuantValue::Q2F,
            burn::QuantValue::Q8S => QuantValue::Q8S,
            burn::QuantValue::Q4S => QuantValue::Q4S,
            burn::QuantValue::Q2S => QuantValue::Q2S,
        },
        param: match scheme.scale_dtype() {
            burn::ScaleDtype::F32 => QuantParam::F32,
            burn::ScaleDtype::F16 => QuantParam::F16,
            burn::ScaleDtype::BF16 => QuantParam::BF16,
            burn::ScaleDtype::UE8M0 => QuantParam::UE8M0,
            burn::ScaleDtype::UE4M3 => QuantParam::UE4M3,
        },
        store: match scheme.store {
            burn::QuantStore::Native => QuantStore::Native,
            burn::QuantStore::PackedNative(axis) => QuantStore::PackedNative(axis),
            burn::QuantStore::PackedU32(axis) => QuantStore::PackedU32(axis),
        },
        level: match scheme.block_size() {
            None => QuantLevel::Tensor,
            Some(sizes) => QuantLevel::Block(BlockSize::new(sizes.as_slice())),
        },
        tensor_scale,
        mode,
    })
}

/// The scheme of a tensor that is asked for in this scheme: with one byte for each code, as upstream's
/// backend has it. Burn counts the bytes of packed codes row by row, and reads them as one row, so packed
/// tensors whose rows are no multiple of a word could not be saved. A scheme that the engine does not support
/// stays as it is, and the engine refuses it.
pub fn stored(scheme: QuantScheme) -> QuantScheme {
    if is_supported(&scheme) { QuantScheme { store: QuantStore::Native, ..scheme } } else { scheme }
}

/// How Burn's bytes store scales: in their own precision.
pub fn stored_scales(scheme: &QuantScheme) -> QuantParam {
    scheme.param
}

/// The scales of given parameters, and the scale of the tensor in a scheme of two levels.
///
/// # Errors
/// A scale of the tensor that is not one number.
pub fn parameters(given: burn::QuantizationParametersPrimitive<Flex>) -> Result<(Tensor, Option<f32>)> {
    let global = match given.global {
        Some(global) if global.0.num_elements() == 1 => {
            Some(flex_core::elementwise::cast(global.0, DType::F32)?.to_vec::<f32>()[0])
        }
        Some(global) => return Err(Error::shape("quantize", global.0.shape(), "one scale of the tensor")),
        None => None,
    };
    Ok((given.scales.0, global))
}

/// The engine's scheme as Burn's.
pub fn to_burn(scheme: &QuantScheme) -> burn::QuantScheme {
    let dtype = match scheme.param {
        QuantParam::F32 => burn::ScaleDtype::F32,
        QuantParam::F16 => burn::ScaleDtype::F16,
        QuantParam::BF16 => burn::ScaleDtype::BF16,
        QuantParam::UE8M0 => burn::ScaleDtype::UE8M0,
        QuantParam::UE4M3 => burn::ScaleDtype::UE4M3,
    };
    let QuantMode::Symmetric = scheme.mode;
    let same = burn::QuantScheme::default()
        .with_mode(burn::QuantMode::Symmetric)
        .with_value(match scheme.value {
            QuantValue::Q8F => burn::QuantValue::Q8F,
            QuantValue::E5M2 => burn::QuantValue::E5M2,
            QuantValue::E4M3 => burn::QuantValue::E4M3,
            QuantValue::Q4F => burn::QuantValue::Q4F,
            QuantValue::E2M1 => burn::QuantValue::E2M1,
            QuantValue::Q2F => burn::QuantValue::Q2F,
            QuantValue::Q8S => burn::QuantValue::Q8S,
            QuantValue::Q4S => burn::QuantValue::Q4S,
            QuantValue::Q2S => burn::QuantValue::Q2S,
        })
        .with_store(match scheme.store {
            QuantStore::Native => burn::QuantStore::Native,
            QuantStore::PackedNative(axis) => burn::QuantStore::PackedNative(axis),
            QuantStore::PackedU32(axis) => burn::QuantStore::PackedU32(axis),
        });
    match (&scheme.level, scheme.tensor_scale) {
        (QuantLevel::Tensor, false) => same,
        (QuantLevel::Tensor, true) => same.per_tensor(dtype),
        (QuantLevel::Block(sizes), false) => same.per_block(sizes.as_slice(), dtype),
        (QuantLevel::Block(sizes), true) => {
            same.per_block(sizes.as_slice(), dtype).per_tensor(burn::ScaleDtype::F32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{QuantStore as S, QuantValue as V, ScaleDtype as D};

    #[test]
    fn schemes_go_there_and_back() {
        for value in [V::Q8F, V::E5M2, V::E4M3, V::Q4F, V::E2M1, V::Q2F, V::Q8S, V::Q4S, V::Q2S] {
            for dtype in [D::F32, D::F16, D::BF16, D::UE8M0, D::UE4M3] {
                for store in [S::Native, S::PackedNative(1), S::PackedU32(0)] {
                    let scheme = burn::QuantScheme::default().with_value(value).with_store(store);
                    for block in [None, Some(&[8][..]), Some(&[1, 2, 3, 4, 5])] {
                        let schemes = match block {
                            None => [scheme, scheme.per_tensor(dtype)],
                            Some(block) => {
                                let one = scheme.per_block(block, dtype);
                                [one, one.per_tensor(D::F32)]
                            }
                        };
                        for scheme in schemes {
                            let own = to_engine("a test", &scheme).unwrap();
                            assert_eq!(to_burn(&own), scheme);
                            assert_eq!(own.value.range(), value.range());
                            assert_eq!(own.value.size_bits(), value.size_bits());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tables_and_narrow_scales_of_the_tensor_are_refused() {
        for scheme in [
            burn::QuantScheme::default().per_block([8], D::F16).per_tensor(D::F16),
            burn::QuantScheme::default().with_mode(burn::QuantMode::Lookup),
        ] {
            let error = to_engine("quantize", &scheme).unwrap_err().to_string();
            assert!(error.starts_with("quantize: "), "{error}");
        }
    }

    #[test]
    fn scales_are_rounded_as_burn_rounds_them() {
        use flex_core::quant::{self, QuantParam as P};
        for (own, burn) in [(P::F16, D::F16), (P::BF16, D::BF16), (P::UE8M0, D::UE8M0), (P::UE4M3, D::UE4M3)]
        {
            assert_eq!(own.largest(), burn.max_representable());
            // Every exponent, with mantissas around the steps of each precision.
            for exponent in 1..255u32 {
                for mantissa in
                    (0..1 << 23).step_by(40_961).chain([0, 1, 0x1FFF, 0x2000, 0x2001, (1 << 23) - 1])
                {
                    let scale = f32::from_bits(exponent << 23 | mantissa);
                    let expected = burn::scale_to_dtype(scale, burn);
                    assert_eq!(own.round_up(scale), expected, "{scale:e} {own:?}");
                }
            }
        }
        assert_eq!(quant::QuantParam::F32.round_up(0.1), 0.1);
    }
}
