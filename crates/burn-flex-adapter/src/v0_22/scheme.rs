//! Quantization schemes. The engine has one level of scales. Burn 0.22 has up to two: scales of blocks that
//! are relative to a scale of the tensor. The engine refuses such schemes.

use burn_backend_22::quantization as burn;
use flex_core::quant::{BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue};
use flex_core::{Error, Result};

/// Burn's scheme as the engine's.
///
/// # Errors
/// A scheme of two levels of scales, or one whose codes are places in a table; the error names `op`.
pub fn to_engine(op: &'static str, scheme: &burn::QuantScheme) -> Result<QuantScheme> {
    if burn::global_scale_dtype(scheme).is_some() {
        let got = alloc::format!("{scheme:?}");
        return Err(Error::argument(op, "scheme", got, "scales of one level"));
    }
    let mode = match scheme.mode {
        burn::QuantMode::Symmetric => QuantMode::Symmetric,
        burn::QuantMode::Lookup => {
            let got = alloc::format!("{scheme:?}");
            return Err(Error::argument(op, "scheme", got, "a symmetric mode"));
        }
    };
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
        mode,
    })
}

/// Whether the engine's bytes of such a tensor are Burn's.
///
/// # Errors
/// Scales that are not `f32`: Burn stores them in their own dtype, the engine as `f32`.
pub fn check_bytes(op: &'static str, scheme: &QuantScheme) -> Result<()> {
    match scheme.param {
        QuantParam::F32 => Ok(()),
        _ => Err(Error::argument(op, "scheme", alloc::format!("{scheme:?}"), "scales of f32")),
    }
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
    match (&scheme.level, dtype) {
        // What Burn takes a scheme for that names no scale.
        (QuantLevel::Tensor, burn::ScaleDtype::F32) => same,
        (QuantLevel::Tensor, dtype) => same.per_tensor(dtype),
        (QuantLevel::Block(sizes), dtype) => same.per_block(sizes.as_slice(), dtype),
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
                        let scheme = match (block, dtype) {
                            (None, D::F32) => scheme,
                            (None, dtype) => scheme.per_tensor(dtype),
                            (Some(block), dtype) => scheme.per_block(block, dtype),
                        };
                        let own = to_engine("a test", &scheme).unwrap();
                        assert_eq!(to_burn(&own), scheme);
                        assert_eq!(own.value.range(), value.range());
                        assert_eq!(own.value.size_bits(), value.size_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn two_levels_of_scales_are_refused() {
        let scheme = burn::QuantScheme::default().per_block([8], D::F16).per_tensor(D::F32);
        let error = to_engine("quantize", &scheme).unwrap_err().to_string();
        assert!(error.starts_with("quantize: "), "{error}");
    }
}
