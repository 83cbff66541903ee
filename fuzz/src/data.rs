//! Plain and quantized tensors made of bytes.

use crate::limit::forget_freed_memory;
use crate::numbers::{DTYPES, Few, Size, read};
use crate::quantized::scheme;
use arbitrary::{Arbitrary, Result, Unstructured};
use flex_core::quant::{self, QTensor};
use flex_core::{Bytes, DType, Slice, Tensor};

/// Makes a tensor of bytes, shape and dtype or scheme. It has to be made if and only if they fit together,
/// and to give the same bytes back.
pub fn data(bytes: &[u8]) {
    forget_freed_memory();
    // An input that is too short to decode is no case.
    let _ = run(&mut Unstructured::new(bytes));
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let shape = shape(u)?;
    if bool::arbitrary(u)? { plain(u, &shape) } else { quantized(u, &shape) }
}

/// A shape of small axes, or of any.
pub fn shape(u: &mut Unstructured<'_>) -> Result<Vec<usize>> {
    let rank = u.int_in_range(0..=6)?;
    let small = u.ratio(3, 4)?;
    (0..rank).map(|_| Ok(if small { Few::arbitrary(u)?.0 } else { Size::arbitrary(u)?.0 })).collect()
}

/// The number of elements, or `None` if the engine has to refuse the shape: when the sizes other than zero,
/// of 8 bytes each, do not fit the address space.
pub fn count(shape: &[usize]) -> Option<usize> {
    let product = shape.iter().try_fold(1u128, |product, &size| product.checked_mul(size.max(1) as u128))?;
    (product <= isize::MAX as u128 / 8).then(|| if shape.contains(&0) { 0 } else { product as usize })
}

/// Bytes: as many as are needed, or any number.
pub fn contents(u: &mut Unstructured<'_>, needed: Option<usize>) -> Result<Vec<u8>> {
    match needed {
        Some(needed) if needed < 1 << 16 && u.ratio(7, 8)? => {
            let seed: Vec<u8> = <[u8; 7]>::arbitrary(u)?.into();
            Ok((0..needed).map(|k| seed[k % 7].wrapping_add((k / 7) as u8)).collect())
        }
        _ => u.arbitrary(),
    }
}

/// Bytes of the fuzzer from any address on.
struct Lent {
    bytes: Vec<u8>,
    start: usize,
    writable: bool,
}

impl flex_core::storage::Adopted for Lent {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn is_writable(&self) -> bool {
        self.writable
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "written, although it may only be read");
        &mut self.bytes[self.start..]
    }
}

fn plain(u: &mut Unstructured<'_>, shape: &[usize]) -> Result<()> {
    let dtype = DTYPES[u.int_in_range(0..=13)?];
    let bytes = contents(u, count(shape).and_then(|count| count.checked_mul(dtype.size())))?;
    let (start, writable) = (u.int_in_range(0..=8)?, bool::arbitrary(u)?);
    let lent = Lent { bytes: [vec![0xAA; start], bytes.clone()].concat(), start, writable };
    let fits = count(shape).is_some_and(|count| count as u128 * dtype.size() as u128 == bytes.len() as u128);
    match Tensor::from_bytes(Bytes::adopt(lent), shape, dtype) {
        Ok(tensor) => {
            assert!(fits, "{} bytes made a tensor of shape {shape:?}", bytes.len());
            // An operation that may write in place, then the bytes of the original.
            let changed = match dtype {
                DType::Bool(_) => flex_core::elementwise::logical_not(tensor.clone()),
                _ => flex_core::elementwise::unary(flex_core::elementwise::Unary::Neg, tensor.clone()),
            };
            changed.iter().for_each(read);
            let odd = |b: &u8| if dtype.is_bool() { u8::from(*b != 0) } else { *b };
            let want: Vec<u8> = bytes.iter().map(odd).collect();
            assert_eq!(*tensor.into_bytes().expect("no copy"), *want, "other bytes came back");
        }
        Err(error) => assert!(!fits, "{error}"),
    }
    Ok(())
}

/// Whether blocks divide a shape: their sizes are those of the last axes, and leading sizes of 1 say nothing.
fn divides(level: &quant::QuantLevel, shape: &[usize]) -> bool {
    let quant::QuantLevel::Block(sizes) = level else { return true };
    let sizes = sizes.as_slice();
    let first = sizes.iter().position(|&size| size != 1).unwrap_or(0);
    let sizes = &sizes[first..];
    let mut axes = sizes.iter().rev().zip(shape.iter().rev());
    sizes.len() <= shape.len() && axes.all(|(&size, &axis)| size > 0 && axis.is_multiple_of(size.into()))
}

fn quantized(u: &mut Unstructured<'_>, shape: &[usize]) -> Result<()> {
    let scheme = scheme(u)?;
    let count = count(shape);
    // As many bytes as a scheme of one scale for 1, 2, 4 or all elements needs.
    let packed = match (scheme.store, scheme.value.size_bits()) {
        (quant::QuantStore::PackedU32(_), bits @ 2..=4) => {
            count.map(|n| n.div_ceil(32 / bits).saturating_mul(4))
        }
        _ => count,
    };
    let scales = match &scheme.level {
        quant::QuantLevel::Tensor => Some(1),
        quant::QuantLevel::Block(sizes) => {
            count.and_then(|n| n.checked_div(sizes.as_slice().iter().map(|&s| usize::from(s)).product()))
        }
    };
    // Burn 0.21 stores scales as f32, later releases in their own precision.
    let stored = if u.arbitrary()? { quant::QuantParam::F32 } else { scheme.param };
    let global = if scheme.tensor_scale && scheme.level != quant::QuantLevel::Tensor { 4 } else { 0 };
    let whole_words = packed.map_or(0, |n| n.wrapping_neg() % 4);
    let padding = if u.ratio(1, 8)? { whole_words } else { 0 };
    let with = |padding: usize| {
        packed.zip(scales).map(|(codes, scales)| {
            codes
                .saturating_add(padding)
                .saturating_add(scales.saturating_mul(stored.size()))
                .saturating_add(global)
        })
    };
    let bytes = contents(u, with(padding))?;
    let enough = [with(0), with(whole_words)].contains(&Some(bytes.len()));
    let fits = quant::is_supported(&scheme) && divides(&scheme.level, shape) && enough;
    let tensor = match QTensor::from_bytes(&bytes, shape, scheme, stored) {
        Ok(tensor) => tensor,
        Err(error) => {
            assert!(!fits, "{error}");
            return Ok(());
        }
    };
    assert!(fits, "{} bytes made a tensor of shape {shape:?} and {scheme:?}", bytes.len());
    assert_eq!(tensor.shape().as_slice(), shape);
    let back = tensor.to_bytes(stored).expect("a tensor made of bytes");
    // Bytes that came back are a fixed point: padding is lost once.
    let again = QTensor::from_bytes(&back, shape, scheme, stored).expect("bytes that the engine made");
    assert_eq!(*again.to_bytes(stored).expect("likewise"), *back);
    // A NaN of 16 bits comes back as another NaN.
    let same = matches!(stored.size(), 1 | 4) && !matches!(scheme.store, quant::QuantStore::PackedU32(_));
    // Bytes of any number may happen to be as many as padded ones.
    let lost = bytes.len().checked_sub(back.len()).expect("no more bytes than came");
    assert!(lost < 4, "{lost} bytes were lost");
    if lost == 0 && same {
        assert_eq!(*back, *bytes, "other bytes came back");
    }
    for dtype in [DType::F32, DType::F16, DType::F64] {
        quant::dequantize(tensor.clone(), dtype).iter().for_each(read);
    }
    let axis = u.int_in_range(0..=shape.len())?;
    let slice = Slice { start: u.arbitrary()?, end: u.arbitrary()?, step: u.int_in_range(-2..=2)? };
    let views = [
        tensor.clone().swap_axes(0, axis),
        tensor.clone().flip(&[axis]),
        tensor.clone().slice(&[slice]),
        tensor.clone().reshape([tensor.values.num_elements()]),
        quant::cat(vec![tensor.clone(), tensor.clone()], axis),
    ];
    for view in views.into_iter().flatten() {
        let numbers = quant::dequantize(view.clone(), DType::F32);
        numbers.iter().for_each(read);
        if let Ok(numbers) = numbers {
            assert_eq!(numbers.shape(), view.shape());
            let codes = quant::quantize_dynamic(numbers, scheme);
            codes.iter().for_each(|codes| read(&codes.values));
        }
        let _ = view.to_bytes(stored);
    }
    Ok(())
}
