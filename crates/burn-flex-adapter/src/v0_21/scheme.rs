//! Quantization schemes: the engine has all fields of Burn's.

use super::Flex;
use super::backend::{FlexFloat, FlexInt};
use burn_backend_21::quantization as burn;
use flex_core::quant::{BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue};
use flex_core::{Error, Result, Tensor};

/// Burn's scheme as the engine's.
///
/// # Errors
/// Scales of 8 bits, which this release of Burn cannot store in bytes; the error names `op`.
pub fn to_engine(op: &'static str, scheme: &burn::QuantScheme) -> Result<QuantScheme> {
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
        param: match scheme.param {
            burn::QuantParam::F32 => QuantParam::F32,
            burn::QuantParam::F16 => QuantParam::F16,
            burn::QuantParam::BF16 => QuantParam::BF16,
            burn::QuantParam::UE8M0 | burn::QuantParam::UE4M3 => {
                let got = alloc::format!("{:?}", scheme.param);
                let expected = "F32, F16 or BF16";
                return Err(Error::argument(op, "parameter precision of the scheme", got, expected));
            }
        },
        store: match scheme.store {
            burn::QuantStore::Native => QuantStore::Native,
            burn::QuantStore::PackedNative(axis) => QuantStore::PackedNative(axis),
            burn::QuantStore::PackedU32(axis) => QuantStore::PackedU32(axis),
        },
        level: match &scheme.level {
            burn::QuantLevel::Tensor => QuantLevel::Tensor,
            burn::QuantLevel::Block(sizes) => QuantLevel::Block(BlockSize::new(sizes.as_slice())),
        },
        tensor_scale: false,
        mode: match scheme.mode {
            burn::QuantMode::Symmetric => QuantMode::Symmetric,
        },
    })
}

/// The scheme of a tensor that is asked for in this scheme: the same.
pub fn stored(scheme: QuantScheme) -> QuantScheme {
    scheme
}

/// How Burn's bytes store scales: as `f32`, whatever their precision.
pub fn stored_scales(_: &QuantScheme) -> QuantParam {
    QuantParam::F32
}

/// The scales of given parameters.
///
/// # Errors
/// None: this release has one level of scales.
pub fn parameters<F: FlexFloat, I: FlexInt>(
    given: burn::QuantizationParametersPrimitive<Flex<F, I>>,
) -> Result<(Tensor, Option<f32>)> {
    Ok((given.scales.0, None))
}

/// The engine's scheme as Burn's.
pub fn to_burn(scheme: &QuantScheme) -> burn::QuantScheme {
    burn::QuantScheme {
        value: match scheme.value {
            QuantValue::Q8F => burn::QuantValue::Q8F,
            QuantValue::E5M2 => burn::QuantValue::E5M2,
            QuantValue::E4M3 => burn::QuantValue::E4M3,
            QuantValue::Q4F => burn::QuantValue::Q4F,
            QuantValue::E2M1 => burn::QuantValue::E2M1,
            QuantValue::Q2F => burn::QuantValue::Q2F,
            QuantValue::Q8S => burn::QuantValue::Q8S,
            QuantValue::Q4S => burn::QuantValue::Q4S,
            QuantValue::Q2S => burn::QuantValue::Q2S,
        },
        param: match scheme.param {
            QuantParam::F32 => burn::QuantParam::F32,
            QuantParam::F16 => burn::QuantParam::F16,
            QuantParam::BF16 => burn::QuantParam::BF16,
            QuantParam::UE8M0 => burn::QuantParam::UE8M0,
            QuantParam::UE4M3 => burn::QuantParam::UE4M3,
        },
        store: match scheme.store {
            QuantStore::Native => burn::QuantStore::Native,
            QuantStore::PackedNative(axis) => burn::QuantStore::PackedNative(axis),
            QuantStore::PackedU32(axis) => burn::QuantStore::PackedU32(axis),
        },
        level: match &scheme.level {
            QuantLevel::Tensor => burn::QuantLevel::Tensor,
            QuantLevel::Block(sizes) => burn::QuantLevel::Block(burn::BlockSize::new(sizes.as_slice())),
        },
        mode: match scheme.mode {
            QuantMode::Symmetric => burn::QuantMode::Symmetric,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{QuantLevel as L, QuantParam as P, QuantStore as S, QuantValue as V};

    #[test]
    fn schemes_go_there_and_back_and_read_the_same() {
        for value in [V::Q8F, V::E5M2, V::E4M3, V::Q4F, V::E2M1, V::Q2F, V::Q8S, V::Q4S, V::Q2S] {
            for param in [P::F32, P::F16, P::BF16] {
                for store in [S::Native, S::PackedNative(1), S::PackedU32(0)] {
                    for level in [L::Tensor, L::block([8]), L::block([1, 2, 3, 4, 5])] {
                        let scheme = burn::QuantScheme::default()
                            .with_value(value)
                            .with_param(param)
                            .with_store(store)
                            .with_level(level);
                        let own = to_engine("a test", &scheme).unwrap();
                        assert_eq!(to_burn(&own), scheme);
                        // Errors print schemes.
                        assert_eq!(alloc::format!("{own:?}"), alloc::format!("{scheme:?}"));
                        assert_eq!(own.value.range(), value.range());
                        assert_eq!(own.value.size_bits(), value.size_bits());
                    }
                }
            }
        }
        for param in [P::UE8M0, P::UE4M3] {
            let refused = to_engine("a test", &burn::QuantScheme::default().with_param(param)).unwrap_err();
            assert!(alloc::format!("{refused}").starts_with("a test: parameter precision"), "{refused}");
        }
    }
}
