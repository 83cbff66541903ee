//! Schemes of quantized tensors.

use arbitrary::{Result, Unstructured};
use flex_core::quant::{BlockSize, QuantLevel, QuantMode, QuantParam, QuantScheme, QuantStore, QuantValue};

/// Any scheme, supported or not.
pub fn scheme(u: &mut Unstructured<'_>) -> Result<QuantScheme> {
    use QuantValue::*;
    let values = [Q8F, E5M2, E4M3, Q4F, E2M1, Q2F, Q8S, Q4S, Q2S];
    let params = [QuantParam::F32, QuantParam::F16, QuantParam::BF16, QuantParam::UE8M0, QuantParam::UE4M3];
    let param = if u.ratio(7, 8)? { 0..=2 } else { 3..=4 };
    let sizes: [u8; BlockSize::MAX_DIMS] = u.arbitrary()?;
    let rank = u.int_in_range(0..=BlockSize::MAX_DIMS)?;
    let sizes = sizes.map(|size| if size < 240 { size % 5 } else { size });
    let axis = if u.ratio(7, 8)? { 0 } else { u.arbitrary()? };
    Ok(QuantScheme {
        value: values[u.int_in_range(0..=8)?],
        param: params[u.int_in_range(param)?],
        store: [QuantStore::Native, QuantStore::PackedU32(axis), QuantStore::PackedNative(axis)]
            [u.int_in_range(0..=2)?],
        level: match u.arbitrary()? {
            true => QuantLevel::Tensor,
            false => QuantLevel::Block(BlockSize::new(&sizes[..rank])),
        },
        tensor_scale: u.ratio(1, 4)?,
        mode: QuantMode::Symmetric,
    })
}
